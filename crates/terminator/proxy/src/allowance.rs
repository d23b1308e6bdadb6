//! How many of something there may be over all workers.
//!
//! Beside the session cache and the plan this is what workers share: a limit that each kept its
//! share of would be reached too early wherever the kernel spreads connections unevenly. One
//! addition a connection, on a line that the workers pass to each other.
//!
//! Owns also whose place a newcomer takes where the limit is reached: that of a connection on the
//! worker which has the most that have relayed nothing. If that is another worker, the newcomer is
//! let in at once, and the other, which owes a place now, gives it up in its next turn.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sys::wake::Waker;

use crate::descriptors::Descriptors;
use crate::sources::SourceTable;

/// A newcomer takes another's place only while one in [`DISPLACEABLE_PART`] of the limit's places
/// is held by a connection that has relayed nothing. With fewer, those are clients that are about
/// to be served while the limit is held by others that work: they would only displace each other.
const DISPLACEABLE_PART: u64 = 8;

/// Whether a newcomer may take one of the displaceable places, with this number of places in all.
pub(crate) fn is_worth_displacing(displaceable: u64, all: u64) -> bool {
    displaceable > 0 && displaceable * DISPLACEABLE_PART >= all
}

#[derive(Clone, Debug)]
pub(crate) struct Allowance(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    taken: AtomicU32,
    workers: Box<[PerWorker]>,
}

/// Alone on its cache line: its worker writes it with every connection.
#[derive(Debug, Default)]
#[repr(align(64))]
struct PerWorker {
    /// Places of connections that have relayed nothing.
    displaceable: AtomicU32,
    /// Places that others have taken of these, and that are still to be given up.
    owed: AtomicU32,
}

impl PerWorker {
    fn free(&self) -> u32 {
        let owed = self.owed.load(Ordering::Relaxed);
        self.displaceable
            .load(Ordering::Relaxed)
            .saturating_sub(owed)
    }
}

impl Allowance {
    pub(crate) fn new(workers: usize) -> Self {
        Self(Arc::new(Shared {
            taken: AtomicU32::new(0),
            workers: (0..workers).map(|_| PerWorker::default()).collect(),
        }))
    }

    /// Takes one, unless there are as many as may be.
    pub(crate) fn take(&self, most: u32) -> bool {
        if self.0.taken.fetch_add(1, Ordering::Relaxed) < most {
            return true;
        }
        self.give();
        false
    }

    /// Whether at least half of them are left.
    pub(crate) fn is_ample(&self, most: u32) -> bool {
        self.0.taken.load(Ordering::Relaxed) <= most / 2
    }

    pub(crate) fn give(&self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Says how many of a worker's places are of connections that have relayed nothing.
    pub(crate) fn publish(&self, worker: usize, displaceable: u32) {
        let of_worker = &self.0.workers[worker];
        of_worker
            .displaceable
            .store(displaceable, Ordering::Relaxed);
    }

    /// The worker that gives up a place for a newcomer on `worker`: that one itself unless another
    /// has over twice as many. `None` = nobody does.
    pub(crate) fn giver(&self, worker: usize, most: u32) -> Option<usize> {
        let free = || self.0.workers.iter().map(PerWorker::free);
        let all: u64 = free().map(u64::from).sum();
        if !is_worth_displacing(all, most.into()) {
            return None;
        }
        let own = self.0.workers[worker].free();
        let (richest, count) = free().enumerate().max_by_key(|(_, count)| *count)?;
        Some(if own >= count.div_ceil(2) {
            worker
        } else {
            richest
        })
    }

    /// Takes one in the place of another that is given up: the limit may have been exceeded for a
    /// moment by one that is owed, and is not exceeded by more.
    pub(crate) fn take_over(&self) {
        self.0.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes a worker owe one.
    pub(crate) fn claim(&self, worker: usize) {
        self.0.workers[worker].owed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one less that a worker owes; whether it owed any.
    pub(crate) fn settle(&self, worker: usize) -> bool {
        let owed = &self.0.workers[worker].owed;
        let less = |owed: u32| owed.checked_sub(1);
        owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }
}

/// The allowances of the whole process.
#[derive(Clone, Debug)]
pub(crate) struct Allowances {
    pub(crate) connections: Allowance,
    pub(crate) handshakes: Allowance,
    /// To make a worker look whether it owes a place.
    pub(crate) wakers: Arc<[Arc<Waker>]>,
    pub(crate) sources: Arc<SourceTable>,
    descriptors: Descriptors,
}

impl Allowances {
    pub(crate) fn new(wakers: Arc<[Arc<Waker>]>) -> Self {
        Self {
            connections: Allowance::new(wakers.len()),
            handshakes: Allowance::new(wakers.len()),
            wakers,
            sources: Arc::default(),
            descriptors: Descriptors::default(),
        }
    }

    /// Whether a connection may keep the descriptor that it got.
    pub(crate) fn has_descriptor(&self, fd: &OwnedFd) -> bool {
        self.descriptors.suffice_for_connection(fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_may_be() {
        let allowance = Allowance::new(1);
        let taken: Vec<bool> = (0..4).map(|_| allowance.take(2)).collect();
        assert_eq!(taken, [true, true, false, false]);
        allowance.give();
        assert!(allowance.take(2));
        assert!(!allowance.take(2));
    }

    #[test]
    fn the_worker_with_the_most_gives_and_each_place_once() {
        let allowance = Allowance::new(3);
        assert_eq!(allowance.giver(0, 3), None);
        allowance.publish(1, 2);
        assert_eq!(allowance.giver(0, 16), Some(1));
        assert_eq!(allowance.giver(0, 17), None, "too few of so many");
        allowance.claim(1);
        assert_eq!(allowance.giver(0, 3), Some(1));
        allowance.claim(1);
        assert_eq!(allowance.giver(0, 3), None, "it owes all that it has");
        allowance.publish(1, 0);
        let settled: Vec<bool> = (0..3).map(|_| allowance.settle(1)).collect();
        assert_eq!(settled, [true, true, false]);
        allowance.publish(0, 5);
        allowance.publish(2, 9);
        assert_eq!(allowance.giver(0, 3), Some(0), "its own, if they are many");
        assert_eq!(allowance.giver(1, 3), Some(2));
    }
}
