//! Sessions that peers are asked for, and who waits for them; those that were asked for before; and
//! those that were deleted, so that an older datagram does not bring them back.
//!
//! Owns how many are asked for at a time, and when each is asked for again and given up.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::tiers::Key;

/// Sessions that are waited for at a time.
const FETCHES_MAX: usize = 4096;

/// How long a handshake waits at least and at most where that is adapted to the peers' round trips,
/// and for a peer whose round trip is not known yet. A full handshake costs a client about as much
/// as the longest.
const WAIT_MIN: Duration = Duration::from_millis(1);
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(50);
const WAIT_UNKNOWN: Duration = Duration::from_millis(5);

/// How long to wait for peers with these round trips, as far as they are known: so long, or twice
/// the longest. `None` = they are all too far away, or there is none.
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

/// All that are waited for.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    /// Until when each is waited for, and by whom.
    waiting: HashMap<Key, (Instant, Vec<u64>)>,
    retries: BTreeSet<(Instant, Key)>,
    deadlines: BTreeSet<(Instant, Key)>,
}

impl Fetches {
    /// One more waits for a session that was asked for already. `false` = it was not.
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

    /// It came: who waited for it.
    pub(crate) fn found(&mut self, key: &Key) -> Vec<u64> {
        let waited = self.waiting.remove(key);
        waited.map(|(_, tokens)| tokens).unwrap_or_default()
    }

    /// The next that is to be asked for again.
    pub(crate) fn retry(&mut self, now: Instant) -> Option<Key> {
        loop {
            let key = due(&mut self.retries, now)?;
            if self.waiting.contains_key(&key) {
                return Some(key);
            }
        }
    }

    /// Who waited for the next that is given up.
    pub(crate) fn give_up(&mut self, now: Instant) -> Option<Vec<u64>> {
        loop {
            let key = due(&mut self.deadlines, now)?;
            // One that was answered may have been asked for once more since.
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
