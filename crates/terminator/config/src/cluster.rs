//! Keys of the hosts that share their sessions: `[cluster]`.

use std::net::SocketAddr;
use std::time::Duration;

use options::quantity::SECOND;
use options::row::{count, duration, path, row, text};
use options::{Key, Kind, Problem, Value, section, table};
use session::mesh::MeshOptions;
use sys::socket::AddressWithZone;
use tls::resumption::keys::SharedSecret;
use wire::address::Address;

use crate::resolver::{FileResolver, optional};
use crate::resumption::shared_secret;
use crate::settings::{ClusterOptions, PeerNetwork, PeersOptions};
use crate::store::{self, WrittenStore};

const MS: Duration = Duration::from_millis(1);

/// Most datagrams per second; one thread can process fewer.
const RATE_MAX: u64 = 10_000_000;

section! {
    table("cluster").group("Cluster")
        .absent("sessions stay on this host")
        .example(r#"cluster = { secret = "/etc/lariat/cluster.key" }"#);
    /// Hosts that resume each other's sessions. See docs/guide/scale-out.md.
    pub(crate) struct WrittenCluster<'a> {
        /// A file with at least 32 random bytes, the same on all hosts, from which keys are
        /// derived.
        secret: String = path()
            .flag("cluster-secret").example(r#"secret = "/etc/lariat/cluster.key""#),
        /// Files with secrets that are accepted as well, while one is replaced.
        other_secrets: Vec<String> = path()
            .many().absent("none").flag("cluster-other-secret").requires(&["secret"])
            .example(r#"other-secrets = ["/etc/lariat/cluster.key.old"]"#),
        peers: Option<WrittenPeers<'a>>,
        store: Option<WrittenStore<'a>>,
    }
}

section! {
    table("cluster.peers")
        .absent("stored sessions stay on this host")
        .example(r#"peers = { listen = "10.0.3.20:8888", send-to = ["10.0.0.17:8888"] }"#);
    /// Sends stored sessions to the other hosts, in encrypted datagrams (UDP).
    pub(crate) struct WrittenPeers<'a> {
        /// The address and UDP port of datagrams from and to peers.
        listen: Option<SocketAddr> = row(Kind::Address, ip_address)
            .absent("with `multicast`, the port of its group").flag("cluster-listen")
            .example(r#"listen = "10.0.3.20:8888""#),
        /// The addresses of all peers, each its `listen`.
        send_to: Vec<SocketAddr> = row(Kind::Address, ip_address)
            .repeated().absent("none").flag("cluster-peer").requires(&["listen"])
            .example(r#"send-to = ["10.0.0.17:8888", "10.0.0.18:8888"]"#),
        multicast: Option<WrittenMulticast<'a>>,
        /// How long a handshake waits for the peers if this host lacks the client's session.
        fetch_timeout: Option<Duration> = duration(MS, MS.saturating_mul(100))
            .absent("twice the longest round trip to a peer, at least 1 ms and at most 50 ms")
            .flag("cluster-fetch-timeout").example(r#"fetch-timeout = "10ms""#),
        /// Sessions that peers are asked for per second; beyond it, clients get full handshakes.
        fetch_rate: u32 = count(0, RATE_MAX)
            .default("1000").flag("cluster-fetch-rate").example("fetch-rate = 200"),
        /// How far the clocks of two hosts may differ; other datagrams are dropped.
        time_window: Duration = duration(SECOND, SECOND.saturating_mul(3600))
            .default("30s").flag("cluster-time-window").example(r#"time-window = "10s""#),
        /// Datagrams of a peer that may overtake one before it is taken for a replay and dropped.
        replay_window: u32 = count(64, 1 << 16)
            .default("4096").flag("cluster-replay-window").example("replay-window = 1024"),
        /// Peers that are known at a time; others' datagrams are dropped.
        senders: usize = count(1, 4096)
            .default("256").flag("cluster-senders").example("senders = 16"),
        /// Datagrams per second from each address of a peer, and from all others together; more are
        /// dropped.
        receive_rate: u32 = count(1, RATE_MAX)
            .default("20000").flag("cluster-receive-rate").example("receive-rate = 100000"),
        /// Datagrams sent per second, counted once for each peer; sessions beyond it are not sent.
        send_rate: u32 = count(1, RATE_MAX)
            .default("20000").flag("cluster-send-rate").example("send-rate = 100000"),
        /// Sessions per second, and at most 5 MB, for peers that have started or were cut off; 0 =
        /// none.
        resync_rate: u32 = count(0, 1_000_000)
            .default("10000").flag("cluster-resync-rate").example("resync-rate = 50000"),
    }
}

section! {
    table("cluster.peers.multicast")
        .absent("datagrams go to each peer of `send-to`").shorthand("group")
        .example(r#"multicast = { group = "239.1.1.1:8888", interface = "eth0" }"#);
    /// Sends each datagram once, to a multicast group of all peers.
    pub(crate) struct WrittenMulticast<'a> {
        /// The group and its UDP port, of IPv4 or IPv6.
        group: SocketAddr = row(Kind::Address, ip_address)
            .flag("cluster-group").example(r#"group = "239.1.1.1:8888""#),
        /// The network interface of the group.
        interface: Option<String> = text("INTERFACE")
            .absent("the one that the routing table says").flag("cluster-interface")
            .requires(&["group"]).example(r#"interface = "eth0""#),
        /// Networks that a datagram may pass; 1 = the interface's own.
        hops: u8 = count(1, 255)
            .default("1").flag("cluster-hops").requires(&["group"]).example("hops = 4"),
    }
}

pub(crate) fn cluster_options(
    cluster: &WrittenCluster<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<ClusterOptions> {
    let secrets = secrets(cluster, resolver);
    let peers = cluster.peers.as_ref().map(peers_options);
    let store = cluster.store.as_ref();
    let store = store.map(|store| store::store_options(store, resolver));
    Some(ClusterOptions { secrets: secrets?, peers: optional(peers)?, store: optional(store)? })
}

/// The secret that encrypts, then the others.
fn secrets(
    cluster: &WrittenCluster<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<Vec<SharedSecret>> {
    let own = &cluster.secret;
    let mut secrets = vec![shared_secret(own, own.value.as_deref()?, resolver)?];
    for path in cluster.other_secrets.value.as_ref()? {
        secrets.push(shared_secret(&cluster.other_secrets, path, resolver)?);
    }
    Some(secrets)
}

fn peers_options(peers: &WrittenPeers<'_>) -> Option<PeersOptions> {
    let network = network(peers);
    let send_to = match &network {
        Some(PeerNetwork::Unicast { send_to, .. }) => Some(send_to.clone()),
        Some(PeerNetwork::Multicast { .. }) | None => None,
    };
    let copies = send_to.as_ref().map_or(1, Vec::len) as u64;
    let send_rate = peers.send_rate.value;
    if send_rate.is_some_and(|rate| u64::from(rate) < copies) {
        let message =
            format!("is less than the {copies} peers of `send-to`: nothing could be sent");
        let hint = "it counts a datagram once for each peer that it goes to";
        return peers.send_rate.fail(message, hint);
    }
    Some(PeersOptions {
        network: network?,
        mesh: MeshOptions {
            time_window: peers.time_window.value?,
            replay_window: peers.replay_window.value?,
            senders: peers.senders.value?,
            receive_rate: peers.receive_rate.value?,
            send_rate: send_rate?,
            fetch_rate: peers.fetch_rate.value?,
            fetch_timeout: peers.fetch_timeout.value?,
            resync_rate: peers.resync_rate.value?,
            send_to,
        },
    })
}

fn network(peers: &WrittenPeers<'_>) -> Option<PeerNetwork> {
    match (peers.listen.value?, &peers.multicast) {
        (Some(listen), None) => unicast(listen, peers),
        (None, Some(multicast)) => multicast_network(multicast),
        (Some(_), Some(_)) => {
            let message = "has no meaning beside `multicast`, which says the port";
            peers.listen.fail(message, "write one of them")
        }
        (None, None) => {
            let hint = "for example: peers = { listen = \"10.0.3.20:8888\", send-to = \
                        [\"10.0.0.17:8888\"] }";
            peers.listen.fail("is missing, and so is `multicast`", hint)
        }
    }
}

fn unicast(listen: SocketAddr, peers: &WrittenPeers<'_>) -> Option<PeerNetwork> {
    let send_to = peers.send_to.value.clone()?;
    if send_to.is_empty() {
        let message = "names no peer: sessions are sent to nobody";
        peers.send_to.warn(message, "list the `listen` of every other host");
    }
    let is_wrong = |peer: &&SocketAddr| peer.is_ipv4() != listen.is_ipv4() || **peer == listen;
    if let Some(peer) = send_to.iter().find(is_wrong) {
        let message = if *peer == listen {
            format!("{peer} is this host's own address")
        } else {
            format!("{peer} is of another version of IP than {listen}, at which this host listens")
        };
        return peers.send_to.fail(message, "list the other hosts");
    }
    Some(PeerNetwork::Unicast { listen, send_to })
}

fn multicast_network(multicast: &WrittenMulticast<'_>) -> Option<PeerNetwork> {
    let group = multicast.group.value?;
    if !group.ip().is_multicast() {
        let message = format!("{} is no multicast address", group.ip());
        let hint = "those of a site are 239.0.0.0/8 (RFC 2365) and ff05::/16 (RFC 4291)";
        return multicast.group.fail(message, hint);
    }
    Some(PeerNetwork::Multicast {
        group,
        interface: multicast.interface.value.clone()?,
        hops: multicast.hops.value?,
    })
}

fn ip_address(value: &Value, _: &Key) -> Result<SocketAddr, Problem> {
    let text = options::as_text(value)?;
    let message = match text.parse().map(|AddressWithZone(address)| address) {
        Ok(Address::Ip(address)) => return Ok(address),
        Ok(Address::Unix(_)) => "is a Unix socket".to_owned(),
        Ok(Address::Inherited(_)) => "is a listening socket".to_owned(),
        Err(error) => format!("\"{text}\" {error}"),
    };
    Err(Problem::new(message).hint("write an IP address and a port, such as \"10.0.3.20:8888\""))
}
