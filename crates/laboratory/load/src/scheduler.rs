//! The part of a run that a thread of a load has, its reports, and when it does what: the instants
//! of the run, which transactions are due and which client begins them, and when a connection is
//! given up.
//!
//! Owns the schedule of an open load and the bound of a closed load.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sys::wake::Waker;

use crate::arrival::ArrivalSchedule;
use crate::client_pool::ClientPool;
use crate::plan::{ArrivalModel, LoadPlan};
use crate::tally::SecondTally;

pub(crate) struct Scheduler {
    /// Planned instants; `None` = closed load.
    schedule: Option<Peekable<ArrivalSchedule>>,
    /// Transactions that may be under way at once in a closed load.
    concurrency: usize,
    clock: RunClock,
}

pub(crate) struct DueTransaction {
    pub(crate) at: Instant,
    /// The client that begins it; `None` = none is free.
    pub(crate) client: Option<u32>,
}

impl Scheduler {
    /// The scheduler of a thread; its clock does not run yet.
    pub(crate) fn new(plan: &LoadPlan, context: &ThreadContext) -> Self {
        let (schedule, concurrency) = context.arrivals(plan);
        Self {
            schedule: schedule.map(Iterator::peekable),
            concurrency,
            clock: RunClock::unstarted(),
        }
    }

    pub(crate) fn start(&mut self, clock: RunClock) {
        self.clock = clock;
    }

    pub(crate) fn is_open(&self) -> bool {
        self.schedule.is_some()
    }

    /// Whether nothing is due before the end any more.
    pub(crate) fn is_over(&mut self, client_pool: &ClientPool) -> bool {
        let schedule = self.schedule.as_mut();
        schedule.is_none_or(|schedule| schedule.peek().is_none())
            && self.goes_on(client_pool).is_none()
    }

    /// With session arrivals, when the next request of a resting client is due before the end.
    fn goes_on(&self, client_pool: &ClientPool) -> Option<Instant> {
        let due = client_pool.next_to_go_on();
        due.filter(|due| *due < self.clock.end)
    }

    /// The next due transaction, if `busy` are under way; or when one will be due, if that is
    /// known.
    pub(crate) fn take(
        &mut self,
        client_pool: &mut ClientPool,
        busy: usize,
        now: Instant,
    ) -> Result<DueTransaction, Option<Instant>> {
        let goes_on = self.goes_on(client_pool);
        let Some(schedule) = &mut self.schedule else {
            return if busy >= self.concurrency {
                Err(None)
            } else {
                Ok(DueTransaction { at: Instant::now(), client: client_pool.take() })
            };
        };
        let planned = schedule.peek().map(|due| self.clock.begin + *due);
        let at = planned.into_iter().chain(goes_on).min().ok_or(None)?;
        if at > now {
            return Err(Some(at));
        }
        let client = if goes_on == Some(at) {
            client_pool.go_on()
        } else {
            schedule.next();
            client_pool.take()
        };
        Ok(DueTransaction { at, client })
    }

    /// Takes all that was due and has not begun.
    pub(crate) fn take_unbegun(
        &mut self,
        client_pool: &mut ClientPool,
        now: Instant,
    ) -> Vec<Instant> {
        let mut unbegun = Vec::new();
        let begin = self.clock.begin;
        if let Some(schedule) = &mut self.schedule {
            while let Some(due) = schedule.next_if(|due| begin + *due <= now) {
                unbegun.push(begin + due);
            }
        }
        while let Some(due) = self.goes_on(client_pool).filter(|due| *due <= now) {
            client_pool.go_on();
            unbegun.push(due);
        }
        unbegun
    }
}

/// At the end, what was due and has not begun may still begin for so long: the host may have been
/// busy for a moment. What has not begun then has failed.
const LATE_MAX: Duration = Duration::from_millis(100);

/// When what begins and ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock {
    pub(crate) begin: Instant,
    pub(crate) zero: Instant,
    /// No transaction begins any more.
    pub(crate) end: Instant,
}

impl RunClock {
    pub(crate) fn new(plan: &LoadPlan, begin: Instant) -> Self {
        let zero = begin + plan.warm_up;
        Self { begin, zero, end: zero + plan.duration }
    }

    /// The clock of the same plan, the figures beginning at another instant.
    pub(crate) fn moved_to(self, zero: Instant) -> Self {
        Self { zero, end: zero + self.end.saturating_duration_since(self.zero), ..self }
    }

    pub(crate) fn unstarted() -> Self {
        let now = Instant::now();
        Self { begin: now, zero: now, end: now }
    }

    /// Whether the end is over, which waits a little for what was due before it.
    pub(crate) fn is_past_end(&self, now: Instant, has_begun_all: bool) -> bool {
        now >= self.end && (has_begun_all || now >= self.end + LATE_MAX)
    }

    /// The instant at which the second with this number is over.
    pub(crate) fn end_of(&self, second: u64) -> Instant {
        self.zero + Duration::from_secs(second + 1)
    }
}

/// When to look whether a connection has done what it should.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Deadline {
    /// The end of its time.
    pub(crate) at: Instant,
    pub(crate) key: usize,
    /// The connection's number: its place may have gone to another.
    pub(crate) serial: u32,
}

/// All of them, in the order of their instants.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(VecDeque<Deadline>);

impl Deadlines {
    /// Adds one, which is not before any that was added.
    pub(crate) fn push(&mut self, deadline: Deadline) {
        self.0.push_back(deadline);
    }

    /// Takes the first one if its time is over. Those at the front that hold no more are dropped,
    /// so that what has ended long before its time does not heap up.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        holds: impl Fn(&Deadline) -> bool,
    ) -> Option<Deadline> {
        while self.0.front().is_some_and(|first| !holds(first)) {
            self.0.pop_front();
        }
        match self.0.front() {
            Some(first) if first.at <= now => self.0.pop_front(),
            _ => None,
        }
    }

    pub(crate) fn first(&self) -> Option<Instant> {
        self.0.front().map(|deadline| deadline.at)
    }
}

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
struct SharedFigures {
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
    pub(crate) rest: ThreadRendezvous,
    /// By thread, as of its last look at the clock.
    shown: Vec<SharedFigures>,
}

impl ThreadsInCommon {
    /// With at most `count_max` transactions.
    pub(crate) fn new(count_max: Option<u64>, wakers: Vec<Arc<Waker>>) -> Self {
        Self {
            stopped: AtomicBool::new(false),
            left: count_max.map(AtomicU64::new),
            shown: wakers.iter().map(|_| SharedFigures::default()).collect(),
            wakers,
            rest: ThreadRendezvous::default(),
        }
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.rest.end();
        self.wake_all();
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> u64 {
        self.sum(|shown| &shown.open)
    }

    /// Bytes received so far, and transactions that succeeded.
    pub(crate) fn done(&self) -> (u64, u64) {
        (self.sum(|shown| &shown.received_bytes), self.sum(|shown| &shown.succeeded))
    }

    fn sum(&self, of: fn(&SharedFigures) -> &AtomicU64) -> u64 {
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
pub(crate) struct ThreadRendezvous {
    state: Mutex<RendezvousState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct RendezvousState {
    waiting: u16,
    /// When they went on; `None` = they have not.
    over: Option<Instant>,
}

impl ThreadRendezvous {
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
        let is_missing = |state: &mut RendezvousState| {
            state.over.is_none() && usize::from(state.waiting) < threads
        };
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

    fn lock(&self) -> MutexGuard<'_, RendezvousState> {
        // Numbers only: they hold whatever happened to a thread.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
