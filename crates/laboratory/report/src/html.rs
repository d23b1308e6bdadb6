//! Renders a report as one self-contained page: no network, no script, no font.
//!
//! Values for programs are in elements with an `id` and the plain value as `data-value`.

use crate::document::{
    Cell, Figure, ListItem, NumberCard, ReportBlock, ReportDocument, ReportSection, ReportTable,
    ReportWarning, SectionKind, TableColumn, TableRow,
};
use crate::figure::{PALETTE, Plot, STYLE};
use crate::markup::{MarkupElement, element};
use crate::words::command_lines;

const SHEET: &str = include_str!("style/page.css");

impl ReportDocument {
    /// Renders the report as a page.
    pub fn html(&self) -> String {
        let meta =
            |name: &str, content: &str| element("meta").with("name", name).with("content", content);
        let head = element("head")
            .child(element("meta").with("charset", "utf-8"))
            .child(meta("viewport", "width=device-width, initial-scale=1"))
            .child(meta("color-scheme", "light dark"))
            .child(element("title").text(&self.title))
            .child(element("style").ours(PALETTE).ours(STYLE).ours(SHEET));
        let links = self.links.iter();
        let links = links.map(|(id, name)| element("a").with("href", format!("#{id}")).text(name));
        let nav = element("nav").with("aria-label", "Parts").children(links);
        let header = element("header")
            .child(element("h1").child(logo()).text(&self.title))
            .children((!self.links.is_empty()).then_some(nav));
        let main = element("main").children(self.blocks.iter().filter_map(block));
        let body = element("body").children([header, main, element("footer").text(&self.footer)]);
        let page = element("html").with("lang", "en").child(head).child(body);
        format!("<!doctype html>\n{page}\n")
    }
}

/// Draws the program's logo: a lariat.
fn logo() -> MarkupElement {
    element("svg")
        .with("class", "logo")
        .with("viewBox", "0 0 24 24")
        .with("aria-hidden", "true")
        .child(element("path").with("d", "M4.6 9a8.4 5.8 0 1 0 16.8 0a8.4 5.8 0 1 0-16.8 0z"))
        .child(
            element("path").with("d", "M6.2 12.5C3.8 14.6 3.8 17 6.2 18.2c2.6 1.3 4.6.2 7.8 2.3"),
        )
}

/// Renders a block. `None` if the page does not show it.
fn block(block: &ReportBlock) -> Option<MarkupElement> {
    Some(match block {
        ReportBlock::Headline(text) => element("p").with("class", "headline").prose(text),
        ReportBlock::Paragraph(text) => element("p").with("class", "lead").prose(text),
        ReportBlock::Cards(cards) => {
            element("div").with("class", "numbers").children(cards.iter().map(card))
        }
        ReportBlock::Counts(counts) => bar(*counts),
        ReportBlock::Facts(facts) => element("dl").children(facts.iter().flat_map(|fact| {
            let hint = fact.hint.iter();
            let hint =
                hint.map(|hint| element("span").with("class", "hint").prose(&format!("; {hint}")));
            let text = element("dd").prose(&fact.text).children(hint);
            [element("dt").text(&fact.name), text]
        })),
        ReportBlock::Items(items) => element("ul").children(items.iter().map(item)),
        ReportBlock::Warnings(warnings) => {
            element("ul").with("class", "warnings").children(warnings.iter().map(warning))
        }
        ReportBlock::Table(it) => table(it),
        ReportBlock::Figure(it) => figure(it),
        ReportBlock::Command(words) => {
            let lines = command_lines(words, 110).into_iter().map(|line| code_line(&line));
            element("pre").with("tabindex", "0").child(element("code").children(lines))
        }
        ReportBlock::Section(it) => return section(it),
    })
}

/// Renders a line of a command, whose flags are not broken at their hyphens.
fn code_line(line: &str) -> MarkupElement {
    let words = line.split_inclusive(' ');
    words.fold(element("span"), |line, word| match word {
        flag if flag.starts_with("--") && !flag.contains('=') => {
            line.child(element("b").text(flag))
        }
        word => line.text(word),
    })
}

/// Maximum items of an unfolded group, favourable or not; the main one is never folded.
const ITEMS_MAX: usize = 6;

fn section(section: &ReportSection) -> Option<MarkupElement> {
    let ReportSection { kind, title, id, blocks } = section;
    let is_long =
        |block: &ReportBlock| matches!(block, ReportBlock::Items(items) if items.len() > ITEMS_MAX);
    let is_folded = match kind {
        SectionKind::Terminal => return None,
        SectionKind::Details | SectionKind::Folded => true,
        SectionKind::Group(class) => *class != "main" && blocks.iter().any(is_long),
        _ => false,
    };
    let (outer, heading) = match kind {
        _ if is_folded => ("details", "summary"),
        SectionKind::Article => ("article", "h2"),
        SectionKind::Card => ("section", "h3"),
        _ => ("div", "h4"),
    };
    let class = match kind {
        SectionKind::Card => "card",
        SectionKind::Group(_) => "group-of-items",
        SectionKind::Beside(class) => class,
        SectionKind::Replay => "replay",
        _ => "",
    };
    let attributes = [("class", class), ("id", id)].into_iter().filter(|it| !it.1.is_empty());
    let outer = attributes.fold(element(outer), |outer, (name, value)| outer.with(name, value));
    let outer = outer.children((!title.is_empty()).then(|| element(heading).prose(title)));
    let button = (*kind == SectionKind::Replay).then(|| {
        let switch = element("input").with("type", "checkbox");
        element("label").child(switch).text("Replay (uncheck and check to repeat)")
    });
    Some(outer.children(button).children(blocks.iter().filter_map(block)))
}

fn card(card: &NumberCard) -> MarkupElement {
    let number = value(element("b"), &card.value, "").prose(&card.value.text);
    let note = card.note.iter().map(|cell| value(element("span"), cell, "").prose(&cell.text));
    element("div")
        .with("class", "card number")
        .with("data-state", if card.is_bad { "bad" } else { "" })
        .child(element("h3").text(&card.name))
        .child(number)
        .child(element("p").children(note))
}

/// Draws four parts, each as long as its number of comparisons.
fn bar(counts: [usize; 4]) -> MarkupElement {
    let all = counts.iter().sum::<usize>().max(1);
    let names = ["better", "equal", "not-known", "worse"];
    let parts = counts.into_iter().zip(names).filter(|(count, _)| *count > 0);
    let parts = parts.map(|(count, name)| {
        let part = element("span").with("class", name);
        let part = part.with("style", format!("flex-grow:{}", count as f64 / all as f64));
        let part = identified(part, &format!("ranking-{name}"), count as f64);
        part.text(format_args!("{count} {}", name.replace('-', " ")))
    });
    element("div").with("class", "counts").with("aria-hidden", "true").children(parts)
}

fn item(item: &ListItem) -> MarkupElement {
    let head = match item.link.as_str() {
        "" => element("span"),
        link => element("a").with("href", format!("#{link}")),
    };
    let mut entry = element("li");
    if !item.head.is_empty() {
        let colon = if item.parts.is_empty() { "" } else { ": " };
        entry = entry.child(head.text(&item.head)).text(colon);
    }
    for (index, (name, text)) in item.parts.iter().enumerate() {
        entry = entry.text(if index > 0 { " · " } else { "" });
        entry = entry.child(element("b").text(name)).text(" ").prose(text);
    }
    entry
}

fn warning(warning: &ReportWarning) -> MarkupElement {
    let about = match warning.about.as_str() {
        "" => "Warning: ".to_owned(),
        about => format!("Warning, {about}: "),
    };
    let hint = warning
        .hint
        .iter()
        .map(|hint| element("span").with("class", "hint").prose(&format!("Hint: {hint}")));
    element("li").child(element("strong").text(about)).prose(&warning.text).children(hint)
}

/// Renders a table in a separate box that scrolls if necessary.
fn table(table: &ReportTable) -> MarkupElement {
    let heads = table.columns.iter().map(|column| {
        if column.head.is_empty() {
            return element("td");
        }
        element("th").with("class", side(column)).with("scope", "col").text(&column.head)
    });
    let rows = table.rows.iter().map(|row| table_row(table, row));
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

fn table_row(table: &ReportTable, row: &TableRow) -> MarkupElement {
    let cells = match row {
        TableRow::Cells(cells) => cells,
        TableRow::Head(name) => {
            let head = element("th")
                .with("colspan", table.columns.len())
                .with("scope", "rowgroup")
                .text(name);
            return element("tr").with("class", "group").child(head);
        }
    };
    let cells = cells.iter().zip(&table.columns).enumerate();
    element("tr").children(cells.map(|(index, (cell, column))| {
        let name = if index == 0 { "th" } else { "td" };
        let class = if cell.is_gap { "gap" } else { side(column) };
        let outer = element(name).with("class", class);
        let outer = match index {
            0 => outer.with("scope", "row"),
            _ => outer,
        };
        if cell.notes.is_empty() {
            return value(outer, cell, &table.prefix).prose(&cell.text);
        }
        let main = value(element("b"), cell, &table.prefix).text(&cell.text);
        let notes = cell.notes.iter().map(|(class, note)| {
            value(element("small").with("class", class), note, &table.prefix).prose(&note.text)
        });
        outer.child(main).children(notes)
    }))
}

fn side(column: &TableColumn) -> &'static str {
    if column.is_left { "w" } else { "n" }
}

fn value(element: MarkupElement, cell: &Cell, prefix: &str) -> MarkupElement {
    match &cell.value {
        Some((name, value)) => identified(element, &format!("{prefix}{name}"), *value),
        None => element,
    }
}

/// Adds an id, and the value for programs.
fn identified(element: MarkupElement, id: &str, value: f64) -> MarkupElement {
    // JSON has no other numbers either.
    let value = if value.is_finite() { value } else { 0.0 };
    element.with("id", id).with("data-value", value)
}

fn figure(Figure { id, title, plot }: &Figure) -> MarkupElement {
    let title = (!title.is_empty()).then(|| element("h4").text(title));
    let heads = plot.heads().into_iter();
    let heads = heads.map(|(class, words)| element("p").with("class", class).text(words));
    let class = match plot {
        Plot::Chart(_) => "beside",
        Plot::Bars(_) => "beside bars",
    };
    let panels = element("div").with("class", class);
    element("div")
        .with("id", id)
        .children(title)
        .children(heads)
        .child(panels.children(plot.inline(id)))
}
