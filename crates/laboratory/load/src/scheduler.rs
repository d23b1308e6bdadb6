//! Schedules a thread's part of a run, and defines its reports: the instants of the run, which
//! transactions are due and which client begins them, and when a connection is given up.
//!
//! Handles the schedule of an open load and the bound of a closed load.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sys::epoll::Waker;

use crate::arrival::ArrivalSchedule;
use crate::client_pool::ClientPool;
use crate::plan::{ArrivalModel, LoadPlan};
use crate::tally::SecondTally;

pub(crate) struct Scheduler {
    /// Planned instants; `None` for closed load.
    schedule: Option<Peekable<ArrivalSchedule>>,
    /// Maximum of concurrent transactions in a closed load.
    concurrency: usize,
    clock: RunClock,
}

pub(crate) struct DueTransaction {
    pub(crate) at: Instant,
    /// Client that begins the transaction; `None` if none is free.
    pub(crate) client: Option<u32>,
}

impl Scheduler {
    /// Makes the scheduler of a thread; its clock does not run yet.
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

    /// Reports whether no more is due before the end.
    pub(crate) fn is_over(&mut self, client_pool: &ClientPool) -> bool {
        let schedule = self.schedule.as_mut();
        schedule.is_none_or(|schedule| schedule.peek().is_none())
            && self.goes_on(client_pool).is_none()
    }

    /// Returns when a resting client's next request is due before the end (session arrivals).
    fn goes_on(&self, client_pool: &ClientPool) -> Option<Instant> {
        let due = client_pool.next_to_go_on();
        due.filter(|due| *due < self.clock.end)
    }

    /// Returns the next due transaction, if `busy` are in progress; or when the next will be due,
    /// if that is known.
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

    /// Takes all due transactions that have not begun.
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

/// Time after the end in which due transactions may still begin, because the host may have been
/// busy for a moment. The rest have then failed.
const LATE_MAX: Duration = Duration::from_millis(100);

/// The instants of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock {
    pub(crate) begin: Instant,
    pub(crate) zero: Instant,
    /// Instant after which no transaction begins.
    pub(crate) end: Instant,
}

impl RunClock {
    pub(crate) fn new(plan: &LoadPlan, begin: Instant) -> Self {
        let zero = begin + plan.warm_up;
        Self { begin, zero, end: zero + plan.duration }
    }

    /// Returns the clock of the same plan, with the figures beginning at another instant.
    pub(crate) fn moved_to(self, zero: Instant) -> Self {
        Self { zero, end: zero + self.end.saturating_duration_since(self.zero), ..self }
    }

    pub(crate) fn unstarted() -> Self {
        let now = Instant::now();
        Self { begin: now, zero: now, end: now }
    }

    /// Reports whether the end is past, with some time for transactions that were due before it.
    pub(crate) fn is_past_end(&self, now: Instant, has_begun_all: bool) -> bool {
        now >= self.end && (has_begun_all || now >= self.end + LATE_MAX)
    }

    /// Returns the end of the second with this number.
    pub(crate) fn end_of(&self, second: u64) -> Instant {
        self.zero + Duration::from_secs(second + 1)
    }
}

/// Deadline by which a connection must have made progress.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Deadline {
    /// Instant of the deadline.
    pub(crate) at: Instant,
    pub(crate) key: usize,
    /// Number of the connection, because its key may have been reused.
    pub(crate) serial: u32,
}

/// All deadlines, in the order of their instants.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(VecDeque<Deadline>);

impl Deadlines {
    /// Adds a deadline, which is not before any added one.
    pub(crate) fn push(&mut self, deadline: Deadline) {
        self.0.push_back(deadline);
    }

    /// Takes the first deadline if it has passed. Drops obsolete ones at the front, so that those
    /// of finished connections do not accumulate.
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

/// A thread's own data, and its references to shared data.
#[derive(Clone, Debug)]
pub(crate) struct ThreadContext {
    pub(crate) index: u16,
    pub(crate) threads: u16,
    /// Waker of this thread, for a stop.
    pub(crate) waker: Arc<Waker>,
    /// Channel for the thread's seconds.
    pub(crate) reports: Sender<ThreadReport>,
    pub(crate) common: Arc<ThreadsInCommon>,
}

#[derive(Debug)]
pub(crate) struct ThreadReport {
    pub(crate) thread: u16,
    /// Number of the second from the beginning of the figures, and its counts; `None` after the
    /// last one.
    pub(crate) second: Option<(u64, SecondTally)>,
    /// Transactions that were due in other seconds and are only known now: a second's number and
    /// their count.
    pub(crate) late: Vec<(u64, u64)>,
}

/// Figures that a thread publishes.
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
    /// Wakers of all threads: an idle thread would sleep on.
    wakers: Vec<Arc<Waker>>,
    /// Between warm-up and figures, where the plan has one.
    pub(crate) rest: ThreadRendezvous,
    /// By thread, as of its last look at the clock.
    shown: Vec<SharedFigures>,
}

impl ThreadsInCommon {
    /// Makes the data of a run with at most `count_max` transactions.
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

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> u64 {
        self.sum(|shown| &shown.open)
    }

    /// Returns the bytes received so far, and the successful transactions.
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

    /// Reports whether the run was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }
}

impl ThreadContext {
    /// Returns this thread's planned instants in open load; in a closed one, its maximum of
    /// concurrent transactions.
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

    /// Publishes this thread's number of open connections, received bytes and successful
    /// transactions.
    #[inline]
    pub(crate) fn show(&self, open: u64, received_bytes: u64, succeeded: u64) {
        let shown = &self.common.shown[usize::from(self.index)];
        shown.open.store(open, Relaxed);
        shown.received_bytes.store(received_bytes, Relaxed);
        shown.succeeded.store(succeeded, Relaxed);
    }

    /// Ends the load after a failure of this thread, which sends no more.
    pub(crate) fn abort(&self) {
        self.common.stop();
        // Nobody receives reports if the run was dropped.
        let _ =
            self.reports.send(ThreadReport { thread: self.index, second: None, late: Vec::new() });
    }

    /// Reports whether all transactions have been begun.
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

/// Meeting point of the threads and the caller.
#[derive(Debug, Default)]
pub(crate) struct ThreadRendezvous {
    state: Mutex<RendezvousState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct RendezvousState {
    waiting: u16,
    /// When the threads continued; `None` if they have not.
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

    /// Waits until `threads` threads wait; `false` if the pause was over before.
    pub(crate) fn wait_for(&self, threads: usize) -> bool {
        let is_missing = |state: &mut RendezvousState| {
            state.over.is_none() && usize::from(state.waiting) < threads
        };
        let state = self.changed.wait_while(self.lock(), is_missing);
        state.unwrap_or_else(PoisonError::into_inner).over.is_none()
    }

    /// Lets all threads continue, now and later.
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
