//! The input of importers: files by a trait, the place of each word in them, and the options of a
//! block by their names in the table.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum size of a file; nobody writes a longer one.
pub const FILE_BYTES_MAX: usize = 8 << 20;

/// Maximum number of services, frontends or servers of one kind.
pub(crate) const BLOCKS_MAX: usize = 4096;

/// Maximum bytes of all files of an import together; a file counts each time it is read.
pub(crate) const READ_BYTES_MAX: usize = 4 * FILE_BYTES_MAX;

/// Maximum number of files of an import; a host with a file for each site has fewer.
pub(crate) const FILES_MAX: usize = BLOCKS_MAX;

/// Maximum number of options of all services together, defaults counted for each service: as many
/// as 4096 services of 256 options have. It bounds the time of an import.
pub(crate) const OPTIONS_MAX: usize = 1 << 20;

/// Maximum number of findings kept: about 100 MB of them.
pub(crate) const FINDINGS_MAX: usize = 1 << 19;

/// Reads for the importers, which open no file themselves.
pub trait SourceFiles {
    /// Returns the whole of a file, which has at most `FILE_BYTES_MAX` bytes. Fails with words that
    /// continue "cannot read FILE: ".
    fn read(&mut self, path: &Path) -> Result<String, String>;

    /// Returns the paths of the files in a directory, sorted. Fails with the reason in words.
    fn list(&mut self, directory: &Path) -> Result<Vec<PathBuf>, String>;

    /// Reports whether a file or directory exists.
    fn exists(&mut self, path: &Path) -> bool;

    /// Returns a variable of the environment.
    fn variable(&mut self, name: &str) -> Option<String>;
}

/// Line of a file, or the command line (without a number).
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SourceLine {
    file: Arc<str>,
    /// Number from 1; 0 for the file as a whole.
    line: usize,
}

impl SourceLine {
    /// Returns the first line of a file; `next` and `at` make the others.
    pub fn first_of(path: &Path) -> Self {
        Self { file: path.display().to_string().into(), line: 1 }
    }

    /// Returns a place outside of files, such as the command line.
    pub fn outside(name: &str) -> Self {
        Self { file: name.into(), line: 0 }
    }

    /// Returns another line of the same file.
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

/// Option as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) place: SourceLine,
    /// Option's name as it was written.
    pub(crate) option: String,
    /// Option's words, without quotes.
    pub(crate) words: Vec<String>,
}

/// A statement is a list of itself, so that functions take one statement or all of an option.
impl IntoIterator for &Statement {
    type Item = Self;
    type IntoIter = std::iter::Once<Self>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self)
    }
}

/// Options as they were written: one, an optional one, or all of a name.
pub(crate) trait Written<'s>: IntoIterator<Item = &'s Statement> {}

impl<'s, T: IntoIterator<Item = &'s Statement>> Written<'s> for T {}

impl Statement {
    /// Returns the same option with other words.
    pub(crate) fn with<W: Into<String>>(&self, words: impl IntoIterator<Item = W>) -> Self {
        let words = words.into_iter().map(Into::into).collect();
        Self { place: self.place.clone(), option: self.option.clone(), words }
    }

    /// Makes a statement for something that is not an option, such as a section.
    pub(crate) fn new(place: &SourceLine, option: &str, words: Vec<String>) -> Self {
        Self { place: place.clone(), option: option.to_owned(), words }
    }

    /// Returns the option's words as one text.
    pub(crate) fn value(&self) -> String {
        self.words.join(" ")
    }
}

/// Name for options that the table does not have: each may refuse clients or servers.
pub(crate) const UNKNOWN: &str = "(unknown)";

/// Options as they were written, each with its name in the table of meanings. Blocks share them,
/// because each of many services may inherit a long list of defaults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statements {
    all: Vec<(&'static str, Rc<Statement>)>,
    /// Indices in `all`.
    by_name: HashMap<&'static str, Vec<usize>>,
}

impl Statements {
    pub(crate) fn push(&mut self, name: &'static str, written: Statement) {
        self.share(name, Rc::new(written));
    }

    fn share(&mut self, name: &'static str, written: Rc<Statement>) {
        self.by_name.entry(name).or_default().push(self.all.len());
        self.all.push((name, written));
    }

    /// Returns these options and those of another block, which take precedence.
    pub(crate) fn and(&self, inner: &Self) -> Self {
        Self::of(self.shared().chain(inner.shared()))
    }

    /// Collects options of other blocks.
    pub(crate) fn of<'s>(all: impl Iterator<Item = (&'static str, &'s Rc<Statement>)>) -> Self {
        let mut these = Self::default();
        all.for_each(|(name, written)| these.share(name, Rc::clone(written)));
        these
    }

    /// Drops options that a later one of the same name and word repeats, if it `is_single`.
    pub(crate) fn without_repeated(&self, is_single: impl Fn(&str) -> bool) -> Self {
        let mut later = HashSet::new();
        let backwards = self.all.iter().rev();
        let kept = backwards.filter(|(name, written)| {
            later.insert((*name, written.option.as_str())) || !is_single(name)
        });
        let kept: Vec<_> = kept.map(|(name, written)| (*name, written)).collect();
        Self::of(kept.into_iter().rev())
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn shared(&self) -> impl Iterator<Item = (&'static str, &Rc<Statement>)> {
        self.all.iter().map(|(name, written)| (*name, written))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &Statement)> {
        self.all.iter().map(|(name, written)| (*name, &**written))
    }

    /// Returns the last occurrence of an option.
    pub(crate) fn find(&self, option: &str) -> Option<&Statement> {
        let place = self.by_name.get(option)?.last()?;
        self.all.get(*place).map(|(_, written)| &**written)
    }

    /// Returns every occurrence of an option.
    pub(crate) fn all(&self, option: &str) -> impl Iterator<Item = &Statement> {
        let places = self.by_name.get(option).into_iter().flatten();
        places.filter_map(|place| self.all.get(*place)).map(|(_, written)| &**written)
    }

    /// Returns the last occurrence of each of these options, if present.
    pub(crate) fn each(&self, options: &[&str]) -> impl Iterator<Item = &Statement> {
        options.iter().filter_map(|option| self.find(option))
    }

    /// Returns the value of an option's last occurrence.
    pub(crate) fn value(&self, option: &str) -> Option<String> {
        self.find(option).map(Statement::value)
    }

    pub(crate) fn is_on(&self, option: &str) -> bool {
        self.value(option).is_some_and(|value| switch(&value) == Some(true))
    }
}

/// Reports whether a switch is on. `None` if the text is not a switch's value.
pub(crate) fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "yes" | "y" | "true" | "t" | "1" | "enable" | "enabled" => Some(true),
        "off" | "no" | "n" | "false" | "f" | "0" | "disable" | "disabled" => Some(false),
        _ => None,
    }
}
