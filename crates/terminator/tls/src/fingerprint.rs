//! What stands for a certificate in sessions that were made under it.

use aws_lc_rs::digest;

pub const FINGERPRINT_BYTES: usize = 8;

/// The first bytes of a certificate's SHA-256: enough to tell those of one service apart, and
/// nobody gains by finding two of the same.
pub type Fingerprint = [u8; FINGERPRINT_BYTES];

/// The fingerprint of a certificate (DER).
pub(crate) fn fingerprint_of(certificate: &[u8]) -> Fingerprint {
    let digest = digest::digest(&digest::SHA256, certificate);
    *digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}
