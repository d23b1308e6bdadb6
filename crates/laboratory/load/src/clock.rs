//! The instants of a run that everything is measured from.

use std::time::{Duration, Instant};

use crate::plan::Plan;

/// At the end, what was due and has not begun may still begin for so long: the host may have been
/// busy for a moment. What has not begun then has failed.
const LATE_MAX: Duration = Duration::from_millis(100);

/// When what begins and ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) begin: Instant,
    pub(crate) zero: Instant,
    /// No transaction begins any more.
    pub(crate) end: Instant,
}

impl Clock {
    pub(crate) fn new(plan: &Plan, begin: Instant) -> Self {
        let zero = begin + plan.warm_up;
        Self {
            begin,
            zero,
            end: zero + plan.duration,
        }
    }

    /// Of the same plan, the figures beginning at another instant.
    pub(crate) fn moved_to(self, zero: Instant) -> Self {
        Self {
            zero,
            end: zero + self.end.saturating_duration_since(self.zero),
            ..self
        }
    }

    pub(crate) fn unstarted() -> Self {
        let now = Instant::now();
        Self {
            begin: now,
            zero: now,
            end: now,
        }
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
