//! Room for responses: pieces of memory that are filled in order.

use std::io::{self, IoSliceMut};

use crate::driver::PIECES_MAX;

/// The room for responses: pieces that are filled in order.
pub(crate) struct Pieces<'a> {
    pieces: [&'a mut [u8]; PIECES_MAX],
    /// The first that has room.
    first: usize,
    pub(crate) filled: usize,
}

impl<'a> Pieces<'a> {
    pub(crate) fn of(pieces: &mut impl Iterator<Item = &'a mut [u8]>) -> Self {
        Self {
            pieces: std::array::from_fn(|_| pieces.next().unwrap_or_default()),
            first: 0,
            filled: 0,
        }
    }

    /// Whether there is no room: pieces that are full, or that were never there.
    pub(crate) fn is_full(&self) -> bool {
        self.pieces
            .get(self.first)
            .is_none_or(|piece| piece.is_empty())
    }

    /// How many bytes it takes still.
    pub(crate) fn left(&self) -> usize {
        self.pieces[self.first..]
            .iter()
            .map(|piece| piece.len())
            .sum()
    }

    /// Copies as many of the bytes as there is room for.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_full() {
            let piece = &mut self.pieces[self.first];
            let count = piece.len().min(rest.len());
            piece[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            self.advance(count);
        }
        bytes.len() - rest.len()
    }

    /// Reads up to `bytes` bytes into the room that is left.
    pub(crate) fn fill(
        &mut self,
        bytes: usize,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let (mut left, mut used) = (bytes, 0);
        let mut pieces = self.pieces[self.first..].iter_mut();
        let mut slices: [IoSliceMut<'_>; PIECES_MAX] = std::array::from_fn(|_| {
            let piece = pieces.next().map(|piece| &mut **piece).unwrap_or_default();
            let count = piece.len().min(left);
            left -= count;
            used += usize::from(count > 0);
            IoSliceMut::new(&mut piece[..count])
        });
        let count = read(&mut slices[..used])?;
        self.advance(count);
        Ok(count)
    }

    fn advance(&mut self, count: usize) {
        self.filled += count;
        let mut rest = count;
        while rest > 0 {
            let piece = &mut self.pieces[self.first];
            let step = piece.len().min(rest);
            *piece = &mut std::mem::take(piece)[step..];
            rest -= step;
            self.first += usize::from(piece.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_filled_in_order_and_to_the_last_byte() {
        let mut memory = [0; 10];
        let mut room = Pieces::of(&mut memory.chunks_mut(4));
        assert_eq!(room.put(b"012"), 3);
        let read = |slices: &mut [IoSliceMut<'_>]| {
            let sizes: Vec<_> = slices.iter().map(|slice| slice.len()).collect();
            assert_eq!(sizes, [1, 2]);
            slices.iter_mut().for_each(|slice| slice.fill(b'x'));
            Ok(3)
        };
        assert_eq!(room.fill(3, read).unwrap(), 3);
        assert!(!room.is_full());
        assert_eq!(room.put(b"6789abc"), 4);
        assert!(room.is_full());
        assert_eq!((room.put(b"d"), room.filled), (0, 10));
        assert_eq!(&memory, b"012xxx6789");
    }

    #[test]
    fn no_room_is_full() {
        let room = Pieces::of(&mut std::iter::empty());
        assert!(room.is_full());
    }
}
