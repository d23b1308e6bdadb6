//! The cells that workers count in.
//!
//! Each cell has one writer, its worker's thread, so adding is a load and a store, never a locked
//! instruction; readers see each cell whole, and cells a few events apart. Two writers of one cell
//! would lose counts and nothing else. Cells of different workers share no cache line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::catalogue::{
    GROUPS, Histogram, SUITES, ServerCounter, ServerGauge, ServiceCounter, ServiceGauge,
    WorkerCounter, WorkerGauge, group_index, suite_index,
};
use crate::outcome::{EarlyData, HandshakeKind, OffloadRefusal, Reason, ResumptionMiss, Version};
use crate::snapshot::{
    BUCKETS_US, Counts, HistogramSnapshot, ServerSnapshot, ServiceSnapshot, WorkerSnapshot,
};

/// A finished handshake, to be counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Handshake {
    /// How it was made.
    pub kind: HandshakeKind,
    /// The version agreed on.
    pub version: Version,
    /// The suite's number in IANA's registry.
    pub suite: u16,
    /// The group's number in IANA's registry; 0 = no key exchange was made.
    pub group: u16,
    /// How long it took.
    pub duration: Duration,
}

/// One worker's own cells.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCounters {
    counters: Cells<{ WorkerCounter::COUNT }>,
    gauges: Cells<{ WorkerGauge::COUNT }>,
}

/// One service as one worker counts it under one plan: the service's cells, which outlive the plan,
/// and those of the plan's servers.
#[derive(Debug)]
pub struct ServiceCounters {
    cells: Arc<ServiceCells>,
    servers: Box<[Arc<ServerCounters>]>,
}

/// One server of one service on one worker.
#[derive(Debug)]
#[repr(align(128))]
pub struct ServerCounters {
    counters: Cells<{ ServerCounter::COUNT }>,
    gauges: Cells<{ ServerGauge::COUNT }>,
}

/// One service on one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ServiceCells {
    counters: Cells<{ ServiceCounter::COUNT }>,
    gauges: Cells<{ ServiceGauge::COUNT }>,
    ended: Cells<{ Reason::ALL.len() }>,
    handshakes: [Cells<{ Version::ALL.len() }>; HandshakeKind::ALL.len()],
    misses: Cells<{ ResumptionMiss::ALL.len() }>,
    early_data: Cells<{ EarlyData::ALL.len() }>,
    offload_refusals: Cells<{ OffloadRefusal::ALL.len() }>,
    suites: Cells<{ SUITES.len() }>,
    groups: Cells<{ GROUPS.len() }>,
    histograms: [HistogramCells; Histogram::COUNT],
}

#[derive(Debug, Default)]
struct HistogramCells {
    buckets: Cells<{ BUCKETS_US.len() + 1 }>,
    sum_us: Cells<1>,
}

/// Numbers with one writer.
#[derive(Debug)]
struct Cells<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Cells<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const N: usize> Cells<N> {
    #[inline]
    fn add(&self, index: usize, amount: u64) {
        let now = self.0[index].load(Ordering::Relaxed);
        self.0[index].store(now.wrapping_add(amount), Ordering::Relaxed);
    }

    #[inline]
    fn set(&self, index: usize, value: u64) {
        self.0[index].store(value, Ordering::Relaxed);
    }

    fn add_to(&self, sums: &mut Counts<N>) {
        for (sum, cell) in sums.0.iter_mut().zip(&self.0) {
            *sum = sum.wrapping_add(cell.load(Ordering::Relaxed));
        }
    }
}

impl WorkerCounters {
    /// Counts one.
    #[inline]
    pub fn count(&self, counter: WorkerCounter) {
        self.add(counter, 1);
    }

    /// Counts many.
    #[inline]
    pub fn add(&self, counter: WorkerCounter, amount: u64) {
        self.counters.add(counter as usize, amount);
    }

    /// One more.
    #[inline]
    pub fn raise(&self, gauge: WorkerGauge) {
        self.gauges.add(gauge as usize, 1);
    }

    /// One less.
    #[inline]
    pub fn lower(&self, gauge: WorkerGauge) {
        self.gauges.add(gauge as usize, u64::MAX);
    }

    /// As many as this.
    #[inline]
    pub fn set(&self, gauge: WorkerGauge, value: u64) {
        self.gauges.set(gauge as usize, value);
    }

    pub(crate) fn add_to(&self, sums: &mut WorkerSnapshot) {
        self.counters.add_to(&mut sums.counters);
        self.gauges.add_to(&mut sums.gauges);
    }
}

impl ServiceCounters {
    pub(crate) fn new(cells: Arc<ServiceCells>, servers: Box<[Arc<ServerCounters>]>) -> Self {
        Self { cells, servers }
    }

    /// Counts one.
    #[inline]
    pub fn count(&self, counter: ServiceCounter) {
        self.add(counter, 1);
    }

    /// Counts many.
    #[inline]
    pub fn add(&self, counter: ServiceCounter, amount: u64) {
        self.cells.counters.add(counter as usize, amount);
    }

    /// One more.
    #[inline]
    pub fn raise(&self, gauge: ServiceGauge) {
        self.cells.gauges.add(gauge as usize, 1);
    }

    /// One less.
    #[inline]
    pub fn lower(&self, gauge: ServiceGauge) {
        self.cells.gauges.add(gauge as usize, u64::MAX);
    }

    /// Counts a connection's end.
    #[inline]
    pub fn ended(&self, reason: Reason) {
        self.cells.ended.add(reason as usize, 1);
    }

    /// Counts a finished handshake by kind, version, suite and group, and observes its duration.
    pub fn handshake(&self, handshake: Handshake) {
        let kind = handshake.kind;
        self.cells.handshakes[kind as usize].add(handshake.version as usize, 1);
        self.cells.suites.add(suite_index(handshake.suite), 1);
        self.cells.groups.add(group_index(handshake.group), 1);
        self.observe(Histogram::of_handshake(kind), handshake.duration);
    }

    /// Counts a session that a client offered and that was not resumed.
    #[inline]
    pub fn missed(&self, miss: ResumptionMiss) {
        self.cells.misses.add(miss as usize, 1);
    }

    /// Counts early data that a client offered.
    #[inline]
    pub fn offered_early(&self, outcome: EarlyData) {
        self.cells.early_data.add(outcome as usize, 1);
    }

    /// Counts a connection that the kernel did not take.
    #[inline]
    pub fn offload_refused(&self, refusal: OffloadRefusal) {
        self.cells.offload_refusals.add(refusal as usize, 1);
    }

    /// Puts a duration into its bucket.
    #[inline]
    pub fn observe(&self, histogram: Histogram, duration: Duration) {
        self.cells.histograms[histogram as usize].observe(duration);
    }

    /// A server by its index in the plan; panics beyond the plan's servers.
    #[inline]
    pub fn server(&self, index: usize) -> &ServerCounters {
        &self.servers[index]
    }
}

impl ServerCounters {
    /// A server is up until somebody says otherwise.
    pub(crate) fn new() -> Self {
        let counters = Self {
            counters: Cells::default(),
            gauges: Cells::default(),
        };
        counters.set_up(true);
        counters
    }

    /// Counts one.
    #[inline]
    pub fn count(&self, counter: ServerCounter) {
        self.add(counter, 1);
    }

    /// Counts many.
    #[inline]
    pub fn add(&self, counter: ServerCounter, amount: u64) {
        self.counters.add(counter as usize, amount);
    }

    /// One more connection open.
    #[inline]
    pub fn raise(&self) {
        self.gauges.add(ServerGauge::ConnectionsOpen as usize, 1);
    }

    /// One connection less.
    #[inline]
    pub fn lower(&self) {
        let gauge = ServerGauge::ConnectionsOpen as usize;
        self.gauges.add(gauge, u64::MAX);
    }

    /// Says whether this worker would send a connection to the server.
    pub fn set_up(&self, up: bool) {
        let gauge = ServerGauge::WorkersUp as usize;
        self.gauges.set(gauge, u64::from(up));
    }

    pub(crate) fn add_to(&self, sums: &mut ServerSnapshot) {
        self.counters.add_to(&mut sums.counters);
        self.gauges.add_to(&mut sums.gauges);
    }
}

impl ServiceCells {
    pub(crate) fn add_to(&self, sums: &mut ServiceSnapshot) {
        self.counters.add_to(&mut sums.counters);
        self.gauges.add_to(&mut sums.gauges);
        self.ended.add_to(&mut sums.ended);
        self.misses.add_to(&mut sums.misses);
        self.early_data.add_to(&mut sums.early_data);
        self.offload_refusals.add_to(&mut sums.offload_refusals);
        self.suites.add_to(&mut sums.suites);
        self.groups.add_to(&mut sums.groups);
        for (cells, sum) in self.handshakes.iter().zip(&mut sums.handshakes) {
            cells.add_to(sum);
        }
        for (cells, sum) in self.histograms.iter().zip(&mut sums.histograms) {
            cells.add_to(sum);
        }
    }
}

impl HistogramCells {
    fn observe(&self, duration: Duration) {
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_US.partition_point(|bound| *bound < duration_us);
        self.buckets.add(bucket, 1);
        self.sum_us.add(0, duration_us);
    }

    fn add_to(&self, sums: &mut HistogramSnapshot) {
        self.buckets.add_to(&mut sums.buckets);
        let mut sum_us = Counts([sums.sum_us]);
        self.sum_us.add_to(&mut sum_us);
        Counts([sums.sum_us]) = sum_us;
    }
}

impl Histogram {
    /// The one that takes handshakes of this kind.
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
