//! Waiting for a session that the client offers and this host does not have.
//!
//! Nothing is read of the client meanwhile. The thread that looks for the session answers within
//! some milliseconds, whatever it found; a limit of our own holds for the case that it does not.

use std::time::{Duration, Instant};

use telemetry::outcome::SessionTier;
use tls::resumption::OfferedSession;

use super::Flow;
use crate::actions::Action;
use crate::buffer::Pool;
use crate::handshaking::Handshaking;

/// How long an answer may take at the most: more than peers and the store may be given, so that a
/// thread which is late by so much hangs.
const FETCH_TIME_MAX: Duration = Duration::from_millis(1200);

impl Flow {
    /// The session that is looked for, while it is.
    pub fn wanted_session(&self) -> Option<OfferedSession> {
        self.handshaking
            .as_ref()
            .and_then(Handshaking::wanted_session)
    }

    /// Asks for the session, if one is wanted that was not asked for.
    pub(super) fn ask_for_session(&mut self, now: Instant) {
        if self.wanted_session().is_some() && self.fetch_until.is_none() {
            self.fetch_until = Some(now + FETCH_TIME_MAX);
            self.actions.add_once(Action::FetchSession);
        }
    }

    /// Goes on with the handshake; the cache is asked once more.
    pub(super) fn session_fetched(&mut self, tier: SessionTier, now: Instant, pool: &mut Pool) {
        if self.wanted_session().is_none() {
            return;
        }
        self.facts.session_tier = Some(tier);
        self.fetch_until = None;
        self.handshaking.iter_mut().for_each(Handshaking::fetched);
        self.advance_handshake(now, pool);
    }

    /// Goes on without an answer, if it is overdue.
    pub(super) fn give_up_fetch(&mut self, now: Instant, pool: &mut Pool) {
        if self.fetch_until.is_some_and(|until| until <= now) {
            self.session_fetched(SessionTier::Nowhere, now, pool);
        }
    }
}
