//! The cipher of stored sessions, and the memory they lie in.
//!
//! The memory outlives the process that wrote it, and its successor goes on with it. Both have the
//! same key, so that nonces must differ between them: they begin with the process's number, and
//! count from there (AES-256-GCM, NIST SP 800-38D section 8.2.1).

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};
use aws_lc_rs::hkdf::Prk;
use aws_lc_rs::rand;
use session::{MachineWords, Memory, Options, Sealed, ValueCipher};
use sys::memory;
use zeroize::Zeroize;

use crate::secrets::hkdf;

const MACHINE: MachineWords = MachineWords { words: memory::zeros, fetch: memory::fetch };

/// For all that is derived from a key of stored sessions.
const SALT: &[u8] = b"lariat stored sessions 1";

/// Memory that an earlier process may have used, and that a later one may.
pub struct SessionMemory {
    /// As many as [`Memory::words_of`] says: zeros, or as it was left.
    pub words: Arc<dyn AsRef<[AtomicU64]> + Send + Sync>,
    /// The key of its entries: random, and the same for all processes that use it.
    pub key: [u8; 32],
    /// No two processes that use it have the same.
    pub process_number: u32,
    /// The moment that its times are counted from, the same for all of them.
    pub zero: Instant,
    /// Another process still uses it, until [`super::Resumption::take_over_sessions`].
    pub is_in_use: bool,
}

impl Drop for SessionMemory {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// The key must not reach a log.
impl Debug for SessionMemory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionMemory")
            .field("process_number", &self.process_number)
            .finish_non_exhaustive()
    }
}

/// A store's memory with the keys that go with it.
pub(super) fn handed_over(memory: &SessionMemory) -> Memory {
    let root = hkdf::extract(SALT, &memory.key);
    let mut hash_key = [0; 16];
    hkdf::expand(&root, &[b"hash"], &mut hash_key);
    let cipher = Arc::new(StoredCipher::new(&root, memory.process_number));
    let handed = Memory::new(Arc::clone(&memory.words), cipher, hash_key, memory.zero).on(MACHINE);
    if memory.is_in_use {
        return handed.in_use();
    }
    handed
}

/// Memory that ends with the process.
pub(super) fn private(options: Options, now: Instant) -> Memory {
    let mut key = [0; 32];
    rand::fill(&mut key).expect("AWS-LC ends the process where there is no randomness");
    let root = hkdf::extract(SALT, &key);
    key.zeroize();
    let cipher = Arc::new(StoredCipher::new(&root, 0));
    Memory::private(options, cipher, MACHINE, now)
}

struct StoredCipher {
    key: LessSafeKey,
    process_number: u32,
    count: AtomicU64,
}

impl StoredCipher {
    fn new(root: &Prk, process_number: u32) -> Self {
        Self { key: hkdf::aes_256_gcm(root, &[b"seal"]), process_number, count: AtomicU64::new(0) }
    }

    fn next_nonce(&self) -> [u8; 12] {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.process_number.to_be_bytes());
        nonce[4..].copy_from_slice(&count.to_be_bytes());
        nonce
    }
}

impl ValueCipher for StoredCipher {
    fn seal(&self, additional: &[u8], bytes: &mut [u8]) -> Option<Sealed> {
        let nonce = self.next_nonce();
        let unique = Nonce::assume_unique_for_key(nonce);
        let sealed = self.key.seal_in_place_separate_tag(unique, Aad::from(additional), bytes);
        let tag = sealed.ok()?.as_ref().try_into().ok()?;
        Some(Sealed { nonce, tag })
    }

    fn open(&self, additional: &[u8], sealed: Sealed, bytes: &mut Vec<u8>) -> bool {
        let nonce = Nonce::assume_unique_for_key(sealed.nonce);
        let length = bytes.len();
        bytes.extend_from_slice(&sealed.tag);
        let opened = self.key.open_in_place(nonce, Aad::from(additional), bytes);
        let is_whole = opened.is_ok();
        bytes.truncate(length);
        is_whole
    }
}

impl Debug for StoredCipher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredCipher")
            .field("process_number", &self.process_number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cipher(process_number: u32) -> StoredCipher {
        let root = hkdf::extract(b"test", &[7; 32]);
        StoredCipher::new(&root, process_number)
    }

    #[test]
    fn a_successor_opens_what_was_sealed_before() {
        let mut bytes = b"a session".to_vec();
        let sealed = cipher(0).seal(b"id", &mut bytes).expect("it can be sealed");
        assert_ne!(bytes, b"a session");
        assert!(cipher(1).open(b"id", sealed, &mut bytes));
        assert_eq!(bytes, b"a session");
    }

    #[test]
    fn what_was_changed_is_not_opened() {
        let mut bytes = b"a session".to_vec();
        let sealed = cipher(0).seal(b"id", &mut bytes).expect("it can be sealed");
        let opens = |additional: &[u8], sealed, mut bytes: Vec<u8>| {
            cipher(0).open(additional, sealed, &mut bytes)
        };
        assert!(opens(b"id", sealed, bytes.clone()));
        assert!(!opens(b"other", sealed, bytes.clone()));
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            assert!(!opens(b"id", sealed, changed), "byte {index}");
        }
        let (mut tag, mut nonce) = (sealed, sealed);
        (tag.tag[15], nonce.nonce[11]) = (!sealed.tag[15], !sealed.nonce[11]);
        assert!(!opens(b"id", tag, bytes.clone()) && !opens(b"id", nonce, bytes));
    }

    #[test]
    fn no_nonce_comes_twice() {
        let ciphers = [cipher(0), cipher(1)];
        let nonces = ciphers.iter().flat_map(|cipher| {
            let seal = |_| cipher.seal(b"", &mut []).map(|sealed| sealed.nonce);
            (0..100).map(seal).collect::<Vec<_>>()
        });
        let mut nonces: Vec<_> = nonces.map(|nonce| nonce.expect("it can be sealed")).collect();
        nonces.sort_unstable();
        nonces.dedup();
        assert_eq!(nonces.len(), 200);
    }

    #[test]
    fn the_key_is_not_in_the_debug_form() {
        let memory = SessionMemory {
            words: Arc::new(Vec::new()),
            key: [0x41; 32],
            process_number: 3,
            is_in_use: false,
            zero: Instant::now(),
        };
        assert!(!format!("{memory:?}").contains("65"));
    }
}
