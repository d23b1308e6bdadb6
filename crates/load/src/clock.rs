//! The instants of a run that everything is measured from.

use std::time::{Duration, Instant};

use crate::plan::Plan;

/// When what begins and ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The warm-up begins.
    pub(crate) begin: Instant,
    /// The figures begin.
    pub(crate) zero: Instant,
    /// No transaction begins any more.
    pub(crate) end: Instant,
}

impl Clock {
    /// Of a plan that begins then.
    pub(crate) fn new(plan: &Plan, begin: Instant) -> Self {
        let zero = begin + plan.warm_up;
        Self {
            begin,
            zero,
            end: zero + plan.duration,
        }
    }

    /// One that stands.
    pub(crate) fn unstarted() -> Self {
        let now = Instant::now();
        Self {
            begin: now,
            zero: now,
            end: now,
        }
    }

    /// The instant at which the second with this number is over.
    pub(crate) fn end_of(&self, second: u64) -> Instant {
        self.zero + Duration::from_secs(second + 1)
    }
}
