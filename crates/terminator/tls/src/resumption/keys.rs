//! Manages ticket keys: the files that contain them, the keys valid at a time, and the one that
//! encrypts.
//!
//! The bytes of a file of HAProxy or nginx are a secret from which our own keys are derived, never
//! a key in those programs' sense: they seal with AES-CBC and HMAC, and only OpenSSL reads its
//! ticket contents. Hosts with the same files agree on their keys. A secret shared by hosts is the
//! root of everything they agree on, and worker processes get only the roots extracted for their
//! tasks ([`SharedSecret::for_workers`]).
//!
//! Keys come from a secret or from a list. From a secret every key is a function of the secret and
//! the time: hosts with the same secret agree on their keys without communication, a restart loses
//! none, and rotation needs no action. The cost: anybody who learns the secret can compute past
//! keys too, so forward secrecy of resumed TLS 1.2 sessions lasts as long as the secret is secret.
//! A list is rotated by its author, and keys removed from it are gone.
//!
//! No key of the ring encrypts directly: a key that is listed for years, or that many hosts have,
//! would need nonces that never repeat. Each process encrypts with a [`Subkey`] of its own, made of
//! the key and a random salt, and counts its nonces.

use std::collections::HashSet;
use std::fmt::{self, Debug, Formatter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use aws_lc_rs::aead::{LessSafeKey, NONCE_LEN};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};
use aws_lc_rs::{hmac, rand};
use base64ct::{Base64, Encoding};
use zeroize::{Zeroize, Zeroizing};

use crate::secrets::hkdf;

/// Sizes of one key: name and two keys of 128 bits, or a name and two keys of 256 bits.
const KEY_BYTES: [usize; 2] = [48, 80];

/// Number of a file's last lines that are used as keys, as in HAProxy. So a file that only grows
/// retires its oldest key with each line.
const LINES_ALIVE: usize = 3;

/// Minimum length of a secret, because a shorter one could be guessed.
const SECRET_BYTES_MIN: usize = 32;

/// Minimum number of different bytes in a secret: 32 random hexadecimal digits have fewer less than
/// once in a billion.
const DIFFERENT_BYTES_MIN: usize = 8;

/// Ticket keys listed by an operator; at least one.
#[derive(Clone, Eq, PartialEq)]
pub struct ListedKeys {
    secrets: Vec<Zeroizing<Vec<u8>>>,
    encrypting: usize,
}

/// Path and contents of a file.
type TicketKeyFile = (String, Zeroizing<Vec<u8>>);

/// Length of a root: a hash of SHA-256.
pub const ROOT_BYTES: usize = 32;

/// Task of a worker process that needs keys of a shared secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WorkerTask {
    Datagrams,
    Store,
    Tickets,
    Ech,
}

impl WorkerTask {
    const ALL: [Self; 4] = [Self::Datagrams, Self::Store, Self::Tickets, Self::Ech];

    /// Returns the salt of the task's root, the same for hosts of all versions.
    pub(crate) fn salt(self) -> &'static [u8] {
        match self {
            Self::Datagrams => b"lariat cluster datagrams 1",
            Self::Store => b"lariat cluster store 1",
            Self::Tickets => b"lariat resumption 1",
            Self::Ech => b"lariat ech 1",
        }
    }
}

/// Salt of the root that stays in supervisors.
const NOTICES: &[u8] = b"lariat cluster notices 1";

/// Start of the text that worker processes get instead of a secret; roots follow.
const FOR_WORKERS: &[u8] = b"lariat roots 1\n";

/// A secret shared by hosts, as the roots of keys that HKDF (RFC 5869) extracts from it: a root
/// reveals neither the secret nor another root. A worker process has the roots of its tasks.
#[derive(Clone, Eq, PartialEq)]
pub struct SharedSecret {
    /// Roots in the order of [`WorkerTask::ALL`].
    roots: Zeroizing<Vec<u8>>,
    notices: Option<Zeroizing<[u8; ROOT_BYTES]>>,
    is_guessable: bool,
}

/// Fault of a file of keys.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum KeyFileFault {
    /// No file, or one without a key.
    #[error("holds no ticket key")]
    Empty,
    #[error("{0}: has {1} bytes and is not lines of base64; nginx's form has 48 or 80 bytes")]
    Form(String, usize),
    /// A line that is no key.
    #[error("{0}: line {1} is no ticket key: 48 or 80 bytes in base64 are")]
    Line(String, usize),
    /// Both formats, which disagree about the encrypting key.
    #[error("{0}: has lines, so it is the only file that can be named")]
    Mixed(String),
    #[error("{0}: holds a key that was named before")]
    Twice(String),
    /// The secret is too short to be safe.
    #[error("{0}: has {1} bytes before the white space at its end; a secret has at least 32")]
    SecretShort(String, usize),
}

impl ListedKeys {
    /// Reads files, each with its path.
    ///
    /// Either each holds one key, in nginx's format (`ssl_session_ticket_key`): 48 or 80 bytes; the
    /// first file's key encrypts. Or there is one with lines, in HAProxy's format
    /// (`tls-ticket-keys`): base64 of 48 or 80 bytes each, of which the last three are used; the
    /// last line but one encrypts, so that every host knows the last key before any uses it.
    ///
    /// # Errors
    /// Fails with the fault of the first faulty file.
    pub fn read(files: Vec<(String, Vec<u8>)>) -> Result<Self, KeyFileFault> {
        let zeroing = |(place, bytes)| (place, Zeroizing::new(bytes));
        Self::read_zeroing(&files.into_iter().map(zeroing).collect::<Vec<_>>())
    }

    fn read_zeroing(files: &[TicketKeyFile]) -> Result<Self, KeyFileFault> {
        let keys = match files {
            [(place, bytes)] if !KEY_BYTES.contains(&bytes.len()) => Self::of_lines(place, bytes)?,
            _ => Self::of_files(files)?,
        };
        for (place, secret) in keys.secrets.iter().enumerate() {
            if keys.secrets[..place].contains(secret) {
                let file = files.get(place).or_else(|| files.first());
                return Err(KeyFileFault::Twice(
                    file.map_or_else(String::new, |file| file.0.clone()),
                ));
            }
        }
        Ok(keys)
    }

    pub fn count(&self) -> usize {
        self.secrets.len()
    }

    pub(super) fn encrypting(&self) -> usize {
        self.encrypting
    }

    pub(super) fn secrets(&self) -> impl Iterator<Item = &[u8]> {
        self.secrets.iter().map(|secret| secret.as_slice())
    }

    fn of_files(files: &[TicketKeyFile]) -> Result<Self, KeyFileFault> {
        if files.is_empty() {
            return Err(KeyFileFault::Empty);
        }
        let secret = |(place, bytes): &TicketKeyFile| match bytes.len() {
            length if KEY_BYTES.contains(&length) => Ok(bytes.clone()),
            _ if Self::of_lines(place, bytes).is_ok() => Err(KeyFileFault::Mixed(place.clone())),
            length => Err(KeyFileFault::Form(place.clone(), length)),
        };
        Ok(Self { secrets: files.iter().map(secret).collect::<Result<_, _>>()?, encrypting: 0 })
    }

    fn of_lines(place: &str, bytes: &[u8]) -> Result<Self, KeyFileFault> {
        let form = || KeyFileFault::Form(place.to_owned(), bytes.len());
        let text = std::str::from_utf8(bytes).map_err(|_| form())?;
        let mut secrets = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let secret = Base64::decode_vec(line).map(Zeroizing::new);
            let secret = secret.ok().filter(|secret| KEY_BYTES.contains(&secret.len()));
            secrets.push(secret.ok_or_else(|| KeyFileFault::Line(place.to_owned(), number))?);
            if secrets.len() > LINES_ALIVE {
                secrets.remove(0);
            }
        }
        if secrets.is_empty() {
            return Err(KeyFileFault::Empty);
        }
        let encrypting = secrets.len().saturating_sub(2);
        Ok(Self { secrets, encrypting })
    }
}

impl SharedSecret {
    /// Reads the contents of a file: at least 32 bytes, not counting white space at the end; or the
    /// text of [`Self::for_workers`].
    ///
    /// # Errors
    /// Fails if the secret is too short.
    pub fn read(place: &str, bytes: Vec<u8>) -> Result<Self, KeyFileFault> {
        let bytes = Zeroizing::new(bytes);
        let roots = bytes.strip_prefix(FOR_WORKERS);
        if let Some(roots) = roots.filter(|all| all.len() == WorkerTask::ALL.len() * ROOT_BYTES) {
            let roots = Zeroizing::new(roots.to_vec());
            return Ok(Self { roots, notices: None, is_guessable: false });
        }
        // A blank page is no secret, however long it is.
        let secret = bytes.trim_ascii_end();
        if secret.len() < SECRET_BYTES_MIN {
            return Err(KeyFileFault::SecretShort(place.to_owned(), secret.len()));
        }
        let roots = WorkerTask::ALL.map(|task| extract(task.salt(), secret));
        Ok(Self {
            roots: Zeroizing::new(roots.map(|root| *root).concat()),
            notices: Some(extract(NOTICES, secret)),
            is_guessable: is_guessable(secret),
        })
    }

    /// Returns the text that worker processes read instead of the secret.
    pub fn for_workers(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([FOR_WORKERS, &self.roots].concat())
    }

    /// Returns the root of the keys for messages between supervisors; `None` in worker processes.
    pub fn notices(&self) -> Option<&[u8; ROOT_BYTES]> {
        self.notices.as_deref()
    }

    /// Reports whether the secret looks invented by a person: few different characters, or words
    /// without a digit. An attacker who records one datagram or ticket can try such secrets
    /// offline. Secrets that programs draw at random, as bytes, in hexadecimal or Base64, pass.
    pub fn is_guessable(&self) -> bool {
        self.is_guessable
    }

    /// Returns the root of the keys for a task.
    pub(crate) fn root(&self, task: WorkerTask) -> Prk {
        let root = self.roots.chunks(ROOT_BYTES).nth(task as usize);
        Prk::new_less_safe(HKDF_SHA256, root.expect("there is a root of each task"))
    }
}

fn is_guessable(secret: &[u8]) -> bool {
    let different = secret.iter().collect::<HashSet<_>>().len();
    let is_words = secret.is_ascii() && !secret.iter().any(u8::is_ascii_digit);
    different < DIFFERENT_BYTES_MIN || is_words
}

/// Computes HKDF-Extract (RFC 5869 section 2.2), because the library hides the result of its own.
fn extract(salt: &[u8], secret: &[u8]) -> Zeroizing<[u8; ROOT_BYTES]> {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, salt), secret);
    let mut root = Zeroizing::new([0; ROOT_BYTES]);
    root.copy_from_slice(tag.as_ref());
    root
}

/// Hides the secrets from logs.
impl Debug for ListedKeys {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedKeys").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl Debug for SharedSecret {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSecret").finish_non_exhaustive()
    }
}

/// Length of a key's name.
pub(super) const NAME_BYTES: usize = 8;

/// Name of a key, included in each ticket that it sealed.
pub(super) type TicketKeyName = [u8; NAME_BYTES];

/// Length of a subkey's salt: no two processes draw the same.
pub(super) const SALT_BYTES: usize = 16;

/// Salt of a subkey, included in each ticket that it sealed.
pub(super) type SubkeySalt = [u8; SALT_BYTES];

/// Separator between a label and a value of HKDF: keeps pairs apart.
const SEPARATOR: &[u8] = &[0];

/// Number of former keys' names that are remembered, to distinguish their tickets from a
/// stranger's: with the default rotation those of a month. 512 bytes.
const RETIRED_MAX: u64 = 64;

/// Ticket keys of the process.
pub(super) struct Ring {
    source: Source,
    window: RwLock<KeyPeriod>,
}

enum Source {
    /// A key for each period.
    Derived {
        /// Roots of the secrets, the encrypting one first; zeroed by the library when dropped.
        roots: Vec<Prk>,
        rotate_seconds: u64,
        keep: u32,
    },
    /// The window holds all keys.
    Listed,
}

/// Keys valid at a time.
pub(super) struct KeyPeriod {
    epoch: u64,
    /// Keys that decrypt, newest first of each secret.
    keys: Vec<TicketKey>,
    encrypting: usize,
    own: Subkey,
    /// Names of former keys.
    retired: Vec<TicketKeyName>,
}

pub(super) struct TicketKey {
    pub(super) name: TicketKeyName,
    /// Root of subkeys; zeroed by the library when dropped.
    root: Prk,
    /// Start of the key's use, in seconds since the epoch.
    since: u64,
}

/// Subkey that encrypts in this process while its key is the newest.
pub(super) struct Subkey {
    pub(super) salt: SubkeySalt,
    pub(super) key: LessSafeKey,
    count: AtomicU64,
}

pub(super) enum FoundKey<'w> {
    Key(&'w TicketKey),
    Retired,
    Stranger,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TicketKeyFacts {
    /// First bytes of the key's name, in hexadecimal.
    pub name: String,
    pub purpose: KeyPurpose,
    /// Time in use, in seconds; 0 for a key that is not in use yet.
    pub age_seconds: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KeyPurpose {
    /// Encrypts new tickets, and decrypts its own.
    Encrypt,
    /// Decrypts tickets that this host or another has sealed with it.
    Decrypt,
}

/// Returns the root from which the keys of a secret are derived.
pub(super) fn root_of(secret: &[u8]) -> Prk {
    hkdf::extract(WorkerTask::Tickets.salt(), secret)
}

impl Ring {
    /// Creates keys from secrets' roots, at least one. Each key of the first encrypts for
    /// `rotate_seconds` (not 0) and decrypts for `keep` times as long after; those of the others
    /// only decrypt, so that hosts can get a new secret one after the other.
    pub(super) fn derived(roots: Vec<Prk>, rotate_seconds: u64, keep: u32) -> Self {
        let window = RwLock::new(KeyPeriod::around(&roots, rotate_seconds, 0, 0));
        Self { source: Source::Derived { roots, rotate_seconds, keep }, window }
    }

    /// Creates keys from a non-empty list, in use from now on except those that `before` had.
    pub(super) fn listed<'k>(
        secrets: impl Iterator<Item = &'k [u8]>,
        encrypting: usize,
        before: Option<&Self>,
        now: u64,
    ) -> Self {
        let keys: Vec<_> =
            secrets.map(|secret| TicketKey::of(&root_of(secret), b"listed", now)).collect();
        let mut window = KeyPeriod {
            epoch: 0,
            own: Subkey::new(keys.get(encrypting).expect("one of the keys encrypts")),
            keys,
            encrypting,
            retired: Vec::new(),
        };
        if let Some(before) = before {
            window.follow(&before.at(now));
        }
        Self { source: Source::Listed, window: RwLock::new(window) }
    }

    /// Returns the keys for this time. A clock that steps back a little keeps the newer keys: all
    /// hosts know them as the next epoch's.
    pub(super) fn at(&self, now: u64) -> RwLockReadGuard<'_, KeyPeriod> {
        let window = self.window.read().unwrap_or_else(PoisonError::into_inner);
        let Source::Derived { roots, rotate_seconds, keep } = &self.source else {
            return window;
        };
        let epoch = now / rotate_seconds;
        let fits = |window: &KeyPeriod| window.epoch == epoch || window.epoch == epoch + 1;
        if fits(&window) {
            return window;
        }
        drop(window);
        let mut window = self.window.write().unwrap_or_else(PoisonError::into_inner);
        if !fits(&window) {
            *window = KeyPeriod::around(roots, *rotate_seconds, epoch, *keep);
        }
        drop(window);
        self.window.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyPeriod {
    /// Makes the epoch's key, the next one (another host's clock may be ahead) and the older ones.
    fn around(roots: &[Prk], rotate_seconds: u64, epoch: u64, keep: u32) -> Self {
        let oldest = epoch.saturating_sub(u64::from(keep));
        let key = |root: &Prk, epoch: u64| {
            let since = epoch.saturating_mul(rotate_seconds);
            TicketKey::of(root, &epoch.to_be_bytes(), since)
        };
        let of_root = |root| (oldest..=epoch + 1).rev().map(move |epoch| key(root, epoch));
        let keys: Vec<_> = roots.iter().flat_map(of_root).collect();
        let retired = roots.iter().flat_map(|root| {
            let epochs = oldest.saturating_sub(RETIRED_MAX)..oldest;
            epochs.map(|epoch| name_of(root, &epoch.to_be_bytes()))
        });
        // The first root's next key precedes it.
        let encrypting = 1;
        Self {
            epoch,
            own: Subkey::new(keys.get(encrypting).expect("each root has two keys or more")),
            encrypting,
            retired: retired.collect(),
            keys,
        }
    }

    /// Takes over from the previous keys: the start of use of those that stay, and the names of
    /// those that do not.
    fn follow(&mut self, before: &Self) {
        for key in &mut self.keys {
            if let Some(same) = before.keys.iter().find(|one| one.name == key.name) {
                key.since = same.since;
            }
        }
        let names = before.keys.iter().map(|key| key.name);
        let names = names.chain(before.retired.iter().copied());
        let gone = names.filter(|name| self.keys.iter().all(|key| key.name != *name));
        self.retired = gone.take(RETIRED_MAX as usize).collect();
    }

    /// Returns the key for new tickets.
    pub(super) fn encrypting(&self) -> &TicketKey {
        &self.keys[self.encrypting]
    }

    pub(super) fn own(&self) -> &Subkey {
        &self.own
    }

    pub(super) fn find(&self, name: TicketKeyName) -> FoundKey<'_> {
        match self.keys.iter().find(|key| key.name == name) {
            Some(key) => FoundKey::Key(key),
            None if self.retired.contains(&name) => FoundKey::Retired,
            None => FoundKey::Stranger,
        }
    }

    pub(super) fn facts(&self, now: u64) -> Vec<TicketKeyFacts> {
        let facts = |(place, key): (usize, &TicketKey)| TicketKeyFacts {
            name: key.name[..4]
                .iter()
                .fold(String::new(), |name, byte| format!("{name}{byte:02x}")),
            purpose: if place == self.encrypting {
                KeyPurpose::Encrypt
            } else {
                KeyPurpose::Decrypt
            },
            age_seconds: now.saturating_sub(key.since),
        };
        self.keys.iter().enumerate().map(facts).collect()
    }
}

impl TicketKey {
    fn of(root: &Prk, which: &[u8], since: u64) -> Self {
        let mut bytes = [0; 32];
        hkdf::expand(root, &[b"ticket key", SEPARATOR, which], &mut bytes);
        let key_root = Prk::new_less_safe(HKDF_SHA256, &bytes);
        bytes.zeroize();
        Self { name: name_of(root, which), root: key_root, since }
    }

    /// Returns the subkey of this salt.
    pub(super) fn subkey(&self, salt: SubkeySalt) -> LessSafeKey {
        hkdf::aes_256_gcm(&self.root, &[b"ticket subkey", SEPARATOR, &salt])
    }
}

impl Subkey {
    fn new(key: &TicketKey) -> Self {
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).expect("AWS-LC ends the process where there is no randomness");
        Self { salt, key: key.subkey(salt), count: AtomicU64::new(0) }
    }

    /// Returns a number that was not returned before; see [`nonce_of`].
    pub(super) fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }
}

/// Returns the nonce of a number: 64 bits are more than one process can count to.
pub(super) fn nonce_of(number: u64) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&number.to_be_bytes());
    nonce
}

fn name_of(root: &Prk, which: &[u8]) -> TicketKeyName {
    hkdf::bytes(root, &[b"ticket key name", SEPARATOR, which])
}

#[cfg(test)]
mod tests;
