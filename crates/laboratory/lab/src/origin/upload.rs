//! A request's body, read to its end and forgotten.
//!
//! Pure: bytes in, how many of them were the body's out. Nothing is kept but the place in it.

use super::parse::Framing;

/// A body that is coming in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Upload {
    /// So many bytes are still to come.
    Length(u64),
    /// A chunk's size is being read (RFC 9112, section 7.1).
    Size {
        /// Its digits so far.
        value: u64,
        /// How many digits those were.
        digits: u8,
    },
    /// An extension of a chunk's line, of so many bytes so far.
    Extension {
        /// The chunk's size.
        size: u64,
        /// Bytes of the extension.
        bytes: u16,
    },
    /// A chunk's line ends.
    LineEnd {
        /// The chunk's size.
        size: u64,
    },
    /// So many bytes of a chunk are still to come.
    Data(u64),
    /// A chunk's data ends; the bytes of the line end that were read.
    DataEnd(u8),
    /// Trailers.
    Trailer {
        /// Bytes of the line so far.
        line: u16,
        /// Bytes of all of them so far.
        bytes: u16,
    },
    /// It is over.
    Done,
}

/// Bytes that are no chunked body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct UploadFault;

/// Sixteen hexadecimal digits fill 64 bits.
const DIGITS_MAX: u8 = 16;

/// Nobody sends long extensions or trailers but to hurt.
const EXTRA_BYTES_MAX: u16 = 4096;

impl Upload {
    /// A body that is framed that way, none of it read.
    pub(super) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Length(0) => Self::Done,
            Framing::Length(bytes) => Self::Length(bytes),
            Framing::Chunked => Self::Size {
                value: 0,
                digits: 0,
            },
        }
    }

    /// Whether all of it was read.
    #[inline]
    pub(super) fn is_done(self) -> bool {
        self == Self::Done
    }

    /// Reads on, and says how many bytes of these belong to the body.
    pub(super) fn skip(&mut self, bytes: &[u8]) -> Result<usize, UploadFault> {
        let mut at = 0;
        while at < bytes.len() && !self.is_done() {
            match self {
                Self::Length(left) => {
                    at += take(left, bytes.len() - at);
                    if *left == 0 {
                        *self = Self::Done;
                    }
                }
                Self::Data(left) => {
                    at += take(left, bytes.len() - at);
                    if *left == 0 {
                        *self = Self::DataEnd(0);
                    }
                }
                _ => {
                    *self = self.after(bytes[at])?;
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    /// The state after one byte of framing.
    fn after(self, byte: u8) -> Result<Self, UploadFault> {
        match (self, byte) {
            (Self::Size { value, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F')
                if digits < DIGITS_MAX =>
            {
                let digit = char::from(byte).to_digit(16).ok_or(UploadFault)?;
                let value = value << 4 | u64::from(digit);
                let digits = digits + 1;
                Ok(Self::Size { value, digits })
            }
            (
                Self::Size {
                    value: size,
                    digits,
                },
                b'\r',
            ) if digits > 0 => Ok(Self::LineEnd { size }),
            (
                Self::Size {
                    value: size,
                    digits,
                },
                b';' | b' ' | b'\t',
            ) if digits > 0 => Ok(Self::Extension { size, bytes: 1 }),
            (Self::Extension { size, .. }, b'\r') => Ok(Self::LineEnd { size }),
            (Self::Extension { size, bytes }, _) if byte != b'\n' && bytes < EXTRA_BYTES_MAX => {
                let bytes = bytes + 1;
                Ok(Self::Extension { size, bytes })
            }
            (Self::LineEnd { size: 0 }, b'\n') => Ok(Self::Trailer { line: 0, bytes: 0 }),
            (Self::LineEnd { size }, b'\n') => Ok(Self::Data(size)),
            (Self::DataEnd(0), b'\r') => Ok(Self::DataEnd(1)),
            (Self::DataEnd(1), b'\n') => Ok(Self::Size {
                value: 0,
                digits: 0,
            }),
            (Self::Trailer { line: 0, .. }, b'\n') => Ok(Self::Done),
            (Self::Trailer { bytes, .. }, b'\n') => Ok(Self::Trailer { line: 0, bytes }),
            // It does not count as the line's: an empty line is one with nothing else.
            (trailer @ Self::Trailer { .. }, b'\r') => trailer.longer(0),
            (trailer @ Self::Trailer { .. }, _) => trailer.longer(1),
            _ => Err(UploadFault),
        }
    }

    fn longer(self, by: u16) -> Result<Self, UploadFault> {
        match self {
            Self::Trailer { line, bytes } if bytes < EXTRA_BYTES_MAX => Ok(Self::Trailer {
                line: line + by,
                bytes: bytes + 1,
            }),
            _ => Err(UploadFault),
        }
    }
}

/// Takes up to `available` off what is left, and says how many.
fn take(left: &mut u64, available: usize) -> usize {
    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(available);
    *left -= taken as u64;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes the body has, if it ends within these.
    fn length(framing: Framing, bytes: &[u8]) -> Result<Option<usize>, UploadFault> {
        let mut upload = Upload::new(framing);
        let used = upload.skip(bytes)?;
        Ok(upload.is_done().then_some(used))
    }

    fn chunked(bytes: &str) -> Result<Option<usize>, UploadFault> {
        length(Framing::Chunked, bytes.as_bytes())
    }

    #[test]
    fn a_length_ends_a_body() {
        assert_eq!(length(Framing::Length(0), b"GET"), Ok(Some(0)));
        assert_eq!(length(Framing::Length(5), b"helloGET"), Ok(Some(5)));
        assert_eq!(length(Framing::Length(9), b"hello"), Ok(None));
    }

    #[test]
    fn chunks_end_a_body() {
        assert_eq!(chunked("0\r\n\r\nGET"), Ok(Some(5)));
        assert_eq!(chunked("5\r\nhello\r\n0\r\n\r\nGET"), Ok(Some(15)));
        let long = format!("A;x=y\r\n{}\r\n00\r\nT: 1\r\nU: 2\r\n\r\n", "x".repeat(10));
        assert_eq!(chunked(&long), Ok(Some(long.len())));
        assert_eq!(chunked("5\r\nhel"), Ok(None));
    }

    #[test]
    fn the_cuts_of_the_network_change_nothing() {
        let body = "3\r\nabc\r\nb ; e\r\nhello world\r\n0\r\nT: 1\r\n\r\n".as_bytes();
        let mut upload = Upload::new(Framing::Chunked);
        for (index, byte) in body.iter().enumerate() {
            assert!(!upload.is_done(), "{index}");
            assert_eq!(upload.skip(&[*byte]), Ok(1));
        }
        assert!(upload.is_done());
        assert_eq!(upload.skip(b"GET"), Ok(0));
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for bytes in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "5\nhello",
            "5\r\nhelloX",
            "5\r\nhello\n",
            "00000000000000001\r\n",
            "5;a\nhello",
        ] {
            assert_eq!(chunked(bytes), Err(UploadFault), "{bytes:?}");
        }
        let extension = format!("5;{}", "x".repeat(EXTRA_BYTES_MAX.into()));
        assert_eq!(chunked(&extension), Err(UploadFault));
        let trailers = format!("0\r\n{}", "T: 1\r\n".repeat(1000));
        assert_eq!(chunked(&trailers), Err(UploadFault));
    }

    #[test]
    fn the_largest_chunk_is_counted() {
        assert_eq!(chunked("ffffffffffffffff\r\nx"), Ok(None));
    }
}
