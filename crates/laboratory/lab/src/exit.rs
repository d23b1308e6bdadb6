//! The exit codes, which scripts may rely on; `docs/reference/lab-exit-codes.md` describes them.

use std::process::ExitCode;

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
