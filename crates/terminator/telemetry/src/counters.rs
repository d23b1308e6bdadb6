//! Holds the cells that workers count in.
//!
//! Each cell has one writer, its worker's thread, so adding is a load and a store, never a locked
//! instruction; readers see each cell whole, but cells a few events apart. Two writers of one cell
//! would lose counts and nothing else. Cells of different workers share no cache line. A flag
//! beside them tells whether any was written, because ten thousand idle services must not cost a
//! look at each of their cells.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::catalogue::{
    BUCKETS_US, Breakdown, Family, HISTOGRAM_SLOTS, Histogram, Process, ProcessMetric, Row, Scope,
    Server, ServerGauge, Service, ServiceGauge, Worker, group_index, handshake_index, suite_index,
};
use crate::outcome::{
    ClusterRejection, ClusterUpdate, EarlyData, EchResult, HandshakeKind, OffloadRefusal, Reason,
    ResumptionMiss, SessionTier, StoreFailure, StoreRejection, StoreUpdate, Version,
};

/// A finished handshake to count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Handshake {
    pub kind: HandshakeKind,
    pub version: Version,
    /// Number of the suite in IANA's registry.
    pub suite: u16,
    /// Number of the group in IANA's registry; 0 = no key exchange was made.
    pub group: u16,
    pub duration: Duration,
}

/// All values of a scope on one worker, with one writer.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Cells<S, const N: usize> {
    /// Whether a value was written since the last [`Self::take_changed`].
    changed: AtomicBool,
    values: [AtomicU64; N],
    scope: PhantomData<S>,
}

pub type WorkerCounters = Cells<Worker, { Worker::SLOTS }>;

/// One server of one service on one worker.
#[derive(Debug, Default)]
pub struct ServerCounters {
    cells: Cells<Server, { Server::SLOTS }>,
    /// Changed when an address goes down or comes back, never for a connection.
    addresses_down: Mutex<Vec<String>>,
}

/// One service on one worker.
#[derive(Debug, Default)]
pub(crate) struct ServiceCells {
    counts: Cells<Service, { Service::SLOTS }>,
    /// Highest values of the gauges that are raised and lowered, since they were last taken.
    peaks: [AtomicU64; ServiceGauge::RAISED.len()],
}

/// One service as one worker counts it under one plan: the service's cells, which outlive the plan,
/// and those of the plan's servers.
#[derive(Debug)]
pub struct ServiceCounters {
    cells: Arc<ServiceCells>,
    servers: Box<[Arc<ServerCounters>]>,
}

impl<S: Scope, const N: usize> Default for Cells<S, N> {
    fn default() -> Self {
        let values = std::array::from_fn(|_| AtomicU64::new(0));
        Self { changed: AtomicBool::new(false), values, scope: PhantomData }
    }
}

impl<S: Scope, const N: usize> Cells<S, N> {
    #[inline]
    pub fn count(&self, row: impl Row<Scope = S>) {
        self.add(row, 1);
    }

    #[inline]
    pub fn add(&self, row: impl Row<Scope = S>, amount: u64) {
        self.add_at(row.slot(), amount);
    }

    /// Raises a gauge by one.
    #[inline]
    pub fn raise(&self, row: impl Row<Scope = S>) {
        self.add(row, 1);
    }

    /// Lowers a gauge by one.
    #[inline]
    pub fn lower(&self, row: impl Row<Scope = S>) {
        self.add(row, u64::MAX);
    }

    /// Sets a gauge; setting the same value again does not count as a change.
    #[inline]
    pub fn set(&self, row: impl Row<Scope = S>, value: u64) {
        let cell = &self.values[row.slot()];
        if cell.load(Ordering::Relaxed) != value {
            cell.store(value, Ordering::Relaxed);
            self.mark_changed();
        }
    }

    pub fn get(&self, row: impl Row<Scope = S>) -> u64 {
        self.values[row.slot()].load(Ordering::Relaxed)
    }

    #[inline]
    fn add_at(&self, slot: usize, amount: u64) {
        let now = self.values[slot].load(Ordering::Relaxed);
        self.values[slot].store(now.wrapping_add(amount), Ordering::Relaxed);
        self.mark_changed();
    }

    /// Sets the flag after the value was stored: a reader that takes the flag then sees the value.
    #[inline]
    fn mark_changed(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// Reports whether a value was written since the last call.
    pub(crate) fn take_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed) && self.changed.swap(false, Ordering::Acquire)
    }

    pub(crate) fn add_to(&self, sums: &mut Counts<S>) {
        for (sum, cell) in sums.values.iter_mut().zip(&self.values) {
            *sum = sum.wrapping_add(cell.load(Ordering::Relaxed));
        }
    }
}

impl Deref for ServiceCounters {
    type Target = Cells<Service, { Service::SLOTS }>;

    fn deref(&self) -> &Self::Target {
        &self.cells.counts
    }
}

impl ServiceCells {
    pub(crate) fn take_changed(&self) -> bool {
        self.counts.take_changed()
    }

    pub(crate) fn gauge(&self, gauge: ServiceGauge) -> u64 {
        self.counts.get(gauge)
    }

    pub(crate) fn ended_for(&self, reason: Reason) -> u64 {
        let slot = const { Breakdown::Ended.slot() } + reason as usize;
        self.counts.values[slot].load(Ordering::Relaxed)
    }

    pub(crate) fn add_to(&self, sums: &mut Counts<Service>) {
        self.counts.add_to(sums);
    }

    /// Returns the highest value of a gauge since the last call; the current value starts the next
    /// peak. If the worker stores a peak meanwhile, it equals the gauge's value at this moment,
    /// which belongs to both.
    pub(crate) fn take_peak(&self, gauge: ServiceGauge) -> u64 {
        let now = self.counts.get(gauge);
        let peak = self.peaks.get(gauge as usize);
        peak.map_or(now, |peak| peak.swap(now, Ordering::Relaxed).max(now))
    }
}

impl ServiceCounters {
    pub(crate) fn new(cells: Arc<ServiceCells>, servers: Box<[Arc<ServerCounters>]>) -> Self {
        Self { cells, servers }
    }

    /// Raises a gauge by one, and its peak if need be.
    #[inline]
    pub fn raise(&self, gauge: ServiceGauge) {
        let cells = &self.cells;
        cells.counts.raise(gauge);
        let now = cells.counts.get(gauge);
        let peak = cells.peaks.get(gauge as usize);
        if let Some(peak) = peak.filter(|peak| peak.load(Ordering::Relaxed) < now) {
            peak.store(now, Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn ended(&self, reason: Reason) {
        self.add_at(const { Breakdown::Ended.slot() } + reason as usize, 1);
    }

    /// Counts a finished handshake by kind, version, suite and group, and observes its duration.
    pub fn handshake(&self, handshake: Handshake) {
        let kind = handshake.kind;
        for (breakdown, index) in [
            (Breakdown::Handshakes, handshake_index(kind, handshake.version)),
            (Breakdown::Suites, suite_index(handshake.suite)),
            (Breakdown::Groups, group_index(handshake.group)),
        ] {
            self.add_at(breakdown.slot() + index, 1);
        }
        self.observe(Histogram::of_handshake(kind), handshake.duration);
    }

    /// Counts a session that a client offered and that was not resumed.
    pub fn missed(&self, miss: ResumptionMiss) {
        self.add_at(Breakdown::ResumptionMisses.slot() + miss as usize, 1);
    }

    /// Counts early data that a client offered.
    pub fn offered_early(&self, outcome: EarlyData) {
        self.add_at(Breakdown::EarlyData.slot() + outcome as usize, 1);
    }

    /// Counts a hello that was encrypted, or looked so.
    pub fn offered_ech(&self, result: EchResult) {
        self.add_at(Breakdown::Ech.slot() + result as usize, 1);
    }

    /// Counts a connection that the kernel did not take over.
    pub fn offload_refused(&self, refusal: OffloadRefusal) {
        self.add_at(Breakdown::OffloadRefusals.slot() + refusal as usize, 1);
    }

    /// Counts a duration in its bucket.
    #[inline]
    pub fn observe(&self, histogram: Histogram, duration: Duration) {
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_US.partition_point(|bound| *bound < duration_us);
        self.add_at(histogram.slot() + bucket, 1);
        self.add_at(histogram.slot() + BUCKETS_US.len() + 1, duration_us);
    }

    /// Returns a server by its index in the plan; panics beyond the plan's servers.
    #[inline]
    pub fn server(&self, index: usize) -> &ServerCounters {
        &self.servers[index]
    }
}

impl Deref for ServerCounters {
    type Target = Cells<Server, { Server::SLOTS }>;

    fn deref(&self) -> &Self::Target {
        &self.cells
    }
}

impl ServerCounters {
    pub(crate) fn take_changed(&self) -> bool {
        self.cells.take_changed()
    }

    /// Sets the server's addresses that this worker dials only if no other is left.
    pub fn set_addresses_down(&self, addresses: impl Iterator<Item = String>) {
        let down = self.addresses_down.lock();
        *down.unwrap_or_else(PoisonError::into_inner) = addresses.collect();
        self.cells.mark_changed();
    }

    pub(crate) fn addresses_down(&self) -> Vec<String> {
        let down = self.addresses_down.lock();
        down.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Creates counters of a server that is up until a worker or a check decides otherwise.
    pub(crate) fn up() -> Self {
        let counters = Self::default();
        counters.set_up(true);
        counters
    }

    /// Sets whether this worker would send a connection to the server.
    pub fn set_up(&self, up: bool) {
        self.set(ServerGauge::WorkersUp, u64::from(up));
    }
}

impl Histogram {
    /// Returns the histogram for handshakes of this kind.
    pub fn of_handshake(kind: HandshakeKind) -> Self {
        match kind {
            HandshakeKind::Full => Self::HandshakeFull,
            HandshakeKind::SessionId => Self::HandshakeSessionId,
            HandshakeKind::Ticket => Self::HandshakeTicket,
            HandshakeKind::Psk => Self::HandshakePsk,
            HandshakeKind::PskCache => Self::HandshakePskCache,
        }
    }
}

/// All counts at one time. Counters of one worker may be a few events apart from each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Services in use, in the order in which they were first named.
    pub services: Vec<ServiceSnapshot>,
    pub workers: Vec<Counts<Worker>>,
}

/// One service, over all workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceSnapshot {
    pub name: String,
    pub counts: Counts<Service>,
    /// Servers in use, in the order in which they were first named.
    pub servers: Vec<ServerSnapshot>,
}

/// One server of one service, over all workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerSnapshot {
    pub name: String,
    /// Addresses that some worker dials only if no other is left.
    pub addresses_down: BTreeSet<String>,
    pub counts: Counts<Server>,
}

/// Values of one scope, in the order of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts<S> {
    pub(crate) values: Vec<u64>,
    scope: PhantomData<S>,
}

/// One row with its count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    pub family: &'static Family,
    /// Values of the family's labels.
    pub labels: &'static [&'static str],
    /// One number, or the buckets of a histogram and the sum of its durations.
    pub values: &'a [u64],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Durations {
    /// One count per bound of [`BUCKETS_US`], not cumulative, and one for longer durations.
    pub buckets: [u64; BUCKETS_US.len() + 1],
    pub sum_us: u64,
}

impl<S: Scope> Default for Counts<S> {
    fn default() -> Self {
        Self { values: vec![0; S::SLOTS], scope: PhantomData }
    }
}

impl<S: Scope> Counts<S> {
    /// Returns the value of a counter or gauge.
    pub fn get(&self, row: impl Row<Scope = S>) -> u64 {
        self.values[row.slot()]
    }

    /// Sets a value that no worker counts.
    pub fn set(&mut self, row: impl Row<Scope = S>, value: u64) {
        self.values[row.slot()] = value;
    }

    /// Returns all rows, family by family.
    pub fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        let families = S::FAMILIES.iter().copied().flatten();
        let rows = families.flat_map(|family| family.rows.iter().map(move |row| (family, row)));
        let mut rest = &*self.values;
        rows.map(move |(family, labels)| {
            let values;
            (values, rest) = rest.split_at(family.row_slots());
            Sample { family, labels, values }
        })
    }

    /// Fills in all rows: `of` returns each value for its family, its row's labels and its number
    /// within the row.
    pub fn from_fn(mut of: impl FnMut(&Family, &[&str], usize) -> u64) -> Self {
        let mut counts = Self::default();
        let rows: Vec<_> =
            Self::default().samples().map(|sample| (sample.family, sample.labels)).collect();
        let mut values = counts.values.iter_mut();
        for (family, labels) in rows {
            for (number, value) in values.by_ref().take(family.row_slots()).enumerate() {
                *value = of(family, labels, number);
            }
        }
        counts
    }
}

impl Counts<Service> {
    /// Returns the rows of a breakdown: the values of their labels and their counts.
    pub fn by(&self, breakdown: Breakdown) -> impl Iterator<Item = (&'static [&'static str], u64)> {
        let rows = breakdown.family().rows.iter().copied();
        rows.zip(self.values[breakdown.slot()..].iter().copied())
    }

    pub fn durations(&self, histogram: Histogram) -> Durations {
        Durations::of(&self.values[histogram.slot()..][..HISTOGRAM_SLOTS])
    }
}

impl Durations {
    /// Splits a histogram's [`Sample`] into buckets and sum.
    pub(crate) fn of(values: &[u64]) -> Self {
        let mut durations = Self::default();
        let (buckets, sum) = values.split_at(BUCKETS_US.len() + 1);
        durations.buckets.copy_from_slice(buckets);
        durations.sum_us = sum[0];
        durations
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        let add = |sum: u64, bucket: &u64| sum.saturating_add(*bucket);
        self.buckets.iter().fold(0, add)
    }

    pub fn add(&mut self, other: &Self) {
        for (sum, bucket) in self.buckets.iter_mut().zip(other.buckets) {
            *sum = sum.saturating_add(bucket);
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    /// Returns the upper bound of the bucket that holds this share (0 to 1) of the durations;
    /// `None` while there are none. Durations beyond the last bound count as the last bound.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut below = 0u64;
        let bounds = self.buckets.iter().zip(BUCKETS_US);
        let found = bounds.into_iter().find(|(bucket, _)| {
            below = below.saturating_add(**bucket);
            below >= rank
        });
        let bound = found.map(|(_, bound)| bound).or(BUCKETS_US.last().copied());
        bound.map(Duration::from_micros).filter(|_| count > 0)
    }
}

#[cfg(test)]
mod snapshot_tests {
    use super::*;

    #[test]
    fn bounds_rise() {
        assert!(BUCKETS_US.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn quantiles_are_bounds_of_the_buckets_that_hold_them() {
        let mut histogram = Durations::default();
        assert_eq!(histogram.quantile(0.5), None);
        histogram.buckets[0] = 9;
        histogram.buckets[4] = 1;
        assert_eq!(histogram.quantile(0.5), Some(Duration::from_micros(50)));
        assert_eq!(histogram.quantile(0.9), Some(Duration::from_micros(50)));
        assert_eq!(histogram.quantile(0.99), Some(Duration::from_micros(1000)));
        histogram.buckets[19] = 1000;
        assert_eq!(histogram.quantile(0.99), Some(Duration::from_secs(60)));
    }

    #[test]
    fn samples_and_their_reverse_agree() {
        let mut next = 0;
        let counts = Counts::<Service>::from_fn(|_, _, _| {
            next += 1;
            next
        });
        let again = Counts::from_fn(|family, labels, number| {
            let mut samples = counts.samples();
            let sample = samples.find(|one| one.family == family && one.labels == labels);
            sample.map_or(0, |one| one.values[number])
        });
        assert_eq!(counts, again);
        assert_eq!(next as usize, Service::SLOTS);
    }
}

/// Makes outcomes rows of a process family, in the order of its rows from `$first` on.
macro_rules! outcome_rows {
    ($($outcome:ident from $first:ident;)*) => {
        $(impl Row for $outcome {
            type Scope = Process;

            fn slot(self) -> usize {
                ProcessMetric::$first.slot() + self as usize
            }
        })*

        #[cfg(test)]
        const OUTCOME_ROWS: &[(ProcessMetric, &[&[&str]])] =
            &[$((ProcessMetric::$first, $outcome::ROWS)),*];
    };
}

outcome_rows! {
    ClusterRejection from ClusterMalformed;
    ClusterUpdate from ClusterPublished;
    SessionTier from ClusterFetchedPeers;
    StoreUpdate from StorePublished;
    StoreFailure from StoreTimeout;
    StoreRejection from StoreMalformed;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_have_the_rows_of_their_names() {
        for (first, rows) in OUTCOME_ROWS {
            let mut slot = 0;
            let family = ProcessMetric::FAMILIES.iter().find(|family| {
                let begin = slot;
                slot += family.rows.len();
                begin == first.slot()
            });
            assert_eq!(family.map(|family| family.rows), Some(*rows), "{first:?}");
        }
    }
}
