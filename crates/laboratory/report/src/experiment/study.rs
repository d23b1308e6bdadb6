//! Sorts the record of an experiment into scenarios, combinations of values, and targets.

use std::collections::BTreeMap;

use measure::capacity;
use measure::experiment::{
    Configuration, Experiment, Factor, FailedRepeat, Measurement, RecordedValue, Scenario,
    TargetDescription,
};
use measure::metric::Metric;
use measure::statistics::Spread;

use crate::words::{in_percent, joined, titled};

/// A scenario with all its measurements.
#[derive(Debug)]
pub(crate) struct Study<'e> {
    /// Number of its record, from 1.
    pub(crate) number: usize,
    pub(crate) scenario: &'e Scenario,
    pub(crate) metrics: Vec<Metric>,
    /// Participating targets in the order of tables; the others are compared with the first.
    pub(crate) targets: Vec<&'e TargetDescription>,
    pub(crate) combinations: Vec<Combination<'e>>,
}

#[derive(Debug)]
pub(crate) struct Combination<'e> {
    factors: &'e [Factor],
    pub(crate) values: Vec<&'e RecordedValue>,
    pub(crate) entries: Vec<StudyEntry<'e>>,
}

#[derive(Debug)]
pub(crate) struct StudyEntry<'e> {
    pub(crate) scenario: &'e Scenario,
    pub(crate) target: &'e TargetDescription,
    /// `None` if the configuration was not planned.
    pub(crate) configuration: Option<&'e Configuration>,
    pub(crate) measurements: BTreeMap<u32, &'e Measurement>,
    pub(crate) failures: Vec<&'e FailedRepeat>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Gap {
    pub(crate) kind: &'static str,
    /// Reason for people; empty if the word suffices.
    pub(crate) why: String,
}

/// Returns all scenarios of a record; `number` is that of the record in the report. Targets are
/// compared with the one named `reference` if it participates, else with the first.
pub(crate) fn studies<'e>(
    experiment: &'e Experiment,
    number: usize,
    reference: Option<&str>,
) -> Vec<Study<'e>> {
    let mut measurements: BTreeMap<_, BTreeMap<u32, &Measurement>> = BTreeMap::new();
    for measurement in &experiment.measurements {
        let key = (measurement.scenario.as_str(), measurement.configuration.as_str());
        measurements.entry(key).or_default().insert(measurement.repeat, measurement);
    }
    let mut failures: BTreeMap<_, Vec<&FailedRepeat>> = BTreeMap::new();
    for failure in &experiment.failures {
        let key = (failure.scenario.as_str(), failure.configuration.as_str());
        failures.entry(key).or_default().push(failure);
    }
    let found = StudyResults { number, measurements, failures };
    let scenarios = experiment.plan.scenarios.iter();
    let targets = ordered(&experiment.plan.targets, reference);
    scenarios.map(|scenario| found.study(scenario, &targets)).collect()
}

/// Returns every target in the record's order, but the reference first.
fn ordered<'e>(
    targets: &'e [TargetDescription],
    reference: Option<&str>,
) -> Vec<&'e TargetDescription> {
    let mut targets: Vec<&TargetDescription> = targets.iter().collect();
    if let Some(place) = targets.iter().position(|it| Some(it.name.as_str()) == reference) {
        targets[..=place].rotate_right(1);
    }
    targets
}

struct StudyResults<'e> {
    number: usize,
    measurements: BTreeMap<(&'e str, &'e str), BTreeMap<u32, &'e Measurement>>,
    failures: BTreeMap<(&'e str, &'e str), Vec<&'e FailedRepeat>>,
}

impl<'e> StudyResults<'e> {
    fn study(&self, scenario: &'e Scenario, targets: &[&'e TargetDescription]) -> Study<'e> {
        let takes_part = |target: &&TargetDescription| {
            scenario.configurations.iter().any(|configuration| configuration.target == target.name)
        };
        let targets: Vec<&TargetDescription> = targets.iter().copied().filter(takes_part).collect();
        let combinations = combinations(&scenario.factors).into_iter();
        let combinations = combinations.map(|values| self.combination(scenario, &targets, values));
        let combinations: Vec<Combination<'_>> =
            combinations.filter(Combination::is_planned).collect();
        let entries = combinations.iter().flat_map(|combination| &combination.entries);
        let measured: Vec<&Measurement> =
            entries.flat_map(|entry| entry.measurements.values().copied()).collect();
        Study {
            number: self.number,
            scenario,
            metrics: metrics(scenario, &measured),
            targets,
            combinations,
        }
    }

    fn combination(
        &self,
        scenario: &'e Scenario,
        targets: &[&'e TargetDescription],
        values: Vec<&'e RecordedValue>,
    ) -> Combination<'e> {
        let entry = |target: &&'e TargetDescription| {
            let is_it = |configuration: &&Configuration| {
                configuration.target == target.name && is_at(configuration, scenario, &values)
            };
            let configuration = scenario.configurations.iter().find(is_it);
            let key = (
                scenario.name.as_str(),
                configuration.map_or("", |configuration| configuration.key.as_str()),
            );
            StudyEntry {
                scenario,
                target,
                configuration,
                measurements: self.measurements.get(&key).cloned().unwrap_or_default(),
                failures: self.failures.get(&key).cloned().unwrap_or_default(),
            }
        };
        let entries = targets.iter().map(entry).collect();
        Combination { factors: &scenario.factors, values, entries }
    }
}

fn is_at(configuration: &Configuration, scenario: &Scenario, values: &[&RecordedValue]) -> bool {
    let mut pairs = scenario.factors.iter().zip(values);
    pairs.all(|(factor, value)| configuration.values.get(&factor.name) == Some(&value.name))
}

/// Returns all combinations of the factors' values, the last factor changing fastest.
fn combinations(factors: &[Factor]) -> Vec<Vec<&RecordedValue>> {
    let mut all: Vec<Vec<&RecordedValue>> = vec![Vec::new()];
    for factor in factors {
        let longer = all.iter().flat_map(|values| {
            let with = move |value| values.iter().copied().chain([value]).collect();
            factor.values.iter().map(with)
        });
        all = longer.collect();
    }
    all
}

/// Read-offs of a rising load, the main one of the original method first. Records of earlier builds
/// lack that one.
const READ_OFFS: [Metric; 5] = [
    Metric::Under100MsFewLost,
    Metric::Under100Ms,
    Metric::Under500Ms,
    Metric::FewErrors,
    Metric::Peak,
];

/// Returns the metrics that a scenario reports of each configuration, the main one first.
fn metrics(scenario: &Scenario, measured: &[&Measurement]) -> Vec<Metric> {
    let metrics = scenario.metrics.iter().copied();
    let is_read_off = |metric: &Metric| measured.iter().any(|it| metric.of(*it).is_some());
    if !is_read_off(&Metric::Peak) {
        return metrics.collect();
    }
    // The rate over all of a rising load shows what was offered, not the server's capacity.
    let others = metrics.filter(|metric| *metric != Metric::Rate);
    READ_OFFS.into_iter().filter(is_read_off).chain(others).collect()
}

impl<'e> Study<'e> {
    pub(crate) fn anchor(&self) -> String {
        format!("e{}-{}", self.number, self.scenario.name)
    }

    /// Returns the name of the target that others are compared with.
    pub(crate) fn reference(&self) -> &'e str {
        self.targets.first().map_or("", |target| target.name.as_str())
    }

    pub(crate) fn main(&self) -> Option<Metric> {
        self.metrics.first().copied()
    }

    /// Returns a metric's name, with a capital letter.
    pub(crate) fn titled(&self, metric: Metric) -> String {
        titled(&metric.title(&self.scenario.operation))
    }

    /// Returns all cells, each with its combination.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Combination<'e>, &StudyEntry<'e>)> {
        self.combinations.iter().flat_map(|combination| {
            combination.entries.iter().map(move |entry| (combination, entry))
        })
    }

    pub(crate) fn is_measured(&self) -> bool {
        self.entries().any(|(_, entry)| !entry.measurements.is_empty())
    }

    /// Reports whether loads rose, so that capacities could be read off.
    pub(crate) fn is_rising(&self) -> bool {
        self.main().is_some_and(|main| READ_OFFS.contains(&main))
    }

    /// Reports whether the last factor's values are numbers, so that plots are lines.
    pub(crate) fn is_numeric(&self) -> bool {
        self.scenario.factors.last().is_some_and(|factor| {
            let numbers = factor.values.iter().filter(|value| value.number.is_some());
            factor.values.len() > 2 && numbers.count() + 1 >= factor.values.len()
        })
    }

    /// Groups combinations that differ in the last factor alone.
    pub(crate) fn series(&self) -> impl Iterator<Item = &[Combination<'e>]> {
        self.combinations.chunk_by(|a, b| a.outer() == b.outer())
    }

    /// Returns the planned values of the last factor in their order.
    pub(crate) fn last_values(&self) -> Vec<&'e RecordedValue> {
        let Some(factor) = self.scenario.factors.last() else {
            return Vec::new();
        };
        let is_planned = |value: &&RecordedValue| {
            self.combinations.iter().any(|combination| combination.is_last(value))
        };
        factor.values.iter().filter(is_planned).collect()
    }
}

impl<'e> Combination<'e> {
    /// Returns the titles of its values; empty without factors.
    pub(crate) fn title(&self) -> String {
        self.titles(self.values.len())
    }

    /// Returns a target's name with these titles.
    pub(crate) fn named(&self, entry: &StudyEntry<'_>) -> String {
        joined([entry.target.name.clone(), self.title()], ", ")
    }

    /// Returns the titles of the values of all factors but the last; empty if there is only one.
    pub(crate) fn outer_title(&self) -> String {
        self.titles(self.values.len().saturating_sub(1))
    }

    /// Returns the titles of the first values. A bare number needs its factor.
    fn titles(&self, count: usize) -> String {
        let pairs = self.values.iter().zip(self.factors).take(count);
        let titles = pairs.map(|(value, factor)| {
            let is_bare = !value.title.contains(char::is_alphabetic);
            if is_bare { format!("{} {}", factor.title, value.title) } else { value.title.clone() }
        });
        joined(titles, ", ")
    }

    /// Returns the names of the values of all factors but the last.
    fn outer(&self) -> Vec<&'e str> {
        let others = self.values.len().saturating_sub(1);
        self.values.iter().take(others).map(|value| value.name.as_str()).collect()
    }

    /// Reports whether this is the last factor's value.
    pub(crate) fn is_last(&self, value: &RecordedValue) -> bool {
        let last = self.values.last();
        last.is_some_and(|last| last.name == value.name)
    }

    /// Returns the last factor's value as a place on an axis, if it has one.
    pub(crate) fn number(&self) -> Option<f64> {
        self.values.last().and_then(|value| value.number)
    }

    /// Returns the names of its values, for ids.
    pub(crate) fn id(&self) -> String {
        joined(self.values.iter().map(|value| value.name.as_str()), "-")
    }

    /// Returns the entry to compare this one with; `None` if it is the same.
    pub(crate) fn base_of(&self, entry: &StudyEntry<'_>) -> Option<&StudyEntry<'e>> {
        let targets: Vec<&TargetDescription> =
            self.entries.iter().map(|entry| entry.target).collect();
        let named = |target: &&TargetDescription| target.name == entry.target.name;
        self.entries.get(base(entry.scenario, &targets, targets.iter().position(named)?)?)
    }

    fn is_planned(&self) -> bool {
        self.entries.iter().any(|entry| entry.configuration.is_some())
    }
}

impl StudyEntry<'_> {
    /// Reports whether both do the same work: TLS or none, with or without an origin server.
    pub(crate) fn does_same_work(&self, other: &StudyEntry<'_>) -> bool {
        do_same_work(self.scenario, self.target, other.target)
    }

    /// Returns a metric of both entries in each round in which both have a usable value.
    pub(crate) fn pairs(
        &self,
        base: &StudyEntry<'_>,
        metric: Metric,
        is_used: impl Fn(&Measurement) -> bool,
    ) -> Vec<(f64, f64)> {
        let pairs = self.measurements.iter().filter_map(|(repeat, ours)| {
            let theirs = base.measurements.get(repeat)?;
            let is_used = is_used(ours) && is_used(theirs);
            is_used.then_some((metric.of(*ours)?, metric.of(*theirs)?))
        });
        pairs.collect()
    }

    /// Returns a metric of each repeat, in the unit of the record.
    pub(crate) fn samples(&self, metric: Metric) -> Vec<f64> {
        self.measurements.values().filter_map(|measurement| metric.of(*measurement)).collect()
    }

    pub(crate) fn spread(&self, metric: Metric) -> Option<Spread> {
        Spread::of(&self.samples(metric))
    }

    /// Returns one step of the ramp as a share of the capacity read from it, as the median of
    /// repeats: capacities closer to each other are equal. `None` for other metrics.
    pub(crate) fn step(&self, metric: Metric) -> Option<f64> {
        let measurements = self.measurements.values().filter(|_| READ_OFFS.contains(&metric));
        let steps = measurements.filter_map(|it| {
            let steps = it.steps.iter().map(|it| &it.point);
            let steps = steps.map(|it| (it.offered_per_s, it.succeeded_per_s));
            let seconds = it.seconds.iter().take(if it.steps.is_empty() { usize::MAX } else { 0 });
            let seconds = seconds.map(|it| (it.attempted as f64, it.succeeded as f64));
            capacity::step(&steps.chain(seconds).collect::<Vec<_>>(), metric.of(*it)?)
        });
        Spread::of(&steps.collect::<Vec<_>>()).map(|it| it.median)
    }

    /// Returns a metric's median, with one step of the ramp that it was read from: `1661 ±12 %`.
    pub(crate) fn median(&self, metric: Metric) -> Option<String> {
        let median = metric.number(self.spread(metric)?.median);
        Some(match self.step(metric) {
            Some(step) => format!("{median} {}", in_percent(step)),
            None => median,
        })
    }

    /// Returns the reason why there is no measurement; `None` if there is one.
    pub(crate) fn gap(&self) -> Option<Gap> {
        if !self.measurements.is_empty() {
            return None;
        }
        let Some(configuration) = self.configuration else {
            return Some(Gap::of(NOT_PLANNED, ""));
        };
        if let Some(why) = &configuration.unsupported {
            return Some(Gap::of("unsupported", why));
        }
        if let Some(failure) = self.failures.last() {
            return Some(Gap::of(failure.kind.name(), &failure.why));
        }
        Some(match &self.target.missing {
            Some(why) => Gap::of("missing", why),
            None => Gap::of("not measured yet", ""),
        })
    }
}

pub(crate) fn do_same_work(
    scenario: &Scenario,
    target: &TargetDescription,
    other: &TargetDescription,
) -> bool {
    scenario.end_to_end || (&target.serves, &target.scheme) == (&other.serves, &other.scheme)
}

/// Returns the target to compare a target with: the first program, at the place where it does the
/// same work, else the first target. `None` if it is the same.
pub(crate) fn base(
    scenario: &Scenario,
    targets: &[&TargetDescription],
    index: usize,
) -> Option<usize> {
    let first = targets.first()?;
    let is_base = |target: &&TargetDescription| {
        target.program == first.program && do_same_work(scenario, target, targets[index])
    };
    let base = targets.iter().position(is_base).unwrap_or(0);
    (base != index).then_some(base)
}

const NOT_PLANNED: &str = "not planned";

impl Gap {
    /// Reports whether the scenario does not plan this for this target.
    pub(crate) fn is_not_planned(&self) -> bool {
        self.kind == NOT_PLANNED
    }

    fn of(kind: &'static str, why: &str) -> Self {
        Self { kind, why: why.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str, program: &str, serves: &str) -> TargetDescription {
        TargetDescription {
            name: name.to_owned(),
            program: program.to_owned(),
            serves: serves.to_owned(),
            ..TargetDescription::default()
        }
    }

    #[test]
    fn a_target_is_compared_with_the_first_program_at_the_same_work() {
        let targets = [
            target("lariat", "lariat", "origin"),
            target("hitch", "hitch", "origin"),
            target("lariat-files", "lariat", "itself"),
            target("nginx-files", "nginx", "itself"),
        ];
        let targets: Vec<&TargetDescription> = targets.iter().collect();
        let of = |scenario: &Scenario, targets: &[&TargetDescription]| -> Vec<Option<usize>> {
            (0..targets.len()).map(|index| base(scenario, targets, index)).collect()
        };
        let end_to_end = Scenario { end_to_end: true, ..Scenario::default() };
        assert_eq!(of(&end_to_end, &targets), [None, Some(0), Some(0), Some(0)]);
        let bases = |targets: &[&TargetDescription]| of(&Scenario::default(), targets);
        assert_eq!(bases(&targets), [None, Some(0), None, Some(2)]);
        // A target with other work than the first program is shown beside the first.
        let without = [targets[0], targets[3]];
        assert_eq!(bases(&without), [None, Some(0)]);
    }
}
