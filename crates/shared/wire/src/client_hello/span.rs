//! A place inside the hello's body, so that a parsed hello can own its bytes and still be read.

use crate::cursor::Cursor;

/// From `start` up to, not including, `end`.
///
/// Two bytes each: a body is at most [`super::HELLO_BYTES_MAX`] long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    start: u16,
    end: u16,
}

impl Span {
    pub(super) fn of(cursor: &Cursor<'_>) -> Self {
        let place = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
        Self {
            start: place(cursor.position()),
            end: place(cursor.position() + cursor.rest().len()),
        }
    }

    /// Those bytes of the body.
    pub(super) fn within(self, body: &[u8]) -> &[u8] {
        body.get(self.start.into()..self.end.into()).unwrap_or(&[])
    }
}
