//! What makes values unreadable and unforgeable where they lie.
//!
//! Owns the shape of a seal; the cryptography is the caller's.

use std::fmt::Debug;

/// Authenticated encryption under one key.
pub trait ValueCipher: Debug + Send + Sync {
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
    pub tag: [u8; 16],
}
