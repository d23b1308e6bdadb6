//! A node of a farm: the settings of the farm before anything happens, what waits at a node and in
//! which order it is served, and how long clients waited.

use std::collections::VecDeque;

use measure::planned::SimulatedNode;

use crate::traffic::Sharing;

/// How often clients try again, and how soon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    pub most: u32,
    /// Whether each wait is twice as long as the one before; else each is a second.
    pub backs_off: bool,
}

#[derive(Clone, Debug)]
pub struct FarmSettings {
    pub nodes: u32,
    /// Cores of each node, as many of one worker's speed.
    pub cores: f64,
    /// CPU time of a connection in full use.
    pub full_s: f64,
    pub resumed_s: f64,
    pub connections_per_s: f64,
    pub clients: u64,
    /// The share of connections, every session known where it is offered.
    pub resumed_share: f64,
    pub sharing: Sharing,
    /// Whether the balancer brings a session to the node that made it.
    pub has_affinity: bool,
    /// How long a client waits before it gives up.
    pub patience_s: f64,
    pub retry: RetryPolicy,
    /// Whether a node refuses those that waited too long and serves the latest first; else it
    /// serves all in turn, those that are gone as well.
    pub sheds: bool,
    /// How long the balancer sends clients to a node that is dead.
    pub detection_s: f64,
    /// Sessions that peers never get, 0 to 1.
    pub lost_share: f64,
    /// Connections that wait at a node at most.
    pub connections_max: u64,
    pub duration_s: u64,
    pub seed: u64,
    /// Busy shares by work, each hundredth from 0 to 1; empty where they are the same.
    pub busy_by_work: Vec<f64>,
    /// Median, 95th and 99th percentile of responses by work, evenly from 0 to 1.
    pub quantiles_s: Vec<[f64; 3]>,
}

impl RetryPolicy {
    /// The waits after the attempt of that number failed, each with its part of the clients.
    pub(super) fn waits(self, attempt: usize, count: u64) -> [(f64, u64); 2] {
        if !self.backs_off {
            return [(1.0, count), (1.0, 0)];
        }
        // Half of them wait half as long again: clients do not keep step.
        let wait = f64::from(1u32 << attempt.min(6));
        [(wait, count / 2), (wait * 1.5, count - count / 2)]
    }
}

impl FarmSettings {
    pub(super) fn busy_at(&self, work: f64) -> f64 {
        let place = (work * 100.0).round().min(100.0) as usize;
        self.busy_by_work.get(place).copied().unwrap_or_else(|| work.min(1.0))
    }

    pub(super) fn quantiles_at(&self, work: f64) -> [f64; 3] {
        let last = self.quantiles_s.len().saturating_sub(1);
        let place = (work.min(1.0) * last as f64).round() as usize;
        self.quantiles_s.get(place).copied().unwrap_or_default()
    }
}

/// CPU time of refusing a connection, to that of a full one: a server that sheds keeps 94 to 96 %
/// of its capacity at five times as much (docs/benchmarks.md, "At capacity and beyond").
const REFUSAL: f64 = 0.015;

/// The part of the time that a server that sheds keeps for clients without a session.
const KEPT_FOR_FULL: f64 = 0.125;

/// Connections that came together.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionCohort {
    at: u64,
    pub(super) has_session: bool,
    pub(super) attempt: usize,
    pub(super) count: u64,
    /// Whether its clients have given up; the server does not know.
    is_gone: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FarmNode {
    /// Thinking clients whose session is of this node.
    pub(super) held: u64,
    /// The tick at which it died.
    pub(super) down_since: Option<u64>,
    pub(super) is_known_down: bool,
    queue: VecDeque<ConnectionCohort>,
    pub(super) told: SimulatedNode,
}

/// The work of a tick.
#[derive(Clone, Debug, Default)]
pub(super) struct TickWork {
    pub(super) full: u64,
    pub(super) resumed: u64,
    /// To its capacity; 1 where something was left.
    pub(super) work: f64,
    pub(super) wasted_s: f64,
    /// Ticks in the queue, and how many.
    pub(super) waits: Vec<(u64, u64)>,
    /// Clients that gave up in this tick.
    pub(super) gone: Vec<ConnectionCohort>,
}

impl FarmNode {
    pub(super) fn push(&mut self, at: u64, has_session: bool, attempt: usize, count: u64) {
        self.queue.push_back(ConnectionCohort { at, has_session, attempt, count, is_gone: false });
    }

    pub(super) fn waiting(&self) -> u64 {
        self.queue.iter().map(|cohort| cohort.count).sum()
    }

    /// Connections whose client still waits.
    pub(super) fn waiting_clients(&self) -> u64 {
        self.queue.iter().filter(|cohort| !cohort.is_gone).map(|cohort| cohort.count).sum()
    }

    /// Connections of a node that dies, but for those whose clients are gone.
    pub(super) fn take_queue(&mut self) -> Vec<ConnectionCohort> {
        self.queue.drain(..).filter(|cohort| !cohort.is_gone).collect()
    }

    pub(super) fn serve(
        &mut self,
        now: u64,
        capacity_s: f64,
        ticks_per_s: u64,
        settings: &FarmSettings,
    ) -> TickWork {
        let mut tick =
            ServingTick { now, left_s: capacity_s, settings, served: TickWork::default() };
        let patience = (settings.patience_s * ticks_per_s as f64).round().max(1.0) as u64;
        for cohort in self.queue.iter_mut().filter(|it| !it.is_gone && now >= it.at + patience) {
            cohort.is_gone = true;
            tick.served.gone.push(*cohort);
        }
        if settings.sheds {
            self.queue.iter_mut().for_each(|cohort| tick.refuse(cohort));
            let kept = self.work_of(false, settings).min(capacity_s * KEPT_FOR_FULL);
            let for_resumed = (tick.left_s - kept).max(0.0);
            let spared_s = tick.left_s - for_resumed;
            tick.left_s = for_resumed;
            self.serve_latest(true, &mut tick);
            tick.left_s += spared_s;
            self.serve_latest(false, &mut tick);
            self.serve_latest(true, &mut tick);
        } else {
            for cohort in &mut self.queue {
                tick.serve(cohort);
                if cohort.count > 0 {
                    break;
                }
            }
        }
        self.queue.retain(|cohort| cohort.count > 0);
        let ServingTick { left_s, mut served, .. } = tick;
        served.work = if capacity_s > 0.0 { 1.0 - left_s / capacity_s } else { 1.0 };
        served
    }

    fn work_of(&self, has_session: bool, settings: &FarmSettings) -> f64 {
        let own = self.queue.iter().filter(|cohort| cohort.has_session == has_session);
        own.map(|cohort| cohort.count as f64 * cost_s(cohort, settings)).sum()
    }

    fn serve_latest(&mut self, has_session: bool, tick: &mut ServingTick<'_>) {
        let own = self.queue.iter_mut().rev().filter(|cohort| cohort.has_session == has_session);
        own.for_each(|cohort| tick.serve(cohort));
    }
}

fn cost_s(cohort: &ConnectionCohort, settings: &FarmSettings) -> f64 {
    if cohort.has_session { settings.resumed_s } else { settings.full_s }
}

/// A tick of a node that serves: the time that is left of it, and what was done in it.
struct ServingTick<'s> {
    now: u64,
    left_s: f64,
    settings: &'s FarmSettings,
    served: TickWork,
}

impl ServingTick<'_> {
    /// Refuses a cohort whose clients are gone.
    fn refuse(&mut self, cohort: &mut ConnectionCohort) {
        if cohort.is_gone {
            let cost = cohort.count as f64 * self.settings.full_s * REFUSAL;
            self.served.wasted_s += cost;
            self.left_s = (self.left_s - cost).max(0.0);
            cohort.count = 0;
        }
    }

    /// Serves as many of a cohort as the time is enough for. Time that is left for a part of one is
    /// spent on it, so that no time is lost to rounding.
    fn serve(&mut self, cohort: &mut ConnectionCohort) {
        let each = cost_s(cohort, self.settings);
        if self.left_s <= 0.0 || cohort.count == 0 {
            return;
        }
        let count = ((self.left_s / each).ceil() as u64).min(cohort.count);
        self.left_s -= count as f64 * each;
        cohort.count -= count;
        let served = &mut self.served;
        if cohort.is_gone {
            served.wasted_s += count as f64 * each;
            return;
        }
        served.waits.push((self.now - cohort.at, count));
        let counted = if cohort.has_session { &mut served.resumed } else { &mut served.full };
        *counted += count;
    }
}

/// The least time that is distinguished.
const LEAST_S: f64 = 1e-4;
const STEP: f64 = 1.05;

/// Buckets up to an hour.
const BUCKETS: usize = 360;

#[derive(Clone, Debug)]
pub(super) struct WaitHistogram {
    counts: Vec<u64>,
    sum_s: f64,
}

impl Default for WaitHistogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], sum_s: 0.0 }
    }
}

impl WaitHistogram {
    /// Connections that waited as long in a queue, and then as the worker's median, 95th and 99th
    /// percentile say.
    pub(super) fn add(&mut self, queue_s: f64, quantiles: [f64; 3], count: u64) {
        let tail = count / 50;
        let upper = count * 9 / 20;
        for (own, part) in quantiles.into_iter().zip([count - upper - tail, upper, tail]) {
            let wait = queue_s + own;
            let place = ((wait / LEAST_S).max(1.0).ln() / STEP.ln()) as usize;
            self.counts[place.min(BUCKETS - 1)] += part;
            self.sum_s += wait * part as f64;
        }
    }

    /// The mean, the median, the 99th percentile and the greatest; 0 if there are none.
    pub(super) fn summary_s(&self) -> [f64; 4] {
        let all: u64 = self.counts.iter().sum();
        if all == 0 {
            return [0.0; 4];
        }
        let upper = |place: usize| LEAST_S * STEP.powi(place as i32 + 1);
        let at = |share: f64| {
            let mut left = (all as f64 * share).ceil() as u64;
            let place = self.counts.iter().position(|count| {
                left = left.saturating_sub(*count);
                left == 0
            });
            place.map_or(0.0, upper)
        };
        [self.sum_s / all as f64, at(0.5), at(0.99), at(1.0)]
    }
}
