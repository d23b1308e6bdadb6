//! Counts durations in a histogram of bounded size (HDR, three significant digits), and writes the
//! file in which the tools of HdrHistogram read it.
//!
//! The memory of a histogram depends on the range of recorded durations, not on their number. The
//! file is an interval log of those tools, format 1.3, of compressed histograms in the V2 encoding;
//! its values are microseconds.

use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriter, IntervalLogWriterBuilder};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Significant digits: values are distinguished to one part in a thousand.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Longest duration, an hour in nanoseconds; longer ones count as this long. No wait takes it.
const LONGEST_NS: u64 = 3600 * 1_000_000_000;

/// Resolution: shorter durations, in nanoseconds, are not distinguished. It keeps the table small.
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

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("it grows up to the longest");
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the arithmetic mean, in nanoseconds; 0 if empty.
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// Returns the standard deviation, in nanoseconds; 0 if empty.
    pub fn deviation_ns(&self) -> f64 {
        self.0.stdev()
    }

    /// Returns the least duration, in nanoseconds; 0 if empty.
    pub fn min_ns(&self) -> u64 {
        self.0.min()
    }

    /// Returns the greatest duration, in nanoseconds; 0 if empty.
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// Returns the duration that `share` (0 to 1) of all do not exceed, in nanoseconds; 0 if empty.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    /// Converts the histogram to microseconds, rounded up, with the same digits.
    fn in_microseconds(&self) -> hdrhistogram::Histogram<u64> {
        let longest = LONGEST_NS.div_ceil(1000) * 2;
        let mut counts = hdrhistogram::Histogram::new_with_bounds(1, longest, SIGNIFICANT_DIGITS)
            .expect("1 to 5 digits, a range of two and more");
        for (ns, count) in self.buckets() {
            counts.record_n(ns.div_ceil(1000).max(1), count).expect("no longer than the longest");
        }
        counts
    }

    /// Iterates over the counted durations in order, in nanoseconds and rounded up to the
    /// histogram's resolution, each with its count.
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

/// Microseconds in a millisecond, the unit of the log's column of maxima.
const MAX_VALUE_DIVISOR: f64 = 1000.0;

const LEGEND: &str = "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
                      \"Interval_Compressed_Histogram\"\n";

/// Formats the head of a log. `started` counts from 1970, and intervals count from `started`.
pub fn head(started: Duration, about: &str) -> String {
    let mut builder = IntervalLogWriterBuilder::new();
    builder
        .add_comment(about)
        .add_comment("[Histogram log format version 1.3]")
        .with_start_time(UNIX_EPOCH + started)
        .with_max_value_divisor(MAX_VALUE_DIVISOR);
    written(&builder, |_| ()) + LEGEND
}

/// Formats the line of an interval that begins `at` after the start and has this `length`.
pub fn line(histogram: &Histogram, at: Duration, length: Duration) -> String {
    let mut builder = IntervalLogWriterBuilder::new();
    builder.with_max_value_divisor(MAX_VALUE_DIVISOR);
    let microseconds = histogram.in_microseconds();
    let text = written(&builder, |log| {
        log.write_histogram(&microseconds, at, length, None).expect("a vector takes every byte");
    });
    // The head of the log contains the divisor.
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

type Log<'a, 'b> = IntervalLogWriter<'a, 'b, Vec<u8>, V2DeflateSerializer>;

fn written(builder: &IntervalLogWriterBuilder, write: impl FnOnce(&mut Log<'_, '_>)) -> String {
    let (mut bytes, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let log = builder.begin_log_with(&mut bytes, &mut serializer);
    write(&mut log.expect("a vector takes every byte"));
    String::from_utf8(bytes).expect("digits and base64")
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

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

    #[test]
    fn a_reader_of_the_format_finds_what_was_recorded() {
        let second = Duration::from_secs(1);
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|us| histogram.record(Duration::from_micros(us * 100)));
        let log = head(Duration::from_secs(1_700_000_000), "a load")
            + &line(&histogram, Duration::ZERO, second)
            + &line(&Histogram::default(), second, second);
        assert!(log.starts_with("#a load\n#[Histogram log format version 1.3]\n"), "{log}");
        assert!(log.contains("#[StartTime: 1700000000.000 "), "{log}");
        // The log's reader accepts no legend, unlike those of Java and C.
        let log = log.replace(LEGEND, "");
        let entries: Vec<_> =
            IntervalLogIterator::new(log.as_bytes()).map(Result::unwrap).collect();
        let intervals = entries.iter().filter_map(|entry| match entry {
            LogEntry::Interval(interval) => Some(interval),
            _ => None,
        });
        let intervals: Vec<_> = intervals.collect();
        assert_eq!((intervals.len(), intervals[1].start_timestamp()), (2, second));
        assert!((intervals[0].max() - 100.0).abs() < 0.1, "{} ms", intervals[0].max());
        assert!(intervals[0].encoded_histogram().starts_with("HISTF"));
        let mut compressed = line(&histogram, Duration::ZERO, second);
        let text = compressed.split_off(compressed.rfind(',').unwrap() + 1);
        let bytes = decoded(text.trim_end());
        let read: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
        assert_eq!(read.len(), 1000);
        assert!(read.value_at_quantile(0.5).abs_diff(50_000) <= 50);
        assert!(read.max().abs_diff(100_000) <= 100);
    }

    /// Decodes Base64 (RFC 4648) that is known to be complete.
    fn decoded(text: &str) -> Vec<u8> {
        let value = |byte: u8| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let digits: Vec<u8> = text.trim_end_matches('=').bytes().map(value).collect();
        let groups = digits.chunks(4).flat_map(|group| {
            let bits = group.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit));
            let bits = bits << (6 * (4 - group.len()));
            bits.to_be_bytes()[1..group.len()].to_vec()
        });
        groups.collect()
    }
}
