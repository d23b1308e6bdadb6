//! Several records side by side: in what they differ, and what came of it.

use measure::quantity::{Nanoseconds, Share};
use measure::record::Record;
use measure::statistics::Spread;

use crate::apart::{Facts, names};
use crate::headline::{Headline, headlines};
use crate::reading::{cpu_per_transaction_ns, loss, resumed};
use crate::table::{Cell, Table};
use crate::tables::NONE;
use crate::terminal::{Ink, Look};

/// The records, told apart and compared, as text for a screen `width` characters wide.
#[must_use]
pub fn text(records: &[Record], width: usize, colour: bool) -> String {
    let look = Look { width, colour };
    let mut runs = Table::new("", &["", "<"]);
    for (index, name) in names(records).iter().enumerate() {
        runs.row(vec![Cell::of(index + 1), Cell::of(name)]);
    }
    let mut text = look.table("Runs", &runs) + "\n" + &look.table("", &table(records));
    let repeats = repeats(records);
    if !repeats.is_empty() {
        text += &format!("\n{}", look.table("Repeated", &repeats));
    }
    for (index, record) in records.iter().enumerate() {
        for warning in &record.warnings {
            let label = format!("warning: run {}", index + 1);
            text.push('\n');
            text += &look.labelled(Ink::Warning, &label, &warning.seen);
            text += &look.labelled(Ink::Hint, "hint", &warning.hint);
        }
    }
    text
}

/// The figures of each record, a row each.
pub(crate) fn table(records: &[Record]) -> Table {
    let heads = [
        "run",
        "succeeded/s",
        "min",
        "max",
        "mean",
        "p99",
        "failed",
        "resumed",
        "CPU each",
    ];
    let mut table = Table::new(
        "Runs side by side; min and max are of their seconds",
        &heads,
    );
    for (index, record) in records.iter().enumerate() {
        let [succeeded, mean, p99, ..] = headlines(record);
        let part = |part: fn(&Spread) -> f64| succeeded.spread.as_ref().map(part);
        let cpu = cpu_per_transaction_ns(record);
        table.row(vec![
            Cell::of(index + 1),
            cell(&succeeded, succeeded.whole),
            cell(&succeeded, part(|spread| spread.min)),
            cell(&succeeded, part(|spread| spread.max)),
            cell(&mean, mean.whole),
            cell(&p99, p99.whole),
            Cell::of(loss(record.totals)),
            share(resumed(record)),
            cpu.map_or_else(|| Cell::from(NONE), |ns| Cell::of(Nanoseconds(ns))),
        ]);
    }
    table
}

fn share(share: Share) -> Cell {
    match share.whole {
        0 => Cell::from(NONE),
        _ => Cell::of(share),
    }
}

fn cell(figure: &Headline, value: Option<f64>) -> Cell {
    value.map_or_else(|| Cell::from(NONE), |value| Cell::of(figure.amount(value)))
}

/// Runs that differ in nothing, with the spread over them.
pub(crate) fn repeats(records: &[Record]) -> Table {
    let heads = ["<runs", "<", "median", "min", "max", "deviation"];
    let mut table = Table::new(
        "Runs that differ in nothing, and the spread over them",
        &heads,
    );
    let facts: Vec<Facts> = records.iter().map(Facts::of).collect();
    for (index, first) in facts.iter().enumerate() {
        let same: Vec<usize> = (0..records.len())
            .filter(|run| facts[*run] == *first)
            .collect();
        if same.len() > 1 && same.first() == Some(&index) {
            repeated(&mut table, &same, records);
        }
    }
    table
}

fn repeated(table: &mut Table, runs: &[usize], records: &[Record]) {
    let numbers: Vec<String> = runs.iter().map(|run| (run + 1).to_string()).collect();
    for which in 0..3 {
        let figure = |run: &usize| headlines(&records[*run])[which];
        let samples: Vec<f64> = runs.iter().filter_map(|run| figure(run).whole).collect();
        let Some(spread) = Spread::of(&samples) else {
            continue;
        };
        let name = figure(&runs[0]);
        let label = if which == 0 {
            numbers.join(", ")
        } else {
            String::new()
        };
        let mut cells = vec![Cell::of(label), Cell::from(name.name)];
        let values = [spread.median, spread.min, spread.max, spread.deviation];
        cells.extend(values.map(|value| cell(&name, Some(value))));
        table.row(cells);
    }
}
