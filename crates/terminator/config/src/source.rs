//! Where a configuration comes from.

use std::io;
use std::path::{Path, PathBuf};

use options::{Diagnostic, Place, Severity};
use serde::{Deserialize, Serialize};

use crate::files::Files;

/// A configuration as it was typed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Source {
    /// A TOML file. Relative paths in it begin at its directory.
    File {
        /// The path as it was given.
        place: String,
        text: String,
    },
    /// Flags of `lariat serve`, which describe one service: name without dashes, and value.
    /// Relative paths begin at the working directory.
    Flags(Vec<(String, String)>),
}

/// What stands for the standard input where a path is expected.
pub const STANDARD_INPUT: &str = "-";

impl Source {
    /// Reads a file. From the standard input, relative paths begin at the working directory.
    pub fn read(path: &Path, files: &mut dyn Files) -> Result<Self, Vec<Diagnostic>> {
        let place = path.display().to_string();
        let failed = |message: String, hint: &str| {
            vec![Diagnostic {
                severity: Severity::Error,
                subject: None,
                message,
                place: Place::Nowhere,
                excerpt: None,
                hint: Some(hint.to_owned()),
            }]
        };
        let (place, read) = if path == Path::new(STANDARD_INPUT) {
            ("<stdin>".to_owned(), files.read_standard_input())
        } else {
            (place, files.read(path))
        };
        let bytes = read.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::FileTooLarge => "a configuration is a TOML file of at most 64 MiB",
                io::ErrorKind::PermissionDenied => "lariat's user must be able to read it",
                _ => "name the configuration file by its path",
            };
            failed(format!("cannot read {place}: {error}"), hint)
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let before = error.as_bytes().get(..at).unwrap_or_default();
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            failed(
                format!("{place}:{line}: is no UTF-8 text"),
                "a configuration is a TOML file",
            )
        })?;
        Ok(Self::File { place, text })
    }

    pub(crate) fn base(&self) -> PathBuf {
        match self {
            Self::File { place, .. } => Path::new(place)
                .parent()
                .map(Path::to_path_buf)
                .unwrap_or_default(),
            Self::Flags(_) => PathBuf::new(),
        }
    }
}
