//! The report of experiments: a ranking, tables in the form of their sources, plots; and two of
//! them compared.

mod card;
mod compared;
mod comparison;
mod plots;
mod ranking;
mod study;
mod tables;
mod warnings;

use std::collections::BTreeMap;

use measure::effect::Effect;
use measure::experiment::{Configuration, Experiment, Published, Scenario};

use crate::document::{
    Figure, ListItem, ReportBlock, ReportDocument, ReportFact, ReportSection, SectionKind, Sheet,
    section,
};
use crate::host;
use crate::words::joined;

use comparison::{SIGNS, compare};
use plots::{Palette, courses, plot};
use ranking::Ranking;
use study::{Study, studies};

pub use card::{CARD_SIZE, CardRefusal, CardSubject, card};
pub use compared::{compared, configurations_in_common};

/// The verdict about a target at some values, by the scenario's main metric.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The value of each factor, by the factor's name.
    pub values: BTreeMap<String, String>,
    /// `better`, `equal`, `not-known`, `worse`, or why it is not judged.
    pub word: &'static str,
    pub effect: Effect,
}

/// Every comparison of a record's main metrics, each by its own interval.
pub fn findings(experiment: &Experiment) -> Vec<Finding> {
    let mut found = Vec::new();
    for study in studies(experiment, 1) {
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

/// Characters for which tables on terminals are made.
const WIDTH: usize = 80;

/// The report of these experiments; each has the name that its files begin with.
pub fn document(experiments: &[(&str, &Experiment)]) -> ReportDocument {
    let numbered = experiments.iter().zip(1..);
    let all: Vec<Vec<Study<'_>>> =
        numbered.map(|((_, experiment), number)| studies(experiment, number)).collect();
    let ranking = Ranking::of(all.iter().flatten());
    let is_only = all.iter().flatten().count() == 1;
    let mut document = ReportDocument {
        title: title(experiments),
        footer: footer(experiments),
        blocks: ranking.finding(),
        ..ReportDocument::default()
    };
    document.blocks.extend(first_screen(experiments, &all));
    document.blocks.extend(ranking.lists());
    for ((name, experiment), studies) in experiments.iter().zip(&all) {
        let palette = Palette(&experiment.plan.targets);
        // A name that stays the same lets a page of others refer to it.
        let named = |file: String| match experiments.len() {
            1 => file,
            _ => format!("{name}-{file}"),
        };
        for study in studies {
            document.links.push((study.anchor(), study.scenario.name.clone()));
            document.blocks.push(scenario(study, palette, is_only));
            let files = plots::files(study, palette).into_iter();
            document.files.extend(files.map(|(file, plot)| (named(file), plot)));
        }
        let sheets = [tables::configurations(studies), tables::measurements(studies)];
        document
            .sheets
            .extend(sheets.map(|sheet| Sheet { name: format!("{name}-{}", sheet.name), ..sheet }));
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

/// More panels of the picture below the finding would push the host and the command off the screen.
const FINDING_PANELS_MAX: usize = 2;

/// The part below the finding on a page: the picture of the first scenario that has one, where it
/// was measured, and the command that repeats it. Terminals have them further down.
fn first_screen(
    experiments: &[(&str, &Experiment)],
    all: &[Vec<Study<'_>>],
) -> Option<ReportBlock> {
    let numbered = experiments.iter().zip(all).zip(1..);
    let mut pictures = numbered.flat_map(|(((_, it), studies), number)| {
        let plan = &it.plan;
        let picture =
            move |study| Some((plan, number, study, plot(study, Palette(&plan.targets))?));
        studies.iter().filter_map(picture)
    });
    let (plan, number, study, picture) = pictures.next()?;
    let panels = picture.panel_count();
    let picture = picture.shortened(FINDING_PANELS_MAX);
    let further = (panels > FINDING_PANELS_MAX).then(|| {
        ReportBlock::Items(vec![ListItem {
            link: study.anchor(),
            head: format!("all {panels} panels"),
            parts: Vec::new(),
        }])
    });
    let mut facts = vec![ReportFact::new("host", host::line(&plan.host.host))];
    if experiments.len() > 1 {
        let which = format!(
            "{number} of {}, measured on this host by this command; the others' stand at the end",
            experiments.len()
        );
        facts.insert(0, ReportFact::new("record", which));
    }
    let picture = [Figure::block("finding", picture)];
    let rest = [ReportBlock::Facts(facts), ReportBlock::Command(plan.command.clone())];
    let blocks = picture.into_iter().chain(further).chain(rest);
    section(SectionKind::Page, "", blocks)
}

fn title(experiments: &[(&str, &Experiment)]) -> String {
    let Some(plan) = experiments.first().map(|(_, experiment)| &experiment.plan) else {
        return "No experiments".to_owned();
    };
    let date = plan.started.split('T').next().unwrap_or_default();
    let first = plan.targets.first();
    let first = first.map_or("TLS terminators", |target| target.name.as_str());
    format!("{first} and other targets, {date}")
}

fn footer(experiments: &[(&str, &Experiment)]) -> String {
    let Some(tool) = experiments.first().map(|(_, it)| &it.plan.tool) else {
        return "No records.".to_owned();
    };
    format!(
        "Recorded by {} {} with {}. A ratio is the geometric mean over rounds of a target's metric \
         to the first target's in the same round; its interval is Student's t of their logarithms \
         at 95 %: of twenty such intervals, one misses. Shares are subtracted instead, in \
         percentage points, by the paired t. The first lines count a difference only if it holds \
         among all main metrics together, by Holm's method (1979).",
        tool.name, tool.version, tool.tls,
    )
}

/// Everything of a scenario; the picture of the only one is that of the first screen, if that has
/// all of it.
fn scenario(study: &Study<'_>, palette: Palette<'_>, is_only: bool) -> ReportBlock {
    let scenario = study.scenario;
    let page = |blocks| section(SectionKind::Page, "", blocks);
    let source = |text: String| ReportFact::new("source", text);
    let sources = scenario.sources.iter();
    let sources = sources.map(|it| source(format!("{}, {}", it.title, it.table)));
    let omitted = scenario.omitted.iter();
    let omitted = omitted.map(|it| ReportFact::new("omitted", format!("{}: {}", it.what, it.why)));
    let facts: Vec<ReportFact> = sources.chain(omitted).collect();
    let warnings = warnings::warnings(study);
    let id = format!("{}-plot", study.anchor());
    let drawn = plot(study, palette);
    let drawn = drawn.filter(|it| !is_only || it.panel_count() > FINDING_PANELS_MAX);
    let drawn = drawn.map(|plot| Figure::block(&id, plot));
    let mut tables = tables::full(study).into_iter().map(ReportBlock::Table);
    /// Tables of this many metrics are not folded.
    const OPEN_MAX: usize = 2;
    let shown = tables.by_ref().take(OPEN_MAX).collect();
    let further = section(SectionKind::Details, "Further metrics", tables);
    let gains = tables::gains(study).map(|gains| gains.map(ReportBlock::Table));
    let [by_target, list] = gains.map_or([None, None], |gains| gains.map(Some));
    let blocks = [
        page(vec![ReportBlock::Paragraph(scenario.method.clone())]),
        drawn,
        (!facts.is_empty()).then_some(ReportBlock::Facts(facts)),
        (!warnings.is_empty()).then_some(ReportBlock::Warnings(warnings)),
        section(SectionKind::Terminal, "", tables::summary(study, WIDTH).block()),
        page(shown),
        further,
        section(SectionKind::Page, "", by_target),
        section(SectionKind::Terminal, "", list),
        spreads(study),
        page(vec![ReportBlock::Paragraph(SIGNS.to_owned())]),
        replay(study, palette),
        course(study),
        published(scenario),
        commands(scenario),
    ];
    let blocks = blocks.into_iter().flatten().collect();
    let title = format!("{}: {}", scenario.name, scenario.question);
    ReportSection::new(SectionKind::Article, title, blocks).at(study.anchor()).into()
}

/// Open where the source printed them.
fn spreads(study: &Study<'_>) -> Option<ReportBlock> {
    if let Some(metric) = tables::spread_metric(study) {
        return tables::spreads(study, metric).block();
    }
    let table = tables::spreads(study, study.main()?).block();
    let title = "The main metric as ministat(1) prints it";
    section(SectionKind::Details, title, table)
}

fn course(study: &Study<'_>) -> Option<ReportBlock> {
    let courses = courses(study).into_iter().enumerate();
    let drawn = courses
        .map(|(index, (name, chart))| (format!("{}-course-{index}", study.anchor()), name, chart));
    let drawn = Figure::row(drawn.collect());
    let title = "The course of the load: the repeat in the middle";
    section(SectionKind::Page, title, drawn)
}

/// The service of all targets over time, as an animation that is a picture until it is started.
fn replay(study: &Study<'_>, palette: Palette<'_>) -> Option<ReportBlock> {
    let chart = plots::replay(study, palette)?;
    let id = format!("{}-replay", study.anchor());
    let drawn = section(SectionKind::Replay, "", vec![Figure::block(&id, chart)]);
    let title = "All targets over time: the repeat in the middle of each";
    section(SectionKind::Page, title, drawn)
}

fn published(scenario: &Scenario) -> Option<ReportBlock> {
    let tables = scenario.published.iter().map(|it: &Published| {
        let note = it.note.iter().cloned().map(ReportBlock::Paragraph);
        let blocks = tables::published(it).block().into_iter().chain(note);
        ReportSection::new(SectionKind::Page, "", blocks.collect()).into()
    });
    let tables = section(SectionKind::Beside("published"), "", tables);
    section(SectionKind::Page, "What the source measured", tables)
}

fn commands(scenario: &Scenario) -> Option<ReportBlock> {
    let configurations = scenario.configurations.iter();
    let commands = configurations.filter(|it| !it.command.is_empty()).map(|it| {
        let command = ReportBlock::Command(it.command.clone());
        ReportSection::new(SectionKind::Page, &it.key, vec![command]).into()
    });
    let title = "The commands that load such servers";
    section(SectionKind::Details, title, commands)
}

/// How an experiment was made: targets, host, placement, the command that repeats it.
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
    let targets_table = ReportBlock::Table(tables::targets(&plan.targets));
    let host = section(SectionKind::Beside("facts"), "", host::blocks(&plan.host));
    let blocks = [
        section(SectionKind::Terminal, "", vec![ReportBlock::Facts(targets)]),
        section(SectionKind::Page, "", vec![targets_table]),
        Some(ReportBlock::Facts(facts)),
        Some(ReportBlock::Command(plan.command.clone())),
        section(SectionKind::Page, "", host),
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
    let end = match &experiment.ended {
        Some(ended) if ended.is_complete => "complete",
        _ => "not complete: it was stopped, and can be resumed with `--resume`",
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
