//! One connection, from accept to close: the state machine that owns no socket and reads no clock.
//!
//! [`Flow::handle`] takes each event; `events` has the table of what becomes of it. What is to be
//! done then is asked for: `*_room`, `*_pending`, `poll_action`, `deadline`. The answers are the
//! same however the bytes were cut.

use std::rc::Rc;
use std::time::{Duration, Instant};

use telemetry::outcome::{EarlyData, HandshakeKind, Reason};
use tls::handshake::Established;
use tls::options::Version;
use wire::alert;
use wire::server_session::Watch;

use crate::actions::{Action, Actions};
use crate::back_end::BackEnd;
use crate::buffer::Pool;
use crate::conversation::{Conversation, take_all};
use crate::end::{EndState, TlsEnd};
use crate::events::{Event, Received};
use crate::facts::{Ending, Facts};
use crate::front_end::{self, FrontEnd, Handshaking, Progress};
use crate::options::{Front, Settings};
use crate::record_sizing::PAUSE;
use crate::relay::{DecryptFault, Down, StreamEnd, Up};
use crate::stage::{Postponed, Stage};

mod back;
mod ending;
mod front;
mod kernel;
mod starttls;

/// The most bytes that a client may send after an alert.
const CLOSING_BYTES_MAX: usize = 256 << 10;

/// Two ends, the two directions between them, and how far it got.
pub struct Flow {
    settings: Rc<Settings>,
    stage: Stage,
    front: FrontEnd,
    back: BackEnd,
    up: Up,
    down: Down,
    /// The dialog before TLS, which is rewritten under it; `None` = there is none any more.
    conversation: Option<Box<Conversation>>,
    /// The dialog's words for a server that cannot be reached, if it ended before that was known.
    unavailable: Vec<u8>,
    /// The server's session is looked for in what it sends, until it is known.
    session_watch: Option<Box<Watch>>,
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
        let is_plain = matches!(settings.front, Front::Plain);
        let starttls = settings.starttls.as_ref();
        let has_back_tls = settings.back_tls.is_some();
        let conversation = starttls.map(|one| Box::new(Conversation::new(one, has_back_tls)));
        let mut flow = Self {
            front: FrontEnd::new(expects_proxy_header, &settings),
            settings,
            stage: Stage::Handshaking,
            back: BackEnd::default(),
            up: Up::default(),
            down: Down::default(),
            conversation,
            unavailable: Vec::new(),
            session_watch: None,
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
        let is_begun = matches!(
            self.front.state.handshake(),
            Some(Handshaking::Handshake(_))
        );
        is_begun || !self.is_handshaking()
    }

    /// Whether nothing is left but to close.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Whether all of the server's stream, with its end, has been sent to the client, and nothing
    /// is left but the client's end.
    pub fn awaits_clients_end(&self) -> bool {
        let is_down_done = self.down.is_ended && self.is_front_done();
        matches!(self.stage, Stage::Relaying) && is_down_done && !self.front.is_ended
    }

    /// The next thing to be done, if any.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.take()
    }

    /// Whether something is to be done before anything has come.
    pub fn has_action(&self) -> bool {
        !self.actions.is_empty()
    }

    pub fn deadline(&self) -> Option<Instant> {
        let (timeouts, last_byte) = (&self.settings.timeouts, self.last_byte);
        let of_stage = match self.stage {
            Stage::Dialling { since } if self.is_clients_turn() => Some(since + timeouts.handshake),
            Stage::Dialling { since } if self.is_greeting_due() => Some(since + timeouts.greeting),
            _ => self.stage.deadline(timeouts, last_byte, self.down.is_ended),
        };
        let others = self.handshake_deadline().into_iter();
        let others = others.chain(self.lifetime_end());
        let others = others.chain(self.front.fetch_until);
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
        matches!(self.stage, Stage::Relaying) && end.is_some_and(|end| end <= now)
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
            Stage::Dialling { .. } if self.is_clients_turn() => {
                self.stop(Ending::new(Reason::HandshakeTimeout), pool);
            }
            Stage::Dialling { .. } => {
                self.stage = Stage::Dialling { since: now };
                self.actions.add(Action::Redial);
                if self.back.state.is_opening() {
                    self.give_server_up(self.back_silence());
                }
            }
            Stage::Relaying if self.is_broadcast() => self.pass_on(now, pool),
            // No close_notify: the server may have had more to send.
            Stage::Relaying => self.close_gracefully(Ending::new(Reason::IdleTimeout), now, pool),
            Stage::Closing { .. } => self.finish(pool),
            Stage::Handshaking | Stage::Over => {}
        }
    }

    /// Where to receive from the client; `None` = not now.
    pub fn front_room(&mut self, pool: &mut Pool) -> Option<&mut [u8]> {
        if self.is_handshaking() {
            let is_read = self.has_conversation_room() && self.wanted_session().is_none();
            return is_read.then(|| self.up.handshake_room(pool));
        }
        match &self.stage {
            // What the dialog answers has to be read before the next is answered.
            _ if self.conversation.is_some() && !self.down.pending().is_empty() => None,
            Stage::Dialling { .. } | Stage::Relaying => self.up.room(pool),
            Stage::Closing { .. } => Some(self.up.dropping_room(pool)),
            Stage::Handshaking | Stage::Over => None,
        }
    }

    fn front_received(&mut self, received: Received, now: Instant, pool: &mut Pool) {
        match received.bytes() {
            0 => pool.give_if_empty(&mut self.up.records),
            count => self.front_filled(count, now, pool),
        }
        if received.is_end() {
            self.front_ended(pool);
        } else if received == Received::Failed {
            self.front_failed(pool);
        }
    }

    fn front_filled(&mut self, count: usize, now: Instant, pool: &mut Pool) {
        self.note_pause(now);
        self.last_byte = now;
        if self.is_handshaking() {
            let incoming = self.up.records.as_mut().expect("the room was given");
            incoming.fill(count);
            self.facts.first_byte.get_or_insert(now);
            return self.advance_handshake(now, pool);
        }
        match &mut self.stage {
            Stage::Dialling { .. } | Stage::Relaying => {
                self.up.received(count);
                self.decrypt_records(now, pool);
            }
            Stage::Closing { dropped, .. } => {
                *dropped += count;
                if *dropped > CLOSING_BYTES_MAX {
                    self.finish(pool);
                }
            }
            Stage::Handshaking | Stage::Over => {}
        }
    }

    fn front_ended(&mut self, pool: &mut Pool) {
        self.front.is_ended = true;
        if self.front.needs_admission() || self.front.needs_route() {
            // The answer, which comes at once, says what is to become of what was sent before.
            return;
        }
        if self.is_handshaking() {
            return self.stop(Ending::new(self.reason_of_leaving()), pool);
        }
        match self.stage {
            Stage::Dialling { .. } | Stage::Relaying => {
                if self.front.state.is_plain() && std::mem::take(&mut self.front.may_be_header) {
                    // What waits is less than a signature.
                    self.pass_as_is(pool);
                }
                let end = self.stream_end();
                self.up.end.get_or_insert(end);
                pool.give_all(&mut self.up.records);
                self.advance(pool);
            }
            Stage::Closing { .. } => self.advance(pool),
            Stage::Handshaking | Stage::Over => {}
        }
    }

    fn front_failed(&mut self, pool: &mut Pool) {
        match self.stage {
            Stage::Dialling { .. } | Stage::Relaying if self.is_broadcast() => {}
            Stage::Handshaking | Stage::Dialling { .. } | Stage::Relaying => {
                let ending = self.ending.take().filter(|_| self.down.is_ended);
                let reason = match self.up.end {
                    Some(StreamEnd::CloseNotify) => Reason::ClientClosed,
                    _ => Reason::ClientReset,
                };
                self.stop(ending.unwrap_or_else(|| Ending::new(reason)), pool);
            }
            Stage::Closing { .. } => self.finish(pool),
            Stage::Over => {}
        }
    }

    /// Notes whether bytes for the client wait past our buffers, before [`Event::Timeout`].
    pub fn note_answering(&mut self, is_answering: bool) {
        self.front.is_answering = is_answering;
    }

    /// Whether it waits for a server.
    pub fn is_dialling(&self) -> bool {
        matches!(self.stage, Stage::Dialling { .. })
    }

    /// Whether a part of a record has come, and its rest is awaited.
    pub fn is_amid_record(&self) -> bool {
        self.up.records.is_some()
    }

    /// What waits to be sent to the client.
    pub fn front_pending(&self) -> &[u8] {
        self.down.pending()
    }

    fn advance_handshake(&mut self, now: Instant, pool: &mut Pool) {
        if self.front.state.is_in_dialog() {
            return self.client_spoke(now, pool);
        }
        let handshaking = self.front.state.handshake_mut();
        let Some((handshaking, incoming)) = handshaking.zip(self.up.records.as_mut()) else {
            return;
        };
        let mut out = std::mem::take(&mut pool.scratch);
        let mut early = Vec::new();
        let (settings, facts) = (&self.settings, &mut self.facts);
        let progress = handshaking.advance(incoming, settings, facts, &mut out, &mut early);
        if let Front::Terminate(server) = &self.settings.front {
            self.down.limit_records(server.record_bytes_max());
        }
        let is_first = self.down.is_sent();
        self.down.append(&out, pool);
        out.clear();
        pool.scratch = out;
        if self.front.needs_admission() {
            self.actions.add_once(Action::Admit);
        } else if self.front.needs_route() {
            self.actions.add_once(Action::Route);
        }
        self.ask_for_session(now);
        if !early.is_empty() && progress.is_ok() {
            let goes_on = matches!(progress, Ok(Progress::Waiting));
            self.take_early(&early, goes_on, now, pool);
        }
        match progress {
            Ok(Progress::Waiting) => pool.give_if_empty(&mut self.up.records),
            Ok(Progress::Passthrough) => self.relay_as_is(now, pool),
            Ok(Progress::Established(established)) => {
                self.establish(established, now, pool);
                if is_first && self.expects_answer() {
                    self.down.hold(now);
                }
            }
            Err(ending) => self.close_gracefully(ending, now, pool),
        }
    }

    /// Early data goes to a server as it comes: the connection is dialled with the first of it.
    fn take_early(&mut self, early: &[u8], goes_on: bool, now: Instant, pool: &mut Pool) {
        self.facts.early_data = Some(EarlyData::Accepted);
        self.facts.bytes_up += early.len() as u64;
        self.up.add_early(early, pool);
        if goes_on && matches!(self.stage, Stage::Handshaking) {
            self.facts.early_bytes_max = Some(front_end::early_bytes_max(&self.settings));
            self.facts.agreed = self.front.state.handshake().and_then(Handshaking::agreed);
            self.facts.handshake = self.handshake_kind();
            self.begin_dial(now);
        }
        self.advance(pool);
    }

    fn note_pause(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last_byte) >= PAUSE {
            self.down.paused();
        }
    }

    fn begin_dial(&mut self, now: Instant) {
        self.stage = Stage::Dialling { since: now };
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

    fn establish(&mut self, established: Established, now: Instant, pool: &mut Pool) {
        self.front.state = EndState::established(established.traffic);
        self.facts.agreed = Some(established.agreed);
        self.facts.handshake = self.handshake_kind();
        self.facts.established = Some(now);
        if self.facts.early_data == Some(EarlyData::Accepted) {
            // All that has come up to now: the limit keeps it small.
            self.facts.early_bytes_max = u32::try_from(self.facts.bytes_up).ok();
        }
        self.acknowledge_finished();
        self.consider_kernel();
        if matches!(self.stage, Stage::Handshaking) {
            self.begin_dial(now);
        }
        self.tls_is_up(true, now, pool);
        self.decrypt_records(now, pool);
        if !matches!(self.stage, Stage::Dialling { .. } | Stage::Relaying) {
            return;
        }
        match self.postponed.take() {
            None => {}
            Some(Postponed::BackEnd) => self.back_ended(pool),
            Some(Postponed::BackFailure(ending)) => self.dial_failed(ending, now, pool),
        }
    }

    fn decrypt_records(&mut self, now: Instant, pool: &mut Pool) {
        let Some(TlsEnd { traffic, .. }) = self.front.state.tls_mut() else {
            return self.pass_as_is(pool);
        };
        // What the dialog has for the server already is not the client's next word.
        let is_conversing = self.conversation.is_some();
        let waiting = self.up.plain.take_if(|_| is_conversing);
        let decrypted = self.up.decrypt(traffic, pool);
        if is_conversing {
            let bytes = take_all(&mut self.up.plain, pool);
            self.up.plain = waiting;
            self.give_client_bytes(&bytes, now, pool);
        }
        match decrypted {
            Ok(decrypted) => {
                if !is_conversing {
                    self.facts.bytes_up += decrypted.bytes as u64;
                }
                self.facts.key_updates += decrypted.controls;
                self.advance(pool);
            }
            Err(DecryptFault::Alert(alert)) => {
                let detail = format!("the client sent alert {}", alert::label(alert));
                self.stop(Ending::with(Reason::ClientAlert, detail), pool);
            }
            Err(DecryptFault::Traffic(fault)) => {
                self.send_alert(fault.alert(), pool);
                let reason = match fault {
                    tls::traffic::TrafficFault::Record(_) => Reason::RecordInvalid,
                    tls::traffic::TrafficFault::Message(_) => Reason::ProtocolViolation,
                };
                self.close_gracefully(Ending::with(reason, fault.to_string()), now, pool);
            }
        }
    }

    /// Takes the next step if what has just happened makes it due.
    fn advance(&mut self, pool: &mut Pool) {
        match self.stage {
            Stage::Relaying | Stage::Dialling { .. } => self.advance_relay(pool),
            Stage::Closing { .. } if self.is_front_done() => {
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
        let Stage::Relaying = self.stage else { return };
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

    /// Whether the handshake's last bytes, tickets, may go with the answer to a request that came
    /// with its end. In TLS 1.2 the client waits for them.
    fn expects_answer(&self) -> bool {
        let agreed = self.facts.agreed.as_ref();
        let is_tls13 = agreed.is_some_and(|agreed| agreed.version == Version::Tls13);
        is_tls13 && self.up.plain.is_some() && !self.down.is_ended
    }
}
