//! Several records side by side: in what they differ, and what came of it.

use measure::quantity::{Nanoseconds, Share};
use measure::record::Record;
use measure::statistics::Spread;

use crate::headline::{Headline, headlines};
use crate::hostile::harmless;
use crate::reading::{cpu_per_transaction_ns, loss, resumed, setting};
use crate::shell::command_line;
use crate::table::{Cell, Table};
use crate::tables::NONE;
use crate::terminal::{Ink, Look};

/// The records, told apart and compared, as text for a screen `width` characters wide.
#[must_use]
pub fn text(records: &[Record], width: usize, colour: bool) -> String {
    let look = Look { width, colour };
    let mut names = Table::new("", &["", "<"]);
    for (index, name) in names_of(records).iter().enumerate() {
        names.row(vec![Cell::of(index + 1), Cell::of(name)]);
    }
    let mut text = look.table("Runs", &names) + "\n" + &look.table("", &table(records));
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

/// In what each record differs from the others: settings, target, host, tool, or nothing.
pub(crate) fn names_of(records: &[Record]) -> Vec<String> {
    let facts: Vec<Vec<(String, String)>> = records.iter().map(facts).collect();
    let value = |of: usize, name: &str| {
        let found = facts[of].iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    };
    let mut keys: Vec<&str> = Vec::new();
    for (name, _) in facts.iter().flatten() {
        let differs = (1..records.len()).any(|other| value(other, name) != value(0, name));
        if differs && !keys.contains(&name.as_str()) {
            keys.push(name);
        }
    }
    // What was typed tells more than the defaults that follow from it.
    if keys.iter().any(|key| is_typed(records, key)) {
        keys.retain(|key| is_typed(records, key) || !is_setting(records, key));
    }
    let name = |of: usize| {
        let parts = keys
            .iter()
            .filter_map(|key| Some(format!("{key} {}", value(of, key)?)));
        let parts: Vec<String> = parts.collect();
        match parts.is_empty() {
            true => harmless(&records[of].target.url),
            false => harmless(&parts.join(", ")),
        }
    };
    (0..records.len()).map(name).collect()
}

fn is_typed(records: &[Record], key: &str) -> bool {
    let flag = format!("--{key}");
    let is_it = |word: &String| word.split('=').next() == Some(flag.as_str());
    let has_plan = |word: &String| word.starts_with("--plan");
    let mut words = records.iter().flat_map(|record| &record.command);
    words.any(|word| is_it(word) || has_plan(word))
}

fn is_setting(records: &[Record], key: &str) -> bool {
    key != "url" && records.iter().any(|record| setting(record, key).is_some())
}

/// Names of settings that say nothing about what was measured.
const BESIDE: [&str; 3] = ["record", "quiet", "seed"];

fn facts(record: &Record) -> Vec<(String, String)> {
    let settings = record.settings.iter();
    let settings = settings.filter(|setting| !BESIDE.contains(&setting.name.as_str()));
    let mut facts: Vec<(String, String)> = settings
        .map(|setting| (setting.name.clone(), setting.value.clone()))
        .collect();
    let mut fact = |name: &str, value: &str| {
        if facts.iter().all(|(other, _)| other != name) {
            facts.push((name.to_owned(), value.to_owned()));
        }
    };
    fact("url", &record.target.url);
    fact("at", &record.target.address);
    fact("on", &record.host.cpu);
    fact("kernel", &record.host.kernel);
    fact("by", &record.tool.version);
    facts
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
    let names = names_of(records);
    let mut told: Vec<(&str, String)> = Vec::new();
    for (name, record) in names.iter().zip(records) {
        let key = (name.as_str(), command_line(&record.command));
        if told.contains(&key) {
            continue;
        }
        let is_same = |index: &usize| {
            names[*index] == key.0 && command_line(&records[*index].command) == key.1
        };
        let same: Vec<usize> = (0..records.len()).filter(is_same).collect();
        told.push(key);
        if same.len() > 1 {
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
