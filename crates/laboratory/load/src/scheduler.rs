//! When a thread of a load does what: the instants of the run, which transactions are due and which
//! client begins them, and when a connection is given up.
//!
//! Owns the schedule of an open load and the bound of a closed load.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::time::{Duration, Instant};

use crate::arrival::ArrivalSchedule;
use crate::client_pool::ClientPool;
use crate::plan::LoadPlan;
use crate::thread_context::ThreadContext;

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
