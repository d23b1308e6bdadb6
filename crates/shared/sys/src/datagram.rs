//! Opens UDP sockets at an address or in a multicast group.
//!
//! Both are non-blocking and closed on exec. Sending and receiving is the caller's task.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getpeername, getsockname, netdevice, socket_with,
    sockopt,
};

use crate::socket::{is_shut_down, set_nonblocking};

/// Size of the kernel's queue of unread datagrams, in bytes: a burst of some thousand. The kernel
/// gives at most `net.core.rmem_max`.
pub const RECEIVE_BYTES: usize = 4 << 20;

/// Opens a socket at an address.
pub fn open(address: SocketAddr) -> io::Result<OwnedFd> {
    let fd = socket(&address)?;
    bind(&fd, &address)?;
    Ok(fd)
}

/// Opens a socket at the address of `before`, which the caller closes; until then both share it.
pub fn open_beside(address: SocketAddr, before: impl AsFd) -> io::Result<OwnedFd> {
    let before = before.as_fd();
    let port = SocketAddr::try_from(getsockname(before)?).map_or(0, |own| own.port());
    let port = if address.port() == 0 { port } else { address.port() };
    let address = SocketAddr::new(address.ip(), port);
    let fd = socket(&address)?;
    sockopt::set_socket_reuseaddr(before, true)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    let bound = bind(&fd, &address);
    // No third socket may share the address.
    sockopt::set_socket_reuseaddr(before, false)?;
    sockopt::set_socket_reuseaddr(&fd, false)?;
    Ok(bound.map(|()| fd)?)
}

/// Reports whether a socket still takes datagrams from everywhere: another process that shares it
/// may have connected it to one peer or shut it down. Makes the socket non-blocking.
pub fn is_open_to_all(fd: impl AsFd) -> bool {
    let fd = fd.as_fd();
    let _ = set_nonblocking(fd);
    matches!(getpeername(fd), Err(Errno::NOTCONN)) && !is_shut_down(fd)
}

/// Opens a socket in a multicast group, at the group's port. It receives only datagrams to the
/// group, also from this host; several sockets may be in one group. Datagrams to the group pass at
/// most `hops` networks. Fails with `NotFound` or `ENODEV` if the interface does not exist.
pub fn join(group: SocketAddr, interface: Option<&str>, hops: u8) -> io::Result<OwnedFd> {
    let fd = socket(&group)?;
    let index = match interface {
        Some(name) => netdevice::name_to_index(&fd, name)?,
        None => 0,
    };
    sockopt::set_socket_reuseaddr(&fd, true)?;
    match group {
        SocketAddr::V4(group) => {
            let (ip, any) = (group.ip(), &Ipv4Addr::UNSPECIFIED);
            bind(&fd, &group)?;
            sockopt::set_ip_add_membership_with_ifindex(&fd, ip, any, index)?;
            sockopt::set_ip_multicast_if_with_ifindex(&fd, ip, any, index)?;
            sockopt::set_ip_multicast_ttl(&fd, hops.into())?;
            sockopt::set_ip_multicast_loop(&fd, true)?;
        }
        SocketAddr::V6(group) => {
            // A link-local group belongs to an interface.
            let address = SocketAddrV6::new(*group.ip(), group.port(), 0, index);
            bind(&fd, &address)?;
            sockopt::set_ipv6_add_membership(&fd, group.ip(), index)?;
            sockopt::set_ipv6_multicast_if(&fd, index)?;
            sockopt::set_ipv6_multicast_hops(&fd, hops.into())?;
            sockopt::set_ipv6_multicast_loop(&fd, true)?;
        }
    }
    Ok(fd)
}

fn socket(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(family, SocketType::DGRAM, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    sockopt::set_socket_recv_buffer_size(&fd, RECEIVE_BYTES)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::*;

    fn waiting(fd: OwnedFd) -> UdpSocket {
        let socket = UdpSocket::from(fd);
        socket.set_nonblocking(false).unwrap();
        let patience = Some(Duration::from_secs(10));
        socket.set_read_timeout(patience).unwrap();
        socket
    }

    fn received(socket: &UdpSocket) -> Vec<u8> {
        let mut room = [0; 64];
        let (count, _) = socket.recv_from(&mut room).unwrap();
        room[..count].to_vec()
    }

    #[test]
    fn a_datagram_goes_from_one_address_to_another() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let [one, other] = [(); 2].map(|()| waiting(open(any.parse().unwrap()).unwrap()));
            one.send_to(b"hello", other.local_addr().unwrap()).unwrap();
            assert_eq!(received(&other), b"hello");
        }
    }

    #[test]
    fn all_members_of_a_group_get_a_datagram_on_the_loopback_interface() {
        // IPv4 only, because not every host has a route for IPv6 groups. Nobody else uses the port,
        // so no other test is in the group.
        let holder = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = holder.local_addr().unwrap().port();
        let group: SocketAddr = format!("239.255.77.1:{port}").parse().unwrap();
        let [one, other] = [(); 2].map(|()| waiting(join(group, Some("lo"), 1).unwrap()));
        one.send_to(b"hello", group).unwrap();
        assert_eq!(received(&other), b"hello");
        assert_eq!(received(&one), b"hello", "the sender is a member as well");
    }

    #[test]
    fn one_that_was_tied_or_shut_down_is_known_and_another_takes_its_place() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let address = any.parse().unwrap();
            let other = waiting(open(address).unwrap());
            let tie = |one: &UdpSocket| one.connect(other.local_addr().unwrap()).unwrap();
            let shut_down = |one: &UdpSocket| {
                // Fails because there is no peer, but shuts the socket down.
                let _ = rustix::net::shutdown(one, rustix::net::Shutdown::Both);
            };
            for spoil in [&tie as &dyn Fn(&UdpSocket), &shut_down] {
                let before = open(address).unwrap();
                assert!(is_open_to_all(&before));
                let before = UdpSocket::from(before);
                let at = before.local_addr().unwrap();
                spoil(&before);
                assert!(!is_open_to_all(&before));
                let next = waiting(open_beside(address, &before).unwrap());
                assert!(is_open_to_all(&next));
                drop(before);
                let next = waiting(next.into());
                assert_eq!(next.local_addr().unwrap(), at);
                let third = waiting(open(address).unwrap());
                third.send_to(b"hello", at).unwrap();
                assert_eq!(received(&next), b"hello");
                open(at).unwrap_err();
            }
        }
    }

    #[test]
    fn a_group_of_no_interface_is_an_error() {
        let group = "239.255.77.2:9".parse().unwrap();
        join(group, Some("no-such-if0"), 1).unwrap_err();
    }
}
