//! Computes how one figure differs from another, with an interval: as a ratio, or as a difference.
//!
//! Ratios are averaged by their logarithms, so that twice and half cancel out: Fleming and Wallace,
//! "How not to lie with statistics", Communications of the ACM 29(3), 1986. The interval is that of
//! the trimmed mean: Tukey and McLaughlin, Sankhyā A 25 (1963), and for two samples Yuen and Dixon,
//! Biometrika 60 (1973). Of five samples the least and the greatest are cut off, of ten the two
//! least and greatest, by the samples' rank and on both sides alike, so that one disturbed round
//! does not decide; for fewer than five it is Student's t. Samples of the same round are paired,
//! because a disturbance that slowed both down favours neither. Unpaired samples are compared as
//! ministat(1) does: their deviations are pooled, as if they came from one source of noise.
//!
//! No figure is a multiple of 0: figures that may be 0 are subtracted. No round is omitted because
//! the machine was busy: a share of noise is no reason to believe a result less than its
//! neighbours.

use crate::metric::Metric;
use crate::statistics::{CONFIDENCE, Spread, chance, quantile};

/// Divisor of the count of samples: one in this many is cut off on each side, by rank.
const TRIMMED: usize = 5;

/// How two figures are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EffectScale {
    /// The first figure divided by the second.
    Ratio,
    /// The first figure minus the second, in their unit.
    Difference,
}

/// The comparison of one figure with another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    pub scale: EffectScale,
    /// Geometric mean of ratios, or mean of differences, each of the trimmed samples.
    pub value: f64,
    /// Ends of the interval at [`CONFIDENCE`]; `None` if there are too few samples for one.
    pub interval: Option<(f64, f64)>,
    /// Probability that equals differ so much by chance, 0 to 1; `None` if there is no interval.
    pub chance: Option<f64>,
    /// Number of pairs, or the lesser count of two samples.
    pub count: usize,
    /// Means of the first figure and of the second, in their unit.
    pub means: (f64, f64),
}

impl EffectScale {
    /// Transforms a sample for averaging; `None` if it has no ratio.
    fn enter(self, sample: f64) -> Option<f64> {
        match self {
            Self::Ratio => (sample > 0.0).then(|| sample.ln()),
            Self::Difference => Some(sample),
        }
    }

    fn leave(self, value: f64) -> f64 {
        match self {
            Self::Ratio => value.exp(),
            Self::Difference => value,
        }
    }

    pub fn neutral(self) -> f64 {
        self.leave(0.0)
    }
}

/// Samples without their extremes: mean of the rest, and their spread.
struct TrimmedSamples {
    mean: f64,
    /// Sum of squares about the mean, with each cut sample replaced by the nearest one left.
    squares: f64,
    /// Number of samples left.
    count: usize,
}

impl TrimmedSamples {
    /// Cuts off one of `part` samples on each side; `None` without samples.
    fn of(samples: &[f64], part: usize) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let cut = sorted.len() / part.max(3);
        let left = sorted.get(cut..sorted.len() - cut)?;
        let (least, most) = (*left.first()?, *left.last()?);
        let (count, mean) = (left.len(), Spread::of(left)?.mean);
        let drawn_in: Vec<f64> = sorted.iter().map(|it| it.clamp(least, most)).collect();
        let spread = Spread::of(&drawn_in)?;
        let squares = spread.deviation.powi(2) * (spread.count - 1) as f64;
        Some(Self { mean, squares, count })
    }
}

impl Effect {
    /// Computes the effect of pairs of a metric, one per round; `None` if there is nothing but 0 of
    /// a metric that is not a share.
    pub fn of_metric(metric: Metric, pairs: &[(f64, f64)]) -> Option<Self> {
        let is_nothing = pairs.iter().all(|pair| *pair == (0.0, 0.0));
        Self::scaled(metric, is_nothing, |scale| Self::of_pairs(pairs, scale))
    }

    /// Computes the effect of samples of two runs, which have no rounds in common.
    pub fn of_runs(metric: Metric, above: &[f64], below: &[f64]) -> Option<Self> {
        let is_nothing = above.iter().chain(below).all(|sample| *sample == 0.0);
        Self::scaled(metric, is_nothing, |scale| Self::of_samples(above, below, scale))
    }

    /// Uses ratios if the values allow it, otherwise differences; shares are always subtracted.
    fn scaled(
        metric: Metric,
        is_nothing: bool,
        of: impl Fn(EffectScale) -> Option<Self>,
    ) -> Option<Self> {
        match metric.is_share() {
            true => of(EffectScale::Difference),
            false if is_nothing => None,
            false => of(EffectScale::Ratio).or_else(|| of(EffectScale::Difference)),
        }
    }

    /// Computes the effect of pairs, one per round. `None` without pairs, or if ratios are asked
    /// for and a figure has none.
    pub fn of_pairs(pairs: &[(f64, f64)], scale: EffectScale) -> Option<Self> {
        Self::paired(pairs, scale, TRIMMED)
    }

    fn paired(pairs: &[(f64, f64)], scale: EffectScale, part: usize) -> Option<Self> {
        let change =
            |(above, below): &(f64, f64)| Some(scale.enter(*above)? - scale.enter(*below)?);
        let changes: Option<Vec<f64>> = pairs.iter().map(change).collect();
        let trimmed = TrimmedSamples::of(&changes?, part)?;
        let mean = |of: fn(&(f64, f64)) -> f64| {
            Some(Spread::of(&pairs.iter().map(of).collect::<Vec<_>>())?.mean)
        };
        let means = (mean(|pair| pair.0)?, mean(|pair| pair.1)?);
        let freedom = trimmed.count - 1;
        let deviation = (trimmed.squares / (trimmed.count * freedom.max(1)) as f64).sqrt();
        Some(Self::around(scale, trimmed.mean, deviation, freedom, pairs.len(), means))
    }

    /// Computes the effect of unpaired samples, such as those of two runs, by their pooled
    /// deviation. `None` without samples, or if ratios are asked for and one has none.
    pub fn of_samples(above: &[f64], below: &[f64], scale: EffectScale) -> Option<Self> {
        Self::apart(above, below, scale, TRIMMED)
    }

    fn apart(above: &[f64], below: &[f64], scale: EffectScale, part: usize) -> Option<Self> {
        let entered = |samples: &[f64]| {
            let samples: Option<Vec<f64>> = samples.iter().map(|it| scale.enter(*it)).collect();
            TrimmedSamples::of(&samples?, part)
        };
        let (first, second) = (entered(above)?, entered(below)?);
        let (m, n) = (first.count as f64, second.count as f64);
        let freedom = (first.count + second.count).saturating_sub(2);
        let pooled = ((first.squares + second.squares) / freedom.max(1) as f64).sqrt();
        let deviation = pooled * (1.0 / m + 1.0 / n).sqrt();
        let means = (Spread::of(above)?.mean, Spread::of(below)?.mean);
        let count = above.len().min(below.len());
        Some(Self::around(scale, first.mean - second.mean, deviation, freedom, count, means))
    }

    /// Makes the interval around the middle, whose deviation is `deviation`.
    fn around(
        scale: EffectScale,
        middle: f64,
        deviation: f64,
        freedom: usize,
        count: usize,
        means: (f64, f64),
    ) -> Self {
        let error = (freedom > 0).then(|| quantile(CONFIDENCE, freedom) * deviation);
        Self {
            scale,
            value: scale.leave(middle),
            interval: error.map(|it| (scale.leave(middle - it), scale.leave(middle + it))),
            chance: error.map(|error| chance(middle, error, freedom)),
            count,
            means,
        }
    }

    /// Reports whether the two differ: the interval excludes the value of equals.
    pub fn is_proven(&self) -> bool {
        let neutral = self.scale.neutral();
        self.interval.is_some_and(|(from, to)| from > neutral || to < neutral)
    }

    /// Returns the greatest change that the interval leaves possible, and the least that its width
    /// could have told from none: relative to the second figure, or in points if shares are
    /// subtracted. `None` without an interval.
    pub fn reach(&self) -> Option<(f64, f64)> {
        let (from, to) = self.interval?;
        let (possible, visible) = match self.scale {
            EffectScale::Ratio => (to.max(1.0 / from) - 1.0, (to / from).sqrt() - 1.0),
            EffectScale::Difference => (to.abs().max(from.abs()), (to - from) / 2.0),
        };
        Some((possible, visible))
    }

    /// Reports whether the first is less than the second.
    pub fn is_less(&self) -> bool {
        self.value < self.scale.neutral()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::EffectScale::{Difference, Ratio};

    fn near(value: f64, wanted: f64) {
        assert!((value - wanted).abs() < 1e-3 * wanted.abs(), "{value} is not {wanted}");
    }

    /// Student's own: hours of sleep that two drugs gave to ten patients (1908).
    const FIRST: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    const SECOND: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];

    /// R's `t.test` of the same sample, paired and not; as exponents they are ratios.
    #[test]
    fn students_own_sample_has_its_published_intervals() {
        for scale in [Ratio, Difference] {
            let leave = |samples: [f64; 10]| samples.map(|it| scale.leave(it));
            let (first, second) = (leave(FIRST), leave(SECOND));
            let pairs: Vec<_> = second.into_iter().zip(first).collect();
            let ends = |effect: &Effect| {
                let (from, to) = effect.interval.unwrap();
                (scale.enter(from).unwrap(), scale.enter(to).unwrap())
            };
            let paired = Effect::paired(&pairs, scale, usize::MAX).unwrap();
            assert_eq!(paired.count, 10);
            near(scale.enter(paired.value).unwrap(), 1.58);
            near(ends(&paired).0, 0.7001);
            near(ends(&paired).1, 2.4599);
            near(paired.chance.unwrap(), 0.002_833);
            assert!(paired.is_proven() && !paired.is_less());
            // Without pairs the interval is wider, and proves nothing.
            let apart = Effect::apart(&second, &first, scale, usize::MAX).unwrap();
            near(ends(&apart).0, -0.2039);
            near(ends(&apart).1, 3.3639);
            near(apart.chance.unwrap(), 0.079_19);
            assert!(!apart.is_proven());
        }
    }

    /// The example of ministat(1)'s manual page: no difference proven at 95 %.
    #[test]
    fn iguana_and_chameleon_do_not_differ() {
        let iguana = [50.0, 200.0, 150.0, 400.0, 750.0, 400.0, 150.0];
        let chameleon = [150.0, 400.0, 720.0, 500.0, 930.0];
        let found = Effect::apart(&chameleon, &iguana, Difference, usize::MAX).unwrap();
        assert_eq!(found.value, 240.0);
        assert!(!found.is_proven());
    }

    /// Weights of plants under two treatments: A. Dobson, An Introduction to Statistical Modelling
    /// (1983), table 2.1; R's `t.test(…, var.equal = TRUE)` says 0.2613 to 1.4687.
    #[test]
    fn plants_under_two_treatments_differ() {
        let first = [4.81, 4.17, 4.41, 3.59, 5.87, 3.83, 6.03, 4.89, 4.32, 4.69];
        let second = [6.31, 5.12, 5.54, 5.50, 5.37, 5.29, 4.92, 6.15, 5.80, 5.26];
        let found = Effect::apart(&second, &first, Difference, usize::MAX).unwrap();
        near(found.interval.unwrap().0, 0.2613);
        near(found.interval.unwrap().1, 1.4687);
        assert!(found.is_proven());
        let back = Effect::apart(&first, &second, Difference, usize::MAX).unwrap();
        assert!(back.is_proven() && back.is_less());
    }

    /// Simulates ratios of rounds on a busy host: 3 % of noise, and one side of every seventh round
    /// 1.2 to 2 times as slow. Returns, of 2000 runs of 12 rounds, the share whose interval holds
    /// the truth, and the share that proves it to be no 1.
    fn simulated(truth: f64, part: usize) -> (f64, f64) {
        const RUNS: u32 = 2000;
        let mut state = 7_u64;
        let mut random = || {
            // L'Ecuyer, "Tables of linear congruential generators", 1999.
            state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(3_037_000_493);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let (mut held, mut proven) = (0, 0);
        for _ in 0..RUNS {
            let mut side = |scale: f64| {
                let normal = (0..12).map(|_| random()).sum::<f64>() - 6.0;
                let slowed = if random() < 1.0 / 14.0 { 1.2 + 0.8 * random() } else { 1.0 };
                scale * slowed * (0.03 * normal).exp()
            };
            let pairs: Vec<_> = (0..12).map(|_| (side(truth), side(1.0))).collect();
            let found = Effect::paired(&pairs, Ratio, part).unwrap();
            let (from, to) = found.interval.unwrap();
            held += u32::from(from <= truth && truth <= to);
            proven += u32::from(found.is_proven());
        }
        (f64::from(held) / f64::from(RUNS), f64::from(proven) / f64::from(RUNS))
    }

    #[test]
    fn trimmed_intervals_hold_and_find_what_students_do_not() {
        let (student, trimmed) = (simulated(1.07, usize::MAX), simulated(1.07, TRIMMED));
        let found = format!("Student's t {student:?}, trimmed {trimmed:?}");
        assert!(student.0 > 0.94 && trimmed.0 > 0.94, "{found}");
        assert!(trimmed.1 > 1.5 * student.1, "{found}");
        let null = simulated(1.0, TRIMMED);
        assert!(null.1 < 0.06, "{null:?}");
    }

    /// Three rounds are enough if nothing overlaps: a factor of five is found through noise of a
    /// third, with rounds or without; if it is not, the interval says how much was not seen.
    #[test]
    fn a_factor_of_five_in_three_rounds_is_found() {
        let pairs = [(510.0, 100.0), (790.0, 130.0), (390.0, 90.0)];
        let (above, below) = pairs.iter().copied().unzip::<_, _, Vec<f64>, Vec<f64>>();
        for found in [Effect::of_pairs(&pairs, Ratio), Effect::of_samples(&above, &below, Ratio)]
            .map(Option::unwrap)
        {
            assert!(found.is_proven() && !found.is_less(), "{found:?}");
            assert!((4.0..6.5).contains(&found.value), "{found:?}");
        }
        // Ratios of 2, 5 and 25: no round overlaps, and no method has more than three signs.
        let wild = [(200.0, 100.0), (500.0, 100.0), (2500.0, 100.0)];
        let found = Effect::of_pairs(&wild, Ratio).unwrap();
        assert!(!found.is_proven());
        assert!(found.reach().unwrap().1 > 5.0, "{found:?}");
    }

    #[test]
    fn what_slows_both_favours_neither() {
        let noisy = Effect::of_pairs(&[(11.0, 10.0), (22.0, 20.0), (5.5, 5.0)], Ratio).unwrap();
        near(noisy.value, 1.1);
        assert!(noisy.is_proven());
    }

    #[test]
    fn twice_and_half_cancel_out() {
        let found = Effect::of_pairs(&[(2.0, 1.0), (1.0, 2.0)], Ratio).unwrap();
        near(found.value, 1.0);
        assert!(!found.is_proven());
    }

    #[test]
    fn too_little_is_no_proof() {
        for scale in [Ratio, Difference] {
            assert_eq!(Effect::of_pairs(&[], scale), None);
            assert_eq!(Effect::of_samples(&[], &[1.0], scale), None);
            let one = Effect::of_pairs(&[(9.0, 1.0)], scale).unwrap();
            assert!(one.interval.is_none() && !one.is_proven());
            let one = Effect::of_samples(&[3.0], &[1.0], scale).unwrap();
            assert_eq!(one.interval, None);
            assert!(Effect::of_samples(&[3.0], &[9.0, 9.1], scale).unwrap().interval.is_some());
        }
    }

    /// Ratios of the other rounds alone would describe something else.
    #[test]
    fn one_figure_of_nothing_leaves_no_ratio() {
        assert_eq!(Effect::of_pairs(&[(2.0, 1.0), (2.0, 0.0)], Ratio), None);
        assert_eq!(Effect::of_pairs(&[(1.0, 0.0), (f64::NAN, 1.0)], Ratio), None);
        assert_eq!(Effect::of_samples(&[2.0, 2.1], &[1.0, 0.0], Ratio), None);
    }

    #[test]
    fn nothing_against_something_is_a_difference() {
        let pairs = [(0.0, 0.38), (0.0, 0.40), (0.0, 0.42)];
        let found = Effect::of_pairs(&pairs, Difference).unwrap();
        near(found.value, -0.4);
        assert_eq!(found.means.0, 0.0);
        // 4.303 times 0.02, by the root of 3.
        let (from, to) = found.interval.unwrap();
        near(from, -0.4 - 0.049_68);
        near(to, -0.4 + 0.049_68);
        assert!(found.is_proven());
        let chance = |pairs: &[(f64, f64)]| Effect::of_pairs(pairs, Difference).unwrap().chance;
        assert!(chance(&[(0.0, 0.4); 3]).is_some_and(|chance| chance < 1e-9));
        assert_eq!(chance(&[(0.4, 0.4); 3]), Some(1.0));
        assert!(!Effect::of_pairs(&[(0.0, 0.0); 3], Difference).unwrap().is_proven());
    }
}
