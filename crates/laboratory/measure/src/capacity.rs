//! What can be read off a rising load: the greatest rates that kept a limit.
//!
//! The four read-offs of Bernat's method (2011): the peak, the greatest rate under a mean response
//! time of 100 ms, under 500 ms, and with an error rate under 0.01 %.

use serde::{Deserialize, Serialize};

/// What one rate of attempts brought.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Transactions that were planned a second.
    pub offered_per_s: f64,
    /// Transactions that succeeded a second.
    pub succeeded_per_s: f64,
    /// Failed transactions to attempted ones, 0 to 1.
    pub loss: f64,
    /// The mean response time of those that succeeded, in nanoseconds.
    pub mean_ns: f64,
    /// The limit's percentile of the response time, in nanoseconds.
    pub quantile_ns: f64,
}

/// Read off a list of points; `None` where no point keeps the limit.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReadOffs {
    /// The greatest rate of successes, whatever it took, a second.
    pub peak_per_s: Option<f64>,
    /// The greatest with a mean response time under 100 ms.
    pub under_100_ms_per_s: Option<f64>,
    /// The greatest with a mean response time under 500 ms.
    pub under_500_ms_per_s: Option<f64>,
    /// The greatest with fewer than one error in 10,000.
    pub few_errors_per_s: Option<f64>,
}

impl ReadOffs {
    /// Of points in the order of their rates. A limit ends at the first point that breaks it: a
    /// later one that happens to keep it again does not count.
    #[must_use]
    pub fn of(points: &[Point]) -> Self {
        // Where nothing succeeds there is no response time to keep a limit.
        let below = |point: &&Point, ns: f64| point.succeeded_per_s > 0.0 && point.mean_ns < ns;
        Self {
            peak_per_s: greatest(points.iter()),
            under_100_ms_per_s: greatest(points.iter().take_while(|point| below(point, 100e6))),
            under_500_ms_per_s: greatest(points.iter().take_while(|point| below(point, 500e6))),
            few_errors_per_s: greatest(points.iter().take_while(|point| point.loss < 1e-4)),
        }
    }
}

fn greatest<'a>(points: impl Iterator<Item = &'a Point>) -> Option<f64> {
    points
        .map(|point| point.succeeded_per_s)
        .filter(|rate| *rate > 0.0)
        .max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(rate: f64, mean_ms: f64, loss: f64) -> Point {
        Point {
            offered_per_s: rate,
            succeeded_per_s: rate * (1.0 - loss),
            loss,
            mean_ns: mean_ms * 1e6,
            quantile_ns: mean_ms * 2e6,
        }
    }

    #[test]
    fn each_limit_ends_where_it_is_first_broken() {
        let points = [
            point(100.0, 5.0, 0.0),
            point(200.0, 99.0, 0.0),
            point(300.0, 101.0, 0.0),
            point(310.0, 50.0, 0.0),
            point(400.0, 600.0, 0.001),
            point(500.0, 900.0, 0.5),
        ];
        let read = ReadOffs::of(&points);
        assert_eq!(read.under_100_ms_per_s, Some(200.0));
        assert_eq!(read.under_500_ms_per_s, Some(310.0));
        assert_eq!(read.few_errors_per_s, Some(310.0));
        assert_eq!(read.peak_per_s, Some(400.0 * 0.999));
    }

    #[test]
    fn nothing_is_read_off_where_nothing_keeps_a_limit() {
        assert_eq!(ReadOffs::of(&[]), ReadOffs::default());
        let dead = ReadOffs::of(&[point(10.0, 0.0, 1.0)]);
        assert_eq!(dead.peak_per_s, None);
        assert_eq!(dead.few_errors_per_s, None);
    }
}
