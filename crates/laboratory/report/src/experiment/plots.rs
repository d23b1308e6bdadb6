//! The figures of a scenario: bars for names, lines for numbers, courses of rising loads.

use std::collections::BTreeMap;

use measure::experiment::{Reading, Scenario, Target};
use measure::host::HostReport;
use measure::record::{self, Client, Ending, Record, Tool};
use measure::statistics::Spread;

use crate::drawings::along_time;
use crate::figure::{Axis, Bar, BarPanel, Bars, Figure, Panel, Series, Shape, Unit};
use crate::hostile::harmless;

use super::study::{Case, Entry, Group};
use super::versus::versus;
use super::words::titled;
use super::yardstick::Yardstick;

/// What fits a scenario.
#[derive(Clone, Debug)]
pub(crate) enum Plot {
    /// Names: bars.
    Bars(Bars),
    /// Numbers: lines over them.
    Lines(Figure),
}

/// The looks of targets by their place in the record, so that each has the same everywhere.
const COLOURS: [&str; 7] = ["blue", "teal", "amber", "violet", "rose", "grey", "ink"];
const DASHES: [&str; 5] = ["", "8 3", "3 3", "9 3 2 3", "14 3"];

/// Where a target stands in the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette<'e>(pub(crate) &'e [Target]);

impl Palette<'_> {
    fn place(self, target: &Target) -> usize {
        let found = self.0.iter().position(|other| other.name == target.name);
        found.unwrap_or(0)
    }

    /// The name of a target's colour.
    pub(crate) fn colour(self, target: &Target) -> &'static str {
        COLOURS[self.place(target) % COLOURS.len()]
    }

    /// The dashes of its lines.
    pub(crate) fn dashes(self, target: &Target) -> &'static str {
        DASHES[self.place(target) % DASHES.len()]
    }
}

/// The plot of a scenario; `None` if nothing was read.
pub(crate) fn plot(case: &Case<'_>, palette: Palette<'_>) -> Option<Plot> {
    if !case.is_read() {
        return None;
    }
    match case.is_numeric() {
        true => Some(Plot::Lines(lines(case, palette)?)),
        false => Some(Plot::Bars(bars(case)?)),
    }
}

/// Figures told of a scenario without factors, or of one with few levels.
const FIGURES_MAX: usize = 2;

fn bars(case: &Case<'_>) -> Option<Bars> {
    let main = case.main()?;
    let panels = match case.groups.as_slice() {
        [group] => {
            let told = case.yardsticks.iter().take(FIGURES_MAX);
            told.map(|yardstick| panel(case, group, *yardstick))
                .collect()
        }
        groups => {
            let panels = groups.iter().map(|group| panel(case, group, main));
            same_scale(panels.collect())
        }
    };
    // One combination has its figures as headings.
    let head = match case.groups.len() {
        1 => String::new(),
        _ => heading(case, main),
    };
    Some(Bars {
        title: title(case, main),
        description: description(case, main),
        head,
        legend: String::new(),
        panels,
    })
}

/// A figure of its own in one panel: what a document shows.
pub(crate) fn single(case: &Case<'_>, yardstick: Yardstick) -> Bars {
    let groups = case.groups.iter();
    let panels = groups.map(|group| panel(case, group, yardstick));
    let first = case
        .targets
        .first()
        .map_or("", |target| target.name.as_str());
    let head = match case.groups.len() {
        1 => String::new(),
        _ => heading(case, yardstick),
    };
    Bars {
        title: title(case, yardstick),
        description: description(case, yardstick),
        head,
        legend: harmless(&format!(
            "×: to {first}'s figure; ▲ ahead of {first}, ▽ behind it, ≈ no difference established"
        )),
        panels: same_scale(panels.collect()),
    }
}

/// Panels that are levels of the same figure are compared by eye.
fn same_scale(mut panels: Vec<BarPanel>) -> Vec<BarPanel> {
    let full = panels.iter().map(|panel| panel.full).fold(0.0, f64::max);
    for panel in &mut panels {
        panel.full = full;
    }
    panels
}

fn panel(case: &Case<'_>, group: &Group<'_>, yardstick: Yardstick) -> BarPanel {
    let heading = match group.title() {
        // Where there is one combination, panels differ in their figures.
        title if !title.is_empty() && case.groups.len() > 1 => harmless(&title),
        _ => heading(case, yardstick),
    };
    let entries = group.entries.iter().filter(|entry| entry.cell.is_some());
    let bars: Vec<Bar> = entries.map(|entry| bar(entry, group, yardstick)).collect();
    let ends = bars.iter().filter_map(|bar| bar.value);
    let full = ends.fold(0.0, |most: f64, (value, _, greatest)| {
        most.max(value).max(greatest)
    });
    BarPanel {
        heading,
        full: if full > 0.0 { full } else { 1.0 },
        bars,
    }
}

/// What an axis or panel is of.
fn heading(case: &Case<'_>, yardstick: Yardstick) -> String {
    let better = if yardstick.is_cost() { "less" } else { "more" };
    let figure = titled(&yardstick.title(&case.scenario.operation));
    format!("{figure}, {} ({better} is better)", yardstick.unit())
}

/// The one that others are compared with stands out.
fn bar(entry: &Entry<'_>, group: &Group<'_>, yardstick: Yardstick) -> Bar {
    let spread = entry.spread(yardstick);
    let gap = entry.gap().map_or_else(
        || "no figure".to_owned(),
        |gap| match gap.why.is_empty() {
            true => gap.way.to_owned(),
            false => format!("{}: {}", gap.way, harmless(&gap.why)),
        },
    );
    let is_first = group
        .first()
        .is_some_and(|first| first.target.name == entry.target.name);
    let other = group.base_of(entry);
    let against = other.and_then(|base| versus(entry, base, yardstick));
    let beside = against.map_or_else(String::new, |found| found.short());
    Bar {
        name: harmless(&entry.target.name),
        colour: if is_first { "blue" } else { "grey" },
        value: spread.map(|it| (it.median, it.min, it.max)),
        text: spread.map_or(gap, |it| yardstick.shown(it.median)),
        beside,
    }
}

fn title(case: &Case<'_>, yardstick: Yardstick) -> String {
    let figure = yardstick.title(&case.scenario.operation);
    format!(
        "{}: {figure}, {}",
        harmless(&case.scenario.name),
        yardstick.unit()
    )
}

/// The medians of the first combination, in words.
fn description(case: &Case<'_>, yardstick: Yardstick) -> String {
    let said = case.entries().filter_map(|(group, entry)| {
        let spread = entry.spread(yardstick)?;
        let title = group.title();
        let at = if title.is_empty() {
            title
        } else {
            format!(", {title}")
        };
        Some(format!(
            "{}{at}: {}.",
            entry.target.name,
            yardstick.told(spread.median)
        ))
    });
    harmless(&said.collect::<Vec<_>>().join(" "))
}

fn lines(case: &Case<'_>, palette: Palette<'_>) -> Option<Figure> {
    let main = case.main()?;
    let factor = case.scenario.factors.last()?;
    let levels = case.last_levels();
    let series: Vec<&[Group<'_>]> = case.series().collect();
    let drawn: Vec<(&[Group<'_>], Yardstick)> = match series.as_slice() {
        [one] => {
            let told = case.yardsticks.iter().take(FIGURES_MAX);
            told.map(|yardstick| (*one, *yardstick)).collect()
        }
        several => several.iter().map(|groups| (*groups, main)).collect(),
    };
    let panels = drawn.into_iter().enumerate();
    let panels = panels.map(|(index, (groups, yardstick))| {
        let mut panel = line_panel(case, groups, yardstick, palette);
        // The legend stands in the first panel alone.
        if index > 0 {
            panel.series.iter_mut().for_each(|line| line.name.clear());
        }
        panel
    });
    Some(Figure {
        title: title(case, main),
        description: description(case, main),
        x: Axis::places(
            &harmless(&factor.title),
            levels.iter().map(|level| harmless(&level.title)).collect(),
        ),
        panels: panels.collect(),
        columns: Vec::new(),
    })
}

fn line_panel(
    case: &Case<'_>,
    groups: &[Group<'_>],
    yardstick: Yardstick,
    palette: Palette<'_>,
) -> Panel {
    let mut series = Vec::new();
    for (index, target) in case.targets.iter().enumerate() {
        let levels = case.last_levels().into_iter();
        let spreads: Vec<_> = levels
            .map(|level| {
                let group = groups.iter().find(|group| group.is_last(level))?;
                group.entries[index].spread(yardstick)
            })
            .collect();
        series.extend(line(target, &spreads, yardstick, palette));
    }
    let title = match groups.first().map(Group::outer_title) {
        Some(outer) if !outer.is_empty() => {
            let figure = yardstick.title(&case.scenario.operation);
            let unit = yardstick.unit();
            titled(&format!("{}: {figure}, {unit}", harmless(&outer)))
        }
        _ => heading(case, yardstick),
    };
    let values = series.iter().flat_map(|line: &Series| &line.points);
    let y = Axis::amounts(&title, Unit::Count, values.map(|point| point.1));
    Panel::new(y, series)
}

/// A target's medians, over the band from the least to the greatest.
fn line(
    target: &Target,
    spreads: &[Option<Spread>],
    yardstick: Yardstick,
    palette: Palette<'_>,
) -> Vec<Series> {
    let scaled = |value: f64| yardstick.scaled(value);
    let colour = palette.colour(target);
    let bands = runs(spreads).into_iter().map(|run| {
        let forth = run.iter().map(|(x, spread)| (*x, scaled(spread.max)));
        let back = run.iter().rev().map(|(x, spread)| (*x, scaled(spread.min)));
        Series::new("", colour, Shape::Band).of(forth.chain(back))
    });
    let points = spreads.iter().enumerate().map(|(place, spread)| {
        let median = spread.map_or(f64::NAN, |it| scaled(it.median));
        (place as f64, median)
    });
    let shape = Shape::Marked(palette.dashes(target));
    let medians = Series::new(&harmless(&target.name), colour, shape).of(points);
    bands.chain([medians]).collect()
}

/// Stretches of neighbours that all have a spread: places with their spreads.
fn runs(spreads: &[Option<Spread>]) -> Vec<Vec<(f64, Spread)>> {
    let places = spreads.iter().enumerate();
    let places: Vec<_> = places
        .map(|(place, spread)| (place as f64, *spread))
        .collect();
    let runs = places.split(|(_, spread)| spread.is_none());
    let runs = runs.map(|run| {
        run.iter()
            .filter_map(|(x, spread)| Some((*x, (*spread)?)))
            .collect()
    });
    runs.filter(|run: &Vec<_>| run.len() > 1).collect()
}

/// Samples of a course: as many as a small figure tells apart.
const SAMPLES_MAX: usize = 160;

/// The courses of a rising load, one a cell that has one: the reading whose main figure is the
/// middle one.
pub(crate) fn courses(case: &Case<'_>) -> Vec<(String, Figure)> {
    let Some(main) = case.main() else {
        return Vec::new();
    };
    let course = |(group, entry): (&Group<'_>, &Entry<'_>)| {
        let reading = middle(entry, main)?;
        let mut figure = along_time(&as_record(reading, case.scenario), SAMPLES_MAX)?;
        figure.columns.clear();
        let parts = [entry.target.name.clone(), group.title()];
        let name: Vec<&str> = parts
            .iter()
            .map(String::as_str)
            .filter(|it| !it.is_empty())
            .collect();
        let name = harmless(&name.join(", "));
        figure.title = format!("{name}: transactions and response time over time");
        Some((name, figure))
    };
    case.entries().filter_map(course).collect()
}

fn middle<'e>(entry: &Entry<'e>, yardstick: Yardstick) -> Option<&'e Reading> {
    let with_course = entry
        .readings
        .values()
        .filter(|reading| !reading.seconds.is_empty());
    let mut readings: Vec<&Reading> = with_course.copied().collect();
    let value = |reading: &Reading| yardstick.of(reading).unwrap_or(0.0);
    readings.sort_by(|a, b| value(a).total_cmp(&value(b)));
    readings.get(readings.len() / 2).copied()
}

/// As the record of a load, as far as its course is drawn from it.
fn as_record(reading: &Reading, scenario: &Scenario) -> Record {
    Record {
        format: record::FORMAT,
        tool: Tool {
            name: String::new(),
            version: String::new(),
            tls: String::new(),
        },
        command: Vec::new(),
        settings: Vec::new(),
        started: reading.at.clone(),
        host: HostReport::default().host,
        target: record::Target {
            url: scenario.name.clone(),
            address: String::new(),
        },
        ending: Ending::Completed,
        elapsed_ns: reading.elapsed_ns,
        warm_up: record::Counts::default(),
        totals: reading.counts,
        failures: reading.failures.clone(),
        handshakes: reading.handshakes.clone(),
        traffic: reading.traffic,
        latencies: BTreeMap::new(),
        seconds: reading.seconds.clone(),
        steps: reading.steps.clone(),
        capacity: None,
        client: Client::default(),
        warnings: Vec::new(),
    }
}
