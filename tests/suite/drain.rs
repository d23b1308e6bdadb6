//! A drain: nobody new, those who are there may finish, within a deadline.

use std::net::TcpStream;

use rustix::process::Signal;
use suite::client::Client;
use suite::configuration::Service;
use suite::lariat::Lariat;
use suite::patience::until;
use suite::site::Site;
use testkit::server::{Behaviour, Server};

#[test]
fn an_open_connection_finishes_and_a_new_one_is_refused() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let mut lariat = Lariat::start(&service.toml());
    let mut connection = Client::new(&site).connect(service.address);
    connection.send(b"a");
    assert_eq!(connection.receive(1), b"a");

    lariat.signal(Signal::TERM);
    until("the listener to close", || {
        TcpStream::connect(service.address).err()
    });
    connection.send(b"b");
    assert_eq!(connection.receive(1), b"b");
    connection.end();
    assert_eq!(connection.read_to_end().unwrap(), b"");
    assert_eq!(lariat.wait().code(), Some(0));
}

#[test]
fn the_deadline_ends_what_does_not_end() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let text = format!("[process]\ndrain = '100ms'\n{}", service.toml());
    let mut lariat = Lariat::start(&text);
    let mut connection = Client::new(&site).connect(service.address);
    connection.send(b"a");
    assert_eq!(connection.receive(1), b"a");

    lariat.signal(Signal::TERM);
    let _cut = connection.read_to_end();
    assert_eq!(lariat.wait().code(), Some(0));
    let line = lariat.wait_for_line(&["drained"]);
    assert_eq!(line["reason"], "drained");
}

#[test]
fn the_command_waits_for_the_end() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let mut lariat = Lariat::start(&service.toml());
    lariat.ask("drain").success();
    assert_eq!(lariat.wait().code(), Some(0));
}
