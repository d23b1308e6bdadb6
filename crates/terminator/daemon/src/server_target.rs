//! Names of servers that are to be resolved, and what they stand for.
//!
//! Owns both as values. Who looks them up, and when, is said elsewhere.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use wire::address::Endpoint;

/// Addresses of a name. Who has more does not balance by DNS alone; the first ones will do.
pub(crate) const ADDRESSES_MAX: usize = 256;

/// A name of servers, as in `app.example:8080` or `srv:_app._tcp.example`.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Name {
    /// A host name, or the name that SRV records have.
    pub(crate) host: String,
    pub(crate) port: Port,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) enum Port {
    /// One, at this TCP port.
    Number(u16),
    /// At most this number of servers, each at the host and port of a record.
    Records(u16),
}

impl Name {
    /// The name to look up for a server, and the server's index among those found; `None` = it has
    /// an address.
    pub(crate) fn of(endpoint: &Endpoint) -> Option<(Self, usize)> {
        let (host, port, number) = match endpoint {
            Endpoint::Address(_) => return None,
            Endpoint::Name { host, port } => (host, Port::Number(*port), 1),
            Endpoint::Service { host, number, count } => (host, Port::Records(*count), *number),
        };
        let host = host.clone();
        Some((Self { host, port }, usize::from(number) - 1))
    }

    /// How many servers it stands for at the most.
    pub(crate) fn instances_max(&self) -> usize {
        match self.port {
            Port::Number(_) => 1,
            Port::Records(count) => count.into(),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Port::Number(port) => write!(f, "{}:{port}", self.host),
            Port::Records(_) => write!(f, "srv:{}", self.host),
        }
    }
}

/// A server that a name stands for.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Instance {
    /// The priority of its record; 0 if there is no record.
    pub(crate) priority: u16,
    /// The share among servers of the same priority, 1 to [`WEIGHT_MAX`].
    pub(crate) weight: u16,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The host's addresses; empty = its name could not be resolved.
    pub(crate) addresses: Vec<SocketAddr>,
}
