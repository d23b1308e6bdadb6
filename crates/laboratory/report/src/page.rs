//! One page of records that needs nothing else: no network, no script, no font.
//!
//! Numbers that a program may want to read stand in elements with an `id` and the plain value as
//! `data-value`: `r1-succeeded-per-s`, `r1-mean-ns`, `r1-p99-ns`, … for the first record.

mod numbers;
pub(crate) mod parts;
mod record;

use measure::record::{Record, Warning};

use crate::apart::names;
use crate::comparison;
use crate::drawings;
use crate::figure::{NARROW, WIDE};
use crate::hostile::harmless;
use crate::markup::{Element, element};
use parts::{card, figure, table};

/// The page of these records, compared if there are several.
#[must_use]
pub fn html(records: &[Record]) -> String {
    let names = names(records);
    let mut main = element("main");
    if records.len() > 1 {
        main = main.children(compared(records, &names));
    }
    for (index, record) in records.iter().enumerate() {
        let number = index + 1;
        let name = (records.len() > 1).then(|| format!("{number}. {}", names[index]));
        main = main.child(record::section(record, number, name.as_deref()));
    }
    let title = title(records);
    parts::document(&title, "", vec![header(records), main, footer(records)])
}

fn title(records: &[Record]) -> String {
    match records {
        [record] => format!("Load on {}", harmless(&record.target.url)),
        _ => format!("{} loads compared", records.len()),
    }
}

fn header(records: &[Record]) -> Element {
    let links = records.iter().enumerate().map(|(index, _)| {
        let number = index + 1;
        element("a")
            .with("href", format!("#r{number}"))
            .text(format!("Run {number}"))
    });
    let header = element("header").child(element("h1").child(parts::logo()).text(title(records)));
    match records.len() {
        0 | 1 => header,
        _ => header.child(element("nav").with("aria-label", "Runs").children(links)),
    }
}

fn compared(records: &[Record], names: &[String]) -> Vec<Element> {
    let mut elements = vec![doubts(records)];
    let runs = names.iter().enumerate().map(|(index, name)| {
        let link = element("a")
            .with("href", format!("#r{}", index + 1))
            .text(name);
        element("li").child(link)
    });
    let list = element("ol").with("class", "runs").children(runs);
    let table = table(&comparison::table(records), "c");
    elements.push(card("Runs side by side").child(list).child(table));
    let repeats = comparison::repeats(records);
    if !repeats.is_empty() {
        elements.push(card("Spread over repeated runs").child(parts::table(&repeats, "c")));
    }
    elements.extend(percentiles(records, names));
    elements
}

/// All warnings in short; the remedies stand with the runs.
fn doubts(records: &[Record]) -> Element {
    let items = records.iter().enumerate().flat_map(|(index, record)| {
        let run = format!("Run {}, warning: ", index + 1);
        let link = element("a")
            .with("href", format!("#r{}", index + 1))
            .text(run);
        let item = move |warning: &Warning| {
            let label = element("strong").child(link.clone());
            element("li").child(label).text(&warning.seen)
        };
        record.warnings.iter().map(item)
    });
    element("ul").with("class", "warnings").children(items)
}

fn percentiles(records: &[Record], names: &[String]) -> Option<Element> {
    /// Longer names would not fit into the figure.
    const NAME_MAX: usize = 120;
    let numbered = |name: &dyn Fn(usize) -> String| -> Vec<(String, &Record)> {
        let records = records.iter().enumerate();
        records
            .map(|(index, record)| (name(index), record))
            .collect()
    };
    let long = |index: usize| {
        let name: String = names[index].chars().take(NAME_MAX).collect();
        format!("{}. {name}", index + 1)
    };
    let wide = drawings::compared(&numbered(&long))?;
    let narrow = drawings::compared(&numbered(&|index| format!("Run {}", index + 1)))?;
    let card = card("Response time by percentile")
        .child(figure(&wide, "c-total", &[("wide", WIDE)]))
        .child(figure(&narrow, "c-total-small", &[("narrow", NARROW)]));
    Some(card)
}

fn footer(records: &[Record]) -> Element {
    let Some(tool) = records.first().map(|record| &record.tool) else {
        return element("footer").text("No records.");
    };
    let text = format!(
        "Recorded by {} {} with {}. Durations count from the planned instant of each transaction.",
        tool.name, tool.version, tool.tls,
    );
    element("footer").text(text)
}
