//! The value in which a session lies in a store (Valkey, Redis) that hosts share.
//!
//! Owns its form; the keys, and what is done with it, are the caller's. Numbers are big-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, [`VERSION`] |
//! | 4 | which secret's key encrypted the session |
//! | 8 | when the session ends, in milliseconds since 1970 |
//! | 12 | the nonce, random |
//! | | the session, encrypted, and the cipher's tag of 16 bytes, which covers the rest as well |

use crate::cursor::Cursor;

/// The version that is written and read.
pub const VERSION: u8 = 1;

pub const HEADER_BYTES: usize = 25;

/// Length of the tag of AES-256-GCM.
pub const TAG_BYTES: usize = 16;

/// The longest value: a session with a long chain of client certificates has some 16 KiB.
pub const VALUE_BYTES_MAX: usize = 1 << 16;

/// The head of a value, before the session, in clear and authenticated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    pub key_id: [u8; 4],
    /// When the session ends, in milliseconds since 1970.
    pub ends_ms: u64,
    pub nonce: [u8; 12],
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ValueFault {
    /// It is of a version that is not spoken here.
    Version(u8),
    /// It is too short or too long.
    Malformed,
}

impl Header {
    /// Reads the header; what follows it is the encrypted session.
    ///
    /// # Errors
    /// It is no value of a session.
    pub fn read(value: &[u8]) -> Result<Self, ValueFault> {
        if value.len() < HEADER_BYTES + TAG_BYTES || value.len() > VALUE_BYTES_MAX {
            return Err(ValueFault::Malformed);
        }
        let mut cursor = Cursor::new(value);
        match cursor.u8() {
            Some(VERSION) => {}
            Some(other) => return Err(ValueFault::Version(other)),
            None => return Err(ValueFault::Malformed),
        }
        Self::fields(&mut cursor).ok_or(ValueFault::Malformed)
    }

    fn fields(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            key_id: cursor.array()?,
            ends_ms: cursor.array().map(u64::from_be_bytes)?,
            nonce: cursor.array()?,
        })
    }

    /// The header's bytes.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = VERSION;
        bytes[1..5].copy_from_slice(&self.key_id);
        bytes[5..13].copy_from_slice(&self.ends_ms.to_be_bytes());
        bytes[13..].copy_from_slice(&self.nonce);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_nothing_else_is_one() {
        let header =
            Header { key_id: [1, 2, 3, 4], ends_ms: 0x0102_0304_0506_0708, nonce: [9; 12] };
        let mut value = header.to_bytes().to_vec();
        value.extend([0; TAG_BYTES]);
        assert_eq!(Header::read(&value), Ok(header));
        for length in 0..value.len() {
            assert_eq!(Header::read(&value[..length]), Err(ValueFault::Malformed));
        }
        let long = [&value[..], &vec![0; VALUE_BYTES_MAX]].concat();
        assert_eq!(Header::read(&long), Err(ValueFault::Malformed));
        value[0] = 2;
        assert_eq!(Header::read(&value), Err(ValueFault::Version(2)));
    }
}
