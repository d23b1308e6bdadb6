//! Reports experiments: findings, plots, tables in the form of their sources; comparisons of two
//! experiments; and warnings that make the measurements of a scenario doubtful: noise, a client at
//! its limit, failures.

mod card;
mod compared;
mod comparison;
mod plots;
mod ranking;
mod study;
mod tables;

use std::collections::BTreeMap;

use measure::effect::Effect;
use measure::experiment::{Configuration, Experiment, Measurement, Published, Scenario};

use crate::document::{
    DataSheet, Figure, ReportBlock, ReportDocument, ReportFact, ReportSection, ReportWarning,
    SectionKind, section,
};
use crate::figure::Plot;
use crate::host;
use crate::words::{joined, listed};
pub use card::{CARD_SIZE, CardRefusal, CardSubject, card};
pub use compared::{compared, configurations_in_common};
use comparison::{BUSY_MIN, SIGNS, busy, compare};
use plots::{Palette, plot};
use ranking::Ranking;
use study::{Combination, Study, StudyEntry, studies};

/// Verdict about a target at some values, by the scenario's main metric.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Value of each factor, by the factor's name.
    pub values: BTreeMap<String, String>,
    /// `better`, `equal`, `not-known`, `worse`, or why there is no verdict.
    pub word: &'static str,
    pub effect: Effect,
}

/// Returns every comparison of a record's main metrics, each by its own interval.
pub fn findings(experiment: &Experiment) -> Vec<Finding> {
    let mut found = Vec::new();
    for study in studies(experiment, 1, None) {
        for (combination, entry) in study.entries() {
            let pair = combination.base_of(entry).zip(study.main());
            let compared = pair.and_then(|(base, metric)| compare(entry, base, metric));
            if let (Some(comparison), Some(configuration)) = (compared, entry.configuration) {
                let values = configuration.values.clone();
                let (word, effect) = (comparison.verdict.id(), comparison.effect);
                found.push(Finding { values, word, effect });
            }
        }
    }
    found
}

/// Width of tables for terminals in characters.
const WIDTH: usize = 80;

/// Returns the report of these experiments, each with the prefix of its files' names. Targets are
/// compared with the one named `reference`; in a scenario without it, with the record's first.
pub fn document(experiments: &[(&str, &Experiment)], reference: Option<&str>) -> ReportDocument {
    let numbered = experiments.iter().zip(1..);
    let all: Vec<Vec<Study<'_>>> =
        numbered.map(|((_, experiment), number)| studies(experiment, number, reference)).collect();
    let ranking = Ranking::of(all.iter().flatten());
    let mut document = ReportDocument {
        title: title(experiments),
        footer: footer(experiments),
        blocks: ranking.finding(),
        ..ReportDocument::default()
    };
    let doubts = doubts(experiments, &ranking);
    document.blocks.extend((!doubts.is_empty()).then_some(ReportBlock::Warnings(doubts)));
    document.blocks.extend(ranking.lists());
    document.blocks.extend(made_how(experiments));
    let palette = &Palette::of(experiments.iter().map(|(_, experiment)| &experiment.plan));
    for ((name, _), studies) in experiments.iter().zip(&all) {
        // A constant name lets a page of other reports refer to this file.
        let named = |file: String| match experiments.len() {
            1 => file,
            _ => format!("{name}-{file}"),
        };
        for study in studies {
            let scenario_name = &study.scenario.name;
            let is_named = document.links.iter().any(|(_, other)| other == scenario_name);
            let link =
                if is_named { format!("{scenario_name} ({name})") } else { scenario_name.clone() };
            document.links.push((study.anchor(), link));
            document.blocks.push(scenario(study, palette, &ranking));
            let files = plots::files(study, palette).into_iter();
            document.files.extend(files.map(|(file, plot)| (named(file), plot)));
        }
        let sheets = [tables::configurations(studies), tables::measurements(studies)];
        document.sheets.extend(
            sheets.map(|sheet| DataSheet { name: format!("{name}-{}", sheet.name), ..sheet }),
        );
    }
    for ((_, experiment), number) in experiments.iter().zip(1..) {
        document.blocks.push(how(experiment, number));
    }
    let links = (1..=experiments.len()).map(|number| {
        let name = match experiments.len() {
            1 => "host and targets".to_owned(),
            _ => format!("host and targets {number}"),
        };
        (format!("e{number}"), name)
    });
    document.links.extend(links);
    document
}

/// Returns the reasons to doubt whole records: they are incomplete, or they disagree.
fn doubts(experiments: &[(&str, &Experiment)], ranking: &Ranking) -> Vec<ReportWarning> {
    let incomplete = experiments.iter().filter(|(_, experiment)| !is_complete(experiment));
    let incomplete = incomplete.map(|(name, experiment)| {
        let about = if experiments.len() == 1 { "" } else { *name };
        let text = format!("the record has {}", state(experiment));
        ReportWarning { about: about.to_owned(), ..ReportWarning::new(text) }
    });
    incomplete.chain(ranking.disagreements().into_iter().map(ReportWarning::new)).collect()
}

fn is_complete(experiment: &Experiment) -> bool {
    experiment.ended.as_ref().is_some_and(|ended| ended.is_complete)
}

/// Shows the host of the measurements, and the command that repeats them, on the first screen of a
/// page. Terminals show them further down.
fn made_how(experiments: &[(&str, &Experiment)]) -> Option<ReportBlock> {
    let (_, experiment) = experiments.first()?;
    let plan = &experiment.plan;
    let mut facts = vec![ReportFact::new("host", host::line(&plan.host.host))];
    if experiments.len() > 1 {
        let which = format!(
            "1 of {}, measured on this host by this command; the others' stand at the end",
            experiments.len()
        );
        facts.insert(0, ReportFact::new("record", which));
    }
    let blocks = [ReportBlock::Facts(facts), ReportBlock::Command(plan.command.clone())];
    section(SectionKind::Page, "", blocks)
}

fn title(experiments: &[(&str, &Experiment)]) -> String {
    /// Maximum of names in a title.
    const NAMES_MAX: usize = 4;
    let Some(plan) = experiments.first().map(|(_, experiment)| &experiment.plan) else {
        return "No experiments".to_owned();
    };
    let date = plan.started.split('T').next().unwrap_or_default();
    let names: Vec<String> = plan.targets.iter().map(|target| target.name.clone()).collect();
    let names = match names.len() {
        1..=NAMES_MAX => listed(&names),
        count => format!("{count} targets"),
    };
    format!("{names}, {date}")
}

fn footer(experiments: &[(&str, &Experiment)]) -> String {
    let Some(tool) = experiments.first().map(|(_, it)| &it.plan.tool) else {
        return "No records.".to_owned();
    };
    format!(
        "Recorded by {} {} with {}. A ratio is the geometric mean over rounds of a target's metric \
         to the reference's in the same round, without a fifth of the rounds at each end; its \
         interval is Tukey's and McLaughlin's (1963) at 95 %, of fewer than five rounds Student's \
         t: of twenty such intervals, one misses. Shares are subtracted instead, in percentage \
         points. The first lines count a difference only if it holds among all main metrics \
         together, by Holm's method (1979).",
        tool.name, tool.version, tool.tls,
    )
}

const GAINS: &str = "Each value of the last factor against the first one";

/// Maximum of unfolded panels of a picture, so that a scenario has one screen.
const PANELS_MAX: usize = 3;

/// Returns a scenario's screen (finding, picture and warnings), and everything else folded.
fn scenario(study: &Study<'_>, palette: &Palette<'_>, ranking: &Ranking) -> ReportBlock {
    let scenario = study.scenario;
    let page = |blocks| section(SectionKind::Page, "", blocks);
    let sentences = ranking.sentences(&study.anchor());
    let finding = (!sentences.is_empty()).then(|| ReportBlock::Paragraph(sentences.join(" ")));
    let warnings = warnings(study);
    let [drawn, folded] = plot(study, palette).map_or([None, None], |plot| pictures(study, plot));
    let numbers = ReportBlock::Table(tables::full(study));
    let gains = tables::gains(study).map(ReportBlock::Table);
    let blocks = [
        finding.and_then(|it| page(vec![it])),
        drawn,
        folded,
        (!warnings.is_empty()).then_some(ReportBlock::Warnings(warnings)),
        section(SectionKind::Terminal, "", tables::summary(study, WIDTH).block()),
        section(
            SectionKind::Details,
            "Numbers of all metrics",
            [numbers, ReportBlock::Paragraph(SIGNS.to_owned())],
        ),
        gains.and_then(|it| section(SectionKind::Folded, GAINS, [it])),
        spreads(study),
        replay(study, palette),
        course(study),
        method(scenario),
        commands(scenario),
    ];
    let blocks = blocks.into_iter().flatten().collect();
    let title = format!("{}: {}", scenario.name, scenario.question);
    ReportSection::new(SectionKind::Article, title, blocks).at(study.anchor()).into()
}

/// Returns the pictures of a scenario: some open; all of them folded if those are not all. The bars
/// of a rising load have the courses beside them from which they were read.
fn pictures(study: &Study<'_>, plot: Plot) -> [Option<ReportBlock>; 2] {
    let id = |part: &str| format!("{}-{part}", study.anchor());
    let rates = plots::multiples(study).into_iter().next().filter(|_| study.is_rising());
    if let Some(rates) = rates {
        let figures = [Figure::block(&id("plot"), plot), Figure::block(&id("courses"), rates)];
        return [section(SectionKind::Beside("multiples"), "", figures), None];
    }
    let count = plot.panel_count();
    let folded = (count > PANELS_MAX).then(|| {
        let all = vec![Figure::block(&id("plot-all"), plot.clone())];
        ReportSection::new(SectionKind::Details, format!("All {count} panels"), all).into()
    });
    [Some(Figure::block(&id("plot"), plot.shortened(PANELS_MAX))), folded]
}

/// Returns the method, the source, its omitted parts, and its own measurements.
fn method(scenario: &Scenario) -> Option<ReportBlock> {
    let source = |text: String| ReportFact::new("source", text);
    let sources = scenario.sources.iter().map(|it| source(format!("{}, {}", it.title, it.table)));
    let omitted = scenario.omitted.iter();
    let omitted = omitted.map(|it| ReportFact::new("omitted", format!("{}: {}", it.what, it.why)));
    let facts: Vec<ReportFact> = sources.chain(omitted).collect();
    let facts = (!facts.is_empty()).then_some(ReportBlock::Facts(facts));
    let method = ReportBlock::Paragraph(scenario.method.clone());
    let method = section(SectionKind::Page, "", [method]);
    let blocks = method.into_iter().chain(facts).chain(published(scenario));
    section(SectionKind::Folded, "Method, and what the source measured", blocks)
}

fn spreads(study: &Study<'_>) -> Option<ReportBlock> {
    let title = "As ministat(1) prints it";
    if let Some(metric) = tables::spread_metric(study) {
        return section(SectionKind::Folded, title, tables::spreads(study, metric).block());
    }
    section(SectionKind::Details, title, tables::spreads(study, study.main()?).block())
}

/// Returns the courses that are not among the pictures.
fn course(study: &Study<'_>) -> Option<ReportBlock> {
    let charts = plots::multiples(study).into_iter().enumerate();
    let charts = charts.skip(usize::from(study.is_rising()));
    let figures = charts
        .map(|(part, chart)| Figure::block(&format!("{}-course-{part}", study.anchor()), chart));
    let title = "Over time: the repeat in the middle of each, all on one scale";
    section(SectionKind::Details, title, figures)
}

/// Returns the service of all targets over time, as an animation that is a still picture at first.
fn replay(study: &Study<'_>, palette: &Palette<'_>) -> Option<ReportBlock> {
    let chart = plots::replay(study, palette)?;
    let id = format!("{}-replay", study.anchor());
    let drawn = section(SectionKind::Replay, "", vec![Figure::block(&id, chart)]);
    section(SectionKind::Details, "All targets over time: the repeat in the middle of each", drawn)
}

fn published(scenario: &Scenario) -> Option<ReportBlock> {
    let tables = scenario.published.iter().map(|it: &Published| {
        let note = it.note.iter().cloned().map(ReportBlock::Paragraph);
        let blocks = tables::published(it).block().into_iter().chain(note);
        ReportSection::new(SectionKind::Page, "", blocks.collect()).into()
    });
    section(SectionKind::Page, "", section(SectionKind::Beside("published"), "", tables))
}

fn commands(scenario: &Scenario) -> Option<ReportBlock> {
    let configurations = scenario.configurations.iter();
    let commands = configurations.filter(|it| !it.command.is_empty()).map(|it| {
        let command = ReportBlock::Command(it.command.clone());
        ReportSection::new(SectionKind::Page, &it.key, vec![command]).into()
    });
    section(SectionKind::Details, "The commands that load such servers", commands)
}

/// Shows how an experiment was made: targets, host, placement, the command that repeats it.
fn how(experiment: &Experiment, number: usize) -> ReportBlock {
    let plan = &experiment.plan;
    let title = match number {
        1 => "Host and targets".to_owned(),
        _ => format!("Host and targets of record {number}"),
    };
    let cpus = |cpus: &[u16]| joined(cpus.iter().map(u16::to_string), ", ");
    let (server, client) = (cpus(&plan.placement.server), cpus(&plan.placement.client));
    let tool = &plan.tool;
    let facts = vec![
        ReportFact::new("host", host::line(&plan.host.host)),
        ReportFact::new(
            "placement",
            format!("server on CPU {server}, client and origin on CPU {client}"),
        ),
        ReportFact::new("started", format!("{}, {} mode", plan.started, plan.mode)),
        ReportFact::new("order", format!("shuffled in each round by seed {}", plan.seed)),
        ReportFact::new("tool", format!("{} {} with {}", tool.name, tool.version, tool.tls)),
        ReportFact::new("state", state(experiment)),
        ReportFact::new("signs", SIGNS),
    ];
    let targets = plan.targets.iter();
    let targets = targets.map(|it| ReportFact::new(&it.name, tables::version(it))).collect();
    let targets_table = vec![ReportBlock::Table(tables::targets(&plan.targets))];
    // Readers want the first record's targets at once, and look the others' up.
    let targets_table = match number {
        1 => section(SectionKind::Page, "", targets_table),
        _ => section(SectionKind::Details, "Targets", targets_table),
    };
    let host = section(SectionKind::Beside("facts"), "", host::blocks(&plan.host));
    let host = section(SectionKind::Details, "Everything that is known of the host", host);
    let blocks = [
        section(SectionKind::Terminal, "", vec![ReportBlock::Facts(targets)]),
        targets_table,
        Some(ReportBlock::Facts(facts)),
        Some(ReportBlock::Command(plan.command.clone())),
        host,
    ];
    let blocks = blocks.into_iter().flatten().collect();
    ReportSection::new(SectionKind::Article, title, blocks).at(format!("e{number}")).into()
}

fn state(experiment: &Experiment) -> String {
    let plan = &experiment.plan;
    let takes_part = |it: &&Configuration| {
        let mut targets = plan.targets.iter();
        let is_missing = targets.any(|target| target.name == it.target && target.missing.is_some());
        it.unsupported.is_none() && !is_missing
    };
    let planned = |scenario: &Scenario| {
        scenario.configurations.iter().filter(takes_part).count() * scenario.repeats as usize
    };
    let planned: usize = plan.scenarios.iter().map(planned).sum();
    let end = if is_complete(experiment) {
        "complete"
    } else {
        "not complete: it was stopped, and can be resumed with `--resume`"
    };
    let duplicates = match experiment.duplicates {
        0 => String::new(),
        count => format!("; {count} measurements occur twice, and count once"),
    };
    let rule = plan.scenarios.iter().find_map(|scenario| scenario.until);
    let rule = rule.map_or_else(String::new, |rule| {
        format!(", repeated until intervals of main metrics are within ±{} %", rule.reach * 100.0)
    });
    let (count, failed) = (experiment.measurements.len(), experiment.failures.len());
    let of = if rule.is_empty() { format!(" of {planned}") } else { String::new() };
    format!("{count}{of} measurements, {failed} failed{duplicates}{rule}; {end}")
}

/// Maximum share of CPU time for other programs that needs no warning.
const FOREIGN_MAX: f64 = 0.05;

/// Maximum share of CPU time taken by the hypervisor that needs no warning.
const STOLEN_MAX: f64 = 0.02;

pub(crate) fn warnings(study: &Study<'_>) -> Vec<ReportWarning> {
    let measurements: Vec<&Measurement> =
        study.entries().flat_map(|(_, entry)| entry.measurements.values().copied()).collect();
    let mut all = Vec::new();
    all.extend(shared(&measurements));
    all.extend(idle_servers(study));
    all.extend(share(
        &measurements,
        FOREIGN_MAX,
        |measurement| measurement.noise.foreign,
        "went to other work on this host",
    ));
    all.extend(share(
        &measurements,
        STOLEN_MAX,
        |measurement| measurement.noise.stolen,
        "was taken by the hypervisor",
    ));
    all.extend(of_load(&measurements));
    all.extend(failed(study));
    all.into_iter().map(ReportWarning::new).collect()
}

fn shared(measurements: &[&Measurement]) -> Option<String> {
    let shared = measurements.iter().filter(|measurement| measurement.noise.is_shared).count();
    (shared > 0).then(|| {
        format!(
            "in {shared} of {} measurements server and client had to share CPUs: rates are those of both, \
             CPU times of the server alone",
            measurements.len()
        )
    })
}

fn share(
    measurements: &[&Measurement],
    max: f64,
    of: fn(&Measurement) -> f64,
    what: &str,
) -> Option<String> {
    let shares = measurements.iter().map(|measurement| of(measurement));
    let above: Vec<f64> = shares.filter(|share| *share > max).collect();
    let most = above.iter().copied().reduce(f64::max)?;
    Some(format!(
        "in {} of {} measurements more than {:.0} % of CPU time {what}, at most {:.0} %: this \
         distorts rates more than CPU times, and all of them are compared",
        above.len(),
        measurements.len(),
        max * 100.0,
        most * 100.0
    ))
}

/// Warns if a closed load left the server idle, because the rate is then the client's.
fn idle_servers(study: &Study<'_>) -> Option<String> {
    if study.scenario.end_to_end || !study.metrics.iter().any(|it| it.depends_on_load()) {
        return None;
    }
    let mut configurations: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut least = 1.0_f64;
    for (combination, entry) in study.entries() {
        let Some(busy) = busy(entry) else { continue };
        if busy < BUSY_MIN {
            least = least.min(busy);
            configurations.entry(entry.target.name.clone()).or_default().push(combination.title());
        }
    }
    let named = |(target, combinations): (&String, &Vec<String>)| match combinations.len() {
        all if all == study.combinations.len() => target.clone(),
        _ => named(target, combinations),
    };
    let names: Vec<String> = configurations.iter().map(named).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the server was not at its limit (its CPUs busy {:.0} % or less; {:.0} % at the \
             least) with {}: these rates and response times are those of the client or the \
             origin",
            BUSY_MIN * 100.0,
            least * 100.0,
            listed(&names)
        )
    })
}

fn named(target: &str, combinations: &[String]) -> String {
    let titles = joined(combinations, ", ");
    if titles.is_empty() { target.to_owned() } else { format!("{target} ({titles})") }
}

/// Returns the load's own warnings, once for each remedy.
fn of_load(measurements: &[&Measurement]) -> Vec<String> {
    let mut seen: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for warning in measurements.iter().flat_map(|measurement| &measurement.warnings) {
        seen.entry(&warning.hint).or_insert((0, &warning.seen)).0 += 1;
    }
    let say = |(hint, (count, seen)): (&&str, &(usize, &str))| {
        format!("{count} of {} measurements: {seen}; {hint}", measurements.len())
    };
    seen.iter().map(say).collect()
}

/// Returns configurations of which some repeats have no measurement; for those without any, the
/// table gives the reason.
fn failed(study: &Study<'_>) -> Vec<String> {
    let partly = study
        .entries()
        .filter(|(_, entry)| !entry.measurements.is_empty() && !entry.failures.is_empty());
    let say = |(combination, entry): (&Combination<'_>, &StudyEntry<'_>)| {
        let last = entry.failures.last()?;
        Some(format!(
            "{}: {} of {} repeats {}: {}",
            named(&entry.target.name, &[combination.title()]),
            entry.failures.len(),
            study.scenario.repeats,
            last.kind.name(),
            last.why
        ))
    };
    partly.filter_map(say).collect()
}
