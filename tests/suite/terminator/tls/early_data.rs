//! Early data (0-RTT): off unless it is configured, reported to the servers, and never taken twice.

use suite::prelude::*;
use suite::proxy_header::ProxyHeader;
use testkit::client::{Client, ClientChoice};

/// Type of our own TLV, as in the reference.
const EARLY_DATA: u8 = 0xe1;

const RESULTS: &str = "lariat_early_data_total";

fn told(service: &Service) -> Service {
    service.clone().tls("early-data = '16KiB'").back("send-proxy = 'v2'")
}

#[test]
fn openssl_sends_early_data_once_and_the_server_is_told() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Speak(b"hi".to_vec())));
    let service = told(&Service::new(&site, &server));
    let lariat = service.start_with("[workers]\nthreads = 2");
    let path = |name: &str| site.path(name).display().to_string();
    let (session, early) = (path("session"), path("early"));
    fs::write(&early, b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let visit = |options: &[&str]| {
        let options = [&["-tls1_3", "-ign_eof"], options].concat();
        s_client(&site, service.address, &options).success()
    };
    let first = visit(&["-sess_out", &session]);
    assert_has(&first, "New, TLSv1.3");
    let second = visit(&["-sess_in", &session, "-early_data", &early]);
    assert_has(&second, "Reused, TLSv1.3");
    assert_has(&second, "Early data was accepted");
    let seen = server.wait_for_end(2);
    let header = ProxyHeader::read(&seen.bytes).unwrap();
    let most = header.tlv(EARLY_DATA).expect("the server is told");
    let most = u32::from_be_bytes(most.try_into().unwrap());
    assert!((18..=16_640).contains(&most), "{most}");
    assert_eq!(header.rest, b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(header.ssl().text(0x21).as_deref(), Some("TLSv1.3"));
    lariat.wait_for_line(&["\"handshake\":\"psk-cache\"", "\"early_data\":\"accepted\""]);
    let third = visit(&["-sess_in", &session, "-early_data", &early]);
    assert_has(&third, "New, TLSv1.3");
    assert_has(&third, "Early data was rejected");
    lariat.wait_for_metric(RESULTS, &[("result", "unknown-session")], 1.0);
    lariat.wait_for_metric(RESULTS, &[("result", "accepted")], 1.0);
    let header = ProxyHeader::read(&server.wait_for_end(3).bytes).unwrap();
    assert_eq!(header.tlv(EARLY_DATA), None);
    assert!(header.rest.is_empty());
}

#[test]
fn a_load_of_early_data_is_taken_where_servers_do_not_mind() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Http(b"x".to_vec())));
    let service =
        Service::new(&site, &server).tls("early-data = '4KiB'").back("early-data-safe = true");
    let lariat = service.start_with("[workers]\nthreads = 2");
    let load = Load::of(service.address)
        .args("--handshake psk --early-data --clients 2 --count 40")
        .record();
    assert_eq!(load.totals()[1], 40, "{:?}", load.failures());
    let metrics = lariat.metrics();
    let accepted = metrics.sum(RESULTS, &[("result", "accepted")]);
    let resumed = metrics.sum("lariat_handshakes_total", &[("kind", "psk-cache")]);
    assert!(accepted >= 38.0, "all but each client's first: {accepted}");
    assert_eq!(accepted, resumed);
    let first = &server.connections()[0].bytes;
    assert!(first.starts_with(b"GET "), "no header is sent");
}

#[test]
fn none_is_offered_or_taken_unless_it_is_configured() {
    let (site, _server, service, _lariat) = serve(Behaviour::Echo);
    let choice = choice(&site);
    let mut visitor = Visitor::new(&choice, &service);
    visitor.exchange(b"x");
    let mut visitor = Visitor::new(&choice, &service);
    assert_eq!(visitor.client.send_early(b"early"), 0);
    visitor.exchange(b"x");
    assert!(visitor.client.is_resumed());
}

#[test]
fn a_captured_flight_is_worth_nothing_also_after_a_crash() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = told(&Service::new(&site, &server)).back("early-data-safe = true");
    let lariat = service.start_with("[workers]\nthreads = 2");
    let choice = choice(&site);
    Visitor::new(&choice, &service).exchange(b"x");
    let mut visitor = Visitor::new(&choice, &service);
    assert_eq!(visitor.client.send_early(b"pay"), 3);
    let flight = visitor.client.take_wire();
    visitor.socket.write_all(&flight).unwrap();
    visitor.exchange(b"");
    assert!(visitor.client.is_early_taken());
    until("the payment", || {
        let seen = server.connections();
        let second = ProxyHeader::read(&seen.get(1)?.bytes)?;
        (second.rest == b"pay").then_some(())
    });
    for count in [1.0, 2.0] {
        // Whichever worker gets it.
        replay(&flight, &service);
        lariat.wait_for_metric(RESULTS, &[("result", "unknown-session")], count);
    }
    lariat.replace_worker_process();
    replay(&flight, &service);
    lariat.wait_for_metric(RESULTS, &[("result", "unknown-session")], 1.0);
    assert_eq!(server.connections().len(), 2, "no replay reached the server");
}

#[test]
fn what_was_allowed_before_a_reload_is_skipped_after_it() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let plain = Service::new(&site, &server);
    let lariat = Lariat::start(&told(&plain).toml());
    let choice = choice(&site);
    Visitor::new(&choice, &plain).exchange(b"x");
    lariat.reload_with(&plain.toml());
    let mut visitor = Visitor::new(&choice, &plain);
    let early = [7; 16_384];
    assert_eq!(visitor.client.send_early(&early), early.len());
    visitor.exchange(b"again");
    assert!(!visitor.client.is_early_taken() && !visitor.client.is_resumed());
    lariat.wait_for_metric(RESULTS, &[("result", "refused")], 1.0);
}

fn choice(site: &Site) -> ClientChoice {
    let ca = fs::read_to_string(site.ca()).unwrap();
    ClientChoice::new(&ca, true, &[]).with_early_data()
}

/// Sends a client's former bytes, and checks that they are answered by a handshake of its own.
fn replay(flight: &[u8], service: &Service) {
    let mut socket = tcp(service.address);
    socket.write_all(flight).unwrap();
    let mut record = [0; 5];
    socket.read_exact(&mut record).unwrap();
    assert_eq!(record[0], 22, "a ServerHello");
}

/// A client with its socket: it shows what goes on the wire.
struct Visitor {
    client: Client,
    socket: TcpStream,
    got: Vec<u8>,
}

impl Visitor {
    fn new(choice: &ClientChoice, service: &Service) -> Self {
        let socket = tcp(service.address);
        Self { client: choice.connect("localhost"), socket, got: Vec::new() }
    }

    /// Sends this, ends, and waits for the server's end.
    fn exchange(&mut self, words: &[u8]) {
        self.client.send(words);
        let mut has_ended = false;
        while !self.client.is_closed_by_server() {
            if self.client.is_established() && !std::mem::replace(&mut has_ended, true) {
                self.client.close();
            }
            self.socket.write_all(&self.client.take_wire()).unwrap();
            let mut bytes = vec![0; 16_384];
            let count = self.socket.read(&mut bytes).unwrap();
            assert!(count > 0, "an end without close_notify");
            self.client.receive(&bytes[..count], &mut self.got).unwrap();
            self.socket.write_all(&self.client.take_wire()).unwrap();
        }
        assert!(self.got.ends_with(words));
    }
}
