//! Counts how many file descriptors are left to this process.
//!
//! The kernel gives the lowest free number, so a high one says that few are left: any holder of one
//! of the last closes it again. So refusing a connection never waits for a descriptor, and files
//! leave some for connections. Also holds a worker's pipes: kernel buffers for bytes that go from a
//! server to a client unseen. A connection holds one only while bytes are in it or coming.

use std::os::fd::{AsFd, AsRawFd};

use sys::transfer::Pipe;

/// Descriptors that no connection takes: to accept one more and refuse it, and for operators.
const KEPT_FOR_REFUSALS: u64 = 16;

/// Descriptors that connections may take, but no file: a client whose file cannot be opened gets an
/// answer, over a connection.
const KEPT_FOR_CONNECTIONS: u64 = 16;

/// Multiple of a plan's descriptors kept free for reloads. The next plan's are opened while the
/// plan before has its own, which were the next ones at the reload before and so may be among those
/// kept.
const PLANS_KEPT: u64 = 2;

/// Part of all descriptors that may be kept for workers and reloads: less than a tenth, because an
/// alert fires when more than nine tenths are open.
const KEPT_PART: u64 = 12;

/// Number of descriptors that the process may open, and how many of these connections do not take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors {
    most: u64,
    kept: u64,
    /// First descriptor number that optional uses may not have.
    extra_end: u64,
}

impl Default for Descriptors {
    /// Reads the present limit, without a plan.
    fn default() -> Self {
        Self::besides(0, 0)
    }
}

impl Descriptors {
    /// Reads the present limit, for this number of workers and a plan of `of_plan` descriptors.
    pub(crate) fn besides(workers: usize, of_plan: usize) -> Self {
        Self::of(sys::usage::open_files(), workers as u64, of_plan as u64)
    }

    fn of(most: u64, workers: u64, of_plan: u64) -> Self {
        let wanted = KEPT_FOR_REFUSALS + workers + PLANS_KEPT * of_plan;
        let kept = wanted.min(most / KEPT_PART).max(KEPT_FOR_REFUSALS);
        Self { most, kept, extra_end: most / 2 }
    }

    /// Reports whether a descriptor just opened may be kept for a connection.
    pub(crate) fn suffice_for_connection(self, fd: &impl AsFd) -> bool {
        self.suffice(number(fd), self.kept)
    }

    /// Reports whether a descriptor just opened may be kept for a file.
    pub(crate) fn suffice_for_file(self, fd: &impl AsFd) -> bool {
        self.suffice(number(fd), self.kept + KEPT_FOR_CONNECTIONS)
    }

    /// Reports whether a descriptor just opened may be kept for an optional use: a pipe, because
    /// bytes go through buffers as well, or a further dial that races with the first. Half of all
    /// descriptors are not for these.
    pub(crate) fn suffice_for_extra(self, fd: &impl AsFd) -> bool {
        number(fd) < self.extra_end
    }

    #[cfg(test)]
    pub(crate) fn without_extra() -> Self {
        Self { extra_end: 0, ..Self::default() }
    }

    fn suffice(self, number: u64, kept: u64) -> bool {
        number < self.most - kept.min(self.most / 2)
    }
}

fn number(fd: &impl AsFd) -> u64 {
    fd.as_fd().as_raw_fd().unsigned_abs().into()
}

/// Bytes that a pipe holds: as much as the large buffer (`flow::buffer`), for the same reason.
/// Spliced bytes are encrypted by this CPU at once, and more would not fit its second-level cache.
const PIPE_BYTES: usize = 256 << 10;

/// Pipes that one worker has at once: 128 descriptors. Beyond that, bytes go through buffers, which
/// costs only a copy.
const PIPES_MAX: usize = 64;

/// Smallest useful pipe: a smaller one costs more in calls than it saves in copies. Beyond some
/// number of pipes the kernel gives a user small ones only (`fs.pipe-user-pages-soft`).
const PIPE_BYTES_MIN: usize = 64 << 10;

/// Empty pipes kept for reuse: few, because each takes descriptors.
const PIPES_KEPT_MAX: usize = 8;

#[derive(Debug)]
pub(crate) struct Pipes {
    spare: Vec<Pipe>,
    in_use: usize,
    /// Largest number of pipes: lower after the kernel refused more, until some come back.
    most: usize,
    descriptors: Descriptors,
}

impl Default for Pipes {
    fn default() -> Self {
        Self { spare: Vec::new(), in_use: 0, most: PIPES_MAX, descriptors: Descriptors::default() }
    }
}

impl Pipes {
    /// Returns an empty pipe; `None` = too many are in use, or few descriptors are left.
    pub(crate) fn take(&mut self) -> Option<Pipe> {
        let pipe = match self.spare.pop() {
            Some(pipe) => pipe,
            None if self.in_use < self.most => self.make()?,
            None => return None,
        };
        self.in_use += 1;
        Some(pipe)
    }

    fn make(&mut self) -> Option<Pipe> {
        let made = Pipe::new(PIPE_BYTES).ok().filter(|pipe| {
            pipe.capacity() >= PIPE_BYTES_MIN && self.descriptors.suffice_for_extra(pipe)
        });
        if made.is_none() {
            // A failed attempt costs calls as well.
            self.most = self.in_use.max(1);
        }
        made
    }

    /// Takes a pipe back; closes one that is not empty.
    pub(crate) fn give(&mut self, pipe: Pipe, is_empty: bool) {
        self.in_use -= 1;
        self.most = PIPES_MAX.min(self.most + 1);
        if is_empty && self.spare.len() < PIPES_KEPT_MAX {
            self.spare.push(pipe);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept() {
        let first_refused = |count, workers, of_plan| {
            let all = Descriptors::of(count, workers, of_plan);
            let refused = |kept| (0..count).find(|&number| !all.suffice(number, kept));
            (refused(all.kept), refused(all.kept + KEPT_FOR_CONNECTIONS))
        };
        assert_eq!(first_refused(256, 0, 0), (Some(240), Some(224)));
        assert_eq!(first_refused(40, 0, 0), (Some(24), Some(20)));
        assert_eq!(first_refused(1024, 16, 20), (Some(1024 - 72), Some(1024 - 88)));
        // No more than a part is kept, however large the plan is.
        assert_eq!(first_refused(1200, 16, 2000), (Some(1100), Some(1084)));
        assert_eq!(first_refused(120, 1, 75), (Some(104), Some(88)));
        let of_none = |most| Descriptors::of(most, 0, 0);
        let unlimited = of_none(u64::MAX);
        assert!(unlimited.suffice_for_file(&std::io::stdin()));
        assert!(unlimited.suffice_for_connection(&std::io::stdin()));
        assert!(unlimited.suffice_for_extra(&std::io::stdin()));
        assert!(of_none(6).suffice_for_extra(&std::io::stderr()));
        assert!(!of_none(5).suffice_for_extra(&std::io::stderr()));
    }
}

#[cfg(test)]
mod pipes_tests {
    use super::*;

    #[test]
    fn there_are_no_more_than_may_be_and_some_are_kept() {
        let mut pipes = Pipes::default();
        let taken: Vec<_> = (0..PIPES_MAX).map(|_| pipes.take().unwrap()).collect();
        assert!(pipes.take().is_none());
        for (index, pipe) in taken.into_iter().enumerate() {
            // Bytes left in a pipe belong to one connection only.
            pipes.give(pipe, index % 2 == 0);
        }
        assert_eq!((pipes.in_use, pipes.spare.len()), (0, PIPES_KEPT_MAX));
        assert!(pipes.take().is_some());
        assert_eq!((pipes.in_use, pipes.spare.len()), (1, PIPES_KEPT_MAX - 1));
    }

    #[test]
    fn what_the_system_does_not_give_is_not_asked_for_again_at_once() {
        let mut pipes = Pipes::default();
        let first = pipes.take().unwrap();
        let second = pipes.take().unwrap();
        let enough = std::mem::replace(&mut pipes.descriptors, Descriptors::without_extra());
        assert!(pipes.take().is_none());
        pipes.descriptors = enough;
        assert_eq!(pipes.most, 2);
        assert!(pipes.take().is_none());
        pipes.give(first, false);
        assert_eq!(pipes.most, 3);
        assert!(pipes.take().is_some());
        pipes.give(second, true);
    }
}
