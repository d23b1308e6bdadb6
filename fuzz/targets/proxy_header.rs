//! Any bytes as a PROXY header: no panic, the same result for every cut, and a parsed header can be
//! written and read again.
#![no_main]

use fuzz::cut_of;
use libfuzzer_sys::fuzz_target;
use wire::proxy_header::{
    Addresses, Header, HeaderGuess, HeaderV2, kind, likeness, read, write_v1,
};

fuzz_target!(|bytes: &[u8]| {
    let whole = read(bytes);
    let prefix = read(&bytes[..cut_of(bytes)]);
    if prefix != Ok(None) {
        assert_eq!(prefix, whole);
    }
    if let Ok(Some(parsed)) = whole {
        assert!(parsed.wire_bytes <= bytes.len());
        assert_eq!(likeness(bytes), HeaderGuess::Yes);
        check_rewritten(&parsed.header);
    }
});

fn check_rewritten(header: &Header<'_>) {
    let others: Vec<(u8, &[u8])> = header
        .tlvs
        .iter()
        .filter(|tlv| tlv.kind != kind::CRC32C)
        .map(|tlv| (tlv.kind, tlv.value))
        .collect();
    let again = HeaderV2 {
        command: header.command,
        addresses: header.addresses,
        others: &others,
        checksum: true,
        ..HeaderV2::default()
    };
    let mut wire = Vec::new();
    assert_eq!(again.write(&mut wire), Ok(()));
    let Ok(Some(parsed)) = read(&wire) else {
        // The checksum may have made the header longer than the parser's limit.
        assert!(wire.len() > wire::proxy_header::HEADER_BYTES_MAX);
        return;
    };
    assert_eq!(parsed.header.addresses, header.addresses);
    assert_eq!(parsed.header.tlvs.authority(), header.tlvs.authority());
    assert_eq!(parsed.header.tlvs.ssl(), header.tlvs.ssl());
    check_in_text(&header.addresses);
}

fn check_in_text(addresses: &Addresses<'_>) {
    let mut line = Vec::new();
    write_v1(addresses, &mut line);
    let parsed = read(&line).expect("a line we wrote").expect("a whole line");
    assert_eq!(parsed.wire_bytes, line.len());
    assert_eq!(parsed.header.addresses.source(), addresses.source());
    assert_eq!(parsed.header.addresses.destination(), addresses.destination());
}
