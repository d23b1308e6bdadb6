//! How the addresses of services lie to each other: whether the kernel can give each its own
//! socket, and whether connections come back to where they began.

use std::net::{IpAddr, SocketAddr};

use options::Section;
use proxy::options::ServiceOptions;
use wire::address::{Address, Endpoint};

/// Reports addresses of which one takes the other's clients: nobody can listen at both.
pub(crate) fn addresses_do_not_overlap(sections: &[Section<'_>], services: &[ServiceOptions]) {
    let mut before: Vec<(&ServiceOptions, SocketAddr)> = Vec::new();
    for (section, service) in sections.iter().zip(services) {
        for address in &service.front.listen {
            let Address::Ip(address) = address else {
                continue;
            };
            let overlapping = |(other, at): &&(&ServiceOptions, SocketAddr)| {
                overlap(*at, *address) && may_meet(other, service)
            };
            if let Some((other, at)) = before.iter().find(overlapping) {
                let of = if std::ptr::eq(*other, service) {
                    String::new()
                } else {
                    format!(" of `{}`", other.name)
                };
                let message = format!("{address} cannot be listened at beside {at}{of}");
                let front = section.section("front");
                front.refuse("listen", message, hint(*at, *address));
            }
            before.push((service, *address));
        }
    }
}

/// Whether one address takes clients of the other: `[::]` takes those of IPv4 as well.
pub(crate) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let takes_all_of = |wide: IpAddr, narrow: IpAddr| match wide {
        IpAddr::V4(wide) => wide.is_unspecified() && narrow.is_ipv4(),
        IpAddr::V6(wide) => wide.is_unspecified(),
    };
    let (a, b) = (one.ip(), other.ip());
    let is_same_port = one.port() == other.port() && one.port() != 0;
    is_same_port && a != b && (takes_all_of(a, b) || takes_all_of(b, a))
}

/// Sockets of two network interfaces are apart.
fn may_meet(one: &ServiceOptions, other: &ServiceOptions) -> bool {
    let interface = |service: &ServiceOptions| service.front.transport.interface.clone();
    match (interface(one), interface(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

fn hint(one: SocketAddr, other: SocketAddr) -> String {
    let wide = if one.ip().is_unspecified() && (one.is_ipv6() || !other.ip().is_unspecified()) {
        one
    } else {
        other
    };
    let clients = match wide {
        SocketAddr::V6(_) => "all clients, those of IPv4 as well",
        SocketAddr::V4(_) => "all clients of IPv4",
    };
    format!("{wide} takes {clients}: write it alone, or list each address of this host")
}

/// Reports servers that are our own listeners: every connection would make another without end.
pub(crate) fn servers_are_no_loop(sections: &[Section<'_>], services: &[ServiceOptions]) {
    for (start, service) in services.iter().enumerate() {
        for (number, server) in service.back.server_list().iter().enumerate() {
            let Some(way) = way_back(services, start, &server.endpoint) else {
                continue;
            };
            // The first of a ring tells of it.
            if way.iter().any(|at| *at < start) {
                continue;
            }
            let names = way.iter().filter_map(|at| services.get(*at));
            let names: Vec<_> = names.map(|one| format!("`{}`", one.name)).collect();
            let through = match names.len() {
                1 => "this service itself".to_owned(),
                _ => format!(
                    "this service again, by way of {}",
                    names[..names.len() - 1].join(", ")
                ),
            };
            let servers = sections[start].section("back").sections("servers");
            let message = format!(
                "{} is {through}: connections would go in a ring",
                server.endpoint
            );
            let hint = "name the address at which the program behind lariat listens";
            let Some(place) = servers.get(number).or_else(|| servers.first()) else {
                continue;
            };
            place.refuse("address", message, hint);
        }
    }
}

/// The services that a connection to this server passes until it is at `start` again; `None` = it
/// is not known to come back.
fn way_back(services: &[ServiceOptions], start: usize, server: &Endpoint) -> Option<Vec<usize>> {
    let mut way = vec![listener(services, server)?];
    while way.last() != Some(&start) {
        let at = services.get(*way.last()?)?;
        let [only] = at.back.server_list() else {
            return None;
        };
        let next = listener(services, &only.endpoint)?;
        if way.contains(&next) {
            return None;
        }
        way.push(next);
    }
    Some(way)
}

/// The service that listens where a server is, if it is the only one.
fn listener(services: &[ServiceOptions], server: &Endpoint) -> Option<usize> {
    let is_there = |service: &ServiceOptions| {
        let mut addresses = service.front.listen.iter();
        addresses.any(|address| is_reached(address, server))
    };
    let mut found = services.iter().enumerate();
    let is_there = |(_, service): &(usize, &ServiceOptions)| is_there(service);
    let first = found.find(is_there)?.0;
    found.find(is_there).is_none().then_some(first)
}

/// Whether who connects to a server reaches what listens at an address: the addresses of this host
/// are not known but for loopback.
fn is_reached(listen: &Address, server: &Endpoint) -> bool {
    match (listen, server) {
        (Address::Ip(listen), Endpoint::Address(Address::Ip(server))) => {
            // An address of IPv4 that is written as one of IPv6 is reached by IPv4.
            let server = SocketAddr::new(server.ip().to_canonical(), server.port());
            let is_same = listen.ip().to_canonical() == server.ip();
            let is_ours = server.ip().is_loopback() || server.ip().is_unspecified();
            listen.port() == server.port() && (is_same || is_ours && overlap(*listen, server))
        }
        (Address::Ip(listen), Endpoint::Name { host, port }) => {
            let is_ours = listen.ip().is_loopback() || listen.ip().is_unspecified();
            host == "localhost" && listen.port() == *port && is_ours
        }
        (Address::Unix(_), Endpoint::Address(server)) => listen == server,
        _ => false,
    }
}
