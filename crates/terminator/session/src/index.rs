//! A shard's rows, one a block, the lists that run through them, and the hash table that finds
//! entries: lines, each of which the machine reads at once.
//!
//! Handles the links, the places and their marks. A miss mostly costs one line, a hit that line and
//! the entry's own. Rows and words are private to this process: nobody else can have written them.
//!
//! A line has 8 words: the number of entries that belong here or before and had to go further, and
//! 7 places. A place holds `tag (30), proven (1), used (1), slot's number (32)`; 0 is an empty one.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::blocks::{BlockSlot, MemoryWords};

/// Facts of a block. All but `further` matter only in an entry's first block.
///
/// A look-up of an entry that was found before does not read its row, because that would be one
/// more line to wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRow {
    pub(crate) hash: u64,
    pub(crate) put_at_ms: u64,
    /// Next block of the entry; of a free block, the next free one.
    pub(crate) further: Option<BlockSlot>,
    links: [Links; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Links {
    before: Option<BlockSlot>,
    after: Option<BlockSlot>,
}

impl BlockRow {
    /// Creates a row in no list.
    pub(crate) fn new(hash: u64, put_at_ms: u64) -> Self {
        Self { hash, put_at_ms, further: None, links: [Links::default(); 2] }
    }
}

/// The rows of all blocks that were ever used.
#[derive(Debug, Default)]
pub(crate) struct BlockRows(Vec<BlockRow>);

impl BlockRows {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a row for the next block; there will be at most `rows_max`.
    pub(crate) fn push(&mut self, row: BlockRow, rows_max: usize) {
        if self.0.len() == self.0.capacity() {
            // Grows by halves, never past the limit: a doubled array would waste as much again.
            let step = (self.0.len() / 2).max(8);
            self.0.reserve_exact(step.min(rows_max - self.0.len()));
        }
        self.0.push(row);
    }

    pub(crate) fn at(&self, slot: BlockSlot) -> &BlockRow {
        &self.0[slot.index()]
    }

    pub(crate) fn at_mut(&mut self, slot: BlockSlot) -> &mut BlockRow {
        &mut self.0[slot.index()]
    }
}

/// Names the links of a row that a list runs through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListLinks {
    /// List of all entries, by the time of their put.
    Age,
    /// List of one queue's entries, in the order of their arrival.
    Queue,
}

/// A list from first to last.
#[derive(Debug)]
pub(crate) struct EntryList {
    thread: ListLinks,
    first: Option<BlockSlot>,
    last: Option<BlockSlot>,
    len: usize,
}

impl EntryList {
    pub(crate) fn new(thread: ListLinks) -> Self {
        Self { thread, first: None, last: None, len: 0 }
    }

    pub(crate) fn first(&self) -> Option<BlockSlot> {
        self.first
    }

    pub(crate) fn last(&self) -> Option<BlockSlot> {
        self.last
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn before(&self, rows: &BlockRows, slot: BlockSlot) -> Option<BlockSlot> {
        rows.at(slot).links[self.thread as usize].before
    }

    pub(crate) fn push(&mut self, rows: &mut BlockRows, slot: BlockSlot) {
        self.insert_after(rows, self.last, slot);
    }

    /// Inserts `slot` behind `before`, or first in the list.
    pub(crate) fn insert_after(
        &mut self,
        rows: &mut BlockRows,
        before: Option<BlockSlot>,
        slot: BlockSlot,
    ) {
        let after = match before {
            Some(before) => rows.at(before).links[self.thread as usize].after,
            None => self.first,
        };
        rows.at_mut(slot).links[self.thread as usize] = Links { before, after };
        self.join(rows, before, Some(slot));
        self.join(rows, Some(slot), after);
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, rows: &mut BlockRows, slot: BlockSlot) {
        let links = &mut rows.at_mut(slot).links[self.thread as usize];
        let Links { before, after } = std::mem::take(links);
        self.join(rows, before, after);
        self.len -= 1;
    }

    /// Links two neighbours; `None` is the list's end on that side.
    fn join(&mut self, rows: &mut BlockRows, before: Option<BlockSlot>, after: Option<BlockSlot>) {
        match before {
            Some(before) => rows.at_mut(before).links[self.thread as usize].after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => rows.at_mut(after).links[self.thread as usize].before = before,
            None => self.last = before,
        }
    }
}

const LINE_WORDS: usize = 8;

/// Entries per line of the table: of 7 places some stay free, so that few entries have to go
/// further (by Poisson's law, one line in twenty is full).
const ENTRIES_PER_LINE: usize = 4;

/// Bytes of the table per entry.
pub(crate) const ENTRY_BYTES: usize = LINE_WORDS * size_of::<u64>() / ENTRIES_PER_LINE;

/// Bit of an entry that was found again since it was proven, or since it was last spared.
const USED: u64 = 1 << 32;

const PROVEN: u64 = 1 << 33;

const TAG_SHIFT: u32 = 34;

/// A place, in words from the table's first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TablePlace(usize);

/// Places of one shard's entries. The shard's lock guards changes; a reader that tolerates stale
/// places may read them without it.
#[derive(Clone, Debug)]
pub(crate) struct EntryTable {
    words: MemoryWords,
    lines: usize,
    /// Odd, and random at each start, so that a process that wrote the memory before does not know
    /// which of its hashes fall into one line now (multiply-shift, Dietzfelbinger et al. 1997).
    mixer: u64,
}

impl EntryTable {
    /// Returns the number of words that a table for `entries` entries takes.
    pub(crate) const fn words_for(entries: usize) -> usize {
        match entries {
            0 => 0,
            _ => (entries / ENTRIES_PER_LINE + 1) * LINE_WORDS,
        }
    }

    /// Creates an empty table in [`Self::words_for`] zeroed words.
    pub(crate) fn new(words: MemoryWords, mixer: u64) -> Self {
        Self { lines: words.len() / LINE_WORDS, words, mixer: mixer | 1 }
    }

    pub(crate) fn clear(&self) {
        let words = self.words.at(0, self.words.len()).iter();
        // Words that were never written are only read, so that they take no memory.
        let written = words.filter(|word| word.load(Relaxed) != 0);
        written.for_each(|word| word.store(0, Relaxed));
    }

    /// Finds the entry of this hash that `is_it` accepts: tags are not unique.
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(BlockSlot) -> bool) -> Option<TablePlace> {
        for line in self.lines_from(hash) {
            let words = self.line(line);
            for (index, word) in words.iter().enumerate().skip(1) {
                let word = word.load(Relaxed);
                if word >> TAG_SHIFT == tag(hash) && slot_in(word).is_some_and(&is_it) {
                    return Some(TablePlace(line * LINE_WORDS + index));
                }
            }
            if words[0].load(Relaxed) == 0 {
                return None;
            }
        }
        None
    }

    /// Adds an entry; a table has more places than entries.
    pub(crate) fn insert(&self, hash: u64, slot: BlockSlot, is_proven: bool) {
        let mark = if is_proven { PROVEN } else { 0 };
        let new = tag(hash) << TAG_SHIFT | mark | u64::from(slot.number());
        for line in self.lines_from(hash) {
            let words = self.line(line);
            let mut places = words[1..].iter();
            if let Some(free) = places.find(|word| word.load(Relaxed) == 0) {
                free.store(new, Relaxed);
                return;
            }
            change(&words[0], |further| further + 1);
        }
        unreachable!("a table has more places than its shard has entries");
    }

    /// Removes the entry of this hash.
    pub(crate) fn remove(&self, hash: u64, place: TablePlace) {
        let its_line = place.0 / LINE_WORDS;
        for line in self.lines_from(hash).take_while(|line| *line != its_line) {
            change(&self.line(line)[0], |further| further - 1);
        }
        self.word(place).store(0, Relaxed);
    }

    pub(crate) fn slot(&self, place: TablePlace) -> Option<BlockSlot> {
        slot_in(self.word(place).load(Relaxed))
    }

    pub(crate) fn is_proven(&self, place: TablePlace) -> bool {
        self.word(place).load(Relaxed) & PROVEN != 0
    }

    pub(crate) fn prove(&self, place: TablePlace) {
        change(self.word(place), |word| word | PROVEN);
    }

    pub(crate) fn note_use(&self, place: TablePlace) {
        change(self.word(place), |word| word | USED);
    }

    /// Reports whether the entry was found since the last call.
    pub(crate) fn take_use(&self, place: TablePlace) -> bool {
        let before = self.word(place).load(Relaxed);
        self.word(place).store(before & !USED, Relaxed);
        before & USED != 0
    }

    /// Prefetches the line in which a search for this hash begins.
    pub(crate) fn fetch(&self, hash: u64) {
        if let Some(line) = self.lines_from(hash).next() {
            self.words.fetch(line * LINE_WORDS, LINE_WORDS);
        }
    }

    /// Returns how many lines a search for this entry passes.
    #[cfg(test)]
    pub(crate) fn lines_before(&self, hash: u64, place: TablePlace) -> usize {
        let its_line = place.0 / LINE_WORDS;
        self.lines_from(hash).take_while(|line| *line != its_line).count()
    }

    /// Returns all lines, beginning with the one in which this hash belongs.
    fn lines_from(&self, hash: u64) -> impl Iterator<Item = usize> {
        let mixed = u128::from(hash.wrapping_mul(self.mixer));
        let first = ((mixed * self.lines as u128) >> u64::BITS) as usize;
        (first..self.lines).chain(0..first)
    }

    fn line(&self, line: usize) -> &[AtomicU64] {
        self.words.at(line * LINE_WORDS, LINE_WORDS)
    }

    fn word(&self, place: TablePlace) -> &AtomicU64 {
        &self.words.at(place.0, 1)[0]
    }
}

/// Returns the low bits of a hash; the high bits of the mixed hash choose the line.
fn tag(hash: u64) -> u64 {
    hash & (u64::MAX >> TAG_SHIFT)
}

fn slot_in(word: u64) -> Option<BlockSlot> {
    BlockSlot::from_number(word as u32)
}

/// Changes a word. A plain store is enough because the shard's lock excludes other writers.
fn change(word: &AtomicU64, how: impl FnOnce(u64) -> u64) {
    word.store(how(word.load(Relaxed)), Relaxed);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::blocks::MachineWords;

    const ENTRIES: usize = 100;

    fn table() -> EntryTable {
        let (machine, count) = (MachineWords::default(), EntryTable::words_for(ENTRIES));
        let words = MemoryWords::new((machine.words)(count), 0..count, machine);
        EntryTable::new(words, 0x9e37_79b9_7f4a_7c15)
    }

    fn slot(index: usize) -> BlockSlot {
        BlockSlot::new(index).expect("32 bits name it")
    }

    /// Returns hashes of four kinds, each kind with one tag, so that lines overflow.
    fn hash(index: usize) -> u64 {
        (index as u64 % 4) | (index as u64) << 60
    }

    #[test]
    fn what_comes_and_goes_is_found_by_its_slot_and_leaves_nothing() {
        let table = table();
        let mut held = HashMap::new();
        let mut chance = 1u64;
        for _ in 0..20_000 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = (chance >> 33) as usize % ENTRIES;
            let found = table.find(hash(index), |one| one == slot(index));
            assert_eq!(found.is_some(), held.contains_key(&index));
            match found {
                Some(place) => {
                    assert_eq!(table.slot(place), Some(slot(index)));
                    assert_eq!(Some(table.is_proven(place)), held.remove(&index));
                    table.remove(hash(index), place);
                }
                None => {
                    let is_proven = chance & 1 << 40 == 0;
                    table.insert(hash(index), slot(index), is_proven);
                    held.insert(index, is_proven);
                }
            }
        }
        assert!(held.len() > ENTRIES / 4, "{}", held.len());
        for index in held.into_keys() {
            let place = table.find(hash(index), |one| one == slot(index));
            table.remove(hash(index), place.expect("it is held"));
        }
        let words = table.words.at(0, table.words.len());
        assert!(words.iter().all(|word| word.load(Relaxed) == 0));
    }

    #[test]
    fn a_full_table_finds_all_and_marks_each_alone() {
        let table = table();
        (0..ENTRIES).for_each(|index| table.insert(hash(index), slot(index), false));
        let find = |index| table.find(hash(index), |one| one == slot(index)).unwrap();
        table.note_use(find(3));
        table.prove(find(3));
        for index in 0..ENTRIES {
            assert_eq!(table.is_proven(find(index)), index == 3);
            assert_eq!(table.take_use(find(index)), index == 3);
            assert!(!table.take_use(find(index)));
        }
        assert_eq!(table.find(hash(0), |_| false), None);
    }

    #[test]
    fn a_table_without_lines_holds_nothing() {
        let words =
            MemoryWords::new((MachineWords::default().words)(0), 0..0, MachineWords::default());
        let table = EntryTable::new(words, 1);
        assert_eq!(table.find(7, |_| true), None);
        table.fetch(7);
    }
}
