//! Hand-over of a connection's sending half to the kernel (kTLS), which encrypts from then on.
//!
//! Handles also the records without data (close_notify, alerts, answers to the client), because the
//! kernel sends them in another way than our own record layer.

use std::time::Instant;

use telemetry::outcome::Reason;
use tls::record::KeyExhausted;
use tls::traffic::{ControlRecord, Keys, Traffic};
use wire::alert;

use super::Flow;
use crate::buffer::Pool;
use crate::events::Action;
use crate::facts::ConnectionEnd;
use crate::state::ConnectionStage;

impl Flow {
    pub(super) fn expect_bytes(&mut self, bytes: u64) {
        if let Some(offload) = &self.settings.offload {
            self.front.ktls.expect(bytes, offload.from);
            self.ask_kernel();
        }
    }

    /// Reports whether the kernel encrypts what is sent to the client. Waiting bytes are plaintext
    /// then, and bytes may bypass our buffers when [`Flow::can_pass`] allows it.
    pub fn is_offloaded(&self) -> bool {
        self.facts.offloaded
    }

    /// Returns the length, in bytes, from which a range of a file is better left to the kernel;
    /// `None` = the kernel will encrypt nothing of this connection.
    pub fn passes_from(&self) -> Option<u64> {
        if self.is_offloaded() {
            return Some(0);
        }
        let offload = self.settings.offload.as_ref();
        let offload = offload.filter(|_| self.front.ktls.may_be_kernel())?;
        let keys = self.kernel_keys()?;
        let is_taken = offload.takes(keys.version, keys.cipher);
        is_taken.then_some(offload.from)
    }

    /// Returns the keys to hand to the kernel on [`Action::Offload`] and [`Action::Rekey`].
    pub fn kernel_keys(&self) -> Option<Keys<'_>> {
        self.front.state.traffic()?.kernel_keys()
    }

    pub(super) fn kernel_answered(&mut self, is_taken: bool, pool: &mut Pool) {
        if let Some(traffic) = self.front.state.traffic_mut() {
            if is_taken {
                traffic.hand_over();
                self.facts.offloaded = true;
            } else if self.front.ktls.is_kernel() {
                // The client waits for records under the next key, and can be sent no others.
                return self.stop(ConnectionEnd::new(Reason::KernelRekey), pool);
            } else {
                traffic.forget_kernel_keys();
            }
            self.front.ktls.answered(is_taken);
        }
        self.advance(pool);
    }

    /// Reports whether only the end of TCP follows the bytes that wait for the client.
    pub fn is_last(&self) -> bool {
        matches!(self.stage, ConnectionStage::Relaying)
            && self.down.is_ended
            && self.up.end.is_none()
            && self.front.ktls.records.is_empty()
    }

    /// Reports whether bytes of the back may bypass our buffers into the kernel now, in the order
    /// of the stream.
    pub fn can_pass(&self) -> bool {
        matches!(self.stage, ConnectionStage::Relaying)
            && (self.is_offloaded() || self.front.state.is_plain() && self.down.is_bulk())
            && !self.front.ktls.holds_back()
            && !self.down.is_ended
            && self.postponed.is_none()
            && self.back.state.is_plain()
            && self.session_watch.is_none()
            && self.conversation.is_none()
            && self.down.is_sent()
    }

    pub(super) fn front_passed(&mut self, count: usize, now: Instant, pool: &mut Pool) {
        self.last_byte = now;
        self.facts.bytes_down += count as u64;
        let traffic = self.front.state.traffic_mut();
        let counted = traffic.map_or(Ok(()), |traffic| traffic.count_passed(count));
        match counted {
            Ok(()) => self.advance(pool),
            Err(KeyExhausted) => self.stop_exhausted(now, pool),
        }
    }

    /// Returns the waiting record that must be sent with its type, once no other bytes wait.
    pub fn front_record(&self) -> Option<&ControlRecord> {
        self.front.ktls.records.front().filter(|_| self.down.is_sent())
    }

    pub(super) fn front_record_sent(&mut self, now: Instant, pool: &mut Pool) {
        self.last_byte = now;
        if self.front.ktls.record_sent() {
            self.actions.add(Action::Rekey);
        }
        self.advance(pool);
    }

    /// Decides after the handshake whether the kernel may be asked later. A kernel that cannot
    /// encrypt is asked as well, so that the requests are counted; but no key is kept for it.
    pub(super) fn consider_kernel(&mut self) {
        let keys = self.kernel_keys();
        let may_ask = self.settings.offload.as_ref().zip(keys);
        let takes = may_ask.map(|(offload, keys)| offload.takes(keys.version, keys.cipher));
        let Some(traffic) = self.front.state.traffic_mut() else {
            return;
        };
        if takes != Some(true) {
            traffic.forget_kernel_keys();
        }
        if takes.is_some() {
            self.front.ktls.allow();
        }
    }

    /// Counts bytes of the back that went through our buffers.
    pub(super) fn note_run(&mut self, count: usize) {
        if let Some(offload) = &self.settings.offload {
            self.front.ktls.received(count, offload.relay_from());
        }
    }

    /// Asks the kernel as soon as none of our encrypted bytes wait: its records follow them.
    pub(super) fn ask_kernel(&mut self) {
        if !self.front.ktls.is_wanted() || self.conversation.is_some() {
            return;
        }
        self.down.release();
        if matches!(self.stage, ConnectionStage::Relaying)
            && !self.down.is_ended
            && self.down.is_sent()
        {
            self.front.ktls.asked();
            self.actions.add(Action::Offload);
        }
    }

    /// Reports whether all bytes and records for the client have been sent.
    pub(super) fn is_front_done(&self) -> bool {
        self.down.is_sent() && self.front.ktls.records.is_empty()
    }

    /// Ends the stream without close_notify, because TLS 1.2 has no key update.
    pub(super) fn stop_exhausted(&mut self, now: Instant, pool: &mut Pool) {
        let ending = ConnectionEnd::with(Reason::Internal, "the key limit is reached");
        self.close_gracefully(ending, now, pool);
    }

    /// Answers KeyUpdate and renegotiation as soon as nothing waits to be sent: the answer must
    /// come before the next data, and one answer serves for several requests.
    pub(super) fn send_control(&mut self, pool: &mut Pool) {
        // The answer also waits until the kernel has the next key.
        let may_send = self.is_front_done() && !self.front.ktls.holds_back();
        let Some(traffic) = self.front.state.traffic_mut() else {
            return;
        };
        if !traffic.is_control_due() || self.down.is_ended {
            return;
        }
        // No data may be sealed before the answer, so nothing is held back for later data.
        self.down.release();
        if !may_send {
            return;
        }
        if !self.front.ktls.is_kernel() {
            self.down.append_record(pool, |out| traffic.seal_control(out).is_ok());
            return;
        }
        let rekeys = self.settings.offload.as_ref().is_some_and(|o| o.rekeys);
        if traffic.is_kernel_key_due() && !rekeys {
            // No data may follow without a KeyUpdate of ours (RFC 8446 section 4.6.3).
            return self.give_up_kernel(Reason::KernelRekey, pool);
        }
        match traffic.kernel_control() {
            Ok(Some(record)) => self.front.ktls.records.push_back(record),
            Ok(None) => {}
            Err(KeyExhausted) => self.give_up_kernel(Reason::Internal, pool),
        }
    }

    fn give_up_kernel(&mut self, reason: Reason, pool: &mut Pool) {
        self.send_alert(alert::INTERNAL_ERROR, pool);
        self.close_gracefully(ConnectionEnd::new(reason), self.last_byte, pool);
    }

    pub(super) fn send_close_notify(&mut self, pool: &mut Pool) {
        self.send_record(pool, ControlRecord::close_notify(), |traffic, out| {
            traffic.seal_close_notify(out)
        });
    }

    pub(super) fn send_alert(&mut self, alert: u8, pool: &mut Pool) {
        self.send_record(pool, ControlRecord::fatal(alert), |traffic, out| {
            traffic.seal_alert(alert, out)
        });
    }

    /// Sends `record` by the kernel, or the bytes that `seal` makes by ourselves.
    fn send_record(
        &mut self,
        pool: &mut Pool,
        record: ControlRecord,
        seal: impl FnOnce(&mut Traffic, &mut Vec<u8>) -> Result<(), KeyExhausted>,
    ) {
        let Some(traffic) = self.front.state.traffic_mut() else {
            return;
        };
        if self.front.ktls.is_kernel() {
            self.front.ktls.records.push_back(record);
        } else {
            self.down.append_record(pool, |out| seal(traffic, out).is_ok());
        }
    }
}
