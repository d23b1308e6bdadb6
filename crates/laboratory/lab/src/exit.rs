//! The exit codes, which scripts may rely on. `docs/reference/lab-exit-codes.md` tells them.

use std::process::ExitCode;

/// How the program ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// It did what it was asked, or was told to stop and did that.
    Success = 0,
    /// Something failed at run time.
    Failed = 1,
    /// The arguments, a plan, or a file that they name are wrong.
    Usage = 2,
    /// An address cannot be resolved or listened at.
    Address = 3,
    /// A load in which nothing succeeded.
    Fruitless = 4,
    /// No rate kept the limit of a search.
    NoCapacity = 5,
    /// Some of several records or cells could not be read, or a run was stopped.
    Partial = 6,
}

impl Exit {
    /// All of them, for help and reference.
    pub(crate) const ALL: [Self; 7] = [
        Self::Success,
        Self::Failed,
        Self::Usage,
        Self::Address,
        Self::Fruitless,
        Self::NoCapacity,
        Self::Partial,
    ];

    /// One sentence.
    pub(crate) fn help(self) -> &'static str {
        match self {
            Self::Success => "It did what it was asked.",
            Self::Failed => "Something failed at run time.",
            Self::Usage => {
                "The arguments, the plan, or a file named there are wrong; nothing was started."
            }
            Self::Address => "An address cannot be resolved, or cannot be listened at.",
            Self::Fruitless => "The load ran, and not one transaction succeeded.",
            Self::NoCapacity => "No rate that was tried kept the limit of the search.",
            Self::Partial => {
                "Some records, targets or cells could not be read; what could be is there."
            }
        }
    }
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
    fn the_reference_tells_every_code() {
        let page = include_str!("../../../../docs/reference/lab-exit-codes.md");
        for exit in Exit::ALL {
            let row = format!("| {} | {} |", exit as u8, exit.help());
            assert!(page.contains(&row), "{row}");
        }
    }
}
