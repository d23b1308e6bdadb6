//! Checks OCSP responses (RFC 6960 section 4.2) before they are stapled.
//!
//! The signature is verified if the chain holds the issuer, because clients abort the connection on
//! a response with a wrong one.

use std::ops::RangeInclusive;

use aws_lc_rs::digest;
use rustls::crypto::aws_lc_rs as library;
use wire::ocsp::{
    BasicOcspResponse, OcspCertificateStatus, OcspHash, OcspUnusable, SingleOcspResponse, key_of,
};
use x509_parser::prelude::X509Certificate;

use crate::validity::Validity;

/// Fault that prevents stapling of an OCSP response. Reads as the end of a sentence.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OcspFault {
    /// The bytes are no DER-encoded OCSPResponse.
    #[error("is no DER-encoded OCSP response")]
    Malformed,
    /// The responder answered with an error; the OCSPResponseStatus.
    #[error("is the responder's error {0}")]
    NotSuccessful(u8),
    /// The response is for another certificate.
    #[error(
        "is of another certificate (its serial number or issuer differs, or its hashes are not by \
         SHA-1, SHA-256, SHA-384 or SHA-512)"
    )]
    OfAnother,
    /// Neither the issuer nor a responder authorized by it signed the response.
    #[error(
        "is not signed by the certificate's issuer, nor by a responder that it has authorized for \
         OCSP (RFC 6960 section 4.2.2.2), with an algorithm that clients take"
    )]
    NotSigned,
    #[error("says that the certificate is revoked")]
    Revoked,
    #[error("says that the responder does not know the certificate")]
    Unknown,
}

/// Certificate that an OCSP response must name (CertID, RFC 6960 section 4.1.1).
pub(super) struct CertificateId<'a> {
    pub(super) serial: &'a [u8],
    pub(super) issuer: &'a [u8],
    /// Certificates of the chain that have the issuer's name.
    pub(super) issuers: Vec<X509Certificate<'a>>,
}

/// Checks that a response declares this certificate good, and returns its validity: without a
/// nextUpdate, from thisUpdate on without end.
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
    let signer = certificate.signer(&response).ok_or(OcspFault::NotSigned)?;
    let seconds = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    Ok(Validity {
        from: seconds(single.this_update_s).max(*signer.start()),
        until: single.next_update_s.map_or(Validity::ENDLESS, seconds).min(*signer.end()),
    })
}

impl CertificateId<'_> {
    fn is_named_by(&self, single: &SingleOcspResponse<'_>) -> bool {
        // A hash that cannot be compared may be of any certificate with that serial number.
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
            && (self.issuers.is_empty()
                || self.issuers.iter().any(|one| is_hash_of(single.issuer_key_hash, key_of(one))))
    }

    /// Returns the seconds in which the signer may act for the issuer; unlimited if unknown.
    fn signer(&self, response: &BasicOcspResponse<'_>) -> Option<RangeInclusive<i64>> {
        let known = library::default_provider().signature_verification_algorithms.all;
        if self.issuers.is_empty() {
            return Some(i64::MIN..=i64::MAX);
        }
        self.issuers.iter().find_map(|issuer| response.authority(issuer, known))
    }
}
