//! A host among those that share certificates: the lease, and the hosts that answer the authority.
//!
//! Handles the stored state, and the lease by which one of a cluster's hosts orders certificates
//! for all; `sharing` exchanges the messages.
//!
//! The lease is pure: its inputs are messages of others and the time. Hosts communicate by
//! datagrams, so two may hold it for a moment, or while they cannot reach each other: then each
//! orders, within the authority's limits, and the younger lease ends on news of the older.
//!
//! No lease is eternal: one that delivers nothing while a certificate is overdue ends for all,
//! whether its host is stuck, cannot reach the authority, or never meant to order.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use acme::messages::Challenge;
use aws_lc_rs::rand;
use tls::resumption::cluster::NoticeCipher;

/// Certificates named in one notice: it fits the parts of a datagram.
const PAGE: usize = 64;

/// State of this host among the others.
pub(super) struct SharingHost {
    pub(super) own: u64,
    /// Cipher that seals this host's notices, and opens others'.
    pub(super) cipher: NoticeCipher,
    /// Time of the last report to the operator of an ignored notice.
    pub(super) told: Option<Instant>,
    /// Lease of this host; `None` if there are no others.
    pub(super) lease: Option<HostLease>,
    pub(super) next: Instant,
    /// Index at which the next page of announced certificates begins.
    pub(super) page: usize,
    /// Last order that this host's workers have followed.
    pub(super) answered: u64,
    /// Number of our answers that each other host gives.
    pub(super) given: BTreeMap<u64, u64>,
    /// Answers that others want given: their number, and the time of their last message.
    pub(super) foreign: BTreeMap<u64, (u64, Instant, Vec<Challenge>)>,
    /// Orders to workers after which a host gets confirmation of its answers of a number.
    pub(super) foreign_asked: VecDeque<(u64, u64, u64)>,
    pub(super) wanted: BTreeMap<(String, String), Instant>,
    pub(super) loads: VecDeque<(String, String)>,
    pub(super) loading: usize,
}

/// Returns milliseconds since the epoch, by the host's clock.
pub(super) fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

impl SharingHost {
    /// Returns the state of a host that starts now.
    pub(super) fn new() -> Self {
        let mut own = [0; 8];
        rand::fill(&mut own).expect("AWS-LC ends the process where there is no randomness");
        let (own, now) = (u64::from_be_bytes(own), Instant::now());
        Self {
            own,
            cipher: NoticeCipher::new(own, (now, unix_ms())),
            told: None,
            lease: None,
            next: now,
            page: 0,
            answered: 0,
            given: BTreeMap::new(),
            foreign: BTreeMap::new(),
            foreign_asked: VecDeque::new(),
            wanted: BTreeMap::new(),
            loads: VecDeque::new(),
            loading: 0,
        }
    }

    /// Whether this host must order certificates.
    pub(super) fn orders(&self) -> bool {
        self.lease.as_ref().is_none_or(|lease| lease.held_since().is_some())
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.lease.as_ref().map(|_| self.next)
    }

    /// Returns the index range of the next page of so many certificates.
    pub(super) fn next_page(&mut self, count: usize) -> Range<usize> {
        let start = if self.page < count { self.page } else { 0 };
        self.page = start + PAGE;
        start..self.page.min(count)
    }

    /// Whether all reachable hosts give our answers of that number.
    pub(super) fn is_given(&self, number: u64, now: Instant) -> bool {
        let gives = |host| self.given.get(&host).is_some_and(|given| *given >= number);
        self.lease.as_ref().is_none_or(|lease| lease.hosts(now).all(gives))
    }
}

/// Pause between two heartbeats.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);

/// Silence after which a host is gone: it has missed five heartbeats.
pub(super) const LEASE_TIME: Duration = Duration::from_secs(10);

/// Time that a starting host listens, because another may hold the lease already.
const LISTENING_TIME: Duration = Duration::from_secs(5);

/// Delay of each further host before it takes a free lease.
const TURN: Duration = Duration::from_secs(2);

/// Time to deliver for the host that holds the lease while a certificate is overdue: four attempts
/// after failures fit in (`acme::schedule`), and a certificate of six days still lives for most of
/// a day.
const DELIVERY_TIME_MAX: Duration = Duration::from_secs(6 * 3600);

/// Delay of each further host before it ends such a lease, so that one does.
const ENDING_TURN: Duration = Duration::from_secs(60);

/// Maximum age of a lease; an older one is false, or of a wrong clock: the lease's host renews the
/// date at half of this age.
const LEASE_AGE_MAX_MS: u64 = 7 * 86_400_000;

/// Maximum lead of another host's clock.
const CLOCKS_APART_MS: u64 = 60_000;

/// Hosts that are known at a time. A cluster has fewer; further ones are ignored.
const HOSTS_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct HostLease {
    /// Number of this host, chosen randomly at its start.
    own: u64,
    /// Time when this host has taken the lease, in milliseconds since the epoch.
    since_ms: Option<u64>,
    /// Time since which the lease is free, as far as is known.
    free_since: Instant,
    hosts: BTreeMap<u64, HeardHost>,
    overdue_since: Option<Instant>,
    /// Time up to which leases that were taken have ended, in milliseconds since the epoch; and
    /// when this host learned of it.
    pub(super) ended_to_ms: u64,
    ended_at: Option<Instant>,
}

/// Lease as a host announces it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeardLease {
    pub(super) since_ms: Option<u64>,
    pub(super) ended_to_ms: u64,
}

/// A change of the lease caused by passing time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LeaseChange {
    /// This host has taken it.
    Taken,
    /// This host has given it up, because it did not deliver.
    GivenUp,
    /// This host has taken it from another one, because that did not deliver.
    PassedOver,
}

#[derive(Debug)]
struct HeardHost {
    at: Instant,
    since_ms: Option<u64>,
}

impl HostLease {
    pub(super) fn new(own: u64, now: Instant) -> Self {
        Self {
            own,
            since_ms: None,
            free_since: now + LISTENING_TIME,
            hosts: BTreeMap::new(),
            overdue_since: None,
            ended_to_ms: 0,
            ended_at: None,
        }
    }

    /// Returns when the lease was taken, if this host holds it.
    pub(super) fn held_since(&self) -> Option<u64> {
        self.since_ms
    }

    /// Handles a host's announcement of the lease. Returns whether it has ended this host's lease.
    pub(super) fn heard(
        &mut self,
        host: u64,
        HeardLease { since_ms, ended_to_ms }: HeardLease,
        now: Instant,
        now_ms: u64,
    ) -> bool {
        if host == self.own || (self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(&host)) {
            return false;
        }
        self.hosts.insert(host, HeardHost { at: now, since_ms });
        let mut has_ended = false;
        // No host can end leases repeatedly: each lease has its time.
        let is_due = self.ended_at.is_none_or(|at| now >= at + DELIVERY_TIME_MAX);
        if is_due && (self.ended_to_ms + 1..=now_ms + CLOCKS_APART_MS).contains(&ended_to_ms) {
            has_ended = self.end_leases(ended_to_ms, now);
        }
        let older = since_ms
            .filter(|theirs| self.counts(*theirs, now_ms))
            .zip(self.since_ms)
            .filter(|(theirs, ours)| (*theirs, host) < (*ours, self.own));
        if older.is_some() {
            self.since_ms = None;
        }
        has_ended || older.is_some()
    }

    /// Whether a lease that was taken then is still valid.
    fn counts(&self, since_ms: u64, now_ms: u64) -> bool {
        since_ms > self.ended_to_ms && since_ms.abs_diff(now_ms) < LEASE_AGE_MAX_MS
    }

    fn is_held_by_another(&self, now_ms: u64) -> bool {
        let mut leases = self.hosts.values().filter_map(|host| host.since_ms);
        leases.any(|since| self.counts(since, now_ms))
    }

    /// Ends leases; returns whether one of them was this host's.
    fn end_leases(&mut self, to_ms: u64, now: Instant) -> bool {
        (self.ended_to_ms, self.ended_at) = (to_ms, Some(now));
        let was_ours = self.since_ms.take_if(|since| *since <= to_ms).is_some();
        // The others may try first.
        self.free_since = if was_ours { now + LEASE_TIME } else { now };
        was_ours
    }

    /// Ends the lease that has not delivered, if it is this host's turn to.
    fn end_idle_lease(&mut self, now: Instant, now_ms: u64) -> Option<LeaseChange> {
        let since = self.overdue_since?;
        let since = self.ended_at.map_or(since, |ended| ended.max(since));
        let is_held = self.since_ms.is_some() || self.is_held_by_another(now_ms);
        if self.hosts.is_empty()
            || !is_held
            || now < since + DELIVERY_TIME_MAX + ENDING_TURN * self.turn()
        {
            return None;
        }
        let was_ours = self.end_leases(now_ms.max(self.since_ms.unwrap_or_default()), now);
        if was_ours {
            return Some(LeaseChange::GivenUp);
        }
        // The end takes effect at once: a lease whose date is renewed all the time is younger from
        // now on.
        self.since_ms = Some(self.ended_to_ms + 1);
        Some(LeaseChange::PassedOver)
    }

    /// Returns this host's position among the reachable ones.
    fn turn(&self) -> u32 {
        u32::try_from(self.hosts.range(..self.own).count()).unwrap_or(u32::MAX)
    }

    /// Whether messages of that host are accepted.
    pub(super) fn knows(&self, host: u64) -> bool {
        self.hosts.contains_key(&host)
    }

    /// Takes the lease if it is free and this host's turn has come; ends one that has not
    /// delivered. `is_overdue`: a certificate should have been renewed long since.
    pub(super) fn tick(
        &mut self,
        now: Instant,
        now_ms: u64,
        is_overdue: bool,
    ) -> Option<LeaseChange> {
        self.hosts.retain(|_, host| now < host.at + LEASE_TIME);
        self.overdue_since = is_overdue.then(|| self.overdue_since.unwrap_or(now));
        if let Some(since) = &mut self.since_ms
            && since.abs_diff(now_ms) > LEASE_AGE_MAX_MS / 2
        {
            *since = now_ms.max(self.ended_to_ms + 1);
        }
        let change = self.end_idle_lease(now, now_ms);
        if change.is_some() || self.since_ms.is_some() {
            return change;
        }
        if self.is_held_by_another(now_ms) {
            self.free_since = self.free_since.max(now);
            return None;
        }
        if now < self.free_since + TURN * self.turn() {
            return None;
        }
        self.since_ms = Some(now_ms.max(self.ended_to_ms + 1));
        Some(LeaseChange::Taken)
    }

    /// Returns the other hosts that sent something recently.
    pub(super) fn hosts(&self, now: Instant) -> impl Iterator<Item = u64> {
        let live = self.hosts.iter().filter(move |(_, host)| now < host.at + LEASE_TIME);
        live.map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs hosts that exchange messages each second, unless they are in `deaf`.
    fn run(leases: &mut [HostLease], deaf: &[u64], from: Instant, seconds: Range<u64>) {
        run_beside(leases, deaf, from, seconds, &mut |_, _| None);
    }

    /// As above, with a host 1 beside them whose announced lease is what `one_more` makes of the
    /// second, from which on a certificate is overdue unless one of `leases` holds the lease.
    fn run_beside(
        leases: &mut [HostLease],
        deaf: &[u64],
        from: Instant,
        seconds: Range<u64>,
        one_more: &mut dyn FnMut(u64, &[HostLease]) -> Option<HeardLease>,
    ) {
        for second in seconds {
            let (now, now_ms) = (from + Duration::from_secs(second), second * 1000);
            let said = one_more(second, leases);
            let is_overdue = said.is_some() && holders(leases).is_empty();
            for place in 0..leases.len() {
                leases[place].tick(now, now_ms, is_overdue);
                let lease = &leases[place];
                let own = lease.own;
                let of_own =
                    HeardLease { since_ms: lease.since_ms, ended_to_ms: lease.ended_to_ms };
                let own = (!deaf.contains(&own)).then_some((own, of_own));
                for (host, said) in own.into_iter().chain(said.map(|said| (1, said))) {
                    let others = leases.iter_mut().filter(|one| !deaf.contains(&one.own));
                    others.for_each(|other| {
                        other.heard(host, said, now, now_ms);
                    });
                }
            }
        }
    }

    fn holders(leases: &[HostLease]) -> Vec<u64> {
        let held = leases.iter().filter(|one| one.held_since().is_some());
        held.map(|one| one.own).collect()
    }

    #[test]
    fn one_host_orders_and_another_follows_it() {
        let now = Instant::now();
        let mut leases = [7, 3, 9].map(|own| HostLease::new(own, now));
        run(&mut leases, &[], now, 0..5);
        assert!(holders(&leases).is_empty(), "they listen");
        run(&mut leases, &[], now, 5..60);
        assert_eq!(holders(&leases), [3]);
        // Host 3 is dead or unreachable: one of the others takes the lease, and it keeps its own.
        run(&mut leases, &[3], now, 60..90);
        assert_eq!(holders(&leases), [7, 3]);
        // The hosts reach each other again: the older lease stays.
        run(&mut leases, &[], now, 90..95);
        assert_eq!(holders(&leases), [3]);
    }

    /// Returns the hours until a lease of a host that delivers nothing ends, beside three that do.
    fn hours_until_passed_over(said: impl Fn(u64, &[HostLease]) -> HeardLease) -> u64 {
        const HOUR: u64 = 3600;
        const BEGIN: u64 = 1_000_000;
        let now = Instant::now();
        let start = now + Duration::from_secs(BEGIN);
        let mut leases = [7, 3, 9].map(|own| HostLease::new(own, start));
        for hour in 0..40 {
            let seconds = BEGIN + hour * HOUR..BEGIN + (hour + 1) * HOUR;
            let mut said = |second, leases: &[HostLease]| Some(said(second, leases));
            run_beside(&mut leases, &[], now, seconds, &mut said);
            if !holders(&leases).is_empty() {
                let next = BEGIN + (hour + 1) * HOUR..BEGIN + (hour + 3) * HOUR;
                run_beside(&mut leases, &[], now, next, &mut said);
                assert_eq!(holders(&leases).len(), 1, "one of them orders, and stays");
                return hour;
            }
        }
        panic!("nobody orders for 40 hours");
    }

    #[test]
    fn a_lease_that_delivers_nothing_ends() {
        let of = |since_ms| HeardLease { since_ms: Some(since_ms), ended_to_ms: 0 };
        // A lease older than all, of a stuck host.
        assert_eq!(hours_until_passed_over(|_, _| of(999_999_000)), 6);
        // A lease renewed with each heartbeat, behind and ahead of the clock.
        assert!((6..8).contains(&hours_until_passed_over(|second, _| of(second * 1000 + 50_000))));
        // A lease from the beginning of time, or from its end, does not count.
        assert_eq!(hours_until_passed_over(|_, _| of(0)), 0);
        assert_eq!(hours_until_passed_over(|_, _| of(u64::MAX)), 0);
        // A host that ends all others' leases all the time.
        let ends =
            |second, _: &[HostLease]| HeardLease { since_ms: None, ended_to_ms: second * 1000 };
        assert_eq!(hours_until_passed_over(ends), 0);
    }

    #[test]
    fn a_host_that_cannot_order_gives_the_lease_to_another() {
        let now = Instant::now();
        let mut leases = [7, 3, 9].map(|own| HostLease::new(own, now));
        let at = |second| now + Duration::from_secs(second);
        run(&mut leases, &[], now, 0..60);
        assert_eq!(holders(&leases), [3]);
        let mut changes = Vec::new();
        for second in 60..8 * 3600 {
            for place in 0..leases.len() {
                let is_overdue = holders(&leases) == [3] || holders(&leases).is_empty();
                changes.extend(leases[place].tick(at(second), second * 1000, is_overdue));
                let lease = &leases[place];
                let (own, since_ms, ended_to_ms) = (lease.own, lease.since_ms, lease.ended_to_ms);
                let said = HeardLease { since_ms, ended_to_ms };
                for other in &mut leases {
                    other.heard(own, said, at(second), second * 1000);
                }
            }
        }
        assert_eq!(changes, [LeaseChange::GivenUp, LeaseChange::Taken]);
        assert_eq!(holders(&leases), [7]);
    }

    #[test]
    fn an_old_lease_is_dated_anew_and_stays() {
        let now = Instant::now();
        let mut lease = HostLease::new(9, now);
        for day in 0..40 {
            let change =
                lease.tick(now + Duration::from_hours(24 * (day + 1)), day * 86_400_000, false);
            assert_eq!(change.is_some(), day == 0);
            assert!(lease.counts(lease.held_since().unwrap(), day * 86_400_000));
        }
    }

    #[test]
    fn a_host_alone_takes_it_and_a_late_one_does_not() {
        let now = Instant::now();
        let mut leases = vec![HostLease::new(9, now)];
        run(&mut leases, &[], now, 0..6);
        assert_eq!(holders(&leases), [9]);
        leases.push(HostLease::new(1, now + Duration::from_secs(6)));
        run(&mut leases, &[], now, 6..60);
        assert_eq!(holders(&leases), [9], "a smaller number does not take it away");
        assert_eq!(leases[1].hosts(now + Duration::from_secs(60)).collect::<Vec<_>>(), [9]);
    }
}
