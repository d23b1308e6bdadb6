//! What each offered rate brought: of the steps of a record, or of its seconds if it is a ramp.

use measure::capacity::Point;
use measure::record::{Record, Second};

use crate::reading::{setting, whole_seconds};

/// Points in the order of their rates; none if the record has one rate only.
pub(crate) fn points(record: &Record) -> Vec<Point> {
    let is_search = record.capacity.is_some();
    let mut points: Vec<Point> = match record.steps.len() {
        0 if is_ramp(record) => of_seconds(record),
        1 if !is_search => Vec::new(),
        _ => record.steps.iter().map(|step| step.point).collect(),
    };
    points.retain(|point| point.offered_per_s.is_finite());
    points.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
    points
}

/// `FROM:TO:TIME`.
fn is_ramp(record: &Record) -> bool {
    setting(record, "ramp").is_some_and(|value| value.contains(':'))
}

/// So many points make a curve, and each is of enough seconds not to jump.
const POINTS_MAX: usize = 40;

fn of_seconds(record: &Record) -> Vec<Point> {
    let seconds: Vec<Second> = whole_seconds(record).copied().collect();
    let together = seconds.len().div_ceil(POINTS_MAX).max(1);
    seconds.chunks(together).map(point).collect()
}

fn point(seconds: &[Second]) -> Point {
    let sum = |of: fn(&Second) -> u64| seconds.iter().map(|second| of(second) as f64).sum::<f64>();
    let (attempted, succeeded) = (sum(|s| s.attempted), sum(|s| s.succeeded));
    let ended = succeeded + sum(|s| s.failed);
    let weighted: f64 = seconds
        .iter()
        .map(|second| second.mean_ns as f64 * second.succeeded as f64)
        .sum();
    let length_s = seconds.len() as f64;
    Point {
        offered_per_s: attempted / length_s,
        succeeded_per_s: succeeded / length_s,
        loss: if ended > 0.0 {
            1.0 - succeeded / ended
        } else {
            0.0
        },
        mean_ns: if succeeded > 0.0 {
            weighted / succeeded
        } else {
            0.0
        },
        quantile_ns: seconds.iter().map(|s| s.p99_ns).max().unwrap_or(0) as f64,
    }
}
