//! What is said after an experiment: who is ahead, and each scenario in a table, as text.

use measure::experiment::{Cell, Experiment, Scenario};

use crate::hostile::harmless;
use crate::shell::command_lines;
use crate::table::{self, Table};
use crate::tables::NONE;
use crate::terminal::{FIELD_WIDTH, Ink, Look, length, wrap};

use super::gains::gains_listed;
use super::host;
use super::noise::doubts;
use super::standing::{Line, Standing, topics};
use super::study::{Case, Entry, Group, cases};
use super::tables;
use super::versus::versus;
use super::yardstick::Yardstick;

/// The experiment as text for a screen `width` characters wide.
#[must_use]
pub fn text(experiment: &Experiment, width: usize, colour: bool) -> String {
    let look = Look { width, colour };
    let cases = cases(experiment, 1);
    let mut parts = vec![standing(&Standing::of(cases.iter()), look)];
    parts.extend(cases.iter().map(|case| scenario(case, look)));
    parts.push(course(experiment, look));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn standing(standing: &Standing, look: Look) -> String {
    let mut text = String::new();
    for line in wrap(&standing.headline(), look.width) {
        text += &(look.paint(Ink::Strong, &line) + "\n");
    }
    let first = harmless(&standing.first);
    let main = &standing.main;
    text += &lines(look, "Where a target is ahead", &main.ahead, Line::in_full);
    let alone = "Where a target is ahead by its own interval alone";
    text += &lines(look, alone, &standing.alone.ahead, Line::in_full);
    text += &lacks(look, &first, standing);
    let level = "Level: no difference established";
    text += &lines(look, level, &main.level, Line::cells);
    let behind = format!("Where {first} is ahead: their figure to its own");
    text += &lines(look, &behind, &main.behind, Line::in_short);
    let alone = format!("Where {first} is ahead by its own interval alone");
    text += &lines(look, &alone, &standing.alone.behind, Line::in_short);
    let not_counted = [standing.of_load(), standing.apart()];
    for (index, words) in not_counted.into_iter().flatten().enumerate() {
        text += if index == 0 { "\n" } else { "" };
        text += &look.labelled(Ink::Faint, "not counted", &harmless(&words));
    }
    let further = &standing.further;
    let ahead = "Further figures: where a target is ahead";
    text += &lines(look, ahead, &further.ahead, Line::in_full);
    text += &lines(look, "Further figures: level", &further.level, Line::cells);
    let behind = format!("Further figures: where {first} is ahead");
    text + &lines(look, &behind, &further.behind, Line::in_short)
}

fn lines(look: Look, title: &str, lines: &[Line], words: fn(&Line) -> String) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", look.paint(Ink::Strong, title));
    for topic in topics(lines) {
        let targets = topic.iter().map(|line| {
            let said = format!("{} {}", line.target, words(line));
            said.trim_end().to_owned()
        });
        let targets: Vec<String> = targets.collect();
        let head = topic
            .first()
            .map(|line| format!("{}, {}", line.scenario, line.figure));
        let whole = format!("{}: {}", head.unwrap_or_default(), targets.join(" · "));
        text += &item(look, &whole);
    }
    text
}

/// Moved in by two, its later lines by four.
fn item(look: Look, words: &str) -> String {
    let lines = wrap(&harmless(words), look.width.saturating_sub(4));
    format!("  {}\n", lines.join("\n    "))
}

fn lacks(look: Look, first: &str, standing: &Standing) -> String {
    if standing.lacks.is_empty() {
        return String::new();
    }
    let title = format!("What {first} has no figure for");
    let mut text = format!("\n{}\n", look.paint(Ink::Strong, &title));
    for (scenario, cell) in &standing.lacks {
        text += &item(look, &format!("{scenario}: {cell}"));
    }
    text
}

fn scenario(case: &Case<'_>, look: Look) -> String {
    let scenario = case.scenario;
    let title = harmless(&format!("{}: {}", scenario.name, scenario.question));
    let mut text = String::new();
    for line in wrap(&title, look.width) {
        text += &(look.paint(Ink::Strong, &line) + "\n");
    }
    for source in &scenario.sources {
        text += &look.field(
            "source",
            &harmless(&format!("{}, {}", source.title, source.table)),
        );
    }
    text += &figures(case, look);
    let gains = gains_listed(case);
    if !gains.is_empty() {
        text += &section(look, &gains);
    }
    if let Some(figure) = tables::spread_figure(case) {
        text += &section(look, &tables::spreads(case, figure));
    }
    for left in &scenario.left_out {
        text += &look.field(
            "left out",
            &harmless(&format!("{}: {}", left.what, left.why)),
        );
    }
    for doubt in doubts(case) {
        text += &look.labelled(Ink::Warning, "doubt", &doubt);
    }
    text
}

/// Under its caption, which is a line or two of its own.
fn section(look: Look, table: &Table) -> String {
    let caption = wrap(&table.caption, look.width.saturating_sub(2));
    // Without heads their line is empty.
    let rows = look.table("", table);
    let rows = rows.strip_prefix('\n').unwrap_or(&rows);
    format!("  {}\n{rows}", caption.join("\n  "))
}

/// A row a cell: the medians of its figures, and the main one against the first target's.
fn figures(case: &Case<'_>, look: Look) -> String {
    let yardsticks = fitting(case, look.width);
    let Some(main) = case.main() else {
        return String::new();
    };
    let first = case
        .targets
        .first()
        .map_or("", |target| target.name.as_str());
    let against = format!("<{} to {}'s (95 %)", main_name(main), harmless(first));
    let heads: Vec<String> = ["<".to_owned()]
        .into_iter()
        .chain(yardsticks.iter().map(|it| it.head()))
        .chain([against])
        .collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("", &heads);
    for group in &case.groups {
        if !group.levels.is_empty() {
            table.head(&harmless(&group.title()));
        }
        for entry in &group.entries {
            table.row(row(entry, group, &yardsticks, main));
        }
    }
    look.table("", &table)
}

fn main_name(main: Yardstick) -> String {
    let head = main.head();
    head.split(", ").next().unwrap_or_default().to_owned()
}

/// As many figures as leave room for the comparison.
fn fitting(case: &Case<'_>, width: usize) -> Vec<Yardstick> {
    const COMPARISON: usize = 26;
    let names = case.targets.iter().map(|target| length(&target.name));
    let mut left = width.saturating_sub(names.max().unwrap_or(0) + COMPARISON + 4);
    let mut fitting = Vec::new();
    for yardstick in &case.yardsticks {
        let needed = length(&yardstick.head()) + 2;
        if needed > left {
            break;
        }
        left -= needed;
        fitting.push(*yardstick);
    }
    fitting
}

fn row(
    entry: &Entry<'_>,
    group: &Group<'_>,
    told: &[Yardstick],
    main: Yardstick,
) -> Vec<table::Cell> {
    let mut cells = vec![table::Cell::of(harmless(&entry.target.name))];
    cells.extend(told.iter().map(|yardstick| match entry.spread(*yardstick) {
        Some(spread) => table::Cell::of(yardstick.shown(spread.median)),
        None => table::Cell::from(NONE),
    }));
    cells.push(table::Cell::of(comparison(entry, group, main)));
    cells
}

fn comparison(entry: &Entry<'_>, group: &Group<'_>, main: Yardstick) -> String {
    if let Some(gap) = entry.gap() {
        let why = if gap.why.is_empty() {
            String::new()
        } else {
            format!(": {}", gap.why)
        };
        return harmless(&format!("{}{why}", gap.way));
    }
    let base = group.base_of(entry);
    let found = base.and_then(|base| versus(entry, base, main));
    found.map_or_else(String::new, |found| found.words())
}

fn course(experiment: &Experiment, look: Look) -> String {
    let plan = &experiment.plan;
    let legend = "▲ the target is ahead, ▽ it is behind, ≈ no difference is established, ○ tells of \
                  the load, ? too few rounds; medians of repeats; ratios, or differences of \
                  shares, by round with their 95 % interval";
    let mut text = look.field("signs", legend);
    for target in &plan.targets {
        let version = target
            .missing
            .clone()
            .unwrap_or_else(|| target.version.join(", "));
        text += &look.field("target", &harmless(&format!("{}: {version}", target.name)));
    }
    text += &look.field("host", &host::line(&plan.host));
    let cpus = |cpus: &[u16]| {
        cpus.iter()
            .map(u16::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let placement = format!(
        "server on CPU {}, client and origin on CPU {}",
        cpus(&plan.placement.server),
        cpus(&plan.placement.client)
    );
    text += &look.field("placement", &placement);
    text += &look.field(
        "started",
        &harmless(&format!("{}, {} mode", plan.started, plan.mode)),
    );
    text += &look.field("state", &state(experiment));
    let lines = command_lines(&plan.command, look.width.saturating_sub(FIELD_WIDTH));
    text + &look.field_lines("repeat", &lines)
}

/// How far it came.
pub(crate) fn state(experiment: &Experiment) -> String {
    let plan = &experiment.plan;
    let takes_part = |cell: &&Cell| {
        let mut targets = plan.targets.iter();
        let is_missing =
            targets.any(|target| target.name == cell.target && target.missing.is_some());
        cell.cannot.is_none() && !is_missing
    };
    let readings = |scenario: &Scenario| {
        scenario.cells.iter().filter(takes_part).count() * scenario.repeats as usize
    };
    let planned: usize = plan.scenarios.iter().map(readings).sum();
    let read = experiment.readings.len();
    let missed = experiment.misses.len();
    let end = match &experiment.ended {
        Some(ended) if ended.is_complete => "complete",
        _ => "not complete: it was stopped, and can be taken up again with `--resume`",
    };
    let doubled = match experiment.doubled {
        0 => String::new(),
        count => format!("; {count} readings stand there twice, and count once"),
    };
    format!("{read} of {planned} readings, {missed} missed{doubled}; {end}")
}
