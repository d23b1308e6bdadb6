//! OCSP responses (RFC 6960 section 4.2): as much as must be known before one is stapled.
//!
//! The responder's signature is not verified: that is the client's business, and it is the client
//! who is lied to by a response that does not verify.

use aws_lc_rs::digest;
use x509_parser::asn1_rs::{Any, Class, FromDer, Tag};
use x509_parser::prelude::ASN1Time;

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
    #[error("is of another certificate (its serial number or issuer differs)")]
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
    let response = only(der, Tag::Sequence)?;
    let (status, rest) = take(response, Tag::Enumerated)?;
    if let Some(status) = status.first().filter(|status| **status != 0) {
        return Err(OcspFault::NotSuccessful(*status));
    }
    let (response_bytes, _) = take_context(rest, 0)?;
    let response_bytes = only(response_bytes, Tag::Sequence)?;
    let (_response_type, rest) = take(response_bytes, Tag::Oid)?;
    let (basic, _) = take(rest, Tag::OctetString)?;
    let (data, _) = take(only(basic, Tag::Sequence)?, Tag::Sequence)?;
    find_single(single_responses(data)?, certificate)
}

/// ResponseData: version [0] optional, responderID [1] or [2], producedAt, responses.
fn single_responses(data: &[u8]) -> Result<&[u8], OcspFault> {
    let (mut any, mut rest) = next(data)?;
    if any.class() == Class::ContextSpecific && any.tag().0 == 0 {
        (any, rest) = next(rest)?;
    }
    if any.class() != Class::ContextSpecific {
        return Err(OcspFault::Malformed);
    }
    let (_produced_at, rest) = take(rest, Tag::GeneralizedTime)?;
    take(rest, Tag::Sequence).map(|(responses, _)| responses)
}

fn find_single(
    mut responses: &[u8],
    certificate: &CertificateId<'_>,
) -> Result<Validity, OcspFault> {
    while !responses.is_empty() {
        let (single, rest) = take(responses, Tag::Sequence)?;
        if let Some(validity) = read_single(single, certificate)? {
            return Ok(validity);
        }
        responses = rest;
    }
    Err(OcspFault::OfAnother)
}

/// SingleResponse: certID, certStatus, thisUpdate, nextUpdate [0] optional.
/// `None` if it is of another certificate.
fn read_single(
    single: &[u8],
    certificate: &CertificateId<'_>,
) -> Result<Option<Validity>, OcspFault> {
    let (cert_id, rest) = take(single, Tag::Sequence)?;
    let is_named = certificate.is_named_by(cert_id)?;
    let (status, rest) = next(rest)?;
    let from = time(rest)?;
    let (_this_update, rest) = take(rest, Tag::GeneralizedTime)?;
    if !is_named {
        return Ok(None);
    }
    if status.class() != Class::ContextSpecific {
        return Err(OcspFault::Malformed);
    }
    match status.tag().0 {
        0 => {}
        1 => return Err(OcspFault::Revoked),
        2 => return Err(OcspFault::Unknown),
        _ => return Err(OcspFault::Malformed),
    }
    let until = match take_context(rest, 0) {
        Ok((next_update, _)) => time(next_update)?,
        Err(_) => Validity::ENDLESS,
    };
    Ok(Some(Validity { from, until }))
}

impl CertificateId<'_> {
    /// CertID: hashAlgorithm, issuerNameHash, issuerKeyHash, serialNumber.
    fn is_named_by(&self, cert_id: &[u8]) -> Result<bool, OcspFault> {
        let (hash_algorithm, cert_id) = take(cert_id, Tag::Sequence)?;
        let (issuer_name_hash, cert_id) = take(cert_id, Tag::OctetString)?;
        let (issuer_key_hash, cert_id) = take(cert_id, Tag::OctetString)?;
        let (serial, _) = take(cert_id, Tag::Integer)?;
        let (algorithm, _) = take(hash_algorithm, Tag::Oid)?;
        // Hashes of an algorithm that we do not know tell nothing.
        let is_hash_of = |hash: &[u8], of: &[u8]| {
            let known = KNOWN_HASHES.iter().find(|(oid, _)| *oid == algorithm);
            known.is_none_or(|(_, hashed)| digest::digest(hashed, of).as_ref() == hash)
        };
        Ok(serial == self.serial
            && is_hash_of(issuer_name_hash, self.issuer)
            && self.issuer_key.is_none_or(|key| is_hash_of(issuer_key_hash, key)))
    }
}

/// Object identifiers, DER without header: RFC 6960 section 4.3 asks for SHA-1, others use SHA-256.
const KNOWN_HASHES: [(&[u8], &digest::Algorithm); 2] = [
    (&[0x2b, 0x0e, 0x03, 0x02, 0x1a], &digest::SHA1_FOR_LEGACY_USE_ONLY),
    (&[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01], &digest::SHA256),
];

fn time(bytes: &[u8]) -> Result<i64, OcspFault> {
    let (_, time) = ASN1Time::from_der(bytes).map_err(|_| OcspFault::Malformed)?;
    Ok(time.timestamp())
}

fn next(bytes: &[u8]) -> Result<(Any<'_>, &[u8]), OcspFault> {
    Any::from_der(bytes).map(|(rest, any)| (any, rest)).map_err(|_| OcspFault::Malformed)
}

fn take(bytes: &[u8], tag: Tag) -> Result<(&[u8], &[u8]), OcspFault> {
    take_of(bytes, Class::Universal, tag)
}

fn take_context(bytes: &[u8], number: u32) -> Result<(&[u8], &[u8]), OcspFault> {
    take_of(bytes, Class::ContextSpecific, Tag(number))
}

fn take_of(bytes: &[u8], class: Class, tag: Tag) -> Result<(&[u8], &[u8]), OcspFault> {
    let (any, rest) = next(bytes)?;
    let fits = any.class() == class && any.tag() == tag;
    fits.then_some((any.data, rest)).ok_or(OcspFault::Malformed)
}

fn only(bytes: &[u8], tag: Tag) -> Result<&[u8], OcspFault> {
    match take(bytes, tag)? {
        (inside, []) => Ok(inside),
        _ => Err(OcspFault::Malformed),
    }
}
