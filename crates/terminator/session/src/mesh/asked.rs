//! Who answers a host that asks all for a session: a few, and the others when it asks again.
//!
//! All hosts have most sessions. If all answered, what a host asks for would cost each of many
//! hosts a datagram, and the host as many at once.

use super::history::Deleted;
use crate::key::Key;

/// Hosts that answer at once, of many. Each decides by itself, so that of fifty questions one finds
/// nobody (by Poisson's law) and is asked again.
const ANSWERS: u64 = 4;

/// How long a question that comes again is the same one. Longer than most wait for its answer.
const SAME_MS: u64 = 1000;

#[derive(Debug, Default)]
pub(crate) struct Asked(Deleted);

impl Asked {
    /// Whether this host answers, among so many that are heard.
    pub(crate) fn is_ours(&mut self, key: &Key, own: [u8; 8], peers: usize, now_ms: u64) -> bool {
        let is_again = self.0.contains(key, now_ms);
        self.0.add(*key, now_ms + SAME_MS, now_ms);
        // Keys and numbers of hosts are random.
        let own = u64::from_be_bytes(own);
        let key = key.bytes().iter().fold(own, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        is_again || (key >> 32) % (peers as u64).max(1) < ANSWERS
    }
}
