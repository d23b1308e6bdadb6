//! A TLS client that may send anything: the TLS library makes its handshake, and tests make its
//! records by hand, with any type, padding, length and number.

use std::sync::Arc;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce,
    UnboundKey,
};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ClientConfig, ConnectionTrafficSecrets, ProtocolVersion};

use crate::client::ClientChoice;

const HEADER_BYTES: usize = 5;
const EXPLICIT_NONCE_BYTES: usize = 8;
const TAG_BYTES: usize = 16;

pub const APPLICATION_DATA: u8 = 23;
pub const HANDSHAKE: u8 = 22;
pub const ALERT: u8 = 21;

/// A KeyUpdate that asks for none in return, and one that does (RFC 8446 section 4.6.3).
pub const KEY_UPDATES: [[u8; 5]; 2] = [[24, 0, 0, 1, 0], [24, 0, 0, 1, 1]];

struct Direction {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
    is_chacha: bool,
}

/// A client after its handshake.
pub struct RawClient {
    sealing: Direction,
    opening: Direction,
    next: KernelConnection<ClientConnectionData>,
}

impl RawClient {
    /// Performs a handshake: `exchange` takes what goes to the server and returns the answer.
    pub fn connect(
        choice: &ClientChoice,
        name: &str,
        mut exchange: impl FnMut(&[u8]) -> Vec<u8>,
    ) -> Self {
        let mut config = ClientConfig::clone(choice.config());
        config.enable_secret_extraction = true;
        let name = ServerName::try_from(name.to_owned()).expect("a DNS name");
        let mut connection =
            UnbufferedClientConnection::new(Arc::new(config), name).expect("a client");
        let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
        let mut is_done = false;
        while !is_done {
            is_done = drive(&mut connection, &mut incoming, &mut outgoing);
            if !outgoing.is_empty() {
                let answer = exchange(&outgoing);
                outgoing.clear();
                incoming.extend_from_slice(&answer);
            }
        }
        let (secrets, next) =
            connection.dangerous_into_kernel_connection().expect("the handshake is over");
        let mut client = Self {
            sealing: Direction::new(secrets.tx.0, &secrets.tx.1),
            opening: Direction::new(secrets.rx.0, &secrets.rx.1),
            next,
        };
        // The server's tickets.
        client.open(&incoming);
        client
    }

    pub fn is_tls13(&self) -> bool {
        self.next.protocol_version() == ProtocolVersion::TLSv1_3
    }

    /// Encrypts a record of this type; in TLS 1.3 with zeros behind its content.
    pub fn seal(&mut self, kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
        if self.is_tls13() {
            let inner = [content, &[kind], &vec![0; padding]].concat();
            return self.seal_inner(&inner);
        }
        let sequence = self.sealing.sequence;
        let length = u16::try_from(content.len()).expect("a short record");
        let [high, low] = length.to_be_bytes();
        let aad = [&sequence.to_be_bytes()[..], &[kind, 3, 3, high, low]].concat();
        let explicit = self.sealing.nonce()[NONCE_LEN - EXPLICIT_NONCE_BYTES..].to_vec();
        let sealed = self.sealing.seal(&aad, content);
        let explicit = if self.sealing.is_chacha { &[][..] } else { &explicit };
        framed(kind, &[explicit, &sealed].concat())
    }

    /// Encrypts a record of TLS 1.3 with this plaintext, type and padding included.
    pub fn seal_inner(&mut self, inner: &[u8]) -> Vec<u8> {
        let header = framed(APPLICATION_DATA, &vec![0; inner.len() + TAG_BYTES]);
        let sealed = self.sealing.seal(&header[..HEADER_BYTES], inner);
        framed(APPLICATION_DATA, &sealed)
    }

    /// Uses the next key from here on, as after a KeyUpdate.
    pub fn change_sealing_key(&mut self) {
        let (sequence, secrets) = self.next.update_tx_secret().expect("TLS 1.3");
        self.sealing = Direction::new(sequence, &secrets);
    }

    /// Decrypts all records in `wire`: returns their types and contents. Uses the next key after a
    /// KeyUpdate.
    pub fn open(&mut self, mut wire: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut opened = Vec::new();
        while let Some((header, rest)) = wire.split_first_chunk::<HEADER_BYTES>() {
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            let (body, rest) = rest.split_at(length);
            wire = rest;
            let record = self.open_one(*header, body);
            if record.0 == HANDSHAKE && KEY_UPDATES.iter().any(|one| one[..] == record.1) {
                let (sequence, secrets) = self.next.update_rx_secret().expect("TLS 1.3");
                self.opening = Direction::new(sequence, &secrets);
            }
            opened.push(record);
        }
        assert!(wire.is_empty(), "half a record");
        opened
    }

    fn open_one(&mut self, header: [u8; HEADER_BYTES], body: &[u8]) -> (u8, Vec<u8>) {
        let mut nonce = self.opening.nonce();
        if self.is_tls13() {
            assert_eq!(header[0], APPLICATION_DATA, "the type is hidden");
            let mut inner = self.opening.open(nonce, &header, body);
            let end = inner.iter().rposition(|byte| *byte != 0);
            let kind = inner[end.expect("a type")];
            inner.truncate(end.expect("a type"));
            return (kind, inner);
        }
        let mut sealed = body;
        if !self.opening.is_chacha {
            let (explicit, rest) = body.split_at(EXPLICIT_NONCE_BYTES);
            nonce[NONCE_LEN - EXPLICIT_NONCE_BYTES..].copy_from_slice(explicit);
            sealed = rest;
        }
        let length = u16::try_from(sealed.len() - TAG_BYTES).expect("a short record");
        let [high, low] = length.to_be_bytes();
        let sequence = self.opening.sequence.to_be_bytes();
        let aad = [&sequence[..], &[header[0], 3, 3, high, low]].concat();
        (header[0], self.opening.open(nonce, &aad, sealed))
    }
}

pub fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(body.len()).expect("a short record").to_be_bytes();
    [&[kind, 3, 3, high, low], body].concat()
}

impl Direction {
    fn new(sequence: u64, secrets: &ConnectionTrafficSecrets) -> Self {
        let (algorithm, key, iv): (&'static Algorithm, _, _) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => panic!("an unknown cipher"),
        };
        let key = &key.as_ref()[..algorithm.key_len()];
        Self {
            key: LessSafeKey::new(UnboundKey::new(algorithm, key).expect("a key")),
            iv: iv.as_ref().try_into().expect("12 bytes"),
            sequence,
            is_chacha: *algorithm == CHACHA20_POLY1305,
        }
    }

    fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }

    fn seal(&mut self, aad: &[u8], plain: &[u8]) -> Vec<u8> {
        let nonce = Nonce::assume_unique_for_key(self.nonce());
        let mut sealed = plain.to_vec();
        self.key.seal_in_place_append_tag(nonce, Aad::from(aad), &mut sealed).expect("sealed");
        self.sequence += 1;
        sealed
    }

    fn open(&mut self, nonce: [u8; NONCE_LEN], aad: &[u8], sealed: &[u8]) -> Vec<u8> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let mut plain = sealed.to_vec();
        let opened = self.key.open_in_place(nonce, Aad::from(aad), &mut plain);
        let plain_bytes = opened.expect("the server sealed it").len();
        plain.truncate(plain_bytes);
        self.sequence += 1;
        plain
    }
}

/// Advances the handshake as far as the bytes allow; returns whether it is over.
fn drive(
    connection: &mut UnbufferedClientConnection,
    incoming: &mut Vec<u8>,
    outgoing: &mut Vec<u8>,
) -> bool {
    loop {
        // One record at a time: those behind the handshake are not for the library.
        let shown = record_end(incoming).unwrap_or(0);
        let UnbufferedStatus { discard, state, .. } =
            connection.process_tls_records(&mut incoming[..shown]);
        let mut is_blocked = false;
        match state.expect("the server's handshake is right") {
            ConnectionState::EncodeTlsData(mut data) => {
                let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) else {
                    panic!("there is something to send");
                };
                let start = outgoing.len();
                outgoing.resize(start + size.required_size, 0);
                data.encode(&mut outgoing[start..]).expect("room enough");
            }
            ConnectionState::TransmitTlsData(transmit) => transmit.done(),
            ConnectionState::WriteTraffic(_) => {
                incoming.drain(..discard);
                return true;
            }
            ConnectionState::BlockedHandshake => is_blocked = discard == 0,
            other => panic!("not in a handshake: {other:?}"),
        }
        incoming.drain(..discard);
        if is_blocked {
            return false;
        }
    }
}

fn record_end(bytes: &[u8]) -> Option<usize> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let end = HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]]));
    (end <= bytes.len()).then_some(end)
}
