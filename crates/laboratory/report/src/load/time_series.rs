//! Prepares a metric over time for drawing: few enough samples, and smoothed if they are rough.

use measure::experiment::Measurement;
use measure::metric::{Metric, MetricUnit};
use measure::record::{LoadRecord, LoadSecond, TransactionCounts};

/// A sample: of a second, or of several merged ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SeriesSample {
    /// Middle of the sample, in seconds after the start.
    pub(crate) at_s: f64,
    /// Value; NaN if there is none.
    pub(crate) value: f64,
    /// Least and greatest of its seconds; NaN if there is none.
    pub(crate) least: f64,
    pub(crate) greatest: f64,
    /// Weight in a mean.
    weight: f64,
}

impl SeriesSample {
    /// Converts the sample to another unit.
    pub(crate) fn map(self, scaled: impl Fn(f64) -> f64) -> Self {
        Self {
            value: scaled(self.value),
            least: scaled(self.least),
            greatest: scaled(self.greatest),
            ..self
        }
    }
}

/// The seconds of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline<'r> {
    pub(crate) seconds: &'r [LoadSecond],
    pub(crate) elapsed_ns: u64,
    pub(crate) totals: TransactionCounts,
}

impl<'r> From<&'r LoadRecord> for Timeline<'r> {
    fn from(record: &'r LoadRecord) -> Self {
        Self { seconds: &record.seconds, elapsed_ns: record.elapsed_ns, totals: record.totals }
    }
}

impl<'r> From<&'r Measurement> for Timeline<'r> {
    fn from(measurement: &'r Measurement) -> Self {
        Self {
            seconds: &measurement.seconds,
            elapsed_ns: measurement.elapsed_ns,
            totals: measurement.counts,
        }
    }
}

impl<'r> Timeline<'r> {
    /// Removes the seconds after the last attempt, in which the load waited for open transactions.
    pub(crate) fn while_attempted(self) -> Self {
        let last = self.seconds.iter().rposition(|it| it.attempted > 0);
        let seconds = &self.seconds[..last.map_or(0, |last| last + 1)];
        let end_s = seconds.last().map_or(0, |second| second.at_s.saturating_add(1));
        Self {
            seconds,
            elapsed_ns: self.elapsed_ns.min(end_s.saturating_mul(1_000_000_000)),
            ..self
        }
    }

    /// Makes at most `groups_max` groups of equal length; returns them, and that length in seconds.
    pub(crate) fn groups(self, groups_max: usize) -> (Vec<&'r [LoadSecond]>, u64) {
        let first = self.seconds.first().map_or(0, |second| second.at_s);
        let last = self.seconds.last().map_or(0, |second| second.at_s);
        let length_s = (last.saturating_sub(first) + 1).div_ceil(groups_max as u64).max(1);
        let of = |second: &LoadSecond| second.at_s.saturating_sub(first) / length_s;
        let groups = self.seconds.chunk_by(|a, b| of(a) == of(b));
        (groups.collect(), length_s)
    }

    /// Returns a metric in at most `samples_max` samples.
    pub(crate) fn samples(self, metric: Metric, samples_max: usize) -> Vec<SeriesSample> {
        let (groups, _) = self.groups(samples_max);
        let samples = groups.into_iter().map(|seconds| {
            let at = |second: Option<&LoadSecond>| second.map_or(0.0, |second| second.at_s as f64);
            let at_s = f64::midpoint(at(seconds.first()), at(seconds.last()) + 1.0);
            let values = seconds.iter();
            sample(at_s, values.filter_map(|second| self.value(second, metric)))
        });
        samples.collect()
    }

    /// Returns a second's value and its weight; `None` if it has none, or was too short.
    fn value(self, second: &LoadSecond, metric: Metric) -> Option<(f64, f64)> {
        /// Minimum of a second's length at which its rate is meaningful.
        const SHORTEST_S: f64 = 0.5;
        let value = metric.of_second(second)?;
        if metric.unit() != MetricUnit::PerSecond {
            return Some((value, second.succeeded as f64));
        }
        let left = self.elapsed_ns as f64 / 1e9 - second.at_s as f64;
        // Open transactions may end after the load; they do not count as its rate.
        let length = if self.seconds.len() == 1 && left <= 0.0 { 1.0 } else { left.min(1.0) };
        let is_only = self.seconds.len() == 1;
        (is_only || length >= SHORTEST_S).then(|| (value / length, 1.0))
    }
}

fn sample(at_s: f64, values: impl Iterator<Item = (f64, f64)>) -> SeriesSample {
    let mut sum = 0.0;
    let mut sample =
        SeriesSample { at_s, value: f64::NAN, least: f64::NAN, greatest: f64::NAN, weight: 0.0 };
    for (value, weight) in values {
        sum += value * weight;
        sample.weight += weight;
        sample.least = sample.least.min(value);
        sample.greatest = sample.greatest.max(value);
    }
    if sample.weight > 0.0 {
        sample.value = sum / sample.weight;
    }
    sample
}

/// Returns the moving average, centred, over `window` samples; gaps stay gaps.
fn averaged(samples: &[SeriesSample], window: usize) -> Vec<SeriesSample> {
    let half = window / 2;
    let average = |(index, sample): (usize, &SeriesSample)| {
        let near = &samples[index.saturating_sub(half)..(index + half + 1).min(samples.len())];
        let near = near.iter().filter(|sample| sample.value.is_finite());
        let (sum, weight) = near.fold((0.0, 0.0), |(sum, weight), sample| {
            (sum + sample.value * sample.weight, weight + sample.weight)
        });
        let value = if sample.value.is_finite() { sum / weight } else { f64::NAN };
        SeriesSample { value, ..*sample }
    };
    samples.iter().enumerate().map(average).collect()
}

/// Returns the moving average if the samples are rough, with its window.
pub(crate) fn smoothed(samples: &[SeriesSample]) -> Option<(Vec<SeriesSample>, usize)> {
    /// Minimum of samples for smoothing, as fewer are clear enough.
    const SAMPLES_MIN: usize = 25;
    /// Maximum window; Bernat's plots average over 20 s.
    const WINDOW_MAX: usize = 20;
    /// Least roughness, as a share of the mean, that is smoothed.
    const ROUGHNESS_MIN: f64 = 0.05;
    if samples.len() < SAMPLES_MIN {
        return None;
    }
    let window = (samples.len() / 12).clamp(5, WINDOW_MAX) | 1;
    (roughness(samples)? > ROUGHNESS_MIN).then(|| (averaged(samples, window), window))
}

/// Returns the share of the mean by which at least a quarter of the samples differ from their
/// neighbours. A quarter, because an edge between two levels is not roughness and must be kept.
fn roughness(samples: &[SeriesSample]) -> Option<f64> {
    let off =
        |near: &[SeriesSample]| (near[1].value - f64::midpoint(near[0].value, near[2].value)).abs();
    let mut off: Vec<f64> = samples.windows(3).map(off).filter(|off| off.is_finite()).collect();
    off.sort_by(f64::total_cmp);
    let values = samples.iter().map(|sample| sample.value).filter(|value| value.is_finite());
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    let quarter = off.get(off.len() * 3 / 4)?;
    (sum > 0.0).then(|| quarter / (sum / count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Vec<SeriesSample> {
        let sample = |(index, value): (usize, &f64)| SeriesSample {
            at_s: index as f64 + 0.5,
            value: *value,
            least: *value,
            greatest: *value,
            weight: 1.0,
        };
        values.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn rough_samples_are_smoothed_and_edges_are_not() {
        let noise: Vec<f64> = (0..60).map(|index| 100.0 + f64::from(index % 2) * 20.0).collect();
        let (average, window) = smoothed(&of(&noise)).unwrap();
        assert_eq!((average.len(), window), (60, 5));
        assert!(average[10..50].iter().all(|sample| (sample.value - 110.0).abs() < 3.0));
        let outage: Vec<f64> =
            (0..60).map(|index| if (20..30).contains(&index) { 0.0 } else { 9.0 }).collect();
        assert_eq!(smoothed(&of(&outage)), None);
        assert_eq!(smoothed(&of(&noise[..20])), None);
    }

    #[test]
    fn gaps_stay_gaps() {
        let mut values = [1.0, 5.0].repeat(30);
        values[30] = f64::NAN;
        let (average, _) = smoothed(&of(&values)).unwrap();
        assert!(average[30].value.is_nan());
        assert!(average.iter().filter(|sample| sample.value.is_nan()).count() == 1);
        assert_eq!(smoothed(&of(&[f64::NAN; 40])), None);
    }

    #[test]
    fn what_ends_after_the_last_attempt_is_cut() {
        let second = |(at_s, attempted): (u64, u64)| LoadSecond {
            at_s,
            attempted,
            succeeded: 7,
            ..LoadSecond::default()
        };
        let seconds = [(0, 20), (1, 0), (2, 30), (3, 0)].map(second);
        let timeline = Timeline {
            seconds: &seconds,
            elapsed_ns: 3_900_000_000,
            totals: TransactionCounts::default(),
        };
        let cut = timeline.while_attempted();
        assert_eq!((cut.seconds.len(), cut.elapsed_ns), (3, 3_000_000_000));
        let samples = cut.samples(Metric::AttemptedRate, 9);
        assert_eq!(samples.last().map(|sample| sample.value), Some(30.0));
        let nothing = Timeline { seconds: &seconds[3..], ..timeline };
        assert!(nothing.while_attempted().seconds.is_empty());
    }

    #[test]
    fn samples_put_together_keep_their_extremes() {
        let values = [(4.0, 1.0), (10.0, 3.0), (1.0, 0.0)];
        let sample = sample(3.0, values.into_iter());
        assert_eq!((sample.least, sample.greatest), (1.0, 10.0));
        assert_eq!((sample.value, sample.weight), (8.5, 4.0));
    }
}
