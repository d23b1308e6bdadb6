//! The page about each program: what each of its options is in Lariat.

use std::fmt::Write as _;

use crate::meaning::{Meaning, OldDefault, Sense};
use crate::meanings::defaults_of;
use crate::predecessor::Predecessor;

/// The page as Markdown, without its title.
pub fn page(of: Predecessor) -> String {
    let mut page = format!(
        "`lariat import {}` does this, and reports it for each line. [Moving](../guide/moving.md) has \
         examples.\n",
        of.word()
    );
    let rows = |cells: &dyn Fn(&Sense) -> Option<String>| {
        let row =
            |one: &'static Meaning| Some(format!("| {} | {} |\n", names(one), cells(&one.sense)?));
        crate::meanings(of).filter_map(row).collect::<String>()
    };
    let key = |sense: &Sense| match sense {
        Sense::Key { key: keys, note, .. } | Sense::Joined { keys, note } => {
            Some(format!("{} | {}", code_of_keys(keys), cell(note)))
        }
        _ => None,
    };
    let always = |sense: &Sense| match sense {
        Sense::Always(words) => Some(cell(words)),
        _ => None,
    };
    let lacks = |sense: &Sense| match sense {
        Sense::Lacks { why, remedy, guards } => {
            let mut why = cell(why);
            if let [first, ..] = guards.as_slice() {
                let which = if first.is_empty() { "" } else { " where it refuses somebody" };
                let _ = write!(why, "; its service is left out{which}");
            }
            Some(format!("{why} | {}", cell(remedy)))
        }
        _ => None,
    };
    for (title, head, rows) in [
        ("Mapped", "| Option | Key | Difference |\n|---|---|---|\n", rows(&key)),
        ("Done in any case", "| Option | How |\n|---|---|\n", rows(&always)),
        ("Not mapped", "| Option | Why | Instead |\n|---|---|---|\n", rows(&lacks)),
    ] {
        let _ = write!(page, "\n## {title}\n\n{head}{rows}");
    }
    page.push_str(
        "\n## Defaults that are written out\n\n| Option | Key | Because |\n|---|---|---|\n",
    );
    for OldDefault { option, key, value, note, .. } in defaults_of(of) {
        let value = value.to_string();
        let _ = writeln!(page, "| `{option}` | `{key} = {value}` | {note} |");
    }
    page
}

fn names(meaning: &Meaning) -> String {
    let begins = meaning.begins.iter().map(|begin| format!("{begin}…"));
    let names = meaning.names.iter().map(|name| (*name).to_owned()).chain(begins);
    let mut names = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    for value in &meaning.harmless {
        let value = if value.is_empty() { "empty".to_owned() } else { format!("`{value}`") };
        let _ = write!(names, "; {value} is as here");
    }
    names
}

/// Words of which those that are keys are code.
fn code_of_keys(keys: &str) -> String {
    let is_key = |word: &str| word.contains(['.', '-']) || word == "service";
    let code = |word: &str| match word.strip_suffix(',') {
        Some(word) if is_key(word) => format!("`{word}`,"),
        None if is_key(word) => format!("`{word}`"),
        _ => word.to_owned(),
    };
    keys.split(' ').map(code).collect::<Vec<_>>().join(" ")
}

fn cell(words: &str) -> String {
    words.replace('|', "\\|").replace('\n', " ")
}
