//! The keys of records, made from the secrets that the TLS library logs.
//!
//! Owns the derivation of keys (RFC 8446 section 7, RFC 5246 section 6.3) for records that the
//! library does not seal or open itself: early data that has to be skipped, and alerts for faults
//! that the library has no alert for.

use aws_lc_rs::aead::{
    AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use aws_lc_rs::hkdf::{HKDF_SHA256, HKDF_SHA384, Prk};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

use crate::hkdf;
use crate::options::{Suite, Version};
use crate::record::{HEADER_BYTES, Opener, Sealer, algorithm_of};

const RANDOM_BYTES: usize = 32;

pub(crate) type Secret = Zeroizing<Vec<u8>>;

/// What our records are sealed with, kept by those who leave the sealing to the library.
pub(crate) enum SendingKeys {
    /// Of TLS 1.3, with the traffic secret in use.
    Tls13(Suite, Secret),
    /// Of TLS 1.2: key and IV.
    Tls12(Suite, Secret, [u8; NONCE_LEN]),
}

impl SendingKeys {
    /// From the secret that was logged; `server_random` is needed in TLS 1.2.
    pub(crate) fn new(suite: Suite, logged: &Secret, server_random: &[u8]) -> Option<Self> {
        if suite.version() == Version::Tls13 {
            return Some(Self::Tls13(suite, logged.clone()));
        }
        let split = logged.len().checked_sub(RANDOM_BYTES)?;
        let (master, client_random) = logged.split_at_checked(split)?;
        let algorithm = algorithm_of(suite);
        let hash = match is_sha384(suite) {
            true => hmac::HMAC_SHA384,
            false => hmac::HMAC_SHA256,
        };
        // Both sides' keys, both sides' IVs (RFC 5246 section 6.3). As the library does, what
        // follows is where the explicit nonces of AES-GCM begin.
        let key_bytes = algorithm.key_len();
        let iv_bytes = if *algorithm == CHACHA20_POLY1305 {
            12
        } else {
            4
        };
        let explicit_bytes = NONCE_LEN - iv_bytes;
        let seed = [b"key expansion", server_random, client_random].concat();
        let block = prf(
            hash,
            master,
            &seed,
            2 * key_bytes + 2 * iv_bytes + explicit_bytes,
        );
        let key = block.get(key_bytes..2 * key_bytes)?;
        let iv = block.get(2 * key_bytes + iv_bytes..)?;
        Some(Self::Tls12(
            suite,
            Zeroizing::new(key.to_vec()),
            iv.try_into().ok()?,
        ))
    }

    /// Uses the next secret from here on, as after a KeyUpdate of ours (RFC 8446 section 7.2).
    pub(crate) fn update(&mut self) {
        if let Self::Tls13(suite, secret) = self {
            let mut next = Zeroizing::new(vec![0; secret.len()]);
            if expand_label(*suite, secret, b"traffic upd", &mut next).is_some() {
                *secret = next;
            }
        }
    }

    /// Seals the record of this number.
    pub(crate) fn sealer(&self, sequence: u64) -> Option<Sealer> {
        let (suite, key, iv) = self.key()?;
        Sealer::of_suite(suite, sequence, &key, iv)
    }

    /// Opens the record of this number again.
    pub(crate) fn opener(&self, sequence: u64) -> Option<Opener> {
        let (suite, key, iv) = self.key()?;
        Opener::of_suite(suite, sequence, &key, iv)
    }

    fn key(&self) -> Option<(Suite, Secret, [u8; NONCE_LEN])> {
        match self {
            Self::Tls13(suite, secret) => {
                let (key, iv) = key_and_iv(*suite, secret)?;
                Some((*suite, key, iv))
            }
            Self::Tls12(suite, key, iv) => Some((*suite, key.clone(), *iv)),
        }
    }
}

/// The PRF of TLS 1.2 (RFC 5246 section 5).
fn prf(hash: hmac::Algorithm, secret: &[u8], seed: &[u8], bytes: usize) -> Secret {
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

/// A key that opens records of TLS 1.3.
pub(crate) struct OpeningKey(LessSafeKey, [u8; NONCE_LEN]);

impl OpeningKey {
    pub(crate) fn new(suite: Suite, secret: &[u8]) -> Option<Self> {
        let (key, iv) = key_and_iv(suite, secret)?;
        let key = UnboundKey::new(algorithm_of(suite), &key).ok()?;
        Some(Self(LessSafeKey::new(key), iv))
    }

    /// What is in the first record under this key, with its type and its padding (RFC 8446
    /// section 5.2): its sequence number is 0, so that its nonce is the IV itself (section 5.3).
    /// `None` = it is not that.
    pub(crate) fn open_first(&self, record: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (header, sealed) = record.split_first_chunk::<HEADER_BYTES>()?;
        let mut copy = Zeroizing::new(sealed.to_vec());
        let nonce = Nonce::assume_unique_for_key(self.1);
        let plain = self.0.open_in_place(nonce, Aad::from(*header), &mut copy);
        let plain_bytes = plain.ok()?.len();
        copy.truncate(plain_bytes);
        Some(copy)
    }
}

/// Suites with AES-256 are those with SHA-384.
fn is_sha384(suite: Suite) -> bool {
    *algorithm_of(suite) == AES_256_GCM
}

fn key_and_iv(suite: Suite, secret: &[u8]) -> Option<(Secret, [u8; NONCE_LEN])> {
    let mut key = Zeroizing::new(vec![0; algorithm_of(suite).key_len()]);
    let mut iv = [0; NONCE_LEN];
    expand_label(suite, secret, b"key", &mut key)?;
    expand_label(suite, secret, b"iv", &mut iv)?;
    Some((key, iv))
}

/// HKDF-Expand-Label without a context (RFC 8446 section 7.1).
fn expand_label(suite: Suite, secret: &[u8], label: &[u8], out: &mut [u8]) -> Option<()> {
    let hash = match is_sha384(suite) {
        true => HKDF_SHA384,
        false => HKDF_SHA256,
    };
    let length = u16::try_from(out.len()).ok()?.to_be_bytes();
    let label_length = u8::try_from(PREFIX.len() + label.len()).ok()?;
    let info = [&length[..], &[label_length], PREFIX, label, &[0]];
    let root = Prk::new_less_safe(hash, secret);
    hkdf::expand(&root, &info, out);
    Some(())
}

const PREFIX: &[u8] = b"tls13 ";

/// The first record under a secret, with this content and the type behind it.
#[cfg(test)]
pub(crate) fn first_record(suite: Suite, secret: &[u8], content_and_type: &[u8]) -> Vec<u8> {
    const TAG_BYTES: u8 = 16;
    let OpeningKey(key, iv) = OpeningKey::new(suite, secret).expect("a key");
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
        let (key, iv) = key_and_iv(Suite::Tls13Aes128GcmSha256, &secret).expect("keys");
        assert_eq!(key[..], hex("3fce516009c21727d0f2e4e86ee403bc"));
        assert_eq!(iv[..], hex("5d313eb2671276ee13000b30"));
    }

    fn hex(digits: &str) -> Vec<u8> {
        let digits = digits.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16);
        digits.map(|pair| byte(pair).expect("digits")).collect()
    }
}
