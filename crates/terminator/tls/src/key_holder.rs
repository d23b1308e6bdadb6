//! The holder of keys that are not in this process, and what it is asked for.

use std::fmt::Debug;
use std::sync::Arc;

/// The name of a key: SHA-256 of its public half (SubjectPublicKeyInfo, DER).
pub type KeyId = [u8; 32];

/// Bytes of the longest message that is signed: a client's handshake messages in TLS 1.2, with the
/// server's chain among them. Those of a server have less than 300.
pub const SIGNED_BYTES_MAX: usize = 60 << 10;

/// The reason why there is no signature.
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

/// The way to a holder of keys. It is called on the thread of the handshake, and returns within a
/// time that it limits.
pub trait SignatureSource: Debug + Send + Sync {
    /// The signature of a message by the key of that name, in a scheme of TLS (RFC 8446 section
    /// 4.2.3).
    fn sign(&self, key: &KeyId, scheme: u16, message: &[u8]) -> Result<Vec<u8>, SignatureFault>;
}

/// The way to the holder of the keys that a plan names; none by default. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct KeyHolder(pub Option<Arc<dyn SignatureSource>>);

impl PartialEq for KeyHolder {
    /// A handle is no option: two are always equal.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
