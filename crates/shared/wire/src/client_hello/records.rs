//! Joins TLS records to one handshake message: identifies the first bytes, walks the records, joins
//! fragments, enforces limits; and the reasons to refuse them.
//!
//! Faults are found by position: a fault in a prefix is the same fault in every longer input, so
//! the answer never depends on how the network cut the stream.

use std::borrow::Cow;

use crate::alert;

/// Largest ClientHello accepted, in bytes without its handshake header.
///
/// The largest in use, two hybrid key shares (ML-KEM-1024 and X25519MLKEM768), an ECH payload and a
/// ticket of several kilobytes, stay below 8 KiB. 16 KiB is one full record, so a client that does
/// not fragment cannot exceed it at all, and limits what a stranger can make us hold. Records are
/// not counted (RFC 8446 section 5.1 lets a message be spread over any number): with their headers,
/// one-byte records take six times as much.
pub const HELLO_BYTES_MAX: usize = 1 << 14;

const RECORD_HEADER_BYTES: usize = 5;
const RECORD_BYTES_MAX: u16 = 1 << 14;
const HANDSHAKE_HEADER_BYTES: usize = 4;
/// Version, random, empty session id, one suite, one compression method, no extensions.
const BODY_BYTES_MIN: usize = 2 + 32 + 1 + 2 + 2 + 1 + 1;

/// Body of a ClientHello, and the input that it and its headers took.
pub(super) struct HelloMessage<'a> {
    pub(super) body: Cow<'a, [u8]>,
    pub(super) wire_bytes: usize,
}

/// A record, as far as it has been received.
struct HelloRecord<'a> {
    length: usize,
    fragment: &'a [u8],
    rest: &'a [u8],
}

/// Position in the records of a hello, so that none is read twice: a hello of one-byte records
/// would otherwise cost work in the square of its length.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HelloJoiner {
    /// First bytes of the message.
    head: [u8; HANDSHAKE_HEADER_BYTES],
    /// Bytes of the message in the complete records before `at`.
    joined: usize,
    /// Offset of the first incomplete record.
    at: usize,
}

impl HelloJoiner {
    /// Joins the first handshake message; `None` while bytes are missing. To be called again with
    /// the same bytes and more behind them.
    pub(super) fn join<'a>(
        &mut self,
        bytes: &'a [u8],
    ) -> Result<Option<HelloMessage<'a>>, HelloFault> {
        while let Some(record) = next_record(bytes.get(self.at..).unwrap_or_default())? {
            let joined = self.joined;
            for (to, from) in self.head.iter_mut().skip(joined).zip(record.fragment) {
                *to = *from;
            }
            let message_bytes = message_bytes(&self.head, joined + record.fragment.len())?;
            check_end(message_bytes, joined + record.length)?;
            if joined == 0 {
                check_legacy_version(record.fragment.get(HANDSHAKE_HEADER_BYTES..))?;
            }
            if record.fragment.len() < record.length {
                return Ok(None);
            }
            self.joined += record.length;
            self.at = bytes.len() - record.rest.len();
            if message_bytes == Some(self.joined) {
                return Ok(Some(message(bytes, self.at, self.joined)));
            }
        }
        Ok(None)
    }
}

fn next_record(bytes: &[u8]) -> Result<Option<HelloRecord<'_>>, HelloFault> {
    if bytes.first().is_some_and(|kind| *kind != 22) {
        return Err(HelloFault::Unexpected("another record amid the hello"));
    }
    let Some((&[_, _, _, high, low], body)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>()
    else {
        return Ok(None);
    };
    let length = u16::from_be_bytes([high, low]);
    if length == 0 {
        // RFC 8446 sections 5.1 and 5.4.
        return Err(HelloFault::Unexpected("a record without content"));
    }
    if length > RECORD_BYTES_MAX {
        return Err(HelloFault::RecordTooLarge(length));
    }
    let length = usize::from(length);
    let (fragment, rest) = body.split_at_checked(length).unwrap_or((body, &[]));
    Ok(Some(HelloRecord { length, fragment, rest }))
}

/// Returns the message's length with its header, once `known` bytes show it.
fn message_bytes(head: &[u8; 4], known: usize) -> Result<Option<usize>, HelloFault> {
    let [kind, high, middle, low] = *head;
    if known > 0 && kind != 1 {
        return Err(HelloFault::Unexpected("another handshake message first"));
    }
    if known < HANDSHAKE_HEADER_BYTES {
        return Ok(None);
    }
    let length = u32::from_be_bytes([0, high, middle, low]);
    match usize::try_from(length) {
        Ok(bytes) if bytes < BODY_BYTES_MIN => Err(HelloFault::Malformed("too short a hello")),
        Ok(bytes) if bytes <= HELLO_BYTES_MAX => Ok(Some(HANDSHAKE_HEADER_BYTES + bytes)),
        _ => Err(HelloFault::TooLarge(length)),
    }
}

/// Checks that a hello ends with its record: keys may change then (RFC 8446 section 5.1).
fn check_end(message_bytes: Option<usize>, joined: usize) -> Result<(), HelloFault> {
    match message_bytes {
        Some(bytes) if joined > bytes => Err(HelloFault::Unexpected("bytes after the hello")),
        _ => Ok(()),
    }
}

/// Refuses SSL 3.0 and below (RFC 8446 appendix D.5).
fn check_legacy_version(body: Option<&[u8]>) -> Result<(), HelloFault> {
    if let Some([major, minor, ..]) = body {
        let version = u16::from_be_bytes([*major, *minor]);
        if version <= 0x0300 {
            return Err(HelloFault::VersionTooOld { highest: version });
        }
    }
    Ok(())
}

/// Returns the complete message: borrowed if one record holds it, else copied together.
fn message(bytes: &[u8], wire_bytes: usize, joined: usize) -> HelloMessage<'_> {
    let wire = bytes.get(..wire_bytes).unwrap_or(bytes);
    let body = if wire_bytes == RECORD_HEADER_BYTES + joined {
        Cow::Borrowed(wire.get(RECORD_HEADER_BYTES + HANDSHAKE_HEADER_BYTES..).unwrap_or(&[]))
    } else {
        Cow::Owned(join_fragments(wire, joined))
    };
    HelloMessage { body, wire_bytes }
}

fn join_fragments(mut wire: &[u8], joined: usize) -> Vec<u8> {
    let mut whole = Vec::with_capacity(joined);
    while let Ok(Some(record)) = next_record(wire) {
        whole.extend_from_slice(record.fragment);
        wire = record.rest;
    }
    whole.drain(..HANDSHAKE_HEADER_BYTES.min(whole.len()));
    whole
}

/// Fault in a client's first bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HelloFault {
    /// Bytes that begin no TLS record.
    #[error("the first bytes are not TLS")]
    NotTls,
    /// Method of a plaintext HTTP request.
    #[error("the client speaks plaintext HTTP")]
    PlainHttp,
    /// Hello in the format of SSLv2, whatever versions it offers (RFC 8446 appendix D.5).
    #[error("the hello has the format of SSLv2")]
    Sslv2,
    /// Hello without a version from TLS 1.2 up.
    #[error("the newest version offered is {highest:#06x}, before TLS 1.2")]
    VersionTooOld {
        /// Newest known version offered, as on the wire: `0x0301` is TLS 1.0.
        highest: u16,
    },
    /// TLS, but something else where the ClientHello belongs.
    #[error("not a ClientHello: {0}")]
    Unexpected(&'static str),
    /// Field that is cut short, empty where it must not be, or has bytes to spare.
    #[error("the ClientHello does not parse: {0}")]
    Malformed(&'static str),
    /// Field that parses but has a forbidden value.
    #[error("the ClientHello breaks a rule: {0}")]
    Illegal(&'static str),
    /// Renegotiation without an earlier connection (RFC 5746 section 3.6).
    #[error("the ClientHello breaks a rule: renegotiation_info is not empty")]
    Renegotiation,
    /// Record whose header announces more than 2^14 bytes (RFC 8446 section 5.1).
    #[error("a plaintext record of {0} bytes")]
    RecordTooLarge(u16),
    /// Handshake header that announces more than [`super::HELLO_BYTES_MAX`] bytes.
    #[error("a ClientHello of {0} bytes")]
    TooLarge(u32),
}

impl HelloFault {
    /// Returns the fatal alert to answer with; `None` if the client would not understand it.
    ///
    /// An SSLv2-format hello is answered, because clients that still send one know TLS too.
    pub fn alert(&self) -> Option<u8> {
        match self {
            Self::NotTls | Self::PlainHttp => None,
            Self::Sslv2 | Self::VersionTooOld { .. } => Some(alert::PROTOCOL_VERSION),
            Self::Unexpected(_) => Some(alert::UNEXPECTED_MESSAGE),
            Self::Malformed(_) => Some(alert::DECODE_ERROR),
            Self::Illegal(_) | Self::TooLarge(_) => Some(alert::ILLEGAL_PARAMETER),
            Self::Renegotiation => Some(alert::HANDSHAKE_FAILURE),
            Self::RecordTooLarge(_) => Some(alert::RECORD_OVERFLOW),
        }
    }
}

/// Request methods of HTTP/1 and the preface of HTTP/2, each with the space that follows it.
const HTTP_METHODS: [&[u8]; 12] = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"OPTIONS ",
    b"CONNECT ",
    b"PRI ",
    b"DELETE ",
    b"PATCH ",
    b"TRACE ",
    b"PROPFIND ",
    b"REPORT ",
];

/// Reports whether a handshake record begins here; `None` while the bytes could still become one or
/// a fault with a better name.
pub(super) fn is_handshake(bytes: &[u8]) -> Result<Option<()>, HelloFault> {
    match bytes {
        [] | [20 | 21 | 23 | 24] => Ok(None),
        [22, 3, ..] => Ok(Some(())),
        // The version must be ignored (RFC 8446 section 5.1), so the message's type decides.
        [22, _, _, _, _, 1, ..] => Ok(Some(())),
        [22] | [22, _] | [22, _, _] | [22, _, _, _] | [22, _, _, _, _] => Ok(None),
        [20 | 21 | 23 | 24, 3, ..] => Err(HelloFault::Unexpected("another record type first")),
        [b'A'..=b'Z', ..] => http(bytes),
        [0x80..=0xff, ..] => sslv2(bytes),
        _ => Err(HelloFault::NotTls),
    }
}

fn http(bytes: &[u8]) -> Result<Option<()>, HelloFault> {
    if HTTP_METHODS.iter().any(|method| bytes.starts_with(method)) {
        return Err(HelloFault::PlainHttp);
    }
    if HTTP_METHODS.iter().any(|method| method.starts_with(bytes)) {
        return Ok(None);
    }
    Err(HelloFault::NotTls)
}

/// Recognizes SSLv2: two bytes of length with the high bit set, message type 1, version 0.2 or 3.x.
fn sslv2(bytes: &[u8]) -> Result<Option<()>, HelloFault> {
    match bytes {
        [_, _, 1, 3, ..] | [_, _, 1, 0, 2, ..] => Err(HelloFault::Sslv2),
        [_] | [_, _] | [_, _, 1] | [_, _, 1, 0] => Ok(None),
        _ => Err(HelloFault::NotTls),
    }
}
