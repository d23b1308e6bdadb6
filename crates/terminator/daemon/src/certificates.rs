//! Certificates that come by ACME, as the processes of this program speak of them: the answers to
//! authorities that workers give, the state that operators see, and an operator's order.

use backend::affinity;
use serde::{Deserialize, Serialize};
use tls::self_signed::Validation;

/// The answers that workers give to authorities: these, and no others.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Validations {
    /// By tls-alpn-01 (RFC 8737).
    pub(crate) tls: Vec<Validation>,
    /// By http-01 (RFC 8555 section 8.3): a token and its key authorization.
    pub(crate) http: Vec<(String, String)>,
}

/// The stage of all certificates where another host of the cluster orders them.
pub(crate) const ANOTHER_ORDERS: &str = "another host orders";

/// The stage of a certificate that has come, and is not on the disk yet.
pub(crate) const NOT_STORED: &str = "issued, and cannot be stored";

/// A certificate that is ordered and renewed; a part of the status document.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct AcmeStatus {
    /// For operators: the first domain and a digest.
    pub(crate) name: String,
    /// The services that show it.
    pub(crate) services: Vec<String>,
    pub(crate) domains: Vec<String>,
    /// The URL of the authority's directory.
    pub(crate) directory: String,
    /// A word for what is done about it now, such as `waiting`.
    pub(crate) stage: String,
    /// The event that it waits for, and since when; `None` = none.
    pub(crate) waits_for: Option<String>,
    /// The validity of the one that is served, in seconds since the epoch; `None` = there is none,
    /// and a self-signed one is served if there is no other.
    pub(crate) not_before_seconds: Option<u64>,
    pub(crate) not_after_seconds: Option<u64>,
    /// When the authority is asked next, in seconds since the epoch.
    pub(crate) next_seconds: Option<u64>,
    /// The reason why the last attempt failed; `None` = it has not.
    pub(crate) last_failure: Option<String>,
    /// Failures since the last success.
    pub(crate) failures: u64,
    /// Whether it should have been renewed long since: less than a fifth of its life is left, or
    /// there has been none for an hour.
    pub(crate) is_overdue: bool,
    /// Orders of operators about it since the supervisor started.
    pub(crate) orders: u64,
}

impl AcmeStatus {
    /// Whether an operator means it by this: its whole name, or a domain of its own.
    pub(crate) fn is_meant_by(&self, text: &str) -> bool {
        self.name == text || self.domains.iter().any(|domain| domain == text)
    }
}

/// An operator's order about a certificate.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum CertificateChange {
    Renew,
    Revoke,
}

impl CertificateChange {
    pub(crate) const ALL: [Self; 2] = [Self::Renew, Self::Revoke];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Renew => "renew",
            Self::Revoke => "revoke",
        }
    }

    /// The number of the order, as a signal carries it.
    pub(crate) fn order(self, name: &str) -> u64 {
        affinity::hash(format!("certificate {} {name}", self.word()).as_bytes())
    }
}
