//! Plans the instants of an open load's transactions, before the first packet.
//!
//! Handles the arithmetic of changing and random rates; reads no clock. A transaction's latency
//! counts from its planned instant, so that a stalled server cannot hide the transactions that it
//! kept waiting ("coordinated omission").

use std::time::Duration;

use measure::quantity::nanoseconds;
use measure::random::SplitMix;

use crate::plan::{ArrivalModel, Spacing, Stretch};

/// The instants at which one thread begins transactions, counted from the beginning of the warm-up;
/// in order, and before the end of the load.
///
/// Evenly spaced, the threads take the instants of one sequence in turn: together they act as one
/// thread would. With random spacing, each thread is a Poisson process of its share of the rate,
/// and together they are one of the whole rate.
#[derive(Clone, Debug)]
pub struct ArrivalSchedule {
    curve: ArrivalCurve,
    source: ArrivalSource,
}

/// Source of the next instant, in transactions since the beginning.
#[derive(Clone, Debug)]
enum ArrivalSource {
    Constant {
        next: u64,
        step: u64,
    },
    /// Random distances with this mean.
    Poisson {
        reached: f64,
        mean: f64,
        chance: SplitMix,
    },
}

impl ArrivalSchedule {
    /// Makes the schedule of thread `thread` of `threads`; each instant brings this many
    /// transactions. The warm-up has the first rate of the first stretch. The schedule of a closed
    /// load is empty, because it has no planned instants.
    ///
    /// # Panics
    /// Panics if there is no such thread.
    pub fn new(
        arrival: &ArrivalModel,
        warm_up: Duration,
        duration: Duration,
        seed: u64,
        each: u32,
        (thread, threads): (u16, u16),
    ) -> Self {
        assert!(thread < threads, "threads are numbered from 0");
        let (stretches, spacing) = match arrival {
            ArrivalModel::Closed { .. } => (&[][..], Spacing::Constant),
            ArrivalModel::Open { stretches, spacing, .. } => (&stretches[..], *spacing),
        };
        let source = match spacing {
            Spacing::Constant => ArrivalSource::Constant {
                next: u64::from(thread) * u64::from(each),
                step: u64::from(threads) * u64::from(each),
            },
            Spacing::Poisson => {
                let mean = f64::from(threads) * f64::from(each);
                ArrivalSource::poisson(mean, SplitMix::of_thread(seed, thread))
            }
        };
        Self { curve: ArrivalCurve::new(stretches, warm_up, duration), source }
    }
}

impl Iterator for ArrivalSchedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let number = self.source.next();
        self.curve.instant(number).map(Duration::from_nanos)
    }
}

impl ArrivalSource {
    fn poisson(mean: f64, mut chance: SplitMix) -> Self {
        Self::Poisson { reached: mean * chance.exponential(), mean, chance }
    }

    /// Returns the number of transactions due before the next one of this thread.
    fn next(&mut self) -> f64 {
        match self {
            Self::Constant { next, step } => {
                let number = *next;
                *next += *step;
                number as f64
            }
            Self::Poisson { reached, mean, chance } => {
                let number = *reached;
                *reached += *mean * chance.exponential();
                number
            }
        }
    }
}

/// Number of transactions due at a time: the integral of the rate, and its inverse.
#[derive(Clone, Debug)]
struct ArrivalCurve {
    legs: Vec<CurveSegment>,
    /// Leg of the last answer; arguments only rise.
    at: usize,
    end_ns: u64,
}

/// A stretch with its position.
#[derive(Clone, Copy, Debug)]
struct CurveSegment {
    start_ns: u64,
    from_per_s: f64,
    /// Rise of the rate in a second, per second.
    slope: f64,
    /// Transactions due before the leg.
    before: f64,
    /// Transactions due in the leg.
    count: f64,
}

impl ArrivalCurve {
    fn new(stretches: &[Stretch], warm_up: Duration, duration: Duration) -> Self {
        let first_per_s = stretches.first().map_or(0.0, |first| first.from_per_s);
        let warm = Stretch { length: warm_up, from_per_s: first_per_s, to_per_s: first_per_s };
        let mut legs = Vec::with_capacity(stretches.len() + 1);
        let (mut start, mut before) = (Duration::ZERO, 0.0);
        for stretch in std::iter::once(&warm).chain(stretches) {
            let leg = CurveSegment::new(stretch, start, before);
            start += stretch.length;
            before += leg.count;
            legs.push(leg);
        }
        Self { legs, at: 0, end_ns: nanoseconds(start.min(warm_up + duration)) }
    }

    /// Returns the time in nanoseconds at which transaction `number` is due; `None` after the end.
    /// Numbers must not decrease from call to call.
    fn instant(&mut self, number: f64) -> Option<u64> {
        let leg = loop {
            let leg = self.legs.get(self.at)?;
            if number < leg.before + leg.count {
                break leg;
            }
            self.at += 1;
        };
        Some(leg.instant(number - leg.before)).filter(|instant| *instant < self.end_ns)
    }
}

impl CurveSegment {
    fn new(stretch: &Stretch, start: Duration, before: f64) -> Self {
        let length_s = stretch.length.as_secs_f64();
        let slope = match length_s {
            0.0 => 0.0,
            _ => (stretch.to_per_s - stretch.from_per_s) / length_s,
        };
        Self {
            start_ns: nanoseconds(start),
            from_per_s: stretch.from_per_s,
            slope,
            before,
            count: f64::midpoint(stretch.from_per_s, stretch.to_per_s) * length_s,
        }
    }

    /// Returns when `number` transactions of the leg are due: `from t + slope t²/2 = number`,
    /// solved so that neither an even rate nor one from zero divides by zero or cancels digits.
    fn instant(&self, number: f64) -> u64 {
        if number <= 0.0 {
            return self.start_ns;
        }
        let square = self.from_per_s.powi(2) + 2.0 * self.slope * number;
        let seconds = 2.0 * number / (self.from_per_s + square.max(0.0).sqrt());
        self.start_ns + (seconds * 1e9).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stretch(seconds: f64, from: f64, to: f64) -> Stretch {
        Stretch { length: Duration::from_secs_f64(seconds), from_per_s: from, to_per_s: to }
    }

    fn open(stretches: Vec<Stretch>, spacing: Spacing) -> ArrivalModel {
        ArrivalModel::Open { stretches, spacing, session_arrivals: false }
    }

    fn length(stretches: &[Stretch]) -> Duration {
        stretches.iter().map(|stretch| stretch.length).sum()
    }

    /// Returns all instants of one thread, in nanoseconds.
    fn instants(arrival: &ArrivalModel, warm_up: Duration, thread: u16, threads: u16) -> Vec<u64> {
        let ArrivalModel::Open { stretches, .. } = arrival else {
            panic!("closed load has none");
        };
        let duration = length(stretches);
        ArrivalSchedule::new(arrival, warm_up, duration, 7, 1, (thread, threads))
            .map(nanoseconds)
            .collect()
    }

    #[test]
    fn the_warm_up_has_the_first_rate() {
        let arrival = open(vec![stretch(1.0, 2.0, 6.0)], Spacing::Constant);
        let found = instants(&arrival, Duration::from_secs(1), 0, 1);
        let warm = found.iter().take_while(|ns| **ns < 1_000_000_000);
        assert_eq!(warm.copied().collect::<Vec<_>>(), [0, 500_000_000]);
        assert_eq!(found.len(), 2 + 4);
    }

    #[test]
    fn a_ramp_from_nothing_follows_the_root() {
        let arrival = open(vec![stretch(10.0, 0.0, 20.0)], Spacing::Constant);
        let found = instants(&arrival, Duration::ZERO, 0, 1);
        assert_eq!(found.len(), 100);
        for (number, ns) in found.iter().enumerate() {
            let exact = (number as f64).sqrt() * 1e9;
            assert!((*ns as f64 - exact).abs() <= 1.0, "{number}: {ns}");
        }
    }

    #[test]
    fn the_duration_ends_it() {
        let arrival = open(vec![stretch(100.0, 10.0, 10.0)], Spacing::Constant);
        let short =
            ArrivalSchedule::new(&arrival, Duration::ZERO, Duration::from_secs(2), 1, 1, (0, 1));
        assert_eq!(short.count(), 20);
    }

    #[test]
    fn a_rate_of_nothing_is_passed_over() {
        let pause = vec![stretch(1.0, 0.0, 0.0), stretch(1.0, 2.0, 2.0), stretch(1.0, 0.0, 0.0)];
        let found = instants(&open(pause, Spacing::Constant), Duration::ZERO, 0, 1);
        assert_eq!(found, [1_000_000_000, 1_500_000_000]);
        let nothing = open(vec![stretch(1.0, 0.0, 0.0)], Spacing::Poisson);
        assert!(instants(&nothing, Duration::ZERO, 0, 1).is_empty());
    }

    /// Mean and variance of a Poisson process are both its rate; five standard errors are allowed,
    /// and the seeds are fixed.
    #[test]
    fn chance_has_its_mean_and_variance() {
        let rate = 1000.0;
        let arrival = open(vec![stretch(400.0, rate, rate)], Spacing::Poisson);
        for seed in 0..4u64 {
            let mut counts = vec![0.0f64; 400];
            for thread in 0..3 {
                let duration = Duration::from_secs(400);
                let threads = (thread, 3);
                for due in
                    ArrivalSchedule::new(&arrival, Duration::ZERO, duration, seed, 1, threads)
                {
                    counts[usize::try_from(due.as_secs()).unwrap()] += 1.0;
                }
            }
            let mean = counts.iter().sum::<f64>() / 400.0;
            let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
            assert!((mean - rate).abs() < 5.0 * (rate / 400.0).sqrt(), "{mean}");
            let variance = squares / 399.0;
            let error = rate * (2.0f64 / 399.0).sqrt();
            assert!((variance - rate).abs() < 5.0 * error, "{variance}");
        }
    }

    #[test]
    fn chance_repeats_itself_by_seed_and_thread() {
        let arrival = open(vec![stretch(1.0, 100.0, 100.0)], Spacing::Poisson);
        let second = Duration::from_secs(1);
        let of = |seed, thread| -> Vec<Duration> {
            ArrivalSchedule::new(&arrival, Duration::ZERO, second, seed, 1, (thread, 2)).collect()
        };
        assert_eq!(of(1, 0), of(1, 0));
        assert_ne!(of(1, 0), of(2, 0));
        assert_ne!(of(1, 0), of(1, 1));
    }

    /// Users with four requests each arrive a fourth as often as requests, evenly or not.
    #[test]
    fn users_come_as_seldom_as_they_bring_much() {
        let arrival = open(vec![stretch(2.0, 12.0, 12.0)], Spacing::Constant);
        let all = Duration::from_secs(2);
        let of = |arrival: &ArrivalModel, each, thread, threads| -> Vec<Duration> {
            ArrivalSchedule::new(arrival, Duration::ZERO, all, 7, each, (thread, threads)).collect()
        };
        let requests = of(&arrival, 1, 0, 1);
        let fourth: Vec<_> = requests.iter().copied().step_by(4).collect();
        assert_eq!(of(&arrival, 4, 0, 1), fourth);
        let mut two = of(&arrival, 4, 0, 2);
        two.extend(of(&arrival, 4, 1, 2));
        two.sort_unstable();
        assert_eq!(two, fourth, "threads together are as one");
        let arrival = open(vec![stretch(2.0, 8000.0, 8000.0)], Spacing::Poisson);
        let users = of(&arrival, 4, 0, 1).len() as f64;
        assert!((users - 4000.0).abs() < 5.0 * 4000f64.sqrt(), "{users}");
    }

    fn rate() -> impl Strategy<Value = f64> {
        prop_oneof![Just(0.0), 0.1..2000.0f64, (1u32..2000).prop_map(f64::from)]
    }

    fn any_stretch() -> impl Strategy<Value = Stretch> {
        (1u64..4000, rate(), rate()).prop_map(|(ms, from_per_s, to_per_s)| Stretch {
            length: Duration::from_millis(ms),
            from_per_s,
            to_per_s,
        })
    }

    proptest! {
        #[test]
        fn each_stretch_has_the_integral_of_its_rate(
            stretches in prop::collection::vec(any_stretch(), 1..5),
            warm_ms in 0u64..2000,
        ) {
            let warm_up = Duration::from_millis(warm_ms);
            let arrival = open(stretches.clone(), Spacing::Constant);
            let found = instants(&arrival, warm_up, 0, 1);
            let mut start = nanoseconds(warm_up);
            for one in &stretches {
                let end = start + nanoseconds(one.length);
                let within = found.iter().filter(|ns| (start..end).contains(ns)).count() as f64;
                let integral = (one.from_per_s + one.to_per_s) / 2.0 * one.length.as_secs_f64();
                prop_assert!((within - integral).abs() <= 1.001, "{within} for {integral}");
                start = end;
            }
        }

        #[test]
        fn threads_together_are_as_one(
            stretches in prop::collection::vec(any_stretch(), 1..4),
            threads in 1u16..9,
        ) {
            let arrival = open(stretches, Spacing::Constant);
            let one = instants(&arrival, Duration::from_millis(250), 0, 1);
            let mut all: Vec<u64> = (0..threads)
                .flat_map(|thread| instants(&arrival, Duration::from_millis(250), thread, threads))
                .collect();
            all.sort_unstable();
            prop_assert_eq!(all, one);
        }

        #[test]
        fn instants_rise_and_end(
            stretches in prop::collection::vec(any_stretch(), 1..4),
            poisson in any::<bool>(),
        ) {
            let spacing = if poisson { Spacing::Poisson } else { Spacing::Constant };
            let end = nanoseconds(length(&stretches));
            let found = instants(&open(stretches, spacing), Duration::ZERO, 1, 2);
            prop_assert!(found.is_sorted());
            prop_assert!(found.last().is_none_or(|last| *last < end));
        }

        /// At the instant of the n-th, n are due, to the nanosecond.
        #[test]
        fn the_instant_is_the_inverse_of_the_integral(
            one in any_stretch(),
            share in 0.0..1.0f64,
        ) {
            let mut curve = ArrivalCurve::new(&[one], Duration::ZERO, one.length);
            let total = curve.legs[1].count;
            let number = total * share;
            if let Some(ns) = curve.instant(number) {
                let t = ns as f64 / 1e9;
                let leg = curve.legs[1];
                let due = leg.from_per_s * t + leg.slope * t * t / 2.0;
                let rate_max = one.from_per_s.max(one.to_per_s);
                prop_assert!((due - number).abs() <= rate_max * 1e-9 + number * 1e-12);
            }
        }
    }
}
