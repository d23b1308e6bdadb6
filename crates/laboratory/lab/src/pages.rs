//! Where pages, figures and data go: checks of what was typed, and files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use measure::quantity::Bytes;

use crate::console::Console;
use crate::exit::Exit;
use crate::records::shown;
use crate::usage::UsageError;

/// Refuses what cannot be meant as the name of a page.
pub(crate) fn check_page(page: Option<&Path>, records: &[PathBuf]) -> Result<(), UsageError> {
    let hint = "-o takes a path that ends in .html; figures and data have flags of their own";
    check_name(page, ("page", &["html", "htm"]), hint, records)
}

/// Refuses what cannot be meant as the name of a card.
pub(crate) fn check_card(card: Option<&Path>, records: &[PathBuf]) -> Result<(), UsageError> {
    let hint = "--card takes a path that ends in .svg";
    check_name(card, ("card", &["svg"]), hint, records)
}

fn check_name(
    page: Option<&Path>,
    (what, endings): (&str, &[&str]),
    hint: &str,
    records: &[PathBuf],
) -> Result<(), UsageError> {
    let Some(page) = page else {
        return Ok(());
    };
    let ending = page.extension().unwrap_or_default().to_ascii_lowercase();
    if !endings.iter().any(|it| ending == *it) {
        let seen = format!("`{}` is no name of a {what}", shown(page));
        return Err(UsageError::new(seen, hint));
    }
    if records.iter().any(|record| is_same_file(record, page)) {
        return Err(UsageError::new(
            format!("`{}` is one of the records", shown(page)),
            format!("give the {what} another name: a record is not overwritten"),
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

/// How the program ends that has written; why it could not is said.
pub(crate) fn ended(written: Result<(), WriteFault>, console: Console) -> Exit {
    match written {
        Ok(()) => Exit::Success,
        Err(fault) => {
            console.error(fault);
            Exit::Failed
        }
    }
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

/// Writes a page or a card.
pub(crate) fn write_page(page: &Path, text: &str, console: Console) -> Result<(), WriteFault> {
    write(page, text)?;
    let size = Bytes(text.len() as u64);
    console.say(format_args!("wrote {}, {size}", shown(page)));
    Ok(())
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), WriteFault> {
    fs::write(path, bytes).map_err(|fault| WriteFault {
        path: path.to_owned(),
        fault,
    })
}
