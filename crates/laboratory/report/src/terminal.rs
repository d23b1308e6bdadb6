//! Text for a terminal: tables with aligned columns, wrapped words, a few colours.

use crate::hostile::harmless;
use crate::table::{Row, Side, Table};

/// Between two columns.
const GAP: &str = "  ";

/// How text is to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Characters in a line.
    pub(crate) width: usize,
    /// Whether colours are liked.
    pub(crate) colour: bool,
}

/// What a piece of text is, in ANSI's numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ink {
    Strong,
    Faint,
    Warning,
    Hint,
}

impl Look {
    /// The text, in colour if that is liked.
    pub(crate) fn paint(self, ink: Ink, text: &str) -> String {
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

    /// The table, a line a row, each moved in by two; its last column is wrapped. The title stands
    /// where the first column's head would be.
    pub(crate) fn table(self, title: &str, table: &Table) -> String {
        let widths = widths(table);
        let heads = table.columns.iter().map(|column| column.head.as_str());
        let heads = self.lines(table, &widths, &heads.collect::<Vec<_>>());
        let mut text = self.heading(title, heads[0].trim_end()) + "\n";
        for row in &table.rows {
            text += &self.row(table, &widths, row);
        }
        text
    }

    /// In one line where the first head leaves room for the title.
    fn heading(self, title: &str, heads: &str) -> String {
        let bold = self.paint(Ink::Strong, title);
        let room = heads.len() - heads.trim_start().len();
        match length(title) {
            0 => self.paint(Ink::Faint, heads),
            _ if room == heads.len() => bold,
            length if length < room => bold + &self.paint(Ink::Faint, &heads[length..]),
            _ => format!("{bold}\n{}", self.paint(Ink::Faint, heads)),
        }
    }

    fn row(self, table: &Table, widths: &[usize], row: &Row) -> String {
        if row.is_head {
            let name = row.cells.first().map_or("", |cell| cell.text.as_str());
            return format!("{GAP}{}\n", self.paint(Ink::Strong, name));
        }
        let cells: Vec<&str> = row.cells.iter().map(|cell| cell.text.as_str()).collect();
        let lines = self.lines(table, widths, &cells).into_iter();
        lines
            .map(|line| line.trim_end().to_owned() + "\n")
            .collect()
    }

    fn lines(self, table: &Table, widths: &[usize], cells: &[&str]) -> Vec<String> {
        let last = table.columns.len().saturating_sub(1);
        let has_groups = table.rows.iter().any(|row| row.is_head);
        let mut line = GAP.repeat(1 + usize::from(has_groups));
        let mut wrapped = Vec::new();
        for (index, column) in table.columns.iter().enumerate() {
            let cell = cells.get(index).copied().unwrap_or_default();
            let padding = " ".repeat(widths[index].saturating_sub(length(cell)));
            if index > 0 {
                line += GAP;
            }
            match column.side {
                Side::Right => line = line + &padding + cell,
                Side::Left if index == last => {
                    let room = self.width.saturating_sub(length(&line));
                    wrapped = wrap(cell, room);
                }
                Side::Left => line = line + cell + &padding,
            }
        }
        let indent = " ".repeat(length(&line));
        let mut rest = wrapped.into_iter();
        let mut lines = vec![line + &rest.next().unwrap_or_default()];
        lines.extend(rest.map(|words| indent.clone() + &words));
        lines
    }

    /// A label and what it is about, wrapped: `warning: words`.
    pub(crate) fn labelled(self, ink: Ink, label: &str, words: &str) -> String {
        let first = length(label) + ": ".len();
        let lines = wrap(&harmless(words), self.width.saturating_sub(first));
        let indented = lines.join(&format!("\n{}", " ".repeat(first)));
        format!("{}: {indented}\n", self.paint(ink, label))
    }

    /// A name and its words, wrapped beneath themselves: `name      words`.
    pub(crate) fn field(self, name: &str, words: &str) -> String {
        let lines = wrap(words, self.width.saturating_sub(FIELD_WIDTH));
        self.field_lines(name, &lines)
    }

    /// The same with lines that are as they are.
    pub(crate) fn field_lines(self, name: &str, lines: &[String]) -> String {
        let mut text = String::new();
        for (index, line) in lines.iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            let padding = " ".repeat(FIELD_WIDTH.saturating_sub(length(name)));
            text = text + &self.paint(Ink::Faint, name) + &padding + line + "\n";
        }
        text
    }
}

/// Where the words of a field begin.
pub(crate) const FIELD_WIDTH: usize = 12;

fn widths(table: &Table) -> Vec<usize> {
    let rows = || table.rows.iter().filter(|row| !row.is_head);
    let width = |index: usize| {
        let cells = rows().filter_map(|row| row.cells.get(index));
        let widest = cells.map(|cell| length(&cell.text)).max().unwrap_or(0);
        widest.max(length(&table.columns[index].head))
    };
    (0..table.columns.len()).map(width).collect()
}

/// Characters, each of which is taken to fill one column.
pub(crate) fn length(text: &str) -> usize {
    text.chars().count()
}

/// Lines of at most `width` characters where words allow it; never none. A number is not parted
/// from its unit.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words(text) {
        let word = word.as_str();
        let line = lines.last_mut().expect("it begins with one");
        if line.is_empty() {
            line.push_str(word);
        } else if length(line) + 1 + length(word) <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match words.last_mut() {
            Some(number) if is_unit(word) && number.ends_with(|c: char| c.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

fn is_unit(word: &str) -> bool {
    const UNITS: [&str; 10] = ["ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB", "TiB", "%"];
    let bare = word.trim_end_matches([',', ';', '.', ')']);
    UNITS.contains(&bare.trim_end_matches("/s"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Cell;

    const PLAIN: Look = Look {
        width: 24,
        colour: false,
    };

    #[test]
    fn columns_are_aligned_and_the_last_is_wrapped() {
        let mut table = Table::new("", &["<name", "count", "<what"]);
        table.row(vec![
            Cell::from("full"),
            Cell::from("5"),
            Cell::from("a suite, a group"),
        ]);
        table.row(vec![
            Cell::from("psk"),
            Cell::from("1 000"),
            Cell::from("x"),
        ]);
        let wanted = "  name  count  what
  full      5  a suite,
               a group
  psk   1 000  x
";
        assert_eq!(PLAIN.table("", &table), wanted);
    }

    #[test]
    fn a_title_shares_the_line_of_the_heads_if_there_is_room() {
        let mut table = Table::new("", &["<", "count"]);
        table.row(vec![Cell::from("session-id"), Cell::from("5")]);
        let rows = "  session-id      5\n";
        assert_eq!(
            PLAIN.table("Failures", &table),
            format!("Failures      count\n{rows}")
        );
        let long = "A longer title";
        let wanted = format!("{long}\n              count\n{rows}");
        assert_eq!(PLAIN.table(long, &table), wanted);
    }

    #[test]
    fn numbers_keep_their_units() {
        assert_eq!(
            wrap("it took 12 ms, all in all", 11),
            ["it took", "12 ms, all", "in all"]
        );
        assert_eq!(wrap("", 11), [""]);
    }

    #[test]
    fn colours_are_outside_of_the_alignment() {
        let look = Look {
            colour: true,
            ..PLAIN
        };
        assert_eq!(
            look.field("host", "cpu"),
            "\u{1b}[2mhost\u{1b}[0m        cpu\n"
        );
        assert_eq!(PLAIN.field("host", "cpu"), "host        cpu\n");
    }
}
