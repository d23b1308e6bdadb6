//! The options of a pool of servers.

use std::ops::RangeInclusive;
use std::time::Duration;

use wire::address::Endpoint;

/// Servers a pool may have. Each pick looks at all of them: at this many it takes a few
/// microseconds, a tenth of a handshake, and no more.
pub const SERVERS_MAX: usize = 1024;

/// The largest weight: the sums of all weights stay far from any overflow.
pub const WEIGHT_MAX: u16 = 256;

/// A pool of servers and how one of them is chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// In the order of the configuration; 1 to [`SERVERS_MAX`].
    pub servers: Vec<ServerOptions>,
    pub balance: Balance,
    /// When failed dials take a server out.
    pub passive: PassiveOptions,
    pub check: Option<Box<CheckOptions>>,
    /// How long a server that came back up has less than its whole share; zero = it has it at once.
    pub slow_start: Duration,
    pub on_down: OnDown,
    /// The queue in which connections wait while all servers that suit them have as many as they
    /// take.
    pub queue: QueueOptions,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ServerOptions {
    pub endpoint: Endpoint,
    /// The share against the others', 1 to [`WEIGHT_MAX`].
    pub weight: u16,
    /// Used only while no ordinary server is up.
    pub backup: bool,
    /// Connections that it takes at once, over all workers, those being dialled among them; `None`
    /// = any number. At least 1.
    pub connections_max: Option<u32>,
}

/// The queue of connections for places at servers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueueOptions {
    /// How many wait at the most; 0 = none waits.
    pub length: usize,
    /// How long each waits at the most.
    pub timeout: Duration,
}

/// How a server is chosen among those that are up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Balance {
    /// Fewest open connections for its weight.
    LeastConnections,
    RoundRobin,
    /// By the client's address, so that a client stays with its server (consistent hash).
    Source,
}

/// The fate of the sessions of a server that goes down or is disabled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnDown {
    Close,
    Keep,
}

/// When a server is taken out for failed dials, and for how long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PassiveOptions {
    /// Failed dials in a row that take a server out; 0 = never.
    pub failures: u32,
    /// How long it stays out.
    pub ejection_time: Duration,
}

/// An active check, made on a schedule by the control side.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckOptions {
    pub kind: CheckKind,
    /// The TCP port in place of the server's own.
    pub port: Option<u16>,
    /// Whether it goes through TLS; `None` = as the service's connections do.
    pub tls: Option<bool>,
    /// From one check's start to the next one's.
    pub interval: Duration,
    /// A check that takes longer has failed.
    pub timeout: Duration,
    /// Failures in a row that take a server out.
    pub fall: u32,
    /// Successes in a row that bring it back.
    pub rise: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CheckKind {
    /// A request over HTTP/1.1.
    Http(HttpCheck),
    Tcp,
    /// Bytes that are sent, and bytes that the answer has.
    Dialog {
        /// Empty = the server speaks first.
        send: String,
        /// `None` = whatever it answers, or nothing.
        expect: Option<String>,
        /// The name sent in SNI, if any.
        host: Option<String>,
    },
    /// A TLS handshake finishes; the certificate is not judged.
    Tls {
        /// The name sent in SNI, if any.
        name: Option<String>,
    },
}

/// A request of a check, and the answer that passes.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpCheck {
    pub path: String,
    pub method: HttpMethod,
    /// The `Host` field; `None` sends the endpoint's.
    pub host: Option<String>,
    /// The statuses that pass.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// A text that the content has.
    pub content: Option<String>,
}

impl HttpCheck {
    /// A `GET` that any status from 200 to 399 answers.
    pub fn of(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            method: HttpMethod::Get,
            host: None,
            statuses: vec![200..=399],
            content: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HttpMethod {
    Get,
    Head,
    Options,
    Post,
}
