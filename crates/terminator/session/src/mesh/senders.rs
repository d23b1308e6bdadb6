//! Known senders, the replay windows of their datagrams, and limits on their rate.
//!
//! Handles the two windows that let no datagram in twice: one of sequence numbers for each boot of
//! a sender, one of time. A boot is forgotten only when all that it sent before is outside of the
//! time window, so that forgetting allows no replay. A limit per second is a token bucket, so that
//! a second's worth may come at once.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use telemetry::outcome::ClusterRejection;
use wire::cluster::{Header, Stream};

use super::outside::MeshOptions;

/// Most boots of one sender at a time; one that starts more often in a time window is broken.
const BOOTS_MAX: usize = 8;

/// Least time for which a silent peer is still shown.
const SHOWN: Duration = Duration::from_secs(600);

/// Round trips remembered per peer: the longest counts, since an awaited answer should seldom come
/// too late.
const ROUND_TRIPS: usize = 8;

/// Most peers whose round trips are measured at a time, so that many cost no more than a few.
const PINGS_MAX: usize = 4;

/// Time to wait for the answer to a ping before the next ping.
const PING_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PeerFacts {
    /// Number of the peer, random for the life of its supervisor.
    pub sender: [u8; 8],
    /// Address of its last datagram; once a configured address has been seen, no other counts.
    pub address: SocketAddr,
    /// Whether `address` is a configured one, and so is answered.
    pub is_listed: bool,
    pub last_seen: Instant,
    /// Our clock less the peer's clock at that moment, with the time on the way, in ms.
    pub lag_ms: i64,
    /// Longest of the recent round trips; `None` if the peer has not answered a ping yet.
    pub round_trip: Option<Duration>,
    pub sent: u64,
    /// Datagrams of the peer that were accepted.
    pub received: u64,
    /// Datagrams for all peers that did not arrive, counted by gaps in their sequence.
    pub lost: u64,
    pub replayed: u64,
    /// Datagrams outside of the time window.
    pub out_of_time: u64,
    /// Starts of the peer, as far as they were seen.
    pub boots: u64,
}

#[derive(Debug)]
struct Boot {
    boot: [u8; 8],
    windows: [ReplayWindow; 2],
    last_seen: Instant,
    /// Time of the newest datagram, by the sender's clock.
    time_ms: u64,
}

#[derive(Debug)]
struct KnownSender {
    facts: PeerFacts,
    lost_before: u64,
    boots: Vec<Boot>,
    /// Time of the last datagram from its address.
    there: Instant,
    round_trips: VecDeque<Duration>,
    /// Time of the last ping, and whether its answer is missing.
    pinged: Option<(Instant, bool)>,
    pings: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Senders(Vec<KnownSender>);

/// News about a sender in an accepted datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DatagramArrival {
    /// Whether this boot was not known.
    pub(crate) is_new: bool,
    /// Time of the previous datagram, by the sender's clock, if that is long ago.
    pub(crate) silent_since_ms: Option<u64>,
}

impl Senders {
    /// Accepts an authenticated datagram, once and within the time window.
    pub(crate) fn take(
        &mut self,
        header: &Header,
        (from, is_listed): (SocketAddr, bool),
        limits: &MeshOptions,
        silence: Duration,
        (now, now_ms): (Instant, u64),
    ) -> Result<DatagramArrival, ClusterRejection> {
        let is_in_time = now_ms.abs_diff(header.time_ms) <= limits.window_ms();
        let known = self.place(header.sender);
        if !is_in_time {
            if let Some(place) = known {
                self.0[place].facts.out_of_time += 1;
            }
            return Err(ClusterRejection::OutOfTime);
        }
        let place = match known {
            Some(place) => place,
            None => self.add(header, (from, is_listed), limits, now)?,
        };
        let sender = &mut self.0[place];
        let (boot, is_new) = sender.boot(header, limits, now)?;
        let boot = &mut sender.boots[boot];
        if !boot.windows[header.stream as usize].take(header.sequence) {
            sender.facts.replayed += 1;
            return Err(ClusterRejection::Replayed);
        }
        let is_long_ago = now.saturating_duration_since(boot.last_seen) >= silence;
        let silent_since_ms = (is_long_ago && !is_new).then_some(boot.time_ms);
        boot.last_seen = now;
        boot.time_ms = boot.time_ms.max(header.time_ms);
        let facts = &mut sender.facts;
        facts.received += 1;
        facts.boots += u64::from(is_new);
        facts.last_seen = now;
        // Somebody else may forward its datagrams, from a foreign address or as if from another
        // peer: they are accepted, and answered at the peer's own address.
        let is_gone = now.saturating_duration_since(sender.there) >= silence;
        if facts.address == from || !facts.is_listed || is_listed && is_gone {
            (facts.address, facts.is_listed) = (from, is_listed);
            sender.there = now;
        }
        facts.lag_ms = now_ms.cast_signed().wrapping_sub(header.time_ms.cast_signed());
        Ok(DatagramArrival { is_new, silent_since_ms })
    }

    /// Returns a sender's address, if it is a configured one.
    pub(crate) fn place_of(&self, sender: [u8; 8]) -> Option<SocketAddr> {
        let facts = &self.0.get(self.place(sender)?)?.facts;
        facts.is_listed.then_some(facts.address)
    }

    /// Updates which addresses are configured.
    pub(crate) fn relist(&mut self, is_listed: impl Fn(SocketAddr) -> bool) {
        for sender in &mut self.0 {
            sender.facts.is_listed = is_listed(sender.facts.address);
        }
    }

    /// Returns the peers to ping now: number, address, and ping number. Peers that were not pinged
    /// for the longest time come first.
    pub(crate) fn ping(
        &mut self,
        now: Instant,
        is_heard: impl Fn(&PeerFacts) -> bool,
    ) -> Vec<([u8; 8], SocketAddr, u32)> {
        let is_free = |one: &KnownSender| match one.pinged {
            Some((at, true)) => now.saturating_duration_since(at) >= PING_PATIENCE,
            Some((_, false)) | None => true,
        };
        let others = self.0.iter_mut();
        let mut others: Vec<_> = others
            .filter(|one| one.facts.is_listed && is_heard(&one.facts) && is_free(one))
            .collect();
        others.sort_by_key(|one| one.pinged.map(|(at, _)| at));
        let ping = |one: &mut KnownSender| {
            one.pinged = Some((now, true));
            one.pings = one.pings.wrapping_add(1);
            (one.facts.sender, one.facts.address, one.pings)
        };
        others.into_iter().take(PINGS_MAX).map(ping).collect()
    }

    /// Notes a peer's answer to the ping of that number.
    pub(crate) fn pong(&mut self, sender: [u8; 8], id: u32, now: Instant) {
        let found = self.0.iter_mut().find(|one| one.facts.sender == sender);
        let Some((one, at)) = found.and_then(|one| match one.pinged {
            Some((at, true)) if one.pings == id => Some((one, at)),
            _ => None,
        }) else {
            return;
        };
        one.pinged = Some((at, false));
        one.round_trips.truncate(ROUND_TRIPS - 1);
        one.round_trips.push_front(now.saturating_duration_since(at));
        one.facts.round_trip = one.round_trips.iter().max().copied();
    }

    /// Counts a datagram that goes to a single peer.
    pub(crate) fn note_sent(&mut self, to: SocketAddr) {
        if let Some(sender) = self.0.iter_mut().find(|one| one.facts.address == to) {
            sender.facts.sent += 1;
        }
    }

    pub(crate) fn facts(&self) -> impl Iterator<Item = PeerFacts> {
        self.0.iter().map(|sender| PeerFacts { lost: sender.lost(), ..sender.facts.clone() })
    }

    fn place(&self, sender: [u8; 8]) -> Option<usize> {
        self.0.iter().position(|one| one.facts.sender == sender)
    }

    fn add(
        &mut self,
        header: &Header,
        (address, is_listed): (SocketAddr, bool),
        limits: &MeshOptions,
        now: Instant,
    ) -> Result<usize, ClusterRejection> {
        let keep = SHOWN.max(2 * limits.time_window);
        let is_kept = |one: &KnownSender| now.saturating_duration_since(one.facts.last_seen) < keep;
        self.0.retain(is_kept);
        if self.0.len() >= limits.senders {
            return Err(ClusterRejection::TooManySenders);
        }
        self.0.push(KnownSender {
            facts: PeerFacts {
                sender: header.sender,
                address,
                is_listed,
                last_seen: now,
                lag_ms: 0,
                round_trip: None,
                sent: 0,
                received: 0,
                lost: 0,
                replayed: 0,
                out_of_time: 0,
                boots: 0,
            },
            lost_before: 0,
            boots: Vec::new(),
            there: now,
            round_trips: VecDeque::new(),
            pinged: None,
            pings: 0,
        });
        Ok(self.0.len() - 1)
    }
}

impl KnownSender {
    /// Returns the place of a datagram's boot, and whether the boot is new.
    fn boot(
        &mut self,
        header: &Header,
        limits: &MeshOptions,
        now: Instant,
    ) -> Result<(usize, bool), ClusterRejection> {
        let found = self.boots.iter().position(|one| one.boot == header.boot);
        if let Some(place) = found {
            return Ok((place, false));
        }
        // All that a boot sent before its last datagram is out of time twice the window later,
        // however its clock and ours differ within the window.
        let keep = 2 * limits.time_window;
        let is_over = |one: &Boot| now.saturating_duration_since(one.last_seen) > keep;
        for boot in self.boots.extract_if(.., |one| is_over(one)) {
            self.lost_before += boot.windows[Stream::All as usize].missing();
        }
        if self.boots.len() >= BOOTS_MAX {
            return Err(ClusterRejection::TooManySenders);
        }
        self.boots.push(Boot {
            boot: header.boot,
            windows: [(); 2].map(|()| ReplayWindow::new(limits.replay_window)),
            last_seen: now,
            time_ms: header.time_ms,
        });
        Ok((self.boots.len() - 1, true))
    }

    fn lost(&self) -> u64 {
        let of_boots = self.boots.iter();
        let of_boots = of_boots.map(|boot| boot.windows[Stream::All as usize].missing());
        self.lost_before + of_boots.sum::<u64>()
    }
}

const WORD_BITS: u64 = 64;

/// An anti-replay window (RFC 4303 section 3.4.3), as a ring of words (RFC 6479): the numbers of
/// one sender up to the highest received, each once.
#[derive(Clone, Debug)]
pub(crate) struct ReplayWindow {
    words: Box<[u64]>,
    lowest: u64,
    highest: u64,
    received: u64,
}

impl ReplayWindow {
    /// Creates a window of at least this number of numbers.
    pub(crate) fn new(numbers: u32) -> Self {
        // One word more, because the word of the highest number is seldom whole.
        let words = u64::from(numbers).div_ceil(WORD_BITS) + 1;
        Self { words: vec![0; words as usize].into(), lowest: 0, highest: 0, received: 0 }
    }

    /// Accepts a number. `false` if it has come before, or is too old to say.
    pub(crate) fn take(&mut self, number: u64) -> bool {
        let count = self.words.len() as u64;
        let word = number / WORD_BITS;
        if self.received == 0 {
            (self.lowest, self.highest) = (number, number);
        }
        let last = self.highest / WORD_BITS;
        if word + count <= last {
            return false;
        }
        for place in (last + 1).max((word + 1).saturating_sub(count))..=word {
            self.words[(place % count) as usize] = 0;
        }
        let bits = &mut self.words[(word % count) as usize];
        let bit = 1 << (number % WORD_BITS);
        if *bits & bit != 0 {
            return false;
        }
        *bits |= bit;
        self.highest = self.highest.max(number);
        self.lowest = self.lowest.min(number);
        self.received += 1;
        true
    }

    /// Returns how many numbers between the lowest and the highest are lost, or on their way.
    pub(crate) fn missing(&self) -> u64 {
        match self.received {
            0 => 0,
            received => (self.highest - self.lowest).saturating_sub(received - 1),
        }
    }
}

/// Time for which an address is known after the last datagram from there.
const KNOWN: Duration = Duration::from_secs(600);

/// A token bucket.
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

    /// Changes the limit.
    pub(crate) fn set_rate(&mut self, per_second: u32) {
        self.per_second = per_second;
    }

    /// Takes `count` tokens; `false` if there are fewer.
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

/// Limits for incoming datagrams: one for each address of a known peer, and one for all other
/// addresses together. Anybody may send; the address tells peers' datagrams from others for less
/// than the cost of a decryption.
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

    /// Changes the limit of all buckets.
    pub(crate) fn set_rate(&mut self, per_second: u32) {
        self.per_second = per_second;
        let peers = self.peers.values_mut();
        let all = peers.chain([&mut self.others]);
        all.for_each(|bucket| bucket.set_rate(per_second));
    }

    /// Reports whether a datagram from this address may be inspected.
    pub(crate) fn take(&mut self, from: SocketAddr, now: Instant) -> bool {
        let bucket = self.peers.get_mut(&from).unwrap_or(&mut self.others);
        bucket.take(1, now)
    }

    /// Notes an authentic new datagram from this address. At most `peers_max` addresses are known.
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
    use proptest::prelude::*;
    use std::collections::BTreeSet;

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

    #[test]
    fn a_number_comes_once_in_any_order_and_gaps_are_counted() {
        let mut window = ReplayWindow::new(128);
        let taken: Vec<_> = [7, 5, 9, 7, 5, 6, 400, 9, 399, 272, 143, u64::MAX, u64::MAX]
            .into_iter()
            .map(|number| window.take(number))
            .collect();
        let wanted =
            [true, true, true, false, false, true, true, false, true, true, false, true, false];
        assert_eq!(taken, wanted);
        assert_eq!((window.received, window.missing()), (8, u64::MAX - 5 + 1 - 8));
    }

    #[test]
    fn the_widest_gap_is_counted() {
        let mut window = ReplayWindow::new(128);
        assert!(window.take(0) && window.take(u64::MAX));
        assert_eq!(window.missing(), u64::MAX - 1);
    }

    proptest! {
        /// The window agrees with a set, except for numbers that are too old.
        #[test]
        fn no_number_comes_twice(steps in proptest::collection::vec(0u64..3000, 1..300)) {
            let mut window = ReplayWindow::new(256);
            let mut seen = BTreeSet::new();
            for number in steps {
                let highest = seen.last().copied().unwrap_or(number);
                let is_new = !seen.contains(&number);
                let is_taken = window.take(number);
                prop_assert!(is_new || !is_taken);
                if is_new && number + 256 > highest {
                    prop_assert!(is_taken, "{number} after {highest}");
                }
                if is_taken {
                    seen.insert(number);
                }
            }
            prop_assert_eq!(window.received, seen.len() as u64);
        }
    }
}
