//! The servers that a connection has dialled already.
//!
//! Owns the memory of one connection, in 34 bytes; what follows from it is the pool's.

/// Dials a connection may make in all: with the dial's own limit this bounds how long a client
/// waits, and a service of which eight servers in a row fail has little to gain from a ninth.
pub const DIALS_MAX: usize = 8;

/// The servers that one connection has dialled in vain, and at which of their addresses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tried {
    places: [Place; DIALS_MAX],
    count: u8,
}

/// A server, and one of the addresses of its name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Place {
    pub(crate) server: u16,
    pub(crate) address: u16,
}

impl Tried {
    pub fn new() -> Self {
        Self::default()
    }

    /// How many dials were made.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether no further dial is allowed.
    pub fn is_full(&self) -> bool {
        self.count() == DIALS_MAX
    }

    /// Whether a server was dialled at any of its addresses.
    pub fn has_server(&self, server: usize) -> bool {
        let mut places = self.places().iter();
        places.any(|place| usize::from(place.server) == server)
    }

    /// Whether a server was dialled at this address.
    pub fn has(&self, place: Place) -> bool {
        self.places().contains(&place)
    }

    /// Notes a dial, once. One more than allowed is dropped: the pool picks nothing then.
    pub fn insert(&mut self, place: Place) {
        if !self.has(place)
            && let Some(free) = self.places.get_mut(usize::from(self.count))
        {
            *free = place;
            self.count += 1;
        }
    }

    /// Forgets dials that were given up and had not failed.
    pub fn remove(&mut self, places: &[Place]) {
        for place in places {
            if let Some(at) = self.places().iter().position(|one| one == place) {
                self.count -= 1;
                self.places.swap(at, usize::from(self.count));
            }
        }
    }

    fn places(&self) -> &[Place] {
        &self.places[..self.count()]
    }
}
