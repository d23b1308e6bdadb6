//! Provides the stored record of an experiment, and variants of it.

#![allow(dead_code, reason = "each test binary takes the records that it needs")]

use measure::experiment::Experiment;

/// A whole run: measurements in rounds, one that is void, one that failed, one unsupported.
pub(crate) const STORED: &str = include_str!("../records/experiment.jsonl");

fn text(words: &str) -> String {
    words.to_owned()
}

pub(crate) fn whole() -> Experiment {
    Experiment::parse(STORED).expect("it is of this format")
}

/// Returns the record of another platform: dearer, especially for small objects.
pub(crate) fn elsewhere() -> Experiment {
    let mut other = whole();
    other.plan.started = text("2026-11-23T03:04:05Z");
    other.plan.host.host.hypervisor = Some(text("Xen"));
    other.plan.targets[1].version = vec![text("haproxy 3.0")];
    other.plan.scenarios.retain(|scenario| scenario.name != "ramp");
    for measurement in &mut other.measurements {
        let per_s = measurement.counts.succeeded as f64 / 2.0;
        let slower = 1.0 - (per_s / 40_000.0).min(0.5);
        measurement.counts.succeeded = (measurement.counts.succeeded as f64 * slower) as u64;
        measurement.traffic.body_bytes = (measurement.traffic.body_bytes as f64 * slower) as u64;
        measurement.server_cpu_ns = (measurement.server_cpu_ns as f64 / slower) as u64;
    }
    other
}

/// Returns a record that was stopped before any measurement.
pub(crate) fn unmeasured() -> Experiment {
    let first = STORED.lines().next().expect("it has a first line");
    Experiment::parse(&format!("{first}\n")).expect("it is the beginning")
}

/// Makes an experiment whose names, titles and reasons try to inject markup or commands.
pub(crate) fn hostile() -> Experiment {
    let bad = "</td><script>alert(1)</script>\u{1b}[2J\u{202e}\"'";
    let mut experiment = whole();
    let plan = &mut experiment.plan;
    plan.command.push(text(bad));
    plan.host.host.cpu = text(bad);
    for target in &mut plan.targets {
        target.title = text(bad);
        target.version = vec![text(bad)];
    }
    for scenario in &mut plan.scenarios {
        scenario.question = text(bad);
        scenario.method = text(bad);
        for factor in &mut scenario.factors {
            factor.title = text(bad);
            for value in &mut factor.values {
                value.title = text(bad);
            }
        }
        for configuration in &mut scenario.configurations {
            configuration.command.push(text(bad));
        }
    }
    for failure in &mut experiment.failures {
        failure.why = text(bad);
    }
    experiment
}

pub(crate) fn one_round() -> Experiment {
    let mut experiment = whole();
    experiment.measurements.retain(|measurement| measurement.repeat == 0);
    experiment
}
