//! The first packet of a server: protocol version 10, or an error in its place.
//!
//! Source: MySQL Internals, "Protocol::HandshakeV10"; MariaDB Knowledge Base, "Connection".

use super::fault::Refusal;
use super::login::TLS;
use super::packet::ERROR;
use crate::cursor::Cursor;

const PROTOCOL: u8 = 10;

/// A greeting, with what the login needs of it.
#[derive(Debug)]
pub(super) struct Greeting {
    payload: Vec<u8>,
    /// The offset of the lower two bytes of its capabilities.
    capabilities_at: usize,
    /// The bytes that the client mixes with its password: 20, fewer of old servers.
    pub(super) scramble: Vec<u8>,
}

impl Greeting {
    pub(super) fn parse(payload: Vec<u8>) -> Result<Self, Refusal> {
        match payload.first() {
            Some(&PROTOCOL) => {}
            Some(&ERROR) => return Err(Refusal::ServerRefused(payload)),
            Some(1..PROTOCOL) => return Err(Refusal::ServerProtocol),
            _ => return Err(Refusal::ServerPacket),
        }
        let (capabilities_at, scramble) = fields(&payload).ok_or(Refusal::ServerPacket)?;
        Ok(Self {
            payload,
            capabilities_at,
            scramble,
        })
    }

    /// Whether the server has TLS.
    pub(super) fn offers_tls(&self) -> bool {
        self.payload[self.capabilities_at + 1] & TLS_BITS != 0
    }

    /// The payload for the client, with `CLIENT_SSL` or without it.
    pub(super) fn offering_tls(mut self, is_offered: bool) -> Vec<u8> {
        let byte = &mut self.payload[self.capabilities_at + 1];
        *byte = *byte & !TLS_BITS | if is_offered { TLS_BITS } else { 0 };
        self.payload
    }
}

/// `CLIENT_SSL` within the second byte of the capabilities.
const TLS_BITS: u8 = (TLS >> 8) as u8;

fn fields(payload: &[u8]) -> Option<(usize, Vec<u8>)> {
    let mut cursor = Cursor::new(payload);
    cursor.u8()?;
    let version = cursor.rest().iter().position(|byte| *byte == 0)?;
    // The version with its NUL, and the connection's id.
    cursor.take(version + 1 + 4)?;
    let mut scramble = cursor.take(8)?.to_vec();
    cursor.u8()?;
    let capabilities_at = cursor.position();
    cursor.take(2)?;
    // Character set, status, upper capabilities, length of the scramble, 10 reserved bytes.
    if cursor.take(1 + 2 + 2 + 1 + 10).is_some() {
        // The second part ends with a NUL, which does not count; the plugin's name follows it.
        let rest = cursor.rest();
        scramble.extend_from_slice(&rest[..rest.len().min(12)]);
    }
    Some((capabilities_at, scramble))
}
