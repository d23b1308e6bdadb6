//! The input of importers: files by a trait, and the place of each word in them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest file that is read; none of a person is longer.
pub const FILE_BYTES_MAX: usize = 8 << 20;

/// The most services, frontends or servers of one kind that are imported.
pub(crate) const BLOCKS_MAX: usize = 4096;

/// The bytes of all files of an import together, those that it reads again too.
pub(crate) const READ_BYTES_MAX: usize = 4 * FILE_BYTES_MAX;

/// The most files of an import; a host with a file for each of its sites has fewer.
pub(crate) const FILES_MAX: usize = BLOCKS_MAX;

/// The most options of all services together, those of defaults counted for each service; as many
/// as 4096 services of 256 options have. They bound the time that an import takes.
pub(crate) const OPTIONS_MAX: usize = 1 << 20;

/// The most findings that are kept: about 100 MB of them.
pub(crate) const FINDINGS_MAX: usize = 1 << 19;

/// Reads for the importers, which open no file themselves.
pub trait SourceFiles {
    /// The whole of a file, which has at most `FILE_BYTES_MAX` bytes; or why it cannot be read, in
    /// words that continue "cannot read FILE: ".
    fn read(&mut self, path: &Path) -> Result<String, String>;

    /// The paths of the files in a directory, sorted; or why they cannot be listed.
    fn list(&mut self, directory: &Path) -> Result<Vec<PathBuf>, String>;

    /// Whether there is a file or a directory.
    fn exists(&mut self, path: &Path) -> bool;

    /// A variable of the environment.
    fn variable(&mut self, name: &str) -> Option<String>;
}

/// A line of a file, or the command line (without a number).
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SourceLine {
    file: Arc<str>,
    /// From 1; 0 = the file as a whole.
    line: usize,
}

impl SourceLine {
    /// The first line of a file; `next` and `at` make the others.
    pub fn first_of(path: &Path) -> Self {
        Self { file: path.display().to_string().into(), line: 1 }
    }

    /// A place that no file has, such as the command line.
    pub fn outside(name: &str) -> Self {
        Self { file: name.into(), line: 0 }
    }

    /// Another line of the same file.
    pub fn at(&self, line: usize) -> Self {
        Self { file: Arc::clone(&self.file), line }
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// An option as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) place: SourceLine,
    /// The option's name as it was written.
    pub(crate) option: String,
    /// The option's words, without quotes.
    pub(crate) words: Vec<String>,
}

impl Statement {
    /// The option's words as one text.
    pub(crate) fn value(&self) -> String {
        self.words.join(" ")
    }
}
