//! Addresses to listen on or to dial, as text and as a value; and sets of addresses in CIDR
//! notation (RFC 4632): one network, and many for one look-up.
//!
//! Handles the grammar of addresses; opens no socket and resolves no names.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;
use std::str::FromStr;

/// An address that can be bound or dialled without resolving a name.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Address {
    /// `192.0.2.1:443`, `[2001:db8::1]:443`, `*:443` (all of IPv6 and IPv4).
    Ip(SocketAddr),
    /// `unix:/run/app.sock`, or `unix:@name` in the abstract namespace.
    Unix(UnixName),
    /// `fd:web`: a listening socket handed over by this name at start. It cannot be dialled.
    Inherited(String),
}

impl Address {
    /// Reports whether the address is the wildcard of IPv6.
    pub fn is_any_v6(&self) -> bool {
        matches!(self, Self::Ip(SocketAddr::V6(address)) if address.ip().is_unspecified())
    }

    /// Reports whether the kernel chooses the port, so that it differs each time.
    pub fn is_ephemeral(&self) -> bool {
        matches!(self, Self::Ip(address) if address.port() == 0)
    }
}

/// The name of a Unix socket.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum UnixName {
    /// Linux's abstract namespace: the bytes after the leading NUL.
    Abstract(Vec<u8>),
    /// A path in the file system.
    Path(PathBuf),
}

/// A server to dial, whose name may have to be resolved first.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Endpoint {
    Address(Address),
    Name {
        host: String,
        port: u16,
    },
    /// `srv:_http._tcp.example`: one of the servers that SRV records (RFC 2782) name.
    Service {
        /// Name that has the records.
        host: String,
        /// Number among the records, from 1 on.
        number: u16,
        count: u16,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AddressError {
    /// Text without `:port` at the end that does not begin with `unix:` either.
    #[error("has no port (write HOST:PORT, [V6]:PORT or unix:PATH)")]
    PortMissing,
    /// A port, and nothing before it, or hitch's `[*]`.
    #[error("has no host (write HOST:PORT, or *:PORT to listen at all addresses of this host)")]
    HostMissing,
    /// Text that begins as a URL does.
    #[error("is a URL (write HOST:PORT, [V6]:PORT or unix:PATH, without a scheme)")]
    SchemeGiven,
    /// Port that is no number from 1 to 65535.
    #[error("has a port that is no number from 0 to 65535")]
    PortInvalid,
    /// The host part holds characters that no host name has.
    #[error("has no valid host name or IP address")]
    HostInvalid,
    /// Name where an address is required.
    #[error("is a name where an IP address is wanted")]
    NameNotAllowed,
    #[error("is no name of a socket that is handed over (1 to 255 printable characters, no colon)")]
    InheritedName,
    /// Link-local address, which is ambiguous because each network of the host has them (RFC 4007).
    #[error("is link-local and has no zone (write [fe80::1%eth0]:PORT, with the interface's name)")]
    ZoneMissing,
    /// Zone of an address that is not link-local.
    #[error("has a zone (%), which only addresses of fe80::/10 have")]
    ZoneNeedless,
    /// Zone that is no interface's name.
    #[error("has a zone (%) that is no network interface of this host (`ip link` lists them)")]
    ZoneUnknown,
    /// Name of a Unix socket that is empty or longer than 107 bytes.
    #[error("is a Unix socket name that is empty or longer than 107 bytes")]
    UnixNameLength,
}

/// Longest name: the kernel's `sun_path` holds 108 bytes, one of them the leading or closing NUL.
pub const UNIX_NAME_BYTES_MAX: usize = 107;

const INHERITED_NAME_BYTES_MAX: usize = 255;

impl Endpoint {
    /// Returns the TCP port; `None` for a Unix socket, and if records name the port.
    pub fn tcp_port(&self) -> Option<u16> {
        match self {
            Self::Name { port, .. } => Some(*port),
            Self::Address(Address::Ip(address)) => Some(address.port()),
            Self::Address(Address::Unix(_) | Address::Inherited(_)) | Self::Service { .. } => None,
        }
    }
}

impl FromStr for Endpoint {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(name) = text.strip_prefix("unix:") {
            return Ok(Self::Address(Address::Unix(name.parse()?)));
        }
        if let Some(host) = text.strip_prefix("srv:") {
            let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
            let (number, count) = (1, 1);
            return is_host_name(&host)
                .then_some(Self::Service { host, number, count })
                .ok_or(AddressError::HostInvalid);
        }
        if text.contains("://") {
            return Err(AddressError::SchemeGiven);
        }
        if let Ok(address) = text.parse::<SocketAddrV6>() {
            return match (address.ip().is_unicast_link_local(), address.scope_id()) {
                (true, 0) => Err(AddressError::ZoneMissing),
                (false, 1..) => Err(AddressError::ZoneNeedless),
                _ => Ok(Self::Address(Address::Ip(address.into()))),
            };
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            let is_port = text.parse::<u16>().is_ok();
            return Err(if is_port {
                AddressError::HostMissing
            } else {
                AddressError::PortMissing
            });
        };
        if !host.starts_with('[') && host.contains(':') {
            return Err(AddressError::PortMissing);
        }
        let port = port.parse().map_err(|_| AddressError::PortInvalid)?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Self::Address(Address::Ip(SocketAddr::new(ip, port))));
        }
        if matches!(host, "" | "[*]") {
            return Err(AddressError::HostMissing);
        }
        if host == "*" {
            return Ok(Self::Address(Address::Ip(SocketAddr::from(([0u16; 8], port)))));
        }
        if host.starts_with('[') && host.contains('%') {
            return Err(AddressError::ZoneUnknown);
        }
        if !is_host_name(host) {
            return Err(AddressError::HostInvalid);
        }
        Ok(Self::Name { host: host.to_ascii_lowercase(), port })
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(name) = text.strip_prefix("fd:") {
            let is_name = |c: u8| (b' '..=b'~').contains(&c) && c != b':';
            let is_valid = (1..=INHERITED_NAME_BYTES_MAX).contains(&name.len());
            let name = Some(name).filter(|name| is_valid && name.bytes().all(is_name));
            let name = name.ok_or(AddressError::InheritedName)?;
            return Ok(Self::Inherited(name.to_owned()));
        }
        match text.parse()? {
            Endpoint::Address(address) => Ok(address),
            Endpoint::Name { host, port } if host == "localhost" => {
                Ok(Self::Ip(SocketAddr::from(([127, 0, 0, 1], port))))
            }
            Endpoint::Name { .. } | Endpoint::Service { .. } => Err(AddressError::NameNotAllowed),
        }
    }
}

impl FromStr for UnixName {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let name = text.strip_prefix('@');
        let length = name.unwrap_or(text).len();
        if length == 0 || length > UNIX_NAME_BYTES_MAX {
            return Err(AddressError::UnixNameLength);
        }
        Ok(match name {
            Some(name) => Self::Abstract(name.as_bytes().to_vec()),
            None => Self::Path(PathBuf::from(text)),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(name) => write!(f, "unix:{name}"),
            Self::Inherited(name) => write!(f, "fd:{name}"),
        }
    }
}

impl fmt::Display for UnixName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abstract(name) => write!(f, "@{}", String::from_utf8_lossy(name)),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
            Self::Service { host, number, .. } => write!(f, "srv:{host}#{number}"),
        }
    }
}

/// Returns a host and port for others to see: without a zone, which has no meaning on other hosts
/// (RFC 6874 section 4).
pub fn without_zone(text: &str) -> String {
    match (text.split_once('%'), text.rsplit_once(']')) {
        (Some((host, _)), Some((_, port))) => format!("{host}]{port}"),
        _ => text.to_owned(),
    }
}

/// Accepts names of RFC 1123, and the underscore that service names use.
fn is_host_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    !text.is_empty() && text.len() <= 253 && text.bytes().all(allowed)
}

/// `10.0.0.0/8`, `2001:db8::/32`, one bare address, or `unix` for every Unix socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Network {
    /// Addresses whose first bits equal these.
    Ip {
        /// First address of the network.
        base: IpAddr,
        /// Number of leading bits that count.
        prefix_bits: u8,
    },
    /// Clients that connect over a Unix socket.
    Unix,
}

/// The text is neither CIDR, an address, nor `unix`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("is no network (write 10.0.0.0/8, 2001:db8::/32, one IP address, or unix)")]
pub struct NetworkError;

/// Returns the address in these 4 or 16 bytes, as certificates hold it (RFC 5280 section 4.2.1.6).
pub fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

impl Network {
    /// Reports whether a peer is in the network; `None` is a peer on a Unix socket.
    ///
    /// An IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) counts as the IPv4 address it carries,
    /// because a socket bound to `[::]` reports IPv4 clients like that.
    pub fn contains(&self, peer: Option<IpAddr>) -> bool {
        match (self.range(), peer.map(|peer| peer.to_canonical())) {
            (AddressRange::Unix, None) => true,
            (AddressRange::V4(first, last), Some(IpAddr::V4(peer))) => {
                (first..=last).contains(&peer.to_bits())
            }
            (AddressRange::V6(first, last), Some(IpAddr::V6(peer))) => {
                (first..=last).contains(&peer.to_bits())
            }
            _ => false,
        }
    }

    fn range(&self) -> AddressRange {
        let Self::Ip { base, prefix_bits } = self else {
            return AddressRange::Unix;
        };
        // The IPv4 address of an IPv4-mapped one is its last 32 bits.
        let width = if base.is_ipv4() { 32 } else { 128 };
        let tail_bits = width - u32::from(*prefix_bits).min(width);
        let tail = u128::MAX.checked_shr(128 - tail_bits).unwrap_or(0);
        match base.to_canonical() {
            IpAddr::V4(base) => {
                let tail = u32::try_from(tail).unwrap_or(u32::MAX);
                AddressRange::V4(base.to_bits() & !tail, base.to_bits() | tail)
            }
            IpAddr::V6(base) => AddressRange::V6(base.to_bits() & !tail, base.to_bits() | tail),
        }
    }
}

/// First and last address of a network.
enum AddressRange {
    V4(u32, u32),
    V6(u128, u128),
    Unix,
}

/// A set of networks. A look-up takes as many steps as their number has binary digits.
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

    /// Sorts the ranges and joins those that overlap.
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

    /// Reports whether the set is empty.
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// Reports whether a peer is in one of the networks, as [`Network::contains`] decides.
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
                AddressRange::V4(first, last) => set.v4.0.push((first, last)),
                AddressRange::V6(first, last) => set.v6.0.push((first, last)),
                AddressRange::Unix => set.has_unix = true,
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

    #[test]
    fn what_is_shown_parses_to_the_same() {
        for text in [
            "192.0.2.1:443",
            "[2001:db8::1]:443",
            "[fe80::1%3]:443",
            "unix:/run/a.sock",
            "unix:@a",
            "a.b:1",
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), text);
        }
    }

    #[test]
    fn a_name_of_a_socket_is_no_place_to_dial() {
        for text in ["fd:web", "fd:80", "fd:lariat.socket"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
            assert!(!matches!(text.parse(), Ok(Endpoint::Address(_))));
        }
        for wrong in ["fd:", "fd:a:b", "fd:ä", &format!("fd:{}", "x".repeat(256))] {
            let fault = wrong.parse::<Address>().unwrap_err();
            assert_eq!(fault, AddressError::InheritedName, "{wrong}");
        }
    }

    #[test]
    fn each_fault_has_its_name() {
        let fault = |text: &str| text.parse::<Endpoint>().unwrap_err();
        assert_eq!(fault("localhost"), AddressError::PortMissing);
        for no_host in ["8443", ":8443", "[*]:8443"] {
            assert_eq!(fault(no_host), AddressError::HostMissing, "{no_host}");
        }
        assert_eq!(fault("2001:db8::1"), AddressError::PortMissing);
        assert_eq!(fault("http://127.0.0.1:80"), AddressError::SchemeGiven);
        assert_eq!(fault("a:70000"), AddressError::PortInvalid);
        assert_eq!(fault("a b:1"), AddressError::HostInvalid);
        assert_eq!(fault("[fe80::1]:80"), AddressError::ZoneMissing);
        assert_eq!(fault("[2001:db8::1%2]:80"), AddressError::ZoneNeedless);
        assert_eq!(fault("[fe80::1%eth0]:80"), AddressError::ZoneUnknown);
        assert_eq!(fault("[fe80::1%eth0:80"), AddressError::ZoneUnknown);
        assert_eq!(fault("unix:"), AddressError::UnixNameLength);
        assert_eq!(fault("srv:"), AddressError::HostInvalid);
        assert_eq!(fault("srv:_a._tcp.b:80"), AddressError::HostInvalid);
        assert_eq!("app:80".parse::<Address>(), Err(AddressError::NameNotAllowed));
    }

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

    /// Compares with every network of the set, at the limits of each and between them.
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
