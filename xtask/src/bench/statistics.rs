//! Medians and spreads of a few rounds.

/// A few readings of one quantity, summed up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// The middle reading; the mean of the two middle ones if their number is even.
    pub(crate) median: f64,
    /// The least reading.
    pub(crate) min: f64,
    /// The greatest reading.
    pub(crate) max: f64,
}

impl Summary {
    /// Sums up; `None` without readings.
    pub(crate) fn of(readings: &[f64]) -> Option<Self> {
        let mut sorted = readings.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = *sorted.get((sorted.len() - 1) / 2)?;
        Some(Self {
            median: f64::midpoint(lower, upper),
            min,
            max,
        })
    }

    /// The distance from least to greatest, in percent of the median.
    pub(crate) fn spread_percent(&self) -> f64 {
        100.0 * (self.max - self.min) / self.median
    }
}

/// Ratios of two servers' readings, round by round: what both suffered in a round cancels out.
pub(crate) fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter()
        .zip(theirs)
        .map(|(ours, theirs)| ours / theirs)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even() {
        let odd = Summary::of(&[9.0, 1.0, 5.0]).expect("three readings");
        assert_eq!((odd.median, odd.min, odd.max), (5.0, 1.0, 9.0));
        let even = Summary::of(&[4.0, 1.0, 2.0, 9.0]).expect("four readings");
        assert_eq!(even.median, 3.0);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn spread_is_relative_to_the_median() {
        let summary = Summary::of(&[90.0, 100.0, 110.0]).expect("three readings");
        assert_eq!(summary.spread_percent(), 20.0);
    }

    #[test]
    fn ratios_are_by_round() {
        assert_eq!(ratios(&[1.0, 4.0], &[2.0, 2.0]), [0.5, 2.0]);
    }
}
