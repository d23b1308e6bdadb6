//! Sessions as they lie in a store that hosts share and that is trusted with nothing: under names
//! that reveal no session's id, in values that only who has the cluster's secret can read or make.
//!
//! Each session has a key of its own, which HKDF (RFC 5869) derives from the secret and its name.
//! A value opens under its name alone, and a random nonce comes under few values of a key, far
//! from the bound of NIST SP 800-38D section 8.3.

use std::fmt::{self, Debug, Formatter};
use std::time::Duration;

use aws_lc_rs::aead::{Aad, NONCE_LEN, Nonce};
use aws_lc_rs::hkdf::Prk;
use aws_lc_rs::hmac;
use aws_lc_rs::rand;
use session::{Key, Offered};
use telemetry::outcome::StoreRejection;
use wire::store::{HEADER_BYTES, Header, TAG_BYTES, ValueFault};
use zeroize::Zeroizing;

use super::key_file::{SharedSecret, WorkerTask};
use crate::secrets::hkdf;

/// The name of a session in the store, which does not reveal its id.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct StoreName([u8; 32]);

impl StoreName {
    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// An HMAC is as good as never this.
const MARK: StoreName = StoreName([0; 32]);

/// AES-256-GCM for what lies in the store.
pub struct StoreCipher {
    roots: Vec<StoreRoot>,
}

struct StoreRoot {
    key_id: [u8; 4],
    values: Prk,
    names: hmac::Key,
}

impl StoreCipher {
    /// Encrypts by the first of the secrets, of which there is one, and decrypts by any of them.
    pub fn new(secrets: &[SharedSecret]) -> Self {
        Self { roots: secrets.iter().map(StoreRoot::of).collect() }
    }

    /// The names that a session may have, by each secret: the first is the name of those that are
    /// stored now. One that may be resumed once has another name than one that may be resumed
    /// again, so that no client can have the one deleted by asking for the other.
    pub fn names(&self, session: &Offered) -> Vec<StoreName> {
        self.roots.iter().map(|root| root.name(session)).collect()
    }

    /// The value of an entry of the session cache that is good until then.
    pub fn seal(&self, name: &StoreName, entry: &[u8], ends_ms: u64) -> Vec<u8> {
        let root = self.roots.first().expect("a cluster has a secret");
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).expect("AWS-LC ends the process where there is no randomness");
        let header = Header { key_id: root.key_id, ends_ms, nonce };
        let header = header.to_bytes();
        let mut value = Vec::with_capacity(HEADER_BYTES + entry.len() + TAG_BYTES);
        value.extend_from_slice(&header);
        value.extend_from_slice(entry);
        let body = value.get_mut(HEADER_BYTES..).unwrap_or_default();
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

    /// A value that says whose the store is, sealed as a session's, under the name of none.
    pub fn mark(&self) -> Vec<u8> {
        self.seal(&MARK, &[], u64::MAX)
    }

    /// Whether a mark is of hosts with a secret that is not configured here.
    pub fn is_of_others(&self, mark: Vec<u8>) -> bool {
        matches!(self.open(&MARK, mark, 0), Err(StoreRejection::UnknownSecret))
    }

    /// The entry in a value that lay under this name, and for how long it is still good.
    ///
    /// # Errors
    /// It is no session of ours, or one that has ended.
    pub fn open(
        &self,
        name: &StoreName,
        mut value: Vec<u8>,
        now_ms: u64,
    ) -> Result<(Zeroizing<Vec<u8>>, Duration), StoreRejection> {
        let header = Header::read(&value).map_err(|fault| match fault {
            ValueFault::Version(_) => StoreRejection::Version,
            ValueFault::Malformed => StoreRejection::Malformed,
        })?;
        let root = self.roots.iter().find(|root| root.key_id == header.key_id);
        let root = root.ok_or(StoreRejection::UnknownSecret)?;
        let sealed = value.get_mut(HEADER_BYTES..).unwrap_or_default();
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

/// The secrets must not reach a log.
impl Debug for StoreCipher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreCipher").field("secrets", &self.roots.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &[u8] = b"an entry with a master secret";

    fn secret(byte: u8) -> SharedSecret {
        SharedSecret::read("s", vec![byte; 32]).expect("32 bytes are a secret")
    }

    fn session(byte: u8, once: bool) -> Offered {
        let key = Key::new(&[byte; 32]).unwrap();
        Offered { key, once }
    }

    fn contains(bytes: &[u8], part: &[u8]) -> bool {
        bytes.windows(part.len()).any(|window| window == part)
    }

    #[test]
    fn a_value_opens_under_its_name_until_it_ends_and_shows_nothing() {
        let cipher = StoreCipher::new(&[secret(1)]);
        let name = cipher.names(&session(7, false))[0];
        let value = cipher.seal(&name, ENTRY, 5000);
        assert!(!contains(&value, &ENTRY[..8]) && !contains(&name.0, &[7; 4]));
        assert_ne!(value, cipher.seal(&name, ENTRY, 5000), "nonces differ");
        let (entry, left) = cipher.open(&name, value.clone(), 2000).unwrap();
        assert_eq!((&entry[..], left), (ENTRY, Duration::from_secs(3)));
        let ended = cipher.open(&name, value.clone(), 5000);
        assert_eq!(ended.unwrap_err(), StoreRejection::Expired);
        for other in [session(8, false), session(7, true)] {
            let other = cipher.names(&other)[0];
            let moved = cipher.open(&other, value.clone(), 2000);
            assert_eq!(moved.unwrap_err(), StoreRejection::Forged);
        }
    }

    #[test]
    fn nothing_that_was_changed_opens() {
        let cipher = StoreCipher::new(&[secret(1)]);
        let name = cipher.names(&session(7, false))[0];
        let value = cipher.seal(&name, ENTRY, 5000);
        for index in 0..value.len() {
            let mut changed = value.clone();
            changed[index] ^= 1;
            let expected = match index {
                0 => StoreRejection::Version,
                1..5 => StoreRejection::UnknownSecret,
                _ => StoreRejection::Forged,
            };
            let opened = cipher.open(&name, changed, 2000);
            assert_eq!(opened.unwrap_err(), expected, "byte {index}");
        }
        for length in 0..value.len() {
            let cut = cipher.open(&name, value[..length].to_vec(), 2000);
            let why = cut.unwrap_err();
            let expected = if length < HEADER_BYTES + TAG_BYTES {
                StoreRejection::Malformed
            } else {
                StoreRejection::Forged
            };
            assert_eq!(why, expected, "{length} bytes");
        }
    }

    #[test]
    fn any_of_the_secrets_opens_and_the_first_seals() {
        let old = StoreCipher::new(&[secret(1)]);
        let both = StoreCipher::new(&[secret(2), secret(1)]);
        let new = StoreCipher::new(&[secret(2)]);
        assert!(new.is_of_others(old.mark()) && !new.is_of_others(both.mark()));
        assert!(!both.is_of_others(old.mark()) && !new.is_of_others(b"nonsense".to_vec()));
        let session = session(7, true);
        let names = both.names(&session);
        assert_eq!(names[1].text(), old.names(&session)[0].text());
        let of_old = old.seal(&names[1], ENTRY, 9);
        assert!(both.open(&names[1], of_old.clone(), 1).is_ok());
        let of_both = both.seal(&names[0], ENTRY, 9);
        assert!(new.open(&names[0], of_both, 1).is_ok());
        let unknown = new.open(&names[1], of_old, 1);
        assert_eq!(unknown.unwrap_err(), StoreRejection::UnknownSecret);
    }
}
