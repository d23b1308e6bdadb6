//! Limits hold, and a place that becomes free is given again.

use suite::client::Client;
use suite::configuration::Service;
use suite::lariat::Lariat;
use suite::site::Site;
use testkit::server::{Behaviour, Server};

#[test]
fn connections_beyond_the_limit_are_ended_and_counted() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server).more("limits = { connections = 2 }");
    let lariat = Lariat::start(&format!("[workers]\nthreads = 1\n{}", service.toml()));
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

    first.end();
    first.read_to_end().unwrap();
    lariat.wait_for_metric("lariat_connections_open", &[], 1.0);
    connect();
}
