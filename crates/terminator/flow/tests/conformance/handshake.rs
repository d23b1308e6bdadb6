//! Clients that break a rule after their hello and before the handshake's end.

use flow::options::SendProxy;
use telemetry::outcome::Reason;
use testkit::client::ClientChoice;

use super::Talk;
use crate::simulation::Stage;

/// What follows the server's first flight, made from the client's own second one.
type Flight = fn(Vec<u8>) -> Vec<u8>;

const TLS12: bool = false;
const TLS13: bool = true;

/// After a right hello: version, rule, flight, alert by the library's name, reason.
const CASES: &[(bool, &str, Flight, &str, Reason)] = &[
    (
        TLS12,
        "5246 6.2.3",
        |_| vec![22, 3, 3, 0x40, 1],
        "RecordOverflow",
        Reason::RecordInvalid,
    ),
    (
        TLS12,
        "5246 6.2.3",
        |_| vec![23, 3, 3, 0x48, 1],
        "RecordOverflow",
        Reason::RecordInvalid,
    ),
    (
        TLS13,
        "8446 5.2",
        |_| vec![23, 3, 3, 0x41, 1],
        "RecordOverflow",
        Reason::RecordInvalid,
    ),
    (
        TLS13,
        "8446 5.2",
        |_| vec![23, 3, 3, 0x48, 0],
        "RecordOverflow",
        Reason::RecordInvalid,
    ),
    (
        TLS12,
        "5246 6",
        |_| vec![24, 3, 3, 0, 3, 1, 0, 0],
        UNEXPECTED,
        VIOLATION,
    ),
    (
        TLS13,
        "8446 5",
        |_| vec![24, 3, 3, 0, 3, 1, 0, 0],
        UNEXPECTED,
        VIOLATION,
    ),
    (
        TLS12,
        "5246 6.2.1",
        |_| vec![21, 3, 3, 0, 0],
        UNEXPECTED,
        VIOLATION,
    ),
    (
        TLS12,
        "5246 6.2.1",
        |_| vec![22, 3, 3, 0, 0],
        UNEXPECTED,
        VIOLATION,
    ),
    (
        TLS12,
        "5246 6.2.1",
        |flight| [vec![22, 3, 3, 0, 0], flight].concat(),
        UNEXPECTED,
        VIOLATION,
    ),
    (
        TLS12,
        "5246 7.1",
        |_| vec![20, 3, 3, 0, 0],
        UNEXPECTED,
        VIOLATION,
    ),
    (
        TLS13,
        "8446 5.1",
        |_| vec![22, 3, 3, 0, 0],
        UNEXPECTED,
        VIOLATION,
    ),
    (
        TLS13,
        "8446 5.4",
        |_| vec![21, 3, 3, 0, 0],
        UNEXPECTED,
        VIOLATION,
    ),
    (
        TLS13,
        "8446 5",
        |_| record(22, &[&[20, 0, 0, 32][..], &[7; 32]]),
        UNEXPECTED,
        VIOLATION,
    ),
    (
        TLS13,
        "8446 5.2",
        |_| record(23, &[&[7; 100]]),
        "BadRecordMac",
        Reason::RecordInvalid,
    ),
    (
        TLS13,
        "8446 5.2",
        |_| record(23, &[&[7; 3]]),
        "BadRecordMac",
        Reason::RecordInvalid,
    ),
    (
        TLS13,
        "8446 5",
        |_| vec![20, 3, 3, 0, 1, 2],
        UNEXPECTED,
        VIOLATION,
    ),
    (
        TLS12,
        "5246 7.2.2",
        |_| [21, 3, 3, 0, 2, 1, 90].repeat(6),
        UNEXPECTED,
        VIOLATION,
    ),
    (
        TLS12,
        "5246 7.4.7",
        |_| record(22, &[&[16, 0, 0, 0]]),
        "DecodeError",
        VIOLATION,
    ),
    (
        TLS12,
        "8422 5.7",
        |_| record(22, &[&[16, 0, 0, 1, 0]]),
        ANY,
        VIOLATION,
    ),
    (
        TLS12,
        "8422 5.11",
        |_| record(22, &[&[16, 0, 0, 4, 3, 4, 1, 2]]),
        ANY,
        ANY_REASON,
    ),
    (
        TLS12,
        "5246 7.4",
        |_| record(22, &[&[16, 2, 0, 0, 1]]),
        "DecodeError",
        VIOLATION,
    ),
    (
        TLS12,
        "5246 6.2.1",
        |_| [record(22, &[&[16, 0, 0, 33]]), record(23, &[&[1]])].concat(),
        UNEXPECTED,
        VIOLATION,
    ),
    (TLS12, "5246 7.1", doubled_change, UNEXPECTED, VIOLATION),
    (TLS12, "5246 7.4.9", without_change, ANY, VIOLATION),
    (
        TLS12,
        "5246 6",
        altered_end,
        "BadRecordMac",
        Reason::RecordInvalid,
    ),
    (
        TLS13,
        "8446 5.2",
        altered_end,
        "BadRecordMac",
        Reason::RecordInvalid,
    ),
];

const UNEXPECTED: &str = "UnexpectedMessage";
const VIOLATION: Reason = Reason::ProtocolViolation;
/// The RFC wants an alert and leaves which one.
const ANY: &str = "";
const ANY_REASON: Reason = Reason::Internal;

fn record(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&[kind, 3, 3][..], &(body.len() as u16).to_be_bytes(), &body].concat()
}

/// Where the client's ChangeCipherSpec stands in its flight.
fn change_of(flight: &[u8]) -> usize {
    let place = flight.windows(6).position(|six| six == [20, 3, 3, 0, 1, 1]);
    place.expect("a ChangeCipherSpec")
}

fn doubled_change(mut flight: Vec<u8>) -> Vec<u8> {
    let place = change_of(&flight);
    flight.splice(place..place, [20, 3, 3, 0, 1, 1]);
    flight
}

fn without_change(mut flight: Vec<u8>) -> Vec<u8> {
    let place = change_of(&flight);
    flight.drain(place..place + 6);
    flight
}

fn altered_end(mut flight: Vec<u8>) -> Vec<u8> {
    *flight.last_mut().unwrap() ^= 1;
    flight
}

/// The client's fault after these bytes instead of its second flight.
fn after(stage: &Stage, choice: &ClientChoice, seed: u64, flight: Flight) -> (Talk, String) {
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
    for (number, (is_tls13, rule, flight, alert, reason)) in CASES.iter().enumerate() {
        let choice = stage.choice(*is_tls13, &[]);
        let (talk, fault) = after(&stage, &choice, number as u64, *flight);
        let told = fault.strip_prefix("received fatal alert: ");
        let told = told.unwrap_or_else(|| panic!("case {number}, {rule}: no alert, {fault:?}"));
        if *alert != ANY {
            assert_eq!(told, *alert, "case {number}, {rule}: {}", talk.detail());
        }
        if *reason != ANY_REASON {
            assert_eq!(talk.reason(), Some(*reason), "case {number}, {rule}");
        }
        assert!(
            talk.detail().contains("; answered with alert "),
            "{}",
            talk.detail()
        );
    }
}

/// RFC 7507 and others leave it to each: a resumed TLS 1.2 handshake answers under its keys.
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
            let heartbeat: Flight = |_| vec![24, 3, 3, 0, 3, 1, 0, 0];
            let (talk, fault) = after(&stage, &choice, 2, heartbeat);
            assert!(talk.run.client.is_resumed());
            assert_eq!(
                fault, "received fatal alert: UnexpectedMessage",
                "{suite:#x}"
            );
            assert_eq!(talk.reason(), Some(VIOLATION));
        }
    }
}

/// RFC 8446 sections 4.2.10 and 5.2: the second hello ends what is skipped.
#[test]
fn early_data_after_the_second_hello_does_not_decrypt() {
    let stage = Stage::new(SendProxy::Off);
    let choice = stage.choice(true, &[]).with_early_data();
    let cache = stage.reloaded(tls::options::Tls13Sessions::Cache {
        early_data_bytes_max: 20_000,
    });
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
    let slow: Flight = |_| {
        let byte = record(22, &[&[0]]).repeat(30_000);
        [record(22, &[&[16, 0, 255, 255]]), byte].concat()
    };
    let (talk, fault) = after(&stage, &stage.choice(TLS12, &[]), 1, slow);
    assert_eq!(fault, "received fatal alert: DecodeError");
    let detail = "a handshake message in too many records; answered with alert decode_error";
    assert_eq!(talk.detail(), detail);
}

/// RFC 5246 section 7.4.8, RFC 8446 section 4.4.3: nothing is wrong with the certificate.
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
