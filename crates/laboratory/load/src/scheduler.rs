//! Which transactions of a thread are due, and which client begins them.
//!
//! Owns the schedule of open load and the bound of closed load. Reads no clock.

use std::iter::Peekable;
use std::time::Instant;

use crate::arrival::Schedule;
use crate::client_pool::ClientPool;
use crate::clock::Clock;
use crate::plan::Plan;
use crate::thread_context::ThreadContext;

pub(crate) struct Scheduler {
    /// Planned instants; `None` = closed load.
    schedule: Option<Peekable<Schedule>>,
    /// Transactions that may be under way at once in a closed load.
    concurrency: usize,
    clock: Clock,
}

/// A transaction that is due.
pub(crate) struct Due {
    pub(crate) at: Instant,
    /// The client that begins it; `None` = none is free.
    pub(crate) client: Option<u32>,
}

impl Scheduler {
    /// Of a thread; its clock does not run yet.
    pub(crate) fn new(plan: &Plan, context: &ThreadContext) -> Self {
        let (schedule, concurrency) = context.arrivals(plan);
        Self {
            schedule: schedule.map(Iterator::peekable),
            concurrency,
            clock: Clock::unstarted(),
        }
    }

    pub(crate) fn start(&mut self, clock: Clock) {
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

    /// What is due, where `busy` transactions are under way; or when something will be, if that is
    /// known.
    pub(crate) fn take(
        &mut self,
        client_pool: &mut ClientPool,
        busy: usize,
        now: Instant,
    ) -> Result<Due, Option<Instant>> {
        let goes_on = self.goes_on(client_pool);
        let Some(schedule) = &mut self.schedule else {
            return if busy >= self.concurrency {
                Err(None)
            } else {
                Ok(Due {
                    at: Instant::now(),
                    client: client_pool.take(),
                })
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
        Ok(Due { at, client })
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
