//! Either side may end its direction; the other goes on.

use suite::client::Client;
use suite::configuration::Service;
use suite::lariat::Lariat;
use suite::site::Site;
use testkit::server::{Behaviour, Server};

fn start(behaviour: Behaviour) -> (Site, Server, Service, Lariat) {
    let (site, server) = (Site::new(), Server::start(behaviour));
    let service = Service::new(&site, &server);
    let lariat = Lariat::start(&service.toml());
    (site, server, service, lariat)
}

fn clients(site: &Site) -> [Client; 2] {
    [Client::tls12(site), Client::new(site)]
}

#[test]
fn an_answer_comes_after_the_clients_end() {
    let (site, server, service, lariat) = start(Behaviour::ReplyAfterEnd(b"late".to_vec()));
    for (count, client) in [1, 2].into_iter().zip(clients(&site)) {
        let mut connection = client.connect(service.address);
        connection.send(b"question");
        connection.end();
        assert_eq!(connection.read_to_end().unwrap(), b"late");
        let seen = server.wait_for_end(count);
        assert_eq!(
            (seen.bytes.as_slice(), seen.failed),
            (&b"question"[..], false)
        );
    }
    lariat.wait_for_reason("client-closed", 2);
}

#[test]
fn a_client_still_speaks_after_the_servers_end() {
    let (site, server, service, lariat) = start(Behaviour::Speak(b"bye".to_vec()));
    for (count, client) in [1, 2].into_iter().zip(clients(&site)) {
        let mut connection = client.connect(service.address);
        assert_eq!(
            connection.read_to_end().unwrap(),
            b"bye",
            "close_notify follows the end"
        );
        connection.send(b"but wait");
        connection.end();
        let seen = server.wait_for_end(count);
        assert_eq!(
            (seen.bytes.as_slice(), seen.failed),
            (&b"but wait"[..], false)
        );
    }
    lariat.wait_for_reason("backend-closed", 2);
}

#[test]
fn a_server_may_speak_first() {
    let (site, _server, service, _lariat) = start(Behaviour::Greet(b"220 ready".to_vec()));
    for client in clients(&site) {
        let mut connection = client.connect(service.address);
        assert_eq!(connection.receive(9), b"220 ready");
        connection.send(b"HELO");
        assert_eq!(connection.receive(4), b"HELO");
    }
}

#[test]
fn a_servers_reset_is_no_clean_end_for_the_client() {
    let (site, _server, service, lariat) = start(Behaviour::Reset);
    let mut connection = Client::new(&site).connect(service.address);
    connection.send(b"x");
    assert!(
        connection.read_to_end().is_err(),
        "no close_notify: the answer may be cut"
    );
    lariat.wait_for_reason("backend-reset", 1);
}
