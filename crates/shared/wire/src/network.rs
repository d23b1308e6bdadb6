//! Sets of addresses in CIDR notation (RFC 4632): one network, and many for one look-up.

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

/// The address that these 4 or 16 bytes are, as certificates have them (RFC 5280 section 4.2.1.6).
pub fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

impl Network {
    /// Whether that peer is in the network; `None` is a peer on a Unix socket.
    ///
    /// An IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) counts as the IPv4 address it carries,
    /// since a socket bound to `[::]` reports IPv4 clients so.
    pub fn contains(&self, peer: Option<IpAddr>) -> bool {
        match (self.range(), peer.map(|peer| peer.to_canonical())) {
            (Range::Unix, None) => true,
            (Range::V4(first, last), Some(IpAddr::V4(peer))) => {
                (first..=last).contains(&peer.to_bits())
            }
            (Range::V6(first, last), Some(IpAddr::V6(peer))) => {
                (first..=last).contains(&peer.to_bits())
            }
            _ => false,
        }
    }

    fn range(&self) -> Range {
        let Self::Ip { base, prefix_bits } = self else {
            return Range::Unix;
        };
        // The address that an IPv4-mapped one carries stands in its last 32 bits.
        let width = if base.is_ipv4() { 32 } else { 128 };
        let tail_bits = width - u32::from(*prefix_bits).min(width);
        let tail = u128::MAX.checked_shr(128 - tail_bits).unwrap_or(0);
        match base.to_canonical() {
            IpAddr::V4(base) => {
                let tail = u32::try_from(tail).unwrap_or(u32::MAX);
                Range::V4(base.to_bits() & !tail, base.to_bits() | tail)
            }
            IpAddr::V6(base) => Range::V6(base.to_bits() & !tail, base.to_bits() | tail),
        }
    }
}

/// The first and the last address of a network.
enum Range {
    V4(u32, u32),
    V6(u128, u128),
    Unix,
}

/// Any number of networks. A look-up takes as many steps as their number has binary digits.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NetworkSet {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    has_unix: bool,
}

/// First and last values, ascending and apart from each other.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Ranges<T>(Vec<(T, T)>);

impl<T: Copy + Ord> Ranges<T> {
    fn contains(&self, value: T) -> bool {
        let behind = self.0.partition_point(|(first, _)| *first <= value);
        let before = behind.checked_sub(1).and_then(|at| self.0.get(at));
        before.is_some_and(|(_, last)| value <= *last)
    }

    /// Puts them in order and makes one of those that overlap.
    fn merge(&mut self) {
        self.0.sort_unstable();
        self.0.dedup_by(|next, kept| {
            let overlaps = next.0 <= kept.1;
            if overlaps {
                kept.1 = kept.1.max(next.1);
            }
            overlaps
        });
        self.0.shrink_to_fit();
    }
}

impl NetworkSet {
    pub const EMPTY: Self =
        Self { v4: Ranges(Vec::new()), v6: Ranges(Vec::new()), has_unix: false };

    /// Whether no peer is in it.
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// Whether that peer is in one of the networks, as [`Network::contains`] decides.
    pub fn contains(&self, peer: Option<IpAddr>) -> bool {
        match peer.map(|peer| peer.to_canonical()) {
            None => self.has_unix,
            Some(IpAddr::V4(peer)) => self.v4.contains(peer.to_bits()),
            Some(IpAddr::V6(peer)) => self.v6.contains(peer.to_bits()),
        }
    }
}

impl FromIterator<Network> for NetworkSet {
    fn from_iter<T: IntoIterator<Item = Network>>(networks: T) -> Self {
        let mut set = Self::EMPTY;
        for network in networks {
            match network.range() {
                Range::V4(first, last) => set.v4.0.push((first, last)),
                Range::V6(first, last) => set.v6.0.push((first, last)),
                Range::Unix => set.has_unix = true,
            }
        }
        set.v4.merge();
        set.v6.merge();
        set
    }
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
        network.parse::<Network>().unwrap().contains(Some(peer.parse().unwrap()))
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
        assert!(holds("10.1.2.3/8", "10.0.0.1"));
        assert!(holds("::ffff:10.0.0.0/104", "10.255.0.1"));
        assert!(!holds("::ffff:10.0.0.0/104", "11.0.0.1"));
        assert!(holds("::/0", "2001:db8::1"));
    }

    /// Against every network of the set, at the edges of each and between them.
    #[test]
    fn a_set_holds_what_its_networks_hold() {
        let mut seed = 1_u64;
        let mut chance = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for count in [0, 1, 2, 30] {
            let networks: Vec<Network> = (0..count)
                .map(|_| {
                    let text = if chance(2) == 0 {
                        format!("10.0.{}.{}/{}", chance(2), chance(256), 20 + chance(13))
                    } else {
                        format!("fd00::{:x}/{}", chance(512), 118 + chance(11))
                    };
                    text.parse().unwrap()
                })
                .collect();
            let set: NetworkSet = networks.iter().copied().collect();
            let v4 = (0..2048_u32).map(|low| IpAddr::V4((0x0a00_0000 + low - 512).into()));
            let v6 = (0..2048_u128).map(|low| IpAddr::V6(((0xfd << 120) + low).into()));
            for address in v4.chain(v6) {
                let is_held = networks.iter().any(|one| one.contains(Some(address)));
                assert_eq!(set.contains(Some(address)), is_held, "{address} {networks:?}");
            }
            assert!(!set.contains(None));
        }
        let unix: NetworkSet = ["unix".parse().unwrap()].into_iter().collect();
        assert!(unix.contains(None) && !unix.is_empty());
    }

    #[test]
    fn a_prefix_too_long_is_refused() {
        assert!("10.0.0.0/33".parse::<Network>().is_err());
        assert!("::/129".parse::<Network>().is_err());
        assert!("10.0.0/8".parse::<Network>().is_err());
    }
}
