//! Cryptography that a cluster's hosts share: the keys of their datagrams, the entries of the
//! session cache that may leave this host, notices among their supervisors, and sessions in a
//! shared store.
//!
//! All keys are derived from the cluster's secret by HKDF (RFC 5869), each under its own label.
//! Every boot of a sender encrypts with a key of its own and counts its datagrams, so that no nonce
//! repeats under a key (NIST SP 800-38D section 8.2.1), without agreement among the hosts.
//!
//! Notices are sealed end to end: worker processes carry them, and have no key for them. Each is
//! accepted once, while it is new. A sealed notice is Base64 of a header (version, key's id, host,
//! instant, number), a random nonce and AES-256-GCM's output; the header is authenticated. Each
//! host seals with a key of its own, and uses far fewer random nonces than are safe (NIST SP
//! 800-38D section 8.3).
//!
//! The store is not trusted: sessions have names in it that reveal no session's id, and values that
//! only holders of the cluster's secret can read or make. Each session has a key of its own,
//! derived from the secret and its name. A value opens under its name alone, and a key seals few
//! values with random nonces, far below the bound of NIST SP 800-38D section 8.3.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};
use aws_lc_rs::{hmac, rand};
use base64ct::{Base64, Encoding};
use session::mesh::{DatagramCipher, LocalSessions, WalkedSession};
use session::{Key, MemoryStore, Offered, StoredEntry};
use telemetry::outcome::{ClusterRejection, StoreRejection};
use wire::cluster::{HEADER_BYTES, Header};
use wire::store::{self, TAG_BYTES, ValueFault};
use zeroize::Zeroizing;

use crate::resumption::keys::{ROOT_BYTES, SharedSecret, WorkerTask};
use crate::secrets::hkdf;

/// Maximum number of derived keys kept: those of the boots that send to us. 100 KB.
const KEYS_MAX: usize = 256;

/// First byte of an entry: whether it may leave this host.
pub(super) const STAYS: u8 = 0;
pub(super) const SHARED: u8 = 1;

/// Name of a datagram's key: secret, sender and boot.
type KeyName = ([u8; 4], [u8; 8], [u8; 8]);

/// AES-256-GCM for the datagrams of a cluster.
pub struct ClusterCipher {
    roots: Vec<([u8; 4], Prk)>,
    /// Derived keys, the newest at the end.
    keys: Vec<(KeyName, LessSafeKey)>,
}

impl ClusterCipher {
    /// Creates a cipher that seals with the first of the secrets and opens with any of them.
    pub fn new(secrets: &[SharedSecret]) -> Self {
        let root = |secret: &SharedSecret| {
            let root = secret.root(WorkerTask::Datagrams);
            (hkdf::bytes(&root, &[b"key id"]), root)
        };
        Self { roots: secrets.iter().map(root).collect(), keys: Vec::new() }
    }

    /// Returns a key that was used before.
    fn known(&self, name: KeyName) -> Option<&LessSafeKey> {
        let place = self.keys.iter().rposition(|(known, _)| *known == name)?;
        self.keys.get(place).map(|(_, key)| key)
    }

    fn derived(&self, (key_id, sender, boot): KeyName) -> Option<LessSafeKey> {
        let (_, root) = self.roots.iter().find(|(known, _)| *known == key_id)?;
        Some(hkdf::aes_256_gcm(root, &[b"datagrams", &sender, &boot]))
    }

    /// Keeps a key that has opened a datagram: a stranger's numbers displace none.
    fn keep(&mut self, name: KeyName, key: LessSafeKey) {
        if self.keys.len() >= KEYS_MAX {
            self.keys.remove(0);
        }
        self.keys.push((name, key));
    }
}

fn name_of(header: &Header) -> KeyName {
    (header.key_id, header.sender, header.boot)
}

/// Returns the nonce, unique under the key of a boot: the stream, and the number in it.
fn nonce_of(header: &Header) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[3] = header.stream as u8;
    nonce[4..].copy_from_slice(&header.sequence.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

fn open_with<'b>(
    key: &LessSafeKey,
    header: &Header,
    bytes: &[u8; HEADER_BYTES],
    sealed: &'b mut [u8],
) -> Result<&'b [u8], ClusterRejection> {
    let opened = key.open_in_place(nonce_of(header), Aad::from(bytes), sealed);
    opened.map(|body| &*body).map_err(|_| ClusterRejection::Forged)
}

impl DatagramCipher for ClusterCipher {
    fn key_id(&self) -> [u8; 4] {
        self.roots.first().map(|(key_id, _)| *key_id).unwrap_or_default()
    }

    fn seal(&mut self, header: &Header, bytes: &[u8; HEADER_BYTES], body: &mut Vec<u8>) {
        let name = name_of(header);
        if self.known(name).is_none() {
            let key = self.derived(name);
            self.keep(name, key.expect("a header that is sealed has our key's id"));
        }
        let key = self.known(name).expect("it was kept just now");
        key.seal_in_place_append_tag(nonce_of(header), Aad::from(bytes), body)
            .expect("a datagram is shorter than AES-GCM allows");
    }

    fn open<'b>(
        &mut self,
        header: &Header,
        bytes: &[u8; HEADER_BYTES],
        sealed: &'b mut [u8],
    ) -> Result<&'b [u8], ClusterRejection> {
        let name = name_of(header);
        if let Some(key) = self.known(name) {
            return open_with(key, header, bytes, sealed);
        }
        let key = self.derived(name).ok_or(ClusterRejection::UnknownSecret)?;
        let body = open_with(&key, header, bytes, sealed)?;
        self.keep(name, key);
        Ok(body)
    }
}

/// Hides the secrets from logs.
impl Debug for ClusterCipher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterCipher").field("secrets", &self.roots.len()).finish_non_exhaustive()
    }
}

/// The entries of the session cache that may leave this host, and those from other hosts.
#[derive(Clone, Debug)]
pub struct SharedSessions {
    pub(super) store: Arc<MemoryStore>,
    pub(super) lifetime: Duration,
}

impl SharedSessions {
    /// Returns the lifetime of a session.
    pub fn lifetime(&self) -> Duration {
        self.lifetime
    }
}

impl LocalSessions for SharedSessions {
    fn find(&self, key: &Key, now: Instant) -> Option<(Zeroizing<Vec<u8>>, Duration)> {
        let (value, age) = self.store.peek(key.bytes(), now)?;
        let is_shared = value.first() == Some(&SHARED);
        let value = Zeroizing::new(value);
        is_shared.then(|| (value, self.lifetime.saturating_sub(age)))
    }

    fn insert(&self, key: &Key, value: &[u8], lifetime: Duration, now: Instant) -> bool {
        if value.first() != Some(&SHARED) || self.store.contains(key.bytes(), now) {
            return false;
        }
        // The session ends when it would have ended on the host that made it.
        let age = self.lifetime.saturating_sub(lifetime);
        let put_at = now.checked_sub(age).unwrap_or(now);
        lifetime > Duration::ZERO && self.store.put(key.bytes(), value.to_vec(), put_at)
    }

    fn remove(&self, key: &Key) {
        self.store.remove(key.bytes());
    }

    fn count(&self) -> usize {
        self.store.len()
    }

    fn walk(
        &self,
        place: &mut u64,
        age_max: Duration,
        now: Instant,
    ) -> Option<Option<WalkedSession>> {
        let found = self.store.walk(place, age_max, now)?;
        Some(found.and_then(|StoredEntry { key, value, age }| {
            let key = Key::new(&key).filter(|_| value.first() == Some(&SHARED))?;
            let lifetime = self.lifetime.saturating_sub(age);
            Some(WalkedSession { key, value, lifetime })
        }))
    }
}

const VERSION: u8 = 1;

/// Version, the key's id, the host, the instant in milliseconds since the epoch, the number.
const NOTICE_HEADER_BYTES: usize = 1 + 4 + 8 + 8 + 8;

/// Maximum number of hosts distinguished at a time. A cluster has fewer; others are ignored.
const HOSTS_MAX: usize = 256;

/// Number of a host's notices that may arrive out of order.
const OVERTAKEN_MAX: u64 = 64;

/// Fault of a notice that is ignored.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoticeFault {
    #[error("it has no form of ours")]
    Malformed,
    #[error("it is sealed by a secret that this host does not have")]
    UnknownSecret,
    #[error("it was changed or made up")]
    Forged,
    /// The notice's instant is too far from this host's clock.
    #[error("its instant is too far from this host's clock")]
    Old,
    #[error("it was sealed before this host started")]
    BeforeStart,
    #[error("it has come before")]
    Repeated,
    #[error("it is of one host too many")]
    TooManyHosts,
}

/// The keys by which a supervisor seals and opens notices, and the notices already opened.
pub struct NoticeCipher {
    own: u64,
    number: u64,
    roots: Vec<([u8; 4], Prk)>,
    heard: BTreeMap<u64, HeardNotices>,
    /// Time before which sealed notices are refused, because an earlier process may have accepted
    /// them already.
    accepted_since_ms: u64,
    started: Instant,
}

/// Notices received from one host.
struct HeardNotices {
    newest_ms: u64,
    newest: u64,
    /// Bits of the received numbers: the lowest is the newest's, then those before it.
    seen: u64,
}

impl NoticeCipher {
    /// Creates a cipher for the host with this number, which must be unique to this host and this
    /// start, that starts now.
    pub fn new(own: u64, (started, started_ms): (Instant, u64)) -> Self {
        let (roots, heard) = (Vec::new(), BTreeMap::new());
        Self { own, number: 0, roots, heard, accepted_since_ms: started_ms, started }
    }

    /// Seals with the first of these roots from now on, and opens with any of them.
    pub fn follow<'r>(&mut self, roots: impl IntoIterator<Item = &'r [u8; ROOT_BYTES]>) {
        let root = |bytes: &[u8; ROOT_BYTES]| {
            let root = Prk::new_less_safe(HKDF_SHA256, bytes);
            (hkdf::bytes(&root, &[b"key id"]), root)
        };
        self.roots = roots.into_iter().map(root).collect();
    }

    /// Seals a notice for the other hosts; `None` = there is no root.
    pub fn seal(&mut self, notice: &[u8], now_ms: u64) -> Option<String> {
        let (key_id, root) = self.roots.first()?;
        self.number += 1;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).expect("AWS-LC ends the process where there is no randomness");
        let mut text = Zeroizing::new(Vec::with_capacity(NOTICE_HEADER_BYTES + notice.len() + 64));
        text.push(VERSION);
        text.extend_from_slice(key_id);
        for number in [self.own, now_ms, self.number] {
            text.extend_from_slice(&number.to_be_bytes());
        }
        let header = text.clone();
        text.extend_from_slice(&nonce);
        text.extend_from_slice(notice);
        let body = text.get_mut(NOTICE_HEADER_BYTES + NONCE_LEN..).unwrap_or_default();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key(root, self.own).seal_in_place_separate_tag(nonce, Aad::from(&*header), body);
        text.extend_from_slice(tag.expect("a notice is shorter than AES-GCM allows").as_ref());
        Some(Base64::encode_string(&text))
    }

    /// Opens a notice sealed at most `window_ms` from now; returns its host and content.
    ///
    /// # Errors
    /// Fails if it is no notice of a supervisor, or not a new one.
    pub fn open(
        &mut self,
        text: &str,
        (now, now_ms): (Instant, u64),
        window_ms: u64,
    ) -> Result<(u64, Zeroizing<Vec<u8>>), NoticeFault> {
        let bytes = Base64::decode_vec(text).map_err(|_| NoticeFault::Malformed)?;
        let mut bytes = Zeroizing::new(bytes);
        let (header, rest) = bytes.split_at_mut_checked(NOTICE_HEADER_BYTES).unwrap_or_default();
        let (nonce, sealed) = rest.split_at_mut_checked(NONCE_LEN).unwrap_or_default();
        let (key_id, host, sent_ms, number) = read(header).ok_or(NoticeFault::Malformed)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| NoticeFault::Malformed)?;
        let root = self.roots.iter().find(|(known, _)| *known == key_id);
        let (_, root) = root.ok_or(NoticeFault::UnknownSecret)?;
        let opened = key(root, host).open_in_place(nonce, Aad::from(&*header), sealed);
        let notice = Zeroizing::new(opened.map_err(|_| NoticeFault::Forged)?.to_vec());
        if sent_ms.abs_diff(now_ms) > window_ms {
            return Err(NoticeFault::Old);
        }
        if self.accepted_since_ms > now_ms {
            // Our clock was set back: computes the start time by the new clock.
            let lived = now.saturating_duration_since(self.started).as_millis();
            let lived_ms = u64::try_from(lived).unwrap_or(u64::MAX);
            self.accepted_since_ms = now_ms.saturating_sub(lived_ms);
        }
        if sent_ms < self.accepted_since_ms {
            return Err(NoticeFault::BeforeStart);
        }
        // A host silent for longer has sent no notice that would still be new.
        self.heard.retain(|_, heard| now_ms <= heard.newest_ms.saturating_add(window_ms));
        if self.heard.len() >= HOSTS_MAX && !self.heard.contains_key(&host) {
            return Err(NoticeFault::TooManyHosts);
        }
        let heard = self.heard.entry(host);
        let heard = heard.or_insert(HeardNotices { newest_ms: sent_ms, newest: 0, seen: 0 });
        if !heard.is_new(number) {
            return Err(NoticeFault::Repeated);
        }
        heard.newest_ms = heard.newest_ms.max(sent_ms);
        Ok((host, notice))
    }
}

impl HeardNotices {
    /// Records a number. `false` = it was received before, or may have been.
    fn is_new(&mut self, number: u64) -> bool {
        if number > self.newest {
            let shift = u32::try_from(number - self.newest).unwrap_or(u32::MAX);
            self.seen = self.seen.checked_shl(shift).unwrap_or(0) | 1;
            self.newest = number;
            return true;
        }
        let age = self.newest - number;
        let is_new = age < OVERTAKEN_MAX && self.seen & (1 << age) == 0;
        if is_new {
            self.seen |= 1 << age;
        }
        is_new
    }
}

fn key(root: &Prk, host: u64) -> LessSafeKey {
    hkdf::aes_256_gcm(root, &[b"notices", &host.to_be_bytes()])
}

/// Reads the key's id, the host, the instant and the number.
fn read(header: &[u8]) -> Option<([u8; 4], u64, u64, u64)> {
    let (version, rest) = header.split_first()?;
    let (key_id, numbers) = rest.split_first_chunk()?;
    let mut numbers = numbers.chunks_exact(8).map(|bytes| {
        let bytes = bytes.try_into().expect("a chunk of eight bytes");
        u64::from_be_bytes(bytes)
    });
    let read = (*key_id, numbers.next()?, numbers.next()?, numbers.next()?);
    (*version == VERSION).then_some(read)
}

/// Hides the keys from logs.
impl Debug for NoticeCipher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoticeCipher").field("roots", &self.roots.len()).finish_non_exhaustive()
    }
}

/// Name of a session in the store, which does not reveal its id.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct StoreName([u8; 32]);

impl StoreName {
    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Name of the mark. No HMAC has this value in practice.
const MARK: StoreName = StoreName([0; 32]);

/// AES-256-GCM for values in the store.
pub struct StoreCipher {
    roots: Vec<StoreRoot>,
}

struct StoreRoot {
    key_id: [u8; 4],
    values: Prk,
    names: hmac::Key,
}

impl StoreCipher {
    /// Encrypts with the first of the secrets (at least one), and decrypts with any of them.
    pub fn new(secrets: &[SharedSecret]) -> Self {
        Self { roots: secrets.iter().map(StoreRoot::of).collect() }
    }

    /// Returns a session's possible names, one by each secret: new sessions are stored under the
    /// first. A session that resumes once has another name than one that resumes repeatedly, so
    /// that no client can delete the one by requesting the other.
    pub fn names(&self, session: &Offered) -> Vec<StoreName> {
        self.roots.iter().map(|root| root.name(session)).collect()
    }

    /// Seals an entry of the session cache that is valid until `ends_ms`.
    pub fn seal(&self, name: &StoreName, entry: &[u8], ends_ms: u64) -> Vec<u8> {
        let root = self.roots.first().expect("a cluster has a secret");
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).expect("AWS-LC ends the process where there is no randomness");
        let header = store::Header { key_id: root.key_id, ends_ms, nonce };
        let header = header.to_bytes();
        let mut value = Vec::with_capacity(store::HEADER_BYTES + entry.len() + TAG_BYTES);
        value.extend_from_slice(&header);
        value.extend_from_slice(entry);
        let body = value.get_mut(store::HEADER_BYTES..).unwrap_or_default();
        let tag = hkdf::aes_256_gcm(&root.values, &[&name.0])
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(header),
                body,
            )
            .expect("a session is shorter than AES-GCM allows");
        value.extend_from_slice(tag.as_ref());
        value
    }

    /// Returns a mark of the store's owner, sealed like a session, under no session's name.
    pub fn mark(&self) -> Vec<u8> {
        self.seal(&MARK, &[], u64::MAX)
    }

    /// Reports whether a mark belongs to hosts with a secret that is not configured here.
    pub fn is_of_others(&self, mark: Vec<u8>) -> bool {
        matches!(self.open(&MARK, mark, 0), Err(StoreRejection::UnknownSecret))
    }

    /// Opens a value stored under this name; returns the entry and its remaining lifetime.
    ///
    /// # Errors
    /// Fails if it is no session of ours, or one that has ended.
    pub fn open(
        &self,
        name: &StoreName,
        mut value: Vec<u8>,
        now_ms: u64,
    ) -> Result<(Zeroizing<Vec<u8>>, Duration), StoreRejection> {
        let header = store::Header::read(&value).map_err(|fault| match fault {
            ValueFault::Version(_) => StoreRejection::Version,
            ValueFault::Malformed => StoreRejection::Malformed,
        })?;
        let root = self.roots.iter().find(|root| root.key_id == header.key_id);
        let root = root.ok_or(StoreRejection::UnknownSecret)?;
        let sealed = value.get_mut(store::HEADER_BYTES..).unwrap_or_default();
        let entry = hkdf::aes_256_gcm(&root.values, &[&name.0])
            .open_in_place(
                Nonce::assume_unique_for_key(header.nonce),
                Aad::from(header.to_bytes()),
                sealed,
            )
            .map_err(|_| StoreRejection::Forged)?;
        let entry = Zeroizing::new(entry.to_vec());
        drop(Zeroizing::new(value));
        match header.ends_ms.checked_sub(now_ms) {
            None | Some(0) => Err(StoreRejection::Expired),
            Some(left) => Ok((entry, Duration::from_millis(left))),
        }
    }
}

impl StoreRoot {
    fn of(secret: &SharedSecret) -> Self {
        let root = secret.root(WorkerTask::Store);
        let mut names = Zeroizing::new([0; 32]);
        hkdf::expand(&root, &[b"names"], &mut *names);
        let mut values = Zeroizing::new([0; 32]);
        hkdf::expand(&root, &[b"values"], &mut *values);
        Self {
            key_id: hkdf::bytes(&root, &[b"key id"]),
            values: hkdf::extract(WorkerTask::Store.salt(), &*values),
            names: hmac::Key::new(hmac::HMAC_SHA256, &*names),
        }
    }

    fn name(&self, session: &Offered) -> StoreName {
        let Offered { key, once } = session;
        let mut context = hmac::Context::with_key(&self.names);
        context.update(&[u8::from(*once)]);
        context.update(Key::bytes(key));
        let mut name = [0; 32];
        name.copy_from_slice(context.sign().as_ref());
        StoreName(name)
    }
}

/// Hides the secrets from logs.
impl Debug for StoreCipher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreCipher").field("secrets", &self.roots.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
