//! Names, kinds of keys, suites, groups, protocols.

use super::*;
use crate::challenge::PROTOCOL;
use crate::options::Placeholder;
use crate::self_signed::answer_validations;
use telemetry::outcome::Reason;

const RSA_SCHEMES: [SignatureScheme; 2] =
    [SignatureScheme::RSA_PSS_SHA256, SignatureScheme::RSA_PKCS1_SHA256];

/// Serves ECDSA and RSA for `a.example`, ECDSA for all below it, RSA alone for `r.example`.
fn dual() -> ServerOptions {
    options(vec![
        certificate(&["a.example"], Key::EcdsaP256),
        certificate(&["a.example"], Key::Rsa2048),
        certificate(&["*.a.example"], Key::EcdsaP256),
        certificate(&["r.example"], Key::Rsa2048),
    ])
}

fn refusal(server: &Server, client: &Client) -> (Reason, Option<String>, u8) {
    let refusal = client.connect(server).expect_err("refused").refusal();
    (refusal.reason, refusal.detail, refusal.alert)
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
        for client in [client(asked), client(asked).tls12()] {
            assert_eq!(shown(&server, &client), (shown_name.into(), kind), "{asked}");
        }
    }
}

#[test]
fn unknown_and_missing_names_are_refused_where_asked() {
    let mut options = dual();
    options.unknown_name = UnknownName::Refuse;
    let server = build(&options);
    for (client, reason, alert) in [
        (client("other.example"), Reason::NameUnknown, 112),
        (client("other.example").tls12(), Reason::NameUnknown, 112),
        (client("127.0.0.1"), Reason::NameMissing, 109),
        (client("127.0.0.1").tls12(), Reason::NameMissing, 112),
    ] {
        assert_eq!(refusal(&server, &client), (reason, None, alert));
    }
    assert_eq!(shown(&server, &client("b.a.example")).0, "*.a.example");
}

#[test]
fn schemes_suites_and_curves_choose_the_kind_of_key() {
    const ECDSA: SignatureScheme = SignatureScheme::ECDSA_NISTP256_SHA256;
    let dual = build(&dual());
    let with_ed25519 = build(&options(vec![
        certificate(&["a.example"], Key::Ed25519),
        certificate(&["a.example"], Key::Rsa2048),
    ]));
    let (tls13, tls12) = (|| client("a.example"), || client("a.example").tls12());
    let by_suite = |suite| tls12().suites(&[suite]);
    for (server, client, kind) in [
        (&dual, tls13().schemes(&RSA_SCHEMES), KeyKind::Rsa),
        (&dual, tls13().schemes(&[ECDSA]), KeyKind::EcdsaP256),
        (&dual, tls13().schemes(&[SignatureScheme::RSA_PSS_SHA256, ECDSA]), KeyKind::EcdsaP256),
        (&dual, by_suite(Suite::EcdheRsaAes128GcmSha256), KeyKind::Rsa),
        (&dual, by_suite(Suite::EcdheEcdsaAes128GcmSha256), KeyKind::EcdsaP256),
        // The client lacks P-256.
        (&dual, tls12().groups(&[Group::X25519]), KeyKind::Rsa),
        (&with_ed25519, tls13(), KeyKind::Ed25519),
        (&with_ed25519, tls12(), KeyKind::Ed25519),
        (&with_ed25519, tls13().schemes(&RSA_SCHEMES), KeyKind::Rsa),
    ] {
        assert_eq!(shown(server, &client).1, kind);
    }
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
        let said = server.certificate_for(&read_hello(&bytes)).expect("a certificate");
        let seen = client.connect(&server).expect("a handshake");
        assert_eq!(said.key.cert[0].as_ref(), seen.leaf);
    }
}

#[test]
fn what_is_not_shared_is_refused() {
    let changed = |change: fn(&mut ServerOptions)| {
        let mut options = simple();
        change(&mut options);
        build(&options)
    };
    let simple = changed(|_| ());
    let only_13 = changed(|options| options.version_min = Version::Tls13);
    let only_12 = changed(|options| options.version_max = Version::Tls12);
    let aes_256 = changed(|options| {
        let (tls13, tls12) = (Suite::Tls13Aes256GcmSha384, Suite::EcdheEcdsaAes256GcmSha384);
        options.suites = Suites::Listed(vec![tls13, tls12]);
    });
    let p256 = changed(|options| options.groups = vec![Group::Secp256r1]);
    let mut newer = client("a.example");
    newer.versions = vec![&rustls::version::TLS13];
    let rsa = Suite::EcdheRsaAes128GcmSha256;
    let common = Reason::NoCommonParameters;
    for (server, client, reason, detail, alert) in [
        (&simple, client("a.example").schemes(&RSA_SCHEMES), common, Some("signature scheme"), 40),
        (&simple, client("a.example").tls12().suites(&[rsa]), common, Some("signature scheme"), 40),
        (&only_13, client("a.example").tls12(), Reason::VersionTooOld, None, 70),
        (&only_12, newer, common, Some("version"), 70),
        (
            &aes_256,
            client("a.example").suites(&[Suite::Tls13Aes128GcmSha256]),
            common,
            Some("cipher suite"),
            40,
        ),
        (&p256, client("a.example").groups(&[Group::Secp384r1]), common, Some("group"), 40),
    ] {
        let detail = detail.map(str::to_owned);
        assert_eq!(refusal(server, &client), (reason, detail, alert));
    }
    assert!(client("a.example").connect(&only_12).is_ok());
    let outcome = client("a.example").connect(&aes_256).expect("a handshake");
    assert_eq!(outcome.suite, CipherSuite::TLS13_AES_256_GCM_SHA384);
}

#[test]
fn our_order_of_suites_counts_but_chacha_is_for_clients_that_put_it_first() {
    let server = build(&simple());
    let (aes_128, aes_256, chacha) = (
        Suite::Tls13Aes128GcmSha256,
        Suite::Tls13Aes256GcmSha384,
        Suite::Tls13ChaCha20Poly1305Sha256,
    );
    let ordered = |suites: &[Suite]| client("a.example").suites(suites);
    let older = [Suite::EcdheEcdsaChaCha20Poly1305Sha256, Suite::EcdheEcdsaAes128GcmSha256];
    for (client, suite) in [
        (ordered(&[aes_256, chacha, aes_128]), aes_128),
        (ordered(&[chacha, aes_256, aes_128]), chacha),
        (ordered(&older).tls12(), older[0]),
    ] {
        let outcome = client.connect(&server).expect("a handshake");
        assert_eq!(u16::from(outcome.suite), suite.code());
    }
}

#[test]
fn our_order_of_groups_counts_among_those_at_hand() {
    let mut options = simple();
    options.groups = vec![Group::X25519MlKem768, Group::Secp256r1, Group::X25519];
    let server = build(&options);
    let (full, retried) = (HandshakeKind::Full, HandshakeKind::FullWithHelloRetryRequest);
    let with = |groups: &[Group]| client("a.example").groups(groups);
    for (client, group, kind) in [
        (client("a.example"), NamedGroup::X25519MLKEM768, full),
        // One share each: the first of the client's list.
        (with(&[Group::X25519, Group::Secp256r1]), NamedGroup::X25519, full),
        // No share for our groups: we request our first choice.
        (
            with(&[Group::Secp384r1, Group::X25519, Group::Secp256r1]),
            NamedGroup::secp256r1,
            retried,
        ),
        (with(&[Group::X25519, Group::Secp256r1]).tls12(), NamedGroup::secp256r1, full),
    ] {
        let outcome = client.connect(&server).expect("a handshake");
        assert_eq!((outcome.group, outcome.kind), (Some(group), kind));
    }
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
    // The extension supported_groups, and the same with its two groups swapped.
    let before = [0x00, 0x0a, 0x00, 0x06, 0x00, 0x04, 0x00, 0x1d, 0x11, 0xec];
    let after = [0x00, 0x0a, 0x00, 0x06, 0x00, 0x04, 0x11, 0xec, 0x00, 0x1d];
    let at = hello.windows(before.len()).position(|window| window == before);
    let at = at.expect("the extension");
    hello[at..at + after.len()].copy_from_slice(&after);

    let server = build(&simple());
    let selected = server.select(&read_hello(&hello)).expect("a configuration");
    assert_ne!(first_answer(selected, &hello)[11..15], RETRY_RANDOM);

    // The library's behaviour without our configuration.
    let mut plain = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Resolver {
            clock: Clock::default(),
            site: Arc::clone(&server.site),
            version: Version::Tls13,
            only_resumes: false,
        }));
    plain.ignore_client_order = true;
    assert_eq!(first_answer(Arc::new(plain), &hello)[11..15], RETRY_RANDOM);
}

#[test]
fn our_order_of_protocols_counts() {
    let mut options = simple();
    options.alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let server = build(&options);
    for (offered, agreed) in [
        (&[&b"http/1.1"[..], b"h2"][..], Some(&b"h2"[..])),
        (&[b"http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let client = client("a.example").alpn(offered);
        let outcome = client.connect(&server).expect("a handshake");
        assert_eq!(outcome.alpn.as_deref(), agreed);
    }
    let unmatched = client("a.example").alpn(&[b"smtp"]).connect(&server);
    let error = unmatched.expect_err("refused").server();
    assert_eq!(error, rustls::Error::NoApplicationProtocol);
}

#[test]
fn a_fault_names_service_and_place() {
    let none = build_error(&options(Vec::new()));
    assert_eq!(none.fault, BuildFault::NoCertificate);
    let mut bad = simple();
    bad.certificates[0].chain_pem = b"nothing".to_vec();
    let error = build_error(&bad).to_string();
    assert!(error.starts_with("service `web`: site.pem: holds no certificate"), "{error}");
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
    for (said, begin) in said.iter().zip([
        "TLS 1.2 is on but",
        "site.pem: the certificate expired",
        "second.pem: no client gets",
    ]) {
        assert!(said.starts_with(&format!("service `web`: {begin}")), "{said}");
    }
}

/// Seconds of Unix time in 2026.
const NOW: u64 = 1_782_000_000;

/// Serves two certificates of one name: until `NOW + 100`, and from `NOW - 100` on.
fn renewed() -> ServerOptions {
    let (old, new) = (
        root().leaf(&["a.example"]).valid(NOW - 1000, NOW + 100),
        root().leaf(&["a.example"]).valid(NOW - 100, NOW + 10_000),
    );
    options(vec![source(&old.issue()), source(&new.issue())])
}

#[test]
fn a_certificate_that_ends_while_the_server_runs_gives_way_to_its_successor() {
    let hands = ManualClock::at(NOW);
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
fn what_ends_while_the_server_runs_is_reported_once() {
    let (server, _) = ManualClock::at(NOW).build(&renewed());
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
        "expired less than an hour ago, and clients get another one for its names; renew it",
        "expires in less than an hour; renew it",
        "expired less than an hour ago, and clients still get it, since no",
    ];
    assert_eq!(words.len(), expected.len(), "{words:?}");
    let is_noticed: Vec<_> = told.iter().map(|one| one.concern.is_noticed()).collect();
    assert_eq!(is_noticed, [false, false, true]);
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
    let hands = ManualClock::at(begin + 1000);
    let (server, _) = hands.build(&options(vec![stapled]));
    for client in [client("a.example"), client("a.example").tls12()] {
        hands.move_to(begin + 1000);
        let sent = || client.connect(&server).expect("a handshake").ocsp;
        assert_eq!(Some(sent()), response);
        hands.move_to(begin + 1001);
        assert_eq!(sent(), [0; 0]);
    }
    assert_eq!(server.expiries(0).staples.loaded, 1);
    let bare = client("a.example").connect(&build(&simple()));
    assert_eq!(bare.expect("a handshake").ocsp, []);
}

#[test]
fn an_authority_is_answered_while_it_validates_and_nobody_else() {
    let options = simple();
    let server = build(&options);
    let is_answered = |name, protocols: &[&[u8]]| {
        let (config, _) = client(name).alpn(protocols).config();
        let hello = written(&mut client_connection(&config, name));
        let selected = server.select(&read_hello(&hello)).expect("a configuration");
        selected.alpn_protocols == [PROTOCOL]
    };
    let validate = |validations: &[(&str, [u8; 32])]| {
        let of = |(name, digest): &(&str, _)| ((*name).to_owned(), *digest);
        let validations: Vec<_> = validations.iter().map(of).collect();
        answer_validations(&options.challenges, &validations).expect("certificates");
    };
    assert!(!is_answered("a.example", &[PROTOCOL]));
    validate(&[("a.example", [7; 32]), ("192.0.2.1", [8; 32])]);
    assert!(is_answered("A.Example", &[PROTOCOL]));
    assert!(is_answered("1.2.0.192.in-addr.arpa", &[PROTOCOL]));
    assert!(!is_answered("b.example", &[PROTOCOL]));
    assert!(!is_answered("a.example", &[]));
    assert!(!is_answered("a.example", &[PROTOCOL, b"h2"]));
    validate(&[]);
    assert!(!is_answered("a.example", &[PROTOCOL]));
}

#[test]
fn a_placeholder_is_served_where_there_is_no_certificate() {
    let mut options = options(Vec::new());
    let names = vec!["a.example".to_owned(), "192.0.2.1".to_owned()];
    options.placeholder = Some(Placeholder { names, why: "it is missing".to_owned() });
    let (server, warnings) =
        Server::build(&options, "web", &new_resumption(), &SuiteOrder::default()).expect("one");
    assert!(warnings[0].to_string().contains("it is missing: a self-signed"), "{warnings:?}");
    assert_eq!(shown(&server, &client("a.example")).0, "a.example");
    assert_eq!(server.expiries(0).skipped, ["it is missing: a self-signed one is served"]);
    options.certificates = vec![certificate(&["b.example"], Key::EcdsaP256)];
    let server = build(&options);
    assert_eq!(shown(&server, &client("a.example")).0, "b.example");
    assert!(server.expiries(0).skipped.is_empty());
}
