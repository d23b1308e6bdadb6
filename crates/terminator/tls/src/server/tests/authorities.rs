//! Certificates in `ca`, and chains that would cost too much.

use rustls::CertificateError;
use testkit::authority::{KeyUsagePurpose, Trait};

use super::clients::{certificate_error, refusal, showing};
use super::*;
use crate::verify::TrustConcern;

/// Seconds of Unix time in 2026, when all test certificates are valid.
const NOW: u64 = 1_782_000_000;
const DAY: u64 = 24 * 60 * 60;

fn trusting(authorities: &[&Authority]) -> ServerOptions {
    let mut options = verifying(ClientMode::Required);
    let sources = authorities.iter().map(|one| pem("ca.pem", one.pem()));
    options.client.authorities = sources.collect();
    options
}

/// Returns the refusal of a client, the same in both versions; `None` = it is accepted.
fn outcome(server: &Server, leaf: &Leaf) -> Option<(CertificateError, String)> {
    let both = rustls::ALL_VERSIONS.iter().map(|version| {
        let mut client = showing(leaf.clone());
        client.versions = vec![version];
        let failure = client.connect(server).err()?;
        let words = refusal().expect("words");
        Some((certificate_error(Some(failure)), words))
    });
    let both: Vec<_> = both.collect();
    let words = |one: &Option<(_, String)>| one.as_ref().map(|(_, words)| words.clone());
    assert_eq!(words(&both[0]), words(&both[1]));
    both.into_iter().flatten().next()
}

#[test]
fn each_certificate_in_ca_is_trusted_for_what_it_may() {
    let past = Trait::Valid(NOW - 9 * DAY, NOW - DAY);
    let future = Trait::Valid(NOW + DAY, NOW + 999 * DAY);
    let sign = "may not sign certificates";
    let usage = "extended key usage";
    for (traits, issued, itself, concern) in [
        (vec![], None, None, false),
        (vec![Trait::EndEntity], Some(sign), None, false),
        (vec![Trait::WithoutCertSign], Some(sign), None, false),
        (vec![Trait::PathLength(0)], None, None, false),
        (vec![Trait::ForServers], Some(usage), Some("authority"), true),
        (vec![Trait::EndEntity, Trait::ForServers], Some(usage), Some(usage), true),
        (vec![past], Some("in ca.pem:1, has expired"), Some("expired"), true),
        (vec![past, Trait::EndEntity], Some("has expired"), Some("expired"), true),
        (vec![future], Some("not valid yet"), Some("not valid yet"), true),
    ] {
        let authority = Authority::root_with("some root", &[], &traits);
        let (server, warnings) = ManualClock::at(NOW).build(&trusting(&[&authority]));
        assert_eq!(!warnings.is_empty(), concern, "{traits:?}: {warnings:?}");
        for (leaf, expected) in [(authority.client("alice"), issued), (authority.as_leaf(), itself)]
        {
            let words = outcome(&server, &leaf).map(|(_, words)| words);
            let is_right = match (&words, expected) {
                (Some(words), Some(expected)) => words.contains(expected),
                (None, None) => true,
                _ => false,
            };
            assert!(is_right, "{traits:?}: {words:?}, not {expected:?}");
        }
    }
}

#[test]
fn an_authority_that_expires_while_the_server_runs_lets_nobody_in() {
    let authority = Authority::root_with("short", &[], &[Trait::Valid(NOW - DAY, NOW + DAY)]);
    for version in rustls::ALL_VERSIONS {
        let hands = ManualClock::at(NOW);
        let (server, _) = hands.build(&trusting(&[&authority]));
        for leaf in [authority.client("alice"), authority.as_leaf()] {
            hands.move_to(NOW);
            let mut client = showing(leaf);
            client.versions = vec![version];
            let (config, _) = client.config();
            let connect = || connect(&server, &config, "a.example");
            assert_eq!(connect().expect("served").kind, HandshakeKind::Full);
            hands.move_to(NOW + DAY);
            assert_eq!(connect().expect("served").kind, HandshakeKind::Resumed);
            hands.move_to(NOW + DAY + 1);
            let error = certificate_error(connect().err());
            let is_over = matches!(error, CertificateError::ExpiredContext { .. });
            assert!(is_over, "{error:?}");
        }
        let ends = server.expiries((NOW + DAY + 1) as i64).authorities;
        assert_eq!((ends.loaded, ends.expired), (1, 1));
        assert_eq!(ends.first(), Some((NOW + DAY) as i64));
        assert_eq!(&*ends.listed[0].name, "CN=short");
    }
}

#[test]
fn a_renewed_authority_counts_beside_the_expired_one() {
    let past = Trait::Valid(NOW - 9 * DAY, NOW - DAY);
    let old = Authority::root_with("root", &[], &[past]);
    let new = Authority::root("root");
    for order in [[&old, &new], [&new, &old]] {
        let (server, warnings) = ManualClock::at(NOW).build(&trusting(&order));
        assert_eq!(outcome(&server, &new.client("alice")), None);
        assert!(outcome(&server, &old.client("alice")).is_some());
        let [Warning { concern: WarningSubject::Verify(one), .. }] = &warnings[..] else {
            panic!("{warnings:?}");
        };
        assert!(matches!(one.concern, TrustConcern::AuthorityOver(_)), "{one}");
        assert_eq!(
            one.to_string(),
            "ca.pem:1: the certificate of \"CN=root\" expired 1 day ago and is not trusted any \
             more: who relies on it is refused; put its successor in its place, or remove it"
        );
    }
}

#[test]
fn a_path_is_no_longer_than_its_authority_allows() {
    let authority = Authority::root_with("root", &[], &[Trait::PathLength(0)]);
    let between = authority.intermediate("between");
    let server = build(&trusting(&[&authority]));
    assert_eq!(outcome(&server, &authority.client("alice")), None);
    let (_, words) = outcome(&server, &between.client("alice")).expect("refused");
    assert!(words.contains("pathLenConstraint"), "{words}");
}

#[test]
fn an_authority_between_may_only_do_what_its_certificate_says() {
    let authority = Authority::root("root");
    let server = ManualClock::at(NOW).build(&trusting(&[&authority])).0;
    for (one, expected) in [
        (Trait::PathLength(0), None),
        (Trait::EndEntity, Some("may not sign certificates")),
        (Trait::WithoutCertSign, Some("may not sign certificates")),
        (Trait::ForServers, Some("extended key usage")),
        (Trait::Valid(NOW - 9 * DAY, NOW - DAY), Some("expired")),
    ] {
        let between = authority.intermediate_with("between", &[one]);
        let words = outcome(&server, &between.client("alice")).map(|(_, words)| words);
        let is_right = match (&words, expected) {
            (Some(words), Some(expected)) => words.contains(expected),
            (words, expected) => words.is_none() && expected.is_none(),
        };
        assert!(is_right, "{one:?}: {words:?}, not {expected:?}");
    }
    let between = authority.intermediate_with("between", &[Trait::PathLength(0)]);
    let below = between.intermediate("below");
    let (_, words) = outcome(&server, &below.client("alice")).expect("refused");
    assert!(words.contains("pathLenConstraint"), "{words}");
}

#[test]
fn a_certificate_in_ca_lets_in_its_holder_alone() {
    let authority = Authority::root("root");
    let alice = authority.client("alice");
    let mut options = verifying(ClientMode::Required);
    options.client.authorities = vec![pem("alice.pem", alice.certificate_pem())];
    assert_eq!(outcome(&build(&options), &alice), None);
    assert!(outcome(&build(&options), &authority.client("bob")).is_some());
    let impostor = Authority::root("root").client("alice");
    assert!(outcome(&build(&options), &impostor).is_some());
    options.client.crls = vec![pem("list.pem", &authority.revocation_list(&[]))];
    assert_eq!(outcome(&build(&options), &alice), None);
    options.client.crls = vec![pem("list.pem", &authority.revocation_list(&[&alice]))];
    let (error, _) = outcome(&build(&options), &alice).expect("refused");
    assert_eq!(error, CertificateError::Revoked);
}

/// RFC 8446 section 4.4.2.2, RFC 5246 section 7.4.6.
#[test]
fn a_clients_own_certificate_has_to_be_for_signatures() {
    use KeyUsagePurpose::{CrlSign, DigitalSignature, KeyAgreement, KeyCertSign, KeyEncipherment};
    let authority = Authority::root("root");
    let server = build(&trusting(&[&authority]));
    for (usage, is_let_in) in [
        (&[][..], true),
        (&[DigitalSignature], true),
        (&[KeyEncipherment, DigitalSignature], true),
        (&[KeyEncipherment], false),
        (&[CrlSign], false),
        (&[KeyAgreement], false),
        (&[KeyCertSign, CrlSign], false),
    ] {
        let leaf = authority.leaf(&["alice"]).for_client().key_usage(usage).issue();
        let mut options = verifying(ClientMode::Required);
        options.client.authorities = vec![pem("alice.pem", leaf.certificate_pem())];
        for server in [&server, &build(&options)] {
            let found = outcome(server, &leaf);
            assert_eq!(found.is_none(), is_let_in, "{usage:?}: {found:?}");
            let Some((error, words)) = found else { continue };
            assert_eq!(error, CertificateError::InvalidPurpose);
            assert!(words.starts_with("its key usage has no digitalSignature"), "{words}");
        }
    }
}

/// OpenSSL also checks common names against constraints.
#[test]
fn an_authority_for_some_hosts_certifies_no_other_as_common_name() {
    let within = |confined: &Authority, names: &[&str], common_name: &str| {
        confined.leaf(names).common_name(common_name).for_client().issue()
    };
    for constraint in [Trait::Permitted("batch.internal"), Trait::Excluded("core.internal")] {
        let root = Authority::root("root");
        let below = root.intermediate_with("below", &[constraint]);
        let anchor = Authority::root_with("confined", &[], &[constraint]);
        for (ca, confined) in
            [(&root, &below), (&root, &below.intermediate("last")), (&anchor, &anchor)]
        {
            let server = build(&trusting(&[ca]));
            for (names, common_name, is_let_in) in [
                (&[][..], "alice", true),
                (&[], "1.batch.internal", true),
                (&["1.batch.internal"], "1.batch.internal", true),
                (&[], "admin.core.internal", false),
                (&[], "*.Core.internal.", false),
                (&["spiffe://td/1"], "admin.core.internal", false),
                (&["1.batch.internal"], "admin.core.internal", false),
            ] {
                let found = outcome(&server, &within(confined, names, common_name));
                assert_eq!(found.is_none(), is_let_in, "{constraint:?} {common_name}: {found:?}");
                let is_said = |(_, words): &(_, String)| words.contains("name constraints");
                assert!(found.as_ref().is_none_or(is_said), "{found:?}");
            }
            let second = confined.leaf(&[]).common_name("alice").for_client();
            let second = second.second_common_name("admin.core.internal").issue();
            assert!(outcome(&server, &second).is_some());
        }
    }
}

/// The library ignores the extensions of a trust anchor (RFC 5280 section 4.2).
#[test]
fn an_authority_with_an_unknown_critical_extension_is_none() {
    let root = Authority::root_with("root", &[], &[Trait::CriticalExtension]);
    let (server, warnings) = ManualClock::at(NOW).build(&trusting(&[&root]));
    let (_, words) = outcome(&server, &root.client("alice")).expect("refused");
    assert!(words.contains("has a critical extension that is not known here"), "{words}");
    assert!(warnings.iter().any(|one| one.to_string().contains("critical extension")));
}

/// The library does not support them.
#[test]
fn constraints_on_directory_names_are_named_as_the_cause() {
    let confined = [Trait::PermittedOrganization("Batch")];
    let root = Authority::root("root");
    let below = root.intermediate_with("below", &confined);
    let anchor = Authority::root_with("confined", &[], &confined);
    for (ca, leaf, cause, is_told) in [
        (&root, below.client("alice"), "it has name constraints on directory names", false),
        (&anchor, anchor.client("alice"), "its issuer, in ca.pem:1, has name constraints on", true),
    ] {
        let (server, warnings) = ManualClock::at(NOW).build(&trusting(&[ca]));
        let (_, words) = outcome(&server, &leaf).expect("refused");
        assert!(words.starts_with(cause), "{words}");
        let is_it = |one: &Warning| {
            let WarningSubject::Verify(one) = &one.concern else { return false };
            one.concern == TrustConcern::AuthorityDirectoryNames
        };
        assert_eq!(warnings.iter().any(is_it), is_told, "{warnings:?}");
    }
}

#[test]
fn chains_that_would_cost_seconds_are_not_looked_at() {
    let server = build(&verifying(ClientMode::Optional));
    let flat: String = (0..150).map(|_| Authority::forged("x", "x", &[])).collect();
    let loops: String = (0..144)
        .map(|at| Authority::forged(&format!("{}", at / 12), &format!("{}", at % 12), &[]))
        .collect();
    let long: String =
        (0..7).map(|at| Authority::forged(&format!("{at}"), &format!("{}", at + 1), &[])).collect();
    let four: String = (0..4).map(|_| Authority::forged("x", "x", &[])).collect();
    for (issuer, above, words) in [
        ("x", &flat, "of 150 certificates sent with its own, more than 6"),
        ("0", &loops, "of 144 certificates sent with its own, more than 6"),
        ("0", &long, "of 7 certificates sent with its own, more than 6"),
        ("x", &four, "the 4 issuers sent with its certificate share"),
    ] {
        let leaf = Authority::root(issuer).client("mallory").above(above);
        let (error, said) = outcome(&server, &leaf).expect("refused");
        assert!(said.contains(words) && said.contains("CN=mallory"), "{said}");
        let reason = verify::refusal_of(&error.into());
        assert_eq!(reason, Some(telemetry::outcome::Reason::ClientChainLimit));
    }
    // Unrelated certificates cost nothing, and some clients send them.
    let alice = root().client("alice").above(&flat);
    assert_eq!(outcome(&server, &alice), None);
    let between = root().intermediate("between");
    let doubled = between.pem().repeat(20);
    let alice = between.client("alice").above(&doubled);
    assert_eq!(outcome(&server, &alice), None);
}
