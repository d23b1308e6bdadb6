//! Version 1: one line of text (section 2.1).

use super::header::{Addresses, Command, Header, ProxyFault, Tlvs, Version, one_family};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The longest line a sender may make, CRLF included.
pub const LINE_BYTES_MAX: usize = 107;

pub(super) const SIGNATURE: &[u8] = b"PROXY ";

const PROTOCOLS: [&[u8]; 3] = [b"TCP4 ", b"TCP6 ", b"UNKNOWN"];

/// The header and its bytes; `None` while the line has no end.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(Header<'_>, usize)>, ProxyFault> {
    let (head, tail) = bytes.split_at_checked(SIGNATURE.len()).unwrap_or((bytes, &[]));
    if !SIGNATURE.starts_with(head) {
        return Err(ProxyFault::NotProxy);
    }
    let begins = |p: &&[u8]| p.starts_with(tail) || tail.starts_with(p);
    if !PROTOCOLS.iter().any(begins) {
        return Err(ProxyFault::Line("protocol"));
    }
    let Some(line_bytes) = line_end(bytes)? else {
        return Ok(None);
    };
    let line = bytes.get(SIGNATURE.len()..line_bytes).unwrap_or(&[]);
    let line = std::str::from_utf8(line).map_err(|_| ProxyFault::Line("character"))?;
    let header = Header {
        version: Version::V1,
        command: Command::Proxy,
        addresses: addresses(line)?,
        tlvs: Tlvs::default(),
    };
    Ok(Some((header, line_bytes + 2)))
}

/// The place of the CRLF. Neither half of it counts alone.
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

/// Digits only and no leading zero, which `parse` alone would let through.
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
            let (from, to) = (Text(source.ip()), Text(destination.ip()));
            let ports = (source.port(), destination.port());
            write!(out, "PROXY {protocol} {from} {to} {} {}\r\n", ports.0, ports.1)
        }
        _ => out.write_all(b"PROXY UNKNOWN\r\n"),
    };
    written.expect("a Vec takes what is written to it");
}

/// The canonical text of an address; a mapped one in hexadecimal too, as the grammar demands.
struct Text(IpAddr);

impl std::fmt::Display for Text {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Addresses<'_>, ProxyFault> {
        let (header, wire_bytes) = read(line.as_bytes())?.expect("a whole line");
        assert_eq!(wire_bytes, line.find("\r\n").unwrap() + 2);
        Ok(header.addresses)
    }

    #[test]
    fn the_example_of_the_specification() {
        let addresses =
            parsed("PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\nGET / HTTP/1.1\r\n").unwrap();
        assert_eq!(addresses.source(), Some("192.168.0.1:56324".parse().unwrap()));
        assert_eq!(addresses.destination(), Some("192.168.0.11:443".parse().unwrap()));
    }

    #[test]
    fn unknown_may_say_anything() {
        let worst = "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff \
                     ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n";
        assert_eq!(worst.len(), LINE_BYTES_MAX);
        for line in [worst, "PROXY UNKNOWN\r\n", "PROXY UNKNOWN a b\tc\r\n"] {
            assert_eq!(parsed(line), Ok(Addresses::Unknown));
        }
        let longer = worst.replace("\r\n", "1\r\n");
        assert_eq!(parsed(&longer), Err(ProxyFault::LineTooLong));
    }

    #[test]
    fn each_departure_is_refused() {
        use ProxyFault::{Line, NotProxy};
        for (line, fault) in [
            ("PROXX", NotProxy),
            ("PROXY\tTCP4", NotProxy),
            ("PROXY  TCP4", Line("protocol")),
            ("PROXY UDP4 ", Line("protocol")),
            ("PROXY tcp4 ", Line("protocol")),
            ("PROXY UNKNOWNS\r\n", Line("protocol")),
            ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2\n", Line("line end")),
            ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2\rx", Line("line end")),
            ("PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n", Line("number of fields")),
            ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3\r\n", Line("number of fields")),
            ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2 \r\n", Line("number of fields")),
            ("PROXY TCP4  1.1.1.1 2.2.2.2 1 2\r\n", Line("address")),
            ("PROXY TCP4 01.1.1.1 2.2.2.2 1 2\r\n", Line("address")),
            ("PROXY TCP4 1.1.1 2.2.2.2 1 2\r\n", Line("address")),
            ("PROXY TCP4 256.1.1.1 2.2.2.2 1 2\r\n", Line("address")),
            ("PROXY TCP4 ::1 ::2 1 2\r\n", Line("address")),
            ("PROXY TCP6 1.1.1.1 2.2.2.2 1 2\r\n", Line("address")),
            ("PROXY TCP6 ::1::2 ::2 1 2\r\n", Line("address")),
            ("PROXY TCP6 fe80::1%lo ::2 1 2\r\n", Line("address")),
            ("PROXY TCP4 1.1.1.1 2.2.2.2 01 2\r\n", Line("port")),
            ("PROXY TCP4 1.1.1.1 2.2.2.2 1 65536\r\n", Line("port")),
            ("PROXY TCP4 1.1.1.1 2.2.2.2 +1 2\r\n", Line("port")),
            ("PROXY TCP4 1.1.1.1 2.2.2.2 -1 2\r\n", Line("port")),
        ] {
            assert_eq!(read(line.as_bytes()), Err(fault), "{line:?}");
        }
    }

    #[test]
    fn lines_are_written_as_the_grammar_wants() {
        let line = |source: &str, destination: &str| {
            let mut out = Vec::new();
            let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
            write_v1(&Addresses::tcp(source, destination), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(line("1.2.3.4:0", "5.6.7.8:65535"), "PROXY TCP4 1.2.3.4 5.6.7.8 0 65535\r\n");
        assert_eq!(line("[::1]:1", "[2001:db8::]:2"), "PROXY TCP6 ::1 2001:db8:: 1 2\r\n");
        assert_eq!(line("1.2.3.4:1", "[::1]:2"), "PROXY TCP6 ::ffff:102:304 ::1 1 2\r\n");
        let mut out = b"kept ".to_vec();
        write_v1(&Addresses::Unknown, &mut out);
        assert_eq!(out, b"kept PROXY UNKNOWN\r\n");
    }
}
