//! Makes the tables of a scenario: metrics by target and combination of values, gains of the last
//! factor, spreads in the form of ministat(1), and the source's own results.

use std::collections::BTreeSet;

use measure::effect::{Effect, EffectScale};
use measure::experiment::{Measurement, Published, TargetDescription};
use measure::metric::Metric;
use measure::statistics::Spread;

use super::comparison::{compare, in_cell};
use super::study::{Combination, Gap, Study, StudyEntry, base};
use crate::document::{Cell, DataSheet, NONE, ReportTable, number};
use crate::words::{digits, in_percent, joined};

/// Makes a row per configuration: the medians of its metrics, and the main one against that of its
/// reference. For a terminal: as many metrics as leave room for the comparison.
pub(crate) fn summary(study: &Study<'_>, width: usize) -> ReportTable {
    let Some(main) = study.main() else {
        return ReportTable::default();
    };
    let bases = bases(study);
    let named = if bases.len() > 1 { &*bases } else { &[] };
    let metrics = fitting(study, width, named);
    let against = match &*bases {
        [one] => format!("<{} to {one}'s (95 %)", main.head()),
        _ => format!("<{}, ratio (95 %)", main.head()),
    };
    let heads = metrics.iter().map(|metric| head(*metric));
    let heads = ["<".to_owned()].into_iter().chain(heads).chain([against]);
    let mut table = ReportTable::new("", heads);
    for combination in &study.combinations {
        table.head(combination.title());
        for entry in &combination.entries {
            let medians = metrics.iter().map(|metric| Cell::maybe(entry.median(*metric)));
            let comparison = match entry.gap() {
                Some(gap) => words(&gap),
                None => {
                    let base = combination.base_of(entry);
                    let found = base.and_then(|base| compare(entry, base, main));
                    let of = base.filter(|_| !named.is_empty());
                    let of =
                        of.map_or_else(String::new, |base| format!(" to {}", base.target.name));
                    found.map_or_else(String::new, |found| found.signed() + &of)
                }
            };
            let name = Cell::from(&entry.target.name);
            table.row([name].into_iter().chain(medians).chain([comparison.into()]));
        }
    }
    table
}

fn head(metric: Metric) -> String {
    joined([metric.head(), metric.unit().name()], ", ")
}

/// Returns the targets that others are compared with.
fn bases<'s>(study: &'s Study<'_>) -> Vec<&'s str> {
    let targets = &study.targets;
    let all = (0..targets.len()).filter_map(|index| base(study.scenario, targets, index));
    let all: BTreeSet<_> = all.collect();
    all.iter().map(|index| targets[*index].name.as_str()).collect()
}

/// Returns the references as the rest of a caption's sentence.
fn to_bases(study: &Study<'_>) -> String {
    match *bases(study) {
        [] => "to the reference".to_owned(),
        [one] => format!("to {one}"),
        [first, ref others @ ..] => {
            let others = others.join(" and ");
            format!("to {first}, or to {others} where that does the same work,")
        }
    }
}

fn fitting(study: &Study<'_>, width: usize, bases: &[&str]) -> Vec<Metric> {
    const COMPARISON: usize = 26;
    let name = bases.iter().map(|name| name.chars().count() + 4).max();
    let names = study.targets.iter().map(|target| target.name.chars().count());
    let mut left = width.saturating_sub(names.max().unwrap_or(0) + COMPARISON + 4);
    left = left.saturating_sub(name.unwrap_or(0));
    let fits = |metric: &&Metric| {
        let needed = head(**metric).chars().count() + 2;
        let fits = needed <= left;
        left = left.saturating_sub(needed);
        fits
    };
    study.metrics.iter().take_while(fits).copied().collect()
}

fn words(gap: &Gap) -> String {
    joined([gap.kind, &gap.why], ": ")
}

/// Returns the head of a metric's column: its name with its unit.
pub(crate) fn heading(study: &Study<'_>, metric: Metric) -> String {
    let better = if metric.is_less_better() { "less" } else { "more" };
    let title = study.titled(metric);
    let title = joined([title.as_str(), metric.unit().name()], ", ");
    format!("{title} ({better} is better)")
}

/// Shows everything of each configuration: a row per target under each combination of values, and a
/// column per metric, so that any number of targets stand below each other.
pub(crate) fn full(study: &Study<'_>) -> ReportTable {
    let metrics = study.metrics.iter();
    let heads = metrics.map(|it| joined([&*study.titled(*it), it.unit().name()], ", "));
    let caption = format!(
        "Medians of repeats, least to greatest; ratio {} with its 95 % interval",
        to_bases(study)
    );
    let mut table = ReportTable::new(caption, ["<".to_owned()].into_iter().chain(heads));
    for combination in &study.combinations {
        table.head(combination.title());
        for entry in &combination.entries {
            let cells = study.metrics.iter().map(|metric| cell(study, combination, entry, *metric));
            let name = Cell::from(&entry.target.name);
            table.row([name].into_iter().chain(cells));
        }
    }
    table
}

fn cell(
    study: &Study<'_>,
    combination: &Combination<'_>,
    entry: &StudyEntry<'_>,
    metric: Metric,
) -> Cell {
    if let Some(gap) = entry.gap() {
        let text = if gap.is_not_planned() { NONE.to_owned() } else { words(&gap) };
        return Cell { is_gap: true, ..Cell::from(text) };
    }
    let Some(spread) = entry.spread(metric) else {
        return Cell::from(NONE);
    };
    let id = [&study.anchor(), &combination.id(), &entry.target.name, metric.id()];
    let id = joined(id, "-").replace(char::is_whitespace, "-");
    let mut notes = Vec::new();
    if spread.count > 1 {
        let (least, most) = (metric.number(spread.min), metric.number(spread.max));
        notes.push(("", format!("{least} – {most}").into()));
    }
    let step = entry.step(metric).map(in_percent);
    notes.extend(step.map(|step| ("", format!("{step}, one step of the ramp").into())));
    let base = combination.base_of(entry);
    if let Some(found) = base.and_then(|base| compare(entry, base, metric)) {
        let note = Cell::from(found.signed()).id(format!("{id}-ratio"), found.effect.value);
        notes.push((found.verdict.id(), note));
    }
    Cell { notes, ..Cell::from(metric.number(spread.median)).id(id, spread.median) }
}

/// Returns the gains by the last factor within each target: every value against the first one.
pub(crate) fn gains(study: &Study<'_>) -> Option<ReportTable> {
    let (metric, first) = (study.main()?, *study.last_values().first()?);
    let how = if metric.is_share() { "less" } else { "as a multiple of" };
    let title = study.titled(metric);
    let caption =
        format!("{title} {how} that at {}, by round, with its 95 % interval", first.title);
    let mut table = ReportTable::new(&caption, ["<", "<"]);
    for series in study.series() {
        let Some((base, others)) = series.split_first().filter(|(base, _)| base.is_last(first))
        else {
            continue;
        };
        for combination in others {
            let pairs = combination.entries.iter().zip(&base.entries);
            let cells: Vec<Cell> = pairs.map(|(entry, base)| gain(entry, base, metric)).collect();
            if cells.iter().all(|cell| cell.text == NONE) {
                continue;
            }
            table.head(combination.title());
            for (target, cell) in study.targets.iter().zip(cells) {
                table.row([Cell::from(&target.name), cell]);
            }
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Returns no gain for the rate of a server that shared its CPUs with the load generator.
fn gain(entry: &StudyEntry<'_>, base: &StudyEntry<'_>, metric: Metric) -> Cell {
    let is_used = |it: &Measurement| !(metric.depends_on_load() && it.noise.is_shared);
    let effect = Effect::of_metric(metric, &entry.pairs(base, metric, is_used));
    Cell::maybe(effect.map(|effect| in_cell(&effect, metric)))
}

/// Returns the metric of a scenario's spreads, if its source printed them: the bandwidth if there
/// is one.
pub(crate) fn spread_metric(study: &Study<'_>) -> Option<Metric> {
    let mut published = study.scenario.published.iter();
    let is_printed = published.any(|table| table.columns.iter().any(|head| head == "stddev"));
    let bandwidth = study.metrics.iter().find(|it| **it == Metric::Bandwidth);
    is_printed.then(|| bandwidth.copied().or_else(|| study.main()))?
}

/// Formats a value like the source: kB are 1000 bytes, without separators of thousands.
fn printed(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Bandwidth => format!("{:.0}", value / 1e3),
        _ => metric.number(value),
    }
}

/// Shows number, least, greatest, median, mean and deviation of a metric; and the difference of
/// means from the first target's by Student's t.
pub(crate) fn spreads(study: &Study<'_>, metric: Metric) -> ReportTable {
    let heads = ["<", "N", "min", "max", "median", "mean", "stddev", "<at 95 %"];
    let unit = match metric {
        Metric::Bandwidth => "kB/s",
        _ => metric.unit().name(),
    };
    let caption = format!(
        "{}, {unit}, as ministat(1) prints it; differences from {} by Student's t",
        study.titled(metric),
        study.targets.first().map_or("", |target| target.name.as_str()),
    );
    let mut table = ReportTable::new(caption, heads);
    for combination in &study.combinations {
        let rows = combination.entries.iter();
        let rows: Vec<_> = rows.filter_map(|it| spread_row(it, combination, metric)).collect();
        if !rows.is_empty() {
            table.head(combination.title());
        }
        rows.into_iter().for_each(|row| table.row(row));
    }
    table
}

fn spread_row(
    entry: &StudyEntry<'_>,
    combination: &Combination<'_>,
    metric: Metric,
) -> Option<Vec<Cell>> {
    let Spread { count, min, max, median, mean, deviation } = entry.spread(metric)?;
    let values = [min, max, median, mean, deviation];
    let mut cells = vec![Cell::from(&entry.target.name), Cell::from(count)];
    cells.extend(values.map(|value| Cell::from(printed(metric, value))));
    let difference = combination.base_of(entry).map(|base| {
        let (ours, theirs) = (entry.samples(metric), base.samples(metric));
        let effect = Effect::of_samples(&ours, &theirs, EffectScale::Difference);
        effect.map_or_else(String::new, |effect| difference(&effect, metric))
    });
    cells.push(difference.unwrap_or_default().into());
    Some(cells)
}

/// Formats a difference like ministat: in the unit and in percent of the first.
fn difference(effect: &Effect, metric: Metric) -> String {
    let Some((from, to)) = effect.interval else {
        return "too few samples".to_owned();
    };
    if !effect.is_proven() {
        return "no difference proven".to_owned();
    }
    let sign = if effect.is_less() { "\u{2212}" } else { "+" };
    let (value, error) = (effect.value.abs(), (to - from) / 2.0);
    let percent = |value: f64| digits(value / effect.means.1 * 100.0);
    format!(
        "{sign}{} ± {} ({sign}{} ± {} %)",
        printed(metric, value),
        printed(metric, error),
        percent(value),
        percent(error)
    )
}

/// Shows a table of the source in its original form.
pub(crate) fn published(published: &Published) -> ReportTable {
    let caption = joined([&published.title, &published.unit], ", ");
    let columns = published.columns.iter().enumerate();
    let heads = columns.map(|(index, head)| match index {
        0 => format!("<{head}"),
        _ => head.clone(),
    });
    let mut table = ReportTable::new(caption, heads);
    for row in &published.rows {
        let cells = row.iter().take(published.columns.len());
        table.row(cells.map(|text| match text.as_str() {
            "-" | "" => Cell::from(NONE),
            text => Cell::from(text),
        }));
    }
    table
}

pub(crate) fn targets(targets: &[TargetDescription]) -> ReportTable {
    let mut table = ReportTable::new("Targets", ["<target", "<what it is", "<from", "<version"]);
    for target in targets {
        table.row([&target.name, &target.title, &target.from, &version(target)].map(Into::into));
    }
    table
}

/// Returns a target's text about its version, or why it does not participate.
pub(crate) fn version(target: &TargetDescription) -> String {
    match &target.missing {
        Some(why) => format!("takes no part: {why}"),
        None => target.version.join(" · "),
    }
}

const NAMES: &str = "scenario configuration target values";

/// Makes a row per metric of a configuration.
pub(crate) fn configurations(studies: &[Study<'_>]) -> DataSheet {
    let heads = "metric count min median mean max deviation ratio ratio_from ratio_to verdict gap";
    let rows = studies.iter().flat_map(|study| {
        let entries = study.entries().flat_map(|(combination, entry)| {
            let metrics = study.metrics.iter();
            metrics.map(move |metric| configuration(study, combination, entry, *metric))
        });
        entries.collect::<Vec<_>>()
    });
    DataSheet {
        name: "configurations".to_owned(),
        heads: NAMES.split(' ').chain(heads.split(' ')).collect(),
        rows: rows.collect(),
    }
}

fn configuration(
    study: &Study<'_>,
    combination: &Combination<'_>,
    entry: &StudyEntry<'_>,
    metric: Metric,
) -> Vec<String> {
    let spread = entry.spread(metric);
    let part = |of: fn(&Spread) -> f64| number(spread.as_ref().map(of));
    let found = compare(entry, combination.base_of(entry).unwrap_or(entry), metric);
    let effect = |of: fn(&Effect) -> Option<f64>| number(found.and_then(|it| of(&it.effect)));
    let gap = entry.gap();
    let fields = [
        metric.id().to_owned(),
        spread.map_or(0, |it| it.count).to_string(),
        part(|it| it.min),
        part(|it| it.median),
        part(|it| it.mean),
        part(|it| it.max),
        part(|it| it.deviation),
        effect(|it| Some(it.value)),
        effect(|it| Some(it.interval?.0)),
        effect(|it| Some(it.interval?.1)),
        found.map_or("", |it| it.verdict.id()).to_owned(),
        gap.as_ref().map(words).unwrap_or_default(),
    ];
    names(study, combination, entry).into_iter().chain(fields).collect()
}

fn names(study: &Study<'_>, combination: &Combination<'_>, entry: &StudyEntry<'_>) -> [String; 4] {
    [
        study.scenario.name.clone(),
        entry.configuration.map_or_else(String::new, |it| it.key.clone()),
        entry.target.name.clone(),
        combination.title(),
    ]
}

/// Count to report for each measurement beside its names and metrics.
type CountColumn = (&'static str, fn(&Measurement) -> f64);

const COUNTS: [CountColumn; 16] = [
    ("elapsed_ns", |it| it.elapsed_ns as f64),
    ("attempted", |it| it.counts.attempted as f64),
    ("succeeded", |it| it.counts.succeeded as f64),
    ("failed", |it| it.counts.failed as f64),
    ("operations", |it| it.operations as f64),
    ("server_cpu_ns", |it| it.server_cpu_ns as f64),
    ("client_cpu_ns", |it| it.client_cpu_ns as f64),
    ("origin_cpu_ns", |it| it.origin_cpu_ns as f64),
    ("resident_bytes_before", |it| it.resident_bytes_before as f64),
    ("resident_bytes_loaded", |it| it.resident_bytes_loaded as f64),
    ("open_connections", |it| it.open_connections as f64),
    ("body_bytes", |it| it.traffic.body_bytes as f64),
    ("foreign", |it| it.noise.foreign),
    ("stolen", |it| it.noise.stolen),
    ("server_busy", |it| it.noise.server_busy),
    ("client_busy", |it| it.noise.client_busy),
];

/// Makes a row per metric of a measurement.
pub(crate) fn measurements(studies: &[Study<'_>]) -> DataSheet {
    let mut rows = Vec::new();
    for study in studies {
        for (combination, entry) in study.entries() {
            for (repeat, measurement) in &entry.measurements {
                for metric in &study.metrics {
                    let mut row = names(study, combination, entry).to_vec();
                    row.extend([repeat.to_string(), measurement.at.clone()]);
                    row.extend([metric.id().to_owned(), number(metric.of(*measurement))]);
                    row.extend(COUNTS.map(|(_, of)| number(Some(of(measurement)))));
                    rows.push(row);
                }
            }
        }
    }
    let heads = "repeat at metric value".split(' ');
    let heads = NAMES.split(' ').chain(heads);
    DataSheet {
        name: "measurements".to_owned(),
        heads: heads.chain(COUNTS.map(|(name, _)| name)).collect(),
        rows,
    }
}
