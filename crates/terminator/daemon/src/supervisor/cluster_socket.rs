//! The socket at which datagrams of the cluster's peers come. The supervisor opens it, holds it for
//! worker processes to come, and reads nothing from it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use config::PeerNetwork;
use sys::datagram;
use wire::address::Address;

use super::failure::{Failure, ListenFailure};
use crate::handover::Role;
use crate::messages::warn;

/// The socket of a plan.
#[derive(Debug)]
pub(super) struct ClusterSocket {
    network: PeerNetwork,
    fd: OwnedFd,
}

impl ClusterSocket {
    /// The socket for a plan; one `before` it at the same address is the same, whatever the list of
    /// peers, unless a worker process has made it useless.
    pub(super) fn of_plan(
        network: Option<&PeerNetwork>,
        before: Option<(String, BorrowedFd<'_>)>,
    ) -> Result<Option<Self>, Failure> {
        let Some(network) = network.cloned() else {
            return Ok(None);
        };
        let fd = match before.filter(|(name, _)| *name == name_of(&network)) {
            Some((_, fd)) if datagram::is_open_to_all(fd) => {
                fd.try_clone_to_owned().map_err(Failure::host("keep a socket"))?
            }
            Some((_, fd)) => {
                warn(
                    "the socket of the cluster's peers was tied to one peer or shut down, and is \
                     replaced: a worker process may have been in an attacker's hands",
                );
                open(&network, Some(fd))?
            }
            None => open(&network, None)?,
        };
        Ok(Some(Self { network, fd }))
    }

    /// The socket as it is handed on, with the name that distinguishes it.
    pub(super) fn handed_on(&self) -> (String, BorrowedFd<'_>) {
        (name_of(&self.network), self.fd.as_fd())
    }

    pub(super) fn role(&self) -> (Role, BorrowedFd<'_>) {
        (Role::ClusterSocket, self.fd.as_fd())
    }
}

/// The same for two sockets that can take each other's place.
fn name_of(network: &PeerNetwork) -> String {
    match network {
        PeerNetwork::Unicast { listen, .. } => listen.to_string(),
        PeerNetwork::Multicast { group, interface, hops } => {
            let interface = interface.as_deref().unwrap_or("any interface");
            format!("{group} on {interface}, {hops} hops")
        }
    }
}

/// Opens one, beside one `before` it at the same address.
fn open(network: &PeerNetwork, before: Option<BorrowedFd<'_>>) -> Result<OwnedFd, Failure> {
    let (address, opened) = match network {
        PeerNetwork::Unicast { listen, .. } => {
            let opened = match before {
                Some(before) => datagram::open_beside(*listen, before),
                None => datagram::open(*listen),
            };
            (*listen, opened)
        }
        PeerNetwork::Multicast { group, interface, hops } => {
            (*group, datagram::join(*group, interface.as_deref(), *hops))
        }
    };
    let address = Address::Ip(address);
    let failed = |error| ListenFailure::new("the cluster's peers", &address, error);
    Ok(opened.map_err(failed)?)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn network(listen: &str, peer: &str) -> PeerNetwork {
        PeerNetwork::Unicast {
            listen: listen.parse().unwrap(),
            send_to: vec![peer.parse().unwrap()],
        }
    }

    fn address(socket: &ClusterSocket) -> std::net::SocketAddr {
        UdpSocket::from(socket.fd.try_clone().unwrap()).local_addr().unwrap()
    }

    #[test]
    fn a_socket_stays_while_its_address_does() {
        let any = network("127.0.0.1:0", "127.0.0.9:1");
        let first = ClusterSocket::of_plan(Some(&any), None).unwrap().unwrap();
        let next = |listen, peer| {
            ClusterSocket::of_plan(Some(&network(listen, peer)), Some(first.handed_on()))
        };
        let same = next("127.0.0.1:0", "127.0.0.9:2").unwrap().unwrap();
        assert_eq!(address(&same), address(&first), "only the list is another");
        let other = next("127.0.0.2:0", "127.0.0.9:1").unwrap().unwrap();
        assert_ne!(address(&other), address(&first));
        let at = address(&first);
        let named = at.to_string();
        next(&named, "127.0.0.9:1").unwrap_err();
        let tied = UdpSocket::from(first.fd.try_clone().unwrap());
        tied.connect("127.0.0.9:1").unwrap();
        let replaced = next("127.0.0.1:0", "127.0.0.9:1").unwrap().unwrap();
        assert_eq!(address(&replaced), at);
        assert!(datagram::is_open_to_all(&replaced.fd));
    }
}
