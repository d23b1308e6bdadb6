//! Determines the state of each server, why, and since when.
//!
//! Handles the naming of states. Checks supply the reason why they took a server out.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use telemetry::catalogue::{Server, ServerCounter, ServerGauge};
use telemetry::counters::{Counts, ServerSnapshot, ServiceSnapshot};
use wire::address::Address;

use super::document::{ServerState, ServerStatus, ServiceStatus};
use crate::named_servers::{ObservedServer, ServerName, bounded_servers};
use crate::status_parts::milliseconds;

/// How long the state that another worker process handed over awaits confirmation: without checks,
/// only failed dials show that a server is down.
pub(super) const CONFIRM_TIME_MAX: Duration = Duration::from_secs(60);

/// Report that an address of a server has gone up or down, is down for another reason, or has
/// passed or failed its first check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HealthReport {
    pub(crate) service: String,
    /// The server's index in the pool's options.
    pub(crate) server: usize,
    pub(crate) down: Vec<Address>,
    /// Whether the server may be used: not if all addresses are down.
    pub(crate) up: bool,
    pub(crate) why: String,
}

/// Times since which servers are in their states, as far as seen.
#[derive(Debug, Default)]
pub(super) struct ServerStates {
    seen: BTreeMap<String, BTreeMap<String, (ServerState, u64)>>,
    /// Observations of another worker process that are not confirmed here yet.
    observed: BTreeMap<ServerName, ObservedServer>,
    /// End of their validity, in milliseconds since the epoch.
    until_ms: u64,
}

impl ServerStates {
    /// Takes over the observations of another worker process.
    pub(super) fn take_over(&mut self, observed: &[ObservedServer], now_ms: u64) {
        let observed = observed.iter();
        self.observed = observed.map(|one| (one.name(), one.clone())).collect();
        let time_max = u64::try_from(CONFIRM_TIME_MAX.as_millis()).unwrap_or(u64::MAX);
        self.until_ms = now_ms.saturating_add(time_max);
    }

    /// Looks at changed services: a server in another state than before has it since now. Servers
    /// no longer in them are forgotten.
    pub(super) fn look(&mut self, services: &[ServiceSnapshot], workers: u64, now_ms: u64) {
        if now_ms > self.until_ms {
            self.observed.clear();
        }
        for service in services {
            let known = self.seen.remove(&service.name);
            let servers = service.servers.iter().map(|server| {
                let state = state(server, workers);
                let name =
                    ServerName { service: service.name.clone(), server: server.name.clone() };
                let observed = self.observed.remove(&name);
                let known = known.as_ref().and_then(|known| known.get(&server.name));
                let since_ms = known.filter(|(before, _)| *before == state);
                let since_ms = since_ms.map_or(now_ms, |(_, since_ms)| *since_ms);
                let since_ms = match observed {
                    Some(observed) if observed.state == state.word() => {
                        observed.since_ms.min(now_ms)
                    }
                    // The server is used only until a dial or check shows that it is down.
                    Some(observed) if !observed.is_up() && !is_known_up(&server.counts) => {
                        self.observed.insert(name, observed);
                        since_ms
                    }
                    _ => since_ms,
                };
                (server.name.clone(), (state, since_ms))
            });
            self.seen.insert(service.name.clone(), servers.collect());
        }
    }

    /// Forgets services that no longer exist.
    pub(super) fn forget<'a>(&mut self, services: impl IntoIterator<Item = &'a String>) {
        for name in services {
            self.seen.remove(name);
        }
    }

    /// Returns when a server was first seen in its current state; `None` = not seen yet.
    pub(super) fn since_ms(&self, service: &str, server: &str) -> Option<u64> {
        let (_, since_ms) = self.seen.get(service)?.get(server)?;
        Some(*since_ms)
    }
}

/// Reports whether this worker process itself knows that the server is up: the server has sent
/// bytes to a client, or a check has found it up after it was down.
pub(super) fn is_known_up(counts: &Counts<Server>) -> bool {
    counts.get(ServerCounter::BytesDown) > 0 || counts.get(ServerCounter::WentUp) > 0
}

fn state(counted: &ServerSnapshot, workers: u64) -> ServerState {
    match counted.counts.get(ServerGauge::WorkersUp) {
        0 => ServerState::Down,
        up if up < workers => ServerState::Partly,
        _ => ServerState::Up,
    }
}

impl ServerStatus {
    /// Reports whether an operator keeps new clients off the server.
    pub(super) fn is_taken_out(&self) -> bool {
        self.disabled || self.weight_ordered == Some(0)
    }
}

pub(super) fn observed(services: &[ServiceStatus]) -> Vec<ObservedServer> {
    let servers = services.iter().flat_map(|service| {
        let each = service.servers.iter();
        each.filter_map(|server| {
            let has_cause = server.state != ServerState::Up && !server.is_taken_out();
            Some(ObservedServer {
                service: service.name.clone(),
                server: server.name.clone(),
                state: server.state.word().to_owned(),
                since_ms: server.since_ms?,
                cause: server.note.clone().filter(|_| has_cause),
            })
        })
    });
    bounded_servers(servers.collect())
}

/// Builds a server's status; `checked` is the reason if a check has decided that it is down.
pub(super) fn server(
    counted: ServerSnapshot,
    checked: Option<String>,
    workers: u64,
    (disabled, weight_ordered): (bool, Option<u16>),
    since_ms: Option<u64>,
) -> ServerStatus {
    let slow_start = slow_start(counted.counts.get(ServerGauge::SlowStartEnd));
    let state = state(&counted, workers);
    let note = disabled.then(|| "an operator has disabled it".to_owned());
    let part = part(&counted, checked.as_deref()).filter(|_| state != ServerState::Down);
    let weighed = || Some(format!("weight {} by `lariat server`", weight_ordered?));
    let is_noted = state != ServerState::Up || part.is_some();
    let note = note.or(part).or(checked);
    let note = note.or_else(|| weighed().filter(|_| weight_ordered == Some(0)));
    let note = note.or_else(|| unchecked(&counted, state));
    ServerStatus {
        name: counted.name,
        state,
        disabled,
        weight_ordered,
        since_ms,
        note: note.filter(|_| is_noted).or(slow_start).or_else(weighed),
        addresses_down: counted.addresses_down,
        metrics: counted.counts.into(),
    }
}

/// Returns the addresses that are not used, and why.
fn part(counted: &ServerSnapshot, checked: Option<&str>) -> Option<String> {
    let (down, all) = (&counted.addresses_down, ServerGauge::Addresses);
    let all = counted.counts.get(all);
    let (count, down) = (down.len(), down.iter().map(String::as_str).collect::<Vec<_>>());
    let failed = || format!("{}: last dials failed", down.join(", "));
    let why = checked.map_or_else(failed, str::to_owned);
    (count > 0 && all > 1).then(|| format!("{count} of {all} addresses not used: {why}"))
}

/// Returns why a server is not up if no check tells: its name was never resolved, so that it was
/// never dialled, or its dials failed.
fn unchecked(counted: &ServerSnapshot, state: ServerState) -> Option<String> {
    match (state, counted.counts.get(ServerCounter::Dials)) {
        (ServerState::Up, _) | (ServerState::Partly, 0) => None,
        (ServerState::Down, _) if counted.name.starts_with("srv:") => {
            Some("no SRV record names it now, or its last dials failed".to_owned())
        }
        (ServerState::Down, 0) => Some(
            "no address: its name is not resolved, or to none of `back.resolve-family`".to_owned(),
        ),
        (ServerState::Down | ServerState::Partly, _) => {
            Some("its last dials failed; it is tried again".to_owned())
        }
    }
}

/// Describes a server's slow start by its end in seconds since the epoch.
fn slow_start(end: u64) -> Option<String> {
    let left = end.saturating_sub(milliseconds(SystemTime::now()) / 1000);
    (left > 0).then(|| format!("slow start: it has its whole share in {left} s"))
}

#[cfg(test)]
mod tests {
    use telemetry::Registry;

    use super::*;

    /// Tests a server's `since` by looks that follow another worker process's observation.
    fn since_after(state: &str, look: impl FnOnce(&mut dyn FnMut(bool, u64) -> Option<u64>)) {
        let registry = Registry::new(1);
        let worker = registry.service(0, "web", &["a:1".to_owned()]);
        let mut states = ServerStates::default();
        let observed = ObservedServer {
            service: "web".to_owned(),
            server: "a:1".to_owned(),
            state: state.to_owned(),
            since_ms: 5,
            cause: None,
        };
        states.look(&registry.snapshot().services, 1, 1000);
        states.take_over(&[observed], 1000);
        look(&mut |up, now_ms| {
            worker.server(0).set_up(up);
            if up && now_ms == 3000 {
                worker.server(0).add(ServerCounter::BytesDown, 1);
            }
            states.look(&registry.snapshot().services, 1, now_ms);
            states.since_ms("web", "a:1")
        });
    }

    #[test]
    fn a_state_outlasts_a_takeover() {
        since_after("up", |since| {
            assert_eq!((since(true, 2000), since(true, 2001)), (Some(5), Some(5)));
            assert_eq!(since(false, 4000), Some(4000));
            assert_eq!(since(true, 4001), Some(4001));
        });
        since_after("down", |since| {
            // This process does not know yet that the server is down.
            assert_eq!(since(true, 2000), Some(1000));
            assert_eq!((since(false, 4000), since(false, 9000)), (Some(5), Some(5)));
        });
        // The server has come back up meanwhile.
        since_after("down", |since| {
            assert_eq!(since(true, 3000), Some(1000));
            assert_eq!(since(false, 4000), Some(4000));
        });
        since_after("down", |since| {
            assert_eq!(since(false, 99_000), Some(99_000));
        });
        since_after("a word of a newer version", |since| {
            assert_eq!(since(true, 2000), Some(1000));
        });
    }

    #[test]
    fn a_state_lasts_until_another_is_seen() {
        let registry = Registry::new(2);
        let servers = ["a:1".to_owned()];
        let workers = [0, 1].map(|worker| registry.service(worker, "web", &servers));
        let mut states = ServerStates::default();
        let mut since = |now_ms| {
            states.look(&registry.snapshot().services, 2, now_ms);
            states.since_ms("web", "a:1")
        };
        assert_eq!((since(5), since(6)), (Some(5), Some(5)));
        workers[0].server(0).set_up(false);
        assert_eq!((since(7), since(8)), (Some(7), Some(7)));
        workers[1].server(0).set_up(false);
        assert_eq!(since(9), Some(9));
        states.forget(&["web".to_owned()]);
        assert_eq!(states.since_ms("web", "a:1"), None);
    }
}
