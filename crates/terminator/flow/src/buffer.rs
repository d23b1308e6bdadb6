//! Buffers for bytes on their way, and the pool that they come from and return to.
//!
//! A connection holds a buffer only while bytes are in it, so that an idle one holds none. Each
//! worker has its own pool; nothing here is shared.

use tls::record::{OVERHEAD_BYTES_MAX, PLAINTEXT_BYTES_MAX, RECORD_BYTES_MAX};
use tls::traffic::CONTROL_BYTES_MAX;

use crate::record_sizing::SHORT_OVERHEAD_BYTES_MAX;

/// Records of full size that the large buffer holds. Reading 256 KiB at once from a backend costs
/// about 9 % less than 64 KiB at once; more than this does not fit the second-level cache.
pub const RECORDS_LARGE: usize = 16;

/// Room for the largest record, or for one full record of ours with alerts behind it.
const SMALL_BYTES: usize = RECORD_BYTES_MAX + CONTROL_BYTES_MAX;
const LARGE_BYTES: usize = RECORDS_LARGE * (PLAINTEXT_BYTES_MAX + OVERHEAD_BYTES_MAX)
    + SHORT_OVERHEAD_BYTES_MAX
    + 2 * CONTROL_BYTES_MAX;

// A handshake never fills the large buffer: it fails before that, with an alert.
const _: () = assert!(tls::handshake::WAITING_BYTES_MAX < LARGE_BYTES);
const _: () = assert!(6 * (wire::client_hello::HELLO_BYTES_MAX + 4) < LARGE_BYTES);

/// Most spare buffers, by size: 5 MiB and 16 MiB a worker. Memory beyond that goes back to the
/// allocator.
const SMALL_KEPT_MAX: usize = 256;
const LARGE_KEPT_MAX: usize = 64;

/// Spare buffers kept when none is taken: as many as a few clients need.
const SMALL_IDLE_MAX: usize = 16;
const LARGE_IDLE_MAX: usize = 1;

/// Most large buffers in use at once: 128 MiB a worker. Beyond that even bulk goes through small
/// ones, so that many slow readers cannot take all memory.
const LARGE_OUT_MAX: usize = 512;

/// Bytes of the small buffers that a connection holds at most: one for each direction.
pub const CONNECTION_BYTES_MAX: usize = 2 * SMALL_BYTES;

/// Most bytes that a worker holds beside that: large buffers in use, and spare buffers.
pub const WORKER_BYTES_MAX: usize =
    LARGE_OUT_MAX * LARGE_BYTES + SMALL_KEPT_MAX * SMALL_BYTES + LARGE_KEPT_MAX * LARGE_BYTES;

/// Size of a buffer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BufferSize {
    Small,
    Large,
}

/// Memory, of which a part is in use. Boxed, because an idle connection has five places for buffers
/// and no buffer.
#[derive(Debug)]
pub struct Buffer(Box<BufferMemory>);

/// Memory with the bytes between `start` and `end` in use.
#[derive(Debug)]
struct BufferMemory {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// Size at creation: the buffer may have grown since.
    made: BufferSize,
}

impl Buffer {
    fn new(made: BufferSize, bytes: usize) -> Self {
        let bytes = vec![0; bytes].into_boxed_slice();
        Self(Box::new(BufferMemory { bytes, start: 0, end: 0, made }))
    }

    /// Returns the bytes in use.
    pub fn data(&self) -> &[u8] {
        &self.0.bytes[self.0.start..self.0.end]
    }

    /// Returns the bytes in use, to be changed in place.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.0.bytes[self.0.start..self.0.end]
    }

    pub fn space(&mut self) -> &mut [u8] {
        &mut self.0.bytes[self.0.end..]
    }

    /// Reports whether no byte is in use.
    pub fn is_empty(&self) -> bool {
        self.0.start == self.0.end
    }

    /// Reports whether the buffer has the room of [`BufferSize::Large`].
    pub fn is_large(&self) -> bool {
        self.0.bytes.len() >= LARGE_BYTES
    }

    /// Notes that `count` bytes were written into the room.
    pub fn fill(&mut self, count: usize) {
        self.0.end += count;
        assert!(self.0.end <= self.0.bytes.len(), "no more is filled than there was room");
    }

    /// Drops `count` bytes at the front.
    pub fn consume(&mut self, count: usize) {
        self.0.start += count;
        assert!(self.0.start <= self.0.end, "no more is consumed than was in use");
    }

    /// Moves the bytes in use to the front, so that all room is behind them.
    pub fn compact(&mut self) {
        if self.0.start > 0 {
            self.0.bytes.copy_within(self.0.start..self.0.end, 0);
            self.0.end -= self.0.start;
            self.0.start = 0;
        }
    }

    /// Makes room for `count` bytes, growing if necessary: for handshakes with long certificate
    /// chains, and for early data.
    pub fn reserve(&mut self, count: usize) {
        if self.0.bytes.len() - self.0.end < count {
            self.compact();
        }
        if self.0.bytes.len() - self.0.end < count {
            let mut grown = vec![0; (self.0.end + count).next_power_of_two()];
            grown[..self.0.end].copy_from_slice(&self.0.bytes[..self.0.end]);
            self.0.bytes = grown.into_boxed_slice();
        }
    }

    /// Appends bytes, growing if necessary.
    pub fn append(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.0.bytes[self.0.end..self.0.end + bytes.len()].copy_from_slice(bytes);
        self.0.end += bytes.len();
    }

    fn clear(&mut self) {
        self.0.start = 0;
        self.0.end = 0;
    }
}

/// Bytes received from one end that wait to be processed; a buffer is held only while there are
/// any.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) buffer: Option<Buffer>,
    /// Whether the last read filled its room.
    is_bulk: bool,
}

impl Inbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.data().is_empty()
    }

    pub(crate) fn data(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], Buffer::data)
    }

    /// Returns room for records, or for bytes that are relayed as they come.
    pub(crate) fn room(&mut self, pool: &mut Pool) -> &mut [u8] {
        let is_bulk = self.is_bulk;
        self.buffer.get_or_insert_with(|| pool.take_for(is_bulk)).space()
    }

    /// Returns room for a handshake: one of its messages may be longer than one record, and the
    /// large buffer limits it.
    pub(crate) fn message_room(&mut self, pool: &mut Pool) -> &mut [u8] {
        let buffer = self.buffer.get_or_insert_with(|| pool.take(BufferSize::Small));
        if buffer.space().is_empty() {
            buffer.compact();
        }
        if buffer.space().is_empty() && !buffer.is_large() {
            let mut larger = pool.take(BufferSize::Large);
            larger.append(buffer.data());
            pool.give(std::mem::replace(buffer, larger));
        }
        buffer.space()
    }

    /// Returns room for bytes that nobody reads any more: earlier ones are dropped.
    pub(crate) fn dropping_room(&mut self, pool: &mut Pool) -> &mut [u8] {
        let buffer = self.buffer.get_or_insert_with(|| pool.take(BufferSize::Small));
        buffer.clear();
        buffer.space()
    }

    /// Notes `count` bytes that were received into the room.
    pub(crate) fn received(&mut self, count: usize) {
        if count > 0 {
            let buffer = self.buffer.as_mut().expect("bytes were received into this buffer");
            buffer.fill(count);
            self.is_bulk = buffer.space().is_empty();
        }
    }

    /// Drops `count` bytes at the front.
    pub(crate) fn consume(&mut self, count: usize, pool: &mut Pool) {
        if let Some(buffer) = &mut self.buffer {
            buffer.consume(count);
        }
        pool.give_if_empty(&mut self.buffer);
    }

    /// Keeps an incomplete record, in a larger buffer if bytes come in bulk.
    pub(crate) fn keep_rest(&mut self, pool: &mut Pool) {
        self.keep_in(self.is_bulk, pool);
    }

    /// Keeps bytes for a client that reads nothing in the smallest buffer that fits them.
    pub(crate) fn shrink(&mut self, pool: &mut Pool) {
        if self.data().len() <= RECORD_BYTES_MAX {
            self.keep_in(false, pool);
        }
    }

    fn keep_in(&mut self, is_large: bool, pool: &mut Pool) {
        pool.give_if_empty(&mut self.buffer);
        let Some(rest) = &mut self.buffer else {
            return;
        };
        // A paused connection must not keep a large buffer for half a record.
        if is_large != rest.is_large() {
            let mut fitting = pool.take_for(is_large);
            fitting.append(rest.data());
            pool.give(std::mem::replace(rest, fitting));
        } else {
            rest.compact();
        }
    }
}

#[derive(Debug, Default)]
pub struct Pool {
    small: SpareBuffers,
    large: SpareBuffers,
    in_use: usize,
    large_in_use: usize,
    /// Buffer where short records are put together before they are appended to a buffer.
    pub(crate) scratch: Vec<u8>,
}

/// Spare buffers of one size; the last one is taken first.
#[derive(Debug, Default)]
struct SpareBuffers {
    buffers: Vec<Buffer>,
    /// Fewest spare buffers since the last shedding: as many were not needed since then.
    least: usize,
}

impl SpareBuffers {
    fn take(&mut self) -> Option<Buffer> {
        let taken = self.buffers.pop();
        self.least = self.least.min(self.buffers.len());
        taken
    }

    /// Frees buffers that were not taken since the last call.
    fn shed(&mut self, idle_max: usize) {
        let excess = self.buffers.len().saturating_sub(idle_max);
        self.buffers.drain(..self.least.min(excess));
        self.least = self.buffers.len();
    }
}

impl Pool {
    /// Creates an empty pool, which fills with returned buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty buffer: the last returned one, because it is still in the cache.
    pub fn take(&mut self, size: BufferSize) -> Buffer {
        self.in_use += 1;
        self.large_in_use += usize::from(size == BufferSize::Large);
        let (kept, bytes) = match size {
            BufferSize::Small => (&mut self.small, SMALL_BYTES),
            BufferSize::Large => (&mut self.large, LARGE_BYTES),
        };
        kept.take().unwrap_or_else(|| Buffer::new(size, bytes))
    }

    /// Returns an empty buffer for bulk, as long as there are not too many, or for one record.
    pub fn take_for(&mut self, is_bulk: bool) -> Buffer {
        let is_large = is_bulk && self.large_in_use < LARGE_OUT_MAX;
        self.take(if is_large { BufferSize::Large } else { BufferSize::Small })
    }

    /// Takes a buffer back; its content is dropped.
    pub fn give(&mut self, mut buffer: Buffer) {
        self.in_use -= 1;
        self.large_in_use -= usize::from(buffer.0.made == BufferSize::Large);
        buffer.clear();
        match buffer.0.bytes.len() {
            SMALL_BYTES if self.small.buffers.len() < SMALL_KEPT_MAX => {
                self.small.buffers.push(buffer);
            }
            LARGE_BYTES if self.large.buffers.len() < LARGE_KEPT_MAX => {
                self.large.buffers.push(buffer);
            }
            _ => {}
        }
    }

    /// Takes the buffer back if it has become empty.
    pub fn give_if_empty(&mut self, slot: &mut Option<Buffer>) {
        if slot.as_ref().is_some_and(Buffer::is_empty)
            && let Some(buffer) = slot.take()
        {
            self.give(buffer);
        }
    }

    /// Takes the buffer back, whatever it holds.
    pub fn give_all(&mut self, slot: &mut Option<Buffer>) {
        if let Some(buffer) = slot.take() {
            self.give(buffer);
        }
    }

    /// Takes the buffer back, and returns its content.
    pub(crate) fn take_all(&mut self, slot: &mut Option<Buffer>) -> Vec<u8> {
        let bytes = slot.as_ref().map_or(Vec::new(), |one| one.data().to_vec());
        self.give_all(slot);
        bytes
    }

    /// Returns the number of buffers in use.
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    pub fn spare(&self) -> usize {
        self.small.buffers.len() + self.large.buffers.len()
    }

    /// Reports whether there are more spare buffers than are kept when none is taken.
    pub fn has_excess(&self) -> bool {
        let (small, large) = (&self.small.buffers, &self.large.buffers);
        small.len() > SMALL_IDLE_MAX || large.len() > LARGE_IDLE_MAX
    }

    /// Frees spare buffers that were not taken since the last call.
    pub fn shed(&mut self) {
        self.small.shed(SMALL_IDLE_MAX);
        self.large.shed(LARGE_IDLE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_taken_for_a_while_is_let_go() {
        let mut pool = Pool::new();
        let give = |pool: &mut Pool, count: usize| {
            let all: Vec<_> = (0..count).map(|_| pool.take(BufferSize::Small)).collect();
            all.into_iter().for_each(|one| pool.give(one));
        };
        give(&mut pool, 100);
        assert!(pool.has_excess());
        pool.shed();
        assert_eq!(pool.spare(), 100, "all were taken before");
        give(&mut pool, 30);
        pool.shed();
        assert_eq!(pool.spare(), 30);
        pool.shed();
        assert_eq!((pool.spare(), pool.has_excess()), (SMALL_IDLE_MAX, false));
        give(&mut pool, SMALL_KEPT_MAX + 1);
        assert_eq!(pool.spare(), SMALL_KEPT_MAX);
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn large_buffers_that_have_grown_come_back_as_large_ones() {
        let mut pool = Pool::new();
        let mut grown = pool.take(BufferSize::Large);
        grown.append(&vec![0; LARGE_BYTES + 1]);
        pool.give(grown);
        assert_eq!((pool.in_use, pool.large_in_use), (0, 0));
    }
}
