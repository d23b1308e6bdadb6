//! The results of each offered rate, and the four read-offs of Bernat's method (2011): the greatest
//! rates that kept a limit, and whether the load went far enough to find them.

use std::fmt;

use measure::capacity::{self, RatePoint, ReadOffs};
use measure::metric::Metric;
use measure::record::{LoadRecord, Second};

use super::reading::whole_seconds;

/// Points in the order of their rates: of the steps, or of the seconds of a ramp; none if the
/// record has one rate only.
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
    /// As many points make a curve, and each is of enough seconds not to jump.
    const POINTS_MAX: usize = 40;
    let seconds: Vec<Second> = whole_seconds(record).copied().collect();
    let together = seconds.len().div_ceil(POINTS_MAX).max(1);
    seconds.chunks(together).map(|seconds| point(record, seconds)).collect()
}

/// The offered rate is the planned one: a load that lags behind attempts less per second.
fn point(record: &LoadRecord, seconds: &[Second]) -> Option<RatePoint> {
    let sum = |of: fn(&Second) -> u64| seconds.iter().map(|second| of(second) as f64).sum::<f64>();
    let length_s = seconds.len() as f64;
    let succeeded = sum(|second| second.succeeded);
    let ended = succeeded + sum(|second| second.failed);
    let time_ns = |second: &Second| second.mean_ns as f64 * second.succeeded as f64;
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let planned = |second: &Second| record.plan.arrival.ramp_per_s(second.at_s as f64 + 0.5);
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
    pub(crate) rate: Option<Reached>,
}

/// A rate that was read off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    pub(crate) per_s: f64,
    /// Whether nothing broke the limit: then more may be possible than was offered.
    pub(crate) is_open: bool,
    /// How far apart rates were offered there, as a share of it, if that is known.
    pub(crate) step: Option<f64>,
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.is_open { " or more" } else { "" };
        write!(f, "{}/s{more}", Metric::Rate.fitted(self.per_s))
    }
}

/// All four, the loosest first; none if the record has one rate only.
pub(crate) fn read_offs(record: &LoadRecord) -> Vec<ReadOff> {
    let points = points(record);
    let read = match &record.capacity {
        Some(capacity) => capacity.read_offs,
        None if points.is_empty() => return Vec::new(),
        None => ReadOffs::of(&points),
    };
    // Past a peak no rate is greater, whatever limit it keeps.
    let is_rising = points.last().map(|point| point.succeeded_per_s) == read.peak_per_s;
    let offered: Vec<_> = points.iter().map(|it| (it.offered_per_s, it.succeeded_per_s)).collect();
    let row = |metric, name, short, per_s: Option<f64>, is_broken: fn(&RatePoint) -> bool| {
        let is_open = is_rising && !points.iter().any(is_broken);
        let rate = per_s.map(|per_s| {
            let step = capacity::step(&offered, per_s);
            Reached { per_s, is_open, step }
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
