//! Packets of the MySQL protocol: a length of three bytes, a sequence number, a payload; the
//! greeting of a server, the login of a client, and the refusal of a login, with its error packet
//! for the client.
//!
//! Handles framing and sequence numbers of one peer, and the first bytes of servers' payloads.
//! Numbers and states of errors are those of MySQL's servers ("Server Error Message Reference"),
//! and so are the texts if a server has one for the case. Errors of client libraries (2000 to 2999)
//! would be more precise, but clients of MariaDB take them for a malformed packet. Sources: MySQL
//! Internals, "MySQL Packets", "Protocol::HandshakeV10", "Capability Flags"; MariaDB Knowledge
//! Base, "0 - Packet", "Connection".

use crate::cursor::Cursor;
use crate::starttls::held::HeldBytes;
use crate::starttls::step;
use crate::starttls::step::Fault;

/// Length (3 bytes, little-endian) and sequence number.
pub(super) const HEADER_BYTES: usize = 4;

/// The server accepted the login (`OK_Packet`).
pub(super) const OK: u8 = 0;
/// An authentication plugin sends more data (`AuthMoreData`).
pub(super) const MORE_DATA: u8 = 1;
/// The server asks for another factor (`AuthNextFactorRequest`).
pub(super) const NEXT_FACTOR: u8 = 2;
/// The server asks for another plugin (`AuthSwitchRequest`).
pub(super) const SWITCH: u8 = 0xfe;
pub(super) const ERROR: u8 = 0xff;

/// Most bytes of a payload before the login is over. A login carries at most 64 KiB of connection
/// attributes; servers themselves allow `net_buffer_length`, 16 KiB by default.
pub(super) const PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// Most packets of a peer before the login is over. More would repeat sequence numbers; a login of
/// several factors needs about ten.
const PACKETS_MAX: usize = 256;

/// Reason why a peer's bytes are no packet that may come now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PacketFault {
    TooLarge,
    /// More than [`PACKETS_MAX`] packets.
    TooMany,
    /// Number that does not follow the previous packet's.
    OutOfOrder,
}

/// State of the client or the server: its unread bytes, and the number of the next packet to or
/// from it.
///
/// Packets of both directions are numbered together, so a packet that we take from one peer and do
/// not send to the other shifts all later numbers.
#[derive(Default)]
pub(super) struct PacketPeer {
    received: HeldBytes,
    sequence: u8,
    /// Number of packets taken.
    packets: usize,
}

impl PacketPeer {
    /// Keeps received bytes; fails once they are more than any packet may have.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<(), PacketFault> {
        if self.received.rest().len() + bytes.len() > 2 * (HEADER_BYTES + PAYLOAD_BYTES_MAX) {
            return Err(PacketFault::TooLarge);
        }
        self.received.push(bytes);
        Ok(())
    }

    /// Takes the payload of the next packet; `None` if it is incomplete.
    pub(super) fn take(&mut self) -> Result<Option<Vec<u8>>, PacketFault> {
        let Some((length, sequence)) = header(self.received.rest()) else {
            return Ok(None);
        };
        if length > PAYLOAD_BYTES_MAX {
            return Err(PacketFault::TooLarge);
        }
        if sequence != self.sequence {
            return Err(PacketFault::OutOfOrder);
        }
        if self.packets == PACKETS_MAX {
            return Err(PacketFault::TooMany);
        }
        let end = HEADER_BYTES + length;
        if self.received.rest().len() < end {
            return Ok(None);
        }
        self.packets += 1;
        self.sequence = self.sequence.wrapping_add(1);
        Ok(Some(self.received.take(end)[HEADER_BYTES..].to_vec()))
    }

    /// Reports whether a complete packet is here.
    pub(super) fn has_packet(&self) -> bool {
        let length = header(self.received.rest()).map(|(length, _)| length);
        length.is_some_and(|length| self.received.rest().len() - HEADER_BYTES >= length)
    }

    /// Appends a packet for the peer with the next number. The payload is no longer than one of
    /// [`Self::take`], or one of ours.
    pub(super) fn put(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        self.write(payload, out);
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Appends the last packet for the peer.
    pub(super) fn write(&self, payload: &[u8], out: &mut Vec<u8>) {
        let length = u32::try_from(payload.len()).expect("payloads are bounded");
        out.extend_from_slice(&length.to_le_bytes()[..3]);
        out.push(self.sequence);
        out.extend_from_slice(payload);
    }

    /// Renumbers a part of a packet of the other peer for this one.
    pub(super) fn renumbered(&self, mut part: Vec<u8>) -> Vec<u8> {
        if let Some(number) = part.get_mut(HEADER_BYTES - 1) {
            *number = self.sequence;
        }
        part
    }

    /// Takes the bytes beyond the packets that were taken.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        self.received.take_all()
    }
}

fn header(bytes: &[u8]) -> Option<(usize, u8)> {
    let &[low, middle, high, sequence] = bytes.first_chunk()?;
    let length = u32::from_le_bytes([low, middle, high, 0]);
    Some((usize::try_from(length).ok()?, sequence))
}

const PROTOCOL: u8 = 10;

/// A greeting, and its fields that the login needs.
#[derive(Debug)]
pub(super) struct Greeting {
    payload: Vec<u8>,
    /// Offset of the lower two bytes of its capabilities.
    capabilities_at: usize,
    /// Bytes that the client mixes with its password: 20, or fewer of old servers.
    pub(super) scramble: Vec<u8>,
}

impl Greeting {
    pub(super) fn parse(payload: Vec<u8>) -> Result<Self, LoginRefusal> {
        match payload.first() {
            Some(&PROTOCOL) => {}
            Some(&ERROR) => return Err(LoginRefusal::ServerRefused(payload)),
            Some(1..PROTOCOL) => return Err(LoginRefusal::ServerProtocol),
            _ => return Err(LoginRefusal::ServerPacket),
        }
        let (capabilities_at, scramble) = fields(&payload).ok_or(LoginRefusal::ServerPacket)?;
        Ok(Self { payload, capabilities_at, scramble })
    }

    /// Reports whether the server has TLS.
    pub(super) fn offers_tls(&self) -> bool {
        self.payload[self.capabilities_at + 1] & TLS_BITS != 0
    }

    /// Returns the payload for the client, with `CLIENT_SSL` or without it.
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

/// Length of capabilities, packet size, character set and filler: a whole request for TLS, and the
/// beginning of a login.
pub(super) const REQUEST_BYTES: usize = 32;

/// Returns the client's capabilities; a client from before MySQL 4.1 has no 32 bits of them.
pub(super) fn capabilities(payload: &[u8]) -> Result<u32, LoginRefusal> {
    let capabilities = Cursor::new(payload).array().map(u32::from_le_bytes);
    capabilities
        .filter(|bits| bits & PROTOCOL_41 != 0 && payload.len() >= REQUEST_BYTES)
        .ok_or(LoginRefusal::ClientPacket)
}

/// Sets or clears `CLIENT_SSL`: a server that finds the bit in a login waits for TLS.
pub(super) fn with_tls(mut payload: Vec<u8>, is_tls: bool) -> Vec<u8> {
    let bits = (TLS >> 8) as u8;
    let byte = &mut payload[1];
    *byte = *byte & !bits | if is_tls { bits } else { 0 };
    payload
}

/// Parts of a login (`HandshakeResponse41`) that authentication needs.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Login {
    pub(super) capabilities: u32,
    /// Answer to the scramble, without its length.
    pub(super) answer: Vec<u8>,
    /// Range of the answer in the payload, with its length.
    answer_range: std::ops::Range<usize>,
    /// Name of the plugin; empty = none was named.
    pub(super) plugin: Vec<u8>,
}

impl Login {
    pub(super) fn parse(payload: &[u8]) -> Result<Self, LoginRefusal> {
        let capabilities = capabilities(payload)?;
        Self::fields(payload, capabilities).ok_or(LoginRefusal::ClientPacket)
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
            // Some clients set the bit but omit an empty name.
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

    /// Returns the payload with another answer of one byte. The byte is not NUL, and all other
    /// fields keep their meaning.
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

/// Reads bytes up to a NUL, which is taken too.
pub(super) fn text<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let length = cursor.rest().iter().position(|byte| *byte == 0)?;
    let text = cursor.take(length);
    cursor.u8();
    text
}

/// Reads bytes up to a NUL, or to the end of the packet.
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

/// Number, SQL state, and text of an error.
pub(super) type ProtocolWords = (u16, &'static str, &'static str);

pub(super) const NO_SERVER: ProtocolWords =
    (1429, "08S01", "Unable to connect to foreign data source: no MySQL server could be reached");

/// Reason to end a login before the server had decided it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum LoginRefusal {
    /// Login without TLS where TLS is required.
    PlainClient,
    /// Packet that is neither a request for TLS nor a login, or that may not come now.
    ClientPacket,
    ClientOrder,
    ClientTooLarge,
    ClientTooMany,
    /// Greeting of the server with this error.
    ServerRefused(Vec<u8>),
    ServerProtocol,
    /// Packet that does not parse, is too large, out of order, or came before TLS.
    ServerPacket,
    ServerTooMany,
    ServerWithoutTls,
    /// Server that was given up after the client had got its greeting.
    ServerLost,
    /// Password that could not be encrypted for the server, or decrypted from the client.
    Password,
}

impl LoginRefusal {
    pub(super) fn fault(&self) -> Fault {
        match self {
            Self::PlainClient => Fault::TlsRequired,
            Self::ClientPacket => Fault::ClientMalformed("a login that does not parse"),
            Self::ClientOrder => Fault::ClientMalformed("a packet out of order"),
            Self::ClientTooLarge => Fault::ClientMalformed("a login of more than 64 KiB"),
            Self::ClientTooMany => Fault::ClientMalformed("a login of more than 256 packets"),
            Self::ServerRefused(payload) => {
                let words = error(payload).map(|(_, words)| words);
                step::refusal(words.unwrap_or_default().as_bytes())
            }
            Self::ServerProtocol => Fault::ServerMalformed("a greeting of another version than 10"),
            Self::ServerPacket => Fault::ServerMalformed("a packet that does not parse"),
            Self::ServerTooMany => Fault::ServerMalformed("a login of more than 256 packets"),
            Self::ServerWithoutTls => Fault::ServerWithoutTls("TLS (CLIENT_SSL)"),
            Self::ServerLost => Fault::ServerMalformed("a greeting and then no more"),
            Self::Password => Fault::ServerMalformed("no RSA key that the password fits"),
        }
    }

    pub(super) fn of_client(fault: PacketFault) -> Self {
        match fault {
            PacketFault::OutOfOrder => Self::ClientOrder,
            PacketFault::TooLarge => Self::ClientTooLarge,
            PacketFault::TooMany => Self::ClientTooMany,
        }
    }

    pub(super) fn of_server(fault: PacketFault) -> Self {
        match fault {
            PacketFault::TooMany => Self::ServerTooMany,
            PacketFault::OutOfOrder | PacketFault::TooLarge => Self::ServerPacket,
        }
    }

    fn words(&self) -> ProtocolWords {
        match self {
            Self::PlainClient => (
                3159,
                "HY000",
                "Connections using insecure transport are prohibited: this address requires TLS.",
            ),
            Self::ClientPacket | Self::ClientTooMany => (1043, "08S01", "Bad handshake"),
            Self::ClientOrder => (1156, "08S01", "Got packets out of order"),
            Self::ClientTooLarge => {
                (1153, "08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
            }
            Self::ServerProtocol => (
                1043,
                "08S01",
                "Bad handshake: the server does not speak version 10 of the protocol",
            ),
            Self::ServerLost => (1158, "08S01", "Got an error reading communication packets"),
            Self::ServerRefused(_) | Self::ServerPacket | Self::ServerTooMany => {
                (1835, "HY000", "Malformed communication packet")
            }
            Self::ServerWithoutTls => (
                3159,
                "HY000",
                "Connections using insecure transport are prohibited: the server offers no TLS",
            ),
            Self::Password => {
                (1045, "28000", "Access denied: the password could not be encrypted for the server")
            }
        }
    }

    /// Returns the payload of the client's error packet: the server's own, or ours.
    pub(super) fn packet(&self, has_state: bool) -> Vec<u8> {
        match self {
            Self::ServerRefused(payload) => payload.clone(),
            _ => error_packet(self.words(), has_state),
        }
    }
}

/// Makes the payload of `ERR_Packet`. An error in place of a greeting has no SQL state, because the
/// client has not yet declared that it knows them.
pub(super) fn error_packet((number, state, words): ProtocolWords, has_state: bool) -> Vec<u8> {
    let mut payload = vec![ERROR];
    payload.extend_from_slice(&number.to_le_bytes());
    if has_state {
        payload.push(b'#');
        payload.extend_from_slice(state.as_bytes());
    }
    payload.extend_from_slice(words.as_bytes());
    payload
}

/// Returns number and text of an error packet.
pub(super) fn error(payload: &[u8]) -> Option<(u16, String)> {
    let mut cursor = Cursor::new(payload);
    cursor.u8().filter(|first| *first == ERROR)?;
    let number = cursor.array().map(u16::from_le_bytes)?;
    // The SQL state, if there is one, has five characters.
    let words = match cursor.rest() {
        [b'#', _, _, _, _, _, words @ ..] | words => words,
    };
    let words = String::from_utf8_lossy(words);
    Some((number, format!("error {number}: {words}")))
}
