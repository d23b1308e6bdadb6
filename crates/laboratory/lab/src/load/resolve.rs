//! The address of a target, by the host's own resolver.

use std::net::{SocketAddr, ToSocketAddrs};

use wire::address::{Address, Endpoint};

/// An address, and those that are not taken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Resolved {
    pub(crate) address: Address,
    pub(crate) others: Vec<SocketAddr>,
}

/// Asks once, before the load: what names cost is not measured. The reason of a failure is for
/// people.
pub(crate) fn resolve(endpoint: &Endpoint) -> Result<Resolved, String> {
    let (host, port) = match endpoint {
        Endpoint::Address(address) => {
            return Ok(Resolved {
                address: address.clone(),
                others: Vec::new(),
            });
        }
        Endpoint::Name { host, port } => (host.as_str(), *port),
        Endpoint::Service { .. } => return Err("it stands for several servers".to_owned()),
    };
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in (host, port)
        .to_socket_addrs()
        .map_err(|error| error.to_string())?
    {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    let mut found = found.into_iter();
    let first = found.next().ok_or("it has no address")?;
    Ok(Resolved {
        address: Address::Ip(first),
        others: found.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_no_asking() {
        for text in ["127.0.0.1:443", "unix:/run/a"] {
            let resolved = resolve(&text.parse().unwrap()).unwrap();
            assert_eq!(resolved.address.to_string(), text);
            assert!(resolved.others.is_empty());
        }
    }

    #[test]
    fn this_host_has_a_name() {
        let Resolved { address, others } = resolve(&"localhost:7".parse().unwrap()).unwrap();
        let Address::Ip(address) = address else {
            panic!("a name is of no Unix socket");
        };
        assert!(address.ip().is_loopback() && address.port() == 7);
        assert!(!others.contains(&address));
    }
}
