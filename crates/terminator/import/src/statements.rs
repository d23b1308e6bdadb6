//! The options of one block, by the names that the table has.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::convert::switch;
use crate::source::Statement;

/// Stands for the name of an option that the table does not have: it may refuse somebody.
pub(crate) const UNKNOWN: &str = "(unknown)";

/// Options as they were written, each with its name in the table of meanings. Blocks share them,
/// because each of many services may have those of long defaults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statements {
    all: Vec<(&'static str, Rc<Statement>)>,
    /// Places in `all`.
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

    /// These, and those of another block, which count more.
    pub(crate) fn and(&self, inner: &Self) -> Self {
        Self::of(self.shared().chain(inner.shared()))
    }

    /// Options of other blocks.
    pub(crate) fn of<'s>(all: impl Iterator<Item = (&'static str, &'s Rc<Statement>)>) -> Self {
        let mut these = Self::default();
        all.for_each(|(name, written)| these.share(name, Rc::clone(written)));
        these
    }

    /// These without what a later one of the same name and word repeats, if it `is_single`.
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

    /// The last of an option.
    pub(crate) fn find(&self, option: &str) -> Option<&Statement> {
        let place = self.by_name.get(option)?.last()?;
        self.all.get(*place).map(|(_, written)| &**written)
    }

    /// Each of an option.
    pub(crate) fn all(&self, option: &str) -> impl Iterator<Item = &Statement> {
        let places = self.by_name.get(option).into_iter().flatten();
        places.filter_map(|place| self.all.get(*place)).map(|(_, written)| &**written)
    }

    /// The value of an option's last.
    pub(crate) fn value(&self, option: &str) -> Option<String> {
        self.find(option).map(Statement::value)
    }

    pub(crate) fn is_on(&self, option: &str) -> bool {
        self.value(option).is_some_and(|value| switch(&value) == Some(true))
    }
}
