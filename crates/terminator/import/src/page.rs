//! The page about each program: what each of its options is in Lariat.

use std::fmt::Write as _;

use crate::meanings::{Meaning, OldDefault, Predecessor, Sense, defaults_of};

/// A list of more options shows a few, because its words say what the others are.
const LISTED_MAX: usize = 24;
const SHOWN: usize = 12;

/// The page as Markdown, without its title.
pub fn page(of: Predecessor) -> String {
    let mut page = format!(
        "`lariat import {}` does this, and reports it for each line. [Moving](../guide/moving.md) has \
         examples.\n",
        of.word()
    );
    for (title, fate) in [
        ("Mapped", mapped as fn(&Sense) -> Option<String>),
        ("Done in any case", done),
        ("Not mapped", lacking),
    ] {
        let _ = write!(page, "\n## {title}\n\n");
        for (fate, options) in by_fate(of, fate) {
            let _ = writeln!(page, "- {fate}: {}", names(&options));
        }
    }
    page.push_str("\n## Defaults that are written out\n\n");
    for OldDefault { option, key, value, note, .. } in defaults_of(of) {
        let value = value.to_string();
        // The reference has the default of Lariat.
        let note = note.split("; Lariat").next().unwrap_or_default();
        let _ = writeln!(page, "- `{option}`: `{key} = {value}`, because {note}");
    }
    page
}

/// The options of one kind of fate; those with the same fate stand together.
fn by_fate(
    of: Predecessor,
    fate: impl Fn(&Sense) -> Option<String>,
) -> Vec<(String, Vec<&'static Meaning>)> {
    let mut groups: Vec<(String, Vec<&'static Meaning>)> = Vec::new();
    for option in crate::meanings(of) {
        let Some(fate) = fate(&option.sense) else { continue };
        match groups.iter_mut().find(|(other, _)| *other == fate) {
            Some((_, options)) => options.push(option),
            None => groups.push((fate, vec![option])),
        }
    }
    groups
}

fn mapped(sense: &Sense) -> Option<String> {
    match sense {
        Sense::Key { key: keys, note: "", .. } | Sense::Joined { keys, note: "" } => {
            Some(code_of_keys(keys))
        }
        Sense::Key { key: keys, note, .. } | Sense::Joined { keys, note } => {
            Some(format!("{} ({})", code_of_keys(keys), one_line(note)))
        }
        _ => None,
    }
}

fn done(sense: &Sense) -> Option<String> {
    match sense {
        Sense::Always(words) => Some(one_line(words)),
        _ => None,
    }
}

fn lacking(sense: &Sense) -> Option<String> {
    let Sense::Lacks { why, remedy, guards } = sense else { return None };
    let mut why = one_line(why);
    if let [first, ..] = guards.as_slice() {
        let which = if first.is_empty() {
            "its service is left out"
        } else {
            "left out where it refuses somebody"
        };
        let _ = write!(why, "; {which}");
    }
    Some(format!("{why} ({})", one_line(remedy)))
}

/// Names as code; of neighbours with the same first word, that word stands once.
fn names(options: &[&Meaning]) -> String {
    let mut text = String::new();
    let mut section = String::new();
    let count = |option: &&Meaning| option.names.len() + option.begins.len();
    let (all, mut shown) = (options.iter().map(count).sum::<usize>(), 0);
    for option in options {
        let begins = option.begins.iter().map(|begin| format!("{begin}…"));
        for name in option.names.iter().map(|name| (*name).to_owned()).chain(begins) {
            if all > LISTED_MAX && shown == SHOWN {
                let _ = write!(text, " and {} more, which the report names", all - shown);
                return text;
            }
            shown += 1;
            let (first, rest) = name.split_once(' ').unwrap_or(("", &name));
            let separator = if first == section { ", " } else { "; " };
            text.push_str(if text.is_empty() { "" } else { separator });
            if first != section && !first.is_empty() {
                let _ = write!(text, "`{first}` ");
            }
            first.clone_into(&mut section);
            let _ = write!(text, "`{rest}`");
        }
        text.push_str(&harmless(option));
    }
    text
}

fn harmless(option: &Meaning) -> String {
    let value = |value: &&str| match *value {
        "" => "empty".to_owned(),
        value => format!("`{value}`"),
    };
    let values: Vec<_> = option.harmless.iter().map(value).collect();
    match values.as_slice() {
        [] => String::new(),
        values => format!(" ({}: as here)", values.join(", ")),
    }
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

fn one_line(words: &str) -> String {
    words.replace('\n', " ")
}
