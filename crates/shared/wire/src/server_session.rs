//! A server's handshake in passthrough: the session of TLS 1.2 that its client may offer next.
//!
//! Handles the reading of the handshake's messages from the ServerHello to the server's
//! ChangeCipherSpec, however they are cut: the session id (RFC 5246 section 7.4.1.3, RFC 8446
//! section 4.1.3), and the ticket, which is the last message (RFC 5077 section 3.3). Before the
//! ChangeCipherSpec the client has not finished its part, and no session exists yet. A stream
//! without TLS just has no session.

use std::ops::RangeInclusive;

use crate::cursor::Cursor;

/// Longest session id (RFC 5246 section 7.4.1.2).
const ID_BYTES_MAX: usize = 32;

/// Length of a ServerHello without its header: from one without session id and extensions to the
/// largest accepted. Hellos with the largest key shares in use (ML-KEM-1024 with a curve, in TLS
/// 1.3) stay below 2 KiB.
const HELLO_BYTES: RangeInclusive<usize> = 38..=4 << 10;

/// Bytes before a ticket: its lifetime and its length.
const TICKET_HEAD_BYTES: usize = 6;

/// Longest message with a ticket, whose length has 16 bits.
const TICKET_MESSAGE_BYTES_MAX: usize = TICKET_HEAD_BYTES + u16::MAX as usize;

/// Bytes of a ticket's end that are part of its name.
const TICKET_TAIL_BYTES: usize = ID_BYTES_MAX - size_of::<u64>();

const RECORD_HEADER_BYTES: usize = 5;
/// Longest record (RFC 5246 section 6.2.3), with what encryption may add.
const RECORD_BYTES_MAX: usize = (1 << 14) + 2048;
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const SERVER_HELLO: u8 = 2;
const NEW_SESSION_TICKET: u8 = 4;
const TLS_1_2: u16 = 0x0303;
const SUPPORTED_VERSIONS: u16 = 43;

/// Session id of 1 to 32 bytes, or a name that stands for a ticket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionId {
    bytes: [u8; ID_BYTES_MAX],
    length: u8,
}

impl SessionId {
    /// Creates an id; `None` if there are no bytes, or too many.
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; ID_BYTES_MAX];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        let length = u8::try_from(id.len()).ok().filter(|length| *length > 0)?;
        Some(Self { bytes, length })
    }

    /// Returns the name that stands for a ticket; `None` for an empty one (RFC 5077 section 3.3).
    pub fn of_ticket(ticket: &[u8]) -> Option<Self> {
        let mut name = TicketName::default();
        name.take(ticket);
        name.end()
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length.into()).unwrap_or_default()
    }
}

/// Builder of a ticket's short name as its bytes come: equal on all hosts and in all versions.
///
/// Tickets end with their authentication code (RFC 5077 section 4), so that their ends differ; a
/// sum of all bytes (FNV-1a) distinguishes tickets with equal ends. A server that makes tickets of
/// equal names only leads their clients to itself.
#[derive(Clone, Debug)]
struct TicketName {
    sum: u64,
    tail: [u8; TICKET_TAIL_BYTES],
    bytes: usize,
}

impl Default for TicketName {
    fn default() -> Self {
        Self { sum: 0xcbf2_9ce4_8422_2325, tail: [0; TICKET_TAIL_BYTES], bytes: 0 }
    }
}

impl TicketName {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.sum = (self.sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            self.tail[self.bytes % TICKET_TAIL_BYTES] = *byte;
            self.bytes += 1;
        }
    }

    fn end(&self) -> Option<SessionId> {
        let mut bytes = [0; ID_BYTES_MAX];
        bytes[..TICKET_TAIL_BYTES].copy_from_slice(&self.tail);
        bytes[TICKET_TAIL_BYTES..].copy_from_slice(&self.sum.to_be_bytes());
        SessionId::new(&bytes).filter(|_| self.bytes > 0)
    }
}

/// Session that a handshake leaves to its client; at least one of the two is present.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PassedSession {
    /// Id in the ServerHello: a new one, or the client's own if the session was resumed, also by a
    /// ticket (RFC 5077 section 3.4).
    pub id: Option<SessionId>,
    /// Name of the ticket that the server has issued.
    pub ticket: Option<SessionId>,
}

/// Result so far.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    Incomplete,
    /// Session that the handshake made, or resumed.
    Session(PassedSession),
    /// No session of TLS 1.2 to resume: TLS 1.3, an alert, or no TLS at all.
    Nothing,
}

/// Reads a server's first bytes in passthrough; it keeps no more of them than the ServerHello.
#[derive(Clone, Debug, Default)]
pub struct ServerHelloReader {
    header: [u8; RECORD_HEADER_BYTES],
    header_bytes: usize,
    /// Bytes of the present record that are still to come.
    record_bytes_left: usize,
    /// Kind and length of the present message, and its received bytes.
    message: [u8; 4],
    message_bytes: usize,
    hello: Vec<u8>,
    is_read: bool,
    ticket: TicketName,
    session: PassedSession,
}

impl ServerHelloReader {
    /// Takes the next bytes of the stream; not to be called again after anything but
    /// [`Outcome::Incomplete`].
    pub fn take(&mut self, mut bytes: &[u8]) -> Outcome {
        while let Some((first, rest)) = bytes.split_first() {
            if self.record_bytes_left > 0 {
                let count = self.record_bytes_left.min(bytes.len());
                let (fragment, rest) = bytes.split_at(count);
                self.record_bytes_left -= count;
                if self.take_fragment(fragment).is_none() {
                    return Outcome::Nothing;
                }
                bytes = rest;
                continue;
            }
            if let Some(byte) = self.header.get_mut(self.header_bytes) {
                *byte = *first;
            }
            self.header_bytes += 1;
            bytes = rest;
            if self.header_bytes == RECORD_HEADER_BYTES
                && let Some(outcome) = self.begin_record()
            {
                return outcome;
            }
        }
        Outcome::Incomplete
    }

    /// Returns the outcome if the record's header decides it.
    fn begin_record(&mut self) -> Option<Outcome> {
        let [kind, major, _, high, low] = self.header;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if major != 3 || length == 0 || length > RECORD_BYTES_MAX {
            return Some(Outcome::Nothing);
        }
        (self.header_bytes, self.record_bytes_left) = (0, length);
        let is_some = self.session != PassedSession::default();
        match kind {
            HANDSHAKE => None,
            CHANGE_CIPHER_SPEC if is_some => Some(Outcome::Session(self.session)),
            _ => Some(Outcome::Nothing),
        }
    }

    /// Processes the messages; `None` if no session is possible.
    fn take_fragment(&mut self, mut fragment: &[u8]) -> Option<()> {
        while let Some((first, rest)) = fragment.split_first() {
            let [kind, high, middle, low] = self.message;
            let end = self.message.len() + u32::from_be_bytes([0, high, middle, low]) as usize;
            if let Some(byte) = self.message.get_mut(self.message_bytes) {
                (*byte, fragment) = (*first, rest);
                self.message_bytes += 1;
                if self.message_bytes == self.message.len() {
                    self.begin_message()?;
                }
                continue;
            }
            let missing = end - self.message_bytes;
            let (piece, rest) = fragment.split_at(missing.min(fragment.len()));
            let place = self.message_bytes - self.message.len();
            match kind {
                SERVER_HELLO => self.hello.extend_from_slice(piece),
                NEW_SESSION_TICKET => {
                    let head = TICKET_HEAD_BYTES.saturating_sub(place);
                    self.ticket.take(piece.get(head..).unwrap_or_default());
                }
                _ => {}
            }
            self.message_bytes += piece.len();
            fragment = rest;
            if self.message_bytes == end {
                self.end_message()?;
            }
        }
        Some(())
    }

    /// Checks a message's kind and length: the first is a ServerHello, and there is no other.
    fn begin_message(&mut self) -> Option<()> {
        let [kind, high, middle, low] = self.message;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        let is_hello = kind == SERVER_HELLO && HELLO_BYTES.contains(&length);
        let is_sound = match kind {
            SERVER_HELLO => is_hello,
            NEW_SESSION_TICKET => length <= TICKET_MESSAGE_BYTES_MAX,
            _ => true,
        };
        (is_sound && is_hello != self.is_read).then_some(())?;
        self.ticket = TicketName::default();
        if length == 0 {
            self.end_message()?;
        }
        Some(())
    }

    fn end_message(&mut self) -> Option<()> {
        let [kind, ..] = std::mem::take(&mut self.message);
        self.message_bytes = 0;
        match kind {
            SERVER_HELLO => {
                self.is_read = true;
                self.session.id = id_of(&std::mem::take(&mut self.hello))?;
            }
            NEW_SESSION_TICKET => self.session.ticket = self.ticket.end(),
            _ => {}
        }
        Some(())
    }
}

/// Returns the session id of a ServerHello, if any; `None` unless it is for TLS 1.2 or older.
fn id_of(body: &[u8]) -> Option<Option<SessionId>> {
    let mut cursor = Cursor::new(body);
    let version = cursor.u16()?;
    let _random: [u8; 32] = cursor.array()?;
    let id = cursor.vector8()?.rest();
    let (_suite, _compression) = (cursor.u16()?, cursor.u8()?);
    if !(0x0300..=TLS_1_2).contains(&version) || id.len() > ID_BYTES_MAX {
        return None;
    }
    if !cursor.is_empty() {
        let mut extensions = cursor.vector16()?;
        while !extensions.is_empty() {
            let (kind, _content) = (extensions.u16()?, extensions.vector16()?);
            // TLS 1.3 is chosen here, and repeats the client's random id (RFC 8446 section 4.1.3).
            if kind == SUPPORTED_VERSIONS {
                return None;
            }
        }
    }
    Some(SessionId::new(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CCS: [u8; 6] = [CHANGE_CIPHER_SPEC, 3, 3, 0, 1, 1];

    fn record(kind: u8, fragment: &[u8]) -> Vec<u8> {
        let length = (fragment.len() as u16).to_be_bytes();
        [&[kind, 3, 3], &length[..], fragment].concat()
    }

    fn message(version: u16, id: &[u8], extensions: &[u8]) -> Vec<u8> {
        let mut body = version.to_be_bytes().to_vec();
        body.extend([7; 32]);
        body.push(id.len() as u8);
        body.extend(id);
        body.extend([0xc0, 0x2f, 0]);
        body.extend(extensions);
        let length = (body.len() as u32).to_be_bytes();
        [&[SERVER_HELLO], &length[1..], &body].concat()
    }

    fn by_id(id: SessionId) -> Outcome {
        Outcome::Session(PassedSession { id: Some(id), ticket: None })
    }

    fn issued(ticket: &[u8]) -> Vec<u8> {
        let length = (TICKET_HEAD_BYTES + ticket.len()) as u32;
        let inner = (ticket.len() as u16).to_be_bytes();
        let head = [&[NEW_SESSION_TICKET], &length.to_be_bytes()[1..], &[0, 0, 1, 44]].concat();
        [&head, &inner[..], ticket].concat()
    }

    /// Puts the messages into records of this number of bytes.
    fn records(messages: &[u8], bytes: usize) -> Vec<u8> {
        messages.chunks(bytes).flat_map(|one| record(22, one)).collect()
    }

    /// Adds a Certificate behind the hello, in the same record and one of its own.
    fn flight(hello: &[u8]) -> Vec<u8> {
        let certificate = [[11, 0, 8, 0].as_slice(), &[20; 2048]].concat();
        let first = [hello, &certificate[..40]].concat();
        [record(22, &first), record(22, &certificate[40..])].concat()
    }

    fn at_once(bytes: &[u8]) -> Outcome {
        ServerHelloReader::default().take(bytes)
    }

    fn cut(bytes: &[u8], sizes: &[usize]) -> Outcome {
        let mut watch = ServerHelloReader::default();
        let mut sizes = sizes.iter().copied().cycle();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
            rest = after;
            match watch.take(piece) {
                Outcome::Incomplete => {}
                outcome => return outcome,
            }
        }
        Outcome::Incomplete
    }

    #[test]
    fn a_session_is_known_when_the_server_changes_its_cipher_and_not_before() {
        let id = SessionId::new(&[9; 32]).unwrap();
        let mut bytes = flight(&message(TLS_1_2, &[9; 32], &[0, 4, 0xff, 1, 0, 0]));
        assert_eq!(at_once(&bytes), Outcome::Incomplete);
        bytes.extend(CCS);
        assert_eq!(at_once(&bytes), by_id(id));
        let resumed = [record(22, &message(TLS_1_2, &[9; 32], &[])), CCS.to_vec()].concat();
        assert_eq!(at_once(&resumed), by_id(id));
        assert_eq!(id.as_bytes(), [9; 32]);
    }

    #[test]
    fn a_ticket_is_known_by_what_its_client_will_offer() {
        let longest = vec![3; (1 << 16) - 1];
        let plain = message(TLS_1_2, &[], &[]);
        for ticket in [&[7][..], &[8; 31], &[8; 32], &[9; 192], &longest] {
            let messages = [&plain[..], &[14, 0, 0, 0], &issued(ticket)].concat();
            for bytes in [1, 7, 100, 1 << 14] {
                let stream = [records(&messages, bytes), CCS.to_vec()].concat();
                let wanted = PassedSession { id: None, ticket: SessionId::of_ticket(ticket) };
                assert!(wanted.ticket.is_some());
                assert_eq!(cut(&stream, &[3, 1000]), Outcome::Session(wanted));
            }
        }
        let names = [&[8; 31][..], &[8; 32], &[9; 192], &longest, &[0], &[0; 2]];
        let names: Vec<_> = names.map(SessionId::of_ticket).into();
        for (place, name) in names.iter().enumerate() {
            assert!(!names[..place].contains(name), "{place}");
        }
        // Both tickets end alike.
        let [one, other] = [1, 2].map(|first| [&[first][..], &[5; 100]].concat());
        assert_ne!(SessionId::of_ticket(&one), SessionId::of_ticket(&other));
    }

    /// A hostile server's certificates: none is kept, and a ticket that is too long ends the watch.
    #[test]
    fn sixty_four_mebibytes_of_certificates_take_no_memory() {
        let mut watch = ServerHelloReader::default();
        let hello = record(22, &message(TLS_1_2, &[9; 32], &[]));
        assert_eq!(watch.take(&hello), Outcome::Incomplete);
        let piece = record(22, &[&[11, 0xff, 0xff, 0xff][..], &[11; 16_000]].concat());
        for _ in 0..(64 << 20) / piece.len() {
            assert_eq!(watch.take(&piece), Outcome::Incomplete);
        }
        assert_eq!(watch.hello.capacity(), 0);
        let long = [NEW_SESSION_TICKET, 1, 0, 6];
        let of_long = [hello, record(22, &long)].concat();
        assert_eq!(at_once(&of_long), Outcome::Nothing);
    }

    #[test]
    fn an_empty_ticket_is_none_and_the_last_one_counts() {
        let with = |id: &[u8], more: &[Vec<u8>]| {
            let messages = [message(TLS_1_2, id, &[]), more.concat()].concat();
            at_once(&[record(22, &messages), CCS.to_vec()].concat())
        };
        assert_eq!(with(&[], &[issued(&[])]), Outcome::Nothing);
        let id = SessionId::new(&[9; 32]);
        let found = |ticket| Outcome::Session(PassedSession { id, ticket });
        assert_eq!(with(&[9; 32], &[issued(&[])]), found(None));
        let two = [issued(&[1; 40]), issued(&[2; 40])];
        assert_eq!(with(&[9; 32], &two), found(SessionId::of_ticket(&[2; 40])));
        // Tickets that are cut short, or longer than their length: a client would refuse them.
        assert_eq!(with(&[], &[vec![NEW_SESSION_TICKET, 0, 0, 3, 0, 0, 0]]), Outcome::Nothing);
        let hello = message(TLS_1_2, &[9; 32], &[]);
        assert_eq!(with(&[9; 32], &[hello]), Outcome::Nothing, "a second hello");
    }

    #[test]
    fn what_has_no_session_id_has_none() {
        let with_ccs = |hello: &[u8]| [record(22, hello), CCS.to_vec()].concat();
        let tls13 = [0, 6, 0, SUPPORTED_VERSIONS as u8, 0, 2, 3, 4];
        let mut cut_extensions = message(TLS_1_2, &[1], &[0, 9, 0, 1, 0, 0]);
        for bytes in [
            with_ccs(&message(TLS_1_2, &[9; 32], &tls13)),
            with_ccs(&message(TLS_1_2, &[], &[])),
            with_ccs(&message(TLS_1_2, &[9; 33], &[])),
            with_ccs(&message(0x0304, &[9; 32], &[])),
            with_ccs(&std::mem::take(&mut cut_extensions)),
            with_ccs(&[11, 0, 0, 1, 0]),
            with_ccs(&[SERVER_HELLO, 1, 0, 0, 3]),
            with_ccs(&[SERVER_HELLO, 0, 0, 0, 3]),
            CCS.to_vec(),
            record(21, &[2, 40]),
            record(22, &[]),
            b"HTTP/1.1 400 Bad Request\r\n".to_vec(),
            vec![22, 3, 3, 0xff, 0xff],
        ] {
            assert_eq!(at_once(&bytes), Outcome::Nothing, "{bytes:02x?}");
        }
        assert_eq!(SessionId::new(&[]), None);
        assert_eq!(SessionId::new(&[0; 33]), None);
    }

    proptest! {
        /// The result does not depend on how the stream is cut, or its hello spread over records.
        #[test]
        fn cuts_change_nothing(
            id in prop::collection::vec(any::<u8>(), 0..=33), version in 0x0300u16..0x0305,
            place in 1usize..60, sizes in prop::collection::vec(1usize..700, 1..5),
        ) {
            let hello = message(version, &id, &[]);
            let (head, tail) = hello.split_at(place.min(hello.len() - 1));
            let spread = [record(22, head), record(22, tail), CCS.to_vec()].concat();
            let together = [flight(&hello), CCS.to_vec()].concat();
            let wanted = match SessionId::new(&id) {
                Some(id) if version <= TLS_1_2 => by_id(id),
                _ => Outcome::Nothing,
            };
            for bytes in [spread, together] {
                prop_assert_eq!(at_once(&bytes), wanted);
                prop_assert_eq!(cut(&bytes, &sizes), wanted);
            }
        }

        /// Random bytes, however cut: no panic, and the same answer.
        #[test]
        fn noise_is_harmless(
            bytes in prop::collection::vec(any::<u8>(), 0..200), size in 1usize..20,
        ) {
            let bytes = [record(22, &bytes), bytes].concat();
            prop_assert_eq!(cut(&bytes, &[size]), at_once(&bytes));
        }
    }
}
