//! The identity of a certificate: its subject's common name, its PEM form, and the fingerprint
//! that stands for it in sessions that were made under it.
//!
//! Judges nothing; that happened in the handshake.

use aws_lc_rs::digest;
use pem_rfc7468::LineEnding;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The first common name (CN) of the subject, if it is text.
pub fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let name = certificate.subject().iter_common_name().next()?;
    name.as_str().ok().map(str::to_owned)
}

/// The certificate as one `CERTIFICATE` block (RFC 7468).
pub fn pem(der: &[u8]) -> Option<String> {
    pem_rfc7468::encode_string("CERTIFICATE", LineEnding::LF, der).ok()
}

pub const FINGERPRINT_BYTES: usize = 8;

/// The first bytes of a certificate's SHA-256: enough to tell those of one service apart, and
/// nobody gains by finding two of the same.
pub type Fingerprint = [u8; FINGERPRINT_BYTES];

/// The SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, bytes);
    *digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}

/// The fingerprint of a certificate (DER).
pub(crate) fn fingerprint_of(certificate: &[u8]) -> Fingerprint {
    *sha256(certificate).first_chunk().expect("SHA-256 has 32 bytes")
}
