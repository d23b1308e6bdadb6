//! Client certificates: required or optional, verified against a bundle and revocation lists.

use suite::openssl::fingerprint;
use suite::prelude::*;
use suite::proxy_header::ProxyHeader;

struct Club {
    site: Site,
    authority: Authority,
    service: Service,
    member: Leaf,
    revoked: Leaf,
    server: Server,
}

fn club(mode: &str) -> Club {
    let site = Site::new();
    let authority = Authority::root("club");
    let ca = authority.write(&site.directory, "club.pem");
    let (member, revoked) = (authority.client("member"), authority.client("revoked"));
    let list = site.write("list.pem", authority.revocation_list(&[&revoked]));
    let server = Server::start(Behaviour::Echo);
    let service = Service::new(&site, &server).tls(&format!(
        "client-certificates = {{ mode = '{mode}', ca = [{ca:?}], crl = [{list:?}] }}"
    ));
    Club { site, authority, service, member, revoked, server }
}

impl Club {
    fn serves(&self, certificate: &Leaf) -> bool {
        is_served(&Client::showing(&self.site, certificate), &self.service)
    }
}

/// Reports whether a client is served: in TLS 1.3 a refusal comes only after its own handshake.
fn is_served(client: &Client, service: &Service) -> bool {
    client.try_connect(service.address).is_ok_and(|mut connection| {
        connection.send(b"hi");
        connection.end();
        connection.read_to_end().is_ok_and(|echo| echo == b"hi")
    })
}

#[test]
fn a_required_certificate_must_be_there_and_verify() {
    let club = club("required");
    let lariat = club.service.start();
    assert!(club.serves(&club.member));
    assert!(!is_served(&Client::new(&club.site), &club.service));
    lariat.wait_for_reason("client-certificate-missing", 1);
    assert!(!club.serves(&club.revoked));
    lariat.wait_for_reason("client-certificate-revoked", 1);
    let line = lariat.wait_for_line(&["client-certificate-revoked"]);
    let detail = line["detail"].as_str().unwrap_or_default();
    for words in ["list.pem", "CN=revoked", "CN=club"] {
        assert!(detail.contains(words), "no {words}: {line}");
    }
    let stranger = Authority::root("stranger").client("member");
    assert!(!club.serves(&stranger));
    lariat.wait_for_reason("client-certificate-refused", 1);
}

#[test]
fn an_optional_certificate_may_be_missing_but_not_wrong() {
    let club = club("optional");
    let lariat = club.service.start();
    assert!(club.serves(&club.member));
    assert!(is_served(&Client::new(&club.site), &club.service));
    assert!(!club.serves(&club.revoked));
    lariat.wait_for_reason("client-certificate-revoked", 1);
}

/// Makes a service for clients of an intermediate authority, with lists of it and of its root.
fn chained(
    site: &Site,
    server: &Server,
    root: &Authority,
    lists: &[String],
    more: &str,
) -> Service {
    let ca = root.write(&site.directory, "root.pem");
    let list = site.write("lists.pem", lists.concat());
    Service::new(site, server).tls(&format!(
        "client-certificates = {{ mode = 'required', ca = [{ca:?}], crl = [{list:?}], {more} }}"
    ))
}

#[test]
fn a_client_below_a_revoked_intermediate_is_refused_from_the_reload_on() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let root = Authority::root("club root");
    let between = root.intermediate("club intermediate");
    let lists = |serials: &[u64]| {
        let of_root = root.revocation_list_for(serials, 1_704_153_600, 4_860_000_000);
        [between.revocation_list(&[]), of_root]
    };
    let service = chained(&site, &server, &root, &lists(&[]), "");
    let lariat = service.start();
    let client = Client::showing(&site, &between.client("member"));
    assert!(is_served(&client, &service));
    let revoking = lists(&[between.serial()]).concat();
    site.write("lists.pem", revoking);
    lariat.reload().success();
    // The client has a session, which ends with the intermediate.
    assert!(!is_served(&client, &service));
    lariat.wait_for_reason("client-certificate-revoked", 1);
}

#[test]
fn a_list_past_its_next_update_refuses_unless_it_is_accepted() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let root = Authority::root("club");
    let now = now_seconds();
    let list = [root.revocation_list_for(&[], now - 60, now + 6)];
    let service = chained(&site, &server, &root, &list, "");
    let lariat = service.start();
    let client = Client::showing(&site, &root.client("member"));
    until_true("the list to end", || now_seconds() >= now + 6);
    assert!(!is_served(&client, &service));
    lariat.wait_for_reason("crl-expired", 1);
    let line = lariat.wait_for_line(&["crl-expired"]);
    assert_eq!(line["fault"], "host", "{line}");
    lariat.wait_for_metric("lariat_crls_expired", &[("service", "web")], 1.0);
    lariat.wait_for_stderr("are refused");
    let lenient = chained(&site, &server, &root, &list, "crl-expired = 'accept'");
    let other = lenient.start();
    assert!(is_served(&client, &lenient));
    other.wait_for_stderr("past its nextUpdate");
}

/// Returns the output of `openssl s_client` with this certificate, until the service has ended.
fn shown(site: &Site, service: &Service, leaf: &Leaf, more: &[&str]) -> String {
    let certificate = site.write("shown.pem", leaf.pem());
    let path = certificate.to_str().expect("the test's own path");
    let arguments = [&["-cert", path, "-key", path, "-ign_eof"], more].concat();
    let finished = s_client(site, service.address, &arguments);
    finished.stdout + &finished.stderr
}

#[test]
fn a_certificate_enters_by_any_identity_that_is_listed_and_by_no_other() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Speak("welcome".into())));
    let root = Authority::root("club");
    let exact = root.client("by fingerprint");
    let print = site.write("exact.pem", exact.certificate_pem());
    let print = fingerprint(&print);
    let service = chained(
        &site,
        &server,
        &root,
        &[root.revocation_list(&[])],
        &format!(
            "allow = {{ dns = ['*.web.example'], uri = ['spiffe://td/web/*'], \
             email = ['ann@example.org'], cn = ['ops, night'], ou = ['Desk'], \
             fingerprint = ['{print}'] }}"
        ),
    );
    let lariat = service.start();
    let issue = |names: &[&str]| root.leaf(names).for_client().issue();
    let desk = root.leaf(&["x"]).unit("Desk").for_client().issue();
    let evil = ["spiffe://td/web/../ops", "a.b.web.example", "Ann@example.org"];
    let mallory = root.leaf(&evil).common_name("ops, night\", x").for_client().issue();
    let mut refused = 0;
    for version in ["-tls1_2", "-tls1_3"] {
        let is_served = |leaf: &Leaf| {
            let said = shown(&site, &service, leaf, &[version]);
            assert_ne!(said.contains("welcome"), said.contains("access denied"), "{said}");
            said.contains("welcome")
        };
        for names in
            [&["a.web.example"][..], &["x", "spiffe://td/web/a/1"], &["y", "ann@Example.org"]]
        {
            assert!(is_served(&issue(names)), "{names:?}");
        }
        assert!(is_served(&root.client("ops, night")));
        assert!(is_served(&desk) && is_served(&exact));
        for leaf in [&issue(&["web.example"]), &mallory] {
            assert!(!is_served(leaf));
            refused += 1;
            lariat.wait_for_reason("client-certificate-not-allowed", refused);
        }
    }
    let line = lariat.wait_for_line(&["client-certificate-not-allowed", "spiffe"]);
    let detail = line["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("uri \"spiffe://td/web/../ops\""), "{line}");
    assert_eq!(line["fault"], "client", "{line}");
}

#[test]
fn where_certificates_are_optional_one_that_is_shown_must_be_allowed() {
    let club = club("optional");
    let allow = "mode = 'optional', allow = { cn = ['member'] }";
    let lariat = Lariat::start(&club.service.toml().replace("mode = 'optional'", allow));
    assert!(club.serves(&club.member));
    assert!(is_served(&Client::new(&club.site), &club.service));
    assert!(!club.serves(&club.authority.client("other")));
    lariat.wait_for_reason("client-certificate-not-allowed", 1);
}

#[test]
fn a_session_made_before_a_reload_that_allows_fewer_does_not_enter() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Speak("welcome".into())));
    let root = Authority::root("club");
    let lists = [root.revocation_list(&[])];
    let service = chained(&site, &server, &root, &lists, "allow = { cn = ['ann', 'bob'] }");
    let lariat = service.start();
    let clients = ["ann", "bob"].map(|name| (name, root.client(name)));
    // Session id and ticket of TLS 1.2, and PSK.
    let ways: [&[&str]; 3] = [&["-tls1_2", "-no_ticket"], &["-tls1_2"], &["-tls1_3"]];
    let visit = |way: usize, (name, leaf): &(&str, Leaf), option: &str| {
        let session = site.path(&format!("{name}.{way}")).display().to_string();
        shown(&site, &service, leaf, &[ways[way], &[option, &session]].concat())
    };
    for way in 0..ways.len() {
        for client in &clients {
            assert!(visit(way, client, "-sess_out").contains("welcome"));
            assert!(visit(way, client, "-sess_in").contains("Reused, TLS"));
        }
    }
    lariat.reload_with(&service.toml().replace(", 'bob'", ""));
    for (way, refused) in (0..ways.len()).zip(1..) {
        let [ann, bob] = &clients;
        assert!(visit(way, ann, "-sess_in").contains("Reused, TLS"));
        let said = visit(way, bob, "-sess_in");
        assert!(said.contains("access denied") && !said.contains("welcome"), "{said}");
        lariat.wait_for_reason("client-certificate-not-allowed", refused);
        let labels = [("reason", "client-certificate")];
        lariat.wait_for_metric("lariat_resumption_misses_total", &labels, refused.into());
    }
}

#[test]
fn names_of_authorities_are_sent_unless_they_are_too_many_or_omitted() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let authority = Authority::root("club");
    let member = authority.client("member");
    let long = "n".repeat(600);
    let more: Vec<_> = (0..120).map(|number| Authority::root(&format!("{number}{long}"))).collect();
    let many: String = more.iter().map(Authority::pem).collect();
    let few = site.write("few.pem", authority.pem());
    let all = site.write("all.pem", many + authority.pem());
    for (ca, names, told) in [
        (&few, "send", "Acceptable client certificate CA names"),
        (&few, "omit", "No client certificate CA names sent"),
        (&all, "send", "No client certificate CA names sent"),
    ] {
        let service = Service::new(&site, &server).tls(&format!(
            "client-certificates = {{ mode = 'required', ca = [{ca:?}], ca-names = '{names}' }}"
        ));
        let lariat = service.start();
        s_client(&site, service.address, &["-tls1_2"]).assert_stdout(told);
        assert!(is_served(&Client::showing(&site, &member), &service));
        if ca == &all {
            lariat.wait_for_stderr("the names of the authorities in `ca` take ");
        }
    }
}

#[test]
fn a_server_is_told_of_the_certificate_at_a_resumption_too() {
    let mut club = club("required");
    let header = "send-proxy = { version = 'v2', client-certificate = 'der' }";
    club.service = club.service.back(header);
    let lariat = club.service.start();
    let client = Client::showing(&club.site, &club.member);
    assert_eq!(client.visit(club.service.address), HandshakeKind::Full);
    assert_eq!(client.visit(club.service.address), HandshakeKind::Resumed);
    let headers = [1, 2].map(|count| {
        let bytes = club.server.wait_for_end(count).bytes;
        ProxyHeader::read(&bytes).unwrap()
    });
    let [first, second] = headers.map(|header| header.ssl());
    // PP2_CLIENT_SSL, _CERT_CONN and _CERT_SESS; a resumption has only the last.
    assert_eq!((first.client, second.client), (7, 5));
    assert_eq!((first.verify, second.verify), (0, 0));
    assert_eq!(second.text(0x22).as_deref(), Some("member"));
    lariat.wait_for_line(&["\"handshake\":\"psk\"", "\"client_cn\":\"member\""]);
}

#[test]
fn a_client_that_is_revoked_is_refused_though_it_has_a_session() {
    let club = club("required");
    let lariat = club.service.start();
    let (member, other) = (
        Client::showing(&club.site, &club.member),
        Client::showing(&club.site, &club.authority.client("other")),
    );
    for client in [&member, &other] {
        assert_eq!(client.visit(club.service.address), HandshakeKind::Full);
        assert_eq!(client.visit(club.service.address), HandshakeKind::Resumed);
    }
    let list = club.authority.revocation_list(&[&club.member]);
    fs::write(club.site.path("list.pem"), list).unwrap();
    lariat.reload().success();
    assert_eq!(other.visit(club.service.address), HandshakeKind::Resumed);
    // In TLS 1.3 the client's own handshake is over before the server looks at its certificate.
    if let Ok(mut connection) = member.try_connect(club.service.address) {
        assert!(connection.read_to_end().is_err());
    }
    lariat.wait_for_reason("client-certificate-revoked", 1);
    let labels = [("reason", "client-certificate")];
    lariat.wait_for_metric("lariat_resumption_misses_total", &labels, 1.0);
}
