//! Requests to a store (Valkey, Redis) that hosts share and its replies, as RESP 2 has them; and
//! the value in which a session lies there.
//!
//! Owns what a reply may be: one value or error, or a flat list of a few values, which is all that
//! is ever asked for. Deeper and longer ones are refused by what they announce, before they come.
//! Owns the form of a value too; the keys, and what is done with it, are the caller's. Numbers are
//! big-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, [`VERSION`] |
//! | 4 | which secret's key encrypted the session |
//! | 8 | when the session ends, in milliseconds since 1970 |
//! | 12 | the nonce, random |
//! | | the session, encrypted, and the cipher's tag of 16 bytes, which covers the rest as well |

use crate::cursor::Cursor;

/// The longest line: an error, a number, a length. What servers say is a sentence.
const LINE_BYTES_MAX: usize = 1024;

/// Elements of a list: the longest that is asked for has two.
const ELEMENTS_MAX: usize = 4;

/// The longest reply, which is what may lie in memory of an unfinished one.
pub const REPLY_BYTES_MAX: usize = ELEMENTS_MAX * LINE_BYTES_MAX + VALUE_BYTES_MAX;

/// Slots of a cluster, among which names are divided.
const SLOTS: u16 = 16384;

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// A value, or a word such as `OK`.
    Text(Vec<u8>),
    /// An error: its code and its sentence.
    Error(String),
    Number(i64),
    /// There is no such value.
    Nothing,
    List(Vec<Self>),
}

/// Bytes are no reply to anything that is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ReplyFault {
    /// It does not begin as one, or its numbers are none.
    #[error("answers with something that is no reply of Redis or Valkey")]
    Malformed,
    /// A line, a value or a list is longer than any that is asked for.
    #[error("announces a reply that is longer than any session")]
    TooLong,
}

/// A request: the verb and its arguments.
pub fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend_from_slice(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

impl Reply {
    /// Reads the reply at the front, and how many bytes it takes; `None` = more is to come.
    ///
    /// # Errors
    /// The bytes are no reply, whatever follows.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, ReplyFault> {
        let Some((b'*', count, mut at)) = line(bytes)? else {
            return Self::scalar(bytes);
        };
        let count = match number(count)? {
            -1 => return Ok(Some((Self::Nothing, at))),
            count => usize::try_from(count).map_err(|_| ReplyFault::Malformed)?,
        };
        if count > ELEMENTS_MAX {
            return Err(ReplyFault::TooLong);
        }
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            let Some((element, taken)) = Self::scalar(&bytes[at..])? else {
                // Each of them may be as long as a value; together they may not.
                return match bytes.len() {
                    REPLY_BYTES_MAX.. => Err(ReplyFault::TooLong),
                    _ => Ok(None),
                };
            };
            elements.push(element);
            at += taken;
        }
        Ok(Some((Self::List(elements), at)))
    }

    fn scalar(bytes: &[u8]) -> Result<Option<(Self, usize)>, ReplyFault> {
        let Some((kind, text, at)) = line(bytes)? else {
            return Ok(None);
        };
        let reply = match kind {
            b'+' => Self::Text(text.to_vec()),
            b'-' => Self::Error(String::from_utf8_lossy(text).into_owned()),
            b':' => Self::Number(number(text)?),
            b'$' => return Self::bulk(&bytes[at..], at, number(text)?),
            _ => return Err(ReplyFault::Malformed),
        };
        Ok(Some((reply, at)))
    }

    /// A value of an announced length, which begins after `before` bytes.
    fn bulk(rest: &[u8], before: usize, length: i64) -> Result<Option<(Self, usize)>, ReplyFault> {
        if length == -1 {
            return Ok(Some((Self::Nothing, before)));
        }
        let length = usize::try_from(length).map_err(|_| ReplyFault::Malformed)?;
        if length > VALUE_BYTES_MAX {
            return Err(ReplyFault::TooLong);
        }
        match rest.get(length..length + 2) {
            None => Ok(None),
            Some(b"\r\n") => {
                let value = Self::Text(rest[..length].to_vec());
                Ok(Some((value, before + length + 2)))
            }
            Some(_) => Err(ReplyFault::Malformed),
        }
    }
}

/// A line: its kind, what follows that, and where the next one begins.
type Line<'b> = (u8, &'b [u8], usize);

fn line(bytes: &[u8]) -> Result<Option<Line<'_>>, ReplyFault> {
    let Some((&kind, rest)) = bytes.split_first() else {
        return Ok(None);
    };
    if !b"+-:$*".contains(&kind) {
        return Err(ReplyFault::Malformed);
    }
    let within = &rest[..rest.len().min(LINE_BYTES_MAX)];
    match within.windows(2).position(|pair| pair == b"\r\n") {
        Some(end) => Ok(Some((kind, &rest[..end], end + 3))),
        None if rest.len() > LINE_BYTES_MAX => Err(ReplyFault::TooLong),
        None => Ok(None),
    }
}

fn number(text: &[u8]) -> Result<i64, ReplyFault> {
    let text = std::str::from_utf8(text).map_err(|_| ReplyFault::Malformed)?;
    text.parse().map_err(|_| ReplyFault::Malformed)
}

/// The node of a cluster that has a name, by another node's word.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Redirect {
    /// For this request alone: the slot is on its way there.
    pub is_ask: bool,
    /// The slot of the name.
    pub slot: u16,
    /// Empty = the host of the node that says so.
    pub host: String,
    pub port: u16,
}

impl Redirect {
    /// Reads an error such as `MOVED 3999 10.0.0.6:6379`; `None` = it is another one.
    pub fn read(error: &str) -> Option<Self> {
        let mut words = error.split(' ');
        let is_ask = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        Some(Self { is_ask, slot, host: host.to_owned(), port: port.parse().ok()? })
    }
}

/// The slot of a name: of what stands between its first braces, if there is anything.
pub fn slot(name: &[u8]) -> u16 {
    let tagged = || {
        let (_, rest) = name.split_at(name.iter().position(|byte| *byte == b'{')? + 1);
        let end = rest.iter().position(|byte| *byte == b'}')?;
        (end > 0).then(|| &rest[..end])
    };
    // CRC-16 of XMODEM (the specification of Redis Cluster, appendix A).
    let crc = tagged().unwrap_or(name).iter().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    });
    crc % SLOTS
}

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

    fn text(text: &str) -> Reply {
        Reply::Text(text.into())
    }

    #[test]
    fn replies_are_read_whole_however_they_are_cut() {
        let name = vec![text("10.0.0.5"), text("6379")];
        for (bytes, reply) in [
            ("+OK\r\n", text("OK")),
            ("-ERR no\r\n", Reply::Error("ERR no".to_owned())),
            (":-12\r\n", Reply::Number(-12)),
            ("$-1\r\n", Reply::Nothing),
            ("*-1\r\n", Reply::Nothing),
            ("$4\r\na\r\nb\r\n", text("a\r\nb")),
            ("$0\r\n\r\n", text("")),
            ("*0\r\n", Reply::List(Vec::new())),
            ("*2\r\n$8\r\n10.0.0.5\r\n$4\r\n6379\r\n", Reply::List(name)),
        ] {
            for cut in 0..bytes.len() {
                assert_eq!(Reply::read(&bytes.as_bytes()[..cut]), Ok(None), "{bytes}");
            }
            let twice = bytes.repeat(2);
            let read = Reply::read(twice.as_bytes());
            assert_eq!(read, Ok(Some((reply, bytes.len()))), "{bytes}");
        }
    }

    #[test]
    fn what_is_too_long_is_refused_by_what_it_announces() {
        for bytes in [
            "$90000000000\r\n",
            "$65537\r\n",
            "*5\r\n",
            "*2147483647\r\n",
            "*1\r\n$90000000000\r\n",
        ] {
            let read = Reply::read(bytes.as_bytes());
            assert_eq!(read, Err(ReplyFault::TooLong), "{bytes}");
        }
        let line = format!("-{}", "x".repeat(LINE_BYTES_MAX + 1));
        assert_eq!(Reply::read(line.as_bytes()), Err(ReplyFault::TooLong));
        let value = format!("$65536\r\n{}\r\n", "x".repeat(VALUE_BYTES_MAX));
        assert!(Reply::read(value.as_bytes()).is_ok_and(|read| read.is_some()));
        let list = format!("*4\r\n{value}{value}");
        assert_eq!(Reply::read(list.as_bytes()), Err(ReplyFault::TooLong));
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in [
            "\u{15}\u{3}\u{3}",
            "HTTP/1.1 400 Bad Request\r\n",
            "$-2\r\n",
            "$x\r\n",
            ":\r\n",
            "$1\r\nabc",
            "*1\r\n*1\r\n",
            "*1\r\n%1\r\n",
            "*-2\r\n",
            "_\r\n",
        ] {
            let read = Reply::read(bytes.as_bytes());
            assert_eq!(read, Err(ReplyFault::Malformed), "{bytes}");
        }
    }

    #[test]
    fn names_have_the_slots_that_servers_give_them() {
        // CLUSTER KEYSLOT of Redis 7.
        for (name, expected) in [
            ("", 0),
            ("123456789", 12739),
            ("{user1000}.following", 3443),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("lariat:abc", 4031),
        ] {
            assert_eq!(slot(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn redirects_name_a_node() {
        let read = |text| Redirect::read(text).map(|to| (to.is_ask, to.slot, to.host, to.port));
        let expected = |is_ask, slot, host: &str, port| Some((is_ask, slot, host.to_owned(), port));
        assert_eq!(read("MOVED 3999 10.0.0.6:6379"), expected(false, 3999, "10.0.0.6", 6379));
        assert_eq!(read("ASK 0 fd00::1:7000"), expected(true, 0, "fd00::1", 7000));
        assert_eq!(read("MOVED 1 :7000"), expected(false, 1, "", 7000));
        for other in [
            "ERR x",
            "MOVED",
            "MOVED 16384 10.0.0.6:6379",
            "MOVED 1 10.0.0.6",
            "MOVED 1 10.0.0.6:99999",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

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
