//! Decides whether a client takes what it is sent as fast as its service demands.
//!
//! Holds the rule, neither socket nor clock. Acknowledged bytes count, not those that the kernel
//! has taken: it holds some MiB, and takes more only once a third of it is gone. A client is
//! watched from when the kernel takes no more until everything is acknowledged. A client that took
//! everything that was on its way when a window began is not slow, whatever it did in the rest of
//! it.

use std::time::Instant;

use crate::options::RateMin;

/// Bytes that were sent to a client up to now, and those that it has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct SendProgress {
    pub(crate) sent: u64,
    pub(crate) acknowledged: u64,
}

#[derive(Debug, Default)]
pub(crate) struct SlowClient {
    /// End of the window, and the progress at its beginning.
    window: Option<(Instant, SendProgress)>,
}

impl SlowClient {
    /// Begins to watch, unless the client is watched already; `progress` is called only then.
    pub(crate) fn watch(
        &mut self,
        rate: RateMin,
        now: Instant,
        progress: impl Fn() -> SendProgress,
    ) {
        self.window.get_or_insert_with(|| (now + rate.window, progress()));
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.window.map(|(end, _)| end)
    }

    /// Judges a window that is over, and begins the next.
    pub(crate) fn is_too_slow(
        &mut self,
        rate: RateMin,
        now: Instant,
        progress: SendProgress,
    ) -> bool {
        let Some((_, first)) = self.window.take_if(|(end, _)| *end <= now) else {
            return false;
        };
        if progress.acknowledged < progress.sent {
            self.window = Some((now + rate.window, progress));
        }
        // Whole milliseconds: a window is a second at least.
        let wanted = u128::from(rate.bytes_per_second) * rate.window.as_millis() / 1000;
        let taken = progress.acknowledged.saturating_sub(first.acknowledged);
        progress.acknowledged < first.sent && u128::from(taken) < wanted
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const RATE: RateMin = RateMin { bytes_per_second: 100, window: Duration::from_secs(10) };

    fn progress(sent: u64, acknowledged: u64) -> SendProgress {
        SendProgress { sent, acknowledged }
    }

    /// The verdict at each window's end, of a client that had `first` when it was first watched.
    fn judged(first: SendProgress, ends: &[SendProgress]) -> Vec<bool> {
        let (mut now, mut client) = (Instant::now(), SlowClient::default());
        client.watch(RATE, now, || first);
        let judge = |end: &SendProgress| {
            assert_eq!(client.deadline(), Some(now + 10 * SECOND));
            assert!(!client.is_too_slow(RATE, now + 9 * SECOND, *end), "not yet");
            now += 10 * SECOND;
            client.is_too_slow(RATE, now, *end)
        };
        ends.iter().map(judge).collect()
    }

    #[test]
    fn a_client_is_too_slow_below_the_rate_on_an_average_of_a_window() {
        let ends = [progress(9000, 1000), progress(9000, 2000), progress(9500, 2999)];
        assert_eq!(judged(progress(9000, 0), &ends), [false, false, true]);
        assert_eq!(judged(progress(9000, 0), &[progress(9000, 0)]), [true]);
    }

    #[test]
    fn a_client_that_took_all_that_was_on_its_way_is_not_blamed_for_the_rest() {
        // The client took 200 bytes, asked nothing for a while, and now waits for 5000 more.
        assert_eq!(judged(progress(200, 0), &[progress(5200, 200)]), [false]);
        assert_eq!(judged(progress(200, 0), &[progress(5200, 199)]), [true]);
    }

    #[test]
    fn a_client_that_has_all_is_watched_no_more() {
        let (now, mut client) = (Instant::now(), SlowClient::default());
        client.watch(RATE, now, || progress(100, 0));
        assert!(!client.is_too_slow(RATE, now + 10 * SECOND, progress(100, 100)));
        assert_eq!(client.deadline(), None);
        assert!(!client.is_too_slow(RATE, now + 20 * SECOND, progress(100, 100)));
    }
}
