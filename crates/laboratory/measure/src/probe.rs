//! Findings of `lariat-lab probe` about TLS endpoints, as data, and the judgement.
//!
//! Findings say what was seen and nothing of what should be. Names of versions, suites, groups,
//! signature schemes and alerts are the registered ones.

use serde::{Deserialize, Serialize};

use crate::choice::named;

pub const FORMAT: u32 = 1;

/// All addresses of one probe, and what is thought of them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeReport {
    pub format: u32,
    /// The hosts that were asked for, as they were typed.
    pub hosts: Vec<String>,
    /// The name in SNI, which certificates are checked for; `None` = no SNI.
    pub server_name: Option<String>,
    /// Seconds of Unix time when it began.
    pub at_s: u64,
    /// The addresses, in the order in which they were probed.
    pub nodes: Vec<NodeReport>,
    /// Sessions of one address that were offered to the same or another one.
    pub resumption: Vec<ResumptionReport>,
    pub verdicts: Vec<PointVerdict>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeReport {
    pub address: String,
    /// The reason why nothing more was found out, or not all; `None` = it speaks TLS, and all was
    /// asked.
    pub trouble: Option<ProbeTrouble>,
    /// Every version that was tried, the newest first.
    pub versions: Vec<VersionReport>,
    /// Whether a client that says that it came with a newer version before is turned away (RFC
    /// 7507); `None` = there is one version alone, or another answer came.
    pub fallback_refused: Option<bool>,
    pub clients: Vec<ClientReport>,
    /// The certificate that it sends in clear text up to TLS 1.2, read where no kind of client gets
    /// a handshake.
    pub plaintext_certificate: Option<CertificateReport>,
    pub unknown_name: Option<UnknownNameAnswer>,
    /// A client that sends no name, where the others send one.
    pub nameless: Option<ClientReport>,
    /// Whether a client may renegotiate; `None` = no version that can, or nobody to ask it.
    pub client_renegotiation: Option<bool>,
    /// Whether it takes the client's offer of heartbeats (RFC 6520).
    pub heartbeat: Option<bool>,
    /// Whether it takes a ChangeCipherSpec before any key is agreed on (CVE-2014-0224).
    pub early_change: Option<bool>,
    /// The algorithm by which it compresses its certificates for clients that can read brotli and
    /// zlib (RFC 8879); `none` = it does not; `None` = it does not speak TLS 1.3.
    pub certificate_compression: Option<String>,
    /// Encrypted Client Hello (RFC 9849); `None` = it does not speak TLS 1.3.
    pub ech: Option<EchReport>,
    /// Whether what answers speaks HTTP/2 where that was agreed on; `None` = it was not, or nothing
    /// came.
    pub h2_honoured: Option<bool>,
    /// A connection with a request, to its end.
    pub exchange: Option<Exchange>,
    pub client_certificate: Option<ClientCertificateRequest>,
    /// Findings about tickets by the handshakes that were made, by kind.
    pub tickets: Vec<TicketReport>,
    /// Full handshakes and resumed ones.
    pub handshakes: Vec<HandshakeTime>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeTrouble {
    pub kind: TroubleKind,
    /// A sentence without a full stop.
    pub text: String,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TroubleKind {
    /// The name has no address.
    Unresolved,
    /// No connection could be made.
    Connect,
    /// The server's host did not answer in time.
    ConnectTimeout,
    /// It answers, but does not speak TLS.
    NotTls,
    /// Asked for TLS in a protocol that begins in plaintext, it answers something else.
    NoStarttls,
    /// It was silent, or too slow.
    Timeout,
    Closed,
    Malformed,
    Refused,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct VersionReport {
    pub name: String,
    /// Whether the server went on with it.
    pub spoken: bool,
    /// The answer if it is not spoken: the name of an alert, or a sentence.
    pub answer: String,
    /// The suites that it accepts, in the order in which it takes them.
    pub suites: Vec<String>,
    /// Whose order decides; `None` = it cannot be told, as with one suite.
    pub order: Option<Order>,
    /// The groups that it accepts, in the order in which it takes them.
    pub groups: Vec<String>,
    /// Bits of the shortest prime of DHE that it sent; 0 = none.
    pub dh_bits: u32,
    /// Whether it takes a client's offer to compress.
    pub compression: bool,
    /// Whether it binds a renegotiation to the handshake before (RFC 5746); `None` = the version
    /// has no renegotiation.
    pub secure_renegotiation: Option<bool>,
}

named! {
    Order {
        Server = "server",
        Client = "client",
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClientReport {
    /// `modern`, `tls12`, `rsa-only`, `ecdsa-only`, `post-quantum`; `older`, where none of those
    /// gets a handshake.
    pub kind: String,
    pub trouble: Option<ProbeTrouble>,
    pub version: String,
    pub suite: String,
    pub group: String,
    /// Whether the server asked for another hello first (RFC 8446, section 4.1.4): one more round
    /// trip.
    #[serde(default)]
    pub hello_retry: bool,
    /// The scheme of the server's signature.
    pub signature: String,
    /// The application protocol, of those that browsers offer; empty = none.
    pub alpn: String,
    pub certificate: Option<CertificateReport>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct CertificateReport {
    /// SHA-256 of the certificate, in hexadecimal.
    pub fingerprint: String,
    pub subject: String,
    pub issuer: String,
    /// `RSA 2048`, `ECDSA P-256`, `Ed25519`.
    pub key: String,
    /// Bits of an RSA key; 0 of others.
    pub rsa_bits: u32,
    /// The algorithm of the issuer's signature.
    pub signature: String,
    /// Subjects of those in the chain that are signed with MD5 or SHA-1, without roots.
    pub weak_signatures: Vec<String>,
    pub names: Vec<String>,
    /// Whether the name in SNI is one of them; `None` = there was no name.
    pub name_matches: Option<bool>,
    /// Seconds of Unix time.
    pub not_before_s: u64,
    /// Seconds of Unix time.
    pub not_after_s: u64,
    /// The longest lifetime in days that authorities of the system's roots may give; 0 = its root
    /// is none of those.
    pub lifetime_days_max: u64,
    /// The subjects of the whole chain as it was sent, the leaf first.
    pub chain: Vec<String>,
    pub chain_state: ChainState,
    /// Whether each certificate is followed by its issuer.
    pub chain_ordered: bool,
    /// Whether a root was sent, which clients have.
    pub chain_has_root: bool,
    /// The URL at which the issuer answers OCSP requests; empty = none.
    pub ocsp_responder: String,
    /// Whether it demands a staple (RFC 7633).
    pub must_staple: bool,
    pub staple: Option<StapleReport>,
}

/// Whether a chain leads to a trusted root.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainState {
    Trusted,
    /// The certificate is its own issuer.
    SelfSigned,
    /// It ends at a root that is not trusted.
    UntrustedRoot,
    /// It ends at a certificate whose issuer was not sent and is no trusted root.
    Incomplete,
    /// It has more certificates, or more paths among them, than are looked at.
    TooLong,
    /// It cannot be read, or a signature in it is wrong.
    Broken,
    /// There were no roots to compare it with.
    #[default]
    Unchecked,
}

/// A stapled OCSP response (RFC 6960).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StapleReport {
    /// `good`, `revoked`, `unknown`, or what is wrong with the response: `expired`, `early`,
    /// `invalid`, `foreign`, `unverified` or a sentence.
    pub status: String,
    /// thisUpdate, in seconds of Unix time.
    pub this_update_s: u64,
    /// nextUpdate, if it has one.
    pub next_update_s: Option<u64>,
}

/// The answer to a hello for a name that nobody has.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UnknownNameAnswer {
    /// Whether the handshake went on.
    pub served: bool,
    /// The name of the alert, or what else came.
    pub answer: String,
}

/// Answers to encrypted hellos.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EchReport {
    /// To one that nobody can open, as browsers send it (RFC 9849 section 6.2).
    pub grease: EchAnswer,
    /// By the configurations that were given.
    pub given: Option<EchAnswer>,
    /// By a configuration for the same public name whose key nobody has.
    pub outdated: Option<EchAnswer>,
    /// The public name of the first of the configurations given.
    pub public_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EchAnswer {
    pub fate: EchFate,
    /// Configurations that were sent in place of ours.
    pub retry_configurations: u64,
    /// The certificate of who answered. Of one that rejects, its name is compared with the public
    /// one.
    pub certificate: Option<CertificateReport>,
    /// The reason why there was no handshake.
    pub trouble: Option<ProbeTrouble>,
}

impl EchAnswer {
    pub fn failed(trouble: ProbeTrouble) -> Self {
        Self { trouble: Some(trouble), ..Self::default() }
    }
}

named! {
    /// The fate of a hello that is encrypted, or seems so.
    EchFate {
        /// There was no handshake.
        Refused = "refused",
        Accepted = "accepted",
        /// Who answered has the certificate of the public name, and sent no configurations.
        Rejected = "rejected",
        /// The same, with newer configurations.
        Outdated = "outdated",
        /// The handshake went on as if it were a plain hello.
        PassedOver = "passed-over",
    }
}

/// A connection with a request, to its end.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// The first line of the reply; empty = none.
    pub reply: String,
    pub bytes: u64,
    /// Seconds for which browsers are told to come by HTTPS alone (RFC 6797); `None` = they are
    /// not told, or it is no HTTP.
    #[serde(default)]
    pub hsts_s: Option<u64>,
    /// Bytes of application data in each record, the first ones.
    pub records: Vec<u32>,
    /// How the server ended its stream.
    pub end: End,
}

named! {
    /// How a server ended its stream.
    End {
        /// It did not end it while it was watched.
        Open = "open",
        CloseNotify = "close-notify",
        /// The end of the TCP stream alone, as an attacker could cut it.
        Truncated = "truncated",
        Reset = "reset",
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificateRequest {
    pub asked: bool,
    /// Whether clients without one are refused.
    pub required: bool,
    /// Whether the other connections showed one.
    #[serde(default)]
    pub shown: bool,
    /// Again in a resumed one; `None` = none was resumed.
    pub asked_at_resumption: Option<bool>,
}

named! {
    Resumes {
        /// TLS 1.2, RFC 5246 section 7.3.
        SessionId = "session-id",
        /// TLS 1.2, RFC 5077.
        Ticket = "ticket",
        /// TLS 1.3, RFC 8446 section 2.2.
        Psk = "psk",
    }
}

impl Resumes {
    pub fn version(self) -> &'static str {
        match self {
            Self::Psk => "TLSv1.3",
            _ => "TLSv1.2",
        }
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TicketReport {
    pub kind: Resumes,
    /// Tickets after a full handshake; of session ids, 1 if there was one.
    pub count: u32,
    /// The lifetime hint of the last of them.
    pub lifetime_s: Option<u32>,
    pub bytes: u32,
    /// The beginnings of the tickets that were seen, in hexadecimal: in most servers the name of a
    /// key (RFC 5077, section 4).
    #[serde(default)]
    pub key_names: Vec<String>,
    /// Seconds of Unix time since which one of these keys is known to be in use.
    #[serde(default)]
    pub key_since_s: Option<u64>,
    /// Whether one that was used is refused; `None` = none was resumed.
    pub single_use: Option<bool>,
    /// Early data that the last of them allows, in bytes; 0 = none.
    pub early_data_max: u32,
    /// Whether early data was accepted; `None` = it was not allowed.
    pub early_data_accepted: Option<bool>,
}

/// Sessions of one address, offered to the same or another one.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ResumptionReport {
    pub kind: Resumes,
    /// The node that the sessions began at: an index into the nodes.
    pub from: usize,
    pub to: usize,
    pub offered: u32,
    pub resumed: u32,
    /// The reason why none was offered, or what broke the last attempt.
    pub trouble: Option<ProbeTrouble>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HandshakeTime {
    pub kind: String,
    pub count: u32,
    /// The median from the first byte of the hello to the end of the handshake, in microseconds.
    pub median_us: u64,
    /// Times that the client waited for the server, without those of TCP.
    pub round_trips: u32,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PointVerdict {
    /// The point, by its name in the list of points.
    pub point: String,
    pub level: Level,
    pub nodes: Vec<String>,
    pub seen: String,
    pub why: String,
    /// The setting to change, by program.
    pub advice: Vec<(String, String)>,
}

named! {
    Level {
        /// Clients fail, pay for full handshakes that they need not make, or are not safe.
        Fault = "fault",
        /// It works, and could be better.
        Advice = "advice",
        Good = "good",
    }
}

impl Exchange {
    /// Whether an HTTP server gave a page, or named another.
    pub fn is_page(&self) -> bool {
        let status = self.reply.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..3));
        matches!(status, Some("2" | "3"))
    }
}

impl CertificateReport {
    /// Whole days from its first to its last second.
    pub fn lifetime_days(&self) -> u64 {
        (self.not_after_s.saturating_sub(self.not_before_s) + 1).div_ceil(86400)
    }
}

impl NodeReport {
    pub fn version(&self, name: &str) -> Option<&VersionReport> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The versions that it speaks, the newest first.
    pub fn spoken(&self) -> impl Iterator<Item = &VersionReport> + Clone {
        self.versions.iter().filter(|version| version.spoken)
    }

    /// Whether all versions before TLS 1.3 bind a renegotiation to what was before; `None` = it
    /// speaks none of them.
    pub fn secure_renegotiation(&self) -> Option<bool> {
        let known = self.versions.iter().filter_map(|version| version.secure_renegotiation);
        known.reduce(|all, one| all && one)
    }

    /// Whether it speaks a version.
    pub fn speaks(&self, name: &str) -> bool {
        self.version(name).is_some_and(|version| version.spoken)
    }

    /// Whether it requires a certificate of clients, and was shown none: of much that comes after a
    /// handshake nothing is known.
    pub fn lacks_our_certificate(&self) -> bool {
        let found = self.client_certificate;
        found.is_some_and(|found| found.required && !found.shown)
    }

    pub fn client(&self, kind: &str) -> Option<&ClientReport> {
        self.clients.iter().find(|client| client.kind == kind)
    }

    /// The certificates that it shows, each once.
    pub fn certificates(&self) -> Vec<&CertificateReport> {
        let mut all: Vec<&CertificateReport> = Vec::new();
        let shown = self.clients.iter().filter_map(|one| one.certificate.as_ref());
        for certificate in shown.chain(&self.plaintext_certificate) {
            if all.iter().all(|known| known.fingerprint != certificate.fingerprint) {
                all.push(certificate);
            }
        }
        all
    }
}

impl ProbeReport {
    /// Sessions of an address that were offered to itself, if anything is known of that kind: of a
    /// server that makes no full handshake with our clients nothing is.
    pub fn own_resumption(&self, index: usize, kind: Resumes) -> Option<&ResumptionReport> {
        let node = self.nodes.get(index)?;
        let mut all = self.resumption.iter();
        let own = all.find(|one| (one.kind, one.from, one.to) == (kind, index, index))?;
        let is_met = own.offered > 0 || node.tickets.iter().any(|one| one.kind == kind);
        (is_met && !node.lacks_our_certificate()).then_some(own)
    }

    /// Reads what [`crate::record::to_json`] wrote.
    ///
    /// # Errors
    /// It is something else, or of another format.
    pub fn read(text: &str) -> Result<Self, String> {
        let report: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if report.format == FORMAT {
            Ok(report)
        } else {
            Err(format!("its format is {}, not {FORMAT}", report.format))
        }
    }
}
