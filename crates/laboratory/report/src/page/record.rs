//! A record's section of the page.

use measure::record::Record;

use crate::drawings::{self, Part, SAMPLES_MAX};
use crate::facts;
use crate::figure::{NARROW, WIDE};
use crate::hostile::harmless;
use crate::markup::{Element, element};
use crate::shell::command_lines;
use crate::table::{Cell, Table};
use crate::tables;

use super::numbers;
use super::parts::{card, figure, list, table, warnings};

/// Samples on a narrow screen.
const SAMPLES_NARROW_MAX: usize = 160;

/// Everything of a record, under its name if there are others.
pub(crate) fn section(record: &Record, number: usize, name: Option<&str>) -> Element {
    let prefix = format!("r{number}");
    let heading = name.map(|name| element("h2").text(name));
    let at = format!("at {}", harmless(&record.target.address));
    let started = harmless(&record.started);
    let lead = [at, started, facts::course(record)].join(" · ");
    let lead = element("p").with("class", "lead").text(lead);
    element("article")
        .with("id", &prefix)
        .children(heading)
        .child(lead)
        .child(warnings(&record.warnings))
        .child(numbers::cards(record, &prefix))
        .children(along_time(record, &prefix))
        .children(percentiles(record, &prefix))
        .children(capacity(record, &prefix))
        .child(
            element("div")
                .with("class", "pair")
                .children(tables_of(record, &prefix)),
        )
        .child(surroundings(record))
}

fn along_time(record: &Record, prefix: &str) -> Option<Element> {
    let wide = drawings::along_time(record, SAMPLES_MAX)?;
    let mut narrow = drawings::along_time(record, SAMPLES_NARROW_MAX)?;
    // Fingers do not hover.
    narrow.columns.clear();
    let seconds = table(&tables::seconds(record, SAMPLES_MAX), prefix);
    let data = element("details")
        .child(element("summary").text("Seconds as a table"))
        .child(seconds);
    let spread = table(&tables::spreads(record), prefix);
    let card = card("Over time")
        .child(figure(&wide, &format!("{prefix}-time"), &[("wide", WIDE)]))
        .child(figure(
            &narrow,
            &format!("{prefix}-time-small"),
            &[("narrow", NARROW)],
        ))
        .child(spread)
        .child(data);
    Some(card)
}

fn percentiles(record: &Record, prefix: &str) -> Option<Element> {
    let latencies = tables::latencies(record);
    if latencies.is_empty() {
        return None;
    }
    let figures = Part::ALL.into_iter().filter_map(|part| {
        let drawn = drawings::percentiles(record, part)?;
        let id = format!("{prefix}-{}", part.id());
        Some(figure(&drawn, &id, &[("always", NARROW)]))
    });
    let figures = element("div").with("class", "three").children(figures);
    let card = card("Latency by percentile and kind of handshake");
    Some(card.child(figures).child(table(&latencies, prefix)))
}

fn capacity(record: &Record, prefix: &str) -> Option<Element> {
    let read = tables::capacity(record);
    if read.is_empty() {
        return None;
    }
    let mut capacity = card("Capacity");
    if let Some(drawn) = drawings::capacity(record) {
        let sizes = [("wide", WIDE), ("narrow", NARROW)];
        capacity = capacity.child(figure(&drawn, &format!("{prefix}-capacity"), &sizes));
    }
    let steps = tables::steps(record);
    let tables = element("div")
        .with("class", "two")
        .child(table(&read, prefix))
        .children((!steps.is_empty()).then(|| table(&steps, prefix)));
    Some(capacity.child(tables))
}

fn tables_of(record: &Record, prefix: &str) -> Vec<Element> {
    let parts = [
        ("Failures", tables::failures(record)),
        ("Handshakes", tables::handshakes(record)),
    ];
    let filled = parts.into_iter().filter(|(_, table)| !table.is_empty());
    filled
        .map(|(heading, data)| card(heading).child(table(&data, prefix)))
        .collect()
}

fn surroundings(record: &Record) -> Element {
    let command = command_lines(&record.command, 100);
    let lines = command.iter().map(|line| element("span").text(line));
    let mut settings = Table::new("Every setting, given or by default", &["<", "<"]);
    for setting in &record.settings {
        settings.row(vec![Cell::of(&setting.name), Cell::of(&setting.value)]);
    }
    let details = element("details")
        .child(element("summary").text("All settings"))
        .child(table(&settings, "s"));
    card("How it was measured")
        .child(list(&facts::results(record)))
        .child(list(&facts::surroundings(record)))
        .child(element("h4").text("The command that repeats it"))
        .child(
            element("pre")
                .with("tabindex", "0")
                .child(element("code").children(lines)),
        )
        .child(details)
}
