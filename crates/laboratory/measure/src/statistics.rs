//! Plain statistics of a few samples.

/// Describes a list of samples, in their unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub count: usize,
    pub min: f64,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    pub mean: f64,
    pub max: f64,
    /// The standard deviation of the sample (divided by one less than the count); 0 of one.
    pub deviation: f64,
}

impl Spread {
    /// The spread of samples; `None` if there are none. Samples must be numbers, not NaN.
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
        Some(Self {
            count,
            min,
            median,
            mean,
            max,
            deviation,
        })
    }
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
        assert!((spread.deviation - 238.047_61).abs() < 1e-4);
    }

    #[test]
    fn few_samples_have_a_spread_too() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[4.0]).unwrap().deviation, 0.0);
        assert_eq!(Spread::of(&[4.0, 2.0]).unwrap().median, 3.0);
    }
}
