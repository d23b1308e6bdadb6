//! How load arrives: one of closed, even, ramp, steps or search, and for how long.

use std::time::Duration;

use super::fault::Faults;
use super::limit::Search;
use super::settings::Options;
use super::value::Ramp;
use crate::plan::{Spacing, Stretch};

/// How load arrives; the connections of closed load depend on the threads and come later.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arriving {
    /// Stretches of open load; `None` = closed.
    pub(crate) stretches: Option<Vec<Stretch>>,
    pub(crate) spacing: Spacing,
    pub(crate) session_arrivals: bool,
    pub(crate) duration: Duration,
    pub(crate) search: Option<Search>,
}

const DURATION_DEFAULT: Duration = Duration::from_secs(10);
const STEP_DURATION_DEFAULT: Duration = Duration::from_secs(5);

/// Where only a count was asked for: a server that has died must not hold us for ever.
const COUNTED_DURATION_MAX: Duration = Duration::from_secs(3600);

/// Where a search begins.
const FIRST_RATE_PER_S: f64 = 100.0;

/// Of a search: its figures are told second by second.
const STEP_DURATION_MIN: Duration = Duration::from_secs(1);
const PRECISION_DEFAULT: f64 = 0.05;

/// How load arrives, with every contradiction noted.
pub(crate) fn arriving(options: &Options, faults: &mut Faults) -> Arriving {
    check_ways(options, faults);
    check_companions(options, faults);
    let duration = options.duration.unwrap_or(match options.count {
        Some(_) => COUNTED_DURATION_MAX,
        None => DURATION_DEFAULT,
    });
    let spacing = options.spacing.unwrap_or(Spacing::Constant);
    let session_arrivals = options.session_arrivals;
    let of = |stretches: Vec<Stretch>| Arriving {
        duration: stretches.iter().map(|stretch| stretch.length).sum(),
        stretches: Some(stretches),
        spacing,
        session_arrivals,
        search: None,
    };
    let step = options.step_duration.unwrap_or(STEP_DURATION_DEFAULT);
    if options.find_capacity {
        let search = search(options, step);
        return Arriving {
            search: Some(search),
            ..of(vec![even(search.first_per_s, step)])
        };
    }
    if let Some(ramp) = options.ramp {
        return of(ramp_stretches(ramp, options.duration, faults));
    }
    if !options.steps_per_s.is_empty() {
        let steps = options.steps_per_s.iter();
        return of(steps.map(|rate| even(*rate, step)).collect());
    }
    if let Some(rate_per_s) = options.rate_per_s {
        return of(vec![even(rate_per_s, duration)]);
    }
    Arriving {
        stretches: None,
        spacing,
        session_arrivals,
        duration,
        search: None,
    }
}

fn even(rate_per_s: f64, length: Duration) -> Stretch {
    Stretch {
        length,
        from_per_s: rate_per_s,
        to_per_s: rate_per_s,
    }
}

fn search(options: &Options, step: Duration) -> Search {
    Search {
        limit: options.limit.unwrap_or_default(),
        precision: options.precision.unwrap_or(PRECISION_DEFAULT),
        first_per_s: options.rate_per_s.unwrap_or(FIRST_RATE_PER_S),
        step,
    }
}

fn ramp_stretches(ramp: Ramp, duration: Option<Duration>, faults: &mut Faults) -> Vec<Stretch> {
    let rest = duration.map(|duration| duration.checked_sub(ramp.time));
    faults.add_if(
        rest == Some(None),
        "duration",
        "ends before the ramp does",
        "a longer --duration, a shorter ramp, or no --duration",
    );
    let mut stretches = vec![Stretch {
        length: ramp.time,
        from_per_s: ramp.from_per_s,
        to_per_s: ramp.to_per_s,
    }];
    if let Some(rest) = rest.flatten().filter(|rest| !rest.is_zero()) {
        stretches.push(even(ramp.to_per_s, rest));
    }
    stretches
}

/// Refuses two ways at once.
fn check_ways(options: &Options, faults: &mut Faults) {
    let open = [
        ("find-capacity", options.find_capacity),
        ("ramp", options.ramp.is_some()),
        ("steps", !options.steps_per_s.is_empty()),
        // The first rate of a search, where there is one.
        (
            "rate",
            options.rate_per_s.is_some() && !options.find_capacity,
        ),
    ];
    let mut ways = open
        .iter()
        .filter(|(_, given)| *given)
        .map(|(name, _)| *name);
    let Some(way) = ways.next() else {
        return;
    };
    for other in ways {
        faults.add(
            other,
            format!("stands beside --{way}, and load arrives in one way"),
            "leave out one of the two",
        );
    }
    faults.add_if(
        options.connections.is_some(),
        "connections",
        format!("is of closed load, and --{way} is open load"),
        "--clients N bounds how many transactions can be under way",
    );
}

/// Refuses what has nothing to say in the way that load arrives.
fn check_companions(options: &Options, faults: &mut Faults) {
    let (has_steps, search) = (!options.steps_per_s.is_empty(), options.find_capacity);
    let is_open = options.rate_per_s.is_some() || options.ramp.is_some() || has_steps || search;
    faults.add_if(
        options.spacing.is_some() && !is_open,
        "spacing",
        "is of open load, and this load is closed",
        "--rate R makes it open",
    );
    faults.add_if(
        options.session_arrivals && !is_open,
        "session-arrivals",
        "needs planned instants, and this load is closed",
        "--rate R makes it open",
    );
    faults.add_if(
        options.step_duration.is_some() && !has_steps && !search,
        "step-duration",
        "there are no steps",
        "--steps R,R,R or --find-capacity",
    );
    faults.add_if(
        search
            && options
                .step_duration
                .is_some_and(|time| time < STEP_DURATION_MIN),
        "step-duration",
        "is too short to tell a rate by",
        "a second or more",
    );
    for (name, is_given) in [
        ("limit", options.limit.is_some()),
        ("precision", options.precision.is_some()),
    ] {
        faults.add_if(
            is_given && !search,
            name,
            "is of a search, and nothing is searched",
            "--find-capacity",
        );
    }
    faults.add_if(
        options.duration.is_some() && (has_steps || search),
        "duration",
        "follows from the steps",
        "--step-duration says how long each of them lasts",
    );
    faults.add_if(
        options.count.is_some() && search,
        "count",
        "a search tries each rate for a time",
        "--step-duration says for how long",
    );
    let from_nothing = options.ramp.is_some_and(|ramp| ramp.from_per_s == 0.0);
    let warms = options.warm_up.is_some_and(|time| !time.is_zero());
    faults.add_if(
        from_nothing && warms,
        "warm-up",
        "runs at the first rate, and the ramp begins with none",
        "a ramp from 1 or more, or no --warm-up",
    );
}
