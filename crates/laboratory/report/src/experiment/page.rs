//! One page of experiments that needs nothing else: no network, no script, no font.
//!
//! It begins with where a target is ahead. Numbers that a program may want to read stand in
//! elements with an `id` and the plain value as `data-value`: `e1-SCENARIO-LEVELS-TARGET-FIGURE`.

mod first;
mod grid;
mod scenario;
mod surroundings;

use measure::experiment::Experiment;

use crate::hostile::harmless;
use crate::markup::{Element, element};
use crate::page::parts::{document, logo};

use super::plots::Palette;
use super::standing::Standing;
use super::study::{Case, cases};

/// What pages of experiments have beside that of all pages.
pub(super) const SHEET: &str = include_str!("../style/experiment.css");

/// The page of these experiments, in their order.
#[must_use]
pub fn html(experiments: &[Experiment]) -> String {
    let numbered = || experiments.iter().zip(1..);
    let all: Vec<(&Experiment, Vec<Case<'_>>)> = numbered()
        .map(|(experiment, number)| (experiment, cases(experiment, number)))
        .collect();
    let standing = Standing::of(all.iter().flat_map(|(_, cases)| cases));
    let mut main = element("main").child(first::section(&standing));
    for (experiment, cases) in &all {
        let palette = Palette(&experiment.plan.targets);
        main = main.children(cases.iter().map(|case| scenario::section(case, palette)));
    }
    main = main.children(numbered().map(|(it, number)| surroundings::section(it, number)));
    let title = title(experiments);
    let parts = vec![header(&title, &all), main, footer(experiments)];
    document(&title, SHEET, parts)
}

fn title(experiments: &[Experiment]) -> String {
    let Some(plan) = experiments.first().map(|experiment| &experiment.plan) else {
        return "No experiments".to_owned();
    };
    let date = plan.started.split('T').next().unwrap_or_default();
    let first = plan
        .targets
        .first()
        .map_or("TLS terminators", |target| target.name.as_str());
    harmless(&format!("{first} and others, {date}"))
}

fn header(title: &str, all: &[(&Experiment, Vec<Case<'_>>)]) -> Element {
    let cases = all.iter().flat_map(|(_, cases)| cases);
    let links = cases.map(|case| {
        element("a")
            .with("href", format!("#{}", case.anchor()))
            .text(&case.scenario.name)
    });
    let how = (!all.is_empty()).then(|| element("a").with("href", "#e1").text("host and programs"));
    element("header")
        .child(element("h1").child(logo()).text(title))
        .child(
            element("nav")
                .with("aria-label", "Scenarios")
                .children(links)
                .children(how),
        )
}

fn footer(experiments: &[Experiment]) -> Element {
    let Some(tool) = experiments.first().map(|it| &it.plan.tool) else {
        return element("footer").text("No records.");
    };
    let text = format!(
        "Recorded by {} {} with {}. A ratio is the geometric mean over rounds of a target's figure \
         to the first target's in the same round; its interval is Student's t of their logarithms \
         at 95 %: of twenty such intervals, one misses. Shares are subtracted instead, in \
         percentage points, by the paired t. The first lines count a difference only if it holds \
         among all main figures together, by Holm's method (1979).",
        tool.name, tool.version, tool.tls,
    );
    element("footer").text(text)
}
