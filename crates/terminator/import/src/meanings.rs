//! The programs whose configurations can be imported, and the table of meanings: what an option of
//! another program is in Lariat.
//!
//! The table serves the importers, the pages about each program, and hints for misplaced options.
//! It is a file for each program, beside this one. `names` are an option's names, `begins` the
//! beginnings of more; of HAProxy, `[[bind]]`, `[[server]]` and `[[global]]` stand before the
//! names. `key`, with `as` or `choice`, is written by itself, `keys` by the importer's own code;
//! `always` needs none; `lacks` has none, and `guards` tells whether the service must be left out
//! then; `near` is a key for hints. `[[default]]` is what the program does unasked. A key is
//! written as its path: `service.front.tls.versions`.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use toml::{Table, Value};

/// All that is known of one program.
struct MeaningTable {
    meanings: Vec<OptionMeaning>,
    defaults: Vec<OldDefault>,
    /// Places in `meanings`.
    by_name: HashMap<String, usize>,
}

/// Parts of a file, and what stands before the names in them.
const SCOPES: [(&str, &str); 4] =
    [("option", ""), ("global", "global "), ("bind", "bind "), ("server", "server ")];

/// The tables of hitch, stunnel, HAProxy and nginx.
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

/// The defaults of a program where ours differ.
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

/// One option of a program.
#[derive(Clone, Debug)]
pub struct OptionMeaning {
    /// The option's name in the program's file; its long flag with dashes if no file has it.
    pub option: &'static str,
    /// All names, the option's own first; flags with their dashes.
    pub names: Vec<&'static str>,
    /// Beginnings of more names.
    pub begins: Vec<&'static str>,
    /// Values by which nothing is lost, and for which no key is written.
    pub harmless: Vec<&'static str>,
    /// The key that begins to do the same, where no key does; or empty.
    pub near: &'static str,
    /// Whether stud has it too, where hitch does.
    pub is_of_stud: bool,
    pub support: OptionSupport,
}

/// The way in which Lariat covers an option.
#[derive(Clone, Debug)]
pub enum OptionSupport {
    /// A key has the option's value, converted.
    Key { key: &'static str, conversion: Conversion, note: &'static str },
    /// Keys have it together with other options: the importer's own code writes them.
    Joined { keys: &'static str, note: &'static str },
    /// Lariat does so in any case, or what it was for does not exist here: no key is written.
    Always(&'static str),
    /// Lariat does not do it.
    Lacks {
        why: &'static str,
        remedy: &'static str,
        /// Without it a service would serve whom the program refuses, where one of these words
        /// stands in its value; the empty word stands in all.
        guards: Vec<&'static str>,
    },
}

/// How the words of an option become the value of a key.
#[derive(Clone, Copy, Debug)]
pub enum Conversion {
    /// As it is.
    Text,
    /// A word, in small letters.
    Word,
    /// A path, one value.
    Path,
    /// A path, added to a list.
    Paths,
    /// A number within the key's range.
    Number,
    /// `on`, `yes`, `true` and `1`, and their contraries.
    Switch,
    /// A time; a bare number counts seconds.
    Seconds,
    /// A time; a bare number counts milliseconds.
    Milliseconds,
    /// A number of bytes, with or without `k`, `m` and `g`.
    Size,
    /// Words with commas or blanks between them, as a list.
    Words,
    /// Curves by the names that OpenSSL has, with colons between them.
    Groups,
    /// Versions of TLS by the names that OpenSSL and others have.
    Versions,
    /// One word for another.
    Choice(&'static Table),
}

/// The value that a program uses for what nobody wrote, where Lariat's own differs.
#[derive(Clone, Debug)]
pub struct OldDefault {
    /// The kind of service that has it alone; empty = all.
    pub of: &'static str,
    pub option: &'static str,
    pub key: &'static str,
    /// The value of the key.
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

    /// Whether nothing is lost without that value.
    pub(crate) fn is_harmless(&self, value: &str) -> bool {
        self.harmless.iter().any(|one| one.eq_ignore_ascii_case(value))
    }

    /// Whether keys are written for it.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self.support, OptionSupport::Key { .. } | OptionSupport::Joined { .. })
    }

    /// The first key that it names, or one that is near.
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

/// A program that may have stood in Lariat's place.
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

    /// The word for it on a command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hitch => "hitch",
            Self::Stud => "stud",
            Self::Stunnel => "stunnel",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
        }
    }

    /// The name of the program.
    pub fn title(self) -> &'static str {
        match self {
            Self::Haproxy => "HAProxy",
            other => other.word(),
        }
    }

    /// The program of that word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }
}

impl fmt::Display for Predecessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}
