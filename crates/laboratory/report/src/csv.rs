//! A record's figures as CSV (RFC 4180): a head, a row each, plain numbers with the unit in the
//! head's name. A field is empty where there is no value.

use std::fmt::Write;

use measure::histogram::Histogram;
use measure::record::Record;

/// A table as the text of a file.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// What it holds, as part of a file's name: `seconds`, `latencies` or `steps`.
    pub name: &'static str,
    /// The text.
    pub csv: String,
}

/// All tables that a record has.
#[must_use]
pub fn of_record(record: &Record) -> Vec<Sheet> {
    let sheets = [
        ("seconds", seconds(record), record.seconds.is_empty()),
        ("latencies", latencies(record), record.latencies.is_empty()),
        ("steps", steps(record), record.steps.is_empty()),
    ];
    let filled = sheets.into_iter().filter(|(_, _, is_empty)| !is_empty);
    filled.map(|(name, csv, _)| Sheet { name, csv }).collect()
}

/// A row a second.
#[must_use]
pub fn seconds(record: &Record) -> String {
    let mut text =
        "at_s,attempted,succeeded,failed,full,resumed,mean_ns,median_ns,p99_ns,max_ns,open\n"
            .to_owned();
    for second in &record.seconds {
        let counts = [
            second.at_s,
            second.attempted,
            second.succeeded,
            second.failed,
            second.full,
            second.resumed,
        ];
        let times = [
            second.mean_ns,
            second.median_ns,
            second.p99_ns,
            second.max_ns,
        ];
        // Of none that succeeded there is no time.
        let times = times.map(|ns| (second.succeeded > 0).then_some(ns));
        let counts = counts.map(Some).into_iter();
        row(&mut text, counts.chain(times).chain([Some(second.open)]));
    }
    text
}

/// The shares of the durations that are told, with the names of their columns.
const QUANTILES: [(&str, f64); 7] = [
    ("p10_ns", 0.1),
    ("p50_ns", 0.5),
    ("p75_ns", 0.75),
    ("p90_ns", 0.9),
    ("p99_ns", 0.99),
    ("p99.9_ns", 0.999),
    ("p99.99_ns", 0.9999),
];

/// A row for each kind and part of a transaction.
#[must_use]
pub fn latencies(record: &Record) -> String {
    let quantiles = QUANTILES.map(|(name, _)| name).join(",");
    let mut text = format!("kind,part,count,mean_ns,deviation_ns,min_ns,{quantiles},max_ns\n");
    for (kind, latencies) in &record.latencies {
        let parts = [
            ("handshake", &latencies.handshake),
            ("first-byte", &latencies.first_byte),
            ("total", &latencies.total),
        ];
        for (part, histogram) in parts.into_iter().filter(|(_, it)| !it.is_empty()) {
            let _ = write!(text, "{},{part},", kind.name());
            durations(&mut text, histogram);
        }
    }
    text
}

fn durations(text: &mut String, histogram: &Histogram) {
    let mut values = vec![
        histogram.count(),
        histogram.mean_ns().round() as u64,
        histogram.deviation_ns().round() as u64,
        histogram.min_ns(),
    ];
    values.extend(QUANTILES.map(|(_, share)| histogram.quantile_ns(share)));
    values.push(histogram.max_ns());
    row(text, values.into_iter().map(Some));
}

/// A row a step.
#[must_use]
pub fn steps(record: &Record) -> String {
    let mut text = "from_s,length_s,offered_per_s,succeeded_per_s,attempted,succeeded,failed,loss,\
                    mean_ns,quantile_ns\n"
        .to_owned();
    for step in &record.steps {
        let (counts, point) = (step.counts, step.point);
        let time = |ns: f64| (counts.succeeded > 0).then_some(ns);
        let values = [
            Some(step.from_ns as f64 / 1e9),
            Some(step.length_ns as f64 / 1e9),
            Some(point.offered_per_s),
            Some(point.succeeded_per_s),
            Some(counts.attempted as f64),
            Some(counts.succeeded as f64),
            Some(counts.failed as f64),
            Some(point.loss),
            time(point.mean_ns),
            time(point.quantile_ns),
        ];
        row(
            &mut text,
            values
                .map(|value| value.filter(|it| it.is_finite()))
                .into_iter(),
        );
    }
    text
}

fn row<T: ToString>(text: &mut String, values: impl Iterator<Item = Option<T>>) {
    let fields = values.map(|value| value.map_or_else(String::new, |it| it.to_string()));
    *text += &fields.collect::<Vec<_>>().join(",");
    text.push('\n');
}
