//! Response times as the tools of HdrHistogram read them: its interval log, format 1.3, of
//! compressed histograms in the V2 encoding. Values are microseconds.

use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriter, IntervalLogWriterBuilder};

use crate::histogram::Histogram;

/// Microseconds in the milliseconds that the log's column of maxima has.
const MAX_VALUE_DIVISOR: f64 = 1000.0;

const LEGEND: &str = "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
                      \"Interval_Compressed_Histogram\"\n";

/// The lines that a log begins with. `started` counts from 1970, and times of intervals from there.
pub fn head(started: Duration, about: &str) -> String {
    let mut builder = IntervalLogWriterBuilder::new();
    builder
        .add_comment(about)
        .add_comment("[Histogram log format version 1.3]")
        .with_start_time(UNIX_EPOCH + started)
        .with_max_value_divisor(MAX_VALUE_DIVISOR);
    written(&builder, |_| ()) + LEGEND
}

/// The line of an interval that begins `at` after the start and is so long.
pub fn line(histogram: &Histogram, at: Duration, length: Duration) -> String {
    let mut builder = IntervalLogWriterBuilder::new();
    builder.with_max_value_divisor(MAX_VALUE_DIVISOR);
    let microseconds = histogram.in_microseconds();
    let text = written(&builder, |log| {
        log.write_histogram(&microseconds, at, length, None).expect("a vector takes every byte");
    });
    // The head of the log has said the divisor.
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
        // Its reader knows no legend, unlike those of Java and C.
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

    /// Base64 (RFC 4648) that we know to be whole.
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
