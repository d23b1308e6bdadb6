//! What the last factor does within each target: every level against the first one.

use measure::experiment::Reading;

use crate::hostile::harmless;
use crate::table::{Cell, Table};
use crate::tables::NONE;

use super::found::Found;
use super::limits::is_quiet;
use super::study::{Case, Entry};
use super::words::titled;
use super::yardstick::Yardstick;

/// A row a level but the first of the last factor, a column a target; empty where only targets were
/// varied.
pub(crate) fn gains(case: &Case<'_>) -> Table {
    let names = case.targets.iter().map(|target| harmless(&target.name));
    let factors = case.scenario.factors.iter();
    let titles: Vec<String> = factors.map(|factor| harmless(&factor.title)).collect();
    let head = titles.join(", ");
    let heads: Vec<String> = [format!("<{head}")].into_iter().chain(names).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(&caption(case), &heads);
    for (level, cells) in levels(case) {
        table.row([Cell::of(level)].into_iter().chain(cells).collect());
    }
    table
}

/// The same in two columns, for narrow screens: levels are heads, targets rows.
pub(crate) fn gains_listed(case: &Case<'_>) -> Table {
    let mut table = Table::new(&caption(case), &["<", "<"]);
    for (level, cells) in levels(case) {
        table.head(&level);
        for (target, cell) in case.targets.iter().zip(cells) {
            table.row(vec![Cell::of(harmless(&target.name)), cell]);
        }
    }
    table
}

fn caption(case: &Case<'_>) -> String {
    let (Some(yardstick), Some(base)) = (case.main(), case.last_levels().first().copied()) else {
        return String::new();
    };
    let how = match yardstick.is_share() {
        true => "less",
        false => "as a multiple of",
    };
    format!(
        "{} {how} that at {}, by round, with its 95 % interval",
        titled(&yardstick.title(&case.scenario.operation)),
        harmless(&base.title)
    )
}

/// Each level of the last factor but the first, with a cell a target.
fn levels(case: &Case<'_>) -> Vec<(String, Vec<Cell>)> {
    let (Some(yardstick), Some(first)) = (case.main(), case.last_levels().first().copied()) else {
        return Vec::new();
    };
    let mut levels = Vec::new();
    for series in case.series() {
        let Some((base, others)) = series.split_first() else {
            continue;
        };
        if !base.is_last(first) {
            continue;
        }
        levels.extend(others.iter().map(|group| {
            let pairs = group.entries.iter().zip(&base.entries);
            let cells: Vec<Cell> = pairs
                .map(|(entry, base)| cell(entry, base, yardstick))
                .collect();
            (harmless(&group.title()), cells)
        }));
    }
    levels.retain(|(_, cells)| cells.iter().any(|cell| cell.text != NONE));
    levels
}

/// A rate of a server that shared its CPUs with what loaded it is no gain of the server.
fn cell(entry: &Entry<'_>, base: &Entry<'_>, yardstick: Yardstick) -> Cell {
    let is_told = |reading: &Reading| {
        is_quiet(reading) && !(yardstick.depends_on_load() && reading.noise.is_shared)
    };
    let pairs = entry.readings.iter().filter_map(|(repeat, reading)| {
        let other = base.readings.get(repeat)?;
        let is_told = is_told(reading) && is_told(other);
        is_told.then_some((yardstick.of(reading)?, yardstick.of(other)?))
    });
    let found = Found::of_pairs(&pairs.collect::<Vec<_>>(), yardstick);
    found.map_or_else(|| Cell::from(NONE), |found| Cell::of(found.in_cell()))
}
