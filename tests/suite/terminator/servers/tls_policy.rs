//! The policy towards servers: whose authorities and which name count, versions, suites and groups,
//! and sessions that all workers share.

use suite::prelude::*;

/// Makes a service before one server that speaks TLS, with these keys of `back.tls`.
fn service(site: &Site, server: &SServer, keys: &str) -> Service {
    let tls = format!("tls = {{ ca = [{:?}], {keys} }}", site.ca());
    Service::new(site, server.address).back(&tls)
}

fn page(site: &Site, service: &Service) -> String {
    curl_tls(site, service.address).run().success()
}

/// Runs a command where the authorities of the host are those in the file.
const WITH_AUTHORITIES: &str = "mount -t tmpfs test /etc/ssl/certs && \
    cat \"$0\" >/etc/ssl/certs/ca-certificates.crt && exec \"$@\"";

#[test]
fn where_no_authority_is_named_those_of_the_host_count() {
    if !geteuid().is_root() {
        return;
    }
    let (site, stranger) = (Site::new(), Site::new());
    for (trusted, is_verified) in [(&site, true), (&stranger, false)] {
        let server = SServer::start(&site, "site.pem", &["-www"]);
        let service = Service::new(&site, server.address).back("tls = 'on'");
        let mut command = Command::new("unshare");
        let program = lariat::command();
        command
            .args(["--mount", "sh", "-c", WITH_AUTHORITIES])
            .arg(trusted.ca())
            .arg(program.get_program());
        let lariat = Lariat::start_by(command, &service.toml());
        if is_verified {
            assert_has(page(&site, &service), "TLSv1.3");
        } else {
            curl_tls(&site, service.address).run().assert_stderr("alert");
            lariat.wait_for_line(&["server-certificate-untrusted"]);
        }
    }
}

/// Asks for the page by a name.
fn ask(site: &Site, service: &Service, name: &str) -> Finished {
    let port = service.address.port();
    let ca = site.ca();
    curl()
        .args(&["--resolve", &format!("{name}:{port}:127.0.0.1")])
        .args(&["--cacert", ca.to_str().unwrap()])
        .url(&format!("https://{name}:{port}/"))
        .run()
}

#[test]
fn a_server_proves_the_name_that_the_client_asked_for() {
    let site = Site::new();
    let names = ["a.example", "b.example", "c.example"];
    site.leaf(&names).write(&site.directory, "front.pem");
    site.leaf(&["a.example", "b.example"]).write(&site.directory, "back.pem");
    let server = SServer::start(&site, "back.pem", &["-www", "-tlsextdebug"]);
    let front = format!("[{:?}]", site.path("front.pem"));
    let service = service(&site, &server, "name = 'client'").certificates(&front);
    let lariat = service.start();
    assert_has(ask(&site, &service, "a.example").success(), "TLSv1.3");
    server.wait_for(".....a.example");
    ask(&site, &service, "c.example").assert_stderr("alert");
    let line = lariat.wait_for_line(&["server-certificate-name"]);
    assert_eq!(line["sni"], "c.example", "{line}");
    // The client caused that failure: the server does not count as down.
    assert_has(ask(&site, &service, "b.example").success(), "TLSv1.3");
    assert_eq!(lariat.sum("lariat_server_up", &[]), 1.0);
}

#[test]
fn versions_suites_and_groups_are_those_that_are_set() {
    let site = Site::new();
    let server = SServer::start(&site, "site.pem", &["-www"]);
    for (keys, words) in [
        ("versions = ['1.2']", "TLSv1.2"),
        (
            "suites = ['TLS_CHACHA20_POLY1305_SHA256'], versions = ['1.3']",
            "Cipher    : TLS_CHACHA20_POLY1305_SHA256",
        ),
        ("groups = ['secp384r1']", "Supported groups: secp384r1\n"),
    ] {
        let service = service(&site, &server, keys);
        let _lariat = service.start();
        assert_has(page(&site, &service), words);
    }
    let old = SServer::start(&site, "site.pem", &["-www", "-tls1_2"]);
    let service = service(&site, &old, "versions = ['1.3']");
    let lariat = service.start();
    curl_tls(&site, service.address).run().assert_stderr("alert");
    lariat.wait_for_line(&["server-tls-failed", "protocol_version"]);
}

#[test]
fn all_workers_share_the_sessions_of_a_server() {
    let site = Site::new();
    let server = SServer::start(&site, "site.pem", &["-www", "-tls1_2"]);
    let service = service(&site, &server, "");
    let lariat = service.start_with("[workers]\nthreads = 3");
    assert_has(page(&site, &service), "New, ");
    for _ in 0..15 {
        assert_has(page(&site, &service), "Reused, ");
    }
    lariat.wait_for_reason("backend-closed", 16);
    // The kernel spreads connections by their ports.
    let of_worker = |worker: u32| lariat.log().contains(&format!("\"worker\":{worker},"));
    until_true("lines of two workers", || {
        let workers = (0..3).filter(|&worker| of_worker(worker)).count();
        workers > 1
    });
}

/// A server that takes early data reports with each connection whether any came.
#[test]
fn no_server_gets_early_data() {
    let site = Site::new();
    let mut server = SServer::start(&site, "site.pem", &["-tls1_3", "-early_data"]);
    let service = service(&site, &server, "").mode("off");
    let lariat = service.start_with("[workers]\nthreads = 1");
    for (round, made) in [(1, "full"), (2, "resumed")] {
        let mut client = tcp(service.address);
        let word = format!("request {round}");
        client.write_all(format!("{word}\n").as_bytes()).unwrap();
        server.wait_for(&word);
        server.say("reply");
        client.read_exact(&mut [0; 6]).unwrap();
        drop(client);
        lariat.wait_for_line(&[&format!("\"server_handshake\":\"{made}\"")]);
        assert_eq!(server.said().matches("No early data received").count(), round);
    }
}

#[test]
fn a_server_that_fails_sees_no_word_of_a_client_who_is_told() {
    let site = Site::new();
    site.leaf(&["other.example"]).write(&site.directory, "named.pem");
    let server = SServer::start(&site, "named.pem", &[]);
    let (tls, plain) = (
        service(&site, &server, "").named("tls"),
        service(&site, &server, "").named("plain").mode("off"),
    );
    let lariat = Lariat::start(&(tls.toml() + &plain.toml()));
    let mut client = Client::new(&site).connect(tls.address);
    client.send(b"secret\n");
    let end = client.read_to_end().unwrap_err().to_string();
    assert_has(&end, "InternalError");
    drop(client);
    let mut client = tcp(plain.address);
    // The reset may come before the word, because the server is dialed without it.
    let end = client.write_all(b"secret\n").and_then(|()| client.read(&mut [0])).unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    lariat.wait_for_reason("server-certificate-name", 2);
    let failed = [("kind", "tls")];
    lariat.wait_for_metric("lariat_dial_failures_total", &failed, 2.0);
    assert!(!server.said().contains("secret"), "{}", server.said());
}
