//! The order of handshakes; and an overloaded worker in virtual time.

use std::collections::BTreeMap;

use testkit::authority::Authority;
use testkit::chance::Chance;
use testkit::client::ClientChoice;

use crate::schedule::*;

fn id(number: u64) -> ConnectionId {
    ConnectionId::of(number)
}

fn drained(queue: &mut Handshakes, now: Instant) -> Vec<u64> {
    std::iter::from_fn(|| queue.next(now).map(ConnectionId::bits)).collect()
}

fn with_newcomers(numbers: &[u64], since: Instant) -> Handshakes {
    let mut queue = Handshakes::default();
    for number in numbers {
        queue.add_newcomer(id(*number), since);
    }
    queue
}

#[test]
fn those_that_were_answered_go_first_and_newcomers_in_order() {
    let now = Instant::now();
    let mut queue = with_newcomers(&[1, 2], now);
    queue.add_answered(id(3));
    queue.add_answered(id(4));
    assert!(!queue.is_empty());
    assert_eq!(drained(&mut queue, now + PATIENCE), [3, 4, 1, 2]);
    assert!(queue.is_empty());
}

#[test]
fn the_newest_go_first_once_the_oldest_has_waited_too_long() {
    let now = Instant::now();
    let late = now + PATIENCE + Duration::from_millis(1);
    let mut queue = with_newcomers(&[1, 2, 3], now);
    assert!(!queue.is_overrun(now) && queue.is_overrun(late));
    queue.add_answered(id(9));
    assert_eq!(queue.next(late), Some(id(9)));
    assert_eq!(queue.next(late), Some(id(3)));
    queue.add_newcomer(id(4), late);
    assert_eq!(drained(&mut queue, late), [4, 2, 1]);
}

#[test]
fn the_dead_do_not_make_the_living_impatient() {
    let now = Instant::now();
    let mut queue = with_newcomers(&[1, 2], now);
    let late = now + PATIENCE * 2;
    queue.add_newcomer(id(3), late);
    queue.add_newcomer(id(4), late);
    queue.forget_ended(|one| one.bits() > 2);
    assert!(!queue.is_overrun(late));
    assert_eq!(drained(&mut queue, late), [3, 4]);
}

/// Numbers below 100 offer no session; all others do.
fn served(queue: &mut Handshakes, count: usize, cost: fn(u64) -> Duration) -> Vec<u64> {
    let mut now = Instant::now();
    let next = |_| {
        let number = queue.next(now)?.bits();
        now += cost(number);
        Some(number)
    };
    (0..count).map_while(next).collect()
}

#[test]
fn those_who_offer_a_session_go_first_and_leave_the_others_a_share() {
    let crowd = || {
        let now = Instant::now();
        let mut queue = with_newcomers(&(0..20).collect::<Vec<_>>(), now);
        assert!(queue.is_crowded());
        (100..300).for_each(|number| queue.add_resuming(id(number), now));
        queue
    };
    let cheap = |number| Duration::from_micros(if number < 100 { 2_000 } else { 100 });
    let order = served(&mut crowd(), 142, cheap);
    let expected = [0].into_iter().chain(100..240).chain([1]);
    assert_eq!(order, expected.collect::<Vec<_>>());
    // Sessions that do not resume take as long as the others.
    let order = served(&mut crowd(), 80, |_| Duration::from_millis(2));
    assert_eq!(order.iter().filter(|number| **number < 100).count(), 10);
}

#[test]
fn a_hello_shows_whether_it_offers_a_session() {
    let authority = Authority::root("hello");
    let hello = ClientChoice::new(authority.pem(), true, &[]).connect("localhost").take_wire();
    assert!(!offer_session(&hello) && !offer_session(&hello[..50]) && !offer_session(b""));
}

const FULL_COST: Duration = Duration::from_micros(2_000);
const RESUMED_COST: Duration = Duration::from_micros(100);
/// Cost of every connection, also of those that are never served.
const ACCEPT_COST: Duration = Duration::from_micros(15);
/// Time that clients wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
const LENGTH: Duration = Duration::from_secs(12);
/// Time after which queues are as long as they get.
const WARM_UP: Duration = Duration::from_secs(4);

/// A worker in virtual time. Users come at random, make requests one after the other, a connection
/// each, and go with their sessions after a wait in vain.
struct Simulation {
    now: Instant,
    handshakes: Handshakes,
    /// Future connections by time: whether they offer a session, and requests left.
    coming: BTreeMap<Instant, (bool, u32)>,
    connections: Vec<(Instant, bool, u32)>,
    longest: usize,
    waits: Vec<Duration>,
}

struct Figures {
    /// Answers in time, relative to what the worker can do.
    goodput: f64,
    mean: Duration,
    /// Longest queue, relative to the number of users who come while one waits for an answer.
    longest: f64,
}

/// Returns the figures for users with this many requests each, at this multiple of the capacity.
fn offered(multiple: f64, requests: u32) -> Figures {
    let each = FULL_COST + RESUMED_COST * (requests - 1) + ACCEPT_COST * requests;
    let mean = each.as_secs_f64() / multiple;
    let begun = Instant::now();
    let (mut chance, mut coming, mut at) = (Chance::new(7), BTreeMap::new(), begun);
    while at < begun + LENGTH {
        let share = (chance.below(1 << 20) + 1) as f64 / f64::from(1 << 20);
        at += Duration::from_secs_f64(-share.ln() * mean);
        coming.insert(at, (false, requests));
    }
    let mut simulation = Simulation {
        now: begun,
        handshakes: Handshakes::default(),
        coming,
        connections: Vec::new(),
        longest: 0,
        waits: Vec::new(),
    };
    while simulation.now < begun + LENGTH {
        simulation.accept();
        simulation.serve(begun + WARM_UP);
    }
    let Simulation { waits, longest, .. } = simulation;
    let possible = (LENGTH - WARM_UP).as_secs_f64() / each.as_secs_f64() * f64::from(requests);
    Figures {
        goodput: waits.len() as f64 / possible,
        mean: waits.iter().sum::<Duration>() / waits.len() as u32,
        longest: longest as f64 / (TIMEOUT.as_secs_f64() / mean),
    }
}

impl Simulation {
    fn accept(&mut self) {
        while let Some(entry) = self.coming.first_entry().filter(|one| *one.key() <= self.now) {
            let since = *entry.key();
            let (resumes, left) = entry.remove();
            let id = id(self.connections.len() as u64);
            self.connections.push((since, resumes, left));
            if resumes && self.handshakes.is_crowded() {
                self.handshakes.add_resuming(id, self.now)
            } else {
                self.handshakes.add_newcomer(id, self.now)
            }
            self.now += ACCEPT_COST;
        }
        let queues = [&self.handshakes.resuming, &self.handshakes.newcomers];
        let waiting = queues.iter().map(|queue| queue.0.len()).sum();
        self.longest = self.longest.max(waiting);
    }

    fn serve(&mut self, figures_from: Instant) {
        let (now, connections) = (self.now, &self.connections);
        let is_open = |id: ConnectionId| connections[id.bits() as usize].0 + TIMEOUT > now;
        self.handshakes.forget_ended(is_open);
        let Some(id) = self.handshakes.next(now) else {
            self.now = *self.coming.first_key_value().expect("more come").0;
            return;
        };
        if !is_open(id) {
            return;
        }
        let (since, resumes, left) = connections[id.bits() as usize];
        self.now += if resumes { RESUMED_COST } else { FULL_COST };
        let wait = self.now - since;
        if wait > TIMEOUT {
            return;
        }
        if self.now > figures_from {
            self.waits.push(wait);
        }
        if left > 1 {
            let back = self.now + Duration::from_micros(500);
            self.coming.insert(back, (true, left - 1));
        }
    }
}

#[test]
fn at_capacity_and_beyond_goodput_holds() {
    for requests in [1, 4] {
        for (multiple, least) in
            [(0.9, 0.87), (1.0, 0.97), (1.1, 0.97), (2.0, 0.95), (3.0, 0.95), (5.0, 0.95)]
        {
            let Figures { goodput, mean, longest } = offered(multiple, requests);
            let seen = format!("{requests} × {multiple}: {goodput:.3}, {mean:?}, {longest:.2}");
            assert!(goodput >= least, "{seen}");
            assert!(mean < Duration::from_millis(500), "{seen}");
            assert!(longest < 1.1, "{seen}");
        }
    }
}
