//! Things that the threads of a run share, and those that each of them has of its own.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sys::epoll::Waker;

use crate::arrival::ArrivalSchedule;
use crate::plan::{ArrivalModel, LoadPlan};
use crate::tally::SecondTally;

/// A thread's own things, and those that it shares with the others.
#[derive(Clone, Debug)]
pub(crate) struct ThreadContext {
    pub(crate) index: u16,
    pub(crate) threads: u16,
    /// Wakes this thread when it is to stop.
    pub(crate) waker: Arc<Waker>,
    /// The receiver of the thread's seconds.
    pub(crate) reports: Sender<ThreadReport>,
    pub(crate) common: Arc<ThreadsInCommon>,
}

#[derive(Debug)]
pub(crate) struct ThreadReport {
    pub(crate) thread: u16,
    /// The second's number from the beginning of the figures, and what was counted in it; `None` =
    /// there will be none any more.
    pub(crate) second: Option<(u64, SecondTally)>,
    /// Transactions that were due in other seconds and are only known now: a second's number and
    /// how many.
    pub(crate) late: Vec<(u64, u64)>,
}

/// Figures that a thread lets others see.
#[derive(Debug, Default)]
struct Shown {
    open: AtomicU64,
    received_bytes: AtomicU64,
    succeeded: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct ThreadsInCommon {
    stopped: AtomicBool,
    /// Transactions that may still be begun, if there is a limit.
    left: Option<AtomicU64>,
    /// Wakers of all threads: one that has nothing under way would sleep on.
    wakers: Vec<Arc<Waker>>,
    /// Between warm-up and figures, where the plan has one.
    rest: Rest,
    /// By thread, as of its last look at the clock.
    shown: Vec<Shown>,
}

impl ThreadsInCommon {
    /// With at most `count_max` transactions.
    pub(crate) fn new(count_max: Option<u64>, wakers: Vec<Arc<Waker>>) -> Self {
        Self {
            stopped: AtomicBool::new(false),
            left: count_max.map(AtomicU64::new),
            shown: wakers.iter().map(|_| Shown::default()).collect(),
            wakers,
            rest: Rest::default(),
        }
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.rest.end();
        self.wake_all();
    }

    pub(crate) fn rest(&self) -> &Rest {
        &self.rest
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> u64 {
        self.sum(|shown| &shown.open)
    }

    /// Bytes received so far, and transactions that succeeded.
    pub(crate) fn done(&self) -> (u64, u64) {
        (self.sum(|shown| &shown.received_bytes), self.sum(|shown| &shown.succeeded))
    }

    fn sum(&self, of: fn(&Shown) -> &AtomicU64) -> u64 {
        self.shown.iter().map(|shown| of(shown).load(Relaxed)).sum()
    }

    fn wake_all(&self) {
        for waker in &self.wakers {
            waker.wake();
        }
    }

    /// Whether the run was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }
}

impl ThreadContext {
    /// This thread's planned instants in open load; in a closed one, how many transactions it may
    /// have under way at once.
    pub(crate) fn arrivals(&self, plan: &LoadPlan) -> (Option<ArrivalSchedule>, usize) {
        let ArrivalModel::Closed { connections } = plan.arrival else {
            let (thread, threads) = (self.index, self.threads);
            let (warm_up, duration) = (plan.warm_up, plan.duration);
            let each = plan.requests_per_arrival().unwrap_or(1);
            let part = (thread, threads);
            let schedule =
                ArrivalSchedule::new(&plan.arrival, warm_up, duration, plan.seed, each, part);
            return (Some(schedule), usize::MAX);
        };
        let (index, threads) = (u32::from(self.index), u32::from(self.threads));
        let rest = u32::from(connections % threads > index);
        (None, (connections / threads + rest) as usize)
    }

    /// How many connections of this thread are open now, what has come on all of them, and how many
    /// transactions have succeeded.
    #[inline]
    pub(crate) fn show(&self, open: u64, received_bytes: u64, succeeded: u64) {
        let shown = &self.common.shown[usize::from(self.index)];
        shown.open.store(open, Relaxed);
        shown.received_bytes.store(received_bytes, Relaxed);
        shown.succeeded.store(succeeded, Relaxed);
    }

    /// This thread has failed: the load ends, and nothing more comes from here.
    pub(crate) fn abort(&self) {
        self.common.stop();
        // Nobody listens any more if the run was dropped.
        let _ =
            self.reports.send(ThreadReport { thread: self.index, second: None, late: Vec::new() });
    }

    /// Whether all transactions have been begun.
    pub(crate) fn is_spent(&self) -> bool {
        let left = self.common.left.as_ref();
        left.is_some_and(|left| left.load(Relaxed) == 0)
    }

    /// Takes one of the transactions that may be begun; those of the warm-up are free.
    pub(crate) fn spend(&self, counts: bool) -> bool {
        let Some(left) = self.common.left.as_ref().filter(|_| counts) else {
            return true;
        };
        let before = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if before == Ok(1) {
            self.common.wake_all();
        }
        before.is_ok()
    }
}

/// The place at which threads wait for each other and for the caller.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    state: Mutex<RestState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct RestState {
    waiting: u16,
    /// When they went on; `None` = they have not.
    over: Option<Instant>,
}

impl Rest {
    /// A thread has nothing under way; it waits. When the rest was over, the same for all.
    pub(crate) fn wait_until_over(&self) -> Instant {
        let mut state = self.lock();
        state.waiting += 1;
        self.changed.notify_all();
        let over = self.changed.wait_while(state, |state| state.over.is_none());
        over.unwrap_or_else(PoisonError::into_inner).over.expect("it is waited for")
    }

    /// Waits until `threads` threads wait; `false` = it was over before.
    pub(crate) fn wait_for(&self, threads: usize) -> bool {
        let is_missing =
            |state: &mut RestState| state.over.is_none() && usize::from(state.waiting) < threads;
        let state = self.changed.wait_while(self.lock(), is_missing);
        state.unwrap_or_else(PoisonError::into_inner).over.is_none()
    }

    /// Lets all go on, now and later.
    pub(crate) fn end(&self) {
        self.lock().over.get_or_insert_with(Instant::now);
        self.changed.notify_all();
    }

    pub(crate) fn over(&self) -> Option<Instant> {
        self.lock().over
    }

    fn lock(&self) -> MutexGuard<'_, RestState> {
        // Numbers only: they hold whatever happened to a thread.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
