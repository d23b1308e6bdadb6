//! A connection's place in a thread of load, and the name by which the kernel tells of it.

use std::time::Instant;

use rustls::SignatureScheme;

use crate::connection::Connection;
use crate::transaction::Transaction;

/// A connection and who uses it.
pub(crate) struct Slot {
    pub(crate) connection: Connection,
    pub(crate) client: u32,
    pub(crate) serial: u32,
    pub(crate) transaction: Option<Transaction>,
    /// Whether the client waits for it.
    pub(crate) holds_client: bool,
    /// When it is given up; `None` = it is idle.
    pub(crate) deadline: Option<Instant>,
    /// Whether the socket tells when it has room.
    pub(crate) watches_room: bool,
    /// How the server signed, once it has.
    pub(crate) signature: Option<SignatureScheme>,
}

/// The name of a place and of who has it.
pub(crate) fn token(key: usize, serial: u32) -> u64 {
    (u64::from(serial) << 32) | key as u64
}

/// Place and number of a name.
pub(crate) fn parts(token: u64) -> (usize, u32) {
    ((token & u64::from(u32::MAX)) as usize, (token >> 32) as u32)
}
