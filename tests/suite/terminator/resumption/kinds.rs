//! Sessions are resumed: by PSK, by ticket, by session id; after a reload too.

use suite::prelude::*;

#[test]
fn both_versions_resume_also_after_a_reload() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    for client in Client::of_each_version(&site) {
        assert_eq!(client.visit(service.address), HandshakeKind::Full);
        assert_eq!(client.visit(service.address), HandshakeKind::Resumed);
        lariat.reload().success();
        assert_eq!(client.visit(service.address), HandshakeKind::Resumed);
    }
    let count = |kind| lariat.sum("lariat_handshakes_total", &[("kind", kind)]);
    assert_eq!((count("psk"), count("full")), (2.0, 2.0));
}

#[test]
fn resumption_can_be_switched_off() {
    let (site, _server, service, _lariat) =
        serve_as(Behaviour::Echo, |service| service.tls("resumption = false"));
    for client in Client::of_each_version(&site) {
        assert_eq!(client.visit(service.address), HandshakeKind::Full);
        assert_eq!(client.visit(service.address), HandshakeKind::Full);
    }
}

#[test]
fn sessions_of_tls13_in_the_cache_resume_once_after_whatever_happens() {
    let (site, _server, service, lariat) =
        serve_with("[workers]\nthreads = 2\n[resumption]\ntls13 = 'cache'", Behaviour::Echo);
    let client = Client::new(&site);
    assert_eq!(client.visit(service.address), HandshakeKind::Full);
    for _ in 0..4 {
        assert_eq!(client.visit(service.address), HandshakeKind::Resumed);
    }
    lariat.reload().success();
    assert_eq!(client.visit(service.address), HandshakeKind::Resumed);
    let kind = [("kind", "psk-cache")];
    lariat.wait_for_metric("lariat_handshakes_total", &kind, 5.0);
    // One connection, one session: the used one is gone.
    lariat.wait_for_metric("lariat_session_cache_entries", &[], 1.0);
    lariat.kill_worker_process();
    assert_eq!(client.visit(service.address), HandshakeKind::Resumed);
    let status = lariat.status();
    let metrics = &status["process"]["metrics"];
    assert_eq!(metrics["session_cache_recovered"], 1);
    // Results that never occurred are left out.
    assert!(metrics["session_cache_lookups"]["damaged"].is_null());
}

#[test]
fn a_session_in_the_cache_is_good_for_one_connection() {
    let (site, _server, service, lariat) =
        serve_with("[resumption]\ntls13 = 'cache'", Behaviour::Speak(b"hi".to_vec()));
    let file = site.path("session");
    let file = file.to_str().unwrap();
    let visit = |options: &[&str]| {
        let options = [&["-tls1_3", "-ign_eof"], options].concat();
        s_client(&site, service.address, &options).success()
    };
    assert!(visit(&["-sess_out", file]).contains("New, TLSv1.3"));
    assert!(visit(&["-sess_in", file]).contains("Reused, TLSv1.3"));
    assert!(visit(&["-sess_in", file]).contains("New, TLSv1.3"));
    let unknown = [("reason", "unknown")];
    lariat.wait_for_metric("lariat_resumption_misses_total", &unknown, 1.0);
}

#[test]
fn a_session_of_a_revoked_certificate_is_not_resumed() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    let clients = [Client::tls12(&site), Client::without_tickets(&site), Client::new(&site)];
    for client in &clients {
        assert_eq!(client.visit(service.address), HandshakeKind::Full);
        assert_eq!(client.visit(service.address), HandshakeKind::Resumed);
    }
    fs::copy(site.path("site.pem"), site.path("old.pem")).unwrap();
    let leaf = site.authority.leaf(&["localhost"]).issue();
    fs::write(site.path("site.pem"), leaf.pem()).unwrap();
    lariat.reload().success();
    for client in &clients {
        assert_eq!(client.visit(service.address), HandshakeKind::Resumed);
    }
    let revoked = format!("revoked = [{:?}]", site.path("old.pem"));
    lariat.reload_with(&service.clone().tls(&revoked).toml());
    for client in &clients {
        assert_eq!(client.visit(service.address), HandshakeKind::Full);
        assert_eq!(client.visit(service.address), HandshakeKind::Resumed);
    }
    let reason = [("reason", "server-certificate")];
    lariat.wait_for_metric("lariat_resumption_misses_total", &reason, 3.0);
}

#[test]
fn a_reload_changes_the_limits_of_the_cache() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    let clients = [(); 2].map(|()| Client::without_tickets(&site));
    let kinds = || clients.each_ref().map(|client| client.visit(service.address));
    assert_eq!(kinds(), [HandshakeKind::Full; 2]);
    assert_eq!(kinds(), [HandshakeKind::Resumed; 2]);
    let small = "[resumption]\nsession-cache = { entries = 1 }\n";
    lariat.reload_with(&format!("{small}{}", service.toml()));
    assert_eq!(kinds(), [HandshakeKind::Full; 2]);
    lariat.wait_for_metric("lariat_session_cache_entries", &[], 1.0);
    assert_eq!(clients[1].visit(service.address), HandshakeKind::Resumed);
    // A client that comes after a crash finds the sessions made after the reload.
    lariat.kill_worker_process();
    assert_eq!(clients[1].visit(service.address), HandshakeKind::Resumed);
}
