//! The options of one block, by the names that the table has.

use crate::convert::switch;
use crate::source::Statement;

/// Stands for the name of an option that the table does not have: it may refuse somebody.
pub(crate) const UNKNOWN: &str = "(unknown)";

/// Options as they were written, each with its name in the table of meanings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statements(Vec<(&'static str, Statement)>);

impl Statements {
    pub(crate) fn push(&mut self, name: &'static str, written: Statement) {
        self.0.push((name, written));
    }

    /// These, and those of another block, which count more.
    pub(crate) fn and(&self, inner: &Self) -> Self {
        Self(self.0.iter().chain(&inner.0).cloned().collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &Statement)> {
        self.0.iter().map(|(name, written)| (*name, written))
    }

    /// The last of an option.
    pub(crate) fn find(&self, option: &str) -> Option<&Statement> {
        self.all(option).last()
    }

    /// Each of an option.
    pub(crate) fn all(&self, option: &str) -> impl Iterator<Item = &Statement> {
        self.iter().filter(move |(name, _)| *name == option).map(|(_, written)| written)
    }

    /// The value of an option's last.
    pub(crate) fn value(&self, option: &str) -> Option<String> {
        self.find(option).map(Statement::value)
    }

    pub(crate) fn is_on(&self, option: &str) -> bool {
        self.value(option).is_some_and(|value| switch(&value) == Some(true))
    }
}
