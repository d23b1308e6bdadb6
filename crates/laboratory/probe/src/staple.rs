//! The judgement of a stapled OCSP response: of whom it speaks, when, and who has signed it.

use load::observe::chain::{is_hash, signature_algorithms};
use measure::probe::StapleReport;
use wire::ocsp::{
    BasicOcspResponse, OcspCertificateStatus, OcspUnusable, SingleOcspResponse, key_of,
};
use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;

/// Seconds that the clocks of a responder and of this host may differ.
const CLOCK_SKEW_S: u64 = 300;

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
    let mut named = issuers.iter().filter(|issuer| is_of(single.issuer_key_hash, key_of(issuer)));
    let Some(first) = named.next() else {
        return "foreign";
    };
    let now = i64::try_from(now_s).unwrap_or(i64::MAX);
    let may_speak = |issuer: &X509Certificate<'_>| {
        let authority = response.authority(issuer, signature_algorithms());
        authority.is_some_and(|seconds| seconds.contains(&now))
    };
    if !std::iter::once(first).chain(named).any(may_speak) {
        return "invalid";
    }
    match single.status {
        OcspCertificateStatus::Good => "good",
        OcspCertificateStatus::Revoked => "revoked",
        OcspCertificateStatus::Unknown => "unknown",
    }
}

pub(crate) fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    rest.is_empty().then_some(certificate)
}
