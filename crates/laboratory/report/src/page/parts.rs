//! What a page is put together from: cards, tables, figures, warnings.

use measure::record::Warning;

use crate::facts::Fact;
use crate::figure::{Figure, PALETTE, STYLE, Size};
use crate::markup::{Element, element};
use crate::table::{Cell, Row, Side, Table};

const SHEET: &str = include_str!("../style/page.css");

/// The whole page: its title, style sheets beside those of all pages, and its parts.
pub(crate) fn document(title: &str, sheet: &'static str, parts: Vec<Element>) -> String {
    let page = element("html")
        .with("lang", "en")
        .child(head(title, sheet))
        .child(element("body").children(parts));
    format!("<!doctype html>\n{page}\n")
}

fn head(title: &str, sheet: &'static str) -> Element {
    let meta =
        |name: &str, content: &str| element("meta").with("name", name).with("content", content);
    let style = element("style").ours(PALETTE).ours(STYLE).ours(SHEET);
    element("head")
        .child(element("meta").with("charset", "utf-8"))
        .child(meta("viewport", "width=device-width, initial-scale=1"))
        .child(meta("color-scheme", "light dark"))
        .child(element("title").text(title))
        .child(style.ours(sheet))
}

/// A card with a heading.
pub(crate) fn card(heading: &str) -> Element {
    element("section")
        .with("class", "card")
        .child(element("h3").text(heading))
}

/// A table in a box of its own that scrolls if it must; ids begin with `prefix`.
pub(crate) fn table(table: &Table, prefix: &str) -> Element {
    let heads = table.columns.iter().map(|column| {
        let head = if column.head.is_empty() { "td" } else { "th" };
        let cell = element(head)
            .with("class", side(column.side))
            .text(&column.head);
        if head == "th" {
            cell.with("scope", "col")
        } else {
            cell
        }
    });
    let rows = table.rows.iter().map(|row| table_row(table, row, prefix));
    let body = element("table")
        .child(element("caption").text(&table.caption))
        .child(element("thead").child(element("tr").children(heads)))
        .child(element("tbody").children(rows));
    element("div")
        .with("class", "scroll")
        .with("tabindex", "0")
        .with("role", "region")
        .with("aria-label", &table.caption)
        .child(body)
}

fn table_row(table: &Table, row: &Row, prefix: &str) -> Element {
    if row.is_head {
        let name = row.cells.first().map_or("", |cell| cell.text.as_str());
        let head = element("th")
            .with("colspan", table.columns.len())
            .with("scope", "rowgroup")
            .text(name);
        return element("tr").with("class", "group").child(head);
    }
    let cells = row.cells.iter().zip(&table.columns).enumerate();
    element("tr").children(cells.map(|(index, (cell, column))| {
        let name = if index == 0 { "th" } else { "td" };
        let element = element(name).with("class", side(column.side));
        let element = if index == 0 {
            element.with("scope", "row")
        } else {
            element
        };
        value(element, cell, prefix).text(&cell.text)
    }))
}

fn value(element: Element, cell: &Cell, prefix: &str) -> Element {
    match &cell.value {
        Some((name, value)) => identified(element, &format!("{prefix}-{name}"), *value),
        None => element,
    }
}

/// With an id, and the value for programs.
pub(crate) fn identified(element: Element, id: &str, value: f64) -> Element {
    // JSON has no other numbers either.
    let value = if value.is_finite() { value } else { 0.0 };
    element.with("id", id).with("data-value", value)
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Left => "w",
        Side::Right => "n",
    }
}

/// A figure in several sizes, of which the style sheet shows the one that fits.
pub(crate) fn figure(figure: &Figure, id: &str, sizes: &[(&str, Size)]) -> Element {
    let drawn = sizes.iter().map(|(class, size)| {
        let svg = figure.inline(&format!("{id}-{class}"), *size);
        element("div").with("class", class).child(svg)
    });
    element("div").with("id", id).children(drawn)
}

/// Doubts, each with its remedy; nothing if there are none.
pub(crate) fn warnings(warnings: &[Warning]) -> Element {
    let items = warnings.iter().map(|warning| {
        element("li")
            .child(element("strong").text("Warning: "))
            .text(&warning.seen)
            .child(
                element("span")
                    .with("class", "hint")
                    .prose(&format!("Hint: {}", warning.hint)),
            )
    });
    element("ul").with("class", "warnings").children(items)
}

/// Names with their texts.
pub(crate) fn list(facts: &[Fact]) -> Element {
    let items = facts.iter().flat_map(|fact| {
        [
            element("dt").text(fact.name),
            element("dd").text(&fact.text),
        ]
    });
    element("dl").children(items)
}

/// The program's mark: a lariat.
pub(crate) fn logo() -> Element {
    element("svg")
        .with("class", "logo")
        .with("viewBox", "0 0 24 24")
        .with("aria-hidden", "true")
        .child(element("path").with("d", "M4.6 9a8.4 5.8 0 1 0 16.8 0a8.4 5.8 0 1 0-16.8 0z"))
        .child(element("path").with(
            "d",
            "M6.2 12.5C3.8 14.6 3.8 17 6.2 18.2c2.6 1.3 4.6.2 7.8 2.3",
        ))
}
