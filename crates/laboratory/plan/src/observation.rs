//! Records of experiments as observations: CPU time of the server per operation, and under which
//! circumstances; the bounds of figures that are made of their means; and how capacity grows with
//! the cores they were made on.
//!
//! The bounds are those of the bootstrap: B. Efron, "Bootstrap methods", Annals of Statistics 7
//! (1979), by percentiles. Cores follow N. J. Gunther's universal scalability law ("Guerrilla
//! Capacity Planning", 2007), `C(n) = n / (1 + σ (n − 1) + κ n (n − 1))`: σ is the share that
//! cannot be done side by side, κ the cost of agreeing. Workers here share no lock on the way of a
//! connection, so κ is only fitted from three numbers of cores on.

use std::collections::{BTreeMap, BTreeSet};

use measure::choice::Kind;
use measure::experiment::{Configuration, Experiment, Scenario};
use measure::measurement::Measurement;
use measure::planned::PlannedFigure;
use measure::random::SplitMix;

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

/// Resamples of each figure: with fewer the bounds themselves vary by more than a tenth.
const RESAMPLES: usize = 400;

/// The mean of samples drawn anew with repetition.
fn redrawn_mean(samples: &[f64], random: &mut SplitMix) -> f64 {
    let drawn = (0..samples.len()).map(|_| samples[random.below(samples.len())]);
    drawn.sum::<f64>() / samples.len().max(1) as f64
}

pub(crate) fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// A figure that `reckon` makes of the means of several groups of samples.
pub(crate) fn figure(
    groups: &[&[f64]],
    seed: u64,
    reckon: impl Fn(&[f64]) -> Option<f64>,
) -> Option<PlannedFigure> {
    let means: Vec<f64> = groups.iter().map(|samples| mean(samples)).collect();
    let value = reckon(&means)?;
    let mut random = SplitMix { state: seed };
    let resample = |_| {
        let means: Vec<f64> =
            groups.iter().map(|samples| redrawn_mean(samples, &mut random)).collect();
        reckon(&means)
    };
    let mut all: Vec<f64> = (0..RESAMPLES).filter_map(resample).collect();
    all.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = (all.len().saturating_sub(1) as f64 * share).round() as usize;
        all.get(place).copied().unwrap_or(value)
    };
    Some(PlannedFigure { value, low: at(0.025).min(value), high: at(0.975).max(value) })
}

/// The coefficients, and how many numbers of cores they rest on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreScaling {
    pub contention: f64,
    pub coherence: f64,
    pub measured_cores: u32,
}

impl CoreScaling {
    /// As many cores of one worker's speed.
    pub fn effective(self, cores: u32) -> f64 {
        let n = f64::from(cores);
        n / (1.0 + self.contention * (n - 1.0) + self.coherence * n * (n - 1.0))
    }

    /// Fitted to the rates of `cores` (those of the target), by least squares of `n/C(n) − 1`,
    /// which is linear in both coefficients; `None` without two numbers of cores.
    pub fn fit(observations: &[Observation], target: &str) -> Option<Self> {
        let of_target = observations.iter().filter(|one| {
            one.scenario == "cores" && one.target == target && !one.measurement.noise.is_shared
        });
        let of_target: Vec<&Observation> = of_target.collect();
        let rate = |one: &Observation| {
            one.measurement.counts.succeeded as f64 / one.measurement.elapsed_ns.max(1) as f64
        };
        let same = |a: &Observation, b: &Observation| {
            let name =
                |one: &Observation| one.configuration.split(" cores=").next().map(str::to_owned);
            name(a) == name(b)
        };
        let mut points = Vec::new();
        for one in of_target.iter().filter(|one| one.workers > 1) {
            let alone: Vec<f64> = of_target
                .iter()
                .filter(|other| other.workers == 1 && same(other, one))
                .map(|other| rate(other))
                .collect();
            if !alone.is_empty() {
                points.push((f64::from(one.workers), rate(one) / mean(&alone)));
            }
        }
        Self::of_points(&points)
    }

    /// From pairs of cores (more than one) and rates relative to one core.
    fn of_points(points: &[(f64, f64)]) -> Option<Self> {
        let most = points.iter().map(|point| point.0).fold(0.0, f64::max);
        if most < 2.0 {
            return None;
        }
        let has_three = points.iter().any(|point| point.0 < most);
        let (mut aa, mut ab, mut bb, mut ay, mut by) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (n, gain) in points {
            let (a, b, y) = (n - 1.0, n * (n - 1.0), n / gain - 1.0);
            (aa, ab, bb) = (aa + a * a, ab + a * b, bb + b * b);
            (ay, by) = (ay + a * y, by + b * y);
        }
        let determinant = aa * bb - ab * ab;
        let alone = (ay / aa).max(0.0);
        let (contention, coherence) = if has_three && determinant.abs() > 1e-12 {
            ((ay * bb - by * ab) / determinant, (by * aa - ay * ab) / determinant)
        } else {
            (alone, 0.0)
        };
        // No core makes the others faster: a negative coefficient is noise.
        let (contention, coherence) = match (contention < 0.0, coherence < 0.0) {
            (false, false) => (contention, coherence),
            (true, _) => (0.0, (by / bb).max(0.0)),
            (_, true) => (alone, 0.0),
        };
        Some(Self { contention, coherence, measured_cores: most as u32 })
    }
}

#[cfg(test)]
mod tests {
    use measure::measurement::MeasurementNoise;
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
                Measurement {
                    noise: MeasurementNoise { server_busy: 3.0, ..MeasurementNoise::default() },
                    ..good()
                },
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

    #[test]
    fn bounds_hold_the_mean_and_widen_with_the_spread() {
        let of = |samples: &[f64]| figure(&[samples], 1, |means| Some(means[0])).unwrap();
        let narrow = of(&[10.0, 10.1, 9.9, 10.0]);
        let wide = of(&[5.0, 15.0, 8.0, 12.0]);
        assert!((narrow.value - 10.0).abs() < 1e-9 && (wide.value - 10.0).abs() < 1e-9);
        assert!(narrow.high - narrow.low < 0.3 && wide.high - wide.low > 4.0);
        assert_eq!(of(&[3.0]).low, of(&[3.0]).high);
    }

    #[test]
    fn coefficients_are_found_again() {
        let truth = CoreScaling { contention: 0.03, coherence: 0.002, measured_cores: 8 };
        let points = [2u32, 4, 8].map(|n| (f64::from(n), truth.effective(n)));
        let found = CoreScaling::of_points(&points).unwrap();
        assert!((found.contention - 0.03).abs() < 1e-9, "{found:?}");
        assert!((found.coherence - 0.002).abs() < 1e-9, "{found:?}");
        let two = CoreScaling::of_points(&[(2.0, 1.9)]).unwrap();
        assert!((two.effective(2) - 1.9).abs() < 1e-9 && two.coherence == 0.0);
        assert_eq!(CoreScaling::of_points(&[]), None);
        assert_eq!(CoreScaling::of_points(&[(2.0, 2.1)]).unwrap().effective(4), 4.0);
    }
}
