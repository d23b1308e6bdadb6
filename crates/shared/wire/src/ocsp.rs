//! OCSP responses (RFC 6960 section 4.2.1, DER): their parts, and the verification of their signer.

use std::ops::RangeInclusive;

use rustls_pki_types::SignatureVerificationAlgorithm;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::cursor::Cursor;
use crate::date;

/// Most certificates of a response that are examined: a responder needs its own.
const RESPONDERS_MAX: usize = 4;

/// Accepted signature algorithms.
pub type SignatureAlgorithms<'a> = &'a [&'static dyn SignatureVerificationAlgorithm];

/// A response about certificates: a BasicOCSPResponse.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BasicOcspResponse<'r> {
    pub signed: SignedDer<'r>,
    /// Certificates of the response, each with its header.
    pub certificates: Vec<&'r [u8]>,
    pub singles: Vec<SingleOcspResponse<'r>>,
}

/// Signed bytes, as in responses and certificates (X.509's SIGNED).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SignedDer<'r> {
    /// Bytes that are signed, with their header.
    pub bytes: &'r [u8],
    /// Content of the signature's AlgorithmIdentifier.
    pub algorithm: &'r [u8],
    pub signature: &'r [u8],
}

impl<'r> SignedDer<'r> {
    /// Reads the parts of a certificate (RFC 5280 section 4.1); `None` if the DER is no
    /// certificate.
    pub fn of_certificate(der: &'r [u8]) -> Option<Self> {
        Self::read(&mut only(der)?)
    }

    /// Reports whether the signature verifies with this public key (without its algorithm).
    #[must_use]
    pub fn is_by(&self, key: &[u8], known: SignatureAlgorithms<'_>) -> bool {
        let mut fitting = known.iter().filter(|one| *one.signature_alg_id() == *self.algorithm);
        fitting.any(|one| one.verify_signature(key, self.bytes, self.signature).is_ok())
    }

    fn read(from: &mut Cursor<'r>) -> Option<Self> {
        let bytes = from.whole_element(SEQUENCE)?;
        let algorithm = from.element(SEQUENCE)?;
        match from.element(BIT_STRING)?.split_first()? {
            (0, signature) => Some(Self { bytes, algorithm, signature }),
            _ => None,
        }
    }
}

/// A SingleResponse.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SingleOcspResponse<'r> {
    /// Hash of the issuer's name and key; `None` = an unknown algorithm.
    pub hash: Option<OcspHash>,
    pub issuer_name_hash: &'r [u8],
    pub issuer_key_hash: &'r [u8],
    /// Content of the INTEGER.
    pub serial: &'r [u8],
    pub status: OcspCertificateStatus,
    /// thisUpdate, in seconds of Unix time.
    pub this_update_s: u64,
    /// nextUpdate, if present.
    pub next_update_s: Option<u64>,
}

/// Hashes that responders use: RFC 6960 section 4.3 demands SHA-1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OcspHash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl OcspHash {
    /// Returns the hash with this object identifier (its content).
    fn of(identifier: &[u8]) -> Option<Self> {
        match identifier {
            [0x2b, 0x0e, 0x03, 0x02, 0x1a] => Some(Self::Sha1),
            [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01] => Some(Self::Sha256),
            [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02] => Some(Self::Sha384),
            [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03] => Some(Self::Sha512),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OcspCertificateStatus {
    Good,
    Revoked,
    Unknown,
}

/// Reason why a response cannot be used at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OcspUnusable {
    /// Bytes that are no DER-encoded OCSPResponse with a BasicOCSPResponse.
    Malformed,
    /// Error status of the responder: the OCSPResponseStatus.
    NotSuccessful(u8),
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const ENUMERATED: u8 = 0x0a;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const CONTEXT_0: u8 = 0xa0;
const CONTEXT_1: u8 = 0xa1;
const CONTEXT_2: u8 = 0xa2;

impl<'r> BasicOcspResponse<'r> {
    /// Reads an OCSPResponse.
    ///
    /// # Errors
    /// Fails if it is malformed, or with the responder's error.
    pub fn read(der: &'r [u8]) -> Result<Self, OcspUnusable> {
        let malformed = OcspUnusable::Malformed;
        let mut response = only(der).ok_or(malformed)?;
        match response.element(ENUMERATED).ok_or(malformed)? {
            [] | [0] => Self::read_successful(response).ok_or(malformed),
            [status, ..] => Err(OcspUnusable::NotSuccessful(*status)),
        }
    }

    /// Returns the seconds of Unix time in which the signer may speak for this issuer: always if it
    /// is the issuer itself, within its certificate if it is a responder that the issuer has
    /// authorized (RFC 6960 section 4.2.2.2). `None` if signed by neither, or by an unknown
    /// algorithm.
    #[must_use]
    pub fn authority(
        &self,
        issuer: &X509Certificate<'_>,
        known: SignatureAlgorithms<'_>,
    ) -> Option<RangeInclusive<i64>> {
        if self.signed.is_by(key_of(issuer), known) {
            return Some(i64::MIN..=i64::MAX);
        }
        let mut responders = self.certificates.iter().take(RESPONDERS_MAX);
        responders.find_map(|der| {
            let (_, responder) = X509Certificate::from_der(der).ok()?;
            let usage = responder.extended_key_usage().ok().flatten()?;
            let is_authorized = usage.value.ocsp_signing
                && responder.issuer().as_raw() == issuer.subject().as_raw()
                && SignedDer::of_certificate(der)?.is_by(key_of(issuer), known);
            let is_signer = is_authorized && self.signed.is_by(key_of(&responder), known);
            let validity = responder.validity();
            let (from, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
            is_signer.then_some(from..=until)
        })
    }

    fn read_successful(mut response: Cursor<'r>) -> Option<Self> {
        let mut bytes = only(response.element(CONTEXT_0)?)?;
        bytes.element(OBJECT_IDENTIFIER)?;
        let mut basic = only(bytes.element(OCTET_STRING)?)?;
        let signed = SignedDer::read(&mut basic)?;
        let mut certificates = Vec::new();
        if !basic.is_empty() {
            let mut all = only(basic.element(CONTEXT_0)?)?;
            while !all.is_empty() {
                certificates.push(all.whole_element(SEQUENCE)?);
            }
        }
        let singles = Self::singles(only(signed.bytes)?)?;
        Some(Self { signed, certificates, singles })
    }

    /// Reads ResponseData: version \[0\] optional, responderID \[1\], \[2\], producedAt, responses.
    fn singles(mut data: Cursor<'r>) -> Option<Vec<SingleOcspResponse<'r>>> {
        if data.rest().first() == Some(&CONTEXT_0) {
            data.element(CONTEXT_0)?;
        }
        let responder = data.rest().first().filter(|tag| [CONTEXT_1, CONTEXT_2].contains(tag));
        data.element(*responder?)?;
        data.element(GENERALIZED_TIME)?;
        let mut responses = Cursor::new(data.element(SEQUENCE)?);
        let mut singles = Vec::new();
        while !responses.is_empty() {
            singles.push(SingleOcspResponse::read(responses.element(SEQUENCE)?)?);
        }
        Some(singles)
    }
}

impl<'r> SingleOcspResponse<'r> {
    /// Reads certID, certStatus, thisUpdate, nextUpdate \[0\] optional.
    fn read(bytes: &'r [u8]) -> Option<Self> {
        let mut single = Cursor::new(bytes);
        let mut certificate = Cursor::new(single.element(SEQUENCE)?);
        let mut algorithm = Cursor::new(certificate.element(SEQUENCE)?);
        let hash = OcspHash::of(algorithm.element(OBJECT_IDENTIFIER)?);
        let issuer_name_hash = certificate.element(OCTET_STRING)?;
        let issuer_key_hash = certificate.element(OCTET_STRING)?;
        let serial = certificate.element(INTEGER)?;
        // Statuses are \[0\], \[1\] with the time of revocation, and \[2\].
        let tag = *single.rest().first()?;
        single.element(tag)?;
        let status = match tag {
            0x80 => OcspCertificateStatus::Good,
            CONTEXT_1 => OcspCertificateStatus::Revoked,
            0x82 => OcspCertificateStatus::Unknown,
            _ => return None,
        };
        let this_update_s = seconds(single.element(GENERALIZED_TIME)?)?;
        let mut next_update_s = None;
        if single.rest().first() == Some(&CONTEXT_0) {
            let mut next = Cursor::new(single.element(CONTEXT_0)?);
            next_update_s = Some(seconds(next.element(GENERALIZED_TIME)?)?);
        }
        Some(Self {
            hash,
            issuer_name_hash,
            issuer_key_hash,
            serial,
            status,
            this_update_s,
            next_update_s,
        })
    }
}

/// Returns the public key without its algorithm.
#[must_use]
pub fn key_of<'c>(certificate: &'c X509Certificate<'_>) -> &'c [u8] {
    &certificate.public_key().subject_public_key.data
}

/// Returns the content of the single SEQUENCE that fills these bytes.
fn only(bytes: &[u8]) -> Option<Cursor<'_>> {
    let mut outer = Cursor::new(bytes);
    let content = outer.element(SEQUENCE)?;
    outer.is_empty().then(|| Cursor::new(content))
}

/// Parses a GeneralizedTime of RFC 5280 section 4.1.2.5.2: `YYYYMMDDHHMMSSZ`.
fn seconds(time: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(time).ok().filter(|text| text.len() == 15)?;
    let part = |from, to| text.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, rest) = (part(8, 10)?, part(10, 12)?, part(12, 15)?);
    date::seconds_of(&format!("{year}-{month}-{day}T{hour}:{minute}:{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let length = u8::try_from(content.len()).unwrap();
        assert!(length < 0x80, "a short element");
        [&[tag, length][..], &content].concat()
    }

    /// RFC 6960 section 4.2.1: the responder's name is `[1]`, the hash of its key `[2]`.
    #[test]
    fn a_responder_has_a_name_or_a_key() {
        let time = der(GENERALIZED_TIME, &[b"20261128000000Z"]);
        let hash = der(OCTET_STRING, &[&[7]]);
        let sha1 = der(OBJECT_IDENTIFIER, &[&[0x2b, 0x0e, 0x03, 0x02, 0x1a]]);
        let algorithm = der(SEQUENCE, &[&sha1]);
        let serial = der(INTEGER, &[&[9]]);
        let certificate = der(SEQUENCE, &[&algorithm, &hash, &hash, &serial]);
        let single = der(SEQUENCE, &[&certificate, &[0x80, 0], &time]);
        let singles = der(SEQUENCE, &[&single]);
        for responder in [CONTEXT_1, CONTEXT_2] {
            let responder = der(responder, &[&hash]);
            let data = der(SEQUENCE, &[&responder, &time, &singles]);
            let signature = der(BIT_STRING, &[&[0, 1]]);
            let basic = der(OCTET_STRING, &[&der(SEQUENCE, &[&data, &algorithm, &signature])]);
            let bytes = der(CONTEXT_0, &[&der(SEQUENCE, &[&sha1, &basic])]);
            let response = der(SEQUENCE, &[&der(ENUMERATED, &[&[0]]), &bytes]);
            let read = BasicOcspResponse::read(&response).unwrap();
            assert_eq!(read.singles[0].serial, [9]);
        }
    }
}
