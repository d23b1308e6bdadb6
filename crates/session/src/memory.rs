//! The store in this process's memory, shared by all workers.
//!
//! Owns how entries are spread over shards; each shard is a cache of its own under its own lock,
//! held for a lookup's few hundred nanoseconds, so workers seldom meet.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zeroize::{Zeroize, Zeroizing};

use crate::shard::{self, Key, Shard};

/// Locks are held for well under a microsecond: even at 100,000 lookups a second over all workers,
/// each of 64 is free 999 times of 1,000.
const SHARDS_MAX: usize = 64;

/// A shard of fewer entries would be full while others are empty: keys do not spread evenly.
const SHARD_ENTRIES_MIN: usize = 64;

/// What a store is told at start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    /// Entries it may hold; 0 = it holds nothing.
    pub entries_max: usize,
    /// Bytes its entries may take, keys and bookkeeping among them.
    pub bytes_max: usize,
    /// How long an entry may be used after it was put.
    pub lifetime: Duration,
}

/// What a store holds and has done since its start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Entries held, expired ones that nobody has noticed among them.
    pub entries: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Lookups that found their entry.
    pub hits: u64,
    /// Lookups whose entry was too old.
    pub misses_expired: u64,
    /// Lookups of a key that is not here: never was, was evicted, or was swept away.
    pub misses_unknown: u64,
    /// Entries that left before their time, to make room.
    pub evictions: u64,
    /// Puts refused: a key or a value too large.
    pub refusals: u64,
}

/// A bounded cache. When it is full, what nobody looked up since last time leaves first (CLOCK).
/// Values are overwritten with zeros when they leave.
#[derive(Debug)]
pub struct MemoryStore {
    hashes: RandomState,
    shards: Box<[Mutex<Shard>]>,
}

impl MemoryStore {
    /// The longest key, in bytes.
    pub const KEY_BYTES_MAX: usize = shard::KEY_BYTES_MAX;

    /// An empty store. Memory for entries is taken as they come.
    pub fn new(options: Options) -> Self {
        let count = shard_count(options.entries_max);
        let shard = |index: usize| {
            // The first ones take what the division leaves over.
            let entries =
                options.entries_max / count + usize::from(index < options.entries_max % count);
            let bytes = options.bytes_max / count;
            Mutex::new(Shard::new(entries, bytes, options.lifetime))
        };
        Self {
            hashes: RandomState::new(),
            shards: (0..count).map(shard).collect(),
        }
    }

    /// Stores a value, in the place of an earlier one of that key. `false` if the key is longer
    /// than [`Self::KEY_BYTES_MAX`] or the value is too large for its share of the bytes.
    ///
    /// The bytes handed over are zeroed: the store keeps a copy of exactly their length.
    pub fn put(&self, key: &[u8], mut value: Vec<u8>, now: Instant) -> bool {
        let stored = Zeroizing::new(Box::from(value.as_slice()));
        value.zeroize();
        let (hash, mut shard) = self.shard_of(key);
        match Key::new(key) {
            Some(key) => shard.put(hash, key, stored, now),
            None => shard.refuse(),
        }
    }

    /// A copy of a value; it stays. Zeroing the copy is for the caller.
    pub fn get(&self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        let (hash, mut shard) = self.shard_of(key);
        shard.get(hash, key, now).map(<[u8]>::to_vec)
    }

    /// A value; it leaves. Of several threads that take one key, one has it.
    pub fn take(&self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        let (hash, mut shard) = self.shard_of(key);
        let mut value = shard.take(hash, key, now)?;
        Some(std::mem::take(&mut *value).into_vec())
    }

    /// Drops all that is too old. A few old ones leave with each put as well; this is for a
    /// store that nobody puts into, so that secrets do not outlive their time.
    pub fn sweep(&self, now: Instant) {
        self.each_shard().for_each(|mut shard| shard.sweep(now));
    }

    /// Entries held.
    pub fn len(&self) -> usize {
        self.each_shard().map(|shard| shard.len()).sum()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it holds and has done. The shards are read one after the other.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for shard in self.each_shard() {
            let counts = shard.counts();
            sum.entries += shard.len() as u64;
            sum.bytes += shard.bytes() as u64;
            sum.hits += counts.hits;
            sum.misses_expired += counts.misses_expired;
            sum.misses_unknown += counts.misses_unknown;
            sum.evictions += counts.evictions;
            sum.refusals += counts.refusals;
        }
        sum
    }

    fn shard_of(&self, key: &[u8]) -> (u32, MutexGuard<'_, Shard>) {
        let hash = self.hashes.hash_one(key);
        // The count is a power of two; the high half chooses the shard, the low half the bucket.
        let index = (hash >> 32) as usize & (self.shards.len() - 1);
        (hash as u32, lock(&self.shards[index]))
    }

    fn each_shard(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.iter().map(lock)
    }
}

/// A panic under the lock ends the process, and a test's must not hide the first one.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A power of two.
fn shard_count(entries_max: usize) -> usize {
    let wanted = (entries_max / SHARD_ENTRIES_MIN).clamp(1, SHARDS_MAX);
    1 << wanted.ilog2()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const HOUR: Duration = Duration::from_secs(3600);

    fn store(entries_max: usize) -> MemoryStore {
        MemoryStore::new(Options {
            entries_max,
            bytes_max: 1 << 30,
            lifetime: HOUR,
        })
    }

    #[test]
    fn the_shards_share_the_limit_exactly() {
        for entries_max in [0, 1, 63, 64, 130, 4096, 5000, 100_000] {
            let store = store(entries_max);
            let limits = store.each_shard().map(|shard| shard.entries_max());
            assert_eq!(limits.sum::<usize>(), entries_max);
            assert!(store.shards.len().is_power_of_two());
        }
        assert_eq!(store(100_000).shards.len(), 64);
        assert_eq!(store(100).shards.len(), 1);
    }

    #[test]
    fn a_full_store_stays_at_its_limits() {
        let options = Options {
            entries_max: 1000,
            bytes_max: 100_000,
            lifetime: HOUR,
        };
        let store = MemoryStore::new(options);
        let now = Instant::now();
        for number in 0..10_000u32 {
            assert!(store.put(&number.to_be_bytes(), vec![1; 200], now));
            assert!(store.get(&number.to_be_bytes(), now).is_some());
        }
        let counters = store.counters();
        assert!(counters.bytes <= 100_000);
        assert!(counters.entries <= 1000 && counters.entries > 200);
        assert_eq!(counters.evictions, 10_000 - counters.entries);
        assert_eq!(counters.hits, 10_000);
    }

    #[test]
    fn what_is_too_large_is_refused_and_counted() {
        let store = MemoryStore::new(Options {
            entries_max: 9,
            bytes_max: 1000,
            lifetime: HOUR,
        });
        let now = Instant::now();
        assert!(store.put(&[7; MemoryStore::KEY_BYTES_MAX], vec![1], now));
        assert!(!store.put(&[7; MemoryStore::KEY_BYTES_MAX + 1], vec![1], now));
        assert!(!store.put(b"k", vec![1; 1001], now));
        assert_eq!(store.counters().refusals, 2);
        assert!(!self::store(0).put(b"k", vec![1], now));
    }

    #[test]
    fn a_sweep_leaves_only_what_is_young() {
        let store = store(1000);
        let start = Instant::now();
        let fill = |numbers: std::ops::Range<u32>, now| {
            numbers.for_each(|number| assert!(store.put(&number.to_be_bytes(), vec![2], now)));
        };
        fill(0..300, start);
        fill(300..400, start + HOUR / 2);
        store.sweep(start + HOUR);
        assert_eq!(store.len(), 100);
        store.sweep(start + 2 * HOUR);
        assert!(store.is_empty());
        assert_eq!(store.counters().bytes, 0);
        assert_eq!(store.counters().evictions, 0);
    }

    #[test]
    fn of_many_threads_exactly_one_takes_a_value_and_none_sees_a_torn_one() {
        const THREADS: u8 = 8;
        const KEYS: u32 = 2000;
        let store = store(500);
        let (takes, barrier) = (AtomicUsize::new(0), Barrier::new(usize::from(THREADS)));
        let now = Instant::now();
        // The shared part fits without evictions: less than a shard's 62 or 63 can hold.
        let shared: Vec<[u8; 2]> = (0..20).map(|number| [b's', number]).collect();
        for key in &shared {
            assert!(store.put(key, vec![0; 10], now));
        }
        let work = |thread: u8| {
            barrier.wait();
            for key in &shared {
                takes.fetch_add(
                    usize::from(store.take(key, now).is_some()),
                    Ordering::Relaxed,
                );
            }
            for number in 0..KEYS {
                let key = (number % 700).to_be_bytes();
                store.put(&key, vec![thread; 50 + usize::from(thread)], now);
                if let Some(value) = store.get(&key, now) {
                    let writer = value[0];
                    assert_eq!(value, vec![writer; 50 + usize::from(writer)]);
                }
            }
        };
        std::thread::scope(|scope| {
            (0..THREADS).for_each(|thread| {
                scope.spawn(move || work(thread));
            });
        });
        assert_eq!(takes.into_inner(), shared.len());
        let counters = store.counters();
        assert!(counters.entries <= 500);
        let lookups = usize::from(THREADS) * (KEYS as usize + shared.len());
        assert_eq!(counters.hits + counters.misses_unknown, lookups as u64);
    }
}
