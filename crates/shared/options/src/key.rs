//! One key of a configuration: what it holds, what holds without it, and how it is told.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its tables and its name, with dots: `service.front.listen`.
    pub path: &'static str,
    pub kind: Kind,
    /// Whether it holds a list of that.
    pub many: bool,
    /// For a table: a value that is no table means this key of it.
    pub shorthand: Option<&'static str>,
    pub default: Default,
    /// The flag of the same meaning, without dashes.
    pub flag: Option<&'static str>,
    /// What its flag means without a value, where it may stand so.
    pub alone: Option<&'static str>,
    pub group: &'static str,
    /// Whether a list may be written as one text with commas.
    pub commas: bool,
    /// Keys of the same table, without any of which it has no effect.
    pub requires: &'static [&'static str],
    /// Keys of the same table that cannot stand beside it, and why. One of a pair says it.
    pub excludes: (&'static [&'static str], &'static str),
    /// What a flag of this key replaces in a document, beside its namesake and what it excludes.
    pub replaces: &'static [&'static str],
    /// What other programs call the words of a choice: theirs, which may end with `*`, and ours;
    /// nothing = we have no such word, and several words say why.
    pub synonyms: &'static [(&'static str, &'static str)],
    /// One or more sentences; the first is the short help.
    pub help: &'static str,
    pub example: &'static str,
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
    /// `"auto"`, a number of threads, or a list of CPUs.
    Threads,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Default {
    Required,
    /// Nothing; the words say what that means.
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
        commas: false,
        requires: &[],
        excludes: (&[], ""),
        replaces: &[],
        synonyms: &[],
        help: "",
        example: "",
    }
}

impl Key {
    /// With a list of its kind. Paths and addresses may hold commas, so that a list of them is no
    /// text with commas.
    pub const fn many(mut self) -> Self {
        self.many = true;
        self.commas = !matches!(self.kind, Kind::Path | Kind::Address | Kind::Table);
        self
    }

    /// With a list of its kind, an element a flag: they may hold commas.
    pub const fn repeated(mut self) -> Self {
        self.many = true;
        self
    }

    pub const fn group(mut self, title: &'static str) -> Self {
        self.group = title;
        self
    }

    /// Whose value, if it is no table, means this key of it.
    pub const fn shorthand(mut self, key: &'static str) -> Self {
        self.shorthand = Some(key);
        self
    }

    /// With this value if nobody writes one.
    pub const fn default(mut self, text: &'static str) -> Self {
        self.default = Default::Text(text);
        self
    }

    /// With no value if nobody writes one; the words say what that means.
    pub const fn absent(mut self, meaning: &'static str) -> Self {
        self.default = Default::Absent(meaning);
        self
    }

    pub const fn flag(mut self, name: &'static str) -> Self {
        self.flag = Some(name);
        self
    }

    /// Whose flag means this if no value follows it.
    pub const fn alone(mut self, text: &'static str) -> Self {
        self.alone = Some(text);
        self
    }

    /// Without effect unless one of these stands beside it.
    pub const fn requires(mut self, keys: &'static [&'static str]) -> Self {
        self.requires = keys;
        self
    }

    /// Never beside these, for that reason.
    pub const fn excludes(mut self, keys: &'static [&'static str], why: &'static str) -> Self {
        self.excludes = (keys, why);
        self
    }

    pub const fn replaces(mut self, keys: &'static [&'static str]) -> Self {
        self.replaces = keys;
        self
    }

    pub const fn synonyms(mut self, words: &'static [(&'static str, &'static str)]) -> Self {
        self.synonyms = words;
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

    /// The last part of the path.
    pub fn name(&self) -> &'static str {
        self.path
            .rsplit_once('.')
            .map_or(self.path, |(_, name)| name)
    }

    /// The value of the example, as a flag would take it.
    pub fn example_value(&self) -> String {
        let value = self
            .example
            .split_once(" = ")
            .map_or("", |(_, value)| value);
        let list = value.strip_prefix('[').and_then(|v| v.strip_suffix(']'));
        list.unwrap_or(value)
            .replace("\", \"", ",")
            .replace('"', "")
    }

    /// The help's first sentence, without its full stop.
    pub fn short_help(&self) -> &'static str {
        let first = self
            .help
            .split_once(". ")
            .map_or(self.help, |(first, _)| first);
        first.trim_end_matches('.')
    }

    /// The path of the table that it stands in; empty at the top.
    pub fn parent(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(parent, _)| parent)
    }
}
