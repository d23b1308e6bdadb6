//! The keys that sessions are found by outside of their host's cache, and the shape of the seal
//! that makes them unreadable and unforgeable where they lie. The cryptography is the caller's.

use std::fmt::{self, Debug, Formatter};

use wire::cluster::KEY_BYTES_MAX;

/// A session's id, short enough to be copied about.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key {
    bytes: [u8; KEY_BYTES_MAX],
    length: u8,
}

impl Key {
    /// The key of these bytes; `None` if there are none, or more than a session id has.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut key = Self {
            bytes: [0; KEY_BYTES_MAX],
            length: u8::try_from(bytes.len()).ok().filter(|length| *length > 0)?,
        };
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(key)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// A session that a client offers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Offered {
    pub key: Key,
    /// Whether it may be resumed once only: it is of TLS 1.3.
    pub once: bool,
}

/// Session ids of TLS 1.3 are worth something: they are not shown whole.
impl Debug for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Key(")?;
        for byte in self.bytes().iter().take(4) {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("..)")
    }
}

/// Authenticated encryption under one key.
pub trait ValueCipher: Debug + Send + Sync {
    /// Encrypts `bytes` in place, and binds them to `additional`. `None` = it could not; the bytes
    /// may be anything then.
    fn seal(&self, additional: &[u8], bytes: &mut [u8]) -> Option<Sealed>;

    /// Undoes that. `false` = the bytes, the seal or `additional` are others; the bytes may be
    /// anything then. There is room for a tag behind them, should it be of use.
    fn open(&self, additional: &[u8], sealed: Sealed, bytes: &mut Vec<u8>) -> bool;
}

/// The nonce and tag that open sealed bytes, beside the key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sealed {
    /// Unique to this value under the key.
    pub nonce: [u8; 12],
    pub tag: [u8; 16],
}

#[cfg(test)]
pub(crate) mod weak_cipher {
    //! A seal for tests: it notices changes that nobody makes on purpose, and hides little.

    use crate::key::{Sealed, ValueCipher};
    use std::hash::{DefaultHasher, Hash, Hasher};
    use std::sync::atomic::{AtomicU64, Ordering};

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
}
