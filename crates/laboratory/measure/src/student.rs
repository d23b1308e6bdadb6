//! Student's t: how far a mean may lie from the truth, and whether two samples differ.
//!
//! Student, "The probable error of a mean", Biometrika 6 (1908). The comparison of two samples is
//! that of ministat(1): their deviations are pooled, as if they came from one source of noise.

use crate::statistics::Spread;

/// How sure intervals are.
pub const CONFIDENCE: f64 = 0.95;

/// So many deviations of its mean to either side hold the share `confidence` (above 0, below 1) of
/// a t distribution with `freedom` degrees; infinite where there are none.
#[must_use]
pub fn quantile(confidence: f64, freedom: usize) -> f64 {
    /// Halvings; more do not change a double.
    const HALVINGS: usize = 200;
    assert!(confidence > 0.0 && confidence < 1.0, "a share");
    if freedom == 0 {
        return f64::INFINITY;
    }
    let (mut below, mut above) = (0.0, 1.0);
    while within(above, freedom) < confidence {
        above *= 2.0;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(below, above);
        if within(middle, freedom) < confidence {
            below = middle;
        } else {
            above = middle;
        }
    }
    f64::midpoint(below, above)
}

/// The share of the distribution between `-t` and `t`: Abramowitz and Stegun, Handbook of
/// Mathematical Functions (1964), 26.7.3 and 26.7.4.
fn within(t: f64, freedom: usize) -> f64 {
    let degrees = freedom as f64;
    let angle = (t / degrees.sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    // Each term is the one before times cos² k/(k + 1), for every second k.
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    let first = if is_odd { 2 } else { 1 };
    for k in (first..freedom.saturating_sub(2)).step_by(2) {
        term *= cosine * cosine * k as f64 / (k + 1) as f64;
        sum += term;
    }
    match is_odd {
        true => std::f64::consts::FRAC_2_PI * (angle + sine * sum),
        false => sine * sum,
    }
}

/// How likely equals lie so far apart by chance, to either side, where the interval at
/// [`CONFIDENCE`] reaches `error` to either side: 0 to 1.
#[must_use]
pub(crate) fn chance(difference: f64, error: f64, freedom: usize) -> f64 {
    if error > 0.0 {
        let deviations = difference.abs() / error * quantile(CONFIDENCE, freedom);
        return (1.0 - within(deviations, freedom)).max(0.0);
    }
    // Samples without any spread are equal, or they are not.
    f64::from(u8::from(difference == 0.0))
}

/// Two samples compared, as ministat(1) does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The mean of the second less that of the first, in their unit.
    pub difference: f64,
    /// How far the true difference may lie from it to either side, at [`CONFIDENCE`].
    pub error: f64,
    /// The standard deviation of both, pooled.
    pub pooled_deviation: f64,
}

impl Difference {
    /// Of two samples; `None` if there are too few to tell noise from a difference.
    #[must_use]
    pub fn of(first: &Spread, second: &Spread) -> Option<Self> {
        let (m, n) = (first.count as f64, second.count as f64);
        let freedom = (first.count + second.count).checked_sub(2)?;
        if freedom == 0 {
            return None;
        }
        let squares = (m - 1.0) * first.deviation.powi(2) + (n - 1.0) * second.deviation.powi(2);
        let pooled_deviation = (squares / freedom as f64).sqrt();
        let scale = (1.0 / m + 1.0 / n).sqrt();
        Some(Self {
            difference: second.mean - first.mean,
            error: quantile(CONFIDENCE, freedom) * pooled_deviation * scale,
            pooled_deviation,
        })
    }

    /// Whether a difference is proven: the interval leaves out 0.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.difference.abs() > self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, wanted: f64, within: f64) {
        assert!((value - wanted).abs() < within, "{value} is not {wanted}");
    }

    /// The table of every book.
    #[test]
    fn quantiles_are_those_of_the_table() {
        let table = [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (6, 2.447),
            (9, 2.262),
            (10, 2.228),
            (18, 2.101),
            (20, 2.086),
            (30, 2.042),
            (100, 1.984),
        ];
        for (freedom, wanted) in table {
            near(quantile(0.95, freedom), wanted, 5e-4);
        }
        near(quantile(0.99, 3), 5.841, 5e-4);
        near(quantile(0.8, 8), 1.397, 5e-4);
        assert_eq!(quantile(0.95, 0), f64::INFINITY);
    }

    fn difference(first: &[f64], second: &[f64]) -> Difference {
        let spread = |samples| Spread::of(samples).unwrap();
        Difference::of(&spread(first), &spread(second)).unwrap()
    }

    /// The example of ministat(1)'s manual page: no difference proven at 95 %.
    #[test]
    fn iguana_and_chameleon_do_not_differ() {
        let iguana = [50.0, 200.0, 150.0, 400.0, 750.0, 400.0, 150.0];
        let chameleon = [150.0, 400.0, 720.0, 500.0, 930.0];
        let found = difference(&iguana, &chameleon);
        assert_eq!(found.difference, 240.0);
        near(found.pooled_deviation, 264.159, 1e-3);
        assert!(!found.is_proven());
    }

    /// Weights of plants under two treatments: A. Dobson, An Introduction to Statistical Modelling
    /// (1983), table 2.1; R's `t.test(…, var.equal = TRUE)` says 0.2613 to 1.4687.
    #[test]
    fn plants_under_two_treatments_differ() {
        let first = [4.81, 4.17, 4.41, 3.59, 5.87, 3.83, 6.03, 4.89, 4.32, 4.69];
        let second = [6.31, 5.12, 5.54, 5.50, 5.37, 5.29, 4.92, 6.15, 5.80, 5.26];
        let found = difference(&first, &second);
        near(found.difference - found.error, 0.2613, 1e-4);
        near(found.difference + found.error, 1.4687, 1e-4);
        assert!(found.is_proven());
        assert!(difference(&second, &first).is_proven());
    }

    #[test]
    fn of_two_single_samples_nothing_is_told() {
        let one = Spread::of(&[1.0]).unwrap();
        assert_eq!(Difference::of(&one, &one), None);
        assert!(Difference::of(&one, &Spread::of(&[9.0, 9.1]).unwrap()).is_some());
    }
}
