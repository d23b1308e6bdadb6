//! How load arrives: one of closed, even, ramp, steps or search, and for how long.

use std::time::Duration;

use options::Section;

use super::asked::Options;
use super::limit::Search;
use super::value::Ramp;
use crate::plan::Stretch;

/// How load arrives; the connections of closed load depend on the threads and come later.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arriving {
    /// Stretches of open load; `None` = closed.
    pub(crate) stretches: Option<Vec<Stretch>>,
    pub(crate) duration: Duration,
    pub(crate) search: Option<Search>,
}

const DURATION_DEFAULT: Duration = Duration::from_secs(10);
const STEP_DURATION_DEFAULT: Duration = Duration::from_secs(5);

/// Where only a count was asked for: a server that has died must not hold us for ever.
const COUNTED_DURATION_MAX: Duration = Duration::from_secs(3600);

const FIRST_RATE_PER_S: f64 = 100.0;

/// Of a search: its figures are told second by second.
const STEP_DURATION_MIN: Duration = Duration::from_secs(1);
const PRECISION_DEFAULT: f64 = 0.05;

/// How load arrives, with every contradiction noted.
pub(crate) fn arriving(options: &Options, top: &Section<'_>) -> Arriving {
    check(options, top);
    let duration = options.duration.unwrap_or(match options.count {
        Some(_) => COUNTED_DURATION_MAX,
        None => DURATION_DEFAULT,
    });
    let of = |stretches: Vec<Stretch>| Arriving {
        duration: stretches.iter().map(|stretch| stretch.length).sum(),
        stretches: Some(stretches),
        search: None,
    };
    let step = options.step_duration.unwrap_or(STEP_DURATION_DEFAULT);
    if options.find_capacity {
        let search = search(options, step);
        return Arriving { search: Some(search), ..of(vec![even(search.first_per_s, step)]) };
    }
    if let Some(ramp) = options.ramp {
        return of(ramp_stretches(ramp, options.duration, top));
    }
    if !options.steps_per_s.is_empty() {
        let steps = options.steps_per_s.iter();
        return of(steps.map(|rate| even(*rate, step)).collect());
    }
    if let Some(rate_per_s) = options.rate_per_s {
        return of(vec![even(rate_per_s, duration)]);
    }
    Arriving { stretches: None, duration, search: None }
}

fn even(rate_per_s: f64, length: Duration) -> Stretch {
    Stretch { length, from_per_s: rate_per_s, to_per_s: rate_per_s }
}

fn search(options: &Options, step: Duration) -> Search {
    Search {
        limit: options.limit.unwrap_or_default(),
        precision: options.precision.unwrap_or(PRECISION_DEFAULT),
        first_per_s: options.rate_per_s.unwrap_or(FIRST_RATE_PER_S),
        step,
    }
}

fn ramp_stretches(ramp: Ramp, duration: Option<Duration>, top: &Section<'_>) -> Vec<Stretch> {
    let rest = duration.map(|duration| duration.checked_sub(ramp.time));
    top.refuse_if(
        rest == Some(None),
        "duration",
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

/// Refuses what the way in which load arrives has no place for, beyond what the table excludes.
fn check(options: &Options, top: &Section<'_>) {
    let is_short = |time: Duration| time < STEP_DURATION_MIN;
    top.refuse_if(
        options.find_capacity && options.step_duration.is_some_and(is_short),
        "step-duration",
        "is too short to tell a rate by",
        "a second or more",
    );
    let from_nothing = options.ramp.is_some_and(|ramp| ramp.from_per_s == 0.0);
    top.refuse_if(
        from_nothing && !options.warm_up.is_zero(),
        "warm-up",
        "runs at the first rate, and the ramp begins with none",
        "a ramp from 1 or more, or no --warm-up",
    );
}
