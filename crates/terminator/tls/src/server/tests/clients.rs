//! Client certificates.

use super::*;
use crate::options::ExpiredLists;
use crate::verify::{ClientCertificateFault, VerifyConcern, VerifyFault};

fn verifying(mode: ClientMode) -> ServerOptions {
    let mut options = simple();
    options.client.mode = mode;
    options.client.authorities = vec![pem("ca.pem", root().pem())];
    options
}

fn refused(options: &ServerOptions, client: Client) -> ClientCertificateFault {
    let server = build(options);
    let both = [client.connect(&server), {
        let older = Client {
            versions: vec![&rustls::version::TLS12],
            ..client
        };
        older.connect(&server)
    }];
    let [newer, older] = both.map(|result| {
        let error = result.expect_err("refused").server();
        ClientCertificateFault::of(&error).unwrap_or_else(|| panic!("of another kind: {error:?}"))
    });
    assert_eq!(newer, older);
    newer
}

fn accepted(options: &ServerOptions, client: &Client) -> bool {
    client.connect(&build(options)).is_ok()
}

#[test]
fn a_required_certificate_must_be_there_and_verify() {
    let required = verifying(ClientMode::Required);
    let known = client("a.example").identity(root().client("alice"));
    assert!(accepted(&required, &known));
    let missing = client("a.example").connect(&build(&required));
    let missing = missing.expect_err("refused").server();
    assert_eq!(missing, rustls::Error::NoCertificatesPresented);
    let stranger = Authority::root("another").client("mallory");
    assert_eq!(
        refused(&required, client("a.example").identity(stranger)),
        ClientCertificateFault::UnknownIssuer
    );
}

#[test]
fn an_optional_certificate_may_be_missing_but_not_bad() {
    let optional = verifying(ClientMode::Optional);
    assert!(accepted(&optional, &client("a.example")));
    assert!(accepted(
        &optional,
        &client("a.example").identity(root().client("alice"))
    ));
    let stranger = Authority::root("another").client("mallory");
    assert_eq!(
        refused(&optional, client("a.example").identity(stranger)),
        ClientCertificateFault::UnknownIssuer
    );
}

#[test]
fn what_is_wrong_with_a_certificate_is_told_apart() {
    let required = verifying(ClientMode::Required);
    let expired = root().leaf(&["alice"]).expired().issue();
    assert_eq!(
        refused(&required, client("a.example").identity(expired)),
        ClientCertificateFault::Expired
    );
    let servers = root().leaf(&["alice"]).issue();
    assert_eq!(
        refused(&required, client("a.example").identity(servers)),
        ClientCertificateFault::WrongPurpose
    );
}

#[test]
fn a_revoked_client_is_refused() {
    let (alice, mallory) = (root().client("alice"), root().client("mallory"));
    let mut required = verifying(ClientMode::Required);
    assert!(accepted(
        &required,
        &client("a.example").identity(mallory.clone())
    ));
    required.client.crls = vec![pem("list.pem", &root().revocation_list(&[&mallory]))];
    assert!(accepted(&required, &client("a.example").identity(alice)));
    assert_eq!(
        refused(&required, client("a.example").identity(mallory)),
        ClientCertificateFault::Revoked
    );
}

#[test]
fn with_lists_an_issuer_without_one_is_refused() {
    let second = Authority::root("second root");
    let mut required = verifying(ClientMode::Required);
    required
        .client
        .authorities
        .push(pem("second.pem", second.pem()));
    assert!(accepted(
        &required,
        &client("a.example").identity(second.client("bob"))
    ));
    required.client.crls = vec![pem("list.pem", &root().revocation_list(&[]))];
    assert!(accepted(
        &required,
        &client("a.example").identity(root().client("alice"))
    ));
    assert_eq!(
        refused(
            &required,
            client("a.example").identity(second.client("bob"))
        ),
        ClientCertificateFault::RevocationUnknown
    );
}

/// Root, intermediate and client, with lists of whom the caller wants.
struct Chain {
    root: Authority,
    between: Authority,
    alice: Leaf,
}

impl Chain {
    fn new() -> Self {
        let root = Authority::root("chain root");
        let between = root.intermediate("chain intermediate");
        let alice = between.client("alice");
        Self {
            root,
            between,
            alice,
        }
    }

    fn options(&self, lists: &[String]) -> ServerOptions {
        let mut options = verifying(ClientMode::Required);
        options.client.authorities = vec![pem("ca.pem", self.root.pem())];
        let named = lists.iter().enumerate();
        options.client.crls = named
            .map(|(number, list)| pem(&format!("list-{number}.pem"), list))
            .collect();
        options
    }

    fn client(&self) -> Client {
        client("a.example").identity(self.alice.clone())
    }
}

/// Why the last handshake refused its client's certificate.
fn refusal() -> Option<String> {
    context::with(|context| context.refusal.take())
}

#[test]
fn a_client_below_a_revoked_intermediate_is_refused() {
    let chain = Chain::new();
    let of_root = |serials: &[u64]| chain.root.revocation_list_for(serials, 0, 4_000_000_000);
    let of_between = chain.between.revocation_list(&[]);
    let lists = [of_between.clone(), of_root(&[])];
    assert!(accepted(&chain.options(&lists), &chain.client()));
    // The root's list alone says nothing of the client's own certificate.
    assert_eq!(
        refused(&chain.options(&[of_root(&[])]), chain.client()),
        ClientCertificateFault::RevocationUnknown
    );
    // The intermediate's list alone is enough: the root has none.
    assert!(accepted(&chain.options(&lists[..1]), &chain.client()));
    let revoking = [of_between, of_root(&[chain.between.serial()])];
    assert_eq!(
        refused(&chain.options(&revoking), chain.client()),
        ClientCertificateFault::Revoked
    );
    assert_eq!(
        refusal().as_deref(),
        Some("revoked by list-1.pem: subject \"CN=chain intermediate\", issuer \"CN=chain root\"")
    );
}

#[test]
fn a_session_ends_with_the_intermediate_of_its_client() {
    let chain = Chain::new();
    let resumption = new_resumption();
    let both = |serials: &[u64]| {
        let of_root = chain.root.revocation_list_for(serials, 0, 4_000_000_000);
        chain.options(&[chain.between.revocation_list(&[]), of_root])
    };
    for client in [chain.client(), chain.client().tls12()] {
        let (config, _) = client.config();
        let kind = |options: &ServerOptions| {
            let server = build_as("web", options, &resumption);
            connect(&server, &config, "a.example").map(|outcome| outcome.kind)
        };
        assert_eq!(kind(&both(&[])).ok(), Some(HandshakeKind::Full));
        assert_eq!(kind(&both(&[])).ok(), Some(HandshakeKind::Resumed));
        let refusal = kind(&both(&[chain.between.serial()])).expect_err("refused");
        assert_eq!(
            ClientCertificateFault::of(&refusal.server()),
            Some(ClientCertificateFault::Revoked)
        );
    }
}

/// Seconds of Unix time in 2026, when all test certificates are valid.
const NOW: u64 = 1_782_000_000;
const DAY: u64 = 24 * 60 * 60;

#[test]
fn a_list_past_its_next_update_refuses_while_the_server_runs() {
    let chain = Chain::new();
    let of_root = chain
        .root
        .revocation_list_for(&[], NOW - DAY, NOW + 9 * DAY);
    let of_between = chain.between.revocation_list_for(&[], NOW - DAY, NOW + DAY);
    let mut options = chain.options(&[of_between, of_root]);
    for version in rustls::ALL_VERSIONS {
        let hands = Hands::at(NOW);
        let (server, _) = hands.build(&options);
        let mut client = chain.client();
        client.versions = vec![version];
        let (config, _) = client.config();
        let connect = || connect(&server, &config, "a.example");
        assert_eq!(connect().expect("served").kind, HandshakeKind::Full);
        hands.move_to(NOW + DAY - 1);
        assert_eq!(connect().expect("served").kind, HandshakeKind::Resumed);
        // The session that it would resume is refused as well, and then the certificate.
        hands.move_to(NOW + DAY);
        let error = connect().expect_err("refused").server();
        let fault = ClientCertificateFault::of(&error);
        assert_eq!(fault, Some(ClientCertificateFault::ListExpired));
        let words = refusal().expect("words");
        assert!(
            words.contains("list-0.pem") && words.contains("CN=alice"),
            "{words}"
        );
    }
    options.client.expired_lists = ExpiredLists::Accept;
    let (server, warnings) = Hands::at(NOW + 10 * DAY).build(&options);
    assert!(chain.client().connect(&server).is_ok());
    let concerns: Vec<_> = warnings.into_iter().map(|one| one.concern).collect();
    assert!(
        matches!(
            concerns[..],
            [
                Concern::Verify(VerifyConcern::ListExpired { refuses: false, .. }),
                Concern::Verify(VerifyConcern::ListExpired { .. })
            ]
        ),
        "{concerns:?}"
    );
}

#[test]
fn of_one_issuers_lists_the_newest_counts() {
    let chain = Chain::new();
    let list = |serials: &[u64], begin| {
        chain
            .between
            .revocation_list_for(serials, begin, begin + 2 * DAY)
    };
    let old = list(&[], NOW - 3 * DAY);
    let newer = list(&[chain.alice.serial()], NOW - DAY);
    for lists in [[old.clone(), newer.clone()], [newer, old]] {
        let (server, warnings) = Hands::at(NOW).build(&chain.options(&lists));
        let error = chain.client().connect(&server).expect_err("refused");
        let fault = ClientCertificateFault::of(&error.server());
        assert_eq!(fault, Some(ClientCertificateFault::Revoked));
        assert_eq!(warnings, [], "nobody is told of the old one");
    }
}

#[test]
fn an_error_about_something_else_is_not_about_the_certificate() {
    assert_eq!(
        ClientCertificateFault::of(&rustls::Error::DecryptError),
        None
    );
}

#[test]
fn bad_bundles_and_lists_are_named() {
    let fault = |change: &dyn Fn(&mut ServerOptions)| {
        let mut options = verifying(ClientMode::Required);
        change(&mut options);
        match build_error(&options).fault {
            BuildFault::Verify(fault) => fault,
            other => panic!("{other:?}"),
        }
    };
    let place = || "x.pem".to_owned();
    let bad_der = "-----BEGIN CERTIFICATE-----\nMAMCAQA=\n-----END CERTIFICATE-----\n";
    let bad_list = "-----BEGIN X509 CRL-----\nMAMCAQA=\n-----END X509 CRL-----\n";
    let authorities = |text: &'static str| {
        fault(&move |options| options.client.authorities = vec![pem("x.pem", text)])
    };
    let lists =
        |text: &'static str| fault(&move |options| options.client.crls = vec![pem("x.pem", text)]);
    assert_eq!(
        fault(&|options| options.client.authorities.clear()),
        VerifyFault::NoAuthority
    );
    assert_eq!(
        authorities(""),
        VerifyFault::NoCertificate { place: place() }
    );
    let malformed = VerifyFault::AuthorityMalformed {
        place: place(),
        index: 0,
    };
    assert_eq!(authorities(bad_der), malformed);
    assert!(matches!(
        authorities(&bad_der[..40]),
        VerifyFault::Pem { .. }
    ));
    assert_eq!(lists(""), VerifyFault::NoList { place: place() });
    assert_eq!(
        lists(bad_list),
        VerifyFault::ListMalformed {
            place: place(),
            index: 0
        }
    );
}
