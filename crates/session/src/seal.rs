//! What makes values unreadable and unforgeable where they lie.
//!
//! Owns the shape of a seal; the cryptography is the caller's.

use std::fmt::Debug;

/// Authenticated encryption under one key.
pub trait Seal: Debug + Send + Sync {
    /// Encrypts `bytes` in place, and binds them to `additional`. `None` = it could not; the bytes
    /// may be anything then.
    fn seal(&self, additional: &[u8], bytes: &mut [u8]) -> Option<Sealed>;

    /// Undoes that. `false` = the bytes, the seal or `additional` are others; the bytes may be
    /// anything then. There is room for a tag behind them, should it be of use.
    fn open(&self, additional: &[u8], sealed: Sealed, bytes: &mut Vec<u8>) -> bool;
}

/// What opens sealed bytes, beside the key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sealed {
    /// What no other value under the key was sealed with.
    pub nonce: [u8; 12],
    /// What proves that nothing was changed.
    pub tag: [u8; 16],
}

/// A seal for tests: it notices changes that nobody makes on purpose.
#[cfg(test)]
pub(crate) mod weak {
    use super::{Seal, Sealed};
    use std::hash::{DefaultHasher, Hash, Hasher};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Debug, Default)]
    pub(crate) struct WeakSeal(AtomicU64);

    fn digest(additional: &[u8], nonce: [u8; 12], bytes: &[u8]) -> [u8; 16] {
        let mut hasher = DefaultHasher::new();
        (additional, nonce, bytes).hash(&mut hasher);
        u128::from(hasher.finish()).to_be_bytes()
    }

    fn mask(bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte ^= 0xa5);
    }

    impl Seal for WeakSeal {
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
}
