//! OCSP responses (RFC 6960 section 4.2): as much as must be known before one is stapled.
//!
//! The responder's signature is not verified: that is the client's business, and it is the client
//! who is lied to by a response that does not verify.

use std::fmt::{self, Display, Formatter};

use x509_parser::asn1_rs::{Any, Class, FromDer, Tag};
use x509_parser::prelude::ASN1Time;

/// Why an OCSP response cannot be stapled. Reads as the end of a sentence.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OcspFault {
    /// It is no DER-encoded OCSPResponse.
    Malformed,
    /// The responder answered with an error; the OCSPResponseStatus.
    NotSuccessful(u8),
    /// It speaks of another certificate.
    OfAnother,
}

impl Display for OcspFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("is no DER-encoded OCSP response"),
            Self::NotSuccessful(status) => write!(f, "is the responder's error {status}"),
            Self::OfAnother => f.write_str("is of another certificate (its serial differs)"),
        }
    }
}

/// Checks that a response speaks of the certificate with this serial number; returns when the
/// responder will have news (nextUpdate, Unix time), if it says.
pub(super) fn check(der: &[u8], serial: &[u8]) -> Result<Option<i64>, OcspFault> {
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
    find_single(single_responses(data)?, serial)
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

fn find_single(mut responses: &[u8], serial: &[u8]) -> Result<Option<i64>, OcspFault> {
    while !responses.is_empty() {
        let (single, rest) = take(responses, Tag::Sequence)?;
        if let Some(next_update) = read_single(single, serial)? {
            return Ok(next_update);
        }
        responses = rest;
    }
    Err(OcspFault::OfAnother)
}

/// SingleResponse: certID, certStatus, thisUpdate, nextUpdate [0] optional.
/// The outer option tells whether it is of this serial number.
fn read_single(single: &[u8], serial: &[u8]) -> Result<Option<Option<i64>>, OcspFault> {
    let (cert_id, rest) = take(single, Tag::Sequence)?;
    let (_hash_algorithm, cert_id) = take(cert_id, Tag::Sequence)?;
    let (_issuer_name_hash, cert_id) = take(cert_id, Tag::OctetString)?;
    let (_issuer_key_hash, cert_id) = take(cert_id, Tag::OctetString)?;
    let (its_serial, _) = take(cert_id, Tag::Integer)?;
    let (_status, rest) = next(rest)?;
    let (_this_update, rest) = take(rest, Tag::GeneralizedTime)?;
    if its_serial != serial {
        return Ok(None);
    }
    let Ok((next_update, _)) = take_context(rest, 0) else {
        return Ok(Some(None));
    };
    let (_, time) = ASN1Time::from_der(next_update).map_err(|_| OcspFault::Malformed)?;
    Ok(Some(Some(time.timestamp())))
}

fn next(bytes: &[u8]) -> Result<(Any<'_>, &[u8]), OcspFault> {
    Any::from_der(bytes)
        .map(|(rest, any)| (any, rest))
        .map_err(|_| OcspFault::Malformed)
}

fn take(bytes: &[u8], tag: Tag) -> Result<(&[u8], &[u8]), OcspFault> {
    let (any, rest) = next(bytes)?;
    let fits = any.class() == Class::Universal && any.tag() == tag;
    if fits {
        Ok((any.data, rest))
    } else {
        Err(OcspFault::Malformed)
    }
}

fn take_context(bytes: &[u8], number: u32) -> Result<(&[u8], &[u8]), OcspFault> {
    let (any, rest) = next(bytes)?;
    let fits = any.class() == Class::ContextSpecific && any.tag().0 == number;
    if fits {
        Ok((any.data, rest))
    } else {
        Err(OcspFault::Malformed)
    }
}

fn only(bytes: &[u8], tag: Tag) -> Result<&[u8], OcspFault> {
    match take(bytes, tag)? {
        (inside, []) => Ok(inside),
        _ => Err(OcspFault::Malformed),
    }
}
