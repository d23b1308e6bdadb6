//! Ranks targets for the first part of a report: what each needs or reaches beside the reference.
//!
//! Metrics of configurations are judged against the reference's in the same configuration. The main
//! metric of each scenario is counted, the others are listed: several metrics of a measurement are
//! correlated, and counting each would count the same thing several times. Counted verdicts hold
//! for all counted comparisons together ([`holm`]); listed ones, and those of tables, each by its
//! own interval.

use std::collections::{BTreeMap, BTreeSet};

use measure::effect::EffectScale;
use measure::experiment::TargetDescription;
use measure::metric::Metric;
use measure::statistics;

use super::comparison::{
    BUSY_MIN, Comparison, ComparisonVerdict, ROUNDS_MIN, compare, in_cell, within_step,
};
use super::study::{Combination, Study, base, do_same_work};
use crate::document::{ListItem, ReportBlock, ReportSection, SectionKind};
use crate::words::{digits, joined, listed, percentage};

/// Maximum of scenarios in a headline, as one question may need two; of more, only the first.
const HEADLINE_SCENARIOS_MAX: usize = 2;

#[derive(Clone, Debug, Default)]
pub(crate) struct Ranking {
    /// Target that the others are compared with.
    first: String,
    /// Comparisons of a target in a scenario with the same verdict.
    lines: Vec<RankingLine>,
    /// Configurations that only the reference has no measurement of: scenario, and the
    /// configuration with the reason.
    lacks: Vec<(String, String)>,
    /// Targets that do other work, with a description.
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
    reference: String,
    /// Combinations of values, with the difference in each. Never empty.
    found: Vec<(String, Comparison)>,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Weight {
    /// Main metric of a scenario.
    Main,
    /// Main metric that differs by its own interval only, and not among all comparisons.
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

    /// Adds a scenario; `established` tells which main metrics differ, in the order of [`chances`].
    fn add(&mut self, study: &Study<'_>, established: &mut impl Iterator<Item = bool>) {
        let Some(first) = study.targets.first() else {
            return;
        };
        if self.first.is_empty() {
            self.first.clone_from(&first.name);
        }
        self.add_lacks(study);
        for (index, target) in study.targets.iter().enumerate() {
            let Some(base) = base(study.scenario, &study.targets, index) else {
                continue;
            };
            if do_same_work(study.scenario, target, study.targets[base]) {
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
                found.entry((verdict, weight)).or_default().push((combination.title(), comparison));
            }
            self.lines.extend(found.into_iter().map(|((verdict, weight), found)| RankingLine {
                verdict,
                weight,
                scenario: study.scenario.name.clone(),
                anchor: study.anchor(),
                metric: metric.title(&study.scenario.operation),
                target: study.targets[index].name.clone(),
                reference: study.reference().to_owned(),
                found,
            }));
        }
    }

    /// Adds configurations that others completed and the reference did not.
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

    /// Returns the comparison of a target in a combination of values, by a scenario's main metric.
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
        self.lines.iter().filter(move |line| line.verdict == verdict && line.weight == weight)
    }

    fn count(&self, verdict: ComparisonVerdict, weight: Weight) -> usize {
        self.lines(verdict, weight).map(|line| line.found.len()).sum()
    }

    /// Counts comparisons: better, equal, not known, worse. A difference by its own interval alone
    /// counts as not known.
    fn counts(&self) -> [usize; 4] {
        let of = |verdict| self.count(verdict, Weight::Main);
        let alone = |verdict| self.count(verdict, Weight::Alone);
        let not_known = of(ComparisonVerdict::NotKnown)
            + of(ComparisonVerdict::WithinStep)
            + alone(ComparisonVerdict::Better)
            + alone(ComparisonVerdict::Worse);
        let equal = of(ComparisonVerdict::Equal);
        [of(ComparisonVerdict::Better), equal, not_known, of(ComparisonVerdict::Worse)]
    }

    /// Returns the work of targets in a sentence, or the number of comparisons of each kind.
    fn headline(&self) -> String {
        if self.counts().iter().all(|count| *count == 0) {
            return self.nothing();
        }
        let mut anchors: Vec<&str> = Vec::new();
        for line in &self.lines {
            if anchors.last() != Some(&line.anchor.as_str()) {
                anchors.push(&line.anchor);
            }
        }
        let sentences = anchors.iter().map(|anchor| (*anchor, self.sentences(anchor)));
        let found = sentences.filter(|(_, sentences)| !sentences.is_empty());
        let count = if anchors.len() > HEADLINE_SCENARIOS_MAX { 1 } else { anchors.len() };
        let found = found.take(count).map(|(anchor, sentences)| {
            let line = self.lines.iter().find(|line| line.anchor == anchor);
            let scenario = line.map_or("", |line| line.scenario.as_str());
            let sentences = sentences.join(" ");
            if anchors.len() == 1 { sentences } else { format!("In {scenario}: {sentences}") }
        });
        match joined(found, " ") {
            none if none.is_empty() => format!("No difference from {} is established.", self.first),
            headline => headline,
        }
    }

    /// Returns established differences of a main metric; targets with one verdict share a sentence.
    pub(crate) fn sentences(&self, anchor: &str) -> Vec<String> {
        let lines = self.lines.iter().filter(|it| it.anchor == anchor && it.weight == Weight::Main);
        let differing = lines.filter(|it| it.verdict.is_difference());
        let mut by_target: Vec<Vec<&RankingLine>> = Vec::new();
        for line in differing {
            match by_target.iter_mut().find(|it| it[0].target == line.target) {
                Some(lines) => lines.push(line),
                None => by_target.push(vec![line]),
            }
        }
        let all: Vec<_> = by_target.iter().map(|lines| WorkSentence::of(lines)).collect();
        let alike = all.chunk_by(|a, b| (a.verb, &a.object) == (b.verb, &b.object));
        alike.map(WorkSentence::together).collect()
    }

    /// Explains how the comparisons are counted, and against which target.
    fn counted(&self) -> String {
        let [better, equal, not_known, worse] = self.counts();
        let all = better + equal + not_known + worse;
        let alone = [(ComparisonVerdict::Better, "better"), (ComparisonVerdict::Worse, "worse")];
        let alone = alone.map(|(verdict, word)| match self.count(verdict, Weight::Alone) {
            0 => String::new(),
            count => format!("{count} {word}"),
        });
        let alone = match joined(&alone, ", ") {
            words if words.is_empty() => words,
            words => format!(" (of these, by its own 95 % interval alone: {words})"),
        };
        let unjudged = match self.count(ComparisonVerdict::TooFewRounds, Weight::Main) {
            0 => String::new(),
            count => format!(" Not judged, with fewer than {ROUNDS_MIN} rounds: {count}."),
        };
        format!(
            "{all} comparisons with {}, the reference: {better} better, {equal} equal within 5 %, \
             {not_known} not known{alone}, {worse} worse.{unjudged} A comparison is a scenario's \
             main metric in one configuration; differences hold for all of them together at 95 %, \
             by Holm's method (1979). Another reference: `--reference`.",
            self.first
        )
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

    /// Returns the first part of a report: the finding, and how it is counted.
    pub(crate) fn finding(&self) -> Vec<ReportBlock> {
        let counts = self.counts();
        let mut blocks = vec![ReportBlock::Headline(self.headline()), ReportBlock::Counts(counts)];
        if counts.iter().any(|count| *count > 0) {
            blocks.push(ReportBlock::Paragraph(self.counted()));
        }
        blocks
    }

    /// Returns configurations that one record calls better and another worse, and those where the
    /// intervals of two records do not overlap.
    pub(crate) fn disagreements(&self) -> Vec<String> {
        let main = self.lines.iter().filter(|line| line.weight == Weight::Main);
        let mut compared: BTreeMap<(String, Metric), Vec<&Comparison>> = BTreeMap::new();
        for line in main {
            let name = format!("{} in {}", line.target, line.scenario);
            for (title, comparison) in &line.found {
                let key = (joined([&name, title], ", "), comparison.metric);
                compared.entry(key).or_default().push(comparison);
            }
        }
        let (mut opposite, mut apart) = (BTreeSet::new(), BTreeSet::new());
        for ((name, _), of_records) in compared {
            let says = |verdict| of_records.iter().any(|it| it.verdict == verdict);
            let intervals = || of_records.iter().filter_map(|it| it.effect.interval);
            let from = intervals().map(|(from, _)| from).fold(f64::NEG_INFINITY, f64::max);
            let to = intervals().map(|(_, to)| to).fold(f64::INFINITY, f64::min);
            if says(ComparisonVerdict::Better) && says(ComparisonVerdict::Worse) {
                opposite.insert(name);
            } else if from > to {
                apart.insert(name);
            }
        }
        let texts = [
            ("one says better, another says worse of", opposite),
            ("their intervals do not overlap for", apart),
        ];
        let texts = texts.into_iter().filter(|(_, names)| !names.is_empty());
        let text = |(how, names): (&str, BTreeSet<String>)| {
            format!("records disagree: {how} {}", listed(&names.into_iter().collect::<Vec<_>>()))
        };
        texts.map(text).collect()
    }

    /// Returns every finding by scenario, for and against the reference.
    pub(crate) fn lists(&self) -> Vec<ReportBlock> {
        let lacks = self.lacks.iter().map(|(scenario, what)| ListItem {
            head: format!("{scenario}: {what}"),
            ..ListItem::default()
        });
        let lists = [
            (
                "main",
                format!("Main metrics, compared with those of {}", self.first),
                self.items(|it| it != Weight::Further),
            ),
            ("lacks", format!("What {} has no measurement of", self.first), lacks.collect()),
            ("not-counted", "Not counted".to_owned(), self.not_counted()),
            (
                "further",
                format!("Further metrics, compared with those of {}", self.first),
                self.items(|it| it == Weight::Further),
            ),
        ];
        let lists = lists.into_iter().filter(|(_, _, items)| !items.is_empty());
        let lists = lists.map(|(class, title, items)| {
            let items = vec![ReportBlock::Items(items)];
            ReportSection::new(SectionKind::Group(class), title, items).into()
        });
        lists.collect()
    }

    /// Merges lines about one metric of a scenario into one item, with a part per target.
    fn items(&self, is_listed: fn(Weight) -> bool) -> Vec<ListItem> {
        let mut items: Vec<ListItem> = Vec::new();
        let lines = self.lines.iter();
        for line in lines.filter(|it| is_listed(it.weight) && it.verdict.is_counted()) {
            let head = format!("{}, {}", line.scenario, line.metric);
            let (name, words) = (line.target.clone(), line.words());
            let is_it = |item: &&mut ListItem| item.link == line.anchor && item.head == head;
            let parts = match items.iter_mut().find(is_it) {
                Some(item) => &mut item.parts,
                None => {
                    items.push(ListItem { link: line.anchor.clone(), head, parts: Vec::new() });
                    &mut items.last_mut().expect("it was pushed just now").parts
                }
            };
            match parts.iter_mut().find(|(target, _)| *target == name) {
                Some((_, text)) => *text += &format!("; {words}"),
                None => parts.push((name, words)),
            }
        }
        items
    }
}

impl RankingLine {
    /// Describes comparisons of one verdict: one with its interval, several by their range.
    fn words(&self) -> String {
        let sign = self.verdict.sign();
        let alone = match self.weight {
            Weight::Alone => ", by its own interval alone",
            _ => "",
        };
        if let [(title, it)] = self.found.as_slice() {
            let words = match it.remark() {
                Some(remark) => remark,
                None => in_cell(&it.effect, it.metric),
            };
            let at = if title.is_empty() { String::new() } else { format!("{title} ") };
            return format!("{at}{sign}{words}{alone}");
        }
        let count = self.found.len();
        let reaches = self.found.iter().filter_map(|(_, it)| it.effect.reach());
        let most = |values: Vec<f64>| percentage(values.into_iter().fold(0.0, f64::max) * 100.0);
        let words = match (self.verdict, self.range()) {
            (ComparisonVerdict::Equal, Some(_)) => {
                format!("equal within {} %", most(reaches.map(|(possible, _)| possible).collect()))
            }
            (ComparisonVerdict::NotKnown, Some(_)) => {
                let visible = most(reaches.map(|(_, visible)| visible).collect());
                format!("not known: less than {visible} % could not have been seen")
            }
            (ComparisonVerdict::WithinStep, _) => {
                let steps = self.found.iter().filter_map(|(_, it)| it.step);
                within_step(steps.fold(0.0, f64::max))
            }
            (_, Some((least, greatest))) => format!("{}× to {}×", digits(least), digits(greatest)),
            (_, None) => {
                let part = |(title, it): &(String, Comparison)| {
                    joined([title.clone(), in_cell(&it.effect, it.metric)], ": ")
                };
                return sign.to_owned() + &joined(self.found.iter().map(part), "; ") + alone;
            }
        };
        format!("{sign}{words} in {count} configurations{alone}")
    }

    /// Returns the least and the greatest of the ratios; `None` if some are differences.
    fn range(&self) -> Option<(f64, f64)> {
        let is_ratio = |(_, it): &(String, Comparison)| it.effect.scale == EffectScale::Ratio;
        let ratios = || self.found.iter().map(|(_, it)| it.effect.value);
        let least = ratios().fold(f64::INFINITY, f64::min);
        self.found.iter().all(is_ratio).then(|| (least, ratios().fold(0.0, f64::max)))
    }
}

/// A target's work in a scenario.
struct WorkSentence {
    target: String,
    /// `needs`, with a metric.
    verb: &'static str,
    /// `2.1 to 2.4 times`.
    times: String,
    /// ` the server CPU per request of lariat in 6 configurations`.
    object: String,
}

impl WorkSentence {
    fn of(lines: &[&RankingLine]) -> Self {
        let RankingLine { target, metric, reference, found, .. } = lines[0];
        let is_rate = found.iter().any(|(_, it)| it.metric == Metric::Rate);
        let metric = if is_rate { "rate" } else { metric };
        let ranges = || lines.iter().filter_map(|line| line.range());
        let all: usize = lines.iter().map(|line| line.found.len()).sum();
        let verb = found.first().map_or("has", |(_, it)| verb(it.metric));
        let sentence = |verb, times, object| Self { target: target.clone(), verb, times, object };
        let least = ranges().map(|it| it.0).fold(f64::INFINITY, f64::min);
        let most = ranges().map(|it| it.1).fold(0.0, f64::max);
        let with = match (found.as_slice(), all) {
            ([(title, _)], 1) if title.is_empty() => String::new(),
            ([(title, _)], 1) => format!(" ({title})"),
            _ => format!(" in {all} configurations"),
        };
        // `TPS, mean under 100 ms`
        let (name, terms) = metric.split_once(", ").unwrap_or((metric, ""));
        let terms = if terms.is_empty() { String::new() } else { format!(", {terms},") };
        let object = format!(" the {name}{terms} of {reference}{with}");
        if ranges().count() < lines.len() {
            return sentence("has", difference(lines), format!(" {metric} than {reference}{with}"));
        }
        match found.as_slice() {
            [(_, it)] if all == 1 => {
                let shown = |(from, to)| format!(" ({} to {})", digits(from), digits(to));
                let interval = it.effect.interval.map(shown).unwrap_or_default();
                sentence(verb, format!("{} times{interval}", digits(it.effect.value)), object)
            }
            _ => sentence(verb, format!("{} to {} times", digits(least), digits(most)), object),
        }
    }

    /// Returns `hitch needs 2.1 to 2.4 times and stunnel 3.0 to 3.1 times the server CPU per
    /// request of lariat in 6 configurations.`
    fn together(sentences: &[Self]) -> String {
        let Self { verb, object, .. } = &sentences[0];
        let named = sentences.iter().enumerate().map(|(place, it)| {
            let verb = if place == 0 { verb } else { "" };
            joined([it.target.as_str(), verb, &it.times], " ")
        });
        format!("{}{object}.", listed(&named.collect::<Vec<_>>()))
    }
}

/// Returns `93 to 97 points less`, or `another` if some comparisons are no differences or disagree.
fn difference(lines: &[&RankingLine]) -> String {
    let all = || lines.iter().flat_map(|line| &line.found).map(|(_, comparison)| comparison);
    let is_less = |it: &Comparison| it.effect.is_less();
    let first = all().next().filter(|first| {
        let is_alike = |it: &Comparison| {
            it.effect.scale == EffectScale::Difference && is_less(it) == is_less(first)
        };
        all().all(is_alike)
    });
    let Some(Comparison { metric, .. }) = first else {
        return "another".to_owned();
    };
    let mut values: Vec<f64> = all().map(|it| metric.scaled(it.effect.value).abs()).collect();
    values.sort_by(f64::total_cmp);
    let shown: Vec<String> = values.into_iter().map(percentage).collect();
    let amount = match shown.as_slice() {
        [least, .., most] if least != most => format!("{least} to {most}"),
        same => same.first().cloned().unwrap_or_default(),
    };
    let word = if first.is_some_and(is_less) { "less" } else { "more" };
    format!("{amount} {} {word}", metric.unit().of_differences())
}

/// Returns the verb for an amount of a metric.
fn verb(metric: Metric) -> &'static str {
    match metric {
        Metric::MeanResponse | Metric::P95Response | Metric::P99Response => "has",
        _ if metric.is_less_better() => "needs",
        _ => "reaches",
    }
}

/// Describes the work of a target that is not ranked.
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

/// Returns, for each counted comparison, how likely equals differ so much by chance.
fn chances<'s>(study: &'s Study<'_>) -> impl Iterator<Item = f64> + 's {
    let is_ranked = |index: &usize| {
        let base = base(study.scenario, &study.targets, *index);
        base.is_some_and(|base| {
            do_same_work(study.scenario, study.targets[*index], study.targets[base])
        })
    };
    let ranked = (0..study.targets.len()).filter(is_ranked);
    let comparisons = ranked.flat_map(|index| {
        let main = study.main();
        study.combinations.iter().filter_map(move |combination| judged(combination, index, main?))
    });
    let counted = comparisons.filter(|it| it.verdict.is_counted());
    counted.map(|it| match it.verdict {
        // No difference is claimed, however alike the rounds are.
        ComparisonVerdict::WithinStep => 1.0,
        _ => it.effect.chance.unwrap_or(1.0),
    })
}
