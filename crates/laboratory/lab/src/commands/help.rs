//! The texts of `lariat-lab help`.

use load::options::table::{self, Group, Otherwise, Setting, Shape};

use super::flags::Command;
use super::run_arguments as run;
use super::{compare, host, origin, report, targets};
use crate::exit::Exit;

/// All commands but `load`, whose flags are the table of its settings.
pub(super) const TABLES: [&Command; 6] = [
    &origin::COMMAND,
    &targets::COMMAND,
    &host::COMMAND,
    &run::COMMAND,
    &report::COMMAND,
    &compare::COMMAND,
];

/// The width of the commands in the list of them.
const COMMAND_WIDTH: usize = 17;

const LOAD: &str = "\
lariat-lab load: load a TLS endpoint, and count what it did

  lariat-lab load URL [FLAGS]
  lariat-lab load --plan FILE.toml [URL] [FLAGS]

Says how it goes every second, prints a summary and writes a record of the run.
A plan file says what flags say, a key for each flag; flags replace what it
says. A plan that contradicts itself is refused before the first packet.
docs/reference/load.md tells more of each flag.
";

const LOAD_EXAMPLES: &str = "
Examples:
  What can it do? 50 connections at once, full handshakes, for 10 seconds:
    lariat-lab load https://127.0.0.1:8443/1k

  500 transactions a second, of which three in four resume a TLS 1.2 session:
    lariat-lab load https://127.0.0.1:8443/1k --tls 1.2 --handshake session-id \\
        --requests-per-session 4 --rate 500 --duration 10s --record out.json

  Where does it break? Handshakes alone, ever more of them, with the post-quantum group:
    lariat-lab load https://127.0.0.1:8443/ --no-request --groups X25519MLKEM768 \\
        --ramp 50:3000:60s

  The greatest rate at which 99 % of requests on kept connections take under 20 ms:
    lariat-lab load https://127.0.0.1:8443/1k --requests-per-connection unlimited \\
        --find-capacity --limit 'p99<20ms,error-rate<0.01%'

Ctrl-C ends a load early; its record is written all the same.
";

/// The commands and the exit codes.
pub(super) fn program() -> String {
    let line =
        |command: &str, purpose: &str| format!("  lariat-lab {command:COMMAND_WIDTH$} {purpose}\n");
    let commands = TABLES.map(|command| line(command.name, command.purpose()));
    let codes = Exit::ALL.map(|(exit, help)| format!("  {}  {help}\n", exit as u8));
    format!(
        "lariat-lab: load a TLS endpoint, and show how it did\n\n{}{}{}{}\n{}\nExit codes:\n{}",
        line("load", "load it, and count what it did"),
        commands.concat(),
        line("help COMMAND", "more about one of these"),
        line("version", "the version"),
        "Begin with: lariat-lab load https://127.0.0.1:8443/\n",
        codes.concat()
    )
}

/// More about a command, if there is one of that name.
pub(super) fn command(name: &str) -> Option<String> {
    if name == "load" {
        return Some(load());
    }
    let found = TABLES.iter().find(|command| command.name == name);
    found.map(|command| command.help.to_owned())
}

/// All flags of a load, by what they are about.
pub(super) fn load() -> String {
    let mut text = LOAD.to_owned();
    for group in Group::ALL {
        text.push_str(&format!("\n{}:\n", group.title()));
        for setting in table::of(group) {
            text.push_str(&row(&flag(setting), &about(setting)));
        }
        if group == Group::Run {
            text.push_str(&row(
                "--plan FILE.toml",
                "A file that says what flags would say",
            ));
        }
    }
    text + LOAD_EXAMPLES
}

fn flag(setting: &Setting) -> String {
    match (setting.name, setting.shape) {
        ("url", _) => "URL".to_owned(),
        (name, Shape::Switch) => format!("--{name}"),
        (name, Shape::Commas(word)) => format!("--{name} {word},…"),
        (name, Shape::One(word) | Shape::Repeated(word)) => format!("--{name} {word}"),
    }
}

/// The first sentence, and the default.
fn about(setting: &Setting) -> String {
    let first = setting.short_help().replace('`', "");
    let again = match setting.shape {
        Shape::Repeated(_) => "; may be given again",
        _ => "",
    };
    match setting.otherwise {
        Otherwise::Absent("") => format!("{first}{again}"),
        Otherwise::Absent(words) | Otherwise::Text(words) | Otherwise::Derived(words, _) => {
            format!("{first}{again} [default:{GLUE}{words}]")
        }
    }
}

/// The columns of a terminal.
const COLUMNS: usize = 80;

/// Where explanations begin.
const INDENT: usize = 26;

/// Stands for a space that no line ends at.
const GLUE: char = '\u{a0}';

/// A flag, and beside it what it does; below it if it is long.
fn row(flag: &str, about: &str) -> String {
    let head = format!("  {flag}");
    let width = head.chars().count();
    let (mut text, mut line) = if width + 2 > INDENT {
        (format!("{head}\n"), " ".repeat(INDENT))
    } else {
        (String::new(), format!("{head:<INDENT$}"))
    };
    let mut is_empty = true;
    for word in about.split(' ').filter(|word| !word.is_empty()) {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            text.push_str(&format!("{line}\n"));
            line = " ".repeat(INDENT);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    (text + &line + "\n").replace(GLUE, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_a_load_is_told() {
        let text = load();
        for setting in table::SETTINGS
            .iter()
            .filter(|setting| setting.name != "url")
        {
            let flag = format!("\n  --{}", setting.name);
            assert!(text.contains(&flag), "{flag}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn explanations_stand_beside_short_flags_and_below_long_ones() {
        let words = "one two ".repeat(12);
        let beside = row("--a B", &words);
        assert!(
            beside.starts_with("  --a B                   one two"),
            "{beside}"
        );
        assert!(beside.lines().all(|line| line.chars().count() <= COLUMNS));
        let below = row("--requests-per-session N|unlimited", "x");
        let expected = format!("  --requests-per-session N|unlimited\n{:26}x\n", "");
        assert_eq!(below, expected);
    }
}
