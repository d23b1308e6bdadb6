//! Reads facts off certificates and stapled OCSP responses, and judges such a response: which
//! certificate it is about, when it is valid, and who signed it.

use std::net::IpAddr;

use load::observe::{Path, TrustedRoots, fingerprint, is_hash, signature_algorithms};
use measure::probe::{CertificateReport, ChainState, StapleReport};
use wire::address::address_of;
use wire::ocsp::{
    BasicOcspResponse, OcspCertificateStatus, OcspUnusable, SingleOcspResponse, key_of,
};
use x509_parser::asn1_rs::{FromDer, Tag};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::public_key::PublicKey;

use crate::registry::{algorithm_name, key_name};

#[derive(Clone, Debug, Default)]
pub(crate) struct CertificateExpectation {
    pub(crate) roots: Option<TrustedRoots>,
    /// Whether the roots are the system's, to whose authorities the CA/Browser Forum's rules apply.
    pub(crate) is_public: bool,
    /// Expected host name, or address in its place.
    pub(crate) name: Option<String>,
    pub(crate) now_s: u64,
}

/// Returns the facts of a chain, leaf first, and of its staple. `None` if there was none.
pub(crate) fn facts(
    chain: &[Vec<u8>],
    staple: &[u8],
    expected: &CertificateExpectation,
) -> Option<CertificateReport> {
    let leaf = chain.first()?;
    let unread = || CertificateReport {
        fingerprint: fingerprint(leaf),
        subject: "a certificate that cannot be read".to_owned(),
        chain: vec![format!("{} bytes that are no X.509", leaf.len())],
        chain_state: ChainState::Broken,
        staple: (!staple.is_empty())
            .then(|| StapleReport { status: "unverified".to_owned(), ..StapleReport::default() }),
        ..CertificateReport::default()
    };
    let parsed: Option<Vec<_>> = chain.iter().map(|der| parse(der)).collect();
    let Some(parsed) = parsed else {
        return Some(unread());
    };
    let mut certificate = of_leaf(parsed.first()?, expected);
    certificate.fingerprint = fingerprint(leaf);
    certificate.chain = parsed.iter().map(|one| one.subject().to_string()).collect();
    let pairs = parsed.windows(2);
    certificate.chain_ordered = pairs
        .filter_map(|pair| Some((pair.first()?, pair.last()?)))
        .all(|(below, above)| below.issuer().as_raw() == above.subject().as_raw());
    let weak = parsed.iter().filter(|one| !is_own_issuer(one) && is_weak(one));
    certificate.weak_signatures = weak.map(|one| one.subject().to_string()).collect();
    certificate.chain_has_root = parsed.iter().skip(1).any(is_own_issuer);
    certificate.chain_state = state(chain, &parsed, &certificate, expected);
    if expected.is_public && certificate.chain_state == ChainState::Trusted {
        certificate.lifetime_days_max = lifetime_days_max(certificate.not_before_s);
    }
    let leaf = parsed.first()?;
    certificate.staple = (!staple.is_empty()).then(|| {
        let sent = chain.iter().skip(1).map(Vec::as_slice);
        let roots = expected.roots.iter().flat_map(TrustedRoots::certificates);
        let issuers = sent.chain(roots).filter_map(parse);
        let issuers = issuers.filter(|one| one.subject().as_raw() == leaf.issuer().as_raw());
        judged(staple, leaf, &issuers.collect::<Vec<_>>(), expected.now_s)
    });
    Some(certificate)
}

fn is_own_issuer(certificate: &X509Certificate<'_>) -> bool {
    certificate.issuer().as_raw() == certificate.subject().as_raw()
}

/// RFC 5280, section 6.1.4 (n): a certificate whose key usage lacks keyCertSign signs no other.
fn may_sign(certificate: &X509Certificate<'_>) -> bool {
    let usage = certificate.key_usage().ok().flatten();
    usage.is_none_or(|usage| usage.value.key_cert_sign())
}

/// RFC 8446, section 4.4.2.2. The library does not check this key usage; other clients do.
fn may_sign_handshakes(leaf: &X509Certificate<'_>) -> bool {
    let usage = leaf.key_usage();
    usage.is_ok_and(|usage| usage.is_none_or(|usage| usage.value.digital_signature()))
}

fn of_leaf(leaf: &X509Certificate<'_>, expected: &CertificateExpectation) -> CertificateReport {
    let names = names(leaf);
    let (key, rsa_bits) = key(leaf);
    let seconds = |time: i64| u64::try_from(time).unwrap_or(0);
    let validity = leaf.validity();
    let expected = expected.name.as_deref();
    CertificateReport {
        subject: leaf.subject().to_string(),
        issuer: leaf.issuer().to_string(),
        key,
        rsa_bits,
        signature: algorithm_name(leaf.signature_algorithm.algorithm.to_id_string()),
        name_matches: expected.map(|name| names.iter().any(|one| is_for(one, name))),
        names,
        not_before_s: seconds(validity.not_before.timestamp()),
        not_after_s: seconds(validity.not_after.timestamp()),
        ocsp_responder: responder(leaf).unwrap_or_default(),
        must_staple: must_staple(leaf),
        ..CertificateReport::default()
    }
}

fn names(leaf: &X509Certificate<'_>) -> Vec<String> {
    let found = leaf.subject_alternative_name().ok().flatten();
    let names = found.map_or(&[][..], |found| &found.value.general_names);
    let shown = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address_of(bytes).map(|address| address.to_string()),
        _ => None,
    };
    names.iter().filter_map(shown).collect()
}

/// RFC 9525, section 6.3: a wildcard stands for the whole first label, and for no address.
fn is_for(pattern: &str, name: &str) -> bool {
    if pattern.eq_ignore_ascii_case(name) {
        return true;
    }
    let (Some(suffix), Some((_, parent))) = (pattern.strip_prefix("*."), name.split_once('.'))
    else {
        return false;
    };
    name.parse::<IpAddr>().is_err() && suffix.eq_ignore_ascii_case(parent)
}

fn key(leaf: &X509Certificate<'_>) -> (String, u32) {
    let info = leaf.public_key();
    let oid = info.algorithm.algorithm.to_id_string();
    match info.parsed() {
        Ok(PublicKey::RSA(rsa)) => {
            let bits = u32::try_from(rsa.key_size()).unwrap_or(u32::MAX);
            (format!("RSA {bits}"), bits)
        }
        Ok(PublicKey::EC(_)) => {
            let parameters = info.algorithm.parameters.as_ref();
            let curve =
                parameters.filter(|any| any.tag() == Tag::Oid).and_then(|any| any.as_oid().ok());
            let curve = curve.map(|oid| key_name(oid.to_id_string()));
            (format!("ECDSA {}", curve.as_deref().unwrap_or("with parameters of its own")), 0)
        }
        _ => (key_name(oid), 0),
    }
}

/// Browsers refuse these signatures because collisions can be made.
fn is_weak(certificate: &X509Certificate<'_>) -> bool {
    let name = algorithm_name(certificate.signature_algorithm.algorithm.to_id_string());
    name.ends_with("SHA-1") || name.ends_with("MD5")
}

/// Returns the first HTTP address of an OCSP responder (RFC 5280, section 4.2.2.1).
fn responder(leaf: &X509Certificate<'_>) -> Option<String> {
    leaf.extensions().iter().find_map(|extension| {
        let ParsedExtension::AuthorityInfoAccess(access) = extension.parsed_extension() else {
            return None;
        };
        access.accessdescs.iter().find_map(|one| {
            let is_ocsp = one.access_method.to_id_string() == "1.3.6.1.5.5.7.48.1";
            match &one.access_location {
                GeneralName::URI(place) if is_ocsp => Some((*place).to_owned()),
                _ => None,
            }
        })
    })
}

/// Reports the TLS feature status_request: a SEQUENCE of INTEGERs that contains a 5.
fn must_staple(leaf: &X509Certificate<'_>) -> bool {
    leaf.extensions().iter().any(|one| {
        let is_feature = one.oid.to_id_string() == "1.3.6.1.5.5.7.1.24";
        is_feature && one.value.windows(3).any(|triple| triple == [2, 1, 5])
    })
}

fn state(
    chain: &[Vec<u8>],
    parsed: &[X509Certificate<'_>],
    leaf: &CertificateReport,
    expected: &CertificateExpectation,
) -> ChainState {
    let Some(roots) = &expected.roots else {
        return ChainState::Unchecked;
    };
    let path = |chain: &[Vec<u8>]| match roots.path(chain, expected.now_s) {
        // Expiry is a separate fact.
        Path::NotInTime => roots.path(chain, leaf.not_after_s.saturating_sub(1)),
        found => found,
    };
    // The library does not check whether the certificates above the first may sign.
    let above = chain.iter().zip(parsed).skip(1).filter(|(_, one)| may_sign(one));
    let signing = chain.iter().take(1).chain(above.map(|(der, _)| der)).cloned();
    let path = match path(&signing.collect::<Vec<_>>()) {
        Path::UnknownIssuer if path(chain) != Path::UnknownIssuer => Path::Broken,
        found => found,
    };
    match path {
        Path::Trusted if !parsed.first().is_some_and(may_sign_handshakes) => ChainState::Broken,
        Path::Trusted => ChainState::Trusted,
        _ if matches!(parsed, [only] if is_own_issuer(only)) => ChainState::SelfSigned,
        Path::UnknownIssuer => match parsed {
            [.., last] if is_own_issuer(last) => ChainState::UntrustedRoot,
            _ => ChainState::Incomplete,
        },
        Path::TooLong => ChainState::TooLong,
        // The other certificates are newer than the expired one; the roots of its time are unknown.
        Path::NotInTime if leaf.not_after_s < expected.now_s => ChainState::Unchecked,
        Path::NotInTime | Path::Broken => ChainState::Broken,
    }
}

/// Longest lifetimes, by the second of Unix time from which they hold for new certificates: CA
/// Browser Forum, baseline requirements, section 6.3.2, with ballot SC-081.
const LIFETIME_DAYS_MAX: [(u64, u64); 5] = [
    (1_868_227_200, 47),
    (1_805_068_800, 100),
    (1_773_532_800, 200),
    (1_598_918_400, 398),
    (1_519_862_400, 825),
];

/// Returns the limit on the day when a certificate was issued; 0 if there was none.
fn lifetime_days_max(issued_s: u64) -> u64 {
    let known = LIFETIME_DAYS_MAX.iter().find(|(from_s, _)| issued_s >= *from_s);
    known.map_or(0, |(_, days)| *days)
}

/// Allowed difference in seconds between the clocks of a responder and of this host.
const CLOCK_SKEW_S: u64 = 300;

/// Judges a response for a leaf; the given certificates have the issuer's name.
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
    // A response with a hash of an unknown kind may be about any certificate.
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

#[cfg(test)]
mod tests {
    use testkit::authority::{Authority, KeyUsagePurpose, Trait};
    use testkit::leaf::certificates;

    use super::*;

    /// The testkit's certificates are valid from 2024 on.
    const NOW_S: u64 = 1_790_000_000;

    #[test]
    fn names_are_matched_by_label() {
        assert!(is_for("a.example", "A.example") && is_for("*.example", "a.example"));
        assert!(is_for("127.0.0.1", "127.0.0.1"));
        assert!(!is_for("*.example", "a.b.example") && !is_for("*.0.0.1", "127.0.0.1"));
        assert!(!is_for("*.example", "example"));
    }

    #[test]
    fn the_limit_of_a_lifetime_is_that_of_the_day_of_issue() {
        let days = [1_700_000_000, 1_773_532_799, 1_773_532_800, 1_900_000_000, 0];
        assert_eq!(days.map(lifetime_days_max), [398, 398, 200, 47, 0]);
    }

    #[test]
    fn an_intermediate_that_may_sign_nothing_breaks_the_chain() {
        let root = Authority::root("root");
        let roots = TrustedRoots::read(root.pem().as_bytes());
        let expected = CertificateExpectation { roots, now_s: NOW_S, ..Default::default() };
        for (traits, state) in
            [(&[][..], ChainState::Trusted), (&[Trait::WithoutCertSign], ChainState::Broken)]
        {
            let between = root.intermediate_with("between", traits);
            let chain = certificates(&between.leaf(&["localhost"]).issue().chain_pem());
            assert_eq!(facts(&chain, &[], &expected).unwrap().chain_state, state);
        }
    }

    #[test]
    fn a_leaf_that_may_not_sign_breaks_the_chain() {
        use KeyUsagePurpose::{DigitalSignature, KeyEncipherment};
        let root = Authority::root("root");
        let roots = TrustedRoots::read(root.pem().as_bytes());
        let expected = CertificateExpectation { roots, now_s: NOW_S, ..Default::default() };
        for (usage, state) in [
            (&[][..], ChainState::Trusted),
            (&[KeyEncipherment, DigitalSignature], ChainState::Trusted),
            (&[KeyEncipherment], ChainState::Broken),
        ] {
            let leaf = root.leaf(&["localhost"]).key_usage(usage).issue();
            let found = facts(&certificates(&leaf.chain_pem()), &[], &expected).unwrap();
            assert_eq!(found.chain_state, state, "{usage:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_certificate_are_a_fact() {
        let chain = [vec![0x30, 0x82, 1, 1, 0]];
        let found = facts(&chain, &[1, 2, 3], &CertificateExpectation::default()).unwrap();
        assert_eq!(found.chain_state, ChainState::Broken);
        assert_eq!(found.staple.unwrap().status, "unverified");
        assert_eq!(facts(&[], &[], &CertificateExpectation::default()), None);
    }
}
