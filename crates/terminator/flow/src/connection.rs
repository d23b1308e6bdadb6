//! One connection, from accept to close: a state machine without sockets or clocks.
//!
//! [`Flow::handle`] takes each event; `events` has the table of the transitions. The caller then
//! asks what is to be done: `*_room`, `*_pending`, `poll_action`, `deadline`. The answers do not
//! depend on how the bytes were cut.

use std::rc::Rc;
use std::time::{Duration, Instant};

use telemetry::outcome::{HandshakeKind, Reason};
use wire::server_session::ServerHelloReader;

use crate::back_end::BackEnd;
use crate::buffer::Pool;
use crate::events::{Action, Actions, Event};
use crate::facts::{ConnectionEnd, ConnectionFacts};
use crate::front_end::{self, FrontEnd, Handshaking};
use crate::options::{Front, Settings};
use crate::record_sizing::PAUSE;
use crate::relay::{ClientToServer, ServerToClient};
use crate::state::{
    ConnectionStage, EndState, HiddenHello, PostponedBackEvent, StarttlsTalk, first_to_end,
};

mod back;
mod front;
mod kernel;
mod starttls;

/// A connection: its two ends, the two directions between them, and its stage.
pub struct Flow {
    settings: Rc<Settings>,
    stage: ConnectionStage,
    front: FrontEnd,
    back: BackEnd,
    up: ClientToServer,
    down: ServerToClient,
    /// Dialog before TLS, which is also rewritten under TLS; `None` = it is over, or there was
    /// none.
    conversation: Option<Box<StarttlsTalk>>,
    /// The dialog's words for an unreachable server, if the dialog ended before the failure.
    unavailable: Vec<u8>,
    /// Search for the session in the server's bytes, until it is known.
    session_watch: Option<Box<ServerHelloReader>>,
    /// State of an opened encrypted hello, which a second hello may follow.
    hidden: Option<Box<HiddenHello>>,
    /// Event of the server's end that waits for the end of a handshake with early data.
    postponed: Option<PostponedBackEvent>,
    facts: ConnectionFacts,
    ending: Option<ConnectionEnd>,
    actions: Actions,
    last_byte: Instant,
}

impl Flow {
    /// Creates the state of a connection that has just been accepted.
    pub fn new(settings: Rc<Settings>, expects_proxy_header: bool, facts: ConnectionFacts) -> Self {
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
            up: ClientToServer::default(),
            down: ServerToClient::default(),
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

    pub fn facts(&self) -> &ConnectionFacts {
        &self.facts
    }

    /// Returns how many of the client's bytes have gone to a server, without those that wait for
    /// one and may never go.
    pub fn bytes_up(&self) -> u64 {
        self.facts.bytes_up.saturating_sub(self.up.waiting_bytes() as u64)
    }

    /// Returns how the connection ended; `None` before its end.
    pub fn ending(&self) -> Option<&ConnectionEnd> {
        self.ending.as_ref()
    }

    /// Reports whether the handshake is not over yet.
    pub fn is_handshaking(&self) -> bool {
        self.front.state.is_opening()
    }

    /// Reports whether the client's hello was answered.
    pub fn is_answered(&self) -> bool {
        let is_begun = matches!(self.front.state.handshake(), Some(Handshaking::Handshake(_)));
        is_begun || !self.is_handshaking()
    }

    /// Reports whether the connection only has to be closed.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, ConnectionStage::Over)
    }

    /// Reports whether the server's whole stream, with its end, has been sent to the client, and
    /// only the client's end is missing.
    pub fn awaits_clients_end(&self) -> bool {
        let is_down_done = self.down.is_ended && self.is_front_done();
        matches!(self.stage, ConnectionStage::Relaying) && is_down_done && !self.front.is_ended
    }

    /// Returns the next action, if any.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.take()
    }

    /// Takes this action if it is due; the caller performs it now.
    pub fn take_action(&mut self, action: Action) -> bool {
        self.actions.take_one(action)
    }

    /// Reports whether an action is due before anything has come.
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

    /// Processes an event, and prepares what follows: bytes to send, actions, the next stage.
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
                self.ending.get_or_insert_with(|| ConnectionEnd::new(reason));
            }
            Event::BackSent(count) => self.back_sent(count, now, pool),
            Event::BackRefused => self.back_refused(pool),
            Event::Timeout => self.time_out(now, pool),
            Event::Stopped(reason) => self.stop(ConnectionEnd::new(reason), pool),
        }
    }

    /// Reports whether the connection has relayed no byte for longer than the idle limit.
    pub fn is_idle(&self, now: Instant) -> bool {
        let end = self.idle_end(self.last_byte);
        matches!(self.stage, ConnectionStage::Relaying) && end.is_some_and(|end| end <= now)
    }

    fn idle_end(&self, last_byte: Instant) -> Option<Instant> {
        let timeouts = &self.settings.timeouts;
        self.stage.deadline(timeouts, last_byte, self.down.is_ended)
    }

    /// Postpones the idle end by this time; `None` = by the whole limit, because a peer has taken
    /// bytes that it was sent before.
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
            return self.stop(ConnectionEnd::new(Reason::HandshakeTimeout), pool);
        }
        if self.lifetime_end().is_some_and(|end| end <= now) {
            return self.end_lifetime(now, pool);
        }
        match self.stage {
            ConnectionStage::Dialling { .. } if self.is_clients_turn() => {
                self.stop(ConnectionEnd::new(Reason::HandshakeTimeout), pool);
            }
            ConnectionStage::Dialling { .. } => {
                self.stage = ConnectionStage::Dialling { since: now };
                self.actions.add(Action::Redial);
                if self.back.state.is_opening() {
                    self.give_server_up(self.back_silence());
                }
            }
            ConnectionStage::Relaying if self.is_broadcast() => self.pass_on(now, pool),
            // Sends no close_notify, because the server may have had more to send.
            ConnectionStage::Relaying => {
                self.close_gracefully(ConnectionEnd::new(Reason::IdleTimeout), now, pool)
            }
            ConnectionStage::Closing { .. } => self.finish(pool),
            ConnectionStage::Handshaking | ConnectionStage::Over => {}
        }
    }

    /// Notes whether bytes for the client wait outside of our buffers, before [`Event::Timeout`].
    pub fn note_answering(&mut self, is_answering: bool) {
        self.front.is_answering = is_answering;
    }

    /// Reports whether the connection waits for a server.
    pub fn is_dialling(&self) -> bool {
        matches!(self.stage, ConnectionStage::Dialling { .. })
    }

    /// Reports whether a part of a record has come, and its rest is awaited.
    pub fn is_amid_record(&self) -> bool {
        self.up.inbox.buffer.is_some()
    }

    /// Returns the bytes that wait to be sent to the client.
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

    /// Returns the kind of the handshake, once it is known.
    fn handshake_kind(&self) -> Option<HandshakeKind> {
        let (agreed, offered) = (self.facts.agreed.as_ref()?, self.facts.handshake);
        Some(front_end::kind_of(agreed, offered, &self.settings))
    }

    /// Reports whether all bytes for the server have been sent to it.
    fn is_up_sent(&self) -> bool {
        let conversation = self.conversation.as_ref();
        let is_holding = conversation.is_some_and(|one| one.dialog.is_holding());
        self.up.plain.is_none() && !is_holding && self.back.is_sent(self.up.end)
    }

    /// Takes the next step if the last event makes it due.
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
            // Closing with unread client bytes would reset the connection under its last bytes.
            let ending = self.ending.take();
            let ending = ending.unwrap_or_else(|| ConnectionEnd::new(Reason::BackendClosed));
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
            self.ending = first_to_end(self.up.end, self.down.is_ended).map(ConnectionEnd::new);
        }
    }

    /// Ends after the last bytes to the client.
    pub(super) fn close_gracefully(
        &mut self,
        ending: ConnectionEnd,
        now: Instant,
        pool: &mut Pool,
    ) {
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

    /// Asks for an acknowledgement if the client's Finished is the handshake's last message, as
    /// where TLS 1.2 resumes. A client with Nagle's algorithm (RFC 896) sends its first data when
    /// that is acknowledged, but the kernel delays the acknowledgement by some 40 ms.
    pub(super) fn acknowledge_finished(&mut self) {
        if self.up.inbox.is_empty() && self.down.pending().is_empty() {
            self.actions.add(Action::Acknowledge);
        }
    }

    /// Returns the end of the lifetime; the handshake and the close have limits of their own.
    pub(super) fn lifetime_end(&self) -> Option<Instant> {
        let is_open =
            matches!(self.stage, ConnectionStage::Dialling { .. } | ConnectionStage::Relaying);
        let limit = self.settings.timeouts.lifetime;
        limit.filter(|_| is_open && !self.is_handshaking()).map(|limit| self.facts.accepted + limit)
    }

    /// Ends a connection at the end of its lifetime. In the middle of an answer it sends no
    /// close_notify, because a cut answer must not look whole.
    pub(super) fn end_lifetime(&mut self, now: Instant, pool: &mut Pool) {
        if self.is_front_done() && !self.front.is_answering && !self.down.is_ended {
            self.send_close_notify(pool);
            self.down.is_ended = true;
        }
        self.close_gracefully(ConnectionEnd::new(Reason::LifetimeReached), now, pool);
    }

    /// Ends at once. If only the last bytes remain to be sent, the earlier reason stays.
    pub(super) fn stop(&mut self, ending: ConnectionEnd, pool: &mut Pool) {
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

    /// Drops the client's bytes that still wait.
    fn forget_up(&mut self, pool: &mut Pool) {
        self.facts.bytes_up = self.bytes_up();
        self.up.clear(pool);
    }

    /// Closes the server's connection: by a reset unless the client's whole stream with its end was
    /// sent, because a cut stream, also after early data, must not look finished.
    pub(super) fn drop_back(&mut self) {
        if self.up.end.is_none() || !self.is_up_sent() {
            self.actions.add(Action::ResetBack);
        }
        self.actions.add(Action::CloseBack);
    }
}
