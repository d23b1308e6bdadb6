//! Benchmark of the peers' protocol with many hosts, in virtual time. Prints a table in Markdown.
//!
//!     cargo bench -p session --bench many_hosts -- [HOSTS...]
//!
//! All hosts begin at once. For a second each makes sessions; then one of a hundred datagrams is
//! lost, and clients move to other hosts; then a tenth of the hosts starts anew. Sockets and the
//! cipher are left out: a datagram that finds a full buffer is not lost, and the time per datagram
//! is the protocol's alone.

#![allow(clippy::disallowed_methods, reason = "a program is its own clock")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the program")]
#![allow(clippy::print_stdout, reason = "the table is what it is for")]

#[path = "../tests/mesh/network.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod network;

use std::time::{Duration, Instant};

use session::mesh::HEARTBEAT;
use telemetry::outcome::ClusterUpdate;

use network::*;

const SECOND: Duration = Duration::from_secs(1);

/// Sessions of all hosts in that second: enough to be counted, and few enough for a thousand hosts
/// that keep all of them.
const SESSIONS: u32 = 1000;

/// Clients that move to another host, where one of a hundred sessions did not arrive.
const MOVES: u32 = 1000;

/// Number of measurements of a datagram's cost.
const BATCHES: usize = 20;

/// Heartbeats of each host that are made at a time: the oldest is still in the time window.
const ROUNDS: usize = 20;

fn main() {
    let given = std::env::args().skip(1);
    let hosts: Vec<usize> = given.filter_map(|word| word.parse().ok()).collect();
    let hosts = if hosts.is_empty() { vec![2, 4, 16, 100, 1000] } else { hosts };
    println!("| {} |", HEADINGS.join(" | "));
    println!("|{}", "---|".repeat(HEADINGS.len()));
    for hosts in hosts {
        println!("| {} |", row(hosts).join(" | "));
    }
}

const HEADINGS: [&str; 9] = [
    "hosts",
    "signs of life per second, received by each",
    "datagrams for a session, sent by a list",
    "bytes for a session, received by each",
    "protocol, ns per datagram received",
    "fetched of 1 % lost",
    "answers to a fetch",
    "a tenth starts: datagrams received by each host that runs, and by each that starts",
    "until they have the sessions, s",
];

fn row(hosts: usize) -> Vec<String> {
    let mut network = Network::new(hosts, 1, CLEAN);
    let n = hosts as f64;
    let before = Count::of(&network);
    network.run(SECOND);
    let idle = before.to(&network);
    let before = Count::of(&network);
    for number in 0..SESSIONS {
        network.publish(number as usize % hosts, number);
        network.run(SECOND / SESSIONS);
    }
    let busy = before.to(&network);
    let sessions = f64::from(SESSIONS);
    let (fetched, answers) = moves(&mut network);
    let [running, starting, took] = restarts(&mut network);
    let receive_ns = receive_ns(&mut network);
    vec![
        hosts.to_string(),
        format!("{:.0}", idle.received / n),
        format!("{:.0}", (busy.sent - idle.sent) / sessions),
        format!("{:.0}", (busy.bytes - idle.bytes) / sessions / (n - 1.0)),
        format!("{receive_ns:.0}"),
        format!("{fetched:.1} %"),
        format!("{answers:.1}"),
        format!("{running:.0}, {starting:.0}"),
        format!("{took:.1}"),
    ]
}

/// Number of datagrams and bytes of all hosts.
#[derive(Clone, Copy)]
struct Count {
    sent: f64,
    received: f64,
    bytes: f64,
}

impl Count {
    fn of(network: &Network) -> Self {
        let sum = |of: fn(&session::mesh::MeshCounters) -> u64| {
            let hosts = network.hosts.iter();
            hosts.map(|host| of(host.0.counters())).sum::<u64>() as f64
        };
        Self {
            sent: sum(|counters| counters.datagrams_sent),
            received: sum(|counters| counters.datagrams_received),
            bytes: sum(|counters| counters.bytes_received),
        }
    }

    fn to(self, network: &Network) -> Self {
        let now = Self::of(network);
        Self {
            sent: now.sent - self.sent,
            received: now.received - self.received,
            bytes: now.bytes - self.bytes,
        }
    }
}

/// Loses one of a hundred datagrams. Returns the percentage of lost sessions that were fetched, and
/// how many hosts answered for each.
fn moves(network: &mut Network) -> (f64, f64) {
    let hosts = network.hosts.len();
    network.conditions.lost = 10;
    let answered = |network: &Network| {
        let counters = network.hosts.iter().map(|host| host.0.counters());
        counters.map(|one| one.updates(ClusterUpdate::Answered)).sum::<u64>()
    };
    let before = answered(network);
    let (mut missed, mut found) = (0, 0);
    for number in SESSIONS..SESSIONS + MOVES {
        let (from, to) = (number as usize % hosts, (number as usize + 1) % hosts);
        network.publish(from, number);
        network.run(Duration::from_millis(2));
        if !network.holds(to, number) {
            missed += 1;
            found += u32::from(network.fetch(to, number));
        }
    }
    network.conditions.lost = 0;
    let answers = answered(network) - before;
    let missed = f64::from(missed).max(1.0);
    (f64::from(found) / missed * 100.0, answers as f64 / missed)
}

/// Measures the cost of a heartbeat for the last host, from each of the others in turn: the least
/// of some batches, because that is the least disturbed.
fn receive_ns(network: &mut Network) -> f64 {
    let last = network.hosts.len() - 1;
    let batches = (0..BATCHES).map(|_| {
        let mut datagrams = Vec::new();
        for _ in 0..ROUNDS {
            network.now += HEARTBEAT;
            datagrams.extend((0..last).map(|host| (host, sign(network, host))));
        }
        let begun = Instant::now();
        for (host, datagram) in &datagrams {
            // The host counts the reason for dropping it.
            let _ = network.arrive(last, *host as u16, datagram);
        }
        begun.elapsed().as_nanos() as f64 / datagrams.len() as f64
    });
    batches.fold(f64::MAX, f64::min)
}

fn sign(network: &mut Network, host: usize) -> Vec<u8> {
    let moment = network.moment(host);
    let (mesh, cache) = &mut network.hosts[host];
    mesh.tick(moment, cache);
    std::iter::from_fn(|| mesh.poll_transmit()).last().unwrap().1
}

/// Restarts a tenth of the hosts at once. Returns the datagrams received until they had all
/// sessions, at each of the other hosts and at each restarted one, and how long that took.
fn restarts(network: &mut Network) -> [f64; 3] {
    let hosts = network.hosts.len();
    let starting = (hosts / 10).max(1);
    let held = network.hosts[hosts - 1].1.0.borrow().len();
    for host in 0..starting {
        network.hosts[host] = (network.mesh(host, 2, hosts), Cache::default());
    }
    let received = |network: &Network, from: usize, to: usize| {
        let hosts = network.hosts[from..to].iter();
        let all = hosts.map(|host| host.0.counters().datagrams_received);
        all.sum::<u64>() as f64 / (to - from) as f64
    };
    let before = received(network, starting, hosts);
    let begun = network.now;
    let has_all = |network: &Network| {
        let mut starting = network.hosts[..starting].iter();
        // The sending hosts have lost some of the sessions themselves.
        starting.all(|host| host.1.0.borrow().len() * 100 >= held * 98)
    };
    while !has_all(network) && network.now < begun + 60 * SECOND {
        network.run(Duration::from_millis(20));
    }
    [
        received(network, starting, hosts) - before,
        received(network, 0, starting),
        network.now.duration_since(begun).as_secs_f64(),
    ]
}
