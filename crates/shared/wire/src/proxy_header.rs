//! The PROXY protocol, version 1 (a line of text) and 2 (binary; HAProxy's
//! `doc/proxy-protocol.txt`): names the client of a proxied connection before its first byte.
//!
//! Handles reading and writing of the header; whether a peer may send one at all is the caller's
//! decision. "Source" is the client, "destination" the address it connected to.

mod header;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::cursor::Cursor;
use header::one_family;
pub use header::{Addresses, Command, Header, ProxyFault, Ssl, Tlv, Tlvs, Version, kind};

/// A header, and the bytes of input it took.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Parsed<'a> {
    pub header: Header<'a>,
    /// Length of the header; a pass-through sends these bytes on as they are.
    pub wire_bytes: usize,
}

/// Reads a header; `None` while it is incomplete.
///
/// The answer depends on the bytes alone, not on how they were cut: a fault that a prefix shows is
/// the fault of the whole.
///
/// # Errors
/// Returns the [`ProxyFault`] as early as the bytes show it.
pub fn read(bytes: &[u8]) -> Result<Option<Parsed<'_>>, ProxyFault> {
    let read = match bytes.first() {
        None => return Ok(None),
        Some(b'P') => read_v1(bytes)?,
        Some(_) => read_v2(bytes)?,
    };
    Ok(read.map(|(header, wire_bytes)| Parsed { header, wire_bytes }))
}

/// Whether bytes begin a PROXY header, valid or not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HeaderGuess {
    No,
    /// More bytes are needed to decide.
    Perhaps,
    /// Certainly: no TLS client, and no other protocol we front, begins like that.
    Yes,
}

/// Recognizes a PROXY header by its signature, for connections that must not send one.
///
/// Undecided for at most 11 bytes, and never for TLS, which begins neither with `P` nor with CR.
pub fn likeness(bytes: &[u8]) -> HeaderGuess {
    let of = |signature: &[u8]| {
        if bytes.starts_with(signature) {
            HeaderGuess::Yes
        } else if signature.starts_with(bytes) {
            HeaderGuess::Perhaps
        } else {
            HeaderGuess::No
        }
    };
    match of(SIGNATURE_V1) {
        HeaderGuess::No => of(&SIGNATURE_V2),
        likeness => likeness,
    }
}

/// Longest line a sender may make, CRLF included.
pub const LINE_BYTES_MAX: usize = 107;

const SIGNATURE_V1: &[u8] = b"PROXY ";

const PROTOCOLS: [&[u8]; 3] = [b"TCP4 ", b"TCP6 ", b"UNKNOWN"];

/// Reads the header and its length; `None` while the line is incomplete.
fn read_v1(bytes: &[u8]) -> Result<Option<(Header<'_>, usize)>, ProxyFault> {
    let (head, tail) = bytes.split_at_checked(SIGNATURE_V1.len()).unwrap_or((bytes, &[]));
    if !SIGNATURE_V1.starts_with(head) {
        return Err(ProxyFault::NotProxy);
    }
    let begins = |p: &&[u8]| p.starts_with(tail) || tail.starts_with(p);
    if !PROTOCOLS.iter().any(begins) {
        return Err(ProxyFault::Line("protocol"));
    }
    let Some(line_bytes) = line_end(bytes)? else {
        return Ok(None);
    };
    let line = bytes.get(SIGNATURE_V1.len()..line_bytes).unwrap_or(&[]);
    let line = std::str::from_utf8(line).map_err(|_| ProxyFault::Line("character"))?;
    let header = Header {
        version: Version::V1,
        command: Command::Proxy,
        addresses: addresses(line)?,
        tlvs: Tlvs::default(),
    };
    Ok(Some((header, line_bytes + 2)))
}

/// Returns the position of the CRLF. Neither half of it counts alone.
fn line_end(bytes: &[u8]) -> Result<Option<usize>, ProxyFault> {
    let line = bytes.get(..LINE_BYTES_MAX).unwrap_or(bytes);
    match line.iter().position(|b| matches!(b, b'\r' | b'\n')) {
        None if line.len() < LINE_BYTES_MAX => Ok(None),
        None => Err(ProxyFault::LineTooLong),
        Some(at) => match line.get(at..).unwrap_or(&[]) {
            [b'\r', b'\n', ..] => Ok(Some(at)),
            [b'\r'] if line.len() < LINE_BYTES_MAX => Ok(None),
            [b'\r'] => Err(ProxyFault::LineTooLong),
            _ => Err(ProxyFault::Line("line end")),
        },
    }
}

fn addresses(line: &str) -> Result<Addresses<'static>, ProxyFault> {
    if let Some(rest) = line.strip_prefix("TCP4 ") {
        return tcp::<Ipv4Addr>(rest);
    }
    if let Some(rest) = line.strip_prefix("TCP6 ") {
        return tcp::<Ipv6Addr>(rest);
    }
    match line.strip_prefix("UNKNOWN") {
        Some(rest) if rest.is_empty() || rest.starts_with(' ') => Ok(Addresses::Unknown),
        _ => Err(ProxyFault::Line("protocol")),
    }
}

fn tcp<I: FromStr + Into<IpAddr>>(fields: &str) -> Result<Addresses<'static>, ProxyFault> {
    let mut fields = fields.split(' ');
    let mut next = || fields.next().ok_or(ProxyFault::Line("number of fields"));
    let (source, destination) = (ip::<I>(next()?)?, ip::<I>(next()?)?);
    let (source_port, destination_port) = (port(next()?)?, port(next()?)?);
    if fields.next().is_some() {
        return Err(ProxyFault::Line("number of fields"));
    }
    Ok(Addresses::Tcp {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    })
}

fn ip<I: FromStr + Into<IpAddr>>(text: &str) -> Result<IpAddr, ProxyFault> {
    let address: Result<I, _> = text.parse();
    address.map(Into::into).map_err(|_| ProxyFault::Line("address"))
}

/// Parses digits without a leading zero, which `parse` alone would accept.
fn port(text: &str) -> Result<u16, ProxyFault> {
    let strict =
        text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    match text.parse() {
        Ok(port) if strict => Ok(port),
        _ => Err(ProxyFault::Line("port")),
    }
}

/// Appends the line for these addresses; version 1 calls all but TCP `UNKNOWN`.
pub fn write_v1(addresses: &Addresses<'_>, out: &mut Vec<u8>) {
    let written = match addresses {
        Addresses::Tcp { source, destination } => {
            let (source, destination) = one_family(*source, *destination);
            let protocol = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from, to) = (AddressText(source.ip()), AddressText(destination.ip()));
            let ports = (source.port(), destination.port());
            write!(out, "PROXY {protocol} {from} {to} {} {}\r\n", ports.0, ports.1)
        }
        _ => out.write_all(b"PROXY UNKNOWN\r\n"),
    };
    written.expect("a Vec takes what is written to it");
}

/// Canonical text of an address; a mapped one in hexadecimal too, as the grammar demands.
struct AddressText(IpAddr);

impl std::fmt::Display for AddressText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
                let [.., high, low] = v6.segments();
                write!(f, "::ffff:{high:x}:{low:x}")
            }
            ip => ip.fmt(f),
        }
    }
}

/// Largest header accepted, in bytes.
///
/// The format allows 64 KiB and haproxy reads what fits its buffer, 16 KiB. The client certificate
/// makes headers large: 1 to 3 KiB today, 10 KiB in PEM with an ML-DSA-87 key.
pub const HEADER_BYTES_MAX: usize = 1 << 14;

const SIGNATURE_V2: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

const HEAD_BYTES: usize = 16;
const UNIX_NAME_BYTES: usize = 108;
const VERSION_2: u8 = 0x20;

/// Reads the header and its length; `None` while it is incomplete.
fn read_v2(bytes: &[u8]) -> Result<Option<(Header<'_>, usize)>, ProxyFault> {
    let signature = bytes.get(..SIGNATURE_V2.len()).unwrap_or(bytes);
    if !SIGNATURE_V2.starts_with(signature) {
        return Err(ProxyFault::NotProxy);
    }
    let mut head = Cursor::new(bytes.get(SIGNATURE_V2.len()..).unwrap_or(&[]));
    let Some(command) = head.u8().map(command).transpose()? else {
        return Ok(None);
    };
    let Some(family) = head.u8().map(|byte| Family::of(command, byte)).transpose()? else {
        return Ok(None);
    };
    let Some(length) = head.u16() else {
        return Ok(None);
    };
    family.check_length(length)?;
    let wire_bytes = HEAD_BYTES + usize::from(length);
    let Some(whole) = bytes.get(..wire_bytes) else {
        return Ok(None);
    };
    let body = Cursor::new(whole.get(HEAD_BYTES..).unwrap_or(&[]));
    let (addresses, tlvs) = family.body(body, length)?;
    check_checksum(whole, &tlvs)?;
    let header = Header { version: Version::V2, command, addresses, tlvs };
    Ok(Some((header, wire_bytes)))
}

fn command(byte: u8) -> Result<Command, ProxyFault> {
    match (byte & 0xf0, byte & 0x0f) {
        (VERSION_2, 0) => Ok(Command::Local),
        (VERSION_2, 1) => Ok(Command::Proxy),
        (VERSION_2, other) => Err(ProxyFault::Command(other)),
        (version, _) => Err(ProxyFault::Version(version >> 4)),
    }
}

/// Layout of the addresses on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Family {
    /// Ignored addresses of unknown length: LOCAL, or an unspecified family.
    Ignored,
    /// Valid addresses that are of no use to us: an unspecified transport, or datagrams.
    Skipped {
        bytes: u16,
    },
    Inet,
    Inet6,
    Unix,
}

impl Family {
    fn of(command: Command, byte: u8) -> Result<Self, ProxyFault> {
        if command == Command::Local {
            return Ok(Self::Ignored);
        }
        match (byte >> 4, byte & 0x0f) {
            (0, 0..=2) => Ok(Self::Ignored),
            (1, 1) => Ok(Self::Inet),
            (2, 1) => Ok(Self::Inet6),
            (3, 1) => Ok(Self::Unix),
            (1, 0 | 2) => Ok(Self::Skipped { bytes: 12 }),
            (2, 0 | 2) => Ok(Self::Skipped { bytes: 36 }),
            (3, 0 | 2) => Ok(Self::Skipped { bytes: 216 }),
            _ => Err(ProxyFault::Family(byte)),
        }
    }

    fn check_length(self, length: u16) -> Result<(), ProxyFault> {
        let addresses = match self {
            Self::Ignored => 0,
            Self::Inet => 12,
            Self::Inet6 => 36,
            Self::Unix => 216,
            Self::Skipped { bytes } => bytes,
        };
        let whole = HEAD_BYTES + usize::from(length);
        if length < addresses {
            return Err(ProxyFault::AddressesCut(length));
        }
        if whole <= HEADER_BYTES_MAX { Ok(()) } else { Err(ProxyFault::TooLarge(whole)) }
    }

    /// Reads the addresses and the fields behind them.
    ///
    /// The end of ignored addresses is unknown: the bytes count as fields if they parse as such
    /// (haproxy sends fields like that), and are dropped otherwise.
    fn body<'a>(
        self,
        mut body: Cursor<'a>,
        length: u16,
    ) -> Result<(Addresses<'a>, Tlvs<'a>), ProxyFault> {
        let cut = ProxyFault::AddressesCut(length);
        let addresses = match self {
            Self::Ignored => {
                let tlvs = Tlvs::read(body.rest()).unwrap_or_default();
                return Ok((Addresses::Unknown, tlvs));
            }
            Self::Skipped { bytes } => body.take(bytes.into()).map(|_| Addresses::Unknown),
            Self::Inet => inet::<4, Ipv4Addr>(&mut body),
            Self::Inet6 => inet::<16, Ipv6Addr>(&mut body),
            Self::Unix => unix(&mut body),
        };
        Ok((addresses.ok_or(cut)?, Tlvs::read(body.rest())?))
    }
}

fn inet<const N: usize, I>(body: &mut Cursor<'_>) -> Option<Addresses<'static>>
where
    I: From<[u8; N]> + Into<IpAddr>,
{
    let (source, destination) = (body.array().map(I::from)?, body.array().map(I::from)?);
    Some(Addresses::Tcp {
        source: SocketAddr::new(source.into(), body.u16()?),
        destination: SocketAddr::new(destination.into(), body.u16()?),
    })
}

fn unix<'a>(body: &mut Cursor<'a>) -> Option<Addresses<'a>> {
    Some(Addresses::Unix {
        source: without_padding(body.take(UNIX_NAME_BYTES)?),
        destination: without_padding(body.take(UNIX_NAME_BYTES)?),
    })
}

fn without_padding(name: &[u8]) -> &[u8] {
    let used = name.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
    name.get(..used).unwrap_or(name)
}

/// Verifies the checksum (section 2.2.3), computed over the header with its own bytes as zero.
fn check_checksum(whole: &[u8], tlvs: &Tlvs<'_>) -> Result<(), ProxyFault> {
    let Some((expected, bytes_after)) = tlvs.checksum()? else {
        return Ok(());
    };
    let after_at = whole.len().saturating_sub(bytes_after);
    let (before, after) = whole.split_at_checked(after_at).unwrap_or((whole, &[]));
    let before = before.split_last_chunk::<4>().map_or(before, |(before, _)| before);
    let crc = crc32c::crc32c_append(crc32c::crc32c(before), &[0; 4]);
    if crc32c::crc32c_append(crc, after) == expected { Ok(()) } else { Err(ProxyFault::Checksum) }
}

/// A version 2 header to be written. Fields that are `None` or empty are left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeaderV2<'a> {
    /// Purpose of the connection. A LOCAL header is written without addresses.
    pub command: Command,
    /// Addresses of both ends of the client's connection.
    pub addresses: Addresses<'a>,
    /// Application protocol chosen with the client.
    pub alpn: Option<&'a [u8]>,
    /// Host name that the client asked for.
    pub authority: Option<&'a str>,
    /// Identifier of the connection, at most 128 bytes; more are not sent.
    pub unique_id: Option<&'a [u8]>,
    pub tls: Option<ClientTls<'a>>,
    /// Client certificate for hitch's field 0xe0, in the form that its receiver expects (hitch
    /// sends PEM).
    pub client_certificate: Option<&'a [u8]>,
    /// Other fields: type and value.
    pub others: &'a [(u8, &'a [u8])],
    /// Whether to add a checksum.
    pub checksum: bool,
}

/// The client's TLS for the field `PP2_TYPE_SSL` (section 2.2.6).
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientTls<'a> {
    pub version: &'a str,
    /// Cipher suite by OpenSSL's name, as haproxy and hitch send it: `TLS_AES_128_GCM_SHA256`,
    /// `ECDHE-RSA-AES128-GCM-SHA256`.
    pub cipher: Option<&'a str>,
    /// Reports whether the client sent a certificate in this connection's handshake.
    pub certificate_on_connection: bool,
    /// Whether the client sent a certificate in this handshake or in the resumed one.
    pub certificate_in_session: bool,
    /// Zero if a certificate was verified, else not zero; 1 without a certificate, as the
    /// specification demands (haproxy sends 0 then).
    pub verify: u32,
    /// Common name of the client certificate's subject.
    pub common_name: Option<&'a str>,
    /// Algorithm that signed our certificate: `RSA-SHA256`.
    pub signature_algorithm: Option<&'a str>,
    /// Kind of our certificate's key: `RSA2048`, `EC256`.
    pub key_algorithm: Option<&'a str>,
    /// Key exchange group: `secp256r1`.
    pub group: Option<&'a str>,
    /// Scheme of our handshake signature: `rsa_pss_rsae_sha256`.
    pub signature_scheme: Option<&'a str>,
}

/// Error of fields longer than the 65535 bytes that the length field can count.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the PROXY header's fields have over 65535 bytes")]
pub struct HeaderTooLong;

impl HeaderV2<'_> {
    /// Appends the header.
    ///
    /// Receivers have limits far below the format's: haproxy refuses a header with any field over
    /// 1024 bytes, so a certificate is only for receivers that are known to read it.
    ///
    /// # Errors
    /// Fails with [`HeaderTooLong`], and nothing is appended.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), HeaderTooLong> {
        let start = out.len();
        let appended = self.append_fields(out);
        if appended.is_err() {
            out.truncate(start);
        }
        appended
    }

    fn append_fields(&self, out: &mut Vec<u8>) -> Result<(), HeaderTooLong> {
        let start = out.len();
        self.append_head(out);
        let checksum_at = out.len() + 3;
        if self.checksum {
            append_field(kind::CRC32C, &[0; 4], out)?;
        }
        let unique_id =
            self.unique_id.map(|id| id.get(..header::UNIQUE_ID_BYTES_MAX).unwrap_or(id));
        append_some(kind::ALPN, self.alpn, out)?;
        append_some(kind::AUTHORITY, self.authority.map(str::as_bytes), out)?;
        append_some(kind::UNIQUE_ID, unique_id, out)?;
        if let Some(tls) = &self.tls {
            tls.append(out)?;
        }
        for (kind, value) in self.others {
            append_field(*kind, value, out)?;
        }
        append_some(kind::CUSTOM_FIRST, self.client_certificate, out)?;
        finish(start, self.checksum.then_some(checksum_at), out)
    }

    /// Appends signature, command, family, a length to be filled in, and addresses.
    fn append_head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&SIGNATURE_V2);
        let head = |command: u8, family: u8| [VERSION_2 | command, family, 0, 0];
        match (self.command, &self.addresses) {
            (Command::Local, _) => out.extend_from_slice(&head(0, 0)),
            (Command::Proxy, Addresses::Unknown) => out.extend_from_slice(&head(1, 0)),
            (Command::Proxy, Addresses::Tcp { source, destination }) => {
                let (source, destination) = one_family(*source, *destination);
                let family = if source.is_ipv4() { 0x11 } else { 0x21 };
                out.extend_from_slice(&head(1, family));
                append_ip(source.ip(), out);
                append_ip(destination.ip(), out);
                out.extend_from_slice(&source.port().to_be_bytes());
                out.extend_from_slice(&destination.port().to_be_bytes());
            }
            (Command::Proxy, Addresses::Unix { source, destination }) => {
                out.extend_from_slice(&head(1, 0x31));
                append_unix_name(source, out);
                append_unix_name(destination, out);
            }
        }
    }
}

impl ClientTls<'_> {
    fn append(&self, out: &mut Vec<u8>) -> Result<(), HeaderTooLong> {
        let start = out.len();
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = Ssl::TLS
            | flag(self.certificate_on_connection, Ssl::CERTIFICATE_ON_CONNECTION)
            | flag(self.certificate_in_session, Ssl::CERTIFICATE_IN_SESSION);
        out.extend_from_slice(&[kind::SSL, 0, 0, flags]);
        out.extend_from_slice(&self.verify.to_be_bytes());
        for (kind, text) in [
            (kind::SSL_VERSION, Some(self.version)),
            (kind::SSL_CN, self.common_name),
            (kind::SSL_CIPHER, self.cipher),
            (kind::SSL_SIG_ALG, self.signature_algorithm),
            (kind::SSL_KEY_ALG, self.key_algorithm),
            (kind::SSL_GROUP, self.group),
            (kind::SSL_SIG_SCHEME, self.signature_scheme),
        ] {
            append_some(kind, text.map(str::as_bytes), out)?;
        }
        fill_length(start + 1, out)
    }
}

fn append_ip(ip: IpAddr, out: &mut Vec<u8>) {
    match ip {
        IpAddr::V4(v4) => out.extend_from_slice(&v4.octets()),
        IpAddr::V6(v6) => out.extend_from_slice(&v6.octets()),
    }
}

fn append_unix_name(name: &[u8], out: &mut Vec<u8>) {
    let end = out.len() + UNIX_NAME_BYTES;
    out.extend(name.iter().take(UNIX_NAME_BYTES));
    out.resize(end, 0);
}

fn append_some(kind: u8, value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), HeaderTooLong> {
    value.map_or(Ok(()), |value| append_field(kind, value, out))
}

fn append_field(kind: u8, value: &[u8], out: &mut Vec<u8>) -> Result<(), HeaderTooLong> {
    let length = u16::try_from(value.len()).map_err(|_| HeaderTooLong)?;
    out.push(kind);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
    Ok(())
}

/// Writes at that place how many bytes follow, the two of the length itself not counted.
fn fill_length(at: usize, out: &mut [u8]) -> Result<(), HeaderTooLong> {
    let length = u16::try_from(out.len() - at - 2).map_err(|_| HeaderTooLong)?;
    put(at, length.to_be_bytes(), out);
    Ok(())
}

fn finish(start: usize, checksum_at: Option<usize>, out: &mut [u8]) -> Result<(), HeaderTooLong> {
    fill_length(start + HEAD_BYTES - 2, out)?;
    if let Some(at) = checksum_at {
        let crc = crc32c::crc32c(out.get(start..).unwrap_or(&[]));
        put(at, crc.to_be_bytes(), out);
    }
    Ok(())
}

fn put<const N: usize>(at: usize, bytes: [u8; N], out: &mut [u8]) {
    for (to, from) in out.iter_mut().skip(at).zip(bytes) {
        *to = from;
    }
}

#[cfg(test)]
mod tests;
