//! The content of a PROXY header, whichever version carried it: who connected, and the fields
//! (TLVs) behind that; and the reasons to refuse a header.

use std::net::{IpAddr, SocketAddr};

use crate::cursor::Cursor;

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
    Tcp { source: SocketAddr, destination: SocketAddr },
    /// A Unix stream socket: names without the padding, an abstract one with its leading NUL,
    /// unnamed ones empty. At most 108 bytes.
    Unix { source: &'a [u8], destination: &'a [u8] },
}

impl Addresses<'_> {
    /// Both ends in one family: if either is IPv6, an IPv4 one is mapped (`::ffff:192.0.2.1`).
    ///
    /// An IPv4 client of a socket bound to `[::]` is mapped on both ends and is written as IPv4.
    pub fn tcp(source: SocketAddr, destination: SocketAddr) -> Self {
        let plain =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let (source, destination) = one_family(plain(source), plain(destination));
        Self::Tcp { source, destination }
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
    if a.is_ipv4() == b.is_ipv4() { (a, b) } else { (mapped(a), mapped(b)) }
}

fn mapped(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(v4) => IpAddr::V6(v4.to_ipv6_mapped()),
        v6 => v6,
    };
    SocketAddr::new(ip, address.port())
}

/// The registered types of fields.
pub mod kind {
    /// The application protocol, as in RFC 7301.
    pub const ALPN: u8 = 0x01;
    /// The host name that the client asked for.
    pub const AUTHORITY: u8 = 0x02;
    /// A checksum of the whole header.
    pub const CRC32C: u8 = 0x03;
    pub const NOOP: u8 = 0x04;
    /// Up to 128 opaque bytes that name the connection.
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
    /// The first of sixteen types for private use; hitch puts the client certificate here.
    pub const CUSTOM_FIRST: u8 = 0xe0;
    /// A kind of our own: the connection begins with TLS early data (RFC 8446 section 2.3), which
    /// may be a replay. Four bytes, big-endian: the most bytes of the stream that are early data.
    pub const EARLY_DATA: u8 = 0xe1;
    /// A kind of our own: the JA4 fingerprint of the client's hello, as text.
    pub const JA4: u8 = 0xe2;
}

/// The most bytes a unique id may have (section 2.2.5).
pub(super) const UNIQUE_ID_BYTES_MAX: usize = 128;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tlv<'a> {
    pub kind: u8,
    pub value: &'a [u8],
}

/// Fields in the order they came in; their form was checked when the header was read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tlvs<'a>(&'a [u8]);

impl<'a> Tlvs<'a> {
    /// Checks that the fields fill these bytes exactly and that each known one has its form.
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

    /// The bytes of the first field of that type.
    pub fn find(&self, kind: u8) -> Option<&'a [u8]> {
        self.iter().find(|tlv| tlv.kind == kind).map(|tlv| tlv.value)
    }

    /// The checksum and how many bytes of fields follow it; two of them are a fault, since each
    /// would have to be computed with the other in place.
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

    /// The host name that the client asked for.
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
    /// Zero if the client's certificate verified, else an error number or just not zero.
    pub verify: u32,
    /// The fields of version, names and algorithms.
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

    /// Whether the client speaks TLS.
    pub fn is_tls(&self) -> bool {
        self.flags & Self::TLS != 0
    }

    /// Whether the client sent a certificate in this connection's handshake.
    pub fn has_certificate_on_connection(&self) -> bool {
        self.flags & Self::CERTIFICATE_ON_CONNECTION != 0
    }

    /// Whether the client sent a certificate in this handshake or in the one it resumes.
    pub fn has_certificate_in_session(&self) -> bool {
        self.flags & Self::CERTIFICATE_IN_SESSION != 0
    }

    /// The field of that type as text.
    pub fn text(&self, kind: u8) -> Option<&'a str> {
        std::str::from_utf8(self.fields.find(kind)?).ok()
    }
}

/// A fault of the sending proxy, or of a peer that is not a proxy.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ProxyFault {
    /// Neither signature: a client spoke where a proxy must.
    #[error("no PROXY header begins so")]
    NotProxy,
    /// The line of version 1 breaks the grammar.
    #[error("a version 1 line with a wrong {0}")]
    Line(&'static str),
    /// No line end within 107 bytes.
    #[error("a version 1 line longer than 107 bytes")]
    LineTooLong,
    /// The signature of version 2, and another version after it.
    #[error("version {0} of the binary header")]
    Version(u8),
    #[error("command {0}")]
    Command(u8),
    /// An address family or transport that version 2 does not have.
    #[error("address family and transport {0:#04x}")]
    Family(u8),
    /// The length field is less than the family's addresses need.
    #[error("{0} bytes are too few for the addresses")]
    AddressesCut(u16),
    /// The length field is more than we read.
    #[error("a header of {0} bytes")]
    TooLarge(usize),
    /// The field of that type does not parse.
    #[error("field {0:#04x} does not parse")]
    Tlv(u8),
    /// The last field is cut short.
    #[error("the last field is cut short")]
    TlvCut,
    /// The CRC-32C is not that of the header.
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
