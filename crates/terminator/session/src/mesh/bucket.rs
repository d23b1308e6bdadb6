//! A limit of a number per second, of which a second's worth may come at once (a token bucket); and
//! one for each known address.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long an address is known after the last datagram from there.
const KNOWN: Duration = Duration::from_secs(600);

/// How many may still go.
#[derive(Clone, Debug)]
pub struct Bucket {
    per_second: u32,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    pub fn new(per_second: u32, now: Instant) -> Self {
        Self { per_second, tokens: per_second.into(), filled: now }
    }

    /// The same with another limit.
    pub(crate) fn set_rate(&mut self, per_second: u32) {
        self.per_second = per_second;
    }

    /// Takes `count` tokens; `false` = there are fewer.
    pub fn take(&mut self, count: u32, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled);
        self.filled = now.max(self.filled);
        let rate = f64::from(self.per_second);
        self.tokens = (self.tokens + passed.as_secs_f64() * rate).min(rate);
        let enough = self.tokens >= f64::from(count);
        if enough {
            self.tokens -= f64::from(count);
        }
        enough
    }
}

/// Allowances for incoming datagrams: one for each address at which a peer was heard, and one for
/// all other addresses together. Anybody may send; the address tells datagrams of peers from others
/// for less than the cost of a decryption.
#[derive(Debug)]
pub(crate) struct IncomingBuckets {
    per_second: u32,
    others: Bucket,
    peers: HashMap<SocketAddr, Bucket>,
}

impl IncomingBuckets {
    pub(crate) fn new(per_second: u32, now: Instant) -> Self {
        Self { per_second, others: Bucket::new(per_second, now), peers: HashMap::new() }
    }

    /// The same with another limit.
    pub(crate) fn set_rate(&mut self, per_second: u32) {
        self.per_second = per_second;
        let peers = self.peers.values_mut();
        let all = peers.chain([&mut self.others]);
        all.for_each(|bucket| bucket.set_rate(per_second));
    }

    /// Whether one from there may be looked at.
    pub(crate) fn take(&mut self, from: SocketAddr, now: Instant) -> bool {
        let bucket = self.peers.get_mut(&from).unwrap_or(&mut self.others);
        bucket.take(1, now)
    }

    /// One from there was authentic, and had not come before. So many addresses are known at most.
    pub(crate) fn heard(&mut self, from: SocketAddr, peers_max: usize, now: Instant) {
        if self.peers.contains_key(&from) {
            return;
        }
        let is_known = |bucket: &Bucket| now.saturating_duration_since(bucket.filled) < KNOWN;
        self.peers.retain(|_, bucket| is_known(bucket));
        if self.peers.len() < peers_max {
            self.peers.insert(from, Bucket::new(self.per_second, now));
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use super::*;

    #[test]
    fn a_second_gives_as_many_as_the_rate_says_and_no_more_wait() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, start);
        assert!(bucket.take(10, start) && !bucket.take(1, start));
        assert!(!bucket.take(1, start + Duration::from_millis(99)));
        assert!(bucket.take(1, start + Duration::from_millis(101)));
        let later = start + Duration::from_secs(60);
        assert!(bucket.take(10, later) && !bucket.take(1, later));
    }
    #[test]
    fn each_address_of_a_peer_has_its_own_and_as_many_are_known_as_may_be() {
        let start = Instant::now();
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut incoming = IncomingBuckets::new(1, start);
        (1..=3).for_each(|port| incoming.heard(at(port), 2, start));
        let taken: Vec<_> = [1, 1, 2, 3, 4].map(|port| incoming.take(at(port), start)).into();
        assert_eq!(taken, [true, false, true, true, false]);
        let later = start + KNOWN;
        incoming.set_rate(2);
        incoming.heard(at(3), 2, later);
        let taken = [3, 3, 1, 1].map(|port| incoming.take(at(port), later));
        assert_eq!(taken, [true; 4], "others have forgotten nobody");
        assert!(!incoming.take(at(2), later), "it is one of the others now");
    }
}
