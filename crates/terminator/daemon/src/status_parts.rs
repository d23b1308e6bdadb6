//! States that the processes of this program exchange and that operators see: certificates obtained
//! by ACME, with the answers to authorities and an operator's order, the upgrade that is under way,
//! the last reload, and kernel TLS. Also limits lists received from a process that may be
//! compromised.

use std::fmt;
use std::marker::PhantomData;
use std::time::{SystemTime, UNIX_EPOCH};

use backend::affinity;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use tls::self_signed::Validation;

/// Complete set of answers that workers give to authorities.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Validations {
    /// Answers by tls-alpn-01 (RFC 8737).
    pub(crate) tls: Vec<Validation>,
    /// Answers by http-01 (RFC 8555 section 8.3): a token and its key authorization.
    pub(crate) http: Vec<(String, String)>,
}

/// Stage of all certificates while another host of the cluster orders them.
pub(crate) const ANOTHER_ORDERS: &str = "another host orders";

/// Stage of a certificate that was issued, and is not on the disk yet.
pub(crate) const NOT_STORED: &str = "issued, and cannot be stored";

/// A certificate that is ordered and renewed; a part of the status document.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct AcmeStatus {
    /// Name for operators: the first domain and a digest.
    pub(crate) name: String,
    /// Services that use the certificate.
    pub(crate) services: Vec<String>,
    pub(crate) domains: Vec<String>,
    /// URL of the authority's directory.
    pub(crate) directory: String,
    /// Word for the current activity, such as `waiting`.
    pub(crate) stage: String,
    /// The event that it waits for, and since when; `None` = none.
    pub(crate) waits_for: Option<String>,
    /// Validity of the served certificate, in seconds since the epoch; `None` if there is none, and
    /// a self-signed one is served if there is no other.
    pub(crate) not_before_seconds: Option<u64>,
    pub(crate) not_after_seconds: Option<u64>,
    /// Time of the next request to the authority, in seconds since the epoch.
    pub(crate) next_seconds: Option<u64>,
    /// Reason why the last attempt failed; `None` if it has not.
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

    /// Returns the number of the order, as a signal carries it.
    pub(crate) fn order(self, name: &str) -> u64 {
        affinity::hash(format!("certificate {} {name}", self.word()).as_bytes())
    }
}

/// An upgrade that is under way, as shown in the status.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct UpgradeStatus {
    pub(crate) since_ms: u64,
    /// Process that checks whether the new program would serve.
    pub(crate) pid: Option<u32>,
    /// Deadline at which that process is ended.
    pub(crate) until_ms: Option<u64>,
    /// Progress, in words for people.
    pub(crate) stage: String,
}

/// A reload that has ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct LastReload {
    pub(crate) time_ms: u64,
    /// Reason of the refusal; `None` if it was not refused.
    pub(crate) refused: Option<String>,
    /// Warnings of its configuration, each beginning with `warning: `, if there are any.
    pub(crate) warnings: Option<String>,
}

/// Kernel TLS on this host.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct KernelTlsStatus {
    pub(crate) available: bool,
    /// State as one sentence without its subject and full stop.
    pub(crate) sentence: String,
    /// Step by which the host's owner gets more.
    pub(crate) remedy: Option<String>,
    /// Whether the kernel can change the keys of a connection.
    pub(crate) rekeys: bool,
}

/// Returns milliseconds since the epoch; 0 for a clock set before it.
pub(crate) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Reads a list of at most `MAX` items from a process that may be compromised: its bytes alone
/// limit it too little, because an empty item costs a few of them and much more memory.
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
