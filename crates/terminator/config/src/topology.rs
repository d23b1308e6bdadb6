//! Checks services against each other: shared addresses, the clients each service gets there, and
//! connections that come back to where they began.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use options::KeyPlace;
use proxy::options::{FrontTls, ServiceOptions, Transport};
use proxy::routes::{Overlap, RouteTable};
use wire::address::{Address, Endpoint};

use crate::front::WrittenFront;
use crate::service::WrittenService;
use crate::settings::{AcmeChallenge, AcmeEntry};

/// Most overlaps that are reported for one address.
const OVERLAPS_MAX: usize = 20;

/// Checks that a hello can tell apart the services of an address, and that each service gets every
/// client meant for it.
pub(crate) fn addresses_are_shared_well<'a>(
    services: impl Iterator<Item = (&'a WrittenFront<'a>, &'a ServiceOptions)>,
) {
    let mut at: HashMap<&Address, Vec<Sharer<'_>>> = HashMap::new();
    let mut order = Vec::new();
    for (keys, service) in services {
        chooses_by_hello(keys, service);
        for address in &service.front.listen {
            if address.is_ephemeral() {
                continue;
            }
            let sharers = at.entry(address).or_default();
            if sharers.last().is_some_and(|one| std::ptr::eq(one.service, service)) {
                let message = format!("{address} stands there twice");
                keys.listen.refuse(message, "take one out");
                continue;
            }
            if sharers.is_empty() {
                order.push(address);
            }
            sharers.push(Sharer { keys, service });
        }
    }
    for address in order {
        let sharers = &at[address];
        share(address, sharers);
        let selectors = sharers.iter().map(|one| one.service.front.selector());
        let overlaps = RouteTable::build(selectors.enumerate()).err().into_iter().flatten();
        for overlap in overlaps.take(OVERLAPS_MAX) {
            report_overlap(address, sharers, &overlap);
        }
    }
}

/// A service at an address.
struct Sharer<'a> {
    keys: &'a WrittenFront<'a>,
    service: &'a ServiceOptions,
}

impl Sharer<'_> {
    /// Whether clients begin without a hello.
    fn begins_in_plaintext(&self) -> bool {
        let starttls = self.service.starttls.as_ref();
        self.service.front.tls == FrontTls::Plain
            || starttls.is_some_and(|one| one.sides.front.is_some())
    }

    fn named(&self) -> String {
        let name = &self.service.name;
        match self.keys.at.line() {
            Some(place) => format!("`{name}` ({place})"),
            None => format!("`{name}`"),
        }
    }
}

/// Refuses `names` and `protocols` without TLS, because clients then send no hello to choose by.
fn chooses_by_hello(front: &WrittenFront<'_>, service: &ServiceOptions) {
    if service.front.tls != FrontTls::Plain {
        return;
    }
    let by_hello = [&*front.names, &*front.protocols].into_iter();
    for place in by_hello.filter(|place| place.is_written()) {
        let message = "is chosen by a ClientHello, and clients of this service speak no TLS";
        place.refuse(message, "take it out, or give the service `tls`");
    }
}

/// Checks that keys which apply before the hello are the same for all.
fn share(address: &Address, sharers: &[Sharer<'_>]) {
    let Some((first, others)) = sharers.split_first() else { return };
    for other in others {
        if first.begins_in_plaintext() || other.begins_in_plaintext() {
            let message = format!("{address} is already listened at by {}", first.named());
            let hint = "only services whose clients begin with TLS can share an address: their \
                        hellos differ";
            other.keys.listen.refuse(message, hint);
            continue;
        }
        let (one, two, keys) = (&first.service.front, &other.service.front, other.keys);
        let (transport, other_transport) = (&one.transport, &two.transport);
        let is_same_interface = transport.interface == other_transport.interface;
        for (place, are_same) in [
            (&*keys.accept_proxy, one.accept_proxy == two.accept_proxy),
            (&*keys.keepalive, one.liveness == two.liveness),
            (&*keys.interface, is_same_interface),
            (&*keys.mptcp, transport.mptcp == other_transport.mptcp),
            (
                &*keys.ipv6_only,
                !address.is_any_v6() || transport.ipv6_only == other_transport.ipv6_only,
            ),
            (&*keys.defer_accept, one.defer_accept == two.defer_accept),
        ] {
            if !are_same {
                let first = first.named();
                let message = format!("differs from that of {first}, which shares {address}");
                let hint = "it holds before a hello tells services apart: write the same at both";
                place.refuse(message, hint);
            }
        }
    }
}

fn report_overlap(address: &Address, sharers: &[Sharer<'_>], overlap: &Overlap) {
    let (first, second) = (&sharers[overlap.first], &sharers[overlap.second]);
    if first.begins_in_plaintext() || second.begins_in_plaintext() {
        // Already reported as services that cannot share an address.
        return;
    }
    let protocol = overlap.protocol.as_deref().map(String::from_utf8_lossy);
    let offering = protocol.map_or(String::new(), |protocol| format!(" that offer \"{protocol}\""));
    let clients = match &overlap.name {
        Some(name) => format!("clients of \"{name}\"{offering}"),
        None => format!("clients of any name{offering}"),
    };
    let first = first.named();
    let keys = second.keys;
    let (place, hint) = match (&overlap.name, &overlap.protocol) {
        (None, None) => {
            (&*keys.listen, "give one of them `names`: the other gets all that are left")
        }
        (Some(_), None) => (&*keys.names, "write the name at one of them"),
        (_, Some(_)) => (&*keys.protocols, "write the protocol at one of them"),
    };
    let message = format!("{clients} at {address} are already for {first}");
    place.refuse(message, hint);
}

/// Whether a listener accepts clients of the other address, or vice versa: `[::]` accepts those of
/// IPv4 as well, unless it is for IPv6 alone.
pub(crate) fn overlap(one: SocketAddr, over: &Transport, other: SocketAddr) -> bool {
    let takes_all_of = |wide: IpAddr, narrow: IpAddr| match wide {
        IpAddr::V4(wide) => wide.is_unspecified() && narrow.is_ipv4(),
        IpAddr::V6(wide) => wide.is_unspecified() && (narrow.is_ipv6() || !over.ipv6_only),
    };
    let (a, b) = (one.ip(), other.ip());
    let is_same_port = one.port() == other.port() && one.port() != 0;
    is_same_port && a != b && (takes_all_of(a, b) || takes_all_of(b, a))
}

/// Reports servers that are our own listeners: every connection would make another endlessly.
pub(crate) fn servers_are_no_loop(written: &[WrittenService<'_>], services: &[ServiceOptions]) {
    let listeners = Listeners::of(services);
    for (start, service) in services.iter().enumerate() {
        for (number, server) in service.back.server_list().iter().enumerate() {
            let Some(way) = way_back(services, &listeners, start, &server.endpoint) else {
                continue;
            };
            // The first service of a ring reports the ring.
            if way.iter().any(|at| *at < start) {
                continue;
            }
            let names = way.iter().filter_map(|at| services.get(*at));
            let names: Vec<_> = names.map(|one| format!("`{}`", one.name)).collect();
            let through = match names.len() {
                1 => "this service itself".to_owned(),
                _ => {
                    format!("this service again, by way of {}", names[..names.len() - 1].join(", "))
                }
            };
            let servers = &written[start].back.servers.tables;
            let message =
                format!("{} is {through}: connections would go in a ring", server.endpoint);
            let hint = "name the address at which the program behind lariat listens";
            let Some(place) = servers.get(number).or_else(|| servers.first()) else { continue };
            place.address.refuse(message, hint);
        }
    }
}

/// Returns the services that a connection to this server passes until it is at `start` again;
/// `None` if it is not known to come back.
fn way_back(
    services: &[ServiceOptions],
    listeners: &Listeners<'_>,
    start: usize,
    server: &Endpoint,
) -> Option<Vec<usize>> {
    let mut way = vec![listeners.only(server)?];
    while way.last() != Some(&start) {
        let at = services.get(*way.last()?)?;
        let [only] = at.back.server_list() else { return None };
        let next = listeners.only(&only.endpoint)?;
        if way.contains(&next) {
            return None;
        }
        way.push(next);
    }
    Some(way)
}

/// Addresses of all services by port (Unix addresses have none), because comparing ten thousand
/// services with ten thousand servers is slow.
struct Listeners<'a>(HashMap<Option<u16>, Vec<(usize, &'a Address, &'a Transport)>>);

impl<'a> Listeners<'a> {
    fn of(services: &'a [ServiceOptions]) -> Self {
        let mut by_port: HashMap<_, Vec<_>> = HashMap::new();
        for (number, service) in services.iter().enumerate() {
            for address in &service.front.listen {
                let transport = &service.front.transport;
                by_port.entry(port(address)).or_default().push((number, address, transport));
            }
        }
        Self(by_port)
    }

    /// Returns the service that listens at a server's address, if it is the only one.
    fn only(&self, server: &Endpoint) -> Option<usize> {
        let port = match server {
            Endpoint::Address(address) => port(address),
            Endpoint::Name { port, .. } => Some(*port),
            Endpoint::Service { .. } => return None,
        };
        let there = self.0.get(&port)?.iter();
        let there = there.filter(|(_, address, over)| is_reached(address, over, server));
        let mut numbers = there.map(|(number, ..)| *number);
        let first = numbers.next()?;
        numbers.all(|other| other == first).then_some(first)
    }
}

fn port(address: &Address) -> Option<u16> {
    match address {
        Address::Ip(address) => Some(address.port()),
        Address::Unix(_) | Address::Inherited(_) => None,
    }
}

/// Whether a connection to a server reaches a listener at an address. Of this host's addresses,
/// only loopback is known.
fn is_reached(listen: &Address, over: &Transport, server: &Endpoint) -> bool {
    match (listen, server) {
        (Address::Ip(listen), Endpoint::Address(Address::Ip(server))) => {
            // An IPv4-mapped IPv6 address is reached by IPv4.
            let server = SocketAddr::new(server.ip().to_canonical(), server.port());
            let is_same = listen.ip().to_canonical() == server.ip();
            let is_ours = server.ip().is_loopback() || server.ip().is_unspecified();
            listen.port() == server.port() && (is_same || is_ours && overlap(*listen, over, server))
        }
        (Address::Ip(listen), Endpoint::Name { host, port }) => {
            let is_ours = listen.ip().is_loopback() || listen.ip().is_unspecified();
            host == "localhost" && listen.port() == *port && is_ours
        }
        (Address::Unix(_), Endpoint::Address(server)) => listen == server,
        _ => false,
    }
}

/// Reports services that have the name of an earlier one.
pub(crate) fn names_differ(written: &[WrittenService<'_>]) {
    let mut seen = HashSet::new();
    for keys in written {
        // A name that is not text has been reported.
        let Some(name) = &keys.name.value else { continue };
        if !seen.insert(name) {
            let message = format!("\"{name}\" is the name of an earlier service");
            keys.name.refuse(message, "give each [[service]] a name of its own");
        }
    }
}
/// Checks ACME entries against all services. Each entry has its service's name.
pub(crate) fn certificates_can_be_ordered(
    tables: &[WrittenService<'_>],
    services: &[ServiceOptions],
    entries: &[AcmeEntry],
) {
    let tables = tables.iter().filter_map(|table| Some((table.name.value.as_ref()?, table)));
    let tables: HashMap<_, _> = tables.collect();
    let mut claimed: HashMap<&str, Vec<&AcmeEntry>> = HashMap::new();
    for entry in entries {
        let table = tables.get(&entry.service);
        let Some(written) = table.and_then(|table| table.front.tls.acme.as_ref()) else { continue };
        let others = entry.domains.iter().filter_map(|name| claimed.get(name.as_str()));
        let mut others = others.flatten();
        if let Some(other) = others.find(|other| other.name != entry.name) {
            let message = format!("claims a domain that `{}` has by another order", other.service);
            let hint = "write the same `domains`, `directory` and `key` in both, or take it out";
            written.domains.refuse(message, hint);
        }
        for name in &entry.domains {
            let claims = claimed.entry(name).or_default();
            if claims.iter().all(|one| one.name != entry.name) {
                claims.push(entry);
            }
        }
        can_be_asked(&written.challenge.at, entry, services);
    }
}

/// Reports that no service answers the authority's challenge. An authority with `roots` of its own
/// may use other ports.
fn can_be_asked(place: &KeyPlace<'_>, entry: &AcmeEntry, services: &[ServiceOptions]) {
    let listens_at = |one: &ServiceOptions, wanted: u16| {
        one.front.listen.iter().any(|address| match address {
            Address::Ip(address) => address.port() == wanted,
            // The origin of the clients is unknown here.
            Address::Unix(_) | Address::Inherited(_) => true,
        })
    };
    let is_plain =
        |one: &&ServiceOptions| one.front.tls == FrontTls::Plain && one.starttls.is_none();
    let mut plain = services.iter().filter(is_plain);
    let mut terminated = services.iter().filter(|one| one.front.terminated().is_some());
    match entry.challenge {
        AcmeChallenge::Http if plain.clone().next().is_none() => place.refuse(
            "needs a service that speaks plain HTTP and answers the authority",
            "add a service at port 80 with front.redirect = \"https\"",
        ),
        AcmeChallenge::Http if entry.roots.is_empty() && !plain.any(|one| listens_at(one, 80)) => {
            place.warn("has the authority connect to port 80, and no service listens there", PORTS);
        }
        AcmeChallenge::TlsAlpn
            if entry.roots.is_empty() && !terminated.any(|one| listens_at(one, 443)) =>
        {
            place
                .warn("has the authority connect to port 443, and no service listens there", PORTS);
        }
        _ => {}
    }
}

const PORTS: &str = "unless something passes the port on, or it is an authority of your own with \
                     another, listen there";
