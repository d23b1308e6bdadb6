//! How an experiment was made: programs, host, placement, the command that repeats it.

use measure::experiment::Experiment;

use crate::hostile::harmless;
use crate::markup::{Element, element};
use crate::page::parts::{card, table};
use crate::shell::command_lines;

use super::super::host;
use super::super::summary::state;
use super::super::tables::programs;

/// Of the record of that number.
pub(super) fn section(experiment: &Experiment, number: usize) -> Element {
    let plan = &experiment.plan;
    let heading = match number {
        1 => "Host and programs".to_owned(),
        _ => format!("Host and programs of record {number}"),
    };
    let lead = format!(
        "{} · {} mode · {}",
        plan.started,
        plan.mode,
        state(experiment)
    );
    element("article")
        .with("id", format!("e{number}"))
        .child(element("h2").text(heading))
        .child(element("p").with("class", "lead").prose(&lead))
        .child(card("Programs").child(table(&programs(&plan.targets), "p")))
        .child(host_card(experiment))
        .child(run_card(experiment))
}

fn host_card(experiment: &Experiment) -> Element {
    let report = &experiment.plan.host;
    let tables = host::tables(report).into_iter();
    let tables = tables.map(|it| element("div").child(table(&it, "h")));
    card("Host")
        .child(element("p").text(host::line(report)))
        .child(element("div").with("class", "facts").children(tables))
}

fn run_card(experiment: &Experiment) -> Element {
    let plan = &experiment.plan;
    let cpus = |cpus: &[u16]| {
        cpus.iter()
            .map(u16::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let facts = [
        ("server", format!("on CPU {}", cpus(&plan.placement.server))),
        (
            "client",
            format!("on CPU {}, with the origin", cpus(&plan.placement.client)),
        ),
        (
            "order",
            format!("shuffled in each round by seed {}", plan.seed),
        ),
        (
            "tool",
            format!(
                "{} {} with {}",
                plan.tool.name, plan.tool.version, plan.tool.tls
            ),
        ),
    ];
    let facts = facts.into_iter().flat_map(|(name, text)| {
        [
            element("dt").text(name),
            element("dd").text(harmless(&text)),
        ]
    });
    let lines = command_lines(&plan.command, 100).into_iter();
    let lines = lines.map(|line| element("span").text(line));
    card("Run")
        .child(element("dl").children(facts))
        .child(element("h4").text("The command that repeats it"))
        .child(
            element("pre")
                .with("tabindex", "0")
                .child(element("code").children(lines)),
        )
}
