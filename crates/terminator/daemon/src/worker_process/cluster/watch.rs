//! What is said of the cluster's peers: who is not heard, who is heard again, and whose datagrams
//! are dropped for their secret or their clock.
//!
//! Owns when that is worth a message. What is known of peers is `session::mesh`'s.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use session::mesh::PeerFacts;
use telemetry::outcome::ClusterRejection;

/// How long peers of the configuration may be unheard at first: hosts of a cluster start together.
const GRACE: Duration = Duration::from_secs(10);

/// How often the same reason is told at most: anybody can send such datagrams.
const INTERVAL: Duration = Duration::from_secs(600);

/// A message: whether it warns, and its text.
pub(super) type Said = (bool, String);

/// What was said, and who is expected.
pub(super) struct PeerWatch {
    /// `send-to`; none of multicast.
    expected: Vec<SocketAddr>,
    since: Instant,
    silent: BTreeSet<SocketAddr>,
    secret_told: Option<Instant>,
    clock_told: Option<Instant>,
}

impl PeerWatch {
    /// Nothing was said yet.
    pub(super) fn new(expected: &[SocketAddr], now: Instant) -> Self {
        Self {
            expected: expected.to_vec(),
            since: now,
            silent: BTreeSet::new(),
            secret_told: None,
            clock_told: None,
        }
    }

    /// Expects these from now on.
    pub(super) fn expect(&mut self, expected: &[SocketAddr], now: Instant) {
        if self.expected != expected {
            (self.expected, self.since) = (expected.to_vec(), now);
        }
    }

    /// Peers of the configuration that were never heard. One that is reached at an address which it
    /// does not send from is not told from one that is missing, and not missed if all are there.
    pub(super) fn unheard(&self, peers: &[(PeerFacts, bool)]) -> Vec<SocketAddr> {
        let known: BTreeSet<_> = peers.iter().map(|(peer, _)| peer.address).collect();
        if known.len() >= self.expected.len() {
            return Vec::new();
        }
        let expected = self.expected.iter();
        let unheard = expected.filter(|address| !known.contains(address));
        unheard.copied().collect()
    }

    /// What is to be said of peers by now, each with whether it is heard.
    pub(super) fn look(&mut self, peers: &[(PeerFacts, bool)], now: Instant) -> Vec<Said> {
        let heard = peers.iter().filter(|(_, is_heard)| *is_heard);
        let heard: BTreeSet<_> = heard.map(|(peer, _)| peer.address).collect();
        let mut silent: BTreeSet<_> = peers.iter().map(|(peer, _)| peer.address).collect();
        if now.saturating_duration_since(self.since) >= GRACE {
            silent.extend(self.unheard(peers));
        }
        silent.retain(|address| !heard.contains(address));
        let new = silent.difference(&self.silent).map(|address| {
            let text = format!(
                "the cluster peer {address} is not heard: clients whose sessions only it has make \
                 full handshakes here\n\
                 hint: does lariat run there with the same `cluster.secret`, and does the firewall \
                 let UDP through?"
            );
            (true, text)
        });
        let again = self.silent.intersection(&heard).map(|address| {
            let text = format!("the cluster peer {address} is heard again");
            (false, text)
        });
        let said = new.chain(again).collect();
        self.silent = silent;
        said
    }

    /// What is to be said of a datagram that was dropped. Our clock less its time, and how far that
    /// may be, in milliseconds.
    pub(super) fn rejected(
        &mut self,
        why: ClusterRejection,
        from: SocketAddr,
        (lag_ms, window_ms): (i64, u64),
        now: Instant,
    ) -> Option<String> {
        match why {
            ClusterRejection::UnknownSecret if is_due(&mut self.secret_told, now) => Some(format!(
                "the cluster's peers: datagrams from {from} are encrypted with a secret that this \
                 host does not have, and are dropped\n\
                 hint: all hosts need the same `cluster.secret`, or each other's in \
                 `cluster.other-secrets`; if no host has that address, somebody else sends there"
            )),
            // One that was sent before this process began is dropped too, and is nobody's fault.
            ClusterRejection::OutOfTime
                if lag_ms.unsigned_abs() > window_ms && is_due(&mut self.clock_told, now) =>
            {
                let side = if lag_ms > 0 { "behind" } else { "ahead of" };
                Some(format!(
                    "the cluster's peers: datagrams from {from} are dropped, as their time is {:.1} \
                     s {side} this host's clock\n\
                     hint: check the clocks of both hosts: they may differ by \
                     `cluster.peers.time-window`; if they are right, somebody sends old datagrams \
                     again",
                    lag_ms.unsigned_abs() as f64 / 1e3
                ))
            }
            _ => None,
        }
    }
}

/// Whether it was not told for long; then it is.
fn is_due(told: &mut Option<Instant>, now: Instant) -> bool {
    let is_due = told.is_none_or(|at| now.saturating_duration_since(at) >= INTERVAL);
    if is_due {
        *told = Some(now);
    }
    is_due
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use super::*;

    fn at(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 8888))
    }

    fn peer(sender: u8, host: u8, is_heard: bool, now: Instant) -> (PeerFacts, bool) {
        let facts = PeerFacts {
            sender: [sender; 8],
            address: at(host),
            last_seen: now,
            lag_ms: 0,
            sent: 0,
            received: 0,
            lost: 0,
            replayed: 0,
            out_of_time: 0,
            boots: 1,
        };
        (facts, is_heard)
    }

    #[test]
    fn each_silence_and_its_end_is_said_once() {
        let start = Instant::now();
        let mut watch = PeerWatch::new(&[at(1), at(2)], start);
        let mut look = |peers: &[(PeerFacts, bool)], s| {
            let said = watch.look(peers, start + Duration::from_secs(s));
            let short = |(warns, text): &Said| {
                let host = if text.contains("10.0.0.1:") { 1 } else { 2 };
                (*warns, host)
            };
            said.iter().map(short).collect::<Vec<_>>()
        };
        let one = |sender, is_heard| peer(sender, 1, is_heard, start);
        assert_eq!(look(&[one(1, true)], 9), [], "the other may still start");
        assert_eq!(look(&[one(1, true)], 10), [(true, 2)]);
        assert_eq!(look(&[one(1, true)], 11), []);
        let both = |is_heard| [one(1, is_heard), peer(2, 2, true, start)];
        assert_eq!(look(&both(true), 12), [(false, 2)]);
        assert_eq!(look(&both(false), 13), [(true, 1)]);
        assert_eq!(look(&both(false), 14), []);
        // It starts anew and has another number: what it was is silent, and it is not.
        let anew = [one(1, false), one(3, true), peer(2, 2, true, start)];
        assert_eq!(look(&anew, 15), [(false, 1)]);
        assert_eq!(look(&anew, 16), []);
    }

    #[test]
    fn a_peer_that_sends_from_another_address_than_its_own_is_not_missed() {
        let start = Instant::now();
        let watch = PeerWatch::new(&[at(1), at(2)], start);
        let elsewhere = [peer(1, 7, true, start), peer(2, 2, true, start)];
        assert_eq!(watch.unheard(&elsewhere), []);
        assert_eq!(watch.unheard(&elsewhere[1..]), [at(1)]);
    }

    #[test]
    fn who_sends_in_vain_is_told_now_and_then() {
        let start = Instant::now();
        let mut watch = PeerWatch::new(&[], start);
        let mut told = |why, lag_ms, s| {
            let now = start + Duration::from_secs(s);
            watch.rejected(why, at(1), (lag_ms, 30_000), now)
        };
        let secret = told(ClusterRejection::UnknownSecret, 0, 0).unwrap();
        assert!(secret.contains("from 10.0.0.1:8888"), "{secret}");
        assert_eq!(told(ClusterRejection::UnknownSecret, 0, 599), None);
        assert!(told(ClusterRejection::UnknownSecret, 0, 600).is_some());
        assert_eq!(told(ClusterRejection::OutOfTime, 29_000, 600), None);
        let behind = told(ClusterRejection::OutOfTime, 61_000, 600).unwrap();
        assert!(behind.contains("61.0 s behind"), "{behind}");
        let ahead = told(ClusterRejection::OutOfTime, -61_000, 1200).unwrap();
        assert!(ahead.contains("61.0 s ahead of"), "{ahead}");
        assert_eq!(told(ClusterRejection::Forged, 99_000, 9999), None);
    }
}
