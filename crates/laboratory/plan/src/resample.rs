//! The bootstrap: B. Efron, "Bootstrap methods", Annals of Statistics 7 (1979), by percentiles.

use measure::planned::PlannedFigure;
use measure::random::SplitMix;

/// Resamples of each figure: with fewer the bounds themselves vary by more than a tenth.
const RESAMPLES: usize = 400;

/// The mean of samples drawn anew with repetition.
fn redrawn_mean(samples: &[f64], random: &mut SplitMix) -> f64 {
    let drawn = (0..samples.len()).map(|_| samples[random.below(samples.len())]);
    drawn.sum::<f64>() / samples.len().max(1) as f64
}

pub(crate) fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// A figure that `reckon` makes of the means of several groups of samples.
pub(crate) fn figure(
    groups: &[&[f64]],
    seed: u64,
    reckon: impl Fn(&[f64]) -> Option<f64>,
) -> Option<PlannedFigure> {
    let means: Vec<f64> = groups.iter().map(|samples| mean(samples)).collect();
    let value = reckon(&means)?;
    let mut random = SplitMix { state: seed };
    let resample = |_| {
        let means: Vec<f64> =
            groups.iter().map(|samples| redrawn_mean(samples, &mut random)).collect();
        reckon(&means)
    };
    let mut all: Vec<f64> = (0..RESAMPLES).filter_map(resample).collect();
    all.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = (all.len().saturating_sub(1) as f64 * share).round() as usize;
        all.get(place).copied().unwrap_or(value)
    };
    Some(PlannedFigure { value, low: at(0.025).min(value), high: at(0.975).max(value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_the_mean_and_widen_with_the_spread() {
        let of = |samples: &[f64]| figure(&[samples], 1, |means| Some(means[0])).unwrap();
        let narrow = of(&[10.0, 10.1, 9.9, 10.0]);
        let wide = of(&[5.0, 15.0, 8.0, 12.0]);
        assert!((narrow.value - 10.0).abs() < 1e-9 && (wide.value - 10.0).abs() < 1e-9);
        assert!(narrow.high - narrow.low < 0.3 && wide.high - wide.low > 4.0);
        assert_eq!(of(&[3.0]).low, of(&[3.0]).high);
    }
}
