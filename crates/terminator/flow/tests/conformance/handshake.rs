//! Clients that break a rule after their hello and before the handshake's end.

use flow::options::SendProxy;
use telemetry::outcome::Reason;
use testkit::client::ClientChoice;
use testkit::leaf::Key;

use super::{Talk, hex};
use crate::simulation::Stage;

/// Makes the answer to the server's first flight from the client's own second flight.
type Flight = fn(Vec<u8>) -> Vec<u8>;

const TLS12: bool = false;
const TLS13: bool = true;

/// Records after a valid hello: version, rule, bytes, alert by the library's name, reason.
const RECORDS: &[(bool, &str, &str, &str, Reason)] = &[
    (TLS12, "5246 6.2.3", "16 0303 4001", OVERFLOW, INVALID),
    (TLS12, "5246 6.2.3", "17 0303 4801", OVERFLOW, INVALID),
    (TLS13, "8446 5.2", "17 0303 4101", OVERFLOW, INVALID),
    (TLS13, "8446 5.2", "17 0303 4800", OVERFLOW, INVALID),
    (TLS12, "5246 6", HEARTBEAT, UNEXPECTED, VIOLATION),
    (TLS13, "8446 5", HEARTBEAT, UNEXPECTED, VIOLATION),
    (TLS12, "5246 6.2.1", "15 0303 0000", UNEXPECTED, VIOLATION),
    (TLS12, "5246 6.2.1", "16 0303 0000", UNEXPECTED, VIOLATION),
    (TLS12, "5246 7.1", "14 0303 0000", UNEXPECTED, VIOLATION),
    (TLS13, "8446 5.1", "16 0303 0000", UNEXPECTED, VIOLATION),
    (TLS13, "8446 5.4", "15 0303 0000", UNEXPECTED, VIOLATION),
    (TLS13, "8446 5.2", "17 0303 0003 070707", MAC, INVALID),
    (TLS13, "8446 5", "14 0303 0001 02", UNEXPECTED, VIOLATION),
    (TLS12, "5246 7.4.7", "16 0303 0004 10000000", DECODE, VIOLATION),
    (TLS12, "8422 5.7", "16 0303 0005 1000000100", ANY, VIOLATION),
    (TLS12, "8422 5.11", WRONG_POINT, ANY, ANY_REASON),
    (TLS12, "5246 7.4", "16 0303 0005 1002000001", DECODE, VIOLATION),
    (TLS12, "5246 6.2.1", INTERRUPTED, UNEXPECTED, VIOLATION),
];

const HEARTBEAT: &str = "18 0303 0003 010000";
/// A ClientKeyExchange whose point is not on the curve.
const WRONG_POINT: &str = "16 0303 0008 10000004 03040102";
/// The head of a ClientKeyExchange, and application data.
const INTERRUPTED: &str = "16 0303 0004 10000021 17 0303 0001 01";

/// Cases as above that are made from the client's own flight, or are long.
const FLIGHTS: &[(bool, &str, Flight, &str, Reason)] = &[
    (TLS12, "5246 6.2.1", after_empty, UNEXPECTED, VIOLATION),
    (TLS13, "8446 5", plain_finished, UNEXPECTED, VIOLATION),
    (TLS13, "8446 5.2", |_| record(23, &[&[7; 100]]), MAC, INVALID),
    (TLS12, "5246 7.2.2", warnings, UNEXPECTED, VIOLATION),
    (TLS12, "5246 7.1", doubled_change, UNEXPECTED, VIOLATION),
    (TLS12, "5246 7.4.9", without_change, ANY, VIOLATION),
    (TLS12, "5246 6", altered_end, MAC, INVALID),
    (TLS13, "8446 5.2", altered_end, MAC, INVALID),
];

const DECODE: &str = "DecodeError";
const MAC: &str = "BadRecordMac";
const OVERFLOW: &str = "RecordOverflow";
const UNEXPECTED: &str = "UnexpectedMessage";
const INVALID: Reason = Reason::RecordInvalid;
const VIOLATION: Reason = Reason::ProtocolViolation;
/// The RFC demands an alert but not a particular one.
const ANY: &str = "";
const ANY_REASON: Reason = Reason::Internal;

fn record(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&[kind, 3, 3][..], &(body.len() as u16).to_be_bytes(), &body].concat()
}

/// Returns the position of the client's ChangeCipherSpec in its flight.
fn change_of(flight: &[u8]) -> usize {
    let place = flight.windows(6).position(|six| six == [20, 3, 3, 0, 1, 1]);
    place.expect("a ChangeCipherSpec")
}

fn after_empty(flight: Vec<u8>) -> Vec<u8> {
    [vec![22, 3, 3, 0, 0], flight].concat()
}

fn plain_finished(_: Vec<u8>) -> Vec<u8> {
    record(22, &[&[20, 0, 0, 32], &[7; 32]])
}

fn warnings(_: Vec<u8>) -> Vec<u8> {
    [21, 3, 3, 0, 2, 1, 90].repeat(6)
}

fn doubled_change(mut flight: Vec<u8>) -> Vec<u8> {
    let place = change_of(&flight);
    flight.splice(place..place, [20, 3, 3, 0, 1, 1]);
    flight
}

fn without_change(mut flight: Vec<u8>) -> Vec<u8> {
    let place = change_of(&flight);
    flight.drain(place..place + 6);
    // Encrypted bytes are then read as a message. One of these random bytes is the highest of its
    // length: with 0 the rest would be awaited.
    flight[place + 6] = 0xff;
    flight
}

fn altered_end(mut flight: Vec<u8>) -> Vec<u8> {
    *flight.last_mut().unwrap() ^= 1;
    flight
}

/// Returns the client's fault after these bytes instead of its second flight.
fn after(
    stage: &Stage,
    choice: &ClientChoice,
    seed: u64,
    flight: impl FnOnce(Vec<u8>) -> Vec<u8>,
) -> (Talk, String) {
    let mut talk = Talk::with(stage, choice, seed);
    let hello = talk.run.client.take_wire();
    talk.say(&hello);
    let mut plain = Vec::new();
    let answer = std::mem::take(&mut talk.heard);
    talk.run.client.receive(&answer, &mut plain).unwrap();
    let flight = flight(talk.run.client.take_wire());
    talk.say(&flight);
    let answer = std::mem::take(&mut talk.heard);
    let fault = talk.run.client.receive(&answer, &mut plain);
    (talk, fault.err().unwrap_or_default())
}

#[test]
fn what_breaks_a_handshake_is_answered_with_the_alert_that_the_rfc_names() {
    let stage = Stage::new(SendProxy::Off);
    let check = |is_tls13, rule: &str, flight: &dyn Fn(Vec<u8>) -> Vec<u8>, alert, reason| {
        let choice = stage.choice(is_tls13, &[]);
        let (talk, fault) = after(&stage, &choice, rule.len() as u64, flight);
        let sent = fault.strip_prefix("received fatal alert: ");
        let sent = sent.unwrap_or_else(|| panic!("{rule}: no alert, {fault:?}"));
        if alert != ANY {
            assert_eq!(sent, alert, "{rule}: {}", talk.detail());
        }
        if reason != ANY_REASON {
            assert_eq!(talk.reason(), Some(reason), "{rule}");
        }
        let detail = talk.detail();
        assert!(detail.contains("; answered with alert "), "{detail}");
    };
    for (is_tls13, rule, records, alert, reason) in RECORDS {
        check(*is_tls13, rule, &|_| hex(records), *alert, *reason);
    }
    for (is_tls13, rule, flight, alert, reason) in FLIGHTS {
        check(*is_tls13, rule, flight, *alert, *reason);
    }
}

/// RFC 7507 and others leave it to the server: a resumed TLS 1.2 handshake answers under its keys.
#[test]
fn a_resumed_handshake_answers_under_its_keys() {
    let stage = Stage::new(SendProxy::Off);
    for is_tls13 in [TLS12, TLS13] {
        for suite in [0x1301, 0x1302, 0x1303, 0xc02b, 0xc02c, 0xcca9] {
            if (suite >> 8 == 0x13) != is_tls13 {
                continue;
            }
            let choice = stage.choice(is_tls13, &[suite]);
            let mut first = crate::simulation::Run::new(&stage, &choice, 1, b"reply".to_vec());
            first.until("reply", |run| run.client_got == b"reply");
            let (talk, fault) = after(&stage, &choice, 2, |_| hex(HEARTBEAT));
            assert!(talk.run.client.is_resumed());
            assert_eq!(fault, "received fatal alert: UnexpectedMessage", "{suite:#x}");
            assert_eq!(talk.reason(), Some(VIOLATION));
        }
    }
}

/// RFC 8446 sections 4.2.10 and 5.2: the second hello ends the skipping of records.
#[test]
fn early_data_after_the_second_hello_does_not_decrypt() {
    let stage = Stage::new(SendProxy::Off);
    let choice = stage.choice(true, &[]).with_early_data();
    let cache = stage.reloaded(tls::options::Tls13Sessions::Cache { early_data_bytes_max: 20_000 });
    let mut first = crate::simulation::Run::new(&cache, &choice, 1, b"reply".to_vec());
    first.until("reply", |run| run.client_got == b"reply");
    let mut talk = Talk::with(&cache.retrying(), &choice, 2);
    assert_eq!(talk.run.client.send_early(b"early"), 5);
    let mut plain = Vec::new();
    let first_flight = talk.run.client.take_wire();
    talk.say(&first_flight);
    let retry = std::mem::take(&mut talk.heard);
    talk.run.client.receive(&retry, &mut plain).unwrap();
    let second_hello = talk.run.client.take_wire();
    talk.say(&second_hello);
    talk.say(&record(23, &[&[7; 100]]));
    assert_eq!(talk.reason(), Some(Reason::RecordInvalid));
    let answer = std::mem::take(&mut talk.heard);
    let fault = talk.run.client.receive(&answer, &mut plain);
    assert_eq!(fault, Err("received fatal alert: BadRecordMac".to_owned()));
}

#[test]
fn a_message_in_too_many_records_is_refused() {
    let stage = Stage::new(SendProxy::Off);
    let slow = |_| {
        let byte = record(22, &[&[0]]).repeat(30_000);
        [record(22, &[&[16, 0, 255, 255]]), byte].concat()
    };
    let (talk, fault) = after(&stage, &stage.choice(TLS12, &[]), 1, slow);
    assert_eq!(fault, "received fatal alert: DecodeError");
    let detail = "a handshake message in too many records; answered with alert decode_error";
    assert_eq!(talk.detail(), detail);
}

/// RFC 5246 section 7.4.8, RFC 8446 section 4.4.3: the certificate itself is valid.
#[test]
fn a_signature_by_another_key_is_no_fault_of_the_certificate() {
    let stage = Stage::new(SendProxy::Off).asking_for_certificates();
    let [shown, other] = ["shown", "other"].map(|name| stage.authority.client(name));
    for is_tls13 in [TLS12, TLS13] {
        let choice = stage.choice(is_tls13, &[]);
        let wrong = choice.showing(&shown, &other);
        let (talk, fault) = after(&stage, &wrong, 1, |flight| flight);
        assert_eq!(fault, "received fatal alert: DecryptError");
        assert_eq!(talk.reason(), Some(VIOLATION));
        let detail =
            "the client's CertificateVerify does not verify; answered with alert decrypt_error";
        assert_eq!(talk.detail(), detail);
        let right = choice.showing(&shown, &shown);
        let mut run = crate::simulation::Run::new(&stage, &right, 2, Vec::new());
        run.until("the handshake", |run| run.client.is_established());
    }
}

/// RFC 5246 section 7.4.8, RFC 8446 section 4.2.3: each scheme is for one kind of key.
#[test]
fn a_signature_scheme_that_does_not_fit_the_key_is_said_in_words() {
    let stage = Stage::new(SendProxy::Off).asking_for_certificates();
    let shown = stage.authority.client("shown");
    let other = stage.authority.leaf(&["other"]).key(Key::Rsa2048).issue();
    for is_tls13 in [TLS12, TLS13] {
        let wrong = stage.choice(is_tls13, &[]).showing(&shown, &other);
        let (talk, fault) = after(&stage, &wrong, 1, |flight| flight);
        assert_eq!(fault, "received fatal alert: DecryptError");
        assert_eq!(talk.reason(), Some(VIOLATION));
        let detail = "the client's CertificateVerify is of a signature scheme that does not fit \
                      the key of its certificate; answered with alert decrypt_error";
        assert_eq!(talk.detail(), detail);
    }
}

/// RFC 5246 section 7.4.2, RFC 8446 section 4.4.2: each certificate has at least one byte.
#[test]
fn a_chain_with_an_empty_certificate_is_of_no_form() {
    const EMPTY: &str = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";
    let stage = Stage::new(SendProxy::Off).asking_for_certificates();
    let shown = stage.authority.client("shown").above(EMPTY);
    for is_tls13 in [TLS12, TLS13] {
        let choice = stage.choice(is_tls13, &[]).showing(&shown, &shown);
        let (talk, fault) = after(&stage, &choice, 1, |flight| flight);
        assert_eq!(fault, "received fatal alert: DecodeError");
        assert_eq!(talk.reason(), Some(VIOLATION));
        let detail = "certificate 2 of the chain is empty";
        assert!(talk.detail().contains(detail), "{}", talk.detail());
    }
}

/// RFC 5246 section 7.4.6, RFC 8446 section 4.4.2.4.
#[test]
fn a_missing_client_certificate_has_each_versions_alert() {
    let stage = Stage::new(SendProxy::Off).asking_for_certificates();
    for (is_tls13, alert) in [(TLS12, "HandshakeFailure"), (TLS13, "CertificateRequired")] {
        let choice = stage.choice(is_tls13, &[]);
        let (talk, fault) = after(&stage, &choice, 1, |flight| flight);
        assert_eq!(fault, format!("received fatal alert: {alert}"));
        assert_eq!(talk.reason(), Some(Reason::ClientCertificateMissing));
    }
}
