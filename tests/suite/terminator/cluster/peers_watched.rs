//! Operators see the peers; useless datagrams cost little.

use std::net::UdpSocket;

use suite::footprint::thread_cpu_ns;
use suite::prelude::*;

use super::peers::{Farm, hears, rejected, seen_until_session, stored};

#[test]
fn a_peer_that_is_missing_gone_or_back_is_said_and_shown() {
    let farm = Farm::new(2);
    let first = farm.start(0);
    let (peer, nobody) = (farm.places[1], farm.places[2]);
    until_true("those that were never heard to be shown", || {
        let text = first.ask("status").success();
        let is_shown = text.contains("0 of 2 peers heard");
        is_shown && text.matches("NEVER HEARD").count() == 2
    });
    first.wait_for_stderr(&format!("the cluster peer {nobody} is not heard: clients"));
    first.wait_for_stderr(&format!("the cluster peer {peer} is not heard: clients"));
    let mut second = farm.start(1);
    first.wait_for_stderr(&format!("the cluster peer {peer} is heard again"));
    second.signal(Signal::TERM);
    second.wait();
    hears(&first, 0.0);
    until_true("the silence to be said", || {
        let text = first.stderr();
        text.matches(&format!("{peer} is not heard")).count() == 2
    });
    assert_has(first.ask("status").success(), "SILENT");
    // The new process at the same address is the same peer to an operator.
    let _second = farm.start(1);
    until_true("the other one to be shown alone", || {
        let text = first.ask("status").success();
        text.contains("1 of 2 peers heard") && !text.contains("SILENT")
    });
}

#[test]
fn a_secret_that_differs_and_a_time_that_is_off_are_said_and_shown() {
    let mut farm = Farm::new(3);
    farm.more = "time-window = \"1s\"";
    let spy = farm.spy();
    let other = farm.site.path("other.key");
    fs::write(&other, "o".repeat(64)).unwrap();
    let hosts = [farm.start(0), farm.start(1)];
    let _stranger = Lariat::start(&farm.configuration(2, &[&other]));
    hosts.iter().for_each(|host| hears(host, 1.0));
    let from = format!("datagrams from {} are ", farm.places[2]);
    hosts[0].wait_for_stderr(&format!("{from}encrypted with a secret"));
    rejected(&hosts[0], "unknown-secret", 1.0);
    assert_has(hosts[0].ask("status").success(), " unknown-secret");
    // A datagram that is held back has the time of a late clock.
    let old = next_after(&spy, farm.places[0], 0);
    next_after(&spy, farm.places[0], time_ms(&old) + 1500);
    spy.send_to(&old, farm.places[1]).unwrap();
    rejected(&hosts[1], "out-of-time", 1.0);
    let from = format!("datagrams from {} are ", farm.places[3]);
    hosts[1].wait_for_stderr(&format!("{from}dropped, as their time is "));
    hosts[1].wait_for_stderr(" s behind this host's clock");
    assert_has(hosts[1].ask("status").success(), " out-of-time");
}

/// Returns a datagram from there with a later time than that.
fn next_after(spy: &UdpSocket, from: SocketAddr, after_ms: u64) -> Vec<u8> {
    loop {
        let mut room = [0; 2000];
        let (count, sender) = spy.recv_from(&mut room).unwrap();
        if sender == from && time_ms(&room) > after_ms {
            return room[..count].to_vec();
        }
    }
}

fn time_ms(datagram: &[u8]) -> u64 {
    u64::from_be_bytes(datagram[32..40].try_into().unwrap())
}

/// The new process is another start of the same peer.
#[test]
fn a_host_that_is_upgraded_again_and_again_shares_on() {
    let farm = Farm::new(2);
    let (first, second) = (farm.start(0), farm.start(1));
    hears(&second, 1.0);
    let client = || Client::without_tickets(&farm.site);
    let mut clients = Vec::new();
    for upgrades in 1..=4 {
        let before = first.upgrade();
        let (here, there) = (client(), client());
        assert_eq!(farm.visit(&here, 0), HandshakeKind::Full);
        stored(&second, f64::from(upgrades));
        assert_eq!(farm.visit(&here, 1), HandshakeKind::Resumed);
        hears(&first, 1.0);
        assert_eq!(farm.visit(&there, 1), HandshakeKind::Full);
        assert_eq!(farm.visit(&there, 0), HandshakeKind::Resumed);
        before.wait();
        clients.extend([here, there]);
    }
    for client in &clients {
        assert_eq!(farm.visit(client, 0), HandshakeKind::Resumed);
        assert_eq!(farm.visit(client, 1), HandshakeKind::Resumed);
    }
    let status = second.status();
    let peers = status["cluster"]["peers"].as_array().unwrap();
    assert_eq!(peers.len(), 1, "{peers:?}");
    assert_eq!(peers[0]["boots"], 5);
    for why in ["too-many-senders", "forged", "unknown-secret", "replayed"] {
        let name = "lariat_cluster_datagrams_rejected_total";
        assert_eq!(second.sum(name, &[("reason", why)]), 0.0, "{why}");
    }
}

/// Datagrams of each kind, and how many are sent before they must be counted: the socket's buffer
/// holds them.
const DATAGRAMS: usize = 4000;
const AT_ONCE: usize = 100;

/// Prints the guide's numbers of CPU time per datagram.
#[test]
fn what_each_kind_of_datagram_costs_that_is_dropped() {
    let mut farm = Farm::new(2);
    farm.more = "receive-rate = 100000";
    let spy = farm.spy();
    let hosts = [farm.start(0), farm.start(1)];
    hosts.iter().for_each(|host| hears(host, 1.0));
    let old = Client::without_tickets(&farm.site);
    assert_eq!(farm.visit(&old, 0), HandshakeKind::Full);
    stored(&hosts[1], 1.0);
    let sample = seen_until_session(&spy, farm.places[0]).pop().unwrap();
    let last = sample.len() - 1;
    let changed = |place: usize| {
        let mut datagram = sample.clone();
        datagram[place] ^= 1;
        datagram
    };
    let cost = |host: usize, reason: &str, kind: &str, datagram: &[u8]| {
        let cpu = || thread_cpu_ns(hosts[host].worker_process(), "cluster");
        let name = "lariat_cluster_datagrams_rejected_total";
        let sum = || hosts[host].sum(name, &[("reason", reason)]);
        let (begun, before) = (cpu(), sum());
        for sent in 1..=DATAGRAMS / AT_ONCE {
            for _ in 0..AT_ONCE {
                spy.send_to(datagram, farm.places[host]).unwrap();
            }
            // An accepted datagram of this kind now and then does not count.
            let least = before + (sent * AT_ONCE) as f64 * 0.9;
            rejected(&hosts[host], reason, least);
        }
        if let Some(ns) = cpu().zip(begun).map(|(ended, begun)| ended - begun) {
            let us = ns as f64 / DATAGRAMS as f64 / 1e3;
            eprintln!("{kind}: {us:.1} us");
        }
    };
    cost(1, "malformed", "too short", &sample[..50]);
    cost(1, "version", "another version", &changed(0));
    cost(1, "unknown-secret", "a secret that is not known", &changed(4));
    cost(1, "forged", "altered, of a start that is known", &changed(last));
    cost(1, "forged", "a made-up start", &changed(16));
    cost(1, "replayed", "again", &sample);
    cost(0, "reflected", "its own", &sample);
    farm.more = "receive-rate = 1";
    hosts[1].reload_with(&farm.configuration(1, &[&farm.site.path("cluster.key")]));
    cost(1, "rate-limited", "above the rate", &sample);
    let entries = hosts[1].sum("lariat_session_cache_entries", &[]);
    assert_eq!(entries, 1.0, "none of them brought anything");
    assert_eq!(farm.visit(&old, 1), HandshakeKind::Resumed);
}
