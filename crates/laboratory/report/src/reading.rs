//! What is read off a record: rates, spreads and shares. Every figure, table and page asks here.

use std::fmt;

use measure::histogram::Histogram;
use measure::kind::Kind;
use measure::quantity::{Count, Nanoseconds, Share};
use measure::record::{Counts, Record, Second};
use measure::statistics::Spread;

/// How long the load was, in seconds.
pub(crate) fn elapsed_s(record: &Record) -> f64 {
    record.elapsed_ns as f64 / 1e9
}

/// Events a second, over the whole load; `None` if it took no time.
pub(crate) fn per_second(record: &Record, events: u64) -> Option<f64> {
    (record.elapsed_ns > 0).then(|| events as f64 / elapsed_s(record))
}

/// How long a second was: the load may have ended within it, or before what it had begun ended.
pub(crate) fn length_s(record: &Record, second: &Second) -> f64 {
    /// The clock's own steps: less than this is no time.
    const ROUNDING_S: f64 = 1e-3;
    let left = elapsed_s(record) - second.at_s as f64;
    if (ROUNDING_S..1.0 - ROUNDING_S).contains(&left) {
        left
    } else {
        1.0
    }
}

/// The seconds that lie in the load as a whole. Only they are samples of a rate.
pub(crate) fn whole_seconds(record: &Record) -> impl Iterator<Item = &Second> {
    /// A load that ends so much too early has still filled its last second.
    const TOLERANCE_S: f64 = 1e-3;
    let end = elapsed_s(record) + TOLERANCE_S;
    let seconds = record.seconds.iter();
    seconds.filter(move |second| second.at_s as f64 + 1.0 <= end)
}

/// The spread of a figure over whole seconds; those of which it is `None` are no samples.
pub(crate) fn spread(record: &Record, figure: impl Fn(&Second) -> Option<f64>) -> Option<Spread> {
    let samples: Vec<f64> = whole_seconds(record).filter_map(figure).collect();
    Spread::of(&samples)
}

/// A duration of a second, which there is only if something succeeded in it.
pub(crate) fn duration(second: &Second, ns: u64) -> Option<f64> {
    (second.succeeded > 0).then_some(ns as f64)
}

/// Failed transactions of all.
pub(crate) fn loss(counts: Counts) -> Share {
    Share {
        part: counts.failed,
        whole: counts.attempted,
    }
}

/// A share as a number from 0 to 1; 0 of nothing.
pub(crate) fn fraction(share: Share) -> f64 {
    match share.whole {
        0 => 0.0,
        whole => share.part as f64 / whole as f64,
    }
}

/// Handshakes that the client finished, of those kinds.
pub(crate) fn handshakes(record: &Record, wanted: impl Fn(Kind) -> bool) -> u64 {
    let rows = record.handshakes.iter().filter(|row| wanted(row.kind));
    rows.fold(0, |sum, row| sum.saturating_add(row.count))
}

/// Resumed handshakes of all.
pub(crate) fn resumed(record: &Record) -> Share {
    Share {
        part: handshakes(record, Kind::is_resumption),
        whole: handshakes(record, |_| true),
    }
}

/// CPU time of the client for each transaction that was attempted, in nanoseconds.
pub(crate) fn cpu_per_transaction_ns(record: &Record) -> Option<f64> {
    let attempted = record.totals.attempted;
    (attempted > 0).then(|| record.client.cpu_ns as f64 / attempted as f64)
}

/// The share of its threads' time that the client used, from 0 to 1; more if it has other threads.
pub(crate) fn client_load(record: &Record) -> Option<f64> {
    let time_ns = record.elapsed_ns as f64 * record.client.threads.len() as f64;
    (time_ns > 0.0).then(|| record.client.cpu_ns as f64 / time_ns)
}

/// How late transactions began, over all threads.
pub(crate) fn lag(record: &Record) -> Histogram {
    let mut sum = Histogram::default();
    for thread in &record.client.threads {
        sum.add(&thread.lag);
    }
    sum
}

/// A setting's value, if the record names it.
pub(crate) fn setting<'a>(record: &'a Record, name: &str) -> Option<&'a str> {
    let found = record.settings.iter().find(|setting| setting.name == name);
    found.map(|setting| setting.value.as_str())
}

/// In what an amount is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unit {
    /// Events, or events a second.
    Count,
    /// Nanoseconds.
    Nanoseconds,
}

/// A figure, for people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) value: f64,
    pub(crate) unit: Unit,
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            Unit::Count => Count(rounded(self.value)).fmt(f),
            Unit::Nanoseconds => Nanoseconds(self.value).fmt(f),
        }
    }
}

/// A rate that differs from a whole number by less than it is shown with is whole.
fn rounded(value: f64) -> f64 {
    let whole = value.round();
    if (value - whole).abs() < 0.005 {
        whole
    } else {
        value
    }
}
