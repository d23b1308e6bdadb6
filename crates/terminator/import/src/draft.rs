//! The configuration as it is being written: keys of ours, each with the line that it comes from.

use std::collections::HashMap;

use toml::Value;

use crate::source::SourceLine;

/// A value, the line that it comes from, and a remark.
#[derive(Clone, Debug)]
pub(crate) struct DraftValue {
    pub(crate) value: Value,
    /// `None` = nobody wrote it: a default of the program before.
    pub(crate) origin: Option<SourceLine>,
}

/// A key with one value, or with a list of values of which each has its line.
#[derive(Clone, Debug)]
pub(crate) struct DraftKey {
    /// The path below the table: `tls.versions`.
    pub(crate) path: String,
    pub(crate) values: Vec<DraftValue>,
    pub(crate) is_list: bool,
    /// A sentence about it, for the reader of the file.
    pub(crate) remark: Option<String>,
}

/// A table of ours: a service, or the whole file but for its services.
#[derive(Clone, Debug, Default)]
pub(crate) struct DraftTable {
    pub(crate) keys: Vec<DraftKey>,
}

impl DraftTable {
    /// Sets a key to one value, in place of what it had.
    pub(crate) fn set(
        &mut self,
        path: &str,
        value: impl Into<Value>,
        origin: impl Into<Option<SourceLine>>,
    ) {
        let value = DraftValue { value: value.into(), origin: origin.into() };
        self.put(path, vec![value], false);
    }

    /// Adds a value to a list.
    pub(crate) fn push(
        &mut self,
        path: &str,
        value: impl Into<Value>,
        origin: impl Into<Option<SourceLine>>,
    ) {
        let value = DraftValue { value: value.into(), origin: origin.into() };
        match self.find_mut(path) {
            Some(key) if key.is_list => key.values.push(value),
            _ => self.put(path, vec![value], true),
        }
    }

    /// Puts a sentence above a key that has been set.
    pub(crate) fn remark(&mut self, path: &str, remark: impl Into<String>) {
        if let Some(key) = self.find_mut(path) {
            key.remark = Some(remark.into());
        }
    }

    /// Sets a default of the program before, where nothing was written and ours differs.
    pub(crate) fn set_default(&mut self, path: &str, value: impl Into<Value>, remark: &str) {
        if !self.has(path) {
            self.set(path, value, None);
            self.remark(path, remark);
        }
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    pub(crate) fn find(&self, path: &str) -> Option<&DraftKey> {
        self.keys.iter().find(|key| key.path == path)
    }

    /// The one value of a key as text.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.find(path)?.values.first()?.value.as_str()
    }

    /// Takes a key out.
    pub(crate) fn take(&mut self, path: &str) -> Option<DraftKey> {
        let place = self.keys.iter().position(|key| key.path == path)?;
        Some(self.keys.remove(place))
    }

    /// How many values it has.
    pub(crate) fn count(&self) -> usize {
        self.keys.iter().map(|key| key.values.len()).sum()
    }

    /// Adds what another table has to the lists of this one, and sets its other keys.
    pub(crate) fn append(&mut self, other: &Self) {
        for key in &other.keys {
            for one in &key.values {
                if key.is_list {
                    self.push(&key.path, one.value.clone(), one.origin.clone());
                } else {
                    self.set(&key.path, one.value.clone(), one.origin.clone());
                }
            }
        }
    }

    fn find_mut(&mut self, path: &str) -> Option<&mut DraftKey> {
        self.keys.iter_mut().find(|key| key.path == path)
    }

    fn put(&mut self, path: &str, values: Vec<DraftValue>, is_list: bool) {
        let key = DraftKey { path: path.to_owned(), values, is_list, remark: None };
        match self.find_mut(path) {
            Some(old) => *old = key,
            None => self.keys.push(key),
        }
    }
}

/// The whole configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) services: Vec<DraftTable>,
    /// Services that would serve, or trust, others than before: comments in the file.
    pub(crate) refused: Vec<DraftTable>,
    /// The keys of all other tables, by their whole paths.
    pub(crate) process: DraftTable,
    /// The number of the last service that was named after others of its name.
    numbers: HashMap<String, usize>,
}

impl Draft {
    /// A name for a service that no other has: of letters that names may have.
    pub(crate) fn free_name(&mut self, wanted: &str) -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name: String = wanted.chars().map(|c| if fits(c) { c } else { '-' }).take(56).collect();
        let name = if name.is_empty() { "service".to_owned() } else { name };
        let taken = |name: &str| self.services.iter().any(|one| one.text("name") == Some(name));
        if !taken(&name) {
            return name;
        }
        // Lower numbers stay taken.
        let first = self.numbers.get(&name).copied().unwrap_or(2);
        let free = (first..).find(|number| !taken(&format!("{name}-{number}"))).unwrap_or(first);
        let numbered = format!("{name}-{free}");
        self.numbers.insert(name, free);
        numbered
    }
}
