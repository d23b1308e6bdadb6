//! Response times of a second: counts by their logarithm, each bucket a twentieth wider.

/// The least time that is distinguished.
const LEAST_S: f64 = 1e-4;
const STEP: f64 = 1.05;

/// Buckets up to an hour.
const BUCKETS: usize = 360;

#[derive(Clone, Debug)]
pub(super) struct Waits {
    counts: Vec<u64>,
    sum_s: f64,
}

impl Default for Waits {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], sum_s: 0.0 }
    }
}

impl Waits {
    /// Connections that waited as long in a queue, and then as the worker's median, 95th and 99th
    /// percentile say.
    pub(super) fn add(&mut self, queue_s: f64, quantiles: [f64; 3], count: u64) {
        let tail = count / 50;
        let upper = count * 9 / 20;
        for (own, part) in quantiles.into_iter().zip([count - upper - tail, upper, tail]) {
            let wait = queue_s + own;
            let place = ((wait / LEAST_S).max(1.0).ln() / STEP.ln()) as usize;
            self.counts[place.min(BUCKETS - 1)] += part;
            self.sum_s += wait * part as f64;
        }
    }

    /// The mean, the median, the 99th percentile and the greatest; 0 if there are none.
    pub(super) fn summary_s(&self) -> [f64; 4] {
        let all: u64 = self.counts.iter().sum();
        if all == 0 {
            return [0.0; 4];
        }
        let upper = |place: usize| LEAST_S * STEP.powi(place as i32 + 1);
        let at = |share: f64| {
            let mut left = (all as f64 * share).ceil() as u64;
            let place = self.counts.iter().position(|count| {
                left = left.saturating_sub(*count);
                left == 0
            });
            place.map_or(0.0, upper)
        };
        [self.sum_s / all as f64, at(0.5), at(0.99), at(1.0)]
    }
}
