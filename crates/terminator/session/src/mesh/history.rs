//! What is remembered of sessions that went by: which there are, for a peer that missed them, and
//! which were deleted, so that an older datagram does not bring them back.

use std::collections::{HashMap, VecDeque};

use crate::key::Key;

/// Keys with the time at which each came, oldest first; bounded.
#[derive(Debug)]
pub(crate) struct Recent {
    keys: VecDeque<(u64, Key)>,
    /// The number of the oldest: places stay the same while others leave.
    first: u64,
    keys_max: usize,
}

impl Recent {
    pub(crate) fn new(keys_max: usize) -> Self {
        Self {
            keys: VecDeque::new(),
            first: 0,
            keys_max,
        }
    }

    pub(crate) fn add(&mut self, key: Key, now_ms: u64) {
        self.keys.push_back((now_ms, key));
        while self.keys.len() > self.keys_max {
            self.keys.pop_front();
            self.first += 1;
        }
    }

    /// Where those begin that came at that time or later.
    pub(crate) fn since(&self, since_ms: u64) -> u64 {
        let older = self.keys.partition_point(|(time, _)| *time < since_ms);
        self.first + older as u64
    }

    /// The key at a place, or the next one, with the place behind it; `None` = there is no more.
    pub(crate) fn at(&self, place: u64) -> Option<(Key, u64)> {
        let place = place.max(self.first);
        let (_, key) = self.keys.get(usize::try_from(place - self.first).ok()?)?;
        Some((*key, place + 1))
    }
}

/// Keys that must not come back for a while; bounded.
#[derive(Debug, Default)]
pub struct Deleted {
    until: HashMap<Key, u64>,
    order: VecDeque<(u64, Key)>,
}

/// Deletions remembered at once: a thousand each second for a minute. Some 8 MB.
const DELETED_MAX: usize = 1 << 16;

impl Deleted {
    /// Remembers it until then.
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

    /// Whether it is remembered.
    pub fn contains(&self, key: &Key, now_ms: u64) -> bool {
        self.until.get(key).is_some_and(|until| *until > now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        Key::new(&number.to_be_bytes()).expect("four bytes are a key")
    }

    #[test]
    fn recent_keys_are_bounded_and_found_by_their_time() {
        let mut recent = Recent::new(3);
        (0..5).for_each(|number| recent.add(key(number), u64::from(number) * 10));
        let since = |since_ms| {
            let mut place = recent.since(since_ms);
            let mut found = Vec::new();
            while let Some((key, next)) = recent.at(place) {
                (place, _) = (next, found.push(key));
            }
            found
        };
        assert_eq!(since(0), [key(2), key(3), key(4)]);
        assert_eq!(since(31), [key(4)]);
        assert_eq!(since(99), []);
        assert_eq!(recent.at(0).map(|(key, _)| key), Some(key(2)));
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
