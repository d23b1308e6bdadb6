//! One key of a configuration: what it holds, what holds without it, and how it is told.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The tables around the key and its name, with dots: `service.front.listen`.
    pub path: &'static str,
    pub kind: Kind,
    /// Whether it holds a list of that.
    pub many: bool,
    /// For a table: a value that is no table means this key of it.
    pub shorthand: Option<&'static str>,
    pub default: Default,
    /// The flag of the same meaning, without dashes.
    pub flag: Option<&'static str>,
    /// The meaning of the flag without a value, where it may stand so.
    pub alone: Option<&'static str>,
    pub group: &'static str,
    /// Whether each key in this table is a flag of the same name.
    pub flags: bool,
    /// Whether a list may be written as one text with commas.
    pub commas: bool,
    /// Keys of the same table, without any of which it has no effect.
    pub requires: &'static [&'static str],
    /// Keys of the same table that cannot stand beside it, and why. One of a pair says it.
    pub excludes: (&'static [&'static str], &'static str),
    /// Keys of a document that the flag replaces, beside its namesake and those that it excludes.
    pub replaces: &'static [&'static str],
    /// Names of other programs for the words of a choice: theirs, which may end with `*`, and ours;
    /// nothing = we have no such word, and several words say why.
    pub synonyms: &'static [(&'static str, &'static str)],
    /// One or more sentences; the first is the short help.
    pub help: &'static str,
    pub example: &'static str,
    /// The table whose keys may stand in this one, none of them required.
    pub like: Option<&'static str>,
    /// The keys in a table, where a struct states them.
    pub children: &'static [Self],
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Table,
    /// A place to listen at.
    Address,
    Endpoint,
    Network,
    /// A set of addresses, or a file with one per line.
    Networks,
    Path,
    /// Free text; the word says what of.
    Text(&'static str),
    Boolean,
    /// A number in a range.
    Count(u64, u64),
    /// A time in a range.
    Duration(Duration, Duration),
    /// A number of bytes in a range.
    Size(u64, u64),
    /// `true` or `false`; its flag alone means `true`.
    Switch,
    Choice(&'static [&'static str]),
    /// A TCP port, or a range of them.
    Ports,
    /// A status of HTTP, a class of them (`2xx`), or a range.
    Status,
    /// `"auto"`, a number of threads, or a list of CPUs.
    Threads,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Default {
    Required,
    /// There is no value; the words say what that means.
    Absent(&'static str),
    /// This, as a flag would say it.
    Text(&'static str),
}

/// A key that must be written and has no flag; the methods below say the rest.
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

/// The bytes of a path of this table and this field.
pub const fn path_length(parent: &str, field: &str) -> usize {
    match parent.len() {
        0 => field.len(),
        length => length + 1 + field.len(),
    }
}

/// The path of the key that a field of a table's struct states.
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

/// The number of all keys in a tree of tables. Headings are not counted.
pub const fn count(keys: &[Key]) -> usize {
    let (mut place, mut sum) = (0, 0);
    while place < keys.len() {
        let own = if keys[place].path.is_empty() { 0 } else { 1 };
        sum += own + count(keys[place].children);
        place += 1;
    }
    sum
}

/// All keys of a tree of tables in one row, a table before the keys in it. A key is of the group of
/// its table, unless its row says another; those at the top are of the group that is named here.
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
    /// With a list of its kind. Paths and addresses may hold commas, so that a list of them is no
    /// text with commas.
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

    /// Each key in which is a flag of the same name.
    pub const fn flags(mut self) -> Self {
        self.flags = true;
        self
    }

    /// Whose value, if it is no table, means this key of it.
    pub const fn shorthand(mut self, key: &'static str) -> Self {
        self.shorthand = Some(key);
        self
    }

    /// With no value if nobody writes one; the words say what that means.
    pub const fn absent(mut self, meaning: &'static str) -> Self {
        self.default = Default::Absent(meaning);
        self
    }

    pub const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// With that example, a line of TOML.
    pub const fn example(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }

    /// With the keys of the table of that path, none of them required.
    pub const fn like(mut self, path: &'static str) -> Self {
        self.like = Some(path);
        self
    }

    pub const fn children(mut self, keys: &'static [Self]) -> Self {
        self.children = keys;
        self
    }

    /// The hint for who wrote a document.
    pub fn for_example(&self) -> String {
        format!("for example: {}", self.example)
    }

    /// The last part of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit_once('.').map_or(self.path, |(_, name)| name)
    }

    /// The value of the example, as a flag would take it.
    pub fn example_value(&self) -> String {
        let value = self.example.split_once(" = ").map_or("", |(_, value)| value);
        let list = value.strip_prefix('[').and_then(|v| v.strip_suffix(']'));
        list.unwrap_or(value).replace("\", \"", ",").replace('"', "")
    }

    /// The help's first sentence, without its full stop.
    pub fn short_help(&self) -> &'static str {
        let first = self.help.split_once(". ").map_or(self.help, |(first, _)| first);
        first.trim_end_matches('.')
    }

    /// The path of the table that it stands in; empty at the top.
    pub fn parent(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(parent, _)| parent)
    }
}
