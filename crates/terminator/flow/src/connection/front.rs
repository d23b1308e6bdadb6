//! The client's end: its bytes, the decisions that its first bytes require, its handshake, and the
//! relay without TLS of ours: plain TCP, and TLS passthrough.
//!
//! A client may have to be admitted, its hello selects one of several services, and the session
//! that it offers may be elsewhere. Nothing more is read from it until that is answered. The thread
//! that looks for the session answers within some milliseconds in any case; a limit of our own
//! guards against its failure.
//!
//! An encrypted hello (ECH, RFC 9849 section 7) is opened before its service is chosen, and the
//! server gets the inner hello in its place.
//!
//! The server may ask for a second hello. Until its first message shows whether it does, the
//! client's records are followed, so that the second hello is found among any early data.

use std::rc::Rc;
use std::time::{Duration, Instant};

use static_files::challenge::FirstBytes;
use telemetry::outcome::{EarlyData, EchResult, Reason, SessionTier};
use tls::ech::{AcceptedHello, EchFault, OpenedHello};
use tls::handshake::CompletedHandshake;
use tls::options::Version;
use tls::resumption::OfferedSession;
use wire::alert;
use wire::client_hello::{self, ClientHello, HelloProgress, Reader};
use wire::ech::ServerAnswer;
use wire::proxy_header::{self, HeaderGuess};
use wire::server_session::Outcome;

use super::Flow;
use crate::buffer::{Buffer, Pool};
use crate::events::{Action, ReceiveResult};
use crate::facts::ConnectionEnd;
use crate::front_end::{self, HandshakeProgress, Handshaking};
use crate::options::{Front, SendProxy, Settings};
use crate::relay::{DecryptFault, StreamEnd};
use crate::state::{ConnectionStage, EndState, HiddenHello, PostponedBackEvent, SecondHello};

/// Most bytes that a client may send after an alert.
const CLOSING_BYTES_MAX: usize = 256 << 10;

/// Longest search for a session: more than the limits of peers and the store, so that a thread
/// which exceeds it must be hanging.
const FETCH_TIME_MAX: Duration = Duration::from_millis(1200);

/// Time for which a client's first bytes may look like an authority's request without being one,
/// and time to wait for one if no server can be reached: authorities send it at once.
const CHALLENGE_TIME_MAX: Duration = Duration::from_secs(2);

impl Flow {
    /// Returns the client's hello, from the time that [`Action::Route`] asks for its service, until
    /// that is answered.
    pub fn hello(&self) -> Option<ClientHello<'_>> {
        let is_asked = self.front.needs_route();
        let bytes = is_asked.then(|| self.up.inbox.data())?;
        match client_hello::read(bytes) {
            Ok(HelloProgress::Hello(hello)) => Some(hello),
            Ok(HelloProgress::Incomplete) | Err(_) => None,
        }
    }

    /// Continues with the chosen service, if there is one.
    pub(super) fn routed(&mut self, settings: Option<Rc<Settings>>, now: Instant, pool: &mut Pool) {
        if !self.front.needs_route() {
            return;
        }
        let Some(settings) = settings else {
            let name = &self.facts.server_name;
            let reason = name.as_ref().map_or(Reason::NameMissing, |_| Reason::NameUnknown);
            let alert = client_hello::alert_record(alert::UNRECOGNIZED_NAME);
            self.down.append(&alert, pool);
            return self.close_gracefully(ConnectionEnd::new(reason), now, pool);
        };
        if settings.send_proxy != SendProxy::Pass {
            self.facts.proxy_header = None;
        }
        self.settings = settings;
        self.front.read_hello();
        self.advance_handshake(now, pool);
        self.end_front_again(pool);
    }

    /// Continues with a client that was admitted.
    pub(super) fn admitted(&mut self, now: Instant, pool: &mut Pool) {
        if matches!(self.settings.front, Front::Plain(_)) {
            self.relay_as_is(now, pool);
        } else {
            self.begin_conversation(now);
            self.advance_handshake(now, pool);
        }
        self.end_front_again(pool);
    }

    /// Processes the client's end that came with the bytes to be decided first.
    fn end_front_again(&mut self, pool: &mut Pool) {
        if self.front.is_ended {
            self.front_ended(pool);
        }
    }

    /// Returns the kind of end of a client's stream without close_notify.
    pub(super) fn stream_end(&self) -> StreamEnd {
        if self.front.state.is_plain() { StreamEnd::Plain } else { StreamEnd::Fin }
    }

    /// Relays the client's bytes as they come, beginning with those received already.
    pub(super) fn relay_as_is(&mut self, now: Instant, pool: &mut Pool) {
        self.begin_as_is(now);
        self.pass_as_is(pool);
    }

    /// Prepares the relay of the client's bytes as they come.
    pub(super) fn begin_as_is(&mut self, now: Instant) {
        self.front.state = EndState::Plain;
        let session = self.facts.passing_session.as_ref();
        self.session_watch = session.map(|_| Box::default());
        if let Front::Plain(challenges) = &self.settings.front
            && challenges.are_there()
            && self.conversation.is_none()
        {
            self.front.challenge_until = Some(now + CHALLENGE_TIME_MAX);
        }
        self.begin_dial(now);
    }

    /// Passes the server's bytes on, and searches them for the session.
    pub(super) fn receive_as_is(&mut self, count: usize) {
        let bytes = self.down.received_as_is(count);
        Self::watch_answer(&mut self.hidden, bytes);
        let Some(watch) = &mut self.session_watch else {
            return;
        };
        let outcome = watch.take(bytes);
        if let (Outcome::Session(passed), Some(session)) =
            (outcome, &mut self.facts.passing_session)
        {
            // A server that accepts a ticket and issues no other one repeats the client's id.
            let is_same = passed.id == session.id;
            let by_id = if is_same { session.offered } else { passed.id };
            session.agreed = passed.ticket.or(by_id);
            self.actions.add(Action::NoteSession);
        }
        self.session_watch.take_if(|_| outcome != Outcome::Incomplete);
    }

    /// Reports whether the first bytes in plaintext are held: they may become a PROXY header, or
    /// they are one, and end the connection.
    pub(super) fn is_held_for_header(&mut self, pool: &mut Pool) -> bool {
        let first = self.up.inbox.data();
        if !self.front.may_be_header || first.is_empty() {
            return false;
        }
        match proxy_header::likeness(first) {
            HeaderGuess::Perhaps => return true,
            HeaderGuess::Yes => self.stop(ConnectionEnd::new(Reason::ProxyHeaderUntrusted), pool),
            HeaderGuess::No => self.front.may_be_header = false,
        }
        self.front.may_be_header
    }

    /// Reports whether the first bytes in plaintext are held: they may become an authority's
    /// request, or are one, and are answered. A server is dialled meanwhile as for others.
    fn is_held_for_challenge(&mut self, pool: &mut Pool) -> bool {
        let (Front::Plain(challenges), Some(_)) =
            (&self.settings.front, self.front.challenge_until)
        else {
            return false;
        };
        match challenges.judge(self.up.inbox.data()) {
            // A client that the server greets speaks no HTTP.
            FirstBytes::Perhaps if self.facts.bytes_down == 0 => return true,
            FirstBytes::Answered(response) if self.facts.bytes_down == 0 => {
                self.front.challenge_until = None;
                self.postponed = None;
                self.facts.bytes_down = response.len() as u64;
                self.down.append(&response, pool);
                // The answer is whole, and no reset follows it.
                self.down.is_ended = true;
                self.close_gracefully(
                    ConnectionEnd::new(Reason::AcmeValidation),
                    self.last_byte,
                    pool,
                );
            }
            _ => self.is_no_challenge(pool),
        }
        true
    }

    /// Continues as if no authority were expected.
    pub(super) fn is_no_challenge(&mut self, pool: &mut Pool) {
        self.front.challenge_until = None;
        match self.postponed.take() {
            Some(PostponedBackEvent::BackFailure(ending)) => {
                self.dial_failed(ending, self.last_byte, pool)
            }
            other => {
                self.postponed = other;
                self.pass_as_is(pool);
            }
        }
    }

    /// Relays the bytes received so far.
    pub(super) fn pass_as_is(&mut self, pool: &mut Pool) {
        if self.conversation.is_some() {
            return self.client_spoke(self.last_byte, pool);
        }
        if self.is_held_for_header(pool) || self.is_held_for_challenge(pool) {
            return;
        }
        if self.is_hidden() {
            return self.pass_hidden(pool);
        }
        self.facts.bytes_up += self.up.pass() as u64;
        pool.give_if_empty(&mut self.up.plain);
        self.advance(pool);
    }

    /// Returns room for the client's bytes; `None` = nothing is read now.
    pub fn front_room(&mut self, pool: &mut Pool) -> Option<&mut [u8]> {
        if self.is_handshaking() {
            let is_read = self.has_conversation_room() && self.wanted_session().is_none();
            return is_read.then(|| self.up.inbox.message_room(pool));
        }
        match &self.stage {
            // The dialog's answer must be sent before the next word is answered.
            _ if self.conversation.is_some() && !self.down.pending().is_empty() => None,
            ConnectionStage::Dialling { .. } | ConnectionStage::Relaying => {
                self.up.room(self.hidden.is_some(), pool)
            }
            ConnectionStage::Closing { .. } => Some(self.up.inbox.dropping_room(pool)),
            ConnectionStage::Handshaking | ConnectionStage::Over => None,
        }
    }

    pub(super) fn front_received(
        &mut self,
        received: ReceiveResult,
        now: Instant,
        pool: &mut Pool,
    ) {
        match received.bytes() {
            0 => pool.give_if_empty(&mut self.up.inbox.buffer),
            count => self.front_filled(count, now, pool),
        }
        if received.is_end() {
            self.front_ended(pool);
        } else if received == ReceiveResult::Failed {
            self.front_failed(pool);
        }
    }

    fn front_filled(&mut self, count: usize, now: Instant, pool: &mut Pool) {
        self.note_pause(now);
        self.last_byte = now;
        if self.is_handshaking() {
            self.up.inbox.received(count);
            self.facts.first_byte.get_or_insert(now);
            return self.advance_handshake(now, pool);
        }
        match &mut self.stage {
            ConnectionStage::Dialling { .. } | ConnectionStage::Relaying => {
                self.up.inbox.received(count);
                self.decrypt_records(now, pool);
            }
            ConnectionStage::Closing { dropped, .. } => {
                *dropped += count;
                if *dropped > CLOSING_BYTES_MAX {
                    self.finish(pool);
                }
            }
            ConnectionStage::Handshaking | ConnectionStage::Over => {}
        }
    }

    pub(super) fn front_ended(&mut self, pool: &mut Pool) {
        self.front.is_ended = true;
        if self.front.needs_admission() || self.front.needs_route() {
            // The answer, which comes at once, decides about the bytes sent before.
            return;
        }
        if self.is_handshaking() {
            return self.stop(ConnectionEnd::new(self.reason_of_leaving()), pool);
        }
        match self.stage {
            ConnectionStage::Dialling { .. } | ConnectionStage::Relaying => {
                let is_held = self.front.may_be_header || self.front.challenge_until.is_some();
                if self.front.state.is_plain() && is_held {
                    self.front.may_be_header = false;
                    // The waiting bytes are less than a signature or a request.
                    self.is_no_challenge(pool);
                }
                let end = self.stream_end();
                self.up.end.get_or_insert(end);
                pool.give_all(&mut self.up.inbox.buffer);
                self.advance(pool);
            }
            ConnectionStage::Closing { .. } => self.advance(pool),
            ConnectionStage::Handshaking | ConnectionStage::Over => {}
        }
    }

    pub(super) fn front_failed(&mut self, pool: &mut Pool) {
        match self.stage {
            ConnectionStage::Dialling { .. } | ConnectionStage::Relaying if self.is_broadcast() => {
            }
            ConnectionStage::Handshaking
            | ConnectionStage::Dialling { .. }
            | ConnectionStage::Relaying => {
                let ending = self.ending.take().filter(|_| self.down.is_ended);
                let reason = match self.up.end {
                    Some(StreamEnd::CloseNotify) => Reason::ClientClosed,
                    _ => Reason::ClientReset,
                };
                self.stop(ending.unwrap_or_else(|| ConnectionEnd::new(reason)), pool);
            }
            ConnectionStage::Closing { .. } => self.finish(pool),
            ConnectionStage::Over => {}
        }
    }

    pub(super) fn advance_handshake(&mut self, now: Instant, pool: &mut Pool) {
        if self.front.state.is_in_dialog() {
            return self.client_spoke(now, pool);
        }
        let handshaking = self.front.state.handshake_mut();
        let Some((handshaking, incoming)) = handshaking.zip(self.up.inbox.buffer.as_mut()) else {
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
            if !self.open_hello(pool) {
                return;
            }
            self.actions.add_once(Action::Route);
        }
        self.ask_for_session(now);
        if !early.is_empty() && progress.is_ok() {
            let goes_on = matches!(progress, Ok(HandshakeProgress::Waiting));
            self.take_early(&early, goes_on, now, pool);
        }
        match progress {
            Ok(HandshakeProgress::Waiting) => pool.give_if_empty(&mut self.up.inbox.buffer),
            Ok(HandshakeProgress::Passthrough) => self.relay_as_is(now, pool),
            Ok(HandshakeProgress::Established(established)) => {
                self.establish(established, now, pool);
                if is_first && self.expects_answer() {
                    self.down.hold(now);
                }
            }
            Err(ending) => self.close_gracefully(ending, now, pool),
        }
    }

    /// Sends early data to a server as it comes: the first of it starts the dial.
    fn take_early(&mut self, early: &[u8], goes_on: bool, now: Instant, pool: &mut Pool) {
        self.facts.early_data = Some(EarlyData::Accepted);
        self.facts.bytes_up += early.len() as u64;
        self.up.add_early(early, pool);
        if goes_on && matches!(self.stage, ConnectionStage::Handshaking) {
            self.facts.early_bytes_max = Some(front_end::early_bytes_max(&self.settings));
            self.facts.agreed = self.front.state.handshake().and_then(Handshaking::agreed);
            self.facts.handshake = self.handshake_kind();
            self.begin_dial(now);
        }
        self.advance(pool);
    }

    fn establish(&mut self, established: CompletedHandshake, now: Instant, pool: &mut Pool) {
        self.front.state = EndState::Tls(established.traffic);
        self.facts.agreed = Some(established.agreed);
        self.facts.handshake = self.handshake_kind();
        self.facts.established = Some(now);
        if self.facts.early_data == Some(EarlyData::Accepted) {
            // Bytes received up to now: the limit keeps the number small.
            self.facts.early_bytes_max = u32::try_from(self.facts.bytes_up).ok();
        }
        self.acknowledge_finished();
        self.consider_kernel();
        if matches!(self.stage, ConnectionStage::Handshaking) {
            self.begin_dial(now);
        }
        self.tls_is_up(true, now, pool);
        self.decrypt_records(now, pool);
        if !matches!(self.stage, ConnectionStage::Dialling { .. } | ConnectionStage::Relaying) {
            return;
        }
        match self.postponed.take() {
            None => {}
            Some(PostponedBackEvent::BackEnd) => self.back_ended(pool),
            Some(PostponedBackEvent::BackFailure(ending)) => self.dial_failed(ending, now, pool),
        }
    }

    fn decrypt_records(&mut self, now: Instant, pool: &mut Pool) {
        let Some(traffic) = self.front.state.traffic_mut() else {
            return self.pass_as_is(pool);
        };
        // Bytes that the dialog already has for the server are not the client's next word.
        let is_conversing = self.conversation.is_some();
        let waiting = self.up.plain.take_if(|_| is_conversing);
        let decrypted = self.up.decrypt(traffic, pool);
        if is_conversing {
            let bytes = pool.take_all(&mut self.up.plain);
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
                self.stop(ConnectionEnd::with(Reason::ClientAlert, detail), pool);
            }
            Err(DecryptFault::Traffic(fault)) => {
                self.send_alert(fault.alert(), pool);
                let reason = match fault {
                    tls::traffic::TrafficFault::Record(_) => Reason::RecordInvalid,
                    tls::traffic::TrafficFault::Message(_) => Reason::ProtocolViolation,
                };
                self.close_gracefully(ConnectionEnd::with(reason, fault.to_string()), now, pool);
            }
        }
    }

    /// Reports whether the handshake's last bytes, tickets, may be sent with the answer to a
    /// request that came with the handshake's end. In TLS 1.2 the client waits for them.
    fn expects_answer(&self) -> bool {
        let agreed = self.facts.agreed.as_ref();
        let is_tls13 = agreed.is_some_and(|agreed| agreed.version == Version::Tls13);
        is_tls13 && self.up.plain.is_some() && !self.down.is_ended
    }

    /// Reports whether it has served nobody yet: no bytes, or a hello without an answer.
    pub fn is_unused(&self) -> bool {
        let is_passthrough = matches!(self.settings.front, Front::Passthrough);
        self.facts.bytes_down == 0 && (self.facts.bytes_up == 0 || is_passthrough)
    }

    /// Reports whether the client's stream is incomplete, and only a reset can show that.
    pub(super) fn is_cut(&self) -> bool {
        self.front.state.is_plain()
            && !self.down.is_ended
            && !matches!(self.stage, ConnectionStage::Over)
    }

    /// Returns the session that is being looked for, if any.
    pub fn wanted_session(&self) -> Option<OfferedSession> {
        self.front.wanted_session()
    }

    /// Asks for a wanted session, unless that was done already.
    pub(super) fn ask_for_session(&mut self, now: Instant) {
        if self.wanted_session().is_some() && self.front.fetch_until.is_none() {
            self.front.fetch_until = Some(now + FETCH_TIME_MAX);
            self.actions.add_once(Action::FetchSession);
        }
    }

    /// Continues the handshake, which looks into the cache once more.
    pub(super) fn session_fetched(&mut self, tier: SessionTier, now: Instant, pool: &mut Pool) {
        if self.wanted_session().is_none() {
            return;
        }
        self.facts.session_tier = Some(tier);
        self.front.fetch_until = None;
        self.front.read_hello();
        self.advance_handshake(now, pool);
    }

    /// Continues without an answer, if it is overdue.
    pub(super) fn give_up_fetch(&mut self, now: Instant, pool: &mut Pool) {
        if self.front.fetch_until.is_some_and(|until| until <= now) {
            self.session_fetched(SessionTier::Nowhere, now, pool);
        }
    }
}

impl Flow {
    /// Reports whether an encrypted hello was opened: hidden names are for such clients alone.
    pub fn is_hidden(&self) -> bool {
        self.hidden.is_some()
    }

    /// Opens an encrypted hello, once. Returns whether the connection continues.
    pub(super) fn open_hello(&mut self, pool: &mut Pool) -> bool {
        let Some(keys) = self.settings.ech.as_ref().filter(|_| self.facts.ech.is_none()) else {
            return true;
        };
        let Some(buffer) = &mut self.up.inbox.buffer else {
            return true;
        };
        let Ok(HelloProgress::Hello(hello)) = client_hello::read(buffer.data()) else {
            return true;
        };
        let outer_bytes = hello.wire_bytes();
        match keys.open(&hello) {
            OpenedHello::Absent => true,
            OpenedHello::Rejected(result) => {
                self.facts.ech = Some(result);
                true
            }
            OpenedHello::Accepted(AcceptedHello { inner, result, context }) => {
                replace_front(buffer, outer_bytes, &inner);
                self.facts.ech = Some(result);
                self.facts.server_name = name_in(&inner);
                self.hidden = Some(Box::new(HiddenHello::new(context)));
                true
            }
            OpenedHello::Refused(fault) => {
                self.facts.ech = Some(EchResult::Illegal);
                self.refuse_hello(fault, pool);
                false
            }
        }
    }

    /// Looks in the server's answer for a request for a second hello.
    pub(super) fn watch_answer(hidden: &mut Option<Box<HiddenHello>>, bytes: &[u8]) {
        let Some(one) = hidden.as_mut().filter(|one| one.second.is_none()) else {
            return;
        };
        match one.watch.take(bytes) {
            ServerAnswer::Incomplete => {}
            ServerAnswer::Retry => one.second = Some(Reader::default()),
            ServerAnswer::Other => *hidden = None,
        }
    }

    /// Passes on the records that may go, with the second hello opened once it is whole.
    pub(super) fn pass_hidden(&mut self, pool: &mut Pool) {
        let Some(hidden) = &mut self.hidden else {
            return;
        };
        let data = self.up.inbox.data();
        let passed = hidden.gate.pass(data, hidden.second.is_some());
        let (mut ready, mut taken) = (data[..passed].to_vec(), passed);
        match hidden.read_second(&data[passed..]) {
            SecondHello::NotWhole => {}
            SecondHello::Opened(inner, bytes) => {
                ready.extend([&inner, &data[passed + bytes..]].concat());
                taken = data.len();
                self.hidden = None;
            }
            SecondHello::Refused(fault) => return self.refuse_hello(fault, pool),
        }
        self.facts.bytes_up += ready.len() as u64;
        self.up.inbox.consume(taken, pool);
        if !ready.is_empty() {
            self.up.add_early(&ready, pool);
        }
        self.advance(pool);
    }

    fn refuse_hello(&mut self, fault: EchFault, pool: &mut Pool) {
        self.hidden = None;
        self.down.append(&client_hello::alert_record(fault.alert), pool);
        let ending = ConnectionEnd::with(Reason::HelloMalformed, fault.detail);
        self.close_gracefully(ending, self.last_byte, pool);
    }
}

/// Replaces the outer hello by the inner one, which is no longer.
fn replace_front(buffer: &mut Buffer, outer_bytes: usize, inner: &[u8]) {
    let saved = outer_bytes.checked_sub(inner.len());
    let saved = saved.expect("an inner hello is made of a part of its outer one");
    buffer.data_mut()[saved..outer_bytes].copy_from_slice(inner);
    buffer.consume(saved);
}

fn name_in(inner: &[u8]) -> Option<Box<str>> {
    match client_hello::read(inner) {
        Ok(HelloProgress::Hello(hello)) => Some(hello.server_name()?.to_ascii_lowercase().into()),
        Ok(HelloProgress::Incomplete) | Err(_) => None,
    }
}
