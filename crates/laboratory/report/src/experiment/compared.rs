//! Compares two experiments, configuration by configuration: two platforms, versions or settings.
//!
//! The second is shown as a change against the first. Runs have no rounds in common, so samples are
//! not paired.

use std::collections::BTreeSet;

use measure::effect::EffectScale;
use measure::experiment::{Experiment, TargetDescription};
use measure::metric::Metric;
use measure::statistics::CONFIDENCE;

use super::comparison::{Comparison, ComparisonVerdict, compare_runs};
use super::plots::Palette;
use super::study::{Combination, Study, StudyEntry, studies};
use super::tables::heading;
use crate::document::{
    Cell, Figure, NONE, ReportBlock, ReportDocument, ReportFact, ReportSection, ReportTable,
    ReportWarning, SectionKind, cells, section,
};
use crate::figure::{Axis, AxisUnit, Chart, Panel, Series};
use crate::host;
use crate::words::{digits, id_part, listed};

struct ScenarioPair<'e> {
    a: Study<'e>,
    b: Study<'e>,
    metrics: Vec<Metric>,
}

/// Returns the number of configurations measured in both; 0 leaves nothing to compare.
pub fn configurations_in_common(a: &Experiment, b: &Experiment) -> usize {
    pairs(a, b).iter().map(|pair| pair.changes().count()).sum()
}

/// Returns the report of the second against the first, each with its name.
pub fn compared(a: (&str, &Experiment), b: (&str, &Experiment)) -> ReportDocument {
    let pairs = pairs(a.1, b.1);
    let named = |letter: &str, (name, experiment): (&str, &Experiment)| {
        ReportFact::new(letter, format!("{name}, {}", host::line(&experiment.plan.host.host)))
    };
    let mut differing = ReportTable::new("In what they differ", ["<", "<A", "<B"]);
    for row in differences(a.1, b.1) {
        differing.row(row.map(Into::into));
    }
    let mut document = ReportDocument {
        title: format!("{} compared with {}", b.0, a.0),
        footer:
            "A change is the ratio of trimmed geometric means, B to A; its interval is that of \
                 the pooled deviations (Yuen and Dixon 1973) at 95 %: of twenty such intervals, \
                 one misses."
                .to_owned(),
        blocks: vec![
            ReportBlock::Headline(headline(&pairs)),
            ReportBlock::Facts(vec![named("A", a), named("B", b)]),
            ReportBlock::Warnings(warnings(a.1, b.1, &pairs)),
        ],
        ..ReportDocument::default()
    };
    document.blocks.extend(section(SectionKind::Card, "In what they differ", differing.block()));
    for pair in &pairs {
        let id = format!("c-{}", pair.name());
        document.links.push((id.clone(), pair.name().to_owned()));
        let chart = chart(pair, &Palette::of([&a.1.plan]));
        if let Some(chart) = &chart {
            let name = format!("compared-{}", id_part(pair.name()));
            document.files.push((name, chart.clone().into()));
        }
        let drawn = chart.map(|chart| Figure::block(&format!("{id}-change"), chart));
        let tables = pair.metrics.iter().enumerate().map(|(index, metric)| {
            let table = ReportBlock::Table(changes(pair, *metric));
            match index {
                0 => table,
                // A terminal shows the main metric only.
                _ => ReportSection::new(SectionKind::Page, "", vec![table]).into(),
            }
        });
        let question = ReportBlock::Paragraph(pair.a.scenario.question.clone());
        let question = ReportSection::new(SectionKind::Page, "", vec![question]).into();
        let blocks = [question].into_iter().chain(drawn).chain(tables).collect();
        let caption = pair.metrics.first().map(|main| caption(pair, *main));
        let title = format!("{}: {}", pair.name(), caption.unwrap_or_default());
        let article = ReportSection::new(SectionKind::Article, title, blocks).at(id);
        document.blocks.push(article.into());
    }
    document
}

/// Returns the common scenarios in which something common was measured.
fn pairs<'e>(a: &'e Experiment, b: &'e Experiment) -> Vec<ScenarioPair<'e>> {
    let mut others = studies(b, 2, None);
    let pair = |a: Study<'e>| {
        let index = others.iter().position(|b| b.scenario.name == a.scenario.name)?;
        let b = others.swap_remove(index);
        let metrics = a.metrics.iter().copied().filter(|it| b.metrics.contains(it)).collect();
        Some(ScenarioPair { a, b, metrics })
    };
    let pairs = studies(a, 1, None).into_iter().filter_map(pair);
    pairs.filter(|pair| pair.changes().next().is_some()).collect()
}

impl<'e> ScenarioPair<'e> {
    fn name(&self) -> &'e str {
        &self.a.scenario.name
    }

    fn changes(&self) -> impl Iterator<Item = Option<Comparison>> + '_ {
        let main = self.metrics.first().copied();
        let entries = self.a.entries();
        entries
            .filter_map(move |(combination, entry)| Some(self.change(combination, entry, main?)?.1))
    }

    /// Returns an entry of the first and its equivalent in the second as medians, and their
    /// comparison; `None` if one of them has no value.
    fn change(
        &self,
        combination: &Combination<'_>,
        entry: &StudyEntry<'_>,
        metric: Metric,
    ) -> Option<([String; 2], Option<Comparison>)> {
        let names = |it: &Combination<'_>| -> Vec<String> {
            it.values.iter().map(|value| value.name.clone()).collect()
        };
        let mut others = self.b.combinations.iter();
        let other = others.find(|other| names(other) == names(combination))?;
        let mut entries = other.entries.iter();
        let other = entries.find(|other| other.target.name == entry.target.name)?;
        Some(([entry.median(metric)?, other.median(metric)?], compare_runs(other, entry, metric)))
    }
}

/// Tells how many main metrics changed, and how.
fn headline(pairs: &[ScenarioPair<'_>]) -> String {
    let changes = pairs.iter().flat_map(|pair| pair.changes().flatten());
    let verdicts: Vec<ComparisonVerdict> = changes.map(|change| change.verdict).collect();
    let count = |verdict| verdicts.iter().filter(|it| **it == verdict).count();
    let (better, worse) = (count(ComparisonVerdict::Better), count(ComparisonVerdict::Worse));
    let equal = count(ComparisonVerdict::Equal);
    let not_known = count(ComparisonVerdict::NotKnown) + count(ComparisonVerdict::WithinStep);
    let all = better + equal + not_known + worse;
    let others = match verdicts.len() - all {
        0 => String::new(),
        others => {
            format!(" Not judged: {others}, of fewer than 3 measurements or limited by the load.")
        }
    };
    if all == 0 {
        return format!("No main metric can be judged.{others}");
    }
    let by_chance = all as f64 * (1.0 - CONFIDENCE);
    format!(
        "Of {all} comparisons of main metrics B is better in {better} and worse in {worse}, in \
         {equal} equal within 5 %, and in {not_known} it is not known. Of {all} comparisons of \
         equals about {by_chance:.1} would differ by chance (5 %).{others} Intervals hold what \
         differs from measurement to measurement, and not what differs from run to run."
    )
}

fn caption(pair: &ScenarioPair<'_>, metric: Metric) -> String {
    let heading = heading(&pair.a, metric);
    format!("{heading}, and the change from A to B at 95 %")
}

/// Makes a row per configuration of either.
fn changes(pair: &ScenarioPair<'_>, metric: Metric) -> ReportTable {
    let mut table = ReportTable::new(caption(pair, metric), ["<", "A", "B", "rounds", "<change"]);
    for combination in &pair.a.combinations {
        table.head(combination.title());
        for entry in &combination.entries {
            let name = Cell::from(&entry.target.name);
            let Some((medians, change)) = pair.change(combination, entry, metric) else {
                table.row(cells![name, NONE, NONE, NONE, "not measured in both"]);
                continue;
            };
            // Each record has at least this many, and all of them are compared.
            let rounds = change.map_or(0, |it| it.effect.count);
            let change = change.map_or_else(String::new, |it| it.as_change());
            let medians = medians.map(Cell::from);
            table.row([name].into_iter().chain(medians).chain([rounds.into(), change.into()]));
        }
    }
    table
}

/// Returns how much worse the second is, in percent, with its interval: less of a rate, or more of
/// a cost. Shares are in points; `None` if there is no ratio.
fn loss_percent(change: &Comparison) -> Option<(f64, Option<(f64, f64)>)> {
    let effect = change.effect;
    if effect.scale == EffectScale::Difference && !change.metric.is_share() {
        return None;
    }
    let is_less_better = change.metric.is_less_better();
    let loss = |value: f64| {
        let percent = (value - effect.scale.neutral()) * 100.0;
        if is_less_better { percent } else { -percent }
    };
    let interval = effect.interval.map(|(from, to)| {
        if is_less_better { (loss(from), loss(to)) } else { (loss(to), loss(from)) }
    });
    Some((loss(effect.value), interval))
}

/// Draws the second's losses against the first, in percent; `None` without anything to compare.
fn chart(pair: &ScenarioPair<'_>, palette: &Palette<'_>) -> Option<Chart> {
    let metric = *pair.metrics.first()?;
    let study = &pair.a;
    let numbers: Vec<Option<f64>> = study.combinations.iter().map(Combination::number).collect();
    let mut texts = Vec::new();
    let mut series = Vec::new();
    for (index, target) in study.targets.iter().enumerate() {
        let (mut points, mut intervals) = (Vec::new(), Vec::new());
        for (place, combination) in study.combinations.iter().enumerate() {
            let change = pair.change(combination, &combination.entries[index], metric);
            let change = change.and_then(|(_, change)| change);
            let judged = change.filter(|change| change.verdict.is_counted());
            let found = judged.and_then(|change| loss_percent(&change));
            let title = combination.title();
            texts.extend(
                found.map(|(loss, _)| format!("{} {title}: {} %.", target.name, digits(loss))),
            );
            // Series are shifted, so that whiskers of equals do not cover each other.
            let x = place as f64 + (index as f64 - (study.targets.len() as f64 - 1.0) / 2.0) * 0.06;
            // Between names, and from one series to the next, no value can be read.
            let before = place.checked_sub(1).and_then(|before| numbers[before]);
            if !before.zip(numbers[place]).is_some_and(|(before, number)| before < number) {
                points.push((x, f64::NAN));
            }
            points.push((x, found.map_or(f64::NAN, |it| it.0)));
            intervals.extend(found.and_then(|it| it.1).map(|(from, to)| (x, from, to)));
        }
        let look = palette.look(target);
        series.push(Series::whiskers(look.colour, &intervals));
        series.push(Series::new(&target.name, look.colour, look.marked()).of(points));
    }
    let points = series.iter().flat_map(|line| &line.points);
    let values: Vec<f64> = points.map(|point| point.1).filter(|it| it.is_finite()).collect();
    values.first()?;
    let least = values.iter().copied().fold(0.0, f64::min);
    let greatest = values.iter().copied().fold(0.0, f64::max);
    let title = metric.title(&study.scenario.operation);
    let axis = if metric.is_less_better() {
        format!("More {title} than the first, % (below 0: less)")
    } else {
        format!("Loss against the first, {title}, % (below 0: a gain)")
    };
    let mut panel = Panel::new(Axis::range(&axis, AxisUnit::Count, least, greatest, 5), series);
    panel.limits.push((0.0, "as the first".to_owned()));
    let factor = study.scenario.factors.last();
    let names = study.combinations.iter().map(Combination::title);
    Some(Chart {
        title: format!("{}: loss of {title} against the first, %", pair.name()),
        description: texts.join(" "),
        x: Axis::places(factor.map_or("", |factor| factor.title.as_str()), names.collect()),
        panels: vec![panel],
        columns: Vec::new(),
    })
}

/// Returns other differences than metrics, a row each: name, first, second.
fn differences(a: &Experiment, b: &Experiment) -> Vec<[String; 3]> {
    let conditions = |experiment: &Experiment| {
        let plan = &experiment.plan;
        let (host, tool) = (&plan.host.host, &plan.tool);
        [
            ("started", plan.started.clone()),
            ("mode", plan.mode.clone()),
            ("CPU", host.cpu.clone()),
            ("CPUs", host.cpus.to_string()),
            ("kernel", host.kernel.clone()),
            ("hypervisor", host.hypervisor.clone().unwrap_or_else(|| "none seen".to_owned())),
            ("tool", format!("{} {}, {}", tool.name, tool.version, tool.tls)),
        ]
    };
    let rows = conditions(a).into_iter().zip(conditions(b));
    let rows = rows.map(|((name, a), (_, b))| [name.to_owned(), a, b]);
    let targets = a.plan.targets.iter().filter_map(|target| {
        let other = b.plan.targets.iter().find(|other| other.name == target.name)?;
        let version = |target: &TargetDescription| match &target.missing {
            Some(_) => "missing".to_owned(),
            None => target.version.join(", "),
        };
        Some([target.name.clone(), version(target), version(other)])
    });
    rows.chain(targets).filter(|[_, a, b]| a != b).collect()
}

/// Warns of omissions and of anything that makes a comparison doubtful.
fn warnings(a: &Experiment, b: &Experiment, pairs: &[ScenarioPair<'_>]) -> Vec<ReportWarning> {
    let is_changed = |pair: &&ScenarioPair<'_>| {
        let (a, b) = (pair.a.scenario, pair.b.scenario);
        (&a.question, &a.method, &a.operation) != (&b.question, &b.method, &b.operation)
    };
    let changed = pairs.iter().filter(is_changed).map(|pair| pair.name().to_owned());
    let names = [a, b].into_iter().flat_map(|experiment| &experiment.plan.scenarios);
    let names: BTreeSet<&str> = names.map(|scenario| scenario.name.as_str()).collect();
    let is_paired = |name: &str| pairs.iter().any(|pair| pair.name() == name);
    let omitted = names.into_iter().filter(|name| !is_paired(name)).map(str::to_owned);
    let all: [(&str, Vec<String>); 2] = [
        ("defined otherwise in B than in A", changed.collect()),
        ("omitted, since not measured in both", omitted.collect()),
    ];
    let all = all.into_iter().filter(|(_, names)| !names.is_empty());
    all.map(|(what, names)| ReportWarning::new(format!("{what}: {}", listed(&names)))).collect()
}
