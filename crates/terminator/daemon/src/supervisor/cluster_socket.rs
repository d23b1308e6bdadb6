//! The socket at which datagrams of the cluster's peers come. The supervisor opens it, holds it for
//! worker processes to come, and reads nothing from it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use config::PeerNetwork;
use sys::datagram;
use wire::address::Address;

use super::failure::{Failure, ListenFailure};
use crate::handover::Role;

/// The socket of the plan that is served, and that of one which is not yet.
#[derive(Debug, Default)]
pub(super) struct ClusterSocket {
    served: Option<Open>,
    /// `Some(None)` = the plan wants none.
    proposed: Option<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    network: PeerNetwork,
    fd: OwnedFd,
}

impl ClusterSocket {
    /// The socket for a first plan: one that was handed on, if it is the same.
    pub(super) fn open(
        network: Option<&PeerNetwork>,
        inherited: Option<(String, OwnedFd)>,
    ) -> Result<Self, Failure> {
        let take = |network: &PeerNetwork| match inherited {
            Some((name, fd)) if name == name_of(network) => {
                let network = network.clone();
                Ok(Open { network, fd })
            }
            _ => open(network),
        };
        Ok(Self { served: network.map(take).transpose()?, proposed: None })
    }

    /// The socket that is served, as it is handed on, with what tells it from others.
    pub(super) fn handed_on(&self) -> Option<(String, BorrowedFd<'_>)> {
        let Open { network, fd } = self.served.as_ref()?;
        Some((name_of(network), fd.as_fd()))
    }

    /// Has the socket for a plan ready. One at the same address is the same socket.
    pub(super) fn propose(&mut self, network: Option<&PeerNetwork>) -> Result<(), Failure> {
        let wanted = match (network, &self.served) {
            (Some(network), Some(served)) if is_same(network, &served.network) => {
                let fd = served.fd.try_clone().map_err(Failure::host("keep a socket"))?;
                let network = network.clone();
                Some(Open { network, fd })
            }
            (network, _) => network.map(open).transpose()?,
        };
        self.proposed = Some(wanted);
        Ok(())
    }

    pub(super) fn accept(&mut self) {
        if let Some(open) = self.proposed.take() {
            self.served = open;
        }
    }

    pub(super) fn withdraw(&mut self) {
        self.proposed = None;
    }

    /// The descriptor with its role.
    pub(super) fn role(&self) -> Option<(Role, BorrowedFd<'_>)> {
        let open = self.proposed.as_ref().unwrap_or(&self.served).as_ref()?;
        Some((Role::ClusterSocket, open.fd.as_fd()))
    }
}

/// Whether a socket can stay: the list of peers is nothing of it.
fn is_same(one: &PeerNetwork, other: &PeerNetwork) -> bool {
    match (one, other) {
        (PeerNetwork::Unicast { listen, .. }, PeerNetwork::Unicast { listen: same, .. }) => {
            listen == same
        }
        (one, other) => one == other,
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

fn open(network: &PeerNetwork) -> Result<Open, Failure> {
    let (address, opened) = match network {
        PeerNetwork::Unicast { listen, .. } => (*listen, datagram::open(*listen)),
        PeerNetwork::Multicast { group, interface, hops } => {
            (*group, datagram::join(*group, interface.as_deref(), *hops))
        }
    };
    let failed = |error| ListenFailure {
        who: "the cluster's peers".to_owned(),
        address: Address::Ip(address),
        error,
        holder: String::new(),
    };
    let network = network.clone();
    let fd = opened.map_err(failed)?;
    Ok(Open { network, fd })
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

    fn address(socket: &ClusterSocket) -> Option<std::net::SocketAddr> {
        let fd = socket.role()?.1.try_clone_to_owned().unwrap();
        Some(UdpSocket::from(fd).local_addr().unwrap())
    }

    #[test]
    fn a_socket_stays_while_its_address_does_and_a_plan_that_is_refused_changes_none() {
        let any = network("127.0.0.1:0", "127.0.0.9:1");
        let mut socket = ClusterSocket::open(Some(&any), None).unwrap();
        let first = address(&socket).unwrap();
        socket.propose(Some(&network("127.0.0.1:0", "127.0.0.9:2"))).unwrap();
        socket.accept();
        assert_eq!(address(&socket), Some(first), "only the list is another");
        socket.propose(Some(&network("127.0.0.2:0", "127.0.0.9:1"))).unwrap();
        assert_ne!(address(&socket), Some(first));
        socket.withdraw();
        assert_eq!(address(&socket), Some(first));
        socket.propose(Some(&network(&first.to_string(), "127.0.0.9:1"))).unwrap_err();
        socket.propose(None).unwrap();
        socket.accept();
        assert_eq!(address(&socket), None);
        assert!(UdpSocket::bind(first).is_ok(), "it is closed");
    }
}
