//! What stored sessions are sealed with, and the memory they lie in.
//!
//! The memory outlives the process that wrote it, and its successor goes on with it. Both have the
//! same key, so that nonces must differ between them: they begin with the process's number, and
//! count from there (AES-256-GCM, NIST SP 800-38D section 8.2.1).

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use session::{Machine, Memory, Options, Seal, Sealed};
use sys::words;
use zeroize::Zeroize;

const MACHINE: Machine = Machine {
    words: words::zeros,
    fetch: words::fetch,
};

/// Memory that an earlier process may have used, and that a later one may.
pub struct SessionMemory {
    /// As many as [`Memory::words_of`] says: zeros, or as it was left.
    pub words: Arc<dyn AsRef<[AtomicU64]> + Send + Sync>,
    /// What its entries are sealed with: random, and the same for all processes that use it.
    pub key: [u8; 32],
    /// No two processes that use it have the same.
    pub process_number: u32,
    /// What its times are counted from: the same moment for all of them.
    pub zero: Instant,
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
    let root = Salt::new(HKDF_SHA256, b"lariat stored sessions 1").extract(&memory.key);
    let mut hash_key = [0; 16];
    expand(&root, b"hash", &mut hash_key);
    let seal = Arc::new(Sealer::new(&root, memory.process_number));
    Memory::new(Arc::clone(&memory.words), seal, hash_key, memory.zero).on(MACHINE)
}

/// Memory that ends with the process.
pub(super) fn private(options: Options, now: Instant) -> Memory {
    let mut key = [0; 32];
    rand::fill(&mut key).expect("AWS-LC ends the process where there is no randomness");
    let root = Salt::new(HKDF_SHA256, b"lariat stored sessions 1").extract(&key);
    key.zeroize();
    let seal = Arc::new(Sealer::new(&root, 0));
    Memory::private(options, seal, MACHINE, now)
}

struct Sealer {
    key: LessSafeKey,
    process_number: u32,
    /// Values sealed.
    count: AtomicU64,
}

impl Sealer {
    fn new(root: &Prk, process_number: u32) -> Self {
        let mut bytes = [0; 32];
        expand(root, b"seal", &mut bytes);
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map(LessSafeKey::new);
        bytes.zeroize();
        Self {
            key: key.expect("AES-256 takes 32 bytes"),
            process_number,
            count: AtomicU64::new(0),
        }
    }

    fn next_nonce(&self) -> [u8; 12] {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.process_number.to_be_bytes());
        nonce[4..].copy_from_slice(&count.to_be_bytes());
        nonce
    }
}

impl Seal for Sealer {
    fn seal(&self, additional: &[u8], bytes: &mut [u8]) -> Option<Sealed> {
        let nonce = self.next_nonce();
        let unique = Nonce::assume_unique_for_key(nonce);
        let sealed = self
            .key
            .seal_in_place_separate_tag(unique, Aad::from(additional), bytes);
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

impl Debug for Sealer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("process_number", &self.process_number)
            .finish_non_exhaustive()
    }
}

/// So many bytes from HKDF.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand(root: &Prk, label: &[u8], out: &mut [u8]) {
    root.expand(&[label], Bytes(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("HKDF-SHA256 gives up to 8160 bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(process_number: u32) -> Sealer {
        let root = Salt::new(HKDF_SHA256, b"test").extract(&[7; 32]);
        Sealer::new(&root, process_number)
    }

    #[test]
    fn a_successor_opens_what_was_sealed_before() {
        let mut bytes = b"a session".to_vec();
        let sealed = sealer(0).seal(b"id", &mut bytes).expect("it can be sealed");
        assert_ne!(bytes, b"a session");
        assert!(sealer(1).open(b"id", sealed, &mut bytes));
        assert_eq!(bytes, b"a session");
    }

    #[test]
    fn what_was_changed_is_not_opened() {
        let mut bytes = b"a session".to_vec();
        let sealed = sealer(0).seal(b"id", &mut bytes).expect("it can be sealed");
        let opens = |additional: &[u8], sealed, mut bytes: Vec<u8>| {
            sealer(0).open(additional, sealed, &mut bytes)
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
        let sealers = [sealer(0), sealer(1)];
        let nonces = sealers.iter().flat_map(|sealer| {
            let seal = |_| sealer.seal(b"", &mut []).map(|sealed| sealed.nonce);
            (0..100).map(seal).collect::<Vec<_>>()
        });
        let mut nonces: Vec<_> = nonces
            .map(|nonce| nonce.expect("it can be sealed"))
            .collect();
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
            zero: Instant::now(),
        };
        assert!(!format!("{memory:?}").contains("65"));
    }
}
