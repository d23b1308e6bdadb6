//! The parts of a store: its limits, the memory it lies in, and the cipher that seals it.
//!
//! Owns how much memory is wanted. Making it, and keeping it for a successor, is the caller's.

use std::collections::hash_map::RandomState;
use std::fmt::{self, Debug, Formatter};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use crate::blocks::{BLOCK_WORDS, MachineWords, VALUE_BLOCKS_MAX};
use crate::index::{BlockRow, ENTRY_BYTES};
use crate::tiers::ValueCipher;

/// The cost of a block, its row and its share of the hash table included.
pub(crate) const BLOCK_COST_BYTES: usize = 320;

const _: () = assert!(BLOCK_WORDS * 8 + size_of::<BlockRow>() + ENTRY_BYTES <= BLOCK_COST_BYTES);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    /// Entries it may hold; 0 = it holds nothing.
    pub entries_max: usize,
    /// Bytes its entries may take, keys and bookkeeping among them.
    pub bytes_max: usize,
    /// How long an entry may be used after it was put.
    pub lifetime: Duration,
}

impl Options {
    /// How many blocks the entries may take: what the bytes allow, and no more than entries of the
    /// largest size could use.
    pub(crate) fn blocks(&self) -> usize {
        let useful = self.entries_max.saturating_mul(VALUE_BLOCKS_MAX);
        // A place in the index has 32 bits.
        (self.bytes_max / BLOCK_COST_BYTES).min(useful).min(u32::MAX as usize - 1)
    }
}

/// The memory that a store's entries lie in, and the cipher that protects them there.
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
    /// Memory that somebody made, of [`Memory::words_of`] words: all zero, or as a store left it
    /// whose process has ended. Nobody else may write there while a store lives in it.
    ///
    /// `seal`, `hash_key` (a secret) and `zero` (what times are counted from) must be those of the
    /// store that left it, or else its entries are not found.
    pub fn new(
        words: Arc<dyn AsRef<[AtomicU64]> + Send + Sync>,
        seal: Arc<dyn ValueCipher>,
        hash_key: [u8; 16],
        zero: Instant,
    ) -> Self {
        Self { words, seal, hash_key, zero, machine: MachineWords::default(), is_in_use: false }
    }

    /// The same while another store lives in it, which will let go of it.
    #[must_use]
    pub fn in_use(self) -> Self {
        Self { is_in_use: true, ..self }
    }

    /// The same, where the machine can do this.
    #[must_use]
    pub fn on(self, machine: MachineWords) -> Self {
        Self { machine, ..self }
    }

    /// Memory that ends with the process.
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

    /// How many words a store with these limits wants.
    pub fn words_of(options: Options) -> usize {
        options.blocks() * BLOCK_WORDS
    }
}

/// The key must not reach a log.
impl Debug for Memory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words = (*self.words).as_ref().len();
        f.debug_struct("Memory").field("words", &words).finish_non_exhaustive()
    }
}
