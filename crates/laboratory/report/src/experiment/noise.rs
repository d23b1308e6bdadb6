//! Doubts about the readings of a scenario: noise, a client at its limit, cells read too seldom.

use std::collections::BTreeMap;

use measure::experiment::Reading;

use super::limits::{BUSY_MIN, FOREIGN_JUDGED_MAX, busy, is_quiet};
use super::study::{Case, Entry, Group, way};
use super::words::listed;

/// A larger share of CPU time that went elsewhere is told.
const FOREIGN_MAX: f64 = 0.05;

/// A larger share of CPU time that the hypervisor took is told.
const STOLEN_MAX: f64 = 0.02;

/// All of them, a sentence each.
pub(crate) fn doubts(case: &Case<'_>) -> Vec<String> {
    let readings: Vec<&Reading> = case
        .entries()
        .flat_map(|(_, entry)| entry.readings.values().copied())
        .collect();
    let mut doubts = Vec::new();
    doubts.extend(shared(&readings));
    doubts.extend(idle_servers(case));
    doubts.extend(share(
        &readings,
        FOREIGN_MAX,
        |reading| reading.noise.foreign,
        "went to other work on this host",
    ));
    doubts.extend(left_out(&readings));
    doubts.extend(share(
        &readings,
        STOLEN_MAX,
        |reading| reading.noise.stolen,
        "was taken by the hypervisor",
    ));
    doubts.extend(warnings(&readings));
    doubts.extend(missed(case));
    doubts
}

fn shared(readings: &[&Reading]) -> Option<String> {
    let shared = readings
        .iter()
        .filter(|reading| reading.noise.is_shared)
        .count();
    (shared > 0).then(|| {
        format!(
            "in {shared} of {} readings server and client had to share CPUs: rates tell of both, \
             CPU times of the server alone",
            readings.len()
        )
    })
}

fn share(readings: &[&Reading], max: f64, of: fn(&Reading) -> f64, what: &str) -> Option<String> {
    let shares = readings.iter().map(|reading| of(reading));
    let above: Vec<f64> = shares.filter(|share| *share > max).collect();
    let most = above.iter().copied().reduce(f64::max)?;
    Some(format!(
        "in {} of {} readings more than {:.0} % of CPU time {what}, at most {:.0} %: rates suffer; \
         CPU times less",
        above.len(),
        readings.len(),
        max * 100.0,
        most * 100.0
    ))
}

/// Readings too noisy to be judged.
fn left_out(readings: &[&Reading]) -> Option<String> {
    let count = readings.iter().filter(|it| !is_quiet(it)).count();
    (count > 0).then(|| {
        format!(
            "{count} of {} readings are left out of all judgements and gains: more than {:.0} % of \
             CPU time went to other work",
            readings.len(),
            FOREIGN_JUDGED_MAX * 100.0
        )
    })
}

/// Where a closed load did not fill the server, its rate tells of the client.
fn idle_servers(case: &Case<'_>) -> Option<String> {
    if !case.yardsticks.iter().any(|it| it.depends_on_load()) {
        return None;
    }
    let mut cells: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut least = 1.0_f64;
    for (group, entry) in case.entries() {
        let Some(busy) = busy(entry) else { continue };
        if busy < BUSY_MIN {
            least = least.min(busy);
            cells
                .entry(entry.target.name.clone())
                .or_default()
                .push(group.title());
        }
    }
    let named = |(target, groups): (&String, &Vec<String>)| match groups.len() {
        all if all == case.groups.len() => target.clone(),
        _ => named(target, groups),
    };
    let names: Vec<String> = cells.iter().map(named).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the server was not at its limit (its CPUs busy {:.0} % or less; {:.0} % at the \
             least) with {}: these rates and response times tell of the client or the \
             origin",
            BUSY_MIN * 100.0,
            least * 100.0,
            listed(&names)
        )
    })
}

fn named(target: &str, groups: &[String]) -> String {
    let groups: Vec<&str> = groups
        .iter()
        .map(String::as_str)
        .filter(|it| !it.is_empty())
        .collect();
    match groups.is_empty() {
        true => target.to_owned(),
        false => format!("{target} ({})", groups.join(", ")),
    }
}

/// What the load said about itself, once for each remedy.
fn warnings(readings: &[&Reading]) -> Vec<String> {
    let mut told: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for warning in readings.iter().flat_map(|reading| &reading.warnings) {
        let entry = told.entry(&warning.hint).or_insert((0, &warning.seen));
        entry.0 += 1;
    }
    let say = |(hint, (count, seen)): (&&str, &(usize, &str))| {
        format!("{count} of {} readings: {seen}; {hint}", readings.len())
    };
    told.iter().map(say).collect()
}

/// Cells of which some repeats have no reading; those without any say why in the table.
fn missed(case: &Case<'_>) -> Vec<String> {
    let partly = case
        .entries()
        .filter(|(_, entry)| !entry.readings.is_empty() && !entry.misses.is_empty());
    let say = |(group, entry): (&Group<'_>, &Entry<'_>)| {
        let last = entry.misses.last()?;
        Some(format!(
            "{}: {} of {} repeats {}: {}",
            named(&entry.target.name, &[group.title()]),
            entry.misses.len(),
            case.scenario.repeats,
            way(last.way),
            last.why
        ))
    };
    partly.filter_map(say).collect()
}
