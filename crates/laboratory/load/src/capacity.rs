//! The search for the greatest rate that keeps a limit: each rate is a run of its own.

use measure::capacity::{RatePoint, ReadOffs};
use measure::record::{CapacitySearch, RunEnding};

use crate::options::{CapacityLimit, Search};
use crate::outcome::LoadOutcome;
use crate::plan::{ArrivalModel, ClientSelection, Clients, LoadPlan, Stretch};

/// Rates tried at most: doubling from 1 to a million and halving the rest fits twice.
const RATES_MAX: usize = 60;

/// No rate below this is tried, transactions a second.
const RATE_MIN_PER_S: f64 = 0.5;

/// The greatest rate is doubled until the server does not follow.
const GROWTH: f64 = 2.0;

#[derive(Debug)]
pub struct Finder {
    plan: LoadPlan,
    search: Search,
    points: Vec<RatePoint>,
    whole: LoadOutcome,
}

impl Finder {
    /// A search by a plan whose rate and duration the search sets.
    #[must_use]
    pub fn new(plan: LoadPlan, search: Search) -> Self {
        Self { plan, search, points: Vec::new(), whole: LoadOutcome::default() }
    }

    /// The load to run next; `None` = the search is over.
    #[must_use]
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

    /// As few clients take part as the load needs where connections are reused, and of arriving
    /// clients, there are enough for answers that take a second: their number is not to be the
    /// limit.
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

    /// The finding, with all that was measured on the way.
    #[must_use]
    pub fn finish(self) -> (LoadOutcome, CapacitySearch) {
        let mut points = self.points;
        points.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
        let bounds = Bounds::of(&points, &self.search.limit);
        let capacity = CapacitySearch {
            limit: self.search.limit,
            precision: self.search.precision,
            found_per_s: bounds.kept.map(|point| point.succeeded_per_s),
            broken_at_per_s: bounds.broken.map(|point| point.offered_per_s),
            read_offs: ReadOffs::of(&points),
        };
        (self.whole, capacity)
    }
}

/// The greatest rate that kept the limit, and the least that broke it. Noise may let a rate fail
/// below one that holds: then the lower one counts, so that the answer errs on the safe side.
struct Bounds {
    kept: Option<RatePoint>,
    broken: Option<RatePoint>,
}

impl Bounds {
    fn of(points: &[RatePoint], limit: &CapacityLimit) -> Self {
        let rate = |point: &&RatePoint| point.offered_per_s;
        let by_rate = |a: &&RatePoint, b: &&RatePoint| rate(a).total_cmp(&rate(b));
        let broken = points.iter().filter(|point| !limit.is_kept_by(point)).min_by(by_rate);
        let below =
            |point: &&RatePoint| broken.is_none_or(|broken| rate(point) < broken.offered_per_s);
        let kept =
            points.iter().filter(|point| limit.is_kept_by(point)).filter(below).max_by(by_rate);
        Self { kept: kept.copied(), broken: broken.copied() }
    }
}

/// Beyond its limit a server is loaded on until it gives less than this share of what is asked:
/// so its peak is seen.
const FOLLOWS_MIN: f64 = 0.8;

/// Whether a rate is beyond everything that is to be read off.
fn is_saturated(point: &RatePoint) -> bool {
    point.succeeded_per_s < point.offered_per_s * FOLLOWS_MIN
}

/// The rate to try next: up by doubling until the server does not follow, down by halving, then
/// between.
fn next_rate(points: &[RatePoint], search: &Search) -> Option<f64> {
    let by_rate = |a: &&RatePoint, b: &&RatePoint| a.offered_per_s.total_cmp(&b.offered_per_s);
    let Some(top) = points.iter().max_by(by_rate) else {
        return Some(search.first_per_s);
    };
    if !is_saturated(top) {
        return Some(top.offered_per_s * GROWTH);
    }
    let bounds = Bounds::of(points, &search.limit);
    let rate = |point: RatePoint| point.offered_per_s;
    match (bounds.kept.map(rate), bounds.broken.map(rate)) {
        (None, Some(broken)) if broken / GROWTH >= RATE_MIN_PER_S => Some(broken / GROWTH),
        (Some(kept), Some(broken)) if broken > kept * (1.0 + search.precision) => {
            Some((kept * broken).sqrt())
        }
        _ => None,
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

    /// A server that keeps the limit up to a rate.
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
        assert!(rates < 12);
    }

    #[test]
    fn a_rate_that_broke_below_one_that_kept_counts() {
        let points = [measured(100.0, 1e9), measured(200.0, 0.0), measured(400.0, 1e9)];
        let bounds = Bounds::of(&points, &CapacityLimit::default());
        assert_eq!(bounds.kept.unwrap().offered_per_s, 100.0);
        assert_eq!(bounds.broken.unwrap().offered_per_s, 200.0);
    }
}
