//! When a process that died is started again: at once, then later and later.

use std::time::{Duration, Instant};

use crate::handover::STEADY_AFTER;

/// The second start in a row waits so long, each further one twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(50);

/// No start waits longer: connections queue up meanwhile, and clients give up in seconds.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Deaths between which no process lived for [`STEADY_AFTER`].
#[derive(Debug, Default)]
pub(super) struct Backoff {
    deaths: u32,
    last: Option<Instant>,
    /// How they die again and again, for people.
    pub(super) dying: Option<String>,
}

impl Backoff {
    /// A process died now: how long to wait before the next is started. It is started in any case:
    /// what kills it (a client, a store, a full host) may be gone by then, and nobody else would
    /// serve.
    pub(super) fn died(&mut self, now: Instant) -> Duration {
        let lived = |last: Instant| now.saturating_duration_since(last) > STEADY_AFTER;
        if self.last.is_none_or(lived) {
            self.deaths = 0;
        }
        self.last = Some(now);
        self.deaths = self.deaths.saturating_add(1);
        self.pause(self.deaths)
    }

    pub(super) fn deaths(&self) -> u32 {
        self.deaths
    }

    /// Whether the last pause is longer than any of this row before it.
    pub(super) fn is_longer(&self) -> bool {
        self.deaths > 1 && self.pause(self.deaths) > self.pause(self.deaths - 1)
    }

    fn pause(&self, deaths: u32) -> Duration {
        let Some(doublings) = deaths.checked_sub(2) else {
            return Duration::ZERO;
        };
        let pause = PAUSE_FIRST.checked_mul(2u32.saturating_pow(doublings));
        pause.unwrap_or(PAUSE_MAX).min(PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_death_costs_no_time() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.died(Instant::now()), Duration::ZERO);
        assert!(!backoff.is_longer());
    }

    #[test]
    fn pauses_grow_to_their_limit_and_each_is_news_once() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        let mut news = Vec::new();
        for _ in 0..1000 {
            let pause = backoff.died(now);
            news.extend(backoff.is_longer().then_some(pause.as_millis()));
        }
        assert_eq!(news, [50, 100, 200, 400, 800, 1600, 3200, 5000]);
        assert_eq!(backoff.died(now), PAUSE_MAX);
        assert_eq!(backoff.deaths(), 1001);
    }

    #[test]
    fn a_minute_without_a_death_begins_anew() {
        let (mut backoff, mut now) = (Backoff::default(), Instant::now());
        for _ in 0..100 {
            backoff.died(now);
            now += STEADY_AFTER + Duration::from_millis(1);
            assert_eq!(backoff.died(now), Duration::ZERO);
            now += STEADY_AFTER;
            assert_eq!(backoff.died(now), PAUSE_FIRST);
            now += STEADY_AFTER + Duration::from_millis(1);
        }
    }
}
