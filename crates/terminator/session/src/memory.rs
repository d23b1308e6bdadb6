//! The parts of a store: its limits, its memory, and the cipher that seals it. Allocating the
//! memory, and keeping it for a successor, is the caller's task.

use std::collections::hash_map::RandomState;
use std::fmt::{self, Debug, Formatter};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use crate::blocks::{BLOCK_WORDS, MachineWords, VALUE_BLOCKS_MAX};
use crate::index::{BlockRow, ENTRY_BYTES};
use crate::tiers::ValueCipher;

/// Bytes that a block costs, with its row and its share of the hash table.
pub(crate) const BLOCK_COST_BYTES: usize = 320;

const _: () = assert!(BLOCK_WORDS * 8 + size_of::<BlockRow>() + ENTRY_BYTES <= BLOCK_COST_BYTES);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    /// Most entries; 0 = the store holds nothing.
    pub entries_max: usize,
    /// Most bytes of all entries, including keys and bookkeeping.
    pub bytes_max: usize,
    /// Time for which an entry may be used after its put.
    pub lifetime: Duration,
}

impl Options {
    /// Returns the number of blocks: as many as the bytes allow, but no more than entries of the
    /// largest size could use.
    pub(crate) fn blocks(&self) -> usize {
        let useful = self.entries_max.saturating_mul(VALUE_BLOCKS_MAX);
        // An index into the blocks has 32 bits.
        (self.bytes_max / BLOCK_COST_BYTES).min(useful).min(u32::MAX as usize - 1)
    }
}

/// Memory of a store's entries, and the cipher that protects them there.
#[derive(Clone)]
pub struct Memory {
    pub(crate) words: Arc<dyn AsRef<[AtomicU64]> + Send + Sync>,
    pub(crate) seal: Arc<dyn ValueCipher>,
    pub(crate) hash_key: [u8; 16],
    pub(crate) zero: Instant,
    pub(crate) machine: MachineWords,
    pub(crate) is_in_use: bool,
}

impl Memory {
    /// Uses [`Memory::words_of`] words that the caller allocated: all zero, or as a store of an
    /// ended process left them. Nobody else may write there while a store uses them.
    ///
    /// `seal`, `hash_key` (a secret) and `zero` (the origin of times) must be equal to the earlier
    /// store's, or else its entries are not found.
    pub fn new(
        words: Arc<dyn AsRef<[AtomicU64]> + Send + Sync>,
        seal: Arc<dyn ValueCipher>,
        hash_key: [u8; 16],
        zero: Instant,
    ) -> Self {
        Self { words, seal, hash_key, zero, machine: MachineWords::default(), is_in_use: false }
    }

    /// Marks the memory as used by another store, which will let go of it.
    #[must_use]
    pub fn in_use(self) -> Self {
        Self { is_in_use: true, ..self }
    }

    /// Uses these abilities of the machine.
    #[must_use]
    pub fn on(self, machine: MachineWords) -> Self {
        Self { machine, ..self }
    }

    /// Allocates memory that ends with the process.
    pub fn private(
        options: Options,
        seal: Arc<dyn ValueCipher>,
        machine: MachineWords,
        zero: Instant,
    ) -> Self {
        let words = (machine.words)(Self::words_of(options));
        let random = RandomState::new();
        let hash_key = (u128::from(random.hash_one(0)) << 64) | u128::from(random.hash_one(1));
        Self::new(words, seal, hash_key.to_ne_bytes(), zero).on(machine)
    }

    /// Returns the number of words that a store with these limits needs.
    pub fn words_of(options: Options) -> usize {
        options.blocks() * BLOCK_WORDS
    }
}

/// Omits the key, which must not reach a log.
impl Debug for Memory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words = (*self.words).as_ref().len();
        f.debug_struct("Memory").field("words", &words).finish_non_exhaustive()
    }
}
