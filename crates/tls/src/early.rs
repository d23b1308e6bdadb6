//! Early data that is refused: which records are it, so that the library need not be shown them.
//!
//! A client sends early data before it knows whether it is taken. If not, the server has to skip
//! what it cannot open, up to the first record of the handshake (RFC 8446 section 4.2.10). The
//! library's unbuffered interface tries each such record again whenever it is asked, until it gives
//! up. So we try ourselves, with the key of the client's handshake messages, of which the library
//! tells through its log of keys; the first record that opens is the library's again.

use std::cell::{Cell, RefCell};

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce,
    UnboundKey,
};
use aws_lc_rs::hkdf::{self, HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use rustls::KeyLog;
use zeroize::Zeroizing;

use crate::options::Suite;
use crate::record::HEADER_BYTES;

/// What is skipped at most, in bytes with the records' overhead: four times the most that any
/// service takes. A client may have been told of more by another configuration.
const SKIPPED_BYTES_MAX: usize = 1 << 20;

const CLIENT_EARLY: &str = "CLIENT_EARLY_TRAFFIC_SECRET";
const CLIENT_HANDSHAKE: &str = "CLIENT_HANDSHAKE_TRAFFIC_SECRET";

type Secret = Option<Zeroizing<Vec<u8>>>;
type Key = (LessSafeKey, [u8; NONCE_LEN]);

thread_local! {
    static IS_WANTED: Cell<bool> = const { Cell::new(false) };
    static EARLY: RefCell<Secret> = const { RefCell::new(None) };
    static HANDSHAKE: RefCell<Secret> = const { RefCell::new(None) };
}

/// Hears of the two secrets that are wanted, on the thread that drives the handshake.
#[derive(Debug)]
pub(crate) struct SecretListener;

impl KeyLog for SecretListener {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        let secret = Some(Zeroizing::new(secret.to_vec()));
        match label {
            CLIENT_EARLY if IS_WANTED.get() => EARLY.set(secret),
            CLIENT_HANDSHAKE if IS_WANTED.get() => HANDSHAKE.set(secret),
            _ => {}
        }
    }

    fn will_log(&self, label: &str) -> bool {
        IS_WANTED.get() && [CLIENT_EARLY, CLIENT_HANDSHAKE].contains(&label)
    }
}

/// Says whether the handshake that this thread drives now wants its secrets.
pub(crate) fn want_secrets(is_wanted: bool) {
    IS_WANTED.set(is_wanted);
    EARLY.take();
    HANDSHAKE.take();
}

/// Tells refused early data from the handshake.
pub(crate) struct Skipper {
    /// Of the client's handshake messages, once it is known.
    handshake: Option<Key>,
    /// Of its early data, if a session is resumed.
    early: Option<Key>,
    /// Whether it is known that early data is refused.
    pub(crate) is_refused: bool,
    left: usize,
}

/// What a record is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sort {
    /// The handshake's.
    Handshake,
    /// Early data.
    Early,
    /// Among it, EndOfEarlyData or a part of it, or an alert.
    EarlyMessage,
    /// More early data than anybody may send.
    TooMuch,
}

impl Skipper {
    pub(crate) fn new() -> Self {
        Self {
            handshake: None,
            early: None,
            is_refused: false,
            left: SKIPPED_BYTES_MAX,
        }
    }

    /// Takes up the secrets, if this step has told them.
    pub(crate) fn learn(&mut self, suite: Option<Suite>) {
        let key = |secret: Secret| key_of(suite?, &secret?);
        self.handshake = self.handshake.take().or_else(|| key(HANDSHAKE.take()));
        self.early = self.early.take().or_else(|| key(EARLY.take()));
    }

    /// Judges a record of hidden type. Before there are keys, after a HelloRetryRequest, all such
    /// are early data.
    pub(crate) fn judge(&mut self, record: &[u8], suite: Option<Suite>) -> Sort {
        self.learn(suite);
        let key = self.handshake.as_ref();
        if key.is_some_and(|key| opened(key, record).is_some()) {
            return Sort::Handshake;
        }
        match self.left.checked_sub(record.len()) {
            None => Sort::TooMuch,
            Some(left) => {
                self.left = left;
                self.sort_of_early(record)
            }
        }
    }

    /// The first record of early data opens, and shows whether it is some.
    fn sort_of_early(&self, record: &[u8]) -> Sort {
        let plain = self.early.as_ref().and_then(|key| opened(key, record));
        match plain.is_none_or(|plain| is_data(&plain)) {
            true => Sort::Early,
            false => Sort::EarlyMessage,
        }
    }
}

/// Whether the content of a record, with its type behind it and zeros behind that (RFC 8446 section
/// 5.2), is application data.
fn is_data(plain: &[u8]) -> bool {
    const APPLICATION_DATA: u8 = 23;
    plain.iter().rev().find(|byte| **byte != 0) == Some(&APPLICATION_DATA)
}

/// What is in the first record under this key: its sequence number is 0, so that its nonce is the
/// IV itself (RFC 8446 section 5.3). `None` = it is not that.
fn opened((key, iv): &Key, record: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (header, sealed) = record.split_first_chunk::<HEADER_BYTES>()?;
    let mut copy = Zeroizing::new(sealed.to_vec());
    let nonce = Nonce::assume_unique_for_key(*iv);
    let plain = key.open_in_place(nonce, Aad::from(*header), &mut copy);
    let plain_bytes = plain.ok()?.len();
    copy.truncate(plain_bytes);
    Some(copy)
}

fn key_of(suite: Suite, secret: &[u8]) -> Option<Key> {
    let (hash, algorithm): (_, &'static Algorithm) = match suite {
        Suite::Tls13Aes128GcmSha256 => (HKDF_SHA256, &AES_128_GCM),
        Suite::Tls13Aes256GcmSha384 => (HKDF_SHA384, &AES_256_GCM),
        Suite::Tls13ChaCha20Poly1305Sha256 => (HKDF_SHA256, &CHACHA20_POLY1305),
        _ => return None,
    };
    let mut key = Zeroizing::new([0; 32]);
    let key = key.get_mut(..algorithm.key_len())?;
    let mut iv = [0; NONCE_LEN];
    expand_label(hash, secret, b"key", key)?;
    expand_label(hash, secret, b"iv", &mut iv)?;
    let key = UnboundKey::new(algorithm, key).ok()?;
    Some((LessSafeKey::new(key), iv))
}

/// HKDF-Expand-Label without a context (RFC 8446 section 7.1).
fn expand_label(hash: hkdf::Algorithm, secret: &[u8], label: &[u8], out: &mut [u8]) -> Option<()> {
    let length = u16::try_from(out.len()).ok()?.to_be_bytes();
    let label_length = u8::try_from(PREFIX.len() + label.len()).ok()?;
    let info = [&length[..], &[label_length], PREFIX, label, &[0]];
    let root = Prk::new_less_safe(hash, secret);
    let expanded = root.expand(&info, Bytes(out.len())).ok()?;
    expanded.fill(out).ok()
}

const PREFIX: &[u8] = b"tls13 ";

/// So many bytes from HKDF.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// The first record under a secret, with this content and the type behind it.
#[cfg(test)]
pub(crate) fn first_record(suite: Suite, secret: &[u8], content_and_type: &[u8]) -> Vec<u8> {
    const TAG_BYTES: u8 = 16;
    let (key, iv) = key_of(suite, secret).expect("a key");
    let length = u8::try_from(content_and_type.len()).expect("a short one") + TAG_BYTES;
    let header = [23, 3, 3, 0, length];
    let mut record = [&header[..], content_and_type].concat();
    let nonce = Nonce::assume_unique_for_key(iv);
    let sealed = &mut record[HEADER_BYTES..];
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(header), sealed);
    record.extend_from_slice(tag.expect("sealed").as_ref());
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8448 section 3: the server's handshake traffic secret with its key and IV.
    #[test]
    fn keys_are_those_of_the_rfc() {
        let secret = hex("b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38");
        let (mut key, mut iv) = ([0; 16], [0; NONCE_LEN]);
        expand_label(HKDF_SHA256, &secret, b"key", &mut key).expect("a key");
        expand_label(HKDF_SHA256, &secret, b"iv", &mut iv).expect("an IV");
        assert_eq!(key[..], hex("3fce516009c21727d0f2e4e86ee403bc"));
        assert_eq!(iv[..], hex("5d313eb2671276ee13000b30"));
    }

    fn hex(digits: &str) -> Vec<u8> {
        let digits = digits.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16);
        digits.map(|pair| byte(pair).expect("digits")).collect()
    }

    #[test]
    fn what_opens_is_the_handshakes_and_the_rest_is_bounded() {
        let suite = Suite::Tls13Aes128GcmSha256;
        let record = first_record(suite, &[7; 32], b"x");

        let mut skipper = Skipper::new();
        want_secrets(true);
        assert_eq!(skipper.judge(&record, Some(suite)), Sort::Early);
        SecretListener.log("SERVER_HANDSHAKE_TRAFFIC_SECRET", &[], &[8; 32]);
        SecretListener.log(CLIENT_HANDSHAKE, &[], &[7; 32]);
        assert_eq!(skipper.judge(&record, Some(suite)), Sort::Handshake);
        want_secrets(false);
        let early = vec![23; 16_000];
        let skipped = (0..).take_while(|_| skipper.judge(&early, Some(suite)) == Sort::Early);
        assert_eq!(skipped.count(), SKIPPED_BYTES_MAX / 16_000);
        assert_eq!(skipper.judge(&early, Some(suite)), Sort::TooMuch);
        assert_eq!(skipper.judge(&record, Some(suite)), Sort::Handshake);
    }

    #[test]
    fn nothing_is_heard_of_unless_it_is_wanted() {
        want_secrets(false);
        SecretListener.log(CLIENT_HANDSHAKE, &[], &[7; 32]);
        SecretListener.log(CLIENT_EARLY, &[], &[7; 32]);
        assert!(HANDSHAKE.take().is_none() && EARLY.take().is_none());
    }
}
