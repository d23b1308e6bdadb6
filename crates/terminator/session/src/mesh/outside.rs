//! Surroundings of the peers' tier: limits, time, cryptography, and the host's sessions.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use telemetry::outcome::{ClusterRejection, ClusterUpdate, SessionTier};
use wire::cluster::{HEADER_BYTES, Header};
use zeroize::Zeroizing;

use crate::tiers::Key;

/// The current time by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    pub now: Instant,
    /// Wall-clock time that peers compare, in milliseconds since 1970.
    pub unix_ms: u64,
}

impl ClockReading {
    /// Returns one of our earlier times, unless it lies ahead because our clock was set back: then
    /// returns the time of our start, by the new clock.
    pub(crate) fn not_ahead(self, unix_ms: u64, started: Instant) -> u64 {
        if unix_ms <= self.unix_ms {
            return unix_ms;
        }
        let lived = self.now.saturating_duration_since(started).as_millis();
        let lived_ms = u64::try_from(lived).unwrap_or(u64::MAX);
        self.unix_ms.saturating_sub(lived_ms)
    }
}

/// The limits of the tier.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MeshOptions {
    /// Most difference between a datagram's time and ours.
    pub time_window: Duration,
    /// Most datagrams of a sender that may overtake another before it counts as a replay.
    pub replay_window: u32,
    /// Most senders known at a time.
    pub senders: usize,
    /// Datagrams inspected per second: this many of each peer, and of all others together.
    pub receive_rate: u32,
    /// Datagrams sent per second, counted once per receiving peer.
    pub send_rate: u32,
    /// Sessions that peers are asked for per second.
    pub fetch_rate: u32,
    /// Wait of a client's handshake for the peers; `None` = as long as peers take to answer.
    pub fetch_timeout: Option<Duration>,
    /// Sessions sent per second to peers that have missed some.
    pub resync_rate: u32,
    /// Addresses of the peers, the only ones that are answered; `None` = a multicast group, where
    /// each datagram is for all.
    pub send_to: Option<Vec<SocketAddr>>,
}

impl MeshOptions {
    /// Returns how many addresses each datagram for all is sent to.
    pub fn copies(&self) -> u32 {
        let places = self.send_to.as_ref().map_or(1, Vec::len);
        u32::try_from(places).unwrap_or(u32::MAX)
    }

    pub(crate) fn window_ms(&self) -> u64 {
        u64::try_from(self.time_window.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the configured address that equals `from`, if a peer has it. The two may be written
    /// differently, as an IPv4 address in IPv6, or without the zone.
    pub(crate) fn listed(&self, from: SocketAddr) -> Option<SocketAddr> {
        let is_same = |one: &&SocketAddr| {
            (one.ip().to_canonical(), one.port()) == (from.ip().to_canonical(), from.port())
        };
        match &self.send_to {
            Some(places) => places.iter().find(is_same).copied(),
            None => Some(from),
        }
    }
}

/// A session of this host, for a peer that has missed it.
#[derive(Debug)]
pub struct WalkedSession {
    pub key: Key,
    pub value: Zeroizing<Vec<u8>>,
    pub lifetime: Duration,
}

/// Authenticated encryption of datagrams, under keys derived from secrets.
pub trait DatagramCipher: Debug + Send {
    /// Returns an identifier of the secret that seals.
    fn key_id(&self) -> [u8; 4];

    /// Encrypts a body and appends the tag, which covers the header too. No two datagrams share
    /// boot, stream and sequence of the header.
    fn seal(&mut self, header: &Header, bytes: &[u8; HEADER_BYTES], body: &mut Vec<u8>);

    /// Decrypts a sealed body in place.
    ///
    /// # Errors
    /// Fails if the secret is not known, or the datagram was not sealed with it.
    fn open<'b>(
        &mut self,
        header: &Header,
        bytes: &[u8; HEADER_BYTES],
        sealed: &'b mut [u8],
    ) -> Result<&'b [u8], ClusterRejection>;
}

/// The sessions of this host.
pub trait LocalSessions {
    /// Finds a session that peers may have, and its remaining lifetime.
    fn find(&self, key: &Key, now: Instant) -> Option<(Zeroizing<Vec<u8>>, Duration)>;

    /// Stores a session with this lifetime; `false` if it is there already, or cannot be stored.
    fn insert(&self, key: &Key, value: &[u8], lifetime: Duration, now: Instant) -> bool;

    fn remove(&self, key: &Key);

    /// Returns the approximate number of sessions.
    fn count(&self) -> usize;

    /// Returns the next session of a walk through those at most `age_max` old that peers may have:
    /// `place` begins at 0 and is advanced. `None` = the walk is over, `Some(None)` = not found
    /// yet.
    fn walk(
        &self,
        place: &mut u64,
        age_max: Duration,
        now: Instant,
    ) -> Option<Option<WalkedSession>>;
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target {
    All,
    /// The peer with this address.
    One(SocketAddr),
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MeshCounters {
    /// Datagrams sent, counted once per receiving peer.
    pub datagrams_sent: u64,
    /// Bytes of the sent datagrams, without the headers of UDP and IP.
    pub bytes_sent: u64,
    pub datagrams_received: u64,
    /// Bytes of the received datagrams.
    pub bytes_received: u64,
    rejections: [u64; ClusterRejection::ALL.len()],
    updates: [u64; ClusterUpdate::ALL.len()],
    fetches: [u64; SessionTier::ALL.len()],
}

impl MeshCounters {
    pub(crate) fn reject(&mut self, why: ClusterRejection) {
        self.rejections[why as usize] += 1;
    }

    pub(crate) fn update(&mut self, what: ClusterUpdate) {
        self.updates[what as usize] += 1;
    }

    pub(crate) fn fetched(&mut self, from: SessionTier) {
        self.fetches[from as usize] += 1;
    }

    /// Returns the number of datagrams that were dropped for this reason.
    pub fn rejections(&self, why: ClusterRejection) -> u64 {
        self.rejections[why as usize]
    }

    /// Returns the number of sessions with this outcome.
    pub fn updates(&self, what: ClusterUpdate) -> u64 {
        self.updates[what as usize]
    }

    /// Returns the number of looked-up sessions that were found in this tier.
    pub fn fetches(&self, from: SessionTier) -> u64 {
        self.fetches[from as usize]
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_the_clock_was_set_back_is_that_of_our_start() {
        let started = Instant::now();
        let moment = ClockReading { now: started + Duration::from_secs(5), unix_ms: 70_000 };
        assert_eq!(moment.not_ahead(69_000, started), 69_000);
        assert_eq!(moment.not_ahead(70_000, started), 70_000);
        assert_eq!(moment.not_ahead(70_001, started), 65_000);
        // The clock was set back to its beginning.
        let moment = ClockReading { unix_ms: 1, ..moment };
        assert_eq!(moment.not_ahead(70_000, started), 0);
    }
}
