//! One shard of the store: a hash table, and lists by age and by worth, over its blocks.
//!
//! Handles the limits and the eviction. An entry comes to the *trial* queue, and goes to the
//! *proven* queue when it is found for the first time. While a quarter of the entries or more is on
//! trial, only these leave, oldest first: a flood of sessions that nobody resumes evicts itself,
//! and not the sessions of clients that come back (a segmented queue, Karedla et al. 1994, with a
//! clock hand for its second part).

use std::iter::Sum;
use std::sync::Arc;
use std::time::Duration;

use crate::blocks::{
    BlockSlot, BlockState, Blocks, EntryHeader, MemoryWords, SEALED_BYTES_MAX, SurvivingEntry,
    SurvivorLimits, blocks_of, survivors,
};
use crate::index::{BlockRow, BlockRows, EntryList, EntryTable, ListLinks, TablePlace};
use crate::memory::{BLOCK_COST_BYTES, Memory};
use crate::tiers::Sealed;

/// Old entries dropped by one put: more than one, so that they go faster than new ones come, but
/// few, because the lock is held.
const EXPIRED_PER_PUT: usize = 4;

/// One in this number of entries is on trial before proven ones leave. A smaller share would give a
/// new client's session less time to be resumed for the first time; a larger one would leave less
/// to proven ones.
const TRIAL_SHARE: usize = 4;

/// Most used entries spared at a time, because the lock is held.
const SPARED_PER_EVICTION: usize = 32;

/// A found entry, with its value still sealed.
#[derive(Debug)]
pub(crate) struct FoundEntry {
    pub(crate) header: EntryHeader,
    pub(crate) value: Vec<u8>,
}

/// A bounded cache; not shared.
#[derive(Debug)]
pub(crate) struct Shard {
    entries_max: usize,
    lifetime_ms: u64,
    blocks: Blocks,
    rows: BlockRows,
    table: EntryTable,
    free: Option<BlockSlot>,
    free_len: usize,
    age: EntryList,
    trial: EntryList,
    proven: EntryList,
    taken: Vec<BlockSlot>,
    counts: Counters,
}

impl Shard {
    /// Creates a shard with the entries that an earlier process left in its blocks and whose hash
    /// `is_ours`. The table is an empty one for `entries_max` entries.
    pub(crate) fn new(
        entries_max: usize,
        lifetime: Duration,
        blocks: Blocks,
        table: EntryTable,
        now_ms: u64,
        is_ours: impl Fn(u64) -> bool,
    ) -> Self {
        let mut shard = Self {
            entries_max,
            lifetime_ms: u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX),
            blocks,
            rows: BlockRows::default(),
            table,
            free: None,
            free_len: 0,
            age: EntryList::new(ListLinks::Age),
            trial: EntryList::new(ListLinks::Queue),
            proven: EntryList::new(ListLinks::Queue),
            taken: Vec::new(),
            counts: Counters::default(),
        };
        shard.recover(now_ms, is_ours);
        shard
    }

    /// Creates a shard that holds nothing, and accepts nothing.
    pub(crate) fn nothing(memory: &Memory) -> Self {
        let none = || MemoryWords::new(Arc::clone(&memory.words), 0..0, memory.machine);
        let (blocks, table) = (Blocks::new(none()), EntryTable::new(none(), 0));
        Self::new(0, Duration::ZERO, blocks, table, 0, |_| false)
    }

    /// Stores a sealed value; `false` if it is too large for the shard.
    pub(crate) fn put(&mut self, hash: u64, now_ms: u64, sealed: Sealed, value: &[u8]) -> bool {
        let wanted = blocks_of(value.len());
        if value.len() > SEALED_BYTES_MAX || wanted > self.blocks.len() || self.entries_max == 0 {
            return self.refuse();
        }
        if let Some((_, slot)) = self.find(hash) {
            self.remove(slot);
        }
        self.expire(now_ms, EXPIRED_PER_PUT);
        while self.len() == self.entries_max || self.room() < wanted {
            self.evict();
        }
        let header = EntryHeader { hash, put_at_ms: now_ms, length: value.len() as u16, sealed };
        self.write(&header, value);
        true
    }

    /// Marks an entry that was just put as proven.
    pub(crate) fn prove_new(&mut self, hash: u64) {
        if let Some((place, slot)) = self.find(hash) {
            self.prove(place, slot);
        }
    }

    /// Counts a put that is impossible.
    pub(crate) fn refuse(&mut self) -> bool {
        self.counts.refusals += 1;
        false
    }

    /// Returns a copy of an entry.
    pub(crate) fn get(&mut self, hash: u64, now_ms: u64) -> Option<FoundEntry> {
        let (place, slot, header) = self.look_up(hash, now_ms)?;
        if self.table.is_proven(place) {
            self.table.note_use(place);
        } else {
            self.prove(place, slot);
        }
        Some(self.read(slot, header))
    }

    /// Returns a copy of an entry that [`Self::take`] may follow.
    pub(crate) fn peek(&mut self, hash: u64, now_ms: u64) -> Option<FoundEntry> {
        let (_, slot, header) = self.look_up(hash, now_ms)?;
        Some(self.read(slot, header))
    }

    /// Returns a copy of an entry without counting a look-up.
    pub(crate) fn copy(&self, hash: u64, now_ms: u64) -> Option<FoundEntry> {
        let slot = self.find_young(hash, now_ms)?;
        let header = self.blocks.header(slot);
        Some(self.read(slot, header))
    }

    /// Returns a copy of the entry that begins in this block, if it is young enough; the outer
    /// `None` means that no block from this one on was ever used.
    pub(crate) fn copy_at(
        &self,
        index: usize,
        age_max_ms: u64,
        now_ms: u64,
    ) -> Option<Option<FoundEntry>> {
        let slot = BlockSlot::new(index).filter(|_| index < self.rows.len())?;
        let begins = matches!(self.blocks.state(slot), BlockState::First { .. })
            && self.find_at(slot)
            && now_ms.saturating_sub(self.rows.at(slot).put_at_ms) <= age_max_ms
            && !self.is_expired(slot, now_ms);
        Some(begins.then(|| self.read(slot, self.blocks.header(slot))))
    }

    /// Reports whether this shard's entry begins there: the block may hold another's.
    fn find_at(&self, slot: BlockSlot) -> bool {
        let hash = self.rows.at(slot).hash;
        self.table.find(hash, |one| one == slot).is_some()
    }

    /// Reports whether a young enough entry exists.
    pub(crate) fn contains(&self, hash: u64, now_ms: u64) -> bool {
        self.find_young(hash, now_ms).is_some()
    }

    /// Drops an entry; `false` if no entry has this hash.
    pub(crate) fn forget(&mut self, hash: u64) -> bool {
        let found = self.find(hash);
        found.map(|(_, slot)| self.remove(slot)).is_some()
    }

    fn find_young(&self, hash: u64, now_ms: u64) -> Option<BlockSlot> {
        let (_, slot) = self.find(hash)?;
        (!self.is_expired(slot, now_ms)).then_some(slot)
    }

    /// Removes an entry that was found; `false` if it is gone, which turns its hit into a miss.
    pub(crate) fn take(&mut self, found: &EntryHeader) -> bool {
        let Some(slot) = self.find_same(found) else {
            // The previous process may have counted the hit.
            self.counts.hits = self.counts.hits.saturating_sub(1);
            self.counts.misses_unknown += 1;
            return false;
        };
        self.remove(slot);
        true
    }

    /// Drops an entry that was found but could not be opened, unless another has replaced it.
    pub(crate) fn drop_damaged(&mut self, damaged: &EntryHeader) {
        self.counts.hits = self.counts.hits.saturating_sub(1);
        self.counts.misses_damaged += 1;
        if let Some(slot) = self.find_same(damaged) {
            self.remove(slot);
        }
    }

    pub(crate) fn sweep(&mut self, now_ms: u64) {
        self.expire(now_ms, usize::MAX);
    }

    pub(crate) fn len(&self) -> usize {
        self.age.len()
    }

    pub(crate) fn blocks_used(&self) -> usize {
        self.rows.len() - self.free_len
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters {
            entries: self.len() as u64,
            bytes: (self.blocks_used() * BLOCK_COST_BYTES) as u64,
            ..self.counts
        }
    }

    #[cfg(test)]
    pub(crate) fn limits(&self) -> (usize, usize) {
        (self.entries_max, self.blocks.len())
    }

    /// Finds a young enough entry, and counts the look-up.
    ///
    /// The block's own header is enough, because time and length are sealed with the value.
    fn look_up(&mut self, hash: u64, now_ms: u64) -> Option<(TablePlace, BlockSlot, EntryHeader)> {
        let Some((place, slot)) = self.find(hash) else {
            self.counts.misses_unknown += 1;
            return None;
        };
        let header = self.blocks.header(slot);
        if now_ms.saturating_sub(header.put_at_ms) >= self.lifetime_ms {
            self.counts.misses_expired += 1;
            self.remove(slot);
            return None;
        }
        self.counts.hits += 1;
        Some((place, slot, header))
    }

    fn find(&self, hash: u64) -> Option<(TablePlace, BlockSlot)> {
        let is_it = |slot| {
            self.blocks.fetch(slot);
            self.blocks.hash(slot) == hash
        };
        let place = self.table.find(hash, is_it)?;
        Some((place, self.table.slot(place)?))
    }

    /// Finds the very entry that was found before, not another that has its key by now.
    fn find_same(&self, found: &EntryHeader) -> Option<BlockSlot> {
        let (_, slot) = self.find(found.hash)?;
        (self.blocks.header(slot).sealed == found.sealed).then_some(slot)
    }

    /// Returns the table place of an entry, given its block.
    fn place_of(&self, slot: BlockSlot) -> TablePlace {
        let found = self.table.find(self.rows.at(slot).hash, |one| one == slot);
        found.expect("every entry has a place in the table")
    }

    fn read(&self, slot: BlockSlot, header: EntryHeader) -> FoundEntry {
        let length = usize::from(header.length);
        // A cipher may append its tag to the value: no second allocation for it.
        let mut value = Vec::with_capacity(length + header.sealed.tag.len());
        self.blocks.read(slot, true, length, &mut value);
        let mut last = slot;
        while value.len() < length {
            // Our own rows name the next block: the memory's number may be any block's.
            let Some(next) = self.rows.at(last).further else {
                break;
            };
            self.blocks.read(next, false, length, &mut value);
            last = next;
        }
        FoundEntry { header, value }
    }

    fn is_expired(&self, slot: BlockSlot, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.rows.at(slot).put_at_ms) >= self.lifetime_ms
    }

    fn expire(&mut self, now_ms: u64, count_max: usize) {
        for _ in 0..count_max {
            match self.age.first() {
                Some(slot) if self.is_expired(slot, now_ms) => self.remove(slot),
                _ => return,
            }
        }
    }

    /// Moves an entry that was found for the first time to the proven queue.
    fn prove(&mut self, place: TablePlace, slot: BlockSlot) {
        if self.table.is_proven(place) {
            return;
        }
        self.trial.remove(&mut self.rows, slot);
        self.table.prove(place);
        self.proven.push(&mut self.rows, slot);
        self.blocks.note_use(slot);
    }

    /// Drops the least valuable entry.
    fn evict(&mut self) {
        let is_flooded = self.trial.len() * TRIAL_SHARE >= self.len();
        let on_trial = self.trial.first().filter(|_| is_flooded);
        let least = on_trial.or_else(|| self.least_proven()).or_else(|| self.trial.first());
        if let Some(slot) = least {
            self.remove(slot);
            self.counts.evictions += 1;
        }
    }

    /// Finds the proven entry to evict; spares, once, each that was used (CLOCK, Corbató 1968).
    fn least_proven(&mut self) -> Option<BlockSlot> {
        for _ in 0..SPARED_PER_EVICTION {
            let slot = self.proven.first()?;
            if !self.table.take_use(self.place_of(slot)) {
                return Some(slot);
            }
            self.proven.remove(&mut self.rows, slot);
            self.proven.push(&mut self.rows, slot);
        }
        self.proven.first()
    }

    fn room(&self) -> usize {
        self.free_len + self.blocks.len() - self.rows.len()
    }

    fn write(&mut self, header: &EntryHeader, value: &[u8]) {
        let mut slots = std::mem::take(&mut self.taken);
        slots.clear();
        slots.extend((0..blocks_of(value.len())).map(|_| self.take_block()));
        self.blocks.write(&slots, header, value);
        self.link(&slots, header, false);
        self.taken = slots;
    }

    /// Takes a free block, or the next that was never used.
    fn take_block(&mut self) -> BlockSlot {
        if let Some(slot) = self.free {
            self.free = self.rows.at(slot).further;
            self.free_len -= 1;
            return slot;
        }
        self.push_row().expect("there is room for all of the entry's blocks")
    }

    fn push_row(&mut self) -> Option<BlockSlot> {
        let slot =
            BlockSlot::new(self.rows.len()).filter(|slot| slot.index() < self.blocks.len())?;
        self.rows.push(BlockRow::new(0, 0), self.blocks.len());
        Some(slot)
    }

    /// Adds written blocks as an entry to the index.
    fn link(&mut self, slots: &[BlockSlot], header: &EntryHeader, is_proven: bool) {
        let (&first, further) = slots.split_first().expect("an entry has a block");
        self.table.insert(header.hash, first, is_proven);
        *self.rows.at_mut(first) = BlockRow::new(header.hash, header.put_at_ms);
        let mut before = first;
        for &slot in further {
            self.rows.at_mut(before).further = Some(slot);
            before = slot;
        }
        self.rows.at_mut(before).further = None;
        self.age_in(first, header.put_at_ms);
        if is_proven {
            self.proven.push(&mut self.rows, first);
        } else {
            self.trial.push(&mut self.rows, first);
        }
    }

    /// Links an entry by age. Workers read clocks before the lock: a put may be older than the
    /// last.
    fn age_in(&mut self, slot: BlockSlot, put_at_ms: u64) {
        let mut before = self.age.last();
        while let Some(one) = before.filter(|one| self.rows.at(*one).put_at_ms > put_at_ms) {
            before = self.age.before(&self.rows, one);
        }
        self.age.insert_after(&mut self.rows, before, slot);
    }

    /// Removes an entry, and zeroes its blocks.
    fn remove(&mut self, slot: BlockSlot) {
        let place = self.place_of(slot);
        if self.table.is_proven(place) {
            self.proven.remove(&mut self.rows, slot);
        } else {
            self.trial.remove(&mut self.rows, slot);
        }
        self.table.remove(self.rows.at(slot).hash, place);
        self.age.remove(&mut self.rows, slot);
        let mut next = Some(slot);
        while let Some(one) = next {
            next = self.rows.at(one).further;
            self.give_back(one);
        }
    }

    fn give_back(&mut self, slot: BlockSlot) {
        self.blocks.clear(slot);
        self.rows.at_mut(slot).further = self.free.replace(slot);
        self.free_len += 1;
    }

    fn recover(&mut self, now_ms: u64, is_ours: impl Fn(u64) -> bool) {
        let wanted =
            SurvivorLimits { now_ms, lifetime_ms: self.lifetime_ms, entries_max: self.entries_max };
        let (used, found) = survivors(&self.blocks, wanted, is_ours);
        let mut is_taken = vec![false; used];
        (0..used).for_each(|_| {
            self.push_row();
        });
        for survivor in found {
            self.adopt(survivor, &mut is_taken);
        }
        let rest = is_taken.iter().enumerate().filter(|(_, is_taken)| !**is_taken);
        rest.filter_map(|(index, _)| BlockSlot::new(index)).for_each(|slot| self.give_back(slot));
    }

    fn adopt(&mut self, survivor: SurvivingEntry, is_taken: &mut [bool]) {
        let SurvivingEntry { header, .. } = survivor;
        if self.find(header.hash).is_some() {
            return;
        }
        let mut slots = vec![survivor.first];
        slots.extend(survivor.further);
        slots.iter().for_each(|slot| is_taken[slot.index()] = true);
        self.link(&slots, &header, survivor.was_used);
        self.counts.recovered += 1;
    }
}

/// Number of entries that a store holds, and its work since its start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Entries held, including expired ones that were not noticed yet.
    pub entries: u64,
    /// Bytes of all entries.
    pub bytes: u64,
    /// Lookups that found their entry.
    pub hits: u64,
    /// Lookups whose entry could not be opened, because somebody changed it.
    pub misses_damaged: u64,
    /// Lookups whose entry was too old.
    pub misses_expired: u64,
    /// Lookups of a key that was never put, was evicted, or was swept away.
    pub misses_unknown: u64,
    /// Entries evicted before their time, to make room.
    pub evictions: u64,
    /// Puts refused because a key or a value was too large.
    pub refusals: u64,
    /// Entries that were taken over from an earlier process.
    pub recovered: u64,
}

impl Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            entries: sum.entries + one.entries,
            bytes: sum.bytes + one.bytes,
            hits: sum.hits + one.hits,
            misses_damaged: sum.misses_damaged + one.misses_damaged,
            misses_expired: sum.misses_expired + one.misses_expired,
            misses_unknown: sum.misses_unknown + one.misses_unknown,
            evictions: sum.evictions + one.evictions,
            refusals: sum.refusals + one.refusals,
            recovered: sum.recovered + one.recovered,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{BLOCK_WORDS, MachineWords, VALUE_BLOCKS_MAX};
    use proptest::prelude::*;
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;

    const LIFETIME_MS: u64 = 100;
    const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

    fn shard_of(entries_max: usize, blocks: usize, words: &Arc<Vec<AtomicU64>>, now: u64) -> Shard {
        let machine = MachineWords::default();
        let range = 0..blocks * BLOCK_WORDS;
        let blocks = Blocks::new(MemoryWords::new(Arc::clone(words) as _, range, machine));
        let count = EntryTable::words_for(entries_max.min(blocks.len()));
        let table =
            EntryTable::new(MemoryWords::new((machine.words)(count), 0..count, machine), MIXER);
        let lifetime = Duration::from_millis(LIFETIME_MS);
        Shard::new(entries_max, lifetime, blocks, table, now, |_| true)
    }

    fn words(blocks: usize) -> Arc<Vec<AtomicU64>> {
        let words = std::iter::repeat_with(|| AtomicU64::new(0));
        Arc::new(words.take(blocks * BLOCK_WORDS).collect())
    }

    /// Makes a seal, which the shard does not check.
    fn sealed(number: u8) -> Sealed {
        Sealed { nonce: [number; 12], tag: [number; 16] }
    }

    fn take(shard: &mut Shard, key: u64, now: u64) -> Option<Vec<u8>> {
        let found = shard.peek(key, now)?;
        shard.take(&found.header).then_some(found.value)
    }

    #[derive(Clone, Debug)]
    struct Held {
        key: u64,
        value: Vec<u8>,
        put_at_ms: u64,
        is_used: bool,
    }

    /// A plain model of the cache: two lists.
    #[derive(Debug, Default)]
    struct Model {
        entries_max: usize,
        blocks: usize,
        trial: Vec<Held>,
        proven: Vec<Held>,
        /// Hits, expired, unknown, evictions, refusals.
        counts: [u64; 5],
    }

    impl Model {
        fn all(&self) -> impl Iterator<Item = &Held> {
            self.trial.iter().chain(&self.proven)
        }

        fn len(&self) -> usize {
            self.all().count()
        }

        fn blocks_used(&self) -> usize {
            self.all().map(|held| blocks_of(held.value.len())).sum()
        }

        fn forget(&mut self, key: u64) -> Option<Held> {
            for list in [&mut self.trial, &mut self.proven] {
                if let Some(index) = list.iter().position(|held| held.key == key) {
                    return Some(list.remove(index));
                }
            }
            None
        }

        fn expire(&mut self, now: u64, count_max: usize) {
            for _ in 0..count_max {
                let oldest = self.all().min_by_key(|held| held.put_at_ms).cloned();
                match oldest {
                    Some(held) if now - held.put_at_ms >= LIFETIME_MS => self.forget(held.key),
                    _ => return,
                };
            }
        }

        fn evict(&mut self) {
            self.counts[3] += 1;
            if self.proven.is_empty() || self.trial.len() * TRIAL_SHARE >= self.len() {
                self.trial.remove(0);
                return;
            }
            while std::mem::take(&mut self.proven[0].is_used) {
                self.proven.rotate_left(1);
            }
            self.proven.remove(0);
        }

        fn put(&mut self, key: u64, value: Vec<u8>, now: u64) -> bool {
            let wanted = blocks_of(value.len());
            if wanted > self.blocks {
                self.counts[4] += 1;
                return false;
            }
            self.forget(key);
            self.expire(now, EXPIRED_PER_PUT);
            while self.len() == self.entries_max || self.blocks_used() + wanted > self.blocks {
                self.evict();
            }
            self.trial.push(Held { key, value, put_at_ms: now, is_used: false });
            true
        }

        fn look_up(&mut self, key: u64, now: u64) -> Option<Held> {
            let Some(held) = self.all().find(|held| held.key == key).cloned() else {
                self.counts[2] += 1;
                return None;
            };
            if now - held.put_at_ms >= LIFETIME_MS {
                self.counts[1] += 1;
                self.forget(key);
                return None;
            }
            self.counts[0] += 1;
            Some(held)
        }

        fn get(&mut self, key: u64, now: u64) -> Option<Vec<u8>> {
            let held = self.look_up(key, now)?;
            match self.proven.iter_mut().find(|held| held.key == key) {
                Some(proven) => proven.is_used = true,
                None => {
                    self.forget(key);
                    self.proven.push(held.clone());
                }
            }
            Some(held.value)
        }

        fn take(&mut self, key: u64, now: u64) -> Option<Vec<u8>> {
            let held = self.look_up(key, now)?;
            self.forget(key);
            Some(held.value)
        }

        fn recover(&mut self, now: u64) {
            for list in [&mut self.trial, &mut self.proven] {
                list.retain(|held| now - held.put_at_ms < LIFETIME_MS);
                list.sort_by_key(|held| held.put_at_ms);
                list.iter_mut().for_each(|held| held.is_used = false);
            }
            self.counts = [0; 5];
        }
    }

    #[derive(Clone, Debug)]
    enum Event {
        Get(u64),
        Pass(u64),
        Put(u64, Vec<u8>),
        Recover,
        Sweep,
        Take(u64),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        // Few buckets are hit, so that chains are long.
        let key = || (0u64..40).prop_map(|key| (key % 3) | (key << 32));
        let value = prop::collection::vec(any::<u8>(), 0..700);
        let event = prop_oneof![
            8 => (key(), value).prop_map(|(key, value)| Event::Put(key, value)),
            6 => key().prop_map(Event::Get),
            1 => key().prop_map(Event::Take),
            // Time passes at each put as well, so that entries have an order.
            2 => (0u64..20).prop_map(Event::Pass),
            1 => Just(Event::Sweep),
            1 => Just(Event::Recover),
        ];
        prop::collection::vec(event, 0..300)
    }

    proptest! {
        /// Limits are small, so that both are reached.
        #[test]
        fn a_shard_does_what_the_plain_model_does(
            entries_max in 1usize..30, blocks in 1usize..50, events in events(),
        ) {
            let (mut now, words) = (1000, words(blocks));
            let mut shard = shard_of(entries_max, blocks, &words, now);
            let mut model = Model { entries_max, blocks, ..Model::default() };
            for event in events {
                match event {
                    Event::Get(key) => {
                        let found = shard.get(key, now).map(|found| found.value);
                        prop_assert_eq!(found, model.get(key, now));
                    }
                    Event::Pass(time) => now += time,
                    Event::Put(key, value) => {
                        now += 1;
                        let done = shard.put(key, now, sealed(key as u8), &value);
                        prop_assert_eq!(done, model.put(key, value, now));
                    }
                    Event::Recover => {
                        shard = shard_of(entries_max, blocks, &words, now);
                        model.recover(now);
                        prop_assert_eq!(shard.counters().recovered as usize, model.len());
                    }
                    Event::Sweep => {
                        shard.sweep(now);
                        model.expire(now, usize::MAX);
                    }
                    Event::Take(key) => {
                        let taken = take(&mut shard, key, now);
                        prop_assert_eq!(taken, model.take(key, now));
                    }
                }
                let Counters { hits, misses_expired, misses_unknown, evictions, refusals, .. } =
                    shard.counters();
                let counts = [hits, misses_expired, misses_unknown, evictions, refusals];
                prop_assert_eq!(counts, model.counts);
                prop_assert_eq!(shard.len(), model.len());
                prop_assert_eq!(shard.blocks_used(), model.blocks_used());
            }
        }

        /// A shard accepts any content of the memory, keeps to its limits and works.
        #[test]
        fn no_memory_of_a_predecessor_does_harm(
            entries_max in 1usize..30,
            noise in prop::collection::vec((0usize..640, any::<u64>()), 0..60),
            states in prop::collection::vec((0u64..5, 0u64..700, 0u64..24), 20),
            keys in prop::collection::vec((0u64..40, 0usize..700), 0..60),
        ) {
            let words = words(20);
            for (index, (mark, length, next)) in states.into_iter().enumerate() {
                let mark = [0x4652, 0x4649, 0x4649, 0x4655, 0x4655][mark as usize];
                words[index * BLOCK_WORDS].store(mark | length << 16 | next << 32, Relaxed);
                words[index * BLOCK_WORDS + 1].store(index as u64, Relaxed);
                words[index * BLOCK_WORDS + 2].store(950 + index as u64, Relaxed);
            }
            for (index, word) in noise {
                // Recovery does not look behind a mark of 0, so it is left as it is.
                let index = if index % BLOCK_WORDS == 0 { index + 1 } else { index };
                words[index].store(word, Relaxed);
            }
            let mut shard = shard_of(entries_max, 20, &words, 1000);
            prop_assert!(shard.len() <= entries_max && shard.blocks_used() <= 20);
            for (key, length) in keys {
                let value = vec![key as u8; length];
                prop_assert!(shard.put(key, 1001, sealed(key as u8), &value));
                let found = shard.get(key, 1001).expect("it was put");
                prop_assert_eq!(found.value, value);
                prop_assert_eq!(found.header.sealed, sealed(key as u8));
                prop_assert!(shard.len() <= entries_max && shard.blocks_used() <= 20);
            }
            shard.sweep(1001 + LIFETIME_MS);
            prop_assert_eq!((shard.len(), shard.blocks_used()), (0, 0));
            let left = words.iter().skip(1).enumerate().filter(|(index, word)| {
                (index + 1) % BLOCK_WORDS != 0 && word.load(Relaxed) != 0
            });
            prop_assert_eq!(left.count(), 0, "all that was used is zero again");
        }
    }

    #[test]
    fn clocks_that_disagree_keep_the_list_in_order() {
        let words = words(10);
        let mut shard = shard_of(10, 10, &words, 1000);
        assert!(shard.put(1, 1000, sealed(1), b""));
        assert!(shard.put(2, 997, sealed(2), b""));
        shard.sweep(997 + LIFETIME_MS);
        assert_eq!(shard.len(), 1);
        assert!(shard.get(1, 1000).is_some());
    }

    #[test]
    fn an_entry_half_written_is_none() {
        let words = words(10);
        let mut shard = shard_of(10, 10, &words, 1000);
        assert!(shard.put(1, 1000, sealed(1), &[1; 600]));
        assert!(shard.put(2, 1000, sealed(2), &[2; 600]));
        let mark = &words[0];
        for half_way in [0x4652, mark.load(Relaxed) & !0xffff] {
            mark.store(half_way, Relaxed);
            let after = shard_of(10, 10, &words, 1000);
            // No block behind a mark of 0 was ever used, so that both entries are gone.
            assert_eq!(after.counters().recovered, u64::from(half_way == 0x4652));
        }
    }

    #[test]
    fn what_cannot_be_opened_leaves_unless_another_is_there() {
        let words = words(VALUE_BLOCKS_MAX);
        let mut shard = shard_of(10, VALUE_BLOCKS_MAX, &words, 1000);
        assert!(shard.put(1, 1000, sealed(1), b"old"));
        let old = shard.get(1, 1000).unwrap().header;
        assert!(shard.put(1, 1000, sealed(2), b"new"));
        shard.drop_damaged(&old);
        let new = shard.get(1, 1000).unwrap().header;
        shard.drop_damaged(&new);
        assert!(shard.get(1, 1000).is_none());
        let counts = shard.counters();
        assert_eq!((counts.hits, counts.misses_damaged, counts.misses_unknown), (0, 2, 1));
    }

    #[test]
    fn hashes_that_fell_together_before_do_not_after_a_start() {
        const ENTRIES: usize = 1000;
        let words = words(ENTRIES);
        let mut before = shard_of(ENTRIES, ENTRIES, &words, 1000);
        for number in 0..ENTRIES as u64 {
            assert!(before.put(number << 40 | 7, 1000, sealed(1), b"x"));
        }
        let after = shard_of(ENTRIES, ENTRIES, &words, 1001);
        assert_eq!(after.counters().recovered, ENTRIES as u64);
        let lines = (0..ENTRIES as u64).map(|number| {
            let (place, _) = after.find(number << 40 | 7).expect("it was recovered");
            after.table.lines_before(number << 40 | 7, place)
        });
        let longest = lines.max();
        assert!(longest < Some(8), "{longest:?}");
    }

    #[test]
    fn one_line_is_enough_for_one_entry() {
        let words = words(1);
        let mut shard = shard_of(1, 1, &words, 1000);
        for hash in [0, 7, u64::MAX] {
            assert!(shard.put(hash, 1000, sealed(1), b"x"));
            assert!(shard.get(hash, 1000).is_some());
        }
        assert_eq!(shard.len(), 1);
    }
}
