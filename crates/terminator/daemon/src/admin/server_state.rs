//! The state of each server: what it is, why, and since when.
//!
//! Owns the word for it. Why a check took a server out is the check's to say.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use telemetry::catalogue::{ServerCounter, ServerGauge};
use telemetry::snapshot::{ServerSnapshot, ServiceSnapshot};

use super::document::{ServerState, ServerStatus};

/// Since when servers are in their states, as far as it was seen.
#[derive(Debug, Default)]
pub(super) struct ServerStates(BTreeMap<String, BTreeMap<String, (ServerState, u64)>>);

impl ServerStates {
    /// Looks at all servers; what has another state than before has it since now. Servers that
    /// are gone are forgotten.
    pub(super) fn look(&mut self, services: &[ServiceSnapshot], workers: u64, now_ms: u64) {
        let before = std::mem::take(&mut self.0);
        for service in services {
            let known = before.get(&service.name);
            let servers = service.servers.iter().map(|server| {
                let state = state(server, workers);
                let known = known.and_then(|known| known.get(&server.name));
                let since_ms = known.filter(|(before, _)| *before == state);
                let since_ms = since_ms.map_or(now_ms, |(_, since_ms)| *since_ms);
                (server.name.clone(), (state, since_ms))
            });
            self.0.insert(service.name.clone(), servers.collect());
        }
    }

    /// When a server was first seen in the state that it is in; `None` = it was not seen yet.
    pub(super) fn since_ms(&self, service: &str, server: &str) -> Option<u64> {
        let (_, since_ms) = self.0.get(service)?.get(server)?;
        Some(*since_ms)
    }
}

fn state(counted: &ServerSnapshot, workers: u64) -> ServerState {
    match counted.counts.get(ServerGauge::WorkersUp) {
        0 => ServerState::Down,
        up if up < workers => ServerState::Partly,
        _ => ServerState::Up,
    }
}

/// A server of a service, of which a check may have decided that it is down, and why.
pub(super) fn server(
    counted: ServerSnapshot,
    checked: Option<String>,
    workers: u64,
    since_ms: Option<u64>,
) -> ServerStatus {
    let slow_start = slow_start(counted.counts.get(ServerGauge::SlowStartEnd));
    let state = state(&counted, workers);
    let disabled = counted.counts.get(ServerGauge::Disabled) > 0;
    let note = disabled.then(|| "an operator has disabled it".to_owned());
    let note = note.or(checked).or_else(|| unchecked(&counted, state));
    ServerStatus {
        name: counted.name,
        state,
        disabled,
        since_ms,
        note: note.filter(|_| state != ServerState::Up).or(slow_start),
        metrics: counted.counts,
    }
}

/// Why a server is not up of which no check says so: its name was never resolved, so that it was
/// never dialled, or its dials failed.
fn unchecked(counted: &ServerSnapshot, state: ServerState) -> Option<String> {
    match (state, counted.counts.get(ServerCounter::Dials)) {
        (ServerState::Up, _) | (ServerState::Partly, 0) => None,
        (ServerState::Down, _) if counted.name.starts_with("srv:") => {
            Some("no SRV record names it now, or its last dials failed".to_owned())
        }
        (ServerState::Down, 0) => Some("no address: its name is not resolved".to_owned()),
        (ServerState::Down | ServerState::Partly, _) => {
            Some("its last dials failed; it is tried again".to_owned())
        }
    }
}

/// What a server's slow start means now, by its end in seconds since the epoch.
fn slow_start(end: u64) -> Option<String> {
    let left = end.saturating_sub(milliseconds(SystemTime::now()) / 1000);
    (left > 0).then(|| format!("slow start: it has its whole share in {left} s"))
}

/// Since the epoch; a clock that stands before it says 0.
pub(super) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use telemetry::Registry;

    use super::*;

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
        drop(workers);
        assert_eq!(since(10), None);
    }
}
