//! A name stands for several addresses, and no client waits for one of them that is dead.

use suite::prelude::*;

/// Longer than any test: a client that waits for the end of a dial gets no answer.
const DIAL_TIME: &str = "timeouts = { dial = '1h' }";

/// A listener whose queue is full: later connections get no answer at all.
struct BlackHole {
    listener: TcpListener,
    waiting: Vec<TcpStream>,
}

impl BlackHole {
    fn open(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let mut waiting = Vec::new();
        let address: SocketAddr = address.parse().unwrap();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            waiting.push(stream);
        }
        Self { listener, waiting }
    }

    fn recover(self) -> TcpListener {
        rustix::net::listen(&self.listener, 128).unwrap();
        for _ in &self.waiting {
            drop(self.listener.accept());
        }
        self.listener
    }
}

/// Starts a service with two addresses of `app.test`, which has this back.
fn start(site: &Site, server: &Server, other: &str, back: &str) -> (Service, Lariat) {
    let service = Service::new(site, at_port_of(server, "app.test")).back(back).more(DIAL_TIME);
    start_service(site, other, service)
}

fn start_service(site: &Site, other: &str, service: Service) -> (Service, Lariat) {
    let hosts = site.path("hosts");
    fs::write(&hosts, format!("{other} app.test\n127.0.0.1 app.test\n")).unwrap();
    let service = service.back("resolve = '1s'");
    let toml = format!("[workers]\nthreads = 1\n{}", service.toml());
    let lariat = Lariat::start_with_file(&hosts, "/etc/hosts", &toml);
    lariat.wait_for_metric("lariat_server_addresses", &[], 2.0);
    (service, lariat)
}

fn hello(site: &Site, service: &Service, count: usize) {
    for _ in 0..count {
        assert_eq!(curl_tls(site, service.address).run().success(), "hello");
    }
}

fn at_port_of(server: &Server, host: &str) -> String {
    format!("{host}:{}", server.port())
}

#[test]
fn a_black_hole_beside_a_live_address_is_known_dead_and_comes_back() {
    if !geteuid().is_root() {
        // Only root may mount.
        return;
    }
    let (site, server) = (Site::new(), Server::start(http()));
    let address = at_port_of(&server, "127.0.0.66");
    let hole = BlackHole::open(&address);
    let back = "passive = { ejection-time = '1s' }";
    let (service, lariat) = start(&site, &server, "127.0.0.66", back);
    hello(&site, &service, 8);
    let timeouts = || lariat.sum("lariat_dial_failures_total", &[("kind", "timeout")]);
    assert_eq!(timeouts(), 3.0, "then it is known to be dead");
    lariat.wait_for_metric("lariat_server_addresses_down", &[], 1.0);
    lariat.wait_for_metric("lariat_server_up", &[], 1.0);
    let status = lariat.status().to_string();
    let words = format!("1 of 2 addresses not used: {address}: last dials failed");
    assert!(status.contains(&words), "{status}");
    lariat.wait_for_stderr(&format!("is not used at {address}: its last dials failed (timeout)"));
    // The address's trials harm no connection, and it is used again when one is accepted.
    let dials = || lariat.sum("lariat_dials_total", &[]);
    let before = dials();
    let mut connections = 0.0;
    until_true("a trial", || {
        hello(&site, &service, 1);
        connections += 1.0;
        dials() > before + connections
    });
    let _accepting = hole.recover();
    until_true("its return", || {
        hello_or_silence(&site, &service);
        lariat.sum("lariat_server_addresses_down", &[]) == 0.0
    });
    lariat.wait_for_stderr(&format!("is used at {address} again"));
}

/// Makes a request; the address that has come back accepts and sends nothing.
fn hello_or_silence(site: &Site, service: &Service) {
    let curl = curl_tls(site, service.address).args(&["--max-time", "0.1"]);
    curl.run();
}

#[test]
fn an_address_that_refuses_is_passed_over_after_three_dials() {
    if !geteuid().is_root() {
        return;
    }
    let (site, server) = (Site::new(), Server::start(http()));
    let (service, lariat) = start(&site, &server, "::1", "");
    hello(&site, &service, 12);
    let refused = lariat.sum("lariat_dial_failures_total", &[("kind", "refused")]);
    assert_eq!(refused, 3.0);
}

#[test]
fn checks_judge_each_address_and_a_new_one_begins_clean() {
    if !geteuid().is_root() {
        return;
    }
    let (site, server) = (Site::new(), Server::start(http()));
    let address = at_port_of(&server, "127.0.0.67");
    let _hole = BlackHole::open(&address);
    let back = "check = { kind = 'http', interval = '100ms', timeout = '1s', fall = 1 }";
    let (service, lariat) = start(&site, &server, "127.0.0.67", back);
    lariat.wait_for_metric("lariat_server_addresses_down", &[], 1.0);
    let down = format!("is not used at {address}: did not answer within 1s");
    lariat.wait_for_stderr(&down);
    let failed = || lariat.sum("lariat_dial_failures_total", &[]);
    let before = failed();
    hello(&site, &service, 6);
    assert_eq!(failed(), before, "no connection is sent there");
    fs::write(site.path("hosts"), "127.0.0.68 app.test\n127.0.0.1 app.test\n").unwrap();
    lariat.wait_for_stderr(&format!(
        "is not used at {}: could not be dialled",
        at_port_of(&server, "127.0.0.68")
    ));
    hello(&site, &service, 3);
}

#[test]
fn one_family_can_be_asked_for() {
    if !geteuid().is_root() {
        return;
    }
    let (site, server) = (Site::new(), Server::start(http()));
    let hosts = site.path("hosts");
    fs::write(&hosts, "::1 app.test\n127.0.0.1 app.test\n").unwrap();
    let name = at_port_of(&server, "app.test");
    for (family, addresses) in [("ipv4", 1.0), ("ipv6", 1.0), ("any", 2.0)] {
        let service = Service::new(&site, &name).back(&format!("resolve-family = '{family}'"));
        let lariat = Lariat::start_with_file(&hosts, "/etc/hosts", &service.toml());
        lariat.wait_for_metric("lariat_server_addresses", &[], addresses);
        let answers = curl_tls(&site, service.address).run().code() == 0;
        assert_eq!(answers, family != "ipv6", "{family}");
        let failed = lariat.sum("lariat_dial_failures_total", &[]);
        assert!(family != "ipv4" || failed == 0.0, "{failed}");
    }
}

#[test]
fn a_server_without_room_for_a_race_is_dialled_at_its_other_address_later() {
    if !geteuid().is_root() {
        return;
    }
    let (site, server) = (Site::new(), Server::start(http()));
    let _hole = BlackHole::open(&at_port_of(&server, "127.0.0.66"));
    let place = at_port_of(&server, "app.test");
    let service = Service::new(&site, &server)
        .servers(&format!("[{{ address = '{place}', max-connections = 1 }}]"))
        .back("passive = { failures = 0 }")
        .more("timeouts = { dial = '1s' }");
    let (service, lariat) = start_service(&site, "127.0.0.66", service);
    hello(&site, &service, 4);
    assert!(lariat.sum("lariat_dial_failures_total", &[("kind", "timeout")]) > 0.0);
}
