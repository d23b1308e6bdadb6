//! All lines of HAProxy's files, by their sections.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::haproxy::syntax::HaproxyVariables;
use crate::meaning::Meaning;
use crate::meanings;
use crate::predecessor::Predecessor;
use crate::source::{SourceLine, Statement};
use crate::statements::Statements;

/// All that was read.
#[derive(Debug, Default)]
pub(super) struct HaproxyReading {
    pub(super) global: Statements,
    pub(super) sections: Vec<HaproxySection>,
    /// The place of the section whose lines are being read.
    pub(super) within: HaproxyPlace,
    pub(super) variables: HaproxyVariables,
    pub(super) is_full: bool,
    /// How many rules on clients there are, each of which may name others.
    pub(super) rules: usize,
}

/// Begins the name of an option that a line turns off.
pub(super) const OFF: &str = "no ";

/// The section whose lines are read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum HaproxyPlace {
    #[default]
    Nothing,
    Global,
    /// The last one of `sections`.
    Proxy,
    /// A section that is no service.
    Other(&'static Meaning),
}

/// A section `defaults`, `frontend`, `backend` or `listen`.
#[derive(Clone, Debug)]
pub(super) struct HaproxySection {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) place: SourceLine,
    /// The place of its defaults among the sections.
    pub(super) defaults: Option<usize>,
    pub(super) options: Statements,
    /// These behind those of its defaults, once somebody asked for them.
    pub(super) whole: OnceCell<Statements>,
}

impl HaproxySection {
    pub(super) fn has_front(&self) -> bool {
        ["frontend", "listen"].contains(&self.kind.as_str())
    }

    pub(super) fn has_back(&self) -> bool {
        ["backend", "listen"].contains(&self.kind.as_str())
    }

    /// Stands for the section in a finding.
    pub(super) fn statement(&self) -> Statement {
        let (place, option) = (self.place.clone(), self.kind.clone());
        Statement { place, option, words: vec![self.name.clone()] }
    }
}

impl HaproxyReading {
    /// The options of a section behind those of its defaults, but for those that are turned off.
    pub(super) fn options<'s>(&self, section: &'s HaproxySection) -> &'s Statements {
        section.whole.get_or_init(|| {
            let blocks = self.blocks(section);
            let all = || blocks.iter().rev().flat_map(|block| block.shared());
            let off = all().map(|(name, written)| (name, written.option.starts_with(OFF)));
            let off: HashMap<_, _> = off.collect();
            Statements::of(all().filter(|(name, written)| {
                off.get(name) == Some(&false) && !written.option.starts_with(OFF)
            }))
        })
    }

    /// The number of those options, and of those that are turned off.
    pub(super) fn count(&self, section: &HaproxySection) -> usize {
        self.blocks(section).iter().map(|block| block.len()).sum()
    }

    /// The options of a section, of its defaults, of theirs, and so on.
    fn blocks<'s>(&'s self, section: &'s HaproxySection) -> Vec<&'s Statements> {
        let mut blocks = vec![&section.options];
        let mut next = section.defaults;
        while let Some(defaults) = next.and_then(|place| self.sections.get(place)) {
            blocks.push(&defaults.options);
            next = defaults.defaults;
        }
        blocks
    }

    pub(super) fn backend(&self, name: &str) -> Option<&HaproxySection> {
        self.sections.iter().find(|one| one.has_back() && one.name == name)
    }

    /// A path below the directory that `ca-base` or `crt-base` names.
    pub(super) fn path(&self, base: &str, path: &str) -> String {
        match self.global.value(base) {
            Some(base) if !path.starts_with(['/', '@']) => {
                format!("{}/{path}", base.trim_end_matches('/'))
            }
            _ => path.to_owned(),
        }
    }
}

/// The meaning of a keyword with its scope.
pub(super) fn find(name: &str) -> Option<&'static Meaning> {
    meanings::find(Predecessor::Haproxy, name)
}
