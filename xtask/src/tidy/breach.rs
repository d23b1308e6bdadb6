//! The noun that all laws share: what is broken, and where.

/// One broken law: where, and what the law says.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Breach {
    pub(super) place: String,
    pub(super) law: String,
}

impl Breach {
    /// In a file, or anywhere else.
    pub(super) fn new(place: impl Into<String>, law: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            law: law.into(),
        }
    }

    /// In a line, from 1.
    pub(super) fn at(path: &str, line: usize, law: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), law)
    }
}
