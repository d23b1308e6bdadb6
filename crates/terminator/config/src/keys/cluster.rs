//! The rows about hosts that share their sessions.

use std::time::Duration;

use options::{Key, Kind, key};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// More datagrams per second than one thread can look at.
const RATE_MAX: u64 = 10_000_000;

pub(super) const CLUSTER: &[Key] = &[
    key("cluster", Kind::Table)
        .absent("sessions stay on this host")
        .help(
            "Hosts that resume each other's sessions. All of them have the same secret, and \
             their services the same names. See docs/guide/scale-out.md.",
        )
        .example(r#"cluster = { secret = "/etc/lariat/cluster.key" }"#),
    key("cluster.secret", Kind::Path)
        .flag("cluster-secret")
        .help(
            "A file with at least 32 random bytes that all hosts of the cluster have. Ticket keys \
             are derived from it, unless `resumption.tickets` says where they come from, and so \
             are the keys of what peers send each other.",
        )
        .example(r#"secret = "/etc/lariat/cluster.key""#),
    key("cluster.other-secrets", Kind::Path)
        .many()
        .absent("none")
        .flag("cluster-other-secret")
        .requires(&["secret"])
        .help(
            "Files with further secrets. Nothing is encrypted with them, and what other hosts \
             encrypted with them is accepted. So a secret is replaced without a gap: the new one \
             is listed here on every host, then exchanged with `secret` on every host, and the \
             old one is removed when its tickets have ended.",
        )
        .example(r#"other-secrets = ["/etc/lariat/cluster.key.old"]"#),
    key("cluster.peers", Kind::Table)
        .absent("stored sessions stay on this host")
        .help(
            "Sends the sessions of the session cache to the other hosts, in datagrams (UDP) that \
             are encrypted and authenticated with keys derived from `secret`.",
        )
        .example(r#"peers = { listen = "10.0.3.20:8888", send-to = ["10.0.0.17:8888"] }"#),
    key("cluster.peers.listen", Kind::Address)
        .absent("with `multicast`, the port of its group")
        .flag("cluster-listen")
        .help(
            "The address and UDP port at which datagrams of the peers come, and from which ours \
             are sent.",
        )
        .example(r#"listen = "10.0.3.20:8888""#),
    key("cluster.peers.send-to", Kind::Address)
        .repeated()
        .absent("none")
        .flag("cluster-peer")
        .requires(&["listen"])
        .help("The addresses of all peers, each its `listen`.")
        .example(r#"send-to = ["10.0.0.17:8888", "10.0.0.18:8888"]"#),
    key("cluster.peers.multicast", Kind::Table)
        .absent("datagrams go to each peer of `send-to`")
        .shorthand("group")
        .help("Sends each datagram once, to a multicast group that all peers are members of.")
        .example(r#"multicast = { group = "239.1.1.1:8888", interface = "eth0" }"#),
    key("cluster.peers.multicast.group", Kind::Address)
        .flag("cluster-group")
        .help("The group and its UDP port, of IPv4 or IPv6.")
        .example(r#"group = "239.1.1.1:8888""#),
    key("cluster.peers.multicast.interface", Kind::Text("INTERFACE"))
        .absent("the one that the routing table says")
        .flag("cluster-interface")
        .requires(&["group"])
        .help("The network interface of the group.")
        .example(r#"interface = "eth0""#),
    key("cluster.peers.multicast.hops", Kind::Count(1, 255))
        .default("1")
        .flag("cluster-hops")
        .requires(&["group"])
        .help("Networks that a datagram to the group may pass: 1 is the interface's own alone.")
        .example("hops = 4"),
    key(
        "cluster.peers.fetch-timeout",
        Kind::Duration(MS, MS.saturating_mul(100)),
    )
    .absent("twice the longest round trip to a peer, at least 1 ms and at most 50 ms")
    .flag("cluster-fetch-timeout")
    .help(
        "How long a handshake waits for the peers when its client offers a session that this \
         host does not have. Then it goes on as a full handshake. Nobody waits for a peer whose \
         round trip is longer: `lariat status` shows them, and a message names it.",
    )
    .example(r#"fetch-timeout = "10ms""#),
    key("cluster.peers.fetch-rate", Kind::Count(0, RATE_MAX))
        .default("1000")
        .flag("cluster-fetch-rate")
        .help(
            "Sessions that the peers are asked for per second. Beyond it clients get a full \
             handshake at once, so that those with made-up ids cost the peers little.",
        )
        .example("fetch-rate = 200"),
    key(
        "cluster.peers.time-window",
        Kind::Duration(SECOND, SECOND.saturating_mul(3600)),
    )
    .default("30s")
    .flag("cluster-time-window")
    .help(
        "How far the clocks of two hosts may differ, with the time on the way. A datagram \
         whose time is further from ours is dropped.",
    )
    .example(r#"time-window = "10s""#),
    key("cluster.peers.replay-window", Kind::Count(64, 1 << 16))
        .default("4096")
        .flag("cluster-replay-window")
        .help(
            "How many datagrams of a peer may overtake another one before that one is taken for \
             a replay and dropped.",
        )
        .example("replay-window = 1024"),
    key("cluster.peers.senders", Kind::Count(1, 4096))
        .default("256")
        .flag("cluster-senders")
        .help("Peers that are known at a time; datagrams of further ones are dropped.")
        .example("senders = 16"),
    key("cluster.peers.receive-rate", Kind::Count(1, RATE_MAX))
        .default("20000")
        .flag("cluster-receive-rate")
        .help(
        "Datagrams looked at per second: so many from each address at which a peer was heard, and \
         as many from all others together. Those beyond it are dropped and counted.",
    )
        .example("receive-rate = 100000"),
    key("cluster.peers.send-rate", Kind::Count(1, RATE_MAX))
        .default("20000")
        .flag("cluster-send-rate")
        .help(
            "Datagrams sent per second; each counts once for each peer that it goes to. Sessions \
             beyond it are not sent, and counted.",
        )
        .example("send-rate = 100000"),
    key("cluster.peers.resync-rate", Kind::Count(0, 1_000_000))
        .default("10000")
        .flag("cluster-resync-rate")
        .help(
            "Sessions sent per second to peers that have started or were cut off, until they have \
             all of the session cache, or all that they missed; 0 = none. No more than 5 MB per \
             second are sent.",
        )
        .example("resync-rate = 50000"),
    key("cluster.store", Kind::Table)
        .absent("stored sessions go to no store")
        .shorthand("url")
        .help(
            "Keeps the sessions of the session cache in Valkey or Redis (6.2 or newer) as well, \
             where all hosts find them. They are encrypted and authenticated with keys derived \
             from `secret`, so that the store learns none.",
        )
        .example(r#"store = "redis://10.0.0.5:6379/0""#),
    key("cluster.store.url", Kind::Text("URL"))
        .flag("cluster-store")
        .help(
            "Where the store is: `redis://USER:PASSWORD@HOST:PORT/DATABASE`, `rediss://` for TLS, \
             or `unix:PATH`. All but the host has a default: no user, no password, 6379, 0. \
             `valkey://` and `valkeys://` mean the same.",
        )
        .example(r#"url = "rediss://lariat@sessions.example:6379/0""#),
    key("cluster.store.password-file", Kind::Path)
        .absent("the password of `url`, or none")
        .flag("cluster-store-password-file")
        .requires(&["url"])
        .help("A file with the password; white space at its end does not count.")
        .example(r#"password-file = "/etc/lariat/store.password""#),
    key("cluster.store.ca", Kind::Path)
        .many()
        .absent("with `rediss://`, the authorities that this host trusts")
        .flag("cluster-store-ca")
        .requires(&["url"])
        .help("PEM files with the authorities of the store's certificate.")
        .example(r#"ca = ["/etc/lariat/store-ca.pem"]"#),
    key("cluster.store.nodes", Kind::Text("HOST:PORT"))
        .repeated()
        .absent("the store is one server, at `url`")
        .flag("cluster-store-node")
        .requires(&["url"])
        .help(
            "Nodes of a Redis Cluster, to which the host of `url` belongs as well; with \
             `sentinel`, further sentinels, and masters. One that answers is enough: it names \
             others, which are dialled if they are listed here, or at the host of one that is \
             listed, or in `networks`; or if `ca` is written, since its authority then vouches for \
             them.",
        )
        .example(r#"nodes = ["10.0.0.6:6379", "10.0.0.7:6379"]"#),
    key("cluster.store.networks", Kind::Networks)
        .many()
        .absent("none but the hosts of `url` and `nodes`")
        .flag("cluster-store-network")
        .requires(&["url"])
        .help(
            "Networks in which nodes may be that a Redis Cluster or sentinels name, or files that \
             list them. Who could name others would be sent the password.",
        )
        .example(r#"networks = ["10.0.0.0/24"]"#),
    key("cluster.store.sentinel", Kind::Text("SERVICE"))
        .absent("no sentinel is asked")
        .flag("cluster-store-sentinel")
        .requires(&["url"])
        .help(
            "The service that Redis Sentinel watches: then `url` and `nodes` are sentinels, which \
             are asked where its master is. User, password and database are the master's.",
        )
        .example(r#"sentinel = "sessions""#),
    key("cluster.store.sentinel-password-file", Kind::Path)
        .absent("sentinels want none")
        .flag("cluster-store-sentinel-password-file")
        .requires(&["sentinel"])
        .help("A file with the password of the sentinels.")
        .example(r#"sentinel-password-file = "/etc/lariat/sentinel.password""#),
    key("cluster.store.prefix", Kind::Text("TEXT"))
        .default("lariat:")
        .flag("cluster-store-prefix")
        .requires(&["url"])
        .help(
            "What the names of all sessions in the store begin with. The store's user may be \
             limited to them, and to the commands GET, GETDEL, SET and DEL.",
        )
        .example(r#"prefix = "web:tls:""#),
    key(
        "cluster.store.fetch-timeout",
        Kind::Duration(MS, SECOND),
    )
    .default("20ms")
    .flag("cluster-store-fetch-timeout")
    .requires(&["url"])
    .help(
        "How long a handshake waits for the store when its client offers a session that neither \
         this host nor its peers have. Then it goes on as a full handshake.",
    )
    .example(r#"fetch-timeout = "50ms""#),
    key("cluster.store.fetch-rate", Kind::Count(0, RATE_MAX))
        .default("10000")
        .flag("cluster-store-fetch-rate")
        .requires(&["url"])
        .help(
            "Sessions that the store is asked for per second. Beyond it clients get a full \
             handshake at once, so that those with made-up ids cost the store little.",
        )
        .example("fetch-rate = 2000"),
];
