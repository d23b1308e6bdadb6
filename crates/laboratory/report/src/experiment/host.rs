//! What a host report tells, as tables of a page. As text it is [`crate::host`]'s.

use measure::host::{Fact, HostReport, Speed};
use measure::quantity::{Bytes, Count};

use crate::hostile::harmless;
use crate::table::{Cell, Table};
use crate::tables::NONE;

/// The host in a line.
pub(crate) fn line(report: &HostReport) -> String {
    let host = &report.host;
    let under = match &host.hypervisor {
        Some(name) if name == "unnamed" => " under a hypervisor without a name".to_owned(),
        Some(name) => format!(" under {name}"),
        None => String::new(),
    };
    harmless(&format!(
        "{}, {} CPUs, {}, {}{under}",
        host.cpu,
        host.cpus,
        Bytes(host.memory_bytes),
        host.kernel
    ))
}

/// Each with its caption, in the order of a page; those with something in them.
pub(crate) fn tables(report: &HostReport) -> Vec<Table> {
    let tables = [
        features(report),
        abilities(report),
        speeds(&report.speeds),
        cores(report),
        facts("Surroundings", &report.surroundings),
        facts("Mitigations of the CPU's faults", &report.mitigations),
        facts("Limits", &report.limits),
        facts("Network cards", &report.networks),
    ];
    tables
        .into_iter()
        .filter(|table| !table.is_empty())
        .collect()
}

fn features(report: &HostReport) -> Table {
    let heads = ["<feature", "<there", "<good for"];
    let mut table = Table::new("Features of the CPU that matter here", &heads);
    for feature in &report.features {
        let there = if feature.is_there { "yes" } else { "no" };
        table.row(vec![
            Cell::of(harmless(&feature.name)),
            Cell::from(there),
            Cell::of(harmless(&feature.use_for)),
        ]);
    }
    table
}

fn abilities(report: &HostReport) -> Table {
    let mut table = Table::new(
        "What the kernel can do",
        &["<ability", "<can", "<how, or why not"],
    );
    for ability in &report.abilities {
        let can = if ability.is_there { "yes" } else { "no" };
        let remedy = ability.remedy.as_ref();
        let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
        table.row(vec![
            Cell::of(harmless(&ability.name)),
            Cell::from(can),
            Cell::of(harmless(&format!("{}{remedy}", ability.why))),
        ]);
    }
    table
}

/// A row an operation, a column a library.
fn speeds(speeds: &[Speed]) -> Table {
    let mut libraries: Vec<&str> = Vec::new();
    let mut rows: Vec<(&str, &str, Option<u32>)> = Vec::new();
    for speed in speeds {
        let row = (
            speed.operation.as_str(),
            speed.algorithm.as_str(),
            speed.size_bytes,
        );
        if !libraries.contains(&speed.library.as_str()) {
            libraries.push(&speed.library);
        }
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let names: Vec<String> = libraries.iter().map(|library| harmless(library)).collect();
    let mut heads = vec!["<algorithm"];
    heads.extend(names.iter().map(String::as_str));
    let mut table = Table::new("Operations a second of one CPU, by library", &heads);
    let mut heading = "";
    for row in rows {
        if row.0 != heading {
            heading = row.0;
            table.head(&harmless(heading));
        }
        let cells = libraries
            .iter()
            .map(|library| speed_cell(speeds, library, row));
        table.row(
            [Cell::of(algorithm(row))]
                .into_iter()
                .chain(cells)
                .collect(),
        );
    }
    table
}

fn algorithm((_, algorithm, size_bytes): (&str, &str, Option<u32>)) -> String {
    let size = size_bytes.map_or_else(String::new, |size| format!(", {}", Bytes(size.into())));
    harmless(&format!("{algorithm}{size}"))
}

/// Of bytes, how many a second are told too.
fn speed_cell(speeds: &[Speed], library: &str, row: (&str, &str, Option<u32>)) -> Cell {
    let is_it = |speed: &&Speed| {
        let its = (
            speed.operation.as_str(),
            speed.algorithm.as_str(),
            speed.size_bytes,
        );
        speed.library == library && its == row
    };
    let Some(speed) = speeds.iter().find(is_it) else {
        return Cell::from(NONE);
    };
    let count = Count(speed.per_s.round());
    match speed.size_bytes {
        Some(size) => {
            let bytes = Bytes((speed.per_s * f64::from(size)) as u64);
            Cell::of(format!("{count} ({bytes}/s)"))
        }
        None => Cell::of(count),
    }
}

fn cores(report: &HostReport) -> Table {
    let heads = ["CPU", "core", "socket", "memory node", "last-level cache"];
    let mut table = Table::new("CPUs and what they share", &heads);
    for core in &report.cores {
        let numbers = [core.core, core.package, core.node, core.cache];
        let numbers = numbers.map(Cell::of).into_iter();
        table.row([Cell::of(core.cpu)].into_iter().chain(numbers).collect());
    }
    table
}

fn facts(caption: &str, facts: &[Fact]) -> Table {
    let mut table = Table::new(caption, &["<", "<"]);
    for fact in facts {
        let remedy = fact.remedy.as_ref();
        let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
        table.row(vec![
            Cell::of(harmless(&fact.name)),
            Cell::of(harmless(&format!("{}{remedy}", fact.value))),
        ]);
    }
    table
}
