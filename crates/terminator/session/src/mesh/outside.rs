//! What the peers' tier is given, and what it gives: limits, time, cryptography, the host's
//! sessions.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use telemetry::outcome::ClusterRejection;
use wire::cluster::{HEADER_BYTES, Header};
use zeroize::Zeroizing;

use crate::key::Key;

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// For what waits.
    pub now: Instant,
    /// For what peers compare, in milliseconds since 1970.
    pub unix_ms: u64,
}

/// The limits of the tier.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MeshOptions {
    /// How far a datagram's time may be from ours.
    pub time_window: Duration,
    /// How many datagrams of a sender may overtake another one before that counts as a replay.
    pub replay_window: u32,
    /// Senders known at a time.
    pub senders: usize,
    /// Datagrams looked at per second: of each peer so many, and as many of all others together.
    pub receive_rate: u32,
    /// Datagrams sent per second, one for each peer that it goes to.
    pub send_rate: u32,
    /// Sessions that peers are asked for per second.
    pub fetch_rate: u32,
    /// How long a client's handshake waits for them.
    pub fetch_timeout: Duration,
    /// Sessions remembered for a peer that missed them.
    pub resync: usize,
    /// To how many peers each datagram for all is sent.
    pub copies: u32,
}

/// Authenticated encryption of datagrams, under keys of some secrets.
pub trait DatagramCipher: Debug + Send {
    /// Stands for the secret that seals.
    fn key_id(&self) -> [u8; 4];

    /// Encrypts a body and appends the tag, which covers the header too. No two datagrams have one
    /// header's boot, stream and sequence.
    fn seal(&mut self, header: &Header, bytes: &[u8; HEADER_BYTES], body: &mut Vec<u8>);

    /// Undoes that, in place.
    ///
    /// # Errors
    /// The secret is not known, or the datagram was not sealed with it.
    fn open<'b>(
        &mut self,
        header: &Header,
        bytes: &[u8; HEADER_BYTES],
        sealed: &'b mut [u8],
    ) -> Result<&'b [u8], ClusterRejection>;
}

/// The sessions of this host.
pub trait LocalSessions {
    /// A session that others may have, and for how long it is still good.
    fn find(&self, key: &Key, now: Instant) -> Option<(Zeroizing<Vec<u8>>, Duration)>;

    /// Stores a session that is good for so long; `false` = one is there, or it cannot be.
    fn insert(&self, key: &Key, value: &[u8], lifetime: Duration, now: Instant) -> bool;

    /// Drops one.
    fn remove(&self, key: &Key);
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target {
    /// To all peers.
    All,
    /// To the peer that has that address.
    One(SocketAddr),
}
