//! The questions that a client's first bytes raise before its TLS begins, and clients without TLS
//! of ours: plain TCP, and TLS that stays closed.
//!
//! A client may have to be admitted, its hello says which of several services it is for, and the
//! session that it offers may lie elsewhere. Nothing is read of it until that is answered. The
//! thread that looks for the session answers within some milliseconds, whatever it found; a limit of
//! our own holds for the case that it does not.

use std::rc::Rc;
use std::time::{Duration, Instant};

use telemetry::outcome::{Reason, SessionTier};
use tls::resumption::OfferedSession;
use wire::alert;
use wire::client_hello::{self, ClientHello, Peek};
use wire::proxy_header::{self, Likeness};
use wire::server_session::Outcome;

use super::Flow;
use crate::actions::Action;
use crate::buffer::{Buffer, Pool};
use crate::end::EndState;
use crate::facts::Ending;
use crate::options::{Front, SendProxy, Settings};
use crate::relay::StreamEnd;
use crate::stage::Stage;

/// How long the search for a session may take at the most: more than peers and the store may be
/// given, so that a thread which is late by so much hangs.
const FETCH_TIME_MAX: Duration = Duration::from_millis(1200);

impl Flow {
    /// The client's hello, from the time that [`Action::Route`](crate::actions::Action::Route) asks
    /// which service it is for, until that is answered.
    pub fn hello(&self) -> Option<ClientHello<'_>> {
        let is_asked = self.front.needs_route();
        let bytes = self.up.records.as_ref().filter(|_| is_asked)?.data();
        match client_hello::read(bytes) {
            Ok(Peek::Hello(hello)) => Some(hello),
            Ok(Peek::Incomplete) | Err(_) => None,
        }
    }

    /// Goes on with the service that was chosen, if there is one.
    pub(super) fn routed(&mut self, settings: Option<Rc<Settings>>, now: Instant, pool: &mut Pool) {
        if !self.front.needs_route() {
            return;
        }
        let Some(settings) = settings else {
            let name = &self.facts.server_name;
            let reason = name
                .as_ref()
                .map_or(Reason::NameMissing, |_| Reason::NameUnknown);
            let alert = client_hello::alert_record(alert::UNRECOGNIZED_NAME);
            self.down.append(&alert, pool);
            return self.close_gracefully(Ending::new(reason), now, pool);
        };
        if settings.send_proxy != SendProxy::Pass {
            self.facts.proxy_header = None;
        }
        self.settings = settings;
        self.front.read_hello();
        self.advance_handshake(now, pool);
        self.end_front_again(pool);
    }

    /// Goes on with a client that was admitted.
    pub(super) fn admitted(&mut self, now: Instant, pool: &mut Pool) {
        if matches!(self.settings.front, Front::Plain) {
            self.relay_as_is(now, pool);
        } else {
            self.begin_conversation(now);
            self.advance_handshake(now, pool);
        }
        self.end_front_again(pool);
    }

    /// Takes the client's end that came with what had to be decided first.
    fn end_front_again(&mut self, pool: &mut Pool) {
        if self.front.is_ended {
            self.front_ended(pool);
        }
    }

    /// How the client's stream ends that had no close_notify.
    pub(super) fn stream_end(&self) -> StreamEnd {
        if self.front.state.is_plain() {
            StreamEnd::Plain
        } else {
            StreamEnd::Fin
        }
    }

    /// The same with what has come already.
    pub(super) fn relay_as_is(&mut self, now: Instant, pool: &mut Pool) {
        self.begin_as_is(now);
        self.pass_as_is(pool);
    }

    /// Has the client's bytes go to a server as they come.
    pub(super) fn begin_as_is(&mut self, now: Instant) {
        self.front.state = EndState::Plain;
        let session = self.facts.passing_session.as_ref();
        self.session_watch = session.map(|_| Box::default());
        self.begin_dial(now);
    }

    /// Passes what has come from the server on, and looks for the session in it.
    pub(super) fn receive_as_is(&mut self, count: usize) {
        let bytes = self.down.received_as_is(count);
        let Some(watch) = &mut self.session_watch else {
            return;
        };
        let outcome = watch.take(bytes);
        if let (Outcome::Session(passed), Some(session)) =
            (outcome, &mut self.facts.passing_session)
        {
            // A server that takes a ticket and issues no other one repeats the client's id.
            let is_same = passed.id == session.id;
            let by_id = if is_same { session.offered } else { passed.id };
            session.agreed = passed.ticket.or(by_id);
            self.actions.add(Action::NoteSession);
        }
        self.session_watch
            .take_if(|_| outcome != Outcome::Incomplete);
    }

    /// Whether the first bytes in plaintext go nowhere: they may become a PROXY header, or they are
    /// one, and end the connection.
    pub(super) fn is_held_for_header(&mut self, pool: &mut Pool) -> bool {
        let first = self.up.records.as_ref().map_or(&[][..], Buffer::data);
        if !self.front.may_be_header || first.is_empty() {
            return false;
        }
        match proxy_header::likeness(first) {
            Likeness::Perhaps => return true,
            Likeness::Yes => self.stop(Ending::new(Reason::ProxyHeaderUntrusted), pool),
            Likeness::No => self.front.may_be_header = false,
        }
        self.front.may_be_header
    }

    /// Passes on what has come.
    pub(super) fn pass_as_is(&mut self, pool: &mut Pool) {
        if self.conversation.is_some() {
            return self.client_spoke(self.last_byte, pool);
        }
        if self.is_held_for_header(pool) {
            return;
        }
        self.facts.bytes_up += self.up.pass() as u64;
        pool.give_if_empty(&mut self.up.plain);
        self.advance(pool);
    }

    /// Whether it has served nobody yet: nothing was relayed, or a hello that no server answered.
    pub fn is_unused(&self) -> bool {
        let is_passthrough = matches!(self.settings.front, Front::Passthrough);
        self.facts.bytes_down == 0 && (self.facts.bytes_up == 0 || is_passthrough)
    }

    /// Whether the client must not take what it got for the whole, and only a reset says so.
    pub(super) fn is_cut(&self) -> bool {
        self.front.state.is_plain() && !self.down.is_ended && !matches!(self.stage, Stage::Over)
    }

    /// The session that is looked for, while it is.
    pub fn wanted_session(&self) -> Option<OfferedSession> {
        self.front.wanted_session()
    }

    /// Asks for the session, if one is wanted that was not asked for.
    pub(super) fn ask_for_session(&mut self, now: Instant) {
        if self.wanted_session().is_some() && self.front.fetch_until.is_none() {
            self.front.fetch_until = Some(now + FETCH_TIME_MAX);
            self.actions.add_once(Action::FetchSession);
        }
    }

    /// Goes on with the handshake; the cache is asked once more.
    pub(super) fn session_fetched(&mut self, tier: SessionTier, now: Instant, pool: &mut Pool) {
        if self.wanted_session().is_none() {
            return;
        }
        self.facts.session_tier = Some(tier);
        self.front.fetch_until = None;
        self.front.read_hello();
        self.advance_handshake(now, pool);
    }

    /// Goes on without an answer, if it is overdue.
    pub(super) fn give_up_fetch(&mut self, now: Instant, pool: &mut Pool) {
        if self.front.fetch_until.is_some_and(|until| until <= now) {
            self.session_fetched(SessionTier::Nowhere, now, pool);
        }
    }
}
