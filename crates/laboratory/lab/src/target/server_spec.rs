//! What a server is asked to be, whichever program it is.
//!
//! A scenario says it in its table `[server]`; a target's templates turn it into a configuration.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a server is asked to be. Every name is one that a template may use.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct ServerSpec {
    /// Threads or processes that take connections, each on a CPU of its own.
    pub(crate) workers: u16,
    pub(crate) front: Front,
    /// Whether it speaks TLS to the origin behind it, and verifies it.
    pub(crate) back_tls: bool,
    /// The certificates to be served, one of each kind.
    pub(crate) certificates: Vec<KeyKind>,
    pub(crate) versions: Vec<Version>,
    /// Cipher suites by their standard names, the preferred first; empty: the target's own choice.
    pub(crate) suites: Vec<String>,
    /// Groups of the key exchange by their standard names; empty: the target's own choice.
    pub(crate) groups: Vec<String>,
    /// Whether sessions may be resumed by session id (TLS 1.2).
    pub(crate) session_ids: bool,
    /// Whether sessions may be resumed by ticket (TLS 1.2) and by PSK (TLS 1.3).
    pub(crate) tickets: bool,
    /// Whether the kernel is asked to encrypt what is sent.
    pub(crate) ktls: bool,
    /// Whether what resumes in TLS 1.3 lies in the server's cache (stateful tickets), not with clients.
    pub(crate) stateful_tickets: bool,
    /// Sessions that the cache must hold; 0: some 100,000, as far as that can be set.
    pub(crate) session_cache: u64,
    /// In place of `certificates`: their number, each with a key and a name of its own.
    pub(crate) sites: u32,
    /// Whether it logs each request, to check its clients.
    pub(crate) request_log: bool,
    /// Nodes of a farm behind a balancer; 0: the server stands alone.
    pub(crate) nodes: u16,
    /// Whether the nodes of a farm resume each other's sessions.
    pub(crate) shared_sessions: bool,
    /// Whether they do so by a store.
    pub(crate) session_store: bool,
    /// Sizes in bytes of the objects that will be asked for, for servers that answer from files.
    pub(crate) objects: Vec<u64>,
}

impl Default for ServerSpec {
    fn default() -> Self {
        Self {
            workers: 1,
            front: Front::Tls,
            back_tls: false,
            certificates: vec![KeyKind::P256],
            versions: vec![Version::Tls12, Version::Tls13],
            suites: Vec::new(),
            groups: Vec::new(),
            session_ids: true,
            tickets: true,
            ktls: false,
            stateful_tickets: false,
            session_cache: 0,
            sites: 0,
            request_log: false,
            nodes: 0,
            shared_sessions: false,
            session_store: false,
            objects: Vec::new(),
        }
    }
}

impl ServerSpec {
    /// Whether the origin behind it must speak TLS: to it, or through it to the clients.
    pub(crate) fn needs_tls_origin(&self) -> bool {
        self.back_tls || self.front == Front::Passthrough
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Front {
    Tls,
    Plain,
    /// TLS that it does not terminate: it reads the server name and relays.
    Passthrough,
}

impl fmt::Display for Front {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Tls => "TLS",
            Self::Plain => "no TLS",
            Self::Passthrough => "TLS that it does not terminate",
        })
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KeyKind {
    Rsa2048,
    Rsa3072,
    Rsa4096,
    P256,
    P384,
    Ed25519,
}

impl fmt::Display for KeyKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Rsa2048 => "rsa2048",
            Self::Rsa3072 => "rsa3072",
            Self::Rsa4096 => "rsa4096",
            Self::P256 => "p256",
            Self::P384 => "p384",
            Self::Ed25519 => "ed25519",
        })
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) enum Version {
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}
