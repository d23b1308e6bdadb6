//! How many times one figure is another, with an interval.
//!
//! Ratios are averaged by their logarithms, so that twice and half cancel out: Fleming and
//! Wallace, "How not to lie with statistics", Communications of the ACM 29(3), 1986. The interval
//! is Student's t of those logarithms. Samples of the same round are paired where there are rounds:
//! what slowed both down is in neither's disfavour.

use crate::statistics::Spread;
use crate::student::{CONFIDENCE, Difference, quantile};

/// How many times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The geometric mean.
    pub ratio: f64,
    /// The ends of the interval at [`CONFIDENCE`]; `None` if there are too few samples for one.
    pub interval: Option<(f64, f64)>,
    /// How many ratios it was taken from: rounds, or the lesser count of two samples.
    pub count: usize,
}

impl Ratio {
    /// Of pairs `(above, below)`, one a round. Pairs in which a figure is not above 0 have no
    /// ratio; `None` if no pair has one.
    #[must_use]
    pub fn of_pairs(pairs: &[(f64, f64)]) -> Option<Self> {
        let is_told = |(above, below): &&(f64, f64)| *above > 0.0 && *below > 0.0;
        let logarithms = pairs.iter().filter(is_told);
        let logarithms: Vec<f64> = logarithms
            .map(|(above, below)| (above / below).ln())
            .collect();
        let spread = Spread::of(&logarithms)?;
        let freedom = spread.count - 1;
        let error = quantile(CONFIDENCE, freedom) * spread.deviation / (spread.count as f64).sqrt();
        Some(Self::around(
            spread.mean,
            (freedom > 0).then_some(error),
            spread.count,
        ))
    }

    /// Of samples that have nothing to do with each other, as those of two runs: by the pooled
    /// deviation. Samples that are not above 0 have no logarithm and are left out.
    #[must_use]
    pub fn of_samples(above: &[f64], below: &[f64]) -> Option<Self> {
        let logarithms = |samples: &[f64]| {
            let told = samples.iter().filter(|sample| **sample > 0.0);
            Spread::of(&told.map(|sample| sample.ln()).collect::<Vec<_>>())
        };
        let (above, below) = (logarithms(above)?, logarithms(below)?);
        let found = Difference::of(&below, &above);
        let count = above.count.min(below.count);
        Some(Self::around(
            above.mean - below.mean,
            found.map(|it| it.error),
            count,
        ))
    }

    fn around(logarithm: f64, error: Option<f64>, count: usize) -> Self {
        Self {
            ratio: logarithm.exp(),
            interval: error.map(|error| ((logarithm - error).exp(), (logarithm + error).exp())),
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
    }
}
