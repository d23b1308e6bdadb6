//! How many times one figure is another, or by how much it is more, with an interval.
//!
//! Ratios are averaged by their logarithms, so that twice and half cancel out: Fleming and
//! Wallace, "How not to lie with statistics", Communications of the ACM 29(3), 1986. The interval
//! is Student's t of those logarithms. Samples of the same round are paired where there are rounds:
//! what slowed both down is in neither's disfavour.
//!
//! Nothing is a multiple of 0: where a figure may be 0, figures are subtracted. Samples are never
//! dropped for their value, which would be a selection.

use crate::statistics::Spread;
use crate::student::{CONFIDENCE, Difference, chance, quantile};

/// How many times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The geometric mean.
    pub ratio: f64,
    /// The ends of the interval at [`CONFIDENCE`]; `None` if there are too few samples for one.
    pub interval: Option<(f64, f64)>,
    /// How likely equals differ so much by chance, 0 to 1; `None` where there is no interval.
    pub chance: Option<f64>,
    /// How many ratios it was taken from: rounds, or the lesser count of two samples.
    pub count: usize,
}

impl Ratio {
    /// Of pairs `(above, below)`, one a round. `None` without pairs, or if a figure of any is not
    /// above 0.
    #[must_use]
    pub fn of_pairs(pairs: &[(f64, f64)]) -> Option<Self> {
        let logarithm = |(above, below): &(f64, f64)| {
            (*above > 0.0 && *below > 0.0).then(|| (above / below).ln())
        };
        let logarithms: Option<Vec<f64>> = pairs.iter().map(logarithm).collect();
        let spread = Spread::of(&logarithms?)?;
        let error = error_of_mean(&spread);
        Some(Self::around(
            spread.mean,
            error,
            spread.count - 1,
            spread.count,
        ))
    }

    /// Of samples that have nothing to do with each other, as those of two runs: by the pooled
    /// deviation. `None` without samples, or if any is not above 0.
    #[must_use]
    pub fn of_samples(above: &[f64], below: &[f64]) -> Option<Self> {
        let logarithms = |samples: &[f64]| {
            let logarithm = |sample: &f64| (*sample > 0.0).then(|| sample.ln());
            Spread::of(&samples.iter().map(logarithm).collect::<Option<Vec<_>>>()?)
        };
        let (above, below) = (logarithms(above)?, logarithms(below)?);
        let found = Difference::of(&below, &above);
        let count = above.count.min(below.count);
        Some(Self::around(
            above.mean - below.mean,
            found.map(|it| it.error),
            (above.count + below.count).saturating_sub(2),
            count,
        ))
    }

    fn around(logarithm: f64, error: Option<f64>, freedom: usize, count: usize) -> Self {
        Self {
            ratio: logarithm.exp(),
            interval: error.map(|error| ((logarithm - error).exp(), (logarithm + error).exp())),
            chance: error.map(|error| chance(logarithm, error, freedom)),
            count,
        }
    }

    /// Whether it is above or below 1: the interval leaves 1 out.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.interval
            .is_some_and(|(from, to)| from > 1.0 || to < 1.0)
    }
}

/// By how much one figure is more than another, in their unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// The mean of the one that is told.
    pub above: f64,
    /// The mean of the one that it is compared with.
    pub below: f64,
    /// The ends of the interval of their difference at [`CONFIDENCE`]; `None` if there are too few
    /// samples for one.
    pub interval: Option<(f64, f64)>,
    /// How likely equals differ so much by chance, 0 to 1; `None` where there is no interval.
    pub chance: Option<f64>,
    /// How many differences it was taken from: rounds, or the lesser count of two samples.
    pub count: usize,
}

impl Margin {
    /// Of pairs `(above, below)`, one a round, by the paired t of their differences; `None` without
    /// pairs.
    #[must_use]
    pub fn of_pairs(pairs: &[(f64, f64)]) -> Option<Self> {
        let spread = |of: fn(&(f64, f64)) -> f64| {
            let values: Vec<f64> = pairs.iter().map(of).collect();
            Spread::of(&values)
        };
        let differences = spread(|(above, below)| above - below)?;
        let error = error_of_mean(&differences);
        Some(Self {
            above: spread(|(above, _)| *above)?.mean,
            below: spread(|(_, below)| *below)?.mean,
            interval: error.map(|error| (differences.mean - error, differences.mean + error)),
            chance: error.map(|error| chance(differences.mean, error, differences.count - 1)),
            count: differences.count,
        })
    }

    /// Of samples that have nothing to do with each other, by their pooled deviation; `None`
    /// without samples.
    #[must_use]
    pub fn of_samples(above: &[f64], below: &[f64]) -> Option<Self> {
        let (above, below) = (Spread::of(above)?, Spread::of(below)?);
        let found = Difference::of(&below, &above);
        let freedom = (above.count + below.count).saturating_sub(2);
        Some(Self {
            above: above.mean,
            below: below.mean,
            interval: found.map(|it| (it.difference - it.error, it.difference + it.error)),
            chance: found.map(|it| chance(it.difference, it.error, freedom)),
            count: above.count.min(below.count),
        })
    }

    /// How much more the first is; below 0 if it is less.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.above - self.below
    }

    /// Whether they differ: the interval leaves 0 out.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.interval
            .is_some_and(|(from, to)| from > 0.0 || to < 0.0)
    }
}

/// How far a mean may lie from the truth to either side; `None` of a single sample.
fn error_of_mean(spread: &Spread) -> Option<f64> {
    let freedom = spread.count - 1;
    let error = quantile(CONFIDENCE, freedom) * spread.deviation / (spread.count as f64).sqrt();
    (freedom > 0).then_some(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, wanted: f64) {
        assert!(
            (value - wanted).abs() < 1e-3 * wanted,
            "{value} is not {wanted}"
        );
    }

    /// Student's own: hours of sleep that two drugs gave to ten patients (1908). R's paired
    /// `t.test` of the same says 0.7001 to 2.4599 hours; as exponents they are ratios.
    #[test]
    fn students_own_sample_has_its_published_interval() {
        let first: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let second: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let pairs = second.iter().zip(&first);
        let pairs: Vec<_> = pairs
            .map(|(above, below)| (above.exp(), below.exp()))
            .collect();
        let found = Ratio::of_pairs(&pairs).unwrap();
        assert_eq!(found.count, 10);
        near(found.ratio.ln(), 1.58);
        let (from, to) = found.interval.unwrap();
        near(from.ln(), 0.7001);
        near(to.ln(), 2.4599);
        assert!(found.is_proven());
    }

    /// The same sample without its pairs proves nothing: R says -0.2039 to 3.3639.
    #[test]
    fn without_pairs_the_interval_is_wider() {
        let first = [0.7_f64, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0].map(f64::exp);
        let second = [1.9_f64, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4].map(f64::exp);
        let found = Ratio::of_samples(&second, &first).unwrap();
        let (from, to) = found.interval.unwrap();
        near(-from.ln(), 0.2039);
        near(to.ln(), 3.3639);
        assert!(!found.is_proven());
    }

    #[test]
    fn what_slows_both_is_in_nobodys_disfavour() {
        let noisy = Ratio::of_pairs(&[(11.0, 10.0), (22.0, 20.0), (5.5, 5.0)]).unwrap();
        near(noisy.ratio, 1.1);
        assert!(noisy.is_proven());
    }

    #[test]
    fn twice_and_half_cancel_out() {
        let found = Ratio::of_pairs(&[(2.0, 1.0), (1.0, 2.0)]).unwrap();
        near(found.ratio, 1.0);
        assert!(!found.is_proven());
    }

    #[test]
    fn too_little_is_no_proof() {
        assert_eq!(Ratio::of_pairs(&[]), None);
        assert_eq!(Ratio::of_pairs(&[(1.0, 0.0), (f64::NAN, 1.0)]), None);
        let one = Ratio::of_pairs(&[(9.0, 1.0)]).unwrap();
        assert_eq!(one.interval, None);
        assert!(!one.is_proven());
        assert_eq!(Ratio::of_samples(&[3.0], &[1.0]).unwrap().interval, None);
        assert_eq!(Ratio::of_samples(&[3.0], &[0.0]), None);
        assert_eq!(Margin::of_pairs(&[]), None);
        let one = Margin::of_pairs(&[(0.4, 0.0)]).unwrap();
        assert!(one.interval.is_none() && !one.is_proven());
    }

    /// Rounds that have a ratio, alone, would tell of another thing.
    #[test]
    fn one_figure_of_nothing_leaves_no_ratio() {
        assert_eq!(Ratio::of_pairs(&[(2.0, 1.0), (2.0, 1.0), (2.0, 0.0)]), None);
        assert_eq!(Ratio::of_samples(&[2.0, 2.1], &[1.0, 1.1, 0.0]), None);
    }

    #[test]
    fn nothing_against_something_is_a_difference() {
        let pairs = [(0.0, 0.38), (0.0, 0.40), (0.0, 0.42)];
        let found = Margin::of_pairs(&pairs).unwrap();
        near(-found.difference(), 0.4);
        // 4.303 times 0.02, by the root of 3.
        let (from, to) = found.interval.unwrap();
        near(-from, 0.4 + 0.049_68);
        near(-to, 0.4 - 0.049_68);
        assert!(found.is_proven());
        let all = Margin::of_pairs(&[(0.0, 0.4); 3]).unwrap();
        assert!(all.is_proven());
        assert!(all.chance.is_some_and(|chance| chance < 1e-9));
        assert_eq!(
            Margin::of_pairs(&[(0.4, 0.4); 3]).unwrap().chance,
            Some(1.0)
        );
        assert!(!Margin::of_pairs(&[(0.0, 0.0); 3]).unwrap().is_proven());
    }

    /// Student's own again, in hours: paired, and without pairs.
    #[test]
    fn margins_have_the_published_intervals() {
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let pairs: Vec<_> = second.into_iter().zip(first).collect();
        let (from, to) = Margin::of_pairs(&pairs).unwrap().interval.unwrap();
        near(from, 0.7001);
        near(to, 2.4599);
        near(Margin::of_pairs(&pairs).unwrap().chance.unwrap(), 0.002_833);
        let apart = Margin::of_samples(&second, &first).unwrap();
        let (from, to) = apart.interval.unwrap();
        near(-from, 0.2039);
        near(to, 3.3639);
        near(apart.chance.unwrap(), 0.079_19);
        assert!(!apart.is_proven());
    }
}
