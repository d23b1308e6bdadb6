//! The ranking that a report begins with: targets that are better than the first, in a few lines.
//!
//! Metrics of configurations are judged against the first target's in the same configuration. The
//! main metric of each scenario is counted, the others are listed: several metrics of a measurement
//! go together, and counted one by one would count the same thing several times. What is counted
//! holds for all that is counted ([`holm`]); what is listed, and what tables show, each by its own
//! interval.

use std::collections::BTreeMap;

use measure::effect::EffectScale;
use measure::experiment::TargetDescription;
use measure::metric::Metric;
use measure::statistics;

use super::comparison::{BUSY_MIN, Comparison, ComparisonVerdict, ROUNDS_MIN, compare, digits};
use super::study::{Combination, Study, base, do_same_work};
use crate::document::{ListItem, ReportBlock, ReportSection, SectionKind};
use crate::words::{joined, listed};

#[derive(Clone, Debug, Default)]
pub(crate) struct Ranking {
    /// The target that others are compared with.
    first: String,
    /// Comparisons of a target in a scenario that say the same.
    lines: Vec<RankingLine>,
    /// Configurations that the first has no measurement of and others have: scenario, and the
    /// configuration with the reason.
    lacks: Vec<(String, String)>,
    /// Targets that do other work, with what they do.
    other_work: Vec<(String, &'static str)>,
}

#[derive(Clone, Debug)]
struct RankingLine {
    verdict: ComparisonVerdict,
    weight: Weight,
    scenario: String,
    anchor: String,
    metric: String,
    target: String,
    /// In which combinations of values, and by how much it differs. Never empty.
    found: Vec<(String, Comparison)>,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Weight {
    /// The main metric of a scenario.
    Main,
    /// The same, but it differs by its own interval only, and not among all comparisons.
    Alone,
    Further,
}

impl Ranking {
    pub(crate) fn of<'s, 'e: 's>(studies: impl Iterator<Item = &'s Study<'e>> + Clone) -> Self {
        let chances: Vec<f64> = studies.clone().flat_map(chances).collect();
        let mut established = statistics::established(&chances).into_iter();
        let mut ranking = Self::default();
        for study in studies {
            ranking.add(study, &mut established);
        }
        ranking
    }

    /// Adds a scenario, with what is established of its main metric in the order of [`chances`].
    fn add(&mut self, study: &Study<'_>, established: &mut impl Iterator<Item = bool>) {
        let Some(first) = study.targets.first() else {
            return;
        };
        if self.first.is_empty() {
            self.first.clone_from(&first.name);
        }
        self.add_lacks(study);
        for (index, target) in study.targets.iter().enumerate() {
            let Some(base) = base(&study.targets, index) else {
                continue;
            };
            if do_same_work(target, study.targets[base]) {
                self.add_target(study, index, established);
                continue;
            }
            let other = (target.name.clone(), other_work(target));
            if !self.other_work.contains(&other) {
                self.other_work.push(other);
            }
        }
    }

    fn add_target(
        &mut self,
        study: &Study<'_>,
        index: usize,
        established: &mut impl Iterator<Item = bool>,
    ) {
        for (place, metric) in study.metrics.iter().enumerate() {
            let mut found: BTreeMap<(ComparisonVerdict, Weight), Vec<(String, Comparison)>> =
                BTreeMap::new();
            for combination in &study.combinations {
                let Some(comparison) = judged(combination, index, *metric) else {
                    continue;
                };
                let verdict = comparison.verdict;
                let is_counted = place == 0 && verdict.is_counted();
                let is_established = !is_counted || established.next() == Some(true);
                let weight = match place {
                    0 if is_established || !verdict.is_difference() => Weight::Main,
                    0 => Weight::Alone,
                    _ => Weight::Further,
                };
                let line = found.entry((verdict, weight)).or_default();
                line.push((combination.title(), comparison));
            }
            self.lines.extend(found.into_iter().map(|((verdict, weight), found)| RankingLine {
                verdict,
                weight,
                scenario: study.scenario.name.clone(),
                anchor: study.anchor(),
                metric: metric.title(&study.scenario.operation),
                target: study.targets[index].name.clone(),
                found,
            }));
        }
    }

    /// Configurations that others did and the first did not.
    fn add_lacks(&mut self, study: &Study<'_>) {
        for combination in &study.combinations {
            let Some((first, others)) = combination.entries.split_first() else {
                continue;
            };
            let Some(gap) = first.gap() else {
                continue;
            };
            let did =
                others.iter().filter(|it| !it.measurements.is_empty() && first.does_same_work(it));
            let did: Vec<&str> = did.map(|entry| entry.target.name.as_str()).collect();
            if did.is_empty() {
                continue;
            }
            let what = format!("{}, {} did it", gap.kind, did.join(", "));
            let why = match gap.why.as_str() {
                "" => String::new(),
                why => format!(" ({why})"),
            };
            let what = joined([combination.title(), what], ": ") + &why;
            self.lacks.push((study.scenario.name.clone(), what));
        }
    }

    /// The comparison by a scenario's main metric of a target in a combination of values.
    pub(crate) fn main(
        &self,
        study: &Study<'_>,
        target: &str,
        combination: &str,
    ) -> Option<(ComparisonVerdict, Weight, Comparison)> {
        let anchor = study.anchor();
        let mut lines = self.lines.iter().filter(|line| {
            line.weight != Weight::Further && line.anchor == anchor && line.target == target
        });
        lines.find_map(|line| {
            let found = line.found.iter().find(|(title, _)| title == combination);
            found.map(|(_, comparison)| (line.verdict, line.weight, *comparison))
        })
    }

    fn lines(
        &self,
        verdict: ComparisonVerdict,
        weight: Weight,
    ) -> impl Iterator<Item = &RankingLine> {
        let lines = self.lines.iter();
        lines.filter(move |line| line.verdict == verdict && line.weight == weight)
    }

    fn count(&self, verdict: ComparisonVerdict, weight: Weight) -> usize {
        self.lines(verdict, weight).map(|line| line.found.len()).sum()
    }

    /// How many comparisons are counted: better, equal, not known, worse. What differs by its own
    /// interval alone is not known to differ.
    fn counts(&self) -> [usize; 4] {
        let of = |verdict| self.count(verdict, Weight::Main);
        let alone = |verdict| self.count(verdict, Weight::Alone);
        let not_known = of(ComparisonVerdict::NotKnown)
            + alone(ComparisonVerdict::Better)
            + alone(ComparisonVerdict::Worse);
        let equal = of(ComparisonVerdict::Equal);
        [of(ComparisonVerdict::Better), equal, not_known, of(ComparisonVerdict::Worse)]
    }

    /// All of it in a sentence, and how it is counted.
    fn headline(&self) -> (String, Option<String>) {
        let first = &self.first;
        let [better, equal, not_known, worse] = self.counts();
        let all = better + equal + not_known + worse;
        if all == 0 {
            return (self.nothing(), None);
        }
        let targets = match better {
            0 => format!("No target is better than {first} in any of {all} comparisons"),
            1 => format!("A target is better than {first} in 1 of {all} comparisons"),
            _ => format!("Targets are better than {first} in {better} of {all} comparisons"),
        };
        let alone = [(ComparisonVerdict::Better, "better"), (ComparisonVerdict::Worse, "worse")];
        let alone = alone.map(|(verdict, word)| match self.count(verdict, Weight::Alone) {
            0 => String::new(),
            count => format!("{word} in {count} more"),
        });
        let alone = match joined(&alone, ", and ") {
            words if words.is_empty() => words,
            words => format!(" By its own 95 % interval alone a target is {words}."),
        };
        let unjudged = match self.count(ComparisonVerdict::TooFewRounds, Weight::Main) {
            0 => String::new(),
            count => format!(" Not judged, with fewer than {ROUNDS_MIN} rounds: {count}."),
        };
        let some = |count: usize, words: &str| match count {
            0 => String::new(),
            _ => format!("in {count} {words}"),
        };
        let equal = some(equal, "they are equal within 5 %");
        let not_known = some(not_known, "it is not known");
        let worse = match worse {
            0 => String::new(),
            1 => "a target is worse in 1".to_owned(),
            _ => format!("targets are worse in {worse}"),
        };
        let finding = joined([targets, equal, not_known, worse], "; ") + ".";
        let counted = format!(
            "A comparison is a scenario's main metric in one configuration; differences hold for \
             all of them together at 95 %, by Holm's method (1979).{alone}{unjudged}"
        );
        (finding, Some(counted))
    }

    fn nothing(&self) -> String {
        let of_load = self.count(ComparisonVerdict::LoadLimited, Weight::Main);
        match self.count(ComparisonVerdict::TooFewRounds, Weight::Main) {
            0 if of_load > 0 => format!(
                "Nothing is ranked: every comparison ({of_load}) is of a metric that was limited \
                 by what loaded the server."
            ),
            0 => "Nothing can be compared: no configuration was measured of two targets that do \
                  the same work."
                .to_owned(),
            count => format!(
                "Nothing is ranked: every comparison ({count}) has fewer than {ROUNDS_MIN} rounds, \
                 in which a difference cannot be told from noise. Repeat the run with `--repeats \
                 {ROUNDS_MIN}` or more."
            ),
        }
    }

    fn not_counted(&self) -> Vec<ListItem> {
        let lines =
            || self.lines.iter().filter(|line| line.verdict == ComparisonVerdict::LoadLimited);
        let mut names: Vec<String> = Vec::new();
        for line in lines() {
            let name = format!("{} ({})", line.scenario, line.metric);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let all: usize = lines().map(|line| line.found.len()).sum();
        let limited = format!(
            "○ closed loads in which a server shared its CPUs, or had them idle for more than {:.0} \
             % of the time, so that what loaded it was the limit ({all}): {}",
            (1.0 - BUSY_MIN) * 100.0,
            listed(&names)
        );
        let others = self.other_work.iter().map(|(name, why)| format!("{name} {why}"));
        let others = joined(others, "; ");
        let others = format!("targets that do other work: {others}");
        let texts = [(all > 0, limited), (!self.other_work.is_empty(), others)];
        let texts = texts.into_iter().filter(|(is_there, _)| *is_there);
        texts.map(|(_, head)| ListItem { head, ..ListItem::default() }).collect()
    }

    /// The beginning of a report: the finding, and how it is counted.
    pub(crate) fn finding(&self) -> Vec<ReportBlock> {
        let (headline, counted) = self.headline();
        let head = [ReportBlock::Headline(headline), ReportBlock::Counts(self.counts())];
        let counted = counted.map(ReportBlock::Paragraph);
        head.into_iter().chain(counted).collect()
    }

    /// The parts of the finding, the first target's defeats first.
    pub(crate) fn lists(&self) -> Vec<ReportBlock> {
        use ComparisonVerdict::{Better, Equal, NotKnown, Worse};
        use Weight::{Alone, Further, Main};
        let first = &self.first;
        let lacks = self.lacks.iter().map(|(scenario, what)| ListItem {
            head: format!("{scenario}: {what}"),
            ..ListItem::default()
        });
        let list = |verdict, weight, title: &str| {
            let items = self.items(verdict, weight);
            (verdict, title.to_owned(), items)
        };
        let lacking = format!("What {first} has no measurement of");
        let worse = format!("Where a target is worse: its metric to that of {first}");
        let lists = [
            list(Better, Main, "Where a target is better"),
            list(Better, Alone, "Better by its own interval alone"),
            (Better, lacking, lacks.collect()),
            list(Equal, Main, "Equal within 5 %"),
            list(NotKnown, Main, "Not known"),
            list(Worse, Main, &worse),
            list(Worse, Alone, "Worse by its own interval alone"),
            (NotKnown, "Not counted".to_owned(), self.not_counted()),
            list(Better, Further, "Further metrics: better"),
            list(Equal, Further, "Further metrics: equal within 5 %"),
            list(NotKnown, Further, "Further metrics: not known"),
            list(Worse, Further, "Further metrics: worse"),
        ];
        let lists = lists.into_iter().filter(|(_, _, items)| !items.is_empty());
        let lists = lists.map(|(verdict, title, items)| {
            ReportSection::new(
                SectionKind::Group(verdict.id()),
                title,
                vec![ReportBlock::Items(items)],
            )
            .into()
        });
        lists.collect()
    }

    /// Lines about the same metric of the same scenario are one item.
    fn items(&self, verdict: ComparisonVerdict, weight: Weight) -> Vec<ListItem> {
        let mut items: Vec<ListItem> = Vec::new();
        for line in self.lines(verdict, weight) {
            let head = format!("{}, {}", line.scenario, line.metric);
            let part = (line.target.clone(), line.words());
            let is_it = |item: &&mut ListItem| item.link == line.anchor && item.head == head;
            match items.iter_mut().find(is_it) {
                Some(item) => item.parts.push(part),
                None => items.push(ListItem { link: line.anchor.clone(), head, parts: vec![part] }),
            }
        }
        items
    }
}

impl RankingLine {
    /// Targets that may be equal, by how far they may differ. Worse ones by the range of their
    /// ratios where there are several; else each with its interval:
    /// `AES-128 12 % less (9.0 to 15 %); …`.
    fn words(&self) -> String {
        let is_ratio = |(_, it): &(String, Comparison)| it.effect.scale == EffectScale::Ratio;
        if self.verdict == ComparisonVerdict::Worse
            && self.found.len() > 1
            && self.found.iter().all(is_ratio)
        {
            let ratios = || self.found.iter().map(|(_, it)| it.effect.value);
            let least = ratios().fold(f64::INFINITY, f64::min);
            let most = ratios().fold(0.0, f64::max);
            let count = self.found.len();
            let (least, most) = (digits(least), digits(most));
            return format!("{least}× to {most}× in {count} configurations");
        }
        let part = |(title, it): &(String, Comparison)| {
            joined([title.clone(), it.remark().unwrap_or_else(|| it.in_full())], ": ")
        };
        joined(self.found.iter().map(part), "; ")
    }
}

/// The work of a target that is not ranked.
fn other_work(target: &TargetDescription) -> &'static str {
    match (target.scheme.as_str(), target.serves.as_str()) {
        ("http", _) => "does no TLS, and shows what TLS costs",
        (_, "itself") => "answers itself, and relays nothing",
        _ => "relays",
    }
}

fn judged(combination: &Combination<'_>, index: usize, metric: Metric) -> Option<Comparison> {
    let entry = combination.entries.get(index)?;
    compare(entry, combination.base_of(entry)?, metric)
}

/// How likely equals differ so much by chance, of each comparison that is counted.
fn chances<'s>(study: &'s Study<'_>) -> impl Iterator<Item = f64> + 's {
    let is_ranked = |index: &usize| {
        let base = base(&study.targets, *index);
        base.is_some_and(|base| do_same_work(study.targets[*index], study.targets[base]))
    };
    let ranked = (0..study.targets.len()).filter(is_ranked);
    let comparisons = ranked.flat_map(|index| {
        let main = study.main();
        let combinations = study.combinations.iter();
        combinations.filter_map(move |combination| judged(combination, index, main?))
    });
    let counted = comparisons.filter(|it| it.verdict.is_counted());
    counted.map(|it| it.effect.chance.unwrap_or(1.0))
}
