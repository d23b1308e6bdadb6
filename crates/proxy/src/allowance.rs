//! How many of something there may be over all workers.
//!
//! Beside the session cache and the plan this is what workers share: a limit that each kept its
//! share of would be reached too early wherever the kernel spreads connections unevenly. One
//! addition a connection, on a line that the workers pass to each other.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use telemetry::outcome::Reason;

use crate::descriptors::Descriptors;

/// How many there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowance(Arc<AtomicU32>);

impl Allowance {
    /// Takes one, unless there are as many as may be.
    pub(crate) fn take(&self, most: u32) -> bool {
        if self.0.fetch_add(1, Ordering::Relaxed) < most {
            return true;
        }
        self.give();
        false
    }

    /// Gives one back.
    pub(crate) fn give(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The allowances of the whole process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowances {
    pub(crate) connections: Allowance,
    pub(crate) handshakes: Allowance,
    descriptors: Descriptors,
}

impl Allowances {
    /// Whether a connection may keep the descriptor that it got.
    pub(crate) fn descriptor(&self, fd: &OwnedFd) -> Result<(), Reason> {
        match self.descriptors.suffice_for_connection(fd) {
            true => Ok(()),
            false => Err(Reason::DescriptorLimit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_may_be() {
        let allowance = Allowance::default();
        let taken: Vec<bool> = (0..4).map(|_| allowance.take(2)).collect();
        assert_eq!(taken, [true, true, false, false]);
        allowance.give();
        assert!(allowance.take(2));
        assert!(!allowance.take(2));
    }
}
