//! The memory in blocks of one size, and the layout of entries in them.
//!
//! Handles the meaning of every word, and one owner's part of the words. Allocating and prefetching
//! memory is the caller's task. A killed process, or an attacker, may have written the memory: each
//! value read is checked or means nothing beyond itself, and data that must be trusted is sealed.
//!
//! A block has 32 words. The first block of an entry holds
//! `mark (16), length (16), next block (32)`, the hash of the key, the time of the put, whether it
//! was ever used, nonce and tag (4 words), and the first 24 words of the sealed value; a further
//! one holds `mark, 0, next block` and 31 words. The mark of an entry's first block is written last
//! and erased first: half an entry has no mark.

use std::fmt::{self, Debug, Formatter};
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::tiers::Sealed;

/// Words of a block: four cache lines. A TLS 1.2 session takes about 110 bytes with its server
/// name, and 33 as its key, which the first block holds with room for another fifty.
pub(crate) const BLOCK_WORDS: usize = 32;

/// Longest key: a TLS session id has at most 32 bytes (RFC 5246, 7.4.1.2); as much again is for the
/// caller's prefix.
pub(crate) const KEY_BYTES_MAX: usize = 64;

/// Longest value: a session with a chain of three client certificates, twice over.
pub(crate) const VALUE_BYTES_MAX: usize = 16 << 10;

/// Most bytes that are sealed: a value, its key, and the key's length.
pub(crate) const SEALED_BYTES_MAX: usize = VALUE_BYTES_MAX + KEY_BYTES_MAX + 1;

/// Blocks of the longest value.
pub(crate) const VALUE_BLOCKS_MAX: usize = blocks_of(SEALED_BYTES_MAX);

const WORD_BYTES: usize = size_of::<u64>();
const FIRST_WORDS: Range<usize> = 8..BLOCK_WORDS;
const FURTHER_WORDS: Range<usize> = 1..BLOCK_WORDS;

/// Mark of a block that was never used; no later block was either.
const NEVER: u64 = 0;
const FREE: u64 = 0x4652;
const FIRST: u64 = 0x4649;
const FURTHER: u64 = 0x4655;

// Words of a first block.
const STATE: usize = 0;
const HASH: usize = 1;
const PUT_AT: usize = 2;
const USED: usize = 3;
const SEALED: Range<usize> = 4..8;

/// Returns the number of blocks that a value of this length takes.
pub(crate) const fn blocks_of(length: usize) -> usize {
    let first = (FIRST_WORDS.end - FIRST_WORDS.start) * WORD_BYTES;
    let further = (FURTHER_WORDS.end - FURTHER_WORDS.start) * WORD_BYTES;
    1 + length.saturating_sub(first).div_ceil(further)
}

/// A block's place, counted from 1 so that an `Option` of it takes no more room.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BlockSlot(NonZeroU32);

impl BlockSlot {
    /// Returns the place with this index; `None` if 32 bits cannot hold its number.
    pub(crate) fn new(index: usize) -> Option<Self> {
        let number = u32::try_from(index).ok()?.checked_add(1)?;
        Self::from_number(number)
    }

    /// Reverses [`Self::number`]; `None` for 0.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    pub(crate) fn number(self) -> u32 {
        self.0.get()
    }

    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct EntryHeader {
    pub(crate) hash: u64,
    pub(crate) put_at_ms: u64,
    /// Bytes of the sealed value.
    pub(crate) length: u16,
    pub(crate) sealed: Sealed,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BlockState {
    Never,
    /// Free, or of no known form.
    Free,
    First {
        length: u16,
        next: Option<BlockSlot>,
    },
    Further {
        next: Option<BlockSlot>,
    },
}

/// The part of the memory's blocks that one shard owns.
#[derive(Clone, Debug)]
pub(crate) struct Blocks(MemoryWords);

impl Blocks {
    /// Makes as many blocks as fit whole into these words.
    pub(crate) fn new(words: MemoryWords) -> Self {
        Self(words)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len() / BLOCK_WORDS
    }

    /// Prefetches a whole block, so that none of its lines is waited for alone.
    pub(crate) fn fetch(&self, slot: BlockSlot) {
        self.0.fetch(slot.index() * BLOCK_WORDS, BLOCK_WORDS);
    }

    /// Returns the hash that a first block holds.
    pub(crate) fn hash(&self, slot: BlockSlot) -> u64 {
        self.block(slot)[HASH].load(Relaxed)
    }

    pub(crate) fn state(&self, slot: BlockSlot) -> BlockState {
        let state = self.block(slot)[STATE].load(Acquire);
        let (mark, next) = (state & 0xffff, BlockSlot::from_number((state >> 32) as u32));
        match mark {
            NEVER => BlockState::Never,
            FIRST => BlockState::First { length: (state >> 16) as u16, next },
            FURTHER => BlockState::Further { next },
            _ => BlockState::Free,
        }
    }

    /// Returns the header of a first block; for any other block, a header that fits no value.
    pub(crate) fn header(&self, slot: BlockSlot) -> EntryHeader {
        let block = self.block(slot);
        EntryHeader {
            hash: block[HASH].load(Relaxed),
            put_at_ms: block[PUT_AT].load(Relaxed),
            length: (block[STATE].load(Acquire) >> 16) as u16,
            sealed: read_sealed(&block[SEALED]),
        }
    }

    /// Writes an entry to these blocks, which must be as many as its length takes.
    pub(crate) fn write(&self, slots: &[BlockSlot], header: &EntryHeader, value: &[u8]) {
        assert!(slots.len() == blocks_of(value.len()) && value.len() == usize::from(header.length));
        slots.iter().for_each(|slot| self.mark(*slot, FREE, 0, None));
        let (&first, further) = slots.split_first().expect("a value takes one block at least");
        let (head, mut rest) = value.split_at(value.len().min(FIRST_WORDS.len() * WORD_BYTES));
        let nexts = || further.iter().skip(1).map(|slot| Some(*slot)).chain([None]);
        for (&slot, next) in further.iter().zip(nexts()) {
            let here;
            (here, rest) = rest.split_at(rest.len().min(FURTHER_WORDS.len() * WORD_BYTES));
            write_bytes(&self.block(slot)[FURTHER_WORDS], here);
            self.mark(slot, FURTHER, 0, next);
        }
        let block = self.block(first);
        block[HASH].store(header.hash, Relaxed);
        block[PUT_AT].store(header.put_at_ms, Relaxed);
        block[USED].store(0, Relaxed);
        write_bytes(&block[SEALED.start..SEALED.start + 2], &header.sealed.tag);
        write_bytes(&block[SEALED.start + 2..SEALED.end], &header.sealed.nonce);
        write_bytes(&block[FIRST_WORDS], head);
        self.mark(first, FIRST, header.length, further.first().copied());
    }

    /// Adds a block's part of a value to what was read before it, up to the value's length.
    pub(crate) fn read(&self, slot: BlockSlot, is_first: bool, length: usize, value: &mut Vec<u8>) {
        let words = if is_first {
            &self.block(slot)[FIRST_WORDS]
        } else {
            &self.block(slot)[FURTHER_WORDS]
        };
        let mut bytes = [0; BLOCK_WORDS * WORD_BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(WORD_BYTES).zip(words) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        let wanted = length.saturating_sub(value.len());
        value.extend_from_slice(&bytes[..wanted.min(words.len() * WORD_BYTES)]);
    }

    /// Marks an entry as used, for a successor process.
    pub(crate) fn note_use(&self, slot: BlockSlot) {
        self.block(slot)[USED].store(1, Relaxed);
    }

    pub(crate) fn was_used(&self, slot: BlockSlot) -> bool {
        self.block(slot)[USED].load(Relaxed) == 1
    }

    /// Frees a block: all words behind its mark become zero.
    pub(crate) fn clear(&self, slot: BlockSlot) {
        self.mark(slot, FREE, 0, None);
        let rest = &self.block(slot)[STATE + 1..];
        rest.iter().for_each(|word| word.store(0, Relaxed));
    }

    fn mark(&self, slot: BlockSlot, mark: u64, length: u16, next: Option<BlockSlot>) {
        let next = next.map_or(0, BlockSlot::number);
        let state = mark | u64::from(length) << 16 | u64::from(next) << 32;
        // The mark is written after a first block's other words, in program order, because a
        // process that is killed leaves what it has written so far.
        self.block(slot)[STATE].store(state, Release);
        std::sync::atomic::fence(Release);
    }

    fn block(&self, slot: BlockSlot) -> &[AtomicU64] {
        self.0.at(slot.index() * BLOCK_WORDS, BLOCK_WORDS)
    }
}

fn read_sealed(words: &[AtomicU64]) -> Sealed {
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.chunks_exact_mut(WORD_BYTES).zip(words) {
        bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
    }
    let (tag, rest) = bytes.split_first_chunk().expect("32 bytes have 16");
    let (nonce, _) = rest.split_first_chunk().expect("16 bytes have 12");
    Sealed { tag: *tag, nonce: *nonce }
}

/// Writes bytes and, behind them, zeros to the end of the last word.
fn write_bytes(words: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in words.iter().zip(bytes.chunks(WORD_BYTES)) {
        let mut whole = [0; WORD_BYTES];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(whole), Relaxed);
    }
}

/// Tolerance between the times of two processes, which count from the same moment, measured twice.
const CLOCK_DIFFERENCE_MS: u64 = 1000;

/// An entry that an earlier process left.
#[derive(Debug)]
pub(crate) struct SurvivingEntry {
    pub(crate) first: BlockSlot,
    pub(crate) further: Vec<BlockSlot>,
    pub(crate) header: EntryHeader,
    pub(crate) was_used: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SurvivorLimits {
    pub(crate) now_ms: u64,
    pub(crate) lifetime_ms: u64,
    pub(crate) entries_max: usize,
}

/// Finds the entries that an earlier process left: an entry survives if its form is valid and it is
/// young enough. Changes to its value are noticed when it is opened.
///
/// Returns how many blocks were ever used, and the youngest entries among them, from old to new. No
/// block belongs to two of them.
pub(crate) fn survivors(
    blocks: &Blocks,
    wanted: SurvivorLimits,
    is_ours: impl Fn(u64) -> bool,
) -> (usize, Vec<SurvivingEntry>) {
    let slots = (0..blocks.len()).map_while(BlockSlot::new);
    let states = slots.map(|slot| (slot, blocks.state(slot)));
    let mut used = 0;
    let mut found: Vec<_> = states
        .take_while(|(_, state)| *state != BlockState::Never)
        .inspect(|_| used += 1)
        .filter_map(|(slot, state)| entry(blocks, slot, state))
        .filter(|one| is_young(one.header.put_at_ms, wanted) && is_ours(one.header.hash))
        .collect();
    found.sort_by_key(|one| one.header.put_at_ms);
    found.drain(..found.len().saturating_sub(wanted.entries_max));
    let mut is_claimed = vec![false; used];
    found.retain_mut(|one| claim(blocks, one, &mut is_claimed));
    (used, found)
}

fn entry(blocks: &Blocks, slot: BlockSlot, state: BlockState) -> Option<SurvivingEntry> {
    let BlockState::First { length, next } = state else {
        return None;
    };
    (usize::from(length) <= SEALED_BYTES_MAX).then(|| SurvivingEntry {
        first: slot,
        further: next.into_iter().collect(),
        header: blocks.header(slot),
        was_used: blocks.was_used(slot),
    })
}

fn is_young(put_at_ms: u64, wanted: SurvivorLimits) -> bool {
    let is_past = put_at_ms <= wanted.now_ms.saturating_add(CLOCK_DIFFERENCE_MS);
    is_past && wanted.now_ms.saturating_sub(put_at_ms) < wanted.lifetime_ms
}

/// Follows an entry through its blocks; `false` if their number does not fit its length, or another
/// entry has one of them.
fn claim(blocks: &Blocks, one: &mut SurvivingEntry, is_claimed: &mut [bool]) -> bool {
    let wanted = blocks_of(usize::from(one.header.length)) - 1;
    let mut next = std::mem::take(&mut one.further).pop();
    while let Some(slot) = next {
        let is_free = is_claimed.get(slot.index()) == Some(&false);
        if one.further.len() == wanted || !is_free || one.further.contains(&slot) {
            return false;
        }
        let BlockState::Further { next: after } = blocks.state(slot) else {
            return false;
        };
        one.further.push(slot);
        next = after;
    }
    let is_whole = one.further.len() == wanted;
    if is_whole {
        one.further.iter().for_each(|slot| is_claimed[slot.index()] = true);
    }
    is_whole
}

/// Abilities of the machine that a store can use beyond plain memory, but does not need.
#[derive(Clone, Copy, Debug)]
pub struct MachineWords {
    /// Allocates zero words of this process's own: large pages make a large store faster.
    pub words: fn(usize) -> Arc<dyn AsRef<[AtomicU64]> + Send + Sync>,
    /// Prefetches words that will be read soon, without waiting for them.
    pub fetch: fn(&[AtomicU64]),
}

impl Default for MachineWords {
    fn default() -> Self {
        let zeros = |count| {
            let words = std::iter::repeat_with(|| AtomicU64::new(0));
            Arc::new(words.take(count).collect::<Vec<_>>()) as _
        };
        Self { words: zeros, fetch: |_| {} }
    }
}

#[derive(Clone)]
pub(crate) struct MemoryWords {
    all: Arc<dyn AsRef<[AtomicU64]> + Send + Sync>,
    range: Range<usize>,
    fetch: fn(&[AtomicU64]),
}

impl MemoryWords {
    /// Takes the words of this range, as far as they exist.
    pub(crate) fn new(
        all: Arc<dyn AsRef<[AtomicU64]> + Send + Sync>,
        range: Range<usize>,
        machine: MachineWords,
    ) -> Self {
        let end = range.end.min((*all).as_ref().len());
        Self { all, range: range.start.min(end)..end, fetch: machine.fetch }
    }

    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns `count` words from `start`, which must be ours.
    pub(crate) fn at(&self, start: usize, count: usize) -> &[AtomicU64] {
        assert!(start + count <= self.len(), "the words are another's");
        let start = self.range.start + start;
        &(*self.all).as_ref()[start..start + count]
    }

    pub(crate) fn fetch(&self, start: usize, count: usize) {
        (self.fetch)(self.at(start, count));
    }
}

impl Debug for MemoryWords {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWords").field("range", &self.range).finish_non_exhaustive()
    }
}
