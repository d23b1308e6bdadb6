//! Our clients and servers send each other bytes that identify their stream and offset, so that one
//! wrong, lost, doubled or misdelivered byte is seen on either side.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// Head of a round: the client sends it with its bytes, and then the server its bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Head {
    pub(super) salt: u64,
    pub(super) round: u32,
    pub(super) up: u32,
    pub(super) down: u32,
    /// Whether the client may break off in the midst of a round.
    pub(super) may_break: bool,
}

pub(super) const HEAD_BYTES: usize = 32;

const MARK: u32 = 0x4c52_5431;

impl Head {
    /// Returns the head as bytes, with a checksum over all of them.
    pub(super) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&(MARK ^ u32::from(self.may_break)).to_be_bytes());
        bytes[4..8].copy_from_slice(&self.round.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.salt.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.up.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.down.to_be_bytes());
        let sum = sum(&bytes);
        bytes[24..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Reads a head; `None` if a byte is wrong.
    pub(super) fn decode(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
        let long = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let head = Self {
            salt: long(8),
            round: word(4),
            up: word(16),
            down: word(20),
            may_break: word(0) == MARK ^ 1,
        };
        (word(0) & !1 == MARK & !1 && long(24) == sum(bytes)).then_some(head)
    }

    /// Returns the source of the client's bytes of this round.
    pub(super) fn up_stream(&self) -> Stream {
        Stream(mixed(self.salt ^ u64::from(self.round) << 1))
    }

    pub(super) fn down_stream(&self) -> Stream {
        Stream(mixed(self.salt ^ (u64::from(self.round) << 1 | 1)))
    }
}

fn sum(bytes: &[u8; HEAD_BYTES]) -> u64 {
    let words = bytes[..24].chunks_exact(8);
    words.fold(0, |sum, word| mixed(sum ^ u64::from_be_bytes(word.try_into().expect("eight"))))
}

/// Mixes all bits of a number into each bit (the finaliser of SplitMix64).
pub(super) fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// An endless stream of bytes that differs from every other at nearly every offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream(pub(super) u64);

impl Stream {
    /// Returns the bytes from an offset on.
    pub(super) fn bytes(self, offset: usize, length: usize) -> Vec<u8> {
        let first = offset / 8;
        let words = first..(offset + length).div_ceil(8);
        let bytes = words.flat_map(|word| mixed(self.0 ^ word as u64).to_le_bytes());
        bytes.skip(offset % 8).take(length).collect()
    }

    /// Returns the offset of the first wrong byte among these, which begin at an offset.
    pub(super) fn wrong_at(self, offset: usize, bytes: &[u8]) -> Option<usize> {
        let right = self.bytes(offset, bytes.len());
        let wrong = bytes.iter().zip(&right).position(|(one, other)| one != other);
        wrong.map(|at| offset + at)
    }
}

/// Makes the kernel send RST as soon as the socket is closed, whatever waits to be sent.
pub(super) fn reset_on_close(socket: &TcpStream) {
    // The call fails on a socket that is reset already.
    let _ = set_socket_linger(socket, Some(Duration::ZERO));
}

/// Reports whether a call has ended by its timeout.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_back_and_one_wrong_bit_is_seen() {
        let head =
            Head { salt: 0x0123_4567_89ab_cdef, round: 3, up: 70_000, down: 5, may_break: true };
        let bytes = head.encode();
        assert_eq!(Head::decode(&bytes), Some(head));
        for bit in 8..HEAD_BYTES * 8 {
            let mut wrong = bytes;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::decode(&wrong), None, "bit {bit}");
        }
    }

    #[test]
    fn a_moved_or_foreign_byte_is_seen() {
        let (stream, other) = (Stream(7), Stream(8));
        let bytes = stream.bytes(3, 1000);
        assert_eq!(bytes, stream.bytes(0, 1003)[3..]);
        assert_eq!(stream.wrong_at(3, &bytes), None);
        assert!(stream.wrong_at(4, &bytes).is_some());
        assert!(other.wrong_at(3, &bytes).is_some());
    }
}
