//! Defines a measurement: the result of one run of one configuration.

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
    /// Measured time: from the end of the warm-up until the load begins no more transactions, and
    /// on until the last success.
    pub elapsed_ns: u64,
    /// Offered rate per second, in open load at one rate.
    pub offered_per_s: Option<f64>,
    /// The server's capacity per second, if the load is a multiple of it.
    pub capacity_per_s: Option<f64>,
    /// Successes per second of that load, until no more transactions were begun.
    #[serde(default)]
    pub goodput_per_s: Option<f64>,
    pub counts: TransactionCounts,
    pub failures: BTreeMap<String, u64>,
    /// Operations of the server in that time, by which its CPU time is divided; see
    /// [`crate::experiment::Scenario::operation`]. In open load this includes transactions of the
    /// warm-up that ended after it.
    pub operations: u64,
    /// CPU time of all processes of the server, from the end of the warm-up until they rest.
    pub server_cpu_ns: u64,
    /// How often the server's threads went to sleep in that time; `None` in older records.
    #[serde(default)]
    pub server_switches: Option<u64>,
    /// CPU time of the load generator.
    pub client_cpu_ns: u64,
    /// CPU time of the origin behind the server; 0 if there is no origin.
    pub origin_cpu_ns: u64,
    /// Resident memory of all processes of the server before the load.
    pub resident_bytes_before: u64,
    /// Resident memory of the server near the end of the load, its connections still open.
    pub resident_bytes_loaded: u64,
    pub open_connections: u64,
    /// Time from the start of the server's process to the first reply; 0 if not measured.
    #[serde(default)]
    pub start_ns: u64,
    /// Full handshakes from `resident_bytes_before` on: each may have stored a session.
    #[serde(default)]
    pub full_handshakes: u64,
    /// Peak resident memory of the program that made the load; 0 if it was `lariat-lab` itself.
    #[serde(default)]
    pub client_resident_bytes_max: u64,
    /// Costs of a reload of the configuration, if one was asked for.
    #[serde(default)]
    pub reload: Option<Reload>,
    /// Result of the load in the background, if there was one.
    #[serde(default)]
    pub background: Option<BackgroundResult>,
    /// Response times of successful transactions.
    pub response: DurationSummary,
    /// Handshake times of transactions that had a handshake.
    pub handshake: DurationSummary,
    pub traffic: TrafficBytes,
    pub handshakes: Vec<HandshakeCounts>,
    /// Figures second by second, if the rate changes; otherwise empty.
    pub seconds: Vec<LoadSecond>,
    /// Figures rate by rate, if there are several.
    pub steps: Vec<PlanStep>,
    pub read_offs: Option<ReadOffs>,
    pub noise: MeasurementNoise,
    /// Reasons why the metrics may be those of the client instead of the server.
    pub warnings: Vec<RunWarning>,
}

/// Costs of a reload of a server's configuration.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Reload {
    /// Time until the command that asks for the reload had ended.
    pub took_ns: u64,
    /// Peak resident memory of all processes of the server, until half a second later.
    pub resident_bytes_max: u64,
    /// Resident memory of the server when it rests again.
    pub resident_bytes_after: u64,
}

/// Summary of many durations, in nanoseconds; all 0 if there are none.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DurationSummary {
    pub count: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    /// The 95th percentile; 0 in older records.
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
    /// Share of all CPU time that was used by other programs than server, client and origin, 0 to
    /// 1.
    pub foreign: f64,
    /// Share of all CPU time that the hypervisor gave to others, 0 to 1.
    pub stolen: f64,
    /// Share of the time in which the server's CPUs worked for it, 0 to 1.
    pub server_busy: f64,
    /// Share of the time in which the client's busiest thread was busy.
    pub client_busy: f64,
    /// Whether server and client had to share CPUs.
    pub is_shared: bool,
}

/// Subject of a measurement or failure: scenario, configuration, repeat.
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
