//! The table of meanings: a file for each program, beside this one.
//!
//! `names` are an option's names, `begins` the beginnings of more; of HAProxy, `[[bind]]`,
//! `[[server]]` and `[[global]]` stand before the names. `key`, with `as` or `choice`, is written
//! by itself, `keys` by the importer's own code; `always` needs none; `lacks` has none, and
//! `guards` tells whether the service must be left out then; `near` is a key for hints.
//! `[[default]]` is what the program does unasked.

use std::collections::HashMap;
use std::sync::LazyLock;

use toml::{Table, Value};

use crate::meaning::{Conversion, Meaning, OldDefault, Sense};
use crate::predecessor::Predecessor;

/// All that is known of one program.
struct MeaningTable {
    meanings: Vec<Meaning>,
    defaults: Vec<OldDefault>,
    /// Places in `meanings`.
    by_name: HashMap<String, usize>,
}

/// Parts of a file, and what stands before the names in them.
const SCOPES: [(&str, &str); 4] =
    [("option", ""), ("global", "global "), ("bind", "bind "), ("server", "server ")];

fn table(predecessor: Predecessor) -> &'static MeaningTable {
    static HITCH: LazyLock<MeaningTable> =
        LazyLock::new(|| read(include_str!("meanings/hitch.toml")));
    static STUNNEL: LazyLock<MeaningTable> =
        LazyLock::new(|| read(include_str!("meanings/stunnel.toml")));
    static HAPROXY: LazyLock<MeaningTable> =
        LazyLock::new(|| read(include_str!("meanings/haproxy.toml")));
    static NGINX: LazyLock<MeaningTable> =
        LazyLock::new(|| read(include_str!("meanings/nginx.toml")));
    match predecessor {
        Predecessor::Hitch | Predecessor::Stud => &HITCH,
        Predecessor::Stunnel => &STUNNEL,
        Predecessor::Haproxy => &HAPROXY,
        Predecessor::Nginx => &NGINX,
    }
}

/// The meanings of all options of a program.
pub(crate) fn of(predecessor: Predecessor) -> &'static [Meaning] {
    &table(predecessor).meanings
}

/// The defaults of a program where ours differ.
pub(crate) fn defaults_of(predecessor: Predecessor) -> &'static [OldDefault] {
    &table(predecessor).defaults
}

/// The meaning of the option with that name; of stunnel in any case of letters.
pub(crate) fn find(predecessor: Predecessor, name: &str) -> Option<&'static Meaning> {
    let MeaningTable { meanings, by_name, .. } = table(predecessor);
    if let Some(place) = by_name.get(name) {
        return meanings.get(*place);
    }
    let alike = |one: &&Meaning| one.names.iter().any(|one| one.eq_ignore_ascii_case(name));
    let alike = || meanings.iter().find(alike).filter(|_| predecessor == Predecessor::Stunnel);
    let begins = |one: &&Meaning| one.begins.iter().any(|begin| name.starts_with(begin));
    alike().or_else(|| meanings.iter().find(begins))
}

fn read(text: &str) -> MeaningTable {
    let file: Table = text.parse().expect("the tables of meanings are read by each test");
    let rows = |name: &str| file.get(name).and_then(Value::as_array).into_iter().flatten();
    let rows = |name| rows(name).filter_map(Value::as_table);
    let mut meanings = Vec::new();
    for (name, scope) in SCOPES {
        meanings.extend(rows(name).map(|row| meaning(row, scope)));
    }
    let names = |(place, one): (usize, &Meaning)| {
        let plain = one.names.iter().map(|name| (*name).to_owned());
        // A long flag without a file's option of that name.
        let dashed = one.names.iter().map(|name| format!("--{name}"));
        plain.chain(dashed).map(move |name| (name, place)).collect::<Vec<_>>()
    };
    let by_name = meanings.iter().enumerate().rev().flat_map(names).collect();
    let default = |row| OldDefault {
        of: word(row, "of"),
        option: word(row, "option"),
        key: word(row, "key"),
        value: row.get("value").cloned().unwrap_or(Value::Boolean(false)),
        note: word(row, "note"),
    };
    MeaningTable { meanings, defaults: rows("default").map(default).collect(), by_name }
}

fn meaning(row: &Table, scope: &str) -> Meaning {
    let names: Vec<&str> = words(row, "names")
        .map(|name| if scope.is_empty() { name } else { format!("{scope}{name}").leak() })
        .collect();
    let (key, keys, always) = (word(row, "key"), word(row, "keys"), word(row, "always"));
    let note = word(row, "note");
    let sense = match (key, keys, always) {
        ("", "", "") => Sense::Lacks {
            why: word(row, "lacks"),
            remedy: word(row, "instead"),
            guards: list(row, "guards"),
        },
        ("", "", always) => Sense::Always(always),
        ("", keys, _) => Sense::Joined { keys, note },
        (key, ..) => Sense::Key { key, conversion: conversion(row), note },
    };
    let option = names.first().copied().unwrap_or_default();
    let (begins, near) = (words(row, "begins").collect(), word(row, "near"));
    let is_of_stud = row.get("stud").and_then(Value::as_bool) == Some(true);
    let harmless = list(row, "unless");
    Meaning { option, names, begins, harmless, near, is_of_stud, sense }
}

fn conversion(row: &Table) -> Conversion {
    match word(row, "as") {
        "path" => Conversion::Path,
        "paths" => Conversion::Paths,
        "number" => Conversion::Number,
        "switch" => Conversion::Switch,
        "seconds" => Conversion::Seconds,
        "milliseconds" => Conversion::Milliseconds,
        "size" => Conversion::Size,
        "words" => Conversion::Words,
        "groups" => Conversion::Groups,
        "versions" => Conversion::Versions,
        "text" => Conversion::Text,
        "word" => Conversion::Word,
        _ => {
            let choice = row.get("choice").and_then(Value::as_table).cloned();
            Conversion::Choice(Box::leak(Box::new(choice.unwrap_or_default())))
        }
    }
}

/// A text of the table, which lives as long as the program.
fn word(row: &Table, name: &str) -> &'static str {
    row.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned().leak()
}

/// The parts of a text between commas.
fn words(row: &Table, name: &str) -> impl Iterator<Item = &'static str> {
    word(row, name).split(',').map(str::trim).filter(|one| !one.is_empty())
}

fn list(row: &Table, name: &str) -> Vec<&'static str> {
    match row.get(name) {
        Some(Value::Array(all)) => {
            all.iter().filter_map(Value::as_str).map(|one| &*one.to_owned().leak()).collect()
        }
        Some(Value::Boolean(true)) => vec![""],
        _ => Vec::new(),
    }
}
