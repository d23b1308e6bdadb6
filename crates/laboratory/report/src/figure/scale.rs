//! From values to places on an axis, and where its ticks stand.

/// How values lie on an axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Spacing {
    Linear,
    /// By their logarithms; only positive ones have a place.
    Log,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) spacing: Spacing,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Scale {
    /// A scale from one value to another; both are moved if nothing lies between them.
    pub(crate) fn new(spacing: Spacing, from: f64, to: f64) -> Self {
        let is_range = from.is_finite() && to.is_finite() && from < to;
        let (from, to) = match spacing {
            Spacing::Linear if is_range => (from, to),
            Spacing::Linear => widened(from),
            Spacing::Log if is_range && from > 0.0 => (from, to),
            Spacing::Log => (1.0, 10.0),
        };
        Self { spacing, from, to }
    }

    /// A scale that ends at ticks: about `ticks` of them.
    pub(crate) fn rounded(spacing: Spacing, from: f64, to: f64, ticks: usize) -> Self {
        let exact = Self::new(spacing, from, to);
        match spacing {
            // What was added may make the step longer, and so on; twice is enough.
            Spacing::Linear => exact.extended(ticks).extended(ticks),
            Spacing::Log => Self::new(spacing, nice_below(exact.from), nice_above(exact.to)),
        }
    }

    /// To the next ticks of a linear scale.
    fn extended(self, ticks: usize) -> Self {
        let step = nice_step(self.to - self.from, ticks);
        let from = (self.from / step + 1e-9).floor() * step;
        Self::new(self.spacing, from, (self.to / step - 1e-9).ceil() * step)
    }

    /// Where a value stands, from 0 to 1; `None` if it has no place.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let share = match self.spacing {
            Spacing::Linear => (value - self.from) / (self.to - self.from),
            Spacing::Log => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        (-1e-9..=1.0 + 1e-9)
            .contains(&share)
            .then(|| share.clamp(0.0, 1.0))
    }

    /// Round values in its range, about `about` of them.
    pub(crate) fn ticks(&self, about: usize) -> Vec<f64> {
        match self.spacing {
            Spacing::Linear => multiples(nice_step(self.to - self.from, about), self.from, self.to),
            Spacing::Log => self.log_ticks(about),
        }
    }

    fn log_ticks(&self, about: usize) -> Vec<f64> {
        let (first, last) = (exponent(self.from), exponent(self.to));
        let decades = (last - first + 1).max(1) as usize;
        let factors: &[f64] = match decades {
            _ if decades * 3 <= about + 5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let every = decades.div_ceil(about + 2);
        let powers = (first..=last).step_by(every).map(power);
        let ticks = powers.flat_map(|power| factors.iter().map(move |factor| power * factor));
        ticks.filter(|tick| self.place(*tick).is_some()).collect()
    }
}

fn widened(value: f64) -> (f64, f64) {
    match value {
        _ if !value.is_finite() || value == 0.0 => (0.0, 1.0),
        0.0.. => (0.0, value * 2.0),
        _ => (value * 2.0, 0.0),
    }
}

/// Multiples of a step from one value to another.
pub(crate) fn multiples(step: f64, from: f64, to: f64) -> Vec<f64> {
    /// More ticks than any axis has room for.
    const TICKS_MAX: f64 = 200.0;
    let first = (from / step - 1e-9).ceil();
    let last = (to / step + 1e-9).floor();
    let count = (last - first + 1.0).clamp(0.0, TICKS_MAX) as usize;
    (0..count)
        .map(|index| (first + index as f64) * step)
        .collect()
}

/// 1, 2 or 5 times a power of ten, so that about `count` steps fill the range.
pub(crate) fn nice_step(range: f64, count: usize) -> f64 {
    let raw = range / count.max(1) as f64;
    let nice = nice_above(raw * 0.75);
    if nice.is_finite() && nice > 0.0 {
        nice
    } else {
        1.0
    }
}

fn exponent(value: f64) -> i32 {
    (value.log10() + 1e-9).floor() as i32
}

fn power(exponent: i32) -> f64 {
    10.0_f64.powi(exponent)
}

/// The least of 1, 2, 5, 10, … times a power of ten that is not less.
fn nice_above(value: f64) -> f64 {
    let power = power(exponent(value));
    let factors = [1.0, 2.0, 5.0, 10.0];
    let found = factors
        .iter()
        .find(|factor| power * **factor >= value * (1.0 - 1e-9));
    power * found.copied().unwrap_or(10.0)
}

/// The greatest that is not more.
fn nice_below(value: f64) -> f64 {
    let power = power(exponent(value));
    let factors = [5.0, 2.0, 1.0];
    let found = factors
        .iter()
        .find(|factor| power * **factor <= value * (1.0 + 1e-9));
    power * found.copied().unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_scales_end_at_round_ticks() {
        let scale = Scale::rounded(Spacing::Linear, 0.0, 788.0, 5);
        assert_eq!((scale.from, scale.to), (0.0, 800.0));
        assert_eq!(scale.ticks(5), [0.0, 200.0, 400.0, 600.0, 800.0]);
        assert_eq!(scale.place(600.0), Some(0.75));
        assert_eq!(scale.place(801.0), None);
        assert_eq!(scale.place(f64::NAN), None);
    }

    #[test]
    fn log_scales_have_places_for_positive_values_alone() {
        let scale = Scale::rounded(Spacing::Log, 0.013, 84.0, 5);
        assert_eq!((scale.from, scale.to), (0.01, 100.0));
        assert!((scale.place(1.0).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(scale.place(0.0), None);
        assert_eq!(scale.place(-1.0), None);
        assert_eq!(scale.ticks(5), [0.01, 0.1, 1.0, 10.0, 100.0]);
        let short = Scale::rounded(Spacing::Log, 3e6, 4e7, 6);
        assert_eq!(short.ticks(6), [2e6, 5e6, 1e7, 2e7, 5e7]);
    }

    #[test]
    fn scales_of_nothing_are_scales() {
        for (from, to) in [
            (0.0, 0.0),
            (5.0, 5.0),
            (f64::NAN, 1.0),
            (0.0, f64::INFINITY),
        ] {
            for spacing in [Spacing::Linear, Spacing::Log] {
                let scale = Scale::rounded(spacing, from, to, 5);
                assert!(scale.from < scale.to && scale.to.is_finite(), "{scale:?}");
                assert!(scale.ticks(5).len() >= 2, "{scale:?}");
            }
        }
    }

    #[test]
    fn steps_are_one_two_or_five() {
        assert_eq!(nice_step(10.0, 5), 2.0);
        assert_eq!(nice_step(60.0, 4), 20.0);
        assert_eq!(nice_step(0.7, 5), 0.2);
        assert_eq!(multiples(0.25, 0.3, 1.0), [0.5, 0.75, 1.0]);
    }
}
