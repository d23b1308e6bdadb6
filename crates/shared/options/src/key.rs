//! Keys of a configuration: kind, default, flag and help of each; and the table of all keys of a
//! program, by path or flag.

use std::time::Duration;

use crate::diagnostic::{Problem, nearest};

#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Names of the enclosing tables and the key, with dots: `service.front.listen`.
    pub path: &'static str,
    pub kind: Kind,
    /// Whether the key holds a list of that kind.
    pub many: bool,
    /// Key of this table that a value other than a table stands for.
    pub shorthand: Option<&'static str>,
    pub default: Default,
    /// Flag of the same meaning, without dashes.
    pub flag: Option<&'static str>,
    /// Meaning of the flag without a value, where that is allowed.
    pub alone: Option<&'static str>,
    pub group: &'static str,
    /// Whether each key in this table is a flag of the same name.
    pub flags: bool,
    /// Whether a list may be written as one text with commas.
    pub commas: bool,
    /// Keys of the same table; without any of them this key has no effect.
    pub requires: &'static [&'static str],
    /// Keys of the same table that exclude this one, and why. Only one of a pair lists the other.
    pub excludes: (&'static [&'static str], &'static str),
    /// Keys of a document that the flag replaces, beside its namesake and those that it excludes.
    pub replaces: &'static [&'static str],
    /// Other programs' names (which may end with `*`) for the words of a choice, each with our
    /// word; empty = no such word here; several words = the reason why there is none.
    pub synonyms: &'static [(&'static str, &'static str)],
    /// One or more sentences; the first is the short help.
    pub help: &'static str,
    pub example: &'static str,
    /// Table whose keys may stand in this one, none of them required.
    pub like: Option<&'static str>,
    /// Keys in a table, if a struct declares them.
    pub children: &'static [Self],
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Table,
    /// Address to listen on.
    Address,
    Endpoint,
    Network,
    /// Set of addresses, or a file with one per line.
    Networks,
    Path,
    /// Free text, with a word for its meaning.
    Text(&'static str),
    Boolean,
    /// Number in a range.
    Count(u64, u64),
    /// Duration in a range.
    Duration(Duration, Duration),
    /// Number of bytes in a range.
    Size(u64, u64),
    /// `true` or `false`; its flag alone means `true`.
    Switch,
    Choice(&'static [&'static str]),
    /// TCP port, or a range of ports.
    Ports,
    /// HTTP status, a class of them (`2xx`), or a range.
    Status,
    /// `"auto"`, a number of threads, or a list of CPUs.
    Threads,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Default {
    Required,
    /// No value; the words explain the effect.
    Absent(&'static str),
    /// Default value in the notation of flags.
    Text(&'static str),
}

/// Makes a key that is required and has no flag; the methods below change that.
pub const fn key(path: &'static str, kind: Kind) -> Key {
    Key {
        path,
        kind,
        many: false,
        shorthand: None,
        default: Default::Required,
        flag: None,
        alone: None,
        group: "",
        flags: false,
        commas: false,
        requires: &[],
        excludes: (&[], ""),
        replaces: &[],
        synonyms: &[],
        help: "",
        example: "",
        like: None,
        children: &[],
    }
}

pub const fn table(path: &'static str) -> Key {
    key(path, Kind::Table)
}

/// Returns the number of bytes of the path of this table and field.
pub const fn path_length(parent: &str, field: &str) -> usize {
    match parent.len() {
        0 => field.len(),
        length => length + 1 + field.len(),
    }
}

/// Returns the path of the key that a field of a table's struct declares.
pub const fn path<const LENGTH: usize>(parent: &str, field: &str) -> [u8; LENGTH] {
    let (parent, field) = (parent.as_bytes(), field.as_bytes());
    let (mut path, mut place) = ([b'.'; LENGTH], 0);
    while place < parent.len() {
        path[place] = parent[place];
        place += 1;
    }
    place = 0;
    while place < field.len() {
        path[LENGTH - field.len() + place] = match field[place] {
            b'_' => b'-',
            other => other,
        };
        place += 1;
    }
    path
}

pub const fn utf8(path: &[u8]) -> &str {
    match std::str::from_utf8(path) {
        Ok(text) => text,
        Err(_) => panic!("names of fields are UTF-8"),
    }
}

/// Returns the number of all keys in a tree of tables. Headings do not count.
pub const fn count(keys: &[Key]) -> usize {
    let (mut place, mut sum) = (0, 0);
    while place < keys.len() {
        let own = if keys[place].path.is_empty() { 0 } else { 1 };
        sum += own + count(keys[place].children);
        place += 1;
    }
    sum
}

/// Returns all keys of a tree of tables as one array, a table before its keys. A key is in the
/// group of its table, unless its row names another; `group` is the group at the top level.
pub const fn flattened<const COUNT: usize>(keys: &[Key], group: &'static str) -> [Key; COUNT] {
    let mut all = [table(""); COUNT];
    flatten(keys, group, &mut all, 0);
    all
}

const fn flatten(keys: &[Key], group: &'static str, all: &mut [Key], mut next: usize) -> usize {
    let mut place = 0;
    while place < keys.len() {
        let key = keys[place];
        let group = if key.group.is_empty() { group } else { key.group };
        if !key.path.is_empty() {
            all[next] = key.group(group);
            next += 1;
        }
        next = flatten(key.children, group, all, next);
        place += 1;
    }
    next
}

impl Key {
    /// Makes the key hold a list of its kind. Paths and addresses may contain commas, so a list of
    /// them cannot be written as one text with commas.
    pub const fn many(mut self) -> Self {
        self.many = true;
        self.commas = !matches!(self.kind, Kind::Path | Kind::Address | Kind::Table);
        self
    }

    pub const fn group(mut self, title: &'static str) -> Self {
        self.group = title;
        self
    }

    pub const fn flag(mut self, name: &'static str) -> Self {
        self.flag = Some(name);
        self
    }

    /// Makes each key in this table a flag of the same name.
    pub const fn flags(mut self) -> Self {
        self.flags = true;
        self
    }

    /// Declares that a value other than a table means this key of the table.
    pub const fn shorthand(mut self, key: &'static str) -> Self {
        self.shorthand = Some(key);
        self
    }

    /// Makes the key optional without a default; the words explain the absence.
    pub const fn absent(mut self, meaning: &'static str) -> Self {
        self.default = Default::Absent(meaning);
        self
    }

    pub const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// Sets the example, a line of TOML.
    pub const fn example(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }

    /// Allows the keys of the table of that path in this one, none of them required.
    pub const fn like(mut self, path: &'static str) -> Self {
        self.like = Some(path);
        self
    }

    pub const fn children(mut self, keys: &'static [Self]) -> Self {
        self.children = keys;
        self
    }

    /// Returns the hint for the author of a document.
    pub fn for_example(&self) -> String {
        format!("for example: {}", self.example)
    }

    /// Returns the last part of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit_once('.').map_or(self.path, |(_, name)| name)
    }

    /// Returns the value of the example in the notation of flags.
    pub fn example_value(&self) -> String {
        let value = self.example.split_once(" = ").map_or("", |(_, value)| value);
        let list = value.strip_prefix('[').and_then(|v| v.strip_suffix(']'));
        list.unwrap_or(value).replace("\", \"", ",").replace('"', "")
    }

    /// Returns the help's first sentence, without its full stop.
    pub fn short_help(&self) -> &'static str {
        let first = self.help.split_once(". ").map_or(self.help, |(first, _)| first);
        first.trim_end_matches('.')
    }

    /// Returns the path of the enclosing table; empty at the top.
    pub fn parent(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(parent, _)| parent)
    }
}

/// The options of a program.
#[derive(Debug)]
pub struct Table {
    /// All keys, in the order of the reference; a table before its keys.
    pub keys: &'static [Key],
    /// Names that other programs have for these options.
    pub foreign: fn() -> &'static [ForeignKeyName],
    /// Paths that a later version will know: a document that has them is ahead of this program.
    pub later: &'static [&'static str],
    /// Command that lists the flags.
    pub help: &'static str,
}

/// The name of another program for a key or a flag.
#[derive(Clone, Copy, Debug)]
pub struct ForeignKeyName {
    pub name: &'static str,
    pub of: &'static str,
    /// Path of the key here.
    pub now: &'static str,
    /// Value there; empty = the same.
    pub value: &'static str,
}

impl ForeignKeyName {
    /// The name that a program has for a key, whose value is the same here.
    pub const fn new(name: &'static str, of: &'static str, now: &'static str) -> Self {
        Self { name, of, now, value: "" }
    }

    /// Whether this name was typed. Programs differ in letters' case, `_` and `-`.
    fn is(&self, typed: &str) -> bool {
        let plain = |name: &str| name.to_ascii_lowercase().replace('_', "-");
        // A single letter is a flag, and `-C` differs from `-c`.
        typed == self.name || typed.len() > 1 && plain(typed) == plain(self.name)
    }
}

impl Table {
    pub fn find(&self, path: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.path == path)
    }

    /// Returns the key of that flag, given without dashes.
    pub fn find_flag(&self, flag: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.flag == Some(flag))
    }

    /// Returns the keys that stand directly in a table; the empty path is the top.
    pub fn children(&self, parent: &str) -> impl Iterator<Item = &'static Key> {
        self.keys.iter().filter(move |key| key.parent() == parent)
    }

    /// The key that another program has this name for, with that program.
    pub fn foreign(&self, typed: &str) -> Option<(&'static ForeignKeyName, &'static Key)> {
        // Two programs may differ in a dash alone.
        let all = (self.foreign)();
        let exactly = all.iter().find(|one| one.name == typed);
        let foreign = exactly.or_else(|| all.iter().find(|one| one.is(typed)))?;
        Some((foreign, self.find(foreign.now)?))
    }

    pub fn unknown_flag(&self, name: &str) -> Problem {
        let dashes = if name.chars().count() == 1 { "-" } else { "--" };
        let problem = Problem::new(format!("there is no flag {dashes}{}", name.escape_debug()));
        if let Some((foreign, key)) = self.foreign(name)
            && let Some(flag) = self.giving_flag(key)
        {
            let is_now = format!("{dashes}{name} of {} is --{flag}", foreign.of);
            return problem.hint(match (foreign.value, self.flag_example(key)) {
                ("", Some(example)) => format!("{is_now} here; {example}"),
                ("", None) => format!("{is_now} here"),
                (value, _) => format!("{is_now} {value} here"),
            });
        }
        match nearest(name, self.keys.iter().filter_map(|key| key.flag)) {
            Some(flag) => problem.hint(format!("did you mean --{flag}?")),
            None => problem.hint(format!("`{}` lists the flags", self.help)),
        }
    }

    /// Returns the key that a value other than a table stands for.
    pub fn shorthand_key(&self, key: &Key) -> Option<&'static Key> {
        let name = key.shorthand?;
        self.children(key.path).find(|child| child.name() == name)
    }

    /// Returns the flag that gives a key: its own, or that of the table whose shorthand it is.
    pub fn giving_flag(&self, key: &Key) -> Option<&'static str> {
        let is_short_for_key = |table: &&Key| table.shorthand == Some(key.name());
        key.flag.or_else(|| self.find(key.parent()).filter(is_short_for_key)?.flag)
    }

    /// Returns the hint for a key given by its flag: the example as a flag, or the name of the
    /// value if the example has several values.
    pub(crate) fn flag_example(&self, key: &Key) -> Option<String> {
        let flag = self.giving_flag(key)?;
        let value = match key.example_value() {
            table if table.contains('{') => self.value_name(key).to_owned(),
            value if value == "true" => "on".to_owned(),
            value if value == "false" => "off".to_owned(),
            value => value,
        };
        // These characters are special to a shell.
        let is_of_shell =
            |letter: char| letter.is_whitespace() || "[]<>*?&;|$`\"(){}~#!".contains(letter);
        let quote = if value.contains(is_of_shell) { "'" } else { "" };
        Some(format!("for example: --{flag} {quote}{value}{quote}"))
    }

    /// Returns the name of a flag's value in the help.
    pub fn value_name(&self, key: &Key) -> &'static str {
        match key.kind {
            Kind::Table => {
                let short = self.shorthand_key(key);
                short.map_or("TABLE", |key| self.value_name(key))
            }
            Kind::Address | Kind::Endpoint => "ADDRESS",
            Kind::Network => "NETWORK",
            Kind::Networks => "NETWORK|FILE",
            Kind::Path => "PATH",
            Kind::Text(what) => what,
            Kind::Boolean => "on|off",
            Kind::Switch => "",
            Kind::Count(..) => "NUMBER",
            Kind::Duration(..) => "TIME",
            Kind::Size(..) => "SIZE",
            Kind::Choice(_) => "WORD",
            Kind::Ports => "PORTS",
            Kind::Status => "STATUS",
            Kind::Threads => "NUMBER|CPUS",
        }
    }

    /// Returns the faults of the rows themselves, for a test of the table.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (index, key) in self.keys.iter().enumerate() {
            let (path, parent) = (key.path, key.parent());
            let earlier = &self.keys[..index];
            let (excluded, _) = key.excludes;
            let is_sibling = |name: &str| self.children(parent).any(|one| one.name() == name);
            let mut related = [key.requires, excluded, key.replaces].concat();
            related.retain(|name| !is_sibling(name));
            let has_flag = self.giving_flag(key).is_some() || matches!(key.kind, Kind::Table);
            let has_example = !key.example.is_empty();
            for (is_wrong, fault) in [
                (earlier.iter().any(|one| one.path == path), "stands twice"),
                (
                    key.flag.is_some() && earlier.iter().any(|one| one.flag == key.flag),
                    "has a flag of another",
                ),
                (!has_flag, "has no flag"),
                (!key.help.ends_with('.'), "has no sentence of help"),
                (!has_example, "has no example"),
                (!related.is_empty(), "speaks of a key that is not beside it"),
                (
                    key.shorthand.is_some() && self.shorthand_key(key).is_none(),
                    "is short for a key that is not there",
                ),
            ] {
                if is_wrong {
                    faults.push(format!("{path} {fault}"));
                }
            }
        }
        for one in (self.foreign)() {
            let known = self.find(one.now);
            if known.is_none_or(|key| key.name() == one.name) {
                faults.push(format!("{} of {} is not {}", one.name, one.of, one.now));
            }
        }
        faults
    }
}
