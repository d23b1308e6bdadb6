//! What happens on the server's side: its connection, its bytes, its end.
//!
//! With TLS to the server bytes and ends come by `back_tls`.

use std::rc::Rc;
use std::time::Instant;

use telemetry::outcome::Reason;
use wire::alert;

use super::Flow;
use crate::buffer::Pool;
use crate::events::Received;
use crate::facts::Ending;
use crate::handshaking::Handshaking;
use crate::proxy_header_out;
use crate::stage::{Postponed, Stage};

impl Flow {
    pub(super) fn back_connected(&mut self, now: Instant, pool: &mut Pool) {
        if !matches!(self.stage, Stage::Dialling { .. }) {
            return;
        }
        self.actions.cancel_dials();
        let settings = Rc::clone(&self.settings);
        let header = proxy_header_out::header(&settings.send_proxy, &self.facts);
        match (header, &settings.back_tls) {
            (Ok(header), Some(tls)) => self.begin_back_handshake(tls, header, now, pool),
            (Ok(header), None) => {
                self.facts.connected = Some(now);
                self.last_byte = now;
                self.proxy_header = header;
                self.unavailable = Vec::new();
                self.stage = Stage::Relaying;
                self.advance(pool);
            }
            // A server that waits for the header would take the client's first bytes for it.
            (Err(ending), _) => self.dial_failed(ending, now, pool),
        }
    }

    pub(super) fn dial_failed(&mut self, ending: Ending, now: Instant, pool: &mut Pool) {
        if !matches!(self.stage, Stage::Dialling { .. } | Stage::Relaying) {
            return;
        }
        if self.is_broadcast() {
            return self.end_broadcast(ending, now, pool);
        }
        if self.conversation.is_some() || !self.unavailable.is_empty() {
            return self.end_unavailable(ending, now, pool);
        }
        if self.handshaking.is_some() {
            // The client can be sent an alert only after the handshake.
            self.postponed = Some(Postponed::BackFailure(ending));
            self.drop_back();
            self.stage = Stage::Relaying;
            return self.back_refused(pool);
        }
        self.send_alert(alert::INTERNAL_ERROR, pool);
        self.close_gracefully(ending, now, pool);
    }

    pub(super) fn back_received(&mut self, received: Received, now: Instant, pool: &mut Pool) {
        if self.back_tls.is_some() {
            return self.back_tls_received(received, now, pool);
        }
        match received.bytes() {
            _ if self.conversation.is_some() => self.server_spoke(received, now, pool),
            0 => pool.give_if_empty(&mut self.down.records),
            count => self.back_filled(count, now, pool),
        }
        if received.is_end() {
            self.back_ended(pool);
        } else if received == Received::Failed {
            self.back_failed(Ending::new(Reason::BackendReset), now, pool);
        }
    }

    pub(super) fn back_filled(&mut self, count: usize, now: Instant, pool: &mut Pool) {
        self.note_pause(now);
        let handshake = self.handshaking.as_mut().and_then(Handshaking::sealer);
        let encrypted = match (&mut self.traffic, handshake) {
            _ if self.is_as_is => {
                self.receive_as_is(count);
                Ok(())
            }
            (Some(traffic), _) => self.down.received(count, &mut **traffic),
            (None, Some(handshake)) => self.down.received(count, handshake),
            (None, None) => return,
        };
        self.last_byte = now;
        self.facts.bytes_down += count as u64;
        self.note_run(count);
        if encrypted.is_err() {
            self.stop_exhausted(now, pool);
        }
    }

    pub(super) fn back_ended(&mut self, pool: &mut Pool) {
        if !matches!(self.stage, Stage::Relaying) || self.down.is_ended {
            return;
        }
        if self.is_broadcast() {
            return self.pass_on(self.last_byte, pool);
        }
        if self.is_before_tls() {
            let ending = Ending::new(Reason::BackendClosed);
            return self.close_gracefully(ending, self.last_byte, pool);
        }
        if self.handshaking.is_some() {
            self.postponed.get_or_insert(Postponed::BackEnd);
            return;
        }
        if self.is_back_truncated() {
            let ending = Ending::new(Reason::ServerTruncated);
            self.ending.get_or_insert(ending);
        } else {
            self.send_close_notify(pool);
        }
        self.down.is_ended = true;
        self.note_ending();
        self.advance(pool);
    }

    pub(super) fn back_refused(&mut self, pool: &mut Pool) {
        if matches!(self.stage, Stage::Relaying) {
            self.up.refuse(self.handshaking.is_some(), pool);
            self.proxy_header = Vec::new();
            self.back_tls.iter_mut().for_each(|tls| tls.refuse(pool));
            self.advance(pool);
        }
    }

    /// The client must not take what it got for the whole: it is sent what there is, and then the
    /// end of TCP without close_notify.
    pub(super) fn back_failed(&mut self, ending: Ending, now: Instant, pool: &mut Pool) {
        let Stage::Relaying = self.stage else { return };
        if self.is_broadcast() {
            return self.pass_on(now, pool);
        }
        if self.down.is_ended || self.postponed.is_some() {
            // Its stream was complete.
            return self.back_refused(pool);
        }
        if self.handshaking.is_some() && !self.is_before_tls() {
            // A handshake that breaks makes the client try again what the server may have done.
            self.postponed = Some(Postponed::BackFailure(ending));
            return self.back_refused(pool);
        }
        self.close_gracefully(ending, now, pool);
    }

    pub(super) fn back_sent(&mut self, count: usize, now: Instant, pool: &mut Pool) {
        self.last_byte = now;
        if let Some(tls) = &mut self.back_tls {
            tls.sent(count, pool);
            return self.advance(pool);
        }
        let of_header = count.min(self.proxy_header.len());
        if of_header > 0 {
            self.proxy_header.drain(..of_header);
            if self.proxy_header.is_empty() {
                self.proxy_header = Vec::new();
            }
        }
        if count > of_header {
            self.up.sent(count - of_header, pool);
        }
        self.advance(pool);
    }
}
