//! Reads a load's record for tables and figures: its parts, its plan, and the names that
//! distinguish records; and the results of each offered rate, with the four read-offs of Bernat's
//! method (2011): the greatest rates that kept a limit, and whether the load went far enough to
//! find them.

use std::collections::BTreeSet;
use std::fmt;

use measure::capacity::{self, RatePoint, ReadOffs};
use measure::choice::{Kind, RecordedEch};
use measure::histogram::Histogram;
use measure::metric::Metric;
use measure::quantity::{ByteCount, Nanoseconds, Percentage, RoundedCount};
use measure::record::{
    Latencies, LoadRecord, LoadSecond, PlannedRate, RecordedArrival, RecordedPlan, RecordedRequest,
    RecordedTls,
};
use measure::statistics::Spread;

use crate::document::counted;
use crate::words::joined;

/// Metrics of a run that have a spread over its seconds; the main ones first.
pub(crate) const METRICS: [Metric; 5] = [
    Metric::Rate,
    Metric::MeanResponse,
    Metric::P99Response,
    Metric::AttemptedRate,
    Metric::FailedRate,
];

/// Number of metrics with cards on a page, and their ids there.
pub(crate) const CARDS: usize = 3;

/// Returns the load's duration in seconds.
fn elapsed_s(record: &LoadRecord) -> f64 {
    record.elapsed_ns as f64 / 1e9
}

/// The seconds that lie in the load as a whole. Only they are samples.
fn whole_seconds(record: &LoadRecord) -> impl Iterator<Item = &LoadSecond> {
    /// A load that ends this much too early has still filled its last second.
    const TOLERANCE_S: f64 = 1e-3;
    let end = elapsed_s(record) + TOLERANCE_S;
    record.seconds.iter().filter(move |second| second.at_s as f64 + 1.0 <= end)
}

/// Returns the spread of a metric over whole seconds.
pub(crate) fn spread(record: &LoadRecord, metric: Metric) -> Option<Spread> {
    let samples = whole_seconds(record).filter_map(|second| metric.of_second(second));
    Spread::of(&samples.collect::<Vec<_>>())
}

/// Counts handshakes of those kinds that the client finished.
pub(crate) fn handshakes(record: &LoadRecord, wanted: impl Fn(Kind) -> bool) -> u64 {
    let rows = record.handshakes.iter().filter(|row| wanted(row.kind));
    rows.fold(0, |sum, row| sum.saturating_add(row.count))
}

pub(crate) fn resumed(record: &LoadRecord) -> Percentage {
    Percentage {
        part: handshakes(record, Kind::is_resumption),
        whole: handshakes(record, |_| true),
    }
}

/// Returns the client's CPU time per attempted transaction, in nanoseconds.
pub(crate) fn cpu_per_transaction_ns(record: &LoadRecord) -> Option<f64> {
    let attempted = record.totals.attempted;
    (attempted > 0).then(|| record.client.cpu_ns as f64 / attempted as f64)
}

/// Returns `12 % busy in 2 threads`; `None` if the load took no time.
pub(crate) fn client_load(record: &LoadRecord) -> Option<String> {
    let threads = record.client.threads.len();
    let time_ns = record.elapsed_ns as f64 * threads as f64;
    (time_ns > 0.0).then(|| {
        let percent = record.client.cpu_ns as f64 / time_ns * 100.0;
        format!("{percent:.0} % busy in {}", counted(threads, "thread"))
    })
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionPart {
    pub(crate) name: &'static str,
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) of: fn(&Latencies) -> &Histogram,
}

pub(crate) const PARTS: [TransactionPart; 3] = [
    TransactionPart {
        name: "handshake",
        id: "handshake",
        title: "Handshake time",
        of: |it| &it.handshake,
    },
    TransactionPart {
        name: "first byte",
        id: "first-byte",
        title: "Time to the first byte",
        of: |it| &it.first_byte,
    },
    TransactionPart { name: "total", id: "total", title: "Response time", of: |it| &it.total },
];

/// Conditions of a run: names and values.
type RunConditions = Vec<(String, String)>;

/// Names of flags that do not affect the measurement.
const BESIDE: [&str; 4] = ["record", "quiet", "seed", "expect"];

/// Returns the conditions of a record: the settings, and where and by what it was made. Records
/// with equal ones are repetitions.
pub(crate) fn conditions(record: &LoadRecord) -> RunConditions {
    let mut all = given(record);
    all.retain(|(name, _)| !BESIDE.contains(&name.as_str()));
    let places = [
        ("url", record.target.url.as_str()),
        ("at", &record.target.address),
        ("on", &record.host.cpu),
        ("kernel", &record.host.kernel),
        ("by", &record.tool.version),
    ];
    all.extend(places.map(|(name, value)| (name.to_owned(), value.to_owned())));
    all
}

/// Returns the flags of the command that repeats it, whose values may stand in the next word.
fn given(record: &LoadRecord) -> RunConditions {
    let mut flags: RunConditions = Vec::new();
    for word in &record.command {
        match (word.strip_prefix("--"), flags.last_mut()) {
            (Some(flag), _) => {
                let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
                flags.push((name.to_owned(), value.to_owned()));
            }
            (None, Some((_, value))) => value.push_str(word),
            // The program, the command and the URL.
            (None, None) => {}
        }
    }
    flags
}

fn value_of<'c>(conditions: &'c RunConditions, name: &str) -> Option<&'c str> {
    conditions.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
}

/// Returns how each record differs from the others; its URL if it does not differ.
pub(crate) fn names(records: &[&LoadRecord]) -> Vec<String> {
    let all: Vec<RunConditions> = records.iter().map(|record| conditions(record)).collect();
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in all.iter().flatten() {
        let values: BTreeSet<_> = all.iter().map(|conditions| value_of(conditions, key)).collect();
        if values.len() > 1 && !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    records.iter().zip(&all).map(|(record, conditions)| name(record, conditions, &keys)).collect()
}

fn name(record: &LoadRecord, conditions: &RunConditions, keys: &[&str]) -> String {
    let mut shown = keys.to_vec();
    if shown.contains(&"url") {
        shown.retain(|key| *key != "at");
    }
    let part = |key: &str| match (key, value_of(conditions, key)?) {
        ("url", value) => Some(value.to_owned()),
        (_, "") => Some(key.to_owned()),
        (_, value) => Some(format!("{key} {value}")),
    };
    let parts: Vec<String> = shown.into_iter().filter_map(part).collect();
    if parts.is_empty() { record.target.url.clone() } else { parts.join(", ") }
}

/// Returns names and values, without options that have no effect in this plan.
pub(crate) fn rows(plan: &RecordedPlan) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("source", list(&plan.sources, ToString::to_string)),
        ("send-proxy", shown(plan.proxy_header.map(|it| it.name()))),
        ("move-sessions", shown(plan.move_sessions.then_some("on"))),
    ];
    rows.extend(plan.tls.iter().flat_map(of_tls));
    match &plan.request {
        None if !plan.requests.is_empty() => {
            rows.push(("requests", format!("{} by weight", plan.requests.len())));
        }
        None => rows.push(("request", "none".to_owned())),
        Some(request) => rows.extend(of_request(request)),
    }
    let (kind, arrival) = match &plan.arrival {
        RecordedArrival::Closed(connections) => ("connections", connections.to_string()),
        RecordedArrival::Open(rates) => ("rate", list(rates, rate)),
    };
    rows.extend([
        (kind, arrival),
        ("spacing", shown(plan.spacing.map(|it| it.name()))),
        ("requests-per-arrival", shown(plan.requests_per_arrival)),
        ("clients", plan.clients.to_string()),
        ("client-selection", plan.client_selection.name().to_owned()),
        ("requests-per-session", shown(plan.requests_per_session)),
        ("requests-per-connection", or_unlimited(plan.requests_per_connection)),
        ("think-time", time(plan.think_time_ns)),
        ("close", plan.ending.name().to_owned()),
        ("duration", time(plan.duration_ns)),
        ("count", shown(plan.count_max)),
        ("warm-up", time(plan.warm_up_ns)),
        ("timeout", time(plan.timeout_ns)),
        ("threads", plan.threads.to_string()),
        ("cpus", list(&plan.cpus, ToString::to_string)),
        ("seed", plan.seed.to_string()),
    ]);
    rows.retain(|(_, value)| !value.is_empty());
    rows
}

fn of_request(request: &RecordedRequest) -> [(&'static str, String); 4] {
    let body = Some(request.body_bytes).filter(|bytes| *bytes > 0);
    let header = |(name, value): &(String, String)| format!("{name}: {value}");
    [
        ("method", request.method.clone()),
        ("path", request.path.clone()),
        ("header", list(&request.headers, header)),
        ("body", shown(body.map(ByteCount))),
    ]
}

fn of_tls(tls: &RecordedTls) -> Vec<(&'static str, String)> {
    let on_off = |is_on| if is_on { "on" } else { "off" }.to_owned();
    vec![
        ("starttls", shown(tls.starttls.as_ref())),
        ("tls", tls.versions.name().to_owned()),
        ("handshake", list(&tls.handshakes, |it| it.name().to_owned())),
        ("suites", list(&tls.suites, |it| it.name().to_owned())),
        ("groups", list(&tls.groups, |it| it.name().to_owned())),
        ("signatures", list(&tls.signatures, |it| it.name().to_owned())),
        ("alpn", list(&tls.alpn, Clone::clone)),
        ("server-name", tls.server_name.clone().unwrap_or_else(|| "none".to_owned())),
        ("client-certificate", on_off(tls.client_certificate)),
        ("verify", tls.verify.name().to_owned()),
        ("tickets", on_off(tls.tickets)),
        ("session-ids", on_off(tls.session_ids)),
        ("early-data", on_off(tls.early_data)),
        ("ech", shown(tls.ech.map(RecordedEch::name))),
    ]
}

fn rate(rate: &PlannedRate) -> String {
    let (from, to) = (RoundedCount(rate.from_per_s), RoundedCount(rate.to_per_s));
    let time = Nanoseconds(rate.length_ns as f64);
    if rate.from_per_s == rate.to_per_s {
        format!("{from}/s for {time}")
    } else {
        format!("{from}/s to {to}/s in {time}")
    }
}

fn time(ns: u64) -> String {
    Nanoseconds(ns as f64).to_string()
}

fn shown(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn or_unlimited(bound: Option<u32>) -> String {
    bound.map_or_else(|| "unlimited".to_owned(), |bound| bound.to_string())
}

fn list<T>(values: &[T], text: impl Fn(&T) -> String) -> String {
    joined(values.iter().map(text), ", ")
}

/// Returns points in the order of their rates: of the steps, or of the seconds of a ramp; none if
/// the record has one rate only.
pub(crate) fn points(record: &LoadRecord) -> Vec<RatePoint> {
    let is_search = record.capacity.is_some();
    let mut points: Vec<RatePoint> = match record.steps.len() {
        0 => of_seconds(record).unwrap_or_default(),
        1 if !is_search => Vec::new(),
        _ => record.steps.iter().map(|step| step.point).collect(),
    };
    points.retain(|point| point.offered_per_s.is_finite());
    points.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
    points
}

fn of_seconds(record: &LoadRecord) -> Option<Vec<RatePoint>> {
    /// Maximum points of a curve, so that each covers enough seconds to be stable.
    const POINTS_MAX: usize = 40;
    let seconds: Vec<LoadSecond> = whole_seconds(record).copied().collect();
    let together = seconds.len().div_ceil(POINTS_MAX).max(1);
    seconds.chunks(together).map(|seconds| point(record, seconds)).collect()
}

/// The offered rate is the planned one: a load that lags behind attempts less per second.
fn point(record: &LoadRecord, seconds: &[LoadSecond]) -> Option<RatePoint> {
    let sum =
        |of: fn(&LoadSecond) -> u64| seconds.iter().map(|second| of(second) as f64).sum::<f64>();
    let length_s = seconds.len() as f64;
    let succeeded = sum(|second| second.succeeded);
    let ended = succeeded + sum(|second| second.failed);
    let time_ns = |second: &LoadSecond| second.mean_ns as f64 * second.succeeded as f64;
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let planned = |second: &LoadSecond| record.plan.arrival.ramp_per_s(second.at_s as f64 + 0.5);
    Some(RatePoint {
        offered_per_s: seconds.iter().map(planned).sum::<Option<f64>>()? / length_s,
        succeeded_per_s: succeeded / length_s,
        error_rate: share(ended - succeeded, ended),
        mean_ns: share(seconds.iter().map(time_ns).sum(), succeeded),
        quantile_ns: seconds.iter().map(|it| it.p99_ns).max().unwrap_or(0) as f64,
    })
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadOff {
    pub(crate) metric: Metric,
    pub(crate) name: &'static str,
    pub(crate) short: &'static str,
    /// The greatest rate of success that kept it, if any did.
    pub(crate) rate: Option<ReadOffRate>,
}

/// A rate that was read off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadOffRate {
    pub(crate) per_s: f64,
    /// Whether nothing broke the limit: the capacity may then exceed the offered rate.
    pub(crate) is_open: bool,
    /// Distance between offered rates there, as a share of the rate, if known.
    pub(crate) step: Option<f64>,
}

impl fmt::Display for ReadOffRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.is_open { " or more" } else { "" };
        write!(f, "{}/s{more}", Metric::Rate.fitted(self.per_s))
    }
}

/// Returns all four, the loosest first; none if the record has one rate only.
pub(crate) fn read_offs(record: &LoadRecord) -> Vec<ReadOff> {
    let points = points(record);
    let read = match &record.capacity {
        Some(capacity) => capacity.read_offs,
        None if points.is_empty() => return Vec::new(),
        None => ReadOffs::of(&points),
    };
    // Behind a peak no rate is greater, whatever limit it keeps.
    let is_rising = points.last().map(|point| point.succeeded_per_s) == read.peak_per_s;
    let offered: Vec<_> = points.iter().map(|it| (it.offered_per_s, it.succeeded_per_s)).collect();
    let row = |metric, name, short, per_s: Option<f64>, is_broken: fn(&RatePoint) -> bool| {
        let is_open = is_rising && !points.iter().any(is_broken);
        let rate = per_s.map(|per_s| {
            let step = capacity::step(&offered, per_s);
            ReadOffRate { per_s, is_open, step }
        });
        ReadOff { metric, name, short, rate }
    };
    let (slow, fast) = (read.under_500_ms_per_s, read.under_100_ms_per_s);
    let (peak, few) = (read.peak_per_s, read.few_errors_per_s);
    vec![
        row(Metric::Peak, "peak, whatever it takes", "peak", peak, |_| false),
        row(Metric::Under500Ms, "mean < 500 ms", "< 500 ms", slow, |it| it.mean_ns >= 500e6),
        row(Metric::Under100Ms, "mean < 100 ms", "< 100 ms", fast, |it| it.mean_ns >= 100e6),
        row(Metric::FewErrors, "errors < 0.01 %", "few errors", few, |it| it.error_rate >= 1e-4),
    ]
}
