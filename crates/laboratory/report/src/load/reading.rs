//! What is read of a run: shares, spreads over its seconds, what the client took.

use measure::histogram::Histogram;
use measure::kind::Kind;
use measure::metric::Metric;
use measure::quantity::Share;
use measure::record::{Latencies, Record, Second};
use measure::statistics::Spread;

/// The metrics of a run that have a spread over its seconds; the first ones are the main ones.
pub(crate) const METRICS: [Metric; 5] = [
    Metric::Rate,
    Metric::MeanResponse,
    Metric::P99Response,
    Metric::AttemptedRate,
    Metric::FailedRate,
];

/// How many of them have cards of their own on a page, and their ids there.
pub(crate) const CARDS: usize = 3;

/// How long the load was, in seconds.
pub(crate) fn elapsed_s(record: &Record) -> f64 {
    record.elapsed_ns as f64 / 1e9
}

/// The seconds that lie in the load as a whole. Only they are samples.
pub(crate) fn whole_seconds(record: &Record) -> impl Iterator<Item = &Second> {
    /// A load that ends this much too early has still filled its last second.
    const TOLERANCE_S: f64 = 1e-3;
    let end = elapsed_s(record) + TOLERANCE_S;
    let seconds = record.seconds.iter();
    seconds.filter(move |second| second.at_s as f64 + 1.0 <= end)
}

/// The spread of a metric over whole seconds.
pub(crate) fn spread(record: &Record, metric: Metric) -> Option<Spread> {
    let samples = whole_seconds(record).filter_map(|second| metric.of_second(second));
    Spread::of(&samples.collect::<Vec<_>>())
}

/// Handshakes that the client finished, of those kinds.
pub(crate) fn handshakes(record: &Record, wanted: impl Fn(Kind) -> bool) -> u64 {
    let rows = record.handshakes.iter().filter(|row| wanted(row.kind));
    rows.fold(0, |sum, row| sum.saturating_add(row.count))
}

pub(crate) fn resumed(record: &Record) -> Share {
    Share {
        part: handshakes(record, Kind::is_resumption),
        whole: handshakes(record, |_| true),
    }
}

/// CPU time of the client per attempted transaction, in nanoseconds.
pub(crate) fn cpu_per_transaction_ns(record: &Record) -> Option<f64> {
    let attempted = record.totals.attempted;
    (attempted > 0).then(|| record.client.cpu_ns as f64 / attempted as f64)
}

/// `12 % busy in 2 threads`; `None` if the load took no time.
pub(crate) fn client_load(record: &Record) -> Option<String> {
    let threads = record.client.threads.len();
    let time_ns = record.elapsed_ns as f64 * threads as f64;
    let plural = if threads == 1 { "thread" } else { "threads" };
    (time_ns > 0.0).then(|| {
        let percent = record.client.cpu_ns as f64 / time_ns * 100.0;
        format!("{percent:.0} % busy in {threads} {plural}")
    })
}

/// A part of a transaction that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) of: fn(&Latencies) -> &Histogram,
}

pub(crate) const PARTS: [Part; 3] = [
    Part {
        name: "handshake",
        id: "handshake",
        title: "Handshake time",
        of: |it| &it.handshake,
    },
    Part {
        name: "first byte",
        id: "first-byte",
        title: "Time to the first byte",
        of: |it| &it.first_byte,
    },
    Part {
        name: "total",
        id: "total",
        title: "Response time",
        of: |it| &it.total,
    },
];
