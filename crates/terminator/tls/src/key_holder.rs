//! The interface to the holder of keys that are not in this process.

use std::fmt::Debug;
use std::sync::Arc;

/// Name of a key: SHA-256 of its public half (SubjectPublicKeyInfo, DER).
pub type KeyId = [u8; 32];

/// Maximum length of a message to sign: a client's handshake messages in TLS 1.2, with the server's
/// chain among them. A server's messages have less than 300 bytes.
pub const SIGNED_BYTES_MAX: usize = 60 << 10;

/// Reason why there is no signature.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SignatureFault {
    #[error("the process that holds the key has not answered in time")]
    Late,
    #[error("the process that holds the key has not answered before, and is not waited for")]
    Away,
    #[error("the process that holds the key has not this one")]
    Unknown,
    #[error("the process that holds the key could not open it")]
    Unopened,
    #[error("the process that holds the key refuses to sign this")]
    Refused,
    #[error("the key's token has given no signature")]
    Failed,
    #[error("no process holds the key")]
    Nowhere,
}

/// Connection to a holder of keys. It is called on the thread of the handshake, and returns within
/// its own time limit.
pub trait SignatureSource: Debug + Send + Sync {
    /// Signs a message with the key of that name, in a scheme of TLS (RFC 8446 section 4.2.3).
    fn sign(&self, key: &KeyId, scheme: u16, message: &[u8]) -> Result<Vec<u8>, SignatureFault>;
}

/// Handle to the holder of the keys that a plan names; none by default. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct KeyHolder(pub Option<Arc<dyn SignatureSource>>);

impl PartialEq for KeyHolder {
    /// Returns `true`: a handle is no option, so any two are equal.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
