//! A named set of addresses in CIDR notation (RFC 4632).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// `10.0.0.0/8`, `2001:db8::/32`, one bare address, or `unix` for every Unix socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Network {
    /// The addresses whose first bits equal these.
    Ip {
        /// The first address of the network.
        base: IpAddr,
        /// How many leading bits count.
        prefix_bits: u8,
    },
    /// Clients that connect over a Unix socket.
    Unix,
}

/// The text is neither CIDR, an address, nor `unix`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("is no network (write 10.0.0.0/8, 2001:db8::/32, one IP address, or unix)")]
pub struct NetworkError;

impl Network {
    /// Whether that peer is in the network; `None` is a peer on a Unix socket.
    ///
    /// An IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) counts as the IPv4 address it carries,
    /// since a socket bound to `[::]` reports IPv4 clients so.
    pub fn contains(&self, peer: Option<IpAddr>) -> bool {
        match (self, peer) {
            (Self::Unix, None) => true,
            (Self::Ip { base, prefix_bits }, Some(peer)) => {
                match (base.to_canonical(), peer.to_canonical()) {
                    (IpAddr::V4(b), IpAddr::V4(p)) => {
                        same_head(b.to_bits().into(), p.to_bits().into(), 32, *prefix_bits)
                    }
                    (IpAddr::V6(b), IpAddr::V6(p)) => {
                        same_head(b.to_bits(), p.to_bits(), 128, *prefix_bits)
                    }
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

fn same_head(a: u128, b: u128, bits: u8, prefix_bits: u8) -> bool {
    let tail_bits = u32::from(bits.saturating_sub(prefix_bits));
    (a ^ b).checked_shr(tail_bits).unwrap_or(0) == 0
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        if text == "unix" {
            return Ok(Self::Unix);
        }
        let (base, prefix) = match text.split_once('/') {
            Some((base, prefix)) => (base, Some(prefix)),
            None => (text, None),
        };
        let base: IpAddr = base.parse().map_err(|_| NetworkError)?;
        let bits = if base.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| NetworkError)?,
            None => bits,
        };
        if prefix_bits > bits {
            return Err(NetworkError);
        }
        Ok(Self::Ip { base, prefix_bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip { base, prefix_bits } => write!(f, "{base}/{prefix_bits}"),
            Self::Unix => f.write_str("unix"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(network: &str, peer: &str) -> bool {
        network
            .parse::<Network>()
            .unwrap()
            .contains(Some(peer.parse().unwrap()))
    }

    #[test]
    fn prefixes_cut_where_they_say() {
        assert!(holds("10.0.0.0/8", "10.255.0.1"));
        assert!(!holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("0.0.0.0/0", "192.0.2.1"));
        assert!(holds("192.0.2.1", "192.0.2.1"));
        assert!(!holds("192.0.2.1", "192.0.2.2"));
        assert!(holds("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(!holds("2001:db8::/32", "2001:db9::1"));
        assert!(holds("127.0.0.0/8", "::ffff:127.0.0.1"));
        assert!(!holds("::/0", "192.0.2.1"));
    }

    #[test]
    fn a_prefix_too_long_is_refused() {
        assert!("10.0.0.0/33".parse::<Network>().is_err());
        assert!("::/129".parse::<Network>().is_err());
        assert!("10.0.0/8".parse::<Network>().is_err());
    }
}
