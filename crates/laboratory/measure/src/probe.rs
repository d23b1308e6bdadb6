//! Defines the findings of `lariat-lab probe` about TLS endpoints, as data, and the judgement.
//!
//! Findings say what was seen and nothing of what should be. Names of versions, suites, groups,
//! signature schemes and alerts are the registered ones.

use serde::{Deserialize, Serialize};

use crate::choice::named;

pub const FORMAT: u32 = 1;

/// All addresses of one probe, and their judgement.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeReport {
    pub format: u32,
    /// The hosts that were asked for, as typed.
    pub hosts: Vec<String>,
    /// The name in SNI, which certificates are checked for; `None` if there was no SNI.
    pub server_name: Option<String>,
    /// Start of the probe, in seconds of Unix time.
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
    /// Reason why the probe failed or is incomplete; `None` if the address speaks TLS and the probe
    /// is complete.
    pub trouble: Option<ProbeTrouble>,
    /// Every version that was tried, the newest first.
    pub versions: Vec<VersionReport>,
    /// Whether a client that claims to have fallen back from a newer version is refused (RFC 7507);
    /// `None` if there is only one version, or another answer came.
    pub fallback_refused: Option<bool>,
    pub clients: Vec<ClientReport>,
    /// Certificate that the server sends in clear text up to TLS 1.2, read if no kind of client
    /// gets a handshake.
    pub plaintext_certificate: Option<CertificateReport>,
    pub unknown_name: Option<UnknownNameAnswer>,
    /// A client that sends no name, if the others send one.
    pub nameless: Option<ClientReport>,
    /// Whether a client may renegotiate; `None` if no version allows it, or no client could ask.
    pub client_renegotiation: Option<bool>,
    /// Whether the server accepts the client's offer of heartbeats (RFC 6520).
    pub heartbeat: Option<bool>,
    /// Whether the server accepts a ChangeCipherSpec before any key is agreed on (CVE-2014-0224).
    pub early_change: Option<bool>,
    /// Algorithm by which the server compresses its certificates for clients that can read brotli
    /// and zlib (RFC 8879); `none` if it does not; `None` if it does not speak TLS 1.3.
    pub certificate_compression: Option<String>,
    /// Encrypted Client Hello (RFC 9849); `None` if the server does not speak TLS 1.3.
    pub ech: Option<EchReport>,
    /// Whether the server speaks HTTP/2 after agreeing on it; `None` if it did not agree, or sent
    /// nothing.
    pub h2_honoured: Option<bool>,
    /// A connection with a request, to its end.
    pub exchange: Option<Exchange>,
    pub client_certificate: Option<ClientCertificateRequest>,
    /// Findings about tickets from the probe's handshakes, by kind.
    pub tickets: Vec<TicketReport>,
    /// Times of full and of resumed handshakes.
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
    /// The server answers, but does not speak TLS.
    NotTls,
    /// The server did not accept STARTTLS in a protocol that begins in plaintext.
    NoStarttls,
    /// The server was silent, or too slow.
    Timeout,
    Closed,
    Malformed,
    Refused,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct VersionReport {
    pub name: String,
    /// Whether the server accepted the version.
    pub spoken: bool,
    /// The answer if the version is not spoken: the name of an alert, or a sentence.
    pub answer: String,
    /// Accepted suites, in the server's order of choice.
    pub suites: Vec<String>,
    /// Whose order decides; `None` if that is unknown, as with one suite.
    pub order: Option<Order>,
    /// Accepted groups, in the server's order of choice.
    pub groups: Vec<String>,
    /// Bits of the shortest DHE prime that the server sent; 0 if none.
    pub dh_bits: u32,
    /// Whether the server accepts a client's offer to compress.
    pub compression: bool,
    /// Whether the server binds a renegotiation to the handshake before (RFC 5746); `None` if the
    /// version has no renegotiation.
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
    /// `modern`, `tls12`, `rsa-only`, `ecdsa-only`, `post-quantum`; `older`, if none of those gets
    /// a handshake.
    pub kind: String,
    pub trouble: Option<ProbeTrouble>,
    pub version: String,
    pub suite: String,
    pub group: String,
    /// Whether the server asked for another hello first (RFC 8446, section 4.1.4): one more round
    /// trip.
    #[serde(default)]
    pub hello_retry: bool,
    /// Scheme of the server's signature.
    pub signature: String,
    /// Application protocol, of those that browsers offer; empty if none.
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
    /// Kind of key: `RSA 2048`, `ECDSA P-256`, `Ed25519`.
    pub key: String,
    /// Bits of an RSA key; 0 for others.
    pub rsa_bits: u32,
    /// Algorithm of the issuer's signature.
    pub signature: String,
    /// Subjects of the chain's certificates that are signed with MD5 or SHA-1, without roots.
    pub weak_signatures: Vec<String>,
    pub names: Vec<String>,
    /// Whether the certificate is valid for the name in SNI; `None` if there was no name.
    pub name_matches: Option<bool>,
    /// Seconds of Unix time.
    pub not_before_s: u64,
    /// Seconds of Unix time.
    pub not_after_s: u64,
    /// The longest lifetime in days that authorities of the system's roots may give; 0 if the root
    /// is not one of them.
    pub lifetime_days_max: u64,
    /// Subjects of the whole chain as sent, the leaf first.
    pub chain: Vec<String>,
    pub chain_state: ChainState,
    /// Whether each certificate is followed by its issuer.
    pub chain_ordered: bool,
    /// Whether a root was sent, which clients have already.
    pub chain_has_root: bool,
    /// URL at which the issuer answers OCSP requests; empty if none.
    pub ocsp_responder: String,
    /// Whether the certificate demands a staple (RFC 7633).
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
    /// The chain ends at a root that is not trusted.
    UntrustedRoot,
    /// The chain ends at a certificate whose issuer was not sent and is no trusted root.
    Incomplete,
    /// The chain has more certificates, or more paths among them, than are checked.
    TooLong,
    /// A certificate cannot be read, or a signature in the chain is wrong.
    Broken,
    /// No roots were available for the check.
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
    /// Value of thisUpdate, in seconds of Unix time.
    pub this_update_s: u64,
    /// Value of nextUpdate, if present.
    pub next_update_s: Option<u64>,
}

/// The answer to a hello for a name that no site has.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UnknownNameAnswer {
    /// Whether the handshake went on.
    pub served: bool,
    /// Name of the alert, or what else came.
    pub answer: String,
}

/// Answers to encrypted hellos.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EchReport {
    /// Answer to a hello that nobody can decrypt, as browsers send it (RFC 9849 section 6.2).
    pub grease: EchAnswer,
    /// Answer to a hello encrypted by the given configurations.
    pub given: Option<EchAnswer>,
    /// Answer to a hello for the same public name under a key that nobody has.
    pub outdated: Option<EchAnswer>,
    /// Public name of the first of the given configurations.
    pub public_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EchAnswer {
    pub fate: EchFate,
    /// Number of configurations that the server sent as replacements.
    pub retry_configurations: u64,
    /// Certificate of the server that answered; after a rejection, its name is compared with the
    /// public one.
    pub certificate: Option<CertificateReport>,
    /// Reason why there was no handshake.
    pub trouble: Option<ProbeTrouble>,
}

impl EchAnswer {
    pub fn failed(trouble: ProbeTrouble) -> Self {
        Self { trouble: Some(trouble), ..Self::default() }
    }
}

named! {
    /// Outcome of a hello that is encrypted, or seems so.
    EchFate {
        /// There was no handshake.
        Refused = "refused",
        Accepted = "accepted",
        /// The server showed the certificate of the public name, and sent no configurations.
        Rejected = "rejected",
        /// The server showed the certificate of the public name, and sent newer configurations.
        Outdated = "outdated",
        /// The handshake continued as for a plain hello.
        PassedOver = "passed-over",
    }
}

/// A connection with a request, to its end.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// First line of the reply; empty if none.
    pub reply: String,
    pub bytes: u64,
    /// Seconds for which browsers must use HTTPS alone (RFC 6797); `None` if the header is missing,
    /// or the reply is no HTTP.
    #[serde(default)]
    pub hsts_s: Option<u64>,
    /// Bytes of application data in each record, for the first records.
    pub records: Vec<u32>,
    /// How the server ended its stream.
    pub end: End,
}

named! {
    /// How a server ended its stream.
    End {
        /// The server had not ended its stream by the end of the probe.
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
    /// Whether clients without a certificate are refused.
    pub required: bool,
    /// Whether the other connections showed a certificate.
    #[serde(default)]
    pub shown: bool,
    /// Whether a resumed connection was asked again; `None` if none was resumed.
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
    /// Tickets after a full handshake; for session ids, 1 if there was one.
    pub count: u32,
    /// Lifetime hint of the last ticket.
    pub lifetime_s: Option<u32>,
    pub bytes: u32,
    /// The beginnings of the tickets that were seen, in hexadecimal: in most servers the name of a
    /// key (RFC 5077, section 4).
    #[serde(default)]
    pub key_names: Vec<String>,
    /// Seconds of Unix time since which one of these keys is known to be in use.
    #[serde(default)]
    pub key_since_s: Option<u64>,
    /// Whether a used ticket is refused; `None` if none was resumed.
    pub single_use: Option<bool>,
    /// Early data that the last ticket allows, in bytes; 0 if none.
    pub early_data_max: u32,
    /// Whether early data was accepted; `None` if it was not allowed.
    pub early_data_accepted: Option<bool>,
}

/// Sessions of one address, offered to the same or another one.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ResumptionReport {
    pub kind: Resumes,
    /// Node at which the sessions began: an index into the nodes.
    pub from: usize,
    pub to: usize,
    pub offered: u32,
    pub resumed: u32,
    /// Reason why no session was offered, or why the last attempt broke.
    pub trouble: Option<ProbeTrouble>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HandshakeTime {
    pub kind: String,
    pub count: u32,
    /// Median time from the first byte of the hello to the end of the handshake, in microseconds.
    pub median_us: u64,
    /// Round trips in which the client waited for the server, without those of TCP.
    pub round_trips: u32,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PointVerdict {
    /// Name of the point in the list of points.
    pub point: String,
    pub level: Level,
    pub nodes: Vec<String>,
    pub seen: String,
    pub why: String,
    /// Settings to change, by program.
    pub advice: Vec<(String, String)>,
}

named! {
    Level {
        /// Clients fail, pay for needless full handshakes, or are not safe.
        Fault = "fault",
        /// The server works, and could be better.
        Advice = "advice",
        Good = "good",
    }
}

impl Exchange {
    /// Reports whether an HTTP server returned a page, or redirected to one.
    pub fn is_page(&self) -> bool {
        let status = self.reply.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..3));
        matches!(status, Some("2" | "3"))
    }
}

impl CertificateReport {
    /// Returns the whole days from the first to the last second of validity.
    pub fn lifetime_days(&self) -> u64 {
        (self.not_after_s.saturating_sub(self.not_before_s) + 1).div_ceil(86400)
    }
}

impl NodeReport {
    pub fn version(&self, name: &str) -> Option<&VersionReport> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Lists the spoken versions, the newest first.
    pub fn spoken(&self) -> impl Iterator<Item = &VersionReport> + Clone {
        self.versions.iter().filter(|version| version.spoken)
    }

    /// Reports whether all versions before TLS 1.3 bind a renegotiation to the handshake before;
    /// `None` if none of them is spoken.
    pub fn secure_renegotiation(&self) -> Option<bool> {
        let known = self.versions.iter().filter_map(|version| version.secure_renegotiation);
        known.reduce(|all, one| all && one)
    }

    /// Reports whether the server speaks a version.
    pub fn speaks(&self, name: &str) -> bool {
        self.version(name).is_some_and(|version| version.spoken)
    }

    /// Reports whether the server requires a client certificate and was shown none: much of what
    /// follows a handshake is then unknown.
    pub fn lacks_our_certificate(&self) -> bool {
        let found = self.client_certificate;
        found.is_some_and(|found| found.required && !found.shown)
    }

    pub fn client(&self, kind: &str) -> Option<&ClientReport> {
        self.clients.iter().find(|client| client.kind == kind)
    }

    /// Lists the certificates that the server shows, each once.
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
    /// Returns the sessions of an address that were offered to itself; `None` if that kind is
    /// unknown, as for a server that makes no full handshake with our clients.
    pub fn own_resumption(&self, index: usize, kind: Resumes) -> Option<&ResumptionReport> {
        let node = self.nodes.get(index)?;
        let mut all = self.resumption.iter();
        let own = all.find(|one| (one.kind, one.from, one.to) == (kind, index, index))?;
        let is_met = own.offered > 0 || node.tickets.iter().any(|one| one.kind == kind);
        (is_met && !node.lacks_our_certificate()).then_some(own)
    }

    /// Parses the output of [`crate::record::to_json`].
    ///
    /// # Errors
    /// Fails if the text is something else, or of another format.
    pub fn read(text: &str) -> Result<Self, String> {
        let report: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if report.format == FORMAT {
            Ok(report)
        } else {
            Err(format!("its format is {}, not {FORMAT}", report.format))
        }
    }
}
