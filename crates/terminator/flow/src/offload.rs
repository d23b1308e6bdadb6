//! Who seals what is sent to the client: we, or the kernel.
//!
//! Owns how far the hand-over got and when it is worth its price; what it means for a connection
//! is `connection`'s. It cannot be undone: no kernel gives its half of a connection back.

use std::collections::VecDeque;

use tls::record::PLAINTEXT_BYTES_MAX;
use tls::traffic::kernel::ControlRecord;

/// Who seals.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Sealing {
    /// We, to the end.
    #[default]
    Ours,
    /// We, as long as little is sent; so many bytes have come in one go.
    OursYet { stretch: u64 },
    /// We, until all that we sealed has been sent.
    Wished,
    /// The kernel has been asked and has not answered.
    Asked,
    /// The kernel.
    Kernel,
    /// The kernel, once it has the key that follows a KeyUpdate.
    KernelRekeying,
}

/// Who seals, and what the kernel has to be told apart from data.
#[derive(Debug, Default)]
pub(crate) struct Offloading {
    sealing: Sealing,
    /// Records that carry no application data, not yet sent: an answer to the client, and the end.
    pub(crate) records: VecDeque<ControlRecord>,
}

impl Offloading {
    /// The kernel may be asked.
    pub(crate) fn allow(&mut self) {
        if self.sealing == Sealing::Ours {
            self.sealing = Sealing::OursYet { stretch: 0 };
        }
    }

    /// Takes note of `count` bytes that were received at once. A stretch ends where less comes than
    /// fills a record.
    pub(crate) fn received(&mut self, count: usize, from: u64) {
        if let Sealing::OursYet { stretch } = &mut self.sealing {
            let before = if count < PLAINTEXT_BYTES_MAX {
                0
            } else {
                *stretch
            };
            *stretch = before + count as u64;
            let stretch = *stretch;
            self.expect(stretch, from);
        }
    }

    /// Takes note that so many bytes are sent in one go.
    pub(crate) fn expect(&mut self, bytes: u64, from: u64) {
        if matches!(self.sealing, Sealing::OursYet { .. }) && bytes >= from {
            self.sealing = Sealing::Wished;
        }
    }

    /// Whether the kernel has not been asked in vain.
    pub(crate) fn may_be_kernel(&self) -> bool {
        self.sealing != Sealing::Ours
    }

    pub(crate) fn is_wished(&self) -> bool {
        self.sealing == Sealing::Wished
    }

    pub(crate) fn asked(&mut self) {
        self.sealing = Sealing::Asked;
    }

    /// Takes note of the kernel's answer.
    pub(crate) fn answered(&mut self, is_taken: bool) {
        self.sealing = if is_taken {
            Sealing::Kernel
        } else {
            Sealing::Ours
        };
    }

    /// Whether the kernel seals.
    pub(crate) fn is_kernel(&self) -> bool {
        matches!(self.sealing, Sealing::Kernel | Sealing::KernelRekeying)
    }

    /// Whether no data may be sent just now.
    pub(crate) fn holds_back(&self) -> bool {
        let is_between = matches!(self.sealing, Sealing::Asked | Sealing::KernelRekeying);
        is_between || !self.records.is_empty()
    }

    /// Takes note that the first record has been sent; whether the kernel needs its next key now.
    pub(crate) fn record_sent(&mut self) -> bool {
        let is_key_update = self
            .records
            .pop_front()
            .is_some_and(|record| record.is_key_update());
        if is_key_update {
            self.sealing = Sealing::KernelRekeying;
        }
        is_key_update
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: usize = PLAINTEXT_BYTES_MAX;

    #[test]
    fn long_stretches_are_wished_for_and_short_ones_are_not() {
        let mut offloading = Offloading::default();
        offloading.received(100 * FULL, 0);
        assert!(!offloading.is_wished(), "the kernel may not be asked");
        offloading.allow();
        let from = 3 * FULL as u64;
        for _ in 0..10 {
            offloading.received(2 * FULL, from);
            // A reply that ends: the next one begins anew.
            offloading.received(100, from);
        }
        assert!(!offloading.is_wished());
        offloading.received(2 * FULL, from);
        offloading.received(FULL, from);
        assert!(offloading.is_wished());
    }

    #[test]
    fn a_length_that_is_known_counts_at_once() {
        let mut offloading = Offloading::default();
        offloading.allow();
        offloading.expect(999, 1000);
        assert!(!offloading.is_wished());
        offloading.expect(1000, 1000);
        assert!(offloading.is_wished());
    }

    #[test]
    fn a_refusal_is_for_good() {
        let mut offloading = Offloading::default();
        offloading.allow();
        offloading.expect(1, 0);
        offloading.asked();
        assert!(offloading.holds_back() && !offloading.is_kernel());
        offloading.answered(false);
        offloading.expect(u64::MAX, 0);
        assert!(!offloading.is_wished() && !offloading.holds_back());
    }

    #[test]
    fn nothing_is_sent_between_a_key_update_and_its_key() {
        let mut offloading = Offloading::default();
        offloading.answered(true);
        offloading.records.push_back(ControlRecord::close_notify());
        assert!(offloading.holds_back());
        assert!(!offloading.record_sent());
        assert!(!offloading.holds_back());
    }
}
