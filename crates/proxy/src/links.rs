//! A worker's connections, each under a number that is never mistaken for another's.
//!
//! An event may arrive for a connection that ended earlier in the same batch and whose place has
//! been taken since. So a token carries, beside the place, how often that place was used.

use std::time::{SystemTime, UNIX_EPOCH};

use slab::Slab;

use crate::link::Link;

/// What a token names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Named {
    /// The client's socket of a connection.
    Front(LinkId),
    /// The server's socket of a connection.
    Back(LinkId),
    /// A listener, by its place.
    Listener(usize),
    /// The other threads' calls.
    Waker,
}

/// A connection's place and use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LinkId {
    place: u32,
    /// Counts up to 2^30 and begins again: two uses that far apart never meet in one batch.
    generation: u32,
}

const KIND_BITS: u32 = 2;
const GENERATION_MASK: u32 = (1 << 30) - 1;

impl Named {
    pub(crate) fn token(self) -> u64 {
        let (kind, rest) = match self {
            Self::Front(id) => (0, id.bits()),
            Self::Back(id) => (1, id.bits()),
            Self::Listener(place) => (2, place as u64),
            Self::Waker => (3, 0),
        };
        rest << KIND_BITS | kind
    }

    pub(crate) fn of(token: u64) -> Self {
        let rest = token >> KIND_BITS;
        match token & ((1 << KIND_BITS) - 1) {
            0 => Self::Front(LinkId::of(rest)),
            1 => Self::Back(LinkId::of(rest)),
            2 => Self::Listener(rest as usize),
            _ => Self::Waker,
        }
    }
}

impl LinkId {
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.place)
    }

    pub(crate) fn of(bits: u64) -> Self {
        Self {
            place: bits as u32,
            generation: (bits >> 32) as u32 & GENERATION_MASK,
        }
    }
}

/// The number of a worker's first connection, in logs; the next ones are 256 apart. Unique over
/// restarts as long as no worker accepts a million connections per second.
pub(crate) fn first_number(worker: usize) -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since_epoch.unwrap_or_default().as_micros() as u64;
    micros << 8 | worker as u64 & 0xff
}

/// The connections.
#[derive(Default)]
pub(crate) struct Links {
    /// Boxed, so that a place that is free takes a pointer's room and no more.
    slots: Slab<Box<(LinkId, Link)>>,
    generation: u32,
}

impl Links {
    /// The number that the next connection gets.
    pub(crate) fn next_id(&self) -> LinkId {
        LinkId {
            place: self.slots.vacant_key() as u32,
            generation: self.generation,
        }
    }

    /// Adds a connection under the number that [`Links::next_id`] has told.
    pub(crate) fn insert(&mut self, link: Link) -> LinkId {
        let id = self.next_id();
        self.slots.insert(Box::new((id, link)));
        self.generation = (self.generation + 1) & GENERATION_MASK;
        id
    }

    pub(crate) fn find(&mut self, id: LinkId) -> Option<&mut Link> {
        let slot = self.slots.get_mut(id.place as usize)?;
        (slot.0 == id).then_some(&mut slot.1)
    }

    pub(crate) fn remove(&mut self, id: LinkId) -> Option<Link> {
        self.find(id)?;
        Some(self.slots.remove(id.place as usize).1)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// All numbers in use.
    pub(crate) fn ids(&self) -> Vec<LinkId> {
        self.slots.iter().map(|(_, slot)| slot.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_what_they_were_made_of() {
        let id = LinkId {
            place: 7,
            generation: GENERATION_MASK,
        };
        let all = [
            Named::Front(id),
            Named::Back(id),
            Named::Listener(3),
            Named::Waker,
        ];
        for named in all {
            assert_eq!(Named::of(named.token()), named);
        }
    }
}
