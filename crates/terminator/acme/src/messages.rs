//! Messages between the supervisor and the process that talks to authorities (RFC 8555).
//!
//! Both are of one build. The supervisor's `acme` and the engine define their sequence.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A certificate to obtain and keep valid, with all that the engine needs to know of it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WantedCertificate {
    /// Stable name, which changes with the domains, the directory or the kinds of keys.
    pub name: String,
    /// DNS names in lower case, some with `*.` before them, and IP addresses (RFC 8738).
    pub domains: Vec<String>,
    /// URLs that begin with `mailto:`.
    pub contact: Vec<String>,
    /// URL of the authority's directory.
    pub directory: String,
    /// PEM of the authorities that the directory's own certificate may lead to; empty = those of
    /// the host.
    pub roots: Vec<String>,
    pub profile: Option<String>,
    /// `ecdsa-p256`, `ecdsa-p384`, `rsa-2048`, `rsa-3072` or `rsa-4096`; at least one.
    pub keys: Vec<String>,
    pub challenge: ChallengeKind,
    pub external_account: Option<ExternalAccount>,
    /// The account at the directory, as in the last [`AcmeAnswer::Account`].
    pub account: Option<Hidden>,
    /// Certificates now served, by the kind of key.
    pub certificates: Vec<ServedCertificate>,
    /// Schedule as in the last [`AcmeAnswer::State`].
    pub state: Option<String>,
    /// The order that is under way, as the last [`AcmeAnswer::Open`] had it.
    pub open: Option<Hidden>,
}

impl WantedCertificate {
    /// Whether the configuration says the same of both.
    pub fn is_written_as(&self, other: &Self) -> bool {
        let (account, state) = (self.account.clone(), self.state.clone());
        let (certificates, open) = (self.certificates.clone(), self.open.clone());
        *self == Self { account, certificates, state, open, ..other.clone() }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum ChallengeKind {
    TlsAlpn,
    Http,
    Dns,
}

impl ChallengeKind {
    /// The event that an order waits for before the authority may look.
    pub(crate) fn preparation(self) -> &'static str {
        match self {
            Self::Dns => "the program that puts its records into the DNS",
            Self::Http | Self::TlsAlpn => "its answers to be in place",
        }
    }
}

/// Account outside of ACME to which ours is bound (RFC 8555 section 7.3.4).
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ExternalAccount {
    pub key_id: String,
    /// Key in base64url.
    pub key: Hidden,
}

/// A certificate without its key.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ServedCertificate {
    pub key: String,
    pub chain_pem: String,
    /// Start of validity, in seconds since the epoch.
    pub not_before: i64,
    pub not_after: i64,
}

/// A text with a key in it, which debug output hides.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden")
    }
}

/// Message of the supervisor.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum AcmeOrder {
    /// Follow exactly these entries: sent at the start, and whenever one may have changed.
    Follow {
        entries: Vec<WantedCertificate>,
        /// PEM of the host's authorities; empty = there are none.
        host_roots: String,
    },
    /// An operator wants another certificate now.
    Renew { name: String },
    /// An operator wants the certificates of these chains revoked, and another one ordered unless
    /// they are replaced already.
    Revoke { name: String, chains: Vec<String>, is_replaced: bool },
    /// The challenge of [`AcmeAnswer::Prepare`] is in place, in every worker or in the DNS; or
    /// the [`AcmeAnswer::State`] or `Open` is on the disk.
    Done { id: u64 },
    /// The challenge or state could not be put in place or stored, for this reason.
    Failed { id: u64, why: String },
}

/// Message of the engine.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum AcmeAnswer {
    /// Store the account at a directory.
    Account {
        directory: String,
        account: Hidden,
    },
    /// Put the challenge in place, and answer by [`AcmeOrder::Done`] or `Failed`.
    Prepare {
        id: u64,
        name: String,
        challenge: Challenge,
    },
    /// Remove the challenge.
    Remove {
        id: u64,
    },
    /// Store and serve the certificate.
    Issued {
        name: String,
        key: String,
        chain_pem: String,
        key_pem: Hidden,
    },
    /// An order that has been placed, with the key that it is for, to be stored and answered in the
    /// same way; `None` = it is over.
    Open {
        name: String,
        order: Option<Hidden>,
        asks: Option<u64>,
    },
    /// Store the schedule; with `asks` answer by [`AcmeOrder::Done`] or `Failed`.
    State {
        name: String,
        state: String,
        asks: Option<u64>,
    },
    Status(EntryStatus),
}

/// Challenge response that an authority is going to request.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Challenge {
    /// RFC 8737: the domain or address, and the SHA-256 of the key authorization.
    TlsAlpn { identifier: String, digest: [u8; 32] },
    /// RFC 8555 section 8.3.
    Http { token: String, key_authorization: String },
    /// RFC 8555 section 8.4: the name and value of a TXT record.
    Dns { domain: String, record: String, value: String },
}

/// Stage of an entry without work in progress.
pub const WAITING: &str = "waiting";

/// Progress of an entry, for operators.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct EntryStatus {
    pub name: String,
    /// Stage in a few words: [`WAITING`], or the work in progress, such as `ordering`.
    pub stage: String,
    /// The event that it waits for, and since when, as an end of a sentence; `None` = none.
    pub waits_for: Option<String>,
    /// Time of the next step, in seconds since the epoch; `None` while one is in progress.
    pub next: Option<u64>,
    /// Reason why the last attempt failed; `None` = it has not.
    pub last_failure: Option<String>,
    /// Time when that attempt failed, in seconds since the epoch.
    pub failed_at: Option<u64>,
    /// Failures since the last success.
    pub failures: u64,
}
