//! When a worker process that died is started again: at once, then later and later, then not.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Deaths within [`WINDOW`] after which we give up: what kills it so often will go on doing so,
/// and a service manager or a person should know.
const DEATHS_MAX: usize = 10;

const WINDOW: Duration = Duration::from_secs(60);

/// The second start within the window waits so long, each further one twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(50);

/// No start waits longer: connections queue up meanwhile, and clients give up in seconds.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The deaths of the last minute.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    deaths: VecDeque<Instant>,
}

impl Backoff {
    /// A process died now: how long to wait before the next is started; `None` = give up.
    pub(super) fn died(&mut self, now: Instant) -> Option<Duration> {
        let is_old = |death: &Instant| now.saturating_duration_since(*death) > WINDOW;
        while self.deaths.front().is_some_and(is_old) {
            self.deaths.pop_front();
        }
        self.deaths.push_back(now);
        match self.deaths.len() {
            1 => Some(Duration::ZERO),
            count if count > DEATHS_MAX => None,
            count => {
                let doublings = u32::try_from(count - 2).unwrap_or(u32::MAX);
                let pause = PAUSE_FIRST.checked_mul(2u32.saturating_pow(doublings));
                Some(pause.unwrap_or(PAUSE_MAX).min(PAUSE_MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_death_costs_no_time() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.died(Instant::now()), Some(Duration::ZERO));
    }

    #[test]
    fn pauses_grow_to_their_limit_and_end() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        let pauses: Vec<_> = (0..=DEATHS_MAX).map(|_| backoff.died(now)).collect();
        assert!(pauses.is_sorted_by_key(|pause| pause.unwrap_or(Duration::MAX)));
        assert_eq!(pauses[1], Some(PAUSE_FIRST));
        assert_eq!(pauses[DEATHS_MAX - 1], Some(PAUSE_MAX));
        assert_eq!(pauses[DEATHS_MAX], None);
    }

    #[test]
    fn old_deaths_are_forgotten() {
        let (mut backoff, mut now) = (Backoff::default(), Instant::now());
        for _ in 0..100 {
            now += WINDOW + Duration::from_millis(1);
            assert_eq!(backoff.died(now), Some(Duration::ZERO));
        }
    }
}
