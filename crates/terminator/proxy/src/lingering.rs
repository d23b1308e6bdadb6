//! Connections of which nothing is left to come but the client's end.
//!
//! The server's whole stream has been sent, with its end, and the client closes as soon as it has
//! read it. On a host that is hardly busy a worker would be woken for each of these ends, though
//! only a server that keeps reading until it has the client's end waits for one. So they are
//! removed from epoll, and read a little later, in a turn that the worker has anyway. Those that
//! have not closed by then are added again.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::token::ConnectionId;

/// How long a client has, from the moment when it was sent the end.
const LOOK_AFTER: Duration = Duration::from_millis(5);

/// How long one is left if the worker has no turn before: so much later at the most a server has
/// the client's end, and few serve nobody else until then.
const WAKE_AFTER: Duration = Duration::from_millis(10);

/// After a handshake that took longer, the client is too far away to close in time, or this host
/// too busy to gain anything.
pub(crate) const HANDSHAKE_MAX: Duration = Duration::from_millis(5);

/// Events in a turn. With more of them a worker sleeps seldom, and one more costs little.
pub(crate) const EVENTS_MAX: usize = 4;

/// Connections that are read in a turn: each may have something to relay.
pub(crate) const LOOKS_PER_TURN: usize = 16;

/// Connections that are not in epoll, those that linger longest first.
#[derive(Default)]
pub(crate) struct Lingering(VecDeque<(ConnectionId, Instant)>);

impl Lingering {
    pub(crate) fn add(&mut self, id: ConnectionId, now: Instant) {
        self.0.push_back((id, now));
    }

    /// One that is to be read now. It may have ended.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<ConnectionId> {
        let (id, since) = *self.0.front()?;
        let is_due = now.saturating_duration_since(since) >= LOOK_AFTER;
        is_due.then(|| self.0.pop_front()).map(|_| id)
    }

    /// When the worker is to have a turn for the sake of them.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        self.0.front().map(|(_, since)| *since + WAKE_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_once_and_not_before_its_client_had_time() {
        let ids = [3, 4].map(|place| ConnectionId {
            place,
            generation: 0,
        });
        let start = Instant::now();
        let mut lingering = Lingering::default();
        assert_eq!(lingering.wakes_at(), None);
        lingering.add(ids[0], start);
        lingering.add(ids[1], start + LOOK_AFTER);
        assert_eq!(lingering.wakes_at(), Some(start + WAKE_AFTER));
        assert_eq!(lingering.take_due(start + LOOK_AFTER / 2), None);
        let due = start + LOOK_AFTER;
        assert_eq!(lingering.take_due(due), Some(ids[0]));
        assert_eq!(lingering.take_due(due), None);
        assert_eq!(lingering.wakes_at(), Some(due + WAKE_AFTER));
    }
}
