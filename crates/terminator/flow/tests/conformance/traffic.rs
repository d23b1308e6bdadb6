//! Hand-made records of clients that break a rule after the handshake.

use flow::options::SendProxy;
use telemetry::outcome::Reason;
use testkit::raw_client::{ALERT, APPLICATION_DATA, HANDSHAKE, KEY_UPDATES, RawClient, framed};
use wire::alert;

use super::{Talk, hex};
use crate::simulation::Stage;

const SUITES: [u16; 6] = [0x1301, 0x1302, 0x1303, 0xc02b, 0xc02c, 0xcca9];

type Records = fn(&mut RawClient) -> Vec<u8>;

/// Single records for TLS 1.3: rule, type, content, alert.
const CONTENTS_13: &[(&str, u8, &str, u8)] = &[
    ("8446 4.6.3", HANDSHAKE, "18000001 02", ILLEGAL),
    ("8446 4.6.3", HANDSHAKE, "18000001 ff", ILLEGAL),
    ("8446 5.1", HANDSHAKE, "18000001 00 18000001 01", UNEXPECTED),
    ("8446 6", HANDSHAKE, "18000000", alert::DECODE_ERROR),
    ("8446 6", HANDSHAKE, "18000002 0000", alert::DECODE_ERROR),
    ("8446 4.6", HANDSHAKE, "14000001 00", UNEXPECTED),
];

/// Single records for both versions.
const CONTENTS: &[(&str, u8, &str, u8)] = &[
    ("8446 5.4, 5246 6.2.1", ALERT, "", UNEXPECTED),
    ("8446 5.1", ALERT, "01 5a 01", alert::DECODE_ERROR),
];

/// Records for TLS 1.3: rule, records, alert.
const RECORDS_13: &[(&str, Records, u8)] = &[
    ("8446 5.1", interrupted_update, UNEXPECTED),
    ("8446 5.4", |client| client.seal_inner(&[0; 20]), UNEXPECTED),
    ("8446 5.2", |_| head_of_data(16_641), OVERFLOW),
    ("8446 5.4", too_much_padding, OVERFLOW),
];

const RECORDS: &[(&str, Records, u8)] = &[
    ("8446 5.2, 5246 7.2.2", |_| data(15), alert::BAD_RECORD_MAC),
    ("8446 5.2, 5246 7.2.2", |_| data(0), alert::BAD_RECORD_MAC),
    ("8446 5.2, 5246 7.2.2", |_| data(60), alert::BAD_RECORD_MAC),
    ("5246 6.2.3", |_| head_of_data(18_433), OVERFLOW),
    ("5246 7.2.2", warnings, ANY),
];

const ILLEGAL: u8 = alert::ILLEGAL_PARAMETER;
const OVERFLOW: u8 = alert::RECORD_OVERFLOW;
const UNEXPECTED: u8 = alert::UNEXPECTED_MESSAGE;
/// The RFC does not name the alert.
const ANY: u8 = 255;

fn data(bytes: usize) -> Vec<u8> {
    framed(APPLICATION_DATA, &vec![7; bytes])
}

fn head_of_data(bytes: usize) -> Vec<u8> {
    data(bytes)[..5].to_vec()
}

fn too_much_padding(client: &mut RawClient) -> Vec<u8> {
    client.seal(APPLICATION_DATA, &[7; 16_300], 200)
}

fn interrupted_update(client: &mut RawClient) -> Vec<u8> {
    let head = client.seal(HANDSHAKE, &KEY_UPDATES[0][..4], 0);
    let data = client.seal(APPLICATION_DATA, b"data", 0);
    let tail = client.seal(HANDSHAKE, &KEY_UPDATES[0][4..], 0);
    [head, data, tail].concat()
}

fn warnings(client: &mut RawClient) -> Vec<u8> {
    (0..6).flat_map(|_| client.seal(ALERT, &[1, 90], 0)).collect()
}

/// Makes a connection after its handshake.
fn established(stage: &Stage, suite: u16) -> (Talk, RawClient) {
    let choice = stage.choice(suite >> 8 == 0x13, &[suite]);
    let mut talk = Talk::with(stage, &choice, u64::from(suite));
    let client = RawClient::connect(&choice, "localhost", |wire| {
        talk.say(wire);
        std::mem::take(&mut talk.heard)
    });
    (talk, client)
}

/// Returns types and contents of the records that answer these records.
fn answer(talk: &mut Talk, client: &mut RawClient, records: &[u8]) -> Vec<(u8, Vec<u8>)> {
    talk.say(records);
    let answer = std::mem::take(&mut talk.heard);
    client.open(&answer)
}

#[test]
fn what_breaks_a_connection_is_answered_with_the_alert_that_the_rfc_names() {
    let stage = Stage::new(SendProxy::Off);
    let check = |suite, rule: &str, records: &dyn Fn(&mut RawClient) -> Vec<u8>, wanted| {
        let (mut talk, mut client) = established(&stage, suite);
        let records = records(&mut client);
        let heard = answer(&mut talk, &mut client, &records);
        let place = format!("{suite:#x}, {rule}: {}", talk.detail());
        let Some((ALERT, last)) = heard.last() else {
            panic!("{place}: no alert, {heard:?}");
        };
        let &[2, description] = &last[..] else {
            panic!("{place}: no fatal alert, {last:?}");
        };
        assert!(wanted == ANY || wanted == description, "{place}");
        let named = format!("; answered with alert {}", alert::label(description));
        assert!(talk.detail().ends_with(&named), "{place}");
    };
    for suite in SUITES {
        let (contents, records) =
            if suite >> 8 == 0x13 { (CONTENTS_13, RECORDS_13) } else { (&[][..], &[][..]) };
        for (rule, kind, content, wanted) in contents.iter().chain(CONTENTS) {
            let records = |client: &mut RawClient| client.seal(*kind, &hex(content), 0);
            check(suite, rule, &records, *wanted);
        }
        for (rule, records, wanted) in records.iter().chain(RECORDS) {
            check(suite, rule, records, *wanted);
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

/// RFC 8446 section 6: the level has no meaning.
#[test]
fn close_notify_ends_the_stream_at_any_level() {
    let stage = Stage::new(SendProxy::Off);
    for suite in SUITES {
        for level in [0, 1, 2, 77, 255] {
            let (mut talk, mut client) = established(&stage, suite);
            let close = client.seal(ALERT, &[level, 0], 0);
            assert_eq!(answer(&mut talk, &mut client, &close), []);
            assert_eq!(talk.reason(), Some(Reason::ClientClosed), "{suite:#x} {level}");
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
