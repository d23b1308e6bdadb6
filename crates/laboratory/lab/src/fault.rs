//! Defines faults with their remedies, suggestions for mistyped names, and the exit codes, which
//! scripts may rely on (`docs/reference/lab-exit-codes.md` describes them).

use std::process::ExitCode;
use std::{fmt, io};

use options::nearest;

/// The reason why a command failed, the remedy, and the exit code.
#[derive(Clone, Debug)]
pub(crate) struct LabFault {
    pub(crate) message: String,
    pub(crate) hint: String,
    pub(crate) exit: Exit,
}

/// Result of a command.
pub(crate) type LabResult<T> = Result<T, LabFault>;

impl LabFault {
    /// Makes a usage error: one sentence without a full stop, and the remedy.
    pub(crate) fn new(message: impl fmt::Display, hint: impl fmt::Display) -> Self {
        Self { message: message.to_string(), hint: hint.to_string(), exit: Exit::Usage }
    }

    /// Makes a fault at run time.
    pub(crate) fn failed(message: impl fmt::Display, hint: impl fmt::Display) -> Self {
        Self::new(message, hint).with(Exit::Failed)
    }

    /// Makes a fault that has already been reported.
    pub(crate) fn reported(exit: Exit) -> Self {
        Self { message: String::new(), hint: String::new(), exit }
    }

    pub(crate) fn with(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }
}

/// Errors of the kernel that a command cannot do without.
impl From<io::Error> for LabFault {
    fn from(error: io::Error) -> Self {
        let hint = "look at the limits of this process (`ulimit -a`)";
        Self::failed(format_args!("the kernel refused: {error}"), hint)
    }
}

/// The message and the remedy; empty if already reported.
impl fmt::Display for LabFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.as_str() {
            "" => Ok(()),
            message => write!(f, "{message}\nhint: {}", self.hint),
        }
    }
}

/// Former names of flags and keys of scenarios and targets, with the present ones.
const RENAMED: [(&str, &str); 9] = [
    ("peers", "targets"),
    ("peer-folder", "target-folder"),
    ("cannot", "unsupported"),
    ("given-too", "any-build"),
    ("figures", "metrics"),
    ("left-out", "omitted"),
    ("level", "value"),
    ("loss", "error-rate"),
    ("value", "number"),
];

/// Suggests the new name of a renamed one, or the nearest known name, as a remedy.
pub(crate) fn did_you_mean<'n>(
    typed: &str,
    known: impl IntoIterator<Item = &'n str> + Clone,
    prefix: &str,
) -> Option<String> {
    let renamed = RENAMED.iter().find(|(old, _)| *old == typed);
    let renamed = renamed.filter(|(_, new)| known.clone().into_iter().any(|name| name == *new));
    match (renamed, nearest(typed, known)) {
        (Some((_, new)), _) => Some(format!("it is `{prefix}{new}` now")),
        (None, near) => near.map(|near| format!("did you mean `{prefix}{near}`?")),
    }
}

/// Makes the fault of a name that is not among the known ones.
pub(crate) fn unknown<'n>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'n str> + Clone,
) -> LabFault {
    let all = || known.clone().into_iter().collect::<Vec<_>>().join(", ");
    LabFault::new(
        format!("there is no {what} `{}`", name.escape_debug()),
        did_you_mean(name, known.clone(), "").unwrap_or_else(|| format!("there are {}", all())),
    )
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    Success = 0,
    Failed = 1,
    Usage = 2,
    Address = 3,
    Fruitless = 4,
    NoCapacity = 5,
    Partial = 6,
    Unmet = 7,
    Judged = 8,
}

impl Exit {
    pub(crate) const ALL: [(Self, &str); 9] = [
        (Self::Success, "It did what it was asked."),
        (Self::Failed, "Something failed at run time."),
        (
            Self::Usage,
            "The arguments, the plan, or a file named there are wrong; nothing was started.",
        ),
        (Self::Address, "An address cannot be resolved, or cannot be listened at."),
        (
            Self::Fruitless,
            "The load ran, and not one transaction succeeded; or no address could be probed.",
        ),
        (Self::NoCapacity, "No rate that was tried kept the limit of the search."),
        (
            Self::Partial,
            "Some records, targets, configurations or addresses could not be read, measured or \
             probed; what could be is there.",
        ),
        (
            Self::Unmet,
            "It ran, and an expectation of `--expect` did not hold; or no number of hosts meets the \
             demands of a plan.",
        ),
        (Self::Judged, "The probe ran, and found a point that `--fail-on` names."),
    ];
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_every_code() {
        let page = include_str!("../../../../docs/reference/lab-exit-codes.md");
        for (exit, help) in Exit::ALL {
            let row = format!("| {} | {} |", exit as u8, help);
            assert!(page.contains(&row), "{row}");
        }
    }
}
