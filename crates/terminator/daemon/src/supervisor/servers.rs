//! Servers as operators and name servers have them: which are disabled, their weights, and
//! which addresses names have. The supervisor keeps both, whatever becomes of a worker process.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::Supervisor;
use super::child::ChildEvent;
use super::events::Event;
use super::failure::Failure;
use super::names::Resolution;
use crate::handover::SupervisorOrder;
use crate::messages::{note, warn};
use crate::named_servers::{MaintenanceChange, Name, ServerName};
use crate::resolve::Reply;

/// How long a plan waits for the addresses of its names. Later ones follow it.
const RESOLVE_TIME_MAX: Duration = Duration::from_secs(2);

impl Supervisor<'_> {
    /// An operator has sent an order about a server or a certificate.
    pub(super) fn ordered(&mut self, number: u64) {
        if self.ordered_certificate(number) {
            return;
        }
        let mut servers = self.served.summary.server_names();
        let found = servers.find_map(|name| Some((name.ordered(number)?, name)));
        drop(servers);
        let Some((change, name)) = found else {
            warn("an order came about a server or certificate that the served configuration lacks");
            return;
        };
        let (has_changed, outcome) = self.change(&name, change);
        if has_changed {
            note(format_args!("server {name} {outcome}"));
        }
        self.keep_descriptors();
        match change {
            MaintenanceChange::Weight(_) => {
                let weights = self.weights.clone().into_iter().collect();
                self.tell(&SupervisorOrder::Weights(weights));
            }
            _ => self.tell(&SupervisorOrder::Disabled(self.disabled.clone())),
        }
        if change == MaintenanceChange::DisableAndClose {
            let order = SupervisorOrder::CloseSessions(name);
            for one in &self.earlier {
                // One that takes no order is heard to end.
                let _ = one.child.send(&order, &[]);
            }
            self.tell(&order);
        }
    }

    /// Keeps what an operator has ordered; whether that is new, and what it is.
    fn change(&mut self, name: &ServerName, change: MaintenanceChange) -> (bool, String) {
        let (has_changed, outcome) = match change {
            MaintenanceChange::Disable => {
                let is_new = self.disabled.insert(name.clone());
                (is_new, "is disabled: it gets no new connection")
            }
            MaintenanceChange::DisableAndClose => {
                self.disabled.insert(name.clone());
                (true, "is disabled: it gets no new connection, and its sessions end")
            }
            MaintenanceChange::Enable => (self.disabled.remove(name), "is enabled"),
            MaintenanceChange::Weight(None) => {
                (self.weights.remove(name).is_some(), "has its configured weight")
            }
            MaintenanceChange::Weight(Some(weight)) => {
                let before = self.weights.insert(name.clone(), weight);
                return (before != Some(weight), format!("has weight {weight}"));
            }
        };
        (has_changed, outcome.to_owned())
    }

    pub(super) fn forget_servers(&mut self) {
        let served: BTreeSet<_> = self.served.summary.server_names().collect();
        self.disabled.retain(|name| served.contains(name));
        self.weights.retain(|name, _| served.contains(name));
    }

    pub(super) fn resolve(&mut self, names: BTreeMap<Name, Duration>) -> Result<(), Failure> {
        self.names.want(names.clone());
        let until = Instant::now() + RESOLVE_TIME_MAX;
        while !self.names.lookups.have_heard_of(&names) {
            let is_resolver = |news: &Event| matches!(news, Event::Resolver(..));
            let news = self.events.next_of(until, is_resolver);
            let Some(Event::Resolver(number, heard)) =
                news.map_err(Failure::host("wait for events"))?
            else {
                break;
            };
            self.resolver_said(number, heard);
        }
        Ok(())
    }

    pub(super) fn resolver_said(&mut self, number: u64, heard: ChildEvent<Reply>) {
        if let Some(news) = self.names.heard(number, heard) {
            self.resolved(news);
        }
    }

    pub(super) fn resolved(&mut self, news: Resolution) {
        match news {
            Resolution::Changed(resolved) => self.tell(&SupervisorOrder::Resolved(resolved)),
            Resolution::Failed(name, why) => warn(format_args!("cannot resolve {name}: {why}")),
        }
    }
}
