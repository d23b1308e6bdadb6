//! First flights captured on loopback. The command that made each stands beside its content; `c` is
//! `openssl s_client -connect 127.0.0.1:PORT` of OpenSSL 3.0.

use crate::{Said, hello};
use wire::client_hello::{HelloFault, HelloProgress, read};

macro_rules! captured {
    ($($name:literal),* $(,)?) => {
        pub(crate) const CAPTURED: &[(&str, &[u8])] = &[$((
            $name,
            include_bytes!(concat!("../../../../../fuzz/seeds/client_hello/", $name)),
        )),*];
    };
}

captured![
    "chromium",
    "curl",
    "curl-address",
    "openssl-default",
    "openssl-early-data",
    "openssl-psk",
    "openssl-session-id",
    "openssl-ticket",
    "openssl-tls10",
    "openssl-tls11",
    "openssl-tls12",
    "openssl-tls12-bare",
    "openssl-tls13-p256",
    "python",
    "rustls",
    "rustls-fragmented",
    "rustls-tls12",
];

fn bytes(name: &str) -> &'static [u8] {
    let mut all = CAPTURED.iter();
    all.find(|(n, _)| *n == name).expect("a capture of that name").1
}

fn said(name: &str) -> Said {
    Said::from(&hello(bytes(name)))
}

/// Default groups of OpenSSL: X25519, P-256, X448, P-521, P-384 and, in TLS 1.3, ffdhe.
const OPENSSL_GROUPS: [u16; 10] =
    [0x001d, 0x0017, 0x001e, 0x0019, 0x0018, 0x0100, 0x0101, 0x0102, 0x0103, 0x0104];

#[test]
fn openssl_by_default() {
    // c -servername www.example.com -alpn h2,http/1.1 -status
    let said = said("openssl-default");
    assert_eq!(said.name.as_deref(), Some("www.example.com"));
    assert_eq!(said.alpn, [&b"h2"[..], b"http/1.1"]);
    assert_eq!(said.versions, (0x0303, 0x0304, vec![0x0304, 0x0303, 0x0302, 0x0301]));
    assert_eq!(said.suites[..4], [0x1302, 0x1303, 0x1301, 0xc02c]);
    assert_eq!((said.suites.len(), said.suites.last()), (31, Some(&0x00ff)));
    assert_eq!(said.groups, (OPENSSL_GROUPS.to_vec(), vec![0x001d]));
    assert_eq!(said.signatures.0[..4], [0x0403, 0x0503, 0x0603, 0x0807]);
    assert_eq!((said.ticket, said.has_early_data), (Some(vec![]), false));
}

#[test]
fn openssl_with_options() {
    // c -tls1_2 -servername tls12.example -groups P-384:X25519
    //   -sigalgs ECDSA+SHA256:RSA-PSS+SHA384:RSA+SHA256
    //   -cipher ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384
    let older = said("openssl-tls12");
    assert_eq!(older.versions, (0x0303, 0x0303, vec![]));
    assert_eq!(older.name.as_deref(), Some("tls12.example"));
    assert_eq!(older.suites, [0xc02b, 0xc030, 0x00ff]);
    assert_eq!(older.groups, (vec![0x0018, 0x001d], vec![]));
    assert_eq!(older.signatures.0, [0x0403, 0x0805, 0x0401]);
    // c -tls1_3 -noservername -groups P-256:P-521 -sigalgs ed25519:ECDSA+SHA384
    //   -ciphersuites TLS_CHACHA20_POLY1305_SHA256
    let newer = said("openssl-tls13-p256");
    assert_eq!(newer.versions, (0x0303, 0x0304, vec![0x0304]));
    assert_eq!(newer.name, None);
    assert_eq!(newer.suites, [0x1303, 0x00ff]);
    assert_eq!(newer.groups, (vec![0x0017, 0x0019], vec![0x0017]));
    assert_eq!(newer.signatures.0, [0x0807, 0x0503]);
    // c -tls1_2 -noservername -no_ticket -no_etm -cipher AES128-SHA
    let bare = said("openssl-tls12-bare");
    assert_eq!(bare.suites, [0x002f, 0x00ff]);
    assert_eq!((bare.groups, bare.ticket), ((vec![], vec![]), None));
}

#[test]
fn each_way_to_resume() {
    // c -servername resume.example -sess_in FILE, and:
    let by_id = said("openssl-session-id"); // -tls1_2 -no_ticket
    assert_eq!((by_id.session_id.len(), by_id.ticket), (32, None));
    let by_ticket = said("openssl-ticket"); // -tls1_2
    assert_eq!(by_ticket.ticket.map(|ticket| ticket.len()), Some(176));
    let by_psk = said("openssl-psk"); // -tls1_3
    assert_eq!(by_psk.identities.iter().map(Vec::len).collect::<Vec<_>>(), [208]);
    assert!(!by_psk.has_early_data);
    let offers = |name: &&str| hello(bytes(name)).offers_session();
    assert!(["openssl-session-id", "openssl-ticket", "openssl-psk"].iter().all(offers));
    assert!(!["openssl-default", "openssl-tls12", "rustls-tls12"].iter().any(offers));
}

#[test]
fn early_data_follows_the_hello() {
    // c -servername resume.example -sess_in FILE -tls1_3 -early_data FILE
    let all = bytes("openssl-early-data");
    let hello = hello(all);
    assert!(hello.offers_early_data());
    let (wire, after) = all.split_at(hello.wire_bytes());
    assert_eq!(after[..3], [20, 3, 3], "a change_cipher_spec comes next");
    assert_eq!(Said::from(&crate::hello(wire)), Said::from(&hello));
}

#[test]
fn versions_before_tls_1_2() {
    // c -tls1 -cipher ALL:@SECLEVEL=0, and -tls1_1
    for (name, highest) in [("openssl-tls10", 0x0301), ("openssl-tls11", 0x0302)] {
        let fault = read(bytes(name)).unwrap_err();
        assert_eq!(fault, HelloFault::VersionTooOld { highest });
        assert_eq!(fault.alert(), Some(wire::alert::PROTOCOL_VERSION));
    }
}

#[test]
fn curl_and_python() {
    // curl -k https://curl.example:PORT/; curl -k --http1.1 https://127.0.0.1:PORT/
    let curl = said("curl");
    assert_eq!(curl.name.as_deref(), Some("curl.example"));
    assert_eq!(curl.alpn, [&b"h2"[..], b"http/1.1"]);
    let address = said("curl-address");
    assert_eq!(address.name, None);
    assert_eq!(address.alpn, [b"http/1.1"]);
    // ssl.create_default_context().wrap_socket(..., server_hostname="python.example")
    assert_eq!(said("python").name.as_deref(), Some("python.example"));
    assert_eq!(said("python").suites, curl.suites);
}

#[test]
fn chromium_with_grease_and_a_hybrid_share() {
    let said = said("chromium"); // chromium --headless https://chromium.example/
    assert_eq!(said.name.as_deref(), Some("chromium.example"));
    assert_eq!(said.versions, (0x0303, 0x0304, vec![0xbaba, 0x0304, 0x0303]));
    assert_eq!(said.suites[..4], [0xbaba, 0x1301, 0x1302, 0x1303]);
    assert_eq!(said.groups.0, [0x1a1a, 0x11ec, 0x001d, 0x0017, 0x0018]);
    assert_eq!(said.groups.1, [0x1a1a, 0x11ec, 0x001d]);
    assert_eq!(said.alpn, [&b"h2"[..], b"http/1.1"]);
}

#[test]
fn rustls_whole_and_in_six_records() {
    // rustls 0.23, default versions; max_fragment_size 256; TLS 1.2 alone
    let whole = said("rustls");
    assert_eq!(whole.groups, (vec![0x11ec, 0x001d, 0x0017, 0x0018], vec![0x11ec, 0x001d]));
    assert_eq!(whole.versions.2, [0x0304, 0x0303]);
    let fragmented = said("rustls-fragmented");
    assert_eq!(fragmented.name, whole.name);
    assert_eq!(fragmented.groups, whole.groups);
    assert_eq!(fragmented.body.len(), whole.body.len());
    let records = 1 + (bytes("rustls-fragmented").len() - bytes("rustls").len()) / 5;
    assert_eq!(records, 6);
    assert_eq!(said("rustls-tls12").versions, (0x0303, 0x0303, vec![0x0303]));
}

#[test]
fn every_prefix_is_incomplete() {
    for (name, bytes) in CAPTURED {
        let wire_bytes = match read(bytes) {
            Ok(HelloProgress::Hello(hello)) => hello.wire_bytes(),
            other => {
                assert!(matches!(other, Err(HelloFault::VersionTooOld { .. })), "{name}");
                bytes.len()
            }
        };
        for cut in 0..wire_bytes {
            let prefix = read(&bytes[..cut]);
            assert!(matches!(prefix, Ok(HelloProgress::Incomplete)), "{name} at {cut}: {prefix:?}");
        }
    }
}
