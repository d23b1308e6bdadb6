//! The parts that let the kernel seal in our place: keys, the place in their sequence, and records
//! that carry no application data.
//!
//! Owns the rule that keeps nonces apart when the kernel goes on where we stopped. The calls that
//! hand it over are somebody else's.

use rustls::ConnectionTrafficSecrets;
pub use sys::ktls::Keys;
use wire::alert;

use crate::options::{Cipher, Version};
use crate::record::{ContentType, NONCE_BYTES, parts_of};

pub(crate) const ALERT_LEVEL_WARNING: u8 = 1;
pub(crate) const ALERT_LEVEL_FATAL: u8 = 2;

/// A KeyUpdate that asks for none in return (RFC 8446 section 4.6.3).
pub(crate) const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

const SALT_BYTES: usize = 4;

/// The keys for the kernel to seal the record of this number. `None` = a cipher that no kernel
/// knows.
pub(crate) fn keys_of(
    version: Version,
    sequence: u64,
    secrets: &ConnectionTrafficSecrets,
) -> Option<Keys<'_>> {
    let (cipher, key, mut iv) = parts_of(secrets)?;
    if version == Version::Tls12 && cipher != Cipher::ChaCha20Poly1305 {
        start_counting(&mut iv, sequence);
    }
    Some(Keys { version, cipher, key, iv, sequence })
}

/// Sets the nonce from which the kernel counts with AES-GCM in TLS 1.2.
///
/// The library and we made nonces of the vector's last 64 bits *combined* with the sequence number
/// (exclusive or), the kernel *counts up* from what it is given: going on from our next nonce, it
/// would meet one of ours sooner or later, and AES-GCM is broken by one nonce used twice. So its
/// first one has the highest bit that none of ours has. No sequence number reaches that bit: a key
/// seals less than 2^35 records (`record`'s limit of blocks), so ours never lose it and the
/// kernel's never gain it back. The other bits are the sequence number, so that two hand-overs of
/// one key, if ever there were, would not meet either.
fn start_counting(iv: &mut [u8; NONCE_BYTES], sequence: u64) {
    const HIGHEST: u64 = 1 << 63;
    let (_, explicit) = iv.split_at_mut(SALT_BYTES);
    let ours = explicit.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let start = !ours & HIGHEST | sequence & !HIGHEST;
    explicit.copy_from_slice(&start.to_be_bytes());
}

/// A record that carries no application data: the kernel has to be told its type.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ControlRecord {
    kind: ContentType,
    content: [u8; KEY_UPDATE.len()],
    bytes: usize,
}

impl ControlRecord {
    fn new(kind: ContentType, content: &[u8]) -> Self {
        let mut room = [0; KEY_UPDATE.len()];
        room[..content.len()].copy_from_slice(content);
        Self { kind, content: room, bytes: content.len() }
    }

    /// The end of our stream.
    pub fn close_notify() -> Self {
        let content = [ALERT_LEVEL_WARNING, alert::CLOSE_NOTIFY];
        Self::new(ContentType::Alert, &content)
    }

    pub fn fatal(description: u8) -> Self {
        Self::new(ContentType::Alert, &[ALERT_LEVEL_FATAL, description])
    }

    pub(crate) fn warning(description: u8) -> Self {
        Self::new(ContentType::Alert, &[ALERT_LEVEL_WARNING, description])
    }

    pub(crate) fn key_update() -> Self {
        Self::new(ContentType::Handshake, &KEY_UPDATE)
    }

    /// Whether all that is sent behind it is under the next key.
    pub fn is_key_update(&self) -> bool {
        self.kind == ContentType::Handshake
    }

    pub(crate) fn content_type(&self) -> ContentType {
        self.kind
    }

    /// The type's number (RFC 8446 section 5.1).
    pub fn kind(&self) -> u8 {
        self.kind.code()
    }

    pub fn content(&self) -> &[u8] {
        &self.content[..self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustls::crypto::cipher::{AeadKey, Iv};

    use super::*;

    fn secrets(iv: [u8; NONCE_BYTES]) -> ConnectionTrafficSecrets {
        ConnectionTrafficSecrets::Aes128Gcm { key: AeadKey::from([3; 32]), iv: Iv::from(iv) }
    }

    /// The explicit part of a nonce as the library and we make it.
    fn ours(iv: [u8; NONCE_BYTES], sequence: u64) -> u64 {
        u64::from_be_bytes(*iv.last_chunk().unwrap()) ^ sequence
    }

    /// No key seals more records than this: one block each at the least, of 2^34.5.
    const RECORDS_MAX: u64 = 1 << 35;

    proptest! {
        #[test]
        fn no_nonce_of_the_kernel_was_ours(
            iv: [u8; NONCE_BYTES],
            before in 0..RECORDS_MAX,
            behind in 0..RECORDS_MAX,
            old in any::<prop::sample::Index>(),
        ) {
            let secrets = secrets(iv);
            let keys = keys_of(Version::Tls12, before, &secrets).unwrap();
            prop_assert_eq!(&keys.iv[..SALT_BYTES], &iv[..SALT_BYTES]);
            let first = u64::from_be_bytes(*keys.iv.last_chunk().unwrap());
            // The kernel counts up by one for each record; it must not come round either.
            let kernels = first.checked_add(behind).unwrap();
            let ours = ours(iv, old.index(before as usize + 1) as u64);
            prop_assert_ne!(kernels, ours);
            prop_assert_eq!((kernels ^ ours) >> 63, 1, "they differ in the highest bit");
        }

        #[test]
        fn other_ciphers_go_on_with_the_vector_they_had(iv: [u8; NONCE_BYTES], sequence: u64) {
            let secrets = secrets(iv);
            let keys = keys_of(Version::Tls13, sequence, &secrets).unwrap();
            prop_assert_eq!(keys.iv, iv);
            prop_assert_eq!((keys.sequence, keys.key.len()), (sequence, 16));
            let chacha = ConnectionTrafficSecrets::Chacha20Poly1305 {
                key: AeadKey::from([3; 32]),
                iv: Iv::from(iv),
            };
            let keys = keys_of(Version::Tls12, sequence, &chacha).unwrap();
            prop_assert_eq!(keys.iv, iv);
        }
    }

    /// The first nonces of both sides, one by one.
    #[test]
    fn neighbours_do_not_meet() {
        for tail in [0, 1, u64::MAX, 1 << 63, (1 << 63) - 1] {
            let mut iv = [7; NONCE_BYTES];
            iv[SALT_BYTES..].copy_from_slice(&u64::to_be_bytes(tail));
            let secrets = secrets(iv);
            let keys = keys_of(Version::Tls12, 1000, &secrets).unwrap();
            let first = u64::from_be_bytes(*keys.iv.last_chunk().unwrap());
            let kernels: Vec<u64> = (0..1000).map(|record| first + record).collect();
            assert!((0..1000).all(|sequence| !kernels.contains(&ours(iv, sequence))));
        }
    }

    #[test]
    fn control_records_have_their_types() {
        let close = ControlRecord::close_notify();
        assert_eq!((close.kind(), close.content()), (21, &[1, 0][..]));
        assert_eq!(ControlRecord::fatal(80).content(), [2, 80]);
        let update = ControlRecord::key_update();
        assert!(update.is_key_update() && !close.is_key_update());
        assert_eq!((update.kind(), update.content().len()), (22, 5));
    }
}
