//! Hellos and configurations of ECH, valid and hostile.

use super::*;
use crate::client_hello::{self, HelloProgress};

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vector16(data)].concat()
}

fn body(session_id: &[u8], random: u8, extensions: &[Vec<u8>]) -> Vec<u8> {
    let id = [&[session_id.len() as u8][..], session_id].concat();
    let head = [&[3, 3][..], &[random; 32], &id, &[0, 2, 0x13, 1, 1, 0]].concat();
    [&head[..], &vector16(&extensions.concat())].concat()
}

fn name(host: &str) -> Vec<u8> {
    let entry = [&[0][..], &vector16(host.as_bytes())].concat();
    extension(0, &vector16(&entry))
}

fn versions(all: &[u16]) -> Vec<u8> {
    let list: Vec<u8> = all.iter().flat_map(|one| one.to_be_bytes()).collect();
    extension(SUPPORTED_VERSIONS, &[&[list.len() as u8][..], &list].concat())
}

fn references(kinds: &[u16]) -> Vec<u8> {
    let list: Vec<u8> = kinds.iter().flat_map(|one| one.to_be_bytes()).collect();
    extension(ECH_OUTER_EXTENSIONS, &[&[list.len() as u8][..], &list].concat())
}

fn mark() -> Vec<u8> {
    extension(ENCRYPTED_CLIENT_HELLO, &[INNER])
}

/// Makes the extension of an outer hello, with this payload.
fn sealed(payload: &[u8]) -> Vec<u8> {
    let head = [0, 0, 1, 0, 1, 9];
    extension(
        ENCRYPTED_CLIENT_HELLO,
        &[&head[..], &vector16(&[5; 32]), &vector16(payload)].concat(),
    )
}

fn groups() -> Vec<u8> {
    extension(10, &[0, 2, 0, 29])
}

fn alpn() -> Vec<u8> {
    extension(16, &[0, 3, 2, b'h', b'2'])
}

/// Makes the outer extensions of all tests: name, versions, groups, ALPN, one of 200 bytes.
fn outer_extensions() -> Vec<Vec<u8>> {
    let long = extension(0x1234, &[7; 200]);
    vec![name("front.example"), versions(&[0x0304]), groups(), alpn(), long, sealed(&[8; 300])]
}

fn with_hello<T>(records: &[u8], then: impl FnOnce(&ClientHello<'_>) -> T) -> T {
    match client_hello::read(records) {
        Ok(HelloProgress::Hello(hello)) => then(&hello),
        other => panic!("no hello: {other:?}"),
    }
}

fn opened(encoded: &[u8]) -> Result<Vec<u8>, InnerFault> {
    let outer = records_of(&body(&[6; 32], 1, &outer_extensions()));
    let inner = with_hello(&outer, |hello| inner_records(hello, encoded))?;
    assert!(inner.len() <= outer.len(), "an inner hello is no longer than its outer one");
    Ok(inner)
}

#[test]
fn references_are_replaced_in_their_place_and_padding_goes() {
    let inner = [name("a.example"), mark(), references(&[43, 10, 0x1234]), alpn()];
    let encoded = [&body(&[], 2, &inner)[..], &[0; 77]].concat();
    let whole = [name("a.example"), mark(), versions(&[0x0304]), groups()];
    let whole = [&whole[..], &[extension(0x1234, &[7; 200]), alpn()]].concat();
    assert_eq!(opened(&encoded), Ok(records_of(&body(&[6; 32], 2, &whole))));
}

#[test]
fn hostile_inner_hellos_are_refused() {
    let versions13 = || versions(&[0x1a1a, 0x0304]);
    let long: Vec<u16> = (0..127).map(|_| 0x1234).collect();
    for (extensions, detail) in [
        (vec![mark(), references(&[0xfd00]), versions13()], "refers to ECH itself"),
        (vec![mark(), references(&[0xfe0d]), versions13()], "refers to ECH itself"),
        (vec![references(&[0xfe0d]), versions13()], "refers to ECH itself"),
        (vec![mark(), references(&[43]), references(&[10])], "ech_outer_extensions twice"),
        (vec![mark(), references(&[10, 43])], "not in order"),
        (vec![mark(), references(&[43, 43])], "not in order"),
        (vec![mark(), versions13(), references(&long)], "not in order"),
        (vec![mark(), references(&[43, 0x4321])], "not there"),
        (vec![mark(), references(&[]), versions13()], "wrongly encoded: ech_outer"),
        (vec![mark(), extension(0xfd00, &[3, 0, 43, 0])], "wrongly encoded: ech_outer"),
        (vec![mark(), extension(0xfd00, &[2, 0, 43, 0])], "wrongly encoded: ech_outer"),
        (vec![versions13()], "without the mark"),
        (vec![versions13(), sealed(&[1; 9])], "without the mark"),
        (vec![versions13(), extension(0xfe0d, &[1, 0])], "without the mark"),
        (vec![mark()], "for TLS 1.2"),
        (vec![mark(), versions(&[0x0303])], "for TLS 1.2"),
        (vec![mark(), versions(&[0x0304, 0x0303])], "for TLS 1.2"),
        (vec![mark(), versions13(), versions13()], "two extensions of one type"),
        (vec![mark(), versions13(), references(&[43])], "two extensions of one type"),
        (vec![mark(), mark(), versions13()], "two extensions of one type"),
    ] {
        let fault = opened(&body(&[], 2, &extensions)).expect_err(detail);
        assert!(fault.to_string().contains(detail), "{fault} is not: {detail}");
    }
    let good = body(&[], 2, &[mark(), versions13()]);
    assert!(opened(&good).is_ok());
    let padded = |padding: &[u8]| opened(&[&good[..], padding].concat());
    assert!(padded(&[0; 400]).is_ok());
    assert_eq!(padded(&[0, 0, 1]), Err(InnerFault::Illegal("padding that is not zero")));
    let own_id = body(&[1; 32], 2, &[mark(), versions13()]);
    assert_eq!(opened(&own_id), Err(InnerFault::Illegal("legacy_session_id of its own")));
    for end in 0..good.len() {
        assert!(opened(&good[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn the_payload_alone_is_zero_in_the_additional_data() {
    let plain = body(&[6; 32], 1, &outer_extensions());
    let zeroed = body(&[6; 32], 1, &[&outer_extensions()[..5], &[sealed(&[0; 300])]].concat());
    with_hello(&records_of(&plain), |hello| {
        let EchOffer::Outer(outer) = offer(hello) else { panic!("no offer") };
        assert_eq!((outer.kdf, outer.aead, outer.config_id), (1, 1, 9));
        assert_eq!((outer.key, outer.payload), (&[5; 32][..], &[8; 300][..]));
        assert_eq!(outer.additional_data(), zeroed);
    });
}

#[test]
fn offers_are_told_apart() {
    let cut = |bytes: usize| {
        let whole = sealed(&[1; 9]);
        extension(ENCRYPTED_CLIENT_HELLO, &whole[4..whole.len() - bytes])
    };
    for (ech, expected) in [
        (groups(), EchOffer::Absent),
        (mark(), EchOffer::Inner),
        (cut(1), EchOffer::Malformed),
        (extension(ENCRYPTED_CLIENT_HELLO, &[]), EchOffer::Malformed),
        (extension(ENCRYPTED_CLIENT_HELLO, &[2]), EchOffer::Malformed),
        (sealed(&[]), EchOffer::Malformed),
    ] {
        let records = records_of(&body(&[], 1, &[versions(&[0x0304]), ech]));
        with_hello(&records, |hello| assert_eq!(offer(hello), expected));
    }
}

#[test]
fn configurations_are_read_as_they_are_written_and_others_passed_over() {
    let ours = EchConfig::new(7, "front.example", [3; 32]);
    let second = EchConfig::new(8, "front.example", [4; 32]);
    let other = [&[0xfe, 0x0a][..], &vector16(&[1, 2, 3])].concat();
    let mut mandatory = ours.bytes.clone();
    let end = mandatory.len() - 2;
    mandatory.splice(end.., [0, 4, 0x80, 0, 0, 0]);
    mandatory[3] += 4;
    let list = [&ours.bytes[..], &other, &mandatory, &second.bytes].concat();
    let read = EchConfig::read_list(&vector16(&list));
    assert_eq!(read, Some(vec![ours.clone(), second.clone()]));
    let list = config_list([&ours, &second]);
    assert_eq!(EchConfig::read_list(&list), Some(vec![ours, second]));
    for end in 0..list.len() {
        assert_eq!(EchConfig::read_list(&list[..end]), None);
    }
}

#[test]
fn a_retry_is_seen_however_it_is_cut() {
    let message =
        |kind: u8, random: &[u8]| [&[kind, 0, 0, 90, 3, 3][..], random, &[0; 54]].concat();
    let record = |part: &[u8]| [&[22, 3, 3, 0, part.len() as u8][..], part].concat();
    for (message, expected) in [
        (message(2, &RETRY_RANDOM), ServerAnswer::Retry),
        (message(2, &[1; 32]), ServerAnswer::Other),
        (message(1, &RETRY_RANDOM), ServerAnswer::Other),
    ] {
        for size in [1, 7, 96] {
            let records: Vec<u8> = message.chunks(size).flat_map(record).collect();
            let mut watch = RetryWatch::default();
            let mut answers = records.chunks(1).map(|byte| watch.take(byte));
            let first = answers.find(|answer| *answer != ServerAnswer::Incomplete);
            assert_eq!(first, Some(expected));
            assert_eq!(RetryWatch::default().take(&records), expected);
        }
    }
    assert_eq!(RetryWatch::default().take(&[21, 3, 3, 0, 2]), ServerAnswer::Other);
}

#[test]
fn a_gate_lets_early_records_through_and_stops_at_the_handshake() {
    let early = [&[20, 3, 3, 0, 1, 1][..], &[23, 3, 3, 0, 5, 22, 22, 22, 22, 22]].concat();
    let all = [&early[..], &[22, 3, 3, 0, 1, 1]].concat();
    for step in 1..all.len() {
        let (mut gate, mut passed, mut there) = (RecordGate::default(), 0, 0);
        while there < all.len() {
            there = (there + step).min(all.len());
            passed += gate.pass(&all[passed..there], true);
        }
        assert_eq!(passed, early.len(), "in steps of {step}");
    }
    let mut gate = RecordGate::default();
    assert_eq!(gate.pass(&all[..all.len() - 3], false), early.len());
    assert_eq!(gate.pass(&all[early.len()..], false), 6);
}
