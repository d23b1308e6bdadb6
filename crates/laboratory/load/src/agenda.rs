//! What is due in a thread, and who begins it.
//!
//! Owns the schedule of open load and the bound of closed load. Reads no clock.

use std::iter::Peekable;
use std::time::Instant;

use crate::arrival::Schedule;
use crate::clock::Clock;
use crate::crowd::Crowd;
use crate::plan::Plan;
use crate::share::Share;

/// What a thread has to begin.
pub(crate) struct Agenda {
    /// Planned instants; `None` = closed load.
    schedule: Option<Peekable<Schedule>>,
    /// Transactions that may be under way at once in a closed load.
    concurrency: usize,
    clock: Clock,
}

/// A transaction that is due.
pub(crate) struct Due {
    pub(crate) at: Instant,
    /// Who begins it; `None` = nobody is free.
    pub(crate) client: Option<u32>,
}

impl Agenda {
    /// Of a thread, whose clock stands.
    pub(crate) fn new(plan: &Plan, share: &Share) -> Self {
        let (schedule, concurrency) = share.arrivals(plan);
        Self {
            schedule: schedule.map(Iterator::peekable),
            concurrency,
            clock: Clock::unstarted(),
        }
    }

    /// The clock runs.
    pub(crate) fn start(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Whether instants are planned.
    pub(crate) fn is_open(&self) -> bool {
        self.schedule.is_some()
    }

    /// Whether nothing is due before the end any more.
    pub(crate) fn is_over(&mut self, crowd: &Crowd) -> bool {
        let schedule = self.schedule.as_mut();
        schedule.is_none_or(|schedule| schedule.peek().is_none()) && self.goes_on(crowd).is_none()
    }

    /// When the next request of those users is due who go on, if that is before the end.
    fn goes_on(&self, crowd: &Crowd) -> Option<Instant> {
        let due = crowd.next_to_go_on();
        due.filter(|due| *due < self.clock.end)
    }

    /// What is due, where so many transactions are under way; or when something will be, if that
    /// is known.
    pub(crate) fn take(
        &mut self,
        crowd: &mut Crowd,
        busy: usize,
        now: Instant,
    ) -> Result<Due, Option<Instant>> {
        let goes_on = self.goes_on(crowd);
        let Some(schedule) = &mut self.schedule else {
            return match busy >= self.concurrency {
                true => Err(None),
                false => Ok(Due {
                    at: Instant::now(),
                    client: crowd.take(),
                }),
            };
        };
        let planned = schedule.peek().map(|due| self.clock.begin + *due);
        let at = planned.into_iter().chain(goes_on).min().ok_or(None)?;
        if at > now {
            return Err(Some(at));
        }
        let client = match goes_on == Some(at) {
            true => crowd.go_on(),
            false => {
                schedule.next();
                crowd.take()
            }
        };
        Ok(Due { at, client })
    }

    /// Takes all that was due and has not begun.
    pub(crate) fn take_unbegun(&mut self, crowd: &mut Crowd, now: Instant) -> Vec<Instant> {
        let mut unbegun = Vec::new();
        let begin = self.clock.begin;
        if let Some(schedule) = &mut self.schedule {
            while let Some(due) = schedule.next_if(|due| begin + *due <= now) {
                unbegun.push(begin + due);
            }
        }
        while let Some(due) = self.goes_on(crowd).filter(|due| *due <= now) {
            crowd.go_on();
            unbegun.push(due);
        }
        unbegun
    }
}
