//! A run of experiments: configurations are measured in their order, and each measurement is
//! recorded at once.
//!
//! A scenario (`scenario`, data in `scenarios/`) asks a question and lists the values of its
//! factors; `scenario::expansion` makes configurations of it, and `needs` finds which of them this
//! host can measure, with which programs and on which CPUs. [`ExperimentRun::run`] shuffles the
//! rounds, lets `measurement` measure one configuration after the other, and gives each result to
//! `journal`, which writes the record and reports the progress. Of a run that ends by a rule
//! (`measure::until`), [`RecordedPast`] says which configurations need more rounds, by the values
//! of their main metrics in this run and in the record that it resumes.
//!
//! Owns the order and the end of a run. Arguments are read by `commands`, servers are started by
//! `targets`, and the form of the record is the crate `measure`'s.

pub(crate) mod journal;
pub(crate) mod measurement;
pub(crate) mod needs;
pub(crate) mod scenario;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use measure::experiment::{
    self, Configuration, Experiment, FailedRepeat, FailureKind, Measurement, RunEnd, RunEvent,
    Scenario,
};
use measure::random::SplitMix;
use measure::until::{ROUNDS_MAX, StoppingRule};

use crate::console::Console;
use crate::fault::{LabFault, LabResult};
use crate::interrupt::Cancel;
use crate::load::destination::RecordDate;
use crate::targets::certificates::TargetCertificates;
use crate::targets::form::TestTarget;
use crate::targets::program::TargetProgram;
use journal::{RunJournal, RunProgress};
use measurement::verdict::MeasurementFailure;
use measurement::{Bench, MeasuredSubject};
use needs::{ResolvedTarget, RunResources};
use scenario::expansion::ExpandedScenario;
use scenario::settings::PlannedConfiguration;

/// A configuration is given up after this number of failures in a row.
const FAILURES_MAX: u32 = 2;

pub(crate) struct ExperimentRun<'a> {
    pub(crate) plan: &'a experiment::ExperimentPlan,
    pub(crate) scenarios: &'a [ExpandedScenario],
    pub(crate) resolved: &'a [ResolvedTarget],
    pub(crate) resources: RunResources,
    /// The folder of the run: programs read and write there.
    pub(crate) folder: &'a Path,
    pub(crate) cancel: &'a dyn Cancel,
    pub(crate) console: Console,
    /// Whether only faults are reported.
    pub(crate) is_quiet: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunTally {
    /// Configurations with a measurement or more.
    pub(crate) measured: usize,
    /// Configurations with fewer measurements than were planned.
    pub(crate) lacking: usize,
    pub(crate) is_complete: bool,
}

/// Repeats that the record holds already, by scenario and configuration.
#[derive(Debug, Default)]
pub(crate) struct RecordedPast(BTreeMap<(String, String), DoneRepeat>);

#[derive(Clone, Debug, Default)]
struct DoneRepeat {
    repeats: BTreeSet<u32>,
    measurements: u32,
    failures: u32,
    /// The main metric's value in each round.
    values: BTreeMap<u32, f64>,
}

impl RecordedPast {
    /// The repeats of a record that is resumed. `with_failures`: what failed is not measured again.
    pub(crate) fn of(record: &Experiment, with_failures: bool) -> Self {
        let measured = record.measurements.iter().map(Ok);
        let failed = record.failures.iter().filter(|_| with_failures).map(Err);
        // In the order of repeats, in which failures are in a row.
        let mut all: Vec<Result<&Measurement, &FailedRepeat>> = measured.chain(failed).collect();
        all.sort_by_key(|one| one.map_or_else(|failed| failed.repeat, |it| it.repeat));
        let mut past = Self::default();
        for one in all {
            match one {
                Ok(it) => {
                    let mut scenarios = record.plan.scenarios.iter();
                    past.add(it, scenarios.find(|one| one.name == it.scenario));
                }
                Err(failed) => past.add_failed(failed),
            }
        }
        past
    }

    fn add(&mut self, measurement: &Measurement, scenario: Option<&Scenario>) {
        let Measurement { scenario: name, configuration, repeat, .. } = measurement;
        let done = self.repeated(name, configuration, *repeat);
        done.measurements += 1;
        done.failures = 0;
        let value = scenario.and_then(|one| one.metrics.first()?.of(measurement));
        done.values.extend(value.map(|value| (*repeat, value)));
    }

    fn add_failed(&mut self, failed: &FailedRepeat) {
        self.repeated(&failed.scenario, &failed.configuration, failed.repeat).failures += 1;
    }

    fn repeated(&mut self, scenario: &str, configuration: &str, repeat: u32) -> &mut DoneRepeat {
        let key = (scenario.to_owned(), configuration.to_owned());
        let done = self.0.entry(key).or_default();
        done.repeats.insert(repeat);
        done
    }

    fn done(&self, planned: &PlannedConfiguration) -> DoneRepeat {
        let key = (planned.scenario.clone(), planned.configuration.key.clone());
        self.0.get(&key).cloned().unwrap_or_default()
    }

    /// Whether the targets at one choice of values need no more rounds, each compared with the
    /// first of them. One alone is compared with itself at its level: its own interval counts.
    fn has_enough(&self, scenario: &Scenario, targets: &[&PlannedConfiguration]) -> bool {
        let (Some(rule), Some(metric)) = (scenario.until, scenario.metrics.first()) else {
            return false;
        };
        let values: Vec<_> = targets.iter().map(|planned| self.done(planned).values).collect();
        let comparisons: Vec<Vec<(f64, f64)>> = match values.as_slice() {
            [] => return true,
            [alone] => vec![alone.values().map(|value| (*value, 1.0)).collect()],
            [first, others @ ..] => {
                let paired = |other: &BTreeMap<u32, f64>| {
                    let pairs = other.iter();
                    pairs.filter_map(|(round, value)| Some((*value, *first.get(round)?))).collect()
                };
                others.iter().map(paired).collect()
            }
        };
        rule.is_met(*metric, &comparisons)
    }
}

impl ExperimentRun<'_> {
    /// Makes and records all measurements that the record lacks.
    ///
    /// # Errors
    /// The record cannot be written, or certificates or the origin cannot be made; what was
    /// measured until then is in the record.
    pub(crate) fn run(&self, journal: &mut RunJournal, past: RecordedPast) -> LabResult<RunTally> {
        let certificates = TargetCertificates::new(self.folder);
        let certificates = certificates.map_err(|fault| LabFault::failed(fault, ""))?;
        let bench = Bench::start(&certificates, self.folder, &self.plan.placement);
        let bench = bench.map_err(|failure| LabFault::failed(failure.why(), ""))?;
        let (count, time) = self.remaining(&past);
        let mut running = RunInProgress {
            run: self,
            bench,
            journal,
            past,
            progress: RunProgress::new(self.console, self.is_quiet, count, time),
        };
        let mut is_complete = true;
        for (index, expanded) in self.scenarios.iter().enumerate() {
            running.record_unsupported(expanded)?;
            if !running.measure_all(index, expanded)? {
                is_complete = false;
                break;
            }
        }
        let at = now();
        let past = running.past;
        journal.append(&RunEvent::Ended(RunEnd { at, is_complete }))?;
        Ok(self.tally(&past, is_complete))
    }

    /// Configurations that can be measured on this host.
    fn open<'e>(
        &'e self,
        expanded: &'e ExpandedScenario,
    ) -> impl Iterator<Item = &'e PlannedConfiguration> {
        let is_open = |planned: &&PlannedConfiguration| {
            let has = |name| self.program_of(name).is_some();
            has(&planned.server)
                && planned.load.program.as_deref().is_none_or(has)
                && planned.origin.as_deref().is_none_or(has)
                && self.resources.lack(planned).is_none()
        };
        expanded.supported().filter(is_open)
    }

    fn program_of(&self, target: &str) -> Option<(&TestTarget, &TargetProgram)> {
        let one = self.resolved.iter().find(|one| one.target.name == target)?;
        Some((&one.target, one.program.as_ref().ok()?))
    }

    /// How many measurements are to be made, and how long they take.
    fn remaining(&self, past: &RecordedPast) -> (usize, Duration) {
        let open = self.scenarios.iter().flat_map(|expanded| self.open(expanded));
        open.fold((0, Duration::ZERO), |(count, time), planned| {
            let done = past.done(planned).repeats;
            let left = (0..planned.repeats).filter(|repeat| !done.contains(repeat)).count() as u32;
            (count + left as usize, time + planned.estimate() * left)
        })
    }

    fn tally(&self, past: &RecordedPast, is_complete: bool) -> RunTally {
        let mut tally = RunTally { is_complete, ..RunTally::default() };
        let scenarios = self.scenarios.iter();
        for planned in scenarios.flat_map(ExpandedScenario::supported) {
            let measurements = past.done(planned).measurements;
            tally.measured += usize::from(measurements > 0);
            tally.lacking += usize::from(measurements < planned.repeats);
        }
        tally
    }
}

struct RunInProgress<'r, 'a, 'b> {
    run: &'r ExperimentRun<'a>,
    bench: Bench<'b>,
    journal: &'r mut RunJournal,
    past: RecordedPast,
    progress: RunProgress,
}

impl RunInProgress<'_, '_, '_> {
    /// Reports and records once what this host has too little for.
    fn record_unsupported(&mut self, expanded: &ExpandedScenario) -> LabResult<()> {
        let ExperimentRun { console, resources, .. } = *self.run;
        let mut wanted = expanded.supported();
        if let Some(planned) = wanted.find(|planned| resources.must_share(planned)) {
            let (name, cpus) = (&planned.scenario, resources.cpus);
            let workers = planned.spec.workers;
            console.advise(
                format_args!(
                    "{name}: servers with {workers} workers and the load share {cpus} CPUs"
                ),
                "their measurements say so; a host with more CPUs measures better",
            );
        }
        let mut reported = BTreeSet::new();
        for planned in expanded.supported() {
            let Some((why, hint)) = resources.lack(planned) else {
                continue;
            };
            if reported.insert((why.clone(), hint.clone())) {
                let (name, key) = (&planned.scenario, &planned.configuration.key);
                console.advise(format_args!("{name}: {key}: {why}"), hint);
            }
            if !self.past.done(planned).repeats.contains(&0) {
                self.record_failure(planned, 0, FailureKind::Unsupported, &why)?;
            }
        }
        Ok(())
    }

    /// Whether it came to the end of the scenario.
    fn measure_all(&mut self, index: usize, expanded: &ExpandedScenario) -> LabResult<bool> {
        let run = self.run;
        let scenario = &expanded.scenario;
        let mut open: Vec<_> = run.open(expanded).collect();
        let begun = Instant::now();
        for repeat in 0..scenario.until.map_or(scenario.repeats, |_| ROUNDS_MAX) {
            if let Some(rule) = scenario.until {
                open = self.with_more_rounds(scenario, &open);
                if open.is_empty() {
                    break;
                }
                if begun.elapsed() >= Duration::from_nanos(rule.time_max_ns) {
                    self.report_wide(scenario, rule, repeat);
                    break;
                }
            }
            let configurations: Vec<_> = open.iter().map(|it| &it.configuration).collect();
            for place in round(&configurations, run.plan.seed, index, repeat) {
                if run.cancel.is_requested() || !self.measure(open[place], repeat, scenario)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The configurations among these whose intervals are to become narrower. Targets at the same
    /// values go on together, since the rounds of one are compared with those of the other.
    fn with_more_rounds<'p>(
        &self,
        scenario: &Scenario,
        open: &[&'p PlannedConfiguration],
    ) -> Vec<&'p PlannedConfiguration> {
        let mut choices: BTreeMap<_, Vec<&PlannedConfiguration>> = BTreeMap::new();
        for planned in open {
            if self.past.done(planned).failures < FAILURES_MAX {
                choices.entry(&planned.configuration.values).or_default().push(planned);
            }
        }
        choices.retain(|_, targets| !self.past.has_enough(scenario, targets));
        choices.into_values().flatten().collect()
    }

    fn report_wide(&self, scenario: &Scenario, rule: StoppingRule, rounds: u32) {
        let (name, reach) = (&scenario.name, rule.reach * 100.0);
        let time = journal::minutes(Duration::from_nanos(rule.time_max_ns));
        self.run.console.warn(format_args!(
            "{name}: time is up ({time}) after {rounds} round{}, and not every interval is \
             within ±{reach} %",
            if rounds == 1 { "" } else { "s" }
        ));
        self.run.console.hint("a longer --time-max, or a quieter host; intervals are valid as is");
    }

    /// Whether the run goes on.
    fn measure(
        &mut self,
        planned: &PlannedConfiguration,
        repeat: u32,
        scenario: &Scenario,
    ) -> LabResult<bool> {
        let Some((target, program)) = self.run.program_of(&planned.server) else {
            return Ok(true);
        };
        let done = self.past.done(planned);
        if done.repeats.contains(&repeat) || done.failures >= FAILURES_MAX {
            return Ok(true);
        }
        let client = planned.load.program.as_deref();
        let subject = MeasuredSubject {
            planned,
            target,
            program,
            client: client.and_then(|name| self.run.program_of(name)),
            origin: planned.origin.as_deref().and_then(|name| self.run.program_of(name)),
            repeat,
        };
        let failure = match self.bench.measure(subject, self.run.cancel) {
            Ok(measurement) => {
                self.progress.measured(planned, &scenario.metrics, &measurement);
                self.past.add(&measurement, Some(scenario));
                self.journal.append(&RunEvent::Measured(Box::new(measurement)))?;
                return Ok(true);
            }
            // A signal ends servers too, which then fail.
            Err(_) if self.run.cancel.is_requested() => return Ok(false),
            Err(MeasurementFailure::Cancelled) => return Ok(false),
            Err(failure) => failure,
        };
        self.progress.failed(planned, &failure);
        let kind = match failure {
            MeasurementFailure::Void(_) => FailureKind::Void,
            _ => FailureKind::Failed,
        };
        self.record_failure(planned, repeat, kind, failure.why())?;
        Ok(true)
    }

    fn record_failure(
        &mut self,
        planned: &PlannedConfiguration,
        repeat: u32,
        kind: FailureKind,
        why: &str,
    ) -> LabResult<()> {
        let failure = FailedRepeat {
            scenario: planned.scenario.clone(),
            configuration: planned.configuration.key.clone(),
            repeat,
            at: now(),
            kind,
            why: why.to_owned(),
        };
        self.past.add_failed(&failure);
        self.journal.append(&RunEvent::Failed(failure))
    }
}

/// RFC 3339, UTC.
pub(crate) fn now() -> String {
    RecordDate::of(SystemTime::now()).to_string()
}

fn shuffle<T>(chance: &mut SplitMix, list: &mut [T]) {
    for last in (1..list.len()).rev() {
        // The bias of the remainder is below one in 10¹⁵.
        let other = (chance.draw() % (last as u64 + 1)) as usize;
        list.swap(last, other);
    }
}

/// The order of a round: places in the list of configurations.
pub(crate) fn round(
    configurations: &[&Configuration],
    seed: u64,
    scenario: usize,
    repeat: u32,
) -> Vec<usize> {
    let own = seed ^ ((scenario as u64) << 32) ^ u64::from(repeat);
    let mut chance = SplitMix { state: own };
    let mut choices: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (place, planned) in configurations.iter().enumerate() {
        choices.entry(&planned.values).or_default().push(place);
    }
    let mut choices: Vec<_> = choices.into_values().collect();
    shuffle(&mut chance, &mut choices);
    for targets in &mut choices {
        shuffle(&mut chance, targets);
    }
    choices.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configurations() -> Vec<Configuration> {
        let levels = ["1", "2", "3", "4"];
        let all = levels.iter().flat_map(|level| ["a", "b", "c"].map(|target| (level, target)));
        all.map(|(level, target)| Configuration {
            key: format!("target={target} n={level}"),
            target: target.to_owned(),
            values: BTreeMap::from([("n".to_owned(), (*level).to_owned())]),
            command: Vec::new(),
            unsupported: None,
        })
        .collect()
    }

    #[test]
    fn a_round_has_every_configuration_once_and_targets_side_by_side() {
        let configurations = configurations();
        let all: Vec<_> = configurations.iter().collect();
        let first = round(&all, 1, 0, 0);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..configurations.len()).collect::<Vec<_>>());
        for three in first.chunks(3) {
            let of = |place: usize| &configurations[place].values;
            assert!(three.iter().all(|place| of(*place) == of(three[0])));
        }
    }

    #[test]
    fn every_place_is_as_likely() {
        let configurations = configurations();
        let all: Vec<_> = configurations.iter().collect();
        let mut first = [0; 12];
        for seed in 0..1200 {
            first[round(&all, seed, 0, 0)[0]] += 1;
        }
        assert!(first.iter().all(|count| (60..150).contains(count)), "{first:?}");
    }
}
