//! Faults of a service's TLS, and of a client's hello for it.

use telemetry::outcome::Reason;
use wire::alert;

use crate::certificate::{CertificateConcern, CertificateError};
use crate::options::Version;
use crate::policy::{PolicyConcern, PolicyFault};
use crate::verify::{NAMES_BYTES_MAX, VerifyConcern, VerifyFault};

/// Error of a service whose TLS cannot be built: one sentence with service, place and remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("service `{service}`: {fault}")]
pub struct BuildError {
    pub service: Box<str>,
    /// Whether the fault is in the TLS of the front, else of the back.
    pub is_front: bool,
    pub fault: BuildFault,
}

/// Fault that prevents a service's TLS from being built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BuildFault {
    /// The service has no certificate at all.
    #[error("has no certificate; name a PEM file or a directory that holds one")]
    NoCertificate,
    /// No self-signed certificate can replace a missing one, for this reason.
    #[error("cannot make a self-signed certificate: {0}")]
    Placeholder(String),
    /// A certificate cannot be served.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The versions, suites or groups leave nothing usable.
    #[error(transparent)]
    Policy(#[from] PolicyFault),
    #[error(transparent)]
    Verify(#[from] VerifyFault),
    /// A file with revoked certificates cannot be read.
    #[error("in `revoked`: {0}")]
    Revoked(CertificateError),
    /// The expected name of a server's certificate is no host name or IP address.
    #[error("\"{0}\" is no name that a server's certificate can have; write `back.tls.name`")]
    ServerName(String),
    #[error("the TLS library refuses these settings: {0}; please report it")]
    Library(#[from] rustls::Error),
}

/// A warning about a service that works nevertheless.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("service `{service}`: {concern}")]
pub struct Warning {
    pub service: String,
    pub concern: WarningSubject,
}

/// Subject of a [`Warning`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum WarningSubject {
    #[error("{place}: {}", with_effect(*.concern, effect(*.concern, *.is_served)))]
    Certificate {
        place: String,
        concern: CertificateConcern,
        /// Whether some client gets the certificate at that time.
        is_served: bool,
    },
    /// An unusable certificate that is skipped; the others are served.
    #[error("skipped (bad-certificate = \"skip\"): {0}")]
    CertificateSkipped(CertificateError),
    /// The missing certificate that a self-signed one replaces.
    #[error("{0}: a self-signed certificate is served, which no client trusts, until it is there")]
    Placeholder(String),
    /// Place of a certificate that no client gets.
    #[error(
        "{0}: no client gets this certificate: it has no name that another with a key of the same \
         kind does not have before it; remove one of them"
    )]
    CertificateUnused(String),
    /// Place of a certificate that is served though it is listed as revoked.
    #[error(
        "{0}: this certificate is listed in `revoked` and still served; put a new one in its place"
    )]
    CertificateRevoked(String),
    /// Number of bytes of the client authorities' names, too many to be sent.
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
    /// The certificate that is presented to servers.
    #[error("{place}: {}", with_effect(*.concern, ", and servers are shown it all the same"))]
    OwnCertificate { place: String, concern: CertificateConcern },
}

impl WarningSubject {
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

/// Refusal of a client before the library sees its hello.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    pub reason: Reason,
    /// Details for the log.
    pub detail: Option<String>,
    /// Alert to send: an AlertDescription (RFC 8446 section 6).
    pub alert: u8,
}

impl Refusal {
    fn new(reason: Reason, alert: u8) -> Self {
        Self { reason, detail: None, alert }
    }

    fn with(reason: Reason, detail: &str, alert: u8) -> Self {
        Self { reason, detail: Some(detail.to_owned()), alert }
    }

    /// Refuses a client whose requested name no certificate has.
    pub(super) fn name_unknown() -> Self {
        Self::new(Reason::NameUnknown, alert::UNRECOGNIZED_NAME)
    }

    /// Refuses a retry with an older version than both sides support (RFC 7507).
    pub(super) fn fallback() -> Self {
        Self::new(Reason::InappropriateFallback, alert::INAPPROPRIATE_FALLBACK)
    }

    /// Refuses a client without a name. TLS 1.2 lacks the alert of RFC 8446 section 9.2 for this.
    pub(super) fn name_missing(version: Version) -> Self {
        let alert = match version {
            Version::Tls12 => alert::UNRECOGNIZED_NAME,
            Version::Tls13 => alert::MISSING_EXTENSION,
        };
        Self::new(Reason::NameMissing, alert)
    }

    /// Refuses a client whose highest version is `highest`; the service supports `ours`.
    pub(super) fn of_version(highest: u16, ours: &[Version]) -> Self {
        if ours.iter().all(|version| highest < version.code()) {
            Self::new(Reason::VersionTooOld, alert::PROTOCOL_VERSION)
        } else {
            Self::with(Reason::NoCommonParameters, "version", alert::PROTOCOL_VERSION)
        }
    }

    /// Refuses a hello that lacks an extension required by its version.
    pub(super) fn missing_extension(name: &str) -> Self {
        let detail = format!("no {name}, which TLS 1.3 requires (RFC 8446 section 9.2)");
        Self::with(Reason::HelloMalformed, &detail, alert::MISSING_EXTENSION)
    }

    /// Refuses a client that has nothing in common with us in this respect.
    pub(super) fn no_common(what: &str) -> Self {
        Self::with(Reason::NoCommonParameters, what, alert::HANDSHAKE_FAILURE)
    }
}

impl Warning {
    pub(crate) fn of_all(service: &str, concerns: Vec<WarningSubject>) -> Vec<Self> {
        let warning = |concern| Self { service: service.to_owned(), concern };
        concerns.into_iter().map(warning).collect()
    }
}
