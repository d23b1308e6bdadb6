//! Admission of clients by address, and limits for one address.

use std::net::Ipv4Addr;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use suite::prelude::*;
use suite::process::resident_kib;

/// Makes a connection from behind a trusted load balancer whose header names the client; the
/// request behind it shows whether the client was admitted.
fn through_a_balancer(address: SocketAddr, header: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    let bytes = format!("{header}\r\nGET / HTTP/1.1\r\n\r\n");
    stream.write_all(bytes.as_bytes()).unwrap();
    let _answered_or_reset = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_denied_network_is_reset_and_named() {
    let (site, _server, service, lariat) = serve_as(Behaviour::Echo, |service| {
        service.front("deny = ['192.0.2.0/24', '127.0.0.0/8']")
    });
    assert!(Client::new(&site).try_connect(service.address).is_err());
    lariat.wait_for_reason("source-denied", 1);
    let line = lariat.wait_for_line(&["source-denied"]);
    assert_eq!((&line["fault"], &line["bytes_up"]), (&"client".into(), &0.into()));
}

#[test]
fn none_but_allowed_networks_come_in() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let denying = service.clone().front("allow = ['192.0.2.0/24']");
    let lariat = denying.start();
    let client = Client::new(&site);
    assert!(client.try_connect(service.address).is_err());
    lariat.wait_for_reason("source-denied", 1);
    let allowed = service.front("allow = ['127.0.0.1', '192.0.2.0/24']");
    lariat.reload_with(&allowed.toml());
    client.echo(allowed.address);
}

#[test]
fn a_list_is_read_again_and_a_broken_one_changes_nothing() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let list = site.write("deny.txt", "# ours\n192.0.2.0/24 ; example\n\n");
    let service = Service::new(&site, &server).front(&format!("deny = [{list:?}]"));
    let lariat = service.start();
    let client = Client::new(&site);
    client.echo(service.address);
    site.write("deny.txt", "127.0.0.0/8\n127.0.0/8\n10.0.0.0/33\n");
    let refused = lariat.reload();
    for place in ["deny.txt:2: \"127.0.0/8\"", "deny.txt:3: \"10.0.0.0/33\""] {
        refused.assert_stderr(place);
    }
    client.echo(service.address);
    site.write("deny.txt", "127.0.0.0/8\n");
    lariat.reload().success();
    assert!(client.try_connect(service.address).is_err());
    lariat.wait_for_reason("source-denied", 1);
}

#[test]
fn the_address_in_a_trusted_proxy_header_counts() {
    let (_site, _server, service, lariat) = serve_as(Behaviour::Echo, |service| {
        let trusted = "accept-proxy = ['127.0.0.0/8']";
        service.front(&format!("{trusted}\nallow = ['2001:db8::/32', '192.0.2.1']"))
    });
    for (denied, header) in [
        (1, "PROXY TCP4 192.0.2.2 198.51.100.1 1 443"),
        (2, "PROXY TCP6 2001:db9::1 2001:db8::1 1 443"),
        (3, "PROXY UNKNOWN"),
    ] {
        through_a_balancer(service.address, header);
        lariat.wait_for_reason("source-denied", denied);
    }
    let line = lariat.wait_for_line(&["source-denied", "2001:db9::1"]);
    assert_eq!(line["reason"], "source-denied", "{line}");
    for (admitted, header) in [
        (1, "PROXY TCP4 192.0.2.1 198.51.100.1 1 443"),
        (2, "PROXY TCP6 2001:db8::1 2001:db8::1 1 443"),
    ] {
        through_a_balancer(service.address, header);
        lariat.wait_for_reason("plain-http", admitted);
    }
}

/// Makes a service with these limits of one source, and two workers, so that one worker's counts
/// hold for the other.
fn limited(limits: &str, front: &str) -> (Site, Server, Service, Lariat) {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server).front(front);
    let process = format!("[workers]\nthreads = 2\n[limits.per-source]\n{limits}\n");
    let lariat = service.start_with(&process);
    (site, server, service, lariat)
}

#[test]
fn connections_of_one_source_are_limited_over_all_workers() {
    let (site, _server, service, lariat) = limited("connections = 2\nexempt = []", "");
    let client = Client::new(&site);
    let (mut first, _second) = (client.echo(service.address), client.echo(service.address));
    assert!(client.try_connect(service.address).is_err());
    lariat.wait_for_reason("source-connection-limit", 1);
    first.end();
    first.read_to_end().unwrap();
    lariat.wait_for_metric("lariat_connections_open", &[], 1.0);
    client.echo(service.address);
}

#[test]
fn silent_clients_of_one_source_keep_no_other_out() {
    let (site, _server, service, lariat) = limited("handshakes = 3\nexempt = []", "");
    let connect = || TcpStream::connect(service.address).unwrap();
    let silent = [connect(), connect(), connect()];
    lariat.wait_for_metric("lariat_handshakes_in_progress", &[], 3.0);
    assert!(Client::new(&site).try_connect(service.address).is_err());
    lariat.wait_for_reason("source-handshake-limit", 1);
    let other = s_client(&site, service.address, &["-bind", "127.0.0.3:0"]);
    other.assert_stdout("Cipher is TLS_AES");
    drop(silent);
    lariat.wait_for_metric("lariat_handshakes_in_progress", &[], 0.0);
    Client::new(&site).echo(service.address);
}

#[test]
fn the_addresses_of_an_ipv6_network_are_one_source() {
    let limits = "rate = 1\nexempt = []\nipv6-prefix = 56";
    let (_site, _server, service, lariat) = limited(limits, "accept-proxy = ['127.0.0.0/8']");
    for low in 0..100 {
        let client = format!("PROXY TCP6 2001:db8:0:{low:x}::1 2001:db8::1 1 443");
        through_a_balancer(service.address, &client);
    }
    // At most one a second; others' networks have a rate of their own.
    lariat.wait_for_metric_from(
        "lariat_connections_ended_total",
        &[("reason", "source-rate-limit")],
        1.0,
    );
    let admitted = lariat.sum("lariat_connections_ended_total", &[("reason", "plain-http")]);
    for (count, high) in (1..=10).zip(1..) {
        let client = format!("PROXY TCP6 2001:db8:{high:x}::1 2001:db8::1 1 443");
        through_a_balancer(service.address, &client);
        let ended = [("reason", "plain-http")];
        lariat.wait_for_metric(
            "lariat_connections_ended_total",
            &ended,
            admitted + f64::from(count),
        );
    }
}

/// Refusals are counted one by one, and logged as a few lines and sums.
#[test]
fn a_flood_of_one_source_does_not_flood_the_log() {
    let (site, _server, service, lariat) = limited("rate = 5\nexempt = []", "");
    let resident_kib = || resident_kib(lariat.worker_process());
    let before = resident_kib();
    for _ in 0..3000 {
        // The reset may come before the answer to connect(2).
        let _reset = TcpStream::connect(service.address);
    }
    let refused = [("reason", "source-rate-limit")];
    lariat.wait_for_metric_from("lariat_connections_ended_total", &refused, 2500.0);
    lariat.wait_for_line(&["source-rate-limit"]);
    let lines = lariat.log().matches("\"source-rate-limit\"").count();
    assert!(lines < 500, "{lines} lines");
    let after = resident_kib();
    assert!(after < before + (16 << 10), "{before} KiB, then {after}");
    // Clients of other sources come in meanwhile.
    let other = s_client(&site, service.address, &["-bind", "127.0.0.3:0"]);
    other.assert_stdout("Cipher is TLS_AES");
}

/// The addresses of a flood are 127.1.0.0 and those behind it.
const FLOOD: u32 = 30_000;

/// Sources that the table may hold while few have a connection open: 64 in each of its parts.
const TABLE_MAX: f64 = 64.0 * 64.0;

/// Connects from an address of this host.
fn connect_from(source: Ipv4Addr, address: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((source, 0))).unwrap();
    connect(&socket, &address).unwrap();
    TcpStream::from(socket)
}

fn flooder(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 0).to_bits() + number)
}

/// Each source comes once and sends nonsense: no limit of one source is reached.
#[test]
fn a_flood_from_many_sources_takes_little_memory_and_few_lines() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let limits = "[limits.per-source]\nconnections = 100\nrate = 0\nexempt = []\n";
    // Keys of `log` may stand at the front.
    let toml = format!("failures-per-second = 1\n{limits}{}", service.toml());
    let lariat = Lariat::start(&toml);
    let resident_kib = || resident_kib(lariat.worker_process());
    let client = Client::new(&site);
    client.echo(service.address);
    let before = resident_kib();
    thread::scope(|scope| {
        let threads = 4;
        let flooding = (0..threads).map(|thread| {
            let sources = (0..FLOOD).filter(move |number| number % threads == thread);
            scope.spawn(move || {
                for number in sources {
                    let mut stream = connect_from(flooder(number), service.address);
                    stream.write_all(b"nonsense\n").unwrap();
                    let _alert_or_reset = stream.read_to_end(&mut Vec::new());
                }
            })
        });
        let flooding: Vec<_> = flooding.collect();
        let mut honest = 0;
        while flooding.iter().any(|thread| !thread.is_finished()) {
            client.echo(service.address);
            assert!(lariat.sum("lariat_sources", &[]) <= TABLE_MAX);
            honest += 1;
        }
        assert!(honest > 0);
    });
    let refused = [("reason", "not-tls")];
    lariat.wait_for_metric("lariat_connections_ended_total", &refused, FLOOD.into());
    assert!(lariat.sum("lariat_sources", &[]) <= TABLE_MAX);
    let written = until("all to be written or counted", || {
        let written = lariat.log().matches("\"reason\":\"not-tls\"").count() as f64;
        let suppressed = lariat.sum("lariat_log_lines_suppressed_total", &[]);
        (suppressed + written >= f64::from(FLOOD)).then_some(written)
    });
    assert!(written < f64::from(FLOOD) / 10.0, "{written} lines");
    let after = resident_kib();
    assert!(after < before + (16 << 10), "{before} KiB, then {after}");
}

/// The oldest silent ones give way at the limit of the process, so that no client is kept out.
#[test]
fn silent_clients_from_many_sources_keep_no_other_out() {
    let limits = "connections = 100\nrate = 0\nexempt = []\n[limits]\nhandshakes = 100";
    let (site, _server, service, lariat) = limited(limits, "");
    let client = Client::new(&site);
    let mut silent = Vec::new();
    for number in 0..1000 {
        silent.push(connect_from(flooder(number), service.address));
        if number % 100 == 99 {
            client.echo(service.address);
        }
    }
    assert!(lariat.sum("lariat_handshakes_in_progress", &[]) <= 100.0);
    assert!(lariat.sum("lariat_sources", &[]) <= TABLE_MAX);
    lariat.wait_for_metric_from(
        "lariat_connections_ended_total",
        &[("reason", "displaced")],
        100.0,
    );
}

/// The defaults limit no client of this host.
#[test]
fn this_host_is_exempt_unless_it_is_said_otherwise() {
    let (site, _server, service, lariat) = limited("connections = 1\nrate = 1", "");
    let client = Client::new(&site);
    let _held: Vec<_> = (0..5).map(|_| client.echo(service.address)).collect();
    assert_eq!(lariat.sum("lariat_connections_open", &[]), 5.0);
}
