//! A connection's place in a thread of load, and the name by which the kernel tells of it.

use std::time::Instant;

use rustls::SignatureScheme;
use sys::epoll::Interest;

use crate::connection::{Connection, Stage};
use crate::transaction::Transaction;

/// Stands where a client would: what comes yet is for none of them.
pub(crate) const NOBODY: u32 = u32::MAX;

/// A connection and who uses it.
pub(crate) struct Slot {
    pub(crate) connection: Connection,
    /// Who uses it; [`NOBODY`] of one that a user has left.
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

impl Slot {
    /// Of a connection that a client has begun to make for a transaction.
    pub(crate) fn new(
        connection: Connection,
        client: u32,
        serial: u32,
        transaction: Transaction,
    ) -> Self {
        Self {
            watches_room: connection.stage() == Stage::Dialling,
            connection,
            client,
            serial,
            transaction: Some(transaction),
            holds_client: true,
            deadline: None,
            signature: None,
        }
    }

    /// Whether it stands, and nobody waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        !self.holds_client && self.connection.stage() != Stage::Closing
    }
}

/// What is to be heard of a socket: that it can be read, and, if asked for, that it has room.
pub(crate) fn interest(watches_room: bool) -> Interest {
    if watches_room {
        Interest::READ | Interest::WRITE | Interest::EDGE
    } else {
        Interest::READ | Interest::EDGE
    }
}

/// The name of a place and of who has it.
pub(crate) fn token(key: usize, serial: u32) -> u64 {
    (u64::from(serial) << 32) | key as u64
}

/// Place and number of a name.
pub(crate) fn parts(token: u64) -> (usize, u32) {
    ((token & u64::from(u32::MAX)) as usize, (token >> 32) as u32)
}
