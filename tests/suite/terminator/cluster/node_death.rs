//! One of three terminators behind a balancer dies under load: its clients resume at the others.

use std::net::SocketAddr;

use rustix::process::{Signal, kill_process};
use suite::lab::{self, Origin};
use suite::lariat;
use suite::load::{Load, Record};
use suite::network::{Host, Network};
use suite::prelude::*;

const TERMINATORS: usize = 3;

/// Clients, each with its session. So many transactions can be in progress at once.
const CLIENTS: u64 = 12;

/// Transactions of one load; the node dies when it has served so many of them.
const TRANSACTIONS: u64 = 450;
const SERVED_BEFORE: f64 = 40.0;

/// A balancer that leaves TLS closed, three terminators, and an origin, each on a host.
struct Farm {
    // Dropped in this order: programs before their hosts.
    nodes: Vec<(Lariat, Host)>,
    balancer: (Lariat, Host),
    _origin: (Origin, Host),
    clients: Host,
    site: Site,
    _network: Network,
}

impl Farm {
    /// With these tables in the configuration of each terminator; `None` if we may not make it.
    fn start(tables: &str) -> Option<Self> {
        let mut network = Network::new()?;
        let site = Site::new();
        let host = network.host();
        let listen = host.at(8000).to_string();
        let mut command = host.command(&lab::command());
        let origin = Origin::start_by(&mut command, &["--threads", "1", "--listen", &listen]);
        let node = |node: Host| {
            let plain = service(&site, &node, &[host.at(8000)]);
            (start(&node, &format!("{}{tables}", plain.toml())), node)
        };
        let nodes: Vec<_> = (0..TERMINATORS).map(|_| node(network.host())).collect();
        let addresses: Vec<_> = nodes.iter().map(|(_, host)| host.at(443)).collect();
        let balancer = network.host();
        let passing = service(&site, &balancer, &addresses)
            .mode("passthrough")
            .back("affinity = 'session-id'");
        Some(Self {
            balancer: (start(&balancer, &passing.toml()), balancer),
            nodes,
            clients: network.host(),
            _origin: (origin, host),
            site,
            _network: network,
        })
    }

    /// A load, in the midst of which one terminator dies.
    fn lose_one(&mut self, arguments: &str) -> Record {
        let load = Load::by(self.clients.command(&lab::command()))
            .arg("https://localhost/")
            .args(&format!("--connect {}", self.balancer.1.at(443)))
            .args(&format!("--connections {CLIENTS} --count {TRANSACTIONS}"))
            .args("--think-time 50ms --threads 1 --cpus none --ca")
            .arg(self.site.ca())
            .args(arguments)
            .start();
        let (lost, host) = self.nodes.swap_remove(1);
        // All clients have a session by now, and a third of them are here.
        host.within(|| {
            lost.wait_for_metric_from("lariat_handshakes_total", &[], SERVED_BEFORE);
        });
        for process in [lost.supervisor(), lost.worker_process()] {
            kill_process(process, Signal::KILL).expect("it runs");
        }
        let before = self.served();
        let record = load.wait().record();
        assert!(self.served() >= before + 100.0, "the load went on");
        record
    }

    /// Handshakes of the terminators that live.
    fn served(&self) -> f64 {
        let nodes = self.nodes.iter();
        let counts =
            nodes.map(|(node, host)| host.within(|| node.sum("lariat_handshakes_total", &[])));
        counts.sum()
    }
}

/// At port 443 of a host, before these servers.
fn service(site: &Site, host: &Host, servers: &[SocketAddr]) -> Service {
    let servers: Vec<_> = servers.iter().map(SocketAddr::to_string).collect();
    Service::new(site, &Server::start(Behaviour::Hang))
        .at(host.at(443))
        .servers(&format!("{servers:?}"))
}

fn start(host: &Host, configuration: &str) -> Lariat {
    let one_worker = format!("{configuration}\n[workers]\nthreads = 1\n");
    Lariat::start_by(host.command(&lariat::command()), &one_worker)
}

/// Nothing failed but what was in progress at the node that died.
fn assert_few_failed(record: &Record) {
    let [attempted, _, failed] = record.totals();
    assert!(
        failed <= CLIENTS,
        "{failed} of {attempted}: {:?}",
        record.failures()
    );
    assert_eq!(attempted, TRANSACTIONS);
}

/// Terminators with the same secret resume each other's tickets.
#[test]
fn stateless_sessions_are_all_resumed_elsewhere() {
    for arguments in ["--tls 1.3 --handshake psk", "--tls 1.2 --handshake ticket"] {
        let directory = Directory::new();
        let secret = directory.write("secret", [7; 32]);
        let tables = format!("[resumption.tickets]\nsecret = {secret:?}\n");
        let Some(mut farm) = Farm::start(&tables) else {
            return;
        };
        let record = farm.lose_one(arguments);
        assert_few_failed(&record);
        let [full, by_id, by_ticket, by_psk] = record.kinds();
        assert_eq!(by_id, 0);
        // The first handshake of each client, and, where an answer was cut, the one that had
        // brought it a new ticket.
        assert!(full <= CLIENTS + record.totals()[2], "{full} full");
        assert!(by_ticket + by_psk >= record.totals()[1] - full);
    }
}

/// Without a cache in common, affinity keeps what the living nodes have.
#[test]
fn session_ids_of_the_living_are_kept_by_affinity() {
    let Some(mut farm) = Farm::start("") else {
        return;
    };
    let record = farm.lose_one("--tls 1.2 --handshake any --tickets off");
    assert_few_failed(&record);
    let [full, by_id, by_ticket, by_psk] = record.kinds();
    assert_eq!((by_ticket, by_psk), (0, 0));
    // Each client's first, and once more for those of the node that died.
    assert!(
        (CLIENTS + 1..=2 * CLIENTS).contains(&full),
        "{full} full, {by_id} resumed"
    );
}
