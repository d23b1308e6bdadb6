//! What a search's limit says, as far as it can be drawn: `p99 < 50 ms, loss < 0.1 %`.

use crate::typed::duration_ns;

/// The limit of a response time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    /// The percentile that it is for, as `p99`; `None` = for the mean.
    pub(crate) quantile: Option<String>,
    /// How long it may be, in nanoseconds.
    pub(crate) duration_ns: Option<f64>,
}

impl Default for Limit {
    /// The one of Bernat's method (2011).
    fn default() -> Self {
        Self {
            quantile: None,
            duration_ns: Some(100e6),
        }
    }
}

impl Limit {
    /// Of a record's text. What is not understood is left out: the text itself is shown too.
    pub(crate) fn parse(text: &str) -> Self {
        let parts = text.split(',').filter_map(|part| part.split_once('<'));
        let mut durations = parts.filter_map(|(name, value)| {
            let ns = duration_ns(value.trim())?;
            Some((name.trim(), ns))
        });
        let Some((name, ns)) = durations.next() else {
            return Self {
                quantile: None,
                duration_ns: None,
            };
        };
        Self {
            quantile: is_percentile(name).then(|| name.to_owned()),
            duration_ns: Some(ns),
        }
    }
}

fn is_percentile(name: &str) -> bool {
    let digits = name.strip_prefix('p').unwrap_or_default();
    let is_number = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_number && (1..8).contains(&digits.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(quantile: Option<&str>, duration_ns: Option<f64>) -> Limit {
        Limit {
            quantile: quantile.map(str::to_owned),
            duration_ns,
        }
    }

    #[test]
    fn means_and_percentiles_are_understood() {
        let of = Limit::parse;
        assert_eq!(of("mean < 100 ms, loss < 0.1 %"), Limit::default());
        assert_eq!(of("p99.9<1.5s"), limit(Some("p99.9"), Some(1.5e9)));
        assert_eq!(
            of("loss < 1 %, p50 < 80 µs"),
            limit(Some("p50"), Some(80e3))
        );
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        for text in [
            "",
            "loss < 0.1 %",
            "mean < -1 ms",
            "mean < NaN s",
            "mean < inf s",
            "x",
        ] {
            assert_eq!(Limit::parse(text), limit(None, None), "{text}");
        }
        assert_eq!(Limit::parse("p<script> < 1 s").quantile, None);
    }
}
