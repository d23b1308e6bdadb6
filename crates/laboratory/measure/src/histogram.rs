//! A histogram of durations of bounded size: HDR, three significant digits.
//!
//! The memory of one depends on the range of what was recorded, not on how often.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Values are distinguished to one part in a thousand.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Longer ones count as this long: an hour, in nanoseconds. Nothing that is waited for takes it.
const LONGEST_NS: u64 = 3600 * 1_000_000_000;

/// Shorter ones are not distinguished: a microsecond, in nanoseconds. It keeps the table small.
const SHORTEST_NS: u64 = 1000;

/// Durations, in nanoseconds. In a record it is a list of `[nanoseconds, count]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        let mut counts = hdrhistogram::Histogram::new_with_bounds(
            SHORTEST_NS,
            SHORTEST_NS * 2,
            SIGNIFICANT_DIGITS,
        )
        .expect("1 to 5 digits, a range of two and more");
        counts.auto(true);
        Self(counts)
    }
}

impl Histogram {
    #[inline]
    pub fn record(&mut self, duration: Duration) {
        self.record_ns(u64::try_from(duration.as_nanos()).unwrap_or(LONGEST_NS), 1);
    }

    fn record_ns(&mut self, ns: u64, count: u64) {
        self.0.record_n(ns.min(LONGEST_NS), count).expect("it grows up to the longest");
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("it grows up to the longest");
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The arithmetic mean, in nanoseconds; 0 of nothing.
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// The standard deviation, in nanoseconds; 0 of nothing.
    pub fn deviation_ns(&self) -> f64 {
        self.0.stdev()
    }

    /// The least, in nanoseconds; 0 of nothing.
    pub fn min_ns(&self) -> u64 {
        self.0.min()
    }

    /// The greatest, in nanoseconds; 0 of nothing.
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// The duration that `share` (0 to 1) of all do not exceed, in nanoseconds; 0 of nothing.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    /// The same in microseconds, rounded up, with the same digits.
    pub(crate) fn in_microseconds(&self) -> hdrhistogram::Histogram<u64> {
        let longest = LONGEST_NS.div_ceil(1000) * 2;
        let mut counts = hdrhistogram::Histogram::new_with_bounds(1, longest, SIGNIFICANT_DIGITS)
            .expect("1 to 5 digits, a range of two and more");
        for (ns, count) in self.buckets() {
            counts.record_n(ns.div_ceil(1000).max(1), count).expect("no longer than the longest");
        }
        counts
    }

    /// Each duration that was counted, in nanoseconds and rounded up to what it is distinguished
    /// from, with its count; in order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.buckets())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut histogram = Self::default();
        for (ns, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            if ns > LONGEST_NS * 2 {
                return Err(D::Error::custom(format!("{ns} ns is longer than an hour")));
            }
            histogram.record_ns(ns, count);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(durations_us: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        for us in durations_us {
            histogram.record(Duration::from_micros(us));
        }
        histogram
    }

    fn close(value: f64, wanted: f64) {
        assert!((value / wanted - 1.0).abs() < 0.002, "{value} for {wanted}");
    }

    #[test]
    fn known_quantiles_are_found() {
        let histogram = of(1..=1000);
        assert_eq!(histogram.count(), 1000);
        close(histogram.mean_ns(), 500_500.0);
        close(histogram.quantile_ns(0.5) as f64, 500_000.0);
        close(histogram.quantile_ns(0.99) as f64, 990_000.0);
        close(histogram.max_ns() as f64, 1_000_000.0);
        close(histogram.deviation_ns(), 288_675.0);
    }

    #[test]
    fn what_is_too_long_counts_as_the_longest() {
        let mut histogram = of([1]);
        histogram.record(Duration::MAX);
        assert_eq!(histogram.count(), 2);
        close(histogram.max_ns() as f64, LONGEST_NS as f64);
    }

    #[test]
    fn a_record_keeps_every_bucket() {
        let histogram = of((0..5000).map(|step| step * step));
        let text = serde_json::to_string(&histogram).unwrap();
        let again: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(again.count(), histogram.count());
        assert!(again.buckets().eq(histogram.buckets()));
        serde_json::from_str::<Histogram>("[[99999999999999, 1]]").unwrap_err();
    }
}
