//! The status document, which `/status`, the status socket and `lariat status --json` show.
//!
//! The shape is public and versioned: within a version, fields are added, and never renamed,
//! removed or given another meaning. Counts have the names of the catalogue of metrics.
//! `docs/reference/status.md` explains the document in full.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use telemetry::catalogue::{
    Breakdown, Process, Scope, Server, ServerCounter, ServerGauge, Service, Worker,
};
use telemetry::counters::Counts;
use telemetry::printable::{line, lines};

pub(crate) use crate::key_holder_status::KeyHolderStatus;
pub(crate) use crate::status_parts::AcmeStatus;
use crate::status_parts::{KernelTlsStatus, LastReload, UpgradeStatus};

/// Version that this program writes and reads.
pub(crate) const VERSION: u32 = 2;

/// The state of the process at one time. Counts run since the worker process started, and fall only
/// when it is restarted.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct StatusDocument {
    pub(crate) version: u32,
    /// Time when the document was made.
    pub(crate) time_ms: u64,
    pub(crate) process: ProcessStatus,
    pub(crate) last_reload: Option<LastReload>,
    /// The upgrade in progress.
    pub(crate) upgrade: Option<UpgradeStatus>,
    pub(crate) last_upgrade: Option<LastUpgrade>,
    /// Reason why the last connection log lines could not be written; `None` if they could.
    pub(crate) log_failure: Option<String>,
    /// Reason why the log file could not be reopened; lines go to the previous file.
    pub(crate) log_unopened: Option<String>,
    /// The key log file; `None` if no secrets are written.
    pub(crate) key_log: Option<KeyLogStatus>,
    /// Encrypted Client Hello; `None` if none are opened.
    pub(crate) ech: Option<EchStatus>,
    /// The process that holds keys and signs; `None` if the worker process has all keys.
    pub(crate) key_process: Option<KeyProcessStatus>,
    pub(crate) workers: Vec<WorkerStatus>,
    pub(crate) services: Vec<ServiceStatus>,
    /// Number of services for which the document has no room.
    #[serde(default)]
    pub(crate) services_left_out: u64,
    /// Kernel TLS; `None` if no service uses it.
    pub(crate) kernel_tls: Option<KernelTlsStatus>,
    /// The session tiers beyond this host; `None` if sessions stay here.
    pub(crate) cluster: Option<ClusterStatus>,
    /// The certificates obtained by ACME.
    #[serde(default)]
    pub(crate) acme: Vec<AcmeStatus>,
    /// Upper bounds of all histograms' buckets.
    pub(crate) bounds_us: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ProcessStatus {
    pub(crate) program: String,
    /// Whether the cryptography is that of the FIPS module.
    #[serde(default)]
    pub(crate) fips: bool,
    pub(crate) state: RunState,
    pub(crate) pid: u32,
    pub(crate) supervisor_pid: u32,
    /// Time when the worker process started.
    pub(crate) start_ms: u64,
    pub(crate) supervisor_start_ms: u64,
    #[serde(default)]
    pub(crate) rights: RightsStatus,
    /// How worker processes died in a row before this one; shown for its first minute.
    pub(crate) dying: Option<String>,
    /// Warnings about the configuration with which the supervisor started, if any.
    pub(crate) start_warnings: Option<String>,
    #[serde(with = "metrics")]
    pub(crate) metrics: Counts<Process>,
}

/// The rights that the worker process gave up: `off` (not asked for), `full`, `partly` (as far as
/// the kernel can) or `absent` (the kernel cannot).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct RightsStatus {
    /// Summary of all rights, for people.
    pub(crate) sentence: String,
    pub(crate) files: String,
    /// Connecting to TCP ports that are not listed.
    pub(crate) tcp_ports: String,
    /// System calls that the worker process does not need.
    pub(crate) system_calls: String,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunState {
    Serving,
    /// Accepts no connection, and ends when the last one has ended.
    Draining,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct LastUpgrade {
    /// Number of the upgrade, from 1; counted on whatever programs came and went.
    pub(crate) number: u64,
    pub(crate) time_ms: u64,
    /// Version of the program that serves since.
    pub(crate) program: String,
    /// Reason of the refusal; `None` if the upgrade was not refused.
    pub(crate) refused: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct KeyLogStatus {
    pub(crate) path: String,
    /// Services whose secrets are written.
    pub(crate) services: Vec<String>,
    /// Lines passed to the supervisor, which writes them.
    pub(crate) lines: u64,
    /// Lines dropped before that for want of room.
    pub(crate) dropped: u64,
}

/// The keys that open encrypted hellos, and how much each is still used.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct EchStatus {
    pub(crate) public_name: String,
    pub(crate) keys: Vec<EchKeyStatus>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct EchKeyStatus {
    /// Number of the key's ECH configuration.
    pub(crate) config: u8,
    /// Start of its configuration's publication; `None` = it comes from a file.
    pub(crate) published_from_ms: Option<u64>,
    pub(crate) published_until_ms: Option<u64>,
    /// Result under which the hellos opened by this key are counted.
    pub(crate) result: String,
    /// Number of such hellos. The next key shares the count of the published one.
    pub(crate) hellos: u64,
}

/// Counts of the signatures that workers asked for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct KeyProcessStatus {
    /// One process for the keys of files, and one for each token.
    #[serde(default)]
    pub(crate) processes: Vec<KeyHolderStatus>,
    pub(crate) signed: u64,
    /// Signatures that did not arrive in time.
    pub(crate) late: u64,
    pub(crate) failed: u64,
    /// Total time that workers have waited for signatures.
    pub(crate) waiting_us: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ClusterStatus {
    /// Address or multicast group on which datagrams of peers arrive; empty without peers.
    pub(crate) address: String,
    pub(crate) peers: Vec<PeerStatus>,
    /// Configured addresses at which no peer was ever heard.
    pub(crate) unheard: Vec<String>,
    /// How long a handshake waits for peers; `None` if all are too far away, or none is heard.
    pub(crate) fetch_wait_ms: Option<f64>,
    /// Transfer of the sessions that peers had before this host started, or while it was cut off.
    pub(crate) resync: ResyncStatus,
    /// The session store; `None` if none is configured.
    pub(crate) store: Option<StoreStatus>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct StoreStatus {
    /// The store's address, or the address that leads to it; without user and password.
    pub(crate) address: String,
    pub(crate) state: StoreState,
    /// The fault; `None` if there is none.
    pub(crate) why: Option<String>,
}

/// Whether sessions are read from and written to the store.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StoreState {
    Up,
    /// Sessions are read, but the store takes none.
    ReadOnly,
    /// Neither: the store is not connected, or was given up for a while.
    Down,
}

/// State of a host's catching up with its peers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ResyncStatus {
    pub(crate) state: ResyncState,
    /// Address of the sending peer; empty if none has sent.
    pub(crate) from: String,
    /// Number of sessions that the peer has sent, and about how many it has.
    pub(crate) sessions: u64,
    pub(crate) of: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ResyncState {
    /// The host has missed no session, or was sent all.
    #[default]
    Done,
    /// No peer has answered yet.
    Asking,
    Receiving,
    /// No peer has answered, or one has stopped: missing sessions are fetched one by one.
    GivenUp,
}

/// A peer that was heard at least once.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct PeerStatus {
    /// The host's number, random for the life of its supervisor.
    pub(crate) sender: String,
    /// Source of the last datagram; once it is a configured address, other sources are ignored.
    pub(crate) address: String,
    /// Whether the address is a configured one, so that the peer is answered.
    pub(crate) listed: bool,
    /// Whether the peer was heard in the last four seconds.
    pub(crate) heard: bool,
    pub(crate) silent_ms: u64,
    /// Delay of that datagram's arrival after its time by the peer's clock.
    pub(crate) lag_ms: i64,
    /// The longest of the last round-trip times.
    pub(crate) round_trip_ms: Option<f64>,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) replayed: u64,
    pub(crate) out_of_time: u64,
    /// Number of times that the peer was seen to start.
    pub(crate) boots: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct WorkerStatus {
    /// CPU to which the worker is pinned.
    pub(crate) cpu: Option<u16>,
    #[serde(with = "metrics")]
    pub(crate) metrics: Counts<Worker>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ServiceStatus {
    pub(crate) name: String,
    pub(crate) listeners: Vec<String>,
    /// Whether the service serves files instead of forwarding to servers.
    pub(crate) serves_files: bool,
    /// `None` if the service is gone from the plan.
    pub(crate) ktls: Option<KtlsStatus>,
    /// Proof of a server's identity; empty = servers get plaintext.
    pub(crate) server_tls: String,
    pub(crate) expiry: ExpiryStatus,
    /// The certificates that expire first, at most [`CERTIFICATES_MAX`].
    pub(crate) certificates: Vec<CertificateStatus>,
    /// Faults of the skipped certificates, at most [`CERTIFICATES_MAX`].
    pub(crate) certificates_skipped: Vec<String>,
    pub(crate) metrics: ShownCounts<Service>,
    pub(crate) servers: Vec<ServerStatus>,
}

/// The first expiry of each kind, in seconds since the epoch.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ExpiryStatus {
    pub(crate) certificates_seconds: Option<u64>,
    /// Stapled responses, which are sent while they are valid.
    pub(crate) ocsp_responses_seconds: Option<u64>,
    /// Authorities in `ca`, without the host's own.
    pub(crate) authorities_seconds: Option<u64>,
    pub(crate) crls_seconds: Option<u64>,
}

/// Maximum number of certificates listed per service, because those of thousands of services must
/// fit into what a reader takes. The metrics have more.
pub(crate) const CERTIFICATES_MAX: usize = 32;

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct CertificateStatus {
    pub(crate) file: String,
    pub(crate) name: String,
    /// Type of the key.
    pub(crate) key: String,
    /// The notAfter, in seconds since the epoch.
    pub(crate) expiry_seconds: u64,
}

/// When the kernel encrypts, as configured.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct KtlsStatus {
    pub(crate) mode: String,
    /// The shortest file response that the kernel encrypts.
    pub(crate) min_bytes: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ServerStatus {
    pub(crate) name: String,
    pub(crate) state: ServerState,
    /// Whether an operator has disabled the server, which then counts as down.
    pub(crate) disabled: bool,
    /// Weight ordered by an operator; `None` = the configured one, or that of DNS records.
    pub(crate) weight_ordered: Option<u16>,
    /// Reason why the server is not up, or which of its addresses are unused, as far as known.
    pub(crate) note: Option<String>,
    /// Addresses that some worker dials only if no other is left.
    pub(crate) addresses_down: BTreeSet<String>,
    /// Time when the state was first seen, in milliseconds since the epoch: at the earliest when
    /// the worker process (or the first of those it took over from) started, at the latest a second
    /// after the change.
    pub(crate) since_ms: Option<u64>,
    pub(crate) metrics: ShownCounts<Server>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ServerState {
    /// All workers would use the server.
    #[default]
    Up,
    Partly,
    Down,
}

impl ServerState {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Partly => "partly",
            Self::Down => "down",
        }
    }
}

/// Returns the counts that are not 0, in the form of [`metrics`].
pub(super) fn metrics_counted<S: Scope>(counts: &Counts<S>) -> Value {
    metrics::object(counts, |sample| sample.values.iter().any(|value| *value > 0))
}

/// Counts of one of many items, serialized without zeros when there are very many items.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShownCounts<S> {
    pub(crate) counts: Counts<S>,
    pub(crate) leaves_zeros_out: bool,
}

impl<S> From<Counts<S>> for ShownCounts<S> {
    fn from(counts: Counts<S>) -> Self {
        Self { counts, leaves_zeros_out: false }
    }
}

impl<S: Scope> Default for ShownCounts<S> {
    fn default() -> Self {
        Counts::default().into()
    }
}

impl<S> Deref for ShownCounts<S> {
    type Target = Counts<S>;

    fn deref(&self) -> &Counts<S> {
        &self.counts
    }
}

impl<S> DerefMut for ShownCounts<S> {
    fn deref_mut(&mut self) -> &mut Counts<S> {
        &mut self.counts
    }
}

impl<S: Scope> Serialize for ShownCounts<S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        if self.leaves_zeros_out {
            metrics_counted(&self.counts).serialize(serializer)
        } else {
            metrics::serialize(&self.counts, serializer)
        }
    }
}

impl<'de, S: Scope> Deserialize<'de> for ShownCounts<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        metrics::deserialize(deserializer).map(Self::from)
    }
}

/// Serializes counts as an object: each family's key has a number, a histogram, or an object of
/// them by label values. Rows with labels that counted nothing are left out.
mod metrics {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::{Value, json};
    use telemetry::catalogue::{BUCKETS_US, Family, MetricType, Scope};
    use telemetry::counters::{Counts, Sample};

    pub(super) fn serialize<S: Scope, Z: Serializer>(
        counts: &Counts<S>,
        serializer: Z,
    ) -> Result<Z::Ok, Z::Error> {
        let all = object(counts, |sample| {
            sample.labels.is_empty() || sample.values.iter().any(|value| *value > 0)
        });
        all.serialize(serializer)
    }

    /// Serializes the chosen rows likewise.
    pub(super) fn object<S: Scope>(
        counts: &Counts<S>,
        is_shown: impl Fn(&Sample<'_>) -> bool,
    ) -> Value {
        let mut all = json!({});
        for sample in counts.samples().filter(is_shown) {
            let mut place = &mut all[sample.family.key()];
            for label in sample.labels {
                place = &mut place[*label];
            }
            *place = match sample.values.split_last() {
                Some((sum_us, buckets)) if sample.family.kind == MetricType::Histogram => {
                    json!({ "buckets": buckets, "sum_us": sum_us })
                }
                _ => json!(sample.values.first()),
            };
        }
        all
    }

    pub(super) fn deserialize<'de, S: Scope, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Counts<S>, D::Error> {
        let all = Value::deserialize(deserializer)?;
        Ok(Counts::from_fn(|family: &Family, labels, number| {
            let mut place = &all[family.key()];
            for label in labels {
                place = &place[*label];
            }
            let value = match family.kind {
                MetricType::Histogram if number > BUCKETS_US.len() => &place["sum_us"],
                MetricType::Histogram => &place["buckets"][number],
                MetricType::Counter | MetricType::Gauge => place,
            };
            value.as_u64().unwrap_or(0)
        }))
    }
}

const TEXTS: [&str; 4] = [
    "/last_reload/refused",
    "/last_reload/warnings",
    "/last_upgrade/refused",
    "/process/start_warnings",
];

/// Returns the value with every text on one line, without control characters.
fn printable(value: Value) -> Value {
    match value {
        Value::String(text) => line(&text).to_string().into(),
        Value::Array(values) => values.into_iter().map(printable).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (line(&key).to_string(), printable(value)))
            .collect(),
        other => other,
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusError {
    /// The text is not JSON in the form of a status document.
    #[error("no status document: {0}")]
    Malformed(serde_json::Error),
    #[error("a status document of version {0}, where this program reads {VERSION}")]
    Version(u64),
    #[error("no status document: it names no version")]
    NoVersion,
}

impl StatusDocument {
    /// Reads the output of [`Self::to_json`], or of an attacker in control of the worker process:
    /// no text in the result holds a control character, except line feeds in reports of a reload.
    pub(crate) fn from_json(text: &[u8]) -> Result<Self, StatusError> {
        let value: Value = serde_json::from_slice(text).map_err(StatusError::Malformed)?;
        let texts = TEXTS.map(|at| Some(lines(value.pointer(at)?.as_str()?).to_string().into()));
        let mut value = printable(value);
        for (at, text) in TEXTS.iter().zip(texts) {
            if let (Some(text), Some(place)) = (text, value.pointer_mut(at)) {
                *place = text;
            }
        }
        match value.get("version").and_then(Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => return Err(StatusError::Version(version)),
            None => return Err(StatusError::NoVersion),
        }
        serde_json::from_value(value).map_err(StatusError::Malformed)
    }

    /// Returns one line of JSON with a line feed.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut out = serde_json::to_vec(self).expect("keys are strings and no field can fail");
        out.push(b'\n');
        out
    }
}

impl ServiceStatus {
    /// Returns the number of finished handshakes of all kinds.
    pub(crate) fn handshakes(&self) -> u64 {
        let made = self.metrics.by(Breakdown::Handshakes);
        made.fold(0, |sum, (_, count)| sum.saturating_add(count))
    }
}

impl ServerStatus {
    /// Returns the number of open connections to the server.
    pub(crate) fn open(&self) -> u64 {
        self.metrics.get(ServerGauge::ConnectionsOpen)
    }

    /// Returns the number of failed dials of all kinds.
    pub(crate) fn dials_failed(&self) -> u64 {
        let counts = DIAL_FAILURES.map(|(kind, _)| self.metrics.get(kind));
        counts.into_iter().fold(0, u64::saturating_add)
    }
}

/// Kinds of failed dials, and their names as in the metrics.
pub(super) const DIAL_FAILURES: [(ServerCounter, &str); 7] = [
    (ServerCounter::DialsRefused, "refused"),
    (ServerCounter::DialsTimedOut, "timeout"),
    (ServerCounter::DialsBusy, "busy"),
    (ServerCounter::DialsHost, "host"),
    (ServerCounter::DialsUnreachable, "unreachable"),
    (ServerCounter::DialsTls, "tls"),
    (ServerCounter::DialsTunnel, "tunnel"),
];

/// Maximum bytes of the document, a quarter below what our own commands read.
pub(super) const JSON_BYTES_MAX: usize = 48 << 20;

/// One line of JSON, of as many services as fit: a hundred thousand would make it longer than who
/// asks reads into memory.
pub(super) fn json_within(bytes_max: usize, mut document: StatusDocument) -> Vec<u8> {
    loop {
        let json = document.to_json();
        if json.len() <= bytes_max || document.services.is_empty() {
            return json;
        }
        // A tenth less than in proportion, because the first may be longer than the last.
        let all = document.services.len();
        let kept = all as f64 * bytes_max as f64 / json.len() as f64 * 0.9;
        document.services.truncate(kept as usize);
        document.services_left_out += (all - document.services.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_services_are_shown_and_the_others_counted() {
        let text = r#"{"version":2,"time_ms":0,"process":{"program":"","state":"serving","pid":2,
            "supervisor_pid":1,"start_ms":0,"supervisor_start_ms":0,"metrics":{}},
            "workers":[],"services":[],"bounds_us":[]}"#;
        let mut document = StatusDocument::from_json(text.as_bytes()).unwrap();
        // The first are ten times as long as the last.
        let name =
            |number| format!("{number}-{}", "x".repeat(if number < 50 { 3000 } else { 300 }));
        let service = |number| ServiceStatus { name: name(number), ..ServiceStatus::default() };
        document.services = (0..500).map(service).collect();
        let whole = json_within(usize::MAX, document.clone());
        assert_eq!(whole, document.to_json());
        let json = json_within(whole.len() / 4, document.clone());
        assert!(json.len() <= whole.len() / 4);
        let read = StatusDocument::from_json(&json).unwrap();
        assert_eq!(read.services, document.services[..read.services.len()]);
        assert!(!read.services.is_empty());
        assert_eq!(read.services.len() as u64 + read.services_left_out, 500);
        // Without any service the document cannot be shortened.
        assert!(!json_within(1, document).is_empty());
    }
}
