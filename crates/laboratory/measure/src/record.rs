//! Defines the record of a load, from which all its figures are made, as one JSON document; and
//! findings of `lariat-lab host` about the host, as far as TLS depends on it.
//!
//! Times on the clock are UTC, durations nanoseconds, rates per second. `docs/reference/record.md`
//! describes each field.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::capacity::{CapacityLimit, RatePoint, ReadOffs};
use crate::choice::{
    ClientSelection, ConnectionEnding, EchOutcome, Group, Handshake, Kind, ProxyVersion,
    RecordedEch, Signature, Spacing, Suite, Verify, Versions,
};
use crate::histogram::Histogram;
use crate::quantity;

/// Version of the format that this build writes. It rises when a field changes its meaning or goes.
pub const FORMAT: u32 = 3;

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LoadRecord {
    pub format: u32,
    pub tool: RecordingTool,
    /// Command line that repeats it, a word an entry.
    pub command: Vec<String>,
    pub plan: RecordedPlan,
    /// Start of the load, as RFC 3339 in UTC.
    pub started: String,
    pub host: Host,
    pub target: RecordedTarget,
    pub ending: RunEnding,
    /// Time from the first planned instant to the end of the load, without the warm-up.
    pub elapsed_ns: u64,
    /// Transactions of the warm-up, which are in no other figure but [`Self::handshakes`].
    pub warm_up: TransactionCounts,
    pub totals: TransactionCounts,
    /// Failed transactions by reason (`docs/reference/failures.md`).
    pub failures: BTreeMap<String, u64>,
    /// Transactions that ended, by address; empty if connections went to a single one.
    #[serde(default)]
    pub addresses: BTreeMap<String, TransactionCounts>,
    /// Transactions that ended, by request in the order of the plan; empty if there was one.
    #[serde(default)]
    pub requests: Vec<RequestResult>,
    /// Handshakes that the client finished, including the warm-up's, by outcome.
    pub handshakes: Vec<HandshakeCounts>,
    pub traffic: TrafficBytes,
    /// Durations of transactions, by kind.
    pub latencies: BTreeMap<Kind, Latencies>,
    /// Time from the planned instant until the failure, for transactions that had begun.
    #[serde(default)]
    pub failed_after: Histogram,
    pub seconds: Vec<LoadSecond>,
    pub steps: Vec<PlanStep>,
    /// The search and its result, if a search was asked for.
    pub capacity: Option<CapacitySearch>,
    pub client: ClientUsage,
    /// Reasons why the results may be those of the client instead of the server.
    pub warnings: Vec<RunWarning>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordingTool {
    pub name: String,
    pub version: String,
    /// TLS library that made the handshakes, with its version.
    pub tls: String,
}

/// The plan, without the warm-up unless it is named.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedPlan {
    /// Source addresses, taken in turn; empty if the kernel chose.
    pub sources: Vec<IpAddr>,
    pub proxy_header: Option<ProxyVersion>,
    /// Whether each new connection of a client went to the next address, with its session.
    #[serde(default)]
    pub move_sessions: bool,
    pub tls: Option<RecordedTls>,
    /// The request; `None` if there was only a handshake, or several requests.
    pub request: Option<RecordedRequest>,
    /// Several requests, each made in proportion to its weight.
    #[serde(default)]
    pub requests: Vec<RecordedRequest>,
    pub ending: ConnectionEnding,
    pub arrival: RecordedArrival,
    pub spacing: Option<Spacing>,
    /// Number of clients with sessions of their own.
    pub clients: u32,
    pub client_selection: ClientSelection,
    /// Requests with one session; `None`: as long as the server resumes it.
    pub requests_per_session: Option<u32>,
    /// Requests on one connection; `None`: as many as the server allows.
    pub requests_per_connection: Option<u32>,
    pub think_time_ns: u64,
    /// Requests of each user who arrives and begins with a session of its own; `None` if requests
    /// arrive separately.
    pub requests_per_arrival: Option<u32>,
    /// Time in which transactions are begun.
    pub duration_ns: u64,
    pub count_max: Option<u64>,
    /// Time of the warm-up before that, in which transactions are begun.
    pub warm_up_ns: u64,
    pub timeout_ns: u64,
    pub threads: u16,
    /// CPUs that the threads are pinned to, in turn; empty if not pinned.
    pub cpus: Vec<u16>,
    pub seed: u64,
}

/// TLS settings of the client. Lists are in the order of preference.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedTls {
    /// Protocol of the STARTTLS dialogue before TLS, as `--starttls` names it.
    #[serde(default)]
    pub starttls: Option<String>,
    /// Offered versions, unless the kind of handshake decides.
    pub versions: Versions,
    pub handshakes: Vec<Handshake>,
    pub suites: Vec<Suite>,
    /// Offered groups; the first had the key share.
    pub groups: Vec<Group>,
    pub signatures: Vec<Signature>,
    pub alpn: Vec<String>,
    /// The name in SNI, and the one that the certificate was checked for.
    pub server_name: Option<String>,
    /// Whether a certificate was shown if the server asked.
    pub client_certificate: bool,
    pub verify: Verify,
    /// Whether TLS 1.2 tickets were requested and used.
    pub tickets: bool,
    /// Whether TLS 1.2 session ids were kept and offered.
    pub session_ids: bool,
    /// Whether the first request of a connection that resumed by PSK was sent as early data.
    pub early_data: bool,
    /// Whether servers could compress their certificates (RFC 8879); missing in older records.
    #[serde(default)]
    pub certificate_compression: bool,
    /// How the hello was encrypted; missing in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ech: Option<RecordedEch>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedRequest {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body_bytes: u64,
    /// Share of all requests, relative to the others' weights.
    #[serde(default = "one")]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedArrival {
    /// Number of concurrent transactions: when one is done, the next begins.
    Closed(u32),
    /// Planned rates, one after the other, whatever the server does.
    Open(Vec<PlannedRate>),
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedRate {
    pub from_per_s: f64,
    pub to_per_s: f64,
    pub length_ns: u64,
}

/// A host, as far as figures depend on it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    pub cpu: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub kernel: String,
    /// Hypervisor that the CPU reports, if any.
    pub hypervisor: Option<String>,
    /// Runnable processes, averaged over the last minute, at the start.
    pub load_average: f64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedTarget {
    pub url: String,
    pub address: String,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnding {
    /// The run was completed as planned.
    #[default]
    Completed,
    /// A signal ended the run early; the record holds the results until then.
    Interrupted,
}

/// Numbers of transactions. Attempted ones have succeeded or failed.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TransactionCounts {
    pub attempted: u64,
    /// Transactions that met every demand: the kind of handshake, the reply.
    pub succeeded: u64,
    pub failed: u64,
}

/// Transactions of one of several requests.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RequestResult {
    pub counts: TransactionCounts,
    /// Response times of successful transactions, as in [`Latencies::total`].
    pub total: Histogram,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HandshakeCounts {
    pub kind: Kind,
    pub version: String,
    pub suite: String,
    /// Group of the key exchange; `None` if no keys were exchanged.
    pub group: Option<String>,
    /// Scheme of the server's signature; `None` if it did not sign.
    pub signature: Option<String>,
    pub alpn: Option<String>,
    /// Whether the server asked for a second hello (HelloRetryRequest).
    pub retried: bool,
    /// Whether early data was accepted; `None` if none was sent.
    pub early_data_accepted: Option<bool>,
    /// Outcome of an encrypted hello; `None` if none was offered, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ech: Option<EchOutcome>,
    pub count: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficBytes {
    pub connections: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub body_bytes: u64,
}

/// Durations of successful transactions.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// Time from the first byte of the hello until the client could send data.
    pub handshake: Histogram,
    /// Time from the planned instant until the first byte of the reply.
    pub first_byte: Histogram,
    /// Time from the planned instant until the last byte of the reply; without a request, until the
    /// end of the handshake.
    pub total: Histogram,
}

/// One second. Transactions that began in it and those that ended in it are not the same.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSecond {
    /// Start of this second, in seconds after the beginning of the load.
    pub at_s: u64,
    pub attempted: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub resumed: u64,
    pub full: u64,
    /// Mean response time of successful transactions; 0 if none succeeded.
    pub mean_ns: u64,
    pub median_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub open: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundResult {
    pub received_bytes: u64,
    /// Successful transactions; `None` in older records.
    #[serde(default)]
    pub succeeded: Option<u64>,
    pub elapsed_ns: u64,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlanStep {
    /// Start of the step, after the beginning of the load.
    pub from_ns: u64,
    pub length_ns: u64,
    pub counts: TransactionCounts,
    pub point: RatePoint,
}

/// A search for the greatest rate that keeps a limit.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CapacitySearch {
    pub limit: CapacityLimit,
    /// Relative distance between rates that kept and broke the limit at which the search ended.
    pub precision: f64,
    /// Successes per second at the greatest offered rate that kept the limit, if any did, by the
    /// majority of its trials.
    pub found_per_s: Option<f64>,
    /// Least offered rate above it that broke the limit, if any did.
    pub broken_at_per_s: Option<f64>,
    /// Greatest offered rate up to which every trial kept the limit; `None` in older records.
    #[serde(default)]
    pub kept_by_all_per_s: Option<f64>,
    /// Least offered rate from which on every trial broke the limit; `None` in older records.
    #[serde(default)]
    pub broken_by_all_per_s: Option<f64>,
    /// The read-offs of Bernat's method, over all steps.
    pub read_offs: ReadOffs,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClientUsage {
    /// CPU time of all its threads during the load, without the warm-up.
    pub cpu_ns: u64,
    pub resident_bytes_max: u64,
    pub threads: Vec<LoadThread>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LoadThread {
    pub cpu: Option<u16>,
    pub cpu_ns: u64,
    /// Delay of each transaction's start after its planned instant.
    pub lag: Histogram,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RunWarning {
    pub seen: String,
    pub hint: String,
}

#[derive(Debug, thiserror::Error)]
pub enum LoadRecordFault {
    /// The file is no JSON document with a number `format`.
    #[error("this is no record: {0}")]
    Foreign(serde_json::Error),
    #[error("a record of format {0}; this build reads format {FORMAT}")]
    Format(u32),
    /// The file names its format but does not conform to it.
    #[error("a damaged record: {0}")]
    Damaged(serde_json::Error),
    /// A line, counted from 1, does not conform to the format.
    #[error(
        "line {0} is damaged: {why}",
        why = .1.to_string().replace("at line 1 column", "at column")
    )]
    DamagedLine(usize, serde_json::Error),
}

#[derive(Deserialize)]
struct RecordHead {
    format: u32,
}

impl Default for RecordedArrival {
    fn default() -> Self {
        Self::Closed(0)
    }
}

impl RecordedArrival {
    /// Returns the rate `time_s` after the beginning of an open load that only rises or falls;
    /// `None` for any other load.
    pub fn ramp_per_s(&self, time_s: f64) -> Option<f64> {
        let Self::Open(rates) = self else {
            return None;
        };
        let rate = rates.first().filter(|it| it.from_per_s != it.to_per_s)?;
        let share = (time_s / (rate.length_ns as f64 / 1e9)).clamp(0.0, 1.0);
        let per_s = rate.from_per_s + (rate.to_per_s - rate.from_per_s) * share;
        (per_s.is_finite() && per_s >= 0.0).then_some(per_s)
    }
}

/// Formats a document of this crate as JSON, on one line.
pub fn to_json(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("names are strings, and no number is an error")
}

impl LoadRecord {
    /// # Errors
    /// Fails with [`LoadRecordFault`].
    pub fn parse(text: &str) -> Result<Self, LoadRecordFault> {
        let head: RecordHead = serde_json::from_str(text).map_err(LoadRecordFault::Foreign)?;
        if head.format != FORMAT {
            return Err(LoadRecordFault::Format(head.format));
        }
        let read = quantity::check(text.as_bytes()).and_then(|()| serde_json::from_str(text));
        read.map_err(LoadRecordFault::Damaged)
    }

    pub fn handshakes_of(&self, kind: Kind) -> u64 {
        self.handshakes.iter().filter(|row| row.kind == kind).map(|row| row.count).sum()
    }

    /// Sums all response times, of every kind.
    pub fn total_latency(&self) -> Histogram {
        let mut sum = Histogram::default();
        for latencies in self.latencies.values() {
            sum.add(&latencies.total);
        }
        sum
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostReport {
    pub host: Host,
    /// Features of the CPU that matter here, in the order of the table.
    pub features: Vec<HostFeature>,
    /// CPUs that we may use, in their order.
    pub cores: Vec<Core>,
    /// Mitigations of the CPU's vulnerabilities, in the kernel's words.
    pub mitigations: Vec<HostFact>,
    /// Surroundings that figures depend on: clocks, frequencies, memory nodes, containers and their
    /// quotas.
    pub surroundings: Vec<HostFact>,
    /// Limits of this process and of the kernel that load may reach.
    pub limits: Vec<HostFact>,
    /// Network cards and their queues, without loopback.
    pub networks: Vec<HostFact>,
    pub abilities: Vec<HostAbility>,
    /// Speeds of keys and ciphers, by library.
    pub speeds: Vec<OperationSpeed>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostFeature {
    pub name: String,
    pub is_there: bool,
    pub use_for: String,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    pub cpu: u16,
    /// The physical core; CPUs of the same core share its units.
    pub core: u32,
    pub package: u32,
    pub node: u32,
    /// The last-level cache; CPUs with the same number share it.
    pub cache: u32,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostFact {
    pub name: String,
    pub value: String,
    /// The remedy, if something should be done.
    pub remedy: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostAbility {
    pub name: String,
    pub is_there: bool,
    /// How that was found out, or why the ability is missing.
    pub why: String,
    /// The remedy, if something can be done.
    pub remedy: Option<String>,
}

/// Speed of an operation on one CPU.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OperationSpeed {
    pub library: String,
    /// The operation: `sign`, `verify`, `agree`, `encrypt`.
    pub operation: String,
    /// Algorithm: `RSA 2048`, `X25519`, `AES-128-GCM`.
    pub algorithm: String,
    /// Bytes per operation, if it processes bytes.
    pub size_bytes: Option<u32>,
    /// Operations per second on one CPU.
    pub per_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ramps_go_evenly_and_stay() {
        let rate =
            |from_per_s, to_per_s| PlannedRate { from_per_s, to_per_s, length_ns: 60_000_000_000 };
        let ramp = RecordedArrival::Open(vec![rate(100.0, 2100.0)]);
        assert_eq!(ramp.ramp_per_s(0.0), Some(100.0));
        assert_eq!(ramp.ramp_per_s(30.0), Some(1100.0));
        assert_eq!(ramp.ramp_per_s(90.0), Some(2100.0));
        let steady = RecordedArrival::Open(vec![rate(5.0, 5.0)]);
        assert_eq!(steady.ramp_per_s(1.0), None);
        assert_eq!(RecordedArrival::Closed(2).ramp_per_s(1.0), None);
    }

    #[test]
    fn other_files_are_refused() {
        let fault = |text| LoadRecord::parse(text).unwrap_err();
        assert!(matches!(fault("{}"), LoadRecordFault::Foreign(_)));
        assert!(matches!(fault("GIF89a"), LoadRecordFault::Foreign(_)));
        assert!(matches!(fault(r#"{"format":7,"x":1}"#), LoadRecordFault::Format(7)));
        assert!(matches!(fault(r#"{"format":3}"#), LoadRecordFault::Damaged(_)));
    }
}
