//! Where sessions go beyond this host, for people: its part of what `lariat status` prints.

use telemetry::catalogue::ProcessMetric as Metric;

use super::display::{Align, Count, Table};
use super::document::{ClusterStatus, PeerStatus, StatusDocument, StoreState, StoreStatus};

/// Nothing if sessions stay on this host.
pub(super) fn cluster_text(now: &StatusDocument) -> String {
    let Some(cluster) = &now.cluster else {
        return String::new();
    };
    let mut text = String::new();
    if !cluster.address.is_empty() {
        text.push_str(&peers_text(cluster, now));
    }
    if let Some(store) = &cluster.store {
        text.push_str(&store_text(store, now));
    }
    text
}

/// What comes of the store.
fn store_text(store: &StoreStatus, now: &StatusDocument) -> String {
    let count = |metric| Count(now.process.metrics.get(metric));
    let state = match store.state {
        StoreState::Up => "up",
        StoreState::ReadOnly => "READ-ONLY",
        StoreState::Down => "DOWN",
    };
    let why = store.why.iter().map(|why| format!(" ({})", why));
    let sum = |metrics: &[Metric]| {
        let each = metrics
            .iter()
            .map(|metric| now.process.metrics.get(*metric));
        Count(each.sum())
    };
    format!(
        "\nsession store {}: {state}{}\n  sessions      {} published, {} deleted, {} failed, {} \
         dropped\n  fetched       {} from the store, {} nowhere\n  failures      {}, given up {} \
         times, {} values rejected\n",
        store.address,
        why.collect::<String>(),
        count(Metric::StorePublished),
        count(Metric::StoreDeleted),
        count(Metric::StoreFailed),
        count(Metric::StoreDropped),
        count(Metric::ClusterFetchedStore),
        count(Metric::ClusterFetchedNowhere),
        sum(&STORE_FAILURES),
        count(Metric::StoreOpenings),
        sum(&STORE_REJECTED),
    )
}

const STORE_FAILURES: [Metric; 7] = [
    Metric::StoreTimeout,
    Metric::StoreConnection,
    Metric::StoreAuthentication,
    Metric::StoreFull,
    Metric::StoreReadOnly,
    Metric::StoreUnready,
    Metric::StoreRefused,
];

const STORE_REJECTED: [Metric; 6] = [
    Metric::StoreMalformed,
    Metric::StoreVersion,
    Metric::StoreUnknownSecret,
    Metric::StoreForged,
    Metric::StoreExpired,
    Metric::StoreReplayed,
];

/// A line for the cluster and one for each peer.
fn peers_text(cluster: &ClusterStatus, now: &StatusDocument) -> String {
    let count = |metric| Count(now.process.metrics.get(metric));
    let rejected: u64 = REJECTED
        .iter()
        .map(|metric| now.process.metrics.get(*metric))
        .sum();
    let mut text = format!(
        "\ncluster at {}: {} of {} peers heard\n  sessions      {} published, {} stored, {} deleted, \
         {} incomplete, {} too large, {} dropped\n  fetched       {} from peers, {} nowhere\n  \
         datagrams     {} sent, {} received, {} lost, {} rejected\n",
        cluster.address,
        cluster.peers.iter().filter(|peer| peer.heard).count(),
        cluster.peers.len(),
        count(Metric::ClusterPublished),
        count(Metric::ClusterStored),
        count(Metric::ClusterDeleted),
        count(Metric::ClusterIncomplete),
        count(Metric::ClusterTooLarge),
        count(Metric::ClusterDropped),
        count(Metric::ClusterFetchedPeers),
        count(Metric::ClusterFetchedNowhere),
        count(Metric::ClusterDatagramsSent),
        count(Metric::ClusterDatagramsReceived),
        count(Metric::ClusterDatagramsLost),
        Count(rejected),
    );
    if !cluster.peers.is_empty() {
        let mut table = Table::new(&[
            ("PEER", Align::Left),
            ("STATE", Align::Left),
            ("SEEN", Align::Right),
            ("LAG", Align::Right),
            ("SENT", Align::Right),
            ("RECEIVED", Align::Right),
            ("LOST", Align::Right),
            ("REPLAYED", Align::Right),
        ]);
        cluster.peers.iter().for_each(|peer| table.row(row(peer)));
        text.push_str(&table.to_string());
    }
    text
}

/// All that is dropped but what is our own.
const REJECTED: [Metric; 8] = [
    Metric::ClusterMalformed,
    Metric::ClusterVersion,
    Metric::ClusterUnknownSecret,
    Metric::ClusterForged,
    Metric::ClusterOutOfTime,
    Metric::ClusterReplayed,
    Metric::ClusterTooManySenders,
    Metric::ClusterRateLimited,
];

fn row(peer: &PeerStatus) -> Vec<String> {
    let state = if peer.heard { "heard" } else { "SILENT" };
    vec![
        peer.address.clone(),
        state.to_owned(),
        format!("{:.1} s ago", peer.silent_ms as f64 / 1e3),
        format!("{} ms", peer.lag_ms),
        Count(peer.sent).to_string(),
        Count(peer.received).to_string(),
        Count(peer.lost).to_string(),
        Count(peer.replayed).to_string(),
    ]
}
