//! What a client says to every server of its back, one after the other, because nobody here knows
//! which of them it is for: a request of PostgreSQL's to cancel a query.
//!
//! One client has one server at a time, so that many of them take no more connections to servers
//! than others do. Whom the bytes go to is the owner's ([`Action::DialNext`]).

use std::time::{Duration, Instant};

use telemetry::outcome::Reason;

use super::Flow;
use crate::actions::Action;
use crate::buffer::Pool;
use crate::conversation::Broadcast;
use crate::facts::Ending;
use crate::relay::StreamEnd;
use crate::stage::Stage;

/// How long a server that has been sent the bytes may take to close, which shows that it has read
/// them: then the next has its turn. One that is slower has them all the same.
const ANSWER_MAX: Duration = Duration::from_secs(1);

impl Flow {
    /// Whether the client's bytes go to every server: [`Action::Dial`] too is for the next of them.
    pub fn is_broadcast(&self) -> bool {
        self.broadcast.is_some()
    }

    /// Has these bytes go to every server. Nothing more is read from the client, and that it has
    /// left does not matter.
    pub(super) fn begin_broadcast(&mut self, bytes: Vec<u8>, now: Instant, pool: &mut Pool) {
        if self.is_before_tls() {
            self.handshaking = None;
            self.is_as_is = true;
        }
        self.broadcast = Some(Broadcast {
            bytes,
            has_reached_one: false,
        });
        self.load_broadcast(pool);
        let is_dialling = matches!(self.stage, Stage::Handshaking | Stage::Dialling { .. });
        if is_dialling && !self.is_back_handshaking() {
            // A server that is being dialled is the first; one that is waited for is not.
            self.begin_dial(now);
        }
        self.advance(pool);
    }

    /// Goes on with the next server.
    pub(super) fn pass_on(&mut self, now: Instant, pool: &mut Pool) {
        let is_sent = self.is_up_sent() && !self.up.is_refused;
        if let Some(broadcast) = &mut self.broadcast {
            broadcast.has_reached_one |= is_sent;
        }
        drop(self.take_back_fault(pool));
        self.load_broadcast(pool);
        self.actions.allow_again(Action::ShutdownBack);
        self.stage = Stage::Dialling { since: now };
        self.actions.add(Action::DialNext);
    }

    /// Ends it: no server is left.
    pub(super) fn end_broadcast(&mut self, ending: Ending, now: Instant, pool: &mut Pool) {
        let broadcast = self.broadcast.as_ref();
        if broadcast.is_some_and(|one| one.has_reached_one) {
            self.end_by_words(Ending::new(Reason::ClientClosed), now, pool);
        } else {
            self.end_unavailable(ending, now, pool);
        }
    }

    /// When a server that has been sent the bytes is waited for no longer.
    pub(super) fn broadcast_deadline(&self) -> Option<Instant> {
        let is_waiting = self.is_broadcast() && matches!(self.stage, Stage::Relaying);
        is_waiting.then(|| self.last_byte + ANSWER_MAX)
    }

    fn load_broadcast(&mut self, pool: &mut Pool) {
        self.up.clear(pool);
        self.up.is_refused = false;
        self.up.end = Some(StreamEnd::Plain);
        if let Some(broadcast) = &self.broadcast {
            self.up.add_early(&broadcast.bytes, pool);
        }
    }
}
