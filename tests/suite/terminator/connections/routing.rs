//! Services that share an address: a client's hello selects one.

use std::sync::atomic::{AtomicBool, Ordering};

use suite::lariat::command;
use suite::prelude::*;
use suite::scripted::{hello, names};

/// Three services at one address: `shop` and `mail` terminate TLS, `blog` passes it through.
struct Shared {
    site: Site,
    address: SocketAddr,
    shop: Service,
    mail: Service,
    blog: Service,
    servers: [Server; 3],
}

impl Shared {
    fn new() -> Self {
        let (site, address) = (Site::new(), free_address());
        site.leaf(&["shop.example", "*.shop.example"]).write(&site.directory, "shop.pem");
        site.leaf(&["mail.example"]).write(&site.directory, "mail.pem");
        let http = |body: &str| Server::start(Behaviour::Http(body.into()));
        let servers = [http("shop"), http("mail"), Server::start(Behaviour::Swallow)];
        let service = |name: &str, server| {
            let certificate = site.path(&format!("{name}.pem"));
            Service::new(&site, server)
                .named(name)
                .at(address)
                .certificates(&format!("[{certificate:?}]"))
        };
        let shop = service("shop", &servers[0]).front("names = ['Shop.example', '*.shop.example']");
        let mail = service("mail", &servers[1]).front("names = ['mail.example']");
        let blog = service("blog", &servers[2]).front("names = ['*.example']");
        Self { shop, mail, blog: blog.mode("passthrough"), site, address, servers }
    }

    fn toml(&self) -> String {
        [&self.shop, &self.mail, &self.blog].map(Service::toml).concat()
    }

    fn start(&self) -> Lariat {
        Lariat::start(&self.toml())
    }

    /// Asks for this name by curl.
    fn ask(&self, name: &str) -> Finished {
        let port = self.address.port();
        let ca = self.site.ca();
        curl()
            .args(&["--resolve", &format!("{name}:{port}:{}", self.address.ip())])
            .args(&["--cacert", ca.to_str().unwrap()])
            .url(&format!("https://{name}:{port}/"))
            .run()
    }

    /// Sends a hello to the service that passes TLS through, and waits until its server has it.
    fn pass(&self, hello: &[u8]) {
        let _open = raw(self.address, hello);
        self.servers[2].wait_until(|all| all.iter().any(|one| one.bytes == hello));
    }

    fn connect(&self, arguments: &[&str]) -> Finished {
        s_client(&self.site, self.address, arguments)
    }
}

fn raw(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = tcp(address);
    stream.write_all(bytes).unwrap();
    stream
}

#[test]
fn each_name_leads_to_its_service_which_counts_and_logs_it() {
    let shared = Shared::new();
    let lariat = shared.start();
    for (name, body) in [("shop.example", "shop"), ("mail.example", "mail")] {
        assert_eq!(shared.ask(name).success(), body);
        let line = lariat.wait_for_line(&[name]);
        assert_eq!(line["service"], body);
    }
    for asked in ["SHOP.Example", "x.shop.example", "mail.example."] {
        let answer = shared.connect(&["-servername", asked]);
        let subject = asked.to_ascii_lowercase().replace("x.shop", "shop");
        let subject = subject.trim_end_matches('.');
        assert_has(&answer.stdout, &format!("subject=CN = {subject}"));
    }
    shared.pass(&hello(&names(&[b"blog.example"]), &[]));
    let line = lariat.wait_for_line(&["blog.example"]);
    assert_eq!(line["service"], "blog");
    for (service, count) in [("shop", 3.0), ("mail", 2.0), ("blog", 1.0)] {
        let labels = [("service", service)];
        lariat.wait_for_metric("lariat_connections_accepted_total", &labels, count);
        lariat.wait_for_metric("lariat_connections_ended_total", &labels, count);
        lariat.wait_for_metric("lariat_connections_open", &labels, 0.0);
        lariat.wait_for_metric("lariat_handshakes_in_progress", &labels, 0.0);
    }
}

#[test]
fn what_is_for_no_service_is_refused_and_by_a_default_it_is_taken() {
    let mut shared = Shared::new();
    shared.blog = shared.blog.named("none").front("protocols = ['none']");
    let lariat = shared.start();
    let unknown = shared.connect(&["-servername", "other.test"]);
    unknown.assert_stderr("unrecognized name");
    lariat.wait_for_reason("name-unknown", 1);
    shared.connect(&["-noservername"]).assert_stderr("unrecognized name");
    lariat.wait_for_reason("name-missing", 1);
    let rest = Service::new(&shared.site, &shared.servers[0]).named("rest").at(shared.address);
    lariat.reload_with(&(shared.toml() + &rest.toml()));
    for arguments in
        [&["-noservername"][..], &["-servername", "other.test"], &["-servername", "127.0.0.1"]]
    {
        let answer = shared.connect(arguments);
        assert_has(&answer.stdout, "subject=CN = localhost");
    }
}

#[test]
fn a_protocol_leads_elsewhere_than_the_name_alone() {
    let shared = Shared::new();
    let acme = Service::new(&shared.site, &shared.servers[1])
        .named("acme")
        .at(shared.address)
        .front("names = ['shop.example']\nprotocols = ['acme-tls/1']")
        .tls("alpn = ['acme-tls/1']");
    let _lariat = Lariat::start(&(shared.toml() + &acme.toml()));
    for (arguments, subject) in [
        (&["-alpn", "acme-tls/1"][..], "localhost"),
        (&["-alpn", "h2,acme-tls/1"], "localhost"),
        (&["-alpn", "h2"], "shop.example"),
        (&[], "shop.example"),
    ] {
        let all = [&["-servername", "shop.example"], arguments].concat();
        let answer = shared.connect(&all);
        assert_has(&answer.stdout, &format!("subject=CN = {subject}"));
    }
}

/// A session is good for the service that it was made with, and for no other: else it would be a
/// way around the client certificate that the other requires.
#[test]
fn a_session_of_one_service_opens_no_other_at_the_address() {
    for (sessions, versions) in [
        ("tickets", &[&["-tls1_2"][..], &["-tls1_2", "-no_ticket"], &["-tls1_3"]][..]),
        ("cache", &[&["-tls1_3"]]),
    ] {
        let mut shared = Shared::new();
        let ca = shared.site.ca();
        let required = format!("client-certificates = {{ mode = 'required', ca = [{ca:?}] }}");
        shared.mail = shared.mail.tls(&required);
        // Tickets of TLS 1.3 come with the server's first bytes, and the client reads to its end.
        let speaker = Server::start(Behaviour::Speak(b"hello".to_vec()));
        shared.shop = shared.shop.servers(&format!("['{}']", speaker.address()));
        let toml = format!("[resumption]\ntls13 = '{sessions}'\n{}", shared.toml());
        let lariat = Lariat::start(&toml);
        let session = shared.site.path("session");
        let session = session.to_str().unwrap();
        let mut misses = 0.0;
        for version in versions {
            let by = |name: &str, kept: &str| {
                let arguments = ["-ign_eof", "-servername", name, kept, session];
                shared.connect(&[version, &arguments[..]].concat())
            };
            assert_has(by("shop.example", "-sess_out").success(), "New, ");
            assert_has(by("shop.example", "-sess_in").success(), "Reused, ");
            by("shop.example", "-sess_out").success();
            let other = by("mail.example", "-sess_in");
            assert!(!other.stdout.contains("Reused, "), "{version:?}: {other:?}");
            misses += 1.0;
            let labels = [("service", "mail"), ("reason", "wrong-service")];
            lariat.wait_for_metric("lariat_resumption_misses_total", &labels, misses);
        }
        let labels = [("service", "mail"), ("reason", "client-certificate-missing")];
        lariat.wait_for_metric("lariat_connections_ended_total", &labels, misses);
        assert!(shared.servers[1].connections().is_empty());
    }
}

#[test]
fn limits_and_lists_are_those_of_the_chosen_service() {
    let mut shared = Shared::new();
    shared.shop = shared.shop.more("limits = { connections = 1 }");
    shared.mail = shared.mail.front("deny = ['127.0.0.0/8']");
    let lariat = shared.start();
    let connect = |name: &str| shared.connect(&["-servername", name]);
    let mut holder = raw(shared.address, &[]);
    assert_eq!(shared.ask("shop.example").success(), "shop");
    let denied = connect("mail.example");
    assert!(!denied.status.success(), "{denied:?}");
    let line = lariat.wait_for_line(&["source-denied"]);
    assert_eq!((&line["service"], &line["sni"]), (&"mail".into(), &"mail.example".into()));
    let mut first = Talk::start(&shared.site, shared.address, &["-servername", "shop.example"]);
    first.say("GET / HTTP/1.1\r\n\r");
    first.wait_for("200", 1);
    assert!(!connect("shop.example").status.success());
    let line = lariat.wait_for_line(&["connection-limit"]);
    assert_eq!(line["service"], "shop");
    first.end();
    holder.shutdown(Shutdown::Both).unwrap();
    assert!(holder.read(&mut [0]).is_ok());
    lariat.wait_for_metric("lariat_connections_open", &[], 0.0);
    assert_eq!(shared.ask("shop.example").success(), "shop");
}

#[test]
fn a_service_comes_and_goes_while_the_address_takes_every_client() {
    let shared = Shared::new();
    let lariat = shared.start();
    let (is_over, address) = (AtomicBool::new(false), shared.address);
    thread::scope(|scope| {
        let knocking = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                TcpStream::connect(address).expect("the socket stays open");
                count += 1;
            }
            count
        });
        for _ in 0..3 {
            lariat.reload_with(&shared.mail.toml());
            assert_eq!(shared.ask("mail.example").success(), "mail");
            shared.connect(&["-servername", "shop.example"]).assert_stderr("unrecognized name");
            lariat.reload_with(&shared.toml());
            assert_eq!(shared.ask("shop.example").success(), "shop");
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(knocking.join().unwrap() > 0);
    });
}

#[test]
fn bad_hellos_reach_no_server_and_others_are_served_meanwhile() {
    let mut shared = Shared::new();
    for service in [&mut shared.shop, &mut shared.mail, &mut shared.blog] {
        *service = service.clone().more("timeouts = { handshake = '2s' }");
    }
    let lariat = shared.start();
    let whole = hello(&names(&[b"blog.example"]), &[]);
    let long = [b'a'; 255];
    let cases: [(Vec<u8>, &str); 9] = [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "plain-http"),
        (b"SSH-2.0-test\r\n".to_vec(), "not-tls"),
        (vec![0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10], "version-too-old"),
        (hello(&names(&[b"a.example", b"b.example"]), &[]), "hello-malformed"),
        // No service here is for clients without a name.
        (hello(&names(&[b"a\0.example"]), &[]), "name-missing"),
        (hello(&names(&[&long]), &[]), "name-missing"),
        (hello(&names(&[b""]), &[]), "hello-malformed"),
        // Hellos that never end: no byte, and all but the last.
        (Vec::new(), "handshake-timeout"),
        (whole[..whole.len() - 1].to_vec(), "handshake-timeout"),
    ];
    let mut open = Vec::new();
    let mut expected = std::collections::BTreeMap::new();
    for (bytes, reason) in &cases {
        open.push(raw(shared.address, bytes));
        *expected.entry(*reason).or_insert(0) += 1;
    }
    assert_eq!(shared.ask("shop.example").success(), "shop");
    for mut stream in open {
        // Closed or reset, after an answer.
        let _ended = stream.read_to_end(&mut Vec::new());
    }
    for (reason, count) in expected {
        lariat.wait_for_reason(reason, count);
    }
    assert!(shared.servers[2].connections().is_empty());
}

/// RFC 9849: a server without the keys can see only the outer name.
#[test]
fn an_encrypted_hello_goes_by_its_outer_name_unchanged() {
    let shared = Shared::new();
    let _lariat = shared.start();
    // An outer hello: HKDF-SHA256 and AES-128-GCM, config 7, a key share and a payload.
    let ech =
        [&[0xfe, 0x0d, 0, 16][..], &[0, 0, 1, 0, 1, 7, 0, 2, 9, 9, 0, 4, 1, 2, 3, 4]].concat();
    let wire = hello(&names(&[b"public.example"]), &ech);
    shared.pass(&wire);
}

/// Servers judge themselves which names are valid.
#[test]
fn closed_tls_is_routed_by_names_that_break_the_rules_of_hosts() {
    let shared = Shared::new();
    let _lariat = shared.start();
    for name in [&b"-a.example"[..], b"a-.example", b"1.2.example", b"_.example"] {
        shared.pass(&hello(&names(&[name]), &[]));
    }
}

#[test]
fn closed_tls_of_one_service_passes_whatever_stands_for_a_name() {
    let (_site, server, service, _lariat) =
        serve_as(Behaviour::Swallow, |service| service.mode("passthrough"));
    for name in [&b"a\0.example"[..], b"\xff", b"a.example:443", b"192.0.2.1", &[b'a'; 255]] {
        let wire = hello(&names(&[name]), &[]);
        let _open = raw(service.address, &wire);
        server.wait_until(|all| all.iter().any(|one| one.bytes == wire));
    }
}

#[test]
fn ten_thousand_names_are_checked_and_found() {
    let shared = Shared::new();
    let all: Vec<_> = (0..10_000).map(|number| format!("'n{number}.names.example'")).collect();
    let leaf = shared.site.leaf(&["localhost", "*.names.example"]);
    let certificate = leaf.write(&shared.site.directory, "many.pem");
    let many = Service::new(&shared.site, &shared.servers[1])
        .named("many")
        .at(shared.address)
        .certificates(&format!("[{certificate:?}]"))
        .front(&format!("names = [{}]", all.join(", ")));
    let text = shared.toml() + &many.toml();
    let lariat = Lariat::start(&text);
    for name in ["n0.names.example", "n9999.names.example"] {
        let answer = shared.connect(&["-servername", name]);
        assert_has(&answer.stdout, "subject=CN = localhost");
    }
    drop(lariat);
    // Each of them twice: one line reports it, not ten thousand.
    let again = many.named("again");
    let file = shared.site.write("twice.toml", text + &again.toml());
    let checked = run(command().arg("check").arg(file));
    assert!(!checked.status.success());
    let words = "clients of \"n0.names.example\" at ";
    assert_has(&checked.stderr, words);
    assert_eq!(checked.stderr.matches("are already for `many`").count(), 1);
    // Each with its place in the file.
    assert_has(&checked.stderr, "twice.toml:29)\n");
    assert_has(&checked.stderr, "twice.toml:40:9\n");
}
