//! Warnings that make the measurements of a scenario doubtful: noise, a client at its limit,
//! failures.

use std::collections::BTreeMap;

use measure::experiment::Measurement;

use super::comparison::{BUSY_MIN, busy};
use super::study::{Combination, Study, StudyEntry};
use crate::document::ReportWarning;
use crate::words::{joined, listed};

/// A larger share of CPU time that went elsewhere is reported.
const FOREIGN_MAX: f64 = 0.05;

/// A larger share of CPU time that the hypervisor took is reported.
const STOLEN_MAX: f64 = 0.02;

pub(crate) fn warnings(study: &Study<'_>) -> Vec<ReportWarning> {
    let measurements: Vec<&Measurement> =
        study.entries().flat_map(|(_, entry)| entry.measurements.values().copied()).collect();
    let mut all = Vec::new();
    all.extend(shared(&measurements));
    all.extend(idle_servers(study));
    all.extend(share(
        &measurements,
        FOREIGN_MAX,
        |measurement| measurement.noise.foreign,
        "went to other work on this host",
    ));
    all.extend(share(
        &measurements,
        STOLEN_MAX,
        |measurement| measurement.noise.stolen,
        "was taken by the hypervisor",
    ));
    all.extend(of_load(&measurements));
    all.extend(failed(study));
    all.into_iter().map(ReportWarning::new).collect()
}

fn shared(measurements: &[&Measurement]) -> Option<String> {
    let shared = measurements.iter().filter(|measurement| measurement.noise.is_shared).count();
    (shared > 0).then(|| {
        format!(
            "in {shared} of {} measurements server and client had to share CPUs: rates are those of both, \
             CPU times of the server alone",
            measurements.len()
        )
    })
}

fn share(
    measurements: &[&Measurement],
    max: f64,
    of: fn(&Measurement) -> f64,
    what: &str,
) -> Option<String> {
    let shares = measurements.iter().map(|measurement| of(measurement));
    let above: Vec<f64> = shares.filter(|share| *share > max).collect();
    let most = above.iter().copied().reduce(f64::max)?;
    Some(format!(
        "in {} of {} measurements more than {:.0} % of CPU time {what}, at most {:.0} %: this \
         distorts rates more than CPU times, and all of them are compared",
        above.len(),
        measurements.len(),
        max * 100.0,
        most * 100.0
    ))
}

/// If a closed load did not fill the server, its rate is that of the client.
fn idle_servers(study: &Study<'_>) -> Option<String> {
    if study.scenario.end_to_end || !study.metrics.iter().any(|it| it.depends_on_load()) {
        return None;
    }
    let mut configurations: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut least = 1.0_f64;
    for (combination, entry) in study.entries() {
        let Some(busy) = busy(entry) else { continue };
        if busy < BUSY_MIN {
            least = least.min(busy);
            configurations.entry(entry.target.name.clone()).or_default().push(combination.title());
        }
    }
    let named = |(target, combinations): (&String, &Vec<String>)| match combinations.len() {
        all if all == study.combinations.len() => target.clone(),
        _ => named(target, combinations),
    };
    let names: Vec<String> = configurations.iter().map(named).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the server was not at its limit (its CPUs busy {:.0} % or less; {:.0} % at the \
             least) with {}: these rates and response times are those of the client or the \
             origin",
            BUSY_MIN * 100.0,
            least * 100.0,
            listed(&names)
        )
    })
}

fn named(target: &str, combinations: &[String]) -> String {
    let titles = joined(combinations, ", ");
    if titles.is_empty() { target.to_owned() } else { format!("{target} ({titles})") }
}

/// The load's own warnings, once for each remedy.
fn of_load(measurements: &[&Measurement]) -> Vec<String> {
    let mut seen: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for warning in measurements.iter().flat_map(|measurement| &measurement.warnings) {
        seen.entry(&warning.hint).or_insert((0, &warning.seen)).0 += 1;
    }
    let say = |(hint, (count, seen)): (&&str, &(usize, &str))| {
        format!("{count} of {} measurements: {seen}; {hint}", measurements.len())
    };
    seen.iter().map(say).collect()
}

/// Configurations of which some repeats have no measurement; of those without any, the table gives
/// the reason.
fn failed(study: &Study<'_>) -> Vec<String> {
    let partly = study
        .entries()
        .filter(|(_, entry)| !entry.measurements.is_empty() && !entry.failures.is_empty());
    let say = |(combination, entry): (&Combination<'_>, &StudyEntry<'_>)| {
        let last = entry.failures.last()?;
        Some(format!(
            "{}: {} of {} repeats {}: {}",
            named(&entry.target.name, &[combination.title()]),
            entry.failures.len(),
            study.scenario.repeats,
            last.kind.name(),
            last.why
        ))
    };
    partly.filter_map(say).collect()
}
