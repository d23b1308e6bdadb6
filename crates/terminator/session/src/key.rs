//! What a session is found by outside of its host's cache.

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
            length: u8::try_from(bytes.len())
                .ok()
                .filter(|length| *length > 0)?,
        };
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(key)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
            .get(..usize::from(self.length))
            .unwrap_or_default()
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
