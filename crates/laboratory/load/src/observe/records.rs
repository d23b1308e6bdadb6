//! Reads a server's records from its bytes, for facts that the library does not report.
//!
//! TLS 1.3 records after the handshake are decrypted with the secret that the library logs (RFC
//! 8446, section 7.3). Total: malformed bytes end the reading.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::hkdf::{HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use rustls::{CipherSuite, SupportedCipherSuite};

/// TLS record types (RFC 8446, section 5.1).
pub const CHANGE_CIPHER_SPEC: u8 = 20;
pub const ALERT: u8 = 21;
pub const HANDSHAKE: u8 = 22;
/// Application data, and in TLS 1.3 everything encrypted.
pub const APPLICATION_DATA: u8 = 23;

/// Handshake messages (RFC 8446, section 4).
pub const SERVER_HELLO: u8 = 2;
pub const CERTIFICATE: u8 = 11;
const COMPRESSED_CERTIFICATE: u8 = 25;
/// Message with a ticket.
pub const NEW_SESSION_TICKET: u8 = 4;

/// Maximum length of a record's fragment: 2^14 bytes and the allowance of TLS 1.2 for ciphers (RFC
/// 5246, section 6.2.3).
const FRAGMENT_BYTES_MAX: usize = (1 << 14) + 2048;

/// Bytes of the name of a ticket key.
const KEY_NAME_BYTES: usize = 16;

/// A ticket as sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ticket {
    pub lifetime_s: u32,
    /// First bytes, as many as in names of keys (RFC 5077, section 4).
    pub beginning: Vec<u8>,
    pub bytes: usize,
    /// Maximum of early data with this ticket, in bytes.
    pub early_data_max: u32,
}

#[derive(Clone, Debug, Default)]
pub struct RecordFindings {
    pub session_id: Vec<u8>,
    pub tickets: Vec<Ticket>,
    /// Bytes of application data in each record.
    pub application: Vec<u32>,
}

/// Reports whether bytes may begin a TLS record. Zero bytes may.
pub fn is_tls(bytes: &[u8]) -> bool {
    let kind = bytes.first().is_none_or(|kind| (20..=23).contains(kind));
    let major = bytes.get(1).is_none_or(|major| *major == 3);
    kind && major && bytes.get(2).is_none_or(|minor| *minor <= 4)
}

/// Reasons why bytes are not records.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RecordBytesFault {
    #[error("what the server sent is no TLS")]
    NotTls,
    /// A length that no record may have.
    #[error("a record claims {0} bytes, more than TLS allows")]
    TooLong(usize),
}

/// Returns the next complete record of some bytes: its type, its fragment and the bytes behind it;
/// `None` if more bytes are needed.
///
/// # Errors
/// Fails with [`RecordBytesFault`] if there will be none.
#[expect(clippy::type_complexity, reason = "type, fragment, rest")]
pub fn next(bytes: &[u8]) -> Result<Option<(u8, &[u8], &[u8])>, RecordBytesFault> {
    if !is_tls(bytes) {
        return Err(RecordBytesFault::NotTls);
    }
    let Some(([kind, _, _, high, low], rest)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length > FRAGMENT_BYTES_MAX {
        return Err(RecordBytesFault::TooLong(length));
    }
    Ok(rest.split_at_checked(length).map(|(fragment, rest)| (*kind, fragment, rest)))
}

/// Returns all complete records: type and fragment.
pub fn all(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (kind, fragment, rest) = next(bytes).ok()??;
        bytes = rest;
        Some((kind, fragment))
    })
}

/// Returns the next complete handshake message: type, body and the bytes behind it.
pub fn message(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let ([kind, a, b, c], rest) = bytes.split_first_chunk()?;
    let length = u32::from_be_bytes([0, *a, *b, *c]);
    let (body, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some((*kind, body, rest))
}

/// Returns all complete messages: type and body.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (kind, body, rest) = message(bytes)?;
        bytes = rest;
        Some((kind, body))
    })
}

/// Returns the plaintext handshake messages.
pub fn clear(received: &[u8]) -> Vec<u8> {
    let visible = all(received).take_while(|(kind, _)| *kind != CHANGE_CIPHER_SPEC);
    visible.filter(|(kind, _)| *kind == HANDSHAKE).flat_map(|(_, part)| part.to_vec()).collect()
}

/// Returns the type and the length of the incomplete message.
pub fn unfinished(messages: &[u8]) -> Option<(u8, usize)> {
    let mut rest = messages;
    while let Some((_, _, behind)) = message(rest) {
        rest = behind;
    }
    let ([kind, a, b, c], _) = rest.split_first_chunk()?;
    Some((*kind, u32::from_be_bytes([0, *a, *b, *c]) as usize))
}

/// Reads the visible part of TLS 1.2: the handshake up to ChangeCipherSpec, and lengths.
pub fn opaque(received: &[u8], suite: Option<SupportedCipherSuite>) -> RecordFindings {
    let added = match suite.map(|suite| suite.suite().as_str().unwrap_or_default()) {
        Some(name) if name.contains("CHACHA20") => 16,
        // An explicit nonce of 8 bytes (RFC 5288).
        _ => 24,
    };
    let mut found = RecordFindings::default();
    let application = all(received).filter(|(kind, _)| *kind == APPLICATION_DATA);
    let lengths = application.map(|(_, fragment)| fragment.len().saturating_sub(added));
    found.application = lengths.filter_map(|length| u32::try_from(length).ok()).collect();
    for (kind, body) in messages(&clear(received)) {
        match kind {
            SERVER_HELLO => found.session_id = session_id(body).unwrap_or_default().to_vec(),
            NEW_SESSION_TICKET => found.tickets.extend(ticket12(body)),
            _ => {}
        }
    }
    found
}

fn session_id(hello: &[u8]) -> Option<&[u8]> {
    let (length, rest) = hello.get(34..)?.split_first()?;
    rest.get(..usize::from(*length))
}

/// Reads the ticket of TLS 1.2 (RFC 5077, section 3.3). An empty ticket counts as no ticket.
fn ticket12(body: &[u8]) -> Option<Ticket> {
    let (lifetime, rest) = body.split_first_chunk()?;
    let bytes = rest.len().checked_sub(2)?;
    (bytes > 0).then(|| Ticket {
        lifetime_s: u32::from_be_bytes(*lifetime),
        beginning: beginning(rest.get(2..).unwrap_or_default()),
        bytes,
        early_data_max: 0,
    })
}

fn beginning(ticket: &[u8]) -> Vec<u8> {
    ticket.iter().copied().take(KEY_NAME_BYTES).collect()
}

/// Decrypts with a secret of TLS 1.3 and returns type and content: handshake records have other
/// keys than those after it.
fn opened(
    received: &[u8],
    suite: SupportedCipherSuite,
    secret: &[u8],
) -> impl Iterator<Item = (u8, Vec<u8>)> {
    let mut keys = DirectionKeys::new(suite.suite(), secret);
    let encrypted = all(received).filter(|(kind, _)| *kind == APPLICATION_DATA);
    encrypted.filter_map(move |(_, fragment)| keys.as_mut()?.open(fragment))
}

/// Returns the contents of records after a TLS 1.3 handshake.
pub(super) fn decrypted(
    received: &[u8],
    suite: SupportedCipherSuite,
    secret: &[u8],
) -> RecordFindings {
    let (mut found, mut clear) = (RecordFindings::default(), Vec::new());
    for (kind, plain) in opened(received, suite, secret) {
        match kind {
            APPLICATION_DATA => found.application.extend(u32::try_from(plain.len())),
            HANDSHAKE => clear.extend(plain),
            _ => {}
        }
    }
    let tickets = messages(&clear).filter(|(kind, _)| *kind == NEW_SESSION_TICKET);
    found.tickets = tickets.filter_map(|(_, body)| ticket13(body)).collect();
    found
}

/// Returns the encrypted handshake messages of TLS 1.3.
pub(super) fn encrypted(received: &[u8], suite: SupportedCipherSuite, secret: &[u8]) -> Vec<u8> {
    let opened = opened(received, suite, secret).filter(|(kind, _)| *kind == HANDSHAKE);
    opened.flat_map(|(_, plain)| plain).collect()
}

/// Returns the algorithm of a compressed certificate among the messages of a TLS 1.3 handshake.
pub(super) fn compression(
    received: &[u8],
    suite: SupportedCipherSuite,
    secret: &[u8],
) -> Option<u16> {
    let clear = encrypted(received, suite, secret);
    let (_, body) = messages(&clear).find(|(kind, _)| *kind == COMPRESSED_CERTIFICATE)?;
    body.first_chunk().map(|algorithm| u16::from_be_bytes(*algorithm))
}

/// Reads a TLS 1.3 ticket (RFC 8446, section 4.6.1).
fn ticket13(body: &[u8]) -> Option<Ticket> {
    let (lifetime, rest) = body.split_first_chunk()?;
    let (nonce_length, rest) = rest.get(4..)?.split_first()?;
    let (length, rest) = rest.get(usize::from(*nonce_length)..)?.split_first_chunk()?;
    let bytes = usize::from(u16::from_be_bytes(*length));
    let mut extensions = rest.get(bytes..)?.get(2..)?;
    let mut early_data_max = 0;
    while let Some(([a, b, c, d], rest)) = extensions.split_first_chunk() {
        let (data, behind) = rest.split_at_checked(usize::from(u16::from_be_bytes([*c, *d])))?;
        if u16::from_be_bytes([*a, *b]) == EARLY_DATA {
            early_data_max = data.try_into().map_or(0, u32::from_be_bytes);
        }
        extensions = behind;
    }
    let beginning = beginning(rest.get(..bytes)?);
    Some(Ticket { lifetime_s: u32::from_be_bytes(*lifetime), beginning, bytes, early_data_max })
}

/// Number of the extension (RFC 8446, section 4.2.10).
const EARLY_DATA: u16 = 42;

struct DirectionKeys {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

/// Length in bytes of a key derivation's output.
struct OkmLength(usize);

impl KeyType for OkmLength {
    fn len(&self) -> usize {
        self.0
    }
}

impl DirectionKeys {
    fn new(suite: CipherSuite, secret: &[u8]) -> Option<Self> {
        let (aead, hash) = match suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => (&AES_128_GCM, HKDF_SHA256),
            CipherSuite::TLS13_AES_256_GCM_SHA384 => (&AES_256_GCM, HKDF_SHA384),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => (&CHACHA20_POLY1305, HKDF_SHA256),
            _ => return None,
        };
        let secret = Prk::new_less_safe(hash, secret);
        let key = expand(&secret, b"tls13 key", aead.key_len())?;
        let iv = expand(&secret, b"tls13 iv", 12)?;
        Some(Self {
            key: LessSafeKey::new(UnboundKey::new(aead, &key).ok()?),
            iv: iv.try_into().ok()?,
            sequence: 0,
        })
    }

    /// Returns the type and the content of a record; `None` if these keys do not fit.
    fn open(&mut self, fragment: &[u8]) -> Option<(u8, Vec<u8>)> {
        let mut nonce = self.iv;
        for (byte, part) in nonce.iter_mut().skip(4).zip(self.sequence.to_be_bytes()) {
            *byte ^= part;
        }
        let [high, low] = u16::try_from(fragment.len()).ok()?.to_be_bytes();
        let aad = Aad::from([APPLICATION_DATA, 3, 3, high, low]);
        let mut plain = fragment.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let length = self.key.open_in_place(nonce, aad, &mut plain).ok()?.len();
        self.sequence += 1;
        plain.truncate(length);
        // The type stands before padding of zeros (section 5.4).
        let end = plain.iter().rposition(|byte| *byte != 0)?;
        let kind = *plain.get(end)?;
        plain.truncate(end);
        Some((kind, plain))
    }
}

/// HKDF-Expand-Label without a context (RFC 8446, section 7.1).
fn expand(secret: &Prk, label: &[u8], length: usize) -> Option<Vec<u8>> {
    let [high, low] = u16::try_from(length).ok()?.to_be_bytes();
    let label_length = u8::try_from(label.len()).ok()?;
    let info: [&[u8]; 4] = [&[high, low], &[label_length], label, &[0]];
    let mut out = vec![0; length];
    secret.expand(&info, OkmLength(length)).ok()?.fill(&mut out).ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_whole_or_awaited_or_wrong() {
        assert_eq!(next(&[22, 3, 3, 0, 1]), Ok(None));
        assert_eq!(next(&[22, 3, 3, 0, 1, 7, 9]), Ok(Some((22, &[7][..], &[9][..]))));
        assert_eq!(next(b"HTTP/1.1"), Err(RecordBytesFault::NotTls));
        assert_eq!(next(&[22, 3, 3, 255, 255]), Err(RecordBytesFault::TooLong(65535)));
    }

    #[test]
    fn tickets_are_read() {
        let mut body = vec![0, 0, 0x1c, 0x20, 0, 0, 0, 9, 1, 5, 0, 2, 8, 8, 0, 8];
        body.extend([0, 42, 0, 4, 0, 0, 0x40, 0]);
        let beginning = vec![8, 8];
        let ticket = Ticket { lifetime_s: 7200, beginning, bytes: 2, early_data_max: 16384 };
        assert_eq!(ticket13(&body), Some(ticket));
        for length in 0..body.len() - 8 {
            let _none_panics = ticket13(&body[..length]);
        }
        assert_eq!(ticket12(&[0, 0, 0, 1, 0, 0]), None);
    }
}
