//! Computes statistics of samples: their spread, Student's t, and Holm's method for many
//! comparisons.
//!
//! Student, "The probable error of a mean", Biometrika 6 (1908), gives how far a mean may lie from
//! the truth. Of twenty comparisons of equals at 95 % one differs by chance; Holm, "A simple
//! sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979),
//! limits the chance that any at all is wrong, however they depend on each other, and loses less
//! than dividing by their number (Bonferroni).

/// Describes a list of samples, in their unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub count: usize,
    pub min: f64,
    /// The middle sample, or the mean of the two in the middle.
    pub median: f64,
    pub mean: f64,
    pub max: f64,
    /// Standard deviation of the sample (divided by one less than the count); 0 for one sample.
    pub deviation: f64,
}

impl Spread {
    /// Computes the spread of samples; `None` if there are none. Samples must be numbers, not NaN.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let count = sorted.len();
        let median = f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]);
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let squares: f64 = sorted.iter().map(|sample| (sample - mean).powi(2)).sum();
        let deviation = match count {
            1 => 0.0,
            _ => (squares / (count - 1) as f64).sqrt(),
        };
        Some(Self { count, min, median, mean, max, deviation })
    }

    /// Returns the interval of the mean of all such samples, by Student's t at [`CONFIDENCE`];
    /// `None` for one sample.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let freedom = self.count.checked_sub(1).filter(|freedom| *freedom > 0)?;
        let error = quantile(CONFIDENCE, freedom) * self.deviation / (self.count as f64).sqrt();
        Some((self.mean - error, self.mean + error))
    }
}

pub const CONFIDENCE: f64 = 0.95;

/// Returns the number of deviations to either side of the mean that hold the share `confidence`
/// (above 0, below 1) of a t distribution with `freedom` degrees; infinite if `freedom` is 0.
pub fn quantile(confidence: f64, freedom: usize) -> f64 {
    /// Number of halvings; more do not change a double.
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

/// Returns the share of the distribution between `-t` and `t`: Abramowitz and Stegun, Handbook of
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
    if is_odd { std::f64::consts::FRAC_2_PI * (angle + sine * sum) } else { sine * sum }
}

/// Returns the probability (0 to 1) that equals differ so much by chance, to either side, if the
/// interval at [`CONFIDENCE`] reaches `error` to either side.
pub(crate) fn chance(difference: f64, error: f64, freedom: usize) -> f64 {
    if error > 0.0 {
        let deviations = difference.abs() / error * quantile(CONFIDENCE, freedom);
        return (1.0 - within(deviations, freedom)).max(0.0);
    }
    // Samples without any spread are equal, or they are not.
    f64::from(u8::from(difference == 0.0))
}

/// Decides for each chance that equals differ so much (0 to 1) whether the difference is
/// established among all of them: the chance that one or more are wrong is 5 % at most.
pub fn established(chances: &[f64]) -> Vec<bool> {
    let limit = 1.0 - CONFIDENCE;
    adjusted(chances).into_iter().map(|chance| chance <= limit).collect()
}

/// Returns the chances, each adjusted for the comparison of all of them.
fn adjusted(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut adjusted = vec![1.0; chances.len()];
    let mut least: f64 = 0.0;
    for (rank, place) in order.into_iter().enumerate() {
        // If one is not established, none that is likelier by chance is.
        least = least.max(chances[place] * (chances.len() - rank) as f64);
        adjusted[place] = least.min(1.0);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first sample of ministat(1)'s manual page.
    #[test]
    fn a_published_sample_has_its_published_spread() {
        let iguana = [50.0, 200.0, 150.0, 400.0, 750.0, 400.0, 150.0];
        let spread = Spread::of(&iguana).unwrap();
        assert_eq!(spread.count, 7);
        assert_eq!((spread.min, spread.max), (50.0, 750.0));
        assert_eq!((spread.median, spread.mean), (200.0, 300.0));
        // 2.447 deviations of 238, by the root of seven.
        let (from, to) = spread.interval().unwrap();
        assert!((from - 79.8).abs() < 0.1 && (to - 520.2).abs() < 0.1, "{from} {to}");
        assert!((spread.deviation - 238.047_61).abs() < 1e-4);
    }

    #[test]
    fn few_samples_have_a_spread_too() {
        assert_eq!(Spread::of(&[]), None);
        let one = Spread::of(&[4.0]).unwrap();
        assert_eq!((one.deviation, one.interval()), (0.0, None));
        assert_eq!(Spread::of(&[4.0, 2.0]).unwrap().median, 3.0);
    }

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

    fn all_near(found: &[f64], wanted: &[f64]) {
        assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-9, "{found} is not {wanted}");
        }
    }

    /// `p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm")` of R, and the same in another order.
    #[test]
    fn chances_are_adjusted_as_by_r() {
        let wanted = [0.05, 0.08, 0.09, 0.09, 0.09];
        all_near(&adjusted(&[0.01, 0.02, 0.03, 0.04, 0.05]), &wanted);
        let wanted = [0.09, 0.05, 0.09, 0.08, 0.09];
        all_near(&adjusted(&[0.04, 0.01, 0.05, 0.02, 0.03]), &wanted);
        all_near(&adjusted(&[0.7, 0.6]), &[1.0, 1.0]);
    }

    /// The usual example of the textbooks: 0.005 and 0.01 keep a fourth and a third of 5 %, 0.03
    /// does not keep the half, and therefore 0.04 is not tested.
    #[test]
    fn the_first_that_is_not_established_ends_it() {
        let chances = [0.01, 0.04, 0.03, 0.005];
        assert_eq!(established(&chances), [true, false, false, true]);
        assert_eq!(established(&[0.04]), [true]);
        assert_eq!(established(&[]), [false; 0]);
    }

    /// A third of 5 % is 1.7 %: Bonferroni would establish one of three, Holm establishes all.
    #[test]
    fn it_loses_less_than_dividing_by_their_number() {
        assert_eq!(established(&[0.02, 0.03, 0.01]), [true; 3]);
    }
}
