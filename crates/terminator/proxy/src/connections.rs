//! A worker's connections, each under a number that is never mistaken for another's.

use std::time::{SystemTime, UNIX_EPOCH};

use slab::Slab;

use crate::connection::Connection;
use crate::token::{ConnectionId, GENERATION_MASK};

/// The number of a worker's first connection, in logs; the next ones are 256 apart. Unique over
/// restarts as long as no worker accepts a million connections per second.
pub(crate) fn first_number(worker: usize) -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since_epoch.unwrap_or_default().as_micros() as u64;
    micros << 8 | worker as u64 & 0xff
}

#[derive(Default)]
pub(crate) struct Connections {
    /// Boxed, so that a place that is free takes a pointer's room and no more.
    slots: Slab<Box<(ConnectionId, Connection)>>,
    generation: u32,
}

impl Connections {
    /// The number that the next connection gets.
    pub(crate) fn next_id(&self) -> ConnectionId {
        ConnectionId {
            place: self.slots.vacant_key() as u32,
            generation: self.generation,
        }
    }

    /// Adds a connection under the number that [`Connections::next_id`] has told.
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
