//! Makes the tables and sheets of runs.

use measure::histogram::Histogram;
use measure::metric::Metric;
use measure::quantity::{Nanoseconds, Percentage, RoundedCount};
use measure::record::{HandshakeCounts, LoadRecord, LoadSecond, PlanStep, RequestResult};
use measure::statistics::Spread;

use super::reading::{
    CARDS, METRICS, PARTS, ReadOffRate, conditions, cpu_per_transaction_ns, read_offs, resumed,
    spread,
};
use super::time_series::Timeline;
use crate::document::{Cell, DataSheet, NONE, ReportTable, cells, number};
use crate::words::{id_part, in_percent, joined, titled};

/// Returns the head of a row, for people.
pub(crate) fn title(metric: Metric) -> String {
    titled(&metric.title(""))
}

/// Formats a value in a suitable unit.
pub(crate) fn shown(metric: Metric, value: Option<f64>) -> Cell {
    Cell::maybe(value.map(|value| metric.fitted(value)))
}

pub(crate) fn failed_share(counts: measure::record::TransactionCounts) -> Percentage {
    Percentage { part: counts.failed, whole: counts.attempted }
}

type SpreadColumn = (&'static str, fn(&Spread) -> f64);

const SPREAD: [SpreadColumn; 4] = [
    ("median", |it| it.median),
    ("min", |it| it.min),
    ("max", |it| it.max),
    ("deviation", |it| it.deviation),
];

/// Shows metrics of the whole run with their spread over the seconds.
pub(crate) fn spreads(record: &LoadRecord) -> ReportTable {
    let heads = ["<", "whole run", "median", "min", "max", "deviation"];
    let mut table = ReportTable::new("Spread over the whole seconds of the run", heads);
    for (index, metric) in METRICS.into_iter().enumerate() {
        let Some(whole) = metric.of(record) else {
            continue;
        };
        let mut cell = shown(metric, Some(whole));
        if index >= CARDS {
            cell = cell.id(metric.id(), whole);
        }
        let spread = spread(record, metric);
        let parts = SPREAD.iter().map(|(name, of)| match spread.as_ref().map(of) {
            Some(value) => shown(metric, Some(value)).id(format!("{}-{name}", metric.id()), value),
            None => Cell::from(NONE),
        });
        table.row([title(metric).into(), cell].into_iter().chain(parts));
    }
    table
}

/// Quantiles of the durations in a table, and in a sheet.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
const SHEET_QUANTILES: [f64; 7] = [0.1, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999];

/// Shows durations by kind: handshake, first byte, total.
pub(crate) fn latencies(record: &LoadRecord) -> ReportTable {
    let heads = ["<", "count", "mean", "p50", "p90", "p99", "p99.9", "max"];
    let mut table = ReportTable::new("How long it took", heads);
    let mut kind_before = None;
    each_part(record, |kind, part, histogram| {
        if kind_before.replace(kind) != Some(kind) {
            table.head(kind);
        }
        let id = format!("{kind}-{}", part.id);
        let time =
            |name: &str, ns: f64| Cell::from(Nanoseconds(ns)).id(format!("{id}-{name}-ns"), ns);
        let count = histogram.count() as f64;
        let count = Cell::from(RoundedCount(count)).id(format!("{id}-count"), count);
        let quantiles =
            QUANTILES.map(|(name, share)| time(name, histogram.quantile_ns(share) as f64));
        let cells = [part.name.into(), count, time("mean", histogram.mean_ns())];
        let max = [time("max", histogram.max_ns() as f64)];
        table.row(cells.into_iter().chain(quantiles).chain(max));
    });
    let failed = &record.failed_after;
    if !failed.is_empty() {
        table.head("failed");
        let time = |ns: f64| Cell::from(Nanoseconds(ns));
        let quantiles = QUANTILES.map(|(_, share)| time(failed.quantile_ns(share) as f64));
        let count = RoundedCount(failed.count() as f64);
        let cells = ["until it failed".into(), count.into(), time(failed.mean_ns())];
        table.row(cells.into_iter().chain(quantiles).chain([time(failed.max_ns() as f64)]));
    }
    table
}

/// Returns that table as a sheet.
pub(crate) fn latency_sheet(record: &LoadRecord) -> DataSheet {
    let heads = "kind part count mean_ns deviation_ns min_ns p10_ns p50_ns p75_ns p90_ns p99_ns \
                 p99.9_ns p99.99_ns max_ns";
    let mut rows = Vec::new();
    each_part(record, |kind, part, histogram| {
        let mut numbers = vec![
            histogram.count(),
            histogram.mean_ns().round() as u64,
            histogram.deviation_ns().round() as u64,
            histogram.min_ns(),
        ];
        numbers.extend(SHEET_QUANTILES.map(|share| histogram.quantile_ns(share)));
        numbers.push(histogram.max_ns());
        let names = [kind.to_owned(), part.id.to_owned()].into_iter();
        rows.push(names.chain(numbers.iter().map(ToString::to_string)).collect());
    });
    sheet("latencies", heads, rows)
}

fn each_part(
    record: &LoadRecord,
    mut of: impl FnMut(&'static str, &super::reading::TransactionPart, &Histogram),
) {
    for (kind, latencies) in &record.latencies {
        for part in &PARTS {
            let histogram = (part.of)(latencies);
            if !histogram.is_empty() {
                of(kind.name(), part, histogram);
            }
        }
    }
}

/// The heads stand between blanks.
fn sheet(name: &str, heads: &'static str, rows: Vec<Vec<String>>) -> DataSheet {
    DataSheet { name: name.to_owned(), heads: heads.split(' ').collect(), rows }
}

pub(crate) fn handshakes(record: &LoadRecord) -> ReportTable {
    let heads = ["<", "<version", "count", "share", "<negotiated"];
    let mut table = ReportTable::new("Handshakes as the client saw them, warm-up included", heads);
    let mut rows: Vec<&HandshakeCounts> = record.handshakes.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    let whole = resumed(record).whole;
    for row in rows {
        let part = row.count;
        let (count, share) = (RoundedCount(part as f64), Percentage { part, whole });
        table.row(cells![row.kind.name(), &row.version, count, share, negotiated(row)]);
    }
    table
}

fn negotiated(row: &HandshakeCounts) -> String {
    let mut words = vec![row.suite.clone()];
    words.extend([&row.group, &row.signature].into_iter().flatten().cloned());
    words.extend(row.alpn.as_ref().map(|alpn| format!("ALPN {alpn}")));
    words.extend(row.retried.then(|| "hello retry request".to_owned()));
    words.extend(row.early_data_accepted.map(|is_accepted| {
        let came = if is_accepted { "accepted" } else { "rejected" };
        format!("early data {came}")
    }));
    words.extend(row.ech.map(|fate| format!("ECH {}", fate.name())));
    words.join(", ")
}

/// Shows failures by reason, the most frequent first.
pub(crate) fn failures(record: &LoadRecord) -> ReportTable {
    let mut table = ReportTable::new("Failed transactions by reason", ["<", "count", "of all"]);
    let mut rows: Vec<_> = record.failures.iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (reason, &part) in rows {
        let whole = record.totals.attempted;
        let id = format!("failure-{}", id_part(reason));
        let count = Cell::from(RoundedCount(part as f64)).id(id, part as f64);
        table.row([reason.into(), count, Percentage { part, whole }.into()]);
    }
    table
}

/// Shows transactions by address, if there are several.
pub(crate) fn addresses(record: &LoadRecord) -> ReportTable {
    let heads = ["<", "ended", "succeeded", "failed", "failed, of all"];
    let mut table = ReportTable::new("Transactions by address", heads);
    for (address, counts) in &record.addresses {
        let cells = [counts.attempted, counts.succeeded, counts.failed];
        let cells = cells.map(|count| Cell::from(RoundedCount(count as f64)));
        let row = [address.into()].into_iter().chain(cells);
        table.row(row.chain([failed_share(*counts).into()]));
    }
    table
}

/// Maximum rows of the table of requests; the record has all.
const REQUEST_ROWS_MAX: usize = 50;

/// Shows transactions by request, if there are several, the most frequent first.
pub(crate) fn requests(record: &LoadRecord) -> ReportTable {
    let heads = ["<", "weight", "ended", "failed", "failed, of all", "mean", "p50", "p99", "max"];
    let mut rows: Vec<_> = record.plan.requests.iter().zip(&record.requests).collect();
    rows.sort_by_key(|(_, result)| std::cmp::Reverse(result.counts.attempted));
    let caption = match rows.len() {
        few if few <= REQUEST_ROWS_MAX => "Transactions by request".to_owned(),
        many => format!("The {REQUEST_ROWS_MAX} most frequent of {many} requests"),
    };
    let mut table = ReportTable::new(caption, heads);
    for (request, RequestResult { counts, total }) in rows.into_iter().take(REQUEST_ROWS_MAX) {
        let whole = [counts.attempted, counts.failed];
        let [ended, failed] = whole.map(|count| Cell::from(RoundedCount(count as f64)));
        let times =
            [total.mean_ns(), total.quantile_ns(0.5) as f64, total.quantile_ns(0.99) as f64];
        let times = times.into_iter().chain([total.max_ns() as f64]);
        let name = format!("{} {}", request.method, request.path);
        let weight = RoundedCount(f64::from(request.weight));
        let row = [name.into(), Cell::from(weight), ended, failed, failed_share(*counts).into()];
        let shown = |ns| if total.is_empty() { NONE.into() } else { time(ns) };
        table.row(row.into_iter().chain(times.map(shown)));
    }
    table
}

/// A column of seconds: head of the table, head of the sheet, value; where a row is of several
/// seconds, its counts are sums and other values the greatest.
type SecondColumn = (&'static str, &'static str, fn(&LoadSecond) -> u64);

const SECOND_COUNTS: [SecondColumn; 5] = [
    ("attempted", "attempted", |it| it.attempted),
    ("succeeded", "succeeded", |it| it.succeeded),
    ("failed", "failed", |it| it.failed),
    ("full", "full", |it| it.full),
    ("resumed", "resumed", |it| it.resumed),
];

const SECOND_TIMES: [SecondColumn; 4] = [
    ("mean", "mean_ns", |it| it.mean_ns),
    ("median", "median_ns", |it| it.median_ns),
    ("p99", "p99_ns", |it| it.p99_ns),
    ("max", "max_ns", |it| it.max_ns),
];

/// Shows seconds, in at most `rows_max` rows.
pub(crate) fn seconds(record: &LoadRecord, rows_max: usize) -> ReportTable {
    let (groups, length_s) = Timeline::from(record).groups(rows_max);
    let caption = match length_s {
        1 => "Second by second".to_owned(),
        _ => format!("{length_s} s per row: sums of counts, the longest of times"),
    };
    let columns = SECOND_COUNTS.iter().chain(&SECOND_TIMES).map(|column| column.0);
    let mut table = ReportTable::new(caption, ["s"].into_iter().chain(columns).chain(["open"]));
    for seconds in groups {
        let greatest = |of: fn(&LoadSecond) -> u64| seconds.iter().map(of).max().unwrap_or(0);
        let counts = SECOND_COUNTS.map(|(_, _, of)| {
            let sum = seconds.iter().map(of).fold(0, u64::saturating_add);
            Cell::from(RoundedCount(sum as f64))
        });
        let times = SECOND_TIMES.map(|(_, _, of)| time(greatest(of) as f64));
        let at = Cell::from(seconds.first().map_or(0, |second| second.at_s));
        let open = Cell::from(RoundedCount(greatest(|second| second.open) as f64));
        table.row([at].into_iter().chain(counts).chain(times).chain([open]));
    }
    table
}

/// Returns that table as a sheet, a row per second.
pub(crate) fn second_sheet(record: &LoadRecord) -> DataSheet {
    let columns = SECOND_COUNTS.iter().chain(&SECOND_TIMES).map(|column| column.1);
    let row = |second: &LoadSecond| {
        let counts = SECOND_COUNTS.map(|(_, _, of)| of(second).to_string());
        // A second without successes has no times.
        let times = SECOND_TIMES.map(|(_, _, of)| match second.succeeded {
            0 => String::new(),
            _ => of(second).to_string(),
        });
        let (at, open) = (second.at_s.to_string(), second.open.to_string());
        [at].into_iter().chain(counts).chain(times).chain([open]).collect()
    };
    DataSheet {
        name: "seconds".to_owned(),
        heads: ["at_s"].into_iter().chain(columns).chain(["open"]).collect(),
        rows: record.seconds.iter().map(row).collect(),
    }
}

/// Shows steps in their order in time; none if there is one rate only.
pub(crate) fn steps(record: &LoadRecord) -> ReportTable {
    let quantile = record.capacity.as_ref().map(|it| it.limit).unwrap_or_default().quantile_name();
    let heads = "from length offered/s succeeded/s failed mean".split(' ');
    let mut table = ReportTable::new("Steps, as they were made", heads.chain([quantile.as_str()]));
    if record.steps.len() < 2 && record.capacity.is_none() {
        return table;
    }
    for step in &record.steps {
        let rate = |per_s: f64| Cell::from(Metric::Rate.fitted(per_s));
        let from = Metric::Rate.fitted(step.from_ns as f64 / 1e9);
        table.row(cells![
            format!("{from} s"),
            Nanoseconds(step.length_ns as f64),
            rate(step.point.offered_per_s),
            rate(step.point.succeeded_per_s),
            failed_share(step.counts),
            time(step.point.mean_ns),
            time(step.point.quantile_ns),
        ]);
    }
    table
}

/// Returns that table as a sheet.
pub(crate) fn step_sheet(record: &LoadRecord) -> DataSheet {
    let heads = "from_s length_s offered_per_s succeeded_per_s attempted succeeded failed \
                 error_rate mean_ns quantile_ns";
    let row = |step: &PlanStep| {
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
            Some(point.error_rate),
            time(point.mean_ns),
            time(point.quantile_ns),
        ];
        values.map(number).to_vec()
    };
    sheet("steps", heads, record.steps.iter().map(row).collect())
}

fn time(ns: f64) -> Cell {
    Cell::maybe((ns > 0.0).then_some(Nanoseconds(ns)))
}

/// Shows the search and its finding, and the four read-offs.
pub(crate) fn capacity(record: &LoadRecord) -> ReportTable {
    let caption = match record.steps.len() {
        0 => "Greatest rates of success, read off the ramp; ±: one step of it",
        _ => "Greatest rates of success, read off the steps; ±: from one to the next",
    };
    let mut table = ReportTable::new(caption, ["<", ""]);
    let mut line = |name: &str, id: &str, rate: Option<ReadOffRate>| {
        let cell = match rate {
            Some(rate) => {
                let step = rate.step.map_or_else(String::new, in_percent);
                Cell::from(joined([rate.to_string(), step], " ")).id(id, rate.per_s)
            }
            None => Cell::from("nothing kept it"),
        };
        table.row([name.into(), cell]);
    };
    if let Some(capacity) = &record.capacity {
        let broken = capacity.broken_at_per_s;
        let is_open = broken.is_none();
        let reached = |per_s, is_open| ReadOffRate { per_s, is_open, step: None };
        let found = capacity.found_per_s.map(|per_s| reached(per_s, is_open));
        line(&capacity.limit.to_string(), "capacity-per-s", found);
        if let Some(broken) = broken {
            let broken = Some(reached(broken, false));
            line("… broken when offered", "broken-at-per-s", broken);
        }
    }
    for it in read_offs(record) {
        line(it.name, it.metric.id(), it.rate);
    }
    table
}

/// Makes a row per record.
pub(crate) fn side_by_side(records: &[&LoadRecord]) -> ReportTable {
    let heads = "run succeeded/s min max mean p99 failed resumed".split(' ');
    let caption = "Runs side by side; min and max are of their seconds";
    let mut table = ReportTable::new(caption, heads.chain(["CPU each"]));
    for (index, record) in records.iter().enumerate() {
        let metric = |metric: Metric| shown(metric, metric.of(*record));
        let rates = spread(record, Metric::Rate);
        let rate = |of: fn(Spread) -> f64| shown(Metric::Rate, rates.map(of));
        let resumed = resumed(record);
        table.row([
            (index + 1).into(),
            metric(Metric::Rate),
            rate(|it| it.min),
            rate(|it| it.max),
            metric(Metric::MeanResponse),
            metric(Metric::P99Response),
            failed_share(record.totals).into(),
            Cell::maybe((resumed.whole > 0).then_some(resumed)),
            Cell::maybe(cpu_per_transaction_ns(record).map(Nanoseconds)),
        ]);
    }
    table
}

/// Shows runs that do not differ, with the spread over them.
pub(crate) fn repeats(records: &[&LoadRecord]) -> ReportTable {
    let heads = ["<runs", "<", "median", "min", "max", "deviation"];
    let caption = "Runs that differ in nothing, and the spread over them";
    let mut table = ReportTable::new(caption, heads);
    let all: Vec<_> = records.iter().map(|record| conditions(record)).collect();
    for (index, first) in all.iter().enumerate() {
        let runs: Vec<usize> = (0..all.len()).filter(|run| all[*run] == *first).collect();
        if runs.len() < 2 || runs[0] != index {
            continue;
        }
        let mut label = joined(runs.iter().map(|run| (run + 1).to_string()), ", ");
        for metric in &METRICS[..CARDS] {
            let samples = runs.iter().filter_map(|run| metric.of(records[*run]));
            let Some(spread) = Spread::of(&samples.collect::<Vec<_>>()) else {
                continue;
            };
            let cells = [std::mem::take(&mut label).into(), title(*metric).into()];
            let values = SPREAD.map(|(_, of)| shown(*metric, Some(of(&spread))));
            table.row(cells.into_iter().chain(values));
        }
    }
    table
}
