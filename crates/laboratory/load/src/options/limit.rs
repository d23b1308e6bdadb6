//! The search for capacity: where it begins, and the limit that a rate must keep.

use std::time::Duration;

use measure::quantity::nanoseconds;

use super::value;
use super::value::{Read, not};

use measure::bounds::{LoadBound, LoadFigure};
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

/// Bounds of a whole load: `p99<50ms,resumed>90%`.
pub(super) fn bounds(text: &str) -> Read<Vec<LoadBound>> {
    let each = text.split(',').map(|part| {
        let Some(at) = part.find(['<', '>']) else {
            return not(text, "bounds of mean, p50, p99, error-rate, resumed and rate");
        };
        let (name, bound) = part.split_at(at);
        let (name, is_below) = (name.trim(), bound.starts_with('<'));
        let bound = bound.get(1..).unwrap_or_default().trim();
        let time = || value::some_time(bound).map(|time| nanoseconds(time) as f64);
        let (figure, bound) = match name {
            "mean" => (LoadFigure::Mean, time()?),
            "error-rate" => (LoadFigure::ErrorRate, value::percentage(bound)?),
            "resumed" => (LoadFigure::Resumed, value::percentage(bound)?),
            "rate" => (LoadFigure::Rate, value::some_rate(bound)?),
            _ => (LoadFigure::Quantile(quantile(name)?), time()?),
        };
        Ok(LoadBound { figure, is_below, bound })
    });
    each.collect()
}

fn quantile(name: &str) -> Read<f64> {
    let digits = name.strip_prefix('p').unwrap_or_default();
    let wanted =
        "one of: mean, error-rate, p50, p90, p99, p99.9; of a whole load also resumed, rate";
    value::percentage(&format!("{digits}%")).or_else(|_| not(name, wanted))
}

#[cfg(test)]
mod tests {
    use measure::record::{LoadRecord, Second, TransactionCounts};

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
    fn bounds_of_a_load_read_and_hold() {
        let record = LoadRecord {
            totals: TransactionCounts { attempted: 200, succeeded: 199, failed: 1 },
            seconds: vec![Second { resumed: 150, full: 50, ..Second::default() }],
            elapsed_ns: 2_000_000_000,
            ..LoadRecord::default()
        };
        let unmet = |text: &str| {
            let all = bounds(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
            all.iter().filter_map(|one| one.unmet(&record)).collect::<Vec<_>>()
        };
        assert_eq!(unmet("error-rate<1%, resumed > 70 %,rate>99/s,resumed<76%"), [""; 0]);
        assert_eq!(unmet("error-rate<0.5%"), ["error-rate is 0.5 %, expected: < 0.5 %"]);
        assert_eq!(unmet("resumed>90%"), ["resumed is 75 %, expected: > 90 %"]);
        assert_eq!(unmet("rate>100/s").len(), 1);
        // There were no times.
        let unknown = "p99.9 is not known, since nothing succeeded, expected: < 50.0 ms";
        assert_eq!(unmet("p99.9<50ms"), [unknown]);
        for text in ["", "p99", "p99=5ms", "resumed>90", "rate<0", "speed>3", "mean<5ms,"] {
            assert!(bounds(text).is_err(), "{text}");
        }
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
