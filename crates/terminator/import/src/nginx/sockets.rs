//! Addresses of all server blocks, and the options shared by servers at one address.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use crate::import::Import;
use crate::nginx::section::{
    NginxListen, NginxSection, NginxServer, SocketTraits, comparable, within,
};

/// Services and options at one address.
#[derive(Clone, Debug, Default)]
struct Socket {
    traits: SocketTraits,
    /// Default server, for clients whose name no server has: its section, its number.
    default: Option<(usize, usize)>,
    first: (usize, usize),
    /// Server of each name: the first that has it.
    owners: HashMap<String, (usize, usize)>,
}

/// Addresses of all server blocks.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    all: BTreeMap<String, Socket>,
    /// Ports at which all addresses of IPv6 and IPv4 are one address.
    of_both: BTreeSet<String>,
}

/// Addresses of one server block that become one service.
pub(super) struct ServiceSockets<'s> {
    pub(super) listens: Vec<(String, &'s NginxListen)>,
    pub(super) traits: SocketTraits,
    pub(super) is_default: bool,
    /// Whether an all-IPv6 address excludes IPv4; `None` if there is no such address.
    ipv6_only: Option<bool>,
    /// Names that an earlier server has at one of the addresses.
    pub(super) foreign: HashSet<&'s String>,
}

impl Sockets {
    pub(super) fn of(sections: &[NginxSection]) -> Self {
        let servers = sections.iter().enumerate().flat_map(|(place, section)| {
            let numbered = section.servers.iter().enumerate();
            numbered.map(move |(number, server)| ((place, number), section, server))
        });
        let mut sockets = Self::default();
        let all = servers
            .clone()
            .flat_map(|(at, _, server)| server.listens.iter().map(move |listen| (at, listen)));
        sockets.of_both = ports_of_both(all);
        for (at, section, server) in servers {
            let options = within(&section.options, &server.options);
            for listen in &server.listens {
                let mut socket = Socket { first: at, ..Socket::default() };
                let address = sockets.address(listen);
                if let Some(known) = sockets.all.remove(&address) {
                    socket = known;
                }
                let (traits, own) = (&mut socket.traits, &listen.traits);
                traits.has_tls |= own.has_tls || options.is_on("ssl");
                traits.takes_proxy |= own.takes_proxy;
                traits.is_deferred |= own.is_deferred;
                traits.keepalive = traits.keepalive.take().or_else(|| own.keepalive.clone());
                for written in options.all("set_real_ip_from") {
                    traits.networks.extend(network(&written.value()));
                }
                if listen.is_default {
                    socket.default.get_or_insert(at);
                }
                let words = server.options.all("server_name").flat_map(|one| &one.words);
                for name in words.filter_map(|word| comparable(word)).flatten() {
                    socket.owners.entry(name).or_insert(at);
                }
                sockets.all.insert(address, socket);
            }
        }
        sockets
    }

    /// Returns the address as keys write it: IPv4 and IPv6 of one port are one address.
    fn address(&self, listen: &NginxListen) -> String {
        match listen.address.strip_prefix("0.0.0.0:") {
            Some(port) if self.of_both.contains(port) => format!("[::]:{port}"),
            _ => listen.address.clone(),
        }
    }

    fn ipv6_only(&self, address: &str) -> Option<bool> {
        let port = address.strip_prefix("[::]:")?;
        Some(!self.of_both.contains(port))
    }

    /// Groups the addresses of a server: each group can be one service.
    pub(super) fn services<'s>(
        &'s self,
        at: (usize, usize),
        server: &'s NginxServer,
    ) -> Vec<ServiceSockets<'s>> {
        let mut services: Vec<ServiceSockets<'s>> = Vec::new();
        for listen in &server.listens {
            let address = self.address(listen);
            let Some(Socket { traits, default, first, owners }) = self.all.get(&address) else {
                continue;
            };
            let is_default = default.unwrap_or(*first) == at;
            let ipv6_only = self.ipv6_only(&address);
            let is_alike = |one: &ServiceSockets<'_>| {
                let are_apart = one.ipv6_only.zip(ipv6_only).is_some_and(|(one, two)| one != two);
                one.is_default == is_default && one.traits == *traits && !are_apart
            };
            let place = services.iter().position(is_alike).unwrap_or_else(|| {
                let (listens, traits) = (Vec::new(), traits.clone());
                let foreign = HashSet::new();
                let ipv6_only = None;
                services.push(ServiceSockets { listens, traits, is_default, ipv6_only, foreign });
                services.len() - 1
            });
            let own = server.options.all("server_name").flat_map(|one| &one.words);
            let known = own.filter_map(|word| comparable(word)).flatten();
            let known = known.filter_map(|name| owners.get_key_value(&name));
            let foreign = known.filter(|(_, owner)| **owner != at).map(|(name, _)| name);
            let service = &mut services[place];
            service.ipv6_only = service.ipv6_only.or(ipv6_only);
            service.foreign.extend(foreign);
            service.listens.push((address, listen));
        }
        services
    }
}

/// Returns the ports at which the same servers listen alike at all addresses of IPv4 and at all of
/// IPv6, or at which IPv6 sockets also accept IPv4 (`ipv6only=off`).
fn ports_of_both<'s>(
    all: impl Iterator<Item = ((usize, usize), &'s NginxListen)>,
) -> BTreeSet<String> {
    let mut ports: BTreeMap<_, [Vec<_>; 2]> = BTreeMap::new();
    let mut of_both = BTreeSet::new();
    for (at, listen) in all {
        let is_v6 = listen.address.starts_with("[::]:");
        if is_v6 || listen.address.starts_with("0.0.0.0:") {
            let sides = ports.entry(listen.port()).or_default();
            sides[usize::from(is_v6)].push((at, listen.is_default, &listen.traits));
        }
        if is_v6 && listen.written.words.iter().any(|one| one == "ipv6only=off") {
            of_both.insert(listen.port().to_owned());
        }
    }
    let alike = ports.into_iter().filter(|(_, [v4, v6])| v4 == v6);
    of_both.extend(alike.map(|(port, _)| port.to_owned()));
    of_both
}

/// Returns a network of `set_real_ip_from`, unless it is a host's name.
pub(super) fn network(text: &str) -> Option<String> {
    let address = text.split('/').next().unwrap_or_default();
    match text {
        "unix:" => Some("unix".to_owned()),
        text => address.parse::<IpAddr>().is_ok().then(|| text.to_owned()),
    }
}

impl ServiceSockets<'_> {
    /// Writes the addresses and the keys about them.
    pub(super) fn write(&self, import: &mut Import) {
        let mut seen = BTreeSet::new();
        for (address, listen) in &self.listens {
            let written = &listen.written;
            let key = "service.front.listen";
            if seen.insert(address) {
                import.add(key, address.as_str(), written, "");
            } else {
                import.joined(written, key, "");
            }
        }
        let Some((_, NginxListen { written, .. })) = self.listens.first() else { return };
        let origin = || Some(written.place.clone());
        if self.ipv6_only == Some(true) {
            import.service.set("front.ipv6-only", true, origin());
        }
        if self.traits.is_deferred {
            import.service.set("front.defer-accept", true, origin());
        }
        if let Some(keepalive) = &self.traits.keepalive {
            import.service.set("front.keepalive", keepalive.as_str(), origin());
        }
        if self.traits.takes_proxy {
            let is_local = |(address, _): &(String, _)| address.starts_with("unix:");
            let count = if self.listens.iter().any(is_local) { 3 } else { 2 };
            let everyone = &["0.0.0.0/0", "::/0", "unix"][..count];
            let all = self.traits.networks.iter().map(String::as_str).collect::<Vec<_>>();
            for network in if all.is_empty() { everyone } else { &all } {
                import.service.push("front.accept-proxy", *network, origin());
            }
            let note = if all.is_empty() {
                let remark = "Name the networks of your load balancers alone.";
                import.remark("front.accept-proxy", remark);
                "every address may send a header, as with nginx: name your load balancers"
            } else {
                "an address that set_real_ip_from does not name is refused"
            };
            import.joined(written, "service.front.accept-proxy", note);
        }
    }
}
