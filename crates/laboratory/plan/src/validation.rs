//! Compares predictions with measurements that they did not use.
//!
//! - `implementations`: mixes of full handshakes and resumptions, from connections that were each
//!   measured separately in other scenarios
//! - `part-load`: CPU time from the other loads of the same program, or, at its least load, from
//!   the growth of other programs' costs; the p99 by the queue, from responses at the least load
//! - `overload`: goodput, by the farm of one node
//! - `scale-out`: shares that resumed in the worst second, by the farm
//!
//! `cores` needs CPUs for two workers besides those of the client: if they are shared, its rates do
//! not describe the server.

use std::collections::BTreeMap;

use measure::choice::Kind;
use measure::planned::ValidationRow;

use crate::cost::{BusyInflation, ConnectionKind, HostSpeeds, TargetCosts};
use crate::farm::replay;
use crate::observation::{Observation, mean};
use crate::queue::{DurationShape, WorkerQueue};

/// Promised bounds of errors, while a server is at most this busy.
const CPU_ERROR_MAX: f64 = 0.05;
const P99_ERROR_MAX: f64 = 0.30;
const BUSY_PROMISED: f64 = 0.80;

/// The bound of a difference of shares.
const SHARE_ERROR_MAX: f64 = 0.05;

/// Rounds of one configuration, in the order of the records.
type Rounds<'o> = BTreeMap<(&'o str, &'o str), Vec<&'o Observation>>;

/// Returns all rows for which these observations suffice.
pub fn validate(observations: &[Observation], speeds: &HostSpeeds) -> Vec<ValidationRow> {
    let mut rounds: Rounds<'_> = BTreeMap::new();
    for one in observations {
        rounds.entry((&one.scenario, &one.source)).or_default().push(one);
    }
    let mut rows = Vec::new();
    for ((scenario, _), rounds) in &rounds {
        match *scenario {
            "implementations" => rows.extend(mixed(rounds, observations, speeds)),
            "part-load" => rows.extend(part_load(rounds, observations)),
            "overload" => rows.extend(overload(rounds)),
            "scale-out" => rows.extend(scale_out(rounds)),
            _ => {}
        }
    }
    rows
}

/// Makes the row of a figure that is judged by its ratio, or, for shares, by the difference; `None`
/// if the measured figure is 0 and has no ratio.
fn row(
    rounds: &[&Observation],
    (metric, is_share, bound): (&str, bool, f64),
    predicted: f64,
    measured: &[f64],
    from: String,
) -> Option<ValidationRow> {
    let value = Some(mean(measured)).filter(|value| is_share || *value > 0.0)?;
    let error = if is_share { predicted - value } else { predicted / value - 1.0 };
    let least = measured.iter().copied().fold(f64::INFINITY, f64::min);
    let most = measured.iter().copied().fold(0.0, f64::max);
    let (record, _) = rounds[0].source.split_once(": ").unwrap_or_default();
    Some(ValidationRow {
        record: record.to_owned(),
        scenario: rounds[0].scenario.clone(),
        configuration: rounds[0].configuration.clone(),
        metric: metric.to_owned(),
        predicted,
        measured: value,
        measured_range: (least, most),
        busy: mean(&all(rounds, |one| one.busy)),
        error,
        is_within: error.abs() <= bound,
        from,
    })
}

fn all(rounds: &[&Observation], of: impl Fn(&Observation) -> f64) -> Vec<f64> {
    rounds.iter().map(|one| of(one)).collect()
}

const CPU: (&str, bool, f64) = ("CPU, µs", false, CPU_ERROR_MAX);

fn mixed(
    rounds: &[&Observation],
    observations: &[Observation],
    speeds: &HostSpeeds,
) -> Option<ValidationRow> {
    let first = rounds[0];
    let key = first.key?;
    let others: Vec<Observation> =
        observations.iter().filter(|one| one.scenario != first.scenario).cloned().collect();
    let costs = TargetCosts::new(&first.target, &others, speeds);
    let mut predicted = 0.0;
    let mut sources = Vec::new();
    for (kind, share) in &first.kinds {
        let group = first.group.clone().unwrap_or_default();
        let wanted = ConnectionKind { kind: *kind, is_tls13: first.is_tls13, key, group };
        let cost = costs.connection(&wanted).ok()?;
        predicted += share * cost.mean_us();
        sources.push(format!("{:.0} % {}", share * 100.0, cost.source));
    }
    let measured = all(rounds, |one| one.cpu_us);
    row(rounds, CPU, predicted, &measured, sources.join(" + "))
}

fn part_load(rounds: &[&Observation], observations: &[Observation]) -> Vec<ValidationRow> {
    let first = rounds[0];
    let own = |one: &&Observation| one.target == first.target && one.scenario == "part-load";
    let of_target: Vec<&Observation> = observations.iter().filter(own).collect();
    let by_busy = |a: &&&Observation, b: &&&Observation| a.busy.total_cmp(&b.busy);
    let (Some(lightest), Some(busiest)) =
        (of_target.iter().min_by(by_busy), of_target.iter().max_by(by_busy))
    else {
        return Vec::new();
    };
    if busiest.configuration == first.configuration {
        return Vec::new();
    }
    let busy = mean(&all(rounds, |one| one.busy));
    let is_lightest = lightest.configuration == first.configuration;
    let (factor, from) = if is_lightest {
        (
            others_factor(first, busy, observations),
            "its cost in full use, and how other programs grow dearer",
        )
    } else {
        let rest = of_target.iter().copied().filter(|one| one.configuration != first.configuration);
        (BusyInflation::of(rest).factor(busy), "its cost at less and at more load")
    };
    let is_busiest = |one: &&Observation| one.configuration == busiest.configuration;
    let full_use: Vec<&Observation> = of_target.iter().copied().filter(is_busiest).collect();
    let cpu_us = mean(&all(&full_use, |one| one.cpu_us)) * factor;
    let measured = all(rounds, |one| one.cpu_us);
    let of_cpu = row(rounds, CPU, cpu_us, &measured, from.to_owned());
    let has_tail = !is_lightest && busy <= BUSY_PROMISED;
    of_cpu.into_iter().chain(has_tail.then(|| tail(rounds, lightest, cpu_us)).flatten()).collect()
}

/// Returns the average factor by which the other programs' costs were higher at that load.
fn others_factor(first: &Observation, busy: f64, observations: &[Observation]) -> f64 {
    let mut targets: Vec<&str> = observations.iter().map(|one| one.target.as_str()).collect();
    targets.sort_unstable();
    targets.dedup();
    let others = targets.into_iter().filter(|target| *target != first.target);
    let factors = others.filter_map(|target| {
        let inflation = BusyInflation::of(observations.iter().filter(|one| one.target == target));
        inflation.is_known().then(|| inflation.factor(busy))
    });
    let factors: Vec<f64> = factors.collect();
    if factors.is_empty() { 1.0 } else { mean(&factors) }
}

/// Predicts the p99 of open load with the one client as a queue; its own CPU time is measured.
fn tail(rounds: &[&Observation], lightest: &Observation, cpu_us: f64) -> Option<ValidationRow> {
    let response = &lightest.measurement.response;
    let light_client = lightest.client_us + lightest.origin_us;
    let away = response.mean_ns as f64 / 1e3 - lightest.cpu_us - light_client;
    let predictions = rounds.iter().map(|one| {
        let queue = WorkerQueue {
            arrivals_per_s: one.measurement.offered_per_s.unwrap_or(1.0),
            demands_s: vec![(1.0, cpu_us / 1e6)],
            shape: DurationShape::of(response),
            elsewhere_s: away.max(0.0) / 1e6,
            client_s: (one.client_us + one.origin_us) / 1e6,
        };
        queue.responses(u64::from(one.repeat) + 1).quantile_ns(0.99) as f64 / 1e6
    });
    let predictions: Vec<f64> = predictions.collect();
    let measured = all(rounds, |one| one.measurement.response.p99_ns as f64 / 1e6);
    let from = "the queue, with responses at the least load".to_owned();
    row(rounds, ("p99, ms", false, P99_ERROR_MAX), mean(&predictions), &measured, from)
}

/// Predicts goodput to capacity by the farm of one node; the row's source names the queue order.
fn overload(rounds: &[&Observation]) -> Option<ValidationRow> {
    let goodput = rounds.iter().map(|one| {
        let measurement = &one.measurement;
        Some(measurement.goodput_per_s? / measurement.capacity_per_s?)
    });
    let goodput: Option<Vec<f64>> = goodput.collect();
    let first = rounds[0];
    let capacity = first.measurement.capacity_per_s?;
    let offered = first.measurement.offered_per_s? / capacity;
    let full_share = first.share(Kind::Full);
    let (predicted, discipline) = replay::goodput(&first.target, offered, capacity, full_share);
    let from = format!("the farm of one node, {discipline}");
    row(rounds, ("goodput, to capacity", true, SHARE_ERROR_MAX), predicted, &goodput?, from)
}

/// Predicts the least share that resumed in a second, from the node's death until its return.
fn scale_out(rounds: &[&Observation]) -> Option<ValidationRow> {
    let worst = |one: &Observation| {
        let seconds = &one.measurement.seconds;
        let half = seconds.len() / 2;
        let shares = seconds.iter().skip(half).filter(|it| it.full + it.resumed > 0);
        shares.map(|it| it.resumed as f64 / (it.full + it.resumed) as f64).fold(1.0, f64::min)
    };
    let (nodes, sessions) =
        rounds[0].configuration.split_once("nodes=")?.1.split_once(" sessions=")?;
    let predicted = replay::scale_out(nodes.parse().ok()?, sessions)?;
    let measured = all(rounds, worst);
    let metric = ("resumed in the worst second", true, SHARE_ERROR_MAX);
    let from = "the farm, 60 clients that return each 0.3 s".to_owned();
    row(rounds, metric, predicted, &measured, from)
}
