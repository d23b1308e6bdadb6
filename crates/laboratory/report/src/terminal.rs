//! Renders a report as text for a terminal: aligned columns, wrapped words, a few colours.

use crate::document::{
    ListItem, ReportBlock, ReportDocument, ReportFact, ReportSection, ReportTable, ReportWarning,
    SectionKind, TableRow,
};
use crate::words::{command_lines, joined, sanitized, with_units_held};

const GAP: &str = "  ";

/// Column at which a fact's text begins, and maximum length of a name on the same line.
const FACT_WIDTH: usize = 12;
const NAME_MAX: usize = 34;

const HINT: &str = "hint";

impl ReportDocument {
    /// Renders the report as text for a screen `width` characters wide.
    pub fn text(&self, width: usize, colour: bool) -> String {
        let look = TerminalStyle { width, colour };
        let parts = self.blocks.iter().map(|block| look.block("", block));
        joined(parts.filter(|part| !part.is_empty()), "\n")
    }
}

#[derive(Clone, Copy, Debug)]
struct TerminalStyle {
    width: usize,
    colour: bool,
}

/// Colour of a piece of text, in ANSI's numbers.
#[derive(Clone, Copy, Debug)]
enum Ink {
    Strong,
    Faint,
    Warning,
    Hint,
}

impl TerminalStyle {
    fn block(self, title: &str, block: &ReportBlock) -> String {
        let text = match block {
            ReportBlock::Headline(text) => self.strong(text),
            ReportBlock::Paragraph(text) => self.wrapped(text) + "\n",
            ReportBlock::Facts(facts) => self.facts(facts),
            ReportBlock::Items(items) => items.iter().map(|item| self.item(item)).collect(),
            ReportBlock::Warnings(warnings) => {
                warnings.iter().map(|warning| self.warning(warning)).collect()
            }
            ReportBlock::Table(table) => self.titled_table(title, table),
            ReportBlock::Command(words) => {
                let lines = command_lines(words, self.width.saturating_sub(FACT_WIDTH));
                self.field("repeat", FACT_WIDTH, &lines)
            }
            ReportBlock::Section(section) => self.section(section),
            ReportBlock::Cards(_) | ReportBlock::Counts(_) | ReportBlock::Figure(_) => {
                String::new()
            }
        };
        match block {
            ReportBlock::Table(_) => text,
            _ if text.is_empty() => text,
            _ => self.strong(title) + &text,
        }
    }

    /// Renders a section, with its title at the first block that is shown.
    fn section(self, section: &ReportSection) -> String {
        if matches!(section.kind, SectionKind::Details | SectionKind::Page) {
            return String::new();
        }
        let mut text = String::new();
        for block in &section.blocks {
            let is_first = text.is_empty() && section.kind != SectionKind::Folded;
            let title = if is_first { &section.title } else { "" };
            text += &self.block(title, block);
        }
        text
    }

    fn wrapped(self, text: &str) -> String {
        wrap(&sanitized(text), self.width).join("\n")
    }

    /// Renders lines in bold; none for empty text.
    fn strong(self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let lines = wrap(&sanitized(text), self.width).into_iter();
        lines.map(|line| self.paint(Ink::Strong, &line) + "\n").collect()
    }

    fn warning(self, warning: &ReportWarning) -> String {
        let label = match warning.about.as_str() {
            "" => "warning".to_owned(),
            about => format!("warning: {about}"),
        };
        let hint = warning.hint.iter();
        let hint = hint.map(|hint| self.labelled(Ink::Hint, HINT, hint));
        self.labelled(Ink::Warning, &label, &warning.text) + &hint.collect::<String>()
    }

    /// Renders a label and its text, wrapped: `warning: words`.
    fn labelled(self, ink: Ink, label: &str, words: &str) -> String {
        let first = length(label) + ": ".len();
        let lines = wrap(&sanitized(words), self.width.saturating_sub(first));
        let indented = lines.join(&format!("\n{}", " ".repeat(first)));
        format!("{}: {indented}\n", self.paint(ink, &sanitized(label)))
    }

    /// Renders an item, indented by two, its later lines by four.
    fn item(self, item: &ListItem) -> String {
        let part = |(name, text): &(String, String)| format!("{name} {text}").trim_end().to_owned();
        let parts: Vec<String> = item.parts.iter().map(part).collect();
        let colon = if item.parts.is_empty() { "" } else { ": " };
        let words = format!("{}{colon}{}", item.head, parts.join(" · "));
        let lines = wrap(&sanitized(&words), self.width.saturating_sub(4));
        format!("  {}\n", lines.join("\n    "))
    }

    /// Renders names with their texts beside them; the longest name determines the column.
    fn facts(self, facts: &[ReportFact]) -> String {
        let names = facts.iter().map(|fact| length(&fact.name) + 2);
        let indent = names.max().unwrap_or(0).clamp(FACT_WIDTH, NAME_MAX);
        let fact = |fact: &ReportFact| {
            let room = self.width.saturating_sub(indent);
            let mut lines = wrap(&sanitized(&fact.text), room);
            if let Some(hint) = &fact.hint {
                let hints = wrap(&sanitized(&format!("{HINT}: {hint}")), room);
                lines.push(hints[0].replacen(HINT, &self.paint(Ink::Hint, HINT), 1));
                lines.extend_from_slice(&hints[1..]);
            }
            self.field(&sanitized(&fact.name), indent, &lines)
        };
        facts.iter().map(fact).collect()
    }

    /// Renders a name and lines beside it.
    fn field(self, name: &str, indent: usize, lines: &[String]) -> String {
        let mut text = String::new();
        for (index, line) in lines.iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            let gap = usize::from(!name.is_empty()) * 2;
            let padding = " ".repeat(indent.saturating_sub(length(name)).max(gap));
            text = text + &self.paint(Ink::Faint, name) + &padding + line + "\n";
        }
        text
    }

    /// Colours the text if colours are enabled.
    fn paint(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Strong => "1",
            Ink::Faint => "2",
            Ink::Warning => "1;33",
            Ink::Hint => "1;36",
        };
        if self.colour && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// Renders a table under its caption if no title describes it.
    fn titled_table(self, title: &str, table: &ReportTable) -> String {
        if !title.is_empty() || table.caption.is_empty() {
            return self.table(title, table);
        }
        let caption = wrap(&sanitized(&table.caption), self.width.saturating_sub(2));
        // Without heads their line is empty.
        let rows = self.table("", table);
        let rows = rows.strip_prefix('\n').unwrap_or(&rows);
        format!("  {}\n{rows}", caption.join("\n  "))
    }

    /// Renders a line per row, each indented by two; the last column is wrapped. The title takes
    /// the place of the first column's head.
    fn table(self, title: &str, table: &ReportTable) -> String {
        let widths = widths(table);
        let heads = table.columns.iter().map(|column| sanitized(&column.head));
        let heads = self.lines(table, &widths, &heads.collect::<Vec<_>>());
        let mut text = self.heading(&sanitized(title), heads[0].trim_end()) + "\n";
        for row in &table.rows {
            match row {
                TableRow::Head(name) => {
                    text += &format!("{GAP}{}\n", self.paint(Ink::Strong, &sanitized(name)));
                }
                TableRow::Cells(cells) => {
                    let cells: Vec<String> = cells.iter().map(|it| sanitized(&it.text)).collect();
                    let lines = self.lines(table, &widths, &cells).into_iter();
                    text.extend(lines.map(|line| line.trim_end().to_owned() + "\n"));
                }
            }
        }
        text
    }

    /// Renders heads and title in one line if the first head leaves room.
    fn heading(self, title: &str, heads: &str) -> String {
        let bold = self.paint(Ink::Strong, title);
        let room = heads.len() - heads.trim_start().len();
        match length(title) {
            0 => self.paint(Ink::Faint, heads),
            _ if room == heads.len() => bold,
            length if length < room => bold + &self.paint(Ink::Faint, &heads[length..]),
            _ => self.strong(title) + &self.paint(Ink::Faint, heads),
        }
    }

    fn lines(self, table: &ReportTable, widths: &[usize], cells: &[String]) -> Vec<String> {
        let last = table.columns.len().saturating_sub(1);
        let has_groups = table.rows.iter().any(|row| matches!(row, TableRow::Head(_)));
        let mut line = GAP.repeat(1 + usize::from(has_groups));
        let mut wrapped = Vec::new();
        for (index, column) in table.columns.iter().enumerate() {
            let cell = cells.get(index).map_or("", String::as_str);
            let padding = " ".repeat(widths[index].saturating_sub(length(cell)));
            if index > 0 {
                line += GAP;
            }
            if !column.is_left {
                line = line + &padding + cell;
            } else if index == last {
                wrapped = wrap(cell, self.width.saturating_sub(length(&line)));
            } else {
                line = line + cell + &padding;
            }
        }
        let indent = " ".repeat(length(&line));
        let mut rest = wrapped.into_iter();
        let mut lines = vec![line + &rest.next().unwrap_or_default()];
        lines.extend(rest.map(|words| indent.clone() + &words));
        lines
    }
}

fn widths(table: &ReportTable) -> Vec<usize> {
    let width = |index: usize| {
        let cells = table.rows.iter().filter_map(|row| match row {
            TableRow::Cells(cells) => cells.get(index),
            TableRow::Head(_) => None,
        });
        let widest = cells.map(|cell| length(&cell.text)).max().unwrap_or(0);
        widest.max(length(&table.columns[index].head))
    };
    (0..table.columns.len()).map(width).collect()
}

/// Returns the number of characters, each assumed to fill one column.
fn length(text: &str) -> usize {
    text.chars().count()
}

/// Splits text into lines of at most `width` characters if words allow it; at least one line. A
/// number stays with its unit.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in with_units_held(text).split(' ').filter(|word| !word.is_empty()) {
        let word = word.replace('\u{a0}', " ");
        let line = lines.last_mut().expect("it begins with one");
        if line.is_empty() {
            *line = word;
        } else if length(line) + 1 + length(&word) <= width {
            line.push(' ');
            line.push_str(&word);
        } else {
            lines.push(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: TerminalStyle = TerminalStyle { width: 24, colour: false };

    #[test]
    fn columns_are_aligned_and_the_last_is_wrapped() {
        let mut table = ReportTable::new("", ["<name", "count", "<what"]);
        table.row(["full", "5", "a suite, a group"].map(Into::into));
        table.row(["psk", "1 000", "x"].map(Into::into));
        let wanted = "  name  count  what
  full      5  a suite,
               a group
  psk   1 000  x
";
        assert_eq!(PLAIN.table("", &table), wanted);
    }

    #[test]
    fn a_title_shares_the_line_of_the_heads_if_there_is_room() {
        let mut table = ReportTable::new("", ["<", "count"]);
        table.row(["session-id", "5"].map(Into::into));
        let rows = "  session-id      5\n";
        assert_eq!(PLAIN.table("Failures", &table), format!("Failures      count\n{rows}"));
        let long = "A longer title";
        let wanted = format!("{long}\n              count\n{rows}");
        assert_eq!(PLAIN.table(long, &table), wanted);
    }

    #[test]
    fn facts_have_hints_beneath_them() {
        let fact = ReportFact {
            hint: Some("raise it".to_owned()),
            ..ReportFact::new("open files", "1024 hard")
        };
        let wanted = "open files  1024 hard\n            hint: raise\n            it\n";
        assert_eq!(PLAIN.facts(&[fact]), wanted);
    }

    #[test]
    fn numbers_keep_their_units() {
        assert_eq!(wrap("it took 12 ms, all in all", 11), ["it took", "12 ms, all", "in all"]);
        assert_eq!(wrap("", 11), [""]);
    }

    #[test]
    fn colours_are_outside_of_the_alignment() {
        let look = TerminalStyle { colour: true, ..PLAIN };
        let facts = [ReportFact::new("host", "cpu")];
        assert_eq!(look.facts(&facts), "\u{1b}[2mhost\u{1b}[0m        cpu\n");
        assert_eq!(PLAIN.facts(&facts), "host        cpu\n");
    }
}
