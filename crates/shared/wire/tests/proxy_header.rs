//! PROXY headers: those of senders in the field, those written here, and faulty ones.

use proptest::collection::vec;
use proptest::prelude::*;
use std::net::SocketAddr;
use wire::proxy_header::{
    Addresses, ClientTls, Command, HEADER_BYTES_MAX, Header, HeaderGuess, HeaderTooLong, HeaderV2,
    Parsed, ProxyFault, Tlv, Version, kind, likeness, read, write_v1,
};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Header that Debian's haproxy 2.6 or hitch 1.7 sent to a backend on loopback.
macro_rules! seed {
    ($name:literal) => {
        include_bytes!(concat!("../../../../fuzz/seeds/proxy_header/", $name))
    };
}

fn header(bytes: &[u8]) -> Header<'_> {
    read(bytes).expect("no fault").expect("a whole header").header
}

/// Returns the fault of these bytes, which must not show before the last of them.
fn fault_of(bytes: &[u8]) -> ProxyFault {
    let before = read(&bytes[..bytes.len() - 1]);
    assert_eq!(before, Ok(None), "too early in {bytes:02x?}");
    read(bytes).expect_err("a fault")
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).expect("test data fits").to_be_bytes();
    [SIGNATURE, &[0x20 | command, family], &length, body].concat()
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).expect("test data fits").to_be_bytes();
    [&[kind], &length[..], value].concat()
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}

#[test]
fn haproxy_tells_all_it_can() {
    // send-proxy-v2 with every option of proxy-v2-options; the client shows a certificate.
    let Header { command, addresses, tlvs, .. } = header(seed!("haproxy-v2"));
    assert_eq!(command, Command::Proxy);
    assert!(addresses.source().unwrap().ip().is_loopback());
    assert_eq!(tlvs.find(kind::ALPN), Some(&b"http/1.1"[..]));
    assert_eq!(tlvs.authority(), Some("proxy.example"));
    assert_eq!(tlvs.find(kind::UNIQUE_ID), Some(&b"127.0.0.1:40050"[..]));
    assert!(tlvs.find(kind::CRC32C).is_some());
    let ssl = tlvs.ssl().unwrap();
    assert!(ssl.is_tls() && ssl.has_certificate_on_connection());
    assert!(ssl.has_certificate_in_session());
    assert_eq!(ssl.verify, 0);
    assert_eq!(ssl.text(kind::SSL_VERSION), Some("TLSv1.3"));
    assert_eq!(ssl.text(kind::SSL_CN), Some("client.example"));
    assert_eq!(ssl.text(kind::SSL_KEY_ALG), Some("RSA2048"));
    assert_eq!(ssl.text(kind::SSL_SIG_ALG), Some("ecdsa-with-SHA256"));
    assert_eq!(ssl.text(kind::SSL_CIPHER), Some("TLS_AES_256_GCM_SHA384"));
    let without = header(seed!("haproxy-v2-no-client-certificate")).tlvs.ssl().unwrap();
    assert!(without.is_tls() && !without.has_certificate_on_connection());
    assert_eq!((without.verify, without.text(kind::SSL_CN)), (0, None));
}

#[test]
fn haproxy_in_text() {
    let header = header(seed!("haproxy-v1")); // send-proxy
    assert_eq!(header.version, Version::V1);
    assert_eq!(header.addresses.source(), Some(address("127.0.0.1:48756")));
    assert_eq!(header.addresses.destination(), Some(address("127.0.0.1:35621")));
}

#[test]
fn hitch_with_and_without_a_client_certificate() {
    // write-proxy-v2, proxy-tlv; then also client-verify = optional, proxy-client-cert
    let tlvs = header(seed!("hitch-v2")).tlvs;
    assert_eq!(tlvs.ssl().unwrap().verify, 1);
    assert_eq!(tlvs.find(kind::CUSTOM_FIRST), None);
    let tlvs = header(seed!("hitch-v2-client-certificate")).tlvs;
    let certificate = tlvs.find(kind::CUSTOM_FIRST).unwrap();
    assert!(certificate.starts_with(b"-----BEGIN TRUSTED CERTIFICATE-----\n"));
    let ssl = tlvs.ssl().unwrap();
    assert!(ssl.has_certificate_on_connection() && ssl.has_certificate_in_session());
    assert_eq!(ssl.verify, 0);
}

#[test]
fn version_2_over_ipv4_byte_by_byte() {
    let body = [192, 0, 2, 1, 198, 51, 100, 2, 0x30, 0x39, 0x01, 0xbb];
    let bytes = [v2(1, 0x11, &body), b"GET /".to_vec()].concat();
    let Parsed { header, wire_bytes } = read(&bytes).unwrap().unwrap();
    assert_eq!(wire_bytes, 28);
    assert_eq!((header.version, header.command), (Version::V2, Command::Proxy));
    assert_eq!(header.addresses.source(), Some(address("192.0.2.1:12345")));
    assert_eq!(header.addresses.destination(), Some(address("198.51.100.2:443")));
    let written = HeaderV2 { addresses: header.addresses, ..HeaderV2::default() };
    let mut out = Vec::new();
    assert_eq!(written.write(&mut out), Ok(()));
    assert_eq!(out, bytes[..28]);
}

#[test]
fn local_and_unspecified_say_nothing_of_addresses() {
    let addresses = [1; 12];
    for bytes in [
        v2(0, 0x00, &[]),
        v2(0, 0x11, &addresses),
        v2(0, 0xff, &[]),
        v2(1, 0x00, &addresses),
        v2(1, 0x12, &addresses),
        v2(1, 0x32, &[1; 216]),
    ] {
        let header = header(&bytes);
        assert_eq!(header.addresses, Addresses::Unknown);
        assert_eq!(header.tlvs.iter().count(), 0);
    }
    let health_check = v2(0, 0x00, &tlv(kind::UNIQUE_ID, b"7"));
    assert_eq!(header(&health_check).command, Command::Local);
    assert_eq!(header(&health_check).tlvs.find(kind::UNIQUE_ID), Some(&b"7"[..]));
    let datagram = v2(1, 0x12, &[&addresses[..], &tlv(kind::AUTHORITY, b"a.b")].concat());
    assert_eq!(header(&datagram).tlvs.authority(), Some("a.b"));
}

#[test]
fn unix_names_lose_their_padding() {
    let mut body = [0; 216];
    body[..6].copy_from_slice(b"/run/a");
    body[108..111].copy_from_slice(b"\0ab");
    let bytes = v2(1, 0x31, &body);
    let addresses = header(&bytes).addresses;
    assert_eq!(addresses, Addresses::Unix { source: b"/run/a", destination: b"\0ab" });
    let mut out = Vec::new();
    HeaderV2 { addresses, ..HeaderV2::default() }.write(&mut out).unwrap();
    assert_eq!(out, bytes);
}

#[test]
fn version_2_faults_show_at_once() {
    let head = |tail: &[u8]| [SIGNATURE, tail].concat();
    assert_eq!(fault_of(b"\r\n\r\n\0\r\nQUIT\r"), ProxyFault::NotProxy);
    assert_eq!(fault_of(b"\x16"), ProxyFault::NotProxy);
    assert_eq!(fault_of(&head(&[0x11])), ProxyFault::Version(1));
    assert_eq!(fault_of(&head(&[0x22])), ProxyFault::Command(2));
    assert_eq!(fault_of(&head(&[0x21, 0x41])), ProxyFault::Family(0x41));
    assert_eq!(fault_of(&head(&[0x21, 0x13])), ProxyFault::Family(0x13));
    assert_eq!(fault_of(&head(&[0x21, 0x11, 0, 11])), ProxyFault::AddressesCut(11));
    assert_eq!(fault_of(&head(&[0x21, 0x21, 0, 35])), ProxyFault::AddressesCut(35));
    assert_eq!(fault_of(&head(&[0x21, 0x31, 0, 215])), ProxyFault::AddressesCut(215));
    assert_eq!(fault_of(&head(&[0x21, 0x12, 0, 11])), ProxyFault::AddressesCut(11));
    assert_eq!(fault_of(&head(&[0x21, 0x11, 0xff, 0xff])), ProxyFault::TooLarge(0x1000f));
    let longest = u16::try_from(HEADER_BYTES_MAX - 16).unwrap();
    let mut longest = [head(&[0x21, 0x00]), longest.to_be_bytes().to_vec()].concat();
    assert_eq!(read(&longest), Ok(None));
    longest.resize(HEADER_BYTES_MAX, 0);
    assert_eq!(read(&longest).unwrap().unwrap().wire_bytes, HEADER_BYTES_MAX);
}

#[test]
fn fields_must_fill_the_header_and_have_their_form() {
    let fault = |fields: &[u8]| fault_of(&v2(1, 0x11, &[&[0; 12], fields].concat()));
    assert_eq!(fault(&[1]), ProxyFault::TlvCut);
    assert_eq!(fault(&[1, 0]), ProxyFault::TlvCut);
    assert_eq!(fault(&[1, 0, 2, b'h']), ProxyFault::TlvCut);
    assert_eq!(fault(&tlv(kind::UNIQUE_ID, &[0; 129])), ProxyFault::Tlv(kind::UNIQUE_ID));
    assert_eq!(fault(&tlv(kind::CRC32C, &[0; 3])), ProxyFault::Tlv(kind::CRC32C));
    assert_eq!(fault(&tlv(kind::CRC32C, &[0; 4])), ProxyFault::Checksum);
    let twice = tlv(kind::CRC32C, &[0; 4]).repeat(2);
    assert_eq!(fault(&twice), ProxyFault::Tlv(kind::CRC32C));
    assert_eq!(fault(&tlv(kind::SSL, &[1, 0, 0, 0])), ProxyFault::Tlv(kind::SSL));
    assert_eq!(fault(&tlv(kind::SSL, &[1, 0, 0, 0, 0, 0x21])), ProxyFault::Tlv(kind::SSL));
    let padded = [tlv(kind::NOOP, &[9; 5]), tlv(kind::ALPN, b"h2")].concat();
    let padded = v2(1, 0x11, &[&[0; 12], &padded[..]].concat());
    assert_eq!(header(&padded).tlvs.find(kind::ALPN), Some(&b"h2"[..]));
}

#[test]
fn the_checksum_is_that_of_iscsi() {
    // RFC 3720 appendix B.4 gives 0x8a9136aa for 32 zero bytes; here: 28 bytes of header, a
    // 3-byte field head and the sum itself, recomputed by hand with the sum as zero.
    let mut out = Vec::new();
    let addresses = Addresses::tcp(address("192.0.2.1:1"), address("192.0.2.2:2"));
    HeaderV2 { addresses, checksum: true, ..HeaderV2::default() }.write(&mut out).unwrap();
    let mut zeroed = out.clone();
    zeroed[31..35].fill(0);
    assert_eq!(crc_bit_by_bit(&[0; 32]), 0x8a91_36aa);
    assert_eq!(out[31..35], crc_bit_by_bit(&zeroed).to_be_bytes());
    assert_eq!(header(&out).addresses, addresses);
    for at in (16..28).chain(31..35) {
        let mut spoilt = out.clone();
        spoilt[at] ^= 1;
        assert_eq!(read(&spoilt), Err(ProxyFault::Checksum), "byte {at}");
    }
}

/// Computes CRC-32C by its definition, to check the library's.
fn crc_bit_by_bit(bytes: &[u8]) -> u32 {
    let shift = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    let byte = |crc: u32, b: &u8| (0..8).fold(crc ^ u32::from(*b), |crc, _| shift(crc));
    !bytes.iter().fold(!0, byte)
}

#[test]
fn everything_at_once_reads_back() {
    let tls = ClientTls {
        version: "TLSv1.3",
        cipher: Some("TLS_AES_128_GCM_SHA256"),
        certificate_on_connection: true,
        certificate_in_session: true,
        verify: 0,
        common_name: Some("J\u{fc}rgen"),
        signature_algorithm: Some("RSA-SHA256"),
        key_algorithm: Some("RSA2048"),
        group: Some("x25519"),
        signature_scheme: Some("rsa_pss_rsae_sha256"),
    };
    let written = HeaderV2 {
        addresses: Addresses::tcp(address("192.0.2.1:1"), address("[2001:db8::1]:443")),
        alpn: Some(b"h2"),
        authority: Some("www.example.com"),
        unique_id: Some(b"id"),
        tls: Some(tls),
        client_certificate: Some(b"PEM"),
        others: &[(kind::NETNS, b"blue")],
        checksum: true,
        ..HeaderV2::default()
    };
    let mut out = Vec::new();
    assert_eq!(written.write(&mut out), Ok(()));
    let Header { addresses, tlvs, .. } = header(&out);
    assert_eq!(addresses.source(), Some(address("[::ffff:192.0.2.1]:1")));
    assert_eq!(tlvs.find(kind::ALPN), Some(&b"h2"[..]));
    assert_eq!(tlvs.authority(), Some("www.example.com"));
    assert_eq!(tlvs.find(kind::UNIQUE_ID), Some(&b"id"[..]));
    assert_eq!(tlvs.find(kind::CUSTOM_FIRST), Some(&b"PEM"[..]));
    assert_eq!(tlvs.find(kind::NETNS), Some(&b"blue"[..]));
    let ssl = tlvs.ssl().unwrap();
    assert!(ssl.is_tls() && ssl.has_certificate_on_connection());
    assert!(ssl.has_certificate_in_session());
    assert_eq!(ssl.verify, 0);
    assert_eq!(ssl.text(kind::SSL_VERSION), Some("TLSv1.3"));
    assert_eq!(ssl.text(kind::SSL_CN), Some("J\u{fc}rgen"));
    assert_eq!(ssl.text(kind::SSL_CIPHER), Some("TLS_AES_128_GCM_SHA256"));
    assert_eq!(ssl.text(kind::SSL_SIG_ALG), Some("RSA-SHA256"));
    assert_eq!(ssl.text(kind::SSL_KEY_ALG), Some("RSA2048"));
    assert_eq!(ssl.text(kind::SSL_GROUP), Some("x25519"));
    assert_eq!(ssl.text(kind::SSL_SIG_SCHEME), Some("rsa_pss_rsae_sha256"));
}

#[test]
fn flags_stand_for_what_they_say() {
    let flags = |certificate_on_connection, certificate_in_session| {
        let tls = ClientTls {
            version: "TLSv1.2",
            certificate_on_connection,
            certificate_in_session,
            verify: 0x0102_0304,
            ..ClientTls::default()
        };
        let mut out = Vec::new();
        HeaderV2 { tls: Some(tls), ..HeaderV2::default() }.write(&mut out).unwrap();
        assert_eq!(out[16..19], [kind::SSL, 0, 15]);
        assert_eq!(out[20..], *b"\x01\x02\x03\x04\x21\0\x07TLSv1.2");
        out[19]
    };
    assert_eq!((flags(false, false), flags(true, true), flags(false, true)), (1, 7, 5));
}

#[test]
fn what_does_not_fit_is_not_written_in_part() {
    let certificate = vec![b'x'; 65_000];
    let other = vec![b'y'; 600];
    let written = HeaderV2 {
        authority: Some("a.b"),
        client_certificate: Some(&certificate),
        others: &[(0xe1, &other)],
        checksum: true,
        ..HeaderV2::default()
    };
    let mut out = b"before".to_vec();
    assert_eq!(written.write(&mut out), Err(HeaderTooLong));
    assert_eq!(out, b"before");
    let alone = HeaderV2 { client_certificate: Some(&certificate), ..HeaderV2::default() };
    assert_eq!(alone.write(&mut Vec::new()), Ok(()));
}

#[test]
fn headers_are_recognized_by_the_signature() {
    for bytes in [&b"PROXY "[..], b"PROXY TCP4 1", SIGNATURE, seed!("haproxy-v2")] {
        assert_eq!(likeness(bytes), HeaderGuess::Yes, "{bytes:?}");
    }
    for bytes in [&b""[..], b"P", b"PROXY", b"\r", &SIGNATURE[..11]] {
        assert_eq!(likeness(bytes), HeaderGuess::Perhaps, "{bytes:?}");
    }
    for bytes in [&b"\x16"[..], b"\x16\x03\x01", b"POST /", b"PROXYING", b"\r\n\r\nx", b"\x80"] {
        assert_eq!(likeness(bytes), HeaderGuess::No, "{bytes:?}");
    }
}

prop_compose! {
    fn addresses()(
        source in any::<SocketAddr>(),
        destination in any::<SocketAddr>(),
        known in any::<bool>(),
    ) -> Addresses<'static> {
        // Flow labels and scopes are not part of the header.
        let plain = |address: SocketAddr| SocketAddr::new(address.ip(), address.port());
        if known { Addresses::tcp(plain(source), plain(destination)) } else { Addresses::Unknown }
    }
}

/// Checks that a decided answer is not changed by later bytes.
fn decided_once(bytes: &[u8]) -> Result<(), TestCaseError> {
    let whole = read(bytes);
    if let Ok(Some(parsed)) = &whole {
        let fields: Vec<Tlv<'_>> = parsed.header.tlvs.iter().collect();
        prop_assert!(fields.iter().all(|field| field.value.len() <= bytes.len()));
        parsed.header.tlvs.ssl();
    }
    for cut in 0..bytes.len() {
        let prefix = read(&bytes[..cut]);
        if prefix != Ok(None) {
            prop_assert_eq!(&prefix, &whole, "cut at {}", cut);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn version_1_reads_back_from_any_cut(
        addresses in addresses(),
        after in vec(any::<u8>(), 0..9),
    ) {
        let mut line = Vec::new();
        write_v1(&addresses, &mut line);
        for cut in 0..line.len() {
            prop_assert_eq!(read(&line[..cut]), Ok(None));
        }
        let bytes = [&line[..], &after].concat();
        let Parsed { header, wire_bytes } = read(&bytes).unwrap().unwrap();
        prop_assert_eq!((header.version, header.addresses), (Version::V1, addresses));
        prop_assert_eq!(wire_bytes, line.len());
    }

    #[test]
    fn version_2_reads_back_from_any_cut(
        addresses in addresses(),
        alpn in proptest::option::of(vec(any::<u8>(), 1..20)),
        authority in proptest::option::of("[a-z.]{0,40}"),
        unique_id in proptest::option::of(vec(any::<u8>(), 0..129)),
        common_name in proptest::option::of(".{0,20}"),
        certificate in proptest::option::of(vec(any::<u8>(), 0..600)),
        checksum in any::<bool>(),
        after in vec(any::<u8>(), 0..9),
    ) {
        let tls = ClientTls {
            version: "TLSv1.3",
            common_name: common_name.as_deref(),
            ..ClientTls::default()
        };
        let written = HeaderV2 {
            addresses,
            alpn: alpn.as_deref(),
            authority: authority.as_deref(),
            unique_id: unique_id.as_deref(),
            tls: Some(tls),
            client_certificate: certificate.as_deref(),
            checksum,
            ..HeaderV2::default()
        };
        let mut wire = Vec::new();
        prop_assert_eq!(written.write(&mut wire), Ok(()));
        for cut in 0..wire.len() {
            prop_assert_eq!(read(&wire[..cut]), Ok(None));
        }
        let bytes = [&wire[..], &after].concat();
        let Parsed { header, wire_bytes } = read(&bytes).unwrap().unwrap();
        prop_assert_eq!(wire_bytes, wire.len());
        prop_assert_eq!(header.addresses, addresses);
        prop_assert_eq!(header.tlvs.find(kind::ALPN), alpn.as_deref());
        prop_assert_eq!(header.tlvs.authority(), authority.as_deref());
        prop_assert_eq!(header.tlvs.find(kind::UNIQUE_ID), unique_id.as_deref());
        prop_assert_eq!(header.tlvs.find(kind::CUSTOM_FIRST), certificate.as_deref());
        prop_assert_eq!(header.tlvs.find(kind::CRC32C).is_some(), checksum);
        let ssl = header.tlvs.ssl().unwrap();
        prop_assert_eq!(ssl.text(kind::SSL_CN), common_name.as_deref());
    }

    #[test]
    fn any_bytes_are_decided_once(
        signature in prop::sample::select(vec![&b""[..], b"PROXY ", b"PROXY TCP4 ", SIGNATURE]),
        bytes in vec(any::<u8>(), 0..160),
    ) {
        decided_once(&[signature, &bytes].concat())?;
    }

    #[test]
    fn spoilt_headers_are_decided_once(
        seed in prop::sample::select(vec![&seed!("haproxy-v2")[..], seed!("haproxy-v1")]),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = seed.to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        decided_once(&bytes)?;
    }
}
