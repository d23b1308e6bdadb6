//! The store, shared by all workers.
//!
//! Handles how entries are spread over shards; each shard is a cache of its own under its own lock,
//! held for a lookup's few hundred nanoseconds, so that workers seldom contend. Values are sealed
//! before and opened after.

use std::collections::hash_map::{DefaultHasher, RandomState};
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zeroize::{Zeroize, Zeroizing};

use crate::blocks::{
    BLOCK_WORDS, Blocks, EntryHeader, KEY_BYTES_MAX, MemoryWords, VALUE_BYTES_MAX,
};
use crate::index::EntryTable;
use crate::memory::{Memory, Options};
use crate::shard::{Counters, FoundEntry, Shard};

/// Most shards. Locks are held for well under a microsecond: even at 100,000 lookups a second over
/// all workers, each of 64 is free 999 times of 1,000.
const SHARDS_MAX: usize = 64;

/// Blocks that one step of a walk inspects: some 10 µs of the caller's time.
const WALK_BLOCKS: usize = 256;

/// Fewest entries of a shard: keys spread unevenly, and a smaller one would fill early.
const SHARD_ENTRIES_MIN: usize = 64;

/// A bounded cache. When it is full, entries that nobody looked up leave first.
///
/// A new store takes over the entries that an earlier one left in its memory. Blocks are zeroed
/// when their entries leave.
#[derive(Debug)]
pub struct MemoryStore {
    options: Options,
    memory: Memory,
    grounds: Box<[ShardMemory]>,
    shards: Box<[Mutex<Shard>]>,
}

/// Memory of one shard's entries. Prefetching it takes no lock.
#[derive(Clone, Debug)]
struct ShardMemory {
    blocks: Blocks,
    table: EntryTable,
}

/// A key that will be looked up.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedEntry(u64);

/// A copy of an entry, for use outside of this host.
#[derive(Debug)]
pub struct StoredEntry {
    pub key: Zeroizing<Vec<u8>>,
    pub value: Zeroizing<Vec<u8>>,
    /// Time since its put.
    pub age: Duration,
}

impl MemoryStore {
    /// Longest key, in bytes.
    pub const KEY_BYTES_MAX: usize = KEY_BYTES_MAX;

    /// Longest value, in bytes.
    pub const VALUE_BYTES_MAX: usize = VALUE_BYTES_MAX;

    /// Creates a store with the valid entries of its memory. Taking over 100,000 entries takes some
    /// milliseconds; values are not opened before they are asked for. In memory that is
    /// [`Memory::in_use`] the store holds nothing before [`Self::take_over`].
    pub fn new(options: Options, memory: Memory, now: Instant) -> Self {
        let blocks = options.blocks();
        let count = shard_count(options.entries_max.min(blocks));
        let mixer = RandomState::new().hash_one(since_ms(memory.zero, now));
        let grounds = grounds(options, &memory, count, mixer);
        let nothing = grounds.iter().map(|_| Mutex::new(Shard::nothing(&memory)));
        let store = Self { shards: nothing.collect(), options, grounds, memory };
        if !store.memory.is_in_use {
            store.take_over(now);
        }
        store
    }

    /// Takes over the valid entries of its memory, and stores new ones there. The previous store
    /// must have let go of it.
    pub fn take_over(&self, now: Instant) {
        let (count, now_ms) = (self.grounds.len(), since_ms(self.memory.zero, now));
        for (index, (ground, shard)) in self.grounds.iter().zip(&self.shards).enumerate() {
            let ShardMemory { blocks, table } = ground.clone();
            let mut shard = lock(shard);
            table.clear();
            let entries = share(self.options.entries_max, count, index).len();
            let is_ours = |hash| shard_index(hash, count) == index;
            let lifetime = self.options.lifetime;
            *shard = Shard::new(entries, lifetime, blocks, table, now_ms, is_ours);
        }
    }

    /// Leaves its memory unchanged to another store: when this returns, the store holds nothing,
    /// accepts nothing, and writes there no more.
    pub fn let_go(&self) {
        self.each_shard().for_each(|mut shard| *shard = Shard::nothing(&self.memory));
    }

    /// Stores a value, replacing an earlier one of that key. `false` if the key is longer than
    /// [`Self::KEY_BYTES_MAX`] or the value is too large.
    ///
    /// The bytes handed over are erased.
    pub fn put(&self, key: &[u8], value: Vec<u8>, now: Instant) -> bool {
        self.store(key, value, now, false)
    }

    /// Stores a value that replaces a found one: it is not on trial.
    pub fn renew(&self, key: &[u8], value: Vec<u8>, now: Instant) -> bool {
        self.store(key, value, now, true)
    }

    fn store(&self, key: &[u8], mut value: Vec<u8>, now: Instant, is_proven: bool) -> bool {
        let (hash, now_ms) = (self.hash(key), since_ms(self.memory.zero, now));
        let whole = with_key(key, &value);
        value.zeroize();
        let sealed = whole.and_then(|mut whole| {
            let sealed = self.memory.seal.seal(&now_ms.to_be_bytes(), &mut whole);
            sealed.map(|sealed| (sealed, whole))
        });
        let Some((sealed, value)) = sealed else {
            return self.shard_of(hash).refuse();
        };
        let mut shard = self.shard_of(hash);
        let is_stored = shard.put(hash, now_ms, sealed, &value);
        if is_stored && is_proven {
            shard.prove_new(hash);
        }
        is_stored
    }

    /// Prefetches the line that a look-up of this key begins with, without waiting for it.
    ///
    /// In a large store most of a look-up is waiting for memory. A caller that knows the key early,
    /// and has other work to do meanwhile, waits for less: [`Self::prefetch`] comes between.
    pub fn expect(&self, key: &[u8]) -> ExpectedEntry {
        let hash = self.hash(key);
        self.grounds[shard_index(hash, self.grounds.len())].table.fetch(hash);
        ExpectedEntry(hash)
    }

    /// Prefetches the entry itself, if there is one; to be called when the line that was prefetched
    /// before may have come, some 300 ns later.
    pub fn prefetch(&self, ExpectedEntry(hash): ExpectedEntry) {
        let ShardMemory { blocks, table } = &self.grounds[shard_index(hash, self.grounds.len())];
        // Without the lock the place may be another entry's by now: then a wrong one is prefetched.
        let place = table.find(hash, |_| true);
        if let Some(slot) = place.and_then(|place| table.slot(place)) {
            blocks.fetch(slot);
        }
    }

    /// Returns a copy of a value, which stays. Zeroing the copy is the caller's task.
    pub fn get(&self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        self.opened(key, now, Shard::get).map(|(_, value)| value)
    }

    /// Removes and returns a value. If several threads take one key, only one gets it.
    pub fn take(&self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        self.take_if(key, now, |_| true)
    }

    /// Takes a value if it `is_wanted`; otherwise it stays, and counts as a hit.
    pub fn take_if(
        &self,
        key: &[u8],
        now: Instant,
        is_wanted: impl FnOnce(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        let (header, mut value) = self.opened(key, now, Shard::peek)?;
        // The value is judged without the lock: another thread may have taken it in the meantime.
        if is_wanted(&value) && self.shard_of(header.hash).take(&header) {
            return Some(value);
        }
        value.zeroize();
        None
    }

    /// Returns a copy of a value and its age, for use outside of this host: no look-up.
    pub fn peek(&self, key: &[u8], now: Instant) -> Option<(Vec<u8>, Duration)> {
        let (hash, now_ms) = (self.hash(key), since_ms(self.memory.zero, now));
        let FoundEntry { header, mut value } = self.shard_of(hash).copy(hash, now_ms)?;
        if !self.open(key, &header, &mut value) {
            value.zeroize();
            return None;
        }
        let age_ms = now_ms.saturating_sub(header.put_at_ms);
        Some((value, Duration::from_millis(age_ms)))
    }

    /// Returns the next entry of a walk through those that are at most `age_max` old: `place`
    /// begins at 0 and is advanced. `None` = the walk is over, `Some(None)` = not found yet. An
    /// entry that is put meanwhile may be passed over.
    pub fn walk(
        &self,
        place: &mut u64,
        age_max: Duration,
        now: Instant,
    ) -> Option<Option<StoredEntry>> {
        let age_max_ms = u64::try_from(age_max.as_millis()).unwrap_or(u64::MAX);
        let now_ms = since_ms(self.memory.zero, now);
        for _ in 0..WALK_BLOCKS {
            let (shard, index) = ((*place >> 32) as usize, *place as u32 as usize);
            let found = lock(self.shards.get(shard)?).copy_at(index, age_max_ms, now_ms);
            *place = match found {
                Some(_) => *place + 1,
                None => (shard as u64 + 1) << 32,
            };
            if let Some(FoundEntry { header, mut value }) = found.flatten()
                && let Some(key) = self.unseal(&header, &mut value)
            {
                let age = Duration::from_millis(now_ms.saturating_sub(header.put_at_ms));
                let value = value.into();
                return Some(Some(StoredEntry { key, value, age }));
            }
        }
        Some(None)
    }

    /// Reports whether a young enough entry exists, without counting a look-up.
    pub fn contains(&self, key: &[u8], now: Instant) -> bool {
        let (hash, now_ms) = (self.hash(key), since_ms(self.memory.zero, now));
        self.shard_of(hash).contains(hash, now_ms)
    }

    /// Drops a value; `false` if there is none.
    pub fn remove(&self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        self.shard_of(hash).forget(hash)
    }

    /// Drops all expired entries. A few leave with each put as well; this is for a store that
    /// nobody puts into, so that secrets do not outlive their time.
    pub fn sweep(&self, now: Instant) {
        let now_ms = since_ms(self.memory.zero, now);
        self.each_shard().for_each(|mut shard| shard.sweep(now_ms));
    }

    pub fn len(&self) -> usize {
        self.each_shard().map(|shard| shard.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sums the counters of all shards, which are read one after the other.
    pub fn counters(&self) -> Counters {
        self.each_shard().map(|shard| shard.counters()).sum()
    }

    fn opened(
        &self,
        key: &[u8],
        now: Instant,
        find: impl Fn(&mut Shard, u64, u64) -> Option<FoundEntry>,
    ) -> Option<(EntryHeader, Vec<u8>)> {
        let (hash, now_ms) = (self.hash(key), since_ms(self.memory.zero, now));
        let FoundEntry { header, mut value } = find(&mut self.shard_of(hash), hash, now_ms)?;
        if !self.open(key, &header, &mut value) {
            self.shard_of(hash).drop_damaged(&header);
            value.zeroize();
            return None;
        }
        Some((header, value))
    }

    /// Decrypts a value in place. `false` if it is damaged, or another key's.
    fn open(&self, key: &[u8], header: &EntryHeader, value: &mut Vec<u8>) -> bool {
        self.unseal(header, value).is_some_and(|own| **own == *key)
    }

    /// Decrypts a value in place, and returns its key.
    fn unseal(&self, header: &EntryHeader, value: &mut Vec<u8>) -> Option<Zeroizing<Vec<u8>>> {
        let additional = header.put_at_ms.to_be_bytes();
        if !self.memory.seal.open(&additional, header.sealed, value) {
            value.zeroize();
            return None;
        }
        let key_bytes = usize::from(value.pop()?);
        let key = value.split_off(value.len().checked_sub(key_bytes)?);
        Some(key.into())
    }

    /// Hashes a key with a secret, so that nobody can choose keys that collide.
    fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.memory.hash_key);
        hasher.write(key);
        hasher.finish()
    }

    fn shard_of(&self, hash: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[shard_index(hash, self.shards.len())])
    }

    fn each_shard(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.iter().map(lock)
    }
}

/// Returns the bytes to be sealed: the value followed by the key, so that a walk finds it. `None`
/// if one of them is too long.
fn with_key(key: &[u8], value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let is_short = key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX;
    let key_bytes = u8::try_from(key.len()).ok().filter(|_| is_short)?;
    // The buffer never grows, so that no copy stays behind.
    let mut whole = Zeroizing::new(Vec::with_capacity(value.len() + key.len() + 1));
    whole.extend_from_slice(value);
    whole.extend_from_slice(key);
    whole.push(key_bytes);
    Some(whole)
}

/// Locks a shard. A panic in the lock ends the process; in a test it must not hide the first.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shard_count(entries_max: usize) -> usize {
    let wanted = (entries_max / SHARD_ENTRIES_MIN).clamp(1, SHARDS_MAX);
    1 << wanted.ilog2()
}

/// Divides the memory into parts, one a shard, each with a table for its entries.
fn grounds(options: Options, memory: &Memory, count: usize, mixer: u64) -> Box<[ShardMemory]> {
    let blocks = |index| share(options.blocks(), count, index);
    let table_words = |index| {
        let entries = share(options.entries_max, count, index).len();
        EntryTable::words_for(entries.min(blocks(index).len()))
    };
    let machine = memory.machine;
    let tables = (machine.words)((0..count).map(table_words).sum());
    let mut end = 0;
    let ground = |index| {
        let Range { start, end: last } = blocks(index);
        let words = start * BLOCK_WORDS..last * BLOCK_WORDS;
        let table = end..end + table_words(index);
        end = table.end;
        ShardMemory {
            blocks: Blocks::new(MemoryWords::new(memory.words.clone(), words, machine)),
            table: EntryTable::new(MemoryWords::new(tables.clone(), table, machine), mixer),
        }
    };
    (0..count).map(ground).collect()
}

/// Returns a hash's shard, from its high half; all of it, mixed, chooses the table's line.
fn shard_index(hash: u64, count: usize) -> usize {
    (hash >> 32) as usize & (count - 1)
}

/// Returns one of `count` parts of a whole. The first parts take the remainder of the division.
fn share(whole: usize, count: usize, index: usize) -> Range<usize> {
    let start = |index: usize| index * (whole / count) + index.min(whole % count);
    start(index)..start(index + 1)
}

/// Returns a time in the unit of entries: milliseconds since `zero`.
fn since_ms(zero: Instant, now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(zero).as_millis()).unwrap_or(u64::MAX)
}
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use super::*;
    use crate::blocks::MachineWords;
    use crate::memory::BLOCK_COST_BYTES;
    use crate::tiers::weak_cipher::WeakCipher;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};

    const HOUR: Duration = Duration::from_secs(3600);

    fn options(entries_max: usize) -> Options {
        Options { entries_max, bytes_max: 1 << 30, lifetime: HOUR }
    }

    /// Allocates memory for one store, or for two, one after the other.
    fn memory_of(options: Options, zero: Instant) -> Memory {
        let cipher = Arc::new(WeakCipher::default());
        Memory::private(options, cipher, MachineWords::default(), zero)
    }

    fn with(options: Options, now: Instant) -> MemoryStore {
        MemoryStore::new(options, memory_of(options, now), now)
    }

    fn store(entries_max: usize) -> MemoryStore {
        let few = Options { bytes_max: entries_max * 2 * BLOCK_COST_BYTES, ..options(entries_max) };
        with(few, Instant::now())
    }

    #[test]
    fn of_two_stores_in_one_memory_one_holds_what_is_there() {
        let (options, now) = (options(1000), Instant::now());
        let memory = memory_of(options, now);
        let first = MemoryStore::new(options, memory.clone(), now);
        assert!(first.put(b"before", b"a".to_vec(), now));
        let second = MemoryStore::new(options, memory.in_use(), now);
        assert!(!second.put(b"early", b"x".to_vec(), now));
        assert!(first.put(b"meanwhile", b"b".to_vec(), now));
        assert_eq!((first.len(), second.len()), (2, 0));
        first.let_go();
        second.take_over(now);
        assert!(!first.put(b"late", b"x".to_vec(), now));
        assert_eq!(first.take(b"before", now), None);
        assert_eq!(second.take(b"before", now).as_deref(), Some(&b"a"[..]));
        assert_eq!(second.get(b"meanwhile", now).as_deref(), Some(&b"b"[..]));
        // The other direction: the second store has failed.
        second.let_go();
        first.take_over(now);
        assert_eq!(first.get(b"before", now), None, "it was taken");
        assert_eq!(first.get(b"meanwhile", now).as_deref(), Some(&b"b"[..]));
        assert_eq!((first.len(), second.len()), (1, 0));
    }

    /// Returns all entries of the store, found in steps.
    fn walked(store: &MemoryStore, age_max: Duration, now: Instant) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut place = 0;
        let steps = std::iter::from_fn(|| store.walk(&mut place, age_max, now));
        let found = steps.flatten().map(|one| (one.key.to_vec(), one.value.to_vec()));
        let mut found: Vec<_> = found.collect();
        found.sort();
        found
    }

    #[test]
    fn a_walk_finds_each_entry_once_with_its_key_and_no_older_one() {
        let (limits, now) = (options(1000), Instant::now());
        let memory = memory_of(limits, now);
        let store = MemoryStore::new(limits, memory.clone(), now);
        let later = now + Duration::from_secs(10);
        let mut all = Vec::new();
        for number in 0..900u32 {
            // Some entries take several blocks, and some leave free ones behind.
            let (key, value) = (number.to_be_bytes().to_vec(), vec![number as u8; 600]);
            assert!(store.put(&key, value.clone(), if number < 300 { now } else { later }));
            if number % 3 == 0 {
                store.remove(&key);
            } else {
                all.push((key, value));
            }
        }
        assert_eq!(walked(&store, Duration::MAX, later), all);
        assert_eq!(walked(&store, Duration::from_secs(1), later), all[200..]);
        assert_eq!(walked(&store, Duration::MAX, later + HOUR), []);
        // A second process finds the entries in its memory.
        store.let_go();
        assert_eq!(walked(&store, Duration::MAX, later), []);
        let next = MemoryStore::new(limits, memory, later);
        assert_eq!(walked(&next, Duration::MAX, later), all);
    }

    #[test]
    fn the_shards_share_the_limits_exactly() {
        for entries_max in [0, 1, 63, 64, 130, 4096, 5000, 100_000] {
            let store = store(entries_max);
            let (entries, blocks): (Vec<_>, Vec<_>) =
                store.each_shard().map(|shard| shard.limits()).unzip();
            let sums: [usize; 2] = [entries.iter().sum(), blocks.iter().sum()];
            assert_eq!(sums, [entries_max, 2 * entries_max]);
            assert!(store.shards.len().is_power_of_two());
        }
        assert_eq!(store(100_000).shards.len(), 64);
        assert_eq!(store(100).shards.len(), 1);
    }

    #[test]
    fn a_full_store_stays_at_its_limits() {
        let now = Instant::now();
        let limits = Options { bytes_max: 100_000, ..options(1000) };
        let store = with(limits, now);
        for number in 0..10_000u32 {
            assert!(store.put(&number.to_be_bytes(), vec![1; 180], now));
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
        let now = Instant::now();
        let store = with(options(9), now);
        assert!(store.put(&[7; MemoryStore::KEY_BYTES_MAX], vec![1], now));
        assert!(!store.put(&[7; MemoryStore::KEY_BYTES_MAX + 1], vec![1], now));
        assert!(store.put(b"k", vec![1; MemoryStore::VALUE_BYTES_MAX], now));
        assert!(!store.put(b"k", vec![1; MemoryStore::VALUE_BYTES_MAX + 1], now));
        assert_eq!(store.counters().refusals, 2);
        assert!(!self::store(0).put(b"k", vec![1], now));
        assert_eq!(self::store(0).get(b"k", now), None);
    }

    #[test]
    fn a_look_for_others_counts_nothing_and_what_came_older_ends_earlier() {
        let (store, start) = (store(100), Instant::now() + HOUR);
        assert!(store.put(b"k", vec![7; 300], start - HOUR / 2));
        let before = store.counters();
        let found = store.peek(b"k", start);
        assert_eq!(found, Some((vec![7; 300], HOUR / 2)));
        assert!(store.contains(b"k", start) && !store.contains(b"l", start));
        let end = start + HOUR / 2;
        assert!(!store.contains(b"k", end) && store.peek(b"k", end).is_none());
        assert_eq!(store.counters(), before);
        assert!(store.remove(b"k") && !store.remove(b"k"));
        assert_eq!(store.len(), 0);
    }

    #[test]
    fn a_sweep_leaves_only_what_is_young() {
        let store = store(1000);
        let start = Instant::now();
        let fill = |numbers: Range<u32>, now| {
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
        // The shared part fits without evictions: fewer than a shard's 62 or 63 entries.
        let shared: Vec<[u8; 2]> = (0..20).map(|number| [b's', number]).collect();
        for key in &shared {
            assert!(store.put(key, vec![0; 10], now));
        }
        let work = |thread: u8| {
            barrier.wait();
            for key in &shared {
                takes.fetch_add(usize::from(store.take(key, now).is_some()), Ordering::Relaxed);
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
        assert_eq!(counters.misses_damaged, 0);
        let lookups = usize::from(THREADS) * (KEYS as usize + shared.len());
        assert_eq!(counters.hits + counters.misses_unknown, lookups as u64);
    }

    /// Limits for sixty entries in as few blocks as the tests below take.
    fn small() -> Options {
        Options { bytes_max: 150 * BLOCK_COST_BYTES, ..options(60) }
    }

    fn words(memory: &Memory) -> &[AtomicU64] {
        (*memory.words).as_ref()
    }

    #[test]
    fn a_successor_has_all_that_was_there_and_still_is_young() {
        let (start, limits) = (Instant::now(), options(1000));
        let memory = memory_of(limits, start);
        let first = MemoryStore::new(limits, memory.clone(), start);
        for number in 0..1000u32 {
            let value = vec![number as u8; number as usize % 700];
            let time = start + HOUR / 1000 * number;
            assert!(first.put(&number.to_be_bytes(), value, time));
        }
        let taken = first.take(&999u32.to_be_bytes(), start + HOUR / 2);
        let held = first.len() as u64;
        assert!(taken.is_some());
        drop(first);
        let now = start + HOUR + HOUR / 2;
        let second = MemoryStore::new(limits, memory, now);
        let found = (0..1000u32).filter(|number| {
            let value = second.get(&number.to_be_bytes(), now);
            value == Some(vec![*number as u8; *number as usize % 700])
        });
        assert_eq!(found.count() as u64, second.counters().recovered);
        assert_eq!(second.counters().misses_damaged, 0);
        // Some shards were full, and dropped entries.
        let recovered = second.counters().recovered;
        assert!(recovered > held - 520 && recovered <= 499, "{recovered} of {held}");
    }

    #[test]
    fn a_successor_goes_on_where_the_memory_ends() {
        let (now, limits) = (Instant::now(), options(200));
        let memory = memory_of(limits, now);
        for round in 0..20u8 {
            let store = MemoryStore::new(limits, memory.clone(), now);
            let before = store.len();
            assert_eq!(store.counters().recovered, before as u64);
            for number in 0..30u8 {
                let size = usize::from(number) * 40;
                assert!(store.put(&[round, number], vec![round; size], now));
                assert_eq!(store.get(&[round, number], now), Some(vec![round; size]));
            }
        }
        assert!(MemoryStore::new(limits, memory, now).len() > 150);
    }

    #[test]
    fn a_changed_word_loses_one_entry_and_never_gives_another_value() {
        let (now, limits) = (Instant::now(), small());
        let memory = memory_of(limits, now);
        let store = MemoryStore::new(limits, memory.clone(), now);
        for number in 0..40u8 {
            assert!(store.put(&[number], vec![number; usize::from(number) * 20], now));
        }
        let used = words(&memory).iter().rposition(|word| word.load(Ordering::Relaxed) != 0);
        drop(store);
        for index in 0..=used.expect("there are entries") {
            let word = &words(&memory)[index];
            let before: Vec<_> =
                words(&memory).iter().map(|one| one.load(Ordering::Relaxed)).collect();
            word.fetch_xor(1 << (index % 64), Ordering::Relaxed);
            let store = MemoryStore::new(limits, memory.clone(), now);
            let found = (0..40u8).filter(|number| {
                let found = store.get(&[*number], now);
                let wanted = vec![*number; usize::from(*number) * 20];
                assert!(found.is_none() || found == Some(wanted));
                found.is_some()
            });
            assert!(found.count() >= 38, "word {index}");
            drop(store);
            for (word, before) in words(&memory).iter().zip(before) {
                word.store(before, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn nothing_readable_is_in_the_memory_and_nothing_at_all_when_it_has_gone() {
        let (now, limits) = (Instant::now(), options(60));
        let memory = memory_of(limits, now);
        let store = MemoryStore::new(limits, memory.clone(), now);
        let secret = b"masterkymasterky".repeat(40);
        assert!(store.put(b"key", secret.clone(), now));
        let bytes = |memory: &Memory| -> Vec<u8> {
            let all = words(memory).iter();
            all.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect()
        };
        assert!(!bytes(&memory).windows(8).any(|window| window == b"masterky"));
        assert_eq!(store.take(b"key", now), Some(secret));
        let left = bytes(&memory).iter().filter(|byte| **byte != 0).count();
        // Two bytes of a mark in each of three blocks.
        assert_eq!(left, 6);
    }

    /// Regular clients come back, among ten times as many new ones as the store can hold that never
    /// do. The regular clients that still resume show how much a flood can displace.
    #[test]
    fn a_flood_of_new_sessions_washes_none_of_the_regular_clients_out() {
        const ENTRIES: u32 = 20_000;
        const REGULARS: u32 = ENTRIES / 2;
        let (now, store) = (Instant::now(), store(ENTRIES as usize));
        let visit = |number: u32| store.get(&number.to_be_bytes(), now).is_some();
        for number in 0..REGULARS {
            assert!(store.put(&number.to_be_bytes(), vec![1; 110], now));
            assert!(visit(number));
        }
        let mut newcomers = REGULARS..;
        for _ in 0..10 {
            for number in newcomers.by_ref().take(ENTRIES as usize) {
                assert!(store.put(&number.to_be_bytes(), vec![2; 110], now));
            }
            assert_eq!((0..REGULARS).filter(|number| visit(*number)).count(), REGULARS as usize);
        }
        // A new client's session survives half as many other new ones as the room left to them: two
        // in five entries, less the difference of the shards' shares.
        let late = newcomers.next().expect("there are numbers left");
        assert!(store.put(&late.to_be_bytes(), vec![2; 110], now));
        for number in newcomers.take(ENTRIES as usize / 4) {
            assert!(store.put(&number.to_be_bytes(), vec![2; 110], now));
        }
        assert!(visit(late));
    }

    #[test]
    fn a_renewed_value_is_not_on_trial() {
        let (store, now) = (store(100), Instant::now());
        let renewed: Vec<_> = (0..20u8).map(|number| [b'r', number]).collect();
        for key in &renewed {
            assert!(store.renew(key, vec![1; 110], now));
        }
        for number in 0..1000u32 {
            assert!(store.put(&number.to_be_bytes(), vec![2; 110], now));
        }
        assert!(renewed.iter().all(|key| store.take(key, now).is_some()));
        assert!(!store.renew(&[7; MemoryStore::KEY_BYTES_MAX + 1], vec![1], now));
    }

    #[test]
    fn what_is_not_wanted_stays_and_what_is_leaves_once() {
        let (store, now) = (store(100), Instant::now());
        assert!(store.put(b"k", vec![7; 300], now));
        assert_eq!(store.take_if(b"k", now, |value| value != [7; 300]), None);
        assert_eq!(store.len(), 1);
        let taken = store.take_if(b"k", now, |value| value == [7; 300]);
        assert_eq!(taken, Some(vec![7; 300]));
        assert_eq!(store.take_if(b"k", now, |_| panic!("nothing is there")), None);
        let counters = store.counters();
        assert_eq!((counters.hits, counters.misses_unknown), (2, 1));
    }

    #[test]
    fn what_another_takes_or_replaces_while_it_is_judged_is_not_had_twice() {
        let (store, now) = (store(100), Instant::now());
        assert!(store.put(b"k", vec![1], now));
        let mut others = None;
        let judge = |_: &[u8]| {
            others = store.take(b"k", now);
            assert!(store.put(b"k", vec![2], now));
            true
        };
        assert_eq!(store.take_if(b"k", now, judge), None);
        assert_eq!(others, Some(vec![1]));
        assert_eq!(store.take(b"k", now), Some(vec![2]));
        let counters = store.counters();
        assert_eq!((counters.hits, counters.misses_unknown), (2, 1));
    }

    thread_local! {
        /// Address and number of the prefetched words.
        static FETCHED: Cell<Vec<(usize, usize)>> = const { Cell::new(Vec::new()) };
    }

    #[test]
    fn of_what_is_expected_the_line_and_then_the_entry_are_fetched() {
        let machine = MachineWords {
            fetch: |words| {
                let mut all = FETCHED.take();
                all.push((words.as_ptr().addr(), words.len()));
                FETCHED.set(all);
            },
            ..MachineWords::default()
        };
        let now = Instant::now();
        let memory = memory_of(options(1000), now).on(machine);
        let blocks = words(&memory).as_ptr_range();
        let blocks = blocks.start.addr()..blocks.end.addr();
        let store = MemoryStore::new(options(1000), memory, now);
        for number in 0..100u32 {
            assert!(store.put(&number.to_be_bytes(), vec![1; 100], now));
        }
        for number in 0..100u32 {
            FETCHED.take();
            let expected = store.expect(&number.to_be_bytes());
            let line = FETCHED.take();
            assert!(line.len() == 1 && !blocks.contains(&line[0].0), "{line:?}");
            store.prefetch(expected);
            let entry = FETCHED.take();
            assert!(store.get(&number.to_be_bytes(), now).is_some());
            // The look-up itself prefetches the same, too late for much.
            assert_eq!(entry, FETCHED.take());
            assert!(entry.len() == 1 && blocks.contains(&entry[0].0), "{entry:?}");
        }
        store.prefetch(store.expect(b"unknown"));
        assert!(FETCHED.take().iter().all(|one| !blocks.contains(&one.0)));
    }
}
