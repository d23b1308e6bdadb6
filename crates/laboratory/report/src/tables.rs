//! The tables of one record.

use measure::capacity::Point;
use measure::histogram::Histogram;
use measure::quantity::{Count, Nanoseconds, Share};
use measure::record::{Handshakes, Record, Second};
use measure::statistics::Spread;

use crate::headline::{CARDS, Headline, headlines};
use crate::hostile::harmless;
use crate::limit::Limit;
use crate::read_offs::{Reached, read_offs};
use crate::reading::{Amount, Unit, loss, resumed};
use crate::table::{Cell, Table};
use crate::track::groups;

/// Stands where there is no value.
pub(crate) const NONE: &str = "–";

/// Figures of the whole run with their spread over the seconds.
pub(crate) fn spreads(record: &Record) -> Table {
    let heads = ["<", "whole run", "median", "min", "max", "deviation"];
    let mut table = Table::new("Spread over the whole seconds of the run", &heads);
    for (index, figure) in headlines(record).iter().enumerate() {
        let Some(whole) = figure.whole else { continue };
        let cell = Cell::of(figure.amount(whole));
        let whole = match index {
            ..CARDS => cell,
            _ => cell.named(figure.id, whole),
        };
        let cells = [Cell::from(figure.name), whole];
        table.row(cells.into_iter().chain(parts(figure)).collect());
    }
    table
}

fn parts(figure: &Headline) -> [Cell; 4] {
    let part = |name: &str, of: fn(&Spread) -> f64| match figure.spread.as_ref().map(of) {
        Some(value) => Cell::of(figure.amount(value)).named(format!("{}-{name}", figure.id), value),
        None => Cell::from(NONE),
    };
    [
        part("median", |spread| spread.median),
        part("min", |spread| spread.min),
        part("max", |spread| spread.max),
        part("deviation", |spread| spread.deviation),
    ]
}

/// The shares of the durations that are told of each histogram, with their heads.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// How long it took, by kind: handshake, first byte, total.
pub(crate) fn latencies(record: &Record) -> Table {
    let heads = ["<", "count", "mean", "p50", "p90", "p99", "p99.9", "max"];
    let mut table = Table::new("How long it took, of those that succeeded", &heads);
    for (kind, latencies) in &record.latencies {
        let parts = [
            ("handshake", &latencies.handshake),
            ("first byte", &latencies.first_byte),
            ("total", &latencies.total),
        ];
        let filled = parts.into_iter().filter(|(_, part)| !part.is_empty());
        for (index, (name, histogram)) in filled.enumerate() {
            if index == 0 {
                table.head(kind.name());
            }
            let id = format!("{}-{}", kind.name(), name.replace(' ', "-"));
            table.row(durations(name, &id, histogram));
        }
    }
    table
}

fn durations(name: &str, id: &str, histogram: &Histogram) -> Vec<Cell> {
    let cell = |ns: f64, part: &str| Cell::of(Nanoseconds(ns)).named(format!("{id}-{part}-ns"), ns);
    let count = histogram.count() as f64;
    let mut cells = vec![
        Cell::from(name),
        Cell::of(Count(count)).named(format!("{id}-count"), count),
        cell(histogram.mean_ns(), "mean"),
    ];
    let quantile = |(head, share): (&str, f64)| cell(histogram.quantile_ns(share) as f64, head);
    cells.extend(QUANTILES.map(quantile));
    cells.push(cell(histogram.max_ns() as f64, "max"));
    cells
}

/// What was negotiated, the most frequent first.
pub(crate) fn handshakes(record: &Record) -> Table {
    let heads = ["<", "<version", "count", "share", "<negotiated"];
    let mut table = Table::new(
        "Handshakes as the client saw them, warm-up included",
        &heads,
    );
    let mut rows: Vec<&Handshakes> = record.handshakes.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    let whole = resumed(record).whole;
    for row in rows {
        table.row(vec![
            Cell::from(row.kind.name()),
            Cell::of(harmless(&row.version)),
            Cell::of(Count(row.count as f64)),
            Cell::of(Share {
                part: row.count,
                whole,
            }),
            Cell::of(negotiated(row)),
        ]);
    }
    table
}

fn negotiated(row: &Handshakes) -> String {
    let mut words = vec![harmless(&row.suite)];
    words.extend(row.group.as_deref().map(harmless));
    words.extend(row.signature.as_deref().map(harmless));
    words.extend(
        row.alpn
            .as_deref()
            .map(|alpn| format!("ALPN {}", harmless(alpn))),
    );
    if row.retried {
        words.push("second hello asked for".to_owned());
    }
    words.extend(row.early_data_accepted.map(|accepted| match accepted {
        true => "early data accepted".to_owned(),
        false => "early data refused".to_owned(),
    }));
    words.join(", ")
}

/// Failures by reason, the most frequent first.
pub(crate) fn failures(record: &Record) -> Table {
    let mut table = Table::new("Failed transactions by reason", &["<", "count", "of all"]);
    let mut rows: Vec<_> = record.failures.iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (reason, &count) in rows {
        let reason = harmless(reason);
        let share = Share {
            part: count,
            whole: record.totals.attempted,
        };
        let name = format!("failure-{}", identifier(&reason));
        table.row(vec![
            Cell::of(&reason),
            Cell::of(Count(count as f64)).named(name, count as f64),
            Cell::of(share),
        ]);
    }
    table
}

/// Letters, digits and hyphens alone, so that it can be part of an `id`.
fn identifier(text: &str) -> String {
    let letter = |c: char| match c {
        _ if c.is_ascii_alphanumeric() => c.to_ascii_lowercase(),
        _ => '-',
    };
    text.chars().map(letter).collect()
}

/// Seconds, in at most so many rows; where a row is of several, its counts are sums and its times
/// the longest.
pub(crate) fn seconds(record: &Record, rows_max: usize) -> Table {
    let (groups, length_s) = groups(record, rows_max);
    let caption = match length_s {
        1 => "Second by second".to_owned(),
        _ => format!("{length_s} s a row: sums of counts, the longest of times"),
    };
    let heads = [
        "s",
        "attempted",
        "succeeded",
        "failed",
        "full",
        "resumed",
        "mean",
        "median",
        "p99",
        "max",
        "open",
    ];
    let mut table = Table::new(&caption, &heads);
    for seconds in groups {
        let sum = |of: fn(&Second) -> u64| {
            let all = seconds.iter().map(of).fold(0, u64::saturating_add);
            Cell::of(Count(all as f64))
        };
        let greatest = |of: fn(&Second) -> u64| seconds.iter().map(of).max().unwrap_or(0);
        let longest = |of: fn(&Second) -> u64| time(greatest(of) as f64);
        table.row(vec![
            Cell::of(seconds.first().map_or(0, |second| second.at_s)),
            sum(|second| second.attempted),
            sum(|second| second.succeeded),
            sum(|second| second.failed),
            sum(|second| second.full),
            sum(|second| second.resumed),
            longest(|second| second.mean_ns),
            longest(|second| second.median_ns),
            longest(|second| second.p99_ns),
            longest(|second| second.max_ns),
            Cell::of(Count(greatest(|second| second.open) as f64)),
        ]);
    }
    table
}

/// Steps in the order in which they were made; none if there is one rate only.
pub(crate) fn steps(record: &Record) -> Table {
    let has_one_rate = record.steps.len() < 2 && record.capacity.is_none();
    let limit = record.capacity.as_ref().map(|it| Limit::parse(&it.limit));
    let quantile = limit.and_then(|limit| limit.quantile);
    let quantile = quantile.as_deref().unwrap_or("p99");
    let heads = [
        "from",
        "length",
        "offered/s",
        "succeeded/s",
        "failed",
        "mean",
        quantile,
    ];
    let mut table = Table::new("Steps, as they were made", &heads);
    if has_one_rate {
        return table;
    }
    for step in &record.steps {
        let Point {
            offered_per_s,
            succeeded_per_s,
            mean_ns,
            quantile_ns,
            ..
        } = step.point;
        table.row(vec![
            Cell::of(format!("{} s", count(step.from_ns as f64 / 1e9))),
            Cell::of(Nanoseconds(step.length_ns as f64)),
            rate(offered_per_s),
            rate(succeeded_per_s),
            Cell::of(loss(step.counts)),
            time(mean_ns),
            time(quantile_ns),
        ]);
    }
    table
}

fn rate(value: f64) -> Cell {
    Cell::of(count(value))
}

fn count(value: f64) -> Amount {
    Amount {
        value,
        unit: Unit::Count,
    }
}

fn time(ns: f64) -> Cell {
    if ns > 0.0 {
        Cell::of(Nanoseconds(ns))
    } else {
        Cell::from(NONE)
    }
}

/// What was searched and found, and the four read-offs of the method.
pub(crate) fn capacity(record: &Record) -> Table {
    let caption = match record.steps.len() {
        0 => "Greatest rates of success, read off the seconds of the ramp",
        _ => "Greatest rates of success, read off the steps",
    };
    let mut table = Table::new(caption, &["<", ""]);
    let mut line = |name: &str, id: &str, rate: Option<Reached>| {
        let cell = match rate {
            Some(rate) => Cell::of(rate).named(id, rate.per_s),
            None => Cell::from("nothing kept it"),
        };
        table.row(vec![Cell::of(harmless(name)), cell]);
    };
    let reached = |rate: Option<f64>, is_open| {
        Some(Reached {
            per_s: rate?,
            is_open,
        })
    };
    if let Some(capacity) = &record.capacity {
        let broken = capacity.broken_at_per_s;
        let found = reached(capacity.found_per_s, broken.is_none());
        line(&capacity.limit, "capacity-per-s", found);
        if broken.is_some() {
            line(
                "… broken when offered",
                "broken-at-per-s",
                reached(broken, false),
            );
        }
    }
    for read_off in read_offs(record) {
        let rate = reached(read_off.per_s, read_off.is_open);
        line(read_off.name, read_off.id, rate);
    }
    table
}
