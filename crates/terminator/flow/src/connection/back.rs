//! The server's end: its connection, its TLS, its bytes, and their end.
//!
//! The handshake is a part of the dial, and shares its limit: if it fails, another server is tried
//! as if this one had not been reached, because nothing of the client's was sent.

use std::rc::Rc;
use std::time::Instant;

use telemetry::outcome::Reason;
use tls::client::OnBehalfOf;
use tls::handshake::HandshakeFault;
use tls::record::{KeyExhausted, RecordSealer};
use wire::alert;

use super::Flow;
use crate::back_end::BackFault;
use crate::buffer::{Buffer, Pool};
use crate::events::{Action, ReceiveResult};
use crate::facts;
use crate::facts::ConnectionEnd;
use crate::front_end::FrontSealer;
use crate::options::{SendProxy, ServerTls, Settings};
use crate::relay::{RelayFault, ServerToClient, StreamEnd};
use crate::state::{ConnectionStage, EndState, PostponedBackEvent};

impl Flow {
    /// Returns room for the server's bytes: pieces to be filled in order by one vectored read;
    /// `None` = not now.
    pub fn back_room<'a>(
        &'a mut self,
        pool: &mut Pool,
    ) -> Option<impl Iterator<Item = &'a mut [u8]> + use<'a>> {
        if self.back.state.is_opening() {
            let is_dialled = matches!(self.stage, ConnectionStage::Dialling { .. });
            let piece = is_dialled.then(|| self.back.room(pool))?;
            return Some(Some(piece).into_iter().chain(None.into_iter().flatten()));
        }
        if !self.takes_from_back() {
            return None;
        }
        let layout = match self.front.sealer() {
            _ if self.conversation.is_some() => None,
            Some(sealer) => Some(sealer.layout()),
            None => return None,
        };
        let (piece, pieces) = match (layout, &self.back.state) {
            (Some(layout), EndState::Plain) => (None, Some(self.down.room(layout, pool)?)),
            _ => (Some(self.back.room(pool)), None),
        };
        Some(piece.into_iter().chain(pieces.into_iter().flatten()))
    }

    /// Reports whether a connected server's bytes can be taken now: one batch at a time, and none
    /// of a dialog during the client's handshake.
    fn takes_from_back(&self) -> bool {
        let is_free = !self.down.is_ended && self.down.pending().is_empty();
        let is_held = self.postponed.is_some() || self.front.ktls.holds_back();
        let is_conversing = self.conversation.is_some();
        let is_amid_handshake = is_conversing && self.front.state.is_handshaking();
        matches!(self.stage, ConnectionStage::Relaying) && is_free && !is_held && !is_amid_handshake
    }

    /// Reports whether bytes for a server wait as soon as it is connected. In a conversation before
    /// TLS the server mostly begins.
    pub fn speaks_first(&self) -> bool {
        let Settings { back_tls, send_proxy, starttls, tunnel, .. } = &*self.settings;
        let is_due = back_tls.is_some() || *send_proxy != SendProxy::Off || self.up.plain.is_some();
        tunnel.is_some() || is_due && starttls.is_none()
    }

    /// Returns the bytes that wait to be sent to the server: two pieces, in order.
    pub fn back_pending(&self) -> [&[u8]; 2] {
        if self.settings.back_tls.is_some() || self.back.state.is_in_tunnel() {
            return [self.back.pending(), &[]];
        }
        let ConnectionStage::Relaying = self.stage else {
            return [&[], &[]];
        };
        [&self.back.header, self.up.plain.as_ref().map_or(&[], Buffer::data)]
    }

    /// Notes that the client takes no more until its socket has room.
    pub fn note_stalled(&mut self, pool: &mut Pool) {
        self.back.inbox.shrink(pool);
    }

    pub(super) fn back_connected(&mut self, now: Instant, pool: &mut Pool) {
        if !matches!(self.stage, ConnectionStage::Dialling { .. }) {
            return;
        }
        self.actions.cancel_dials();
        match self.settings.tunnel.clone() {
            Some(tunnel) => self.back.begin_tunnel(&tunnel, pool),
            None => self.server_reached(now, pool),
        }
    }

    /// Begins the connection with the server itself, behind any proxy.
    fn server_reached(&mut self, now: Instant, pool: &mut Pool) {
        let settings = Rc::clone(&self.settings);
        let header = facts::header(&settings.send_proxy, &self.facts);
        match (header, &settings.back_tls) {
            (Ok(header), Some(tls)) => self.begin_back_handshake(tls, header, now, pool),
            (Ok(header), None) => {
                self.facts.connected = Some(now);
                self.last_byte = now;
                self.back.header = header;
                self.unavailable = Vec::new();
                self.stage = ConnectionStage::Relaying;
                if settings.tunnel.is_some() {
                    self.actions.add(Action::NoteBackReady);
                }
                self.advance(pool);
            }
            // A server that expects the header would read it from the client's first bytes.
            (Err(ending), _) => self.dial_failed(ending, now, pool),
        }
    }

    pub(super) fn dial_failed(&mut self, ending: ConnectionEnd, now: Instant, pool: &mut Pool) {
        if !matches!(self.stage, ConnectionStage::Dialling { .. } | ConnectionStage::Relaying) {
            return;
        }
        if self.front.challenge_until.is_some() {
            // An authority's request needs no server.
            self.postponed = Some(PostponedBackEvent::BackFailure(ending));
            return;
        }
        if self.is_broadcast() {
            return self.end_broadcast(ending, now, pool);
        }
        if self.conversation.is_some() || !self.unavailable.is_empty() {
            return self.end_unavailable(ending, now, pool);
        }
        if self.is_handshaking() {
            // The client can be sent an alert only after the handshake.
            self.postponed = Some(PostponedBackEvent::BackFailure(ending));
            self.drop_back();
            self.stage = ConnectionStage::Relaying;
            return self.back_refused(pool);
        }
        self.send_alert(alert::INTERNAL_ERROR, pool);
        self.close_gracefully(ending, now, pool);
    }

    pub(super) fn back_received(&mut self, received: ReceiveResult, now: Instant, pool: &mut Pool) {
        if !self.back.state.is_plain() {
            return self.back_tls_received(received, now, pool);
        }
        match received.bytes() {
            _ if self.conversation.is_some() => self.server_spoke(received, now, pool),
            0 => pool.give_if_empty(&mut self.down.records),
            count => self.back_filled(count, now, pool),
        }
        if received.is_end() {
            self.back_ended(pool);
        } else if received == ReceiveResult::Failed {
            self.back_failed(ConnectionEnd::new(Reason::BackendReset), now, pool);
        }
    }

    pub(super) fn back_filled(&mut self, count: usize, now: Instant, pool: &mut Pool) {
        self.note_pause(now);
        let encrypted = match self.front.sealer() {
            Some(FrontSealer::Plain) => {
                self.receive_as_is(count);
                Ok(())
            }
            Some(mut sealer) => self.down.received(count, &mut sealer),
            None => return,
        };
        self.last_byte = now;
        self.facts.bytes_down += count as u64;
        self.note_run(count);
        if encrypted.is_err() {
            self.stop_exhausted(now, pool);
        }
    }

    pub(super) fn back_ended(&mut self, pool: &mut Pool) {
        if !matches!(self.stage, ConnectionStage::Relaying) || self.down.is_ended {
            return;
        }
        if self.is_broadcast() {
            return self.pass_on(self.last_byte, pool);
        }
        if !self.front.state.is_handshaking() && self.give_held_bytes(pool).is_err() {
            return self.stop_exhausted(self.last_byte, pool);
        }
        if self.front.state.is_in_dialog() {
            let ending = ConnectionEnd::new(Reason::BackendClosed);
            return self.close_gracefully(ending, self.last_byte, pool);
        }
        if self.is_handshaking() {
            self.postponed.get_or_insert(PostponedBackEvent::BackEnd);
            return;
        }
        // Without the server's close_notify the client gets none either.
        if self.back.end == Some(StreamEnd::Fin) {
            let ending = ConnectionEnd::new(Reason::ServerTruncated);
            self.ending.get_or_insert(ending);
        } else {
            self.send_close_notify(pool);
        }
        self.down.is_ended = true;
        self.note_ending();
        self.advance(pool);
    }

    pub(super) fn back_refused(&mut self, pool: &mut Pool) {
        if matches!(self.stage, ConnectionStage::Relaying) {
            self.facts.bytes_up = self.bytes_up();
            self.up.refuse(self.is_handshaking(), pool);
            self.back.refuse(pool);
            self.advance(pool);
        }
    }

    /// Ends the client's stream without close_notify, after the bytes received so far, because the
    /// client must not take them for the whole.
    pub(super) fn back_failed(&mut self, ending: ConnectionEnd, now: Instant, pool: &mut Pool) {
        let ConnectionStage::Relaying = self.stage else {
            return;
        };
        if self.is_broadcast() {
            return self.pass_on(now, pool);
        }
        if self.down.is_ended || self.postponed.is_some() {
            // The server's stream was complete.
            return self.back_refused(pool);
        }
        if self.front.state.is_handshaking() {
            // A broken handshake would make the client repeat what the server may have done.
            self.postponed = Some(PostponedBackEvent::BackFailure(ending));
            return self.back_refused(pool);
        }
        if self.give_held_bytes(pool).is_err() {
            return self.stop_exhausted(now, pool);
        }
        self.close_gracefully(ending, now, pool);
    }

    pub(super) fn back_sent(&mut self, count: usize, now: Instant, pool: &mut Pool) {
        self.last_byte = now;
        let of_client = self.back.sent(count, pool);
        if of_client > 0 {
            self.up.sent(of_client, pool);
        }
        self.advance(pool);
    }

    /// Begins the handshake with the server that has just been connected.
    pub(super) fn begin_back_handshake(
        &mut self,
        settings: &ServerTls,
        header: Vec<u8>,
        now: Instant,
        pool: &mut Pool,
    ) {
        let facts = &self.facts;
        let client = OnBehalfOf {
            name: facts.server_name.as_deref(),
            alpn: facts.agreed.as_ref().and_then(|one| one.alpn.as_deref()),
        };
        let server = facts.server.unwrap_or_default();
        match settings.client.connect(server, client, now) {
            Ok(handshake) => {
                let (before, within) = if settings.header_inside {
                    (Vec::new(), header)
                } else {
                    (header, Vec::new())
                };
                self.back.prepare(handshake, &before, within, pool);
                let starttls = self.settings.starttls.as_ref();
                if starttls.is_some_and(|one| one.sides.back) {
                    self.server_is_connected(now, pool);
                } else {
                    self.begin_back_hello(now, pool);
                }
            }
            Err(fault) => self.fail_back_handshake(&fault),
        }
    }

    /// Sends the server our hello.
    pub(super) fn begin_back_hello(&mut self, now: Instant, pool: &mut Pool) {
        self.back.state.begin();
        self.advance_back_handshake(now, pool);
    }

    fn advance_back_handshake(&mut self, now: Instant, pool: &mut Pool) {
        match self.back.advance(pool) {
            Ok(None) => {}
            Ok(Some(agreed)) => {
                self.facts.back_agreed = Some(agreed);
                self.unavailable = Vec::new();
                self.facts.connected = Some(now);
                self.last_byte = now;
                self.stage = ConnectionStage::Relaying;
                self.actions.add(Action::NoteBackReady);
                self.tls_is_up(false, now, pool);
                self.advance(pool);
            }
            Err(fault) => self.fail_back_handshake(&fault),
        }
    }

    fn fail_back_handshake(&mut self, fault: &HandshakeFault) {
        self.give_server_up(ConnectionEnd::with(fault.reason, fault.detail.as_str()));
    }

    pub(super) fn give_server_up(&mut self, ending: ConnectionEnd) {
        if let (Some(settings), Some(server)) = (&self.settings.back_tls, self.facts.server)
            && !settings.client.follows_client()
        {
            // A bad session with the server may be the cause.
            settings.client.forget_sessions(server);
        }
        self.back.give_up(ending);
        self.actions.add(Action::Redial);
    }

    /// Ends the TLS with a server that [`Action::Redial`] gives up; the reason, if connected.
    pub fn take_back_fault(&mut self, pool: &mut Pool) -> Option<ConnectionEnd> {
        self.back.reset(pool)
    }

    /// Returns the failure of a server that falls silent before its TLS is up.
    pub(super) fn back_silence(&self) -> ConnectionEnd {
        if self.back.state.is_in_tunnel() {
            return ConnectionEnd::with(
                Reason::ServerTunnelFailed,
                "the proxy did not answer in time",
            );
        }
        if self.back.state.is_in_dialog() {
            let detail = "the server did not answer in time";
            return ConnectionEnd::with(Reason::ServerStarttlsFailed, detail);
        }
        ConnectionEnd::new(Reason::ServerTlsTimeout)
    }

    /// Returns the failure of a server that closes the connection before its TLS is up.
    fn back_closed_early(&self) -> ConnectionEnd {
        let (reason, detail) = if self.back.state.is_in_tunnel() {
            (Reason::ServerTunnelFailed, "the proxy closed the connection")
        } else if self.back.state.is_in_dialog() {
            let detail = "the server closed the connection before TLS";
            (Reason::ServerStarttlsFailed, detail)
        } else {
            let detail = "the server closed the connection in the handshake";
            (Reason::ServerTlsFailed, detail)
        };
        ConnectionEnd::with(reason, detail)
    }

    /// Reports whether a server that must be asked for TLS waits for the client's word first: then
    /// neither its silence nor its closing counts as its failure.
    pub(super) fn is_clients_turn(&self) -> bool {
        let conversation = self.conversation.as_ref();
        let expects_server = conversation.is_none_or(|one| one.dialog.expects_server());
        self.back.state.is_in_dialog() && !expects_server
    }

    fn proxy_answered(&mut self, now: Instant, pool: &mut Pool) {
        let Some(tunnel) = self.settings.tunnel.clone() else {
            return;
        };
        match self.back.advance_tunnel(&tunnel, pool) {
            Ok(false) => {}
            Ok(true) => self.server_reached(now, pool),
            Err(fault) => {
                let ending = ConnectionEnd::with(Reason::ServerTunnelFailed, fault.to_string());
                self.give_server_up(ending);
            }
        }
    }

    pub(super) fn back_tls_received(
        &mut self,
        received: ReceiveResult,
        now: Instant,
        pool: &mut Pool,
    ) {
        let count = received.bytes();
        match &self.back.state {
            _ if count == 0 => {}
            EndState::Tunnel(_) => {
                self.back.inbox.received(count);
                self.proxy_answered(now, pool);
            }
            EndState::Dialog(_) => {
                self.back.inbox.received(count);
                let bytes = pool.take_all(&mut self.back.inbox.buffer);
                self.give_server_bytes(&bytes, now, pool);
            }
            EndState::Handshaking(_) => {
                self.back.inbox.received(count);
                self.advance_back_handshake(now, pool);
            }
            _ => {
                self.back.inbox.received(count);
                self.note_pause(now);
                self.last_byte = now;
                self.pump_back(pool);
            }
        }
        let is_over = received.is_end() || received == ReceiveResult::Failed;
        if is_over && self.is_clients_turn() {
            let is_end = received.is_end();
            let reason = if is_end { Reason::BackendClosed } else { Reason::BackendReset };
            return self.close_gracefully(ConnectionEnd::new(reason), now, pool);
        }
        if is_over && self.back.state.is_opening() {
            return self.give_server_up(self.back_closed_early());
        }
        if received == ReceiveResult::Failed {
            return self.back_failed(ConnectionEnd::new(Reason::BackendReset), now, pool);
        }
        if received.is_end() && !self.back.state.is_plain() {
            self.back.finish();
            self.pump_back(pool);
        }
    }

    /// Relays in both directions what TLS with the server allows now.
    pub(super) fn pump_back(&mut self, pool: &mut Pool) {
        if !matches!(self.stage, ConnectionStage::Relaying) || self.back.state.is_plain() {
            return;
        }
        if !self.up.is_refused {
            let holding = self.conversation.as_ref();
            let is_holding = holding.is_some_and(|one| one.dialog.is_holding());
            let end = self.up.end.filter(|_| !is_holding);
            if self.back.seal(&mut self.up.plain, end, pool) == Err(KeyExhausted) {
                return self.stop_exhausted(self.last_byte, pool);
            }
        }
        if self.postponed.is_some() || self.front.ktls.holds_back() || self.down.is_ended {
            return;
        }
        let relayed = if self.conversation.is_some() {
            if !self.takes_from_back() {
                return;
            }
            let mut spoken = ServerToClient::default();
            let relayed = self.back.relay(&mut spoken, &mut FrontSealer::Plain, pool);
            let end = self.back.end;
            let bytes = pool.take_all(&mut spoken.records);
            self.give_server_bytes(&bytes, self.last_byte, pool);
            relayed.map(|_| end)
        } else {
            let Some(mut sealer) = self.front.sealer() else {
                return;
            };
            let relayed = self.back.relay(&mut self.down, &mut sealer, pool);
            relayed.map(|count| {
                self.facts.bytes_down += count as u64;
                self.note_run(count);
                self.back.end
            })
        };
        match relayed {
            // Without TLS only a reset tells the client that something may be missing.
            Ok(Some(StreamEnd::Fin)) if self.front.state.is_plain() => {
                // Many servers answer the client's end without close_notify.
                let ending = self.ending.take();
                let ending = ending.unwrap_or_else(|| ConnectionEnd::new(Reason::ServerTruncated));
                self.back_failed(ending, self.last_byte, pool);
            }
            Ok(Some(_)) => self.back_ended(pool),
            Ok(None) => {}
            Err(fault) => self.back_broke(&fault, pool),
        }
    }

    fn back_broke(&mut self, fault: &BackFault, pool: &mut Pool) {
        match fault {
            BackFault::Relay(RelayFault::Client(KeyExhausted)) => {
                self.stop_exhausted(self.last_byte, pool);
            }
            BackFault::Relay(RelayFault::Server(fault)) => {
                let detail = format!("from the server: {fault}");
                self.break_back(detail, pool);
            }
            // The alert complains of the client's cut stream, not of an own fault.
            BackFault::Alert(_) if self.up.end == Some(StreamEnd::Fin) => {
                let ending = ConnectionEnd::new(Reason::ClientTruncated);
                self.back_failed(ending, self.last_byte, pool);
            }
            BackFault::Alert(alert) => {
                let detail = format!("the server sent alert {}", alert::label(*alert));
                self.break_back(detail, pool);
            }
        }
    }

    fn break_back(&mut self, detail: String, pool: &mut Pool) {
        let ending = ConnectionEnd::with(Reason::ServerTlsFailed, detail);
        self.back_failed(ending, self.last_byte, pool);
    }
}
