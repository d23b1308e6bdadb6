//! Any bytes as a datagram of a cluster's peers: no panic, and a parsed message is written alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::cluster::{BODY_BYTES_MAX, HEADER_BYTES, Header, Message};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = Header::read(bytes) {
        assert_eq!(header.to_bytes(), bytes[..HEADER_BYTES]);
    }
    // The body behind a header is parsed after decryption.
    let body = bytes.get(HEADER_BYTES..).unwrap_or(bytes);
    let Ok(messages) = Message::read_all(body) else { return };
    assert_eq!(messages.iter().map(Message::bytes).sum::<usize>(), body.len());
    let mut written = Vec::new();
    for message in &messages {
        let is_written = message.write(&mut written);
        assert!(is_written || message.bytes() > BODY_BYTES_MAX);
        if !is_written {
            return;
        }
    }
    assert_eq!(written, body);
});
