//! Why a cell was not read.

use std::fmt::Display;

use load::run::Stopper;

/// Why a cell was not read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Missed {
    /// The server did not start, or ended; or nothing succeeded. In words, with its own.
    Failed(String),
    /// It was measured, but not what the cell says. In words: what was asked, what came.
    Void(String),
    /// Whoever runs us wants to end.
    Interrupted,
}

impl Missed {
    /// Of a fault that has words of its own.
    pub(crate) fn failed(fault: impl Display) -> Self {
        Self::Failed(fault.to_string())
    }
}

/// What may end a reading early, from any thread.
pub(crate) trait Halt: Sync {
    /// Whether it is to end.
    fn is_asked(&self) -> bool;

    /// The load that is to be stopped when it is asked; at once if it has been asked already.
    fn watch(&self, stopper: Stopper);
}
