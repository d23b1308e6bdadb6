//! A host among those that share certificates: the lease, and who answers the authority already.
//!
//! Owns what is remembered; `sharing` says what supervisors tell each other.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use acme::messages::Challenge;
use aws_lc_rs::rand;
use tls::resumption::notices::NoticeCipher;

use super::host_lease::HostLease;

/// Certificates named in one notice: it fits the parts of a datagram.
const PAGE: usize = 64;

/// The state of this host among the others.
pub(super) struct SharingHost {
    pub(super) own: u64,
    /// Seals what this host says, and opens what others say.
    pub(super) cipher: NoticeCipher,
    /// When an operator was told last that a notice was left out.
    pub(super) told: Option<Instant>,
    /// `None` = there are no others.
    pub(super) lease: Option<HostLease>,
    pub(super) next: Instant,
    /// The place from which the next page of certificates is told.
    pub(super) page: usize,
    /// The last order that this host's workers have followed.
    pub(super) answered: u64,
    /// The number of our answers that each other host gives.
    pub(super) given: BTreeMap<u64, u64>,
    /// The answers that others want given: their number, and when they were last told.
    pub(super) foreign: BTreeMap<u64, (u64, Instant, Vec<Challenge>)>,
    /// Orders to workers after which a host is told that its answers of a number are given.
    pub(super) foreign_asked: VecDeque<(u64, u64, u64)>,
    pub(super) wanted: BTreeMap<(String, String), Instant>,
    pub(super) loads: VecDeque<(String, String)>,
    pub(super) loading: usize,
}

/// Milliseconds since the epoch, by the host's clock.
pub(super) fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

impl SharingHost {
    /// A host that starts now.
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

    /// Whether this host is to order certificates.
    pub(super) fn orders(&self) -> bool {
        self.lease.as_ref().is_none_or(|lease| lease.held_since().is_some())
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.lease.as_ref().map(|_| self.next)
    }

    /// The places of the next page of so many certificates.
    pub(super) fn next_page(&mut self, count: usize) -> Range<usize> {
        let start = if self.page < count { self.page } else { 0 };
        self.page = start + PAGE;
        start..self.page.min(count)
    }

    /// Whether all hosts that are heard give our answers of that number.
    pub(super) fn is_given(&self, number: u64, now: Instant) -> bool {
        let gives = |host| self.given.get(&host).is_some_and(|given| *given >= number);
        self.lease.as_ref().is_none_or(|lease| lease.hosts(now).all(gives))
    }
}
