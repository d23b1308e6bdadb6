//! A connection's TLS towards its server: what the handshake, records and ends of it lead to.
//!
//! Owns also where the server's bytes are received, and from where they are sent, with TLS or
//! without. The handshake is a part of the dial, and has its limit: a server that fails in it is
//! given up for another one as if it had not been reached, since nothing of the client's was sent.

use std::time::Instant;

use telemetry::outcome::Reason;
use tls::client::OnBehalfOf;
use tls::handshake::HandshakeFault;
use tls::record::{KeyExhausted, RecordSealer};
use wire::alert;

use super::Flow;
use crate::actions::Action;
use crate::back_tls::{BackFault, BackTls};
use crate::buffer::{Buffer, Pool};
use crate::conversation::take_all;
use crate::events::Received;
use crate::facts::Ending;
use crate::handshaking::Handshaking;
use crate::options::{SendProxy, ServerTls, Settings};
use crate::relay::{AS_IS, Down, Plain, RelayFault, StreamEnd};
use crate::stage::Stage;

impl Flow {
    /// Where to receive from the server: pieces to be filled in order by one vectored read;
    /// `None` = not now.
    pub fn back_room<'a>(
        &'a mut self,
        pool: &mut Pool,
    ) -> Option<impl Iterator<Item = &'a mut [u8]> + use<'a>> {
        let is_handshaking = self.is_back_handshaking();
        let is_conversing = self.conversation.is_some() && !is_handshaking;
        if is_conversing && (self.handshaking.is_some() && !self.is_before_tls()) {
            return None;
        }
        let layout = match (&self.stage, &self.traffic) {
            (Stage::Dialling { .. }, _) if is_handshaking => None,
            (Stage::Relaying, _) if self.postponed.is_some() || self.ktls.holds_back() => {
                return None;
            }
            (Stage::Relaying, Some(traffic)) => Some(traffic.layout()),
            (Stage::Relaying, None) if self.is_as_is || is_conversing => Some(AS_IS),
            (Stage::Relaying, None) => Some(self.handshaking.as_ref()?.layout()?),
            _ => return None,
        };
        let is_free = !self.down.is_ended && self.down.pending().is_empty();
        let (piece, pieces) = match &mut self.back_tls {
            Some(tls) if is_handshaking || is_free => (Some(tls.room(pool)), None),
            Some(_) => return None,
            None if is_conversing && !is_free => return None,
            None if is_conversing => {
                let conversation = self.conversation.as_mut();
                (conversation.map(|one| one.room(pool)), None)
            }
            None => (None, Some(self.down.room(layout?, pool)?)),
        };
        Some(piece.into_iter().chain(pieces.into_iter().flatten()))
    }

    /// Whether there is something to send to a server as soon as it is connected. Where there is a
    /// conversation before TLS the server mostly begins it.
    pub fn speaks_first(&self) -> bool {
        let Settings {
            back_tls,
            send_proxy,
            starttls,
            ..
        } = &*self.settings;
        let is_due = back_tls.is_some() || *send_proxy != SendProxy::Off || self.up.plain.is_some();
        is_due && starttls.is_none()
    }

    /// What waits to be sent to the server: two pieces, in order.
    pub fn back_pending(&self) -> [&[u8]; 2] {
        if self.settings.back_tls.is_some() {
            return [self.back_tls.as_ref().map_or(&[], |tls| tls.pending()), &[]];
        }
        let Stage::Relaying = self.stage else {
            return [&[], &[]];
        };
        [
            &self.proxy_header,
            self.up.plain.as_ref().map_or(&[], Buffer::data),
        ]
    }

    /// Notes that the client takes no more for now.
    pub fn note_stalled(&mut self, pool: &mut Pool) {
        if let Some(tls) = &mut self.back_tls {
            tls.shrink(pool);
        }
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
                self.proxy_header = within;
                self.back_tls = Some(Box::new(BackTls::new(handshake, &before, pool)));
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
        self.back_tls.iter_mut().for_each(|tls| tls.begin());
        self.advance_back_handshake(now, pool);
    }

    fn advance_back_handshake(&mut self, now: Instant, pool: &mut Pool) {
        let Some(tls) = &mut self.back_tls else {
            return;
        };
        match tls.advance(pool) {
            Ok(None) => {}
            Ok(Some(agreed)) => {
                self.facts.back_agreed = Some(agreed);
                self.unavailable = Vec::new();
                self.facts.connected = Some(now);
                self.last_byte = now;
                self.stage = Stage::Relaying;
                self.actions.add(Action::NoteBackReady);
                self.tls_is_up(false, now, pool);
                self.advance(pool);
            }
            Err(fault) => self.fail_back_handshake(&fault),
        }
    }

    fn fail_back_handshake(&mut self, fault: &HandshakeFault) {
        self.give_server_up(Ending::with(fault.reason, fault.detail.as_str()));
    }

    pub(super) fn give_server_up(&mut self, ending: Ending) {
        if let (Some(settings), Some(server)) = (&self.settings.back_tls, self.facts.server)
            && !settings.client.follows_client()
        {
            // A session with it may be at fault.
            settings.client.forget_sessions(server);
        }
        self.back_tls.iter_mut().for_each(|tls| tls.fail());
        self.back_fault = Some(ending);
        self.actions.add(Action::Redial);
    }

    /// Ends the TLS with a server that [`Action::Redial`] gives up: why, if it was connected.
    pub fn take_back_fault(&mut self, pool: &mut Pool) -> Option<Ending> {
        if let Some(mut tls) = self.back_tls.take() {
            tls.clear(pool);
        }
        self.back_fault.take()
    }

    /// How a server fails that says no more before its TLS is up.
    pub(super) fn back_silence(&self) -> Ending {
        if self.is_asking_server() {
            let detail = "the server did not answer in time";
            return Ending::with(Reason::ServerStarttlsFailed, detail);
        }
        Ending::new(Reason::ServerTlsTimeout)
    }

    /// How one fails that closes the connection before.
    fn back_closed_early(&self) -> Ending {
        let (reason, detail) = if self.is_asking_server() {
            let detail = "the server closed the connection before TLS";
            (Reason::ServerStarttlsFailed, detail)
        } else {
            let detail = "the server closed the connection in the handshake";
            (Reason::ServerTlsFailed, detail)
        };
        Ending::with(reason, detail)
    }

    /// Whether the server has to be asked for TLS still.
    pub(super) fn is_asking_server(&self) -> bool {
        let tls = self.back_tls.as_ref();
        tls.is_some_and(|tls| tls.is_waiting())
    }

    /// Whether a server that has to be asked for TLS waits for the client's word before: its
    /// silence is not held against it, nor that it gives the client up.
    pub(super) fn is_clients_turn(&self) -> bool {
        let conversation = self.conversation.as_ref();
        let expects_server = conversation.is_none_or(|one| one.dialog.expects_server());
        self.is_asking_server() && !expects_server
    }

    /// Whether the handshake with a server goes on.
    pub(super) fn is_back_handshaking(&self) -> bool {
        self.back_tls
            .as_ref()
            .is_some_and(|tls| tls.is_handshaking())
    }

    pub(super) fn back_tls_received(&mut self, received: Received, now: Instant, pool: &mut Pool) {
        let count = received.bytes();
        if let Some(tls) = self.back_tls.as_mut().filter(|_| count > 0) {
            tls.received(count);
            if tls.is_waiting() {
                let bytes = tls.take_plaintext(pool);
                self.give_server_bytes(&bytes, now, pool);
            } else if tls.is_handshaking() {
                self.advance_back_handshake(now, pool);
            } else {
                self.note_pause(now);
                self.last_byte = now;
                self.pump_back_tls(pool);
            }
        }
        let is_over = received.is_end() || received == Received::Failed;
        if is_over && self.is_clients_turn() {
            let is_end = received.is_end();
            let reason = if is_end {
                Reason::BackendClosed
            } else {
                Reason::BackendReset
            };
            return self.close_gracefully(Ending::new(reason), now, pool);
        }
        if is_over && self.is_back_handshaking() {
            return self.give_server_up(self.back_closed_early());
        }
        if received == Received::Failed {
            return self.back_failed(Ending::new(Reason::BackendReset), now, pool);
        }
        if let Some(tls) = self.back_tls.as_mut().filter(|_| received.is_end()) {
            tls.finish();
            self.pump_back_tls(pool);
        }
    }

    /// Moves what can be moved now, in both directions.
    pub(super) fn pump_back_tls(&mut self, pool: &mut Pool) {
        let is_client_ready = self.handshaking.is_none() || self.is_before_tls();
        let (Stage::Relaying, Some(tls)) = (&self.stage, &mut self.back_tls) else {
            return;
        };
        if !self.up.is_refused {
            let holding = self.conversation.as_ref();
            let is_holding = holding.is_some_and(|one| one.dialog.is_holding());
            let end = self.up.end.filter(|_| !is_holding);
            let (header, plain) = (&mut self.proxy_header, &mut self.up.plain);
            if tls.seal(header, plain, end, pool) == Err(KeyExhausted) {
                return self.stop_exhausted(self.last_byte, pool);
            }
        }
        if self.postponed.is_some() || self.ktls.holds_back() || self.down.is_ended {
            return;
        }
        let was_conversing = self.conversation.is_some();
        let handshake = self
            .handshaking
            .as_mut()
            .and_then(Handshaking::early_sealer);
        let mut spoken = Down::default();
        let relayed = match (&mut self.traffic, handshake) {
            _ if was_conversing => {
                if !self.down.pending().is_empty() || !is_client_ready {
                    return;
                }
                tls.relay(&mut spoken, &mut Plain, pool)
            }
            (Some(traffic), _) => tls.relay(&mut self.down, &mut **traffic, pool),
            (None, Some(handshake)) => tls.relay(&mut self.down, handshake, pool),
            (None, None) if self.is_as_is => tls.relay(&mut self.down, &mut Plain, pool),
            (None, None) => return,
        };
        let end = tls.end;
        if was_conversing {
            let bytes = take_all(&mut spoken.records, pool);
            self.give_server_bytes(&bytes, self.last_byte, pool);
        }
        match relayed {
            Ok(count) => {
                if !was_conversing {
                    self.facts.bytes_down += count as u64;
                    self.note_run(count);
                }
                match end {
                    // Without TLS only a reset tells the client that something may be missing.
                    Some(StreamEnd::Fin) if self.is_as_is => {
                        // Many answer the client's end like that.
                        let ending = self.ending.take();
                        let ending = ending.unwrap_or_else(|| Ending::new(Reason::ServerTruncated));
                        self.back_failed(ending, self.last_byte, pool);
                    }
                    Some(_) => self.back_ended(pool),
                    None => {}
                }
            }
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
            // It complains of a stream that the client cut, not its own.
            BackFault::Alert(_) if self.up.end == Some(StreamEnd::Fin) => {
                let ending = Ending::new(Reason::ClientTruncated);
                self.back_failed(ending, self.last_byte, pool);
            }
            BackFault::Alert(alert) => {
                let detail = format!("the server sent alert {}", alert::label(*alert));
                self.break_back(detail, pool);
            }
        }
    }

    fn break_back(&mut self, detail: String, pool: &mut Pool) {
        let ending = Ending::with(Reason::ServerTlsFailed, detail);
        self.back_failed(ending, self.last_byte, pool);
    }

    /// Whether the server's stream ended without close_notify, so that the client gets none.
    pub(super) fn is_back_truncated(&self) -> bool {
        let end = self.back_tls.as_ref().and_then(|tls| tls.end);
        end == Some(StreamEnd::Fin)
    }
}
