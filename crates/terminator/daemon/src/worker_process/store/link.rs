//! The way to the store, be that one server, a cluster, or the master that sentinels name; and the
//! four commands that are asked of it.
//!
//! Owns which of the nodes that the store names are dialled: they would be sent the password. Of a
//! Redis Cluster it owns the table of slots, which is learnt from nodes that send us to another one
//! (MOVED), and how often a node is tried that does not answer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use config::{StoreKind, StoreOptions};
use telemetry::outcome::StoreFailure;
use tls::client::Client;
use tls::policy::SuiteOrder;
use tokio::time::timeout;
use wire::address::{Address, Endpoint};
use wire::store::{Redirect, Reply, request, slot};

use super::node::{CONNECT_TIME_MAX, Fault, Login, Node, NodeRoute, StoreNames};

/// The end of the name that is asked for to see whether the store answers.
pub(super) const PROBE: &str = "probe";

/// How often one request may be sent on to another node: a slot moves once in a while.
const REDIRECTS_MAX: usize = 3;

/// Connects to the store. Cloning shares what is behind it.
#[derive(Clone)]
pub(super) struct Connector(Arc<Setup>);

struct Setup {
    options: StoreOptions,
    names: StoreNames,
    tls: Option<Result<Arc<Client>, Fault>>,
}

/// A connection, on which many requests are in progress at once. Cloning shares it.
#[derive(Clone)]
pub(super) enum Connection {
    Server(Node),
    Cluster(Connector, Arc<Cluster>),
}

impl Connector {
    pub(super) fn new(options: StoreOptions, names: StoreNames) -> Self {
        let tls = options.tls.as_ref().map(|options| {
            let built = Client::build(options, "cluster.store", &[None], &SuiteOrder::default());
            let built = built.map(|(client, _)| Arc::new(client));
            built.map_err(|error| Fault::connection(error.to_string()))
        });
        Self(Arc::new(Setup { options, names, tls }))
    }

    /// A connection on which the store has answered.
    pub(super) async fn connect(&self) -> Result<Connection, Fault> {
        let connected = timeout(CONNECT_TIME_MAX, async {
            if let Some(Err(fault)) = &self.0.tls {
                return Err(fault.clone());
            }
            let nodes = &self.0.options.nodes;
            let mut connection = match &self.0.options.kind {
                StoreKind::Single => Connection::Server(self.open(nodes.first().expect("a place"))),
                StoreKind::Cluster => self.connect_to_cluster().await?,
                StoreKind::Sentinel { .. } => Connection::Server(self.connect_to_master().await?),
            };
            connection.probe(&self.0.options.prefix).await?;
            Ok(connection)
        });
        Fault::unless(connected.await, CONNECT_TIME_MAX)
    }

    /// All nodes that are listed at once, of which one has to answer.
    async fn connect_to_cluster(&self) -> Result<Connection, Fault> {
        let (connector, nodes) = (self.clone(), &self.0.options.nodes);
        let cluster = Cluster::new(nodes, move |at| connector.open(at));
        let mut fault = Fault::of(StoreFailure::Unready, "no node was asked");
        for at in nodes {
            let time = self.share();
            // One that has failed already leaves its time to the others.
            let asked = match cluster.node(at) {
                Ok(node) => timeout(time, node.ask(request(&[b"PING"]))).await,
                Err(why) => Ok(Err(why)),
            };
            match Fault::unless(asked, time) {
                Ok(_) => return Ok(Connection::Cluster(self.clone(), Arc::new(cluster))),
                Err(why) => fault = why.at(at),
            }
        }
        Err(fault)
    }

    /// How long one of those that are listed is waited for: time is left for the others.
    fn share(&self) -> Duration {
        CONNECT_TIME_MAX / (self.0.options.nodes.len() as u32 + 1)
    }

    /// Asks the sentinels one after the other (Redis Sentinel's guide for clients).
    async fn connect_to_master(&self) -> Result<Node, Fault> {
        let mut fault = Fault::of(StoreFailure::Unready, "no sentinel was asked");
        for sentinel in &self.0.options.nodes {
            let time = self.share();
            let master = timeout(time, self.master(sentinel)).await;
            match Fault::unless(master, time) {
                Ok(master) => return Ok(self.open(&master)),
                Err(why) => fault = why.at(format_args!("sentinel {sentinel}")),
            }
        }
        Err(fault)
    }

    /// The master's address, as a sentinel says.
    async fn master(&self, sentinel: &Endpoint) -> Result<Endpoint, Fault> {
        let StoreKind::Sentinel { service, password } = &self.0.options.kind else {
            let text = "no sentinel is configured";
            return Err(Fault::of(StoreFailure::Unready, text));
        };
        let login = Login {
            password: password.as_ref().map(|password| password.0.clone()),
            ..Login::default()
        };
        let node = Node::start(self.way(sentinel, login));
        let ask = [b"SENTINEL".as_slice(), b"GET-MASTER-ADDR-BY-NAME", service.as_bytes()];
        let texts = match node.ask(request(&ask)).await? {
            Reply::List(texts) => texts,
            Reply::Nothing => Vec::new(),
            other => return Err(unexpected(other)),
        };
        let [Reply::Text(host), Reply::Text(port)] = &texts[..] else {
            let text = format!("it knows no service \"{service}\"");
            return Err(Fault::of(StoreFailure::Refused, text));
        };
        let [host, port] = [host, port].map(|text| String::from_utf8_lossy(text));
        self.named(&host, &port, "is named as the master")
    }

    /// The node that the store names so, if the configuration allows it: it is listed, or its host,
    /// or its network; or it has to have a certificate of the operator's authorities.
    fn named(&self, host: &str, port: &str, what: &str) -> Result<Endpoint, Fault> {
        let options = &self.0.options;
        let text =
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let refused =
            |why: &str| Fault::of(StoreFailure::Redirect, format!("{text} {what}, which {why}"));
        let node: Endpoint = text.parse().map_err(|_| refused("is no address"))?;
        let ip = match &node {
            Endpoint::Address(Address::Ip(address)) => Some(address.ip()),
            _ => None,
        };
        let own_authorities = options.tls.as_ref().and_then(|tls| tls.verification.as_ref());
        let is_allowed = options.nodes.contains(&node)
            || own_authorities.is_some_and(|verification| !verification.are_of_host)
            || ip.is_some_and(|ip| self.is_host(ip) || options.networks.contains(Some(ip)));
        if is_allowed { Ok(node) } else { Err(refused("`cluster.store` does not allow")) }
    }

    /// Whether a node that is listed has this address.
    fn is_host(&self, ip: IpAddr) -> bool {
        let nodes = self.0.options.nodes.iter();
        let mut addresses = nodes.flat_map(|node| self.0.names.addresses(node));
        addresses.any(|address| matches!(address, Address::Ip(of) if of.ip() == ip))
    }

    fn open(&self, node: &Endpoint) -> Node {
        let options = &self.0.options;
        let login = Login {
            user: options.user.clone(),
            password: options.password.as_ref().map(|password| password.0.clone()),
            database: options.database,
        };
        Node::start(self.way(node, login))
    }

    fn way(&self, node: &Endpoint, login: Login) -> NodeRoute {
        NodeRoute {
            node: node.clone(),
            names: self.0.names.clone(),
            tls: self.0.tls.clone().and_then(Result::ok),
            login,
        }
    }

    /// The answer of the node of a cluster that has the name.
    async fn ask(&self, cluster: &Cluster, name: &[u8], bytes: &[u8]) -> Result<Reply, Fault> {
        let (mut at, mut node) = cluster.first(slot(name))?;
        let (mut asking, mut has_changed) = (false, false);
        for _ in 0..=REDIRECTS_MAX {
            // It is about the next request on the connection.
            let permission = asking.then(|| node.ask(request(&[b"ASKING"])));
            let answer = node.ask(bytes.to_vec());
            drop(permission);
            let reply = answer.await.map_err(|fault| fault.at(&at))?;
            let redirect = match &reply {
                Reply::Error(error) => Redirect::read(error),
                _ => None,
            };
            let Some(to) = redirect else {
                // One that loads, or was cut off from its cluster, speaks for itself alone.
                let other = match &reply {
                    Reply::Error(error)
                        if !has_changed && Fault::answered(error).why == StoreFailure::Unready =>
                    {
                        cluster.other(slot(name), &at)
                    }
                    _ => None,
                };
                let Some(other) = other else {
                    return Ok(reply);
                };
                ((at, node), asking, has_changed) = (other, false, true);
                continue;
            };
            let host = match (&to.host[..], &at) {
                ("", Endpoint::Address(Address::Ip(address))) => address.ip().to_string(),
                ("", Endpoint::Name { host, .. }) => host.clone(),
                (host, _) => host.to_owned(),
            };
            at = self.named(&host, &to.port.to_string(), "is named as a node")?;
            node = cluster.node(&at).map_err(|fault| fault.at(&at))?;
            asking = to.is_ask;
            if !asking {
                cluster.learn(to.slot, at.clone());
            }
        }
        let text = format!("{at} sends us on as well, the last of {REDIRECTS_MAX} nodes");
        Err(Fault::of(StoreFailure::Unready, text))
    }
}

impl Connection {
    /// Whether nothing can come on it any more. A connection of a cluster repairs itself.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Self::Server(node) if node.end().is_some())
    }

    /// The value of that name; with `once`, it is deleted in the same step.
    pub(super) async fn get(&mut self, name: &str, once: bool) -> Result<Option<Vec<u8>>, Fault> {
        let verb = if once { "GETDEL" } else { "GET" };
        match self.ask(&[verb.as_bytes(), name.as_bytes()]).await? {
            Reply::Text(value) => Ok(Some(value)),
            Reply::Nothing => Ok(None),
            other => Err(unexpected(other)),
        }
    }

    /// Proves that the user may read, and that the store is ready.
    pub(super) async fn probe(&mut self, prefix: &str) -> Result<(), Fault> {
        self.get(&format!("{prefix}{PROBE}"), false).await.map(drop)
    }

    /// Stores a value for a time in seconds.
    pub(super) async fn set(
        &mut self,
        name: &str,
        value: &[u8],
        seconds: u64,
    ) -> Result<(), Fault> {
        let seconds = seconds.to_string();
        let words = [b"SET", name.as_bytes(), value, b"EX", seconds.as_bytes()];
        self.ask(&words).await.map(drop)
    }

    /// Deletes the value of that name, if there is one.
    pub(super) async fn delete(&mut self, name: &str) -> Result<(), Fault> {
        self.ask(&[b"DEL", name.as_bytes()]).await.map(drop)
    }

    /// Asks for something about the name that is the first argument.
    async fn ask(&mut self, words: &[&[u8]]) -> Result<Reply, Fault> {
        let bytes = request(words);
        let reply = match self {
            Self::Server(node) => node.ask(bytes).await?,
            Self::Cluster(connector, cluster) => connector.ask(cluster, words[1], &bytes).await?,
        };
        match reply {
            Reply::Error(error) => Err(Fault::answered(&error)),
            reply => Ok(reply),
        }
    }
}

/// An answer to another question, or an error.
fn unexpected(reply: Reply) -> Fault {
    match reply {
        Reply::Error(error) => Fault::answered(&error),
        _ => Fault::connection("the store answers something else than was asked"),
    }
}

/// Nodes that are known at a time: more than clusters have (Redis advises at most 1000, of which
/// replicas are half or more).
const NODES_MAX: usize = 512;

/// How long one that could not be reached is left alone.
const REST: Duration = Duration::from_secs(1);

pub(super) struct Cluster {
    start: Box<dyn Fn(&Endpoint) -> Node + Send + Sync>,
    known: Mutex<KnownNodes>,
}

#[derive(Default)]
struct KnownNodes {
    nodes: BTreeMap<Endpoint, Node>,
    owners: BTreeMap<u16, Endpoint>,
}

impl Cluster {
    /// With these nodes at first; `start` connects to one.
    pub(super) fn new(
        nodes: &[Endpoint],
        start: impl Fn(&Endpoint) -> Node + Send + Sync + 'static,
    ) -> Self {
        let known = KnownNodes {
            nodes: nodes.iter().map(|at| (at.clone(), start(at))).collect(),
            owners: BTreeMap::new(),
        };
        Self { start: Box::new(start), known: Mutex::new(known) }
    }

    /// The node to ask first about a slot: its owner, or if that does not answer another one, which
    /// may know of its successor.
    pub(super) fn first(&self, slot: u16) -> Result<(Endpoint, Node), Fault> {
        let owner = self.lock().owners.get(&slot).cloned();
        if let Some(owner) = owner
            && let Ok(node) = self.node(&owner)
        {
            return Ok((owner, node));
        }
        let known = self.lock();
        let up = known.nodes.iter().find(|(_, node)| node.is_up());
        if let Some((at, node)) = up {
            return Ok((at.clone(), node.clone()));
        }
        let nodes: Vec<_> = known.nodes.keys().cloned().collect();
        drop(known);
        let mut fault = Fault::connection("no node is known");
        for at in nodes {
            match self.node(&at) {
                Ok(node) => return Ok((at, node)),
                Err(why) => fault = why.at(at),
            }
        }
        Err(fault)
    }

    /// A node that is connected, in place of one that cannot answer for its cluster.
    pub(super) fn other(&self, slot: u16, not: &Endpoint) -> Option<(Endpoint, Node)> {
        let mut known = self.lock();
        known.owners.remove(&slot);
        let mut nodes = known.nodes.iter();
        let (at, node) = nodes.find(|(at, node)| *at != not && node.is_up())?;
        Some((at.clone(), node.clone()))
    }

    /// The node at a place, which is connected to if it is not.
    pub(super) fn node(&self, at: &Endpoint) -> Result<Node, Fault> {
        let mut known = self.lock();
        if let Some(node) = known.nodes.get(at) {
            match node.end() {
                None => return Ok(node.clone()),
                Some((fault, ended)) if ended.elapsed() < REST => return Err(fault.clone()),
                Some(_) => {}
            }
        }
        if known.nodes.len() >= NODES_MAX {
            known.nodes.retain(|_, node| node.end().is_none());
        }
        if known.nodes.len() >= NODES_MAX {
            let text = format!("the cluster names more than {NODES_MAX} nodes");
            return Err(Fault::connection(text));
        }
        let node = (self.start)(at);
        known.nodes.insert(at.clone(), node.clone());
        Ok(node)
    }

    /// That one has a slot.
    pub(super) fn learn(&self, slot: u16, owner: Endpoint) {
        self.lock().owners.insert(slot, owner);
    }

    fn lock(&self) -> MutexGuard<'_, KnownNodes> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
