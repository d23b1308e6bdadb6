//! Decides when to stop repeating: the sequential rule of `run --until`.
//!
//! Rounds go on until the interval of every comparison is as narrow as requested: Chow and Robbins,
//! "On the asymptotic theory of fixed-width sequential confidence intervals", Annals of
//! Mathematical Statistics 36 (1965). The width alone decides, and never on which side of equality
//! an interval lies, so that checking after each round picks no finding. It does pick a moment at
//! which the spread looks small, which makes intervals too short; Simons, Annals of Mathematical
//! Statistics 39 (1968), shows that a fixed number of further rounds makes up for that.

use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::metric::Metric;

/// Rounds before the first check: with fewer, the spread is hardly known.
pub const ROUNDS_BEFORE: usize = 12;

/// Rounds after the one at which intervals were narrow enough.
pub const ROUNDS_AFTER: usize = 5;

/// Minimum of rounds.
pub const ROUNDS_MIN: u32 = (ROUNDS_BEFORE + ROUNDS_AFTER) as u32;

/// Maximum of rounds, as for a number of repeats: halving an interval takes four times as many.
pub const ROUNDS_MAX: u32 = 1000;

/// Requested width of intervals, and the time that a run may take.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StoppingRule {
    /// Greatest distance of an interval's end to either side: relative to the compared figure, or,
    /// for shares, which are subtracted, in points (parts of 1).
    pub reach: f64,
    /// Time after the first round of the scenario after which no round begins.
    pub time_max_ns: u64,
}

impl StoppingRule {
    /// Reports whether these comparisons of a metric, each with a pair for each round, have enough
    /// rounds.
    pub fn is_met(&self, metric: Metric, comparisons: &[Vec<(f64, f64)>]) -> bool {
        let count = comparisons.iter().map(Vec::len).min().unwrap_or(0);
        let mut looks = ROUNDS_BEFORE..=count.saturating_sub(ROUNDS_AFTER);
        looks.any(|look| comparisons.iter().all(|pairs| self.is_narrow(metric, &pairs[..look])))
    }

    fn is_narrow(&self, metric: Metric, pairs: &[(f64, f64)]) -> bool {
        // A metric that is always 0 has no interval, and never will.
        let effect = Effect::of_metric(metric, pairs);
        effect.is_none_or(|effect| effect.reach().is_some_and(|(_, half)| half <= self.reach))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRIC: Metric = Metric::ServerCpu;

    fn rule(reach: f64) -> StoppingRule {
        StoppingRule { reach, time_max_ns: u64::MAX }
    }

    #[test]
    fn rounds_go_on_for_a_while_after_the_interval_is_narrow() {
        let calm: Vec<_> = (0..ROUNDS_MIN).map(|_| (1.0, 1.0)).collect();
        let is_met = |count| rule(0.03).is_met(METRIC, &[calm[..count].to_vec()]);
        assert!(is_met(ROUNDS_MIN as usize) && !is_met(ROUNDS_MIN as usize - 1));
        // The widest comparison decides, and so does the one with the fewest rounds.
        let wild: Vec<_> = (0..ROUNDS_MIN).map(|round| (f64::from(1 + round), 1.0)).collect();
        assert!(!rule(0.03).is_met(METRIC, &[calm.clone(), wild]));
        assert!(!rule(0.03).is_met(METRIC, &[calm.clone(), calm[..3].to_vec()]));
        assert!(!rule(0.03).is_met(METRIC, &[]));
    }

    /// Seeded random numbers: L'Ecuyer, "Tables of linear congruential generators", 1999.
    struct Chance(u64);

    impl Chance {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(3_037_000_493);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
        }
    }

    /// Simulates runs that end by the rule: returns the share whose interval holds the truth, the
    /// share that finds a difference, and their mean number of rounds. `slowed`: how often one side
    /// of a round is 1.2 to 2 times as slow.
    fn simulated(truth: f64, noise: f64, slowed: f64, reach: f64) -> (f64, f64, f64) {
        const RUNS: u32 = 5000;
        let mut chance = Chance(7);
        let (mut held, mut found, mut rounds) = (0, 0, 0);
        for _ in 0..RUNS {
            let mut side = |scale: f64| {
                let is_slowed = chance.uniform() < slowed;
                let slow = if is_slowed { 1.2 + 0.8 * chance.uniform() } else { 1.0 };
                scale * slow * (noise * chance.normal()).exp()
            };
            let mut round = || (side(truth), side(1.0));
            let mut pairs: Vec<_> = (0..ROUNDS_BEFORE).map(|_| round()).collect();
            while !rule(reach).is_narrow(METRIC, &pairs) {
                pairs.push(round());
            }
            pairs.extend((0..ROUNDS_AFTER).map(|_| round()));
            let effect = Effect::of_metric(METRIC, &pairs).unwrap();
            let (from, to) = effect.interval.unwrap();
            held += u32::from(from <= truth && truth <= to);
            found += u32::from(effect.is_proven());
            rounds += pairs.len();
        }
        let share = |count: u32| f64::from(count) / f64::from(RUNS);
        (share(held), share(found), rounds as f64 / f64::from(RUNS))
    }

    /// In ten thousand such runs 93.7 to 95.4 % of intervals hold the truth; only 91 % if no rounds
    /// follow. Student's hold it as often; if rounds are slowed, they take seven times as many
    /// rounds.
    #[test]
    fn runs_that_stop_by_themselves_hold_their_confidence() {
        for (noise, slowed) in [(0.05, 0.0), (0.03, 0.1)] {
            let of = |truth| simulated(truth, noise, slowed, 0.03);
            let (equal, differ) = (of(1.0), of(1.07));
            let said = format!("{noise} {slowed}: equal {equal:?}, 7 % more {differ:?}");
            assert!(equal.0 > 0.925 && differ.0 > 0.925, "{said}");
            assert!(equal.1 < 0.075 && differ.1 > 0.95, "{said}");
        }
    }
}
