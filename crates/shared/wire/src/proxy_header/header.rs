//! Content of a PROXY header of either version: the addresses, the fields (TLVs) behind them, and
//! the reasons to refuse a header.

use std::net::{IpAddr, SocketAddr};

use crate::cursor::Cursor;

/// A parsed header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header<'a> {
    /// Format of the header.
    pub version: Version,
    pub command: Command,
    /// Addresses of the client's connection to the proxy.
    pub addresses: Addresses<'a>,
    /// Fields behind the addresses; none in version 1.
    pub tlvs: Tlvs<'a>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Version {
    V1,
    V2,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Command {
    /// Connection of the proxy itself, for example a health check: the real addresses count.
    Local,
    #[default]
    Proxy,
}

/// Addresses of both ends of the client's connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Addresses<'a> {
    /// Not given, or of a kind that is not read (datagrams): the real addresses count.
    #[default]
    Unknown,
    /// TCP. Both addresses are of one family; [`Addresses::tcp`] makes them so.
    Tcp { source: SocketAddr, destination: SocketAddr },
    /// Unix stream socket: names without the padding, an abstract one with its leading NUL, unnamed
    /// ones empty. At most 108 bytes.
    Unix { source: &'a [u8], destination: &'a [u8] },
}

impl Addresses<'_> {
    /// Makes both ends one family: if either is IPv6, IPv4 is mapped (`::ffff:192.0.2.1`).
    ///
    /// An IPv4 client of a socket bound to `[::]` is mapped on both ends and is written as IPv4.
    pub fn tcp(source: SocketAddr, destination: SocketAddr) -> Self {
        let plain =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let (source, destination) = one_family(plain(source), plain(destination));
        Self::Tcp { source, destination }
    }

    /// Returns the client's IP address and port, if given.
    pub fn source(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { source, .. } => Some(*source),
            _ => None,
        }
    }

    /// Returns the IP address and port that the client connected to, if given.
    pub fn destination(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { destination, .. } => Some(*destination),
            _ => None,
        }
    }
}

/// Returns both as IPv6 unless they are of one family already.
pub(super) fn one_family(a: SocketAddr, b: SocketAddr) -> (SocketAddr, SocketAddr) {
    if a.is_ipv4() == b.is_ipv4() { (a, b) } else { (mapped(a), mapped(b)) }
}

fn mapped(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(v4) => IpAddr::V6(v4.to_ipv6_mapped()),
        v6 => v6,
    };
    SocketAddr::new(ip, address.port())
}

/// Registered types of fields.
pub mod kind {
    /// Application protocol, as in RFC 7301.
    pub const ALPN: u8 = 0x01;
    /// Host name that the client asked for.
    pub const AUTHORITY: u8 = 0x02;
    /// Checksum of the whole header.
    pub const CRC32C: u8 = 0x03;
    pub const NOOP: u8 = 0x04;
    /// Opaque identifier of the connection, up to 128 bytes.
    pub const UNIQUE_ID: u8 = 0x05;
    /// Facts about the client's TLS; holds the `SSL_` fields.
    pub const SSL: u8 = 0x20;
    /// Inside `SSL`: the TLS version, `TLSv1.3`.
    pub const SSL_VERSION: u8 = 0x21;
    /// Inside `SSL`: the common name of the client certificate's subject.
    pub const SSL_CN: u8 = 0x22;
    /// Inside `SSL`: the cipher suite.
    pub const SSL_CIPHER: u8 = 0x23;
    /// Inside `SSL`: the algorithm that signed our certificate, `RSA-SHA256`.
    pub const SSL_SIG_ALG: u8 = 0x24;
    /// Inside `SSL`: our certificate's kind of key, `RSA2048`.
    pub const SSL_KEY_ALG: u8 = 0x25;
    /// Inside `SSL`: the key exchange group, `secp256r1`.
    pub const SSL_GROUP: u8 = 0x26;
    /// Inside `SSL`: the scheme of the handshake signature, `rsa_pss_rsae_sha256`.
    pub const SSL_SIG_SCHEME: u8 = 0x27;
    pub const NETNS: u8 = 0x30;
    /// First of sixteen types for private use; hitch puts the client certificate here.
    pub const CUSTOM_FIRST: u8 = 0xe0;
    /// Field of our own: the connection begins with TLS early data (RFC 8446 section 2.3), which
    /// may be a replay. Four bytes, big-endian: the most bytes of the stream that are early data.
    pub const EARLY_DATA: u8 = 0xe1;
    /// Field of our own: the JA4 fingerprint of the client's hello, as text.
    pub const JA4: u8 = 0xe2;
}

/// Most bytes of a unique id (section 2.2.5).
pub(super) const UNIQUE_ID_BYTES_MAX: usize = 128;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tlv<'a> {
    pub kind: u8,
    pub value: &'a [u8],
}

/// Fields in their received order; their form was checked when the header was read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tlvs<'a>(&'a [u8]);

impl<'a> Tlvs<'a> {
    /// Checks that the fields fill these bytes exactly and that each known one is well-formed.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, ProxyFault> {
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            next(&mut cursor).ok_or(ProxyFault::TlvCut)?.check()?;
        }
        Ok(Self(bytes))
    }

    pub fn iter(&self) -> impl Iterator<Item = Tlv<'a>> + use<'a> {
        let mut cursor = Cursor::new(self.0);
        std::iter::from_fn(move || next(&mut cursor))
    }

    /// Returns the content of the first field of that type.
    pub fn find(&self, kind: u8) -> Option<&'a [u8]> {
        self.iter().find(|tlv| tlv.kind == kind).map(|tlv| tlv.value)
    }

    /// Returns the checksum and how many bytes of fields follow it; two checksums are a fault,
    /// because each would have to be computed with the other in place.
    pub(super) fn checksum(&self) -> Result<Option<(u32, usize)>, ProxyFault> {
        let mut found = None;
        let mut cursor = Cursor::new(self.0);
        while let Some(tlv) = next(&mut cursor) {
            if let (kind::CRC32C, Ok(value)) = (tlv.kind, tlv.value.try_into()) {
                let here = (u32::from_be_bytes(value), cursor.rest().len());
                if found.replace(here).is_some() {
                    return Err(ProxyFault::Tlv(kind::CRC32C));
                }
            }
        }
        Ok(found)
    }

    /// Returns the host name that the client asked for.
    pub fn authority(&self) -> Option<&'a str> {
        std::str::from_utf8(self.find(kind::AUTHORITY)?).ok()
    }

    pub fn ssl(&self) -> Option<Ssl<'a>> {
        Ssl::read(self.find(kind::SSL)?).ok()
    }
}

impl Tlv<'_> {
    fn check(self) -> Result<(), ProxyFault> {
        let bytes = self.value.len();
        let valid = match self.kind {
            kind::CRC32C => bytes == 4,
            kind::UNIQUE_ID => bytes <= UNIQUE_ID_BYTES_MAX,
            kind::SSL => return Ssl::read(self.value).map(drop),
            _ => true,
        };
        if valid { Ok(()) } else { Err(ProxyFault::Tlv(self.kind)) }
    }
}

fn next<'a>(cursor: &mut Cursor<'a>) -> Option<Tlv<'a>> {
    let kind = cursor.u8()?;
    let value = cursor.vector16()?.rest();
    Some(Tlv { kind, value })
}

/// Facts about the client's TLS (section 2.2.6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ssl<'a> {
    flags: u8,
    /// Zero if the client's certificate was verified, else an error number or any other value.
    pub verify: u32,
    /// Fields of version, names and algorithms.
    pub fields: Tlvs<'a>,
}

impl<'a> Ssl<'a> {
    pub(super) const TLS: u8 = 1;
    pub(super) const CERTIFICATE_ON_CONNECTION: u8 = 2;
    pub(super) const CERTIFICATE_IN_SESSION: u8 = 4;

    fn read(value: &'a [u8]) -> Result<Self, ProxyFault> {
        let mut cursor = Cursor::new(value);
        let head = cursor.u8().zip(cursor.u32());
        let (flags, verify) = head.ok_or(ProxyFault::Tlv(kind::SSL))?;
        let mut fields = cursor;
        while !fields.is_empty() {
            next(&mut fields).ok_or(ProxyFault::Tlv(kind::SSL))?;
        }
        Ok(Self { flags, verify, fields: Tlvs(cursor.rest()) })
    }

    /// Reports whether the client uses TLS.
    pub fn is_tls(&self) -> bool {
        self.flags & Self::TLS != 0
    }

    /// Reports whether the client sent a certificate in this connection's handshake.
    pub fn has_certificate_on_connection(&self) -> bool {
        self.flags & Self::CERTIFICATE_ON_CONNECTION != 0
    }

    /// Reports whether the client sent a certificate in this handshake or in the resumed one.
    pub fn has_certificate_in_session(&self) -> bool {
        self.flags & Self::CERTIFICATE_IN_SESSION != 0
    }

    /// Returns the field of that type as text.
    pub fn text(&self, kind: u8) -> Option<&'a str> {
        std::str::from_utf8(self.fields.find(kind)?).ok()
    }
}

/// Fault of the sending proxy, or of a peer that is not a proxy.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ProxyFault {
    /// Bytes with neither signature: a client connected where a proxy must.
    #[error("no PROXY header begins so")]
    NotProxy,
    /// Line of version 1 that breaks the grammar.
    #[error("a version 1 line with a wrong {0}")]
    Line(&'static str),
    /// Line without an end within 107 bytes.
    #[error("a version 1 line longer than 107 bytes")]
    LineTooLong,
    /// Signature of version 2 with another version after it.
    #[error("version {0} of the binary header")]
    Version(u8),
    #[error("command {0}")]
    Command(u8),
    /// Address family or transport that version 2 does not have.
    #[error("address family and transport {0:#04x}")]
    Family(u8),
    /// Length that is less than the family's addresses need.
    #[error("{0} bytes are too few for the addresses")]
    AddressesCut(u16),
    /// Length that is more than we read.
    #[error("a header of {0} bytes")]
    TooLarge(usize),
    /// Field that does not parse, by its type.
    #[error("field {0:#04x} does not parse")]
    Tlv(u8),
    /// Last field that is cut short.
    #[error("the last field is cut short")]
    TlvCut,
    /// Wrong CRC-32C.
    #[error("the checksum is wrong")]
    Checksum,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(source: &str, destination: &str) -> (String, String) {
        let addresses = Addresses::tcp(source.parse().unwrap(), destination.parse().unwrap());
        (addresses.source().unwrap().to_string(), addresses.destination().unwrap().to_string())
    }

    #[test]
    fn families_are_made_one() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(tcp("1.2.3.4:5", "6.7.8.9:10"), pair("1.2.3.4:5", "6.7.8.9:10"));
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
