//! Any bytes as the encrypted part of any hello, as a list of configurations, as a server's first
//! bytes, and as the name of a key in a token: no panic, and the same result for every cut.
#![no_main]

use fuzz::cut_of;
use libfuzzer_sys::fuzz_target;
use wire::client_hello::{HelloProgress, read};
use wire::ech::{
    EchConfig, EchOffer, RecordGate, RetryWatch, ServerAnswer, config_list, inner_records, offer,
};
use wire::pkcs11_uri::Pkcs11Uri;

fuzz_target!(|bytes: &[u8]| {
    let cut = cut_of(bytes);
    if let Some(configs) = EchConfig::read_list(bytes) {
        assert_eq!(EchConfig::read_list(&config_list(&configs)), Some(configs));
    }
    if let Ok(text) = str::from_utf8(bytes) {
        let _ = Pkcs11Uri::parse(text);
    }
    let (mut whole, mut pieces) = (RetryWatch::default(), RetryWatch::default());
    let in_pieces = match pieces.take(&bytes[..cut]) {
        ServerAnswer::Incomplete => pieces.take(&bytes[cut..]),
        answer => answer,
    };
    assert_eq!(in_pieces, whole.take(bytes));
    let (mut whole, mut pieces) = (RecordGate::default(), RecordGate::default());
    let passed = whole.pass(bytes, true);
    let first = pieces.pass(&bytes[..cut], true);
    assert!(first <= cut && passed >= first);
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let Some((encoded, hello)) = rest.split_at_checked(u16::from_be_bytes(*length).into()) else {
        return;
    };
    let Ok(HelloProgress::Hello(outer)) = read(hello) else { return };
    if let EchOffer::Outer(outer_hello) = offer(&outer) {
        assert_eq!(outer_hello.additional_data().len(), outer.body().len());
    }
    if let Ok(records) = inner_records(&outer, encoded) {
        let Ok(HelloProgress::Hello(inner)) = read(&records) else {
            panic!("an inner hello is whole");
        };
        assert_eq!(offer(&inner), EchOffer::Inner);
        assert_eq!(inner.session_id(), outer.session_id());
    }
});
