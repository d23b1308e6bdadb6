//! A figure of the seconds as it is drawn: few enough samples, and smoothed if they are rough.

use measure::record::{Record, Second};

use crate::reading::{duration, length_s};

/// A figure along the time.
pub(crate) type Track = Vec<Sample>;

/// One sample: of a second, or of several that were put together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Its middle, in seconds after the beginning.
    pub(crate) at_s: f64,
    /// NaN if there is none.
    pub(crate) value: f64,
    /// The least and the greatest of its seconds; NaN if there is none.
    pub(crate) least: f64,
    pub(crate) greatest: f64,
    /// How much it counts in a mean.
    weight: f64,
}

/// What is followed along the time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Followed {
    /// Events a second.
    Rate(fn(&Second) -> u64),
    /// Nanoseconds of those that succeeded.
    Duration(fn(&Second) -> u64),
}

/// The seconds in groups of equal length, at most so many; groups and their lengths in seconds.
pub(crate) fn groups(record: &Record, groups_max: usize) -> (Vec<&[Second]>, u64) {
    let first = record.seconds.first().map_or(0, |second| second.at_s);
    let last = record.seconds.last().map_or(0, |second| second.at_s);
    let length_s = (last.saturating_sub(first) + 1)
        .div_ceil(groups_max as u64)
        .max(1);
    let of = |second: &Second| second.at_s.saturating_sub(first) / length_s;
    let groups = record.seconds.chunk_by(|a, b| of(a) == of(b));
    (groups.collect(), length_s)
}

/// A figure along the time, in at most so many samples.
pub(crate) fn track(record: &Record, samples_max: usize, followed: Followed) -> Track {
    let (groups, _) = groups(record, samples_max);
    let samples = groups.into_iter().map(|seconds| {
        let at = |second: Option<&Second>| second.map_or(0.0, |second| second.at_s as f64);
        let at_s = f64::midpoint(at(seconds.first()), at(seconds.last()) + 1.0);
        let values = seconds
            .iter()
            .filter_map(|second| value(record, second, followed));
        sample(at_s, values)
    });
    samples.collect()
}

/// A second's value and its weight; `None` if it has none, or was too short to have one.
fn value(record: &Record, second: &Second, followed: Followed) -> Option<(f64, f64)> {
    /// A rate of less than half a second says little.
    const SHORTEST_S: f64 = 0.5;
    match followed {
        Followed::Rate(of) => {
            let length = length_s(record, second);
            let is_only = record.seconds.len() == 1;
            (is_only || length >= SHORTEST_S).then(|| (of(second) as f64 / length, 1.0))
        }
        Followed::Duration(of) => {
            let ns = duration(second, of(second))?;
            Some((ns, second.succeeded as f64))
        }
    }
}

fn sample(at_s: f64, values: impl Iterator<Item = (f64, f64)>) -> Sample {
    let mut sum = 0.0;
    let mut sample = Sample {
        at_s,
        value: f64::NAN,
        least: f64::NAN,
        greatest: f64::NAN,
        weight: 0.0,
    };
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

/// The moving average, centred, over so many samples; gaps stay gaps.
fn averaged(track: &[Sample], window: usize) -> Track {
    let half = window / 2;
    let average = |(index, sample): (usize, &Sample)| {
        let near = &track[index.saturating_sub(half)..(index + half + 1).min(track.len())];
        let near = near.iter().filter(|sample| sample.value.is_finite());
        let (sum, weight) = near.fold((0.0, 0.0), |(sum, weight), sample| {
            (sum + sample.value * sample.weight, weight + sample.weight)
        });
        let value = if sample.value.is_finite() {
            sum / weight
        } else {
            f64::NAN
        };
        Sample { value, ..*sample }
    };
    track.iter().enumerate().map(average).collect()
}

/// The moving average if the samples are rough, with how many of them it is over.
pub(crate) fn smoothed(track: &[Sample]) -> Option<(Track, usize)> {
    /// Fewer are seen well enough as they are.
    const SAMPLES_MIN: usize = 25;
    /// Bernat's plots average over 20 s.
    const WINDOW_MAX: usize = 20;
    /// The share of the mean by which samples lie off their neighbours' mean.
    const ROUGHNESS_MIN: f64 = 0.05;
    if track.len() < SAMPLES_MIN {
        return None;
    }
    let window = (track.len() / 12).clamp(5, WINDOW_MAX) | 1;
    (roughness(track)? > ROUGHNESS_MIN).then(|| (averaged(track, window), window))
}

/// By what share of the mean a quarter of the samples, or more, lie off their neighbours. A
/// quarter, since an edge between two levels is no roughness: it must not be smoothed away.
fn roughness(track: &[Sample]) -> Option<f64> {
    let off = |near: &[Sample]| (near[1].value - f64::midpoint(near[0].value, near[2].value)).abs();
    let mut off: Vec<f64> = track
        .windows(3)
        .map(off)
        .filter(|off| off.is_finite())
        .collect();
    off.sort_by(f64::total_cmp);
    let values = track
        .iter()
        .map(|sample| sample.value)
        .filter(|value| value.is_finite());
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    let quarter = off.get(off.len() * 3 / 4)?;
    (sum > 0.0).then(|| quarter / (sum / count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Track {
        let sample = |(index, value): (usize, &f64)| Sample {
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
        let noise: Vec<f64> = (0..60)
            .map(|index| 100.0 + f64::from(index % 2) * 20.0)
            .collect();
        let (average, window) = smoothed(&of(&noise)).unwrap();
        assert_eq!((average.len(), window), (60, 5));
        assert!(
            average[10..50]
                .iter()
                .all(|sample| (sample.value - 110.0).abs() < 3.0)
        );
        let outage: Vec<f64> = (0..60)
            .map(|index| if (20..30).contains(&index) { 0.0 } else { 9.0 })
            .collect();
        assert_eq!(smoothed(&of(&outage)), None);
        assert_eq!(smoothed(&of(&noise[..20])), None);
    }

    #[test]
    fn gaps_stay_gaps() {
        let mut values = [1.0, 5.0].repeat(30);
        values[30] = f64::NAN;
        let (average, _) = smoothed(&of(&values)).unwrap();
        assert!(average[30].value.is_nan());
        assert!(
            average
                .iter()
                .filter(|sample| sample.value.is_nan())
                .count()
                == 1
        );
        assert_eq!(smoothed(&of(&[f64::NAN; 40])), None);
    }

    #[test]
    fn samples_put_together_keep_their_extremes() {
        let values = [(4.0, 1.0), (10.0, 3.0), (1.0, 0.0)];
        let sample = sample(3.0, values.into_iter());
        assert_eq!((sample.least, sample.greatest), (1.0, 10.0));
        assert_eq!((sample.value, sample.weight), (8.5, 4.0));
    }
}
