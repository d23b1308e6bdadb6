//! The judgement of a stapled OCSP response: of whom it speaks, when, and who has signed it.

use load::observe::chain::{is_hash, is_signed};
use measure::probe::StapleReport;
use wire::ocsp::{
    BasicOcspResponse, OcspCertificateStatus, OcspUnusable, SignedDer, SingleOcspResponse,
};
use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;

/// Seconds that the clocks of a responder and of this host may differ.
const CLOCK_SKEW_S: u64 = 300;

/// Certificates that come with a response and are looked at: a responder needs its own.
const RESPONDERS_MAX: usize = 4;

/// Judges a response for a leaf, of which these certificates have the issuer's name.
pub(crate) fn judged(
    der: &[u8],
    leaf: &X509Certificate<'_>,
    issuers: &[X509Certificate<'_>],
    now_s: u64,
) -> StapleReport {
    let unusable = |status: String| StapleReport { status, ..StapleReport::default() };
    let response = match BasicOcspResponse::read(der) {
        Ok(response) => response,
        Err(OcspUnusable::Malformed) => return unusable("unreadable".to_owned()),
        Err(OcspUnusable::NotSuccessful(number)) => {
            return unusable(format!("no response: responseStatus {number}"));
        }
    };
    let is_of = |single: &&SingleOcspResponse<'_>| single.serial == leaf.raw_serial();
    let Some(single) = response.singles.iter().find(is_of) else {
        return unusable("foreign".to_owned());
    };
    StapleReport {
        status: status(&response, single, leaf, issuers, now_s).to_owned(),
        this_update_s: single.this_update_s,
        next_update_s: single.next_update_s,
    }
}

fn status(
    response: &BasicOcspResponse<'_>,
    single: &SingleOcspResponse<'_>,
    leaf: &X509Certificate<'_>,
    issuers: &[X509Certificate<'_>],
    now_s: u64,
) -> &'static str {
    // With a hash of a kind that is not known it may be of any certificate.
    let is_of = |hash, bytes| single.hash.is_some_and(|kind| is_hash(kind, hash, bytes));
    if !is_of(single.issuer_name_hash, leaf.issuer().as_raw()) {
        return "foreign";
    }
    if single.next_update_s.is_some_and(|next| next < now_s) {
        return "expired";
    }
    if single.this_update_s > now_s.saturating_add(CLOCK_SKEW_S) {
        return "early";
    }
    if issuers.is_empty() {
        return "unverified";
    }
    let mut named = issuers.iter().filter(|issuer| is_of(single.issuer_key_hash, key(issuer)));
    let Some(first) = named.next() else {
        return "foreign";
    };
    if !std::iter::once(first).chain(named).any(|issuer| is_vouched_for(response, issuer, now_s)) {
        return "invalid";
    }
    match single.status {
        OcspCertificateStatus::Good => "good",
        OcspCertificateStatus::Revoked => "revoked",
        OcspCertificateStatus::Unknown => "unknown",
    }
}

/// Whether the issuer has signed the response, or a responder to whom it has delegated that (RFC
/// 6960 section 4.2.2.2).
fn is_vouched_for(
    response: &BasicOcspResponse<'_>,
    issuer: &X509Certificate<'_>,
    now_s: u64,
) -> bool {
    let is_by = |signer: &X509Certificate<'_>| is_signed(&response.signed, key(signer));
    let mut responders = response.certificates.iter().take(RESPONDERS_MAX);
    is_by(issuer)
        || responders.any(|der| {
            let responder = parse(der).filter(|_| is_delegate(der, issuer, now_s));
            responder.is_some_and(|responder| is_by(&responder))
        })
}

pub(crate) fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    rest.is_empty().then_some(certificate)
}

/// The public key without its algorithm.
fn key<'c>(certificate: &'c X509Certificate<'_>) -> &'c [u8] {
    &certificate.public_key().subject_public_key.data
}

/// Whether a certificate is a responder's, by the authority that it speaks for.
fn is_delegate(der: &[u8], issuer: &X509Certificate<'_>, now_s: u64) -> bool {
    let (Some(one), Some(signed)) = (parse(der), SignedDer::of_certificate(der)) else {
        return false;
    };
    let now = i64::try_from(now_s).unwrap_or(i64::MAX);
    let validity = one.validity();
    let usage = one.extended_key_usage().ok().flatten();
    (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now)
        && usage.is_some_and(|usage| usage.value.ocsp_signing)
        && one.issuer().as_raw() == issuer.subject().as_raw()
        && is_signed(&signed, key(issuer))
}
