//! What can be said of a client's certificate: its subject's common name, and its PEM form.
//!
//! Judges nothing; that happened in the handshake.

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
