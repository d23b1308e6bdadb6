//! If the data process dies, another takes over the same sockets: nobody is refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Signal, kill_process, test_kill_process};
use rustls::HandshakeKind;
use suite::client::Client;
use suite::configuration::Service;
use suite::lariat::Lariat;
use suite::patience::until;
use suite::site::Site;
use testkit::server::{Behaviour, Server};

#[test]
fn nobody_is_refused_while_the_data_process_is_replaced() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let lariat = Lariat::start(&service.toml());
    let (refused, done) = (AtomicBool::new(false), AtomicBool::new(false));

    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                if std::net::TcpStream::connect(service.address).is_err() {
                    refused.store(true, Ordering::Release);
                }
            }
        });
        let first = lariat.data_process();
        kill_process(first, Signal::KILL).unwrap();
        until("another data process", || {
            (lariat.data_process() != first).then_some(())
        });
        lariat.wait_for_metric("lariat_data_process_restarts_total", &[], 1.0);
        done.store(true, Ordering::Release);
    });
    assert!(!refused.load(Ordering::Acquire));
    let mut connection = Client::new(&site).connect(service.address);
    connection.send(b"x");
    assert_eq!(connection.receive(1), b"x");
}

#[test]
fn a_ticket_outlives_the_process_that_gave_it() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let lariat = Lariat::start(&service.toml());
    let client = Client::new(&site);
    let visit = || {
        let mut connection = client.connect(service.address);
        connection.send(b"x");
        connection.receive(1);
        connection.kind()
    };
    assert_eq!(visit(), HandshakeKind::Full);
    kill_process(lariat.data_process(), Signal::KILL).unwrap();
    assert_eq!(visit(), HandshakeKind::Resumed);
}

#[test]
fn without_its_supervisor_the_data_process_ends() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let lariat = Lariat::start(&Service::new(&site, &server).toml());
    let data = lariat.data_process();
    lariat.signal(Signal::KILL);
    until("the data process to end", || test_kill_process(data).err());
}
