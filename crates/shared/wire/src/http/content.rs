//! The content of a message, read to its end and not kept (RFC 9112 sections 6 and 7.1).

/// The largest extension of a chunk's line, and the longest trailer section. Few are sent, and
/// content that consists of them would never end.
const EXTRA_BYTES_MAX: u16 = 16 * 1024;

/// Sixteen hexadecimal digits fill 64 bits.
const DIGITS_MAX: u8 = 16;

/// The end of a message's content (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ContentEnd {
    /// After this number of bytes; 0 if there is no content.
    Length(u64),
    Chunked,
    Close,
}

/// Content that is being read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Content {
    place: ContentPlace,
    bytes: u64,
}

/// Bytes that are no chunks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ContentFault;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ContentPlace {
    /// This number of bytes of content.
    Length(u64),
    /// Content until the connection is closed.
    UntilClose,
    /// Digits of a chunk's size: its value and their number so far.
    Size(u64, u8),
    /// An extension of the line of a chunk of this size, and its length so far.
    Extension(u64, u16),
    /// The line feed behind the size of a chunk.
    SizeEnd(u64),
    /// This number of bytes of a chunk.
    Data(u64),
    /// The carriage return behind a chunk.
    DataReturn,
    /// The line feed behind a chunk.
    DataEnd,
    /// Trailers: whether the line is empty so far, and the length of all lines so far.
    Trailer(bool, u16),
    Done,
}

impl Content {
    /// Content of which nothing was read.
    pub fn new(end: ContentEnd) -> Self {
        let place = match end {
            ContentEnd::Length(0) => ContentPlace::Done,
            ContentEnd::Length(bytes) => ContentPlace::Length(bytes),
            ContentEnd::Chunked => ContentPlace::Size(0, 0),
            ContentEnd::Close => ContentPlace::UntilClose,
        };
        Self { place, bytes: 0 }
    }

    /// The bytes of content so far, without what frames chunks.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether all of it was read.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.place == ContentPlace::Done
    }

    /// Whether the end of the connection completes it.
    pub fn may_end_by_close(&self) -> bool {
        matches!(self.place, ContentPlace::Done | ContentPlace::UntilClose)
    }

    /// The number of bytes that are still to come, if it is known.
    pub fn bytes_left(&self) -> Option<u64> {
        match self.place {
            ContentPlace::Length(left) => Some(left),
            ContentPlace::Done => Some(0),
            _ => None,
        }
    }

    /// Reads on, and returns how many of these bytes belong to the content and its framing.
    ///
    /// # Errors
    /// [`ContentFault`].
    pub fn read(&mut self, bytes: &[u8]) -> Result<usize, ContentFault> {
        let mut used = 0;
        while used < bytes.len() && !self.is_done() {
            let there = bytes.len() - used;
            used += match self.place {
                ContentPlace::UntilClose => {
                    self.take(u64::MAX, there, |_| ContentPlace::UntilClose)
                }
                ContentPlace::Length(left) => self.take(left, there, ContentPlace::after_length),
                ContentPlace::Data(left) => self.take(left, there, ContentPlace::after_data),
                place => {
                    self.place = place.after(bytes[used])?;
                    1
                }
            };
        }
        Ok(used)
    }

    fn take(&mut self, left: u64, there: usize, next: fn(u64) -> ContentPlace) -> usize {
        let taken = usize::try_from(left).map_or(there, |left| left.min(there));
        self.bytes += taken as u64;
        self.place = next(left - taken as u64);
        taken
    }
}

impl ContentPlace {
    fn after_length(left: u64) -> Self {
        match left {
            0 => Self::Done,
            left => Self::Length(left),
        }
    }

    fn after_data(left: u64) -> Self {
        match left {
            0 => Self::DataReturn,
            left => Self::Data(left),
        }
    }

    /// The place behind one byte of framing.
    fn after(self, byte: u8) -> Result<Self, ContentFault> {
        Ok(match (self, byte) {
            (Self::Size(size, 1..), b'\r') | (Self::Extension(size, _), b'\r') => {
                Self::SizeEnd(size)
            }
            (Self::Size(size, 1..), b';' | b' ' | b'\t') => Self::Extension(size, 1),
            (Self::Size(size, digits @ ..DIGITS_MAX), _) => {
                let digit = char::from(byte).to_digit(16).ok_or(ContentFault)?;
                Self::Size(size << 4 | u64::from(digit), digits + 1)
            }
            (Self::Extension(size, bytes @ ..EXTRA_BYTES_MAX), _) if byte != b'\n' => {
                Self::Extension(size, bytes + 1)
            }
            (Self::SizeEnd(0), b'\n') => Self::Trailer(true, 0),
            (Self::SizeEnd(size), b'\n') => Self::Data(size),
            (Self::DataReturn, b'\r') => Self::DataEnd,
            (Self::DataEnd, b'\n') => Self::Size(0, 0),
            (Self::Trailer(true, _), b'\n') => Self::Done,
            // A carriage return alone leaves the line empty.
            (Self::Trailer(empty, bytes @ ..EXTRA_BYTES_MAX), _) => {
                let empty = byte == b'\n' || empty && byte == b'\r';
                Self::Trailer(empty, bytes + 1)
            }
            _ => return Err(ContentFault),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes with framing, and those without, if all of it is there.
    fn read(end: ContentEnd, bytes: &[u8]) -> Result<Option<(usize, u64)>, ContentFault> {
        let mut whole = Content::new(end);
        let used = whole.read(bytes)?;
        let mut pieces = Content::new(end);
        let by_bytes = bytes.iter().map(|byte| pieces.read(&[*byte])).sum();
        assert_eq!((Ok(used), whole), (by_bytes, pieces), "{bytes:?}");
        Ok(whole.is_done().then_some((used, whole.bytes())))
    }

    fn chunked(text: &str) -> Result<Option<(usize, u64)>, ContentFault> {
        read(ContentEnd::Chunked, text.as_bytes())
    }

    #[test]
    fn a_length_ends_content() {
        assert_eq!(read(ContentEnd::Length(0), b"GET"), Ok(Some((0, 0))));
        assert_eq!(read(ContentEnd::Length(5), b"helloGET"), Ok(Some((5, 5))));
        assert_eq!(read(ContentEnd::Length(9), b"hello"), Ok(None));
        assert_eq!(read(ContentEnd::Close, b"hello"), Ok(None));
        let mut content = Content::new(ContentEnd::Close);
        assert_eq!((content.read(b"hello"), content.bytes()), (Ok(5), 5));
        assert!(content.may_end_by_close());
    }

    #[test]
    fn chunks_end_content() {
        assert_eq!(chunked("0\r\n\r\nGET"), Ok(Some((5, 0))));
        assert_eq!(chunked("5\r\nhello\r\n0\r\n\r\nGET"), Ok(Some((15, 5))));
        let long = format!("A;x=y\r\n{}\r\n00\r\nT: 1\r\nU: 2\r\n\r\n", "x".repeat(10));
        assert_eq!(chunked(&long), Ok(Some((long.len(), 10))));
        assert_eq!(chunked("5\r\nhel"), Ok(None));
        assert_eq!(chunked("ffffffffffffffff\r\nx"), Ok(None));
    }

    #[test]
    fn other_bytes_are_refused() {
        let extension = format!("5;{}", "x".repeat(EXTRA_BYTES_MAX.into()));
        let trailers = format!("0\r\n{}", "T: 1\r\n".repeat(3000));
        for text in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "5\nhello",
            "5\r\nhelloX",
            "5\r\nhello\n",
            "00000000000000001\r\n",
            "5;a\nhello",
            &extension,
            &trailers,
        ] {
            assert_eq!(chunked(text), Err(ContentFault), "{text:?}");
        }
    }
}
