//! The tables of figures: by level and target, in the form of the sources; or by target and figure.

use crate::hostile::harmless;
use crate::markup::{Element, element};
use crate::page::parts::identified;
use crate::tables::NONE;

use super::super::study::{Case, Entry, Gap, Group};
use super::super::versus::versus;
use super::super::words::titled;
use super::super::yardstick::Yardstick;

/// Without factors: a row a target, a column a figure.
pub(super) fn by_target(case: &Case<'_>) -> Element {
    let heads = case.yardsticks.iter().map(|yardstick| {
        let title = yardstick.title(&case.scenario.operation);
        format!("{}, {}", titled(&title), yardstick.unit())
    });
    let groups = case.groups.iter();
    let rows = groups.flat_map(|group| group.entries.iter().map(move |entry| (group, entry)));
    let rows = rows.map(|(group, entry)| {
        let name = row_head(&entry.target.name);
        let cells = match entry.gap() {
            Some(gap) => vec![gap_cell(&gap).with("colspan", case.yardsticks.len())],
            None => {
                let told = case.yardsticks.iter();
                told.map(|yardstick| cell(case, group, entry, *yardstick))
                    .collect()
            }
        };
        element("tr").child(name).children(cells)
    });
    let first = [element("td")].into_iter();
    table(
        "Medians of repeats, least to greatest; ratio to the first row with its 95 % interval",
        first.chain(heads.map(|head| column_head(&head))).collect(),
        rows.collect(),
    )
}

/// With factors: a row a combination of levels, a column a target.
pub(super) fn by_level(case: &Case<'_>, yardstick: Yardstick) -> Element {
    let figure = yardstick.title(&case.scenario.operation);
    let first = case
        .targets
        .first()
        .map_or("", |target| target.name.as_str());
    let figure = titled(&figure);
    let caption = format!(
        "{figure}, {}: medians of repeats, least to greatest; ratio to {first} with its 95 % \
         interval",
        yardstick.unit()
    );
    let factors = case.scenario.factors.iter();
    let factors = factors.map(|factor| column_head(&factor.title).with("class", "w"));
    let targets = case.targets.iter().map(|target| column_head(&target.name));
    let rows = case.groups.iter().map(|group| {
        let levels = group.levels.iter().map(|level| row_head(&level.title));
        let entries = group.entries.iter();
        let cells = entries.map(|entry| match entry.gap() {
            Some(gap) => gap_cell(&gap),
            None => cell(case, group, entry, yardstick),
        });
        element("tr").children(levels).children(cells)
    });
    table(&caption, factors.chain(targets).collect(), rows.collect())
}

fn table(caption: &str, heads: Vec<Element>, rows: Vec<Element>) -> Element {
    let body = element("table")
        .with("class", "figures")
        .child(element("caption").text(caption))
        .child(element("thead").child(element("tr").children(heads)))
        .child(element("tbody").children(rows));
    element("div")
        .with("class", "scroll")
        .with("tabindex", "0")
        .with("role", "region")
        .with("aria-label", harmless(caption))
        .child(body)
}

fn column_head(text: &str) -> Element {
    element("th").with("scope", "col").text(text)
}

fn row_head(text: &str) -> Element {
    element("th")
        .with("scope", "row")
        .with("class", "w")
        .text(text)
}

fn cell(case: &Case<'_>, group: &Group<'_>, entry: &Entry<'_>, yardstick: Yardstick) -> Element {
    let Some(spread) = entry.spread(yardstick) else {
        return element("td").with("class", "n gap").text(NONE);
    };
    let id = id(case, group, entry, yardstick);
    let median = element("b").text(yardstick.shown(spread.median));
    let range = (spread.count > 1).then(|| {
        let (least, most) = (yardstick.shown(spread.min), yardstick.shown(spread.max));
        element("small").text(format!("{least} – {most}"))
    });
    let cell = element("td")
        .with("class", "n")
        .child(identified(median, &id, spread.median))
        .children(range);
    cell.children(ratio(&id, group, entry, yardstick))
}

/// `e1-ciphers-aes-128-gcm-lariat-server-cpu`.
fn id(case: &Case<'_>, group: &Group<'_>, entry: &Entry<'_>, yardstick: Yardstick) -> String {
    let parts = [
        case.anchor(),
        group.id(),
        entry.target.name.clone(),
        yardstick.id().to_owned(),
    ];
    let parts: Vec<&str> = parts
        .iter()
        .map(String::as_str)
        .filter(|it| !it.is_empty())
        .collect();
    parts.join("-").replace(char::is_whitespace, "-")
}

fn ratio(id: &str, group: &Group<'_>, entry: &Entry<'_>, yardstick: Yardstick) -> Option<Element> {
    let first = group
        .first()
        .filter(|first| first.target.name != entry.target.name)?;
    let found = versus(entry, first, yardstick)?;
    let element = element("small")
        .with("class", found.verdict.class())
        .text(found.words());
    Some(identified(
        element,
        &format!("{id}-ratio"),
        found.found.value(),
    ))
}

fn gap_cell(gap: &Gap) -> Element {
    if gap.is_not_asked() {
        return element("td").with("class", "n gap").text(NONE);
    }
    let cell = element("td")
        .with("class", "gap")
        .child(element("i").text(gap.way));
    match gap.why.is_empty() {
        true => cell,
        false => cell.child(element("small").prose(&gap.why)),
    }
}
