//! The common goods of a cluster's hosts: the keys of their datagrams, and the entries of the
//! session cache that may leave this host.
//!
//! All keys come from the cluster's secret by HKDF (RFC 5869), each under a label of its own. Every
//! boot of a sender encrypts with a key of its own and counts its datagrams, so that no nonce comes
//! twice under a key (NIST SP 800-38D section 8.2.1) without the hosts agreeing on anything.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use aws_lc_rs::hkdf::Prk;
use session::mesh::{DatagramCipher, LocalSessions, WalkedSession};
use session::{Key, MemoryStore, StoredEntry};
use telemetry::outcome::ClusterRejection;
use wire::cluster::{HEADER_BYTES, Header};
use zeroize::Zeroizing;

use super::key_file::{SharedSecret, WorkerTask};
use crate::secrets::hkdf;

/// Keys of senders that are kept derived: those of the boots that are heard. 100 KB.
const KEYS_MAX: usize = 256;

/// In the first byte of an entry: whether it may leave this host.
pub(super) const STAYS: u8 = 0;
pub(super) const SHARED: u8 = 1;

/// Whose key a datagram is sealed with: secret, sender and boot.
type KeyName = ([u8; 4], [u8; 8], [u8; 8]);

/// AES-256-GCM for the datagrams of a cluster.
pub struct ClusterCipher {
    roots: Vec<([u8; 4], Prk)>,
    /// Derived keys, the newest at the end.
    keys: Vec<(KeyName, LessSafeKey)>,
}

impl ClusterCipher {
    /// Seals by the first of the secrets, and opens what was sealed by any of them.
    pub fn new(secrets: &[SharedSecret]) -> Self {
        let root = |secret: &SharedSecret| {
            let root = secret.root(WorkerTask::Datagrams);
            (hkdf::bytes(&root, &[b"key id"]), root)
        };
        Self { roots: secrets.iter().map(root).collect(), keys: Vec::new() }
    }

    /// A key that was used before.
    fn known(&self, name: KeyName) -> Option<&LessSafeKey> {
        let place = self.keys.iter().rposition(|(known, _)| *known == name)?;
        self.keys.get(place).map(|(_, key)| key)
    }

    fn derived(&self, (key_id, sender, boot): KeyName) -> Option<LessSafeKey> {
        let (_, root) = self.roots.iter().find(|(known, _)| *known == key_id)?;
        Some(hkdf::aes_256_gcm(root, &[b"datagrams", &sender, &boot]))
    }

    /// Keeps a key that has proved to be somebody's: a stranger's numbers displace none.
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

/// Unique under the key of a boot: the stream, and the number in it.
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

/// The secrets must not reach a log.
impl Debug for ClusterCipher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterCipher").field("secrets", &self.roots.len()).finish_non_exhaustive()
    }
}

/// The entries of the session cache that may leave this host, and those that come from others.
#[derive(Clone, Debug)]
pub struct SharedSessions {
    pub(super) store: Arc<MemoryStore>,
    pub(super) lifetime: Duration,
}

impl SharedSessions {
    /// How long a session may be resumed.
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
        // It ends when it would have ended where it was made.
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

#[cfg(test)]
mod tests {
    use wire::cluster::Stream;

    use super::*;

    fn secret(byte: u8) -> SharedSecret {
        SharedSecret::read("s", vec![byte; 32]).expect("32 bytes are a secret")
    }

    fn header(cipher: &ClusterCipher, boot: u8, sequence: u64) -> Header {
        Header {
            stream: Stream::All,
            key_id: cipher.key_id(),
            sender: [1; 8],
            boot: [boot; 8],
            sequence,
            time_ms: 7,
        }
    }

    fn sealed(cipher: &mut ClusterCipher, header: &Header) -> Vec<u8> {
        let mut body = b"a session".to_vec();
        cipher.seal(header, &header.to_bytes(), &mut body);
        body
    }

    fn opened(
        cipher: &mut ClusterCipher,
        header: &Header,
        sealed: &[u8],
    ) -> Result<Vec<u8>, ClusterRejection> {
        let mut sealed = sealed.to_vec();
        let body = cipher.open(header, &header.to_bytes(), &mut sealed);
        body.map(<[u8]>::to_vec)
    }

    #[test]
    fn any_of_the_secrets_opens_and_the_first_seals() {
        let mut old = ClusterCipher::new(&[secret(1)]);
        let mut both = ClusterCipher::new(&[secret(2), secret(1)]);
        let mut new = ClusterCipher::new(&[secret(2)]);
        let of_old = header(&old, 1, 1);
        let bytes = sealed(&mut old, &of_old);
        assert_eq!(opened(&mut both, &of_old, &bytes).as_deref(), Ok(&b"a session"[..]));
        let of_both = header(&both, 2, 1);
        let bytes = sealed(&mut both, &of_both);
        assert_eq!(opened(&mut new, &of_both, &bytes).as_deref(), Ok(&b"a session"[..]));
        let unknown = Err(ClusterRejection::UnknownSecret);
        assert_eq!(opened(&mut old, &of_both, &bytes), unknown);
    }

    #[test]
    fn nothing_that_was_changed_opens() {
        let mut cipher = ClusterCipher::new(&[secret(1)]);
        let sent = header(&cipher, 1, 1);
        let bytes = sealed(&mut cipher, &sent);
        let forged = Err(ClusterRejection::Forged);
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            assert_eq!(opened(&mut cipher, &sent, &changed), forged, "byte {index}");
        }
        let changes: [fn(&mut Header); 5] = [
            |header| header.stream = Stream::One,
            |header| header.sender[0] ^= 1,
            |header| header.boot[7] ^= 1,
            |header| header.sequence += 1,
            |header| header.time_ms += 1,
        ];
        for change in changes {
            let mut changed = sent;
            change(&mut changed);
            assert_eq!(opened(&mut cipher, &changed, &bytes), forged, "{changed:?}");
        }
        assert_eq!(cipher.keys.len(), 1, "strangers' numbers keep no key");
    }

    #[test]
    fn equal_sessions_look_different_in_every_datagram() {
        let mut cipher = ClusterCipher::new(&[secret(1)]);
        let headers = [header(&cipher, 1, 1), header(&cipher, 1, 2), header(&cipher, 2, 1)];
        let mut all: Vec<_> = headers.iter().map(|header| sealed(&mut cipher, header)).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn many_boots_keep_a_bounded_number_of_keys() {
        let mut cipher = ClusterCipher::new(&[secret(1)]);
        for number in 0..=KEYS_MAX {
            let mut header = header(&cipher, 0, 1);
            header.boot = (number as u64).to_be_bytes();
            let bytes = sealed(&mut cipher, &header);
            assert!(opened(&mut cipher, &header, &bytes).is_ok());
        }
        assert_eq!(cipher.keys.len(), KEYS_MAX);
    }
}
