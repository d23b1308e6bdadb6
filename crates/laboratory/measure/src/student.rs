//! Student's t: how far a mean may lie from the truth.
//!
//! Student, "The probable error of a mean", Biometrika 6 (1908).

pub const CONFIDENCE: f64 = 0.95;

/// The number of deviations to either side of the mean that hold the share `confidence` (above 0,
/// below 1) of a t distribution with `freedom` degrees; infinite where there are none.
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
    if is_odd {
        std::f64::consts::FRAC_2_PI * (angle + sine * sum)
    } else {
        sine * sum
    }
}

/// How likely equals lie so far apart by chance, to either side, where the interval at
/// [`CONFIDENCE`] reaches `error` to either side: 0 to 1.
pub(crate) fn chance(difference: f64, error: f64, freedom: usize) -> f64 {
    if error > 0.0 {
        let deviations = difference.abs() / error * quantile(CONFIDENCE, freedom);
        return (1.0 - within(deviations, freedom)).max(0.0);
    }
    // Samples without any spread are equal, or they are not.
    f64::from(u8::from(difference == 0.0))
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
}
