//! Servers that an operator has disabled: the supervisor keeps them, so that they stay so when the
//! configuration is read again and when the worker process dies.

use telemetry::message::Level;

use super::Supervisor;
use super::messages::warn;
use crate::handover::Order;
use crate::maintenance::Change;
use crate::messages::say;

impl Supervisor<'_> {
    /// An operator has sent an order about a server.
    pub(super) fn ordered(&mut self, number: u64) {
        let mut servers = self.served.summary.server_names();
        let found = servers.find_map(|name| Some((name.ordered(number)?, name)));
        drop(servers);
        let Some((change, name)) = found else {
            warn("an order came about a server that the served configuration does not have");
            return;
        };
        let (has_changed, outcome) = match change {
            Change::Disable => (
                self.disabled.insert(name.clone()),
                "disabled: it gets no new connection",
            ),
            Change::Enable => (self.disabled.remove(&name), "enabled"),
        };
        if has_changed {
            say(Level::Notice, format_args!("server {name} is {outcome}"));
        }
        self.keep_descriptors();
        self.tell(&Order::Disabled(self.disabled.clone()));
    }

    /// Forgets the servers that the served plan does not have any more.
    pub(super) fn forget_servers(&mut self) {
        let served: std::collections::BTreeSet<_> = self.served.summary.server_names().collect();
        self.disabled.retain(|name| served.contains(name));
    }
}
