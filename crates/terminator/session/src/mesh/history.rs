//! The memory of sessions that were deleted, so that an older datagram does not bring them back,
//! and of those that were asked for.

use std::collections::{HashMap, VecDeque};

use crate::key::Key;

/// Keys that must not come back for a while; bounded.
#[derive(Debug, Default)]
pub struct Deleted {
    until: HashMap<Key, u64>,
    order: VecDeque<(u64, Key)>,
}

/// Deletions remembered at once: a thousand each second for a minute. Some 8 MB.
const DELETED_MAX: usize = 1 << 16;

impl Deleted {
    pub fn add(&mut self, key: Key, until_ms: u64, now_ms: u64) {
        self.until.insert(key, until_ms);
        self.order.push_back((until_ms, key));
        while let Some((until, key)) = self.order.front().copied() {
            if until > now_ms && self.order.len() <= DELETED_MAX {
                return;
            }
            self.order.pop_front();
            if self.until.get(&key).is_some_and(|last| *last <= until) {
                self.until.remove(&key);
            }
        }
    }

    pub fn contains(&self, key: &Key, now_ms: u64) -> bool {
        self.until.get(key).is_some_and(|until| *until > now_ms)
    }
}

/// Hosts that answer at once, of many. Each decides by itself, so that of fifty questions one finds
/// nobody (by Poisson's law) and is asked again.
const ANSWERS: u64 = 4;

/// How long a question that comes again is the same one. Longer than most wait for its answer.
const SAME_MS: u64 = 1000;

/// Questions of hosts that ask all for a session: a few hosts answer, and the others when it is
/// asked again.
///
/// All hosts have most sessions. If all answered, a question would cost each of many hosts a
/// datagram, and the host that asks as many at once.
#[derive(Debug, Default)]
pub(crate) struct RecentQuestions(Deleted);

impl RecentQuestions {
    /// Whether this host answers, beside `peers` peers that are heard.
    pub(crate) fn is_ours(&mut self, key: &Key, own: [u8; 8], peers: usize, now_ms: u64) -> bool {
        let is_again = self.0.contains(key, now_ms);
        self.0.add(*key, now_ms + SAME_MS, now_ms);
        // Keys and numbers of hosts are random.
        let own = u64::from_be_bytes(own);
        let key = key
            .bytes()
            .iter()
            .fold(own, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        is_again || (key >> 32) % (peers as u64).max(1) < ANSWERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        Key::new(&number.to_be_bytes()).expect("four bytes are a key")
    }

    #[test]
    fn deletions_are_forgotten_in_time_and_in_number() {
        let mut deleted = Deleted::default();
        deleted.add(key(1), 100, 0);
        assert!(deleted.contains(&key(1), 99) && !deleted.contains(&key(1), 100));
        deleted.add(key(1), 200, 50);
        deleted.add(key(2), 200, 150);
        assert!(deleted.contains(&key(1), 150), "the later one counts");
        (0..DELETED_MAX as u32).for_each(|number| deleted.add(key(number + 10), 300, 150));
        assert_eq!(deleted.order.len(), DELETED_MAX);
        assert!(!deleted.contains(&key(2), 150), "the oldest has left");
        deleted.add(key(3), 500, 400);
        assert_eq!((deleted.order.len(), deleted.until.len()), (1, 1));
    }
}
