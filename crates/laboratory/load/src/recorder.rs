//! Records the transactions of a thread: which figures each belongs to, and when a second is over.

use std::time::{Duration, Instant};

use measure::record::{TrafficBytes, TransactionCounts};

use crate::failure::TransactionFailure;
use crate::plan::{ArrivalModel, LoadPlan};
use crate::scheduler::{RunClock, ThreadContext, ThreadReport};
use crate::tally::{LoadTally, Negotiated, SecondTally, TransactionTiming};

/// Indices, in the plan, of the address and of the request of a transaction.
type TransactionPlace = (usize, usize);

/// Recorder of one thread's transactions.
#[derive(Debug)]
pub(crate) struct ThreadRecorder {
    pub(crate) tally: LoadTally,
    /// Bytes, counted by the connections themselves.
    pub(crate) traffic: TrafficBytes,
    /// CPU time that the thread used for the figures.
    pub(crate) cpu: Duration,
    pub(crate) last_end: Option<Instant>,
    /// End of the last successful transaction.
    pub(crate) last_success: Option<Instant>,
    clock: RunClock,
    second: SecondTally,
    second_number: u64,
    /// Transactions that were due in other seconds than the current one.
    late: Vec<(u64, u64)>,
    /// CPU time and bytes when the figures began; `None` before.
    at_zero: Option<(Duration, TrafficBytes)>,
    /// Ends of steps, from the beginning of the figures.
    step_ends: Vec<Duration>,
    /// Whether there are several requests.
    mixes: bool,
    context: ThreadContext,
}

impl ThreadRecorder {
    pub(crate) fn new(plan: &LoadPlan, context: ThreadContext) -> Self {
        let step_ends = step_ends(&plan.arrival);
        Self {
            tally: LoadTally::new(step_ends.len()),
            traffic: TrafficBytes::default(),
            cpu: Duration::ZERO,
            last_end: None,
            last_success: None,
            clock: RunClock::unstarted(),
            second: SecondTally::default(),
            second_number: 0,
            late: Vec::new(),
            at_zero: None,
            step_ends,
            mixes: plan.requests.len() > 1,
            context,
        }
    }

    pub(crate) fn start(&mut self, clock: RunClock) {
        self.clock = clock;
    }

    /// Closes the past seconds, and opens the figures when the warm-up is over.
    #[inline]
    pub(crate) fn pass(&mut self, now: Instant) {
        if self.at_zero.is_none() && now >= self.clock.zero {
            self.at_zero = Some((sys::cpu::thread_time(), self.traffic));
        }
        while now >= self.next_second() {
            self.close_second();
        }
    }

    #[inline]
    pub(crate) fn next_second(&self) -> Instant {
        match self.at_zero {
            None => self.clock.zero,
            Some(_) => self.clock.end_of(self.second_number),
        }
    }

    fn close_second(&mut self) {
        if self.at_zero.is_none() {
            return;
        }
        let open = self.second.open;
        let tally = std::mem::take(&mut self.second);
        self.second.open = open;
        self.report(Some((self.second_number, tally)));
        self.second_number += 1;
    }

    fn report(&mut self, second: Option<(u64, SecondTally)>) {
        let report = ThreadReport {
            thread: self.context.index,
            second,
            late: std::mem::take(&mut self.late),
        };
        // Nobody receives reports if the run was dropped.
        let _ = self.context.reports.send(report);
    }

    /// Sets the number of open connections.
    #[inline]
    pub(crate) fn set_open(&mut self, open: u64) {
        self.second.open = open;
        let succeeded = self.tally.warm_up.succeeded + self.tally.totals.succeeded;
        let received_bytes = self.traffic.received_bytes;
        self.context.show(open, received_bytes, succeeded);
    }

    pub(crate) fn finish(&mut self) {
        self.pass(Instant::now());
        let is_empty = self.second == SecondTally::default() && self.late.is_empty();
        if self.at_zero.is_some() && !is_empty {
            self.close_second();
        }
        if let Some((cpu, traffic)) = self.at_zero {
            self.cpu = sys::cpu::thread_time().saturating_sub(cpu);
            self.tally.traffic = since(self.traffic, traffic);
        }
        self.report(None);
    }

    fn is_counted(&self, due: Instant) -> bool {
        due >= self.clock.zero
    }

    /// Returns the step of an instant.
    fn step(&self, due: Instant) -> Option<usize> {
        let at = due.saturating_duration_since(self.clock.zero);
        self.step_ends.iter().position(|end| at < *end)
    }

    #[inline]
    pub(crate) fn attempt(&mut self, due: Instant) {
        if !self.is_counted(due) {
            self.tally.warm_up.attempted += 1;
            return;
        }
        self.tally.totals.attempted += 1;
        self.attempt_in_second(due);
        let step = self.step(due);
        if let Some(step) = step.and_then(|step| self.tally.steps.get_mut(step)) {
            step.counts.attempted += 1;
        }
    }

    /// Counts a transaction in the second in which it was due, which may be over.
    fn attempt_in_second(&mut self, due: Instant) {
        let number = due.saturating_duration_since(self.clock.zero).as_secs();
        if number == self.second_number {
            self.second.attempted += 1;
            return;
        }
        match self.late.last_mut() {
            Some((last, count)) if *last == number => *count += 1,
            _ => self.late.push((number, 1)),
        }
    }

    /// Counts a due transaction that cannot begin.
    pub(crate) fn forgo(&mut self, due: Instant, failure: TransactionFailure) {
        self.attempt(due);
        self.count_failure(due, failure);
    }

    /// Records that a transaction began after its planned instant.
    #[inline]
    pub(crate) fn lag(&mut self, due: Instant, begun: Instant) {
        if self.is_counted(due) {
            self.tally.lag.record(begun.saturating_duration_since(due));
        }
    }

    #[inline]
    pub(crate) fn succeed(
        &mut self,
        due: Instant,
        place: TransactionPlace,
        timing: &TransactionTiming,
    ) {
        self.end_at(due, place, Some(timing.total));
        if !self.is_counted(due) {
            self.tally.warm_up.succeeded += 1;
            self.tally.carried += u64::from(self.at_zero.is_some());
            return;
        }
        let now = Instant::now();
        self.last_end = Some(now);
        self.last_success = Some(now);
        self.second.succeeded += 1;
        self.second.total.record(timing.total);
        let (step, now_in) = (self.step(due), self.step(now));
        self.tally.succeed(timing, step);
        if let Some(step) = now_in.and_then(|step| self.tally.steps.get_mut(step)) {
            step.ended += 1;
        }
    }

    pub(crate) fn fail(
        &mut self,
        due: Instant,
        place: TransactionPlace,
        failure: TransactionFailure,
    ) {
        self.end_at(due, place, None);
        if self.is_counted(due) {
            self.tally.failed_after.record(due.elapsed());
        }
        self.count_failure(due, failure);
    }

    fn count_failure(&mut self, due: Instant, failure: TransactionFailure) {
        if !self.is_counted(due) {
            self.tally.warm_up.failed += 1;
            return;
        }
        self.last_end = Some(Instant::now());
        self.second.failed += 1;
        *self.second.failures.entry(failure).or_default() += 1;
        let step = self.step(due);
        self.tally.fail(failure, step);
    }

    /// Records a transaction's end at this address and request; `total` if it succeeded.
    #[inline]
    fn end_at(
        &mut self,
        due: Instant,
        (address, request): TransactionPlace,
        total: Option<Duration>,
    ) {
        if !self.is_counted(due) {
            return;
        }
        let (succeeded, failed) = (u64::from(total.is_some()), u64::from(total.is_none()));
        let counts = TransactionCounts { attempted: 1, succeeded, failed };
        *self.tally.addresses.entry(address).or_default() += counts;
        if self.mixes {
            let result = self.tally.requests.entry(request).or_default();
            result.counts += counts;
            total.into_iter().for_each(|total| result.total.record(total));
        }
    }

    /// Counts a handshake, for the warm-up or the figures.
    #[inline]
    pub(crate) fn shake_hands(&mut self, due: Instant, negotiated: Negotiated) {
        if self.is_counted(due) {
            *self.second.handshakes.entry(negotiated.kind).or_default() += 1;
        }
        self.tally.shake_hands(negotiated);
    }
}

/// Returns the ends of the stretches, if there are several with one rate each.
fn step_ends(arrival: &ArrivalModel) -> Vec<Duration> {
    let ArrivalModel::Open { stretches, .. } = arrival else {
        return Vec::new();
    };
    let mut end = Duration::ZERO;
    let ends = stretches.iter().map(|stretch| {
        end += stretch.length;
        end
    });
    let is_even = stretches.iter().all(|stretch| stretch.from_per_s == stretch.to_per_s);
    if is_even { ends.collect() } else { Vec::new() }
}

fn since(now: TrafficBytes, before: TrafficBytes) -> TrafficBytes {
    TrafficBytes {
        connections: now.connections - before.connections,
        received_bytes: now.received_bytes - before.received_bytes,
        sent_bytes: now.sent_bytes - before.sent_bytes,
        body_bytes: now.body_bytes - before.body_bytes,
    }
}
