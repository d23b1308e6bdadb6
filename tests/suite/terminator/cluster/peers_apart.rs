//! Hosts that share their sessions by datagrams, some or all of which are lost on the way.

use suite::prelude::*;
use suite::weather::Weather;

use super::farm::{Farm, WAIT};

const CLIENTS: usize = 300;

/// Returns weather in which datagrams overtake, repeat, and `lost` of 1,000 are lost.
fn storm(lost: usize) -> Weather {
    Weather { lost, repeated: 200, delay: Duration::from_millis(3), ..Weather::default() }
}

/// Returns how many sessions of a host that dies are resumed by the two others.
fn resumed_after_death(weather: Weather, seed: u64) -> Option<usize> {
    let farm = Farm::with_peers(weather, seed, WAIT)?;
    (0..3).for_each(|node| farm.hears(node, 2.0));
    let clients = farm.clients(CLIENTS);
    assert_eq!(farm.visit(&clients, 0), 0);
    farm.published(0, CLIENTS as f64);
    farm.kill(0);
    let (some, others) = clients.split_at(CLIENTS / 2);
    let resumed = farm.visit(some, 1) + farm.visit(others, 2);
    let rejected = |reason| {
        let of = |node| {
            let name = "lariat_cluster_datagrams_rejected_total";
            farm.sum(node, name, &[("reason", reason)])
        };
        of(1) + of(2)
    };
    assert_eq!(rejected("forged"), 0.0);
    assert_eq!(rejected("replayed") > 0.0, weather.repeated > 0);
    if weather.lost >= 100 {
        let fetched = |node| farm.sum(node, "lariat_cluster_fetches_total", &[("tier", "peers")]);
        assert!(fetched(1) + fetched(2) > 0.0, "losses are mended by asking");
    }
    eprintln!("{weather:?}: {resumed} of {CLIENTS} resumed");
    Some(resumed)
}

/// A session is missing if its datagram was lost, and the other living host has lost it too or two
/// questions or their answers: of 1 %, one in ten thousand. Of 10 %, 1.3 % are missing, 4 of 300:
/// more than 15 are practically impossible, and 30 would be missing if nobody asked.
#[test]
fn the_session_ids_of_a_host_that_dies_are_resumed_on_the_others_whatever_the_weather() {
    for (weather, seed, least) in
        [(Weather::default(), 1, 99), (storm(10), 2, 99), (storm(100), 3, 95)]
    {
        if let Some(resumed) = resumed_after_death(weather, seed) {
            assert!(resumed >= CLIENTS * least / 100, "{weather:?}: {resumed}");
        }
    }
}

#[test]
fn hosts_that_were_parted_catch_up() {
    let Some(farm) = Farm::with_peers(storm(0), 4, WAIT) else {
        return;
    };
    let relay = farm.relay.as_ref().unwrap();
    (0..3).for_each(|node| farm.hears(node, 2.0));
    relay.part(Some(0));
    let (alone, together) = (farm.clients(50), farm.clients(50));
    assert_eq!(farm.visit(&alone, 0) + farm.visit(&together, 1), 0);
    farm.stored(2, 50.0);
    for (node, peers) in [(0, 0.0), (1, 1.0), (2, 1.0)] {
        farm.hears(node, peers);
    }
    // Nobody has them there.
    let (lost, kept) = together.split_at(5);
    assert_eq!(farm.visit(lost, 0), 0);
    relay.part(None);
    farm.stored(0, 50.0);
    farm.stored(1, 55.0);
    assert_eq!(farm.visit(kept, 0), kept.len());
    assert_eq!(farm.visit(&alone, 1), alone.len());
    let fetched = |node| farm.sum(node, "lariat_cluster_fetches_total", &[("tier", "peers")]);
    assert_eq!(fetched(0) + fetched(1), 0.0, "they were sent unasked");
}

#[test]
fn groups_of_multicast_share_sessions_and_a_host_that_starts_again_catches_up() {
    for group in ["239.77.0.1:8888", "[ff05::77]:8888"] {
        let Some(mut farm) = Farm::with_group(group) else {
            return;
        };
        (0..3).for_each(|node| farm.hears(node, 2.0));
        let clients = farm.clients(30);
        assert_eq!(farm.visit(&clients, 0), 0);
        (1..3).for_each(|node| farm.stored(node, 30.0));
        farm.kill(0);
        assert_eq!(farm.visit(&clients, 1), 30);
        farm.start_again(0);
        farm.stored(0, 30.0);
        assert_eq!(farm.visit(&clients, 0), 30);
    }
}

/// Counts how many sessions of a host are resumed on another so far away that has lost all its own.
/// On a busy machine its first round trips are longer than the way: it may need to measure more.
fn fetched_from_afar(way: Duration, is_waited_for: bool) -> Option<usize> {
    let weather = Weather { way, ..Weather::default() };
    let mut farm = Farm::with_peers(weather, 5, "resync-rate = 0")?;
    (0..3).for_each(|node| farm.hears(node, 2.0));
    let clients = farm.clients(60);
    assert_eq!(farm.visit(&clients, 0), 0);
    farm.published(0, 60.0);
    farm.kill(2);
    farm.start_again(2);
    farm.hears(2, 2.0);
    until_true("round trips to be measured", || {
        let cluster = &farm.status(2)["cluster"];
        let peers = cluster["peers"].as_array().unwrap();
        peers.len() == 2
            && peers.iter().all(|peer| peer["round_trip_ms"].is_f64())
            && cluster["fetch_wait_ms"].is_f64() == is_waited_for
    });
    let resumed = farm.visit(&clients, 2);
    eprintln!("{way:?}: {resumed} of 60 resumed: {}", farm.status(2)["cluster"]);
    Some(resumed)
}

/// Twice as far as a fixed time of 5 ms would reach, and too far away to be waited for.
#[test]
fn a_fetch_waits_for_hosts_that_are_milliseconds_away_and_not_longer() {
    for (way_ms, range) in [(6, 57..=60), (40, 0..=0)] {
        if let Some(resumed) = fetched_from_afar(Duration::from_millis(way_ms), way_ms < 10) {
            assert!(range.contains(&resumed), "{way_ms} ms: {resumed}");
        }
    }
}
