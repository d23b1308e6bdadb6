//! What is said about a plan: what is wrong, where it was typed, and what to do about it.
//!
//! Owns the sentences' frame (place, line, caret, hint), not the sentences.

use super::given::Spot;
use crate::console::Console;

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Complaint {
    /// The flag or key that it is about, if it is about one.
    pub(crate) subject: Option<String>,
    /// One sentence without a full stop.
    pub(crate) message: String,
    /// Where it was typed, if it was typed at all.
    pub(crate) spot: Option<Spot>,
    /// The remedy.
    pub(crate) hint: String,
}

/// The plan file that spots are in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    /// As it was given.
    pub(crate) path: &'a str,
    /// Its text.
    pub(crate) text: &'a str,
}

/// Says them all, each with its place and remedy, and an empty line between two.
pub(crate) fn tell(complaints: &[Complaint], source: Option<Source<'_>>, console: Console) {
    let told: Vec<_> = complaints
        .iter()
        .map(|one| one.render(source, console))
        .collect();
    console.say(told.join("\n\n"));
}

impl Complaint {
    /// Several lines, without the last newline.
    pub(crate) fn render(&self, source: Option<Source<'_>>, console: Console) -> String {
        let subject = self.subject.as_ref().map(|subject| format!("{subject}: "));
        let mut text = format!(
            "{}: {}{}",
            console.paint("error", "1;31"),
            subject.unwrap_or_default(),
            self.message
        );
        if let (Some(Spot::File(range)), Some(source)) = (&self.spot, source) {
            let place = Place::of(source.text, range.start, range.end);
            text.push_str(&place.render(source.path, console));
        }
        text + &format!("\n{}: {}", console.paint("hint", "1;36"), self.hint)
    }
}

/// A line of a file and what is marked in it, all in characters.
struct Place {
    /// From 1.
    line: usize,
    /// From 1.
    column: usize,
    shown: String,
    before: usize,
    marked: usize,
}

/// What fits beside a line number on a usual terminal.
const LINE_CHARACTERS_MAX: usize = 100;

/// How much of a long line is shown before the mark.
const CONTEXT_CHARACTERS: usize = 40;

impl Place {
    fn of(text: &str, start: usize, end: usize) -> Self {
        let head = text.get(..start).unwrap_or(text);
        let line_start = head.rfind('\n').map_or(0, |newline| newline + 1);
        let line = text[line_start..].lines().next().unwrap_or_default();
        let before = head[line_start..].chars().count();
        let line_end = line_start + line.len();
        let marked = text.get(start..end.min(line_end)).unwrap_or_default();
        let skipped = match line.chars().count() > LINE_CHARACTERS_MAX {
            true => before.saturating_sub(CONTEXT_CHARACTERS),
            false => 0,
        };
        let shown = line.chars().skip(skipped).take(LINE_CHARACTERS_MAX);
        let room = (line.chars().count() - skipped).min(LINE_CHARACTERS_MAX);
        let before_shown = before - skipped;
        Self {
            line: head.matches('\n').count() + 1,
            column: before + 1,
            shown: shown.map(printable).collect(),
            before: before_shown,
            marked: marked
                .chars()
                .count()
                .min(room.saturating_sub(before_shown))
                .max(1),
        }
    }

    fn render(&self, path: &str, console: Console) -> String {
        let blue = |text: &str| console.paint(text, "1;34");
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let caret = console.paint(&"^".repeat(self.marked), "1;31");
        format!(
            "\n{margin}{} {path}:{}:{}\n{margin} {bar}\n{} {bar} {}\n{margin} {bar} {}{caret}",
            blue("-->"),
            self.line,
            self.column,
            blue(&number),
            self.shown.trim_end(),
            " ".repeat(self.before),
            bar = blue("|"),
        )
    }
}

/// A terminal must not obey what a file holds.
fn printable(character: char) -> char {
    match character {
        '\t' => ' ',
        other if other.is_control() => '\u{fffd}',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str, range: std::ops::Range<usize>) -> String {
        let complaint = Complaint {
            subject: Some("key".to_owned()),
            message: "is wrong".to_owned(),
            spot: Some(Spot::File(range)),
            hint: "make it right".to_owned(),
        };
        complaint.render(
            Some(Source {
                path: "a.toml",
                text,
            }),
            Console::plain(),
        )
    }

    #[test]
    fn the_caret_stands_under_what_it_means() {
        let text = "one = 1\n\ttwö = \"x\"\n";
        let start = text.find("\"x\"").unwrap();
        let expected = "error: key: is wrong\n --> a.toml:2:8\n  |\n2 |  twö = \"x\"\n  |        ^^^\n\
                        hint: make it right";
        assert_eq!(rendered(text, start..start + 3), expected);
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
        let text = format!("{}HERE{}", "x".repeat(5000), "y".repeat(5000));
        let shown = rendered(&text, 5000..5004);
        assert!(shown.contains("HERE") && shown.len() < 500, "{shown}");
        assert!(shown.contains("a.toml:1:5001"));
    }

    #[test]
    fn what_a_file_holds_does_not_reach_the_terminal() {
        assert!(!rendered("a = \u{1b}[31m", 0..1).contains('\u{1b}'));
    }

    #[test]
    fn spots_outside_the_text_do_no_harm() {
        rendered("", 0..0);
        rendered("a", 7..9);
        rendered("ä", 1..2);
        rendered("a = [\n1,\n]\n", 4..11);
    }
}
