//! Addresses at which something listens or is dialled, as text and as a value.
//!
//! Owns the grammar of addresses; opens nothing and resolves no names.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;
use std::str::FromStr;

/// A place that can be bound or dialled without asking anybody.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Address {
    /// `192.0.2.1:443`, `[2001:db8::1]:443`, `*:443` (all of IPv6 and IPv4).
    Ip(SocketAddr),
    /// `unix:/run/app.sock`, or `unix:@name` in the abstract namespace.
    Unix(UnixName),
    /// `fd:web`: a listening socket that is handed over by this name at start. Nothing to dial.
    Inherited(String),
}

impl Address {
    /// Whether it is all of IPv6.
    pub fn is_any_v6(&self) -> bool {
        matches!(self, Self::Ip(SocketAddr::V6(address)) if address.ip().is_unspecified())
    }

    /// Whether the kernel chooses its port, so that each time it is another one.
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

/// A place to dial, which may first have to be resolved.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Endpoint {
    Address(Address),
    Name {
        host: String,
        port: u16,
    },
    /// `srv:_http._tcp.example`: one of the servers that SRV records (RFC 2782) name.
    Service {
        /// The name that has the records.
        host: String,
        /// The number among them, from 1 on.
        number: u16,
        count: u16,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AddressError {
    /// No `:port` at the end, and not `unix:`.
    #[error("has no port (write HOST:PORT, [V6]:PORT or unix:PATH)")]
    PortMissing,
    /// A port, and nothing before it, or hitch's `[*]`.
    #[error("has no host (write HOST:PORT, or *:PORT to listen at all addresses of this host)")]
    HostMissing,
    /// It begins as a URL does.
    #[error("is a URL (write HOST:PORT, [V6]:PORT or unix:PATH, without a scheme)")]
    SchemeGiven,
    /// The port is no number from 1 to 65535.
    #[error("has a port that is no number from 0 to 65535")]
    PortInvalid,
    /// The host part holds characters that no host name has.
    #[error("has no valid host name or IP address")]
    HostInvalid,
    /// An address was wanted, a name was given.
    #[error("is a name where an IP address is wanted")]
    NameNotAllowed,
    #[error("is no name of a socket that is handed over (1 to 255 printable characters, no colon)")]
    InheritedName,
    /// Each network of the host has addresses of these; which one is meant (RFC 4007)?
    #[error("is link-local and has no zone (write [fe80::1%eth0]:PORT, with the interface's name)")]
    ZoneMissing,
    /// Only link-local addresses have one.
    #[error("has a zone (%), which only addresses of fe80::/10 have")]
    ZoneNeedless,
    /// No interface has that name.
    #[error("has a zone (%) that is no network interface of this host (`ip link` lists them)")]
    ZoneUnknown,
    /// A Unix socket's name is empty or longer than 107 bytes.
    #[error("is a Unix socket name that is empty or longer than 107 bytes")]
    UnixNameLength,
}

/// The kernel's `sun_path` holds 108 bytes, one of them the leading or closing NUL.
pub const UNIX_NAME_BYTES_MAX: usize = 107;

const INHERITED_NAME_BYTES_MAX: usize = 255;

impl Endpoint {
    /// The TCP port; `None` for a Unix socket, and where records say it.
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

/// A host and port as others may see them: without a zone, which has no meaning on other hosts
/// (RFC 6874 section 4).
pub fn without_zone(text: &str) -> String {
    match (text.split_once('%'), text.rsplit_once(']')) {
        (Some((host, _)), Some((_, port))) => format!("{host}]{port}"),
        _ => text.to_owned(),
    }
}

/// RFC 1123 names, and the underscore that service names use.
fn is_host_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    !text.is_empty() && text.len() <= 253 && text.bytes().all(allowed)
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
}
