//! The numbers under which the kernel reports events, and what each of them names.
//!
//! An event may arrive for a connection that ended earlier in the same batch and whose place has
//! been taken since. So a token carries, beside the place, how often that place was used.

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EventSource {
    /// The client's socket of a connection.
    Front(ConnectionId),
    /// The server's socket of a connection.
    Back(ConnectionId),
    /// One that is dialled beside the server's socket of a connection.
    Rival(ConnectionId),
    /// A listener, by its place.
    Listener(usize),
    Waker,
}

/// A connection's place and use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ConnectionId {
    pub(crate) place: u32,
    /// How often the place was used before. Counts up to 2^29 and begins again: two uses that far
    /// apart never meet in one batch.
    pub(crate) generation: u32,
}

const KIND_BITS: u32 = 3;
pub(crate) const GENERATION_MASK: u32 = (1 << 29) - 1;

impl EventSource {
    pub(crate) fn token(self) -> u64 {
        let (kind, rest) = match self {
            Self::Front(id) => (0, id.bits()),
            Self::Back(id) => (1, id.bits()),
            Self::Listener(place) => (2, place as u64),
            Self::Waker => (3, 0),
            Self::Rival(id) => (4, id.bits()),
        };
        rest << KIND_BITS | kind
    }

    pub(crate) fn of(token: u64) -> Self {
        let rest = token >> KIND_BITS;
        match token & ((1 << KIND_BITS) - 1) {
            0 => Self::Front(ConnectionId::of(rest)),
            1 => Self::Back(ConnectionId::of(rest)),
            2 => Self::Listener(rest as usize),
            4 => Self::Rival(ConnectionId::of(rest)),
            _ => Self::Waker,
        }
    }
}

impl ConnectionId {
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.place)
    }

    pub(crate) fn of(bits: u64) -> Self {
        Self { place: bits as u32, generation: (bits >> 32) as u32 & GENERATION_MASK }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_what_they_were_made_of() {
        let id = ConnectionId { place: 7, generation: GENERATION_MASK };
        let all = [
            EventSource::Front(id),
            EventSource::Back(id),
            EventSource::Rival(id),
            EventSource::Listener(3),
            EventSource::Waker,
        ];
        for named in all {
            assert_eq!(EventSource::of(named.token()), named);
        }
    }
}
