//! A seal for tests: it notices changes that nobody makes on purpose, and hides little.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cipher::{Sealed, ValueCipher};

#[derive(Debug, Default)]
pub(crate) struct WeakCipher(AtomicU64);

fn digest(additional: &[u8], nonce: [u8; 12], bytes: &[u8]) -> [u8; 16] {
    let mut hasher = DefaultHasher::new();
    (additional, nonce, bytes).hash(&mut hasher);
    u128::from(hasher.finish()).to_be_bytes()
}

fn mask(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= 0xa5);
}

impl ValueCipher for WeakCipher {
    fn seal(&self, additional: &[u8], bytes: &mut [u8]) -> Option<Sealed> {
        let mut nonce = [0; 12];
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        nonce[4..].copy_from_slice(&count.to_be_bytes());
        mask(bytes);
        let tag = digest(additional, nonce, bytes);
        Some(Sealed { nonce, tag })
    }

    fn open(&self, additional: &[u8], sealed: Sealed, bytes: &mut Vec<u8>) -> bool {
        let is_whole = digest(additional, sealed.nonce, bytes) == sealed.tag;
        mask(bytes);
        is_whole
    }
}
