//! Values of settings as they were typed, as far as figures are drawn from them.

/// `10s`, `1.5 ms`: nanoseconds; `None` if it is no time above 0.
pub(crate) fn duration_ns(text: &str) -> Option<f64> {
    // The shorter ones last: `s` ends them all.
    const UNITS: [(&str, f64); 7] = [
        ("ns", 1.0),
        ("µs", 1e3),
        ("us", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("m", 60e9),
        ("h", 3600e9),
    ];
    let (number, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let ns = number.trim().parse::<f64>().ok()? * factor;
    (ns.is_finite() && ns > 0.0).then_some(ns)
}

/// A rate that goes evenly from one value to another, and stays there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ramp {
    from_per_s: f64,
    to_per_s: f64,
    time_s: f64,
}

impl Ramp {
    /// `FROM:TO:TIME`, as `100:2000:60s`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let mut rate = || parts.next()?.trim().parse::<f64>().ok();
        let (from_per_s, to_per_s) = (rate()?, rate()?);
        let time_s = duration_ns(parts.next()?.trim())? / 1e9;
        let is_rate = |rate: f64| rate.is_finite() && rate >= 0.0;
        (is_rate(from_per_s) && is_rate(to_per_s)).then_some(Self {
            from_per_s,
            to_per_s,
            time_s,
        })
    }

    /// The planned rate after so many seconds.
    pub(crate) fn rate_at(&self, time_s: f64) -> f64 {
        let share = (time_s / self.time_s).clamp(0.0, 1.0);
        self.from_per_s + (self.to_per_s - self.from_per_s) * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ramps_go_evenly_and_stay() {
        let ramp = Ramp::parse("100:2100:1m").unwrap();
        assert_eq!(ramp.rate_at(0.0), 100.0);
        assert_eq!(ramp.rate_at(30.0), 1100.0);
        assert_eq!(ramp.rate_at(90.0), 2100.0);
        for text in [
            "", "1:2", "a:2:3s", "1:2:0s", "1:inf:3s", "-1:2:3s", "1:2:3",
        ] {
            assert_eq!(Ramp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration_ns("1.5 ms"), Some(1.5e6));
        assert_eq!(duration_ns("2m"), Some(120e9));
        assert_eq!(duration_ns("2h"), Some(7200e9));
        for text in ["", "2", "s", "-1s", "nans", "infs", "0ms"] {
            assert_eq!(duration_ns(text), None, "{text}");
        }
    }
}
