//! Messages about the cluster's peers: who is not heard, is heard again, is not answered or is not
//! waited for, and whose datagrams are dropped for their secret, their clock or their version.
//!
//! Owns when that is worth a message. What is known of peers is `session::mesh`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use session::mesh::{CatchUp, CatchUpState, PeerFacts};
use telemetry::outcome::ClusterRejection;
use wire::cluster::VERSION;

/// How long peers of the configuration may be unheard at first: hosts of a cluster start together.
const GRACE: Duration = Duration::from_secs(10);

/// How often the same reason is told at most: anybody can send such datagrams.
const INTERVAL: Duration = Duration::from_secs(600);

/// How far a clock may be behind ours without a word: clocks that NTP keeps are nearer, and so is
/// what was under way when this process began.
const CLOCK_DIFFERENCE_MS: u64 = 1000;

/// A message: whether it warns, and its text.
pub(super) type LogMessage = (bool, String);

pub(super) struct PeerWatch {
    expected: Vec<SocketAddr>,
    since: Instant,
    silent: BTreeSet<SocketAddr>,
    /// Peers of the configuration whose clocks have had datagrams dropped: ours less theirs, in
    /// milliseconds.
    clocks: BTreeMap<SocketAddr, i64>,
    /// Peers that are heard, and what is wrong with each.
    troubles: BTreeSet<(SocketAddr, &'static str)>,
    caught_up: CatchUpState,
    secret_told: Option<Instant>,
    clock_told: Option<Instant>,
    version_told: Option<Instant>,
}

impl PeerWatch {
    pub(super) fn new(expected: &[SocketAddr], now: Instant) -> Self {
        Self {
            expected: expected.to_vec(),
            since: now,
            silent: BTreeSet::new(),
            clocks: BTreeMap::new(),
            troubles: BTreeSet::new(),
            caught_up: CatchUpState::Done,
            secret_told: None,
            clock_told: None,
            version_told: None,
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

    /// Messages about peers that are due, each with whether it is heard.
    pub(super) fn look(&mut self, peers: &[(PeerFacts, bool)], now: Instant) -> Vec<LogMessage> {
        let heard = peers.iter().filter(|(_, is_heard)| *is_heard);
        let heard: BTreeSet<_> = heard.map(|(peer, _)| peer.address).collect();
        let mut silent: BTreeSet<_> = peers.iter().map(|(peer, _)| peer.address).collect();
        if now.saturating_duration_since(self.since) >= GRACE {
            silent.extend(self.unheard(peers));
        }
        silent.retain(|address| !heard.contains(address));
        let new = silent.difference(&self.silent).map(|address| {
            let why = match self.clocks.get(address) {
                Some(lag_ms) => format!(
                    "its clock is {} this host's, and what it sends is dropped\n\
                     hint: set the clocks right; the secret and the firewall are",
                    difference(*lag_ms)
                ),
                None => "clients whose sessions only it has make full handshakes here\n\
                         hint: does lariat run there with the same `cluster.secret`, and does the \
                         firewall let UDP through?"
                    .to_owned(),
            };
            (true, format!("the cluster peer {address} is not heard: {why}"))
        });
        let again = self.silent.intersection(&heard).map(|address| {
            let text = format!("the cluster peer {address} is heard again");
            (false, text)
        });
        let said = new.chain(again).collect();
        self.clocks.retain(|address, _| !heard.contains(address));
        self.silent = silent;
        said
    }

    /// Messages about peers that are heard: those that get no answer, and those that answer later
    /// than anybody waits.
    pub(super) fn judge(
        &mut self,
        peers: &[(PeerFacts, bool)],
        longest_wait: Duration,
    ) -> Vec<LogMessage> {
        let mut troubles = BTreeMap::new();
        for (peer, _) in peers.iter().filter(|(_, is_heard)| *is_heard) {
            let address = peer.address;
            if !peer.is_listed {
                let text = format!(
                    "a cluster peer is heard from {address}, which is not in \
                     `cluster.peers.send-to`: its sessions are taken, and it gets no answer there, \
                     as anybody may send its datagrams on\n\
                     hint: have it `listen` at the address that is listed here, or list {address}"
                );
                troubles.insert((address, "unlisted"), text);
            }
            if let Some(trip) = peer.round_trip.filter(|trip| *trip > longest_wait) {
                let text = format!(
                    "the cluster peer {address} takes {trip:.1?} to answer, and a handshake waits \
                     {longest_wait:.1?} at most: sessions that only it has are not waited for\n\
                     hint: a longer `cluster.peers.fetch-timeout` makes clients wait; \
                     sessions that it has sent by then resume in any case"
                );
                troubles.insert((address, "far"), text);
            }
        }
        let before = std::mem::replace(&mut self.troubles, troubles.keys().copied().collect());
        troubles.retain(|name, _| !before.contains(name));
        troubles.into_values().map(|text| (true, text)).collect()
    }

    /// A message when this host has caught up with the others, or cannot.
    pub(super) fn caught_up(&mut self, progress: &CatchUp) -> Option<LogMessage> {
        let before = std::mem::replace(&mut self.caught_up, progress.state);
        let CatchUp { sent, all, .. } = progress;
        match progress.state {
            CatchUpState::Done if before != CatchUpState::Done && *sent > 0 => {
                let text = format!("the cluster's peers have sent all {sent} sessions of theirs");
                Some((false, text))
            }
            CatchUpState::GivenUp if before != CatchUpState::GivenUp && *all > 0 => {
                let text = format!(
                    "the cluster's peers have sent {sent} of {all} sessions and stopped\n\
                     hint: start a host again when `lariat status` says that the last one has all"
                );
                Some((true, text))
            }
            _ => None,
        }
    }

    /// The message about a datagram that was dropped. Our clock less its time, and how far that
    /// may be, in milliseconds.
    pub(super) fn rejected(
        &mut self,
        why: ClusterRejection,
        from: SocketAddr,
        (lag_ms, window_ms): (i64, u64),
        now: Instant,
    ) -> Option<String> {
        let is_off = match why {
            ClusterRejection::OutOfTime => lag_ms.unsigned_abs() > window_ms,
            // Those that are off by less were sent before this process began.
            ClusterRejection::BeforeStart => lag_ms.unsigned_abs() > CLOCK_DIFFERENCE_MS,
            _ => false,
        };
        if is_off && self.expected.contains(&from) {
            self.clocks.insert(from, lag_ms);
        }
        match why {
            ClusterRejection::UnknownSecret if is_due(&mut self.secret_told, now) => Some(format!(
                "the cluster's peers: datagrams from {from} are encrypted with a secret that this \
                 host does not have, and are dropped\n\
                 hint: all hosts need the same `cluster.secret`, or each other's in \
                 `cluster.other-secrets`; if no host has that address, somebody else sends there"
            )),
            _ if is_off && is_due(&mut self.clock_told, now) => Some(format!(
                "the cluster's peers: datagrams from {from} are dropped, as their time is {} this \
                 host's clock\n\
                 hint: check the clocks of both hosts: they may differ by \
                 `cluster.peers.time-window`, and one that is behind is heard that much later \
                 after a start; if they are right, somebody sends old datagrams again",
                difference(lag_ms)
            )),
            _ => None,
        }
    }

    /// The same of one whose form has another version.
    pub(super) fn other_version(
        &mut self,
        version: u8,
        from: SocketAddr,
        now: Instant,
    ) -> Option<String> {
        is_due(&mut self.version_told, now).then(|| {
            format!(
                "the cluster's peers: datagrams from {from} have version {version}, and this lariat \
                 speaks version {VERSION} alone: they are dropped, and ours there\n\
                 hint: all hosts of a cluster need the same release; until they have it, those of \
                 each release share their sessions, and tickets resume everywhere"
            )
        })
    }
}

fn difference(lag_ms: i64) -> String {
    let side = if lag_ms > 0 { "behind" } else { "ahead of" };
    format!("{:.1} s {side}", lag_ms.unsigned_abs() as f64 / 1e3)
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
            is_listed: true,
            round_trip: None,
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
            let short = |(warns, text): &LogMessage| {
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
        // Under way at the start, and a clock that is behind.
        assert_eq!(told(ClusterRejection::BeforeStart, 900, 9999), None);
        let behind = told(ClusterRejection::BeforeStart, 20_000, 9999).unwrap();
        assert!(behind.contains("20.0 s behind this host's clock"), "{behind}");
        let version = watch.other_version(1, at(1), start).unwrap();
        assert!(version.contains("have version 1, and this lariat speaks version 2"));
        assert_eq!(watch.other_version(1, at(1), start), None);
    }

    #[test]
    fn a_peer_that_a_clock_keeps_away_is_not_sought_in_the_firewall() {
        let start = Instant::now();
        let mut watch = PeerWatch::new(&[at(1), at(2)], start);
        let why = ClusterRejection::BeforeStart;
        for host in [1, 3] {
            watch.rejected(why, at(host), (20_000, 30_000), start);
        }
        assert_eq!(watch.clocks.len(), 1, "no stranger takes room");
        let said = watch.look(&[], start + GRACE);
        assert!(said[0].1.contains("its clock is 20.0 s behind this host's"), "{said:?}");
        assert!(!said[0].1.contains("firewall let") && said[1].1.contains("firewall let"));
        watch.look(&[peer(1, 1, true, start)], start + GRACE);
        assert!(watch.clocks.is_empty());
    }

    #[test]
    fn who_is_not_answered_or_too_far_away_is_said_once() {
        let start = Instant::now();
        let mut watch = PeerWatch::new(&[at(1)], start);
        let mut judge = |is_listed, trip_ms: u64| {
            let (mut facts, is_heard) = peer(1, 1, true, start);
            facts.is_listed = is_listed;
            facts.round_trip = Some(Duration::from_millis(trip_ms));
            let said = watch.judge(&[(facts, is_heard)], Duration::from_millis(50));
            said.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        assert_eq!(judge(true, 50), [""; 0]);
        let far = judge(true, 62);
        assert!(far[0].contains("10.0.0.1:8888 takes 62.0ms to answer"), "{far:?}");
        assert!(far[0].contains("waits 50.0ms at most"), "{far:?}");
        assert_eq!(judge(true, 70), [""; 0]);
        let stranger = judge(false, 9);
        assert!(stranger[0].contains("from 10.0.0.1:8888, which is not in"), "{stranger:?}");
        assert_eq!(judge(false, 9), [""; 0]);
        assert_eq!(judge(true, 60).len(), 1, "it was near meanwhile");
    }

    #[test]
    fn the_end_of_a_catch_up_is_said() {
        let mut watch = PeerWatch::new(&[], Instant::now());
        let mut say = |state, sent, all| {
            let peer = None;
            let said = watch.caught_up(&CatchUp { state, peer, sent, all });
            said.map(|(warns, text)| (warns, text.contains(&format!(" {sent} "))))
        };
        assert_eq!(say(CatchUpState::Asking, 0, 0), None);
        assert_eq!(say(CatchUpState::GivenUp, 0, 0), None, "it is alone");
        assert_eq!(say(CatchUpState::Asking, 0, 0), None);
        assert_eq!(say(CatchUpState::Done, 0, 0), None, "there are none");
        assert_eq!(say(CatchUpState::Receiving, 5, 9), None);
        assert_eq!(say(CatchUpState::Done, 9, 9), Some((false, true)));
        assert_eq!(say(CatchUpState::Done, 9, 9), None);
        assert_eq!(say(CatchUpState::Receiving, 7, 9), None);
        assert_eq!(say(CatchUpState::GivenUp, 7, 9), Some((true, true)));
    }
}
