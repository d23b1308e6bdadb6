//! Limits of a connection's life, and detection of a lost peer.

use suite::patience::pause;
use suite::prelude::*;

/// Returns the seconds until the kernel probes the peer of an established connection, by the ports
/// of its ends; `None` = it does not probe.
fn next_probe(is_it: impl Fn(u16, u16) -> bool) -> Option<u64> {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).expect("the kernel wrote it");
    let port = |end: &str| end.rsplit(':').next().map(hexadecimal).unwrap_or_default() as u16;
    let table = fs::read_to_string("/proc/net/tcp").expect("there is IPv4");
    let mut rows = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(3) == Some(&"01") && is_it(port(fields[1]), port(fields[2]));
        is_it.then(|| fields[5].to_owned())
    });
    let timer = rows.next().expect("the connection stands");
    let (kind, ticks) = timer.split_once(':').expect("KIND:TICKS");
    (kind == "02").then(|| hexadecimal(ticks) / 100)
}

/// Waits until the kernel's next probe is due in about `seconds`; `None` = never.
fn wait_for_probe(seconds: Option<u64>, is_it: impl Fn(u16, u16) -> bool) {
    until_true(&format!("a probe after {seconds:?} s"), || {
        let next = next_probe(&is_it);
        match (seconds, next) {
            (Some(wanted), Some(next)) => (wanted - wanted / 4..=wanted).contains(&next),
            (wanted, next) => wanted == next,
        }
    });
}

#[test]
fn both_sides_are_probed_after_the_times_that_are_set_and_a_reload_changes_them() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let keys = "keepalive = '1000s'";
    let service = Service::new(&site, &server).front(keys).back("keepalive = '2000s'");
    let lariat = service.start();
    let server_port = server.port();
    let is_front = |own: u16, _: u16| own == service.address.port();
    let is_back = |_: u16, other: u16| other == server_port;
    let first = Client::new(&site).echo(service.address);
    wait_for_probe(Some(1000), is_front);
    wait_for_probe(Some(2000), is_back);
    drop(first);
    lariat.wait_for_metric("lariat_connections_open", &[], 0.0);
    for (front, seconds) in [("keepalive = '0s'", None), ("", Some(120))] {
        lariat.reload_with(&service.toml().replace(keys, front));
        let next = Client::new(&site).echo(service.address);
        wait_for_probe(seconds, is_front);
        drop(next);
        lariat.wait_for_metric("lariat_connections_open", &[], 0.0);
    }
}

/// Returns how many packets without data the kernel has kept from listeners that wait for data.
fn deferred() -> u64 {
    let table = fs::read_to_string("/proc/net/netstat").expect("there is TCP");
    let mut rows = table.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    let (_, value) = both.find(|(name, _)| *name == "TCPDeferAcceptDrop").unwrap();
    value.parse().expect("a number")
}

#[test]
fn the_kernel_keeps_a_silent_client_for_a_while() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server)
        .front("defer-accept = true")
        .more("timeouts = { handshake = '1s' }");
    let before = deferred();
    let lariat = service.start();
    let _silent = TcpStream::connect(service.address).unwrap();
    until_true("the kernel keeps it", || deferred() > before);
    drop(Client::new(&site).echo(service.address));
    lariat.wait_for_reason("handshake-timeout", 1);
}

#[test]
fn a_connection_ends_with_its_lifetime_and_a_further_one_begins_its_own() {
    let (site, _server, service, lariat) =
        serve_as(Behaviour::Echo, |service| service.more("timeouts = { lifetime = '1s' }"));
    for (client, ended) in Client::of_each_version(&site).iter().zip(1..) {
        let mut connection = client.echo(service.address);
        assert_eq!(connection.read_to_end().expect("close_notify"), b"");
        drop(connection);
        lariat.wait_for_reason("lifetime-reached", ended);
    }
    let line = lariat.wait_for_line(&["lifetime-reached"]);
    assert_eq!(line["fault"], "none", "{line}");
}

#[test]
fn a_client_that_takes_nothing_for_too_long_is_given_up() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Speak(vec![7; 32 << 20])));
    let service = Service::new(&site, &server).more("timeouts = { unacknowledged = '1s' }");
    let lariat = service.start();
    let connection = Client::new(&site).connect(service.address);
    lariat.wait_for_reason("client-unreachable", 1);
    drop(connection);
    let mut other = Client::new(&site).connect(service.address);
    let got = other.read_to_end().expect("all of it");
    assert_eq!(got.len(), 32 << 20);
}

#[test]
fn a_plain_answer_that_its_lifetime_cuts_does_not_look_whole() {
    const BYTES: usize = 32 << 20;
    let (_site, _server, service, lariat) = serve_as(Behaviour::Speak(vec![b'b'; BYTES]), |one| {
        one.mode("off").more("timeouts = { lifetime = '1s' }")
    });
    let mut stream = tcp(service.address);
    lariat.wait_for_reason("lifetime-reached", 1);
    let mut got = Vec::new();
    let end = Read::read_to_end(&mut stream, &mut got).unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    assert!(got.len() < BYTES);
}

#[test]
fn a_client_that_takes_what_the_kernel_has_for_it_is_not_idle() {
    const BYTES: usize = 32 << 20;
    let behaviour = Behaviour::Speak(vec![b'b'; BYTES]);
    let (_site, _server, service, lariat) =
        serve_as(behaviour, |one| one.mode("off").more("timeouts = { idle = '2s' }"));
    let mut slow = TcpStream::connect(service.address).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&slow, 32 << 10).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    let stalled = TcpStream::connect(service.address).unwrap();
    let mut got = vec![0; BYTES];
    let (first, rest) = got.split_at_mut(1 << 20);
    for piece in first.chunks_mut(32 << 10) {
        Read::read_exact(&mut slow, piece).unwrap();
        pause(Duration::from_millis(150));
    }
    lariat.wait_for_reason("idle-timeout", 1);
    Read::read_exact(&mut slow, rest).unwrap();
    drop(stalled);
}
