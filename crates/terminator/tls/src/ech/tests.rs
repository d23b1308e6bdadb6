//! Keys of ECH, tested against hellos that the TLS library's HPKE has sealed.

use rustls::crypto::aws_lc_rs::hpke::{
    DH_KEM_X25519_HKDF_SHA256_AES_128, DH_KEM_X25519_HKDF_SHA256_CHACHA20_POLY1305,
};
use rustls::crypto::hpke::{Hpke, HpkePublicKey, HpkeSealer};
use wire::client_hello::{self, HelloProgress};

use super::*;

const DAY: u64 = 86_400;
const NOW: u64 = 20_000 * DAY + 7;

fn secret(byte: u8) -> SharedSecret {
    SharedSecret::read("s", vec![byte; 32]).expect("32 bytes are a secret")
}

fn keys(secrets: &[u8]) -> EchKeys {
    let secrets = secrets.iter().map(|byte| secret(*byte)).collect();
    let source = EchKeySource::Derived { secrets, rotate_seconds: DAY };
    EchKeys::new("front.example", source)
}

/// A client whose hellos are sealed by the library's HPKE, which is not ours.
struct Client {
    sealer: Box<dyn HpkeSealer>,
    encapsulated: Vec<u8>,
    aead: u16,
    config_id: u8,
}

fn vector16(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

fn body(extensions: &[u8]) -> Vec<u8> {
    let head = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    [&head[..], &vector16(extensions)].concat()
}

const VERSIONS: &[u8] = &[0, 43, 0, 3, 2, 3, 4];
const MARK: &[u8] = &[0xfe, 0x0d, 0, 1, 1];

impl Client {
    fn new(config: &EchConfig, suite: &'static dyn Hpke) -> Self {
        let info = [b"tls ech\0", &config.bytes[..]].concat();
        let key = HpkePublicKey(config.public_key.to_vec());
        let (encapsulated, sealer) = suite.setup_sealer(&info, &key).expect("a sealer");
        let aead = suite.suite().sym.aead_id.into();
        Self { sealer, encapsulated: encapsulated.0, aead, config_id: config.id }
    }

    /// Returns the records of a hello whose inner one has these extensions.
    fn hello(&mut self, inner: &[u8], key: &[u8]) -> Vec<u8> {
        let encoded = body(inner);
        let outer = |payload: &[u8]| {
            let mut data = vec![0, 0, 1];
            data.extend(self.aead.to_be_bytes());
            data.push(self.config_id);
            data.extend([vector16(key), vector16(payload)].concat());
            body(&[VERSIONS, &[0xfe, 0x0d], &vector16(&data)].concat())
        };
        let additional_data = outer(&vec![0; encoded.len() + 16]);
        let sealed = self.sealer.seal(&additional_data, &encoded).expect("sealed");
        records(&outer(&sealed))
    }

    fn first(&mut self) -> Vec<u8> {
        let key = self.encapsulated.clone();
        self.hello(&[MARK, VERSIONS].concat(), &key)
    }
}

fn records(body: &[u8]) -> Vec<u8> {
    let message = [&[1, 0][..], &vector16(body)].concat();
    [&[22, 3, 1][..], &vector16(&message)].concat()
}

fn hello(records: &[u8]) -> ClientHello<'_> {
    match client_hello::read(records) {
        Ok(HelloProgress::Hello(hello)) => hello,
        other => panic!("no hello: {other:?}"),
    }
}

fn opened(keys: &EchKeys, records: &[u8], now: u64) -> Result<AcceptedHello, String> {
    match keys.open_at(&hello(records), now) {
        OpenedHello::Accepted(accepted) => Ok(accepted),
        OpenedHello::Absent => Err("absent".to_owned()),
        OpenedHello::Rejected(result) => Err(result.name().to_owned()),
        OpenedHello::Refused(fault) => Err(fault.detail),
    }
}

fn published(keys: &EchKeys, now: u64) -> EchConfig {
    keys.published_at(now).0.remove(0)
}

#[test]
fn hosts_agree_and_both_ciphers_open_both_hellos() {
    let (one, other) = (keys(&[1]), keys(&[1]));
    let suites: [&dyn Hpke; 2] =
        [DH_KEM_X25519_HKDF_SHA256_AES_128, DH_KEM_X25519_HKDF_SHA256_CHACHA20_POLY1305];
    for suite in suites {
        let mut client = Client::new(&published(&one, NOW), suite);
        let first = client.first();
        let mut accepted = opened(&other, &first, NOW).expect("opened");
        assert_eq!(accepted.result, EchResult::Accepted);
        let inner = records(&body(&[MARK, VERSIONS].concat()));
        assert_eq!(accepted.inner, inner);
        let second = client.hello(&[VERSIONS, MARK].concat(), &[]);
        let mut inner = records(&body(&[VERSIONS, MARK].concat()));
        inner[2] = 3;
        assert_eq!(accepted.context.open_second(&hello(&second)), Ok(inner));
    }
}

#[test]
fn keys_open_for_three_rotations_more_and_a_host_whose_clock_is_ahead_is_understood() {
    let (ours, clients) = (keys(&[1]), keys(&[1]));
    let first = Client::new(&published(&clients, NOW), DH_KEM_X25519_HKDF_SHA256_AES_128).first();
    for (day, expected) in [
        (-2, Err("unknown-configuration".to_owned())),
        (-1, Ok(EchResult::Accepted)),
        (0, Ok(EchResult::Accepted)),
        (1, Ok(EchResult::AcceptedOneOlder)),
        (2, Ok(EchResult::AcceptedTwoOlder)),
        (3, Ok(EchResult::AcceptedThreeOlder)),
        (4, Err("unknown-configuration".to_owned())),
    ] {
        let now = NOW.saturating_add_signed(day * DAY as i64);
        let result = opened(&ours, &first, now).map(|accepted| accepted.result);
        assert_eq!(result, expected, "day {day}");
    }
    assert_eq!(ours.published_at(NOW).1, Some(20_001 * DAY));
}

#[test]
fn the_states_of_keys_say_when_each_is_published() {
    let all = keys(&[1]).states_at(NOW);
    let days: Vec<_> = all.iter().map(|one| one.published.unwrap().0 / DAY).collect();
    assert_eq!(days, [20_000, 19_999, 19_998, 19_997, 20_001]);
    let accepted = EchResult::Accepted;
    let results: Vec<_> = all.iter().map(|one| one.result).collect();
    assert_eq!([results[0], results[4]], [accepted, accepted]);
    assert_eq!(results[3], EchResult::AcceptedThreeOlder);
    assert_eq!(all[0].published.unwrap().1, 20_001 * DAY);
    assert_eq!(all[0].config_id, published(&keys(&[1]), NOW).id);
}

#[test]
fn a_new_secret_publishes_and_the_old_one_still_opens() {
    let first =
        Client::new(&published(&keys(&[1]), NOW), DH_KEM_X25519_HKDF_SHA256_AES_128).first();
    assert!(opened(&keys(&[2, 1]), &first, NOW).is_ok());
    assert_ne!(published(&keys(&[2, 1]), NOW), published(&keys(&[1]), NOW));
    assert_eq!(opened(&keys(&[2]), &first, NOW).err().as_deref(), Some("undecryptable"));
}

#[test]
fn what_was_changed_does_not_open_and_what_was_not_may_come_again() {
    let keys = keys(&[1]);
    let first = Client::new(&published(&keys, NOW), DH_KEM_X25519_HKDF_SHA256_AES_128).first();
    // A replay opens: the backend handles it, as with any hello.
    assert!(opened(&keys, &first, NOW).is_ok() && opened(&keys, &first, NOW).is_ok());
    // Each byte of the body is authenticated with the payload, or the payload itself.
    for at in 9..first.len() {
        let mut changed = first.clone();
        changed[at] ^= 1;
        if let Ok(HelloProgress::Hello(hello)) = client_hello::read(&changed) {
            let outcome = keys.open_at(&hello, NOW);
            assert!(!matches!(outcome, OpenedHello::Accepted(_)), "byte {at}");
        }
    }
}

#[test]
fn a_second_hello_must_be_of_the_first_ones_sender() {
    let keys = keys(&[1]);
    let config = published(&keys, NOW);
    let sealed_anew = |inner: &[u8]| {
        let mut client = Client::new(&config, DH_KEM_X25519_HKDF_SHA256_AES_128);
        let first = client.first();
        let accepted = opened(&keys, &first, NOW).expect("opened");
        (accepted.context, client.hello(inner, &[]), first)
    };
    let good = [MARK, VERSIONS].concat();
    let (mut context, second, first) = sealed_anew(&good);
    let (_, of_another, _) = sealed_anew(&good);
    let alert_for = |context: &mut EchContext, records: &[u8]| {
        context.open_second(&hello(records)).expect_err("refused").alert
    };
    let plain = records(&body(VERSIONS));
    assert_eq!(alert_for(&mut context, &plain), alert::MISSING_EXTENSION);
    let inner = records(&body(&good));
    assert_eq!(alert_for(&mut context, &inner), alert::ILLEGAL_PARAMETER);
    // An encapsulated key, which only a first hello may have.
    assert_eq!(alert_for(&mut context, &first), alert::ILLEGAL_PARAMETER);
    assert_eq!(alert_for(&mut context, &of_another), alert::DECRYPT_ERROR);
    let mut changed = second.clone();
    *changed.last_mut().expect("bytes") ^= 1;
    assert_eq!(alert_for(&mut context, &changed), alert::DECRYPT_ERROR);
    assert!(context.open_second(&hello(&second)).is_ok());
    assert_eq!(alert_for(&mut context, &second), alert::DECRYPT_ERROR);
    let (mut context, second, _) = sealed_anew(VERSIONS);
    assert_eq!(alert_for(&mut context, &second), alert::ILLEGAL_PARAMETER);
}

#[test]
fn files_of_other_programs_hold_a_key_and_its_configuration() {
    let pem = |label: &str, der: &[u8]| {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", Base64::encode_string(der))
    };
    let pkcs8 = |byte: u8| {
        let head = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20];
        [&head[..], &[byte; 32]].concat()
    };
    let public = *ReceiverKey::new(&[9; 32]).expect("key").public();
    let config = EchConfig::new(77, "cover.example", public);
    let list = ech::config_list([&EchConfig::new(1, "other.example", [1; 32]), &config]);
    let (key, configs) = (pem("PRIVATE KEY", &pkcs8(9)), pem("ECHCONFIG", &list));
    let file = ListedEchKey::read(format!("{key}{configs}").as_bytes()).expect("a key");
    assert_eq!(file.public_name(), "cover.example");
    let keys = EchKeys::new("", EchKeySource::Listed(vec![file]));
    let first = Client::new(&config, DH_KEM_X25519_HKDF_SHA256_AES_128).first();
    assert!(opened(&keys, &first, NOW).is_ok());
    for (text, fault) in [
        (String::new(), EchFileFault::NoKey),
        (configs.clone(), EchFileFault::NoKey),
        (key.clone(), EchFileFault::NoConfig),
        (format!("{}{configs}", pem("PRIVATE KEY", &pkcs8(8))), EchFileFault::OtherKey),
        (format!("{key}{}", pem("ECHCONFIG", &[0, 0])), EchFileFault::NoConfig),
    ] {
        assert_eq!(ListedEchKey::read(text.as_bytes()), Err(fault));
    }
}

fn hex(digits: &str) -> Vec<u8> {
    let digits = digits.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16);
    digits.map(|pair| byte(pair).expect("digits")).collect()
}

const INFO: &str = "4f6465206f6e2061204772656369616e2055726e";
const PLAIN: &str = "4265617574792069732074727574682c20747275746820626561757479";

/// RFC 9180 appendices A.1.1 and A.2.1: the first two messages of each.
#[test]
fn messages_of_the_rfc_open_in_their_order() {
    for (aead, private, encapsulated, first, second) in VECTORS {
        let key = ReceiverKey::new(&hex(private).try_into().expect("32 bytes")).expect("key");
        let context = || key.receive((1, aead), &hex(encapsulated), &hex(INFO));
        let mut opener = context().expect("a cipher that is known");
        assert_eq!(opener.open(b"Count-1", &hex(first)), None, "other data");
        assert_eq!(opener.open(b"Count-0", &hex(second)), None, "not in order");
        assert_eq!(opener.open(b"Count-0", &hex(first)), Some(hex(PLAIN)));
        assert_eq!(opener.open(b"Count-0", &hex(first)), None, "a replay");
        assert_eq!(opener.open(b"Count-1", &hex(second)), Some(hex(PLAIN)));
        let mut other = key.receive((1, aead), &hex(encapsulated), b"").expect("a cipher");
        assert_eq!(other.open(b"Count-0", &hex(first)), None, "other info");
    }
}

#[test]
fn keys_and_ciphers_that_are_none_have_no_context() {
    let key = ReceiverKey::new(&[7; 32]).expect("key");
    for (suite, encapsulated) in [
        ((1, 2), vec![9; 32]),
        ((2, 1), vec![9; 32]),
        ((1, 1), vec![9; 31]),
        ((1, 1), Vec::new()),
        // The shared secret would be zero (RFC 7748 section 6.1).
        ((1, 1), vec![0; 32]),
    ] {
        assert!(key.receive(suite, &encapsulated, b"").is_none(), "{suite:?} {encapsulated:?}");
    }
}

const VECTORS: [(u16, &str, &str, &str, &str); 2] = [
    (
        AEAD_AES_128_GCM,
        "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8",
        "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431",
        "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c\
         512a",
        "af2d7e9ac9ae7e270f46ba1f975be53c09f8d875bdc8535458c2494e8a6eab251c03d0c22a56b8ca42c206\
         3b84",
    ),
    (
        AEAD_CHACHA20_POLY1305,
        "8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb",
        "1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a",
        "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b5\
         1a28",
        "6b53c051e4199c518de79594e1c4ab18b96f081549d45ce015be002090bb119e85285337cc95ba5f59992d\
         c98c",
    ),
];
