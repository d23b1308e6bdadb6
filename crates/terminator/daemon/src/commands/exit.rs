//! The exit codes, which scripts may rely on. `docs/reference/exit-codes.md` tells them.

use std::process::ExitCode;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// It did what it was asked.
    Success = 0,
    /// Something failed at run time.
    Failed = 1,
    /// The arguments or the configuration are wrong.
    Usage = 2,
    /// An address cannot be listened at.
    Listen = 3,
    /// Nobody listens at the status socket.
    NotRunning = 4,
    /// The running lariat refused: it goes on with what it had.
    Refused = 5,
    /// It did what it was asked, and has warnings to look at.
    Warned = 6,
}

impl Exit {
    /// All of them, for help and reference.
    pub(crate) const ALL: [Self; 7] = [
        Self::Success,
        Self::Failed,
        Self::Usage,
        Self::Listen,
        Self::NotRunning,
        Self::Refused,
        Self::Warned,
    ];

    pub(crate) fn help(self) -> &'static str {
        match self {
            Self::Success => "It did what it was asked.",
            Self::Failed => "Something failed at run time.",
            Self::Usage => "The arguments or the configuration are wrong; nothing was started.",
            Self::Listen => "An address cannot be listened at: taken, not ours, or not allowed.",
            Self::NotRunning => "No lariat runs: nobody listens at the status socket.",
            Self::Refused => {
                "The running lariat refused: a new configuration, or an upgrade; or it drains."
            }
            Self::Warned => {
                "It did what it was asked, with warnings (`lariat reload --strict`, `lariat import`)."
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
        let page = include_str!("../../../../../docs/reference/exit-codes.md");
        for exit in Exit::ALL {
            let row = format!("| {} | {} |", exit as u8, exit.help());
            assert!(page.contains(&row), "{row}");
        }
    }
}
