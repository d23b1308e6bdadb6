//! The paragraphs of `lariat status` about the places beyond this host where sessions go, and about
//! the certificates that come by ACME, which `lariat certificate list` prints too.

use std::fmt::Write;

use telemetry::catalogue::ProcessMetric as Metric;
use telemetry::outcome::{ClusterRejection, StoreFailure, StoreRejection};

use super::document::{
    AcmeStatus, ClusterStatus, PeerStatus, ResyncState, StatusDocument, StoreState, StoreStatus,
};
use super::units::{AgeText, Count, Table};

pub(super) fn cluster_text(cluster: &ClusterStatus, now: &StatusDocument) -> String {
    let mut text = String::new();
    if !cluster.address.is_empty() {
        text.push_str(&peers_text(cluster, now));
    }
    if let Some(store) = &cluster.store {
        text.push_str(&store_text(store, now));
    }
    text
}

fn store_text(store: &StoreStatus, now: &StatusDocument) -> String {
    let count = |metric| Count(now.process.metrics.get(metric));
    let state = match store.state {
        StoreState::Up => "up",
        StoreState::ReadOnly => "READ-ONLY",
        StoreState::Down => "DOWN",
    };
    let why = store.why.iter().map(|why| format!(" ({})", why));
    let metrics = &now.process.metrics;
    let failures = StoreFailure::ALL.iter().map(|why| metrics.get(*why));
    let rejected = StoreRejection::ALL.iter().map(|why| metrics.get(*why));
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
        Count(failures.sum()),
        count(Metric::StoreOpenings),
        Count(rejected.sum()),
    )
}

const COLUMNS: [&str; 9] =
    ["<PEER", "<STATE", ">SEEN", ">LAG", ">ROUND TRIP", ">SENT", ">RECEIVED", ">LOST", ">REPLAYED"];

/// A line for the cluster and one for each peer.
fn peers_text(cluster: &ClusterStatus, now: &StatusDocument) -> String {
    let count = |metric| Count(now.process.metrics.get(metric));
    let rejected = ClusterRejection::ALL.iter().filter_map(|why| {
        // Our own come back by multicast, and what was under way at a start is dropped.
        let is_usual = [ClusterRejection::Reflected, ClusterRejection::BeforeStart].contains(why);
        let count = now.process.metrics.get(*why);
        (!is_usual && count > 0).then_some((why, count))
    });
    let reasons = rejected.clone().map(|(why, count)| format!("{} {}", Count(count), why.name()));
    let reasons: Vec<_> = reasons.collect();
    let rejected = Count(rejected.map(|(_, count)| count).sum());
    let mut text = format!(
        "\ncluster at {}: {} of {} peers heard\n  sessions      {} published, {} stored, {} deleted, \
         {} incomplete, {} too large, {} dropped\n  caught up     {}\n  fetched       {} from \
         peers, {} nowhere, {}\n  datagrams     {} sent, {} received, {} lost, {rejected} \
         rejected{}\n",
        cluster.address,
        cluster.peers.iter().filter(|peer| peer.heard).count(),
        cluster.peers.len() + cluster.unheard.len(),
        count(Metric::ClusterPublished),
        count(Metric::ClusterStored),
        count(Metric::ClusterDeleted),
        count(Metric::ClusterIncomplete),
        count(Metric::ClusterTooLarge),
        count(Metric::ClusterDropped),
        resync(cluster),
        count(Metric::ClusterFetchedPeers),
        count(Metric::ClusterFetchedNowhere),
        cluster.fetch_wait_ms.map_or_else(
            || "not waited for".to_owned(),
            |ms| format!("waited for {ms:.1} ms at most")
        ),
        count(Metric::ClusterDatagramsSent),
        count(Metric::ClusterDatagramsReceived),
        count(Metric::ClusterDatagramsLost),
        if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) },
    );
    if !cluster.peers.is_empty() || !cluster.unheard.is_empty() {
        let mut table = Table::new(&COLUMNS);
        cluster.peers.iter().for_each(|peer| table.row(row(peer)));
        for address in &cluster.unheard {
            let mut cells = vec![address.clone(), "NEVER HEARD".to_owned()];
            cells.resize(COLUMNS.len(), "-".to_owned());
            table.row(cells);
        }
        text.push_str(&table.to_string());
    }
    text
}

/// How far this host is with the sessions that it has missed.
fn resync(cluster: &ClusterStatus) -> String {
    let resync = &cluster.resync;
    let sessions = format!("{} sessions from {}", Count(resync.of), resync.from);
    match resync.state {
        ResyncState::Asking => "asks peers for what it missed".to_owned(),
        ResyncState::Receiving => format!("{} of {sessions}", Count(resync.sessions)),
        ResyncState::Done if resync.of == 0 => "has missed nothing".to_owned(),
        ResyncState::Done => format!("all {sessions}"),
        ResyncState::GivenUp if resync.from.is_empty() => "no peer has answered".to_owned(),
        ResyncState::GivenUp => format!("STOPPED at {} of {sessions}", Count(resync.sessions)),
    }
}

fn row(peer: &PeerStatus) -> Vec<String> {
    let state = match (peer.heard, peer.listed) {
        (true, true) => "heard",
        (true, false) => "NOT LISTED",
        (false, _) => "SILENT",
    };
    vec![
        peer.address.clone(),
        state.to_owned(),
        format!("{:.1} s ago", peer.silent_ms as f64 / 1e3),
        format!("{} ms", peer.lag_ms),
        peer.round_trip_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms")),
        Count(peer.sent).to_string(),
        Count(peer.received).to_string(),
        Count(peer.lost).to_string(),
        Count(peer.replayed).to_string(),
    ]
}

/// A paragraph for each, or nothing.
pub(crate) fn acme_text(now: &StatusDocument) -> String {
    now.acme.iter().map(|one| certificate_text(one, now.time_ms / 1000)).collect()
}

fn certificate_text(one: &AcmeStatus, now: u64) -> String {
    let AcmeStatus { name, services, domains, directory, stage, .. } = one;
    let mut text = format!("\nCERTIFICATE {name} for {}\n", domains.join(", "));
    let mut field = |name: &str, value: String| {
        // A text takes all that is written to it.
        let _ = writeln!(text, "  {name:<14}{value}");
    };
    field("services", services.join(", "));
    field("authority", directory.clone());
    field(
        "state",
        match &one.waits_for {
            Some(what) => format!("{stage}: waits for {what}"),
            None => stage.clone(),
        },
    );
    match one.not_after_seconds {
        None => field("validity", "there is none yet; see the service for what it shows".into()),
        Some(end) if end <= now => field("validity", format!("EXPIRED {} ago", AgeText(now - end))),
        Some(end) => field("validity", format!("{} left", AgeText(end - now))),
    }
    if one.is_overdue {
        field("renewal", "OVERDUE".into());
    }
    if let Some(next) = one.next_seconds {
        field("next attempt", format!("in {}", AgeText(next.saturating_sub(now))));
    }
    if let Some(why) = &one.last_failure {
        // Indented: a message cannot pass for a line of ours.
        let why = why.replace('\n', "\n                ");
        field("last failure", format!("{why} ({} in a row)", one.failures));
    }
    text
}
