//! A node: what waits at it, and in which order it is served.

use std::collections::VecDeque;

use measure::simulated::SimulatedNode;

use super::settings::FarmSettings;

/// CPU time of refusing a connection, to that of a full one: a server that sheds keeps 94 to 96 %
/// of its capacity at five times as much (docs/reports/2026-11-24-overload).
const REFUSAL: f64 = 0.015;

/// The part of the time that a server that sheds keeps for clients without a session.
const KEPT_FOR_FULL: f64 = 0.125;

/// Connections that came together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cohort {
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
    queue: VecDeque<Cohort>,
    pub(super) told: SimulatedNode,
}

/// The work of a tick.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    pub(super) full: u64,
    pub(super) resumed: u64,
    /// To its capacity; 1 where something was left.
    pub(super) work: f64,
    pub(super) wasted_s: f64,
    /// Ticks in the queue, and how many.
    pub(super) waits: Vec<(u64, u64)>,
    /// Clients that gave up in this tick.
    pub(super) gone: Vec<Cohort>,
}

impl FarmNode {
    pub(super) fn push(&mut self, at: u64, has_session: bool, attempt: usize, count: u64) {
        self.queue.push_back(Cohort { at, has_session, attempt, count, is_gone: false });
    }

    pub(super) fn waiting(&self) -> u64 {
        self.queue.iter().map(|cohort| cohort.count).sum()
    }

    /// Connections whose client still waits.
    pub(super) fn waiting_clients(&self) -> u64 {
        self.queue.iter().filter(|cohort| !cohort.is_gone).map(|cohort| cohort.count).sum()
    }

    /// Connections of a node that dies, but for those whose clients are gone.
    pub(super) fn take_queue(&mut self) -> Vec<Cohort> {
        self.queue.drain(..).filter(|cohort| !cohort.is_gone).collect()
    }

    pub(super) fn serve(
        &mut self,
        now: u64,
        capacity_s: f64,
        ticks_per_s: u64,
        settings: &FarmSettings,
    ) -> Served {
        let mut served = Served::default();
        let patience = (settings.patience_s * ticks_per_s as f64).round().max(1.0) as u64;
        for cohort in self.queue.iter_mut().filter(|it| !it.is_gone && now >= it.at + patience) {
            cohort.is_gone = true;
            served.gone.push(*cohort);
        }
        let mut left_s = capacity_s;
        if settings.sheds {
            self.refuse(&mut left_s, settings, &mut served);
            let full: f64 = self.work_of(false, settings);
            let kept = full.min(capacity_s * KEPT_FOR_FULL);
            let mut for_resumed = (left_s - kept).max(0.0);
            left_s -= for_resumed;
            self.serve_latest(true, now, &mut for_resumed, settings, &mut served);
            left_s += for_resumed;
            self.serve_latest(false, now, &mut left_s, settings, &mut served);
            self.serve_latest(true, now, &mut left_s, settings, &mut served);
        } else {
            self.serve_in_turn(now, &mut left_s, settings, &mut served);
        }
        self.queue.retain(|cohort| cohort.count > 0);
        served.work = if capacity_s > 0.0 { 1.0 - left_s / capacity_s } else { 1.0 };
        served
    }

    fn work_of(&self, has_session: bool, settings: &FarmSettings) -> f64 {
        let own = self.queue.iter().filter(|cohort| cohort.has_session == has_session);
        own.map(|cohort| cohort.count as f64 * cost_s(cohort, settings)).sum()
    }

    fn refuse(&mut self, left_s: &mut f64, settings: &FarmSettings, served: &mut Served) {
        for cohort in self.queue.iter_mut().filter(|cohort| cohort.is_gone) {
            let cost = cohort.count as f64 * settings.full_s * REFUSAL;
            served.wasted_s += cost;
            *left_s = (*left_s - cost).max(0.0);
            cohort.count = 0;
        }
    }

    fn serve_in_turn(
        &mut self,
        now: u64,
        left_s: &mut f64,
        settings: &FarmSettings,
        served: &mut Served,
    ) {
        for cohort in &mut self.queue {
            serve_one(cohort, now, left_s, settings, served);
            if cohort.count > 0 {
                return;
            }
        }
    }

    fn serve_latest(
        &mut self,
        has_session: bool,
        now: u64,
        left_s: &mut f64,
        settings: &FarmSettings,
        served: &mut Served,
    ) {
        let own = self.queue.iter_mut().rev().filter(|cohort| cohort.has_session == has_session);
        for cohort in own {
            serve_one(cohort, now, left_s, settings, served);
        }
    }
}

fn cost_s(cohort: &Cohort, settings: &FarmSettings) -> f64 {
    if cohort.has_session { settings.resumed_s } else { settings.full_s }
}

/// As many of a cohort as the time is enough for. Time that is left for a part of one is spent on
/// it, so that no time is lost to rounding.
fn serve_one(
    cohort: &mut Cohort,
    now: u64,
    left_s: &mut f64,
    settings: &FarmSettings,
    served: &mut Served,
) {
    let each = cost_s(cohort, settings);
    if *left_s <= 0.0 || cohort.count == 0 {
        return;
    }
    let count = ((*left_s / each).ceil() as u64).min(cohort.count);
    *left_s -= count as f64 * each;
    cohort.count -= count;
    if cohort.is_gone {
        served.wasted_s += count as f64 * each;
        return;
    }
    served.waits.push((now - cohort.at, count));
    let counted = if cohort.has_session { &mut served.resumed } else { &mut served.full };
    *counted += count;
}
