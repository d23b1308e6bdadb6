//! How parts of a record add up, and one record of loads that several hosts made together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use crate::record::{
    HandshakeCounts, Latencies, LoadRecord, LoadSecond, PlanStep, RecordedArrival, RecordedPlan,
    RequestResult, RunEnding, TrafficBytes, TransactionCounts,
};

impl AddAssign for TransactionCounts {
    fn add_assign(&mut self, more: Self) {
        self.attempted += more.attempted;
        self.succeeded += more.succeeded;
        self.failed += more.failed;
    }
}

impl AddAssign for TrafficBytes {
    fn add_assign(&mut self, more: Self) {
        self.connections += more.connections;
        self.received_bytes += more.received_bytes;
        self.sent_bytes += more.sent_bytes;
        self.body_bytes += more.body_bytes;
    }
}

impl AddAssign<&Self> for RequestResult {
    fn add_assign(&mut self, more: &Self) {
        self.counts += more.counts;
        self.total.add(&more.total);
    }
}

impl AddAssign<&Self> for Latencies {
    fn add_assign(&mut self, more: &Self) {
        self.handshake.add(&more.handshake);
        self.first_byte.add(&more.first_byte);
        self.total.add(&more.total);
    }
}

impl AddAssign for LoadSecond {
    fn add_assign(&mut self, more: Self) {
        let one = (self.mean_ns as f64, self.succeeded);
        self.mean_ns = mean(one, (more.mean_ns as f64, more.succeeded)) as u64;
        self.attempted += more.attempted;
        self.succeeded += more.succeeded;
        self.failed += more.failed;
        self.resumed += more.resumed;
        self.full += more.full;
        self.open += more.open;
        // Of two percentiles the greater is not too small.
        self.median_ns = self.median_ns.max(more.median_ns);
        self.p99_ns = self.p99_ns.max(more.p99_ns);
        self.max_ns = self.max_ns.max(more.max_ns);
    }
}

/// Reasons why records are not parts of one load.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MergeFault {
    /// One record is no sum.
    #[error("there is only one record")]
    Alone,
    /// They did not begin together.
    #[error("one load began at {0}, another at {1}")]
    Apart(String, String),
    /// Not the same was done.
    #[error("the loads differ in `{0}`")]
    Different(&'static str),
    /// Each host would have searched by itself.
    #[error("a search for capacity is not made by several hosts together")]
    Search,
}

/// Adds records up, in which hosts, their addresses, threads, seeds, and how much load each of them
/// made may differ, and nothing else. Histograms are added. Of percentiles by second and by step,
/// which records have no histograms for, the greatest is taken: it is not too small.
///
/// # Errors
/// [`MergeFault`].
pub fn merged(records: &[&LoadRecord]) -> Result<LoadRecord, MergeFault> {
    let Some((first, others @ [_, ..])) = records.split_first() else {
        return Err(MergeFault::Alone);
    };
    let mut sum = (*first).clone();
    for other in others {
        check(first, other)?;
        add(&mut sum, other);
    }
    let cpus: BTreeSet<_> = records.iter().map(|one| one.host.cpu.clone()).collect();
    let cpus: Vec<_> = cpus.into_iter().collect();
    sum.host.cpu = format!("{} hosts: {}", records.len(), cpus.join("; "));
    Ok(sum)
}

fn check(one: &LoadRecord, other: &LoadRecord) -> Result<(), MergeFault> {
    if one.started != other.started {
        return Err(MergeFault::Apart(one.started.clone(), other.started.clone()));
    }
    if one.capacity.is_some() || other.capacity.is_some() {
        return Err(MergeFault::Search);
    }
    let own = other.plan.clone();
    // What may differ is the other's.
    let plan = RecordedPlan {
        sources: own.sources,
        arrival: own.arrival,
        clients: own.clients,
        count_max: own.count_max,
        threads: own.threads,
        cpus: own.cpus,
        seed: own.seed,
        ..one.plan.clone()
    };
    let differing = [
        ("tool", one.tool != other.tool),
        ("url", one.target.url != other.target.url),
        ("arrival", !lengths(&one.plan.arrival).eq(lengths(&other.plan.arrival))),
        ("plan", plan != other.plan),
    ];
    let first = differing.into_iter().find(|(_, differs)| *differs);
    first.map_or(Ok(()), |(name, _)| Err(MergeFault::Different(name)))
}

/// Adds values up by their keys.
pub fn add_all<K: Clone + Ord, N: AddAssign + Copy + Default>(
    sum: &mut BTreeMap<K, N>,
    more: &BTreeMap<K, N>,
) {
    for (key, count) in more {
        *sum.entry(key.clone()).or_default() += *count;
    }
}

/// The lengths of each stretch of the plan, in nanoseconds; a closed load has no stretches.
fn lengths(arrival: &RecordedArrival) -> impl Iterator<Item = u64> + '_ {
    let rates = match arrival {
        RecordedArrival::Closed(_) => &[],
        RecordedArrival::Open(rates) => &rates[..],
    };
    rates.iter().map(|rate| rate.length_ns)
}

fn add(sum: &mut LoadRecord, other: &LoadRecord) {
    add_plan(&mut sum.plan, &other.plan);
    let places: BTreeSet<_> = [&sum.target.address, &other.target.address]
        .into_iter()
        .flat_map(|places| places.split(','))
        .map(str::to_owned)
        .collect();
    sum.target.address = places.into_iter().collect::<Vec<_>>().join(",");
    sum.host.cpus += other.host.cpus;
    sum.host.memory_bytes += other.host.memory_bytes;
    sum.host.load_average = sum.host.load_average.max(other.host.load_average);
    if other.ending != RunEnding::Completed {
        sum.ending = other.ending;
    }
    sum.elapsed_ns = sum.elapsed_ns.max(other.elapsed_ns);
    sum.warm_up += other.warm_up;
    sum.totals += other.totals;
    add_all(&mut sum.failures, &other.failures);
    add_all(&mut sum.addresses, &other.addresses);
    for (request, more) in sum.requests.iter_mut().zip(&other.requests) {
        *request += more;
    }
    for row in &other.handshakes {
        let alike = |count| HandshakeCounts { count, ..row.clone() };
        let mut known = sum.handshakes.iter_mut();
        match known.find(|known| **known == alike(known.count)) {
            Some(known) => known.count += row.count,
            None => sum.handshakes.push(row.clone()),
        }
    }
    sum.traffic += other.traffic;
    for (kind, latencies) in &other.latencies {
        *sum.latencies.entry(*kind).or_default() += latencies;
    }
    sum.failed_after.add(&other.failed_after);
    add_seconds(&mut sum.seconds, &other.seconds);
    for (step, more) in sum.steps.iter_mut().zip(&other.steps) {
        add_step(step, more);
    }
    sum.client.cpu_ns += other.client.cpu_ns;
    sum.client.resident_bytes_max += other.client.resident_bytes_max;
    sum.client.threads.extend(other.client.threads.clone());
    for warning in &other.warnings {
        if !sum.warnings.contains(warning) {
            sum.warnings.push(warning.clone());
        }
    }
}

fn add_plan(sum: &mut RecordedPlan, other: &RecordedPlan) {
    sum.sources.extend(&other.sources);
    match (&mut sum.arrival, &other.arrival) {
        (RecordedArrival::Closed(sum), RecordedArrival::Closed(more)) => {
            *sum = sum.saturating_add(*more)
        }
        (RecordedArrival::Open(sum), RecordedArrival::Open(more)) => {
            for (rate, more) in sum.iter_mut().zip(more) {
                rate.from_per_s += more.from_per_s;
                rate.to_per_s += more.to_per_s;
            }
        }
        _ => {}
    }
    sum.clients = sum.clients.saturating_add(other.clients);
    sum.count_max = sum.count_max.zip(other.count_max).map(|(a, b)| a + b);
    sum.threads = sum.threads.saturating_add(other.threads);
    sum.cpus = Vec::new();
}

/// The mean of two groups by their sizes.
fn mean(one: (f64, u64), other: (f64, u64)) -> f64 {
    let count = (one.1 + other.1) as f64;
    (one.0 * one.1 as f64 + other.0 * other.1 as f64) / count.max(1.0)
}

fn add_seconds(sum: &mut Vec<LoadSecond>, others: &[LoadSecond]) {
    for other in others {
        match sum.iter_mut().find(|second| second.at_s == other.at_s) {
            Some(second) => *second += *other,
            None => sum.push(*other),
        }
    }
    sum.sort_by_key(|second| second.at_s);
}

fn add_step(step: &mut PlanStep, more: &PlanStep) {
    let (point, other) = (&mut step.point, more.point);
    let one = (point.mean_ns, step.counts.succeeded);
    point.mean_ns = mean(one, (other.mean_ns, more.counts.succeeded));
    point.offered_per_s += other.offered_per_s;
    point.succeeded_per_s += other.succeeded_per_s;
    point.quantile_ns = point.quantile_ns.max(other.quantile_ns);
    step.counts += more.counts;
    point.error_rate = step.counts.failed as f64 / step.counts.attempted.max(1) as f64;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::choice::Kind;
    use crate::histogram::Histogram;
    use crate::record::PlannedRate;

    /// A load of `count` transactions that each took so long.
    fn record(count: u64, each: Duration) -> LoadRecord {
        let mut total = Histogram::default();
        (0..count).for_each(|_| total.record(each));
        let counts = TransactionCounts { attempted: count, succeeded: count, failed: 0 };
        let latencies = Latencies { total, ..Latencies::default() };
        let rate = PlannedRate {
            from_per_s: count as f64,
            to_per_s: count as f64,
            length_ns: 1_000_000_000,
        };
        let mean_ns = each.as_nanos() as u64;
        LoadRecord {
            started: "2026-11-23T01:30:00Z".to_owned(),
            plan: RecordedPlan {
                arrival: RecordedArrival::Open(vec![rate]),
                clients: 5,
                seed: count,
                ..RecordedPlan::default()
            },
            totals: counts,
            latencies: [(Kind::Full, latencies)].into(),
            failures: [("timeout".to_owned(), count)].into(),
            handshakes: vec![HandshakeCounts {
                kind: Kind::Full,
                version: "TLSv1.3".to_owned(),
                suite: String::new(),
                group: None,
                signature: None,
                alpn: None,
                retried: false,
                early_data_accepted: None,
                ech: None,
                count,
            }],
            seconds: vec![LoadSecond {
                at_s: 0,
                attempted: count,
                succeeded: count,
                mean_ns,
                p99_ns: mean_ns,
                ..LoadSecond::default()
            }],
            ..LoadRecord::default()
        }
    }

    #[test]
    fn parts_of_a_load_make_the_whole() {
        let ms = Duration::from_millis;
        let (one, mut other) = (record(10, ms(10)), record(30, ms(50)));
        other.seconds.push(LoadSecond { at_s: 1, failed: 2, ..LoadSecond::default() });
        let sum = merged(&[&one, &other]).unwrap();
        assert_eq!((sum.totals.attempted, sum.plan.clients), (40, 10));
        assert_eq!((sum.failures["timeout"], sum.handshakes[0].count), (40, 40));
        assert_eq!(sum.handshakes.len(), 1);
        let latency = sum.total_latency();
        assert_eq!((latency.count(), sum.seconds.len()), (40, 2));
        // A quarter took 10 ms.
        let near = |ns: u64, ms: u64| ns.abs_diff(ms * 1_000_000) < ms * 2000;
        assert!(near(latency.quantile_ns(0.2), 10) && near(latency.quantile_ns(0.3), 50));
        assert_eq!(sum.seconds[0].mean_ns, 40_000_000);
        assert_eq!(sum.seconds[0].p99_ns, 50_000_000);
        let RecordedArrival::Open(rates) = &sum.plan.arrival else {
            panic!("it was open");
        };
        assert_eq!(rates[0].from_per_s, 40.0);
        assert!(sum.host.cpu.starts_with("2 hosts"));
    }

    #[test]
    fn other_loads_are_refused() {
        let one = record(10, Duration::from_millis(1));
        let fault = |change: fn(&mut LoadRecord)| {
            let mut other = one.clone();
            change(&mut other);
            merged(&[&one, &other]).unwrap_err().to_string()
        };
        assert_eq!(merged(&[&one]), Err(MergeFault::Alone));
        let apart = fault(|it| it.started = "2026-11-23T01:30:02Z".to_owned());
        assert!(apart.contains("01:30:00Z") && apart.contains("01:30:02Z"));
        assert!(fault(|it| it.target.url.push('x')).contains("`url`"));
        assert!(fault(|it| it.tool.version.push('x')).contains("`tool`"));
        assert!(fault(|it| it.plan.warm_up_ns = 7).contains("`plan`"));
        assert!(fault(|it| it.plan.arrival = RecordedArrival::Closed(1)).contains("`arrival`"));
    }
}
