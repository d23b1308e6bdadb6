//! Options of a pool of servers.

use std::ops::RangeInclusive;
use std::time::Duration;

use wire::address::Endpoint;

/// Most servers of a pool. Each pick looks at all of them: at this number it takes a few
/// microseconds, a tenth of a handshake.
pub const SERVERS_MAX: usize = 1024;

/// Largest weight: the sums of all weights stay far from any overflow.
pub const WEIGHT_MAX: u16 = 256;

/// A pool of servers and how one of them is chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Servers in the order of the configuration; 1 to [`SERVERS_MAX`].
    pub servers: Vec<ServerOptions>,
    pub balance: Balance,
    /// Limit of failed dials that takes a server out.
    pub passive: PassiveOptions,
    pub check: Option<Box<CheckOptions>>,
    /// Time for which a server that came back up gets less than its whole share; zero = none.
    pub slow_start: Duration,
    pub on_down: DownAction,
    /// Queue of connections that wait while all suitable servers have reached their limits.
    pub queue: QueueOptions,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ServerOptions {
    pub endpoint: Endpoint,
    /// Share relative to the others', 1 to [`WEIGHT_MAX`].
    pub weight: u16,
    /// Whether it is used only while no ordinary server is up.
    pub backup: bool,
    /// Most open connections over all workers, including those being dialled; `None` = any number.
    /// At least 1.
    pub connections_max: Option<u32>,
}

/// Queue of connections for places at servers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueueOptions {
    /// Most connections that wait; 0 = none waits.
    pub length: usize,
    /// Longest wait of each connection.
    pub timeout: Duration,
}

/// Choice of a server among those that are up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Balance {
    /// Fewest open connections relative to the weight.
    LeastConnections,
    RoundRobin,
    /// Choice by the client's address, so that a client stays with its server (consistent hash).
    Source,
}

/// Treatment of open connections to a server that goes down or is disabled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DownAction {
    Close,
    Keep,
}

/// Number of failed dials that take a server out, and the duration of that.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PassiveOptions {
    /// Failed dials in a row that take a server out; 0 = never.
    pub failures: u32,
    /// Time for which it stays out.
    pub ejection_time: Duration,
}

/// An active check, made on a schedule by the control side.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckOptions {
    pub kind: CheckKind,
    /// TCP port in place of the server's own.
    pub port: Option<u16>,
    /// Whether the check uses TLS; `None` = as the service's connections do.
    pub tls: Option<bool>,
    /// Time from one check's start to the next one's.
    pub interval: Duration,
    /// Longest duration of a check that succeeds.
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
    /// Bytes to send, and bytes that the answer must contain.
    Dialog {
        /// Bytes to send; empty = the server speaks first.
        send: String,
        /// Text that the answer must contain; `None` = any answer, or none.
        expect: Option<String>,
        /// Name sent in SNI, if any.
        host: Option<String>,
    },
    /// A TLS handshake must finish; the certificate is not verified.
    Tls {
        /// Name sent in SNI, if any.
        name: Option<String>,
    },
}

/// Request of a check, and the answer that passes.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpCheck {
    pub path: String,
    pub method: HttpMethod,
    /// The `Host` field; `None` sends the endpoint's.
    pub host: Option<String>,
    /// Statuses that pass.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// Text that the content must contain.
    pub content: Option<String>,
}

impl HttpCheck {
    /// Returns a `GET` that passes with any status from 200 to 399.
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
