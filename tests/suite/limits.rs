//! Limits hold, and a place that becomes free is given again.

use std::io::{Read, Write};
use std::net::TcpStream;

use suite::client::Client;
use suite::configuration::Service;
use suite::lariat::Lariat;
use suite::site::Site;
use testkit::server::{Behaviour, Server};

#[test]
fn connections_beyond_the_limit_are_ended_and_counted() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server).more("limits = { connections = 2 }");
    // Of two workers each may get both connections or none.
    let lariat = Lariat::start(&format!("[workers]\nthreads = 2\n{}", service.toml()));
    let client = Client::new(&site);
    let connect = || {
        let mut connection = client.connect(service.address);
        connection.send(b"x");
        assert_eq!(connection.receive(1), b"x");
        connection
    };
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
fn handshakes_beyond_the_limit_are_ended_and_counted() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let limits = "[workers]\nthreads = 1\n[limits]\nhandshakes = 1\n";
    let lariat = Lariat::start(&format!("{limits}{}", service.toml()));

    let mut first = TcpStream::connect(service.address).unwrap();
    first.write_all(b"\x16\x03\x01").unwrap();
    lariat.wait_for_metric("lariat_handshakes_under_way", &[], 1.0);
    let mut second = TcpStream::connect(service.address).unwrap();
    let _closed_or_reset = second.read_to_end(&mut Vec::new());
    lariat.wait_for_reason("handshake-limit", 1);

    drop(first);
    lariat.wait_for_metric("lariat_handshakes_under_way", &[], 0.0);
    let mut third = Client::new(&site).connect(service.address);
    third.send(b"x");
    assert_eq!(third.receive(1), b"x");
}
