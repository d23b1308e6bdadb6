//! A shard's rows, one a block, and the lists that run through them.
//!
//! Owns the links. The rows are this process's own: nobody else can have written them.

use crate::blocks::BlockSlot;

/// The facts of a block. All but `further` is of use in an entry's first block only.
///
/// A look-up of an entry that was found before does not come here: it would be one more line to
/// wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRow {
    pub(crate) hash: u64,
    pub(crate) put_at_ms: u64,
    /// The entry's next block; of a free block, the next free one.
    pub(crate) further: Option<BlockSlot>,
    links: [Links; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Links {
    before: Option<BlockSlot>,
    after: Option<BlockSlot>,
}

impl BlockRow {
    /// A row in no list.
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

    /// Adds a row for the next block; there will be `rows_max` at most.
    pub(crate) fn push(&mut self, row: BlockRow, rows_max: usize) {
        if self.0.len() == self.0.capacity() {
            // By halves and never past the limit: a doubled array would waste as much again.
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

/// The links of a row that a list runs through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListLinks {
    /// All entries, by the time of their put.
    Age,
    /// The entries of one queue, in the order in which they came to it.
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

    /// Puts `slot` behind another one of the list, or first.
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

    /// Makes two neighbours; `None` = the list's end on that side.
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
