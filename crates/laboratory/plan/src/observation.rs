//! Records of experiments as observations: CPU time of the server per operation, and under which
//! circumstances.

use std::collections::{BTreeMap, BTreeSet};

use measure::choice::Kind;
use measure::experiment::{Configuration, Experiment, Scenario};
use measure::measurement::Measurement;

use crate::traffic::PlannedKey;

/// Scenarios whose servers pass connections on to a plain origin; others do other work for a
/// connection, so that their CPU time is not comparable.
const COMPARABLE: &str = "terminate implementations part-load overload cores resumption-kinds keys \
                          groups object-sizes idle session-cache";

/// From this error rate on a measurement is of failures.
const ERROR_RATE_MAX: f64 = 0.01;

/// A measurement, read for its CPU time.
#[derive(Clone, Debug)]
pub struct Observation {
    pub target: String,
    /// Names the record, the scenario and the configuration.
    pub source: String,
    pub scenario: String,
    pub configuration: String,
    pub repeat: u32,
    pub cpu_us: f64,
    /// Handshakes of each kind per operation.
    pub kinds: BTreeMap<Kind, f64>,
    pub is_tls13: bool,
    /// `None` where neither a signature nor the record's words name it.
    pub key: Option<PlannedKey>,
    /// The group of the full handshakes.
    pub group: Option<String>,
    pub body_bytes: u64,
    /// Whether each operation has one request and ends orderly.
    pub is_request: bool,
    /// Whether connections are kept and requests are the operations.
    pub is_kept: bool,
    /// Arrivals at random, at a given rate: servers were not in full use.
    pub is_open: bool,
    pub workers: u32,
    pub busy: f64,
    pub client_us: f64,
    pub origin_us: f64,
    pub is_faulty: bool,
    pub measurement: Measurement,
}

/// Observations of a record, and remarks about what of it is of no use here.
#[derive(Clone, Debug, Default)]
pub struct ObservedRecord {
    pub observations: Vec<Observation>,
    pub remarks: Vec<String>,
}

/// All of a record, under its name.
pub fn observe(name: &str, experiment: &Experiment) -> ObservedRecord {
    let mut observed = ObservedRecord::default();
    for scenario in &experiment.plan.scenarios {
        let is_known = COMPARABLE.split(' ').any(|name| name == scenario.name);
        if !is_known && scenario.name != "scale-out" {
            observed.remarks.push(format!(
                "{name}: `{}` is not used: its servers do other work for a connection",
                scenario.name
            ));
            continue;
        }
        for measurement in &experiment.measurements {
            let mut plans = scenario.configurations.iter();
            let plan = plans.find(|plan| plan.key == measurement.configuration);
            let Some(plan) = plan.filter(|_| measurement.scenario == scenario.name) else {
                continue;
            };
            if let Some(why) = contradiction(measurement, experiment.plan.host.host.cpus) {
                let key = &measurement.configuration;
                observed.remarks.push(format!(
                    "{name}: round {} of `{key}` is not used: {why}",
                    measurement.repeat.saturating_add(1)
                ));
                continue;
            }
            observed.observations.push(observation(name, scenario, plan, measurement));
        }
        let failed = experiment.failures.iter().filter(|one| one.scenario == scenario.name);
        let void = failed
            .filter(|one| one.kind == measure::experiment::FailureKind::Void)
            .map(|one| format!("{name}: `{}` is void: {}", one.configuration, one.why));
        observed.remarks.extend(void);
        let measured = experiment.measurements.iter().filter(|one| one.scenario == scenario.name);
        let rounds: BTreeSet<u32> = measured.map(|one| one.repeat).collect();
        if rounds.len() == 1 {
            observed.remarks.push(format!(
                "{name}: `{}` has one round: nothing says how far its figures vary",
                scenario.name
            ));
        }
    }
    observed
}

/// The reason why figures of a measurement cannot all be true; `None` = they can.
fn contradiction(measurement: &Measurement, cpus: u32) -> Option<&'static str> {
    /// CPU time counts until the server rests, and so for longer than the load.
    const REST_NS: u64 = 60_000_000_000;
    let Measurement { counts, noise, .. } = measurement;
    let rates = [measurement.offered_per_s, measurement.capacity_per_s];
    let shares = [noise.foreign, noise.stolen, noise.server_busy, noise.client_busy];
    let cpu_ns = measurement.elapsed_ns.saturating_add(REST_NS).saturating_mul(cpus.max(1).into());
    let used_ns = measurement.server_cpu_ns.max(measurement.client_cpu_ns);
    if rates.into_iter().flatten().any(|rate| rate == 0.0) {
        Some("its rate is 0")
    } else if counts.succeeded.saturating_add(counts.failed) > counts.attempted {
        Some("more succeeded and failed than were attempted")
    } else if measurement.operations > 0 && measurement.server_cpu_ns == 0 {
        Some("its server took no CPU time")
    } else if used_ns > cpu_ns {
        Some("it took more CPU time than its host has")
    } else if shares.into_iter().any(|share| share > 2.0) {
        // Clocks of threads and of CPUs round differently.
        Some("a share of time is twice the time")
    } else {
        None
    }
}

fn observation(
    record: &str,
    scenario: &Scenario,
    plan: &Configuration,
    measurement: &Measurement,
) -> Observation {
    // Of an overload nothing may have succeeded, which is a result as well.
    let operations = measurement.operations.max(1);
    let per_operation = |ns: u64| ns as f64 / operations as f64 / 1e3;
    let flag = |name: &str| flag(&plan.command, name);
    let is_kept = flag("--requests-per-connection") == Some("unlimited");
    let handshakes: u64 = measurement.handshakes.iter().map(|it| it.count).sum();
    // The warm-up's are among them.
    let whole = if is_kept { operations.max(handshakes) } else { handshakes };
    let mut kinds = BTreeMap::new();
    for one in &measurement.handshakes {
        *kinds.entry(one.kind).or_insert(0.0) += one.count as f64 / whole.max(1) as f64;
    }
    let full = measurement.handshakes.iter().find(|one| one.kind == Kind::Full);
    let signature = full.and_then(|one| one.signature.as_deref());
    let errors = measurement.counts.failed as f64 / measurement.counts.attempted.max(1) as f64;
    Observation {
        target: plan.target.clone(),
        source: format!("{record}: {} {}", scenario.name, plan.key),
        scenario: scenario.name.clone(),
        configuration: plan.key.clone(),
        repeat: measurement.repeat,
        cpu_us: per_operation(measurement.server_cpu_ns),
        kinds,
        is_tls13: measurement.handshakes.iter().any(|one| one.version == "TLSv1.3"),
        key: PlannedKey::of_signature(signature, &words(scenario, plan)),
        group: full.and_then(|one| one.group.clone()),
        body_bytes: flag("--size").and_then(size).unwrap_or(0),
        is_request: !plan.command.iter().any(|word| word == "--no-request")
            && flag("--close") != Some("reset"),
        is_kept,
        is_open: measurement.offered_per_s.is_some(),
        workers: plan.values.get("cores").and_then(|text| text.parse().ok()).unwrap_or(1),
        busy: measurement.noise.server_busy,
        client_us: per_operation(measurement.client_cpu_ns),
        origin_us: per_operation(measurement.origin_cpu_ns),
        is_faulty: errors > ERROR_RATE_MAX || measurement.operations == 0,
        measurement: measurement.clone(),
    }
}

/// The value that follows a flag.
fn flag<'w>(command: &'w [String], name: &str) -> Option<&'w str> {
    let place = command.iter().position(|word| word == name)?;
    command.get(place + 1).map(String::as_str)
}

/// Sizes as scenarios write them: `1k`, `16m`, bytes.
fn size(text: &str) -> Option<u64> {
    let (digits, scale) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1 << 10),
        b'm' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

/// The words in which a record names the key, the nearer ones first: a signature of TLS does not
/// say how long an RSA key is.
fn words(scenario: &Scenario, plan: &Configuration) -> String {
    let mut text = String::new();
    for factor in &scenario.factors {
        let chosen = plan.values.get(&factor.name);
        let values = factor.values.iter().filter(|value| chosen == Some(&value.name));
        text.extend(values.map(|value| format!("{} ", value.title)));
    }
    text + &scenario.method
}

impl Observation {
    pub fn share(&self, kind: Kind) -> f64 {
        self.kinds.get(&kind).copied().unwrap_or(0.0)
    }

    /// Whether nearly all of its connections came to their keys in that way.
    pub fn is_pure(&self, kind: Kind) -> bool {
        /// Caches fill during the warm-up, whose handshakes are counted too.
        const PURE: f64 = 0.95;
        self.share(kind) >= PURE
    }
}

#[cfg(test)]
mod tests {
    use measure::measurement::Noise;
    use measure::record::TransactionCounts;

    use super::*;

    #[test]
    fn figures_that_contradict_each_other_are_of_no_use() {
        let good = || Measurement {
            elapsed_ns: 1_000_000_000,
            server_cpu_ns: 500_000_000,
            operations: 10,
            offered_per_s: Some(10.0),
            ..Measurement::default()
        };
        assert_eq!(contradiction(&good(), 2), None);
        for (bad, said) in [
            (Measurement { offered_per_s: Some(0.0), ..good() }, "rate"),
            (Measurement { capacity_per_s: Some(0.0), ..good() }, "rate"),
            (Measurement { server_cpu_ns: 0, ..good() }, "no CPU time"),
            (Measurement { server_cpu_ns: 1 << 53, ..good() }, "more CPU time"),
            (Measurement { client_cpu_ns: 1 << 53, ..good() }, "more CPU time"),
            (
                Measurement { noise: Noise { server_busy: 3.0, ..Noise::default() }, ..good() },
                "share",
            ),
            (
                Measurement {
                    counts: TransactionCounts { attempted: 1, succeeded: 1, failed: 1 },
                    ..good()
                },
                "attempted",
            ),
        ] {
            let why = contradiction(&bad, 2);
            assert!(why.is_some_and(|why| why.contains(said)), "{said}: {why:?}");
        }
    }

    #[test]
    fn flags_and_sizes_are_read_as_scenarios_write_them() {
        let line = "load --size 16m --no-request --tls 1.3".split(' ').map(str::to_owned);
        let line: Vec<String> = line.collect();
        assert_eq!(flag(&line, "--size").and_then(size), Some(16 << 20));
        assert_eq!(flag(&line, "--close"), None);
        assert_eq!((size("1k"), size("0"), size("k")), (Some(1024), Some(0), None));
    }
}
