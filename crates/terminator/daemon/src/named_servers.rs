//! Servers by their names: what a name that is to be resolved stands for, orders of an operator
//! about a server, and what a worker process has observed of servers, for the next one.
//!
//! An order reaches the supervisor with a signal, which has room for a number and no more. So it
//! holds a digest of the server's name, for which the supervisor looks among its own. Observations
//! go from process to process as text and numbers, bounded, since the next one may be another
//! version's: what that one does not know it leaves out. Who resolves names, and when, is said
//! elsewhere.

use std::fmt;
use std::net::SocketAddr;

use backend::affinity;
use backend::options::WEIGHT_MAX;
use serde::{Deserialize, Serialize};
use wire::address::Endpoint;

use crate::status_parts::at_most;

/// A server of a service, as operators name it. Servers of a service that have one address have one
/// name.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct ServerName {
    /// The service's name, in which there is no `/`.
    pub(crate) service: String,
    /// The server's address, as configured.
    pub(crate) server: String,
}

impl ServerName {
    /// Reads `SERVICE/ADDRESS`; `None` if it has no such form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (service, server) = text.split_once('/')?;
        (!service.is_empty() && !server.is_empty())
            .then(|| Self { service: service.to_owned(), server: server.to_owned() })
    }

    /// The number of the order of this change.
    pub(crate) fn order(&self, change: MaintenanceChange) -> u64 {
        self.digest() << CHANGE_BITS | change.number()
    }

    /// The change by an order of that number; `None` if it is about another.
    pub(crate) fn ordered(&self, number: u64) -> Option<MaintenanceChange> {
        let change = MaintenanceChange::numbered(number % (1 << CHANGE_BITS))?;
        (self.order(change) == number).then_some(change)
    }

    fn digest(&self) -> u64 {
        affinity::hash(self.to_string().as_bytes())
    }
}

/// The bits of an order that say what is to change.
const CHANGE_BITS: u32 = 10;

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.server)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MaintenanceChange {
    /// It gets no new connection.
    Disable,
    /// The same, and its sessions end.
    DisableAndClose,
    Enable,
    /// It has this weight, from 0 to [`WEIGHT_MAX`]; `None` = the configured one.
    Weight(Option<u16>),
}

impl MaintenanceChange {
    /// The changes without a weight, by their numbers; the configured weight comes behind them, and
    /// then the weights. No number is 0: a signal without one has that.
    const PLAIN: [Self; 3] = [Self::Disable, Self::DisableAndClose, Self::Enable];

    fn number(self) -> u64 {
        match self {
            Self::Disable => 1,
            Self::DisableAndClose => 2,
            Self::Enable => 3,
            Self::Weight(None) => 4,
            Self::Weight(Some(weight)) => 5 + u64::from(weight),
        }
    }

    fn numbered(number: u64) -> Option<Self> {
        let plain = Self::PLAIN.into_iter().find(|change| change.number() == number);
        let weight = |number| u16::try_from(number).ok().filter(|one| *one <= WEIGHT_MAX);
        plain.or_else(|| match number.checked_sub(4)? {
            0 => Some(Self::Weight(None)),
            above => Some(Self::Weight(Some(weight(above - 1)?))),
        })
    }
}

/// The word of the command line for a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum ChangeWord {
    Disable,
    Enable,
    Weight,
}

impl ChangeWord {
    /// The change with what stands beside the word; `Err` has the fault.
    pub(crate) fn with(
        self,
        weight: Option<&str>,
        closes: bool,
    ) -> Result<MaintenanceChange, &'static str> {
        match (self, weight) {
            (Self::Disable, None) if closes => Ok(MaintenanceChange::DisableAndClose),
            _ if closes => Err("--close stands beside `disable` alone"),
            (Self::Disable, None) => Ok(MaintenanceChange::Disable),
            (Self::Enable, None) => Ok(MaintenanceChange::Enable),
            (Self::Weight, Some("configured")) => Ok(MaintenanceChange::Weight(None)),
            (Self::Weight, Some(text)) => {
                let weight = text.parse().ok().filter(|weight| *weight <= WEIGHT_MAX);
                let weight = weight.ok_or("a weight is a number from 0 to 256, or `configured`")?;
                Ok(MaintenanceChange::Weight(Some(weight)))
            }
            (Self::Weight, None) => Err("a weight is missing: 0 to 256, or `configured`"),
            (_, Some(_)) => Err("a weight stands behind `weight` alone"),
        }
    }
}

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

/// Bytes that the servers may take, and the history; together with what goes with them they fit
/// into an answer, and escaped as JSON into a message between supervisors.
const SERVERS_BYTES_MAX: usize = 256 << 10;

/// Servers that these bytes hold, as any version of this program counts them.
pub(crate) const SERVERS_MAX: usize = SERVERS_BYTES_MAX / 64;

pub(crate) const HISTORY_BYTES_MAX: usize = 640 << 10;

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Observations {
    #[serde(deserialize_with = "at_most::<SERVERS_MAX, _, _>")]
    pub(crate) servers: Vec<ObservedServer>,
    /// The last intervals as JSON; empty = none.
    pub(crate) history: String,
}

/// A server's state and how long it has lasted.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ObservedServer {
    pub(crate) service: String,
    pub(crate) server: String,
    /// As the status document has it: `up`, `partly`, `down`.
    pub(crate) state: String,
    pub(crate) since_ms: u64,
    /// The reason why it is not up; `None` if that is unknown, or an operator's order.
    pub(crate) cause: Option<String>,
}

impl ObservedServer {
    pub(crate) fn name(&self) -> ServerName {
        ServerName { service: self.service.clone(), server: self.server.clone() }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state == "up"
    }

    fn bytes(&self) -> usize {
        let cause = self.cause.as_ref().map_or(0, String::len);
        size_of::<Self>() + self.service.len() + self.server.len() + cause
    }
}

/// As many servers as fit, first those that are not up.
pub(crate) fn bounded_servers(mut servers: Vec<ObservedServer>) -> Vec<ObservedServer> {
    servers.sort_by_key(ObservedServer::is_up);
    let mut bytes = 0;
    servers.retain(|server| {
        bytes += server.bytes();
        bytes <= SERVERS_BYTES_MAX
    });
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_one_server_and_one_change() {
        let names = ["web/10.0.0.3:80", "web/10.0.0.4:80", "app/10.0.0.3:80"];
        let names = names.map(|text| ServerName::parse(text).unwrap());
        for (index, name) in names.iter().enumerate() {
            let weights = [None, Some(0), Some(1), Some(WEIGHT_MAX)].map(MaintenanceChange::Weight);
            for change in MaintenanceChange::PLAIN.into_iter().chain(weights) {
                let number = name.order(change);
                for (other, one) in names.iter().enumerate() {
                    assert_eq!(one.ordered(number), (index == other).then_some(change));
                }
            }
            assert_eq!(name.ordered(0), None, "a signal sent without a number");
        }
    }

    #[test]
    fn a_word_makes_a_change_with_what_stands_beside_it() {
        use ChangeWord::{Disable, Enable, Weight};
        for (word, weight, closes, expected) in [
            (Disable, None, false, Ok(MaintenanceChange::Disable)),
            (Disable, None, true, Ok(MaintenanceChange::DisableAndClose)),
            (Enable, None, true, Err("--close")),
            (Enable, Some("1"), false, Err("behind `weight`")),
            (Weight, Some("0"), false, Ok(MaintenanceChange::Weight(Some(0)))),
            (Weight, Some("configured"), false, Ok(MaintenanceChange::Weight(None))),
            (Weight, Some("257"), false, Err("0 to 256")),
            (Weight, None, false, Err("missing")),
        ] {
            match (word.with(weight, closes), expected) {
                (Err(fault), Err(part)) => assert!(fault.contains(part), "{fault}"),
                (made, expected) => assert_eq!(made, expected, "{word:?} {weight:?}"),
            }
        }
    }

    #[test]
    fn a_name_has_a_service_and_an_address() {
        let name = ServerName::parse("web/unix:/run/app.sock").unwrap();
        assert_eq!((&*name.service, &*name.server), ("web", "unix:/run/app.sock"));
        assert_eq!(name.to_string(), "web/unix:/run/app.sock");
        for text in ["web", "web/", "/10.0.0.3:80", ""] {
            assert_eq!(ServerName::parse(text), None, "{text}");
        }
    }
}
