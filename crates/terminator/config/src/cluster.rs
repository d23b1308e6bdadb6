//! The hosts that share their sessions: `[cluster]`.

use std::net::SocketAddr;

use options::{Problem, Section, Value};
use session::mesh::MeshOptions;
use sys::socket::Zoned;
use tls::resumption::key_file::{KeyFileFault, SharedSecret};
use wire::address::Address;

use crate::certificates::Shelf;
use crate::settings::{ClusterOptions, PeerNetwork, PeersOptions};
use crate::store;

/// Reads `[cluster]`; `Some(None)` = there is none.
pub(crate) fn read(top: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<Option<ClusterOptions>> {
    let Some(cluster) = top.section_if_written("cluster") else {
        return Some(None);
    };
    let secrets = secrets(&cluster, shelf);
    let peers = match cluster.section_if_written("peers") {
        Some(section) => peers(&section).map(Some),
        None => Some(None),
    };
    let store = match cluster.section_if_written("store") {
        Some(section) => store::read(&section, shelf).map(Some),
        None => Some(None),
    };
    Some(Some(ClusterOptions {
        secrets: secrets?,
        peers: peers?,
        store: store?,
    }))
}

/// The secret that encrypts, then the others.
fn secrets(cluster: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<Vec<SharedSecret>> {
    let mut secrets = vec![shared_secret(
        cluster,
        "secret",
        &cluster.text("secret")?,
        shelf,
    )?];
    if cluster.has("other-secrets") {
        for path in cluster.texts("other-secrets")? {
            secrets.push(shared_secret(cluster, "other-secrets", &path, shelf)?);
        }
    }
    Some(secrets)
}

/// A secret in a file that a key names.
pub(crate) fn shared_secret(
    section: &Section<'_>,
    key: &str,
    path: &str,
    shelf: &mut Shelf<'_>,
) -> Option<SharedSecret> {
    let path = shelf.base.join(path);
    let bytes = shelf.read(section, key, &path)?;
    shelf.is_private(section, key, &path);
    let hint = "make one with `openssl rand -base64 48`";
    let fault =
        |fault: KeyFileFault| section.error(key, Problem::new(fault.to_string()).hint(hint));
    let secret = SharedSecret::read(&path.display().to_string(), bytes);
    let secret = secret.map_err(fault).ok()?;
    if secret.is_guessable() {
        let problem = Problem::new(format!("can be guessed: {} is not random", path.display()));
        section.warn(key, problem.hint("make one with `openssl rand -hex 32`"));
    }
    Some(secret)
}

fn peers(section: &Section<'_>) -> Option<PeersOptions> {
    let network = network(section);
    let send_to = match &network {
        Some(PeerNetwork::Unicast { send_to, .. }) => Some(send_to.clone()),
        Some(PeerNetwork::Multicast { .. }) | None => None,
    };
    let copies = send_to.as_ref().map_or(1, Vec::len) as u64;
    let time_window = section.duration("time-window");
    let replay_window = section.count("replay-window");
    let senders: Option<u32> = section.count("senders");
    let receive_rate = section.count("receive-rate");
    let send_rate: Option<u32> = section.count("send-rate");
    let fetch_rate = section.count("fetch-rate");
    let fetch_timeout = section.if_written("fetch-timeout", Section::duration);
    let resync_rate = section.count("resync-rate");
    if send_rate.is_some_and(|rate| u64::from(rate) < copies) {
        let problem =
            format!("is less than the {copies} peers of `send-to`: nothing could be sent");
        let hint = "it counts a datagram once for each peer that it goes to";
        section.error("send-rate", Problem::new(problem).hint(hint));
        return None;
    }
    Some(PeersOptions {
        network: network?,
        mesh: MeshOptions {
            time_window: time_window?,
            replay_window: replay_window?,
            senders: senders? as usize,
            receive_rate: receive_rate?,
            send_rate: send_rate?,
            fetch_rate: fetch_rate?,
            fetch_timeout: fetch_timeout?,
            resync_rate: resync_rate?,
            send_to,
        },
    })
}

fn network(section: &Section<'_>) -> Option<PeerNetwork> {
    let multicast = section.section_if_written("multicast");
    match (section.has("listen"), multicast) {
        (true, None) => unicast(section),
        (false, Some(multicast)) => self::multicast(&multicast),
        (true, Some(_)) => {
            let problem = Problem::new("has no meaning beside `multicast`, which says the port");
            section.error("listen", problem.hint("write one of them"));
            None
        }
        (false, None) => {
            let hint = "for example: peers = { listen = \"10.0.3.20:8888\", send-to = \
                        [\"10.0.0.17:8888\"] }";
            let problem = Problem::new("is missing, and so is `multicast`");
            section.error("listen", problem.hint(hint));
            None
        }
    }
}

fn unicast(section: &Section<'_>) -> Option<PeerNetwork> {
    let listen = section.one("listen", |value, _| address(value))?;
    let send_to: Vec<SocketAddr> = if section.has("send-to") {
        section.list("send-to", |value, _| address(value))?
    } else {
        Vec::new()
    };
    if send_to.is_empty() {
        let problem = Problem::new("names no peer: sessions are sent to nobody");
        section.warn(
            "send-to",
            problem.hint("list the `listen` of every other host"),
        );
    }
    let wrong = |peer: &&SocketAddr| peer.is_ipv4() != listen.is_ipv4() || **peer == listen;
    if let Some(peer) = send_to.iter().find(wrong) {
        let problem = if *peer == listen {
            format!("{peer} is this host's own address")
        } else {
            format!("{peer} is of another version of IP than {listen}, at which this host listens")
        };
        section.error(
            "send-to",
            Problem::new(problem).hint("list the other hosts"),
        );
        return None;
    }
    Some(PeerNetwork::Unicast { listen, send_to })
}

fn multicast(section: &Section<'_>) -> Option<PeerNetwork> {
    let group = section.one("group", |value, _| address(value));
    let interface = section.text_if_written("interface");
    let hops = section.count("hops");
    let (group, interface) = (group?, interface?);
    if !group.ip().is_multicast() {
        let problem = Problem::new(format!("{} is no multicast address", group.ip()));
        let hint = "those of a site are 239.0.0.0/8 (RFC 2365) and ff05::/16 (RFC 4291)";
        section.error("group", problem.hint(hint));
        return None;
    }
    Some(PeerNetwork::Multicast {
        group,
        interface,
        hops: hops?,
    })
}

fn address(value: &Value) -> Result<SocketAddr, Problem> {
    let hint = "write an IP address and a port, such as \"10.0.3.20:8888\"";
    let text = options::text(value)?;
    match text.parse().map(|Zoned(address)| address) {
        Ok(Address::Ip(address)) => Ok(address),
        Ok(Address::Unix(_)) => Err(Problem::new("is a Unix socket").hint(hint)),
        Ok(Address::Inherited(_)) => Err(Problem::new("is a listening socket").hint(hint)),
        Err(error) => Err(Problem::new(format!("\"{text}\" {error}")).hint(hint)),
    }
}
