//! The reasons to refuse a login, and the error packet that says so to the client.
//!
//! Numbers and states are those of MySQL's servers ("Server Error Message Reference"), and so are
//! the words where a server would say the same. Those of client libraries (2000 to 2999) would say
//! more, but clients of MariaDB take them for a malformed packet.

use super::packet::{ERROR, PacketFault};
use crate::cursor::Cursor;
use crate::starttls::step::{self, Fault};

/// Number, SQL state, and words.
pub(super) type Words = (u16, &'static str, &'static str);

pub(super) const NO_SERVER: Words = (
    1429,
    "08S01",
    "Unable to connect to foreign data source: no MySQL server could be reached",
);

/// The end of a login before the server had decided it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Refusal {
    /// The client logs in without TLS where that is required.
    PlainClient,
    /// No request for TLS and no login, or one that may not come now.
    ClientPacket,
    ClientOrder,
    ClientTooLarge,
    /// The server greeted with this error.
    ServerRefused(Vec<u8>),
    ServerProtocol,
    /// It does not parse, or is too large, or out of order, or came before TLS.
    ServerPacket,
    ServerWithoutTls,
    /// It was given up after the client had got its greeting.
    ServerLost,
    /// The password could not be encrypted for the server, or decrypted from the client.
    Password,
}

impl Refusal {
    pub(super) fn fault(&self) -> Fault {
        match self {
            Self::PlainClient => Fault::TlsRequired,
            Self::ClientPacket => Fault::ClientMalformed("a login that does not parse"),
            Self::ClientOrder => Fault::ClientMalformed("a packet out of order"),
            Self::ClientTooLarge => Fault::ClientMalformed("a login of more than 64 KiB"),
            Self::ServerRefused(payload) => {
                let words = error(payload).map(|(_, words)| words);
                step::refusal(words.unwrap_or_default().as_bytes())
            }
            Self::ServerProtocol => Fault::ServerMalformed("a greeting of another version than 10"),
            Self::ServerPacket => Fault::ServerMalformed("a packet that does not parse"),
            Self::ServerWithoutTls => Fault::ServerWithoutTls("TLS (CLIENT_SSL)"),
            Self::ServerLost => Fault::ServerMalformed("a greeting and then no more"),
            Self::Password => Fault::ServerMalformed("no RSA key that the password fits"),
        }
    }

    pub(super) fn of_client(fault: PacketFault) -> Self {
        match fault {
            PacketFault::OutOfOrder => Self::ClientOrder,
            PacketFault::TooLarge => Self::ClientTooLarge,
        }
    }

    pub(super) fn of_server(_: PacketFault) -> Self {
        Self::ServerPacket
    }

    fn words(&self) -> Words {
        match self {
            Self::PlainClient => (
                3159,
                "HY000",
                "Connections using insecure transport are prohibited: this address requires TLS.",
            ),
            Self::ClientPacket => (1043, "08S01", "Bad handshake"),
            Self::ClientOrder => (1156, "08S01", "Got packets out of order"),
            Self::ClientTooLarge => (
                1153,
                "08S01",
                "Got a packet bigger than 'max_allowed_packet' bytes",
            ),
            Self::ServerProtocol => (
                1043,
                "08S01",
                "Bad handshake: the server does not speak version 10 of the protocol",
            ),
            Self::ServerLost => (1158, "08S01", "Got an error reading communication packets"),
            Self::ServerRefused(_) | Self::ServerPacket => {
                (1835, "HY000", "Malformed communication packet")
            }
            Self::ServerWithoutTls => (
                3159,
                "HY000",
                "Connections using insecure transport are prohibited: the server offers no TLS",
            ),
            Self::Password => (
                1045,
                "28000",
                "Access denied: the password could not be encrypted for the server",
            ),
        }
    }

    /// The payload of the packet that tells the client: the server's own, or ours.
    pub(super) fn packet(&self, has_state: bool) -> Vec<u8> {
        match self {
            Self::ServerRefused(payload) => payload.clone(),
            _ => packet(self.words(), has_state),
        }
    }
}

/// The payload of `ERR_Packet`. In place of a greeting it has no SQL state: the client has not said
/// yet that it knows of them.
pub(super) fn packet((number, state, words): Words, has_state: bool) -> Vec<u8> {
    let mut payload = vec![ERROR];
    payload.extend_from_slice(&number.to_le_bytes());
    if has_state {
        payload.push(b'#');
        payload.extend_from_slice(state.as_bytes());
    }
    payload.extend_from_slice(words.as_bytes());
    payload
}

/// Number and words of an error packet.
pub(super) fn error(payload: &[u8]) -> Option<(u16, String)> {
    let mut cursor = Cursor::new(payload);
    cursor.u8().filter(|first| *first == ERROR)?;
    let number = cursor.array().map(u16::from_le_bytes)?;
    // The SQL state, if there is one, is of five characters.
    let words = match cursor.rest() {
        [b'#', _, _, _, _, _, words @ ..] | words => words,
    };
    let words = String::from_utf8_lossy(words);
    Some((number, format!("error {number}: {words}")))
}
