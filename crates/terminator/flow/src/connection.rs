//! One connection, from accept to close: the state machine that owns no socket and reads no clock.
//!
//! [`Flow::handle`] takes each event; `events` has the table of what becomes of it. What is to be
//! done then is asked for: `*_room`, `*_pending`, `poll_action`, `deadline`. The answers are the
//! same however the bytes were cut.

use std::rc::Rc;
use std::time::{Duration, Instant};

use telemetry::outcome::{HandshakeKind, Reason};
use wire::server_session::Watch;

use crate::back_end::BackEnd;
use crate::buffer::Pool;
use crate::events::{Action, Actions, Event};
use crate::facts::{Ending, Facts};
use crate::front_end::{self, FrontEnd, Handshaking};
use crate::options::{Front, Settings};
use crate::record_sizing::PAUSE;
use crate::relay::{Down, Up};
use crate::state::{ConnectionStage, EndState, HiddenHello, Postponed, StarttlsTalk, first_to_end};

mod back;
mod front;
mod kernel;
mod starttls;

/// Two ends, the two directions between them, and how far it got.
pub struct Flow {
    settings: Rc<Settings>,
    stage: ConnectionStage,
    front: FrontEnd,
    back: BackEnd,
    up: Up,
    down: Down,
    /// The dialog before TLS, which is rewritten under it; `None` = it is over, or there
    /// was none.
    conversation: Option<Box<StarttlsTalk>>,
    /// The dialog's words for a server that cannot be reached, if it ended before that was known.
    unavailable: Vec<u8>,
    /// The server's session is looked for in what it sends, until it is known.
    session_watch: Option<Box<Watch>>,
    /// The hello came encrypted, and a second one may follow.
    hidden: Option<Box<HiddenHello>>,
    /// The server's end waits for the client's handshake, which early data came before.
    postponed: Option<Postponed>,
    facts: Facts,
    ending: Option<Ending>,
    actions: Actions,
    last_byte: Instant,
}

impl Flow {
    /// A connection that has just been accepted.
    pub fn new(settings: Rc<Settings>, expects_proxy_header: bool, facts: Facts) -> Self {
        let last_byte = facts.accepted;
        let is_plain = matches!(settings.front, Front::Plain(_));
        let starttls = settings.starttls.as_ref();
        let has_back_tls = settings.back_tls.is_some();
        let conversation = starttls.map(|one| Box::new(StarttlsTalk::new(one, has_back_tls)));
        let mut flow = Self {
            front: FrontEnd::new(expects_proxy_header, &settings),
            settings,
            stage: ConnectionStage::Handshaking,
            back: BackEnd::default(),
            up: Up::default(),
            down: Down::default(),
            conversation,
            unavailable: Vec::new(),
            session_watch: None,
            hidden: None,
            postponed: None,
            facts,
            ending: None,
            actions: Actions::default(),
            last_byte,
        };
        if is_plain && !expects_proxy_header {
            flow.begin_as_is(last_byte);
        } else {
            flow.begin_conversation(last_byte);
        }
        flow
    }

    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The client's bytes that have gone to a server: those that wait for one are not among them,
    /// and may never go.
    pub fn bytes_up(&self) -> u64 {
        self.facts.bytes_up.saturating_sub(self.up.waiting_bytes() as u64)
    }

    /// How it ended; `None` while it has not.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Whether the handshake is not yet over.
    pub fn is_handshaking(&self) -> bool {
        self.front.state.is_opening()
    }

    /// Whether the client's hello was answered.
    pub fn is_answered(&self) -> bool {
        let is_begun = matches!(self.front.state.handshake(), Some(Handshaking::Handshake(_)));
        is_begun || !self.is_handshaking()
    }

    /// Whether nothing is left but to close.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, ConnectionStage::Over)
    }

    /// Whether all of the server's stream, with its end, has been sent to the client, and nothing
    /// is left but the client's end.
    pub fn awaits_clients_end(&self) -> bool {
        let is_down_done = self.down.is_ended && self.is_front_done();
        matches!(self.stage, ConnectionStage::Relaying) && is_down_done && !self.front.is_ended
    }

    /// The next thing to be done, if any.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.take()
    }

    /// Whether this is to be done, which the caller does now.
    pub fn take_action(&mut self, action: Action) -> bool {
        self.actions.take_one(action)
    }

    /// Whether something is to be done before anything has come.
    pub fn has_action(&self) -> bool {
        !self.actions.is_empty()
    }

    pub fn deadline(&self) -> Option<Instant> {
        let (timeouts, last_byte) = (&self.settings.timeouts, self.last_byte);
        let of_stage = match self.stage {
            ConnectionStage::Dialling { since } if self.is_clients_turn() => {
                Some(since + timeouts.handshake)
            }
            ConnectionStage::Dialling { since } if self.is_greeting_due() => {
                Some(since + timeouts.greeting)
            }
            _ => self.stage.deadline(timeouts, last_byte, self.down.is_ended),
        };
        let others = self.handshake_deadline().into_iter();
        let others = others.chain(self.lifetime_end());
        let others = others.chain(self.front.fetch_until).chain(self.front.challenge_until);
        let others = others.chain(self.down.held_until);
        let others = others.chain(self.broadcast_deadline());
        of_stage.into_iter().chain(others).min()
    }

    /// Takes an event, and makes what follows from it: more to send, actions, the next stage.
    pub fn handle(&mut self, event: Event, now: Instant, pool: &mut Pool) {
        if self.is_over() {
            return;
        }
        match event {
            Event::FrontReceived(received) => self.front_received(received, now, pool),
            Event::FrontSent(count) => {
                self.last_byte = now;
                self.down.sent(count, pool);
                self.advance(pool);
            }
            Event::FrontPassed(count) => self.front_passed(count, now, pool),
            Event::FrontRecordSent => self.front_record_sent(now, pool),
            Event::FrontFailed => self.front_failed(pool),
            Event::Admitted => {
                self.front.admit(&self.settings);
                self.admitted(now, pool);
            }
            Event::Routed(settings) => self.routed(settings, now, pool),
            Event::SessionFetched(tier) => self.session_fetched(tier, now, pool),
            Event::KernelAnswered(is_taken) => self.kernel_answered(is_taken, pool),
            Event::DialStarted => {
                self.actions.cancel_dials();
                self.stage.restart_dial(now);
            }
            Event::ServerChosen { server, is_local } => self.server_is_chosen(server, is_local),
            Event::BackConnected => self.back_connected(now, pool),
            Event::DialFailed(ending) => self.dial_failed(ending, now, pool),
            Event::BackExpected(bytes) => self.expect_bytes(bytes),
            Event::BackReceived(received) => self.back_received(received, now, pool),
            Event::BackEndReason(reason) => {
                self.ending.get_or_insert_with(|| Ending::new(reason));
            }
            Event::BackSent(count) => self.back_sent(count, now, pool),
            Event::BackRefused => self.back_refused(pool),
            Event::Timeout => self.time_out(now, pool),
            Event::Stopped(reason) => self.stop(Ending::new(reason), pool),
        }
    }

    /// Whether no byte has been relayed for so long that it is to end.
    pub fn is_idle(&self, now: Instant) -> bool {
        let end = self.idle_end(self.last_byte);
        matches!(self.stage, ConnectionStage::Relaying) && end.is_some_and(|end| end <= now)
    }

    fn idle_end(&self, last_byte: Instant) -> Option<Instant> {
        let timeouts = &self.settings.timeouts;
        self.stage.deadline(timeouts, last_byte, self.down.is_ended)
    }

    /// It is not to end yet for want of bytes, but after this time; `None` = the whole limit, since
    /// a peer has taken bytes that it was sent before.
    pub fn extend_idle(&mut self, now: Instant, by: Option<Duration>) {
        let end = self.idle_end(now);
        let limit = end.map_or(Duration::ZERO, |end| end.saturating_duration_since(now));
        let before = by.map_or(Duration::ZERO, |by| limit.saturating_sub(by));
        self.last_byte = now.checked_sub(before).unwrap_or(now);
    }

    fn time_out(&mut self, now: Instant, pool: &mut Pool) {
        self.down.held_until.take_if(|until| *until <= now);
        self.give_up_fetch(now, pool);
        if self.front.challenge_until.is_some_and(|until| until <= now) {
            self.is_no_challenge(pool);
        }
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        if self.handshake_deadline().is_some_and(|end| end <= now) {
            if self.has_silent_server(now, pool) {
                return;
            }
            return self.stop(Ending::new(Reason::HandshakeTimeout), pool);
        }
        if self.lifetime_end().is_some_and(|end| end <= now) {
            return self.end_lifetime(now, pool);
        }
        match self.stage {
            ConnectionStage::Dialling { .. } if self.is_clients_turn() => {
                self.stop(Ending::new(Reason::HandshakeTimeout), pool);
            }
            ConnectionStage::Dialling { .. } => {
                self.stage = ConnectionStage::Dialling { since: now };
                self.actions.add(Action::Redial);
                if self.back.state.is_opening() {
                    self.give_server_up(self.back_silence());
                }
            }
            ConnectionStage::Relaying if self.is_broadcast() => self.pass_on(now, pool),
            // No close_notify: the server may have had more to send.
            ConnectionStage::Relaying => {
                self.close_gracefully(Ending::new(Reason::IdleTimeout), now, pool)
            }
            ConnectionStage::Closing { .. } => self.finish(pool),
            ConnectionStage::Handshaking | ConnectionStage::Over => {}
        }
    }

    /// Notes whether bytes for the client wait past our buffers, before [`Event::Timeout`].
    pub fn note_answering(&mut self, is_answering: bool) {
        self.front.is_answering = is_answering;
    }

    /// Whether it waits for a server.
    pub fn is_dialling(&self) -> bool {
        matches!(self.stage, ConnectionStage::Dialling { .. })
    }

    /// Whether a part of a record has come, and its rest is awaited.
    pub fn is_amid_record(&self) -> bool {
        self.up.inbox.buffer.is_some()
    }

    /// The bytes that wait to be sent to the client.
    pub fn front_pending(&self) -> &[u8] {
        self.down.pending()
    }

    fn note_pause(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last_byte) >= PAUSE {
            self.down.paused();
        }
    }

    fn begin_dial(&mut self, now: Instant) {
        self.stage = ConnectionStage::Dialling { since: now };
        self.actions.add(Action::Dial);
    }

    /// The kind of the handshake, once it is known.
    fn handshake_kind(&self) -> Option<HandshakeKind> {
        let (agreed, offered) = (self.facts.agreed.as_ref()?, self.facts.handshake);
        Some(front_end::kind_of(agreed, offered, &self.settings))
    }

    /// Whether all that has come for the server has been sent to it.
    fn is_up_sent(&self) -> bool {
        let conversation = self.conversation.as_ref();
        let is_holding = conversation.is_some_and(|one| one.dialog.is_holding());
        self.up.plain.is_none() && !is_holding && self.back.is_sent(self.up.end)
    }

    /// Takes the next step if what has just happened makes it due.
    fn advance(&mut self, pool: &mut Pool) {
        match self.stage {
            ConnectionStage::Relaying | ConnectionStage::Dialling { .. } => {
                self.advance_relay(pool)
            }
            ConnectionStage::Closing { .. } if self.is_front_done() => {
                if self.front.is_ended || self.is_cut() {
                    self.finish(pool);
                } else {
                    self.actions.add(Action::ShutdownFront);
                }
            }
            _ => {}
        }
    }

    fn advance_relay(&mut self, pool: &mut Pool) {
        self.send_control(pool);
        self.note_ending();
        self.ask_kernel();
        self.pump_back(pool);
        let ConnectionStage::Relaying = self.stage else {
            return;
        };
        let down_is_sent = self.is_front_done();
        let up_is_done = self.up.is_refused || self.up.end.is_some() && self.is_up_sent();
        let down_is_done = self.down.is_ended && down_is_sent;
        if up_is_done && down_is_done && self.up.is_refused && !self.front.is_ended {
            // Closing with the client's bytes unread would reset it under the server's last ones.
            let ending = self.ending.take();
            let ending = ending.unwrap_or_else(|| Ending::new(Reason::BackendClosed));
            self.close_gracefully(ending, self.last_byte, pool);
        } else if up_is_done && down_is_done {
            self.finish(pool);
        } else if up_is_done && !self.up.is_refused {
            self.actions.add_once(Action::ShutdownBack);
        } else if down_is_done {
            self.actions.add_once(Action::ShutdownFront);
        }
    }

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
        self.forget_up(pool);
        self.back.header = Vec::new();
        drop(self.take_back_fault(pool));
        self.actions.cancel_dials();
        self.stage = ConnectionStage::closing(now);
        self.advance(pool);
    }

    /// Ends the handshake of a client whose Finished is the last of it, as where TLS 1.2 resumes.
    /// If it leaves Nagle's algorithm on (RFC 896), it sends its first data when that is
    /// acknowledged, and the kernel waits some 40 ms for something to acknowledge it with.
    pub(super) fn acknowledge_finished(&mut self) {
        if self.up.inbox.is_empty() && self.down.pending().is_empty() {
            self.actions.add(Action::Acknowledge);
        }
    }

    /// When it has lasted its lifetime; the handshake and the close have limits of their own.
    pub(super) fn lifetime_end(&self) -> Option<Instant> {
        let is_open =
            matches!(self.stage, ConnectionStage::Dialling { .. } | ConnectionStage::Relaying);
        let limit = self.settings.timeouts.lifetime;
        limit.filter(|_| is_open && !self.is_handshaking()).map(|limit| self.facts.accepted + limit)
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
        if !matches!(self.stage, ConnectionStage::Closing { .. }) {
            self.ending = Some(ending);
        }
        self.finish(pool);
    }

    pub(super) fn finish(&mut self, pool: &mut Pool) {
        if !matches!(self.stage, ConnectionStage::Closing { .. }) {
            self.drop_back();
        }
        if self.is_cut() {
            self.actions.add(Action::ResetFront);
        }
        self.forget_up(pool);
        self.down.clear(pool);
        drop(self.take_back_fault(pool));
        self.end_conversation(pool);
        self.front.state = EndState::Closed;
        self.stage = ConnectionStage::Over;
        self.actions.cancel_dials();
        self.actions.add(Action::Close);
    }

    /// The client's bytes that still wait go nowhere.
    fn forget_up(&mut self, pool: &mut Pool) {
        self.facts.bytes_up = self.bytes_up();
        self.up.clear(pool);
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
