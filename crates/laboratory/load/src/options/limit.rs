//! The search for capacity: where it begins, and the limit that a rate must keep.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use measure::capacity::Point;
use measure::quantity::Nanoseconds;

use super::value::{self, ValueFault};

/// A search for the greatest rate that keeps a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// What a rate must keep.
    pub limit: Limit,
    /// It ends when the rate that broke the limit exceeds the one that kept it by this share.
    pub precision: f64,
    /// The first rate, transactions a second.
    pub first_per_s: f64,
    /// How long each rate is tried.
    pub step: Duration,
}

/// What a rate must keep to count. A rate at which nothing succeeds keeps no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The mean response time is below this.
    pub mean_below: Option<Duration>,
    /// This share (0 to 1) of all responses takes less than that.
    pub quantile_below: Option<(f64, Duration)>,
    /// Failed transactions to attempted ones are below this share (0 to 1).
    pub error_rate_below: f64,
}

/// Fast failures would flatter the response time, so there is always a limit for them.
const ERROR_RATE_BELOW_DEFAULT: f64 = 0.001;

impl Default for Limit {
    /// That of Bernat's method (2011): a mean under 100 ms and an error rate under 0.1 %.
    fn default() -> Self {
        Self {
            mean_below: Some(Duration::from_millis(100)),
            quantile_below: None,
            error_rate_below: ERROR_RATE_BELOW_DEFAULT,
        }
    }
}

impl Limit {
    /// Whether a rate keeps it. `point.quantile_ns` is of [`Self::quantile_below`]'s share.
    #[must_use]
    pub fn is_kept_by(&self, point: &Point) -> bool {
        let below = |ns: f64, bound: Duration| ns < bound.as_nanos() as f64;
        point.succeeded_per_s > 0.0
            && point.loss < self.error_rate_below
            && self
                .mean_below
                .is_none_or(|bound| below(point.mean_ns, bound))
            && self
                .quantile_below
                .is_none_or(|(_, bound)| below(point.quantile_ns, bound))
    }

    /// The share of responses that a point's `quantile_ns` is to tell: the limit's, or the 99th
    /// percentile.
    #[must_use]
    pub fn quantile(&self) -> f64 {
        self.quantile_below.map_or(0.99, |(share, _)| share)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |bound: Duration| Nanoseconds(bound.as_nanos() as f64);
        if let Some(bound) = self.mean_below {
            write!(f, "mean < {}, ", time(bound))?;
        }
        if let Some((share, bound)) = self.quantile_below {
            write!(f, "p{} < {}, ", percent(share), time(bound))?;
        }
        write!(f, "error rate < {} %", percent(self.error_rate_below))
    }
}

/// A share as a percentage, without the noise of the last binary digits.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

const EXAMPLE: &str = "mean<100ms,error-rate<0.1%";

impl FromStr for Limit {
    type Err = ValueFault;

    fn from_str(text: &str) -> Result<Self, ValueFault> {
        let mut limit = Self {
            mean_below: None,
            quantile_below: None,
            error_rate_below: ERROR_RATE_BELOW_DEFAULT,
        };
        let mut error_rate_named = false;
        for part in text.split(',') {
            let form =
                ValueFault::Form("bounds of mean, error-rate, p50, p99 and the like", EXAMPLE);
            let (name, bound) = part.split_once('<').ok_or(form)?;
            let (name, bound) = (name.trim(), bound.trim());
            let named_before = match name {
                "mean" => limit.mean_below.replace(value::some_time(bound)?).is_some(),
                "error-rate" => {
                    limit.error_rate_below = value::percentage(bound)?;
                    std::mem::replace(&mut error_rate_named, true)
                }
                _ => {
                    let quantile = (quantile(name)?, value::some_time(bound)?);
                    limit.quantile_below.replace(quantile).is_some()
                }
            };
            if named_before {
                let why = format!("bounds {name} after it was bounded, or a second percentile");
                return Err(ValueFault::Refused(
                    why,
                    "name each once, and one percentile",
                ));
            }
        }
        Ok(limit)
    }
}

/// `p99.9` as a share.
fn quantile(name: &str) -> Result<f64, ValueFault> {
    let names = || ValueFault::Name(vec!["mean", "error-rate", "p50", "p90", "p99", "p99.9"]);
    let digits = name.strip_prefix('p').ok_or_else(names)?;
    value::percentage(&format!("{digits}%")).map_err(|_| names())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Limit {
        text.parse()
            .unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
    }

    #[test]
    fn limits_read_and_show() {
        assert_eq!(read(EXAMPLE), Limit::default());
        assert_eq!(
            Limit::default().to_string(),
            "mean < 100 ms, error rate < 0.1 %"
        );
        let limit = read("p99.9 < 20ms, error-rate < 0.01 %");
        assert_eq!(limit.to_string(), "p99.9 < 20.0 ms, error rate < 0.01 %");
        assert_eq!(limit.mean_below, None);
        assert_eq!(read("p50<1ms").error_rate_below, ERROR_RATE_BELOW_DEFAULT);
    }

    #[test]
    fn what_is_no_limit() {
        for text in [
            "",
            "mean",
            "mean>3ms",
            "mean<3",
            "error-rate<3ms",
            "error-rate<0%",
            "p0<1ms",
            "p100<1ms",
            "median<1ms",
            "mean<1ms,mean<2ms",
            "error-rate<1%,error-rate<2%",
            "p50<1ms,p99<2ms",
            "mean<0s",
        ] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_keeps_all_of_it_or_breaks_it() {
        let point = Point {
            offered_per_s: 100.0,
            succeeded_per_s: 100.0,
            loss: 0.0005,
            mean_ns: 50e6,
            quantile_ns: 150e6,
        };
        assert!(Limit::default().is_kept_by(&point));
        assert!(!read("error-rate<0.01%").is_kept_by(&point));
        assert!(!read("mean<50ms").is_kept_by(&point));
        assert!(!read("p99<150ms").is_kept_by(&point));
        assert!(read("p99<151ms").is_kept_by(&point));
        let dead = Point {
            succeeded_per_s: 0.0,
            mean_ns: 0.0,
            quantile_ns: 0.0,
            loss: 0.0,
            ..point
        };
        assert!(!Limit::default().is_kept_by(&dead));
    }
}
