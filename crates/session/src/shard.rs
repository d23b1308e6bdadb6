//! One shard of the store: a hash table, a queue by age and a clock hand, over one array.
//!
//! Owns the bounds and who leaves. All entries live equally long, so the queue in the order of
//! puts is the order of expiry too; a lookup only marks its entry as used and moves nothing.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

/// A TLS session id has 32 bytes at most (RFC 5246, 7.4.1.2); as much again is for the caller's
/// prefix.
pub(crate) const KEY_BYTES_MAX: usize = 64;

/// Old entries dropped by one put: more than one, so that they go faster than new ones come, but
/// few, because the lock is held.
const EXPIRED_PER_PUT: usize = 4;

/// What the allocator adds to a value, and a bucket.
const VALUE_OVERHEAD_BYTES: usize = 16;

// With a value of 200 bytes an entry takes under 350.
const _: () = assert!(size_of::<Entry>() <= 120);

/// Bytes that are zeroed when they go.
pub(crate) type Value = Zeroizing<Box<[u8]>>;

/// A key, held inline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    bytes: [u8; KEY_BYTES_MAX],
    length: u8,
}

impl Key {
    /// `None` if it is too long.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        Some(Self {
            bytes,
            length: key.len() as u8,
        })
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// What a shard has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) misses_expired: u64,
    pub(crate) misses_unknown: u64,
    pub(crate) evictions: u64,
    pub(crate) refusals: u64,
}

/// A place in the array, counted from 1: so that "none" takes no room.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Slot(NonZeroU32);

impl Slot {
    fn new(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("a shard has fewer than 2^32 entries"))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[derive(Debug)]
struct Entry {
    value: Value,
    put_at: Instant,
    bucket: u32,
    /// The next one in the same bucket.
    chained: Option<Slot>,
    older: Option<Slot>,
    /// In the queue by age, or among the free ones.
    newer: Option<Slot>,
    key: Key,
    /// Looked up since the hand last came by.
    is_used: bool,
}

/// A bounded cache; not shared.
#[derive(Debug)]
pub(crate) struct Shard {
    entries_max: usize,
    bytes_max: usize,
    lifetime: Duration,
    entries: Vec<Entry>,
    /// As many as a power of two; none if the shard may hold nothing.
    buckets: Vec<Option<Slot>>,
    free: Option<Slot>,
    oldest: Option<Slot>,
    newest: Option<Slot>,
    /// Where the search for somebody to evict goes on; `None` = at the oldest.
    hand: Option<Slot>,
    len: usize,
    bytes: usize,
    counts: Counts,
}

impl Shard {
    pub(crate) fn new(entries_max: usize, bytes_max: usize, lifetime: Duration) -> Self {
        let buckets = entries_max.checked_next_power_of_two().unwrap_or(0);
        Self {
            entries_max,
            bytes_max,
            lifetime,
            entries: Vec::new(),
            buckets: vec![None; buckets],
            free: None,
            oldest: None,
            newest: None,
            hand: None,
            len: 0,
            bytes: 0,
            counts: Counts::default(),
        }
    }

    pub(crate) fn put(&mut self, hash: u32, key: Key, value: Value, now: Instant) -> bool {
        let cost = cost_of(&value);
        if cost > self.bytes_max || self.entries_max == 0 {
            return self.refuse();
        }
        if let Some(slot) = self.find(hash, key.as_slice()) {
            self.remove(slot);
        }
        self.expire(now, EXPIRED_PER_PUT);
        while self.len == self.entries_max || self.bytes + cost > self.bytes_max {
            self.evict();
        }
        // The workers' clocks were read before the lock: keep the queue in order.
        let put_at = self
            .newest
            .map_or(now, |slot| now.max(self.entry(slot).put_at));
        self.insert(hash, key, value, put_at);
        true
    }

    /// Counts a put that cannot be.
    pub(crate) fn refuse(&mut self) -> bool {
        self.counts.refusals += 1;
        false
    }

    pub(crate) fn get(&mut self, hash: u32, key: &[u8], now: Instant) -> Option<&[u8]> {
        let slot = self.look_up(hash, key, now)?;
        let entry = self.entry_mut(slot);
        entry.is_used = true;
        Some(&entry.value)
    }

    pub(crate) fn take(&mut self, hash: u32, key: &[u8], now: Instant) -> Option<Value> {
        let slot = self.look_up(hash, key, now)?;
        Some(self.remove(slot))
    }

    pub(crate) fn sweep(&mut self, now: Instant) {
        self.expire(now, usize::MAX);
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    #[cfg(test)]
    pub(crate) fn entries_max(&self) -> usize {
        self.entries_max
    }

    /// Finds an entry that is young enough, and counts.
    fn look_up(&mut self, hash: u32, key: &[u8], now: Instant) -> Option<Slot> {
        let Some(slot) = self.find(hash, key) else {
            self.counts.misses_unknown += 1;
            return None;
        };
        if self.is_expired(slot, now) {
            self.counts.misses_expired += 1;
            self.remove(slot);
            return None;
        }
        self.counts.hits += 1;
        Some(slot)
    }

    fn find(&self, hash: u32, key: &[u8]) -> Option<Slot> {
        let mut next = *self.buckets.get(self.bucket_of(hash))?;
        while let Some(slot) = next {
            let entry = self.entry(slot);
            if entry.key.as_slice() == key {
                return Some(slot);
            }
            next = entry.chained;
        }
        None
    }

    fn is_expired(&self, slot: Slot, now: Instant) -> bool {
        now.saturating_duration_since(self.entry(slot).put_at) >= self.lifetime
    }

    fn expire(&mut self, now: Instant, count_max: usize) {
        for _ in 0..count_max {
            match self.oldest {
                Some(slot) if self.is_expired(slot, now) => self.remove(slot),
                _ => return,
            };
        }
    }

    /// The hand walks from old to new and spares, once, whoever was used (CLOCK, Corbató 1968).
    fn evict(&mut self) {
        loop {
            let Some(slot) = self.hand.or(self.oldest) else {
                return;
            };
            let entry = self.entry_mut(slot);
            if !entry.is_used {
                self.remove(slot);
                self.counts.evictions += 1;
                return;
            }
            entry.is_used = false;
            self.hand = entry.newer;
        }
    }

    fn insert(&mut self, hash: u32, key: Key, value: Value, put_at: Instant) {
        let bucket = self.bucket_of(hash);
        self.bytes += cost_of(&value);
        self.len += 1;
        let slot = self.place(Entry {
            value,
            put_at,
            bucket: bucket as u32,
            chained: self.buckets[bucket],
            older: self.newest,
            newer: None,
            key,
            is_used: false,
        });
        self.buckets[bucket] = Some(slot);
        match self.newest.replace(slot) {
            Some(before) => self.entry_mut(before).newer = Some(slot),
            None => self.oldest = Some(slot),
        }
    }

    /// Takes a free place, or a new one.
    fn place(&mut self, entry: Entry) -> Slot {
        if let Some(slot) = self.free {
            self.free = self.entry(slot).newer;
            *self.entry_mut(slot) = entry;
            return slot;
        }
        if self.entries.len() == self.entries.capacity() {
            // By halves and never past the limit: a doubled array would waste as much again.
            let step = (self.entries.len() / 2).max(8);
            let room = self.entries_max - self.entries.len();
            self.entries.reserve_exact(step.min(room));
        }
        self.entries.push(entry);
        Slot::new(self.entries.len() - 1)
    }

    fn remove(&mut self, slot: Slot) -> Value {
        self.unchain(slot);
        self.unqueue(slot);
        let free = self.free.replace(slot);
        let entry = self.entry_mut(slot);
        entry.newer = free;
        let value = std::mem::take(&mut entry.value);
        self.bytes -= cost_of(&value);
        self.len -= 1;
        value
    }

    fn unchain(&mut self, slot: Slot) {
        let Entry {
            bucket, chained, ..
        } = *self.entry(slot);
        let mut before = None;
        let mut next = self.buckets[bucket as usize];
        while let Some(one) = next.filter(|one| *one != slot) {
            before = next;
            next = self.entry(one).chained;
        }
        match before {
            Some(before) => self.entry_mut(before).chained = chained,
            None => self.buckets[bucket as usize] = chained,
        }
    }

    fn unqueue(&mut self, slot: Slot) {
        let Entry { older, newer, .. } = *self.entry(slot);
        match older {
            Some(older) => self.entry_mut(older).newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.entry_mut(newer).older = older,
            None => self.newest = older,
        }
        if self.hand == Some(slot) {
            self.hand = newer;
        }
    }

    fn bucket_of(&self, hash: u32) -> usize {
        hash as usize & self.buckets.len().wrapping_sub(1)
    }

    fn entry(&self, slot: Slot) -> &Entry {
        &self.entries[slot.index()]
    }

    fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[slot.index()]
    }
}

/// What an entry takes of the bytes allowed.
fn cost_of(value: &Value) -> usize {
    size_of::<Entry>() + VALUE_OVERHEAD_BYTES + value.len()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIFETIME: Duration = Duration::from_secs(100);

    /// The same cache, told as plainly as can be: a list from old to new.
    struct Model {
        entries_max: usize,
        bytes_max: usize,
        entries: Vec<(u8, Vec<u8>, Instant, bool)>,
        hand: usize,
        counts: [u64; 5],
    }

    impl Model {
        fn bytes(&self) -> usize {
            let cost = |value: &Vec<u8>| cost_of(&Value::new(value.clone().into()));
            self.entries.iter().map(|(_, value, ..)| cost(value)).sum()
        }

        fn drop_at(&mut self, index: usize) -> Vec<u8> {
            self.hand -= usize::from(index < self.hand);
            let (_, value, ..) = self.entries.remove(index);
            self.hand %= self.entries.len().max(1);
            value
        }

        fn evict(&mut self) {
            loop {
                if !std::mem::take(&mut self.entries[self.hand].3) {
                    break;
                }
                self.hand = (self.hand + 1) % self.entries.len();
            }
            let index = self.hand;
            self.drop_at(index);
            self.counts[3] += 1;
        }

        fn put(&mut self, key: u8, value: Vec<u8>, now: Instant) -> bool {
            let cost = cost_of(&Value::new(value.clone().into()));
            if cost > self.bytes_max {
                self.counts[4] += 1;
                return false;
            }
            if let Some(index) = self.entries.iter().position(|entry| entry.0 == key) {
                self.drop_at(index);
            }
            for _ in 0..EXPIRED_PER_PUT {
                if self
                    .entries
                    .first()
                    .is_some_and(|entry| now - entry.2 >= LIFETIME)
                {
                    self.drop_at(0);
                }
            }
            while self.entries.len() == self.entries_max || self.bytes() + cost > self.bytes_max {
                self.evict();
            }
            self.entries.push((key, value, now, false));
            true
        }

        fn look_up(&mut self, key: u8, now: Instant) -> Option<usize> {
            let found = self.entries.iter().position(|entry| entry.0 == key);
            let young = found.filter(|index| now - self.entries[*index].2 < LIFETIME);
            match (found, young) {
                (None, _) => self.counts[2] += 1,
                (Some(index), None) => {
                    self.counts[1] += 1;
                    self.drop_at(index);
                }
                _ => self.counts[0] += 1,
            }
            young
        }
    }

    #[derive(Clone, Debug)]
    enum Event {
        Get(u8),
        Pass(u64),
        Put(u8, Vec<u8>),
        Sweep,
        Take(u8),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let key = 0u8..40;
        let value = prop::collection::vec(any::<u8>(), 0..300);
        let event = prop_oneof![
            6 => (key.clone(), value).prop_map(|(key, value)| Event::Put(key, value)),
            4 => key.clone().prop_map(Event::Get),
            1 => key.prop_map(Event::Take),
            1 => (0u64..30).prop_map(Event::Pass),
            1 => Just(Event::Sweep),
        ];
        prop::collection::vec(event, 0..400)
    }

    proptest! {
        /// Few buckets are hit, so that chains are long; limits are small, so that both bite.
        #[test]
        fn a_shard_does_what_the_plain_model_does(
            entries_max in 1usize..30, bytes_max in 300usize..6000, events in events(),
        ) {
            let mut now = Instant::now();
            let mut shard = Shard::new(entries_max, bytes_max, LIFETIME);
            let mut model =
                Model { entries_max, bytes_max, entries: Vec::new(), hand: 0, counts: [0; 5] };
            for event in events {
                match event {
                    Event::Get(key) => {
                        let found = model.look_up(key, now).map(|index| {
                            model.entries[index].3 = true;
                            model.entries[index].1.clone()
                        });
                        let got = shard.get(u32::from(key % 3), &[key], now).map(<[u8]>::to_vec);
                        prop_assert_eq!(got, found);
                    }
                    Event::Pass(seconds) => now += Duration::from_secs(seconds),
                    Event::Put(key, value) => {
                        let stored = Value::new(value.clone().into());
                        let hash = u32::from(key % 3);
                        let done = shard.put(hash, Key::new(&[key]).unwrap(), stored, now);
                        prop_assert_eq!(done, model.put(key, value, now));
                    }
                    Event::Sweep => {
                        shard.sweep(now);
                        while model.entries.first().is_some_and(|one| now - one.2 >= LIFETIME) {
                            model.drop_at(0);
                        }
                    }
                    Event::Take(key) => {
                        let found = model.look_up(key, now).map(|index| model.drop_at(index));
                        let taken = shard.take(u32::from(key % 3), &[key], now);
                        prop_assert_eq!(taken.map(|value| value.to_vec()), found);
                    }
                }
                let Counts { hits, misses_expired, misses_unknown, evictions, refusals } =
                    shard.counts();
                let counts = [hits, misses_expired, misses_unknown, evictions, refusals];
                prop_assert_eq!(counts, model.counts);
                prop_assert_eq!(shard.len(), model.entries.len());
                prop_assert_eq!(shard.bytes(), model.bytes());
                prop_assert!(shard.entries.capacity() <= entries_max);
            }
        }
    }

    #[test]
    fn clocks_that_disagree_keep_the_queue_in_order() {
        let start = Instant::now() + LIFETIME;
        let mut shard = Shard::new(10, 10_000, LIFETIME);
        let mut put = |key: u8, now| {
            let key = Key::new(&[key]).unwrap();
            assert!(shard.put(0, key, Value::default(), now));
        };
        put(1, start);
        put(2, start - Duration::from_millis(3));
        shard.sweep(start + LIFETIME - Duration::from_millis(1));
        assert_eq!(shard.len(), 2);
        shard.sweep(start + LIFETIME);
        assert_eq!(shard.len(), 0);
    }
}
