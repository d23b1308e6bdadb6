//! The content of a PROXY header, whichever version carried it.

use super::tlv::Tlvs;
use std::net::{IpAddr, SocketAddr};

/// Who connected, to what, and what else the proxy tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header<'a> {
    /// The format it came in.
    pub version: Version,
    pub command: Command,
    /// The ends of the client's connection to the proxy.
    pub addresses: Addresses<'a>,
    /// The fields behind the addresses; none in version 1.
    pub tlvs: Tlvs<'a>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Version {
    V1,
    V2,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Command {
    /// The proxy's own, a health check for instance: the real ends of the connection count.
    Local,
    #[default]
    Proxy,
}

/// Both ends of the client's connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Addresses<'a> {
    /// Not told, or of a kind that is not read (datagrams): the real ends count.
    #[default]
    Unknown,
    /// TCP. Both ends are of one family; [`Addresses::tcp`] makes them so.
    Tcp {
        source: SocketAddr,
        destination: SocketAddr,
    },
    /// A Unix stream socket: names without the padding, an abstract one with its leading NUL,
    /// unnamed ones empty. At most 108 bytes.
    Unix {
        source: &'a [u8],
        destination: &'a [u8],
    },
}

impl Addresses<'_> {
    /// Both ends in one family: if either is IPv6, an IPv4 one is mapped (`::ffff:192.0.2.1`).
    ///
    /// An IPv4 client of a socket bound to `[::]` is mapped on both ends and is written as IPv4.
    pub fn tcp(source: SocketAddr, destination: SocketAddr) -> Self {
        let plain =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let (source, destination) = one_family(plain(source), plain(destination));
        Self::Tcp {
            source,
            destination,
        }
    }

    /// The client's IP address and port, if told.
    pub fn source(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { source, .. } => Some(*source),
            _ => None,
        }
    }

    /// The IP address and port that the client connected to, if told.
    pub fn destination(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { destination, .. } => Some(*destination),
            _ => None,
        }
    }
}

/// Both as IPv6 unless they are of one family already.
pub(super) fn one_family(a: SocketAddr, b: SocketAddr) -> (SocketAddr, SocketAddr) {
    if a.is_ipv4() == b.is_ipv4() {
        (a, b)
    } else {
        (mapped(a), mapped(b))
    }
}

fn mapped(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(v4) => IpAddr::V6(v4.to_ipv6_mapped()),
        v6 => v6,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(source: &str, destination: &str) -> (String, String) {
        let addresses = Addresses::tcp(source.parse().unwrap(), destination.parse().unwrap());
        (
            addresses.source().unwrap().to_string(),
            addresses.destination().unwrap().to_string(),
        )
    }

    #[test]
    fn families_are_made_one() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            tcp("1.2.3.4:5", "6.7.8.9:10"),
            pair("1.2.3.4:5", "6.7.8.9:10")
        );
        assert_eq!(
            tcp("[::ffff:1.2.3.4]:5", "[::ffff:6.7.8.9]:10"),
            pair("1.2.3.4:5", "6.7.8.9:10")
        );
        assert_eq!(
            tcp("1.2.3.4:5", "[2001:db8::1]:10"),
            pair("[::ffff:1.2.3.4]:5", "[2001:db8::1]:10")
        );
    }
}
