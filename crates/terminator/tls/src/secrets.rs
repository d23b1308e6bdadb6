//! Derives the keys of records from the secrets that the TLS library logs.
//!
//! Implements the key schedule (RFC 8446 section 7, RFC 5246 section 6.3) for records that the
//! library does not seal or open itself: all after the keys have changed, early data that must be
//! skipped, and alerts for faults that the library has no alert for.

use aws_lc_rs::aead::NONCE_LEN;
use aws_lc_rs::hkdf::{HKDF_SHA256, HKDF_SHA384, Prk};
use aws_lc_rs::hmac;
use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::{AeadKey, Iv};
use zeroize::{Zeroize, Zeroizing};

use crate::options::{Cipher, Suite, Version};
use crate::record::{DirectionKey, KeyOpener, KeySealer};

const RANDOM_BYTES: usize = 32;

pub(crate) type LoggedSecret = Zeroizing<Vec<u8>>;

/// Maximum length of a traffic secret: that of the suite with SHA-384.
const SECRET_BYTES_MAX: usize = 48;

/// Secret from which the keys of one direction are derived in TLS 1.3. Stored inline, because every
/// connection has two.
pub(crate) struct TrafficSecret {
    suite: Suite,
    length: u8,
    room: Zeroizing<[u8; SECRET_BYTES_MAX]>,
}

impl TrafficSecret {
    /// Returns `None` if the secret is longer than that of any suite.
    pub(crate) fn new(suite: Suite, secret: &[u8]) -> Option<Self> {
        let mut room = Zeroizing::new([0; SECRET_BYTES_MAX]);
        room.get_mut(..secret.len())?.copy_from_slice(secret);
        Some(Self { suite, length: secret.len() as u8, room })
    }

    fn bytes(&self) -> &[u8] {
        &self.room[..usize::from(self.length)]
    }

    /// Replaces the secret by the next one, as after a KeyUpdate (RFC 8446 section 7.2).
    pub(crate) fn update(&mut self) {
        let mut next = Zeroizing::new([0; SECRET_BYTES_MAX]);
        let length = usize::from(self.length);
        expand_label(self.suite, self.bytes(), b"traffic upd", &mut next[..length]);
        self.room = next;
    }

    /// Returns the keys, in the library's form.
    pub(crate) fn keys(&self) -> ConnectionTrafficSecrets {
        let (bytes, iv) = key_and_iv(self.suite, self.bytes());
        let mut room = [0; KEY_BYTES_MAX];
        room[..bytes.len()].copy_from_slice(&bytes);
        let (key, iv) = (AeadKey::from(room), Iv::new(iv));
        room.zeroize();
        match self.suite.cipher() {
            Cipher::Aes128Gcm => ConnectionTrafficSecrets::Aes128Gcm { key, iv },
            Cipher::Aes256Gcm => ConnectionTrafficSecrets::Aes256Gcm { key, iv },
            Cipher::ChaCha20Poly1305 => ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv },
        }
    }
}

/// Maximum length of a cipher's key. The library's type pads a shorter one.
const KEY_BYTES_MAX: usize = 32;

/// Keys of our records while the library seals them.
pub(crate) enum SendingKeys {
    /// Traffic secret in use in TLS 1.3.
    Tls13(TrafficSecret),
    /// Key and IV of TLS 1.2.
    Tls12(Suite, LoggedSecret, [u8; NONCE_LEN]),
}

impl SendingKeys {
    /// Derives the keys from the logged secret; TLS 1.2 needs `server_random`.
    pub(crate) fn new(suite: Suite, logged: &LoggedSecret, server_random: &[u8]) -> Option<Self> {
        if suite.version() == Version::Tls13 {
            return TrafficSecret::new(suite, logged).map(Self::Tls13);
        }
        let split = logged.len().checked_sub(RANDOM_BYTES)?;
        let (master, client_random) = logged.split_at_checked(split)?;
        let (hash, iv_bytes) = match suite.cipher() {
            Cipher::Aes128Gcm => (hmac::HMAC_SHA256, 4),
            Cipher::Aes256Gcm => (hmac::HMAC_SHA384, 4),
            Cipher::ChaCha20Poly1305 => (hmac::HMAC_SHA256, 12),
        };
        // Both sides' keys, both sides' IVs (RFC 5246 section 6.3). As in the library, the explicit
        // nonces of AES-GCM start from the bytes that follow.
        let key_bytes = suite.cipher().key_bytes();
        let explicit_bytes = NONCE_LEN - iv_bytes;
        let seed = [b"key expansion", server_random, client_random].concat();
        let block = prf(hash, master, &seed, 2 * key_bytes + 2 * iv_bytes + explicit_bytes);
        let key = block.get(key_bytes..2 * key_bytes)?;
        let iv = block.get(2 * key_bytes + iv_bytes..)?;
        Some(Self::Tls12(suite, Zeroizing::new(key.to_vec()), iv.try_into().ok()?))
    }

    /// Returns a sealer that starts with the record of this number.
    pub(crate) fn sealer(&self, sequence: u64) -> Option<KeySealer> {
        self.key(sequence).map(KeySealer::with)
    }

    /// Returns an opener that starts with the record of this number.
    pub(crate) fn opener(&self, sequence: u64) -> Option<KeyOpener> {
        self.key(sequence).map(KeyOpener)
    }

    fn key(&self, sequence: u64) -> Option<DirectionKey> {
        match self {
            Self::Tls13(secret) => key_of(secret.suite, secret.bytes(), sequence),
            Self::Tls12(suite, key, iv) => {
                DirectionKey::new(Version::Tls12, suite.cipher(), sequence, key, *iv)
            }
        }
    }
}

/// Computes the PRF of TLS 1.2 (RFC 5246 section 5).
fn prf(hash: hmac::Algorithm, secret: &[u8], seed: &[u8], bytes: usize) -> LoggedSecret {
    let key = hmac::Key::new(hash, secret);
    let mut chained = hmac::sign(&key, seed);
    let mut out = Zeroizing::new(Vec::with_capacity(bytes + 64));
    while out.len() < bytes {
        let part = hmac::sign(&key, &[chained.as_ref(), seed].concat());
        out.extend_from_slice(part.as_ref());
        chained = hmac::sign(&key, chained.as_ref());
    }
    out.truncate(bytes);
    out
}

/// Returns the opener of records of TLS 1.3 under a secret.
pub(crate) fn opener_of(suite: Suite, secret: &[u8]) -> Option<KeyOpener> {
    key_of(suite, secret, 0).map(KeyOpener)
}

fn key_of(suite: Suite, secret: &[u8], sequence: u64) -> Option<DirectionKey> {
    let (key, iv) = key_and_iv(suite, secret);
    DirectionKey::new(Version::Tls13, suite.cipher(), sequence, &key, iv)
}

fn key_and_iv(suite: Suite, secret: &[u8]) -> (LoggedSecret, [u8; NONCE_LEN]) {
    let mut key = Zeroizing::new(vec![0; suite.cipher().key_bytes()]);
    let mut iv = [0; NONCE_LEN];
    expand_label(suite, secret, b"key", &mut key);
    expand_label(suite, secret, b"iv", &mut iv);
    (key, iv)
}

/// Computes HKDF-Expand-Label without a context (RFC 8446 section 7.1).
fn expand_label(suite: Suite, secret: &[u8], label: &[u8], out: &mut [u8]) {
    let hash = match suite.cipher() {
        Cipher::Aes256Gcm => HKDF_SHA384,
        Cipher::Aes128Gcm | Cipher::ChaCha20Poly1305 => HKDF_SHA256,
    };
    let short = |bytes: usize| u8::try_from(bytes).expect("keys and labels are short");
    let lengths = [0, short(out.len()), short(PREFIX.len() + label.len())];
    let info = [&lengths[..], PREFIX, label, &[0]];
    hkdf::expand(&Prk::new_less_safe(hash, secret), &info, out);
}

const PREFIX: &[u8] = b"tls13 ";

/// HKDF (RFC 5869), into buffers and keys.
pub(crate) mod hkdf {
    use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
    use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
    use zeroize::Zeroizing;

    /// Extracts from a secret by HKDF-SHA256.
    pub(crate) fn extract(salt: &[u8], secret: &[u8]) -> Prk {
        Salt::new(HKDF_SHA256, salt).extract(secret)
    }

    /// Fills `out`, of at most 255 blocks of the hash (RFC 5869 section 2.3).
    pub(crate) fn expand(root: &Prk, info: &[&[u8]], out: &mut [u8]) {
        root.expand(info, OutputLength(out.len()))
            .and_then(|okm| okm.fill(out))
            .expect("all that is asked for is short");
    }

    /// Derives bytes that are no secret: ids, names and hash keys.
    pub(crate) fn bytes<const COUNT: usize>(root: &Prk, info: &[&[u8]]) -> [u8; COUNT] {
        let mut bytes = [0; COUNT];
        expand(root, info, &mut bytes);
        bytes
    }

    pub(crate) fn aes_256_gcm(root: &Prk, info: &[&[u8]]) -> LessSafeKey {
        let mut bytes = Zeroizing::new([0; 32]);
        expand(root, info, &mut *bytes);
        let key = UnboundKey::new(&AES_256_GCM, &*bytes).map(LessSafeKey::new);
        key.expect("AES-256 takes 32 bytes")
    }

    /// Length in bytes.
    struct OutputLength(usize);

    impl KeyType for OutputLength {
        fn len(&self) -> usize {
            self.0
        }
    }
}

/// Seals the first record under a secret, with this content followed by its type.
#[cfg(test)]
pub(crate) fn first_record(suite: Suite, secret: &[u8], content_and_type: &[u8]) -> Vec<u8> {
    use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};

    use crate::record::{HEADER_BYTES, algorithm_of};

    const TAG_BYTES: u8 = 16;
    let (key, iv) = key_and_iv(suite, secret);
    let key = UnboundKey::new(algorithm_of(suite.cipher()), &key).map(LessSafeKey::new);
    let key = key.expect("a key of that length");
    let length = u8::try_from(content_and_type.len()).expect("a short one") + TAG_BYTES;
    let header = [23, 3, 3, 0, length];
    let mut record = [&header[..], content_and_type].concat();
    let nonce = Nonce::assume_unique_for_key(iv);
    let sealed = &mut record[HEADER_BYTES..];
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(header), sealed);
    record.extend_from_slice(tag.expect("sealed").as_ref());
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8448 section 3: the server's handshake traffic secret with its key and IV.
    #[test]
    fn keys_are_those_of_the_rfc() {
        let secret = hex("b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38");
        let (key, iv) = key_and_iv(Suite::Tls13Aes128GcmSha256, &secret);
        assert_eq!(key[..], hex("3fce516009c21727d0f2e4e86ee403bc"));
        assert_eq!(iv[..], hex("5d313eb2671276ee13000b30"));
    }

    fn hex(digits: &str) -> Vec<u8> {
        let digits = digits.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16);
        digits.map(|pair| byte(pair).expect("digits")).collect()
    }
}
