//! What was counted, as plain values: summed over the workers, and by worker where that says more.
//!
//! Owns the values and their sums; how they are shown is others' business.

use std::time::Duration;

use crate::catalogue::{
    GROUPS, Histogram, SUITES, ServerCounter, ServerGauge, ServiceCounter, ServiceGauge,
    WorkerCounter, WorkerGauge,
};
use crate::outcome::{EarlyData, HandshakeKind, OffloadRefusal, Reason, ResumptionMiss, Version};

/// Upper bounds of the histograms' buckets in microseconds, from 50 us to 60 s; a further bucket
/// takes what is longer. The 1-2-5 series: even on a logarithmic scale and read without a table.
pub const BUCKETS_US: [u64; 19] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 60_000_000,
];

/// All counts at one time. Counters of one worker may be a few events apart from each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Those in use, in the order in which they were first named.
    pub services: Vec<ServiceSnapshot>,
    /// One a worker.
    pub workers: Vec<WorkerSnapshot>,
}

/// One service, over all workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceSnapshot {
    /// As configured.
    pub name: String,
    /// Those in use, in the order in which they were first named.
    pub servers: Vec<ServerSnapshot>,
    pub(crate) counters: Counts<{ ServiceCounter::COUNT }>,
    pub(crate) gauges: Counts<{ ServiceGauge::COUNT }>,
    pub(crate) ended: Counts<{ Reason::ALL.len() }>,
    pub(crate) handshakes: [Counts<{ Version::ALL.len() }>; HandshakeKind::ALL.len()],
    pub(crate) misses: Counts<{ ResumptionMiss::ALL.len() }>,
    pub(crate) early_data: Counts<{ EarlyData::ALL.len() }>,
    pub(crate) offload_refusals: Counts<{ OffloadRefusal::ALL.len() }>,
    pub(crate) suites: Counts<{ SUITES.len() }>,
    pub(crate) groups: Counts<{ GROUPS.len() }>,
    pub(crate) histograms: [HistogramSnapshot; Histogram::COUNT],
}

/// One server of one service, over all workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerSnapshot {
    /// As configured.
    pub name: String,
    pub(crate) counters: Counts<{ ServerCounter::COUNT }>,
    pub(crate) gauges: Counts<{ ServerGauge::COUNT }>,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerSnapshot {
    pub(crate) counters: Counts<{ WorkerCounter::COUNT }>,
    pub(crate) gauges: Counts<{ WorkerGauge::COUNT }>,
}

/// Durations in buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramSnapshot {
    /// One count a bound of [`BUCKETS_US`], not cumulative, and one for what is longer.
    pub buckets: Counts<{ BUCKETS_US.len() + 1 }>,
    /// All durations added.
    pub sum_us: u64,
}

/// Numbers in the order of some enum or table. A type of its own because the standard library gives
/// arrays of more than 32 no default.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts<const N: usize>(pub [u64; N]);

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl ServiceSnapshot {
    /// A counter's value.
    pub fn counter(&self, counter: ServiceCounter) -> u64 {
        self.counters.0[counter as usize]
    }

    /// A gauge's value.
    pub fn gauge(&self, gauge: ServiceGauge) -> u64 {
        self.gauges.0[gauge as usize]
    }

    /// Connections that ended for this reason.
    pub fn ended(&self, reason: Reason) -> u64 {
        self.ended.0[reason as usize]
    }

    /// Handshakes of this kind in this version.
    pub fn handshakes(&self, kind: HandshakeKind, version: Version) -> u64 {
        self.handshakes[kind as usize].0[version as usize]
    }

    /// Handshakes of this kind.
    pub fn handshakes_of(&self, kind: HandshakeKind) -> u64 {
        self.handshakes[kind as usize].0.iter().sum()
    }

    /// Early data that was offered and came to this.
    pub fn offered_early(&self, outcome: EarlyData) -> u64 {
        self.early_data.0[outcome as usize]
    }

    /// Connections that the kernel did not take for this reason.
    pub fn offload_refused(&self, refusal: OffloadRefusal) -> u64 {
        self.offload_refusals.0[refusal as usize]
    }

    /// Offered sessions that were not resumed for this reason.
    pub fn missed(&self, miss: ResumptionMiss) -> u64 {
        self.misses.0[miss as usize]
    }

    /// Suites by name with their handshakes.
    pub fn suites(&self) -> impl Iterator<Item = (&'static str, u64)> {
        SUITES.iter().map(|(_, name)| *name).zip(self.suites.0)
    }

    /// Groups by name with their handshakes.
    pub fn groups(&self) -> impl Iterator<Item = (&'static str, u64)> {
        GROUPS.iter().map(|(_, name)| *name).zip(self.groups.0)
    }

    /// A histogram.
    pub fn histogram(&self, histogram: Histogram) -> &HistogramSnapshot {
        &self.histograms[histogram as usize]
    }
}

impl ServerSnapshot {
    /// A counter's value.
    pub fn counter(&self, counter: ServerCounter) -> u64 {
        self.counters.0[counter as usize]
    }

    /// A gauge's value.
    pub fn gauge(&self, gauge: ServerGauge) -> u64 {
        self.gauges.0[gauge as usize]
    }

    /// Whether any worker would send a connection to it.
    pub fn is_up(&self) -> bool {
        self.gauge(ServerGauge::WorkersUp) > 0
    }
}

impl WorkerSnapshot {
    /// A counter's value.
    pub fn counter(&self, counter: WorkerCounter) -> u64 {
        self.counters.0[counter as usize]
    }

    /// A gauge's value.
    pub fn gauge(&self, gauge: WorkerGauge) -> u64 {
        self.gauges.0[gauge as usize]
    }
}

impl HistogramSnapshot {
    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.buckets.0.iter().sum()
    }

    /// The upper bound of the bucket that holds this share (0 to 1) of the durations, `None` while
    /// there are none. What is longer than the last bound counts as the last bound.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut below = 0;
        for (bucket, bound) in self.buckets.0.iter().zip(BUCKETS_US) {
            below += bucket;
            if below >= rank {
                return Some(Duration::from_micros(bound));
            }
        }
        let last = BUCKETS_US.last().copied().unwrap_or(0);
        (count > 0).then(|| Duration::from_micros(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_rise() {
        assert!(BUCKETS_US.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn quantiles_are_bounds_of_the_buckets_that_hold_them() {
        let mut histogram = HistogramSnapshot::default();
        assert_eq!(histogram.quantile(0.5), None);
        histogram.buckets.0[0] = 9;
        histogram.buckets.0[4] = 1;
        assert_eq!(histogram.quantile(0.5), Some(Duration::from_micros(50)));
        assert_eq!(histogram.quantile(0.9), Some(Duration::from_micros(50)));
        assert_eq!(histogram.quantile(0.99), Some(Duration::from_micros(1000)));
        histogram.buckets.0[19] = 1000;
        assert_eq!(histogram.quantile(0.99), Some(Duration::from_secs(60)));
    }
}
