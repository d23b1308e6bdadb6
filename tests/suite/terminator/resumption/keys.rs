//! Ticket keys from files and from a secret: shared between hosts, and changed by a reload.

use suite::prelude::*;

/// Returns the handshakes at a second host after the first, by each host's `tickets`.
fn at_another_host(site: &Site, tickets: [&str; 2]) -> [HandshakeKind; 2] {
    let server = Server::start(Behaviour::Echo);
    let (one, other) = (Service::new(site, &server), Service::new(site, &server));
    let configuration = |tickets, service: &Service| {
        format!("[resumption]\ntickets = {tickets}\n{}", service.toml())
    };
    let _hosts = [
        Lariat::start(&configuration(tickets[0], &one)),
        Lariat::start(&configuration(tickets[1], &other)),
    ];
    // The client takes both for one host.
    Client::of_each_version(site).map(|client| {
        assert_eq!(client.visit(one.address), HandshakeKind::Full);
        client.visit(other.address)
    })
}

#[test]
fn hosts_with_the_same_secret_resume_each_others_sessions() {
    let site = Site::new();
    let (a, b) = (site.path("a"), site.path("b"));
    fs::write(&a, "q".repeat(64)).unwrap();
    fs::write(&b, "p".repeat(64)).unwrap();
    let (a, b) = (format!("{{ secret = {a:?} }}"), format!("{{ secret = {b:?} }}"));
    assert_eq!(at_another_host(&site, [&a, &a]), [HandshakeKind::Resumed; 2]);
    assert_eq!(at_another_host(&site, [&a, &b]), [HandshakeKind::Full; 2]);
    assert_eq!(at_another_host(&site, [&a, "{}"]), [HandshakeKind::Full; 2]);
}

#[test]
fn keys_as_nginx_has_them_roll_over_without_a_full_handshake() {
    let site = Site::new();
    let paths = [1, 2].map(|number| {
        let path = site.path(&format!("{number}.key"));
        fs::write(&path, [number; 48]).unwrap();
        path
    });
    let [old, new] = paths;
    let both = format!("{{ keys = [{new:?}, {old:?}] }}");
    let before = format!("{{ keys = [{old:?}] }}");
    let after = format!("{{ keys = [{new:?}] }}");
    assert_eq!(at_another_host(&site, [&before, &both]), [HandshakeKind::Resumed; 2]);
    assert_eq!(at_another_host(&site, [&both, &after]), [HandshakeKind::Resumed; 2]);
    assert_eq!(at_another_host(&site, [&before, &after]), [HandshakeKind::Full; 2]);
}

#[test]
fn of_keys_as_haproxy_has_them_the_last_but_one_encrypts() {
    let site = Site::new();
    let line = |letter: &str| letter.repeat(64);
    let file = |name: &str, letters: &[&str]| {
        let path = site.path(name);
        let lines: Vec<_> = letters.iter().map(|letter| line(letter)).collect();
        fs::write(&path, lines.join("\n")).unwrap();
        format!("{{ keys = [{path:?}] }}")
    };
    let first = file("first", &["A", "B", "C"]);
    let next = file("next", &["B", "C", "D"]);
    let penultimate = file("penultimate", &["B"]);
    let last = file("last", &["C"]);
    assert_eq!(at_another_host(&site, [&first, &next]), [HandshakeKind::Resumed; 2]);
    assert_eq!(at_another_host(&site, [&first, &penultimate]), [HandshakeKind::Resumed; 2]);
    assert_eq!(at_another_host(&site, [&first, &last]), [HandshakeKind::Full; 2]);
}

#[test]
fn a_reload_with_a_bad_file_keeps_the_keys() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let path = site.path("tickets.key");
    fs::write(&path, [1; 80]).unwrap();
    let configuration = format!("[resumption]\ntickets = {{ keys = [{path:?}] }}\n");
    let lariat = Lariat::start(&(configuration + &service.toml()));
    let client = Client::new(&site);
    assert_eq!(client.visit(service.address), HandshakeKind::Full);
    fs::write(&path, [1; 79]).unwrap();
    let refused = lariat.reload();
    assert_ne!(refused.code(), 0);
    refused.assert_stderr("tickets.key");
    assert_eq!(client.visit(service.address), HandshakeKind::Resumed);
}

#[test]
fn as_many_tickets_come_as_are_asked_for_by_the_configuration() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let configuration =
        |count| format!("[resumption]\ntickets = {{ count = {count} }}\n{}", service.toml());
    let lariat = Lariat::start(&configuration(0));
    let client = Client::new(&site);
    assert_eq!(client.visit(service.address), HandshakeKind::Full);
    assert_eq!(client.visit(service.address), HandshakeKind::Full);
    lariat.reload_with(&configuration(2));
    assert_eq!(client.visit(service.address), HandshakeKind::Full);
    // Two connections that are open at once take a ticket each.
    let both = [client.connect(service.address), client.connect(service.address)];
    assert_eq!(both.map(|one| one.kind()), [HandshakeKind::Resumed; 2]);
}

#[test]
fn the_ages_of_the_keys_are_told() {
    let (_site, _server, _service, lariat) = serve(Behaviour::Echo);
    let page = lariat.metrics();
    let hour = 3600.0;
    let age = page.sum("lariat_ticket_key_age_seconds", &[("purpose", "encrypt")]);
    assert!((0.0..12.0 * hour).contains(&age), "{age}");
    // The next one, which is not yet in use, and four older ones.
    let others = page.sum("lariat_ticket_key_age_seconds", &[("purpose", "decrypt")]);
    assert!((others - 4.0 * age - 12.0 * hour * 10.0).abs() < 5.0, "{others}");
}
