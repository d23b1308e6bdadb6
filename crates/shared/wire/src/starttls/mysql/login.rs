//! Capabilities that decide how a login is read (MySQL Internals, "Capability Flags"), and what of
//! a client's first packet they lay out.

use super::fault::Refusal;
use crate::cursor::Cursor;

/// `CLIENT_CONNECT_WITH_DB`: the login names a database.
const DATABASE: u32 = 1 << 3;
/// `CLIENT_PROTOCOL_41`: the login has 32 bytes before the user.
pub(super) const PROTOCOL_41: u32 = 1 << 9;
/// `CLIENT_SSL`: the server has TLS; in the client's first packet: TLS follows.
pub(super) const TLS: u32 = 1 << 11;
/// `CLIENT_SECURE_CONNECTION`: one byte of length before the password's answer.
pub(super) const COUNTED_ANSWER: u32 = 1 << 15;
/// `CLIENT_PLUGIN_AUTH`: the login names an authentication plugin.
pub(super) const PLUGIN: u32 = 1 << 19;
/// `CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA`: that length may need more bytes.
const LONG_ANSWER: u32 = 1 << 21;
/// `CLIENT_MULTI_FACTOR_AUTHENTICATION`: the server may ask for another factor.
pub(super) const FACTORS: u32 = 1 << 28;

/// Capabilities, packet size, character set and filler: all of a request for TLS, and the beginning
/// of a login.
pub(super) const REQUEST_BYTES: usize = 32;

/// The client's capabilities; a client from before MySQL 4.1 has no 32 bits of them.
pub(super) fn capabilities(payload: &[u8]) -> Result<u32, Refusal> {
    let capabilities = Cursor::new(payload).array().map(u32::from_le_bytes);
    capabilities
        .filter(|bits| bits & PROTOCOL_41 != 0 && payload.len() >= REQUEST_BYTES)
        .ok_or(Refusal::ClientPacket)
}

/// The payload with `CLIENT_SSL` or without it: a server that finds it in a login waits for TLS.
pub(super) fn with_tls(mut payload: Vec<u8>, is_tls: bool) -> Vec<u8> {
    let bits = (TLS >> 8) as u8;
    let byte = &mut payload[1];
    *byte = *byte & !bits | if is_tls { bits } else { 0 };
    payload
}

/// The parts of a login (`HandshakeResponse41`) that authentication needs.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Login {
    pub(super) capabilities: u32,
    /// The answer to the scramble, without its length.
    pub(super) answer: Vec<u8>,
    /// The range of the answer in the payload, with its length.
    answer_range: std::ops::Range<usize>,
    /// Empty = none was named.
    pub(super) plugin: Vec<u8>,
}

impl Login {
    pub(super) fn parse(payload: &[u8]) -> Result<Self, Refusal> {
        let capabilities = capabilities(payload)?;
        Self::fields(payload, capabilities).ok_or(Refusal::ClientPacket)
    }

    fn fields(payload: &[u8], capabilities: u32) -> Option<Self> {
        let has = |bit| capabilities & bit != 0;
        let mut cursor = Cursor::new(payload);
        cursor.take(REQUEST_BYTES)?;
        text(&mut cursor)?;
        let start = cursor.position();
        let answer = if has(LONG_ANSWER) {
            let bytes = counted(&mut cursor)?;
            cursor.take(bytes)?
        } else if has(COUNTED_ANSWER) {
            cursor.vector8()?.rest()
        } else {
            text(&mut cursor)?
        };
        let answer_range = start..cursor.position();
        if has(DATABASE) {
            // Some clients set the bit and leave the name out when there is none.
            text(&mut cursor);
        }
        let plugin = has(PLUGIN).then(|| last_text(&mut cursor));
        Some(Self {
            capabilities,
            answer: answer.to_vec(),
            answer_range,
            plugin: plugin.unwrap_or_default().to_vec(),
        })
    }

    /// The payload with another answer of one byte. The byte is not NUL, and no other field moves
    /// its meaning.
    pub(super) fn with_answer(&self, payload: &[u8], answer: u8) -> Vec<u8> {
        let field = if self.capabilities & (LONG_ANSWER | COUNTED_ANSWER) == 0 {
            [answer, 0]
        } else {
            [1, answer]
        };
        let (start, end) = (self.answer_range.start, self.answer_range.end);
        [&payload[..start], &field, &payload[end..]].concat()
    }
}

/// Bytes up to a NUL, which is taken too.
pub(super) fn text<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let length = cursor.rest().iter().position(|byte| *byte == 0)?;
    let text = cursor.take(length);
    cursor.u8();
    text
}

/// The same; the end of the packet ends it as well.
pub(super) fn last_text<'a>(cursor: &mut Cursor<'a>) -> &'a [u8] {
    let rest = cursor.rest();
    text(cursor).unwrap_or(rest)
}

fn counted(cursor: &mut Cursor<'_>) -> Option<usize> {
    match cursor.u8()? {
        byte @ 0..=0xfa => Some(byte.into()),
        0xfc => cursor.array().map(u16::from_le_bytes).map(usize::from),
        // Longer ones do not fit a packet of the login.
        _ => None,
    }
}
