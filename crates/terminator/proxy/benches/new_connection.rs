//! `cargo bench -p proxy --bench new_connection`: CPU time of a new connection before its
//! handshake, on one thread: choice of its service by the number of names at its address, and lists
//! of networks and limits of one source (admission, handshake end, connection end).

use std::hint::black_box;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proxy::options::{SourceLimits, SourceRules};
use proxy::routes::{ClientSelector, NamePattern, RouteTable};
use proxy::sources::WorkerSources;
use sys::cpu::thread_time;
use wire::address::NetworkSet;

/// Look-ups or admissions per round.
const TIMES: u32 = 200_000;
const ROUNDS: usize = 5;
/// Step between two look-ups, coprime to their number, so that none is near the one before.
const STEP: usize = 7919;
const LISTED: u32 = 100_000;
/// Number of admissions for which a connection from a source holds its place.
const OPEN_MAX: usize = 1000;

/// Nanoseconds for each time, in the shortest of some rounds: what disturbs one makes it longer.
fn nanoseconds(mut round: impl FnMut() -> Duration) -> f64 {
    let best = (0..ROUNDS).map(|_| round()).min().unwrap_or(Duration::ZERO);
    best.as_nanos() as f64 / f64::from(TIMES)
}

fn look_ups(table: &RouteTable, names: &[String]) -> f64 {
    nanoseconds(|| {
        let begun = thread_time();
        let mut number = 0;
        for _ in 0..TIMES {
            number = (number + STEP) % names.len();
            let protocols = [&b"h2"[..], b"http/1.1"];
            let chosen = table.choose(Some(&names[number]), protocols.into_iter());
            assert!(black_box(chosen).is_some());
        }
        thread_time().saturating_sub(begun)
    })
}

fn admissions(limits: &SourceLimits, rules: &SourceRules, clients: &[IpAddr]) -> f64 {
    nanoseconds(|| {
        let sources = Rc::new(WorkerSources::new(Arc::default(), limits.clone()));
        let now = Instant::now();
        let mut open: Vec<_> = (0..OPEN_MAX).map(|_| None).collect();
        let begun = thread_time();
        let mut number = 0;
        for place in 0..TIMES as usize {
            number = (number + STEP) % clients.len();
            let admitted = sources.admit(rules, Some(clients[number]), now);
            let mut admitted = black_box(admitted).expect("within the limits");
            admitted.iter_mut().for_each(|one| one.end_handshake());
            open[place % OPEN_MAX] = admitted;
        }
        drop(open);
        thread_time().saturating_sub(begun)
    })
}

fn main() {
    routes();
    sources();
}

fn routes() {
    println!("names   exact   beneath a wildcard   of 63 labels   (ns a look-up)");
    for count in [10, 100, 1000, 10_000, 100_000] {
        let name = |number: u32| format!("n{number}.shop.example");
        let patterns = |prefix: &str| -> Vec<NamePattern> {
            let each = (0..count).map(|number| format!("{prefix}{}", name(number)).parse());
            each.map(|one| one.expect("a name")).collect()
        };
        let (exact, beneath) = (patterns(""), patterns("*."));
        let selector = |names| ClientSelector { names, protocols: &[] };
        let both = [selector(&exact[..]), selector(&beneath[..])];
        let table = RouteTable::build(both.into_iter().enumerate()).expect("no overlap");
        let asked = |prefix: &str| -> Vec<String> {
            (0..count).map(|one| format!("{prefix}{}", name(one))).collect()
        };
        let costs = ["", "www.", &"a.".repeat(60)].map(|prefix| look_ups(&table, &asked(prefix)));
        println!("{count:6} {:7.0} {:20.0} {:14.0}", costs[0], costs[1], costs[2]);
    }
}

fn sources() {
    let v4 = |number: u32| IpAddr::from((0x0a00_0000 + number * 2).to_be_bytes());
    let v6 = |number: u32| {
        let site = (0x2001_0db8_u128 << 96) | (u128::from(number) * 2) << 64;
        IpAddr::from(Ipv6Addr::from_bits(site | 1))
    };
    // Every second address is on the list.
    let listed = |number: u32| match number % 2 {
        0 => Ipv6Addr::from_bits(0x2001_0db8 << 96 | (u128::from(number) * 2 + 1) << 64).into(),
        _ => IpAddr::from((0x0a00_0000 + number * 2 + 1).to_be_bytes()),
    };
    let list = |count: u32| -> NetworkSet {
        let each = (0..count).map(|number| listed(number).to_string());
        each.map(|one| one.parse().expect("an address")).collect()
    };
    let limited = SourceLimits {
        connections: 10_000,
        handshakes: 1000,
        connections_per_second: 1_000_000,
        ipv6_prefix_bits: 64,
        exempt: NetworkSet::EMPTY,
    };
    println!("sources   no limit   limits   and {LISTED} listed   (ns a connection)");
    for count in [1, 1000, LISTED] {
        let clients: Vec<_> = (0..count)
            .map(|number| if number % 2 == 0 { v4(number) } else { v6(number) })
            .collect();
        let rules = |listed| SourceRules { deny: list(listed), ..SourceRules::default() };
        let costs = [
            admissions(&SourceLimits::OFF, &rules(0), &clients),
            admissions(&limited, &rules(0), &clients),
            admissions(&limited, &rules(LISTED), &clients),
        ];
        println!("{count:7} {:10.0} {:8.0} {:15.0}", costs[0], costs[1], costs[2]);
    }
}
