//! CPU time that is burnt in proportion to what a thread uses, for a server whose cost is to be
//! known: so much more than that of another.

use std::time::Duration;

/// That of the thread that calls it.
#[derive(Debug)]
pub(super) struct Ballast {
    share: f64,
    /// The thread's CPU time when it was last burnt.
    seen: Duration,
    /// Owed, in nanoseconds; below 0 if more was burnt than owed, by a look at the clock.
    owed_ns: f64,
}

impl Ballast {
    pub(super) fn new(share: f64) -> Self {
        Self { share, seen: Duration::ZERO, owed_ns: 0.0 }
    }

    /// Burns what is owed for the work since the last call.
    pub(super) fn burn(&mut self) {
        let begun = sys::cpu::thread_time();
        let worked = begun.saturating_sub(self.seen);
        self.owed_ns += worked.as_nanos() as f64 * self.share;
        self.seen = begun;
        while self.owed_ns > 0.0 {
            let now = sys::cpu::thread_time();
            self.owed_ns -= now.saturating_sub(self.seen).as_nanos() as f64;
            self.seen = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread's own clock decides, however busy the host is.
    #[test]
    fn what_is_burnt_is_in_proportion() {
        let mut ballast = Ballast::new(0.5);
        ballast.burn();
        let begun = sys::cpu::thread_time();
        let mut worked = Duration::ZERO;
        while worked < Duration::from_millis(20) {
            let from = sys::cpu::thread_time();
            while sys::cpu::thread_time() - from < Duration::from_micros(200) {}
            worked += sys::cpu::thread_time() - from;
            ballast.burn();
        }
        let all = (sys::cpu::thread_time() - begun).as_secs_f64() / worked.as_secs_f64();
        assert!((1.45..1.6).contains(&all), "{all}");
    }
}
