//! Words of memory, and what the machine does for them.
//!
//! Owns the part that one owner has of them. Making memory, and asking for it ahead of its use, is
//! the machine's, and so the caller's.

use std::fmt::{self, Debug, Formatter};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The abilities of the machine that a store can use beyond plain memory. It works without.
#[derive(Clone, Copy, Debug)]
pub struct MachineWords {
    /// Makes a number of zero words of this process's own: large pages make a large store faster.
    pub words: fn(usize) -> Arc<dyn AsRef<[AtomicU64]> + Send + Sync>,
    /// Asks for words that will be read soon, and does not wait until they are here.
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
    /// The words of this range, as far as there are any.
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

    /// `count` words from `start`, which are ours.
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
