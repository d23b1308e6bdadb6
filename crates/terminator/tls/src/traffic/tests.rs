//! Tests our records against a client whose records are made by hand: each side understands the
//! other's messages.

use connection::{Connection, PeerEvent, SUITES, Service};
use proptest::prelude::*;
use rustls::crypto::cipher::{AeadKey, Iv};
use testkit::chance::Chance;
use testkit::raw_client::{ALERT, APPLICATION_DATA, HANDSHAKE, KEY_UPDATES, RawClient, framed};

use super::*;
use crate::options::Version;
use crate::record::PLAINTEXT_BYTES_MAX;

mod connection;
mod messages;

/// Returns the events of everything that the client sends in a talk.
fn hear(mut connection: Connection, talk: impl Fn(&mut Connection)) -> Vec<PeerEvent> {
    talk(&mut connection);
    connection.heard
}

fn data(bytes: &[u8]) -> PeerEvent {
    PeerEvent::Data(bytes.to_vec())
}

#[test]
fn data_of_every_length_comes_through_both_ways() {
    let service = Service::new();
    for suite in SUITES {
        let connection = service.connect(suite);
        let layout = RecordLayout::of(suite.version(), suite.cipher());
        assert_eq!(connection.traffic.layout(), layout);
        hear(connection, |connection| {
            for length in [1, 2, 15, 16, 17, 1000, 16_383, PLAINTEXT_BYTES_MAX] {
                let plain: Vec<u8> = (0..length).map(|index| index as u8).collect();
                connection.say(APPLICATION_DATA, &plain);
                assert_eq!(connection.heard.pop(), Some(PeerEvent::Data(plain.clone())));
                connection.reply(&plain);
            }
        });
    }
}

#[test]
fn padding_is_taken_off_up_to_the_longest_record() {
    let service = Service::new();
    for suite in &SUITES[..3] {
        let heard = hear(service.connect(*suite), |connection| {
            for (length, padding) in [(5, 1), (5, 255), (0, 300), (5, 16_379), (16_384, 0)] {
                let wire = connection.client.seal(APPLICATION_DATA, &vec![7; length], padding);
                connection.hear(&wire);
            }
            let close = connection.client.seal(ALERT, &[1, 0], 1000);
            connection.hear(&close);
        });
        let (short, long) = (data(&[7; 5]), data(&[7; 16_384]));
        let wanted = [short.clone(), short.clone(), PeerEvent::Control, short, long];
        assert_eq!(heard[..5], wanted);
        assert_eq!(heard[5..], [PeerEvent::CloseNotify]);
    }
}

#[test]
fn records_beyond_the_limits_end_the_connection() {
    let service = Service::new();
    for suite in SUITES {
        let is_tls13 = suite.version() == Version::Tls13;
        let mut bad: Vec<fn(&mut RawClient) -> Vec<u8>> = vec![
            |client| client.seal(APPLICATION_DATA, &[7; PLAINTEXT_BYTES_MAX + 1], 0),
            |client| client.seal(APPLICATION_DATA, &[7; PLAINTEXT_BYTES_MAX + 2000], 0),
            |_| framed(APPLICATION_DATA, &[7; PLAINTEXT_BYTES_MAX + 2049])[..5].to_vec(),
            |_| framed(APPLICATION_DATA, &[7; 60_000])[..5].to_vec(),
            |_| framed(APPLICATION_DATA, &[]),
            |_| framed(APPLICATION_DATA, &[7; 15]),
            |_| framed(APPLICATION_DATA, &[7; 16]),
            |_| framed(APPLICATION_DATA, &[7; 100]),
            |_| framed(20, &[1]),
            |_| framed(ALERT, &[2, 40]),
            |_| framed(HANDSHAKE, &[]),
            |_| framed(24, &[7; 100]),
            |_| framed(99, &[7; 100])[..5].to_vec(),
            |_| b"GET / HTTP/1.1\r\n".to_vec(),
            |client| {
                let mut wire = client.seal(APPLICATION_DATA, b"words", 0);
                wire[1] = 2;
                wire
            },
            |client| client.seal(APPLICATION_DATA, b"lost", 0)[5..].to_vec(),
            |client| {
                drop(client.seal(APPLICATION_DATA, b"lost", 0));
                client.seal(APPLICATION_DATA, b"words", 0)
            },
            |client| client.seal(20, &[1], 0),
            |client| client.seal(24, b"heartbeat", 0),
        ];
        if is_tls13 {
            bad.push(|client| client.seal(APPLICATION_DATA, &[7; 5], PLAINTEXT_BYTES_MAX));
            bad.push(|client| client.seal_inner(&[0; 20]));
            bad.push(|client| client.seal_inner(&[]));
        }
        for (index, bad) in bad.iter().enumerate() {
            let heard = hear(service.connect(suite), |connection| {
                connection.say(APPLICATION_DATA, b"before");
                let wire = bad(&mut connection.client);
                connection.hear(&wire);
                connection.hear(&[0xff; 40]);
            });
            assert_eq!(heard, [data(b"before"), PeerEvent::End], "{suite:?}: {index}");
        }
    }
}

#[test]
fn every_altered_byte_ends_the_connection() {
    let service = Service::new();
    for suite in SUITES {
        for index in 0..45 {
            let heard = hear(service.connect(suite), |connection| {
                let mut wire = connection.client.seal(APPLICATION_DATA, &[7; 16], 0);
                if let Some(byte) = wire.get_mut(index) {
                    *byte ^= 1;
                    connection.hear(&wire);
                    // The length may have grown by as much.
                    connection.hear(&[&wire[..], &[0; 300]].concat());
                }
            });
            assert!(heard.iter().all(|heard| *heard == PeerEvent::End), "{index}");
        }
    }
}

#[test]
fn an_alert_means_the_same_wherever_it_comes() {
    let service = Service::new();
    let places: [fn(&mut Connection); 3] = [
        |_| {},
        |connection| connection.say(APPLICATION_DATA, b"before"),
        |connection| connection.update_key(true),
    ];
    for suite in [SUITES[0], SUITES[3]] {
        let is_tls13 = suite.version() == Version::Tls13;
        for (level, description) in (0..4).flat_map(|level| {
            [0, 10, 20, 22, 40, 42, 80, 90, 100, 116, 255].map(|one| (level, one))
        }) {
            for place in &places[..if is_tls13 { 3 } else { 2 }] {
                let heard = hear(service.connect(suite), |connection| {
                    place(connection);
                    connection.say(ALERT, &[level, description]);
                });
                let wanted = match (level, description) {
                    (_, 0) => PeerEvent::CloseNotify,
                    (1, 90) => PeerEvent::Control,
                    (1, _) if !is_tls13 => PeerEvent::Control,
                    _ => PeerEvent::End,
                };
                assert_eq!(heard.last(), Some(&wanted), "{level} {description}");
            }
        }
    }
}

#[test]
fn half_alerts_and_two_at_once_end_the_connection() {
    let service = Service::new();
    for suite in [SUITES[0], SUITES[3]] {
        for content in [&[][..], &[1], &[1, 0, 0], &[1, 0, 1, 0]] {
            let heard = hear(service.connect(suite), |connection| {
                connection.say(ALERT, content);
            });
            assert_eq!(heard, [PeerEvent::End], "{content:?}");
        }
    }
}

#[test]
fn nothing_is_heard_after_close_notify_but_much_may_be_said() {
    let service = Service::new();
    for suite in SUITES {
        let heard = hear(service.connect(suite), |connection| {
            connection.say(ALERT, &[1, 0]);
            connection.say(APPLICATION_DATA, b"after");
            connection.reply(b"more");
            let mut out = Vec::new();
            connection.traffic.seal_close_notify(&mut out).expect("a fresh key");
            assert_eq!(connection.client.open(&out), [(ALERT, vec![1, 0])]);
        });
        assert_eq!(heard, [PeerEvent::CloseNotify]);
    }
}

#[test]
fn keys_are_updated_in_both_directions_as_often_as_is_allowed() {
    let service = Service::new();
    for suite in &SUITES[..3] {
        let heard = hear(service.connect(*suite), |connection| {
            for round in 0..40 {
                connection.update_key(round % 3 == 0);
                connection.say(APPLICATION_DATA, &[round]);
                connection.reply(&[round; 100]);
            }
            let answers = (0..40).filter(|round| round % 3 == 0);
            let answer = (HANDSHAKE, KEY_UPDATES[0].to_vec());
            assert_eq!(connection.said, vec![answer; answers.count()]);
            for _ in 0..33 {
                connection.update_key(false);
            }
        });
        assert_eq!(heard.len(), 80 + 33);
        assert_eq!(heard[80..112], vec![PeerEvent::Control; 32], "32 in a row");
        assert_eq!(heard[112], PeerEvent::End);
    }
}

#[test]
fn requests_that_come_while_an_answer_waits_get_one_at_the_most() {
    let service = Service::new();
    {
        let mut connection = service.connect(SUITES[0]);
        for _ in 0..1_000 {
            let update = connection.client.seal(HANDSHAKE, &KEY_UPDATES[1], 0);
            connection.client.change_sealing_key();
            let data = connection.client.seal(APPLICATION_DATA, b"x", 0);
            for (wire, incoming) in
                [(update, RecordContent::Control), (data, RecordContent::Data(1))]
            {
                let opened = connection.traffic.open(&wire, &mut [0; 100]);
                assert_eq!(opened, Ok(incoming));
            }
        }
        let mut out = Vec::new();
        let sealed = connection.traffic.seal_control(&mut out);
        sealed.expect("a fresh key");
        assert!((1..=2).contains(&connection.client.open(&out).len()));
        assert!(!connection.traffic.is_control_due());
        connection.reply(b"y");
    }
}

#[test]
fn an_answer_to_a_key_update_goes_before_the_last_words() {
    let service = Service::new();
    {
        let mut connection = service.connect(SUITES[0]);
        let wire = connection.client.seal(HANDSHAKE, &KEY_UPDATES[1], 0);
        let opened = connection.traffic.open(&wire, &mut [0; 100]);
        assert_eq!(opened, Ok(RecordContent::Control));
        assert!(connection.traffic.is_control_due());
        let mut out = Vec::new();
        connection.traffic.seal_close_notify(&mut out).expect("a fresh key");
        let close_notify = (ALERT, vec![1, 0]);
        assert_eq!(connection.client.open(&out).last(), Some(&close_notify));
    }
}

#[test]
fn handshake_messages_that_have_no_place_end_the_connection() {
    let service = Service::new();
    let [off, on] = KEY_UPDATES;
    let bad = [
        vec![],
        vec![24],
        off[..4].to_vec(),
        vec![24, 0, 0, 1, 2],
        vec![24, 0, 0, 2, 0, 0],
        [off, on].concat(),
        [&on[..], &[24, 0]].concat(),
        vec![20, 0, 0, 1, 0],
        vec![4, 0, 0, 0],
        vec![0, 0, 0, 0],
    ];
    for content in bad {
        let heard = hear(service.connect(SUITES[1]), |connection| {
            connection.say(HANDSHAKE, &content);
            connection.say(HANDSHAKE, &content);
        });
        assert_eq!(heard.last(), Some(&PeerEvent::End), "{content:?}");
    }
    for content in [&[20, 0, 0, 0][..], &[24, 0, 0, 1, 0], &[16], &[]] {
        let heard = hear(service.connect(SUITES[4]), |connection| {
            connection.say(HANDSHAKE, content);
        });
        assert_eq!(heard, [PeerEvent::End], "{content:?}");
    }
}

#[test]
fn renegotiation_is_refused_once_with_a_warning() {
    let service = Service::new();
    for suite in &SUITES[3..] {
        let heard = hear(service.connect(*suite), |connection| {
            let hello = connection.hello[5..].to_vec();
            connection.say(HANDSHAKE, &hello);
            connection.say(APPLICATION_DATA, b"as before");
            connection.reply(b"as before");
            connection.say(HANDSHAKE, &hello);
            assert_eq!(connection.said, [(ALERT, vec![1, 100])]);
        });
        assert_eq!(heard, [PeerEvent::Control, data(b"as before"), PeerEvent::End]);
    }
}

#[test]
fn records_without_data_and_warnings_are_bounded() {
    let service = Service::new();
    for suite in SUITES {
        let heard = hear(service.connect(suite), |connection| {
            for _ in 0..2 {
                (0..32).for_each(|_| connection.say(APPLICATION_DATA, b""));
                connection.say(APPLICATION_DATA, b"data");
            }
            (0..40).for_each(|_| connection.say(APPLICATION_DATA, b""));
        });
        assert_eq!(heard.len(), 2 * 33 + 33);
        assert_eq!(heard.last(), Some(&PeerEvent::End));
        let heard = hear(service.connect(suite), |connection| {
            (0..9).for_each(|_| connection.say(ALERT, &[1, 90]));
        });
        let wanted = [vec![PeerEvent::Control; 4], vec![PeerEvent::End]].concat();
        assert_eq!(heard, wanted);
    }
}

#[test]
fn a_key_is_changed_before_its_limit() {
    let service = Service::new();
    for suite in &SUITES[..2] {
        {
            let mut connection = service.connect(*suite);
            connection.reply(b"before");
            assert!(!connection.traffic.is_control_due());
            connection.traffic.approach_key_limit();
            connection.reply(b"the last of this key");
            assert!(connection.traffic.is_control_due());
            let mut out = Vec::new();
            connection.traffic.seal_control(&mut out).expect("there is another key");
            let said = connection.client.open(&out);
            assert!(
                matches!(&said[..], [(HANDSHAKE, update)] if update.starts_with(&[24, 0, 0, 1]))
            );
            assert!(!connection.traffic.is_control_due());
            connection.reply(b"the first of the next");
            connection.update_key(false);
            connection.say(APPLICATION_DATA, b"after");
            assert_eq!(connection.heard, [PeerEvent::Control, data(b"after")]);
        }
    }
}

#[test]
fn whatever_a_client_says_is_heard_as_it_was_said() {
    let service = Service::new();
    for seed in 0..120 {
        let suite = SUITES[seed as usize % SUITES.len()];
        let mut connection = service.connect(suite);
        let (mut chance, mut said) = (Chance::new(seed), Vec::new());
        for _ in 0..12 {
            said.extend(say_something(&mut connection, &mut chance, suite.version()));
            if chance.below(3) == 0 && !connection.is_ended() {
                connection.reply(&vec![3; 1 + chance.below(2000)]);
            }
        }
        let end = said.iter().position(|one| *one == PeerEvent::CloseNotify);
        said.truncate(end.map_or(said.len(), |end| end + 1));
        match connection.heard.split_last() {
            Some((PeerEvent::End, before)) => assert!(said.starts_with(before), "{seed}"),
            _ => assert!(said.starts_with(&connection.heard), "{seed}"),
        }
    }
}

/// Sends one random message; returns its meaning, if it is received whole.
fn say_something(
    connection: &mut Connection,
    chance: &mut Chance,
    version: Version,
) -> Option<PeerEvent> {
    let content = vec![chance.below(256) as u8; 1 + chance.below(20_000) % 17_000];
    let is_tls13 = version == Version::Tls13;
    match chance.below(9) {
        0 if is_tls13 => {
            connection.update_key(chance.below(2) == 0);
            return Some(PeerEvent::Control);
        }
        1 => {
            connection.say(APPLICATION_DATA, b"");
            return Some(PeerEvent::Control);
        }
        2 => {
            connection.say(ALERT, &[1, 90]);
            return Some(PeerEvent::Control);
        }
        3 => {
            let wire = connection.client.seal(APPLICATION_DATA, &content, 0);
            // The rest of the message never arrives.
            let is_cut = chance.below(4) == 0;
            let end = if is_cut { chance.below(wire.len()) } else { wire.len() };
            connection.hear(&wire[..end]);
            if is_cut {
                return None;
            }
        }
        4 if chance.below(4) == 0 => {
            let mut wire = connection.client.seal(APPLICATION_DATA, &content, 0);
            let index = 3 + chance.below(wire.len() - 3);
            wire[index] ^= 1 << chance.below(8);
            connection.hear(&wire);
            return None;
        }
        5 if chance.below(6) == 0 => {
            connection.say(ALERT, &[1, 0]);
            return Some(PeerEvent::CloseNotify);
        }
        6 if is_tls13 => {
            let wire = connection.client.seal(APPLICATION_DATA, &content, chance.below(600));
            connection.hear(&wire);
        }
        _ => connection.say(APPLICATION_DATA, &content),
    }
    Some(PeerEvent::Data(content))
}

fn secrets(iv: [u8; NONCE_BYTES]) -> ConnectionTrafficSecrets {
    ConnectionTrafficSecrets::Aes128Gcm { key: AeadKey::from([3; 32]), iv: Iv::from(iv) }
}

/// Returns the explicit part of a nonce as the library and we make it.
fn ours(iv: [u8; NONCE_BYTES], sequence: u64) -> u64 {
    u64::from_be_bytes(*iv.last_chunk().unwrap()) ^ sequence
}

/// Maximum number of records under one key: at least one block each, of 2^34.5.
const RECORDS_MAX: u64 = 1 << 35;

proptest! {
    #[test]
    fn no_nonce_of_the_kernel_was_ours(
        iv: [u8; NONCE_BYTES],
        before in 0..RECORDS_MAX,
        behind in 0..RECORDS_MAX,
        old in any::<prop::sample::Index>(),
    ) {
        let secrets = secrets(iv);
        let keys = keys_of(Version::Tls12, before, &secrets).unwrap();
        prop_assert_eq!(&keys.iv[..SALT_BYTES], &iv[..SALT_BYTES]);
        let first = u64::from_be_bytes(*keys.iv.last_chunk().unwrap());
        // The kernel counts up by one for each record; its counter must not wrap around either.
        let kernels = first.checked_add(behind).unwrap();
        let ours = ours(iv, old.index(before as usize + 1) as u64);
        prop_assert_ne!(kernels, ours);
        prop_assert_eq!((kernels ^ ours) >> 63, 1, "they differ in the highest bit");
    }

    #[test]
    fn other_ciphers_go_on_with_the_vector_they_had(iv: [u8; NONCE_BYTES], sequence: u64) {
        let secrets = secrets(iv);
        let keys = keys_of(Version::Tls13, sequence, &secrets).unwrap();
        prop_assert_eq!(keys.iv, iv);
        prop_assert_eq!((keys.sequence, keys.key.len()), (sequence, 16));
        let chacha = ConnectionTrafficSecrets::Chacha20Poly1305 {
            key: AeadKey::from([3; 32]),
            iv: Iv::from(iv),
        };
        let keys = keys_of(Version::Tls12, sequence, &chacha).unwrap();
        prop_assert_eq!(keys.iv, iv);
    }
}

/// Compares the first nonces of both sides, one by one.
#[test]
fn neighbours_do_not_meet() {
    for tail in [0, 1, u64::MAX, 1 << 63, (1 << 63) - 1] {
        let mut iv = [7; NONCE_BYTES];
        iv[SALT_BYTES..].copy_from_slice(&u64::to_be_bytes(tail));
        let secrets = secrets(iv);
        let keys = keys_of(Version::Tls12, 1000, &secrets).unwrap();
        let first = u64::from_be_bytes(*keys.iv.last_chunk().unwrap());
        let kernels: Vec<u64> = (0..1000).map(|record| first + record).collect();
        assert!((0..1000).all(|sequence| !kernels.contains(&ours(iv, sequence))));
    }
}

#[test]
fn control_records_have_their_types() {
    let close = ControlRecord::close_notify();
    assert_eq!((close.kind(), close.content()), (21, &[1, 0][..]));
    assert_eq!(ControlRecord::fatal(80).content(), [2, 80]);
    let update = ControlRecord::key_update();
    assert!(update.is_key_update() && !close.is_key_update());
    assert_eq!((update.kind(), update.content().len()), (22, 5));
}
