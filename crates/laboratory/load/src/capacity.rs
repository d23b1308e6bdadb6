//! Searches for the greatest rate that keeps a limit: each trial of a rate is a separate run.

use measure::capacity::{RatePoint, ReadOffs};
use measure::record::{CapacitySearch, RunEnding};

use crate::options::{CapacityLimit, Search};
use crate::outcome::LoadOutcome;
use crate::plan::{ArrivalModel, ClientSelection, Clients, LoadPlan, Stretch};

/// Maximum of trials: doubling from 1 to a million and halving the rest fits twice.
const RATES_MAX: usize = 60;

/// Least rate to try, in transactions a second.
const RATE_MIN_PER_S: f64 = 0.5;

/// Factor of the greatest rate until the server does not follow.
const GROWTH: f64 = 2.0;

#[derive(Debug)]
pub struct Finder {
    plan: LoadPlan,
    search: Search,
    points: Vec<RatePoint>,
    whole: LoadOutcome,
}

impl Finder {
    /// Begins a search by a plan whose rate and duration the search sets.
    pub fn new(plan: LoadPlan, search: Search) -> Self {
        Self { plan, search, points: Vec::new(), whole: LoadOutcome::default() }
    }

    /// Returns the load to run next; `None` if the search is over.
    pub fn next_plan(&self) -> Option<LoadPlan> {
        let is_stopped = self.whole.ending == RunEnding::Interrupted;
        if is_stopped || self.points.len() >= RATES_MAX {
            return None;
        }
        let rate = next_rate(&self.points, &self.search)?;
        let ArrivalModel::Open { spacing, session_arrivals, .. } = self.plan.arrival else {
            return None;
        };
        Some(LoadPlan {
            arrival: ArrivalModel::Open {
                stretches: vec![Stretch {
                    length: self.search.step,
                    from_per_s: rate,
                    to_per_s: rate,
                }],
                spacing,
                session_arrivals,
            },
            duration: self.search.step,
            // Clients are new for each rate, and so are their sessions.
            warm_up: self.plan.warm_up.max(self.search.step / 4),
            clients: self.clients(rate),
            ..self.plan.clone()
        })
    }

    /// Returns the clients of a rate: as few as the load needs if connections are reused; for
    /// arriving clients, enough for answers that take a second, because their number must not be
    /// the limit.
    fn clients(&self, rate_per_s: f64) -> Clients {
        let clients = self.plan.clients;
        let has_session_arrivals = self.plan.requests_per_arrival().is_some();
        if clients.selection == ClientSelection::Fewest || has_session_arrivals {
            Clients { count: clients.count.max(rate_per_s as u32), ..clients }
        } else {
            clients
        }
    }

    pub fn take(&mut self, plan: &LoadPlan, outcome: LoadOutcome) {
        let quantile = self.search.limit.quantile();
        let point = RatePoint {
            offered_per_s: plan.arrival.first_per_s(),
            ..outcome.point_over(self.search.step, quantile)
        };
        if outcome.ending == RunEnding::Completed {
            self.points.push(point);
        }
        self.whole.append(outcome, self.search.step, point);
    }

    /// Returns the finding, with all measurements made on the way.
    pub fn finish(self) -> (LoadOutcome, CapacitySearch) {
        let mut points = self.points;
        points.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
        let bounds = Bounds::of(&points, &self.search.limit);
        let capacity = CapacitySearch {
            limit: self.search.limit,
            precision: self.search.precision,
            found_per_s: bounds.kept.map(|tried| tried.succeeded_per_s),
            broken_at_per_s: bounds.broken.map(|tried| tried.offered_per_s),
            kept_by_all_per_s: bounds.certain[0],
            broken_by_all_per_s: bounds.certain[1],
            read_offs: ReadOffs::of(&points),
        };
        (self.whole, capacity)
    }
}

/// Trials of the two deciding rates: the majority of each counts, so that one disturbed trial does
/// not. Multiple Loss Ratio Search (draft-ietf-bmwg-mlrsearch), the source of this conditional
/// throughput, repeats trials in the same way until a load's classification holds.
const TRIALS: usize = 3;

/// All trials of a rate.
#[derive(Clone, Copy, Debug)]
struct TriedRate {
    offered_per_s: f64,
    /// Least rate of successes of the trials that kept the limit; 0 without any.
    succeeded_per_s: f64,
    trials: usize,
    kept: usize,
}

impl TriedRate {
    /// Returns every rate once, in order.
    fn all(points: &[RatePoint], limit: &CapacityLimit) -> Vec<Self> {
        let mut sorted: Vec<&RatePoint> = points.iter().collect();
        sorted.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
        let rates = sorted.chunk_by(|a, b| a.offered_per_s == b.offered_per_s);
        let tried = rates.map(|trials| {
            let kept = trials.iter().filter(|point| limit.is_kept_by(point));
            let succeeded = kept.clone().map(|point| point.succeeded_per_s);
            Self {
                offered_per_s: trials[0].offered_per_s,
                succeeded_per_s: succeeded.min_by(f64::total_cmp).unwrap_or(0.0),
                trials: trials.len(),
                kept: kept.count(),
            }
        });
        tried.collect()
    }

    fn is_kept(&self) -> bool {
        2 * self.kept > self.trials
    }
}

/// The greatest rate that kept the limit, and the least that broke it, by the majority of their
/// trials. If a rate broke it below one that kept it, the lower one counts, so that the answer errs
/// on the safe side.
struct Bounds {
    kept: Option<TriedRate>,
    broken: Option<TriedRate>,
    /// Greatest rate up to which every trial kept the limit, and the least from which none did.
    certain: [Option<f64>; 2],
}

impl Bounds {
    fn of(points: &[RatePoint], limit: &CapacityLimit) -> Self {
        let tried = TriedRate::all(points, limit);
        let kept = tried.iter().take_while(|rate| rate.is_kept()).last();
        let by_all = tried.iter().take_while(|rate| rate.kept == rate.trials).last();
        let by_none = tried.iter().rev().take_while(|rate| rate.kept == 0).last();
        Self {
            kept: kept.copied(),
            broken: tried.iter().find(|rate| !rate.is_kept()).copied(),
            certain: [by_all, by_none].map(|rate| rate.map(|rate| rate.offered_per_s)),
        }
    }
}

/// Share of the offered rate that the server must fall below before the search stops overloading
/// it, so that its peak is visible.
const FOLLOWS_MIN: f64 = 0.8;

/// Reports whether a rate is beyond all rates to be read off.
fn is_saturated(point: &RatePoint) -> bool {
    point.succeeded_per_s < point.offered_per_s * FOLLOWS_MIN
}

/// Returns the rate to try next: up by doubling until the server does not follow, down by halving,
/// then between.
fn next_rate(points: &[RatePoint], search: &Search) -> Option<f64> {
    let by_rate = |a: &&RatePoint, b: &&RatePoint| a.offered_per_s.total_cmp(&b.offered_per_s);
    let Some(top) = points.iter().max_by(by_rate) else {
        return Some(search.first_per_s);
    };
    if !is_saturated(top) {
        return Some(top.offered_per_s * GROWTH);
    }
    let bounds = Bounds::of(points, &search.limit);
    let rate = |tried: TriedRate| tried.offered_per_s;
    match (bounds.kept.map(rate), bounds.broken.map(rate)) {
        (None, Some(broken)) if broken / GROWTH >= RATE_MIN_PER_S => Some(broken / GROWTH),
        (Some(kept), Some(broken)) if broken > kept * (1.0 + search.precision) => {
            Some((kept * broken).sqrt())
        }
        _ => {
            let deciding = [bounds.kept, bounds.broken].into_iter().flatten();
            deciding.filter(|tried| tried.trials < TRIALS).map(rate).next()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn search(first_per_s: f64) -> Search {
        Search {
            limit: CapacityLimit::default(),
            precision: 0.05,
            first_per_s,
            step: Duration::from_secs(1),
        }
    }

    /// Makes the point of a server that keeps the limit up to a rate.
    fn measured(rate: f64, capacity: f64) -> RatePoint {
        let is_over = rate > capacity;
        RatePoint {
            offered_per_s: rate,
            succeeded_per_s: rate.min(capacity),
            error_rate: if is_over { 1.0 - capacity / rate } else { 0.0 },
            mean_ns: if is_over { 1e9 } else { 1e6 },
            quantile_ns: 2e6,
        }
    }

    fn found(first_per_s: f64, capacity: f64) -> (Option<f64>, usize) {
        let search = search(first_per_s);
        let mut points = Vec::new();
        while let Some(rate) = next_rate(&points, &search) {
            points.push(measured(rate, capacity));
            assert!(points.len() < RATES_MAX, "{points:?}");
        }
        let kept = Bounds::of(&points, &search.limit).kept;
        (kept.map(|point| point.offered_per_s), points.len())
    }

    #[test]
    fn the_capacity_is_found_from_below_and_above() {
        for first in [1.0, 100.0, 50_000.0] {
            for capacity in [7.3, 812.0, 9000.0] {
                let (kept, rates) = found(first, capacity);
                let kept = kept.unwrap();
                assert!(kept <= capacity && kept * 1.05 >= capacity, "{kept} of {capacity}");
                assert!(rates < 30, "{rates}");
            }
        }
    }

    #[test]
    fn a_server_that_does_nothing_has_none() {
        let (kept, rates) = found(100.0, 0.0);
        assert_eq!(kept, None);
        assert!(rates < 15);
    }

    /// One trial is disturbed, and breaks the limit whatever the rate.
    #[test]
    fn a_disturbed_trial_is_outvoted() {
        for disturbed in 0..8 {
            let search = search(100.0);
            let mut points: Vec<RatePoint> = Vec::new();
            while let Some(rate) = next_rate(&points, &search) {
                let is_disturbed = points.len() == disturbed;
                points.push(measured(rate, if is_disturbed { rate / 1.2 } else { 812.0 }));
                assert!(points.len() < RATES_MAX, "{points:?}");
            }
            let bounds = Bounds::of(&points, &search.limit);
            let (kept, broken) = (bounds.kept.unwrap(), bounds.broken.unwrap());
            assert!((770.0..=812.0).contains(&kept.offered_per_s), "{disturbed}: {kept:?}");
            assert!(kept.trials >= TRIALS && broken.trials >= TRIALS, "{kept:?} {broken:?}");
            let [by_all, by_none] = bounds.certain.map(Option::unwrap);
            assert!(by_all <= kept.offered_per_s && by_none >= broken.offered_per_s);
        }
    }

    #[test]
    fn a_rate_that_broke_below_one_that_kept_counts() {
        let points = [measured(100.0, 1e9), measured(200.0, 0.0), measured(400.0, 1e9)];
        let bounds = Bounds::of(&points, &CapacityLimit::default());
        assert_eq!(bounds.kept.unwrap().offered_per_s, 100.0);
        assert_eq!(bounds.broken.unwrap().offered_per_s, 200.0);
    }
}
