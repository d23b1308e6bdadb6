//! Resumption of all three kinds, across reloads and not across services.

use rustls::client::{Resumption as ClientResumption, Tls12Resumption};

use super::*;
use crate::identity::AllowedIdentity;

fn resuming(client: &Client, by: Tls12Resumption) -> Arc<ClientConfig> {
    witnessed(client, by).0
}

fn witnessed(client: &Client, by: Tls12Resumption) -> (Arc<ClientConfig>, Arc<RecordingVerifier>) {
    let (config, witness) = client.config();
    let mut config = (*config).clone();
    config.resumption = ClientResumption::in_memory_sessions(16).tls12_resumption(by);
    (Arc::new(config), witness)
}

fn kind(server: &Server, config: &Arc<ClientConfig>) -> HandshakeKind {
    connect(server, config, "a.example").expect("a handshake").kind
}

/// Returns a client of `a.example` for each way to resume: by ticket of TLS 1.3, by ticket of TLS
/// 1.2, by session id.
fn ways() -> [(Client, Tls12Resumption); 3] {
    let (tickets, ids) = (Tls12Resumption::SessionIdOrTickets, Tls12Resumption::SessionIdOnly);
    [
        (client("a.example"), tickets),
        (client("a.example").tls12(), tickets),
        (client("a.example").tls12(), ids),
    ]
}

#[test]
fn every_kind_survives_a_reload_and_none_resumes_at_another_service() {
    let options = simple();
    for ((client, by), stored) in ways().into_iter().zip([0, 0, 1]) {
        let resumption = new_resumption();
        let config = resuming(&client, by);
        let before = build_as("web", &options, &resumption);
        assert_eq!(kind(&before, &config), HandshakeKind::Full);
        assert_eq!(resumption.session_counters().entries, stored);
        let after = build_as("web", &options, &resumption);
        assert_eq!(kind(&after, &config), HandshakeKind::Resumed);
        assert_eq!(kind(&before, &config), HandshakeKind::Resumed);
        let other = build_as("mail", &options, &resumption);
        assert_eq!(kind(&other, &config), HandshakeKind::Full);
    }
}

#[test]
fn tickets_survive_a_restart_with_the_same_secret_and_sessions_do_not() {
    let options = simple();
    let resumed = HandshakeKind::Resumed;
    let kinds = [resumed, resumed, HandshakeKind::Full];
    for ((client, by), kind_after) in ways().into_iter().zip(kinds) {
        let config = resuming(&client, by);
        assert_eq!(kind(&build(&options), &config), HandshakeKind::Full);
        assert_eq!(kind(&build(&options), &config), kind_after);
    }
}

/// Hosts of one farm prefer the suite that is cheaper on their kind of CPU.
#[test]
fn sessions_resume_between_hosts_with_and_without_instructions_for_aes() {
    let with_order = |has_aes, resumption: &Arc<Resumption>| {
        let order = SuiteOrder::for_cpu(has_aes);
        Server::build(&simple(), "web", resumption, &order).expect("a server").0
    };
    for has_aes in [true, false] {
        for (client, by) in ways() {
            let shares = ResumptionOptions::new([7; 32]);
            shares.tiers.open(|| {});
            let resumption = Arc::new(Resumption::new(&shares));
            let made = with_order(has_aes, &resumption);
            let config = resuming(&client, by);
            let full = connect(&made, &config, "a.example").expect("a handshake");
            let name = format!("{:?}", full.suite);
            assert_eq!((full.kind, name.contains("CHACHA20")), (HandshakeKind::Full, !has_aes));
            // Tickets go to another process, ids to one that shares the cache with its peers.
            let elsewhere = match by {
                Tls12Resumption::SessionIdOnly => Arc::clone(&resumption),
                _ => new_resumption(),
            };
            let other = with_order(!has_aes, &elsewhere);
            let resumed = connect(&other, &config, "a.example").expect("a handshake");
            assert_eq!((resumed.kind, resumed.suite), (HandshakeKind::Resumed, full.suite));
        }
    }
}

#[test]
fn nothing_resumes_where_it_is_off() {
    let mut off = simple();
    off.resumption = false;
    for (client, by) in ways() {
        let resumption = new_resumption();
        let config = resuming(&client, by);
        let server = build_as("web", &off, &resumption);
        assert_eq!(kind(&server, &config), HandshakeKind::Full);
        assert_eq!(kind(&server, &config), HandshakeKind::Full);
        assert_eq!(resumption.session_counters().entries, 0);
    }
}

/// Makes the second connections of a client with a certificate, one by each way, if the server was
/// `before` at the first one and is `after` at the second.
fn kinds_after(
    identity: &Leaf,
    before: &ServerOptions,
    after: &ServerOptions,
) -> Vec<Result<HandshakeKind, Failure>> {
    let second = |(client, by): (Client, Tls12Resumption)| {
        let resumption = new_resumption();
        let config = resuming(&client.identity(identity.clone()), by);
        let first = kind(&build_as("web", before, &resumption), &config);
        assert_eq!(first, HandshakeKind::Full);
        let after = build_as("web", after, &resumption);
        connect(&after, &config, "a.example").map(|outcome| outcome.kind)
    };
    ways().into_iter().map(second).collect()
}

/// RFC 5246 section 7.4.1.4.1: the schemes count only if a signature is made.
#[test]
fn a_session_of_tls_1_2_resumes_whatever_signatures_its_client_verifies() {
    for scheme in [
        SignatureScheme::RSA_PSS_SHA256,
        SignatureScheme::ECDSA_NISTP384_SHA384,
        SignatureScheme::from(0x0999),
    ] {
        for (client, by) in &ways()[1..] {
            let (config, witness) = witnessed(client, *by);
            let resumption = new_resumption();
            let server = build_as("web", &simple(), &resumption);
            assert_eq!(kind(&server, &config), HandshakeKind::Full);
            *witness.schemes.lock().unwrap() = vec![scheme];
            assert_eq!(kind(&server, &config), HandshakeKind::Resumed);
            // The session belongs to another service.
            let other = build_as("other", &simple(), &resumption);
            let failure = connect(&other, &config, "a.example").unwrap_err();
            let nothing = rustls::PeerIncompatible::NoSignatureSchemesInCommon;
            assert_eq!(failure.server(), nothing.into());
            // No session is offered.
            let (config, witness) = witnessed(client, *by);
            *witness.schemes.lock().unwrap() = vec![scheme];
            let failure = connect(&server, &config, "a.example").unwrap_err();
            assert_eq!(failure.refusal(), Refusal::no_common("signature scheme"));
        }
    }
}

#[test]
fn a_verified_client_resumes_while_its_certificate_is_good() {
    let alice = root().client("alice");
    for mode in [ClientMode::Required, ClientMode::Optional] {
        let options = verifying(mode);
        for kind in kinds_after(&alice, &options, &options) {
            assert_eq!(kind.unwrap(), HandshakeKind::Resumed);
        }
    }
}

#[test]
fn a_client_that_was_revoked_since_is_verified_in_full_and_refused() {
    let (alice, mallory) = (root().client("alice"), root().client("mallory"));
    let before = verifying(ClientMode::Required);
    let mut after = before.clone();
    after.client.crls = vec![pem("list.pem", &root().revocation_list(&[&mallory]))];
    for kind in kinds_after(&mallory, &before, &after) {
        let error = kind.expect_err("revoked").server();
        let revoked = rustls::CertificateError::Revoked;
        assert_eq!(error, rustls::Error::InvalidCertificate(revoked));
    }
    for kind in kinds_after(&alice, &before, &after) {
        assert_eq!(kind.unwrap(), HandshakeKind::Resumed);
    }
}

#[test]
fn a_client_that_is_allowed_no_more_does_not_resume() {
    let allowing = |name: &str| {
        let mut options = verifying(ClientMode::Optional);
        options.client.allow = vec![AllowedIdentity::CommonName(name.to_owned())];
        options
    };
    let (alice, before) = (root().client("alice"), verifying(ClientMode::Optional));
    for kind in kinds_after(&alice, &before, &allowing("bob")) {
        let error = kind.expect_err("not allowed").server();
        let denied = rustls::CertificateError::ApplicationVerificationFailure;
        assert_eq!(error, rustls::Error::InvalidCertificate(denied));
    }
    for kind in kinds_after(&alice, &before, &allowing("alice")) {
        assert_eq!(kind.unwrap(), HandshakeKind::Resumed);
    }
}

#[test]
fn a_client_whose_authority_is_trusted_no_more_does_not_resume() {
    let before = verifying(ClientMode::Optional);
    let mut after = before.clone();
    after.client.authorities = vec![pem("ca.pem", Authority::root("another").pem())];
    for kind in kinds_after(&root().client("alice"), &before, &after) {
        kind.expect_err("an unknown issuer");
    }
}

#[test]
fn no_certificate_is_known_where_none_is_asked_for() {
    let before = verifying(ClientMode::Required);
    for kind in kinds_after(&root().client("alice"), &before, &simple()) {
        assert_eq!(kind.unwrap(), HandshakeKind::Full);
    }
}

#[test]
fn a_client_without_a_certificate_resumes_where_it_may() {
    let optional = verifying(ClientMode::Optional);
    for (client, by) in ways() {
        let server = build(&optional);
        let config = resuming(&client, by);
        assert_eq!(kind(&server, &config), HandshakeKind::Full);
        assert_eq!(kind(&server, &config), HandshakeKind::Resumed);
    }
}

#[test]
fn verification_that_comes_with_a_reload_is_not_resumed_past() {
    let (options, verified) = (simple(), verifying(ClientMode::Required));
    let resumption = new_resumption();
    let config = resuming(&client("a.example"), Tls12Resumption::SessionIdOrTickets);
    let before = build_as("web", &options, &resumption);
    assert_eq!(kind(&before, &config), HandshakeKind::Full);
    let reloaded = build_as("web", &verified, &resumption);
    let failure = connect(&reloaded, &config, "a.example").expect_err("no certificate");
    assert_eq!(failure.server(), rustls::Error::NoCertificatesPresented);
}

#[test]
fn a_resumed_client_gets_the_next_ticket() {
    let server = build(&simple());
    let config = resuming(&client("a.example"), Tls12Resumption::SessionIdOrTickets);
    assert_eq!(kind(&server, &config), HandshakeKind::Full);
    // The client uses each ticket once (RFC 8446 appendix C.4).
    for _ in 0..3 {
        assert_eq!(kind(&server, &config), HandshakeKind::Resumed);
    }
}

fn cached(early_data_bytes_max: u32) -> ServerOptions {
    ServerOptions { tls13_sessions: Tls13Sessions::Cache { early_data_bytes_max }, ..simple() }
}

#[test]
fn a_session_of_the_cache_resumes_once_and_is_renewed() {
    for early_data_bytes_max in [0, 1000] {
        let resumption = new_resumption();
        let options = cached(early_data_bytes_max);
        let config = resuming(&client("a.example"), Tls12Resumption::SessionIdOrTickets);
        let before = build_as("web", &options, &resumption);
        assert_eq!(kind(&before, &config), HandshakeKind::Full);
        assert_eq!(resumption.session_counters().entries, 1);
        let after = build_as("web", &options, &resumption);
        for server in [&before, &after, &before] {
            assert_eq!(kind(server, &config), HandshakeKind::Resumed);
            assert_eq!(resumption.session_counters().entries, 1);
        }
        let other = build_as("mail", &options, &resumption);
        assert_eq!(kind(&other, &config), HandshakeKind::Full);
    }
}

#[test]
fn sessions_of_replaced_certificates_resume_unless_it_is_said_otherwise() {
    let old = simple();
    let mut renewed = simple();
    let lists = |change: fn(&mut ServerOptions, PemSource)| {
        let leaf = PemSource {
            place: "old.pem".into(),
            pem: old.certificates[0].chain_pem.clone().into(),
        };
        let mut options = renewed.clone();
        change(&mut options, leaf);
        options
    };
    let refusing = lists(|options, _| options.replaced.resume = false);
    let revoked = lists(|options, leaf| options.replaced.revoked = vec![leaf]);
    renewed.replaced.revoked = vec![PemSource {
        place: "another.pem".into(),
        pem: simple().certificates[0].chain_pem.clone().into(),
    }];
    for (client, by) in ways() {
        for (after, expected) in [
            (&renewed, HandshakeKind::Resumed),
            (&refusing, HandshakeKind::Full),
            (&revoked, HandshakeKind::Full),
        ] {
            let resumption = new_resumption();
            let config = resuming(&client, by);
            let before = build_as("web", &old, &resumption);
            assert_eq!(kind(&before, &config), HandshakeKind::Full);
            assert_eq!(kind(&before, &config), HandshakeKind::Resumed);
            // A renewed session keeps its original provenance, not that of the resumption.
            let after = build_as("web", after, &resumption);
            assert_eq!(kind(&after, &config), expected);
            assert_eq!(kind(&after, &config), HandshakeKind::Resumed);
        }
    }
}

#[test]
fn a_list_of_revoked_certificates_that_is_none_is_refused() {
    let mut options = simple();
    options.replaced.revoked = vec![pem("old.pem", "nothing")];
    let told = build_error(&options).to_string();
    assert!(told.contains("in `revoked`: old.pem: holds no certificate; "), "{told}");
    options.replaced.revoked = vec![PemSource {
        place: "old.pem".into(),
        pem: options.certificates[0].chain_pem.clone().into(),
    }];
    let built = Server::build(&options, "web", &new_resumption(), &SuiteOrder::default());
    let (_, warnings) = built.expect("a server");
    assert!(warnings[0].to_string().contains("and still served"), "{warnings:?}");
}

/// Handshakes with early data, by our own driver.
mod early {
    use telemetry::outcome::Reason;

    use super::*;
    use crate::handshake::{Handshake, HandshakeFault, HandshakeStep};
    use crate::secrets::first_record;

    /// Key log that records the secret of early data.
    #[derive(Debug, Default)]
    struct Keys(Mutex<Vec<u8>>);

    impl rustls::KeyLog for Keys {
        fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
            if label == "CLIENT_EARLY_TRAFFIC_SECRET" {
                *self.0.lock().expect("no panic") = secret.to_vec();
            }
        }
    }

    /// Returns a server that has read a hello with early data, and the secret of that data.
    fn begun() -> (Handshake, Vec<u8>) {
        let (handshake, keys, _) = begun_by(Group::ALL);
        (handshake, keys)
    }

    /// Like [`begun`], with other groups on the server since, and the client with its answer.
    fn begun_by(groups: &[Group]) -> (Handshake, Vec<u8>, ClientConnection) {
        let (resumption, mut options) = (new_resumption(), cached(1000));
        let before = build_as("web", &options, &resumption);
        options.groups = groups.to_vec();
        let server = build_as("web", &options, &resumption);
        let keys = Arc::new(Keys::default());
        let client = client("a.example").suites(&[Suite::Tls13Aes128GcmSha256]);
        let mut config = (*resuming(&client, Tls12Resumption::SessionIdOrTickets)).clone();
        config.enable_early_data = true;
        config.key_log = Arc::clone(&keys) as _;
        let config = Arc::new(config);
        assert_eq!(kind(&before, &config), HandshakeKind::Full);
        let mut client = client_connection(&config, "a.example");
        assert!(client.early_data().is_some());
        let mut hello = written(&mut client);
        let read = read_hello(&hello);
        let selected = server.select(&read).expect("a configuration");
        let mut handshake = Handshake::new(selected, &read).expect("a handshake");
        let mut answer = Vec::new();
        let step = handshake.advance(&mut hello, &mut answer).unwrap();
        assert!(!step.done);
        super::feed(&mut client, &answer).unwrap();
        let secret = keys.0.lock().expect("no panic").clone();
        (handshake, secret, client)
    }

    fn feed(
        handshake: &mut Handshake,
        mut bytes: Vec<u8>,
    ) -> Result<HandshakeStep, HandshakeFault> {
        handshake.advance(&mut bytes, &mut Vec::new())
    }

    const SUITE: Suite = Suite::Tls13Aes128GcmSha256;
    const HANDSHAKE: u8 = 22;
    const APPLICATION_DATA: u8 = 23;

    #[test]
    fn a_part_of_its_end_in_place_of_early_data_ends_the_handshake() {
        let (mut handshake, secret) = begun();
        let part = first_record(SUITE, &secret, &[5, 0, HANDSHAKE]);
        let fault = feed(&mut handshake, part).expect_err("no client does that");
        assert_eq!(fault.reason, Reason::ProtocolViolation);
    }

    #[test]
    fn nothing_is_skipped_within_a_message() {
        let (mut handshake, _, mut client) = begun_by(&[Group::Secp384r1]);
        let hello = written(&mut client);
        let record = hello.iter().position(|byte| *byte == HANDSHAKE).unwrap();
        let part = &hello[record + 5..][..100];
        let mut bytes = [&[HANDSHAKE, 3, 3, 0, 100][..], part].concat();
        bytes.extend([APPLICATION_DATA, 3, 3, 0, 30].iter().chain(&[0; 30]));
        let fault = feed(&mut handshake, bytes).expect_err("a message is one piece");
        assert_eq!(fault.reason, Reason::ProtocolViolation);
    }

    #[test]
    fn its_end_without_any_early_data_is_its_end() {
        let (mut handshake, secret) = begun();
        let end = first_record(SUITE, &secret, &[5, 0, 0, 0, HANDSHAKE]);
        let bytes = end.len();
        let step = feed(&mut handshake, end).unwrap();
        assert_eq!((step.consumed, step.done), (bytes, false));
        let mut early = Vec::new();
        handshake.take_early_data(&mut early);
        assert!(early.is_empty());
        // Later records are under other keys.
        let again = first_record(SUITE, &secret, &[APPLICATION_DATA]);
        let fault = feed(&mut handshake, again).expect_err("it does not open");
        assert_eq!(fault.reason, Reason::RecordInvalid);
    }

    #[test]
    fn early_data_comes_as_it_was_sent() {
        let (mut handshake, secret) = begun();
        let data = first_record(SUITE, &secret, &[7, 8, APPLICATION_DATA, 0, 0]);
        assert!(!handshake.can_seal());
        feed(&mut handshake, data).unwrap();
        let mut early = Vec::new();
        handshake.take_early_data(&mut early);
        assert_eq!(early, [7, 8]);
        assert!(handshake.can_seal() && handshake.agreed().unwrap().resumed);
    }
}
