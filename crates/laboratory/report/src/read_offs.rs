//! The four read-offs of Bernat's method (2011) as they are told: rates, and whether the load went
//! far enough to find them.

use std::fmt;

use measure::capacity::{Point, ReadOffs};
use measure::record::Record;

use crate::points::points;
use crate::reading::{Amount, Unit};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadOff {
    /// Its stable name on the page.
    pub(crate) id: &'static str,
    /// For people.
    pub(crate) name: &'static str,
    /// In a word, where others tell what it is about.
    pub(crate) short: &'static str,
    /// The greatest rate of successes that kept it, if any did.
    pub(crate) per_s: Option<f64>,
    /// Whether nothing broke it: then more may be possible than was offered.
    pub(crate) is_open: bool,
}

/// A rate that was read off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    pub(crate) per_s: f64,
    /// Whether more may be possible.
    pub(crate) is_open: bool,
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = Amount {
            value: self.per_s,
            unit: Unit::Count,
        };
        let more = if self.is_open { " or more" } else { "" };
        write!(f, "{rate}/s{more}")
    }
}

/// All four, the loosest first; none if the record has one rate only.
pub(crate) fn read_offs(record: &Record) -> Vec<ReadOff> {
    let points = points(record);
    let read = match &record.capacity {
        Some(capacity) => capacity.read_offs,
        None if points.is_empty() => return Vec::new(),
        None => ReadOffs::of(&points),
    };
    // Past a peak no rate is greater, whatever limit it keeps.
    let is_rising = points.last().map(|point| point.succeeded_per_s) == read.peak_per_s;
    let never = |is_broken: fn(&Point) -> bool| is_rising && !points.iter().any(is_broken);
    let read_off = |id, name, short, per_s, is_open| ReadOff {
        id,
        name,
        short,
        per_s,
        is_open,
    };
    let (peak, slow, fast) = (
        read.peak_per_s,
        read.under_500_ms_per_s,
        read.under_100_ms_per_s,
    );
    let [is_slow, is_fast, is_clean] = [
        never(|point| point.mean_ns >= 500e6),
        never(|point| point.mean_ns >= 100e6),
        never(|point| point.loss >= 1e-4),
    ];
    let few = read.few_errors_per_s;
    vec![
        read_off(
            "peak-per-s",
            "peak, whatever it takes",
            "peak",
            peak,
            is_rising,
        ),
        read_off(
            "under-500-ms-per-s",
            "mean < 500 ms",
            "< 500 ms",
            slow,
            is_slow,
        ),
        read_off(
            "under-100-ms-per-s",
            "mean < 100 ms",
            "< 100 ms",
            fast,
            is_fast,
        ),
        read_off(
            "few-errors-per-s",
            "errors < 0.01 %",
            "few errors",
            few,
            is_clean,
        ),
    ]
}
