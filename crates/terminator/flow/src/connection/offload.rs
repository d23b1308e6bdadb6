//! A connection whose sending half the kernel may seal: what it asks for, is told and answers.
//!
//! Owns also what we say apart from data, close_notify, alerts and answers to the client, since
//! it takes another way through the kernel than through our own record layer.

use std::time::Instant;

use telemetry::outcome::Reason;
use tls::record::KeyExhausted;
use tls::traffic::Traffic;
use tls::traffic::kernel::{ControlRecord, Keys};
use wire::alert;

use super::Flow;
use crate::actions::Action;
use crate::buffer::Pool;
use crate::facts::Ending;
use crate::stage::Stage;

impl Flow {
    /// Takes note that the back begins to send so many bytes in one go, before the first of them is
    /// received: [`Action::Offload`] may come of it.
    pub fn expect_bytes(&mut self, bytes: u64) {
        if let Some(offload) = &self.settings.offload {
            self.offloading.expect(bytes, offload.from);
            self.ask_kernel();
        }
    }

    /// Whether the kernel seals what is sent to the client. What waits to be sent is plaintext
    /// then, and bytes may go past our buffers when [`Flow::can_pass`] says so.
    pub fn is_offloaded(&self) -> bool {
        self.offloading.is_kernel()
    }

    /// From which length on a stretch of a file is better left for the kernel, in bytes; `None` =
    /// it will seal nothing of this connection.
    pub fn passes_from(&self) -> Option<u64> {
        if self.is_offloaded() {
            return Some(0);
        }
        let offload = self.settings.offload.as_ref();
        let offload = offload.filter(|_| self.offloading.may_be_kernel())?;
        let keys = self.kernel_keys()?;
        let is_taken = offload.takes(keys.version, keys.cipher);
        is_taken.then_some(offload.from)
    }

    /// What to hand to the kernel on [`Action::Offload`] and [`Action::Rekey`].
    pub fn kernel_keys(&self) -> Option<Keys<'_>> {
        self.traffic.as_ref()?.kernel_keys()
    }

    /// Answers [`Action::Offload`]: the kernel has the keys, and seals from now on.
    pub fn offloaded(&mut self, pool: &mut Pool) {
        if let Some(traffic) = &mut self.traffic {
            traffic.hand_over();
            self.offloading.answered(true);
            self.facts.offloaded = true;
            self.settle(pool);
        }
    }

    /// Answers [`Action::Offload`]: it did not take them. We go on sealing.
    pub fn offload_refused(&mut self, pool: &mut Pool) {
        self.keep_sealing();
        self.settle(pool);
    }

    /// Answers [`Action::Rekey`]: the kernel has the next key.
    pub fn rekeyed(&mut self, pool: &mut Pool) {
        if let Some(traffic) = &mut self.traffic {
            traffic.hand_over();
            self.offloading.answered(true);
            self.settle(pool);
        }
    }

    /// Answers [`Action::Rekey`]: it did not take it. The client waits for records under the next
    /// key, so that nothing more can be said to it.
    pub fn rekey_refused(&mut self, pool: &mut Pool) {
        self.stop(Ending::new(Reason::KernelRekey), pool);
    }

    /// Whether bytes of the back may be given to the kernel past our buffers now, in the order of
    /// the stream.
    pub fn can_pass(&self) -> bool {
        matches!(self.stage, Stage::Relaying)
            && self.is_offloaded()
            && !self.offloading.holds_back()
            && !self.down.is_ended
            && self.postponed.is_none()
            && self.down.pending().is_empty()
    }

    /// Takes note of `count` bytes that went from the back to the client past our buffers.
    pub fn front_passed(&mut self, count: usize, now: Instant, pool: &mut Pool) {
        self.last_byte = now;
        self.facts.bytes_down += count as u64;
        let traffic = self.traffic.as_mut();
        let counted = traffic.map_or(Ok(()), |traffic| traffic.count_passed(count));
        match counted {
            Ok(()) => self.settle(pool),
            Err(KeyExhausted) => self.stop_exhausted(now, pool),
        }
    }

    /// What waits to be sent as a record of its own, with its type, once nothing else does.
    pub fn front_record(&self) -> Option<&ControlRecord> {
        let is_first = self.down.pending().is_empty();
        self.offloading.records.front().filter(|_| is_first)
    }

    /// Takes note that it was sent.
    pub fn front_record_sent(&mut self, now: Instant, pool: &mut Pool) {
        self.last_byte = now;
        if self.offloading.record_sent() {
            self.actions.add(Action::Rekey);
        }
        self.settle(pool);
    }

    // Within.

    /// The handshake is over: whether the kernel may ever be asked. Where it would not seal it is
    /// asked as well, so that it is known for how much it would have been wanted; but no key is
    /// kept for it.
    pub(super) fn consider_kernel(&mut self) {
        let keys = self.kernel_keys();
        let may_ask = self.settings.offload.as_ref().zip(keys);
        let takes = may_ask.map(|(offload, keys)| offload.takes(keys.version, keys.cipher));
        if takes != Some(true)
            && let Some(traffic) = &mut self.traffic
        {
            traffic.forget_kernel_keys();
        }
        if takes.is_some() {
            self.offloading.allow();
        }
    }

    fn keep_sealing(&mut self) {
        self.offloading.answered(false);
        if let Some(traffic) = &mut self.traffic {
            traffic.forget_kernel_keys();
        }
    }

    /// Takes note of bytes that came from the back and went through our buffers.
    pub(super) fn note_stretch(&mut self, count: usize) {
        if let Some(offload) = &self.settings.offload {
            self.offloading.received(count, offload.relay_from());
        }
    }

    /// Asks as soon as nothing that we sealed waits: the kernel goes on behind it.
    pub(super) fn ask_kernel(&mut self) {
        if self.offloading.is_wished()
            && self.opening.is_none()
            && matches!(self.stage, Stage::Relaying)
            && !self.down.is_ended
            && self.down.pending().is_empty()
        {
            self.offloading.asked();
            self.actions.add(Action::Offload);
        }
    }

    /// Whether all that is for the client has been sent.
    pub(super) fn is_front_done(&self) -> bool {
        self.down.pending().is_empty() && self.offloading.records.is_empty()
    }

    /// TLS 1.2 has no key update: the stream ends here, and not as if it were whole.
    pub(super) fn stop_exhausted(&mut self, now: Instant, pool: &mut Pool) {
        let ending = Ending::with(Reason::Internal, "the sealing key is used up");
        self.part(ending, now, pool);
    }

    /// Answers KeyUpdate and renegotiation as soon as nothing waits to be sent: the answer has to
    /// come before the next data, and one answer serves for several requests.
    pub(super) fn send_control(&mut self, pool: &mut Pool) {
        // Nor may anything be said before the kernel has the key that it is said under.
        let may_say = self.is_front_done() && !self.offloading.holds_back();
        let Some(traffic) = &mut self.traffic else {
            return;
        };
        if !traffic.is_control_due() || self.down.is_ended || !may_say {
            return;
        }
        if !self.offloading.is_kernel() {
            self.down.say(pool, |out| traffic.seal_control(out).is_ok());
            return;
        }
        let rekeys = self.settings.offload.as_ref().is_some_and(|o| o.rekeys);
        if traffic.is_kernel_key_due() && !rekeys {
            // No data may follow without a KeyUpdate of ours (RFC 8446 section 4.6.3).
            return self.give_up_kernel(Reason::KernelRekey, pool);
        }
        match traffic.kernel_control() {
            Ok(Some(record)) => self.offloading.records.push_back(record),
            Ok(None) => {}
            Err(KeyExhausted) => self.give_up_kernel(Reason::Internal, pool),
        }
    }

    fn give_up_kernel(&mut self, reason: Reason, pool: &mut Pool) {
        self.say_alert(alert::INTERNAL_ERROR, pool);
        self.part(Ending::new(reason), self.last_byte, pool);
    }

    pub(super) fn say_goodbye(&mut self, pool: &mut Pool) {
        self.say(pool, ControlRecord::close_notify(), |traffic, out| {
            traffic.seal_close_notify(out)
        });
    }

    pub(super) fn say_alert(&mut self, alert: u8, pool: &mut Pool) {
        self.say(pool, ControlRecord::fatal(alert), |traffic, out| {
            traffic.seal_alert(alert, out)
        });
    }

    /// By the kernel as that record, or sealed by us.
    fn say(
        &mut self,
        pool: &mut Pool,
        record: ControlRecord,
        seal: impl FnOnce(&mut Traffic, &mut Vec<u8>) -> Result<(), KeyExhausted>,
    ) {
        let Some(traffic) = &mut self.traffic else {
            return;
        };
        if self.offloading.is_kernel() {
            self.offloading.records.push_back(record);
        } else {
            self.down.say(pool, |out| seal(traffic, out).is_ok());
        }
    }
}
