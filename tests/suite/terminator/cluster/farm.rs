//! Three terminators behind a balancer that passes TLS through, and an origin, each on a host of
//! its own.

use suite::lab;
use suite::load::Record;
use suite::network::{Host, Network};
use suite::prelude::*;
use suite::weather::{Relay, Weather};

const TERMINATORS: usize = 3;

const CLUSTER_PORT: u16 = 8888;

/// Number of clients, each with its session. As many transactions can be in progress at once.
pub(super) const CLIENTS: u64 = 12;

/// Transactions of one load. The node dies when it has served `SERVED_BEFORE` of them.
pub(super) const TRANSACTIONS: u64 = 450;
const SERVED_BEFORE: f64 = 40.0;

const SESSIONS: &str = "lariat_cluster_sessions_total";

pub(super) struct Farm {
    // Dropped in this order: programs before their hosts.
    nodes: Vec<Node>,
    balancer: (Lariat, Host),
    _origin: (Origin, Host),
    /// The bad network between the terminators.
    pub(super) relay: Option<Relay>,
    clients: Host,
    site: Site,
    network: Network,
}

/// A terminator, which can be started again.
struct Node {
    lariat: Lariat,
    host: Host,
    configuration: String,
}

impl Farm {
    /// Makes a farm with these tables in each configuration; `None` if we may not.
    pub(super) fn start(tables: &str) -> Option<Self> {
        let network = Network::new()?;
        Some(Self::with(network, |_, _| (vec![tables.to_owned(); TERMINATORS], None)))
    }

    /// Makes a farm whose terminators send each other their sessions through this network, by this
    /// seed and with these keys.
    pub(super) fn with_peers(weather: Weather, seed: u64, more: &str) -> Option<Self> {
        let network = Network::new()?;
        Some(Self::with(network, |network, hosts| {
            let addresses: Vec<_> = hosts.iter().map(|host| host.at(CLUSTER_PORT)).collect();
            let relay = Relay::start(network.host(), &addresses, weather, seed);
            let peers = |own: usize| {
                let others = (0..addresses.len()).filter(|other| *other != own);
                let others: Vec<_> = others.map(|other| relay.place(other).to_string()).collect();
                format!("listen = \"{}\"\nsend-to = {others:?}\n{more}", addresses[own])
            };
            ((0..hosts.len()).map(peers).map(|keys| cluster(&keys)).collect(), Some(relay))
        }))
    }

    /// Makes a farm whose terminators send each other their sessions by this multicast group.
    pub(super) fn with_group(group: &str) -> Option<Self> {
        let keys = format!("multicast = {{ group = {group:?}, interface = \"eth0\" }}");
        Self::start(&cluster(&format!("{keys}\n{WAIT}")))
    }

    /// Makes a farm with tables, by the hosts of the terminators, and a relay between these.
    pub(super) fn with(
        mut network: Network,
        tables: impl FnOnce(&mut Network, &[Host]) -> (Vec<String>, Option<Relay>),
    ) -> Self {
        let site = Site::new();
        site.write("secret", [7; 32]);
        let host = network.host();
        let listen = host.at(8000).to_string();
        let mut command = host.command(&lab::command());
        let origin = Origin::start_by(&mut command, &["--threads", "1", "--listen", &listen]);
        let hosts: Vec<_> = (0..TERMINATORS).map(|_| network.host()).collect();
        let addresses: Vec<_> = hosts.iter().map(|host| host.at(443)).collect();
        let (tables, relay) = tables(&mut network, &hosts);
        let node = |(node, tables): (Host, String)| {
            let plain = service(&site, &node, &[host.at(8000)]).toml();
            let secret = format!("{:?}", site.path("secret"));
            let tables = tables.replace("SECRET", &secret);
            let configuration = format!("{plain}{tables}");
            Node { lariat: start(&node, &configuration), host: node, configuration }
        };
        let nodes = hosts.into_iter().zip(tables).map(node).collect();
        let balancer = network.host();
        let passing = service(&site, &balancer, &addresses)
            .mode("passthrough")
            .back("affinity = 'session-id'");
        Self {
            balancer: (start(&balancer, &passing.toml()), balancer),
            nodes,
            relay,
            clients: network.host(),
            _origin: (origin, host),
            site,
            network,
        }
    }

    /// Returns the network between its hosts.
    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    pub(super) fn site(&self) -> &Site {
        &self.site
    }

    /// Returns the hosts of the clients and of the balancer.
    pub(super) fn ends(&self) -> (&Host, &Host) {
        (&self.clients, &self.balancer.1)
    }

    /// Makes a handshake by `openssl s_client` with this terminator; returns its output.
    pub(super) fn talk(&self, node: usize, options: &[&str]) -> String {
        let address = self.nodes[node].host.at(443);
        let talk = || s_client(&self.site, address, options).success();
        self.clients.within(talk)
    }

    /// Makes new clients without tickets and without a session.
    pub(super) fn clients(&self, count: usize) -> Vec<Client> {
        (0..count).map(|_| Client::without_tickets(&self.site)).collect()
    }

    /// Connects each client to the terminator of this number, bypassing the balancer; returns how
    /// many resumed a session.
    pub(super) fn visit(&self, clients: &[Client], node: usize) -> usize {
        let address = self.nodes[node].host.at(443);
        let is_resumed = |client: &&Client| {
            let mut connection = client.connect(address);
            connection.end();
            connection.kind() == HandshakeKind::Resumed
        };
        self.clients.within(|| clients.iter().filter(is_resumed).count())
    }

    /// Returns a metric of the terminator of this number.
    pub(super) fn sum(&self, node: usize, name: &str, labels: &[(&str, &str)]) -> f64 {
        let Node { lariat, host, .. } = &self.nodes[node];
        host.within(|| lariat.sum(name, labels))
    }

    /// Returns the status of the terminator of this number.
    pub(super) fn status(&self, node: usize) -> Value {
        let Node { lariat, host, .. } = &self.nodes[node];
        host.within(|| lariat.status())
    }

    /// Waits until a metric of the terminator of this number is at least this.
    pub(super) fn wait_from(&self, node: usize, name: &str, labels: &[(&str, &str)], value: f64) {
        let Node { lariat, host, .. } = &self.nodes[node];
        host.within(|| lariat.wait_for_metric_from(name, labels, value));
    }

    /// Waits until terminator `node` receives from this number of peers.
    pub(super) fn hears(&self, node: usize, peers: f64) {
        let Node { lariat, host, .. } = &self.nodes[node];
        host.within(|| lariat.wait_for_metric("lariat_cluster_peers", &[], peers));
    }

    /// Waits until terminator `node` has stored this number of sessions of others.
    pub(super) fn stored(&self, node: usize, count: f64) {
        self.wait_from(node, SESSIONS, &[("update", "stored")], count);
    }

    /// Waits until terminator `node` has sent this number of sessions to the others.
    pub(super) fn published(&self, node: usize, count: f64) {
        self.wait_from(node, SESSIONS, &[("update", "published")], count);
        // The last sessions may have been counted before they were sent. The next datagram, even a
        // keep-alive, carries them.
        let sent: (_, &[_]) = ("lariat_cluster_datagrams_total", &[("direction", "sent")]);
        let before = self.sum(node, sent.0, sent.1);
        self.wait_from(node, sent.0, sent.1, before + 1.0);
    }

    /// Kills the terminator of this number, as a crash of its host would.
    pub(super) fn kill(&self, node: usize) {
        let lariat = &self.nodes[node].lariat;
        for process in [lariat.supervisor(), lariat.worker_process()] {
            kill_process(process, Signal::KILL).expect("it runs");
        }
    }

    pub(super) fn start_again(&mut self, node: usize) {
        let Node { lariat, host, configuration } = &mut self.nodes[node];
        *lariat = start(host, configuration);
    }

    /// Runs a load in the midst of which one terminator dies.
    pub(super) fn lose_one(&self, arguments: &str) -> Record {
        self.loaded(arguments, || self.kill(1))
    }

    /// Runs a load in the midst of which `happen` is called.
    pub(super) fn loaded(&self, arguments: &str, happen: impl FnOnce()) -> Record {
        let load = Load::by(self.clients.command(&lab::command()))
            .arg("https://localhost/")
            .args(&format!("--connect {}", self.balancer.1.at(443)))
            .args(&format!("--connections {CLIENTS} --count {TRANSACTIONS}"))
            .args("--think-time 50ms --threads 1 --cpus none --ca")
            .arg(self.site.ca())
            .args(arguments)
            .start();
        // All clients have a session by now, and a third of them are here.
        self.wait_from(1, "lariat_handshakes_total", &[], SERVED_BEFORE);
        happen();
        let before = self.served();
        let record = load.wait().record();
        assert!(self.served() >= before + 100.0, "the load went on");
        record
    }

    /// Returns the handshakes of the two that live.
    fn served(&self) -> f64 {
        let served = |node| self.sum(node, "lariat_handshakes_total", &[]);
        served(0) + served(2)
    }
}

/// Longest wait for sessions, because a busy host is not a slow one.
pub(super) const WAIT: &str = "fetch-timeout = \"100ms\"";

/// Makes the table of a cluster with these keys of its peers.
fn cluster(peers: &str) -> String {
    format!("[cluster]\nsecret = SECRET\n[cluster.peers]\n{peers}\n")
}

/// Makes a service at port 443 of a host, before these servers.
fn service(site: &Site, host: &Host, servers: &[SocketAddr]) -> Service {
    let servers: Vec<_> = servers.iter().map(SocketAddr::to_string).collect();
    Service::new(site, &servers[0]).at(host.at(443)).servers(&format!("{servers:?}"))
}

fn start(host: &Host, configuration: &str) -> Lariat {
    let one_worker = format!("{configuration}\n[workers]\nthreads = 1\n");
    Lariat::start_by(host.command(&lariat::command()), &one_worker)
}
