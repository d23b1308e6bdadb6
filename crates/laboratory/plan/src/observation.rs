//! Records of experiments as observations: CPU time of the server per operation, and under which
//! circumstances.

use std::collections::BTreeMap;

use measure::choice::Kind;
use measure::experiment::{Configuration, Experiment, Scenario};
use measure::measurement::Measurement;

use crate::traffic::PlannedKey;

/// Scenarios whose servers pass connections on to a plain origin; others do other work for a
/// connection, so that their CPU time is not comparable.
pub const COMPARABLE: [&str; 11] = [
    "terminate",
    "implementations",
    "part-load",
    "overload",
    "cores",
    "resumption-kinds",
    "keys",
    "groups",
    "object-sizes",
    "idle",
    "session-cache",
];

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
        let is_known = COMPARABLE.contains(&scenario.name.as_str());
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
            let plan = plan.filter(|_| measurement.scenario == scenario.name);
            let one = plan.map(|plan| observation(name, scenario, plan, measurement));
            observed.observations.extend(one);
        }
        let failed = experiment.failures.iter().filter(|one| one.scenario == scenario.name);
        let void = failed
            .filter(|one| one.kind == measure::experiment::FailureKind::Void)
            .map(|one| format!("{name}: `{}` is void: {}", one.configuration, one.why));
        observed.remarks.extend(void);
        if scenario.repeats < 2 {
            observed.remarks.push(format!(
                "{name}: `{}` has one round: nothing says how far its figures vary",
                scenario.name
            ));
        }
    }
    observed
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
    Some(digits.parse::<u64>().ok()? * scale)
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
    use super::*;

    #[test]
    fn flags_and_sizes_are_read_as_scenarios_write_them() {
        let line = "load --size 16m --no-request --tls 1.3".split(' ').map(str::to_owned);
        let line: Vec<String> = line.collect();
        assert_eq!(flag(&line, "--size").and_then(size), Some(16 << 20));
        assert_eq!(flag(&line, "--close"), None);
        assert_eq!((size("1k"), size("0"), size("k")), (Some(1024), Some(0), None));
    }
}
