//! The search for capacity: where it begins, and the limit that a rate must keep.

use std::time::Duration;

use measure::quantity::nanoseconds;

use super::value;
use super::value::{Read, not};

pub use measure::capacity::CapacityLimit;

/// A search for the greatest rate that keeps a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    pub limit: CapacityLimit,
    /// It ends when the rate that broke the limit exceeds the one that kept it by this share.
    pub precision: f64,
    /// The first rate, transactions a second.
    pub first_per_s: f64,
    /// How long each rate is tried.
    pub step: Duration,
}

pub(super) fn parse(text: &str) -> Read<CapacityLimit> {
    let mut limit = CapacityLimit { mean_below_ns: None, ..CapacityLimit::default() };
    let time_ns = |bound| value::some_time(bound).map(nanoseconds);
    let mut error_rate_named = false;
    for part in text.split(',') {
        let Some((name, bound)) = part.split_once('<') else {
            return not(text, "bounds of mean, error-rate, p50, p99 and the like");
        };
        let (name, bound) = (name.trim(), bound.trim());
        let named_before = match name {
            "mean" => limit.mean_below_ns.replace(time_ns(bound)?).is_some(),
            "error-rate" => {
                limit.error_rate_below = value::percentage(bound)?;
                std::mem::replace(&mut error_rate_named, true)
            }
            _ => {
                let quantile = (quantile(name)?, time_ns(bound)?);
                limit.quantile_below_ns.replace(quantile).is_some()
            }
        };
        if named_before {
            return not(text, "one bound each, and of one percentile");
        }
    }
    Ok(limit)
}

fn quantile(name: &str) -> Read<f64> {
    let digits = name.strip_prefix('p').unwrap_or_default();
    let wanted = "one of: mean, error-rate, p50, p90, p99, p99.9";
    value::percentage(&format!("{digits}%")).or_else(|_| not(name, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> CapacityLimit {
        parse(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
    }

    #[test]
    fn limits_read_and_show() {
        assert_eq!(read("mean<100ms,error-rate<0.1%"), CapacityLimit::default());
        assert_eq!(CapacityLimit::default().to_string(), "mean < 100 ms, error rate < 0.1 %");
        let limit = read("p99.9 < 20ms, error-rate < 0.01 %");
        assert_eq!(limit.to_string(), "p99.9 < 20.0 ms, error rate < 0.01 %");
        assert_eq!(limit.mean_below_ns, None);
        assert_eq!(read("p50<1ms").error_rate_below, CapacityLimit::default().error_rate_below);
    }

    #[test]
    fn what_is_no_limit() {
        let texts = "mean mean>3ms mean<3 error-rate<3ms error-rate<0% p0<1ms \
            p100<1ms median<1ms mean<1ms,mean<2ms \
            error-rate<1%,error-rate<2% p50<1ms,p99<2ms mean<0s";
        for text in texts.split(' ').chain([""]) {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
