//! Reads how load arrives: one of closed, even, ramp, steps or search, and for how long.

use std::time::Duration;

use super::value::{Ramp, Search};
use super::written::WrittenLoad;
use crate::plan::{ArrivalModel, Spacing, Stretch};

/// How load arrives; the connections of closed load depend on the threads and come later.
pub(crate) struct ArrivalOptions {
    pub(crate) model: ArrivalModel,
    pub(crate) duration: Duration,
    pub(crate) search: Option<Search>,
}

const DURATION_DEFAULT: Duration = Duration::from_secs(10);
const STEP_DURATION_DEFAULT: Duration = Duration::from_secs(5);

/// Longest run if only a count was requested: a dead server must not block the run for hours.
const COUNTED_DURATION_MAX: Duration = Duration::from_secs(3600);

const FIRST_RATE_PER_S: f64 = 100.0;

/// Shortest step of a search: its figures are counted second by second.
const STEP_DURATION_MIN: Duration = Duration::from_secs(1);
const PRECISION_DEFAULT: f64 = 0.05;

/// Reads how load arrives, and notes every contradiction.
pub(crate) fn arriving(load: &WrittenLoad<'_>) -> ArrivalOptions {
    check(load);
    let arrival = &load.arrival;
    let default = if arrival.count.is_written() { COUNTED_DURATION_MAX } else { DURATION_DEFAULT };
    let duration = arrival.duration.given().copied().unwrap_or(default);
    let step = arrival.step_duration.given().copied().unwrap_or(STEP_DURATION_DEFAULT);
    let search = load.search.find_capacity.is_on().then(|| search(load, step));
    let rate = arrival.rate.given();
    let stretches = match (search, arrival.ramp.given(), arrival.steps.elements()) {
        (Some(search), ..) => vec![even(search.first_per_s, step)],
        (None, Some(ramp), _) => ramp_stretches(load, *ramp),
        (None, None, []) => rate.map(|rate| even(*rate, duration)).into_iter().collect(),
        (None, None, rates) => rates.iter().map(|rate| even(*rate, step)).collect(),
    };
    if stretches.is_empty() {
        return ArrivalOptions { model: ArrivalModel::Closed { connections: 0 }, duration, search };
    }
    ArrivalOptions {
        duration: stretches.iter().map(|stretch| stretch.length).sum(),
        model: ArrivalModel::Open {
            stretches,
            spacing: arrival.spacing.given().copied().unwrap_or(Spacing::Constant),
            session_arrivals: arrival.session_arrivals.is_on(),
        },
        search,
    }
}

fn even(rate_per_s: f64, length: Duration) -> Stretch {
    Stretch { length, from_per_s: rate_per_s, to_per_s: rate_per_s }
}

fn search(load: &WrittenLoad<'_>, step: Duration) -> Search {
    Search {
        limit: load.search.limit.given().copied().unwrap_or_default(),
        precision: load.search.precision.given().copied().unwrap_or(PRECISION_DEFAULT),
        first_per_s: load.arrival.rate.given().copied().unwrap_or(FIRST_RATE_PER_S),
        step,
    }
}

fn ramp_stretches(load: &WrittenLoad<'_>, ramp: Ramp) -> Vec<Stretch> {
    let duration = &load.arrival.duration;
    let rest = duration.given().map(|duration| duration.checked_sub(ramp.time));
    duration.refuse_if(
        rest == Some(None),
        "ends before the ramp does",
        "a longer --duration, a shorter ramp, or no --duration",
    );
    let mut stretches =
        vec![Stretch { length: ramp.time, from_per_s: ramp.from_per_s, to_per_s: ramp.to_per_s }];
    if let Some(rest) = rest.flatten().filter(|rest| !rest.is_zero()) {
        stretches.push(even(ramp.to_per_s, rest));
    }
    stretches
}

/// Refuses options that do not fit the kind of arrival, beyond the exclusions of the table.
fn check(load: &WrittenLoad<'_>) {
    let arrival = &load.arrival;
    let is_short = arrival.step_duration.given().is_some_and(|time| *time < STEP_DURATION_MIN);
    arrival.step_duration.refuse_if(
        load.search.find_capacity.is_on() && is_short,
        "is too short to tell a rate by",
        "a second or more",
    );
    let from_nothing = arrival.ramp.given().is_some_and(|ramp| ramp.from_per_s == 0.0);
    arrival.warm_up.refuse_if(
        from_nothing && arrival.warm_up.value != Some(Duration::ZERO),
        "runs at the first rate, and the ramp begins with none",
        "a ramp from 1 or more, or no --warm-up",
    );
}
