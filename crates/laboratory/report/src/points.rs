//! What each offered rate brought: of the steps of a record, or of its seconds if it is a ramp.

use measure::capacity::Point;
use measure::record::{Record, Second};

use crate::reading::{setting, whole_seconds};
use crate::typed::Ramp;

/// Points in the order of their rates; none if the record has one rate only.
pub(crate) fn points(record: &Record) -> Vec<Point> {
    let is_search = record.capacity.is_some();
    let ramp = setting(record, "ramp").and_then(Ramp::parse);
    let mut points: Vec<Point> = match (record.steps.len(), ramp) {
        (0, Some(ramp)) => of_seconds(record, ramp),
        (1, _) if !is_search => Vec::new(),
        _ => record.steps.iter().map(|step| step.point).collect(),
    };
    points.retain(|point| point.offered_per_s.is_finite());
    points.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
    points
}

/// So many points make a curve, and each is of enough seconds not to jump.
const POINTS_MAX: usize = 40;

fn of_seconds(record: &Record, ramp: Ramp) -> Vec<Point> {
    let seconds: Vec<Second> = whole_seconds(record).copied().collect();
    let together = seconds.len().div_ceil(POINTS_MAX).max(1);
    let point = |seconds: &[Second]| point(seconds, ramp);
    seconds.chunks(together).map(point).collect()
}

/// The offered rate is the planned one: a load that lags behind attempts less in a second.
fn point(seconds: &[Second], ramp: Ramp) -> Point {
    let sum = |of: fn(&Second) -> u64| seconds.iter().map(|second| of(second) as f64).sum::<f64>();
    let middle = |second: &Second| second.at_s as f64 + 0.5;
    let length_s = seconds.len() as f64;
    let succeeded = sum(|second| second.succeeded);
    let ended = succeeded + sum(|second| second.failed);
    let weighted = seconds
        .iter()
        .map(|second| second.mean_ns as f64 * second.succeeded as f64)
        .sum::<f64>();
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    Point {
        offered_per_s: seconds
            .iter()
            .map(|it| ramp.rate_at(middle(it)))
            .sum::<f64>()
            / length_s,
        succeeded_per_s: succeeded / length_s,
        loss: share(ended - succeeded, ended),
        mean_ns: share(weighted, succeeded),
        quantile_ns: seconds.iter().map(|it| it.p99_ns).max().unwrap_or(0) as f64,
    }
}
