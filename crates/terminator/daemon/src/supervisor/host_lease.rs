//! The lease by which one of a cluster's hosts orders certificates for all.
//!
//! Owns who holds it, pure: what was heard of others and the time in. Hosts hear each other by
//! datagrams, so two may hold it for a moment, or while they cannot hear each other: then each
//! orders, within the authority's limits, and the younger lease ends as soon as it hears the older.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// From one sign of life to the next.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);

/// A host that was silent for so long is gone: it has missed five signs of life.
pub(super) const LEASE_TIME: Duration = Duration::from_secs(10);

/// A host that begins listens for so long, because another may hold the lease already.
const LISTENING_TIME: Duration = Duration::from_secs(5);

/// How much later than the host before it each further one takes a lease that is free.
const TURN: Duration = Duration::from_secs(2);

/// Hosts that are known at a time. A cluster has fewer; more are not listened to.
const HOSTS_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct HostLease {
    /// This host's number, made by chance at its start.
    own: u64,
    /// When this host has taken the lease, in milliseconds since the epoch.
    since_ms: Option<u64>,
    /// The lease is free since then, as far as is known.
    free_since: Instant,
    hosts: BTreeMap<u64, HeardHost>,
}

#[derive(Debug)]
struct HeardHost {
    at: Instant,
    since_ms: Option<u64>,
}

impl HostLease {
    pub(super) fn new(own: u64, now: Instant) -> Self {
        Self { own, since_ms: None, free_since: now + LISTENING_TIME, hosts: BTreeMap::new() }
    }

    /// When it was taken, if this host holds it.
    pub(super) fn held_since(&self) -> Option<u64> {
        self.since_ms
    }

    /// A host has been heard, which holds the lease since then. `true` = the lease of this host
    /// has ended by it.
    pub(super) fn heard(&mut self, host: u64, since_ms: Option<u64>, now: Instant) -> bool {
        if host == self.own || (self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(&host)) {
            return false;
        }
        self.hosts.insert(host, HeardHost { at: now, since_ms });
        let older = since_ms
            .zip(self.since_ms)
            .filter(|(theirs, ours)| (*theirs, host) < (*ours, self.own));
        if older.is_some() {
            self.since_ms = None;
        }
        older.is_some()
    }

    /// Whether that host is listened to.
    pub(super) fn knows(&self, host: u64) -> bool {
        self.hosts.contains_key(&host)
    }

    /// Takes the lease if it is free, and nobody else is to take it first. `true` = it was taken.
    pub(super) fn tick(&mut self, now: Instant, now_ms: u64) -> bool {
        self.hosts.retain(|_, host| now < host.at + LEASE_TIME);
        if self.since_ms.is_some() {
            return false;
        }
        if self.hosts.values().any(|host| host.since_ms.is_some()) {
            self.free_since = self.free_since.max(now);
            return false;
        }
        let before = self.hosts.range(..self.own).count();
        let turn = TURN * u32::try_from(before).unwrap_or(u32::MAX);
        let is_ours = now >= self.free_since + turn;
        if is_ours {
            self.since_ms = Some(now_ms);
        }
        is_ours
    }

    /// The other hosts that were heard of late.
    pub(super) fn hosts(&self, now: Instant) -> impl Iterator<Item = u64> {
        let live = self.hosts.iter().filter(move |(_, host)| now < host.at + LEASE_TIME);
        live.map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts that hear each other each second, unless they are in `deaf`.
    fn run(leases: &mut [HostLease], deaf: &[u64], from: Instant, seconds: std::ops::Range<u64>) {
        for second in seconds {
            let now = from + Duration::from_secs(second);
            for place in 0..leases.len() {
                leases[place].tick(now, second * 1000);
                let (own, since) = (leases[place].own, leases[place].held_since());
                if !deaf.contains(&own) {
                    let others = leases.iter_mut().filter(|one| !deaf.contains(&one.own));
                    others.for_each(|other| {
                        other.heard(own, since, now);
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
        // It is dead, or cannot be heard: one of the others takes the lease, and it keeps its own.
        run(&mut leases, &[3], now, 60..90);
        assert_eq!(holders(&leases), [7, 3]);
        // They hear each other again: the older lease stays.
        run(&mut leases, &[], now, 90..95);
        assert_eq!(holders(&leases), [3]);
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
