//! When to give up what fails, and when to try it again (a circuit breaker).
//!
//! Closed, it lets all requests through. So many failures in a row open it: nothing goes through
//! for a while, which doubles each time. Then one request is let through, and decides.

use std::time::{Duration, Instant};

/// How long nothing goes through at first.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// How long at most: an operator who has repaired the store waits no longer.
const PAUSE_MAX: Duration = Duration::from_secs(16);

/// Who goes on for so long begins anew with the shortest pause.
const SOUND: Duration = Duration::from_secs(60);

/// Lets requests through, or does not.
#[derive(Clone, Debug)]
pub struct Breaker {
    state: BreakerState,
    failures: u32,
    failures_max: u32,
    /// The last pause, and when it began.
    last: Option<(Duration, Instant)>,
}

#[derive(Clone, Copy, Debug)]
enum BreakerState {
    Closed,
    Open {
        until: Instant,
    },
    /// One request is on its way.
    HalfOpen,
}

impl Breaker {
    /// A closed breaker, which opens after `failures_max` failures in a row.
    pub fn new(failures_max: u32) -> Self {
        Self { state: BreakerState::Closed, failures: 0, failures_max, last: None }
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.state, BreakerState::Closed)
    }

    /// When one may be tried; `None` = it is closed, or one is on its way.
    pub fn due(&self) -> Option<Instant> {
        match self.state {
            BreakerState::Open { until } => Some(until),
            BreakerState::Closed | BreakerState::HalfOpen => None,
        }
    }

    /// Whether a request goes through. When a pause is over, one does.
    pub fn lets_through(&mut self, now: Instant) -> bool {
        match self.state {
            BreakerState::Closed => true,
            BreakerState::Open { until } if until <= now => {
                self.state = BreakerState::HalfOpen;
                true
            }
            BreakerState::Open { .. } | BreakerState::HalfOpen => false,
        }
    }

    /// A request succeeded. Whether the breaker closes.
    pub fn succeeded(&mut self) -> bool {
        self.failures = 0;
        let was_closed = self.is_closed();
        self.state = BreakerState::Closed;
        !was_closed
    }

    /// A request failed. Whether the breaker opens, having been closed.
    pub fn failed(&mut self, now: Instant) -> bool {
        self.failures = self.failures.saturating_add(1);
        match self.state {
            BreakerState::Closed if self.failures >= self.failures_max => self.open(now),
            BreakerState::HalfOpen => {
                self.open(now);
                false
            }
            // Those that were on their way when it opened fail as well.
            BreakerState::Closed | BreakerState::Open { .. } => false,
        }
    }

    /// Notes that nothing can go through. Returns whether that is news.
    pub fn open(&mut self, now: Instant) -> bool {
        let was_closed = self.is_closed();
        let recent =
            self.last.filter(|(pause, at)| now.saturating_duration_since(*at) < *pause + SOUND);
        let pause = recent.map_or(PAUSE_MIN, |(pause, _)| (pause * 2).min(PAUSE_MAX));
        self.last = Some((pause, now));
        self.state = BreakerState::Open { until: now + pause };
        was_closed
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_open_it_and_one_request_decides_when_it_closes() {
        let start = Instant::now();
        let mut breaker = Breaker::new(3);
        assert!(!breaker.failed(start) && !breaker.failed(start));
        assert!(!breaker.succeeded(), "it was closed");
        assert!(!breaker.failed(start) && !breaker.failed(start));
        assert!(breaker.lets_through(start));
        assert!(breaker.failed(start), "the third in a row");
        assert!(!breaker.failed(start), "it was on its way");
        assert!(!breaker.lets_through(start));
        let due = breaker.due().unwrap();
        assert_eq!(due, start + PAUSE_MIN);
        assert!(breaker.lets_through(due), "one");
        assert!(!breaker.lets_through(due), "and no other");
        assert!(breaker.succeeded() && breaker.is_closed());
    }

    #[test]
    fn each_pause_is_twice_the_last_one_until_all_was_well_for_a_minute() {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(3);
        assert!(breaker.open(now), "that is news");
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let due = breaker.due().unwrap();
            pauses.push((due - now).as_secs());
            now = due;
            assert!(breaker.lets_through(now));
            assert!(!breaker.failed(now), "that is none");
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16]);
        now = breaker.due().unwrap();
        assert!(breaker.lets_through(now) && breaker.succeeded());
        assert!(breaker.open(now));
        assert_eq!(breaker.due(), Some(now + PAUSE_MAX), "it flaps");
        now = breaker.due().unwrap() + SOUND;
        assert!(breaker.lets_through(now) && breaker.succeeded());
        assert!(breaker.open(now));
        assert_eq!(breaker.due(), Some(now + PAUSE_MIN));
    }
}
