//! The time of a worker's loop. A simulation gives its thread another one.

use std::time::Instant;

pub(crate) fn now() -> Instant {
    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    Instant::now()
}

/// The time of a thread that simulates.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    thread_local! {
        static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
        /// Each look at the clock takes so long.
        static STEP: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    pub(crate) fn now() -> Option<Instant> {
        let now = NOW.get()? + STEP.get();
        NOW.set(Some(now));
        Some(now)
    }

    pub(crate) fn set(now: Instant) {
        NOW.set(Some(now));
    }

    pub(crate) fn set_step(step: Duration) {
        STEP.set(step);
    }

    pub(crate) fn end() {
        NOW.set(None);
    }
}
