//! Reads off a rising load the greatest rates that kept a limit.
//!
//! The read-offs are those of Bernat's method (2011): the peak, the greatest rate under a mean
//! response time of 100 ms, under 500 ms, with an error rate under 0.01 %; and the one under 100 ms
//! with an error rate under 0.1 %, by which it ranks.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quantity::Nanoseconds;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RatePoint {
    /// Number of transactions planned per second.
    pub offered_per_s: f64,
    pub succeeded_per_s: f64,
    /// Failed transactions divided by attempted ones, 0 to 1.
    pub error_rate: f64,
    /// Mean response time of successful transactions, in nanoseconds.
    pub mean_ns: f64,
    /// The limit's percentile of the response time, in nanoseconds.
    pub quantile_ns: f64,
}

/// A limit that a rate must keep to count. A rate at which nothing succeeds keeps no limit.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityLimit {
    /// Upper bound of the mean response time, in nanoseconds.
    pub mean_below_ns: Option<u64>,
    /// Share (0 to 1) of all responses that must take less than the time, in nanoseconds.
    pub quantile_below_ns: Option<(f64, u64)>,
    /// Upper bound of failed transactions divided by attempted ones (0 to 1).
    pub error_rate_below: f64,
}

impl Default for CapacityLimit {
    /// The limit of Bernat's method (2011): a mean under 100 ms. Fast failures would flatter it, so
    /// their rate always has a limit, too: 0.1 %.
    fn default() -> Self {
        Self { mean_below_ns: Some(100_000_000), quantile_below_ns: None, error_rate_below: 0.001 }
    }
}

impl CapacityLimit {
    /// Reports whether a rate keeps the limit. `point.quantile_ns` is of [`Self::quantile`].
    pub fn is_kept_by(&self, point: &RatePoint) -> bool {
        let is_below = |ns: f64, bound: Option<u64>| bound.is_none_or(|bound| ns < bound as f64);
        point.succeeded_per_s > 0.0
            && point.error_rate < self.error_rate_below
            && is_below(point.mean_ns, self.mean_below_ns)
            && is_below(point.quantile_ns, self.quantile_below_ns.map(|it| it.1))
    }

    /// Returns the share of responses for a point's `quantile_ns`: the limit's, or the 99th
    /// percentile.
    pub fn quantile(&self) -> f64 {
        self.quantile_below_ns.map_or(0.99, |(share, _)| share)
    }

    /// Returns the name of that percentile: `p99.9`.
    pub fn quantile_name(&self) -> String {
        format!("p{}", percent(self.quantile()))
    }
}

impl fmt::Display for CapacityLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bound) = self.mean_below_ns {
            write!(f, "mean < {}, ", Nanoseconds(bound as f64))?;
        }
        if let Some((_, bound)) = self.quantile_below_ns {
            let name = self.quantile_name();
            write!(f, "{name} < {}, ", Nanoseconds(bound as f64))?;
        }
        write!(f, "error rate < {} %", percent(self.error_rate_below))
    }
}

/// Converts a share to a percentage, without the noise of the last binary digits.
pub(crate) fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

/// Rates read off a list of points; `None` where no point keeps the limit.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReadOffs {
    /// Greatest rate of successes, whatever their response time, per second.
    pub peak_per_s: Option<f64>,
    /// Greatest rate with a mean response time under 100 ms.
    pub under_100_ms_per_s: Option<f64>,
    /// Greatest rate under 100 ms with an error rate under 0.1 % as well, as
    /// [`CapacityLimit::default`]: the headline of Bernat's method. `None` in older records.
    pub under_100_ms_few_lost_per_s: Option<f64>,
    /// Greatest rate with a mean response time under 500 ms.
    pub under_500_ms_per_s: Option<f64>,
    /// Greatest rate with fewer than one error in 10,000.
    pub few_errors_per_s: Option<f64>,
}

impl ReadOffs {
    /// Reads off points in the order of their rates. A limit ends at the first point that breaks
    /// it: a later one that happens to keep it again does not count.
    pub fn of(points: &[RatePoint]) -> Self {
        // Without a success there is no response time to keep a limit.
        let below = |point: &&RatePoint, ns: f64| point.succeeded_per_s > 0.0 && point.mean_ns < ns;
        let is_served = |point: &&RatePoint| CapacityLimit::default().is_kept_by(point);
        Self {
            peak_per_s: greatest(points.iter()),
            under_100_ms_per_s: greatest(points.iter().take_while(|point| below(point, 100e6))),
            under_100_ms_few_lost_per_s: greatest(points.iter().take_while(is_served)),
            under_500_ms_per_s: greatest(points.iter().take_while(|point| below(point, 500e6))),
            few_errors_per_s: greatest(points.iter().take_while(|point| point.error_rate < 1e-4)),
        }
    }
}

/// Returns the distance of offered rates near `per_s`, relative to it: no smaller difference can be
/// read off. A point is an offered rate and its rate of successes.
pub fn step(points: &[(f64, f64)], per_s: f64) -> Option<f64> {
    let place = points.iter().position(|(_, succeeded)| *succeeded == per_s)?;
    let last = points.len().min(place + 2);
    let pairs = points[place.saturating_sub(1)..last].windows(2);
    let rise = pairs.map(|pair| pair[1].0 - pair[0].0).fold(0.0, f64::max);
    (rise > 0.0 && per_s > 0.0).then(|| rise / per_s)
}

fn greatest<'a>(points: impl Iterator<Item = &'a RatePoint>) -> Option<f64> {
    points.map(|point| point.succeeded_per_s).filter(|rate| *rate > 0.0).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(rate: f64, mean_ms: f64, error_rate: f64) -> RatePoint {
        RatePoint {
            offered_per_s: rate,
            succeeded_per_s: rate * (1.0 - error_rate),
            error_rate,
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
        // Fast failures flatter the mean; the limit of loss counts them.
        let lost = [point(100.0, 5.0, 0.0005), point(200.0, 5.0, 0.001)];
        let read = ReadOffs::of(&lost);
        assert_eq!(read.under_100_ms_per_s, Some(200.0 * 0.999));
        assert_eq!(read.under_100_ms_few_lost_per_s, Some(100.0 * 0.9995));
    }

    #[test]
    fn a_rate_is_read_off_as_finely_as_it_was_offered() {
        let points = [(100.0, 100.0), (200.0, 199.0), (400.0, 380.0), (0.0, 0.0)];
        assert_eq!(step(&points, 100.0), Some(1.0));
        assert_eq!(step(&points, 199.0), Some(200.0 / 199.0));
        assert_eq!(step(&points, 380.0), Some(200.0 / 380.0));
        assert_eq!((step(&points, 300.0), step(&points[..1], 100.0)), (None, None));
    }

    #[test]
    fn a_limit_is_kept_or_broken_by_all_of_it() {
        let kept = point(100.0, 50.0, 0.0005);
        let limit = |mean: Option<u64>, p99: Option<u64>| CapacityLimit {
            mean_below_ns: mean,
            quantile_below_ns: p99.map(|ns| (0.99, ns)),
            ..CapacityLimit::default()
        };
        assert!(CapacityLimit::default().is_kept_by(&kept));
        assert!(!limit(Some(50_000_000), None).is_kept_by(&kept));
        assert!(!limit(None, Some(100_000_000)).is_kept_by(&kept));
        assert!(limit(None, Some(100_000_001)).is_kept_by(&kept));
        assert!(!CapacityLimit::default().is_kept_by(&point(100.0, 50.0, 0.002)));
        assert!(!CapacityLimit::default().is_kept_by(&point(0.0, 0.0, 0.0)));
        assert_eq!(CapacityLimit::default().to_string(), "mean < 100 ms, error rate < 0.1 %");
        let quantile = limit(None, Some(20_000_000)).to_string();
        assert_eq!(quantile, "p99 < 20.0 ms, error rate < 0.1 %");
    }

    #[test]
    fn nothing_is_read_off_where_nothing_keeps_a_limit() {
        assert_eq!(ReadOffs::of(&[]), ReadOffs::default());
        let dead = ReadOffs::of(&[point(10.0, 0.0, 1.0)]);
        assert_eq!(dead.peak_per_s, None);
        assert_eq!(dead.few_errors_per_s, None);
    }
}
