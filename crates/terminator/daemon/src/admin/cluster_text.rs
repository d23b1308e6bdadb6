//! The cluster's peers for people: their part of what `lariat status` prints.

use telemetry::catalogue::ProcessMetric as Metric;

use super::display::{Align, Count, Table};
use super::document::{PeerStatus, StatusDocument};

/// A line for the cluster and one for each peer; nothing if sessions stay on this host.
pub(super) fn cluster_text(now: &StatusDocument) -> String {
    let Some(cluster) = &now.cluster else {
        return String::new();
    };
    let count = |metric| Count(now.process.metrics.get(metric));
    let rejected: u64 = REJECTED
        .iter()
        .map(|metric| now.process.metrics.get(*metric))
        .sum();
    let mut text = format!(
        "\ncluster at {}: {} of {} peers heard\n  sessions      {} published, {} stored, {} deleted, \
         {} too large, {} dropped\n  fetched       {} from peers, {} nowhere\n  datagrams     {} \
         sent, {} received, {} lost, {} rejected\n",
        cluster.address,
        cluster.peers.iter().filter(|peer| peer.heard).count(),
        cluster.peers.len(),
        count(Metric::ClusterPublished),
        count(Metric::ClusterStored),
        count(Metric::ClusterDeleted),
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
