//! The page about each program: what each of its options is in Lariat.

use std::fmt::Write as _;

use crate::meanings::{OldDefault, OptionMeaning, OptionSupport, Predecessor, defaults_of};

/// A list of more options shows a few, because its words say what the others are.
const LISTED_MAX: usize = 12;
const SHOWN: usize = 4;

const DONE: &str = "\n## Done in any case\n\nLariat does so without a setting, or there is nothing to \
                    set; the report says which: ";
const NOT_MAPPED: &str = "\n## Not mapped\n\nIn brackets stands what to do. An option marked † \
                          refuses somebody: a service that would serve them is left out.\n\n";

/// The page as Markdown, without its title.
pub fn page(of: Predecessor) -> String {
    let mut page = format!(
        "[`lariat import {}`](../guide/moving.md) does this, and its report names each line.\n",
        of.word()
    );
    page.push_str("\n## Mapped\n\n");
    list(&mut page, by_fate(of, mapped));
    let is_done = |option: &&OptionMeaning| matches!(option.support, OptionSupport::Always(_));
    let done: Vec<_> = crate::meanings(of).filter(is_done).collect();
    let _ = writeln!(page, "{DONE}{}", names(&done, usize::MAX));
    page.push_str(NOT_MAPPED);
    list(&mut page, by_fate(of, lacking));
    page.push_str(
        "\n## Defaults that are written out\n\nThe other program has these where its file says \
         nothing. A very long time or a very large number stands for no limit.\n\n",
    );
    for OldDefault { option, key, value, .. } in defaults_of(of) {
        let _ = writeln!(page, "- `{option}`: `{key} = {value}`");
    }
    page
}

fn list(page: &mut String, groups: Vec<(String, Vec<&'static OptionMeaning>)>) {
    for (outcome, mut options) in groups {
        options.sort_by_key(|option| mark(option).is_empty());
        let _ = writeln!(page, "- {outcome}: {}", names(&options, LISTED_MAX));
    }
}

/// The options of one kind of fate; those with the same fate stand together.
fn by_fate(
    of: Predecessor,
    outcome: impl Fn(&OptionSupport) -> Option<String>,
) -> Vec<(String, Vec<&'static OptionMeaning>)> {
    let mut groups: Vec<(String, Vec<&'static OptionMeaning>)> = Vec::new();
    for option in crate::meanings(of) {
        let Some(outcome) = outcome(&option.support) else { continue };
        match groups.iter_mut().find(|(other, _)| *other == outcome) {
            Some((_, options)) => options.push(option),
            None => groups.push((outcome, vec![option])),
        }
    }
    groups
}

fn mapped(support: &OptionSupport) -> Option<String> {
    match support {
        OptionSupport::Key { key: keys, note: "", .. }
        | OptionSupport::Joined { keys, note: "" } => Some(code_of_keys(keys)),
        OptionSupport::Key { key: keys, note, .. } | OptionSupport::Joined { keys, note } => {
            Some(format!("{} ({})", code_of_keys(keys), one_line(note)))
        }
        _ => None,
    }
}

fn lacking(support: &OptionSupport) -> Option<String> {
    let OptionSupport::Lacks { why, remedy, .. } = support else { return None };
    let remedy = match one_line(remedy) {
        remedy if remedy == "none is needed" => String::new(),
        remedy => format!(" ({remedy})"),
    };
    Some(format!("{}{remedy}", one_line(why)))
}

/// Names as code; of neighbours with the same first word, that word stands once.
fn names(options: &[&OptionMeaning], listed_max: usize) -> String {
    let mut text = String::new();
    let mut section = String::new();
    let count = |option: &&OptionMeaning| option.names.len() + option.begins.len();
    let (all, mut shown) = (options.iter().map(count).sum::<usize>(), 0);
    for option in options {
        let begins = option.begins.iter().map(|begin| format!("{begin}…"));
        for name in option.names.iter().map(|name| (*name).to_owned()).chain(begins) {
            if all > listed_max && shown == SHOWN {
                let _ = write!(text, " and {} more", all - shown);
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
            let _ = write!(text, "`{rest}`{}", mark(option));
        }
        text.push_str(&harmless(option));
    }
    text
}

/// The mark of an option that refuses somebody.
fn mark(option: &OptionMeaning) -> &'static str {
    match &option.support {
        OptionSupport::Lacks { guards, .. } if !guards.is_empty() => "†",
        _ => "",
    }
}

fn harmless(option: &OptionMeaning) -> String {
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
