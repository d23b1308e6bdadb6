//! Sessions that peers are asked for and the tokens that wait for them; recent questions; deleted
//! sessions, so that no older datagram brings them back.
//!
//! Handles how many sessions are asked for at a time, and when each is asked for again and given
//! up.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::tiers::Key;

/// Most sessions that are waited for at a time.
const FETCHES_MAX: usize = 4096;

/// Shortest and longest wait of a handshake where it is adapted to the peers' round trips, and the
/// wait for a peer whose round trip is not known yet. A full handshake costs a client about as much
/// as the longest.
const WAIT_MIN: Duration = Duration::from_millis(1);
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(50);
const WAIT_UNKNOWN: Duration = Duration::from_millis(5);

/// Returns the wait for peers with these round trips, as far as they are known: `fixed`, or twice
/// the longest trip. `None` if all are too far away, or there is no peer.
pub(crate) fn wait(
    fixed: Option<Duration>,
    trips: impl Iterator<Item = Option<Duration>>,
) -> Option<Duration> {
    let longest = fixed.unwrap_or(WAIT_MAX);
    let near = trips.filter(|trip| trip.is_none_or(|trip| trip <= longest));
    let wait = |trip: Option<Duration>| trip.map_or(WAIT_UNKNOWN, |trip| trip * 2);
    let adapted = near.map(wait).max()?.clamp(WAIT_MIN, WAIT_MAX);
    Some(fixed.unwrap_or(adapted))
}

/// All sessions that are waited for.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    /// Deadline of each session, and the tokens that wait for it.
    waiting: HashMap<Key, (Instant, Vec<u64>)>,
    retries: BTreeSet<(Instant, Key)>,
    deadlines: BTreeSet<(Instant, Key)>,
}

impl Fetches {
    /// Adds a token to a session that was already asked for. `false` if it was not.
    pub(crate) fn join(&mut self, key: &Key, token: u64) -> bool {
        let asked = self.waiting.get_mut(key);
        asked.map(|(_, tokens)| tokens.push(token)).is_some()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= FETCHES_MAX
    }

    /// Notes that a session is asked for.
    pub(crate) fn begin(&mut self, key: Key, token: u64, now: Instant, timeout: Duration) {
        self.waiting.insert(key, (now + timeout, vec![token]));
        self.retries.insert((now + timeout / 2, key));
        self.deadlines.insert((now + timeout, key));
    }

    /// Notes that a session came, and returns the tokens that waited for it.
    pub(crate) fn found(&mut self, key: &Key) -> Vec<u64> {
        let waited = self.waiting.remove(key);
        waited.map(|(_, tokens)| tokens).unwrap_or_default()
    }

    /// Returns the next session that is to be asked for again.
    pub(crate) fn retry(&mut self, now: Instant) -> Option<Key> {
        loop {
            let key = due(&mut self.retries, now)?;
            if self.waiting.contains_key(&key) {
                return Some(key);
            }
        }
    }

    /// Gives up the next overdue session, and returns the tokens that waited for it.
    pub(crate) fn give_up(&mut self, now: Instant) -> Option<Vec<u64>> {
        loop {
            let key = due(&mut self.deadlines, now)?;
            // A session that was answered may have been asked for again since.
            if self.waiting.get(&key).is_some_and(|one| one.0 <= now) {
                return Some(self.found(&key));
            }
        }
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        let queues = [&self.retries, &self.deadlines].into_iter();
        queues.flat_map(|queue| queue.first()).map(|one| one.0).min()
    }
}

fn due(queue: &mut BTreeSet<(Instant, Key)>, now: Instant) -> Option<Key> {
    let (at, key) = *queue.first()?;
    (at <= now).then(|| queue.pop_first())?;
    Some(key)
}

/// Keys that must not come back for a while; bounded.
#[derive(Debug, Default)]
pub struct DeletedKeys {
    until: HashMap<Key, u64>,
    order: VecDeque<(u64, Key)>,
}

/// Most deletions remembered at once: a thousand each second for a minute. Some 8 MB.
const DELETED_MAX: usize = 1 << 16;

impl DeletedKeys {
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

/// Expected number of hosts, of many, that answer at once. Each decides by itself, so that one of
/// fifty questions finds no host (by Poisson's law) and is asked again.
const ANSWERS: u64 = 4;

/// Time within which a repeated question counts as the same. Longer than most wait for its answer.
const SAME_MS: u64 = 1000;

/// Questions of hosts that ask all for a session: a few hosts answer, and the others when the
/// question is repeated.
///
/// All hosts have most sessions. If all answered, a question would cost each of many hosts a
/// datagram, and the asking host as many at once.
#[derive(Debug, Default)]
pub(crate) struct RecentQuestions(DeletedKeys);

impl RecentQuestions {
    /// Reports whether this host answers, among `peers` recently seen peers.
    pub(crate) fn is_ours(&mut self, key: &Key, own: [u8; 8], peers: usize, now_ms: u64) -> bool {
        let is_again = self.0.contains(key, now_ms);
        self.0.add(*key, now_ms + SAME_MS, now_ms);
        // Keys and hosts' numbers are random, so that a plain hash spreads the answers.
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
        let mut deleted = DeletedKeys::default();
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
