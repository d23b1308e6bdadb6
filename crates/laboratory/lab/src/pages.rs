//! Where pages, figures and data go: checks of what was typed, and files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use measure::quantity::Bytes;

use crate::console::Console;
use crate::records::shown;
use crate::usage::UsageError;

/// Refuses what cannot be meant as the name of a page.
pub(crate) fn check_page(page: Option<&Path>, records: &[PathBuf]) -> Result<(), UsageError> {
    let Some(page) = page else {
        return Ok(());
    };
    let ending = page.extension().unwrap_or_default().to_ascii_lowercase();
    if ending != "html" && ending != "htm" {
        return Err(UsageError::new(
            format!("`{}` is no name of a page", shown(page)),
            "-o takes a path that ends in .html; figures and data have flags of their own",
        ));
    }
    if records.iter().any(|record| is_same_file(record, page)) {
        return Err(UsageError::new(
            format!("`{}` is one of the records", shown(page)),
            "give the page another name: a record is not overwritten",
        ));
    }
    Ok(())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// A file or directory that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`: {fault}\nhint: is there room, and may you write there?", shown(.path))]
pub(crate) struct WriteFault {
    path: PathBuf,
    fault: io::Error,
}

/// Names without their ending, and texts.
pub(crate) type Texts = Vec<(String, String)>;

/// Writes files into a directory, which is made if it is not there.
pub(crate) fn write_files(
    directory: &Path,
    ending: &str,
    texts: &Texts,
    console: Console,
) -> Result<(), WriteFault> {
    fs::create_dir_all(directory).map_err(|fault| WriteFault {
        path: directory.to_owned(),
        fault,
    })?;
    for (name, text) in texts {
        write(&directory.join(format!("{name}.{ending}")), text)?;
    }
    console.say(format_args!(
        "wrote {} files to {}",
        texts.len(),
        shown(directory)
    ));
    Ok(())
}

pub(crate) fn write_page(page: &Path, html: &str, console: Console) -> Result<(), WriteFault> {
    write(page, html)?;
    let size = Bytes(html.len() as u64);
    console.say(format_args!("wrote {}, {size}", shown(page)));
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), WriteFault> {
    fs::write(path, text).map_err(|fault| WriteFault {
        path: path.to_owned(),
        fault,
    })
}
