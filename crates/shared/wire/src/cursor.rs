//! A reader of hostile bytes: missing bytes are `None`, never a panic.
//!
//! Handles big-endian numbers and length-prefixed vectors; knows no protocol.

/// The unread bytes, and their position in the slice first given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, position: 0 }
    }

    /// Returns how many bytes of the first slice lie before the next one.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the next bytes as a cursor, whose positions still count from the first slice.
    pub(crate) fn part(&mut self, bytes: usize) -> Option<Self> {
        let (head, tail) = self.rest.split_at_checked(bytes)?;
        let part = Self { rest: head, position: self.position };
        self.rest = tail;
        self.position += bytes;
        Some(part)
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        self.part(bytes).map(|part| part.rest)
    }

    /// Reads an element of DER with this tag; returns its content.
    pub(crate) fn element(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.u8()? != tag {
            return None;
        }
        let length = match self.u8()? {
            short @ ..=0x7f => short.into(),
            0x81 => self.u8()?.into(),
            0x82 => self.u16()?.into(),
            _ => return None,
        };
        self.take(length)
    }

    /// Reads an element of DER with this tag; returns it with its header.
    pub(crate) fn whole_element(&mut self, tag: u8) -> Option<&'a [u8]> {
        let before = self.rest;
        self.element(tag)?;
        before.get(..before.len() - self.rest.len())
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a vector behind one byte of length.
    pub(crate) fn vector8(&mut self) -> Option<Self> {
        let bytes = self.u8()?;
        self.part(bytes.into())
    }

    /// Reads a vector behind two bytes of length.
    pub(crate) fn vector16(&mut self) -> Option<Self> {
        let bytes = self.u16()?;
        self.part(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_place() {
        let mut cursor = Cursor::new(&[1, 0, 2, 7, 8, 9]);
        assert_eq!(cursor.u8(), Some(1));
        let part = cursor.vector16().unwrap();
        assert_eq!((part.position(), part.rest()), (3, &[7, 8][..]));
        assert_eq!((cursor.position(), cursor.rest()), (5, &[9][..]));
    }

    #[test]
    fn what_is_not_there_is_none() {
        assert!(Cursor::new(&[5, 1, 2]).vector8().is_none());
        assert!(Cursor::new(&[0]).vector16().is_none());
        assert!(Cursor::new(&[1, 2, 3]).u32().is_none());
        assert!(Cursor::new(&[]).u8().is_none());
    }
}
