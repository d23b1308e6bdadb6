//! A measurement: what one run of one configuration came to.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::capacity::ReadOffs;
use crate::histogram::Histogram;
use crate::record::{
    BackgroundResult, HandshakeCounts, LoadRecord, LoadSecond, PlanStep, RunWarning, TrafficBytes,
    TransactionCounts,
};

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    pub scenario: String,
    pub configuration: String,
    pub repeat: u32,
    pub at: String,
    /// How long was measured: from the end of the warm-up until nothing is begun any more, and on
    /// until the last success.
    pub elapsed_ns: u64,
    /// The offered rate per second, in open load at one rate.
    pub offered_per_s: Option<f64>,
    /// The server's capacity per second, where the load is a multiple of it.
    pub capacity_per_s: Option<f64>,
    /// Successes per second of that load, until nothing was begun any more.
    #[serde(default)]
    pub goodput_per_s: Option<f64>,
    pub counts: TransactionCounts,
    pub failures: BTreeMap<String, u64>,
    /// Operations of the server in that time, by which its CPU time is divided; see
    /// [`crate::experiment::Scenario::operation`]. Of open load, these are also transactions of the
    /// warm-up that ended when it was over.
    pub operations: u64,
    /// CPU time of all processes of the server, from the end of the warm-up until they rest.
    pub server_cpu_ns: u64,
    /// How often their threads went to sleep in that time; none in older records.
    #[serde(default)]
    pub server_switches: Option<u64>,
    /// CPU time of what made the load.
    pub client_cpu_ns: u64,
    /// CPU time of the origin behind the server; 0 if there is no origin.
    pub origin_cpu_ns: u64,
    /// Resident memory of all processes of the server before the load.
    pub resident_bytes_before: u64,
    /// The same near the end of the load, its connections still open.
    pub resident_bytes_loaded: u64,
    pub open_connections: u64,
    /// From the start of the server's process to the first reply; 0 where that was not measured.
    #[serde(default)]
    pub start_ns: u64,
    /// Full handshakes from `resident_bytes_before` on: each may have stored a session.
    #[serde(default)]
    pub full_handshakes: u64,
    /// Resident memory of the program that made the load, at its most; 0 where that was this one.
    #[serde(default)]
    pub client_resident_bytes_max: u64,
    /// The costs of a reload of the configuration, where one was asked for.
    #[serde(default)]
    pub reload: Option<Reload>,
    /// The result of the load in the background, where there was one.
    #[serde(default)]
    pub background: Option<BackgroundResult>,
    /// Response times of those that succeeded.
    pub response: DurationSummary,
    /// Handshakes of those that had one.
    pub handshake: DurationSummary,
    pub traffic: TrafficBytes,
    pub handshakes: Vec<HandshakeCounts>,
    /// Second by second, where the rate changes; else empty.
    pub seconds: Vec<LoadSecond>,
    /// Rate by rate, where there are several.
    pub steps: Vec<PlanStep>,
    pub read_offs: Option<ReadOffs>,
    pub noise: MeasurementNoise,
    /// Reasons why the metrics may be those of the client instead of the server.
    pub warnings: Vec<RunWarning>,
}

/// The costs of a reload of a server's configuration.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Reload {
    /// Until the command that asks for it had ended.
    pub took_ns: u64,
    /// Resident memory of all processes of the server at its most, until half a second later.
    pub resident_bytes_max: u64,
    /// The same when the server rests again.
    pub resident_bytes_after: u64,
}

/// The summary of many durations, in nanoseconds. All are 0 where there are none.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DurationSummary {
    pub count: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    /// The 95th; 0 in records that did not have it yet.
    #[serde(default)]
    pub p95_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
}

/// Other work on the machine during a measurement.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MeasurementNoise {
    /// CPU time that went neither to the server nor the client nor the origin, to all CPU time
    /// that there was, 0 to 1.
    pub foreign: f64,
    /// CPU time that the hypervisor gave to others, to all there was, 0 to 1.
    pub stolen: f64,
    /// The share of the time that the server's CPUs were working for it, 0 to 1.
    pub server_busy: f64,
    /// The same of the busiest thread of the client.
    pub client_busy: f64,
    /// Whether server and client had to share CPUs.
    pub is_shared: bool,
}

/// The subject of a measurement or failure: scenario, configuration, repeat.
pub(crate) type RepeatKey<'a> = (&'a str, &'a str, u32);

impl Measurement {
    pub(crate) fn key(&self) -> RepeatKey<'_> {
        (&self.scenario, &self.configuration, self.repeat)
    }
}

/// The results of a load whose server was not watched.
impl From<&LoadRecord> for Cow<'_, Measurement> {
    fn from(record: &LoadRecord) -> Self {
        Self::Owned(Measurement {
            elapsed_ns: record.elapsed_ns,
            operations: record.totals.succeeded,
            counts: record.totals,
            traffic: record.traffic,
            response: DurationSummary::from(&record.total_latency()),
            read_offs: record.capacity.as_ref().map(|capacity| capacity.read_offs),
            seconds: record.seconds.clone(),
            ..Measurement::default()
        })
    }
}

impl<'m> From<&'m Measurement> for Cow<'m, Measurement> {
    fn from(measurement: &'m Measurement) -> Self {
        Self::Borrowed(measurement)
    }
}

impl From<&Histogram> for DurationSummary {
    fn from(all: &Histogram) -> Self {
        Self {
            count: all.count(),
            mean_ns: all.mean_ns() as u64,
            p50_ns: all.quantile_ns(0.5),
            p90_ns: all.quantile_ns(0.9),
            p95_ns: all.quantile_ns(0.95),
            p99_ns: all.quantile_ns(0.99),
            p999_ns: all.quantile_ns(0.999),
            max_ns: all.max_ns(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn durations_are_those_of_the_histogram() {
        let mut histogram = Histogram::default();
        for ms in 1..=1000 {
            histogram.record(Duration::from_millis(ms));
        }
        let told = DurationSummary::from(&histogram);
        let close = |ns: u64, ms: f64| assert!((ns as f64 / 1e6 / ms - 1.0).abs() < 2e-3, "{ns}");
        assert_eq!(told.count, 1000);
        close(told.mean_ns, 500.5);
        close(told.p50_ns, 500.0);
        close(told.p90_ns, 900.0);
        close(told.p95_ns, 950.0);
        close(told.p99_ns, 990.0);
        close(told.p999_ns, 999.0);
        close(told.max_ns, 1000.0);
        assert_eq!(DurationSummary::from(&Histogram::default()), DurationSummary::default());
    }
}
