//! Any bytes as a value from the session store: no panic, a parsed value is written alike, and only
//! values sealed here open.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tls::resumption::cluster::StoreCipher;
use tls::resumption::keys::SharedSecret;
use tls::resumption::{OfferedSession, SessionKey};
use wire::store::{HEADER_BYTES, Header};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = Header::read(bytes) {
        assert_eq!(header.to_bytes(), bytes[..HEADER_BYTES]);
    }
    let secret = SharedSecret::read("s", vec![7; 32]).expect("32 bytes are a secret");
    let cipher = StoreCipher::new(&[secret]);
    let key = SessionKey::new(&[1; 32]).expect("32 bytes are a key");
    let name = cipher.names(&OfferedSession { key, once: true })[0];
    let value = cipher.seal(&name, bytes, 2);
    let opened = cipher.open(&name, value.clone(), 1);
    // The longest value is 64 KiB.
    assert!(opened.is_err() || opened.is_ok_and(|(entry, _)| *entry == bytes));
    assert!(cipher.open(&name, bytes.to_vec(), 1).is_err());
    // A seed has Lariat's header: the rest of it decides.
    let mut changed = value;
    if let Some(first) = bytes.first() {
        let place = usize::from(*first) % changed.len();
        changed[place] ^= 1;
        assert!(cipher.open(&name, changed, 1).is_err());
    }
});
