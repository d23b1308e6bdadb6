//! HKDF (RFC 5869), into buffers and keys.

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use zeroize::Zeroizing;

/// What is extracted from a secret, by HKDF-SHA256.
pub(crate) fn extract(salt: &[u8], secret: &[u8]) -> Prk {
    Salt::new(HKDF_SHA256, salt).extract(secret)
}

/// Fills `out`, of at most 255 blocks of the hash (RFC 5869 section 2.3).
pub(crate) fn expand(root: &Prk, info: &[&[u8]], out: &mut [u8]) {
    root.expand(info, Length(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("all that is asked for is short");
}

pub(crate) fn aes_256_gcm(root: &Prk, info: &[&[u8]]) -> LessSafeKey {
    let mut bytes = Zeroizing::new([0; 32]);
    expand(root, info, &mut *bytes);
    let key = UnboundKey::new(&AES_256_GCM, &*bytes).map(LessSafeKey::new);
    key.expect("AES-256 takes 32 bytes")
}

/// In bytes.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}
