//! Seals and opens records in place, after the handshake.
//!
//! Handles framing, nonces, sequence numbers and their limits for TLS 1.2 (RFC 5246, RFC 5288, RFC
//! 7905) and TLS 1.3 (RFC 8446 section 5). `traffic` interprets the records. Sealing in the buffer
//! that is sent, and opening into the buffer that is forwarded, saves every copy that a
//! general-purpose interface needs.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use rustls::ConnectionTrafficSecrets as Secrets;
use wire::alert;

use crate::options::{Cipher, Version};

/// Maximum number of plaintext bytes in one record (RFC 8446 section 5.1).
pub const PLAINTEXT_BYTES_MAX: usize = 16_384;

/// Length of a record's header: type, version, length.
pub const HEADER_BYTES: usize = 5;

/// Maximum number of bytes that [`RecordLayout`] adds to a plaintext, in any version and suite.
pub const OVERHEAD_BYTES_MAX: usize = HEADER_BYTES + 8 + 1 + TAG_BYTES;

/// Maximum length of a record on the wire: TLS 1.2 allows 2048 bytes of expansion (RFC 5246 section
/// 6.2.3).
pub const RECORD_BYTES_MAX: usize = HEADER_BYTES + PLAINTEXT_BYTES_MAX + 2048;

const TAG_BYTES: usize = 16;
pub(crate) const NONCE_BYTES: usize = 12;
const EXPLICIT_NONCE_BYTES: usize = 8;
/// TLS 1.3 allows 256 bytes of expansion, the type byte among them (RFC 8446 section 5.2).
const EXPANSION_BYTES_MAX_13: usize = 256;
const EXPANSION_BYTES_MAX_12: usize = 2048;

/// Blocks that AES-GCM may seal under one key: those of 2^24.5 records of full size (RFC 8446
/// section 5.5, and RFC 9325 section 4.4 for TLS 1.2). Counting blocks instead of records lets
/// connections with small messages live longer.
const GCM_BLOCKS_MAX: u64 = 23_726_566 * (PLAINTEXT_BYTES_MAX as u64 / BLOCK_BYTES);
const BLOCK_BYTES: u64 = 16;
/// Number of blocks counted for a record of full size.
const RECORD_BLOCKS_MAX: u64 = (PLAINTEXT_BYTES_MAX + OVERHEAD_BYTES_MAX) as u64 / BLOCK_BYTES + 1;
/// ChaCha20-Poly1305 is limited by the sequence number alone (RFC 8446 section 5.5), and so is
/// opening: the peer limits how much it seals under one key.
const SEQUENCE_MAX: u64 = u64::MAX - 16;
/// Number of blocks before the limit at which a key is changed: some batches of records.
const GCM_BLOCKS_MARGIN: u64 = 1 << 20;

/// Type of a record's content (RFC 8446 section 5.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum ContentType {
    ChangeCipherSpec = 20,
    Alert = 21,
    Handshake = 22,
    ApplicationData = 23,
}

impl ContentType {
    fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            20 => Self::ChangeCipherSpec,
            21 => Self::Alert,
            22 => Self::Handshake,
            23 => Self::ApplicationData,
            _ => return None,
        })
    }

    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

/// Error: the key may seal no more records.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeyExhausted;

/// Number of bytes of a record before and after its plaintext.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordLayout {
    pub head: usize,
    pub tail: usize,
}

impl RecordLayout {
    /// Layout of all suites of TLS 1.3.
    pub(crate) const TLS13: Self = Self { head: HEADER_BYTES, tail: 1 + TAG_BYTES };
    /// Layout of records that the kernel encrypts: the plaintext alone.
    pub(crate) const PLAIN: Self = Self { head: 0, tail: 0 };

    /// Returns the layout of a cipher in a version: AES-GCM in TLS 1.2 has an explicit nonce (RFC
    /// 5288), ChaCha20-Poly1305 has none (RFC 7905).
    pub(crate) fn of(version: Version, cipher: Cipher) -> Self {
        let explicit = match (version, cipher) {
            (Version::Tls13, _) => return Self::TLS13,
            (Version::Tls12, Cipher::ChaCha20Poly1305) => 0,
            (Version::Tls12, Cipher::Aes128Gcm | Cipher::Aes256Gcm) => EXPLICIT_NONCE_BYTES,
        };
        Self { head: HEADER_BYTES + explicit, tail: TAG_BYTES }
    }

    /// Returns the distance between the starts of two full records that lie end to end.
    pub fn stride(self) -> usize {
        self.head + PLAINTEXT_BYTES_MAX + self.tail
    }
}

/// A sealer of application data: an established connection, or a handshake that can seal.
pub trait RecordSealer {
    /// Returns the layout of a record for [`RecordSealer::seal`].
    fn layout(&self) -> RecordLayout;

    /// Seals one record in place; see [`KeySealer::seal`].
    ///
    /// # Errors
    /// Fails if the key may not be used any more.
    fn seal(&mut self, record: &mut [u8]) -> Result<(), KeyExhausted>;
}

/// Returns the library's algorithm of a cipher.
pub(crate) fn algorithm_of(cipher: Cipher) -> &'static Algorithm {
    match cipher {
        Cipher::Aes128Gcm => &AES_128_GCM,
        Cipher::Aes256Gcm => &AES_256_GCM,
        Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
    }
}

/// Returns cipher, key and initialisation vector. `None` = the cipher is unknown to this layer.
pub(crate) fn parts_of(secrets: &Secrets) -> Option<(Cipher, &[u8], [u8; NONCE_BYTES])> {
    let (cipher, key, iv) = match secrets {
        Secrets::Aes128Gcm { key, iv } => (Cipher::Aes128Gcm, key, iv),
        Secrets::Aes256Gcm { key, iv } => (Cipher::Aes256Gcm, key, iv),
        Secrets::Chacha20Poly1305 { key, iv } => (Cipher::ChaCha20Poly1305, key, iv),
        _ => return None,
    };
    let key = key.as_ref().get(..cipher.key_bytes())?;
    Some((cipher, key, iv.as_ref().try_into().ok()?))
}

/// Key of one direction with its position in the sequence.
pub(crate) struct DirectionKey {
    key: LessSafeKey,
    iv: [u8; NONCE_BYTES],
    sequence: u64,
    version: Version,
    cipher: Cipher,
}

/// Turns plaintext into records, in place.
pub struct KeySealer {
    key: DirectionKey,
    allowance: KeyAllowance,
}

pub struct KeyOpener(pub(crate) DirectionKey);

impl KeySealer {
    /// Continues where the handshake's own sealing stopped.
    ///
    /// `None` if the library names an algorithm that this layer does not know.
    pub fn new(version: Version, sequence: u64, secrets: &Secrets) -> Option<Self> {
        DirectionKey::of(version, sequence, secrets).map(Self::with)
    }

    /// Seals with this key.
    pub(crate) fn with(key: DirectionKey) -> Self {
        let mut allowance = KeyAllowance::fresh(key.cipher);
        // The handshake's own records, with answers to early data, are counted as full ones.
        let spent = key.sequence.saturating_mul(RECORD_BLOCKS_MAX);
        allowance.blocks_left = allowance.blocks_left.saturating_sub(spent);
        Self { key, allowance }
    }

    /// Appends a record with this content.
    ///
    /// # Errors
    /// Fails if the key may not be used any more.
    pub(crate) fn append(
        &mut self,
        kind: ContentType,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), KeyExhausted> {
        let RecordLayout { head, tail } = self.layout();
        let start = out.len();
        out.resize(start + head, 0);
        out.extend_from_slice(content);
        out.resize(out.len() + tail, 0);
        self.seal(kind, &mut out[start..])
    }

    /// Returns the layout of a record for [`KeySealer::seal`].
    pub fn layout(&self) -> RecordLayout {
        RecordLayout::of(self.key.version, self.key.cipher)
    }

    /// Sets the key so that one more record makes a KeyUpdate due.
    #[cfg(test)]
    pub(crate) fn approach_key_limit(&mut self) {
        self.allowance.blocks_left = GCM_BLOCKS_MARGIN;
    }

    /// Returns the sequence number of the next record.
    pub(crate) fn sequence(&self) -> u64 {
        self.key.sequence
    }

    /// Returns how much the key may still seal.
    pub(crate) fn allowance(&self) -> &KeyAllowance {
        &self.allowance
    }

    /// Drops the key and returns how much it may still seal, for another sealer with the same key.
    pub(crate) fn into_allowance(self) -> KeyAllowance {
        self.allowance
    }

    /// Seals one record in place.
    ///
    /// `record` is the whole record: the plaintext lies between `layout().head` bytes at its front
    /// and `layout().tail` bytes at its end, which are filled in.
    pub fn seal(&mut self, kind: ContentType, record: &mut [u8]) -> Result<(), KeyExhausted> {
        let layout = self.layout();
        let plain_bytes = record.len() - layout.head - layout.tail;
        assert!(plain_bytes <= PLAINTEXT_BYTES_MAX, "a record holds 16 KiB of plaintext");
        self.allowance.spend_bytes(record.len())?;
        let key = &mut self.key;
        let sequence = key.next_sequence().ok_or(KeyExhausted)?;
        let nonce = key.nonce(sequence);
        let length = (record.len() - HEADER_BYTES) as u16;
        let (head, rest) = record.split_at_mut(layout.head);
        let outer = match key.version {
            Version::Tls13 => ContentType::ApplicationData,
            Version::Tls12 => kind,
        };
        let header = header_of(outer, length);
        head[..HEADER_BYTES].copy_from_slice(&header);
        let explicit_bytes = layout.head - HEADER_BYTES;
        head[HEADER_BYTES..].copy_from_slice(&nonce[NONCE_BYTES - explicit_bytes..]);
        let (body, tag) = rest.split_at_mut(rest.len() - TAG_BYTES);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = match key.version {
            Version::Tls13 => {
                body[plain_bytes] = kind.code();
                let aad = Aad::from(header);
                key.key.seal_in_place_separate_tag(nonce, aad, body)
            }
            Version::Tls12 => {
                let aad = Aad::from(aad_12(sequence, kind, plain_bytes));
                key.key.seal_in_place_separate_tag(nonce, aad, body)
            }
        };
        tag.copy_from_slice(sealed.map_err(|_| KeyExhausted)?.as_ref());
        Ok(())
    }
}

/// How much a key may still seal, in this process or in the kernel.
pub(crate) struct KeyAllowance {
    blocks_left: u64,
}

impl KeyAllowance {
    pub(crate) const NONE: Self = Self { blocks_left: 0 };

    /// Returns the allowance of an unused key.
    pub(crate) fn fresh(cipher: Cipher) -> Self {
        let blocks_left = match cipher {
            Cipher::ChaCha20Poly1305 => u64::MAX,
            Cipher::Aes128Gcm | Cipher::Aes256Gcm => GCM_BLOCKS_MAX,
        };
        Self { blocks_left }
    }

    /// Reports whether the key is close to its limit and a KeyUpdate is due.
    pub(crate) fn is_key_limit_reached(&self) -> bool {
        self.blocks_left < GCM_BLOCKS_MARGIN
    }

    /// Counts sealed plaintext, as records of full size and one shorter record.
    pub(crate) fn spend(&mut self, plain_bytes: usize) -> Result<(), KeyExhausted> {
        let records = plain_bytes.div_ceil(PLAINTEXT_BYTES_MAX);
        self.spend_bytes(plain_bytes + records * OVERHEAD_BYTES_MAX)
    }

    fn spend_bytes(&mut self, bytes: usize) -> Result<(), KeyExhausted> {
        let blocks = bytes as u64 / BLOCK_BYTES + 1;
        self.blocks_left = self.blocks_left.checked_sub(blocks).ok_or(KeyExhausted)?;
        Ok(())
    }
}

impl KeyOpener {
    /// Continues where the handshake's own opening stopped.
    ///
    /// `None` if the library names an algorithm that this layer does not know.
    pub fn new(version: Version, sequence: u64, secrets: &Secrets) -> Option<Self> {
        DirectionKey::of(version, sequence, secrets).map(Self)
    }

    /// Returns the length of the record at the start of `bytes`, header included; `None` = the
    /// header is incomplete. A record that can never be valid is refused from its header alone.
    pub fn record_bytes(&self, bytes: &[u8]) -> Result<Option<usize>, RecordFault> {
        record_bytes(bytes, expansion_bytes_max(self.0.version))
    }

    /// Opens one whole record into the start of `plain`, which is at least as long as the record.
    pub fn open(
        &mut self,
        record: &[u8],
        plain: &mut [u8],
    ) -> Result<(ContentType, usize), RecordFault> {
        let sequence = self.0.next_sequence().ok_or(RecordFault::Exhausted)?;
        self.open_at(sequence, record, plain)
    }

    /// Opens the record of this sequence number, whichever is next.
    pub(crate) fn open_at(
        &self,
        sequence: u64,
        record: &[u8],
        plain: &mut [u8],
    ) -> Result<(ContentType, usize), RecordFault> {
        let (header, body) =
            record.split_first_chunk::<HEADER_BYTES>().ok_or(RecordFault::Underflow)?;
        let outer = ContentType::from_code(header[0]).ok_or(RecordFault::Unexpected)?;
        match self.0.version {
            Version::Tls13 => self.open_13(sequence, outer, header, body, plain),
            // The version is part of the additional data (RFC 5246 section 6.2.3.3).
            Version::Tls12 if header[2] != 3 => Err(RecordFault::Version),
            Version::Tls12 => self.open_12(sequence, outer, body, plain),
        }
    }

    fn open_13(
        &self,
        sequence: u64,
        outer: ContentType,
        header: &[u8; HEADER_BYTES],
        body: &[u8],
        plain: &mut [u8],
    ) -> Result<(ContentType, usize), RecordFault> {
        if outer != ContentType::ApplicationData {
            return Err(RecordFault::Unexpected);
        }
        let inner = self.0.open(self.0.nonce(sequence), Aad::from(*header), body, plain)?;
        // Padding does not permit a longer record (RFC 8446 section 5.4).
        if inner.len() > PLAINTEXT_BYTES_MAX + 1 {
            return Err(RecordFault::Overflow);
        }
        // The type is the last byte that is not padding.
        let end = inner.iter().rposition(|&byte| byte != 0).ok_or(RecordFault::Unexpected)?;
        let kind = ContentType::from_code(inner[end]).ok_or(RecordFault::Unexpected)?;
        Ok((kind, end))
    }

    fn open_12(
        &self,
        sequence: u64,
        kind: ContentType,
        body: &[u8],
        plain: &mut [u8],
    ) -> Result<(ContentType, usize), RecordFault> {
        let mut nonce = self.0.nonce(sequence);
        let mut sealed = body;
        if self.0.cipher != Cipher::ChaCha20Poly1305 {
            let (explicit, rest) =
                body.split_first_chunk::<EXPLICIT_NONCE_BYTES>().ok_or(RecordFault::Underflow)?;
            let salt_bytes = NONCE_BYTES - EXPLICIT_NONCE_BYTES;
            nonce[..salt_bytes].copy_from_slice(&self.0.iv[..salt_bytes]);
            nonce[salt_bytes..].copy_from_slice(explicit);
            sealed = rest;
        }
        let plain_bytes = sealed.len().checked_sub(TAG_BYTES).ok_or(RecordFault::Underflow)?;
        if plain_bytes > PLAINTEXT_BYTES_MAX {
            return Err(RecordFault::Overflow);
        }
        let aad = Aad::from(aad_12(sequence, kind, plain_bytes));
        let bytes = self.0.open(nonce, aad, sealed, plain)?.len();
        Ok((kind, bytes))
    }
}

impl DirectionKey {
    fn of(version: Version, sequence: u64, secrets: &Secrets) -> Option<Self> {
        let (cipher, key, iv) = parts_of(secrets)?;
        Self::new(version, cipher, sequence, key, iv)
    }

    pub(crate) fn new(
        version: Version,
        cipher: Cipher,
        sequence: u64,
        key: &[u8],
        iv: [u8; NONCE_BYTES],
    ) -> Option<Self> {
        Some(Self {
            key: LessSafeKey::new(UnboundKey::new(algorithm_of(cipher), key).ok()?),
            iv,
            sequence,
            version,
            cipher,
        })
    }

    fn next_sequence(&mut self) -> Option<u64> {
        if self.sequence >= SEQUENCE_MAX {
            return None;
        }
        let sequence = self.sequence;
        self.sequence += 1;
        Some(sequence)
    }

    /// Combines the initialisation vector's last 64 bits with the sequence number (RFC 8446 section
    /// 5.3; RFC 7905; for AES-GCM in TLS 1.2 any unique explicit part will do, RFC 5288).
    fn nonce(&self, sequence: u64) -> [u8; NONCE_BYTES] {
        let mut nonce = self.iv;
        let tail = nonce.last_chunk_mut::<8>().expect("12 bytes have a last 8");
        *tail = (u64::from_be_bytes(*tail) ^ sequence).to_be_bytes();
        nonce
    }

    fn open<'p, A: AsRef<[u8]>>(
        &self,
        nonce: [u8; NONCE_BYTES],
        aad: Aad<A>,
        sealed: &[u8],
        plain: &'p mut [u8],
    ) -> Result<&'p [u8], RecordFault> {
        let (text, tag) = sealed.split_last_chunk::<TAG_BYTES>().ok_or(RecordFault::Underflow)?;
        let plain = plain.get_mut(..text.len()).ok_or(RecordFault::Overflow)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key
            .open_separate_gather(nonce, aad, text, tag, plain)
            .map_err(|_| RecordFault::BadMac)?;
        Ok(plain)
    }
}

/// Returns the maximum number of bytes that encryption may add to a plaintext.
pub(crate) fn expansion_bytes_max(version: Version) -> usize {
    match version {
        Version::Tls13 => EXPANSION_BYTES_MAX_13,
        Version::Tls12 => EXPANSION_BYTES_MAX_12,
    }
}

/// Returns the length of the record at the start of `bytes`, read from its header; it may exceed a
/// plaintext by this expansion.
pub(crate) fn record_bytes(
    bytes: &[u8],
    expansion_bytes_max: usize,
) -> Result<Option<usize>, RecordFault> {
    let Some(&[kind, major, _, high, low]) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    ContentType::from_code(kind).ok_or(RecordFault::Unexpected)?;
    if major != 3 {
        return Err(RecordFault::Version);
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > PLAINTEXT_BYTES_MAX + expansion_bytes_max {
        return Err(RecordFault::Overflow);
    }
    Ok(Some(HEADER_BYTES + length))
}

fn header_of(kind: ContentType, length: u16) -> [u8; HEADER_BYTES] {
    let [high, low] = length.to_be_bytes();
    [kind.code(), 3, 3, high, low]
}

/// Returns the additional data of TLS 1.2 (RFC 5246 section 6.2.3.3).
fn aad_12(sequence: u64, kind: ContentType, plain_bytes: usize) -> [u8; 13] {
    let mut aad = [0; 13];
    aad[..8].copy_from_slice(&sequence.to_be_bytes());
    aad[8..].copy_from_slice(&header_of(kind, plain_bytes as u16));
    aad
}

/// Fault of a received record.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RecordFault {
    #[error("a record does not decrypt")]
    BadMac,
    /// The type is unknown or not allowed here.
    #[error("a record has a type that is not allowed here")]
    Unexpected,
    #[error("a record has a version that is not one of TLS")]
    Version,
    #[error("a record is longer than TLS allows")]
    Overflow,
    #[error("a record is too short to carry its tag")]
    Underflow,
    #[error("no further record can be numbered")]
    Exhausted,
}

impl RecordFault {
    /// Returns the alert that RFC 8446 section 6.2 prescribes.
    pub fn alert(self) -> u8 {
        match self {
            // A record too short for its tag fails to decrypt (section 5.2).
            Self::BadMac | Self::Underflow => alert::BAD_RECORD_MAC,
            Self::Unexpected => alert::UNEXPECTED_MESSAGE,
            Self::Version => alert::PROTOCOL_VERSION,
            Self::Overflow => alert::RECORD_OVERFLOW,
            Self::Exhausted => alert::INTERNAL_ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::cipher::{AeadKey, Iv};

    use super::*;

    fn secrets(is_chacha: bool) -> Secrets {
        let (key, iv) = (AeadKey::from([3; 32]), Iv::copy(&[5; 12]));
        if is_chacha {
            Secrets::Chacha20Poly1305 { key, iv }
        } else {
            Secrets::Aes256Gcm { key, iv }
        }
    }

    fn pairs() -> Vec<(KeySealer, KeyOpener)> {
        let forms = [(Version::Tls12, false), (Version::Tls12, true), (Version::Tls13, false)];
        let pair = |(version, is_chacha)| {
            let secrets = secrets(is_chacha);
            let sealer = KeySealer::new(version, 9, &secrets).unwrap();
            (sealer, KeyOpener::new(version, 9, &secrets).unwrap())
        };
        forms.into_iter().map(pair).collect()
    }

    fn sealed(sealer: &mut KeySealer, kind: ContentType, plain: &[u8]) -> Vec<u8> {
        let RecordLayout { head, tail } = sealer.layout();
        let mut record = [&vec![0; head], plain, &vec![0; tail]].concat();
        sealer.seal(kind, &mut record).unwrap();
        record
    }

    #[test]
    fn what_is_sealed_opens_to_the_same_in_order_only() {
        for (mut sealer, mut opener) in pairs() {
            let mut room = vec![0; RECORD_BYTES_MAX];
            for bytes in [0, 1, 1000, PLAINTEXT_BYTES_MAX] {
                let plain = vec![7; bytes];
                let record = sealed(&mut sealer, ContentType::ApplicationData, &plain);
                assert_eq!(opener.record_bytes(&record), Ok(Some(record.len())));
                let opened = opener.open(&record, &mut room);
                assert_eq!(opened, Ok((ContentType::ApplicationData, bytes)));
                assert_eq!(room[..bytes], plain);
            }
            let alert = sealed(&mut sealer, ContentType::Alert, &[1, 0]);
            assert_eq!(opener.open(&alert, &mut room), Ok((ContentType::Alert, 2)));
            assert_eq!(opener.open(&alert, &mut room), Err(RecordFault::BadMac), "a replay");
        }
    }

    #[test]
    fn lengths_that_cannot_be_are_refused_from_the_header() {
        for (_, opener) in pairs() {
            let header = |kind, major, length: usize| {
                let [high, low] = (length as u16).to_be_bytes();
                opener.record_bytes(&[kind, major, 3, high, low])
            };
            let most =
                if opener.0.version == Version::Tls13 { 16_384 + 256 } else { 16_384 + 2048 };
            assert_eq!(header(23, 3, most), Ok(Some(HEADER_BYTES + most)));
            assert_eq!(header(23, 3, most + 1), Err(RecordFault::Overflow));
            assert_eq!(header(99, 3, 10), Err(RecordFault::Unexpected));
            assert_eq!(header(23, 2, 10), Err(RecordFault::Version));
            assert_eq!(opener.record_bytes(&[23, 3, 3, 0]), Ok(None));
        }
    }

    #[test]
    fn what_others_seal_is_counted_as_what_we_seal() {
        for (version, is_chacha) in [(Version::Tls13, false), (Version::Tls13, true)] {
            let secrets = secrets(is_chacha);
            let mut allowance = KeyAllowance::fresh(parts_of(&secrets).unwrap().0);
            let mut sealer = KeySealer::new(version, 0, &secrets).unwrap();
            assert_eq!(allowance.blocks_left, sealer.allowance.blocks_left);
            for bytes in [0, 1, 5000, PLAINTEXT_BYTES_MAX] {
                sealed(&mut sealer, ContentType::ApplicationData, &vec![7; bytes]);
                allowance.spend(bytes).unwrap();
                let differ = sealer.allowance.blocks_left.abs_diff(allowance.blocks_left);
                assert!(differ <= 4, "{differ} blocks after {bytes} bytes");
            }
        }
        let mut allowance = KeyAllowance { blocks_left: 2000 };
        assert!(allowance.is_key_limit_reached());
        allowance.spend(PLAINTEXT_BYTES_MAX).unwrap();
        assert_eq!(allowance.spend(PLAINTEXT_BYTES_MAX), Err(KeyExhausted));
    }

    #[test]
    fn a_key_limit_is_known_before_the_key_is_used_up() {
        let (mut sealer, _) = pairs().remove(2);
        assert!(!sealer.allowance.is_key_limit_reached());
        let late = KeySealer::new(Version::Tls13, 23_700_000, &secrets(false));
        assert!(
            late.unwrap().allowance.is_key_limit_reached(),
            "the handshake sealed as much before"
        );
        sealer.allowance.blocks_left = 3;
        assert!(sealer.allowance.is_key_limit_reached());
        sealed(&mut sealer, ContentType::ApplicationData, b"last");
        let mut record = [0; 40];
        assert_eq!(sealer.seal(ContentType::ApplicationData, &mut record), Err(KeyExhausted));
    }
}
