//! A record of an experiment, put in order: scenarios, combinations of levels, targets.

use std::collections::BTreeMap;

use measure::experiment::{Cell, Experiment, Factor, Level, Miss, Reading, Scenario, Target, Way};
use measure::statistics::Spread;

use super::yardstick::{Yardstick, yardsticks};

/// A scenario with all that was read.
#[derive(Debug)]
pub(crate) struct Case<'e> {
    /// That of its record, from 1.
    pub(crate) number: usize,
    pub(crate) scenario: &'e Scenario,
    /// What is told, the main one first.
    pub(crate) yardsticks: Vec<Yardstick>,
    /// Who takes part, in the order of tables; others are compared with the first.
    pub(crate) targets: Vec<&'e Target>,
    /// One a combination of levels, in the order of tables.
    pub(crate) groups: Vec<Group<'e>>,
}

/// A combination of levels.
#[derive(Debug)]
pub(crate) struct Group<'e> {
    /// What was varied.
    factors: &'e [Factor],
    /// The level of each.
    pub(crate) levels: Vec<&'e Level>,
    /// In the order of the case's targets.
    pub(crate) entries: Vec<Entry<'e>>,
}

/// A cell with all that was read of it.
#[derive(Debug)]
pub(crate) struct Entry<'e> {
    pub(crate) target: &'e Target,
    /// None where it was not asked.
    pub(crate) cell: Option<&'e Cell>,
    /// By repeat.
    pub(crate) readings: BTreeMap<u32, &'e Reading>,
    /// Repeats that have no reading.
    pub(crate) misses: Vec<&'e Miss>,
}

/// Why there is no figure.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Gap {
    /// In a word.
    pub(crate) way: &'static str,
    /// Why, for people; empty where the word says it.
    pub(crate) why: String,
}

/// All scenarios of a record, which is the one of that number.
pub(crate) fn cases(experiment: &Experiment, number: usize) -> Vec<Case<'_>> {
    let mut readings: BTreeMap<_, BTreeMap<u32, &Reading>> = BTreeMap::new();
    for reading in &experiment.readings {
        let key = (reading.scenario.as_str(), reading.cell.as_str());
        readings
            .entry(key)
            .or_default()
            .insert(reading.repeat, reading);
    }
    let mut misses: BTreeMap<_, Vec<&Miss>> = BTreeMap::new();
    for miss in &experiment.misses {
        let key = (miss.scenario.as_str(), miss.cell.as_str());
        misses.entry(key).or_default().push(miss);
    }
    let found = Found {
        number,
        readings,
        misses,
    };
    let scenarios = experiment.plan.scenarios.iter();
    scenarios
        .map(|scenario| found.case(scenario, &experiment.plan.targets))
        .collect()
}

/// What was read, by scenario and cell.
struct Found<'e> {
    number: usize,
    readings: BTreeMap<(&'e str, &'e str), BTreeMap<u32, &'e Reading>>,
    misses: BTreeMap<(&'e str, &'e str), Vec<&'e Miss>>,
}

impl<'e> Found<'e> {
    fn case(&self, scenario: &'e Scenario, targets: &'e [Target]) -> Case<'e> {
        let takes_part =
            |target: &&Target| scenario.cells.iter().any(|cell| cell.target == target.name);
        let targets: Vec<&Target> = targets.iter().filter(takes_part).collect();
        let combinations = combinations(&scenario.factors);
        let groups = combinations.into_iter();
        let groups = groups.map(|levels| self.group(scenario, &targets, levels));
        let groups: Vec<Group<'_>> = groups.filter(Group::is_asked).collect();
        let mut entries = groups.iter().flat_map(|group| &group.entries);
        let is_ramp = entries.any(|entry| {
            let mut readings = entry.readings.values();
            readings.any(|reading| {
                reading
                    .read_offs
                    .is_some_and(|read| read.peak_per_s.is_some())
            })
        });
        Case {
            number: self.number,
            scenario,
            yardsticks: yardsticks(scenario, is_ramp),
            targets,
            groups,
        }
    }

    fn group(
        &self,
        scenario: &'e Scenario,
        targets: &[&'e Target],
        levels: Vec<&'e Level>,
    ) -> Group<'e> {
        let entry = |target: &&'e Target| {
            let is_it = |cell: &&Cell| cell.target == target.name && is_at(cell, scenario, &levels);
            let cell = scenario.cells.iter().find(is_it);
            let key = (
                scenario.name.as_str(),
                cell.map_or("", |cell| cell.key.as_str()),
            );
            Entry {
                target,
                cell,
                readings: self.readings.get(&key).cloned().unwrap_or_default(),
                misses: self.misses.get(&key).cloned().unwrap_or_default(),
            }
        };
        let entries = targets.iter().map(entry).collect();
        Group {
            factors: &scenario.factors,
            levels,
            entries,
        }
    }
}

/// Whether a cell stands at these levels.
fn is_at(cell: &Cell, scenario: &Scenario, levels: &[&Level]) -> bool {
    let mut pairs = scenario.factors.iter().zip(levels);
    pairs.all(|(factor, level)| cell.levels.get(&factor.name) == Some(&level.name))
}

/// All choices of a level of each factor, the last factor changing fastest.
fn combinations(factors: &[Factor]) -> Vec<Vec<&Level>> {
    let mut all: Vec<Vec<&Level>> = vec![Vec::new()];
    for factor in factors {
        let longer = all.iter().flat_map(|levels| {
            let with = move |level| levels.iter().copied().chain([level]).collect();
            factor.levels.iter().map(with)
        });
        all = longer.collect();
    }
    all
}

impl<'e> Case<'e> {
    /// Its id on a page.
    pub(crate) fn anchor(&self) -> String {
        format!("e{}-{}", self.number, self.scenario.name)
    }

    /// The main figure, if the scenario tells any.
    pub(crate) fn main(&self) -> Option<Yardstick> {
        self.yardsticks.first().copied()
    }

    /// All cells, with the combination that they stand in.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Group<'e>, &Entry<'e>)> {
        self.groups
            .iter()
            .flat_map(|group| group.entries.iter().map(move |entry| (group, entry)))
    }

    /// Whether anything was read.
    pub(crate) fn is_read(&self) -> bool {
        self.entries().any(|(_, entry)| !entry.readings.is_empty())
    }

    /// Whether the levels of the last factor are numbers, so that figures are lines over them.
    pub(crate) fn is_numeric(&self) -> bool {
        self.scenario.factors.last().is_some_and(|factor| {
            let told = factor.levels.iter().filter(|level| level.value.is_some());
            factor.levels.len() > 2 && told.count() + 1 >= factor.levels.len()
        })
    }

    /// Combinations that differ in the last factor alone, together.
    pub(crate) fn series(&self) -> impl Iterator<Item = &[Group<'e>]> {
        self.groups.chunk_by(|a, b| a.outer() == b.outer())
    }

    /// The levels of the last factor that were asked for, in their order.
    pub(crate) fn last_levels(&self) -> Vec<&'e Level> {
        let Some(factor) = self.scenario.factors.last() else {
            return Vec::new();
        };
        let is_asked = |level: &&Level| self.groups.iter().any(|group| group.is_last(level));
        factor.levels.iter().filter(is_asked).collect()
    }
}

impl<'e> Group<'e> {
    /// The titles of its levels; empty without factors.
    pub(crate) fn title(&self) -> String {
        self.titles(self.levels.len())
    }

    /// The titles of the levels of all factors but the last; empty where there is one.
    pub(crate) fn outer_title(&self) -> String {
        self.titles(self.levels.len().saturating_sub(1))
    }

    /// Of the first levels. A bare number is nothing without its factor.
    fn titles(&self, count: usize) -> String {
        let pairs = self.levels.iter().zip(self.factors).take(count);
        let titles = pairs.map(|(level, factor)| {
            let is_bare = !level.title.contains(char::is_alphabetic);
            match is_bare {
                true => format!("{} {}", factor.title, level.title),
                false => level.title.clone(),
            }
        });
        titles.collect::<Vec<_>>().join(", ")
    }

    /// The names of the levels of all factors but the last.
    fn outer(&self) -> Vec<&'e str> {
        let others = self.levels.len().saturating_sub(1);
        let others = self.levels.iter().take(others);
        others.map(|level| level.name.as_str()).collect()
    }

    /// Whether this is the last factor's level.
    pub(crate) fn is_last(&self, level: &Level) -> bool {
        let last = self.levels.last();
        last.is_some_and(|last| last.name == level.name)
    }

    /// The names of its levels, for ids.
    pub(crate) fn id(&self) -> String {
        let names = self.levels.iter().map(|level| level.name.as_str());
        names.collect::<Vec<_>>().join("-")
    }

    /// The one that most others are compared with.
    pub(crate) fn first(&self) -> Option<&Entry<'e>> {
        self.entries.first()
    }

    /// The one that this one is compared with; `None` = it is that one itself.
    pub(crate) fn base_of(&self, entry: &Entry<'_>) -> Option<&Entry<'e>> {
        let targets: Vec<&Target> = self.entries.iter().map(|entry| entry.target).collect();
        let named = |target: &&Target| target.name == entry.target.name;
        let base = base(&targets, targets.iter().position(named)?)?;
        self.entries.get(base)
    }

    fn is_asked(&self) -> bool {
        self.entries.iter().any(|entry| entry.cell.is_some())
    }
}

impl Entry<'_> {
    /// Whether it does the same work as the other: TLS or none, with an origin behind it or not.
    pub(crate) fn is_rival_of(&self, other: &Entry<'_>) -> bool {
        is_rival(self.target, other.target)
    }

    /// A figure of each repeat, in the unit of the record.
    pub(crate) fn samples(&self, yardstick: Yardstick) -> Vec<f64> {
        let values = self.readings.values();
        values.filter_map(|reading| yardstick.of(reading)).collect()
    }

    /// The same of readings that can be judged.
    pub(crate) fn judged_samples(
        &self,
        yardstick: Yardstick,
        is_quiet: fn(&Reading) -> bool,
    ) -> Vec<f64> {
        let quiet = self.readings.values().filter(|reading| is_quiet(reading));
        quiet.filter_map(|reading| yardstick.of(reading)).collect()
    }

    /// Their spread, if there are any.
    pub(crate) fn spread(&self, yardstick: Yardstick) -> Option<Spread> {
        Spread::of(&self.samples(yardstick))
    }

    /// Why there is no figure; `None` if there is one.
    pub(crate) fn gap(&self) -> Option<Gap> {
        if !self.readings.is_empty() {
            return None;
        }
        let Some(cell) = self.cell else {
            return Some(Gap::of(NOT_ASKED, ""));
        };
        if let Some(why) = &cell.cannot {
            return Some(Gap::of("cannot", why));
        }
        if let Some(miss) = self.misses.last() {
            return Some(Gap::of(way(miss.way), &miss.why));
        }
        Some(match &self.target.missing {
            Some(why) => Gap::of("missing", why),
            None => Gap::of("not read yet", ""),
        })
    }
}

/// Whether two targets do the same work.
pub(crate) fn is_rival(target: &Target, other: &Target) -> bool {
    (&target.serves, &target.scheme) == (&other.serves, &other.scheme)
}

/// Which of the targets a target is compared with: the first program, in the place where it does
/// the same work, else the first target. `None` = it is that one itself.
pub(crate) fn base(targets: &[&Target], index: usize) -> Option<usize> {
    let first = targets.first()?;
    let is_base =
        |target: &&Target| target.program == first.program && is_rival(target, targets[index]);
    let base = targets.iter().position(is_base).unwrap_or(0);
    (base != index).then_some(base)
}

/// Where there is no cell.
const NOT_ASKED: &str = "not asked";

impl Gap {
    /// Whether the scenario does not ask this of this target.
    pub(crate) fn is_not_asked(&self) -> bool {
        self.way == NOT_ASKED
    }

    fn of(way: &'static str, why: &str) -> Self {
        Self {
            way,
            why: why.to_owned(),
        }
    }
}

/// In a word.
pub(crate) fn way(way: Way) -> &'static str {
    match way {
        Way::Cannot => "cannot",
        Way::Failed => "failed",
        Way::Void => "void",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str, program: &str, serves: &str) -> Target {
        Target {
            name: name.to_owned(),
            title: String::new(),
            program: program.to_owned(),
            version: Vec::new(),
            from: String::new(),
            missing: None,
            serves: serves.to_owned(),
            scheme: "https".to_owned(),
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
        let targets: Vec<&Target> = targets.iter().collect();
        let bases = |targets: &[&Target]| -> Vec<Option<usize>> {
            (0..targets.len())
                .map(|index| base(targets, index))
                .collect()
        };
        assert_eq!(bases(&targets), [None, Some(0), None, Some(2)]);
        // Who does work that the first program does not do is shown beside the first.
        let without = [targets[0], targets[3]];
        assert_eq!(bases(&without), [None, Some(0)]);
    }
}
