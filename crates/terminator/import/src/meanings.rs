//! The programs whose configurations can be imported, and the table of meanings: the equivalent in
//! Lariat of each option of another program.
//!
//! The table serves the importers, the pages about each program, and hints for misplaced options.
//! Each program has a file of it beside this one. `names` are an option's names, `begins` the
//! beginnings of more; in HAProxy's, `[[bind]]`, `[[server]]` and `[[global]]` prefix the names.
//! `key`, with `as` or `choice`, is written by itself, `keys` by the importer's own code; `always`
//! needs no key; `lacks` has none, and `guards` decides whether the service must be left out then;
//! `near` is a key for hints. `[[default]]` is the program's behaviour when nothing is set. A key
//! is written as its path: `service.front.tls.versions`.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use toml::{Table, Value};

/// Meanings and defaults of one program.
struct MeaningTable {
    meanings: Vec<OptionMeaning>,
    defaults: Vec<OldDefault>,
    /// Indices in `meanings`.
    by_name: HashMap<String, usize>,
}

/// Parts of a file, and the prefix of the names in them.
const SCOPES: [(&str, &str); 4] =
    [("option", ""), ("global", "global "), ("bind", "bind "), ("server", "server ")];

/// Tables of hitch, stunnel, HAProxy and nginx.
static TABLES: [LazyLock<MeaningTable>; 4] = [
    LazyLock::new(|| read(include_str!("meanings/hitch.toml"))),
    LazyLock::new(|| read(include_str!("meanings/stunnel.toml"))),
    LazyLock::new(|| read(include_str!("meanings/haproxy.toml"))),
    LazyLock::new(|| read(include_str!("meanings/nginx.toml"))),
];

fn table(predecessor: Predecessor) -> &'static MeaningTable {
    match predecessor {
        Predecessor::Hitch | Predecessor::Stud => &TABLES[0],
        Predecessor::Stunnel => &TABLES[1],
        Predecessor::Haproxy => &TABLES[2],
        Predecessor::Nginx => &TABLES[3],
    }
}

/// The meanings of all options of a program.
pub(crate) fn of(predecessor: Predecessor) -> &'static [OptionMeaning] {
    &table(predecessor).meanings
}

/// Returns the defaults of a program that differ from Lariat's.
pub(crate) fn defaults_of(predecessor: Predecessor) -> &'static [OldDefault] {
    &table(predecessor).defaults
}

/// The meaning of the option with that name; of stunnel in any case of letters.
pub(crate) fn find(predecessor: Predecessor, name: &str) -> Option<&'static OptionMeaning> {
    let MeaningTable { meanings, by_name, .. } = table(predecessor);
    if let Some(place) = by_name.get(name) {
        return meanings.get(*place);
    }
    let alike = |one: &&OptionMeaning| one.names.iter().any(|one| one.eq_ignore_ascii_case(name));
    let alike = || meanings.iter().find(alike).filter(|_| predecessor == Predecessor::Stunnel);
    let begins = |one: &&OptionMeaning| one.begins.iter().any(|begin| name.starts_with(begin));
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
    let names = |(place, one): (usize, &OptionMeaning)| {
        let plain = one.names.iter().map(|name| (*name).to_owned());
        // Long flag without an option of that name in the file.
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

fn meaning(row: &Table, scope: &str) -> OptionMeaning {
    let names: Vec<&str> = words(row, "names")
        .map(|name| if scope.is_empty() { name } else { format!("{scope}{name}").leak() })
        .collect();
    let (key, keys, always) = (word(row, "key"), word(row, "keys"), word(row, "always"));
    let note = word(row, "note");
    let support = match (key, keys, always) {
        ("", "", "") => OptionSupport::Lacks {
            why: word(row, "lacks"),
            remedy: word(row, "instead"),
            guards: list(row, "guards"),
        },
        ("", "", always) => OptionSupport::Always(always),
        ("", keys, _) => OptionSupport::Joined { keys, note },
        (key, ..) => OptionSupport::Key { key, conversion: conversion(row), note },
    };
    let option = names.first().copied().unwrap_or_default();
    let (begins, near) = (words(row, "begins").collect(), word(row, "near"));
    let is_of_stud = row.get("stud").and_then(Value::as_bool) == Some(true);
    let harmless = list(row, "unless");
    OptionMeaning { option, names, begins, harmless, near, is_of_stud, support }
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

/// Returns a text of the table, which lives as long as the program.
fn word(row: &Table, name: &str) -> &'static str {
    row.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned().leak()
}

/// Splits a text of the table at commas.
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

/// One option of a program.
#[derive(Clone, Debug)]
pub struct OptionMeaning {
    /// The option's name in the program's file; its long flag with dashes if no file has it.
    pub option: &'static str,
    /// All names, the option's own first; flags with their dashes.
    pub names: Vec<&'static str>,
    /// Beginnings of more names.
    pub begins: Vec<&'static str>,
    /// Values that lose nothing and need no key.
    pub harmless: Vec<&'static str>,
    /// Nearest key where no key does the same; or empty.
    pub near: &'static str,
    /// Whether stud also has this option of hitch.
    pub is_of_stud: bool,
    pub support: OptionSupport,
}

/// How Lariat covers an option.
#[derive(Clone, Debug)]
pub enum OptionSupport {
    /// A key has the option's value, converted.
    Key { key: &'static str, conversion: Conversion, note: &'static str },
    /// Keys cover the option together with others: the importer's own code writes them.
    Joined { keys: &'static str, note: &'static str },
    /// Lariat always does so, or the option's purpose does not exist in it: no key is written.
    Always(&'static str),
    /// Lariat does not do it.
    Lacks {
        why: &'static str,
        remedy: &'static str,
        /// Words in the option's value for which a service without the option would serve clients
        /// that the program refuses; the empty word is in every value.
        guards: Vec<&'static str>,
    },
}

/// How the words of an option become the value of a key.
#[derive(Clone, Copy, Debug)]
pub enum Conversion {
    /// Text, unchanged.
    Text,
    /// Word in lower case.
    Word,
    /// Path, one value.
    Path,
    /// Path, added to a list.
    Paths,
    /// Number within the key's range.
    Number,
    /// `on`, `yes`, `true` and `1`, and their opposites.
    Switch,
    /// Time; a bare number counts seconds.
    Seconds,
    /// Time; a bare number counts milliseconds.
    Milliseconds,
    /// Number of bytes, with or without `k`, `m` and `g`.
    Size,
    /// Words separated by commas or blanks, as a list.
    Words,
    /// Curves by their OpenSSL names, separated by colons.
    Groups,
    /// Versions of TLS by the names that OpenSSL and others use.
    Versions,
    /// One word for another.
    Choice(&'static Table),
}

/// Value that a program uses for an unset option, where Lariat's default differs.
#[derive(Clone, Debug)]
pub struct OldDefault {
    /// Kind of service that alone has this default; empty for all.
    pub of: &'static str,
    pub option: &'static str,
    pub key: &'static str,
    /// Value of the key.
    pub value: Value,
    pub note: &'static str,
}

impl OptionMeaning {
    /// Whether a service must be left out because of this value: it would serve more clients, or
    /// trust more servers, than before.
    pub(crate) fn guards(&self, value: &str) -> bool {
        let OptionSupport::Lacks { guards, .. } = &self.support else { return false };
        let value = value.to_ascii_lowercase();
        let is_in = |word: &&str| value.contains(&word.to_ascii_lowercase());
        !self.is_harmless(&value) && guards.iter().any(is_in)
    }

    /// Reports whether leaving that value out loses nothing.
    pub(crate) fn is_harmless(&self, value: &str) -> bool {
        self.harmless.iter().any(|one| one.eq_ignore_ascii_case(value))
    }

    /// Reports whether keys are written for the option.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self.support, OptionSupport::Key { .. } | OptionSupport::Joined { .. })
    }

    /// Returns the first key that the option names, or the nearest one.
    pub fn key(&self) -> Option<&'static str> {
        match self.support {
            OptionSupport::Key { key, .. } => Some(key),
            OptionSupport::Joined { keys, .. } => {
                keys.split([' ', ',']).find(|word| word.contains('.') || *word == "service")
            }
            _ => Some(self.near).filter(|near| !near.is_empty()),
        }
    }
}

/// Program that Lariat may replace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Predecessor {
    Hitch,
    Stud,
    Stunnel,
    Haproxy,
    Nginx,
}

impl Predecessor {
    pub const ALL: [Self; 5] = [Self::Hitch, Self::Stud, Self::Stunnel, Self::Haproxy, Self::Nginx];

    /// Returns the program's word on a command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hitch => "hitch",
            Self::Stud => "stud",
            Self::Stunnel => "stunnel",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
        }
    }

    /// Returns the name of the program.
    pub fn title(self) -> &'static str {
        match self {
            Self::Haproxy => "HAProxy",
            other => other.word(),
        }
    }

    /// Returns the program with that word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }
}

impl fmt::Display for Predecessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}
