//! A reader of PROXY headers (haproxy's proxy-protocol.txt), independent of the product's.

use std::net::{IpAddr, SocketAddr};

/// A header, and what came after it.
#[derive(Debug)]
pub struct ProxyHeader {
    pub version: u8,
    /// The client and the address that it connected to; `None` for LOCAL and UNKNOWN.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    pub tlvs: Vec<(u8, Vec<u8>)>,
    pub bytes: Vec<u8>,
    pub rest: Vec<u8>,
}

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

const CRC32C: u8 = 0x03;

impl ProxyHeader {
    /// Reads the header that `bytes` begin with; `None` while it is not complete.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < 16 {
            return None;
        }
        if bytes.starts_with(SIGNATURE) { read_binary(bytes) } else { read_text(bytes) }
    }

    /// Returns the value of the first TLV of this type.
    pub fn tlv(&self, kind: u8) -> Option<&[u8]> {
        find(&self.tlvs, kind)
    }

    /// Reads PP2_TYPE_SSL: the client bits, the verify result and the TLVs within.
    pub fn ssl(&self) -> Ssl {
        let value = self.tlv(0x20).expect("PP2_TYPE_SSL");
        let verify = u32::from_be_bytes(value[1..5].try_into().expect("four bytes"));
        Ssl { client: value[0], verify, tlvs: read_tlvs(&value[5..]) }
    }

    /// Reports whether PP2_TYPE_CRC32C is there and right.
    pub fn checksum_is_right(&self) -> bool {
        let Some(sum) = self.tlv(CRC32C) else {
            return false;
        };
        let mut bytes = self.bytes.clone();
        let mut at = 16 + address_length(&bytes);
        while bytes[at] != CRC32C {
            at += 3 + usize::from(u16::from_be_bytes([bytes[at + 1], bytes[at + 2]]));
        }
        bytes[at + 3..at + 7].fill(0);
        crc32c(&bytes).to_be_bytes() == sum
    }
}

#[derive(Debug)]
pub struct Ssl {
    /// PP2_CLIENT_SSL 1, PP2_CLIENT_CERT_CONN 2, PP2_CLIENT_CERT_SESS 4.
    pub client: u8,
    /// 0 = the client's certificate verified.
    pub verify: u32,
    tlvs: Vec<(u8, Vec<u8>)>,
}

impl Ssl {
    /// Returns the text of the inner TLV of this type.
    pub fn text(&self, kind: u8) -> Option<String> {
        find(&self.tlvs, kind).map(|value| String::from_utf8_lossy(value).into_owned())
    }
}

fn find(tlvs: &[(u8, Vec<u8>)], kind: u8) -> Option<&[u8]> {
    tlvs.iter().find(|tlv| tlv.0 == kind).map(|tlv| tlv.1.as_slice())
}

fn read_text(bytes: &[u8]) -> Option<ProxyHeader> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")? + 2;
    assert!(end <= 107, "a version 1 header is at most 107 bytes");
    let line = std::str::from_utf8(&bytes[..end - 2]).expect("a version 1 header is ASCII");
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(words[0], "PROXY", "{line}");
    let address = |ip: usize, port: usize| {
        let ip: IpAddr = words[ip].parse().expect("an IP address");
        SocketAddr::new(ip, words[port].parse().expect("a port"))
    };
    let addresses = (words[1] != "UNKNOWN").then(|| (address(2, 4), address(3, 5)));
    Some(ProxyHeader {
        version: 1,
        addresses,
        tlvs: Vec::new(),
        bytes: bytes[..end].to_vec(),
        rest: bytes[end..].to_vec(),
    })
}

fn read_binary(bytes: &[u8]) -> Option<ProxyHeader> {
    let end = 16 + usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
    let header = bytes.get(..end)?;
    let addresses = address_length(header);
    Some(ProxyHeader {
        version: header[12] >> 4,
        addresses: (header[12] == 0x21 && addresses > 0).then(|| read_addresses(header)),
        tlvs: read_tlvs(&header[16 + addresses..]),
        bytes: header.to_vec(),
        rest: bytes[end..].to_vec(),
    })
}

fn address_length(header: &[u8]) -> usize {
    match header[13] {
        0x00 => 0,
        0x11 => 12,
        0x21 => 36,
        other => panic!("the tests send no family {other:#x}"),
    }
}

fn read_addresses(header: &[u8]) -> (SocketAddr, SocketAddr) {
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let four = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&header[at..at + 4]).expect("4"));
    let six = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&header[at..at + 16]).expect("16"));
    if header[13] == 0x11 {
        (SocketAddr::new(four(16), port(24)), SocketAddr::new(four(20), port(26)))
    } else {
        (SocketAddr::new(six(16), port(48)), SocketAddr::new(six(32), port(50)))
    }
}

fn read_tlvs(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut tlvs = Vec::new();
    while let [kind, high, low, rest @ ..] = bytes {
        let (value, after) = rest.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        tlvs.push((*kind, value.to_vec()));
        bytes = after;
    }
    assert!(bytes.is_empty(), "a TLV is cut: {bytes:?}");
    tlvs
}

/// Computes CRC-32C (RFC 3720, appendix B.4), a bit at a time.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _bit in 0..8 {
            sum = (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg());
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_3720() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_version_1_header_is_read() {
        let header = ProxyHeader::read(b"PROXY TCP4 192.0.2.1 192.0.2.2 5 443\r\nx").unwrap();
        let (client, _) = header.addresses.unwrap();
        assert_eq!((client.to_string().as_str(), &*header.rest), ("192.0.2.1:5", &b"x"[..]));
    }
}
