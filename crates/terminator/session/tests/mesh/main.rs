//! Hosts that share sessions over a network that loses, delays, reorders, repeats and parts.

#![allow(clippy::disallowed_methods, reason = "tests are their own clock")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod cost;
mod network;

use std::time::Duration;

use session::mesh::{CatchUp, CatchUpState, LocalSessions, MeshOptions, Target};
use telemetry::outcome::{ClusterRejection, ClusterUpdate, SessionTier};

use network::*;

#[test]
fn every_session_is_everywhere_if_none_is_lost_and_nothing_comes_twice() {
    for (seed, hosts) in [2, 3, 16].into_iter().enumerate() {
        let mut network = Network::new(hosts, seed as u64, STORMY);
        for number in 0..200 {
            network.publish(number as usize % hosts, number);
            network.run(Duration::from_millis(2));
        }
        network.run(Duration::from_secs(1));
        for host in 0..hosts {
            assert!((0..200).all(|number| network.holds(host, number)));
            assert_eq!(network.lost(host), 0);
            let counters = network.hosts[host].0.counters();
            assert!(counters.rejections(ClusterRejection::Replayed) > 0);
            assert_eq!(counters.rejections(ClusterRejection::Forged), 0);
        }
    }
}

#[test]
fn what_was_lost_is_fetched_and_counted() {
    for (seed, lost, least) in [(1, 10, 995), (2, 100, 980)] {
        let mut network = Network::new(3, seed, NetworkConditions { lost, ..CLEAN });
        let (mut pushed, mut resumed) = (0, 0);
        for number in 0..1000 {
            network.publish(0, number);
            network.run(Duration::from_millis(20));
            let is_there = network.holds(1, number);
            pushed += u32::from(is_there);
            resumed += u32::from(is_there || network.fetch(1, number));
        }
        assert!(pushed < resumed && resumed >= least, "{pushed}, {resumed}");
        assert!(network.lost(1) > 0, "gaps are seen");
    }
}

#[test]
fn a_host_that_was_cut_off_and_one_that_starts_catch_up() {
    let mut network = Network::new(4, 5, CLEAN);
    network.parted = 1;
    (0..500).for_each(|number| network.publish(1, number));
    network.run(Duration::from_secs(8));
    assert!(!network.holds(0, 0) && network.holds(2, 499));
    network.parted = 0;
    network.run(Duration::from_secs(8));
    assert!((0..500).all(|number| network.holds(0, number)));
    // The host that made the sessions is out of reach, and another host starts anew.
    network.parted = 2;
    network.hosts[3] = (network.mesh(3, 2, 4), Cache::default());
    network.run(Duration::from_secs(8));
    assert!((0..500).all(|number| network.holds(3, number)));
}

/// The restarted hosts receive each other's datagrams first, and have no sessions to give.
#[test]
fn hosts_that_start_together_catch_up_from_those_that_ran() {
    let mut network = Network::new(12, 14, CLEAN);
    (0..300).for_each(|number| network.publish(number as usize % 12, number));
    network.run(Duration::from_secs(1));
    for host in 0..6 {
        network.hosts[host] = (network.mesh(host, 2, 12), Cache::default());
    }
    network.run(Duration::from_secs(13));
    for host in 0..6 {
        assert!((0..300).all(|number| network.holds(host, number)), "{host}");
    }
}

#[test]
fn a_host_catches_up_though_its_first_requests_or_their_answers_are_lost() {
    for taken_away in 1..=3 {
        let mut network = Network::new(2, 7, CLEAN);
        (0..50).for_each(|number| network.publish(0, number));
        network.run(Duration::from_secs(1));
        network.hosts[1] = (network.mesh(1, 2, 2), Cache::default());
        network.taken_away = taken_away;
        // The peer sends its heartbeats all the while.
        network.run(Duration::from_secs(13));
        assert_eq!(network.taken_away, 0);
        assert!((0..50).all(|number| network.holds(1, number)), "{taken_away} lost");
    }
}

/// The old window lets a boot be forgotten; a wider window must not accept its datagrams again.
#[test]
fn a_wider_time_window_lets_nothing_in_again() {
    let mut network = Network::new(2, 8, CLEAN);
    let datagram = network.datagram(0);
    assert_eq!(network.arrive(1, 0, &datagram), Ok(()));
    // A boot is forgotten at the next start after twice the window.
    network.now += Duration::from_secs(61);
    network.hosts[0] = (network.mesh(0, 2, 2), Cache::default());
    let first = network.datagram(0);
    assert_eq!(network.arrive(1, 0, &first), Ok(()));
    let options = MeshOptions { time_window: Duration::from_secs(300), ..Network::options(1, 2) };
    let moment = network.moment(1);
    let mesh = &mut network.hosts[1].0;
    mesh.reconfigure(options, Box::new(Tagged), moment);
    let late = Err(ClusterRejection::BeforeStart);
    assert_eq!(network.arrive(1, 0, &datagram), late);
    let next = network.datagram(0);
    assert_eq!(network.arrive(1, 0, &next), Ok(()));
}

/// A session that can be resumed once was used up, and its client offers it again.
#[test]
fn each_request_for_a_session_waits_its_own_time() {
    let mut network = Network::new(2, 9, CLEAN);
    let moment = network.moment(1);
    network.hosts[1].0.fetch(key(1), 1, moment);
    network.run(Duration::from_millis(1));
    network.publish(0, 1);
    assert_eq!(network.run(Duration::from_millis(3)), [(1, SessionTier::Peers)]);
    network.hosts[1].1.remove(&key(1));
    let moment = network.moment(1);
    network.hosts[1].0.fetch(key(1), 2, moment);
    network.parted = 1;
    let early = network.run(Duration::from_millis(4));
    assert_eq!(early, [], "the time of the first one ended there");
    let late = network.run(Duration::from_millis(2));
    assert_eq!(late, [(2, SessionTier::Nowhere)]);
}

#[test]
fn what_was_deleted_does_not_come_back_by_an_older_datagram() {
    for seed in 0..20 {
        let mut network = Network::new(3, seed, STORMY);
        network.publish(0, 1);
        network.run(Duration::from_millis(3));
        let moment = network.moment(1);
        let (mesh, cache) = &mut network.hosts[1];
        cache.remove(&key(1));
        mesh.delete(key(1), moment);
        network.run(Duration::from_secs(2));
        assert!((0..3).all(|host| !network.holds(host, 1)), "seed {seed}");
        assert!(!network.fetch(2, 1));
    }
}

#[test]
fn a_flood_of_forged_datagrams_costs_no_peer_but_the_one_that_it_pretends_to_be() {
    let limited = Err(ClusterRejection::RateLimited);
    for (flooded_as, answers) in [(99, [Ok(()), Ok(())]), (0, [limited, Ok(())])] {
        let mut network = Network::new(3, 6, CLEAN);
        let sent = [0, 1].map(|host| network.datagram(host));
        let mut forged = sent[0].clone();
        *forged.last_mut().unwrap() ^= 1;
        let flood = |_| network.arrive(2, flooded_as, &forged);
        let refused: Vec<_> = (0..=RECEIVE_RATE).map(flood).collect();
        assert_eq!(refused[0], Err(ClusterRejection::Forged));
        assert_eq!(refused.last(), Some(&limited));
        assert_eq!(network.arrive(2, 0, &sent[0]), answers[0]);
        assert_eq!(network.arrive(2, 1, &sent[1]), answers[1]);
    }
}

/// Sizes of sessions with a client's chain: of three certificates, and the longest possible.
const LONG: [usize; 2] = [3200, 16 << 10];

#[test]
fn a_session_longer_than_a_datagram_goes_everywhere_and_to_who_starts_later() {
    let mut network = Network::new(3, 10, STORMY);
    for number in 0..40 {
        network.publish_long(0, number, LONG[number as usize % 2]);
        network.run(Duration::from_millis(20));
    }
    network.run(Duration::from_secs(3));
    network.hosts[2] = (network.mesh(2, 2, 3), Cache::default());
    network.run(SETTLED);
    for host in 0..3 {
        let cache = network.hosts[host].1.0.borrow();
        let is_whole = |number: u32| {
            let bytes = LONG[number as usize % 2];
            cache.get(&key(number)).unwrap() == &vec![number as u8; bytes]
        };
        assert!((0..40).all(is_whole));
    }
    let count = |host: usize, what| network.hosts[host].0.counters().updates(what);
    assert_eq!(count(0, ClusterUpdate::Published), 40);
    assert_eq!(count(0, ClusterUpdate::TooLarge), 0);
    assert_eq!(count(1, ClusterUpdate::Incomplete), 0);
}

#[test]
fn a_part_that_is_lost_costs_its_session_which_is_fetched_in_parts() {
    let conditions = NetworkConditions { lost: 20, ..CLEAN };
    let mut network = Network::new(2, 11, conditions);
    let (mut pushed, mut resumed) = (0, 0);
    for number in 0..200 {
        network.publish_long(0, number, 3200);
        network.run(Duration::from_millis(20));
        let is_there = network.holds(1, number);
        pushed += u32::from(is_there);
        resumed += u32::from(is_there || network.fetch(1, number));
    }
    network.run(Duration::from_secs(3));
    // Each session takes three datagrams, none of which may be lost: 94 %.
    assert!((175..200).contains(&pushed), "{pushed}");
    assert!(resumed > pushed && resumed >= 190, "{pushed}, {resumed}");
    let incomplete = network.hosts[1].0.counters().updates(ClusterUpdate::Incomplete);
    assert!(incomplete >= u64::from(200 - pushed) / 2, "{incomplete}");
}

#[test]
fn what_is_too_long_for_parts_as_well_stays_and_is_counted() {
    let mut network = Network::new(2, 12, CLEAN);
    network.publish_long(0, 1, 20_000);
    network.run(Duration::from_secs(2));
    assert!(!network.holds(1, 1));
    let counters = network.hosts[0].0.counters();
    assert_eq!(counters.updates(ClusterUpdate::TooLarge), 1);
    assert_eq!(counters.updates(ClusterUpdate::Published), 0);
}

/// The datagrams of one session are altered, sent again, and sent to another host in part.
#[test]
fn parts_are_authentic_come_once_and_wait_for_a_bounded_time() {
    let mut network = Network::new(2, 13, CLEAN);
    network.parted = 1;
    network.publish_long(0, 1, 3200);
    network.now += Duration::from_millis(2);
    let moment = network.moment(0);
    let (mesh, cache) = &mut network.hosts[0];
    mesh.tick(moment, cache);
    let parts: Vec<_> = std::iter::from_fn(|| mesh.poll_transmit()).collect();
    let parts: Vec<_> = parts.into_iter().map(|(_, datagram)| datagram).collect();
    assert_eq!(parts.len(), 3);
    for part in &parts[..2] {
        let mut forged = part.clone();
        *forged.last_mut().unwrap() ^= 1;
        let answer = network.arrive(1, 0, &forged);
        assert_eq!(answer, Err(ClusterRejection::Forged));
        assert_eq!(network.arrive(1, 0, part), Ok(()));
        let answer = network.arrive(1, 0, part);
        assert_eq!(answer, Err(ClusterRejection::Replayed));
    }
    assert!(!network.holds(1, 1));
    network.run(Duration::from_secs(3));
    let incomplete = |network: &Network| {
        let counters = network.hosts[1].0.counters();
        counters.updates(ClusterUpdate::Incomplete)
    };
    assert_eq!(incomplete(&network), 1);
    // The last part comes too late, and waits in vain for the others.
    assert_eq!(network.arrive(1, 0, &parts[2]), Ok(()));
    network.run(Duration::from_secs(3));
    assert!(!network.holds(1, 1) && incomplete(&network) == 2);
}

/// Simulates an attacker who forwards all datagrams of a catching-up host from the place `from`,
/// before they arrive. Returns how many sessions the host gets, and how many bytes went to others.
fn sent_on(network: &mut Network, from: u16) -> (usize, usize) {
    network.hosts[0] = (network.mesh(0, 2, 3), Cache::default());
    let mut elsewhere = 0;
    let end = network.now + Duration::from_secs(3);
    while network.now < end {
        network.now += Duration::from_millis(5);
        for (_, datagram) in network.sent(0) {
            let _ = network.arrive(1, from, &datagram);
        }
        for (target, datagram) in network.sent(1) {
            if matches!(target, Target::One(to) if to != place(0)) {
                elsewhere += datagram.len();
            } else {
                let _ = network.arrive(0, 1, &datagram);
            }
        }
    }
    let held = (0..200).filter(|number| network.holds(0, *number));
    (held.count(), elsewhere)
}

#[test]
fn who_sends_a_hosts_datagrams_on_gets_no_answer_and_the_host_does() {
    // Forwards from a place that is no peer's, and then as if another peer had sent the datagrams.
    for from in [99, 2] {
        let mut network = Network::new(3, 16, CLEAN);
        (0..200).for_each(|number| network.publish(1, number));
        network.run(Duration::from_secs(1));
        let (held, elsewhere) = sent_on(&mut network, from);
        // The host pings another peer now and then.
        assert!(held == 200 && elsewhere < 200, "from {from}: {held}, {elsewhere}");
    }
    // A sender that was never seen at its own place gets no answer, and is shown.
    let mut network = Network::new(3, 16, CLEAN);
    network.hosts[1] = (network.mesh(1, 2, 3), Cache::default());
    for number in 0..200 {
        let now = network.now;
        network.hosts[1].1.insert(&key(number), &[7; 100], HOUR, now);
    }
    assert_eq!(sent_on(&mut network, 99), (0, 0));
    let mut peers = network.hosts[1].0.peers();
    assert!(peers.any(|peer| peer.address == place(99) && !peer.is_listed));
}

/// Writes the same place differently: an IPv4 address in IPv6, and a zone.
#[test]
fn a_place_is_known_however_it_is_written() {
    let mut network = Network::new(2, 17, CLEAN);
    let written = "[::ffff:127.0.0.1]:0".parse().unwrap();
    let options = MeshOptions { send_to: Some(vec![written]), ..Network::options(1, 2) };
    let moment = network.moment(1);
    network.hosts[1].0.reconfigure(options, Box::new(Tagged), moment);
    let datagram = network.datagram(0);
    assert_eq!(network.arrive(1, 0, &datagram), Ok(()));
    let peer = network.hosts[1].0.peers().next().unwrap();
    assert!(peer.is_listed, "{peer:?}");
}

/// Each host receives all sessions of a large cache within the time that they take at the rate.
#[test]
fn hosts_that_start_one_after_the_other_keep_nearly_all_sessions() {
    const SESSIONS: u32 = 30_000;
    let mut network = Network::new(3, 18, CLEAN);
    for number in 0..SESSIONS {
        network.publish(number as usize % 3, number);
        network.run(Duration::from_micros(100));
    }
    for host in 0..3 {
        network.hosts[host] = (network.mesh(host, 2, 3), Cache::default());
        network.run(Duration::from_secs(3));
        let CatchUp { state, sent, all, .. } = network.hosts[host].0.catch_up();
        let is_amid = state == CatchUpState::Receiving && sent < all && all >= SESSIONS;
        // The host that is asked first may be catching up itself.
        let may_wait = host > 0 && state == CatchUpState::Asking;
        assert!(is_amid || may_wait, "{host}: {state:?} {sent} {all}");
        network.run(Duration::from_secs(3));
    }
    network.run(Duration::from_secs(10));
    for host in 0..3 {
        let progress = network.hosts[host].0.catch_up();
        assert_eq!(progress.state, CatchUpState::Done);
        assert_eq!(network.hosts[host].1.count(), SESSIONS as usize);
    }
}

/// Paths of 5 and 20 ms are waited for as long as they take, and a path of 60 ms not at all.
#[test]
fn a_fetch_waits_as_long_as_peers_take_to_answer() {
    let fetched = |way_ms: u64, fixed: Option<u64>| {
        let way_us = way_ms * 1000;
        let mut network = Network::new(2, 19, NetworkConditions { way_us, ..CLEAN });
        let options = MeshOptions {
            fetch_timeout: fixed.map(Duration::from_millis),
            ..Network::options(1, 2)
        };
        let moment = network.moment(1);
        network.hosts[1].0.reconfigure(options, Box::new(Tagged), moment);
        let lost = |number: &u32| {
            network.publish(0, *number);
            network.run(Duration::from_millis(200));
            network.hosts[1].1.remove(&key(*number));
            network.fetch(1, *number)
        };
        let count = (0..300).filter(lost).count();
        let wait = network.hosts[1].0.wait(network.now);
        (count, wait.map(|wait| wait.as_millis()))
    };
    assert_eq!(fetched(0, None), (300, Some(1)));
    let (count, wait) = fetched(5, None);
    assert!(count == 300 && (20..23).contains(&wait.unwrap()), "{wait:?}");
    let (count, wait) = fetched(20, None);
    assert_eq!((count, wait), (300, Some(50)));
    // The wait would be in vain, so that nobody waits.
    assert_eq!(fetched(60, None), (0, None));
    assert_eq!(fetched(5, Some(5)), (0, None));
    assert_eq!(fetched(2, Some(9)), (300, Some(9)));
}

/// One peer is far away, the other is near.
#[test]
fn a_peer_that_is_too_far_away_makes_nobody_wait() {
    let mut network = Network::new(3, 20, CLEAN);
    let options = MeshOptions { fetch_timeout: None, ..Network::options(1, 3) };
    let moment = network.moment(1);
    network.hosts[1].0.reconfigure(options, Box::new(Tagged), moment);
    network.far = Some(2);
    network.run(Duration::from_secs(20));
    let trip = |host| {
        let mut peers = network.hosts[1].0.peers();
        let peer = peers.find(|peer| peer.address == place(host)).unwrap();
        peer.round_trip.unwrap()
    };
    assert!(trip(0) < Duration::from_millis(1) && trip(2) > Duration::from_millis(100));
    let wait = network.hosts[1].0.wait(network.now);
    assert!(wait.unwrap() < Duration::from_millis(2), "{wait:?}");
}
