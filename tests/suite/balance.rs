//! Connections are spread over servers as configured.

use suite::client::Client;
use suite::client::Connection;
use suite::configuration::Service;
use suite::lariat::Lariat;
use suite::site::Site;
use testkit::server::{Behaviour, Server};

/// One worker, because each worker counts for itself.
const ONE_WORKER: &str = "[workers]\nthreads = 1\n";

fn servers() -> [Server; 3] {
    [(); 3].map(|()| Server::start(Behaviour::Echo))
}

fn start(site: &Site, servers: &[Server], weights: &[u32], how: &str) -> (Lariat, Service) {
    let entry = |(server, weight): (&Server, &u32)| {
        format!("{{ address = '{}', weight = {weight} }}", server.address())
    };
    let entries: Vec<String> = servers.iter().zip(weights).map(entry).collect();
    let service = Service::new(site, &servers[0])
        .servers(&format!("[{}]", entries.join(", ")))
        .back(&format!("balance = '{how}'"));
    (
        Lariat::start(&format!("{ONE_WORKER}{}", service.toml())),
        service,
    )
}

/// Makes connections one after the other, each of which stays open and has reached its server.
fn connect(site: &Site, service: &Service, count: usize) -> Vec<Connection> {
    let client = Client::new(site);
    let reached = |_| {
        let mut connection = client.connect(service.address);
        connection.send(b"x");
        connection.receive(1);
        connection
    };
    (0..count).map(reached).collect()
}

fn counts(servers: &[Server]) -> Vec<usize> {
    servers
        .iter()
        .map(|server| server.connections().len())
        .collect()
}

#[test]
fn round_robin_follows_the_weights() {
    let (site, servers) = (Site::new(), servers());
    let (_lariat, service) = start(&site, &servers, &[1, 2, 3], "round-robin");
    let _open = connect(&site, &service, 12);
    assert_eq!(counts(&servers), [2, 4, 6]);
}

#[test]
fn least_connections_fills_the_emptiest() {
    let (site, servers) = (Site::new(), servers());
    let (lariat, service) = start(&site, &servers, &[1, 1, 1], "least-connections");
    let mut open = connect(&site, &service, 6);
    assert_eq!(counts(&servers), [2, 2, 2]);

    // The fourth connection went to the server that the first one is on, and so on.
    for index in [3, 0] {
        let mut connection = open.remove(index);
        connection.end();
        connection.read_to_end().unwrap();
    }
    lariat.wait_for_metric("lariat_server_connections_open", &[], 4.0);
    let _more = connect(&site, &service, 2);
    let mut counts = counts(&servers);
    counts.sort_unstable();
    assert_eq!(
        counts,
        [2, 2, 4],
        "both went to the server that had lost two"
    );
}

#[test]
fn source_keeps_a_client_on_its_server() {
    let (site, servers) = (Site::new(), servers());
    let (_lariat, service) = start(&site, &servers, &[1, 1, 1], "source");
    let _open = connect(&site, &service, 9);
    let mut counts = counts(&servers);
    counts.sort_unstable();
    assert_eq!(counts, [0, 0, 9]);
}
