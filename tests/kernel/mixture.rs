//! Many things at once, in an order that a seed decides: ranges, echoes, new keys, resets.

use std::collections::VecDeque;
use std::ops::Range;

use suite::kernel::{Bench, KernelCounts, LARGE, pattern};
use suite::prelude::*;
use testkit::chance::Chance;

const CONNECTIONS: usize = 16;
const STEPS: usize = 600;

/// Largest number of responses that one connection waits for.
const ASKED_MAX: usize = 4;

/// Returns a part of the file: half of the parts are short, the others have up to `most` bytes.
fn part(chance: &mut Chance, most: usize) -> Range<usize> {
    let longest = *chance.pick(&[2000, most]);
    let begin = chance.below(LARGE - longest);
    begin..begin + 1 + chance.below(longest)
}

/// A connection and the parts that it has asked for.
struct Visit {
    connection: Connection,
    is_tls13: bool,
    asked: VecDeque<Range<usize>>,
}

impl Visit {
    fn new(bench: &Bench, is_tls13: bool) -> Self {
        let client = if is_tls13 { Client::new(&bench.site) } else { Client::tls12(&bench.site) };
        Self { connection: client.connect(bench.service.address), is_tls13, asked: VecDeque::new() }
    }

    fn ask(&mut self, part: Range<usize>) {
        let (first, last) = (part.start, part.end - 1);
        let head = format!(
            "GET /large HTTP/1.1\r\nHost: localhost\r\nRange: bytes={first}-{last}\r\n\r\n"
        );
        self.connection.send(head.as_bytes());
        self.asked.push_back(part);
    }

    /// Returns how many bytes are still to come.
    fn owed(&self) -> usize {
        self.asked.iter().map(Range::len).sum()
    }

    /// Sends a part to a server that sends it back.
    fn echo(&mut self, whole: &[u8], part: Range<usize>) {
        self.connection.send(&whole[part.clone()]);
        self.asked.push_back(part);
    }

    fn read_echo(&mut self, whole: &[u8]) {
        if let Some(part) = self.asked.pop_front() {
            let got = self.connection.receive(part.len());
            assert!(got == whole[part.clone()], "{part:?}");
        }
    }

    fn read(&mut self, whole: &[u8]) {
        if let Some(part) = self.asked.pop_front() {
            let (head, body) = self.connection.response();
            assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
            assert!(body == whole[part.clone()], "{part:?}");
        }
    }
}

#[test]
fn whatever_the_order_each_answer_is_whole() {
    let bench = Bench::files(|service| service);
    let whole = pattern(LARGE);
    let can_rekey = KernelCounts::read().rekeys.is_some();
    let mut chance = Chance::new(0x5eed);
    let mut visits = visits(&bench);
    for _ in 0..STEPS {
        let visit = &mut visits[chance.below(CONNECTIONS)];
        match chance.below(16) {
            0..7 if visit.asked.len() < ASKED_MAX => visit.ask(part(&mut chance, 2_000_000)),
            7..10 if visit.is_tls13 && can_rekey => visit.connection.change_keys(),
            // The client leaves without its answers.
            10 => *visit = Visit::new(&bench, visit.is_tls13),
            _ => visit.read(&whole),
        }
    }
    for visit in &mut visits {
        while !visit.asked.is_empty() {
            visit.read(&whole);
        }
        visit.connection.finish();
    }
    drop(visits);
    assert_counts_agree(&bench);
}

/// Bytes of one connection that may be on their way: less than the queues hold, so that no sender
/// waits for a client that does not read.
const OWED_MAX: usize = 500_000;

#[test]
fn whatever_the_order_each_echo_is_whole() {
    let server = Server::start(Behaviour::Echo);
    // Relays are handed over from eight times this on.
    let from = "ktls = { mode = \"auto\", min-size = \"8KiB\" }";
    let bench = Bench::relay(&server, |service| service.tls(from));
    let whole = pattern(LARGE);
    let can_rekey = KernelCounts::read().rekeys.is_some();
    let mut chance = Chance::new(0xec40);
    let mut visits = visits(&bench);
    for _ in 0..STEPS {
        let visit = &mut visits[chance.below(CONNECTIONS)];
        match chance.below(16) {
            0..7 if visit.owed() < OWED_MAX / 2 => {
                visit.echo(&whole, part(&mut chance, OWED_MAX / 2));
            }
            7..10 if visit.is_tls13 && can_rekey => visit.connection.change_keys(),
            // The client leaves without its answers.
            10 => *visit = Visit::new(&bench, visit.is_tls13),
            _ => visit.read_echo(&whole),
        }
    }
    for visit in &mut visits {
        visit.connection.end();
        while !visit.asked.is_empty() {
            visit.read_echo(&whole);
        }
        assert_eq!(visit.connection.read_to_end().unwrap(), b"");
    }
    drop(visits);
    assert_counts_agree(&bench);
}

fn visits(bench: &Bench) -> Vec<Visit> {
    let visit = |index| Visit::new(bench, index % 2 == 0);
    (0..CONNECTIONS).map(visit).collect()
}

/// Checks the counts after all connections have ended; several were handed over.
fn assert_counts_agree(bench: &Bench) {
    let metric = |name: &str| bench.lariat.sum(name, &[]);
    let taken = metric("lariat_ktls_connections_total");
    assert!(taken >= CONNECTIONS as f64 / 2.0, "{taken}");
    bench.wait_for_end_of(taken as u32);
    let rekeys = bench.counts().rekeys;
    let ours = metric("lariat_ktls_rekeys_total");
    assert_eq!(ours, rekeys.unwrap_or(0) as f64);
    assert_eq!(ours > 0.0, rekeys.is_some());
}
