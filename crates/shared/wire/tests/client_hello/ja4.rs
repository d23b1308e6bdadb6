//! JA4 fingerprints, those that FoxIO publishes first.

use crate::build::Build;
use crate::hello;

/// Lists of FoxIO's example, and the first bytes of their SHA-256.
const HASHES: [(&str, [u8; 6]); 2] = [
    (
        "002f,0035,009c,009d,1301,1302,1303,c013,c014,c02b,c02c,c02f,c030,cca8,cca9",
        [0x8d, 0xaa, 0xf6, 0x15, 0x27, 0x71],
    ),
    (
        "0005,000a,000b,000d,0012,0015,0017,001b,0023,002b,002d,0033,4469,ff01_\
         0403,0804,0401,0503,0805,0501,0806,0601",
        [0xe5, 0x62, 0x7e, 0xfa, 0x2a, 0xb1],
    ),
];

fn hash(list: &[u8]) -> [u8; 32] {
    let known = HASHES.iter().find(|(text, _)| text.as_bytes() == list);
    let mut hash = [0; 32];
    let (_, start) = known.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(list)));
    hash[..6].copy_from_slice(start);
    hash
}

/// Makes an extension's list of numbers, behind its length.
fn list(numbers: &[u16]) -> Vec<u8> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|one| one.to_be_bytes()).collect();
    [&u16::try_from(bytes.len()).expect("short lists").to_be_bytes()[..], &bytes].concat()
}

#[test]
fn the_published_fingerprint_of_chrome() {
    let empty = [0x12, 0x15, 0x17, 0x1b, 0x2d, 0x4469, 0x05, 0x0b, 0x23].map(|kind| (kind, vec![]));
    let mut extensions = vec![
        (0x2a2a, vec![]),
        (0x00, b"\0\x0e\0\0\x0bexample.com".to_vec()),
        (0x10, b"\0\x0c\x02h2\x08http/1.1".to_vec()),
        (0x0d, list(&[0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601])),
        (0x2b, b"\x06\x1a\x1a\x03\x04\x03\x03".to_vec()),
        (0x0a, list(&[0x4a4a, 0x1d])),
        (0x33, vec![0, 5, 0, 0x1d, 0, 1, 1]),
        (0xff01, vec![0]),
        (0x3a3a, vec![0]),
    ];
    extensions.extend(empty);
    let suites = [
        0x1a1a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013,
        0xc014, 0x9c, 0x9d, 0x2f, 0x35,
    ];
    let mut build = Build { suites: suites.to_vec(), extensions, ..Build::default() };
    let published = "t13d1516h2_8daaf6152771_e5627efa2ab1";
    assert_eq!(hello(&build.wire()).ja4(hash), published);
    // Neither order nor GREASE matters.
    build.suites.reverse();
    build.extensions.reverse();
    build.suites.pop();
    assert_eq!(hello(&build.wire()).ja4(hash), published);
}

#[test]
fn a_hello_without_anything() {
    let bare = Build { suites: vec![0x0a0a], ..Build::default() };
    let none = |_: &[u8]| panic!("there is nothing to hash");
    assert_eq!(hello(&bare.wire()).ja4(none), "t12i000000_000000000000_000000000000");
    let odd = Build { suites: vec![0x0a0a], ..Build::with(&[(0x10, b"\0\x03\x02\xab\xcd")]) };
    assert!(hello(&odd.wire()).ja4(none).starts_with("t12i0001ad_"));
}
