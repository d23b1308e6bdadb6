//! The data of an experiment as CSV (RFC 4180): plain numbers in the units of the record.

use measure::experiment::{Experiment, Reading};
use measure::statistics::Spread;

use super::study::{Case, Entry, Group, cases};
use super::versus::versus;
use super::yardstick::Yardstick;

/// A table as the text of a file.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// What it holds, as part of a file's name: `cells` or `readings`.
    pub name: &'static str,
    /// The text.
    pub csv: String,
}

/// Both sheets.
#[must_use]
pub fn of_experiment(experiment: &Experiment) -> [Sheet; 2] {
    let cases = cases(experiment, 1);
    [
        Sheet {
            name: "cells",
            csv: cells(&cases),
        },
        Sheet {
            name: "readings",
            csv: readings(&cases),
        },
    ]
}

/// A row a figure of a cell.
fn cells(cases: &[Case<'_>]) -> String {
    let mut text = "scenario,cell,target,levels,figure,count,min,median,mean,max,deviation,ratio,\
                    ratio_from,ratio_to,verdict,gap\n"
        .to_owned();
    for case in cases {
        for (group, entry) in case.entries() {
            for yardstick in &case.yardsticks {
                let fields = cell(case, group, entry, *yardstick);
                text += &line(&fields);
            }
        }
    }
    text
}

fn cell(
    case: &Case<'_>,
    group: &Group<'_>,
    entry: &Entry<'_>,
    yardstick: Yardstick,
) -> Vec<String> {
    let mut fields = names(case, group, entry);
    fields.push(yardstick.id().to_owned());
    let spread = entry.spread(yardstick);
    let part = |of: fn(&Spread) -> f64| {
        spread
            .as_ref()
            .map_or_else(String::new, |it| of(it).to_string())
    };
    fields.push(spread.map_or(0, |it| it.count).to_string());
    fields.push(part(|it| it.min));
    fields.push(part(|it| it.median));
    fields.push(part(|it| it.mean));
    fields.push(part(|it| it.max));
    fields.push(part(|it| it.deviation));
    let base = group.base_of(entry).unwrap_or(entry);
    let found = versus(entry, base, yardstick);
    let interval = found.and_then(|it| it.found.interval());
    let number = |value: Option<f64>| value.map_or_else(String::new, |it| it.to_string());
    fields.push(number(found.map(|it| it.found.value())));
    fields.push(number(interval.map(|(from, _)| from)));
    fields.push(number(interval.map(|(_, to)| to)));
    fields.push(found.map_or("", |found| found.verdict.class()).to_owned());
    let gap = entry.gap();
    fields.push(gap.map_or_else(String::new, |gap| format!("{}: {}", gap.way, gap.why)));
    fields
}

fn names(case: &Case<'_>, group: &Group<'_>, entry: &Entry<'_>) -> Vec<String> {
    let key = entry.cell.map_or("", |cell| cell.key.as_str());
    vec![
        case.scenario.name.clone(),
        key.to_owned(),
        entry.target.name.clone(),
        group.title(),
    ]
}

/// The name of a column, and what stands in it.
type Column = (&'static str, fn(&Reading) -> f64);

/// What is told of each reading beside its names and figures.
const COUNTS: [Column; 16] = [
    ("elapsed_ns", |it| it.elapsed_ns as f64),
    ("attempted", |it| it.counts.attempted as f64),
    ("succeeded", |it| it.counts.succeeded as f64),
    ("failed", |it| it.counts.failed as f64),
    ("operations", |it| it.operations as f64),
    ("server_cpu_ns", |it| it.server_cpu_ns as f64),
    ("client_cpu_ns", |it| it.client_cpu_ns as f64),
    ("origin_cpu_ns", |it| it.origin_cpu_ns as f64),
    ("resident_bytes_before", |it| {
        it.resident_bytes_before as f64
    }),
    ("resident_bytes_under", |it| it.resident_bytes_under as f64),
    ("open_connections", |it| it.open_connections as f64),
    ("body_bytes", |it| it.traffic.body_bytes as f64),
    ("foreign", |it| it.noise.foreign),
    ("stolen", |it| it.noise.stolen),
    ("server_busy", |it| it.noise.server_busy),
    ("client_busy", |it| it.noise.client_busy),
];

/// A row a figure of a reading.
fn readings(cases: &[Case<'_>]) -> String {
    let counts = COUNTS.map(|(name, _)| name).join(",");
    let mut text = format!("scenario,cell,target,levels,repeat,at,figure,value,{counts}\n");
    for case in cases {
        for (group, entry) in case.entries() {
            for (repeat, reading) in &entry.readings {
                for yardstick in &case.yardsticks {
                    let value = yardstick.of(reading);
                    let mut fields = names(case, group, entry);
                    fields.push(repeat.to_string());
                    fields.push(reading.at.clone());
                    fields.push(yardstick.id().to_owned());
                    fields.push(value.map_or_else(String::new, |it| it.to_string()));
                    fields.extend(COUNTS.map(|(_, of)| of(reading).to_string()));
                    text += &line(&fields);
                }
            }
        }
    }
    text
}

fn line(fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    fields.join(",") + "\n"
}

/// In quotes where it must be. What a sheet would take for a formula is made text.
fn quoted(field: &str) -> String {
    let is_formula = field.starts_with(['=', '+', '@'])
        || (field.starts_with('-') && field.parse::<f64>().is_err());
    let field = if is_formula {
        format!("'{field}")
    } else {
        field.to_owned()
    };
    if field.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", field.replace('"', "\"\""));
    }
    field
}
