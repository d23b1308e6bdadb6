//! A store whose nodes have names, which the test's own name server knows: of one server, as a
//! cluster announces them, and as sentinels do.

use suite::name_server::NameServer;
use suite::prelude::*;
use suite::program::with_file;
use suite::redis::{self, Redis};

use super::store::have_meet;

const PUBLISHED: (&str, &[(&str, &str)]) =
    ("lariat_cluster_store_sessions_total", &[("update", "published")]);
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Two programs whose names the test resolves; each name is this host's.
struct Farm {
    site: Site,
    services: [Service; 2],
    resolv_conf: PathBuf,
    _server: Server,
    _names: NameServer,
}

impl Farm {
    /// Makes a farm; `None` = only root may run a name server, and mount its file.
    fn new() -> Option<Self> {
        let names = NameServer::start(&[])?;
        let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
        let resolv_conf = site.path("resolv.conf");
        fs::write(&resolv_conf, names.resolv_conf()).unwrap();
        fs::write(site.path("cluster.key"), "s".repeat(64)).unwrap();
        Some(Self {
            services: [(); 2].map(|()| Service::new(&site, &server)),
            resolv_conf,
            site,
            _server: server,
            _names: names,
        })
    }

    /// Starts a host, and waits until it is connected to the store with these keys.
    fn start(&self, host: usize, keys: &str) -> Lariat {
        let secret = self.site.path("cluster.key");
        let service = self.services[host].toml();
        let store = format!("[cluster.store]\nfetch-timeout = \"1s\"\n{keys}\n");
        let toml = format!("[cluster]\nsecret = {secret:?}\n{store}{service}");
        let lariat = Lariat::start_with_file(&self.resolv_conf, RESOLV_CONF, &toml);
        lariat.wait_for_metric("lariat_cluster_store_up", &[], 1.0);
        lariat
    }

    /// Checks that this many sessions of the first host are resumed by the second.
    fn assert_shared(&self, hosts: &[Lariat; 2], count: usize) {
        let client = |made: usize| {
            let client = Client::without_tickets(&self.site);
            let kind = client.visit(self.services[0].address);
            assert_eq!(kind, HandshakeKind::Full);
            hosts[0].wait_for_metric_from(PUBLISHED.0, PUBLISHED.1, made as f64 + 1.0);
            client
        };
        let clients: Vec<_> = (0..count).map(client).collect();
        for client in &clients {
            let kind = client.visit(self.services[1].address);
            assert_eq!(kind, HandshakeKind::Resumed);
        }
    }
}

#[test]
fn a_store_is_found_by_its_name() {
    let Some(farm) = Farm::new() else { return };
    let redis = Redis::start(&[]);
    let keys = format!("url = \"redis://sessions.test:{}\"", redis.address.port());
    let hosts = [0, 1].map(|host| farm.start(host, &keys));
    farm.assert_shared(&hosts, 3);
}

#[test]
fn nodes_that_a_cluster_announces_by_name_are_found() {
    let Some(farm) = Farm::new() else { return };
    let node = |number: usize| {
        let (bus, name) = (free_address().port().to_string(), format!("node{number}.test"));
        let options = [
            ["--cluster-enabled", "yes"],
            ["--cluster-port", &bus],
            ["--cluster-announce-hostname", &name],
            ["--cluster-preferred-endpoint-type", "hostname"],
        ];
        (Redis::start(&options.concat()), bus)
    };
    let nodes: Vec<_> = (0..3).map(node).collect();
    have_meet(&nodes);
    for (redis, _) in &nodes {
        until_true("the cluster to know all nodes by name", || {
            let info = redis.tell("CLUSTER INFO").concat();
            let slots = redis.tell("CLUSTER SLOTS");
            let is_named = |number| slots.contains(&format!("node{number}.test").into_bytes());
            let is_whole = String::from_utf8_lossy(&info).contains("cluster_state:ok");
            is_whole && (0..3).all(is_named)
        });
    }
    let places: Vec<_> = (0..3)
        .map(|number| format!("node{number}.test:{}", nodes[number].0.address.port()))
        .collect();
    let keys = format!("url = \"redis://{}\"\nnodes = {:?}", places[0], &places[1..]);
    let hosts = [0, 1].map(|host| farm.start(host, &keys));
    farm.assert_shared(&hosts, 20);
    let kept = nodes.iter().map(|(redis, _)| redis.contents().len());
    let kept: Vec<_> = kept.collect();
    assert!(kept.iter().all(|count| *count < 20), "{kept:?}");
}

#[test]
fn a_master_that_sentinels_announce_by_name_is_found() {
    let Some(farm) = Farm::new() else { return };
    let master = Redis::start(&[]);
    let port = master.address.port();
    let named = "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes";
    let sentinel = |_| {
        let program = redis::command();
        let mut command = with_file(program.get_program(), &farm.resolv_conf, RESOLV_CONF);
        Redis::sentinel_by(&mut command, "sessions", ("master.test", port), named)
    };
    let sentinels: Vec<_> = (0..2).map(sentinel).collect();
    for sentinel in &sentinels {
        let told = sentinel.tell("SENTINEL GET-MASTER-ADDR-BY-NAME sessions");
        assert_eq!(told[0], b"master.test", "by name");
    }
    let [one, other] = [0, 1].map(|number| {
        let port = sentinels[number].address.port();
        format!("sentinel{number}.test:{port}")
    });
    // The master is named beside them, so that its name is looked up.
    let keys = format!(
        "url = \"redis://{one}\"\nsentinel = \"sessions\"\nnodes = [\"{other}\", \
         \"master.test:{port}\"]"
    );
    let hosts = [0, 1].map(|host| farm.start(host, &keys));
    farm.assert_shared(&hosts, 3);
    assert_eq!(master.contents().len(), 3);
}
