//! OCSP responses (RFC 6960 section 4.2): as much as must be known before one is stapled.
//!
//! The responder's signature is not verified: that is the client's business, and it is the client
//! who is lied to by a response that does not verify.

use aws_lc_rs::digest;
use wire::ocsp::{
    BasicOcspResponse, OcspCertificateStatus, OcspHash, OcspUnusable, SingleOcspResponse,
};

use crate::validity::Validity;

/// The fault for which an OCSP response cannot be stapled. Reads as the end of a sentence.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OcspFault {
    /// It is no DER-encoded OCSPResponse.
    #[error("is no DER-encoded OCSP response")]
    Malformed,
    /// The responder answered with an error; the OCSPResponseStatus.
    #[error("is the responder's error {0}")]
    NotSuccessful(u8),
    /// It speaks of another certificate.
    #[error(
        "is of another certificate (its serial number or issuer differs, or its hashes are not by \
         SHA-1, SHA-256, SHA-384 or SHA-512)"
    )]
    OfAnother,
    /// It says that the certificate is revoked.
    #[error("says that the certificate is revoked")]
    Revoked,
    /// It says that the responder does not know the certificate.
    #[error("says that the responder does not know the certificate")]
    Unknown,
}

/// The certificate that an OCSP response must name (CertID, RFC 6960 section 4.1.1).
pub(super) struct CertificateId<'a> {
    pub(super) serial: &'a [u8],
    pub(super) issuer: &'a [u8],
    /// The issuer's public key without the header, if known.
    pub(super) issuer_key: Option<&'a [u8]>,
}

/// Checks that a response says of this certificate that it is good, and returns when it does:
/// without a nextUpdate from thisUpdate on.
pub(super) fn check(der: &[u8], certificate: &CertificateId<'_>) -> Result<Validity, OcspFault> {
    let response = BasicOcspResponse::read(der).map_err(|unusable| match unusable {
        OcspUnusable::Malformed => OcspFault::Malformed,
        OcspUnusable::NotSuccessful(status) => OcspFault::NotSuccessful(status),
    })?;
    let mut singles = response.singles.iter();
    let single = singles.find(|single| certificate.is_named_by(single));
    let single = single.ok_or(OcspFault::OfAnother)?;
    match single.status {
        OcspCertificateStatus::Good => {}
        OcspCertificateStatus::Revoked => return Err(OcspFault::Revoked),
        OcspCertificateStatus::Unknown => return Err(OcspFault::Unknown),
    }
    let seconds = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    Ok(Validity {
        from: seconds(single.this_update_s),
        until: single.next_update_s.map_or(Validity::ENDLESS, seconds),
    })
}

impl CertificateId<'_> {
    fn is_named_by(&self, single: &SingleOcspResponse<'_>) -> bool {
        // One that cannot be compared may be of any certificate with that serial number.
        let hashed = single.hash.map(|hash| match hash {
            OcspHash::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            OcspHash::Sha256 => &digest::SHA256,
            OcspHash::Sha384 => &digest::SHA384,
            OcspHash::Sha512 => &digest::SHA512,
        });
        let is_hash_of = |hash: &[u8], of: &[u8]| {
            hashed.is_some_and(|hashed| digest::digest(hashed, of).as_ref() == hash)
        };
        single.serial == self.serial
            && is_hash_of(single.issuer_name_hash, self.issuer)
            && self.issuer_key.is_none_or(|key| is_hash_of(single.issuer_key_hash, key))
    }
}
