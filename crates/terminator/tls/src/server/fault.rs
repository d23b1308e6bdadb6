//! The faults of a service's TLS, and of a client's hello for it.

use telemetry::outcome::Reason;
use wire::alert;

use crate::certificate::{CertificateConcern, CertificateError};
use crate::options::Version;
use crate::policy::{PolicyConcern, PolicyFault};
use crate::verify::{NAMES_BYTES_MAX, VerifyConcern, VerifyFault};

/// The error of a service whose TLS cannot be built: one sentence with service, place and remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("service `{service}`: {fault}")]
pub struct BuildError {
    pub service: Box<str>,
    /// Whether it is the TLS of its front, else of its back.
    pub is_front: bool,
    pub fault: BuildFault,
}

/// The fault that keeps a service's TLS from being built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BuildFault {
    /// It has no certificate at all.
    #[error("has no certificate; name a PEM file or a directory that holds one")]
    NoCertificate,
    /// No self-signed certificate can be made in the place of one that is missing: why not.
    #[error("cannot make a self-signed certificate: {0}")]
    Placeholder(String),
    /// One of its certificates cannot be served.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The versions, suites or groups leave nothing to speak.
    #[error(transparent)]
    Policy(#[from] PolicyFault),
    #[error(transparent)]
    Verify(#[from] VerifyFault),
    /// A file with revoked certificates cannot be read.
    #[error("in `revoked`: {0}")]
    Revoked(CertificateError),
    /// The name that a server's certificate is to have is not a host name or an IP address.
    #[error("\"{0}\" is no name that a server's certificate can have; write `back.tls.name`")]
    ServerName(String),
    #[error("the TLS library refuses these settings: {0}; please report it")]
    Library(#[from] rustls::Error),
}

/// Something that an operator should know about a service that works all the same.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("service `{service}`: {concern}")]
pub struct Warning {
    pub service: String,
    pub concern: Concern,
}

/// The subject of a [`Warning`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Concern {
    #[error("{place}: {}", with_effect(*.concern, effect(*.concern, *.is_served)))]
    Certificate {
        place: String,
        concern: CertificateConcern,
        /// Whether some client gets it at that time.
        is_served: bool,
    },
    /// A certificate that cannot be served and does not keep the others from it.
    #[error("skipped (bad-certificate = \"skip\"): {0}")]
    CertificateSkipped(CertificateError),
    /// A certificate that is not there, in whose place a self-signed one is served: which.
    #[error("{0}: a self-signed certificate is served, which no client trusts, until it is there")]
    Placeholder(String),
    /// A certificate that no client gets: where it came from.
    #[error(
        "{0}: no client gets this certificate: it has no name that another with a key of the same \
         kind does not have before it; remove one of them"
    )]
    CertificateUnused(String),
    /// A certificate that is served though it is listed as revoked: where it came from.
    #[error(
        "{0}: this certificate is listed in `revoked` and still served; put a new one in its place"
    )]
    CertificateRevoked(String),
    /// The names of the authorities of clients take too many bytes, and are not sent: their number.
    #[error(
        "the names of the authorities in `ca` take {0} bytes, more than the {NAMES_BYTES_MAX} that \
         clients are sent, so they are sent none; name fewer authorities, or write ca-names = \
         \"omit\""
    )]
    AuthorityNames(usize),
    #[error(transparent)]
    Policy(#[from] PolicyConcern),
    #[error(transparent)]
    Verify(#[from] VerifyConcern),
    #[error("{}", .0.towards_servers())]
    VerifyServers(VerifyConcern),
    /// The certificate that servers are shown.
    #[error("{place}: {}", with_effect(*.concern, ", and servers are shown it all the same"))]
    OwnCertificate { place: String, concern: CertificateConcern },
}

impl Concern {
    pub fn is_noticed(&self) -> bool {
        let Self::Certificate { concern, is_served, .. } = self else {
            return false;
        };
        *is_served && concern.is_invalid()
    }
}

fn effect(concern: CertificateConcern, is_served: bool) -> &'static str {
    match (concern.is_invalid(), is_served) {
        (false, _) => "",
        (true, true) => ", and clients still get it, since no certificate for its names is valid",
        (true, false) => ", and clients get another one for its names",
    }
}

fn with_effect(concern: CertificateConcern, effect: &str) -> String {
    concern.to_string().replacen("; ", &format!("{effect}; "), 1)
}

/// How a client is refused before the library sees its hello.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    pub reason: Reason,
    /// More of it, for the log.
    pub detail: Option<String>,
    /// The alert to send: an AlertDescription (RFC 8446 section 6).
    pub alert: u8,
}

impl Refusal {
    fn new(reason: Reason, alert: u8) -> Self {
        Self { reason, detail: None, alert }
    }

    fn with(reason: Reason, detail: &str, alert: u8) -> Self {
        Self { reason, detail: Some(detail.to_owned()), alert }
    }

    /// No certificate has the name that it asks for.
    pub(super) fn name_unknown() -> Self {
        Self::new(Reason::NameUnknown, alert::UNRECOGNIZED_NAME)
    }

    /// It tries again with an older version than both speak (RFC 7507).
    pub(super) fn fallback() -> Self {
        Self::new(Reason::InappropriateFallback, alert::INAPPROPRIATE_FALLBACK)
    }

    /// It asks for no name. RFC 8446 section 9.2 has an alert for it that TLS 1.2 does not know.
    pub(super) fn name_missing(version: Version) -> Self {
        let alert = match version {
            Version::Tls12 => alert::UNRECOGNIZED_NAME,
            Version::Tls13 => alert::MISSING_EXTENSION,
        };
        Self::new(Reason::NameMissing, alert)
    }

    /// The client's highest version is `highest`, and the service speaks `ours`.
    pub(super) fn of_version(highest: u16, ours: &[Version]) -> Self {
        if ours.iter().all(|version| highest < version.code()) {
            Self::new(Reason::VersionTooOld, alert::PROTOCOL_VERSION)
        } else {
            Self::with(Reason::NoCommonParameters, "version", alert::PROTOCOL_VERSION)
        }
    }

    /// An extension is missing that its version requires.
    pub(super) fn missing_extension(name: &str) -> Self {
        let detail = format!("no {name}, which TLS 1.3 requires (RFC 8446 section 9.2)");
        Self::with(Reason::HelloMalformed, &detail, alert::MISSING_EXTENSION)
    }

    /// It has nothing in common with us in this respect.
    pub(super) fn no_common(what: &str) -> Self {
        Self::with(Reason::NoCommonParameters, what, alert::HANDSHAKE_FAILURE)
    }
}

impl Warning {
    pub(crate) fn of_all(service: &str, concerns: Vec<Concern>) -> Vec<Self> {
        let warning = |concern| Self { service: service.to_owned(), concern };
        concerns.into_iter().map(warning).collect()
    }
}
