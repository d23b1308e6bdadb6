//! Limits hold, and a place that becomes free is given again.

use suite::prelude::*;
use suite::scripted::read_record;

#[test]
fn connections_beyond_the_limit_are_ended_and_counted() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server).more("limits = { connections = 2 }");
    // Each of two workers may get both connections or none.
    let lariat = service.start_with("[workers]\nthreads = 2");
    let client = Client::new(&site);
    let connect = || client.echo(service.address);
    let (mut first, _second) = (connect(), connect());
    assert!(client.try_connect(service.address).is_err());
    lariat.wait_for_reason("connection-limit", 1);
    let line = lariat.wait_for_line(&["connection-limit"]);
    assert_eq!(line["fault"], "host", "{line}");
    first.end();
    first.read_to_end().unwrap();
    lariat.wait_for_metric("lariat_connections_open", &[], 1.0);
    connect();
}

#[test]
fn a_newcomer_takes_the_place_of_a_handshake_that_does_not_go_on() {
    let (site, _server, service, lariat) =
        serve_with("[workers]\nthreads = 1\n[limits]\nhandshakes = 1", Behaviour::Echo);
    let mut first = TcpStream::connect(service.address).unwrap();
    first.write_all(b"\x16\x03\x01").unwrap();
    lariat.wait_for_metric("lariat_handshakes_in_progress", &[], 1.0);
    Client::new(&site).echo(service.address);
    let _closed_or_reset = first.read_to_end(&mut Vec::new());
    lariat.wait_for_reason("displaced", 1);
    let line = lariat.wait_for_line(&["displaced"]);
    assert_eq!(line["fault"], "host", "{line}");
}

/// Rounds in which one more client comes, each time behind [`ATTACKERS_PER_ROUND`] attackers.
const ROUNDS: usize = 40;

const ATTACKERS_PER_ROUND: usize = 5;

/// As many as hold all places of the limits below.
const PLACES: usize = 20;

/// Returns a client's hello, as it goes over the wire.
fn hello(site: &Site) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = Client::new(site);
    let connecting = thread::spawn(move || client.try_connect(address).is_ok());
    let mut stream = listener.accept().unwrap().0;
    let hello = read_record(&mut stream).unwrap();
    drop(stream);
    assert!(!connecting.join().unwrap(), "nobody has answered");
    hello
}

/// Runs clients while attackers hold all places, and more of them come all the time.
fn attacked<A>(lariat: &Lariat, mut attacker: impl FnMut() -> A, mut client: impl FnMut()) {
    let mut attackers: Vec<A> = (0..PLACES).map(|_| attacker()).collect();
    for _ in 0..ROUNDS {
        attackers.extend((0..ATTACKERS_PER_ROUND).map(|_| attacker()));
        client();
    }
    let labels = [("reason", "displaced")];
    let displaced = lariat.sum("lariat_connections_ended_total", &labels);
    assert!(displaced >= (ROUNDS * ATTACKERS_PER_ROUND / 2) as f64, "{displaced}");
}

#[test]
fn handshakes_that_do_not_go_on_keep_nobody_out() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let client = Client::new(&site);
    for (bytes, is_answered) in [(vec![], false), (vec![22], false), (hello(&site), true)] {
        let service = Service::new(&site, &server).more("timeouts = { handshake = '1h' }");
        let limits = format!("[workers]\nthreads = 2\n[limits]\nhandshakes = {PLACES}\n");
        let lariat = service.start_with(&limits);
        let attacker = || {
            let mut stream = TcpStream::connect(service.address).unwrap();
            stream.write_all(&bytes).unwrap();
            if is_answered {
                stream.read_exact(&mut [0]).unwrap();
            }
            stream
        };
        attacked(&lariat, attacker, || drop(client.echo(service.address)));
    }
}

#[test]
fn connections_that_are_never_used_keep_nobody_out() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let client = Client::new(&site);
    let workers = "[workers]\nthreads = 2\n";
    for is_of_service in [false, true] {
        let service = Service::new(&site, &server);
        let toml = if is_of_service {
            let limits = format!("limits = {{ connections = {PLACES} }}");
            format!("{workers}{}", service.clone().more(&limits).toml())
        } else {
            let limits = format!("[limits]\nconnections = {PLACES}\n");
            format!("{workers}{limits}{}", service.toml())
        };
        let lariat = Lariat::start(&toml);
        let attacker = || client.connect(service.address);
        attacked(&lariat, attacker, || drop(client.echo(service.address)));
    }
}
