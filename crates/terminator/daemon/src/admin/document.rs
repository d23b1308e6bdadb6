//! The status document: what `/status`, the status socket and `lariat status --json` say.
//!
//! Owns its shape, which is public and versioned: fields are added within a version, and never
//! renamed, removed or given another meaning. What is counted stands in it under the names of the
//! catalogue of metrics. Explained in full in `docs/reference/status.md`.

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

/// The version that this program writes and reads.
pub(crate) const VERSION: u32 = 2;

/// Everything at one time. Counts are since the worker process started, and never fall but when it
/// was started again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct StatusDocument {
    pub(crate) version: u32,
    /// When the document was made.
    pub(crate) time_ms: u64,
    pub(crate) process: ProcessStatus,
    pub(crate) last_reload: Option<LastReload>,
    /// The upgrade that is under way.
    pub(crate) upgrade: Option<UpgradeStatus>,
    pub(crate) last_upgrade: Option<LastUpgrade>,
    /// The reason why the last lines about connections could not be written; `None` if they could.
    pub(crate) log_failure: Option<String>,
    /// The reason why its file could not be opened anew, so that lines go to the one before.
    pub(crate) log_unopened: Option<String>,
    /// The file of secrets; `None` if none are written.
    pub(crate) key_log: Option<KeyLogStatus>,
    /// Encrypted hellos; `None` if none are opened.
    pub(crate) ech: Option<EchStatus>,
    /// The process that holds keys and signs; `None` if the worker process has them all.
    pub(crate) key_process: Option<KeyProcessStatus>,
    pub(crate) workers: Vec<WorkerStatus>,
    pub(crate) services: Vec<ServiceStatus>,
    /// How many more there are than the document has room for.
    #[serde(default)]
    pub(crate) services_left_out: u64,
    /// The kernel's part of TLS; `None` if no service wants it.
    pub(crate) kernel_tls: Option<KernelTlsStatus>,
    /// The places beyond this host where sessions go; `None` if they stay here.
    pub(crate) cluster: Option<ClusterStatus>,
    /// The certificates that come by ACME.
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
    /// When the worker process started.
    pub(crate) start_ms: u64,
    pub(crate) supervisor_start_ms: u64,
    #[serde(default)]
    pub(crate) rights: RightsStatus,
    /// How worker processes died one after the other before this one, for its first minute.
    pub(crate) dying: Option<String>,
    /// The warnings about the configuration that the supervisor was started with, if there are any.
    pub(crate) start_warnings: Option<String>,
    #[serde(with = "metrics")]
    pub(crate) metrics: Counts<Process>,
}

/// The rights that the worker process gave up: `off` (not asked for), `full`, `partly` (as far as
/// the kernel can) or `absent` (the kernel cannot).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct RightsStatus {
    /// All of it, for people.
    pub(crate) sentence: String,
    pub(crate) files: String,
    /// Connecting to TCP ports that are not listed.
    pub(crate) tcp_ports: String,
    /// System calls that it does not need.
    pub(crate) system_calls: String,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunState {
    Serving,
    /// Accepts none, and ends when the last has ended.
    Draining,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct LastUpgrade {
    /// The first has 1. It grows whatever programs came and went.
    pub(crate) number: u64,
    pub(crate) time_ms: u64,
    /// The version that serves since.
    pub(crate) program: String,
    /// The reason of the refusal; `None` if it was not refused.
    pub(crate) refused: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct KeyLogStatus {
    pub(crate) path: String,
    /// The services whose secrets are written.
    pub(crate) services: Vec<String>,
    /// Lines that were passed to the supervisor, which writes them.
    pub(crate) lines: u64,
    /// Lines that found no room before.
    pub(crate) dropped: u64,
}

/// The keys that open encrypted hellos, and who still uses them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct EchStatus {
    pub(crate) public_name: String,
    pub(crate) keys: Vec<EchKeyStatus>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct EchKeyStatus {
    /// The number of its configuration.
    pub(crate) config: u8,
    /// From when on its configuration is published; `None` = it comes from a file.
    pub(crate) published_from_ms: Option<u64>,
    pub(crate) published_until_ms: Option<u64>,
    /// The result under which hellos are counted that it opens.
    pub(crate) result: String,
    /// How many these are. The key to come shares the count of the one that is published.
    pub(crate) hellos: u64,
}

/// The signatures that workers have asked for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct KeyProcessStatus {
    /// One for the keys of files, and one for each token.
    #[serde(default)]
    pub(crate) processes: Vec<KeyHolderStatus>,
    pub(crate) signed: u64,
    /// Signatures that did not come in time.
    pub(crate) late: u64,
    pub(crate) failed: u64,
    /// How long workers have waited for all of them.
    pub(crate) waiting_us: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ClusterStatus {
    /// The address or multicast group where datagrams of peers arrive; empty without peers.
    pub(crate) address: String,
    pub(crate) peers: Vec<PeerStatus>,
    /// Addresses of the configuration at which no peer was ever heard.
    pub(crate) unheard: Vec<String>,
    /// How long a handshake waits for the peers; `None` if all are too far away, or none is heard.
    pub(crate) fetch_wait_ms: Option<f64>,
    /// How this host got the sessions that peers had before it started, or while it was cut off.
    pub(crate) resync: ResyncStatus,
    /// The session store; `None` if there is none.
    pub(crate) store: Option<StoreStatus>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct StoreStatus {
    /// The store's address, or the address that leads to it; without user and password.
    pub(crate) address: String,
    pub(crate) state: StoreState,
    /// The fault; `None` if nothing is.
    pub(crate) why: Option<String>,
}

/// Whether sessions come from the store and go there.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StoreState {
    Up,
    /// They come from there, and it takes none.
    ReadOnly,
    /// Neither: it is not connected to, or was given up for a while.
    Down,
}

/// How a host catches up with its peers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ResyncStatus {
    pub(crate) state: ResyncState,
    /// The address of the peer that sends them; empty if none has.
    pub(crate) from: String,
    /// How many it has sent, and about how many it has.
    pub(crate) sessions: u64,
    pub(crate) of: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ResyncState {
    /// It has missed none, or was sent all.
    #[default]
    Done,
    /// No peer has answered yet.
    Asking,
    Receiving,
    /// No peer has answered, or one has stopped: what is missing is fetched session by session.
    GivenUp,
}

/// A peer that was heard, as far as it was.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct PeerStatus {
    /// The host's number, random for the life of its supervisor.
    pub(crate) sender: String,
    /// The source of the last datagram; no other counts once it is a place of the configuration.
    pub(crate) address: String,
    /// Whether it is one, and so is answered.
    pub(crate) listed: bool,
    /// Whether it was heard in the last four seconds.
    pub(crate) heard: bool,
    pub(crate) silent_ms: u64,
    /// How much later than by its own clock that datagram came.
    pub(crate) lag_ms: i64,
    /// The longest of the last times that it took to answer.
    pub(crate) round_trip_ms: Option<f64>,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) replayed: u64,
    pub(crate) out_of_time: u64,
    /// Times that it was seen to start.
    pub(crate) boots: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct WorkerStatus {
    /// The CPU it is pinned to.
    pub(crate) cpu: Option<u16>,
    #[serde(with = "metrics")]
    pub(crate) metrics: Counts<Worker>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ServiceStatus {
    pub(crate) name: String,
    pub(crate) listeners: Vec<String>,
    /// Whether files stand behind it, and not servers.
    pub(crate) serves_files: bool,
    /// `None` if the service is gone from the plan.
    pub(crate) ktls: Option<KtlsStatus>,
    /// Empty = servers get plaintext; else what proves who a server is.
    pub(crate) server_tls: String,
    pub(crate) expiry: ExpiryStatus,
    /// The certificates that expire first, at most [`CERTIFICATES_MAX`].
    pub(crate) certificates: Vec<CertificateStatus>,
    /// The faults of those that are left out, at most [`CERTIFICATES_MAX`].
    pub(crate) certificates_skipped: Vec<String>,
    pub(crate) metrics: ShownCounts<Service>,
    pub(crate) servers: Vec<ServerStatus>,
}

/// When the first of each ends, in seconds since the epoch.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ExpiryStatus {
    pub(crate) certificates_seconds: Option<u64>,
    /// Responses that are stapled while they are good.
    pub(crate) ocsp_responses_seconds: Option<u64>,
    /// Authorities in `ca`, without the host's own.
    pub(crate) authorities_seconds: Option<u64>,
    pub(crate) crls_seconds: Option<u64>,
}

/// Certificates of a service that the document lists: those of thousands of services must fit into
/// what a reader takes. The metrics have more.
pub(crate) const CERTIFICATES_MAX: usize = 32;

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct CertificateStatus {
    pub(crate) file: String,
    pub(crate) name: String,
    /// The kind of its key.
    pub(crate) key: String,
    /// The notAfter, in seconds since the epoch.
    pub(crate) expiry_seconds: u64,
}

/// When the kernel encrypts, as configured.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct KtlsStatus {
    pub(crate) mode: String,
    /// The shortest response of files that it encrypts.
    pub(crate) min_bytes: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ServerStatus {
    pub(crate) name: String,
    pub(crate) state: ServerState,
    /// Whether an operator has disabled it; then it is down.
    pub(crate) disabled: bool,
    /// The weight that an operator has ordered; `None` = the configured one, or that of records.
    pub(crate) weight_ordered: Option<u16>,
    /// The reason why it is not up, or which of its addresses are not used, as far as known.
    pub(crate) note: Option<String>,
    /// Addresses that some worker dials only if no other is left.
    pub(crate) addresses_down: BTreeSet<String>,
    /// When its state was first seen, in milliseconds since the epoch; at the earliest when the
    /// worker process started, or the first of those that it has taken over from; at the latest a
    /// second after it changed.
    pub(crate) since_ms: Option<u64>,
    pub(crate) metrics: ShownCounts<Server>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ServerState {
    /// All workers would use it.
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

/// The counts that are not 0, as [`metrics`] has them.
pub(super) fn metrics_counted<S: Scope>(counts: &Counts<S>) -> Value {
    metrics::object(counts, |sample| sample.values.iter().any(|value| *value > 0))
}

/// Counts of one of many, which leaves zeros out when they are very many.
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

/// Counts as an object: each family's key has a number, or a histogram, or an object of them by the
/// values of its labels. Rows with labels that counted nothing are left out.
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

    /// The same, of the rows that are chosen.
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

/// The same value with every text in it on one line, without control characters.
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
    /// It is not JSON of the form of a status document.
    #[error("no status document: {0}")]
    Malformed(serde_json::Error),
    #[error("a status document of version {0}, where this program reads {VERSION}")]
    Version(u64),
    #[error("no status document: it names no version")]
    NoVersion,
}

impl StatusDocument {
    /// Reads what [`Self::to_json`] wrote, or what somebody wrote who took the worker process over:
    /// no text in it holds a control character, but line feeds in what is said of a reload.
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

    /// One line of JSON with a line feed.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut out = serde_json::to_vec(self).expect("keys are strings and no field can fail");
        out.push(b'\n');
        out
    }
}

impl ServiceStatus {
    /// Handshakes finished, of all kinds.
    pub(crate) fn handshakes(&self) -> u64 {
        let made = self.metrics.by(Breakdown::Handshakes);
        made.fold(0, |sum, (_, count)| sum.saturating_add(count))
    }
}

impl ServerStatus {
    /// Connections to it that are open.
    pub(crate) fn open(&self) -> u64 {
        self.metrics.get(ServerGauge::ConnectionsOpen)
    }

    /// Dials that failed, of all kinds.
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

/// A quarter below what our own commands read.
pub(super) const JSON_BYTES_MAX: usize = 48 << 20;

/// One line of JSON, of as many services as fit: a hundred thousand would make it longer than who
/// asks reads into memory.
pub(super) fn json_within(bytes_max: usize, mut document: StatusDocument) -> Vec<u8> {
    loop {
        let json = document.to_json();
        if json.len() <= bytes_max || document.services.is_empty() {
            return json;
        }
        // A tenth less than in proportion, since the first may be longer than the last.
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
        // Without any service it is what it is.
        assert!(!json_within(1, document).is_empty());
    }
}
