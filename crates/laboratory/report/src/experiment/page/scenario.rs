//! A scenario's section of the page.

use measure::experiment::{Cell, Published, Source};

use crate::figure::{NARROW, WIDE};
use crate::markup::{Element, element};
use crate::page::parts::{card, figure, table};
use crate::shell::command_lines;

use super::super::gains::gains;
use super::super::noise::doubts;
use super::super::plots::{Palette, Plot, courses, plot};
use super::super::study::Case;
use super::super::tables;
use super::grid;

/// Everything of a scenario.
pub(super) fn section(case: &Case<'_>, palette: Palette<'_>) -> Element {
    let scenario = case.scenario;
    let name = element("span").with("class", "tag").text(&scenario.name);
    element("article")
        .with("id", case.anchor())
        .child(element("h2").text(&scenario.question).child(name))
        .child(element("p").with("class", "lead").prose(&scenario.method))
        .children(doubts_of(case))
        .child(results(case, palette))
        .children(course_card(case))
        .children(source(case))
}

/// In one box, since there may be many.
fn doubts_of(case: &Case<'_>) -> Option<Element> {
    let doubts = doubts(case);
    let label = match doubts.len() {
        1 => "Doubt",
        _ => "Doubts",
    };
    let items = doubts.iter().map(|doubt| element("li").prose(doubt));
    let items = element("ul").children(items);
    let label = element("strong").text(label);
    let all = element("li").child(label).child(items);
    (!doubts.is_empty()).then(|| element("ul").with("class", "warnings doubts").child(all))
}

/// Tables of so many figures stand open.
const OPEN_MAX: usize = 2;

fn results(case: &Case<'_>, palette: Palette<'_>) -> Element {
    let mut results = element("section").with("class", "card");
    if let Some(plot) = plot(case, palette) {
        results = results.children(drawn(case, &plot));
    }
    if case.scenario.factors.is_empty() {
        results = results.child(grid::by_target(case));
    } else {
        let tables = case
            .yardsticks
            .iter()
            .map(|yardstick| grid::by_level(case, *yardstick));
        let mut tables: Vec<Element> = tables.collect();
        let folded = tables.split_off(tables.len().min(OPEN_MAX));
        results = results
            .children(tables)
            .children(fold("Further figures", folded));
    }
    let gains = gains(case);
    if !gains.is_empty() {
        results = results.child(table(&gains, "g"));
    }
    results
        .child(legend(case))
        .children(spreads(case))
        .children(fold("The commands that load such servers", commands(case)))
}

fn fold(title: &str, parts: Vec<Element>) -> Option<Element> {
    (!parts.is_empty()).then(|| {
        element("details")
            .child(element("summary").text(title))
            .children(parts)
    })
}

/// For a desk and for a telephone.
fn drawn(case: &Case<'_>, plot: &Plot) -> Vec<Element> {
    let id = |size: &str| format!("{}-plot-{size}", case.anchor());
    match plot {
        Plot::Lines(lines) => vec![
            figure(lines, &id("lines"), &[("wide", WIDE)]),
            figure(lines, &id("lines-small"), &[("narrow", NARROW)]),
        ],
        Plot::Bars(bars) => {
            let columns = if bars.panels.len() % 3 == 0 { 3 } else { 2 };
            let wide = bars.inline(&id("bars"), WIDE.width, columns);
            let narrow = bars.inline(&id("bars-small"), NARROW.width, 1);
            vec![
                element("div").with("class", "wide").child(wide),
                element("div").with("class", "narrow").child(narrow),
            ]
        }
    }
}

fn legend(case: &Case<'_>) -> Element {
    let first = case
        .targets
        .first()
        .map_or("", |target| target.name.as_str());
    let signs = element("p").with("class", "legend");
    let sign = |class, text: String| element("span").with("class", class).text(text);
    signs
        .child(sign("ahead", "▲ the target is ahead".to_owned()))
        .child(sign("level", "≈ no difference is established".to_owned()))
        .child(sign("behind", format!("▽ {first} is ahead")))
        .child(sign("of-load", "○ tells of the load".to_owned()))
        .child(sign("unjudged", "? too few rounds".to_owned()))
}

fn spreads(case: &Case<'_>) -> Option<Element> {
    let printed = tables::spread_figure(case);
    let spreads = tables::spreads(case, printed.or_else(|| case.main())?);
    if spreads.is_empty() {
        return None;
    }
    let shown = table(&spreads, "m");
    match printed {
        Some(_) => Some(shown),
        None => fold("The main figure as ministat tells it", vec![shown]),
    }
}

fn commands(case: &Case<'_>) -> Vec<Element> {
    let cells = case
        .scenario
        .cells
        .iter()
        .filter(|cell| !cell.command.is_empty());
    let shown = cells.map(|cell: &Cell| {
        let lines = command_lines(&cell.command, 120).into_iter();
        let lines = lines.map(|line| element("span").text(line));
        element("div").child(element("h4").text(&cell.key)).child(
            element("pre")
                .with("tabindex", "0")
                .child(element("code").children(lines)),
        )
    });
    shown.collect()
}

fn course_card(case: &Case<'_>) -> Option<Element> {
    let courses = courses(case);
    let drawn = courses.iter().enumerate().map(|(index, (name, course))| {
        let id = format!("{}-course-{index}", case.anchor());
        element("div").child(element("h4").text(name)).child(figure(
            course,
            &id,
            &[("always", NARROW)],
        ))
    });
    (!courses.is_empty()).then(|| {
        let drawn = element("div").with("class", "three").children(drawn);
        card("The course of the load: the repeat in the middle").child(drawn)
    })
}

/// What is repeated, what the source printed, what is left out.
fn source(case: &Case<'_>) -> Option<Element> {
    let scenario = case.scenario;
    let sources = scenario.sources.iter().map(|source: &Source| {
        let text = format!(", {}", source.table);
        element("li")
            .child(element("b").text(&source.title))
            .text(text)
    });
    let left_out = scenario.left_out.iter().map(|left| {
        let what = element("b").text(format!("Left out: {}", left.what));
        element("li").child(what).text(format!(", {}", left.why))
    });
    let items: Vec<Element> = sources.chain(left_out).collect();
    let published = scenario.published.iter().flat_map(published);
    (!items.is_empty() || !scenario.published.is_empty()).then(|| {
        card("What the source measured")
            .child(element("ul").with("class", "sources").children(items))
            .child(
                element("div")
                    .with("class", "published")
                    .children(published),
            )
    })
}

fn published(published: &Published) -> [Element; 1] {
    let part = element("div").child(table(&tables::published(published), "p"));
    let note = published.note.as_ref();
    [part.children(note.map(|note| element("p").with("class", "note").prose(note)))]
}
