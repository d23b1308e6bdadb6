//! Resumption of all three kinds, across reloads and not across services.

use rustls::client::{Resumption as ClientResumption, Tls12Resumption};

use super::*;

fn resuming(client: &Client, by: Tls12Resumption) -> Arc<ClientConfig> {
    let (config, _) = client.config();
    let mut config = (*config).clone();
    config.resumption = ClientResumption::in_memory_sessions(16).tls12_resumption(by);
    Arc::new(config)
}

fn kind(server: &Server, config: &Arc<ClientConfig>) -> HandshakeKind {
    connect(server, config, "a.example")
        .expect("a handshake")
        .kind
}

#[test]
fn every_kind_survives_a_reload() {
    let options = simple();
    for (client, by, stored) in [
        (client("a.example"), Tls12Resumption::SessionIdOrTickets, 0),
        (
            client("a.example").tls12(),
            Tls12Resumption::SessionIdOrTickets,
            0,
        ),
        (
            client("a.example").tls12(),
            Tls12Resumption::SessionIdOnly,
            1,
        ),
    ] {
        let resumption = new_resumption();
        let config = resuming(&client, by);
        let before = build_as("web", &options, &resumption);
        assert_eq!(kind(&before, &config), HandshakeKind::Full);
        assert_eq!(resumption.session_counters().entries, stored);
        let after = build_as("web", &options, &resumption);
        assert_eq!(kind(&after, &config), HandshakeKind::Resumed);
        assert_eq!(kind(&before, &config), HandshakeKind::Resumed);
    }
}

#[test]
fn tickets_survive_a_restart_with_the_same_secret_and_sessions_do_not() {
    let options = simple();
    for (client, by, kind_after) in [
        (
            client("a.example"),
            Tls12Resumption::SessionIdOrTickets,
            HandshakeKind::Resumed,
        ),
        (
            client("a.example").tls12(),
            Tls12Resumption::SessionIdOrTickets,
            HandshakeKind::Resumed,
        ),
        (
            client("a.example").tls12(),
            Tls12Resumption::SessionIdOnly,
            HandshakeKind::Full,
        ),
    ] {
        let config = resuming(&client, by);
        let before = build_as("web", &options, &new_resumption());
        assert_eq!(kind(&before, &config), HandshakeKind::Full);
        let after = build_as("web", &options, &new_resumption());
        assert_eq!(kind(&after, &config), kind_after);
    }
}

#[test]
fn nothing_resumes_at_another_service() {
    let options = simple();
    for (client, by) in [
        (client("a.example"), Tls12Resumption::SessionIdOrTickets),
        (
            client("a.example").tls12(),
            Tls12Resumption::SessionIdOrTickets,
        ),
        (client("a.example").tls12(), Tls12Resumption::SessionIdOnly),
    ] {
        let resumption = new_resumption();
        let config = resuming(&client, by);
        assert_eq!(
            kind(&build_as("web", &options, &resumption), &config),
            HandshakeKind::Full
        );
        assert_eq!(
            kind(&build_as("mail", &options, &resumption), &config),
            HandshakeKind::Full
        );
    }
}

#[test]
fn nothing_resumes_where_it_is_off_or_clients_are_verified() {
    let mut off = simple();
    off.resumption = false;
    let mut verified = simple();
    verified.client.mode = ClientMode::Optional;
    verified.client.authorities = vec![pem("ca.pem", root().pem())];
    for options in [off, verified] {
        for (client, by) in [
            (client("a.example"), Tls12Resumption::SessionIdOrTickets),
            (
                client("a.example").tls12(),
                Tls12Resumption::SessionIdOrTickets,
            ),
            (client("a.example").tls12(), Tls12Resumption::SessionIdOnly),
        ] {
            let resumption = new_resumption();
            let config = resuming(&client, by);
            let server = build_as("web", &options, &resumption);
            assert_eq!(kind(&server, &config), HandshakeKind::Full);
            assert_eq!(kind(&server, &config), HandshakeKind::Full);
            assert_eq!(resumption.session_counters().entries, 0);
        }
    }
}

#[test]
fn verification_that_comes_with_a_reload_is_not_resumed_past() {
    let options = simple();
    let mut verified = options.clone();
    verified.client.mode = ClientMode::Required;
    verified.client.authorities = vec![pem("ca.pem", root().pem())];
    let resumption = new_resumption();
    let config = resuming(&client("a.example"), Tls12Resumption::SessionIdOrTickets);
    assert_eq!(
        kind(&build_as("web", &options, &resumption), &config),
        HandshakeKind::Full
    );
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
