//! What a program's commands take, read from their help, and the manual pages made of it.
//!
//! A help is a table: a line that begins with two spaces and a dash is a flag, with what its value
//! is called, and its words stand beneath. Lines that begin with two spaces and the program's name
//! show how a command is called. `completion` makes scripts for shells of the same.

use std::fmt::Write as _;

use crate::key::Kind;
use crate::table::Table;

/// A program with its commands.
#[derive(Debug)]
pub struct Program<'a> {
    pub name: &'a str,
    pub version: &'a str,
    pub purpose: &'a str,
    /// Its commands, in the order of the help.
    pub commands: Vec<Command<'a>>,
    /// What follows the commands in the manual: a heading, and lines as those of a help.
    pub sections: &'a [(&'a str, &'a str)],
}

/// A command and what it takes.
#[derive(Debug)]
pub struct Command<'a> {
    pub name: &'a str,
    pub purpose: &'a str,
    /// Its flags: those of its table, then those that only its usage shows.
    pub flags: Vec<Flag<'a>>,
    /// Words that it takes as arguments.
    pub words: Vec<&'a str>,
    /// Whether it takes files as arguments.
    pub takes_files: bool,
    body: &'a str,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Flag<'a> {
    pub name: &'a str,
    pub letter: Option<char>,
    pub value: Option<Value<'a>>,
    /// What it means, as far as the help says so.
    pub help: String,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Value<'a> {
    pub name: &'a str,
    /// Whether the flag may stand alone.
    pub is_optional: bool,
    pub holds: Holds<'a>,
}

/// What a value may be, as far as a shell can propose it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Holds<'a> {
    Words(Vec<&'a str>),
    /// The path of a file or directory.
    Path,
    Text,
}

/// How arguments that are paths are called, or how their names begin.
const PATHS: [&str; 7] = ["FILE", "PATH", "DIR", "RECORD", "PAGE", "SUM", "SCENARIO"];

/// Beneath a flag stand its words.
const BENEATH: &str = "      ";

fn is_path(name: &str) -> bool {
    PATHS.iter().any(|path| name.starts_with(path))
}

fn is_word(text: &str) -> bool {
    let is_of_words = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(is_of_words)
}

/// The flags that have a line of their own in a help.
pub fn flags(help: &str) -> Vec<Flag<'_>> {
    let mut flags: Vec<Flag<'_>> = Vec::new();
    let mut is_open = false;
    for line in help.lines() {
        if let Some(flag) = line.strip_prefix("  -").and_then(Flag::read) {
            flags.push(flag);
            is_open = true;
            continue;
        }
        match (line.strip_prefix(BENEATH), flags.last_mut()) {
            (Some(words), Some(flag)) if is_open => {
                let gap = if flag.help.is_empty() { "" } else { " " };
                _ = write!(flag.help, "{gap}{}", words.trim());
            }
            _ => is_open = false,
        }
    }
    flags
}

impl<'a> Flag<'a> {
    /// `-long VALUE` or `l, --long VALUE`: a line without its first dash.
    fn read(head: &'a str) -> Option<Self> {
        let (letter, long) = match head.strip_prefix('-') {
            Some(long) => (None, long),
            None => (head.chars().next(), head.split_once("--")?.1),
        };
        let (name, value) = long.split_once(' ').unwrap_or((long, ""));
        Some(Self {
            name,
            letter,
            value: (!value.is_empty()).then(|| Value::read(value)),
            help: String::new(),
        })
    }
}

impl<'a> Value<'a> {
    fn read(text: &'a str) -> Self {
        let name = text.trim_matches(['[', ']']);
        let words: Vec<_> = name.split('|').filter(|word| is_word(word)).collect();
        Self {
            name,
            is_optional: text.starts_with('['),
            holds: match words.is_empty() {
                false => Holds::Words(words),
                true if name.split(['|', '=']).any(is_path) => Holds::Path,
                true => Holds::Text,
            },
        }
    }
}

impl<'a> Command<'a> {
    /// Reads the help of a command: its first line is `PROGRAM NAME: PURPOSE`. The words that a
    /// flag takes come from the table, if it is there that they stand.
    pub fn read(program: &str, help: &'a str, table: Option<&Table>) -> Self {
        let (title, body) = help.split_once('\n').unwrap_or((help, ""));
        let (called, purpose) = title.split_once(": ").unwrap_or((title, ""));
        let name = called.strip_prefix(program).unwrap_or(called).trim();
        let mut command = Self {
            name,
            purpose,
            flags: flags(body),
            words: Vec::new(),
            takes_files: false,
            body,
        };
        let call = format!("  {program} {name} ");
        let is_example = |line: &&str| line.starts_with("For example") || *line == "Examples:";
        for line in body.lines().take_while(|line| !is_example(line)) {
            if let Some(arguments) = line.strip_prefix(&call) {
                // Two spaces and more divide them from a remark.
                command.read_call(arguments.split("  ").next().unwrap_or_default());
            }
        }
        for flag in &mut command.flags {
            let key = table.and_then(|table| table.find_flag(flag.name));
            if let (Some(Kind::Choice(words)), Some(value)) =
                (key.map(|key| key.kind), &mut flag.value)
            {
                value.holds = Holds::Words(words.to_vec());
            }
        }
        command
    }

    /// Flags that have no line of their own, and words.
    fn read_call(&mut self, arguments: &'a str) {
        let is_bracket = |c| matches!(c, '[' | ']' | '…');
        let mut rest = arguments;
        while let Some((word, after)) = next_word(rest) {
            rest = after;
            let bare = word.trim_matches(is_bracket);
            if bare.starts_with('-') {
                let has_value = !word.ends_with(']') && bare.len() == word.trim_end().len() - 1;
                let value = has_value.then(|| next_word(rest)).flatten();
                let (value, after) = value.unwrap_or(("", rest));
                rest = after;
                if let Some(name) = bare.strip_prefix("--")
                    && self.flags.iter().all(|flag| flag.name != name)
                {
                    let value = value.trim_matches(is_bracket);
                    self.flags.push(Flag {
                        name,
                        letter: None,
                        value: (!value.is_empty()).then(|| Value::read(value)),
                        help: String::new(),
                    });
                }
            } else if is_path(bare) {
                self.takes_files = true;
            } else {
                let words = bare.split('|').filter(|word| is_word(word));
                self.words.extend(words);
            }
        }
        self.words.sort_unstable();
        self.words.dedup();
    }
}

fn next_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    (!text.is_empty()).then(|| text.split_once(' ').unwrap_or((text, "")))
}

impl Program<'_> {
    /// The program's page in section 1 of the manual, as roff.
    pub fn manual_page(&self) -> String {
        let name = escaped(self.name);
        let mut page = head(self.name, 1, self.name, self.version, self.purpose);
        _ = writeln!(
            page,
            ".SH SYNOPSIS\n.B {name}\n.I COMMAND\n.RI [ ARGUMENTS ]"
        );
        page.push_str(".SH COMMANDS\n");
        for command in &self.commands {
            _ = writeln!(page, ".SS {name} {}", escaped(command.name));
            _ = writeln!(page, "{}.", escaped(&capitalised(command.purpose)));
            write_lines(&mut page, command.body);
        }
        for (heading, lines) in self.sections {
            _ = writeln!(page, ".SH {}", heading.to_uppercase());
            write_lines(&mut page, lines);
        }
        page
    }
}

impl Table {
    /// The page in section 5 of the manual about a file of these keys, as roff.
    pub fn manual_page(&self, file: &str, purpose: &str, program: &str, version: &str) -> String {
        let mut page = head(file, 5, program, version, purpose);
        page.push_str(".SH DESCRIPTION\nThe file is TOML. Dots divide a key from its tables.\n");
        page.push_str(".SH KEYS\n");
        for key in self.keys {
            let text = self.entry_text(key);
            let mut lines = text.lines();
            _ = writeln!(page, ".SS {}", escaped(lines.next().unwrap_or_default()));
            for line in lines {
                // Each fact about the key is a line of its own.
                page.push_str(if line.starts_with(BENEATH) {
                    ""
                } else {
                    ".br\n"
                });
                _ = writeln!(page, "{}", escaped(line.trim()));
            }
        }
        _ = writeln!(page, ".SH SEE ALSO\n.BR {} (1)", escaped(program));
        page
    }
}

fn head(name: &str, section: u8, program: &str, version: &str, purpose: &str) -> String {
    let (upper, name) = (escaped(&name.to_uppercase()), escaped(name));
    let purpose = escaped(purpose);
    format!(
        ".TH {upper} {section} \"\" \"{program} {version}\"\n.nh\n.ad l\n\
         .SH NAME\n{name} \\- {purpose}\n"
    )
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Block {
    Gap,
    Paragraph,
    Flag,
    /// What is typed or shown as it is.
    Example,
}

/// Lines of help: flags with their words, examples, and paragraphs.
fn write_lines(page: &mut String, lines: &str) {
    let mut before = Block::Gap;
    for line in lines.lines() {
        let now = match before {
            _ if line.is_empty() => Block::Gap,
            _ if line.starts_with("  -") => Block::Flag,
            Block::Flag if line.starts_with(BENEATH) => Block::Flag,
            _ if line.starts_with("  ") => Block::Example,
            _ => Block::Paragraph,
        };
        if before == Block::Example && now != before {
            page.push_str(".EE\n");
        }
        let text = escaped(line.trim());
        let is_first = page
            .lines()
            .next_back()
            .is_some_and(|line| line.starts_with(".SH"));
        let gap = if is_first { "" } else { ".PP\n" };
        _ = match now {
            Block::Gap => Ok(()),
            Block::Flag if line.starts_with("  -") => writeln!(page, ".TP\n.B {text}"),
            Block::Paragraph if before != now => writeln!(page, "{gap}{text}"),
            Block::Example if before != now => writeln!(page, "{gap}.EX\n{}", escaped(line)),
            Block::Example => writeln!(page, "{}", escaped(line)),
            Block::Flag | Block::Paragraph => writeln!(page, "{text}"),
        };
        before = now;
    }
    page.push_str(if before == Block::Example {
        ".EE\n"
    } else {
        ""
    });
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Text that roff shows as it is.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) {
        return format!("\\&{text}");
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const DRAW: &str = "\
prog draw: make a page

  prog draw FILE… [--json] [--socket PATH] [-o PAGE]     # a remark --none
  prog draw enable|disable NAME

It draws.
.begins with a dot, and \\ too.

Output:
  -o, --output PAGE.html
      Write there
      and there
  --color [auto|on]
      In colors
  --size SIZE

Examples:
  prog draw fine --other x
";

    pub(crate) fn program() -> Program<'static> {
        let plain = "prog help: it's [more] about: all $(of) these\n";
        Program {
            name: "prog",
            version: "1.2.3",
            purpose: "draws pages",
            commands: vec![
                Command::read("prog", DRAW, None),
                Command::read("prog", plain, None),
            ],
            sections: &[("Exit status", "  0  fine\n  1  not\n")],
        }
    }

    #[test]
    fn a_help_says_what_a_command_takes() {
        let command = Command::read("prog", DRAW, None);
        assert_eq!((command.name, command.purpose), ("draw", "make a page"));
        assert_eq!(command.words, ["disable", "enable"]);
        assert!(command.takes_files);
        let row = |name, letter, value, help: &str| Flag {
            name,
            letter,
            value,
            help: help.to_owned(),
        };
        let value = |name, is_optional, holds| Value {
            name,
            is_optional,
            holds,
        };
        let page = value("PAGE.html", false, Holds::Path);
        let color = value("auto|on", true, Holds::Words(vec!["auto", "on"]));
        let size = value("SIZE", false, Holds::Text);
        let socket = value("PATH", false, Holds::Path);
        assert_eq!(
            command.flags,
            [
                row("output", Some('o'), Some(page), "Write there and there"),
                row("color", None, Some(color), "In colors"),
                row("size", None, Some(size), ""),
                row("json", None, None, ""),
                row("socket", None, Some(socket), ""),
            ]
        );
    }

    #[test]
    fn a_page_shows_flags_paragraphs_and_examples() {
        let page = program().manual_page();
        for part in [
            ".SH NAME\nprog \\- draws pages\n",
            ".SS prog draw\nMake a page.\n.PP\n.EX\n  prog draw FILE…",
            ".EE\n.PP\nIt draws.\n\\&.begins with a dot, and \\e too.\n",
            ".PP\nOutput:\n.TP\n.B \\-o, \\-\\-output PAGE.html\nWrite there\nand there\n.TP\n",
            ".SH EXIT STATUS\n.EX\n  0  fine\n  1  not\n.EE\n",
        ] {
            assert!(page.contains(part), "{part:?} in\n{page}");
        }
    }
}
