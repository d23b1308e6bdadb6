//! Names, kinds of keys, suites, groups, protocols.

use super::*;

const RSA_SCHEMES: [SignatureScheme; 2] = [
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA256,
];

/// ECDSA and RSA for `a.example`, ECDSA for all below it, RSA alone for `r.example`.
fn dual() -> ServerOptions {
    options(vec![
        certificate(&["a.example"], Key::EcdsaP256),
        certificate(&["a.example"], Key::Rsa2048),
        certificate(&["*.a.example"], Key::EcdsaP256),
        certificate(&["r.example"], Key::Rsa2048),
    ])
}

fn shown(server: &Server, client: &Client) -> (String, KeyKind) {
    client.connect(server).expect("a handshake").shows(server)
}

#[test]
fn the_name_chooses_the_certificate() {
    let server = build(&dual());
    for (asked, shown_name, kind) in [
        ("a.example", "a.example", KeyKind::EcdsaP256),
        ("A.Example", "a.example", KeyKind::EcdsaP256),
        ("b.a.example", "*.a.example", KeyKind::EcdsaP256),
        ("r.example", "r.example", KeyKind::Rsa),
        ("c.b.a.example", "a.example", KeyKind::EcdsaP256),
        ("127.0.0.1", "a.example", KeyKind::EcdsaP256),
    ] {
        assert_eq!(
            shown(&server, &client(asked)),
            (shown_name.into(), kind),
            "{asked}"
        );
        assert_eq!(
            shown(&server, &client(asked).tls12()),
            (shown_name.into(), kind),
            "{asked}"
        );
    }
}

#[test]
fn unknown_and_missing_names_are_refused_where_asked() {
    let mut options = dual();
    options.unknown_name = UnknownName::Refuse;
    let server = build(&options);
    let refusal = |client: Client| client.connect(&server).expect_err("refused").refusal();
    let unknown = Refusal {
        reason: RefusalReason::NameUnknown,
        alert: 112,
    };
    assert_eq!(refusal(client("other.example")), unknown);
    assert_eq!(refusal(client("other.example").tls12()), unknown);
    let missing = |alert| Refusal {
        reason: RefusalReason::NameMissing,
        alert,
    };
    assert_eq!(refusal(client("127.0.0.1")), missing(109));
    assert_eq!(refusal(client("127.0.0.1").tls12()), missing(112));
    assert_eq!(shown(&server, &client("b.a.example")).0, "*.a.example");
}

#[test]
fn in_tls_1_3_the_signature_schemes_choose_the_kind() {
    let server = build(&dual());
    let rsa_only = client("a.example").schemes(&RSA_SCHEMES);
    assert_eq!(shown(&server, &rsa_only).1, KeyKind::Rsa);
    let ecdsa_only = client("a.example").schemes(&[SignatureScheme::ECDSA_NISTP256_SHA256]);
    assert_eq!(shown(&server, &ecdsa_only).1, KeyKind::EcdsaP256);
    let both = client("a.example").schemes(&[
        SignatureScheme::RSA_PSS_SHA256,
        SignatureScheme::ECDSA_NISTP256_SHA256,
    ]);
    assert_eq!(shown(&server, &both).1, KeyKind::EcdsaP256);
}

#[test]
fn in_tls_1_2_the_suites_choose_the_kind() {
    let server = build(&dual());
    let with = |suite| client("a.example").tls12().suites(&[suite]);
    assert_eq!(
        shown(&server, &with(Suite::EcdheRsaAes128GcmSha256)).1,
        KeyKind::Rsa
    );
    assert_eq!(
        shown(&server, &with(Suite::EcdheEcdsaAes128GcmSha256)).1,
        KeyKind::EcdsaP256
    );
    let without_p256 = client("a.example").tls12().groups(&[Group::X25519]);
    assert_eq!(shown(&server, &without_p256).1, KeyKind::Rsa);
}

#[test]
fn what_select_says_is_what_the_client_sees() {
    let server = build(&dual());
    for client in [
        client("a.example"),
        client("a.example").tls12(),
        client("a.example").schemes(&RSA_SCHEMES),
        client("b.a.example"),
        client("r.example").tls12(),
    ] {
        let (config, _) = client.config();
        let bytes = written(&mut client_connection(&config, client.name));
        let said = server
            .certificate_for(&read_hello(&bytes))
            .expect("a certificate");
        let seen = client.connect(&server).expect("a handshake");
        assert_eq!(said.key.cert[0].as_ref(), seen.leaf);
    }
}

#[test]
fn a_client_that_can_verify_no_key_is_refused() {
    let server = build(&simple());
    let refusal = |client: Client| client.connect(&server).expect_err("refused").refusal();
    let nothing = |what| Refusal {
        reason: RefusalReason::NoCommonParameters(what),
        alert: 40,
    };
    assert_eq!(
        refusal(client("a.example").schemes(&RSA_SCHEMES)),
        nothing("signature scheme")
    );
    let only_rsa_suite = client("a.example")
        .tls12()
        .suites(&[Suite::EcdheRsaAes128GcmSha256]);
    assert_eq!(refusal(only_rsa_suite), nothing("signature scheme"));
}

#[test]
fn ed25519_serves_who_can_verify_it() {
    let server = build(&options(vec![
        certificate(&["a.example"], Key::Ed25519),
        certificate(&["a.example"], Key::Rsa2048),
    ]));
    assert_eq!(shown(&server, &client("a.example")).1, KeyKind::Ed25519);
    assert_eq!(
        shown(&server, &client("a.example").tls12()).1,
        KeyKind::Ed25519
    );
    assert_eq!(
        shown(&server, &client("a.example").schemes(&RSA_SCHEMES)).1,
        KeyKind::Rsa
    );
}

#[test]
fn versions_that_are_not_shared_are_refused() {
    let mut only_13 = simple();
    only_13.version_min = Version::Tls13;
    let refusal = client("a.example")
        .tls12()
        .connect(&build(&only_13))
        .expect_err("refused");
    let too_old = Refusal {
        reason: RefusalReason::VersionTooOld,
        alert: 70,
    };
    assert_eq!(refusal.refusal(), too_old);

    let mut only_12 = simple();
    only_12.version_max = Version::Tls12;
    let server = build(&only_12);
    assert!(client("a.example").connect(&server).is_ok());
    let mut only_newer = client("a.example");
    only_newer.versions = vec![&rustls::version::TLS13];
    let refusal = only_newer.connect(&server).expect_err("refused").refusal();
    let nothing = Refusal {
        reason: RefusalReason::NoCommonParameters("version"),
        alert: 70,
    };
    assert_eq!(refusal, nothing);
}

#[test]
fn suites_that_are_not_shared_are_refused() {
    let mut options = simple();
    options.suites = Suites::Listed(vec![
        Suite::Tls13Aes256GcmSha384,
        Suite::EcdheEcdsaAes256GcmSha384,
    ]);
    let server = build(&options);
    let outcome = client("a.example").connect(&server).expect("a handshake");
    assert_eq!(outcome.suite, CipherSuite::TLS13_AES_256_GCM_SHA384);
    let refusal = |suite| {
        client("a.example")
            .suites(&[suite])
            .connect(&server)
            .expect_err("refused")
            .refusal()
    };
    let nothing = Refusal {
        reason: RefusalReason::NoCommonParameters("cipher suite"),
        alert: 40,
    };
    assert_eq!(refusal(Suite::Tls13Aes128GcmSha256), nothing);
}

#[test]
fn our_order_of_suites_counts_but_chacha_is_for_who_puts_it_first() {
    let server = build(&simple());
    let suite = |client: Client| client.connect(&server).expect("a handshake").suite;
    let (aes_128, aes_256, chacha) = (
        Suite::Tls13Aes128GcmSha256,
        Suite::Tls13Aes256GcmSha384,
        Suite::Tls13ChaCha20Poly1305Sha256,
    );
    let ordered = |suites: &[Suite]| client("a.example").suites(suites);
    assert_eq!(
        suite(ordered(&[aes_256, chacha, aes_128])),
        CipherSuite::TLS13_AES_128_GCM_SHA256
    );
    assert_eq!(
        suite(ordered(&[chacha, aes_256, aes_128])),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
    );
    assert_eq!(
        suite(
            ordered(&[
                Suite::EcdheEcdsaChaCha20Poly1305Sha256,
                Suite::EcdheEcdsaAes128GcmSha256
            ])
            .tls12()
        ),
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
    );
}

#[test]
fn our_order_of_groups_counts_among_those_at_hand() {
    let mut options = simple();
    options.groups = vec![Group::X25519MlKem768, Group::Secp256r1, Group::X25519];
    let server = build(&options);
    let group = |client: Client| {
        let outcome = client.connect(&server).expect("a handshake");
        (outcome.group, outcome.kind)
    };
    let full = HandshakeKind::Full;
    assert_eq!(
        group(client("a.example")),
        (Some(NamedGroup::X25519MLKEM768), full)
    );
    // One share each: the first of the client's list.
    let x25519_first = client("a.example").groups(&[Group::X25519, Group::Secp256r1]);
    assert_eq!(group(x25519_first), (Some(NamedGroup::X25519), full));
    // No share of ours: our first choice is asked for.
    let p384_first =
        client("a.example").groups(&[Group::Secp384r1, Group::X25519, Group::Secp256r1]);
    let retried = HandshakeKind::FullWithHelloRetryRequest;
    assert_eq!(group(p384_first), (Some(NamedGroup::secp256r1), retried));
    let tls12 = client("a.example")
        .tls12()
        .groups(&[Group::X25519, Group::Secp256r1]);
    assert_eq!(group(tls12), (Some(NamedGroup::secp256r1), full));

    let strange = client("a.example").groups(&[Group::Secp384r1]);
    let refusal = strange.connect(&server).expect_err("refused").refusal();
    assert_eq!(refusal.reason, RefusalReason::NoCommonParameters("group"));
}

/// RFC 8446 section 4.1.3: this random makes a ServerHello a HelloRetryRequest.
const RETRY_RANDOM: [u8; 4] = [0xcf, 0x21, 0xad, 0x74];

fn first_answer(config: Arc<ServerConfig>, hello: &[u8]) -> Vec<u8> {
    drop(context::enter(HandshakeContext::default()));
    let mut served = ServerConnection::new(config).expect("a connection");
    feed(&mut served, hello).expect("a hello that is understood");
    written(&mut served)
}

#[test]
fn a_key_share_at_hand_is_used_though_another_group_is_listed_first() {
    let sharing_x25519 = client("a.example").groups(&[Group::X25519, Group::X25519MlKem768]);
    let (config, _) = sharing_x25519.config();
    let mut hello = written(&mut client_connection(&config, "a.example"));
    // The extension supported_groups, its two groups put in the other order.
    let before = [0x00, 0x0a, 0x00, 0x06, 0x00, 0x04, 0x00, 0x1d, 0x11, 0xec];
    let after = [0x00, 0x0a, 0x00, 0x06, 0x00, 0x04, 0x11, 0xec, 0x00, 0x1d];
    let at = hello
        .windows(before.len())
        .position(|window| window == before);
    let at = at.expect("the extension");
    hello[at..at + after.len()].copy_from_slice(&after);

    let server = build(&simple());
    let selected = server.select(&read_hello(&hello)).expect("a configuration");
    assert_ne!(first_answer(selected, &hello)[11..15], RETRY_RANDOM);

    // What the library does if left alone.
    let mut plain = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Resolver {
            clock: Clock::default(),
            site: Arc::clone(&server.site),
            version: Version::Tls13,
        }));
    plain.ignore_client_order = true;
    assert_eq!(first_answer(Arc::new(plain), &hello)[11..15], RETRY_RANDOM);
}

#[test]
fn our_order_of_protocols_counts() {
    let mut options = simple();
    options.alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let server = build(&options);
    let alpn = |client: Client| client.connect(&server).expect("a handshake").alpn;
    assert_eq!(
        alpn(client("a.example").alpn(&[b"http/1.1", b"h2"])),
        Some(b"h2".to_vec())
    );
    assert_eq!(
        alpn(client("a.example").alpn(&[b"http/1.1"])),
        Some(b"http/1.1".to_vec())
    );
    assert_eq!(alpn(client("a.example")), None);
    let unmatched = client("a.example").alpn(&[b"smtp"]).connect(&server);
    assert_eq!(
        unmatched.expect_err("refused").server(),
        rustls::Error::NoApplicationProtocol
    );
}

#[test]
fn the_ocsp_response_is_stapled() {
    let leaf = root().leaf(&["a.example"]).issue();
    let response = root().ocsp_response(&leaf);
    let mut with_ocsp = source(&leaf);
    with_ocsp.ocsp_der = Some(response.clone());
    let server = build(&options(vec![with_ocsp]));
    assert_eq!(
        client("a.example")
            .connect(&server)
            .expect("a handshake")
            .ocsp,
        response
    );
    assert_eq!(
        client("a.example")
            .tls12()
            .connect(&server)
            .expect("a handshake")
            .ocsp,
        response
    );
    let bare = build(&simple());
    assert_eq!(
        client("a.example")
            .connect(&bare)
            .expect("a handshake")
            .ocsp,
        []
    );
}

#[test]
fn what_is_wrong_is_told_with_service_and_place() {
    let none = build_error(&options(Vec::new()));
    assert_eq!(none.fault, BuildFault::NoCertificate);
    let mut bad = simple();
    bad.certificates[0].chain_pem = b"nothing".to_vec();
    let error = build_error(&bad).to_string();
    assert!(
        error.starts_with("service \"web\": site.pem: holds no certificate"),
        "{error}"
    );
}

#[test]
fn warnings_name_service_and_place() {
    let expired = source(&root().leaf(&["a.example"]).expired().issue());
    let twice = certificate(&["b.example"], Key::EcdsaP256);
    let mut second = twice.clone();
    second.place = "second.pem".into();
    let mut options = options(vec![expired, twice, second]);
    options.suites = Suites::Listed(vec![Suite::Tls13Aes128GcmSha256]);
    let (_, warnings) = Server::build(&options, "web", &new_resumption(), &SuiteOrder::default())
        .expect("a server");
    let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(
        said[0].starts_with("service \"web\": TLS 1.2 is on but"),
        "{said:?}"
    );
    assert!(
        said[1].starts_with("service \"web\": site.pem: the certificate expired"),
        "{said:?}"
    );
    assert!(
        said[2].starts_with("service \"web\": second.pem: no client gets"),
        "{said:?}"
    );
}

/// Seconds of Unix time in 2026.
const NOW: u64 = 1_782_000_000;

/// The same name twice: until `NOW + 100`, and from `NOW - 100` on.
fn renewed() -> ServerOptions {
    let (old, new) = (
        root().leaf(&["a.example"]).valid(NOW - 1000, NOW + 100),
        root().leaf(&["a.example"]).valid(NOW - 100, NOW + 10_000),
    );
    options(vec![source(&old.issue()), source(&new.issue())])
}

#[test]
fn a_certificate_that_ends_while_the_server_runs_gives_way_to_its_successor() {
    let hands = Hands::at(NOW);
    let (server, warnings) = hands.build(&renewed());
    assert_eq!(warnings.len(), 1, "the old one ends soon: {warnings:?}");
    let leaf = |number: usize| server.certificates()[number].key.cert[0].as_ref();
    for (now, number) in [(NOW, 0), (NOW + 100, 0), (NOW + 101, 1), (NOW + 20_000, 1)] {
        hands.move_to(now);
        for client in [client("a.example"), client("a.example").tls12()] {
            let outcome = client.connect(&server).expect("a handshake");
            assert_eq!(outcome.leaf, leaf(number), "{now}");
        }
    }
}

#[test]
fn what_ends_while_the_server_runs_is_told_once() {
    let (server, _) = Hands::at(NOW).build(&renewed());
    let mut now = i64::try_from(NOW).expect("small");
    let (mut told, mut since) = (Vec::new(), Some(now));
    while let Some(next) = server.next_change(now) {
        now = next;
        told.extend(server.warnings("web", Moment { since, now }));
        since = Some(now);
        assert!(told.len() < 10, "{told:?}");
    }
    let words: Vec<_> = told.iter().map(ToString::to_string).collect();
    let expected = [
        "expired less than an hour ago; renew it; clients get another one for its names",
        "expires in less than an hour; renew it",
        "expired less than an hour ago; renew it; clients still get it, since no",
    ];
    assert_eq!(words.len(), expected.len(), "{words:?}");
    for (words, expected) in words.iter().zip(expected) {
        assert!(words.contains(expected), "{words}");
    }
    let ends = server.expiries(now).certificates;
    assert_eq!((ends.loaded, ends.expired), (2, 2));
}

#[test]
fn a_staple_is_sent_until_its_next_update() {
    let begin = Clock::default().now().as_secs();
    let leaf = root().leaf(&["a.example"]).issue();
    let mut stapled = source(&leaf);
    stapled.ocsp_der = Some(root().ocsp_response_until(&leaf, begin + 1000));
    let response = stapled.ocsp_der.clone();
    let hands = Hands::at(begin + 1000);
    let (server, _) = hands.build(&options(vec![stapled]));
    for client in [client("a.example"), client("a.example").tls12()] {
        hands.move_to(begin + 1000);
        let sent = || client.connect(&server).expect("a handshake").ocsp;
        assert_eq!(Some(sent()), response);
        hands.move_to(begin + 1001);
        assert_eq!(sent(), [0; 0]);
    }
    assert_eq!(server.expiries(0).staples.loaded, 1);
}
