//! Connections are spread over servers as configured.

use suite::prelude::*;

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
    (service.start_with(ONE_WORKER), service)
}

/// Makes connections one after the other, all of which stay open.
fn connect(site: &Site, service: &Service, count: usize) -> Vec<Connection> {
    let client = Client::new(site);
    (0..count).map(|_| client.echo(service.address)).collect()
}

fn counts(servers: &[Server]) -> Vec<usize> {
    servers.iter().map(|server| server.connections().len()).collect()
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
    let client = Client::new(&site);
    let mut on_first = Vec::new();
    let mut on_others = Vec::new();
    for _ in 0..6 {
        let before = servers[0].connections().len();
        let connection = client.echo(service.address);
        let went_first = servers[0].connections().len() > before;
        if went_first { &mut on_first } else { &mut on_others }.push(connection);
    }
    assert_eq!(counts(&servers), [2, 2, 2]);
    for mut connection in on_first {
        connection.end();
        connection.read_to_end().unwrap();
    }
    lariat.wait_for_metric("lariat_server_connections_open", &[], 4.0);
    let _more = connect(&site, &service, 2);
    assert_eq!(counts(&servers), [4, 2, 2], "both went to the emptiest");
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
