//! A worker in virtual time: tests how long each class waits, whatever the others do.

mod handshakes;

use std::collections::BTreeMap;

use testkit::chance::Chance;

use super::*;

/// CPU time of one turn of a connection, by class.
const SMALL_COST: Duration = Duration::from_micros(20);
const HANDSHAKE_COST: Duration = Duration::from_micros(300);
const BULK_COST: Duration = Duration::from_micros(400);

const WAIT_COST: Duration = Duration::from_micros(5);

/// Time of a turn: its slices, with an overrun of each.
const TURN_MAX: Duration = SMALL_SLICE
    .saturating_add(SMALL_COST)
    .saturating_add(HANDSHAKE_SLICE)
    .saturating_add(HANDSHAKE_COST)
    .saturating_add(BULK_SLICE)
    .saturating_add(BULK_COST);

fn id(number: u64) -> ConnectionId {
    ConnectionId::of(number)
}

/// Waiting times of one class.
#[derive(Default)]
struct Waits {
    count: u32,
    longest: Duration,
    total: Duration,
    /// CPU time of the class.
    served: Duration,
}

/// A worker with connections that come back after a while; bulk always has more to do.
struct Simulation {
    now: Instant,
    chance: Chance,
    schedule: Schedule,
    /// Time at which each connection began to wait.
    since: Vec<Instant>,
    /// Connections without work, by when they come back.
    back: BTreeMap<Instant, Vec<u64>>,
    small: Waits,
    handshakes: Waits,
    bulk: Waits,
}

impl Simulation {
    fn new(count: usize) -> Self {
        let now = Instant::now();
        let mut simulation = Self {
            now,
            chance: Chance::new(7),
            schedule: Schedule::new(now),
            since: vec![now; count],
            back: BTreeMap::new(),
            small: Waits::default(),
            handshakes: Waits::default(),
            bulk: Waits::default(),
        };
        for number in 0..count as u64 {
            simulation.rest(number);
        }
        simulation
    }

    /// Returns the class: one in ten is bulk, one in ten a handshake.
    fn class(number: u64) -> Class {
        match number % 10 {
            0 => Class::Bulk,
            1 => Class::Newcomer,
            _ => Class::Small,
        }
    }

    /// Puts a connection that has been served where it waits for more work.
    fn rest(&mut self, number: u64) {
        let class = Self::class(number);
        if class == Class::Bulk {
            self.since[number as usize] = self.now;
            self.schedule.add(id(number), class, self.now);
        } else {
            let rest = Duration::from_millis(500 + self.chance.below(3_000) as u64);
            self.back.entry(self.now + rest).or_default().push(number);
        }
    }

    fn turn(&mut self) {
        let begun = self.now;
        while let Some(entry) = self.back.first_entry().filter(|one| *one.key() <= begun) {
            let back_at = *entry.key();
            for number in entry.remove() {
                self.since[number as usize] = back_at;
                self.schedule.add(id(number), Self::class(number), begun);
            }
        }
        self.schedule.begin_turn(begun, |_| true);
        while let Some(next) = self.schedule.next(self.now) {
            self.serve(next.bits());
        }
        assert!(self.now - begun <= TURN_MAX);
        self.now += WAIT_COST;
    }

    fn serve(&mut self, number: u64) {
        let (waits, cost) = match Self::class(number) {
            Class::Small => (&mut self.small, SMALL_COST),
            Class::Answered | Class::Resuming | Class::Newcomer => {
                (&mut self.handshakes, HANDSHAKE_COST)
            }
            Class::Bulk => (&mut self.bulk, BULK_COST),
        };
        let wait = self.now - self.since[number as usize];
        waits.count += 1;
        waits.total += wait;
        waits.longest = waits.longest.max(wait);
        waits.served += cost;
        self.now += cost;
        self.rest(number);
    }
}

#[test]
fn of_10_000_connections_none_starves_and_the_bounds_hold() {
    let mut simulation = Simulation::new(10_000);
    for _ in 0..60_000 {
        simulation.turn();
    }
    let Simulation { small, handshakes, bulk, .. } = simulation;
    // 8,000 connections that come back every two seconds use a tenth of the CPU, 1,000 handshakes a
    // seventh: both are less than their slices, so that they wait only for the turn of the others.
    assert!(small.count > 100_000 && handshakes.count > 10_000);
    assert!(small.total / small.count <= TURN_MAX);
    assert!(small.longest <= TURN_MAX * 2, "{:?}", small.longest);
    assert!(handshakes.longest <= TURN_MAX * 2, "{:?}", handshakes.longest);
    // Each of 1,000 downloads waits for the 999 others, of which a turn serves at least one.
    assert!(bulk.longest <= TURN_MAX * 1_000, "{:?}", bulk.longest);
    // The unused time of the other slices goes to bulk.
    assert!(bulk.served > (small.served + handshakes.served) * 2);
}

#[test]
fn each_class_is_served_in_every_turn_however_long_one_takes() {
    let mut now = Instant::now();
    let mut schedule = Schedule::new(now);
    for number in 0..30 {
        let class = [Class::Bulk, Class::Newcomer, Class::Small][number as usize % 3];
        schedule.add(id(number), class, now);
    }
    schedule.begin_turn(now, |_| true);
    let mut served = Vec::new();
    while let Some(next) = schedule.next(now) {
        served.push(next.bits() % 3);
        now += Duration::from_millis(5);
    }
    assert_eq!(served, [2, 1, 0]);
    assert!(!schedule.is_empty());
}

#[test]
fn a_slice_that_nobody_uses_is_left_to_those_who_wait() {
    let mut now = Instant::now();
    let mut schedule = Schedule::new(now);
    for number in 0..3 {
        schedule.add(id(number), Class::Bulk, now);
    }
    schedule.begin_turn(now, |_| true);
    let step = BULK_SLICE / 2;
    let mut served = 0;
    while schedule.next(now).is_some() {
        served += 1;
        now += step;
    }
    assert_eq!(served, 2, "as many as its slice has room for");
    assert!(!schedule.is_empty());
}

#[test]
fn each_is_read_once_and_not_before_its_client_had_time() {
    let ids = [3, 4].map(|place| ConnectionId { place, generation: 0 });
    let start = Instant::now();
    let mut lingering = LingeringConnections::default();
    assert_eq!(lingering.wakes_at(), None);
    lingering.add(ids[0], start);
    lingering.add(ids[1], start + LOOK_AFTER);
    assert_eq!(lingering.wakes_at(), Some(start + WAKE_AFTER));
    assert_eq!(lingering.take_due(start + LOOK_AFTER / 2), None);
    let due = start + LOOK_AFTER;
    assert_eq!(lingering.take_due(due), Some(ids[0]));
    assert_eq!(lingering.take_due(due), None);
    assert_eq!(lingering.wakes_at(), Some(due + WAKE_AFTER));
}
