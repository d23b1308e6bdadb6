//! Hand-made hellos that no library would send, and the answers to them.

use telemetry::outcome::Reason;
use wire::alert;

use super::Talk;
use crate::simulation::Stage;
use flow::options::SendProxy;

type Extension = (u16, Vec<u8>);

const SUITES_13: [u16; 3] = [0x1301, 0x1302, 0x1303];
const SUITES_12: [u16; 2] = [0xc02b, 0xcca9];
const FALLBACK_SCSV: u16 = 0x5600;

const SUPPORTED_GROUPS: u16 = 10;
const SIGNATURE_ALGORITHMS: u16 = 13;
const COMPRESS_CERTIFICATE: u16 = 27;
const EARLY_DATA: u16 = 42;
const SUPPORTED_VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;
const ECH_OUTER_EXTENSIONS: u16 = 0xfd00;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
const RENEGOTIATION_INFO: u16 = 0xff01;

/// A valid hello for one version.
struct Hello {
    suites: Vec<u16>,
    extensions: Vec<Extension>,
}

impl Hello {
    fn tls12() -> Self {
        Self {
            suites: SUITES_12.to_vec(),
            extensions: vec![
                (SUPPORTED_GROUPS, vec![0, 2, 0, 0x17]),
                (SIGNATURE_ALGORITHMS, vec![0, 2, 4, 3]),
                (0, named("localhost")),
            ],
        }
    }

    fn tls13() -> Self {
        // The base point of X25519 is a valid key.
        let share = [&[0, 36, 0, 0x1d, 0, 32, 9][..], &[0; 31]].concat();
        Self {
            suites: SUITES_13.to_vec(),
            extensions: vec![
                (SUPPORTED_VERSIONS, vec![2, 3, 4]),
                (SUPPORTED_GROUPS, vec![0, 2, 0, 0x1d]),
                (SIGNATURE_ALGORITHMS, vec![0, 2, 4, 3]),
                (KEY_SHARE, share),
                (0, named("localhost")),
            ],
        }
    }

    fn without(mut self, kind: u16) -> Self {
        self.extensions.retain(|(other, _)| *other != kind);
        self
    }

    fn with(mut self, kind: u16, data: &[u8]) -> Self {
        self.extensions.push((kind, data.to_vec()));
        self
    }

    fn suite(mut self, suite: u16) -> Self {
        self.suites.push(suite);
        self
    }

    fn message(&self) -> Vec<u8> {
        let suites: Vec<u8> = self.suites.iter().flat_map(|one| one.to_be_bytes()).collect();
        let extension =
            |(kind, data): &Extension| [&kind.to_be_bytes()[..], &vector(data)].concat();
        let extensions: Vec<u8> = self.extensions.iter().flat_map(extension).collect();
        let body =
            [&[3, 3][..], &[7; 32], &[0], &vector(&suites), &[1, 0], &vector(&extensions)].concat();
        [&[1, 0][..], &vector(&body)].concat()
    }

    fn wire(&self, record_bytes: usize) -> Vec<u8> {
        let message = self.message();
        let records = message.chunks(record_bytes);
        records.flat_map(|part| [&[22, 3, 1][..], &vector(part)].concat()).collect()
    }
}

fn vector(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

fn named(name: &str) -> Vec<u8> {
    vector(&[&[0][..], &vector(name.as_bytes())].concat())
}

#[test]
fn hellos_that_break_a_rule_get_the_alert_that_the_rfc_names() {
    use Reason::{HelloMalformed, HelloTooLarge, InappropriateFallback};
    let stage = Stage::new(SendProxy::Off);
    let missing = alert::MISSING_EXTENSION;
    let cases = [
        // RFC 8446 section 9.2.
        (Hello::tls13().without(KEY_SHARE), missing, HelloMalformed),
        (Hello::tls13().without(SUPPORTED_GROUPS), missing, HelloMalformed),
        (Hello::tls13().without(SIGNATURE_ALGORITHMS), missing, HelloMalformed),
        // RFC 5746 section 3.6.
        (
            Hello::tls12().with(RENEGOTIATION_INFO, &[12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
            alert::HANDSHAKE_FAILURE,
            HelloMalformed,
        ),
        // RFC 7507 section 3.
        (Hello::tls12().suite(FALLBACK_SCSV), alert::INAPPROPRIATE_FALLBACK, InappropriateFallback),
        (Hello::tls12().with(0x1234, &[0; 16_384]), alert::ILLEGAL_PARAMETER, HelloTooLarge),
    ];
    for (number, (hello, alert, reason)) in cases.into_iter().enumerate() {
        let mut talk = Talk::new(&stage, number as u64);
        talk.say(&hello.wire(16_384));
        assert_eq!(talk.plain_alert(), Some(alert), "case {number}");
        assert_eq!(talk.reason(), Some(reason), "case {number}");
    }
}

/// RFC 8446 sections 5.1 and 5.4.
#[test]
fn records_without_content_are_no_part_of_a_hello() {
    let stage = Stage::new(SendProxy::Off);
    for kind in [20, 21, 22] {
        for hello in [Hello::tls12(), Hello::tls13()] {
            let wire = hello.wire(50);
            let empty = [kind, 3, 3, 0, 0];
            let mut talk = Talk::new(&stage, u64::from(kind));
            talk.say(&[&wire[..55], &empty, &wire[55..]].concat());
            assert_eq!(talk.plain_alert(), Some(alert::UNEXPECTED_MESSAGE));
            assert_eq!(talk.reason(), Some(Reason::HelloMalformed));
        }
    }
}

#[test]
fn unusual_hellos_are_answered() {
    let stage = Stage::new(SendProxy::Off);
    let many = |hello: Hello| (1000..1300).fold(hello, |hello, kind| hello.with(kind, &[1]));
    let long = |hello: Hello| hello.with(0x1234, &[0; 16_000]);
    let cases = [
        (Hello::tls12(), 16_384),
        (Hello::tls13(), 16_384),
        // The version is our highest.
        (Hello::tls13().suite(FALLBACK_SCSV), 16_384),
        (Hello::tls12().with(RENEGOTIATION_INFO, &[0]), 16_384),
        // Unknown extensions are ignored, whatever their number (RFC 8446 section 4.1.2).
        (many(Hello::tls12()), 16_384),
        (many(Hello::tls13()), 16_384),
        // ECH is not configured here, and RFC 8879 does not forbid repetition.
        (Hello::tls13().with(ENCRYPTED_CLIENT_HELLO, &[]), 16_384),
        (Hello::tls12().with(ENCRYPTED_CLIENT_HELLO, &[0, 0, 1]), 1),
        (Hello::tls13().with(ECH_OUTER_EXTENSIONS, &[7]), 16_384),
        (
            Hello::tls13()
                .with(COMPRESS_CERTIFICATE, &[4, 0, 2, 0, 2])
                .with(ENCRYPTED_CLIENT_HELLO, &[1])
                .with(ECH_OUTER_EXTENSIONS, &[]),
            3,
        ),
        // A message may be spread over any number of records (section 5.1).
        (Hello::tls12(), 1),
        (Hello::tls13(), 1),
        (long(Hello::tls12()), 7),
        (long(Hello::tls13()), 1),
    ];
    for (number, (hello, record_bytes)) in cases.into_iter().enumerate() {
        let mut talk = Talk::new(&stage, number as u64);
        let mut wire = hello.wire(record_bytes);
        // A record's version must be ignored (section 5.1).
        (wire[1], wire[2]) = [(3, 1), (3, 0), (2, 9), (0xff, 0)][number % 4];
        talk.say(&wire);
        assert_eq!(talk.reason(), None, "case {number}: {:?}", talk.detail());
        assert_eq!(talk.heard().first(), Some(&22), "case {number}");
    }
}

/// RFC 8446 appendix D.3.
#[test]
fn early_data_of_a_handshake_that_comes_to_tls12_is_out_of_place() {
    let stage = Stage::new(SendProxy::Off);
    let mut talk = Talk::new(&stage, 3);
    talk.say(&Hello::tls12().with(EARLY_DATA, &[]).wire(16_384));
    assert_eq!(talk.reason(), None);
    talk.say(&[&[23, 3, 3, 0, 100][..], &[7; 100]].concat());
    assert_eq!(talk.plain_alert(), Some(alert::UNEXPECTED_MESSAGE));
    assert_eq!(talk.reason(), Some(Reason::ProtocolViolation));
}
