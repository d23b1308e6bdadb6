//! Findings: the outcome of each option, for the report.

use std::fmt;

use crate::source::SourceLine;

/// Outcome of one option, with its place.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ImportFinding {
    pub place: SourceLine,
    /// Option, with its words where they help to find it; or the subject of a fault.
    pub option: String,
    pub outcome: ImportOutcome,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum ImportOutcome {
    /// This key means the same; or Lariat always does it, as the words say.
    Mapped(String),
    /// A key covers the option, and something differs.
    Differs { key: String, difference: String },
    /// The new configuration does not cover the option.
    Unmapped { why: String, remedy: String },
    /// A service would serve or trust others than before: it is a comment in the file.
    LeftOut { why: String, remedy: String },
    /// A file named in the imported one is not on this host.
    Missing(String),
    /// The program itself would refuse the option, or it cannot be read: no file is written.
    Fault { why: String, remedy: String },
}

impl ImportFinding {
    /// Returns the option's place and its name without words.
    pub(crate) fn named(&self) -> (SourceLine, String) {
        let name = self.option.split(' ').next().unwrap_or_default();
        (self.place.clone(), name.to_owned())
    }
}

impl ImportOutcome {
    /// The words of the report for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Mapped(_) => "mapped",
            Self::Differs { .. } => "mapped with a difference",
            Self::Unmapped { .. } => "not mapped",
            Self::LeftOut { .. } => "left out",
            Self::Missing(_) => "not found",
            Self::Fault { .. } => "error",
        }
    }
}

impl fmt::Display for ImportFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, option, outcome } = self;
        write!(f, "{place}: {option}: {}: ", outcome.word())?;
        match outcome {
            ImportOutcome::Mapped(words) | ImportOutcome::Missing(words) => f.write_str(words),
            ImportOutcome::Differs { key, difference } if key.is_empty() => f.write_str(difference),
            ImportOutcome::Differs { key, difference } => write!(f, "{key}: {difference}"),
            ImportOutcome::Unmapped { why, remedy }
            | ImportOutcome::LeftOut { why, remedy }
            | ImportOutcome::Fault { why, remedy } => {
                f.write_str(why)?;
                if remedy.is_empty() { Ok(()) } else { write!(f, "\n    instead: {remedy}") }
            }
        }
    }
}
