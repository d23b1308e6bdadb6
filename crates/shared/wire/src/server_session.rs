//! A server's handshake as it passes by: the session id of TLS 1.2 that its client may offer next.
//!
//! Owns the reading of the ServerHello (RFC 5246 section 7.4.1.3, RFC 8446 section 4.1.3) and of
//! the records from there to the server's ChangeCipherSpec, however they are cut. Before that the
//! client has not finished its part, and there is no session yet. Decides nothing about servers: a
//! stream that is something else just has no session.

use std::ops::RangeInclusive;

use crate::cursor::Cursor;

/// The longest session id (RFC 5246 section 7.4.1.2).
const ID_BYTES_MAX: usize = 32;

/// A ServerHello without its header: from one without session id and extensions to the largest
/// that is read. Those with the largest key shares in use (ML-KEM-1024 with a curve, in TLS 1.3)
/// stay below 2 KiB.
const HELLO_BYTES: RangeInclusive<usize> = 38..=4 << 10;

const RECORD_HEADER_BYTES: usize = 5;
/// RFC 5246 section 6.2.3: what encryption may add is included.
const RECORD_BYTES_MAX: usize = (1 << 14) + 2048;
const HANDSHAKE_HEADER_BYTES: usize = 4;
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const SERVER_HELLO: u8 = 2;
const TLS_1_2: u16 = 0x0303;
const SUPPORTED_VERSIONS: u16 = 43;

/// A session id of 1 to 32 bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionId {
    bytes: [u8; ID_BYTES_MAX],
    length: u8,
}

impl SessionId {
    /// `None` if there are no bytes, or too many.
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; ID_BYTES_MAX];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        let length = u8::try_from(id.len()).ok().filter(|length| *length > 0)?;
        Some(Self { bytes, length })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length.into()).unwrap_or_default()
    }
}

/// What the bytes so far amount to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// More is needed.
    Incomplete,
    /// The handshake made, or resumed, this session.
    Session(SessionId),
    /// There is no session with an id: TLS 1.3, tickets, an alert, something else than TLS.
    Nothing,
}

/// Reads a server's first bytes as they pass; it keeps no more of them than the ServerHello.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    header: [u8; RECORD_HEADER_BYTES],
    header_bytes: usize,
    /// Bytes of the present record that are still to come.
    record_bytes_left: usize,
    hello: Vec<u8>,
    session: Option<SessionId>,
}

impl Watch {
    /// Takes the next bytes of the stream; not to be called again after anything but
    /// [`Outcome::Incomplete`].
    pub fn take(&mut self, mut bytes: &[u8]) -> Outcome {
        while let Some((first, rest)) = bytes.split_first() {
            if self.record_bytes_left > 0 {
                let count = self.record_bytes_left.min(bytes.len());
                let (fragment, rest) = bytes.split_at(count);
                self.record_bytes_left -= count;
                if self.session.is_none() && !self.take_fragment(fragment) {
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

    /// What a record's header decides, if it does.
    fn begin_record(&mut self) -> Option<Outcome> {
        let [kind, major, _, high, low] = self.header;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if major != 3 || length == 0 || length > RECORD_BYTES_MAX {
            return Some(Outcome::Nothing);
        }
        (self.header_bytes, self.record_bytes_left) = (0, length);
        match kind {
            HANDSHAKE => None,
            CHANGE_CIPHER_SPEC => Some(self.session.map_or(Outcome::Nothing, Outcome::Session)),
            _ => Some(Outcome::Nothing),
        }
    }

    /// Collects the ServerHello and reads it when it is whole; whether there can be a session.
    fn take_fragment(&mut self, mut fragment: &[u8]) -> bool {
        while !fragment.is_empty() {
            let needed = match self.hello.first_chunk::<HANDSHAKE_HEADER_BYTES>() {
                None => HANDSHAKE_HEADER_BYTES,
                Some([kind, high, middle, low]) => {
                    let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
                    if *kind != SERVER_HELLO || !HELLO_BYTES.contains(&length) {
                        return false;
                    }
                    HANDSHAKE_HEADER_BYTES + length
                }
            };
            let missing = needed - self.hello.len();
            let (piece, rest) = fragment.split_at(missing.min(fragment.len()));
            self.hello.extend_from_slice(piece);
            fragment = rest;
            if needed > HANDSHAKE_HEADER_BYTES && missing == piece.len() {
                let hello = std::mem::take(&mut self.hello);
                self.session = session_of(&hello[HANDSHAKE_HEADER_BYTES..]);
                return self.session.is_some();
            }
        }
        true
    }
}

/// The session id of a ServerHello that chooses TLS 1.2 or older.
fn session_of(body: &[u8]) -> Option<SessionId> {
    let mut cursor = Cursor::new(body);
    let version = cursor.u16()?;
    let _random: [u8; 32] = cursor.array()?;
    let id = cursor.vector8()?;
    let (_suite, _compression) = (cursor.u16()?, cursor.u8()?);
    if !(0x0300..=TLS_1_2).contains(&version) {
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
    SessionId::new(id.rest())
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

    /// With a Certificate behind the hello, in the same record and one of its own.
    fn flight(hello: &[u8]) -> Vec<u8> {
        let certificate = [[11, 0, 8, 0].as_slice(), &[20; 2048]].concat();
        let first = [hello, &certificate[..40]].concat();
        [record(22, &first), record(22, &certificate[40..])].concat()
    }

    fn at_once(bytes: &[u8]) -> Outcome {
        Watch::default().take(bytes)
    }

    fn cut(bytes: &[u8], sizes: &[usize]) -> Outcome {
        let mut watch = Watch::default();
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
        assert_eq!(at_once(&bytes), Outcome::Session(id));
        let resumed = [record(22, &message(TLS_1_2, &[9; 32], &[])), CCS.to_vec()].concat();
        assert_eq!(at_once(&resumed), Outcome::Session(id));
        assert_eq!(id.as_bytes(), [9; 32]);
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
        /// However the stream is cut, and its hello spread over records, it says the same.
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
                Some(id) if version <= TLS_1_2 => Outcome::Session(id),
                _ => Outcome::Nothing,
            };
            for bytes in [spread, together] {
                prop_assert_eq!(at_once(&bytes), wanted);
                prop_assert_eq!(cut(&bytes, &sizes), wanted);
            }
        }

        /// Any bytes, however cut: no panic, and the same answer.
        #[test]
        fn noise_is_harmless(
            bytes in prop::collection::vec(any::<u8>(), 0..200), size in 1usize..20,
        ) {
            let bytes = [record(22, &bytes), bytes].concat();
            prop_assert_eq!(cut(&bytes, &[size]), at_once(&bytes));
        }
    }
}
