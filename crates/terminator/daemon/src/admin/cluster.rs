//! Facts for the admin side about the session tiers beyond this host, set by the threads that use
//! the tiers and shown in the status and the metrics.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use session::Tiers;
use session::mesh::{CatchUp, CatchUpState, MeshCounters, PeerFacts};
use telemetry::catalogue::{Process, ProcessMetric as Metric, Row};
use telemetry::counters::Counts;
use telemetry::outcome::{ClusterRejection, ClusterUpdate};

use super::document::{
    ClusterStatus, PeerStatus, ResyncState, ResyncStatus, StoreState, StoreStatus,
};

/// Facts about the tiers beyond this host. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct ClusterFacts {
    known: Arc<Mutex<TierFacts>>,
    tiers: Arc<Tiers>,
}

#[derive(Default)]
struct TierFacts {
    /// `None` = no peers are configured.
    peers: Option<ClusterSnapshot>,
    /// `None` = no store is configured.
    store: Option<StoreStatus>,
    /// Counts of look-ups and of all requests to the store.
    counts: Counts<Process>,
}

/// Facts about the peers at one time.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSnapshot {
    pub(crate) address: String,
    pub(crate) counters: MeshCounters,
    /// Peers, each with whether it was heard recently.
    pub(crate) peers: Vec<(PeerFacts, bool)>,
    /// Configured peers that were never heard.
    pub(crate) unheard: Vec<SocketAddr>,
    /// Progress of fetching the sessions that this host has missed.
    pub(crate) catch_up: CatchUp,
    /// How long a handshake waits for peers; `None` = no handshake waits.
    pub(crate) wait: Option<Duration>,
    pub(crate) now: Instant,
}

impl ClusterFacts {
    /// Creates empty facts; workers ask the `tiers`.
    pub(crate) fn of(tiers: Arc<Tiers>) -> Self {
        Self { tiers, ..Self::default() }
    }

    /// Counts the outcome for a session: the tier in which it was found, or what the store did.
    pub(crate) fn count(&self, outcome: impl Row<Scope = Process>) {
        let counts = &mut self.lock().counts;
        counts.set(outcome, counts.get(outcome) + 1);
    }

    /// Sets what is known of the peers now.
    pub(crate) fn set_peers(&self, snapshot: Option<ClusterSnapshot>) {
        self.lock().peers = snapshot;
    }

    /// Sets the status of the store; `None` = no store is configured any more.
    pub(crate) fn set_store(&self, status: Option<StoreStatus>) {
        self.lock().store = status;
    }

    pub(crate) fn has_peers(&self) -> bool {
        self.lock().peers.is_some()
    }

    pub(super) fn status(&self) -> Option<ClusterStatus> {
        let known = self.lock();
        let peers = known.peers.as_ref().map(ClusterSnapshot::status);
        let store = known.store.clone();
        (peers.is_some() || store.is_some())
            .then(|| ClusterStatus { store, ..peers.unwrap_or_default() })
    }

    /// Returns the process's metrics about sessions of other hosts; all others are 0.
    pub(super) fn counts(&self) -> Counts<Process> {
        let known = self.lock();
        let mut counts = known.counts.clone();
        if let Some(snapshot) = &known.peers {
            snapshot.count(&mut counts);
        }
        counts.set(Metric::ClusterRequestsDropped, self.tiers.overflows());
        let state = known.store.as_ref().map(|status| status.state);
        let is_up = state.is_some_and(|state| state != StoreState::Down);
        counts.set(Metric::StoreUp, u64::from(is_up));
        counts.set(Metric::StoreWritable, u64::from(state == Some(StoreState::Up)));
        counts
    }

    fn lock(&self) -> MutexGuard<'_, TierFacts> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClusterSnapshot {
    fn status(&self) -> ClusterStatus {
        // A host that was restarted has another number at the same address.
        let is_over = |(peer, _): &&(PeerFacts, bool)| {
            let mut others = self.peers.iter().map(|(other, _)| other);
            others.any(|one| one.address == peer.address && one.last_seen > peer.last_seen)
        };
        let peers = self.peers.iter().filter(|one| !is_over(one));
        let mut peers: Vec<_> = peers.map(|one| self.peer(one)).collect();
        peers.sort_by(|one, other| one.address.cmp(&other.address));
        ClusterStatus {
            address: self.address.clone(),
            peers,
            unheard: self.unheard.iter().map(SocketAddr::to_string).collect(),
            fetch_wait_ms: self.wait.map(ms),
            resync: self.resync(),
            store: None,
        }
    }

    fn resync(&self) -> ResyncStatus {
        let CatchUp { state, peer, sent, all } = self.catch_up;
        let mut peers = self.peers.iter().map(|(peer, _)| peer);
        let from = peers.find(|one| Some(one.sender) == peer);
        ResyncStatus {
            state: match state {
                CatchUpState::Done => ResyncState::Done,
                CatchUpState::Asking => ResyncState::Asking,
                CatchUpState::Receiving => ResyncState::Receiving,
                CatchUpState::GivenUp => ResyncState::GivenUp,
            },
            from: from.map_or_else(String::new, |peer| peer.address.to_string()),
            sessions: sent.into(),
            of: all.into(),
        }
    }

    fn peer(&self, (peer, is_heard): &(PeerFacts, bool)) -> PeerStatus {
        let silent = self.now.saturating_duration_since(peer.last_seen);
        PeerStatus {
            sender: format!("{:016x}", u64::from_be_bytes(peer.sender)),
            address: peer.address.to_string(),
            heard: *is_heard,
            silent_ms: u64::try_from(silent.as_millis()).unwrap_or(u64::MAX),
            lag_ms: peer.lag_ms,
            round_trip_ms: peer.round_trip.map(ms),
            listed: peer.is_listed,
            sent: peer.sent,
            received: peer.received,
            lost: peer.lost,
            replayed: peer.replayed,
            out_of_time: peer.out_of_time,
            boots: peer.boots,
        }
    }

    fn count(&self, counts: &mut Counts<Process>) {
        let heard = self.peers.iter().filter(|(_, is_heard)| *is_heard).count();
        let lost = self.peers.iter().map(|(peer, _)| peer.lost).sum();
        let all = &self.counters;
        for (metric, value) in [
            (Metric::ClusterPeers, heard as u64),
            (Metric::ClusterDatagramsSent, all.datagrams_sent),
            (Metric::ClusterDatagramsReceived, all.datagrams_received),
            (Metric::ClusterBytesSent, all.bytes_sent),
            (Metric::ClusterBytesReceived, all.bytes_received),
            (Metric::ClusterDatagramsLost, lost),
        ] {
            counts.set(metric, value);
        }
        for why in ClusterRejection::ALL {
            counts.set(*why, all.rejections(*why));
        }
        for what in ClusterUpdate::ALL {
            counts.set(*what, all.updates(*what));
        }
    }
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 100.0
}
