//! Derives or loads the keys of Encrypted Client Hello (RFC 9849), and opens hellos with them.
//!
//! Keys are a function of a secret and the time, like ticket keys: hosts with the same secret agree
//! on them without communication, and a restart loses none. Or they come from files, which other
//! programs may share. The format of hellos is in `wire::ech`.
//!
//! The receiver's half of HPKE (RFC 9180) is in base mode: DHKEM(X25519, HKDF-SHA256) with
//! HKDF-SHA256. The code is our own, because the library's opener takes no key derived from a
//! secret. The primitives are those of the library's cryptography.

use std::sync::{PoisonError, RwLock};

use aws_lc_rs::aead::{self, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64ct::{Base64, Encoding};
use telemetry::outcome::EchResult;
use wire::alert;
use wire::client_hello::ClientHello;
use wire::ech::{
    self, AEAD_AES_128_GCM, AEAD_CHACHA20_POLY1305, EchConfig, EchOffer, KDF_SHA256, KEM_X25519,
    OuterHello, PUBLIC_KEY_BYTES,
};
use zeroize::Zeroizing;

use crate::resumption::keys::{SharedSecret, WorkerTask};
use crate::resumption::unix_seconds;
use crate::secrets::hkdf;

/// Number of keys before the published one that still open.
pub const KEPT: u64 = 3;

/// Maximum number of keys tried for one hello: those of two secrets, all with one number.
const ATTEMPTS_MAX: usize = 2;

/// Source of keys.
#[derive(Clone, Debug, PartialEq)]
pub enum EchKeySource {
    /// Keys derived from secrets, at least one; the keys of the first are published, each for this
    /// long, in seconds (not 0).
    Derived { secrets: Vec<SharedSecret>, rotate_seconds: u64 },
    /// Keys from files, at least one; the first is published.
    Listed(Vec<ListedEchKey>),
}

/// A key and its configuration, from a file.
#[derive(Clone, PartialEq)]
pub struct ListedEchKey {
    private: Zeroizing<Vec<u8>>,
    config: EchConfig,
}

/// Hides the keys from logs.
impl std::fmt::Debug for ListedEchKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListedEchKey").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Fault of a file with a key of ECH.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EchFileFault {
    #[error("has no PRIVATE KEY of X25519")]
    NoKey,
    #[error("has no ECHCONFIG for X25519")]
    NoConfig,
    #[error("has a configuration for another key")]
    OtherKey,
}

impl ListedEchKey {
    /// Reads a file in the format of OpenSSL, nginx and HAProxy: blocks of PEM, PRIVATE KEY and
    /// ECHCONFIG. Among several configurations the first that is for the key counts.
    ///
    /// # Errors
    /// Fails with the part that the file lacks.
    pub fn read(text: &[u8]) -> Result<Self, EchFileFault> {
        let text = std::str::from_utf8(text).map_err(|_| EchFileFault::NoKey)?;
        let private = pem_block(text, "PRIVATE KEY").ok_or(EchFileFault::NoKey)?;
        let key = ReceiverKey::from_der(&private).ok_or(EchFileFault::NoKey)?;
        let configs = pem_block(text, "ECHCONFIG").and_then(|list| EchConfig::read_list(&list));
        let configs = configs.filter(|list| !list.is_empty()).ok_or(EchFileFault::NoConfig)?;
        let config = configs.into_iter().find(|one| one.public_key == *key.public());
        Ok(Self { private, config: config.ok_or(EchFileFault::OtherKey)? })
    }

    pub fn public_name(&self) -> &str {
        &self.config.public_name
    }
}

fn pem_block(text: &str, label: &str) -> Option<Zeroizing<Vec<u8>>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (content, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let content: Zeroizing<String> = Zeroizing::new(content.split_whitespace().collect());
    Base64::decode_vec(&content).ok().map(Zeroizing::new)
}

/// ECH keys of a process.
pub struct EchKeys {
    public_name: String,
    source: EchKeySource,
    window: RwLock<EchWindow>,
}

/// Hides the keys from logs.
impl std::fmt::Debug for EchKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EchKeys").field("public_name", &self.public_name).finish_non_exhaustive()
    }
}

/// Keys that open hellos at a time.
#[derive(Default)]
struct EchWindow {
    epoch: Option<u64>,
    keys: Vec<EchKey>,
}

struct EchKey {
    key: ReceiverKey,
    config: EchConfig,
    /// `tls ech`, a zero, and the configuration (RFC 9849 section 6.1).
    info: Vec<u8>,
    /// Number of rotations since the key was published; 0 if it is not published yet.
    age: u64,
    /// Rotation in which the key is published; 0 for a key from a file.
    epoch: u64,
}

/// State of a key that opens hellos now, for status output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EchKeyState {
    pub config_id: u8,
    /// Result reported for hellos that this key opens.
    pub result: EchResult,
    /// Start and end of the configuration's publication, in seconds since 1970; `None` = the key
    /// comes from a file.
    pub published: Option<(u64, u64)>,
}

impl EchKey {
    fn new(key: ReceiverKey, config: EchConfig, (age, epoch): (u64, u64)) -> Self {
        let info = [b"tls ech\0", &config.bytes[..]].concat();
        Self { key, config, info, age, epoch }
    }
}

/// Result of opening a hello.
pub enum OpenedHello {
    /// The hello has no ECH, and is used as it came.
    Absent,
    /// The hello is not for us, and is used as it came (RFC 9849 section 7.1).
    Rejected(EchResult),
    Accepted(AcceptedHello),
    /// The client violates the protocol inside its own encryption.
    Refused(EchFault),
}

/// An inner hello, and the context that opens the second one.
pub struct AcceptedHello {
    /// The inner hello in records.
    pub inner: Vec<u8>,
    pub result: EchResult,
    pub context: EchContext,
}

/// Fault of a client, with the alert for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EchFault {
    pub alert: u8,
    pub detail: String,
}

impl EchFault {
    fn inner(fault: &ech::InnerFault) -> Self {
        Self { alert: alert::ILLEGAL_PARAMETER, detail: fault.to_string() }
    }

    fn second(alert: u8, detail: &str) -> Self {
        Self { alert, detail: format!("second hello {detail}") }
    }
}

/// Opens a connection's second hello like the first (RFC 9849 section 7.1.1).
pub struct EchContext {
    context: OpenContext,
    suite: (u16, u16),
    config_id: u8,
}

impl EchContext {
    /// Returns the records of the second inner hello.
    ///
    /// # Errors
    /// Fails if there is none, or if it is sealed otherwise than the first.
    pub fn open_second(&mut self, hello: &ClientHello<'_>) -> Result<Vec<u8>, EchFault> {
        let outer = match ech::offer(hello) {
            EchOffer::Outer(outer) => outer,
            EchOffer::Absent => {
                let detail = "without encrypted_client_hello";
                return Err(EchFault::second(alert::MISSING_EXTENSION, detail));
            }
            EchOffer::Inner | EchOffer::Malformed => {
                return Err(EchFault::second(alert::ILLEGAL_PARAMETER, "is no outer one"));
            }
        };
        let is_same = (outer.kdf, outer.aead) == self.suite && outer.config_id == self.config_id;
        if !is_same || !outer.key.is_empty() {
            return Err(EchFault::second(alert::ILLEGAL_PARAMETER, "for another key"));
        }
        let opened = self.context.open(&outer.additional_data(), outer.payload);
        let encoded =
            opened.ok_or_else(|| EchFault::second(alert::DECRYPT_ERROR, "cannot be decrypted"))?;
        let mut records =
            ech::inner_records(hello, &encoded).map_err(|fault| EchFault::inner(&fault))?;
        // RFC 8446 section 5.1: only the first record may have an older version.
        records[2] = 3;
        Ok(records)
    }
}

impl EchKeys {
    /// Creates the keys. Derived configurations name `public_name`; those of files name their own.
    pub fn new(public_name: &str, source: EchKeySource) -> Self {
        Self { public_name: public_name.to_owned(), source, window: RwLock::default() }
    }

    /// Returns the configurations to publish now, and the end of their publication in seconds since
    /// 1970; `None` = configurations from files, which do not end.
    pub fn published(&self) -> (Vec<EchConfig>, Option<u64>) {
        self.published_at(unix_seconds())
    }

    fn published_at(&self, now: u64) -> (Vec<EchConfig>, Option<u64>) {
        self.renew(now);
        let window = self.window.read().unwrap_or_else(PoisonError::into_inner);
        match &self.source {
            EchKeySource::Derived { rotate_seconds, .. } => {
                let newest = window.keys.first().map(|one| one.config.clone());
                let end = (now / rotate_seconds + 1).saturating_mul(*rotate_seconds);
                (newest.into_iter().collect(), Some(end))
            }
            EchKeySource::Listed(_) => {
                (window.keys.iter().map(|one| one.config.clone()).collect(), None)
            }
        }
    }

    /// Returns all keys that open hellos now, those of the first secret first; the published key
    /// comes before older ones and the next one.
    pub fn states(&self) -> Vec<EchKeyState> {
        self.states_at(unix_seconds())
    }

    fn states_at(&self, now: u64) -> Vec<EchKeyState> {
        self.renew(now);
        let published = |epoch: u64| match &self.source {
            EchKeySource::Derived { rotate_seconds: each, .. } => {
                Some((epoch.saturating_mul(*each), (epoch + 1).saturating_mul(*each)))
            }
            EchKeySource::Listed(_) => None,
        };
        let state = |one: &EchKey| EchKeyState {
            config_id: one.config.id,
            result: accepted(one.age),
            published: published(one.epoch),
        };
        let window = self.window.read().unwrap_or_else(PoisonError::into_inner);
        window.keys.iter().map(state).collect()
    }

    pub fn public_name(&self) -> &str {
        &self.public_name
    }

    /// Opens the first hello of a connection.
    pub fn open(&self, hello: &ClientHello<'_>) -> OpenedHello {
        self.open_at(hello, unix_seconds())
    }

    fn open_at(&self, hello: &ClientHello<'_>, now: u64) -> OpenedHello {
        let outer = match ech::offer(hello) {
            EchOffer::Outer(outer) => outer,
            // An inner hello needs no client-facing server.
            EchOffer::Absent | EchOffer::Inner => return OpenedHello::Absent,
            EchOffer::Malformed => return OpenedHello::Rejected(EchResult::Malformed),
        };
        self.renew(now);
        let window = self.window.read().unwrap_or_else(PoisonError::into_inner);
        let of_number = |one: &&EchKey| one.config.id == outer.config_id;
        let mut found = window.keys.iter().filter(of_number).take(ATTEMPTS_MAX).peekable();
        if found.peek().is_none() {
            return OpenedHello::Rejected(EchResult::UnknownConfiguration);
        }
        let Some((key, opened)) = found.find_map(|key| Some((key, opened(key, &outer)?))) else {
            return OpenedHello::Rejected(EchResult::Undecryptable);
        };
        let (encoded, context) = opened;
        match ech::inner_records(hello, &encoded) {
            Ok(inner) => {
                OpenedHello::Accepted(AcceptedHello { inner, result: accepted(key.age), context })
            }
            Err(fault) => OpenedHello::Refused(EchFault::inner(&fault)),
        }
    }

    /// Makes the keys of the current epoch, if they do not exist yet.
    fn renew(&self, now: u64) {
        let epoch = match &self.source {
            EchKeySource::Derived { rotate_seconds, .. } => now / rotate_seconds,
            EchKeySource::Listed(_) => 0,
        };
        let is_there = |window: &EchWindow| window.epoch == Some(epoch);
        if is_there(&self.window.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let keys = match &self.source {
            EchKeySource::Derived { secrets, rotate_seconds } => {
                let each = secrets.iter();
                each.flat_map(|one| derived(one, *rotate_seconds, epoch, &self.public_name))
                    .collect()
            }
            EchKeySource::Listed(files) => {
                let key = |(age, file): (u64, &ListedEchKey)| {
                    let key = ReceiverKey::from_der(&file.private)?;
                    Some(EchKey::new(key, file.config.clone(), (age, 0)))
                };
                (0..).zip(files).filter_map(key).collect()
            }
        };
        let mut window = self.window.write().unwrap_or_else(PoisonError::into_inner);
        *window = EchWindow { epoch: Some(epoch), keys };
    }
}

/// Returns the keys of a secret that open during an epoch: its own, the former ones, and the next,
/// because a host whose clock is ahead may publish it already.
fn derived(
    secret: &SharedSecret,
    rotate_seconds: u64,
    epoch: u64,
    public_name: &str,
) -> impl Iterator<Item = EchKey> {
    let root = secret.root(WorkerTask::Ech);
    let oldest = epoch.saturating_sub(KEPT);
    let epochs = (oldest..=epoch).rev().chain([epoch + 1]);
    epochs.filter_map(move |of| {
        let mut bytes = Zeroizing::new([0; 32]);
        let numbers = [rotate_seconds.to_be_bytes(), of.to_be_bytes()].concat();
        hkdf::expand(&root, &[b"x25519", &numbers], &mut *bytes);
        let key = ReceiverKey::new(&bytes)?;
        // Ids differ among the keys that open at one time, since their epochs are consecutive.
        let id = of.to_be_bytes()[7];
        let config = EchConfig::new(id, public_name, *key.public());
        Some(EchKey::new(key, config, (epoch.saturating_sub(of), of)))
    })
}

fn opened(key: &EchKey, outer: &OuterHello<'_>) -> Option<(Vec<u8>, EchContext)> {
    let suite = (outer.kdf, outer.aead);
    let mut context = key.key.receive(suite, outer.key, &key.info)?;
    let encoded = context.open(&outer.additional_data(), outer.payload)?;
    Some((encoded, EchContext { context, suite, config_id: outer.config_id }))
}

fn accepted(age: u64) -> EchResult {
    match age {
        0 => EchResult::Accepted,
        1 => EchResult::AcceptedOneOlder,
        2 => EchResult::AcceptedTwoOlder,
        _ => EchResult::AcceptedThreeOlder,
    }
}

const VERSION: &[u8] = b"HPKE-v1";
const SECRET_BYTES: usize = 32;

/// Private key of a receiver.
pub(crate) struct ReceiverKey {
    private: PrivateKey,
    public: [u8; PUBLIC_KEY_BYTES],
}

impl ReceiverKey {
    /// Creates a key: any 32 bytes are a key of X25519 (RFC 7748 section 5).
    pub(crate) fn new(bytes: &[u8; SECRET_BYTES]) -> Option<Self> {
        let private = PrivateKey::from_private_key(&X25519, bytes).ok()?;
        let public = private.compute_public_key().ok()?;
        Some(Self { public: public.as_ref().try_into().ok()?, private })
    }

    /// Reads PKCS #8 in its first version, as OpenSSL writes it (RFC 8410 section 7).
    pub(crate) fn from_der(der: &[u8]) -> Option<Self> {
        const HEAD: [u8; 16] =
            [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20];
        Self::new(der.strip_prefix(&HEAD)?.try_into().ok()?)
    }

    pub(crate) fn public(&self) -> &[u8; PUBLIC_KEY_BYTES] {
        &self.public
    }

    /// Returns the context for a sender's messages sealed with `encapsulated`; `None` = the cipher
    /// or the sender's key is invalid.
    pub(crate) fn receive(
        &self,
        (kdf, aead): (u16, u16),
        encapsulated: &[u8],
        info: &[u8],
    ) -> Option<OpenContext> {
        let algorithm = algorithm_of(aead).filter(|_| kdf == KDF_SHA256)?;
        let shared = self.decapsulate(encapsulated)?;
        let suite =
            [b"HPKE", &KEM_X25519.to_be_bytes()[..], &kdf.to_be_bytes(), &aead.to_be_bytes()]
                .concat();
        let suite = SuiteId(&suite);
        const BASE: u8 = 0;
        let psk_id = suite.extract(&[], b"psk_id_hash", &[]);
        let info = suite.extract(&[], b"info_hash", info);
        let context = [&[BASE][..], psk_id.as_ref(), info.as_ref()].concat();
        let secret = suite.extract(&*shared, b"secret", &[]);
        let mut key = Zeroizing::new([0; 32]);
        let key = &mut key[..algorithm.key_len()];
        suite.expand(secret.as_ref(), b"key", &context, key);
        let mut base_nonce = [0; NONCE_LEN];
        suite.expand(secret.as_ref(), b"base_nonce", &context, &mut base_nonce);
        let key = UnboundKey::new(algorithm, key).ok().map(LessSafeKey::new)?;
        Some(OpenContext { key, base_nonce, sequence: 0 })
    }

    /// Returns the KEM's shared secret (RFC 9180 section 4.1); a key that makes it zero is refused.
    fn decapsulate(&self, encapsulated: &[u8]) -> Option<Zeroizing<[u8; SECRET_BYTES]>> {
        let peer = UnparsedPublicKey::new(&X25519, encapsulated);
        let suite = [b"KEM", &KEM_X25519.to_be_bytes()[..]].concat();
        let suite = SuiteId(&suite);
        let context = [encapsulated, &self.public[..]].concat();
        let agreed = agreement::agree(&self.private, peer, (), |secret| {
            let root = suite.extract(&[], b"eae_prk", secret);
            let mut shared = Zeroizing::new([0; SECRET_BYTES]);
            suite.expand(root.as_ref(), b"shared_secret", &context, &mut *shared);
            Ok(shared)
        });
        agreed.ok()
    }
}

fn algorithm_of(aead: u16) -> Option<&'static aead::Algorithm> {
    match aead {
        AEAD_AES_128_GCM => Some(&aead::AES_128_GCM),
        AEAD_CHACHA20_POLY1305 => Some(&aead::CHACHA20_POLY1305),
        _ => None,
    }
}

/// Opens the messages of one sender, in order.
pub(crate) struct OpenContext {
    key: LessSafeKey,
    base_nonce: [u8; NONCE_LEN],
    sequence: u64,
}

impl OpenContext {
    /// Opens the next message; `None` = it was sealed otherwise, and the next is still expected.
    pub(crate) fn open(&mut self, additional_data: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = self.base_nonce;
        for (byte, count) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= count;
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let mut bytes = sealed.to_vec();
        let opened = self.key.open_in_place(nonce, Aad::from(additional_data), &mut bytes).ok()?;
        let length = opened.len();
        bytes.truncate(length);
        self.sequence += 1;
        Some(bytes)
    }
}

/// LabeledExtract and LabeledExpand of a suite (RFC 9180 section 4).
struct SuiteId<'s>(&'s [u8]);

impl SuiteId<'_> {
    fn extract(&self, salt: &[u8], label: &[u8], secret: &[u8]) -> hmac::Tag {
        let labelled = Zeroizing::new([VERSION, self.0, label, secret].concat());
        hmac::sign(&hmac::Key::new(HMAC_SHA256, salt), &labelled)
    }

    /// Computes one block of HKDF-Expand (RFC 5869 section 2.3): no output here is longer.
    fn expand(&self, root: &[u8], label: &[u8], info: &[u8], out: &mut [u8]) {
        let bytes = u16::try_from(out.len()).expect("keys are short");
        let labelled = [&bytes.to_be_bytes()[..], VERSION, self.0, label, info, &[1]].concat();
        let block = hmac::sign(&hmac::Key::new(HMAC_SHA256, root), &labelled);
        out.copy_from_slice(&block.as_ref()[..out.len()]);
    }
}

#[cfg(test)]
mod tests;
