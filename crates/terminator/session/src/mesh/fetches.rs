//! Sessions that peers are asked for, and who waits for them.
//!
//! Owns how many are asked for at a time, and when each is asked for again and given up.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::key::Key;

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
