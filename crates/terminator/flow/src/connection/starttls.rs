//! The steps of a conversation before TLS: the dial, each side's TLS, the relay.
//!
//! A server that greets its clients is dialled at once; any other when there are bytes for it. A
//! server's own TLS is begun in the dial, before the client's first byte reaches it. The dialog
//! goes on rewriting under TLS until it has nothing left to do, and is dropped then.
//!
//! A client's request to cancel a query of PostgreSQL goes to every server of the back, one after
//! the other (a broadcast), because the right one is not known here. A client uses one server at a
//! time, so that many requests take no more connections than other clients do.

use std::time::{Duration, Instant};

use telemetry::outcome::Reason;
use tls::password;
use tls::record::KeyExhausted;
use wire::starttls::{DialogAction, Fault, Output};

use super::Flow;
use crate::buffer::{BufferSize, Pool};
use crate::events::{Action, ReceiveResult};
use crate::facts::ConnectionEnd;
use crate::options::Timeouts;
use crate::relay::StreamEnd;
use crate::state::{Broadcast, ConnectionStage, EndState};

/// Time for a server to close after a broadcast, which shows that it has read it; then the next
/// server is dialled. A slower server has received it all the same.
const ANSWER_MAX: Duration = Duration::from_secs(1);

impl Flow {
    /// Reports whether the protocol's servers greet after a pause, and the connected one has not
    /// greeted, or not agreed to TLS, yet.
    pub(super) fn is_greeting_due(&self) -> bool {
        let conversation = self.conversation.as_ref();
        self.greets_late()
            && conversation.is_some_and(|one| one.dialog.expects_server())
            && (self.back.state.is_in_dialog() || self.facts.connected.is_some())
    }

    fn greets_late(&self) -> bool {
        let starttls = self.settings.starttls.as_ref();
        starttls.is_some_and(|one| one.dialect.greets_late())
    }

    /// Returns the deadline of the handshake, or of a login behind it, while either goes on.
    pub(super) fn handshake_deadline(&self) -> Option<Instant> {
        let conversation = self.conversation.as_ref();
        let is_login_due = conversation.is_some_and(|one| one.dialog.is_login_due());
        (self.is_handshaking() || is_login_due).then(|| self.handshake_end())
    }

    /// Returns the end of the client's handshake time, which does not include a server's pause.
    fn handshake_end(&self) -> Instant {
        let Timeouts { handshake, greeting, .. } = self.settings.timeouts;
        let is_late = self.greets_late() && self.front.state.is_in_dialog();
        match (self.front.greeted, self.facts.connected) {
            (None, Some(connected)) if is_late => connected + greeting,
            (None, None) if is_late => self.facts.accepted + handshake + greeting,
            (greeted, _) => greeted.unwrap_or(self.facts.accepted) + handshake,
        }
    }

    /// Begins the conversation of an admitted client.
    pub(super) fn begin_conversation(&mut self, now: Instant) {
        let conversation = self.conversation.as_ref();
        let is_greeted = conversation.is_some_and(|one| one.dialog.is_greeted());
        if is_greeted && self.front.state.is_in_dialog() {
            self.begin_dial(now);
        }
    }

    /// Reports whether the client's bytes have room: one message at a time, each way.
    pub(super) fn has_conversation_room(&self) -> bool {
        !self.front.state.is_in_dialog()
            || self.up.plain.is_none() && self.down.pending().is_empty()
    }

    /// Takes the client's plaintext before TLS.
    pub(super) fn client_spoke(&mut self, now: Instant, pool: &mut Pool) {
        if self.is_held_for_header(pool) {
            return;
        }
        let bytes = pool.take_all(&mut self.up.inbox.buffer);
        self.give_client_bytes(&bytes, now, pool);
    }

    /// Gives the client's bytes to the dialog.
    pub(super) fn give_client_bytes(&mut self, bytes: &[u8], now: Instant, pool: &mut Pool) {
        let Some(conversation) = &mut self.conversation else {
            return;
        };
        if !bytes.is_empty() {
            self.facts.bytes_up += bytes.len() as u64;
            let mut out = conversation.dialog.client_sent(bytes);
            // These bytes wait for the server's TLS, if that is not up; but a request for TLS that
            // the client's own words lead to goes before it.
            if out.next != DialogAction::StartServerTls {
                self.send_up(&std::mem::take(&mut out.to_server), now, pool);
            }
            self.follow(out, now, pool);
        }
    }

    /// Gives the server's bytes to the dialog.
    pub(super) fn give_server_bytes(&mut self, bytes: &[u8], now: Instant, pool: &mut Pool) {
        let Some(conversation) = &mut self.conversation else {
            return;
        };
        if !bytes.is_empty() {
            self.last_byte = now;
            self.facts.bytes_down += bytes.len() as u64;
            let out = conversation.dialog.server_sent(bytes);
            self.follow(out, now, pool);
        }
    }

    /// Takes bytes of a server without TLS of ours.
    pub(super) fn server_spoke(&mut self, received: ReceiveResult, now: Instant, pool: &mut Pool) {
        self.back.inbox.received(received.bytes());
        let bytes = pool.take_all(&mut self.back.inbox.buffer);
        self.give_server_bytes(&bytes, now, pool);
    }

    /// Notes which server is dialled.
    pub(super) fn server_is_chosen(&mut self, server: usize, is_local: bool) {
        self.facts.server = Some(server);
        if let Some(conversation) = &mut self.conversation {
            conversation.dialog.server_is_local(is_local);
        }
    }

    /// Tells the dialog that a server is connected, and TLS to it has been asked for.
    pub(super) fn server_is_connected(&mut self, now: Instant, pool: &mut Pool) {
        if let Some(conversation) = &mut self.conversation {
            let out = conversation.dialog.server_connected();
            self.stage.restart_dial(now);
            self.follow(out, now, pool);
        }
    }

    /// Tells the dialog that TLS with the server, or with the client, is up.
    pub(super) fn tls_is_up(&mut self, is_of_client: bool, now: Instant, pool: &mut Pool) {
        let Some(conversation) = &mut self.conversation else {
            return;
        };
        let shown = self.facts.shown_certificate;
        let back_agreed = self.facts.back_agreed.as_ref();
        let of_server = back_agreed.and_then(|one| one.server_certificate);
        if !is_of_client && shown.is_some() && shown != of_server {
            conversation.dialog.server_has_other_certificate();
        }
        let asked = self.settings.starttls.as_ref().map(|one| one.sides);
        let out = match (is_of_client, asked) {
            (true, Some(sides)) if sides.front.is_some() => {
                let agreed = self.facts.agreed.as_ref();
                let protocol = agreed.and_then(|one| one.alpn.as_deref());
                conversation.dialog.client_agreed(protocol);
                conversation.dialog.client_tls_up()
            }
            (false, Some(sides)) if sides.back => conversation.dialog.server_tls_up(),
            _ => return,
        };
        self.follow(out, now, pool);
    }

    fn follow(&mut self, out: Output, now: Instant, pool: &mut Pool) {
        let has_words = !out.to_client.is_empty();
        if has_words && self.greets_late() && self.front.state.is_in_dialog() {
            self.front.greeted.get_or_insert(now);
        }
        if self.back.state.is_in_dialog() {
            // These bytes are part of our own request.
            self.back.append(&out.to_server, pool);
        } else {
            self.send_up(&out.to_server, now, pool);
        }
        if self.send_down(&out.to_client, pool).is_err() {
            return self.stop_exhausted(now, pool);
        }
        match out.next {
            DialogAction::More => {}
            DialogAction::StartClientTls => self.front.state.begin(),
            DialogAction::ClientTlsBegun(bytes) => {
                self.front.state.begin();
                let hello = &mut self.up.inbox.buffer;
                hello.get_or_insert_with(|| pool.take(BufferSize::Small)).append(&bytes);
                return self.advance_handshake(now, pool);
            }
            DialogAction::StartServerTls => {
                // Time that the client took is not counted as the server's.
                self.stage.restart_dial(now);
                return self.begin_back_hello(now, pool);
            }
            DialogAction::Relay => {
                if let Some(conversation) = &self.conversation
                    && matches!(
                        self.stage,
                        ConnectionStage::Handshaking | ConnectionStage::Dialling { .. }
                    )
                {
                    self.unavailable = conversation.dialog.unavailable();
                }
                self.end_conversation(pool);
                if self.front.state.is_in_dialog() {
                    self.front.state = EndState::Plain;
                    let asked = self.settings.starttls.as_ref();
                    self.facts.declined_tls = asked.is_some_and(|one| one.sides.front.is_some());
                }
                if matches!(self.stage, ConnectionStage::Handshaking) {
                    self.begin_dial(now);
                }
            }
            DialogAction::Broadcast(bytes) => return self.begin_broadcast(bytes, now, pool),
            DialogAction::Password(task) => {
                if let Some(conversation) = &mut self.conversation {
                    let out = conversation.dialog.password_done(password::perform(task));
                    return self.follow(out, now, pool);
                }
            }
            // The server is at fault, and the client got nothing that prevents another server.
            DialogAction::Fail(fault)
                if fault.is_of_server() && self.back.state.is_opening() && !has_words =>
            {
                return self.give_server_up(ending_of(&fault));
            }
            DialogAction::Fail(fault) => return self.end_by_words(ending_of(&fault), now, pool),
        }
        self.advance(pool);
    }

    /// Ends once the client has been sent all waiting bytes, the last of which report the failure
    /// in its protocol.
    pub(super) fn end_by_words(&mut self, ending: ConnectionEnd, now: Instant, pool: &mut Pool) {
        self.send_close_notify(pool);
        self.down.is_ended = true;
        self.close_gracefully(ending, now, pool);
    }

    /// Tells the client, in its protocol, that there is no server for it.
    pub(super) fn end_unavailable(&mut self, ending: ConnectionEnd, now: Instant, pool: &mut Pool) {
        let conversation = self.conversation.as_ref();
        let ended = std::mem::take(&mut self.unavailable);
        let words = conversation.map_or(ended, |one| one.dialog.unavailable());
        if self.send_down(&words, pool).is_err() {
            return self.stop_exhausted(now, pool);
        }
        self.end_by_words(ending, now, pool);
    }

    /// Returns the reason when a client has left before its TLS began.
    pub(super) fn reason_of_leaving(&self) -> Reason {
        let conversation = self.conversation.as_ref();
        if conversation.is_some_and(|one| one.dialog.has_refused()) {
            Reason::StarttlsRequired
        } else {
            Reason::ClientDisconnected
        }
    }

    /// Ends the connection if a silent server kept the client waiting: then that is the reason, and
    /// the client learns it. Returns whether it was so.
    pub(super) fn has_silent_server(&mut self, now: Instant, pool: &mut Pool) -> bool {
        let conversation = self.conversation.as_ref();
        let expects_server = conversation.is_some_and(|one| one.dialog.expects_server());
        let ending = match self.stage {
            _ if !self.front.state.is_in_dialog() => return false,
            ConnectionStage::Dialling { .. } if self.is_clients_turn() => return false,
            _ if self.back.state.is_in_tunnel() => self.back_silence(),
            ConnectionStage::Dialling { .. } => ConnectionEnd::new(Reason::BackendTimeout),
            ConnectionStage::Relaying if expects_server => {
                let detail = "the server did not answer in time";
                ConnectionEnd::with(Reason::ServerStarttlsFailed, detail)
            }
            _ => return false,
        };
        self.end_unavailable(ending, now, pool);
        true
    }

    pub(super) fn end_conversation(&mut self, pool: &mut Pool) {
        if self.conversation.take().is_some() && self.back.state.is_plain() {
            pool.give_all(&mut self.back.inbox.buffer);
        }
    }

    fn send_up(&mut self, bytes: &[u8], now: Instant, pool: &mut Pool) {
        if bytes.is_empty() {
            return;
        }
        self.up.add_early(bytes, pool);
        if matches!(self.stage, ConnectionStage::Handshaking) {
            self.begin_dial(now);
        }
    }

    fn send_down(&mut self, bytes: &[u8], pool: &mut Pool) -> Result<(), KeyExhausted> {
        match self.front.state.traffic_mut() {
            Some(_) if bytes.is_empty() => Ok(()),
            Some(traffic) => {
                // An answer to KeyUpdate or renegotiation goes before the next data.
                if traffic.is_control_due() {
                    self.down.append_record(pool, |out| traffic.seal_control(out).is_ok());
                }
                self.down.append_data(bytes, traffic, pool)
            }
            None => {
                self.down.append(bytes, pool);
                Ok(())
            }
        }
    }

    /// Sends the client the bytes that the dialog still holds of a server that has ended.
    pub(super) fn give_held_bytes(&mut self, pool: &mut Pool) -> Result<(), KeyExhausted> {
        let conversation = self.conversation.as_mut();
        let held = conversation.map_or(Vec::new(), |one| one.dialog.server_ended());
        self.send_down(&held, pool)
    }

    /// Reports whether the client's bytes go to every server; [`Action::Dial`] dials the next too.
    pub fn is_broadcast(&self) -> bool {
        self.broadcast().is_some()
    }

    fn broadcast(&self) -> Option<&Broadcast> {
        self.conversation.as_ref()?.broadcast.as_ref()
    }

    /// Sends these bytes to every server. Nothing more is read from the client, and it may leave.
    pub(super) fn begin_broadcast(&mut self, bytes: Vec<u8>, now: Instant, pool: &mut Pool) {
        if self.front.state.is_in_dialog() {
            self.front.state = EndState::Plain;
        }
        if let Some(conversation) = &mut self.conversation {
            conversation.broadcast = Some(Broadcast { bytes, has_reached_one: false });
        }
        self.load_broadcast(pool);
        let is_dialling =
            matches!(self.stage, ConnectionStage::Handshaking | ConnectionStage::Dialling { .. });
        if is_dialling && !self.back.state.is_opening() {
            // A server that is being dialled is the first; one that is waited for is not.
            self.begin_dial(now);
        }
        self.advance(pool);
    }

    /// Continues with the next server.
    pub(super) fn pass_on(&mut self, now: Instant, pool: &mut Pool) {
        let is_sent = self.is_up_sent() && !self.up.is_refused;
        let conversation = self.conversation.as_mut();
        if let Some(broadcast) = conversation.and_then(|one| one.broadcast.as_mut()) {
            broadcast.has_reached_one |= is_sent;
        }
        drop(self.take_back_fault(pool));
        self.load_broadcast(pool);
        self.actions.allow_again(Action::ShutdownBack);
        self.stage = ConnectionStage::Dialling { since: now };
        self.actions.add(Action::DialNext);
    }

    /// Ends the broadcast, because no server is left.
    pub(super) fn end_broadcast(&mut self, ending: ConnectionEnd, now: Instant, pool: &mut Pool) {
        let broadcast = self.broadcast();
        if broadcast.is_some_and(|one| one.has_reached_one) {
            self.end_by_words(ConnectionEnd::new(Reason::ClientClosed), now, pool);
        } else {
            self.end_unavailable(ending, now, pool);
        }
    }

    /// Returns when to stop waiting for a server that has been sent the bytes.
    pub(super) fn broadcast_deadline(&self) -> Option<Instant> {
        let is_waiting = self.is_broadcast() && matches!(self.stage, ConnectionStage::Relaying);
        is_waiting.then(|| self.last_byte + ANSWER_MAX)
    }

    fn load_broadcast(&mut self, pool: &mut Pool) {
        self.up.clear(pool);
        self.up.is_refused = false;
        self.up.end = Some(StreamEnd::Plain);
        let conversation = self.conversation.as_ref();
        if let Some(broadcast) = conversation.and_then(|one| one.broadcast.as_ref()) {
            self.up.add_early(&broadcast.bytes, pool);
        }
    }
}

/// Returns the ending of a connection whose dialog failed.
pub(crate) fn ending_of(fault: &Fault) -> ConnectionEnd {
    let reason = match fault {
        Fault::TlsRequired => Reason::StarttlsRequired,
        Fault::Injection(_) => Reason::StarttlsInjection,
        Fault::TlsUnasked | Fault::ProtocolNotAgreed(_) | Fault::ClientMalformed(_) => {
            Reason::StarttlsMalformed
        }
        Fault::BoundElsewhere => Reason::ChannelBinding,
        Fault::ServerRefused(_) | Fault::ServerWithoutTls(_) | Fault::ServerMalformed(_) => {
            Reason::ServerStarttlsFailed
        }
    };
    ConnectionEnd::with(reason, fault.to_string())
}
