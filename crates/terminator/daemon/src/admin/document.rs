//! The status document: what `/status`, the status socket and `lariat status --json` say.
//!
//! Owns its shape, which is public and versioned: fields are added within a version, and never
//! renamed, removed or given another meaning. Told in full in `docs/reference/status.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use telemetry::printable::{line, lines};

/// The version that this program writes and reads.
pub(crate) const VERSION: u32 = 2;

/// Everything at one time. Counts are since the worker process started, and never fall but when it
/// was started again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct StatusDocument {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// When this was said.
    pub(crate) time_ms: u64,
    pub(crate) process: ProcessStatus,
    pub(crate) reload: ReloadStatus,
    #[serde(default)]
    pub(crate) log: LogStatus,
    pub(crate) workers: Vec<WorkerStatus>,
    pub(crate) services: Vec<ServiceStatus>,
    /// What the kernel does of TLS; `None` if no service wants it.
    #[serde(default)]
    pub(crate) kernel_tls: Option<KernelTlsStatus>,
    #[serde(default)]
    pub(crate) sessions: SessionStatus,
    /// Upper bounds of all histograms' buckets.
    pub(crate) bounds_us: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ProcessStatus {
    /// This program's version.
    pub(crate) program: String,
    pub(crate) state: RunState,
    pub(crate) pid: u32,
    pub(crate) supervisor_pid: u32,
    /// When the worker process started.
    pub(crate) start_ms: u64,
    pub(crate) supervisor_start_ms: u64,
    /// Worker processes started again after one died.
    pub(crate) restarts: u64,
    /// The number of the plan that is served; 1 is the first.
    pub(crate) generation: u64,
    #[serde(default)]
    pub(crate) rights: RightsStatus,
}

/// What the worker process gave up: `off` (not asked for), `full`, `partly` (as far as the kernel
/// can) or `absent` (the kernel cannot).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct RightsStatus {
    /// All of it, for people.
    pub(crate) sentence: String,
    /// Opening files.
    pub(crate) files: String,
    /// Connecting to TCP ports that are not listed.
    pub(crate) tcp_ports: String,
    /// System calls that it does not need.
    pub(crate) system_calls: String,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunState {
    /// Accepts connections.
    Serving,
    /// Accepts none, and ends when the last has ended.
    Draining,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct ReloadStatus {
    pub(crate) ok: u64,
    pub(crate) refused: u64,
    /// `None` before the first.
    pub(crate) last: Option<LastReload>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct LastReload {
    pub(crate) time_ms: u64,
    /// Why it was refused; `None` if it was not.
    pub(crate) refused: Option<String>,
}

/// The lines about connections.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct LogStatus {
    /// Bytes that could not be written.
    pub(crate) lost_bytes: u64,
    /// Why the last ones could not; `None` if they could.
    pub(crate) failure: Option<String>,
}

/// What the kernel does of TLS.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct KernelTlsStatus {
    /// Whether it seals anything.
    pub(crate) available: bool,
    /// What it does, or why nothing.
    pub(crate) sentence: String,
    /// What the host's owner can do for more.
    pub(crate) remedy: Option<String>,
    /// Whether it can change the keys of a connection.
    pub(crate) rekeys: bool,
}

/// The session cache.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct SessionStatus {
    /// Sessions held, and the bytes that they take.
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// Look-ups, by result.
    pub(crate) hits: u64,
    pub(crate) expired: u64,
    pub(crate) unknown: u64,
    /// Of sessions whose memory was changed.
    pub(crate) damaged: u64,
    /// Sessions that left before their time, to make room.
    pub(crate) evictions: u64,
    /// Sessions that were too large.
    pub(crate) refusals: u64,
    /// Sessions that were taken over from the worker process before.
    pub(crate) recovered: u64,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct WorkerStatus {
    /// The CPU it is pinned to.
    pub(crate) cpu: Option<u16>,
    pub(crate) connections_open: u64,
    pub(crate) busy_us: u64,
    pub(crate) loop_iterations: u64,
    pub(crate) events: u64,
    pub(crate) accept_errors: u64,
    pub(crate) buffers_in_use: u64,
    pub(crate) buffers_pooled: u64,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ServiceStatus {
    pub(crate) name: String,
    pub(crate) listeners: Vec<String>,
    pub(crate) certificates: CertificateStatus,
    /// Those that are stapled while they are good.
    #[serde(default)]
    pub(crate) ocsp_responses: CertificateStatus,
    /// Those that clients' certificates are held against.
    #[serde(default)]
    pub(crate) crls: CertificateStatus,
    pub(crate) connections: ConnectionStatus,
    pub(crate) handshakes: HandshakeStatus,
    pub(crate) bytes: ByteStatus,
    #[serde(default)]
    pub(crate) ktls: KtlsStatus,
    /// `None` if servers stand behind it.
    #[serde(default)]
    pub(crate) files: Option<FilesStatus>,
    pub(crate) dials: DialStatus,
    pub(crate) servers: Vec<ServerStatus>,
    pub(crate) log_lines_suppressed: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct CertificateStatus {
    pub(crate) loaded: u64,
    /// How many are past their end.
    #[serde(default)]
    pub(crate) expired: u64,
    /// When the first of them expires, in seconds since the epoch.
    pub(crate) expiry_seconds: Option<u64>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ConnectionStatus {
    pub(crate) accepted: u64,
    pub(crate) open: u64,
    /// By reason; those that never happened are left out.
    pub(crate) ended: BTreeMap<String, EndedStatus>,
    pub(crate) duration: HistogramStatus,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct EndedStatus {
    /// `client`, `backend`, `host` or `none`.
    pub(crate) fault: String,
    pub(crate) count: u64,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct HandshakeStatus {
    pub(crate) in_progress: u64,
    /// Finished, by kind; all kinds are there.
    pub(crate) kinds: BTreeMap<String, KindStatus>,
    /// Finished, by version; all versions are there.
    pub(crate) versions: BTreeMap<String, u64>,
    /// Offered sessions that were not resumed, by reason; reasons that never were are left out.
    #[serde(default)]
    pub(crate) misses: BTreeMap<String, u64>,
    /// Early data that was offered, by what became of it; what never did is left out.
    #[serde(default)]
    pub(crate) early_data: BTreeMap<String, u64>,
    /// Finished, by suite; those never used are left out.
    pub(crate) suites: BTreeMap<String, u64>,
    /// Finished, by group; those never used are left out.
    pub(crate) groups: BTreeMap<String, u64>,
    pub(crate) hello_retry_requests: u64,
    pub(crate) key_updates: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct KindStatus {
    pub(crate) count: u64,
    pub(crate) duration: HistogramStatus,
}

/// Plaintext.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ByteStatus {
    /// From clients to servers.
    pub(crate) up: u64,
    /// From servers to clients.
    pub(crate) down: u64,
    /// To clients, by what moved and sealed them.
    #[serde(default)]
    pub(crate) sent: SentStatus,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct SentStatus {
    /// From a file, without coming to us.
    pub(crate) sendfile: u64,
    /// From a server, without coming to us.
    pub(crate) splice: u64,
    /// Written by the worker, for the kernel to encrypt.
    pub(crate) kernel: u64,
    /// Encrypted in user space.
    pub(crate) user_space: u64,
}

/// Connections that the kernel seals for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct KtlsStatus {
    /// `off`, `auto` or `require`; `None` if the service is gone from the plan.
    pub(crate) mode: Option<String>,
    /// The shortest response of files that it seals.
    pub(crate) from_bytes: Option<u64>,
    /// Handed over, open ones with them.
    pub(crate) connections: u64,
    pub(crate) open: u64,
    /// Keys that it changed.
    pub(crate) rekeys: u64,
    /// Not handed over though long enough, by reason; reasons that never were are left out.
    pub(crate) refused: BTreeMap<String, u64>,
}

/// Responses of files, by the class of their status.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct FilesStatus {
    #[serde(rename = "2xx")]
    pub(crate) found: u64,
    #[serde(rename = "3xx")]
    pub(crate) elsewhere: u64,
    #[serde(rename = "4xx")]
    pub(crate) refused: u64,
    #[serde(rename = "5xx")]
    pub(crate) failed: u64,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct DialStatus {
    pub(crate) retries: u64,
    pub(crate) duration: HistogramStatus,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ServerStatus {
    pub(crate) name: String,
    pub(crate) state: ServerState,
    /// Workers that would send a connection to it.
    pub(crate) workers_up: u64,
    /// What the check saw that took it out; `None` if it is up.
    pub(crate) note: Option<String>,
    pub(crate) connections_open: u64,
    pub(crate) dials: u64,
    pub(crate) dials_refused: u64,
    pub(crate) dials_timed_out: u64,
    pub(crate) dials_unreachable: u64,
    /// How often active checks took it out.
    pub(crate) went_down: u64,
    pub(crate) bytes_up: u64,
    pub(crate) bytes_down: u64,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ServerState {
    /// All workers would use it.
    Up,
    /// Some would.
    Partly,
    /// None would.
    Down,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct HistogramStatus {
    /// One count a bound, not cumulative, and one for what is longer.
    pub(crate) buckets: Vec<u64>,
    pub(crate) sum_us: u64,
}

/// Where the one text of several lines is.
const REFUSED: &str = "/reload/last/refused";

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

/// Why a text is no status document.
#[derive(Debug)]
pub(crate) enum StatusError {
    /// It is none at all.
    Malformed(serde_json::Error),
    /// It is one of another version, or names none.
    Version(Option<u64>),
}

impl std::fmt::Display for StatusError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "no status document: {error}"),
            Self::Version(Some(version)) => write!(
                f,
                "a status document of version {version}, where this program reads {VERSION}"
            ),
            Self::Version(None) => f.write_str("no status document: it names no version"),
        }
    }
}

impl std::error::Error for StatusError {}

impl StatusDocument {
    /// Reads what [`Self::to_json`] wrote, or what somebody wrote who took the worker process over:
    /// no text in it holds a control character, but line feeds where a reload was refused.
    pub(crate) fn from_json(text: &[u8]) -> Result<Self, StatusError> {
        let value: Value = serde_json::from_slice(text).map_err(StatusError::Malformed)?;
        let why = value.pointer(REFUSED).and_then(Value::as_str);
        let why = why.map(|why| Value::from(lines(why).to_string()));
        let mut value = printable(value);
        if let (Some(why), Some(place)) = (why, value.pointer_mut(REFUSED)) {
            *place = why;
        }
        match value.get("version").and_then(Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            version => return Err(StatusError::Version(version)),
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

impl HandshakeStatus {
    /// Finished, of all kinds.
    pub(crate) fn finished(&self) -> u64 {
        let counts = self.kinds.values().map(|kind| kind.count);
        counts.fold(0, u64::saturating_add)
    }
}

impl ServerStatus {
    /// Dials that failed, of all kinds.
    pub(crate) fn dials_failed(&self) -> u64 {
        let counts = [self.dials_timed_out, self.dials_unreachable];
        counts
            .into_iter()
            .fold(self.dials_refused, u64::saturating_add)
    }
}
