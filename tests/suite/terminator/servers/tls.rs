//! TLS is originated towards servers: they are verified, and their bytes are relayed.

use suite::openssl::key_hash;
use suite::prelude::*;
use testkit::authority::Trait;

/// Makes a service before one server that speaks TLS, with these keys of `back.tls`.
fn service(site: &Site, server: &SServer, keys: &str) -> Service {
    Service::new(site, server.address).back(&format!("tls = {{ {keys} }}"))
}

fn trusting(site: &Site) -> String {
    format!("ca = [{:?}]", site.ca())
}

/// Adds one worker, so that the second connection finds the first one's session.
fn one_worker(service: &Service) -> String {
    format!("{}\n[workers]\nthreads = 1\n", service.toml())
}

/// Returns keys of `back` for checks of this kind, which come often and decide at once.
fn check(kind: &str) -> String {
    format!("check = {{ kind = '{kind}', interval = '100ms', timeout = '5s', fall = 1, rise = 1 }}")
}

fn page(site: &Site, service: &Service) -> String {
    curl_tls(site, service.address).run().success()
}

/// Reports whether a request fails, without a byte of plaintext for the server to misread.
fn is_refused(site: &Site, service: &Service) -> bool {
    !curl_tls(site, service.address).run().status.success()
}

#[test]
fn a_verified_server_is_reached_by_either_version() {
    let site = Site::new();
    for (argument, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let server = SServer::start(&site, "site.pem", &["-www", argument]);
        let service = service(&site, &server, &trusting(&site));
        let _lariat = service.start();
        assert_has(page(&site, &service), version);
    }
}

#[test]
fn a_server_that_cannot_prove_itself_is_refused() {
    let site = Site::new();
    let stranger = Authority::root("somebody else");
    let write = |leaf: Leaf, name: &str| leaf.write(&site.directory, name);
    let own = |names: &[&str]| site.authority.leaf(names);
    write(own(&["127.0.0.1"]).expired().issue(), "expired.pem");
    write(own(&["other.example"]).issue(), "named.pem");
    write(stranger.leaf(&["127.0.0.1"]).issue(), "unknown.pem");
    let revoked = own(&["127.0.0.1"]).issue();
    let list = site.authority.revocation_list(&[&revoked]);
    let list = site.write("ca.crl", &list);
    write(revoked, "revoked.pem");
    let with_list = format!("{}, crl = [{list:?}]", trusting(&site));
    let wrong_pin = format!("sha256//{}=", "A".repeat(43));
    let with_pin = format!("{}, pins = ['{wrong_pin}']", trusting(&site));
    for (certificate, keys, reason, words) in [
        ("expired.pem", trusting(&site), "server-certificate-expired", "the chain has expired"),
        ("named.pem", trusting(&site), "server-certificate-name", "other.example"),
        ("unknown.pem", trusting(&site), "server-certificate-untrusted", "somebody else"),
        ("revoked.pem", with_list, "server-certificate-revoked", "ca.crl"),
        ("site.pem", with_pin, "server-certificate-untrusted", "none of `pins`"),
    ] {
        let server = SServer::start(&site, certificate, &["-www"]);
        let service = service(&site, &server, &keys);
        let lariat = service.start();
        assert!(is_refused(&site, &service), "{certificate}");
        let line = lariat.wait_for_line(&[reason, words]);
        let up = [("direction", "client-to-backend")];
        let counted = lariat.sum("lariat_relayed_bytes_total", &up);
        assert_eq!((&line["bytes_up"], counted), (&0.into(), 0.0), "no server got any");
        server.wait_for("alert");
    }
}

#[test]
fn a_stream_that_the_client_cuts_is_no_fault_of_a_server_that_complains() {
    let site = Site::new();
    let server = SServer::start(&site, "site.pem", &["-rev"]);
    let service = service(&site, &server, &trusting(&site));
    let lariat = service.start();
    let mut connection = Client::new(&site).connect(service.address);
    connection.send(b"ab\n");
    assert_eq!(connection.receive(3), b"ba\n");
    connection.socket().shutdown(Shutdown::Write).unwrap();
    // OpenSSL answers with the alert decode_error.
    lariat.wait_for_reason("client-truncated", 1);
}

/// Servers that break the handshake in every way: each is given up, and the next one serves.
#[test]
fn a_server_that_fails_in_the_handshake_is_given_up_for_the_next() {
    let site = Site::new();
    let good = SServer::start(&site, "site.pem", &["-www"]);
    let mute = "timeouts = { dial = '2s' }";
    for (behaviour, reason) in [
        (Behaviour::Hang, "server-tls-timeout"),
        (Behaviour::Greet(b"220 plain text\r\n".to_vec()), "server-tls-failed"),
        (Behaviour::Greet(vec![22, 3, 3, 255, 255, 0]), "server-tls-failed"),
        (Behaviour::Greet(vec![21, 3, 3, 0, 2, 2, 40]), "server-tls-failed"),
        (Behaviour::Reset, "server-tls-failed"),
        // The server ends amid its ServerHello.
        (Behaviour::Speak(vec![22, 3, 3, 0, 90, 2, 0, 0, 86, 3, 3]), "server-tls-failed"),
    ] {
        let bad = Server::start(behaviour);
        let both = format!("['{}', '{}']", bad.address(), good.address);
        let service = Service::new(&site, &bad)
            .servers(&both)
            .more(mute)
            .back(&format!("tls = {{ {} }}", trusting(&site)));
        let lariat = service.start();
        for _ in 0..3 {
            assert_has(page(&site, &service), "TLSv1.3");
        }
        let failed = [("server", bad.address())];
        assert!(lariat.sum("lariat_dial_failures_total", &failed) >= 1.0, "{reason}");

        let alone = service.servers(&format!("['{}']", bad.address()));
        lariat.reload_with(&alone.toml());
        assert!(is_refused(&site, &alone));
        lariat.wait_for_line(&[reason]);
    }
}

#[test]
fn sessions_are_resumed_until_the_certificate_or_the_policy_changes() {
    let site = Site::new();
    for version in ["-tls1_2", "-tls1_3"] {
        let server = SServer::start(&site, "site.pem", &["-www", version]);
        let address = server.address;
        let service = service(&site, &server, &trusting(&site));
        let lariat = Lariat::start(&one_worker(&service));
        assert_has(page(&site, &service), "New, ");
        for _ in 0..3 {
            assert_has(page(&site, &service), "Reused, ");
        }
        lariat.wait_for_line(&["\"server_handshake\":\"full\""]);
        lariat.wait_for_line(&["\"server_handshake\":\"resumed\""]);
        // A different server at the same address, with a new certificate and no session of ours.
        drop(server);
        site.leaf(&["127.0.0.1"]).write(&site.directory, "next.pem");
        let server = SServer::start_at(address, &site, "next.pem", &["-www", version]);
        assert_has(page(&site, &service), "New, ");
        assert_has(page(&site, &service), "Reused, ");
        // A server that cannot prove itself does not benefit from sessions of its predecessor.
        drop(server);
        let stranger = Authority::root("somebody else");
        let leaf = stranger.leaf(&["127.0.0.1"]).issue();
        leaf.write(&site.directory, "stranger.pem");
        let server = SServer::start_at(address, &site, "stranger.pem", &["-www", version]);
        assert!(is_refused(&site, &service), "another authority's certificate");
        lariat.wait_for_line(&["server-certificate-untrusted"]);
        drop(server);
        let server = SServer::start_at(address, &site, "next.pem", &["-www", version]);
        assert_has(page(&site, &service), "New, ");
        // A stranger that would resume must prove itself after a reload that pins another key.
        let pin = format!("sha256//{}=", "A".repeat(43));
        let keys = format!("{}, pins = ['{pin}']", trusting(&site));
        let pinned = self::service(&site, &server, &keys).at(service.address);
        lariat.reload_with(&one_worker(&pinned));
        assert!(is_refused(&site, &service), "no session of the former policy");
    }
}

#[test]
fn our_certificate_is_shown_and_protocols_are_mirrored() {
    let site = Site::new();
    let own = site.authority.client("lariat");
    let own = own.write(&site.directory, "own.pem");
    let ca = site.ca().display().to_string();
    let server = SServer::start(
        &site,
        "site.pem",
        &["-Verify", "1", "-verify_return_error", "-CAfile", &ca, "-alpn", "http/1.1,h2"],
    );
    let keys = format!("{}, certificate = {own:?}", trusting(&site));
    let service = service(&site, &server, &keys).tls("alpn = ['h2', 'http/1.1']");
    let lariat = service.start();
    let own = [("file", own.to_str().unwrap())];
    let expiry = "lariat_certificate_expiry_timestamp_seconds";
    assert!(lariat.metrics().sum(expiry, &own) > 1.7e9);
    let said = s_client(&site, service.address, &["-alpn", "h2"]);
    said.assert_stdout("ALPN protocol: h2");
    server.wait_for("ALPN protocols selected: h2");
    server.wait_for("lariat");
}

/// Makes a service whose clients speak no TLS, before this server.
fn originating(site: &Site, server: &SServer, address: SocketAddr) -> String {
    format!(
        "[[service]]\nname = 'originate'\nfront = {{ listen = ['{address}'], tls = 'off' }}\n\
         back = {{ servers = ['{}'], tls = {{ {} }} }}\n",
        server.address,
        trusting(site)
    )
}

#[test]
fn what_a_plain_client_and_a_server_of_tls_say_is_relayed_over_new_keys() {
    let site = Site::new();
    let mut server = SServer::start(&site, "site.pem", &["-tls1_3"]);
    let address = free_address();
    let _lariat = Lariat::start(&originating(&site, &server, address));
    let mut client = tcp(address);
    for round in 0..3 {
        let word = format!("hello {round}\n");
        client.write_all(word.as_bytes()).unwrap();
        server.wait_for(&word);
        server.say(&format!("reply {round}"));
        let mut reply = [0; 8];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(reply, *format!("reply {round}\n").as_bytes());
        // The server asks for keys of ours as well.
        server.say("K");
    }
    client.shutdown(Shutdown::Write).unwrap();
    server.wait_for("DONE");
}

#[test]
fn a_server_that_renegotiates_is_refused() {
    let site = Site::new();
    let mut server = SServer::start(&site, "site.pem", &["-tls1_2"]);
    let address = free_address();
    let lariat = Lariat::start(&originating(&site, &server, address));
    let mut client = tcp(address);
    client.write_all(b"hello\n").unwrap();
    server.wait_for("hello");
    server.say("r");
    // OpenSSL reads that it is refused with the next data, and gives up (RFC 5246 section 7.2.2
    // allows it to go on).
    until_true("the end", || {
        let _refused_at_the_end = client.write_all(b"more\n");
        lariat.log().contains("handshake_failure")
    });
    lariat.wait_for_line(&["server-tls-failed", "handshake_failure"]);
}

/// The header goes before TLS or inside of it.
#[test]
fn the_proxy_header_goes_where_it_is_wanted() {
    let site = Site::new();
    let mut server = SServer::start(&site, "site.pem", &[]);
    let within = "send-proxy = { version = 'v1', inside-tls = true }";
    let service_within = service(&site, &server, &trusting(&site)).back(within);
    let lariat = service_within.start();
    let mut client = Client::new(&site).connect(service_within.address);
    client.send(b"request\n");
    server.wait_for("PROXY TCP4 127.0.0.1 127.0.0.1");
    server.say("reply");
    assert_eq!(client.receive(6), b"reply\n");
    drop((client, lariat));
    // Before TLS it is plain: the first bytes that this server gets are no hello.
    let plain = Server::start(Behaviour::Swallow);
    let before = Service::new(&site, &plain)
        .more("timeouts = { dial = '300ms' }")
        .back(&format!("send-proxy = 'v1'\ntls = {{ {} }}", trusting(&site)));
    let _lariat = before.start();
    assert!(is_refused(&site, &before));
    let got = plain.wait_for_end(1).bytes;
    assert!(got.starts_with(b"PROXY TCP4 127.0.0.1 127.0.0.1"), "{got:?}");
    let end = got.iter().position(|byte| *byte == b'\n').unwrap();
    assert_eq!(got[end + 1..end + 3], [22, 3], "a ClientHello follows");
}

#[test]
fn checks_judge_servers_as_connections_do() {
    let site = Site::new();
    site.leaf(&["other.example"]).write(&site.directory, "named.pem");
    let good = SServer::start(&site, "site.pem", &["-www"]);
    let bad = SServer::start(&site, "named.pem", &["-www"]);
    for kind in ["http", "tls"] {
        let service = Service::new(&site, good.address)
            .servers(&format!("['{}', '{}']", bad.address, good.address))
            .back(&check(kind))
            .back(&format!("tls = {{ {} }}", trusting(&site)));
        let lariat = service.start();
        let is_up = |address: SocketAddr, value| {
            let server = address.to_string();
            lariat.wait_for_metric("lariat_server_up", &[("server", &server)], value);
        };
        is_up(bad.address, 0.0);
        is_up(good.address, 1.0);
        assert_has(page(&site, &service), "TLSv1.3");
    }
}

#[test]
fn a_servers_own_certificate_in_ca_is_trusted_for_it_alone() {
    let site = Site::new();
    let names = &["127.0.0.1"];
    let (good, other) = (
        Authority::root_with("good", names, &[]),
        Authority::root_with("good", names, &[Trait::EndEntity]),
    );
    good.as_leaf().write(&site.directory, "good.pem");
    other.as_leaf().write(&site.directory, "other.pem");
    let servers = ["good.pem", "other.pem"].map(|name| SServer::start(&site, name, &["-www"]));
    for (trusted, [good, other]) in [("good.pem", [1.0, 0.0]), ("other.pem", [0.0, 1.0])] {
        let service = Service::new(&site, servers[0].address)
            .servers(&format!("['{}', '{}']", servers[0].address, servers[1].address))
            .back(&check("tls"))
            .back(&format!("tls = {{ ca = [{:?}] }}", site.path(trusted)));
        let lariat = service.start();
        for (server, value) in servers.iter().zip([good, other]) {
            let server = server.address.to_string();
            lariat.wait_for_metric("lariat_server_up", &[("server", &server)], value);
        }
        assert_has(page(&site, &service), "TLSv1.3");
    }
}

/// Connections and checks refuse a chain before a library spends seconds on it.
#[test]
fn a_server_with_a_chain_made_to_cost_seconds_is_refused_for_it() {
    let site = Site::new();
    let hostile = Authority::root("x").leaf(&["127.0.0.1"]).issue_costly();
    hostile.write(&site.directory, "flat.pem");
    for version in ["-tls1_2", "-tls1_3"] {
        let server = SServer::start(&site, "flat.pem", &["-www", version]);
        let service = service(&site, &server, &trusting(&site));
        let lariat = service.start();
        assert!(is_refused(&site, &service));
        lariat.wait_for_line(&["server-chain-limit", "of 141 certificates", "127.0.0.1"]);
        lariat.reload_with(&service.back(&check("tls")).toml());
        let says = || {
            let status = lariat.ask("status").success();
            status.contains("of 141 certificates").then_some(())
        };
        until("the check's words", says);
    }
}

/// After a restart with an old certificate, refused connections are no longer the reason.
#[test]
fn the_status_says_why_a_server_is_down_by_now() {
    let site = Site::new();
    let expired = site.authority.leaf(&["127.0.0.1"]).expired();
    expired.issue().write(&site.directory, "expired.pem");
    let address = free_address();
    let service = Service::new(&site, address)
        .back(&check("tls"))
        .back(&format!("tls = {{ {} }}", trusting(&site)));
    let lariat = service.start();
    let says = |words: &str| {
        let status = || lariat.ask("status").success().contains(words).then_some(());
        until(words, status);
    };
    says("could not be dialled");
    let server = SServer::start_at(address, &site, "expired.pem", &["-www"]);
    says("the chain has expired");
    drop(server);
    let _good = SServer::start_at(address, &site, "site.pem", &["-www"]);
    let server = address.to_string();
    lariat.wait_for_metric("lariat_server_up", &[("server", &server)], 1.0);
}

#[test]
fn what_is_not_verified_is_said() {
    let site = Site::new();
    let stranger = Authority::root("somebody else").leaf(&["x.example"]).issue();
    stranger.write(&site.directory, "self.pem");
    let server = SServer::start(&site, "self.pem", &["-www"]);
    let pin = format!("sha256//{}", key_hash(&site, "self.pem"));
    for (keys, status) in [
        ("verify = 'off'".to_owned(), "NOT VERIFIED"),
        (format!("verify = 'off', pins = ['{pin}']"), "pinned"),
    ] {
        let service = service(&site, &server, &keys);
        let lariat = service.start();
        assert_has(page(&site, &service), "TLSv1.3");
        assert_has(lariat.ask("status").success(), &format!("server TLS    {status}"));
        let warned = usize::from(status == "NOT VERIFIED");
        let words = "anyone on the way to the servers can pose as one";
        lariat.wait_for_stderr_times(words, warned);
    }
}
