//! The noun that all rules share: what is broken, and where.

/// One broken rule: where, and what the rule says.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Violation {
    pub(super) place: String,
    pub(super) rule: String,
}

impl Violation {
    pub(super) fn new(place: impl Into<String>, rule: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            rule: rule.into(),
        }
    }

    /// In a line, from 1.
    pub(super) fn at(path: &str, line: usize, rule: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), rule)
    }
}
