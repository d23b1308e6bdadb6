//! Observations of servers and connections by a worker process, for the next one.
//!
//! Owns its form and its size. It goes from process to process as text and numbers, since the next
//! one may be another version's: what that one does not know it leaves out.

use serde::{Deserialize, Serialize};

use crate::bounded_list::at_most;
use crate::maintenance::ServerName;

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
pub(crate) fn bounded(mut servers: Vec<ObservedServer>) -> Vec<ObservedServer> {
    servers.sort_by_key(ObservedServer::is_up);
    let mut bytes = 0;
    servers.retain(|server| {
        bytes += server.bytes();
        bytes <= SERVERS_BYTES_MAX
    });
    servers
}
