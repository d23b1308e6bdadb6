//! A worker's connections, each under a number that is never reused by mistake; the counters of
//! their handshakes; and how much of one bulk connection may move at once: as much as this host
//! moves in a moment.
//!
//! With AES instructions that is more than a turn's bytes anyway. Where the processor or the kernel
//! has none, the same bytes take tens of milliseconds, for which every other connection of the
//! worker would wait.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use slab::Slab;
use telemetry::catalogue::ServiceCounter;
use telemetry::counters::Handshake;

use crate::clock::TICK;
use crate::connection::{BYTES_PER_TURN, Connection};
use crate::connection_log;
use crate::driver::{ConnectionId, GENERATION_MASK};

/// Returns the log number of a worker's first connection; the next ones are 256 apart. Numbers are
/// unique over restarts as long as no worker accepts a million connections per second.
pub(crate) fn first_number(worker: usize) -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since_epoch.unwrap_or_default().as_micros() as u64;
    micros << 8 | worker as u64 & 0xff
}

#[derive(Default)]
pub(crate) struct Connections {
    /// Boxed, so that a free place takes only the room of a pointer.
    slots: Slab<Box<(ConnectionId, Connection)>>,
    generation: u32,
}

impl Connections {
    /// Returns the number that the next connection gets.
    pub(crate) fn next_id(&self) -> ConnectionId {
        ConnectionId { place: self.slots.vacant_key() as u32, generation: self.generation }
    }

    /// Adds a connection under the number that [`Connections::next_id`] returned.
    pub(crate) fn insert(&mut self, connection: Connection) -> ConnectionId {
        let id = self.next_id();
        self.slots.insert(Box::new((id, connection)));
        self.generation = (self.generation + 1) & GENERATION_MASK;
        id
    }

    pub(crate) fn find(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(id.place as usize)?;
        (slot.0 == id).then_some(&mut slot.1)
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        self.find(id)?;
        Some(self.slots.remove(id.place as usize).1)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn ids(&self) -> Vec<ConnectionId> {
        self.slots.iter().map(|(_, slot)| slot.0).collect()
    }
}

/// Counts a handshake, and what became of the session that the client offered with it.
pub(crate) fn count_handshake(connection: &Connection) {
    let facts = connection.flow.facts();
    let counters = &connection.service.counters;
    if facts.declined_tls {
        counters.count(ServiceCounter::StarttlsPlaintext);
    }
    if let Some(miss) = facts.resumption_miss {
        counters.missed(miss);
    }
    if let Some(ech) = facts.ech {
        counters.offered_ech(ech);
    }
    if let Some(early_data) = facts.early_data {
        counters.offered_early(early_data);
    }
    // The agreed parameters are known before the handshake is over if there is early data.
    let agreed = facts.agreed.as_ref().filter(|_| facts.established.is_some());
    let (Some(agreed), Some(kind)) = (agreed, facts.handshake) else {
        return;
    };
    if agreed.retried {
        counters.count(ServiceCounter::HelloRetryRequests);
    }
    counters.handshake(Handshake {
        kind,
        version: connection_log::version_of(agreed.version),
        suite: agreed.suite.map_or(0, |suite| suite.code()),
        group: agreed.group.map_or(0, |group| group.code()),
        duration: facts.handshake_time().unwrap_or(TICK),
    });
}

/// Longest time for which one connection's bytes, or one call, may keep the others waiting.
const TIME: Duration = Duration::from_micros(1500);

/// Least such number: with fewer bytes, calls cost more than moving them, and none would be bulk.
pub(crate) const BYTES_MIN: usize = 128 << 10;
const _: () = assert!(BYTES_MIN >= BYTES_PER_TURN[0]);

/// Largest such number: more than a turn (`BYTES_PER_TURN`) or call (`PASS_BYTES_MAX`) may move.
const BYTES_MAX: usize = 4 << 20;

#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkPace {
    bytes: usize,
}

impl Default for BulkPace {
    fn default() -> Self {
        Self { bytes: BYTES_MAX }
    }
}

impl BulkPace {
    /// Returns how many bytes one connection may move at once.
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// Notes a turn that moved at least [`BYTES_MIN`]. One turn changes little, because a worker
    /// that was interrupted looks slow.
    pub(crate) fn note(&mut self, moved: usize, took: Duration) {
        let in_time = moved as u128 * TIME.as_nanos() / took.as_nanos().max(1);
        let in_time = usize::try_from(in_time).unwrap_or(BYTES_MAX);
        let bytes = in_time.clamp(self.bytes / 2, self.bytes * 2);
        self.bytes = bytes.clamp(BYTES_MIN, BYTES_MAX);
    }
}

/// Kernel events that a simulation holds back.
#[cfg(test)]
pub(crate) mod held_dials {
    use std::cell::RefCell;

    use sys::epoll;

    use super::*;
    use crate::driver::EventSource;

    thread_local! {
        pub(crate) static HELD_DIALS: RefCell<HeldDials> = RefCell::default();
    }

    /// Events of dials that a simulation holds back: the servers' answers are still on their way.
    #[derive(Default)]
    pub(crate) struct HeldDials {
        pub(crate) is_holding: bool,
        events: Vec<(ConnectionId, u32, epoll::Event)>,
    }

    impl HeldDials {
        /// Takes answers to dials out of a batch, or adds those that were held back.
        pub(crate) fn filter(
            &mut self,
            batch: &mut Vec<epoll::Event>,
            connections: &mut Connections,
        ) {
            let mut dial_of = |id| {
                let dialling = connections.find(id).filter(|one| one.dial.is_under_way());
                dialling.map(|one| one.dial.retries())
            };
            if self.is_holding {
                batch.retain(|event| {
                    let EventSource::Back(id) = EventSource::of(event.token) else {
                        return true;
                    };
                    let dial = dial_of(id);
                    self.events.extend(dial.map(|dial| (id, dial, *event)));
                    dial.is_none()
                });
            } else {
                let held = self.events.drain(..);
                let current = held.filter(|(id, dial, _)| dial_of(*id) == Some(*dial));
                batch.extend(current.map(|(.., event)| event));
            }
        }
    }
}

#[cfg(test)]
mod pace_tests {
    use super::*;

    #[test]
    fn a_slow_host_moves_less_at_once_and_a_fast_one_all_it_may() {
        let mut pace = BulkPace::default();
        for _ in 0..10 {
            pace.note(1 << 20, Duration::from_millis(5));
        }
        assert_eq!(pace.bytes(), (1 << 20) * 3 / 10);
        pace.note(1 << 20, Duration::from_secs(1));
        assert_eq!(pace.bytes(), (1 << 20) * 3 / 20, "one turn changes little");
        for _ in 0..10 {
            pace.note(BYTES_MIN, Duration::from_secs(1));
        }
        assert_eq!(pace.bytes(), BYTES_MIN);
        for _ in 0..10 {
            pace.note(BYTES_MIN, Duration::ZERO);
        }
        assert_eq!(pace.bytes(), BYTES_MAX);
    }
}
