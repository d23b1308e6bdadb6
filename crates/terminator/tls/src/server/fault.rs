//! What can be wrong with a service's TLS, and with a client's hello for it.

use std::fmt::{self, Display, Formatter};

use wire::alert;

use crate::certificate::{CertificateConcern, CertificateError};
use crate::options::Version;
use crate::policy::{PolicyConcern, PolicyFault};
use crate::verify::{VerifyConcern, VerifyFault};

/// Why a service's TLS cannot be built: one sentence with service, place and remedy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BuildError {
    /// The service's name.
    pub service: String,
    /// What is wrong.
    pub fault: BuildFault,
}

/// What keeps a service's TLS from being built.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BuildFault {
    /// It has no certificate at all.
    NoCertificate,
    /// One of its certificates cannot be served.
    Certificate(CertificateError),
    /// Its versions, suites or groups leave nothing to speak.
    Policy(PolicyFault),
    /// Its clients cannot be verified.
    Verify(VerifyFault),
    /// A file with revoked certificates cannot be read.
    Revoked {
        /// The file.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// The library's own words.
    Library(String),
}

/// Something that an operator should know about a service that works all the same.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Warning {
    /// The service's name.
    pub service: String,
    /// What it is about.
    pub concern: Concern,
}

/// What a [`Warning`] is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Concern {
    /// A certificate.
    Certificate {
        /// Where it came from.
        place: String,
        /// What it is about it.
        concern: CertificateConcern,
        /// Whether some client gets it at that time.
        is_served: bool,
    },
    /// A certificate that no client gets.
    CertificateUnused {
        /// Where it came from.
        place: String,
    },
    /// A certificate that is served though it is listed as revoked.
    CertificateRevoked {
        /// Where it came from.
        place: String,
    },
    /// Versions, suites and groups.
    Policy(PolicyConcern),
    /// The verification of clients.
    Verify(VerifyConcern),
}

/// How a client is refused before the library sees its hello.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// Why.
    pub reason: RefusalReason,
    /// The alert to send: an AlertDescription (RFC 8446 section 6).
    pub alert: u8,
}

/// Why a client is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RefusalReason {
    /// No certificate has the name that it asks for.
    NameUnknown,
    /// It asks for no name.
    NameMissing,
    /// All that it offers is older than the lowest version spoken here.
    VersionTooOld,
    /// It tries again with an older version than both speak (RFC 7507).
    Fallback,
    /// An extension is missing that its version requires.
    ExtensionMissing(&'static str),
    /// It has nothing in common with us in this respect.
    NoCommonParameters(&'static str),
}

impl Refusal {
    pub(super) const NAME_UNKNOWN: Self = Self {
        reason: RefusalReason::NameUnknown,
        alert: alert::UNRECOGNIZED_NAME,
    };
    pub(super) const FALLBACK: Self = Self {
        reason: RefusalReason::Fallback,
        alert: alert::INAPPROPRIATE_FALLBACK,
    };
    pub(super) const NO_SCHEME: Self = Self::nothing_shared("signature scheme");
    pub(super) const NO_SUITE: Self = Self::nothing_shared("cipher suite");
    pub(super) const NO_GROUP: Self = Self::nothing_shared("group");

    /// RFC 8446 section 9.2 has an alert for it that TLS 1.2 does not know.
    pub(super) fn name_missing(version: Version) -> Self {
        let alert = match version {
            Version::Tls12 => alert::UNRECOGNIZED_NAME,
            Version::Tls13 => alert::MISSING_EXTENSION,
        };
        Self {
            reason: RefusalReason::NameMissing,
            alert,
        }
    }

    /// A client whose highest version is `highest`, by a service that speaks `ours`.
    pub(super) fn of_version(highest: u16, ours: &[Version]) -> Self {
        let is_too_old = ours.iter().all(|version| highest < version.code());
        let reason = if is_too_old {
            RefusalReason::VersionTooOld
        } else {
            RefusalReason::NoCommonParameters("version")
        };
        Self {
            reason,
            alert: alert::PROTOCOL_VERSION,
        }
    }

    /// RFC 8446 section 9.2.
    pub(super) const fn missing_extension(name: &'static str) -> Self {
        Self {
            reason: RefusalReason::ExtensionMissing(name),
            alert: alert::MISSING_EXTENSION,
        }
    }

    const fn nothing_shared(what: &'static str) -> Self {
        Self {
            reason: RefusalReason::NoCommonParameters(what),
            alert: alert::HANDSHAKE_FAILURE,
        }
    }
}

impl Warning {
    pub(super) fn of_all(service: &str, concerns: Vec<Concern>) -> Vec<Self> {
        let warning = |concern| Self {
            service: service.to_owned(),
            concern,
        };
        concerns.into_iter().map(warning).collect()
    }
}

impl std::error::Error for BuildError {}

impl Display for BuildError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "service \"{}\": ", self.service)?;
        match &self.fault {
            BuildFault::NoCertificate => {
                f.write_str("has no certificate; name a PEM file or a directory that holds one")
            }
            BuildFault::Certificate(error) => error.fmt(f),
            BuildFault::Policy(fault) => fault.fmt(f),
            BuildFault::Verify(fault) => fault.fmt(f),
            BuildFault::Revoked { place, what } => write!(
                f,
                "{place}: {what}; `revoked` wants the certificates as PEM, without their keys"
            ),
            BuildFault::Library(words) => {
                write!(
                    f,
                    "the TLS library refuses these settings: {words}; please report it"
                )
            }
        }
    }
}

impl Display for Warning {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "service \"{}\": {}", self.service, self.concern)
    }
}

impl Display for Concern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate {
                place,
                concern,
                is_served,
            } => {
                write!(f, "{place}: {concern}")?;
                match (concern.is_invalid(), is_served) {
                    (false, _) => Ok(()),
                    (true, true) => f.write_str(
                        "; clients still get it, since no certificate for its names is valid",
                    ),
                    (true, false) => f.write_str("; clients get another one for its names"),
                }
            }
            Self::CertificateUnused { place } => write!(
                f,
                "{place}: no client gets this certificate: it has no name that another with a key \
                 of the same kind does not have before it; remove one of them"
            ),
            Self::CertificateRevoked { place } => write!(
                f,
                "{place}: this certificate is listed in `revoked` and still served; put a new one \
                 in its place"
            ),
            Self::Policy(concern) => concern.fmt(f),
            Self::Verify(concern) => concern.fmt(f),
        }
    }
}
