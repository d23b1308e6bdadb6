//! Admission of clients by address: a service's rules, and limits for one source.
//!
//! Counts every source over all workers. IPv4 clients count by address, IPv6 clients by network,
//! because each site has a whole one to choose addresses from (RFC 6177).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sys::epoll::Waker;
use telemetry::outcome::Reason;

use crate::options::{SourceLimits, SourceRules};

/// Parts of the table with locks of their own: workers seldom meet in one.
const PARTS: usize = 64;

/// Sources in a part before unused ones are first swept.
const SWEEP_MIN: usize = 64;

/// The sources that hold connections or have just taken one.
///
/// The table holds at most twice as many as there are open connections and as have come within the
/// last second, and some: unused sources are removed whenever a part has doubled.
#[derive(Debug)]
pub struct SourceTable {
    parts: Box<[Mutex<SourcePart>]>,
    /// Keyed at random, so that nobody can choose addresses that meet in one part.
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct SourcePart {
    sources: HashMap<u128, SourceUsage>,
    sweep_at: usize,
}

#[derive(Clone, Copy, Debug)]
struct SourceUsage {
    connections: u32,
    handshakes: u32,
    /// Time by which all so far would have come at the limit's pace (GCRA, ITU-T I.371).
    arrived_by: Instant,
}

/// The table as one worker uses it, with the limits of its plan.
#[derive(Debug)]
pub struct WorkerSources {
    table: Arc<SourceTable>,
    limits: SourceLimits,
}

/// A connection's place in the count of its source, until it is dropped.
#[derive(Debug)]
pub struct SourcePlace {
    sources: Rc<WorkerSources>,
    source: u128,
    is_handshaking: bool,
}

impl Default for SourceTable {
    fn default() -> Self {
        Self { parts: (0..PARTS).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }
}

impl SourceTable {
    /// Returns how many sources are in the table now.
    pub fn entries(&self) -> usize {
        let parts = 0..self.parts.len();
        parts.map(|part| self.lock(part).sources.len()).sum()
    }

    fn part(&self, source: u128) -> MutexGuard<'_, SourcePart> {
        self.lock(self.hasher.hash_one(source) as usize % PARTS)
    }

    /// Locks a part. Poison is ignored, because a panic elsewhere leaves the counts valid.
    fn lock(&self, part: usize) -> MutexGuard<'_, SourcePart> {
        let part = self.parts[part].lock();
        part.unwrap_or_else(PoisonError::into_inner)
    }
}

impl SourcePart {
    /// Counts one more connection of a source, or returns which limit it has reached.
    fn take(&mut self, source: u128, limits: &SourceLimits, now: Instant) -> Result<(), Reason> {
        if self.sources.len() >= self.sweep_at {
            let is_used = |one: &SourceUsage| one.connections > 0 || one.arrived_by > now;
            self.sources.retain(|_, one| is_used(one));
            self.sweep_at = (2 * self.sources.len()).max(SWEEP_MIN);
            self.sources.shrink_to(self.sweep_at);
        }
        let source = self.sources.entry(source).or_insert(SourceUsage {
            connections: 0,
            handshakes: 0,
            arrived_by: now,
        });
        let is_reached = |count: u32, limit: u32| limit > 0 && count >= limit;
        if is_reached(source.connections, limits.connections) {
            return Err(Reason::SourceConnectionLimit);
        }
        if is_reached(source.handshakes, limits.handshakes) {
            return Err(Reason::SourceHandshakeLimit);
        }
        if limits.connections_per_second > 0 {
            let arrived_by = source.arrived_by.max(now) + limits.apart();
            if arrived_by > now + Duration::from_secs(1) {
                return Err(Reason::SourceRateLimit);
            }
            source.arrived_by = arrived_by;
        }
        source.connections += 1;
        source.handshakes += 1;
        Ok(())
    }
}

impl SourceLimits {
    /// Returns the pace: the time from one connection to the next.
    fn apart(&self) -> Duration {
        let second = Duration::from_secs(1);
        second.checked_div(self.connections_per_second).unwrap_or_default()
    }
}

impl WorkerSources {
    pub fn new(table: Arc<SourceTable>, limits: SourceLimits) -> Self {
        Self { table, limits }
    }

    /// Returns the same table under other limits.
    pub(crate) fn with_limits(&self, limits: SourceLimits) -> Self {
        Self::new(Arc::clone(&self.table), limits)
    }

    /// Admits a client of a service, and counts it where its source is limited. `None` is a client
    /// on a Unix socket.
    ///
    /// # Errors
    /// Returns the list or the limit that keeps the client out.
    pub fn admit(
        self: &Rc<Self>,
        rules: &SourceRules,
        client: Option<IpAddr>,
        now: Instant,
    ) -> Result<Option<SourcePlace>, Reason> {
        if rules.denies(client) {
            return Err(Reason::SourceDenied);
        }
        let is_limited = self.limits.connections > 0
            || self.limits.handshakes > 0
            || self.limits.connections_per_second > 0;
        let Some(client) = client.filter(|_| is_limited && !self.limits.exempt.contains(client))
        else {
            return Ok(None);
        };
        let source = source_of(client, self.limits.ipv6_prefix_bits);
        let mut part = self.table.part(source);
        part.take(source, &self.limits, now)?;
        Ok(Some(SourcePlace { sources: Rc::clone(self), source, is_handshaking: true }))
    }
}

impl SourcePlace {
    pub fn end_handshake(&mut self) {
        if std::mem::take(&mut self.is_handshaking) {
            self.change(|source| source.handshakes -= 1);
        }
    }

    /// Counts one more connection that the source makes us dial. The present connection is not
    /// refused for it, but later ones are.
    pub fn count_again(&self, now: Instant) {
        let apart = self.sources.limits.apart();
        self.change(|source| source.arrived_by = source.arrived_by.max(now) + apart);
    }

    fn change(&self, change: impl FnOnce(&mut SourceUsage)) {
        let mut part = self.sources.table.part(self.source);
        let source = part.sources.get_mut(&self.source);
        change(source.expect("a source that holds a connection stays in the table"));
    }
}

impl Drop for SourcePlace {
    fn drop(&mut self) {
        self.end_handshake();
        self.change(|source| source.connections -= 1);
    }
}

/// Returns the key of an address: IPv4 in its IPv6 form, so that both forms have one key.
fn source_of(client: IpAddr, ipv6_prefix_bits: u8) -> u128 {
    match client.to_canonical() {
        IpAddr::V4(client) => client.to_ipv6_mapped().to_bits(),
        IpAddr::V6(client) => {
            let tail_bits = 128 - u32::from(ipv6_prefix_bits).min(128);
            client.to_bits() & u128::MAX.checked_shl(tail_bits).unwrap_or(0)
        }
    }
}

/// Divisor of a limit: a newcomer takes another's place only while connections that have relayed
/// nothing hold at least this part of the places. If fewer do, they are clients about to be served
/// while others that work hold the limit: they would only displace each other.
const DISPLACEABLE_PART: u64 = 8;

/// Reports whether a newcomer may take one of the displaceable places, of `all` places.
pub(crate) fn is_worth_displacing(displaceable: u64, all: u64) -> bool {
    displaceable > 0 && displaceable * DISPLACEABLE_PART >= all
}

#[derive(Clone, Debug)]
pub(crate) struct Allowance(Arc<SharedCount>);

#[derive(Debug)]
struct SharedCount {
    taken: AtomicU32,
    workers: Box<[PerWorker]>,
}

/// Counters on a cache line of their own, because their worker writes them with every connection.
#[derive(Debug, Default)]
#[repr(align(64))]
struct PerWorker {
    /// Places of connections that have relayed nothing.
    displaceable: AtomicU32,
    /// Places of these that others have taken, and that are still to be given up.
    owed: AtomicU32,
}

impl PerWorker {
    fn free(&self) -> u32 {
        let owed = self.owed.load(Ordering::Relaxed);
        self.displaceable.load(Ordering::Relaxed).saturating_sub(owed)
    }
}

impl Allowance {
    pub(crate) fn new(workers: usize) -> Self {
        Self(Arc::new(SharedCount {
            taken: AtomicU32::new(0),
            workers: (0..workers).map(|_| PerWorker::default()).collect(),
        }))
    }

    /// Takes a place, unless the limit is reached.
    pub(crate) fn take(&self, most: u32) -> bool {
        if self.0.taken.fetch_add(1, Ordering::Relaxed) < most {
            return true;
        }
        self.give();
        false
    }

    /// Reports whether at least half of the places are left.
    pub(crate) fn is_ample(&self, most: u32) -> bool {
        self.0.taken.load(Ordering::Relaxed) <= most / 2
    }

    pub(crate) fn give(&self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Publishes how many of a worker's places are of connections that have relayed nothing.
    pub(crate) fn publish(&self, worker: usize, displaceable: u32) {
        let of_worker = &self.0.workers[worker];
        of_worker.displaceable.store(displaceable, Ordering::Relaxed);
    }

    /// Returns the worker that gives up a place for a newcomer on `worker`: that one itself unless
    /// another has over twice as many. `None` = no worker does.
    pub(crate) fn giver(&self, worker: usize, most: u32) -> Option<usize> {
        let free = || self.0.workers.iter().map(PerWorker::free);
        let all: u64 = free().map(u64::from).sum();
        if !is_worth_displacing(all, most.into()) {
            return None;
        }
        let own = self.0.workers[worker].free();
        let (richest, count) = free().enumerate().max_by_key(|(_, count)| *count)?;
        Some(if own >= count.div_ceil(2) { worker } else { richest })
    }

    /// Takes a place in exchange for one that is given up: the limit may be exceeded for a moment
    /// by one that is owed, and not by more.
    pub(crate) fn take_over(&self) {
        self.0.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes a worker owe a place.
    pub(crate) fn claim(&self, worker: usize) {
        self.0.workers[worker].owed.fetch_add(1, Ordering::Relaxed);
    }

    /// Reduces a worker's debt by one; returns whether it owed any.
    pub(crate) fn settle(&self, worker: usize) -> bool {
        let owed = &self.0.workers[worker].owed;
        let less = |owed: u32| owed.checked_sub(1);
        owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Allowances {
    pub(crate) connections: Allowance,
    pub(crate) handshakes: Allowance,
    /// Wakers that make a worker check whether it owes a place.
    pub(crate) wakers: Arc<[Arc<Waker>]>,
    pub(crate) sources: Arc<SourceTable>,
}

impl Allowances {
    pub(crate) fn new(wakers: Arc<[Arc<Waker>]>) -> Self {
        Self {
            connections: Allowance::new(wakers.len()),
            handshakes: Allowance::new(wakers.len()),
            wakers,
            sources: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::address::NetworkSet;

    use super::*;

    const LIMITS: SourceLimits = SourceLimits {
        connections: 3,
        handshakes: 2,
        connections_per_second: 0,
        ipv6_prefix_bits: 64,
        exempt: NetworkSet::EMPTY,
    };

    fn sources(limits: SourceLimits) -> Rc<WorkerSources> {
        Rc::new(WorkerSources::new(Arc::default(), limits))
    }

    fn admit(
        sources: &Rc<WorkerSources>,
        client: &str,
        now: Instant,
    ) -> Result<Option<SourcePlace>, Reason> {
        let client = client.parse().unwrap();
        sources.admit(&SourceRules::default(), Some(client), now)
    }

    #[test]
    fn what_is_denied_or_not_allowed_stays_out() {
        let set = |networks: &[&str]| networks.iter().map(|one| one.parse().unwrap()).collect();
        let (sources, now) = (sources(SourceLimits::OFF), Instant::now());
        let is_in = |allow: &[&str], deny: &[&str], client: Option<&str>| {
            let rules = SourceRules { allow: set(allow), deny: set(deny) };
            let client = client.map(|client| client.parse().unwrap());
            sources.admit(&rules, client, now).is_ok()
        };
        for (allow, deny, client, expected) in [
            (&[][..], &[][..], Some("192.0.2.1"), true),
            (&[], &["192.0.2.0/24"], Some("192.0.2.1"), false),
            (&[], &["192.0.2.0/24"], Some("::ffff:192.0.2.1"), false),
            (&[], &["192.0.2.0/24"], None, true),
            (&["192.0.2.0/24"], &[], Some("192.0.2.1"), true),
            (&["192.0.2.0/24"], &[], Some("192.0.3.1"), false),
            (&["192.0.2.0/24"], &[], None, false),
            (&["192.0.2.0/24", "unix"], &[], None, true),
            (&["192.0.2.0/24"], &["192.0.2.1"], Some("192.0.2.1"), false),
        ] {
            assert_eq!(is_in(allow, deny, client), expected, "{allow:?} {deny:?} {client:?}");
        }
    }

    #[test]
    fn each_source_has_its_own_places_and_gets_them_back() {
        let (sources, now) = (sources(LIMITS), Instant::now());
        let mut first = admit(&sources, "192.0.2.1", now).unwrap().unwrap();
        let second = admit(&sources, "::ffff:192.0.2.1", now).unwrap();
        let refused = admit(&sources, "192.0.2.1", now).unwrap_err();
        assert_eq!(refused, Reason::SourceHandshakeLimit);
        assert!(admit(&sources, "192.0.2.2", now).is_ok());
        first.end_handshake();
        first.end_handshake();
        let mut third = admit(&sources, "192.0.2.1", now).unwrap().unwrap();
        third.end_handshake();
        let refused = admit(&sources, "192.0.2.1", now).unwrap_err();
        assert_eq!(refused, Reason::SourceConnectionLimit);
        drop(second);
        assert!(admit(&sources, "192.0.2.1", now).is_ok());
    }

    #[test]
    fn an_ipv6_source_is_a_network() {
        let (sources, now) = (sources(LIMITS), Instant::now());
        let _held = ["2001:db8::1", "2001:db8::ffff:0:0:1"].map(|one| admit(&sources, one, now));
        assert!(admit(&sources, "2001:db8::2", now).is_err());
        assert!(admit(&sources, "2001:db8:0:1::2", now).is_ok());
        let all = source_of("2001:db8::1".parse().unwrap(), 128);
        assert_ne!(all, source_of("2001:db8::2".parse().unwrap(), 128));
    }

    /// Five at once, and one more for each fifth of a second.
    #[test]
    fn a_source_that_comes_too_often_is_refused_until_its_time() {
        let limits = SourceLimits { connections_per_second: 5, ..SourceLimits::OFF };
        let (sources, start) = (sources(limits), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        let admitted = |now| admit(&sources, "192.0.2.1", now).is_ok();
        for _ in 0..5 {
            assert!(admitted(at(0)));
        }
        assert!(!admitted(at(0)) && !admitted(at(199)));
        assert!(admitted(at(200)));
        assert!(!admitted(at(201)));
        let refused = admit(&sources, "192.0.2.1", at(202)).unwrap_err();
        assert_eq!(refused, Reason::SourceRateLimit);
        let late = (0..9).filter(|_| admitted(at(5000))).count();
        assert_eq!(late, 5, "what was not used is not saved up");
    }

    #[test]
    fn exempt_sources_and_unix_sockets_are_not_counted() {
        let limits = SourceLimits {
            connections: 1,
            exempt: ["192.0.2.0/24".parse().unwrap()].into_iter().collect(),
            ..SourceLimits::OFF
        };
        let (sources, now) = (sources(limits), Instant::now());
        for _ in 0..3 {
            assert!(admit(&sources, "192.0.2.1", now).unwrap().is_none());
            let unix = sources.admit(&SourceRules::default(), None, now);
            assert!(unix.unwrap().is_none());
        }
    }

    #[test]
    fn the_limits_of_another_plan_hold_for_what_was_counted_before() {
        let (sources, now) = (sources(LIMITS), Instant::now());
        let _held = admit(&sources, "192.0.2.1", now).unwrap();
        let stricter = SourceLimits { connections: 1, ..LIMITS };
        let later = Rc::new(sources.with_limits(stricter));
        let refused = admit(&later, "192.0.2.1", now).unwrap_err();
        assert_eq!(refused, Reason::SourceConnectionLimit);
    }

    #[test]
    fn a_flood_of_sources_leaves_nothing_behind() {
        let limits = SourceLimits { connections_per_second: 1, ..LIMITS };
        let (sources, start) = (sources(limits), Instant::now());
        for number in 0..200_000_u32 {
            let now = start + Duration::from_millis(number.into());
            let network = 0x2001_0db8_u128 << 96 | u128::from(number) << 64;
            let client = match number % 2 {
                0 => IpAddr::V4((number | 0x0a00_0000).into()),
                _ => IpAddr::V6((network | 1).into()),
            };
            let place = sources.admit(&SourceRules::default(), Some(client), now);
            assert!(place.unwrap().is_some());
        }
        let known = sources.table.entries();
        assert!(known <= PARTS * SWEEP_MIN, "{known}");
    }
}

#[cfg(test)]
mod allowance_tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_may_be() {
        let allowance = Allowance::new(1);
        let taken: Vec<bool> = (0..4).map(|_| allowance.take(2)).collect();
        assert_eq!(taken, [true, true, false, false]);
        allowance.give();
        assert!(allowance.take(2));
        assert!(!allowance.take(2));
    }

    #[test]
    fn the_worker_with_the_most_gives_and_each_place_once() {
        let allowance = Allowance::new(3);
        assert_eq!(allowance.giver(0, 3), None);
        allowance.publish(1, 2);
        assert_eq!(allowance.giver(0, 16), Some(1));
        assert_eq!(allowance.giver(0, 17), None, "too few of so many");
        allowance.claim(1);
        assert_eq!(allowance.giver(0, 3), Some(1));
        allowance.claim(1);
        assert_eq!(allowance.giver(0, 3), None, "it owes all that it has");
        allowance.publish(1, 0);
        let settled: Vec<bool> = (0..3).map(|_| allowance.settle(1)).collect();
        assert_eq!(settled, [true, true, false]);
        allowance.publish(0, 5);
        allowance.publish(2, 9);
        assert_eq!(allowance.giver(0, 3), Some(0), "its own, if they are many");
        assert_eq!(allowance.giver(1, 3), Some(2));
    }
}
