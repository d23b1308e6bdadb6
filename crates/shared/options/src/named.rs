//! Keys that are read by their names, for tables of rows without a struct.
//!
//! A name that the table does not have is as one that nobody wrote.

use std::time::Duration;

use crate::diagnostic::Problem;
use crate::key::Key;
use crate::node::Value;
use crate::row;
use crate::section::Section;

impl Section<'_> {
    /// Whether somebody wrote that key.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some_and(|place| place.is_written())
    }

    /// Reports an error about a key of this table, where the key was written.
    pub fn error(&self, name: &str, problem: Problem) {
        if let Some(place) = self.find(name) {
            place.error(problem);
        }
    }

    /// Reports an error about a key of this table, with its remedy.
    pub fn refuse(&self, name: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.error(name, Problem::new(message).hint(hint));
    }

    /// The same if it is so.
    pub fn refuse_if(
        &self,
        is_so: bool,
        name: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if is_so {
            self.refuse(name, message, hint);
        }
    }

    /// One text, read by a function whose problems get the key's example where they have no hint.
    pub fn read_as<T>(&self, name: &str, read: impl Fn(&str) -> Result<T, Problem>) -> Option<T> {
        self.one(name, |value, key| read_text(value, key, &read))
    }

    /// A list of such texts.
    pub fn read_all_as<T>(
        &self,
        name: &str,
        read: impl Fn(&str) -> Result<T, Problem>,
    ) -> Option<Vec<T>> {
        self.find(name)?.list(|value, key| read_text(value, key, &read))
    }

    /// A key that may be left out: what `read` makes of it, if it was written.
    #[allow(clippy::option_option, reason = "left out and reported are two things")]
    pub fn if_written<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Self, &str) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.has(name) { read(self, name).map(Some) } else { Some(None) }
    }

    /// Free text that may be left out.
    #[allow(clippy::option_option, reason = "left out and reported are two things")]
    pub fn text_if_written(&self, name: &str) -> Option<Option<String>> {
        self.if_written(name, |section, name| {
            section.one(name, |value, _| Ok(row::as_text(value)?.to_owned()))
        })
    }

    pub fn boolean(&self, name: &str) -> Option<bool> {
        self.one(name, row::read_boolean)
    }

    /// A number within the key's range.
    pub fn count<T: TryFrom<u64>>(&self, name: &str) -> Option<T> {
        self.one(name, row::read_count)
    }

    /// A duration within the key's range.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        self.one(name, row::read_duration)
    }

    /// A number of bytes within the key's range.
    pub fn size(&self, name: &str) -> Option<usize> {
        self.one(name, row::read_size)
    }

    /// One of the key's words, as what it means.
    pub fn choice<T: Clone>(&self, name: &str, meanings: &[(&str, T)]) -> Option<T> {
        self.one(name, |value, key| row::chosen(value, key, meanings).cloned())
    }

    /// A list of the key's words, as what they mean.
    pub fn choices<T: Clone>(&self, name: &str, meanings: &[(&str, T)]) -> Option<Vec<T>> {
        self.find(name)?.list(|value, key| row::chosen(value, key, meanings).cloned())
    }

    fn one<T>(&self, name: &str, read: impl Fn(&Value, &Key) -> Result<T, Problem>) -> Option<T> {
        self.find(name)?.one(read)
    }
}

fn read_text<T>(
    value: &Value,
    key: &Key,
    read: impl Fn(&str) -> Result<T, Problem>,
) -> Result<T, Problem> {
    read(row::as_text(value)?).map_err(|problem| match problem.hint {
        None => problem.hint(key.for_example()),
        Some(_) => problem,
    })
}
