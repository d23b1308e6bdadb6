//! The cells that workers count in.
//!
//! Each cell has one writer, its worker's thread, so adding is a load and a store, never a locked
//! instruction; readers see each cell whole, and cells a few events apart. Two writers of one cell
//! would lose counts and nothing else. Cells of different workers share no cache line.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::catalogue::{
    BUCKETS_US, Breakdown, Histogram, Row, Scope, Server, ServerGauge, Service, ServiceGauge,
    Worker, group_index, handshake_index, suite_index,
};
use crate::outcome::{EarlyData, HandshakeKind, OffloadRefusal, Reason, ResumptionMiss, Version};
use crate::snapshot::Counts;

/// A finished handshake, to be counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Handshake {
    pub kind: HandshakeKind,
    pub version: Version,
    /// The suite's number in IANA's registry.
    pub suite: u16,
    /// The group's number in IANA's registry; 0 = no key exchange was made.
    pub group: u16,
    pub duration: Duration,
}

/// All values of a scope on one worker, with one writer.
#[derive(Debug)]
#[repr(align(128))]
pub struct Cells<S, const N: usize> {
    values: [AtomicU64; N],
    scope: std::marker::PhantomData<S>,
}

pub type WorkerCounters = Cells<Worker, { Worker::SLOTS }>;

/// One server of one service on one worker.
#[derive(Debug, Default)]
pub struct ServerCounters {
    cells: Cells<Server, { Server::SLOTS }>,
    /// Changed when one goes down or comes back, never for a connection.
    addresses_down: Mutex<Vec<String>>,
}

/// One service on one worker.
#[derive(Debug, Default)]
pub(crate) struct ServiceCells {
    counts: Cells<Service, { Service::SLOTS }>,
    /// The highest values of the gauges that are raised and lowered, since they were last taken.
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
        Self {
            values: std::array::from_fn(|_| AtomicU64::new(0)),
            scope: std::marker::PhantomData,
        }
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

    #[inline]
    pub fn set(&self, row: impl Row<Scope = S>, value: u64) {
        self.values[row.slot()].store(value, Ordering::Relaxed);
    }

    pub fn get(&self, row: impl Row<Scope = S>) -> u64 {
        self.values[row.slot()].load(Ordering::Relaxed)
    }

    #[inline]
    fn add_at(&self, slot: usize, amount: u64) {
        let now = self.values[slot].load(Ordering::Relaxed);
        self.values[slot].store(now.wrapping_add(amount), Ordering::Relaxed);
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
    pub(crate) fn add_to(&self, sums: &mut Counts<Service>) {
        self.counts.add_to(sums);
    }

    /// The highest value of a gauge since the last call; its value now begins the next peak. The
    /// worker may store a peak meanwhile: then it is that of the gauge's value at this moment,
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

    /// Raises a gauge by one, and with it its peak.
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
            (
                Breakdown::Handshakes,
                handshake_index(kind, handshake.version),
            ),
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

    /// Counts a connection that the kernel did not take.
    pub fn offload_refused(&self, refusal: OffloadRefusal) {
        self.add_at(Breakdown::OffloadRefusals.slot() + refusal as usize, 1);
    }

    /// Puts a duration into its bucket.
    #[inline]
    pub fn observe(&self, histogram: Histogram, duration: Duration) {
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_US.partition_point(|bound| *bound < duration_us);
        self.add_at(histogram.slot() + bucket, 1);
        self.add_at(histogram.slot() + BUCKETS_US.len() + 1, duration_us);
    }

    /// A server by its index in the plan; panics beyond the plan's servers.
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
    /// Says which of the server's addresses this worker dials only if no other is left.
    pub fn set_addresses_down(&self, addresses: impl Iterator<Item = String>) {
        let down = self.addresses_down.lock();
        *down.unwrap_or_else(PoisonError::into_inner) = addresses.collect();
    }

    pub(crate) fn addresses_down(&self) -> Vec<String> {
        let down = self.addresses_down.lock();
        down.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A server is up until a worker or a check says otherwise.
    pub(crate) fn up() -> Self {
        let counters = Self::default();
        counters.set_up(true);
        counters
    }

    /// Says whether this worker would send a connection to the server.
    pub fn set_up(&self, up: bool) {
        self.set(ServerGauge::WorkersUp, u64::from(up));
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
