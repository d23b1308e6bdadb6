//! States that the processes of this program tell each other and that operators see: certificates
//! that come by ACME, with the answers to authorities and an operator's order, the upgrade that is
//! under way, the last reload, and the kernel's part of TLS. And how long a list may be that a
//! process says which may be in an attacker's hands.

use std::fmt;
use std::marker::PhantomData;
use std::time::{SystemTime, UNIX_EPOCH};

use backend::affinity;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
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

/// An upgrade that is under way, as the status has it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct UpgradeStatus {
    pub(crate) since_ms: u64,
    /// The process that says whether the new program would serve.
    pub(crate) pid: Option<u32>,
    /// When that process is ended, if it has not said so.
    pub(crate) until_ms: Option<u64>,
    /// How far it is: words for people.
    pub(crate) stage: String,
}

/// A reload that has ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct LastReload {
    pub(crate) time_ms: u64,
    /// The reason of the refusal; `None` if it was not refused.
    pub(crate) refused: Option<String>,
    /// The warnings of its configuration, each beginning with `warning: `, if there are any.
    pub(crate) warnings: Option<String>,
}

/// The kernel's part of TLS on this host.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct KernelTlsStatus {
    pub(crate) available: bool,
    /// As one sentence without its subject and full stop.
    pub(crate) sentence: String,
    /// The step by which the host's owner gets more.
    pub(crate) remedy: Option<String>,
    /// Whether it can change the keys of a connection.
    pub(crate) rekeys: bool,
}

/// Since the epoch; a clock that stands before it says 0.
pub(crate) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Reads a list of a process that may be in an attacker's hands, of at most `MAX` items: their
/// bytes limit it too little, because an empty item costs a few of them and much more memory.
pub(crate) fn at_most<'de, const MAX: usize, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct ListLimit<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for ListLimit<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX} items")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element()? {
                if list.len() == MAX {
                    return Err(A::Error::custom(format_args!("more than {MAX} items in a list")));
                }
                list.push(item);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(ListLimit::<T, MAX>(PhantomData))
}
