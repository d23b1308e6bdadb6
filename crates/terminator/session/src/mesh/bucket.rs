//! A limit of so many per second, a second's worth of them at once (a token bucket).

use std::time::Instant;

/// How many may still go.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    per_second: u32,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    /// A full one.
    pub(crate) fn new(per_second: u32, now: Instant) -> Self {
        Self {
            per_second,
            tokens: per_second.into(),
            filled: now,
        }
    }

    /// The same with another limit.
    pub(crate) fn set_rate(&mut self, per_second: u32) {
        self.per_second = per_second;
    }

    /// Takes so many if there are as many.
    pub(crate) fn take(&mut self, count: u32, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled);
        self.filled = now.max(self.filled);
        let rate = f64::from(self.per_second);
        self.tokens = (self.tokens + passed.as_secs_f64() * rate).min(rate);
        let enough = self.tokens >= f64::from(count);
        if enough {
            self.tokens -= f64::from(count);
        }
        enough
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_second_gives_as_many_as_the_rate_says_and_no_more_wait() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, start);
        assert!(bucket.take(10, start) && !bucket.take(1, start));
        assert!(!bucket.take(1, start + Duration::from_millis(99)));
        assert!(bucket.take(1, start + Duration::from_millis(101)));
        let later = start + Duration::from_secs(60);
        assert!(bucket.take(10, later) && !bucket.take(1, later));
    }
}
