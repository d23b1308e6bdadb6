//! How many descriptors are left to this process.
//!
//! The kernel gives the lowest number that is free, so a high one says that few are left: who got
//! one of the last lets it go again. So refusing a connection never waits for a descriptor, and
//! files leave some for connections.

use std::os::fd::{AsFd, AsRawFd};

/// Descriptors that no connection takes: for each worker to accept one more and refuse it, and for
/// operators.
const KEPT_FOR_REFUSALS: u64 = 16;

/// Descriptors that no file takes: a client that cannot be sent one gets an answer, over a
/// connection.
const KEPT_FOR_CONNECTIONS: u64 = 2 * KEPT_FOR_REFUSALS;

/// How many the process may have open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors(u64);

impl Default for Descriptors {
    /// The limit as it is now.
    fn default() -> Self {
        Self(sys::limit::open_files())
    }
}

impl Descriptors {
    /// Whether one just opened may be kept for a connection.
    pub(crate) fn suffice_for_connection(self, fd: &impl AsFd) -> bool {
        self.suffice(number(fd), KEPT_FOR_REFUSALS)
    }

    /// Whether one just opened may be kept for a file.
    pub(crate) fn suffice_for_file(self, fd: &impl AsFd) -> bool {
        self.suffice(number(fd), KEPT_FOR_CONNECTIONS)
    }

    /// Whether one just opened may be kept for what a connection can do without: a pipe, since
    /// bytes go through buffers as well, or a further dial that races with the first. Half of all
    /// descriptors are not for these.
    pub(crate) fn suffice_for_extra(self, fd: &impl AsFd) -> bool {
        number(fd) < self.0 / 2
    }

    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(0)
    }

    fn suffice(self, number: u64, kept: u64) -> bool {
        number < self.0 - kept.min(self.0 / 2)
    }
}

fn number(fd: &impl AsFd) -> u64 {
    fd.as_fd().as_raw_fd().unsigned_abs().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept() {
        let first_refused = |count| {
            let descriptors = Descriptors(count);
            let refused = |kept| (0..count).find(|&number| !descriptors.suffice(number, kept));
            (refused(KEPT_FOR_REFUSALS), refused(KEPT_FOR_CONNECTIONS))
        };
        assert_eq!(first_refused(256), (Some(240), Some(224)));
        assert_eq!(first_refused(40), (Some(24), Some(20)));
        let unlimited = Descriptors(u64::MAX);
        assert!(unlimited.suffice_for_file(&std::io::stdin()));
        assert!(unlimited.suffice_for_connection(&std::io::stdin()));
        assert!(unlimited.suffice_for_extra(&std::io::stdin()));
        assert!(Descriptors(6).suffice_for_extra(&std::io::stderr()));
        assert!(!Descriptors(5).suffice_for_extra(&std::io::stderr()));
    }
}
