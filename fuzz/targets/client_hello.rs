//! Any bytes as a connection's first: no panic, and the same result for every cut.
#![no_main]

use fuzz::cut_of;
use libfuzzer_sys::fuzz_target;
use wire::client_hello::{ClientHello, HelloFault, HelloProgress, read};

fuzz_target!(|bytes: &[u8]| {
    let whole = read(bytes);
    let cut = cut_of(bytes);
    check_prefix(read(&bytes[..cut]), &whole);
    if let Ok(HelloProgress::Hello(hello)) = whole {
        assert!(hello.wire_bytes() <= bytes.len());
        ask_everything(&hello);
        check_cut_in_two(&hello, cut);
    }
});

fn check_prefix(
    prefix: Result<HelloProgress<'_>, HelloFault>,
    whole: &Result<HelloProgress<'_>, HelloFault>,
) {
    match (prefix, whole) {
        (Ok(HelloProgress::Incomplete), _) => {}
        (Ok(HelloProgress::Hello(hello)), Ok(HelloProgress::Hello(same))) => {
            assert_eq!(hello.body(), same.body())
        }
        (Err(fault), Err(same)) => assert_eq!(fault, *same),
        (prefix, whole) => panic!("{prefix:?} became {whole:?}"),
    }
}

fn ask_everything(hello: &ClientHello<'_>) {
    assert!(matches!(hello.highest_version(), 0x0303 | 0x0304));
    assert!(hello.cipher_suites().count() > 0);
    assert!(hello.session_id().len() <= 32);
    assert!(hello.server_name().is_none_or(|name| (1..=253).contains(&name.len())));
    assert!(hello.alpn_protocols().all(|protocol| !protocol.is_empty()));
    assert!(hello.psk_identities().all(|identity| !identity.is_empty()));
    let numbers = [
        hello.supported_versions().count(),
        hello.supported_groups().count(),
        hello.key_share_groups().count(),
        hello.signature_algorithms().count(),
        hello.signature_algorithms_cert().count(),
        hello.session_ticket().map_or(0, <[u8]>::len),
    ];
    assert!(numbers.iter().sum::<usize>() <= hello.body().len());
}

/// Checks that a message in two records parses as in one.
fn check_cut_in_two(hello: &ClientHello<'_>, cut: usize) {
    let length = u32::try_from(hello.body().len()).expect("a hello is at most 16 KiB");
    let mut message = length.to_be_bytes().to_vec();
    message[0] = 1;
    message.extend(hello.body());
    let (head, tail) = message.split_at(1 + cut % (message.len() - 1));
    let wire: Vec<u8> = [head, tail].into_iter().flat_map(record).collect();
    match read(&wire) {
        Ok(HelloProgress::Hello(joined)) => {
            assert_eq!(joined.body(), hello.body());
            assert_eq!(joined.wire_bytes(), wire.len());
        }
        other => panic!("cut in two it is {other:?}"),
    }
}

fn record(fragment: &[u8]) -> Vec<u8> {
    let length = u16::try_from(fragment.len()).expect("half a hello is below 16 KiB");
    [&[22, 3, 3], &length.to_be_bytes()[..], fragment].concat()
}
