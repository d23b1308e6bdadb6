//! How a connection ends: after its last bytes to the client, or at once.

use std::time::Instant;

use telemetry::outcome::Reason;

use super::Flow;
use crate::actions::Action;
use crate::buffer::Pool;
use crate::end::EndState;
use crate::facts::Ending;
use crate::stage::{Stage, first_to_end};

impl Flow {
    pub(super) fn note_ending(&mut self) {
        if self.ending.is_none() {
            self.ending = first_to_end(self.up.end, self.down.is_ended).map(Ending::new);
        }
    }

    /// Ends after the last bytes to the client.
    pub(super) fn close_gracefully(&mut self, ending: Ending, now: Instant, pool: &mut Pool) {
        self.ending = Some(ending);
        self.drop_back();
        self.down.release();
        self.front.state.abandon();
        self.end_conversation(pool);
        self.up.clear(pool);
        self.back.header = Vec::new();
        drop(self.take_back_fault(pool));
        self.actions.cancel_dials();
        self.stage = Stage::closing(now);
        self.advance(pool);
    }

    /// Ends the handshake of a client whose Finished is the last of it, as where TLS 1.2 resumes.
    /// If it leaves Nagle's algorithm on (RFC 896), it sends its first data when that is
    /// acknowledged, and the kernel waits some 40 ms for something to acknowledge it with.
    pub(super) fn acknowledge_finished(&mut self) {
        let records = self.up.records.as_ref();
        let is_all = records.is_none_or(|one| one.data().is_empty());
        if is_all && self.down.pending().is_empty() {
            self.actions.add(Action::Acknowledge);
        }
    }

    /// When it has lasted its lifetime; the handshake and the close have limits of their own.
    pub(super) fn lifetime_end(&self) -> Option<Instant> {
        let is_open = matches!(self.stage, Stage::Dialling { .. } | Stage::Relaying);
        let limit = self.settings.timeouts.lifetime;
        limit
            .filter(|_| is_open && !self.is_handshaking())
            .map(|limit| self.facts.accepted + limit)
    }

    /// Ends a connection that has lasted its lifetime. Amid an answer there is no close_notify:
    /// what was cut must not look whole.
    pub(super) fn end_lifetime(&mut self, now: Instant, pool: &mut Pool) {
        if self.is_front_done() && !self.front.is_answering && !self.down.is_ended {
            self.send_close_notify(pool);
            self.down.is_ended = true;
        }
        self.close_gracefully(Ending::new(Reason::LifetimeReached), now, pool);
    }

    /// Ends at once. One that has only its last bytes to send has ended for another reason.
    pub(super) fn stop(&mut self, ending: Ending, pool: &mut Pool) {
        if !matches!(self.stage, Stage::Closing { .. }) {
            self.ending = Some(ending);
        }
        self.finish(pool);
    }

    pub(super) fn finish(&mut self, pool: &mut Pool) {
        if !matches!(self.stage, Stage::Closing { .. }) {
            self.drop_back();
        }
        if self.is_cut() {
            self.actions.add(Action::ResetFront);
        }
        self.up.clear(pool);
        self.down.clear(pool);
        drop(self.take_back_fault(pool));
        self.end_conversation(pool);
        self.front.state = EndState::Closed;
        self.stage = Stage::Over;
        self.actions.cancel_dials();
        self.actions.add(Action::Close);
    }

    /// Closes the server's connection: by a reset unless it has been sent the client's whole stream
    /// with its end, since a stream that was cut, also after early data, must not look finished.
    pub(super) fn drop_back(&mut self) {
        if self.up.end.is_none() || !self.is_up_sent() {
            self.actions.add(Action::ResetBack);
        }
        self.actions.add(Action::CloseBack);
    }
}
