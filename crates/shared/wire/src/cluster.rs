//! The datagram in which the peers of a cluster send each other sessions.
//!
//! Handles its form; the keys, and the reaction to a datagram, are the caller's task. All numbers
//! are big-endian:
//!
//! | bytes | content |
//! |---|---|
//! | 1 | version, [`VERSION`] |
//! | 1 | stream: 0 = the same datagram goes to all peers, 1 = it is for one of them |
//! | 2 | zero |
//! | 4 | which secret's key sealed the body |
//! | 8 | sender: random, for the life of its supervisor |
//! | 8 | boot: random, for the life of the process that sends |
//! | 8 | sequence: counts the sender's datagrams of this boot and stream |
//! | 8 | time: the sender's clock, in milliseconds since 1970 |
//! | | the body, encrypted, and the cipher's tag of 16 bytes, which covers the header as well |
//!
//! The body is a list of messages, each behind a byte for its kind; a body without messages is a
//! heartbeat. A session's key follows its length in one byte, its value a length in two. A session
//! that is longer than a datagram goes in parts: its message is cut into pieces, each of which is a
//! message of its own with the number of the session, its index, and the number of parts. A notice,
//! a text for the other hosts' supervisors, is sent in the same ways.

use crate::cursor::Cursor;

/// Version that is written and accepted.
pub const VERSION: u8 = 2;

/// Longest datagram, in bytes: with the headers of IPv6 and UDP it fits the smallest packet that
/// every IPv6 link carries whole (1280 bytes, RFC 8200 section 5).
pub const DATAGRAM_BYTES_MAX: usize = 1200;

pub const HEADER_BYTES: usize = 40;

/// Length of the tag of AES-256-GCM.
pub const TAG_BYTES: usize = 16;

pub const BODY_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - HEADER_BYTES - TAG_BYTES;

/// Longest key of a session: a session id (RFC 5246 section 7.4.1.2).
pub const KEY_BYTES_MAX: usize = 32;

/// Longest value of a session that fits a datagram, whatever its key.
pub const VALUE_BYTES_MAX: usize = BODY_BYTES_MAX - 1 - 1 - KEY_BYTES_MAX - 4 - 2;

/// Most parts of a session: as many as the longest session of the cache takes.
pub const PARTS_MAX: u8 = 16;

/// Bytes before a part's content: kind, number, index, count, length.
const PART_HEAD_BYTES: usize = 1 + 4 + 1 + 1 + 2;

pub const PART_BYTES_MAX: usize = BODY_BYTES_MAX - PART_HEAD_BYTES;

/// Longest message that can be sent in parts.
pub const WHOLE_BYTES_MAX: usize = PART_BYTES_MAX * PARTS_MAX as usize;

const SESSION: u8 = 1;
const GET: u8 = 2;
const DELETE: u8 = 3;
const RESYNC: u8 = 4;
const RESYNCED: u8 = 5;
const PART: u8 = 6;
const PING: u8 = 7;
const PONG: u8 = 8;
const NOTICE: u8 = 9;

/// Receivers of a datagram.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Stream {
    /// All peers: a gap in the sequence shows a lost datagram.
    All = 0,
    One = 1,
}

/// Head of a datagram, in clear and authenticated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    pub stream: Stream,
    pub key_id: [u8; 4],
    pub sender: [u8; 8],
    pub boot: [u8; 8],
    /// Number of the datagram among the sender's of this boot and stream.
    pub sequence: u64,
    /// Clock of the sender, in milliseconds since 1970.
    pub time_ms: u64,
}

/// A message of a datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Message<'a> {
    /// Session that can be resumed for `lifetime_s` seconds.
    Session {
        key: &'a [u8],
        /// Remaining time for resumption, in seconds.
        lifetime_s: u32,
        value: &'a [u8],
    },
    Get {
        key: &'a [u8],
    },
    /// Session that must not be resumed any more.
    Delete {
        key: &'a [u8],
    },
    /// Request to a peer for the sessions since a time of its own clock.
    Resync {
        /// Sender number of the peer.
        peer: [u8; 8],
        /// Time in milliseconds since 1970.
        since_ms: u64,
    },
    /// Progress of a resync: the peer has been sent `sent` sessions, or all if the two are equal.
    Resynced {
        peer: [u8; 8],
        sent: u32,
        /// Approximate number of sessions to be sent.
        all: u32,
    },
    /// Request to a peer for an immediate answer.
    Ping {
        peer: [u8; 8],
        id: u32,
    },
    Pong {
        peer: [u8; 8],
        id: u32,
    },
    /// Text for the supervisors of the other hosts.
    Notice(&'a [u8]),
    /// Piece of a session or notice that is longer than a datagram.
    Part(ClusterFragment<'a>),
}

/// Piece of a session or notice that is longer than a datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClusterFragment<'a> {
    /// Number common to all parts of a session, which the sender does not use again for long.
    pub id: u32,
    pub index: u8,
    /// Number of parts: 2 to [`PARTS_MAX`].
    pub count: u8,
    pub bytes: &'a [u8],
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DatagramFault {
    /// Unsupported version.
    Version(u8),
    /// Wrong length, or a field without a meaning.
    Malformed,
}

impl Header {
    /// Reads the header; the sealed body follows it.
    ///
    /// # Errors
    /// Fails if the bytes are no datagram of a cluster.
    pub fn read(datagram: &[u8]) -> Result<Self, DatagramFault> {
        if datagram.len() < HEADER_BYTES + TAG_BYTES || datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(DatagramFault::Malformed);
        }
        match datagram.first() {
            Some(&VERSION) => {}
            Some(other) => return Err(DatagramFault::Version(*other)),
            None => return Err(DatagramFault::Malformed),
        }
        Self::fields(&mut Cursor::new(datagram)).ok_or(DatagramFault::Malformed)
    }

    fn fields(cursor: &mut Cursor<'_>) -> Option<Self> {
        cursor.u8()?;
        let stream = match cursor.u8()? {
            0 => Stream::All,
            1 => Stream::One,
            _ => return None,
        };
        (cursor.u16()? == 0).then_some(())?;
        Some(Self {
            stream,
            key_id: cursor.array()?,
            sender: cursor.array()?,
            boot: cursor.array()?,
            sequence: cursor.array().map(u64::from_be_bytes)?,
            time_ms: cursor.array().map(u64::from_be_bytes)?,
        })
    }

    /// Serializes the header.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        (bytes[0], bytes[1]) = (VERSION, self.stream as u8);
        bytes[4..8].copy_from_slice(&self.key_id);
        bytes[8..16].copy_from_slice(&self.sender);
        bytes[16..24].copy_from_slice(&self.boot);
        bytes[24..32].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[32..40].copy_from_slice(&self.time_ms.to_be_bytes());
        bytes
    }
}

impl<'a> Message<'a> {
    /// Reads all messages of a body.
    ///
    /// # Errors
    /// Fails if one of them is of an unknown kind, or cut short; then none counts.
    pub fn read_all(body: &'a [u8]) -> Result<Vec<Self>, DatagramFault> {
        let mut cursor = Cursor::new(body);
        let mut messages = Vec::new();
        while !cursor.is_empty() {
            messages.push(Self::read(&mut cursor).ok_or(DatagramFault::Malformed)?);
        }
        Ok(messages)
    }

    fn read(cursor: &mut Cursor<'a>) -> Option<Self> {
        Some(match cursor.u8()? {
            SESSION => Self::Session {
                key: key(cursor)?,
                lifetime_s: cursor.u32()?,
                value: cursor.vector16()?.rest(),
            },
            GET => Self::Get { key: key(cursor)? },
            DELETE => Self::Delete { key: key(cursor)? },
            RESYNC => Self::Resync {
                peer: cursor.array()?,
                since_ms: cursor.array().map(u64::from_be_bytes)?,
            },
            RESYNCED => {
                Self::Resynced { peer: cursor.array()?, sent: cursor.u32()?, all: cursor.u32()? }
            }
            PING => Self::Ping { peer: cursor.array()?, id: cursor.u32()? },
            PONG => Self::Pong { peer: cursor.array()?, id: cursor.u32()? },
            NOTICE => Self::Notice(cursor.vector16()?.rest()),
            PART => Self::Part(ClusterFragment {
                id: cursor.u32()?,
                index: cursor.u8()?,
                count: cursor.u8()?,
                bytes: cursor.vector16()?.rest(),
            })
            .sound(BODY_BYTES_MAX)?,
            _ => return None,
        })
    }

    /// Reads the session or notice that was sent in parts.
    ///
    /// # Errors
    /// Fails if the joined bytes are neither, or more than one.
    pub fn read_whole(whole: &'a [u8]) -> Result<Self, DatagramFault> {
        let mut cursor = Cursor::new(whole);
        let message = Self::read(&mut cursor).filter(|_| cursor.is_empty());
        let long = message.filter(|one| matches!(one, Self::Session { .. } | Self::Notice(_)));
        long.ok_or(DatagramFault::Malformed)
    }

    /// Returns the parts of the bytes that [`Self::write_whole`] wrote.
    pub fn parts(id: u32, whole: &'a [u8]) -> impl Iterator<Item = Self> {
        let pieces = whole.chunks(PART_BYTES_MAX);
        let count = pieces.len() as u8;
        let part = move |(index, bytes)| Self::Part(ClusterFragment { id, index, count, bytes });
        (0..count).zip(pieces).map(part)
    }

    /// Returns how many bytes of a body the message takes.
    pub fn bytes(&self) -> usize {
        1 + match self {
            Self::Session { key, value, .. } => 1 + key.len() + 4 + 2 + value.len(),
            Self::Get { key } | Self::Delete { key } => 1 + key.len(),
            Self::Resync { .. } | Self::Resynced { .. } => 16,
            Self::Ping { .. } | Self::Pong { .. } => 12,
            Self::Notice(text) => 2 + text.len(),
            Self::Part(part) => PART_HEAD_BYTES - 1 + part.bytes.len(),
        }
    }

    /// Appends the message to a body. `false` if it fits no datagram, and nothing was appended.
    pub fn write(&self, body: &mut Vec<u8>) -> bool {
        let sound = self.sound(BODY_BYTES_MAX);
        sound.map(|message| message.append(body)).is_some()
    }

    /// Appends a session or notice that is to be sent in parts. `false` if it is too long even for
    /// that, and nothing was appended.
    pub fn write_whole(&self, whole: &mut Vec<u8>) -> bool {
        let sound = self.sound(WHOLE_BYTES_MAX);
        sound.map(|message| message.append(whole)).is_some()
    }

    fn append(&self, body: &mut Vec<u8>) {
        match self {
            Self::Session { key, lifetime_s, value } => {
                write_key(SESSION, key, body);
                body.extend_from_slice(&lifetime_s.to_be_bytes());
                body.extend_from_slice(&(value.len() as u16).to_be_bytes());
                body.extend_from_slice(value);
            }
            Self::Get { key } => write_key(GET, key, body),
            Self::Delete { key } => write_key(DELETE, key, body),
            Self::Resync { peer, since_ms } => {
                body.push(RESYNC);
                body.extend_from_slice(peer);
                body.extend_from_slice(&since_ms.to_be_bytes());
            }
            Self::Resynced { peer, sent, all } => {
                write_peer(RESYNCED, peer, &[*sent, *all], body);
            }
            Self::Ping { peer, id } => write_peer(PING, peer, &[*id], body),
            Self::Pong { peer, id } => write_peer(PONG, peer, &[*id], body),
            Self::Notice(text) => {
                body.push(NOTICE);
                body.extend_from_slice(&(text.len() as u16).to_be_bytes());
                body.extend_from_slice(text);
            }
            Self::Part(part) => {
                body.push(PART);
                body.extend_from_slice(&part.id.to_be_bytes());
                body.extend_from_slice(&[part.index, part.count]);
                body.extend_from_slice(&(part.bytes.len() as u16).to_be_bytes());
                body.extend_from_slice(part.bytes);
            }
        }
    }

    /// Returns the message if it is meaningful and at most `bytes_max` long.
    fn sound(self, bytes_max: usize) -> Option<Self> {
        let is_sound = match self {
            Self::Session { key, .. } | Self::Get { key } | Self::Delete { key } => {
                (1..=KEY_BYTES_MAX).contains(&key.len())
            }
            Self::Resync { .. }
            | Self::Resynced { .. }
            | Self::Ping { .. }
            | Self::Pong { .. }
            | Self::Notice(_) => true,
            Self::Part(part) => {
                (2..=PARTS_MAX).contains(&part.count)
                    && part.index < part.count
                    && !part.bytes.is_empty()
            }
        };
        (is_sound && self.bytes() <= bytes_max).then_some(self)
    }
}

fn key<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let key = cursor.vector8()?.rest();
    (1..=KEY_BYTES_MAX).contains(&key.len()).then_some(key)
}

fn write_peer(kind: u8, peer: &[u8; 8], numbers: &[u32], body: &mut Vec<u8>) {
    body.push(kind);
    body.extend_from_slice(peer);
    let numbers = numbers.iter().flat_map(|number| number.to_be_bytes());
    body.extend(numbers);
}

fn write_key(kind: u8, key: &[u8], body: &mut Vec<u8>) {
    body.push(kind);
    body.push(key.len() as u8);
    body.extend_from_slice(key);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: Header = Header {
        stream: Stream::One,
        key_id: [1; 4],
        sender: [2; 8],
        boot: [3; 8],
        sequence: 0x0405_0607,
        time_ms: 0x1_0809_0a0b,
    };

    fn datagram(bytes: usize) -> Vec<u8> {
        let mut datagram = HEADER.to_bytes().to_vec();
        datagram.resize(bytes, 9);
        datagram
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for bytes in [HEADER_BYTES + TAG_BYTES, DATAGRAM_BYTES_MAX] {
            assert_eq!(Header::read(&datagram(bytes)), Ok(HEADER));
        }
    }

    #[test]
    fn what_is_no_datagram_is_refused() {
        let changed = |place: usize, byte| {
            let mut bytes = datagram(100);
            bytes[place] = byte;
            Header::read(&bytes)
        };
        let malformed = Err(DatagramFault::Malformed);
        assert_eq!(changed(0, 1), Err(DatagramFault::Version(1)));
        assert_eq!(changed(1, 2), malformed);
        assert_eq!(changed(2, 1), malformed);
        for bytes in [0, HEADER_BYTES + TAG_BYTES - 1, DATAGRAM_BYTES_MAX + 1] {
            assert_eq!(Header::read(&datagram(bytes)), malformed, "{bytes} bytes");
        }
    }

    #[test]
    fn messages_are_read_as_they_were_written_and_never_when_cut() {
        let (key, value) = ([7; KEY_BYTES_MAX], [8; 100]);
        let all = [
            Message::Session { key: &key, lifetime_s: 3600, value: &value },
            Message::Get { key: &key[..1] },
            Message::Delete { key: &key },
            Message::Resync { peer: [4; 8], since_ms: 5 },
            Message::Resynced { peer: [6; 8], sent: 70_000, all: 100_000 },
            Message::Ping { peer: [6; 8], id: 9 },
            Message::Pong { peer: [7; 8], id: 9 },
            Message::Notice(&value),
            Message::Part(ClusterFragment {
                id: 0x0102_0304,
                index: PARTS_MAX - 1,
                count: PARTS_MAX,
                bytes: &value,
            }),
        ];
        let (mut body, mut ends) = (Vec::new(), vec![0]);
        for message in &all {
            assert!(message.write(&mut body));
            ends.push(body.len());
            assert_eq!(body.len() - ends[ends.len() - 2], message.bytes());
        }
        for length in 0..=body.len() {
            let read = Message::read_all(&body[..length]);
            match ends.iter().position(|end| *end == length) {
                Some(count) => assert_eq!(read.as_deref(), Ok(&all[..count])),
                None => assert_eq!(read, Err(DatagramFault::Malformed), "{length} bytes"),
            }
        }
    }

    #[test]
    fn what_fits_no_datagram_is_not_written() {
        let value = [0; VALUE_BYTES_MAX + 1];
        let session = |key_bytes: usize, value_bytes: usize| {
            let key = vec![1; key_bytes];
            let message =
                Message::Session { key: &key, lifetime_s: 1, value: &value[..value_bytes] };
            let mut body = Vec::new();
            let is_written = message.write(&mut body);
            assert_eq!(is_written, !body.is_empty());
            assert!(body.len() <= BODY_BYTES_MAX);
            is_written
        };
        assert!(session(KEY_BYTES_MAX, VALUE_BYTES_MAX));
        assert!(!session(KEY_BYTES_MAX, VALUE_BYTES_MAX + 1));
        assert!(!session(KEY_BYTES_MAX + 1, 1) && !session(0, 1));
    }

    #[test]
    fn a_long_session_is_the_sum_of_its_parts_each_of_which_fits_a_datagram() {
        let (key, value) = ([7; KEY_BYTES_MAX], vec![8; WHOLE_BYTES_MAX]);
        let longest = WHOLE_BYTES_MAX - (VALUE_BYTES_MAX.abs_diff(BODY_BYTES_MAX));
        for bytes in [VALUE_BYTES_MAX + 1, 3000, 16 << 10, longest] {
            let session = Message::Session { key: &key, lifetime_s: 3600, value: &value[..bytes] };
            let (mut whole, mut read) = (Vec::new(), Vec::new());
            assert!(session.write_whole(&mut whole));
            let parts: Vec<_> = Message::parts(9, &whole).collect();
            assert_eq!(parts.len(), whole.len().div_ceil(PART_BYTES_MAX));
            for part in &parts {
                let mut body = Vec::new();
                assert!(part.write(&mut body) && body.len() <= BODY_BYTES_MAX);
                let messages = Message::read_all(&body).unwrap();
                let &[Message::Part(part)] = messages.as_slice() else {
                    panic!("{messages:?}");
                };
                read.extend_from_slice(part.bytes);
            }
            assert_eq!(Message::read_whole(&read), Ok(session));
            let malformed = Err(DatagramFault::Malformed);
            assert_eq!(Message::read_whole(&read[1..]), malformed);
            read.extend_from_slice(&whole);
            assert_eq!(Message::read_whole(&read), malformed, "one is enough");
        }
        let too_long = Message::Session { key: &key, lifetime_s: 1, value: &value[..longest + 1] };
        let mut whole = Vec::new();
        assert!(!too_long.write_whole(&mut whole) && whole.is_empty());
    }

    #[test]
    fn parts_without_a_place_have_no_meaning() {
        let part = |index, count, bytes| {
            let part = ClusterFragment { id: 1, index, count, bytes };
            let mut body = Vec::new();
            Message::Part(part).append(&mut body);
            Message::read_all(&body).is_ok()
        };
        assert!(part(0, 2, b"x") && part(15, 16, b"x"));
        for (index, count) in [(0, 0), (0, 1), (2, 2), (0, 17), (16, 17), (255, 255)] {
            assert!(!part(index, count, b"x"), "{index} of {count}");
        }
        assert!(!part(0, 2, b""), "an empty one");
    }

    proptest! {
        #[test]
        fn any_bytes_are_messages_or_none(noise: Vec<u8>) {
            if let Ok(messages) = Message::read_all(&noise) {
                let mut body = Vec::new();
                let written = messages.iter().all(|message| message.write(&mut body));
                prop_assert!(!written || body == noise);
            }
        }
    }
}
