//! Clients that break a rule after the handshake, by records made by hand.

use flow::options::SendProxy;
use telemetry::outcome::Reason;
use testkit::raw_client::{ALERT, APPLICATION_DATA, HANDSHAKE, KEY_UPDATES, RawClient, framed};
use tls::options::RecordLayer;
use wire::alert;

use super::Talk;
use crate::simulation::Stage;

const SUITES: [u16; 6] = [0x1301, 0x1302, 0x1303, 0xc02b, 0xc02c, 0xcca9];

type Records = fn(&mut RawClient) -> Vec<u8>;

/// For TLS 1.3: rule, records, alert.
const CASES_13: &[(&str, Records, u8)] = &[
    (
        "8446 4.6.3",
        |client| client.seal(HANDSHAKE, &[24, 0, 0, 1, 2], 0),
        ILLEGAL,
    ),
    (
        "8446 4.6.3",
        |client| client.seal(HANDSHAKE, &[24, 0, 0, 1, 255], 0),
        ILLEGAL,
    ),
    (
        "8446 5.1",
        |client| client.seal(HANDSHAKE, &KEY_UPDATES.concat(), 0),
        UNEXPECTED,
    ),
    ("8446 5.1", interrupted_update, UNEXPECTED),
    (
        "8446 6",
        |client| client.seal(HANDSHAKE, &[24, 0, 0, 0], 0),
        alert::DECODE_ERROR,
    ),
    (
        "8446 6",
        |client| client.seal(HANDSHAKE, &[24, 0, 0, 2, 0, 0], 0),
        alert::DECODE_ERROR,
    ),
    (
        "8446 4.6",
        |client| client.seal(HANDSHAKE, &[20, 0, 0, 1, 0], 0),
        UNEXPECTED,
    ),
    ("8446 5.4", |client| client.seal_inner(&[0; 20]), UNEXPECTED),
    (
        "8446 5.2",
        |_| framed(APPLICATION_DATA, &[7; 16_641])[..5].to_vec(),
        OVERFLOW,
    ),
    (
        "8446 5.4",
        |client| client.seal(APPLICATION_DATA, &[7; 16_300], 200),
        OVERFLOW,
    ),
];

/// For each version.
const CASES: &[(&str, Records, u8)] = &[
    (
        "8446 5.4, 5246 6.2.1",
        |client| client.seal(ALERT, &[], 0),
        UNEXPECTED,
    ),
    (
        "8446 5.1",
        |client| client.seal(ALERT, &[1, 90, 1], 0),
        alert::DECODE_ERROR,
    ),
    (
        "8446 5.2, 5246 7.2.2",
        |_| framed(APPLICATION_DATA, &[7; 15]),
        alert::BAD_RECORD_MAC,
    ),
    (
        "8446 5.2, 5246 7.2.2",
        |_| framed(APPLICATION_DATA, &[]),
        alert::BAD_RECORD_MAC,
    ),
    (
        "8446 5.2, 5246 7.2.2",
        |_| framed(APPLICATION_DATA, &[7; 60]),
        alert::BAD_RECORD_MAC,
    ),
    (
        "5246 6.2.3",
        |_| framed(APPLICATION_DATA, &[7; 18_433])[..5].to_vec(),
        OVERFLOW,
    ),
    ("5246 7.2.2", warnings, ANY),
];

const ILLEGAL: u8 = alert::ILLEGAL_PARAMETER;
const OVERFLOW: u8 = alert::RECORD_OVERFLOW;
const UNEXPECTED: u8 = alert::UNEXPECTED_MESSAGE;
/// The RFC leaves which one.
const ANY: u8 = 255;

fn interrupted_update(client: &mut RawClient) -> Vec<u8> {
    let head = client.seal(HANDSHAKE, &KEY_UPDATES[0][..4], 0);
    let data = client.seal(APPLICATION_DATA, b"data", 0);
    let tail = client.seal(HANDSHAKE, &KEY_UPDATES[0][4..], 0);
    [head, data, tail].concat()
}

fn warnings(client: &mut RawClient) -> Vec<u8> {
    (0..6)
        .flat_map(|_| client.seal(ALERT, &[1, 90], 0))
        .collect()
}

/// A connection after its handshake.
fn established(stage: &Stage, suite: u16) -> (Talk, RawClient) {
    let choice = stage.choice(suite >> 8 == 0x13, &[suite]);
    let mut talk = Talk::with(stage, &choice, u64::from(suite));
    let client = RawClient::connect(&choice, "localhost", |wire| {
        talk.say(wire);
        std::mem::take(&mut talk.heard)
    });
    (talk, client)
}

/// What the client hears of these records: types and contents.
fn answer(talk: &mut Talk, client: &mut RawClient, records: &[u8]) -> Vec<(u8, Vec<u8>)> {
    talk.say(records);
    let answer = std::mem::take(&mut talk.heard);
    client.open(&answer)
}

#[test]
fn what_breaks_a_connection_is_answered_with_the_alert_that_the_rfc_names() {
    let stage = Stage::new(SendProxy::Off);
    for suite in SUITES {
        let of_version = if suite >> 8 == 0x13 { CASES_13 } else { &[] };
        for (number, (rule, records, wanted)) in of_version.iter().chain(CASES).enumerate() {
            let (mut talk, mut client) = established(&stage, suite);
            let records = records(&mut client);
            let heard = answer(&mut talk, &mut client, &records);
            let place = format!("{suite:#x}, case {number}, {rule}: {}", talk.detail());
            let Some((ALERT, last)) = heard.last() else {
                panic!("{place}: no alert, {heard:?}");
            };
            let &[2, description] = &last[..] else {
                panic!("{place}: no fatal alert, {last:?}");
            };
            assert!(*wanted == ANY || *wanted == description, "{place}");
            let named = format!("; answered with alert {}", alert::label(description));
            assert!(talk.detail().ends_with(&named), "{place}");
        }
    }
}

/// RFC 8446 section 5.1: a message may be spread over records.
#[test]
fn a_key_update_in_fragments_is_one() {
    let stage = Stage::new(SendProxy::Off);
    for suite in &SUITES[..3] {
        for wants_reply in [0, 1] {
            let (mut talk, mut client) = established(&stage, *suite);
            for round in 0..3 {
                let update = KEY_UPDATES[wants_reply];
                let records: Vec<u8> = update
                    .chunks(1 + round)
                    .flat_map(|part| client.seal(HANDSHAKE, part, round))
                    .collect();
                client.change_sealing_key();
                let data = client.seal(APPLICATION_DATA, b"data", 0);
                let heard = answer(&mut talk, &mut client, &[records, data].concat());
                let reply = (HANDSHAKE, KEY_UPDATES[0].to_vec());
                assert_eq!(heard, vec![reply; wants_reply], "{suite:#x}");
            }
            assert_eq!(talk.run.flow.facts().bytes_up, 12);
            assert_eq!(talk.reason(), None);
        }
    }
}

/// RFC 8446 section 6: the level says nothing.
#[test]
fn close_notify_ends_the_stream_at_any_level() {
    let stage = Stage::new(SendProxy::Off);
    for suite in SUITES {
        // The library's layer refuses levels that it does not know.
        let levels = match crate::RECORD_LAYER {
            RecordLayer::InPlace => &[0, 1, 2, 77, 255][..],
            RecordLayer::Library => &[1, 2],
        };
        for level in levels {
            let (mut talk, mut client) = established(&stage, suite);
            let close = client.seal(ALERT, &[*level, 0], 0);
            assert_eq!(answer(&mut talk, &mut client, &close), []);
            assert_eq!(
                talk.reason(),
                Some(Reason::ClientClosed),
                "{suite:#x} {level}"
            );
        }
    }
}

#[test]
fn an_alert_of_the_clients_is_named() {
    let stage = Stage::new(SendProxy::Off);
    for suite in SUITES {
        let (mut talk, mut client) = established(&stage, suite);
        let gone = client.seal(ALERT, &[2, alert::BAD_CERTIFICATE], 0);
        assert_eq!(answer(&mut talk, &mut client, &gone), []);
        assert_eq!(talk.reason(), Some(Reason::ClientAlert));
        assert_eq!(talk.detail(), "the client sent alert bad_certificate");
    }
}
