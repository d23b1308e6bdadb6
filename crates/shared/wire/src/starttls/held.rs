//! A buffer of a peer's bytes that are taken from the front, piece by piece.

use std::mem;

/// Received bytes that were not taken yet. Taking a piece moves nothing, because a peer chooses how
/// many pieces there are: the rest is moved to the front once, when more comes.
#[derive(Debug, Default)]
pub(super) struct HeldBytes {
    bytes: Vec<u8>,
    /// Number of bytes taken.
    taken: usize,
}

impl HeldBytes {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..mem::take(&mut self.taken));
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Returns the next `count` bytes, or fewer if fewer are here.
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let begin = self.taken;
        self.taken += count.min(self.bytes.len() - begin);
        &self.bytes[begin..self.taken]
    }

    pub(super) fn take_all(&mut self) -> Vec<u8> {
        self.bytes.drain(..mem::take(&mut self.taken));
        mem::take(&mut self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_take_pieces_moves_nothing() {
        let mut held = HeldBytes::default();
        held.push(&[7; 50_000]);
        let (mut moves, mut place) = (0, held.rest().as_ptr_range().start);
        for _ in 0..10_000 {
            assert_eq!(held.take(5).len(), 5);
            moves += usize::from(held.rest().as_ptr_range().start != place.wrapping_add(5));
            place = held.rest().as_ptr_range().start;
        }
        assert_eq!((moves, held.rest()), (0, &[][..]));
        assert_eq!(held.take(1), b"");
    }

    #[test]
    fn what_was_taken_does_not_come_again() {
        let mut held = HeldBytes::default();
        held.push(b"abc");
        assert_eq!(held.take(2), b"ab");
        held.push(b"de");
        assert_eq!(held.rest(), b"cde");
        assert_eq!(held.take(1), b"c");
        assert_eq!(held.take_all(), b"de");
        assert_eq!(held.rest(), b"");
    }
}
