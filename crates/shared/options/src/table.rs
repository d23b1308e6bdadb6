//! A table of options as a whole: finding a key by path or flag.

use crate::diagnostic::{Problem, nearest};
use crate::key::{Key, Kind};

/// The options of a program.
#[derive(Debug)]
pub struct Table {
    /// Every key, in the order of the reference; a table before the keys in it.
    pub keys: &'static [Key],
    /// Names that other programs have for these options.
    pub foreign: fn() -> &'static [Foreign],
    /// Paths that a later version will know: a document that has them is ahead of this program.
    pub later: &'static [&'static str],
    /// The command that lists the flags.
    pub help: &'static str,
}

/// The name of another program for a key or a flag.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    pub name: &'static str,
    pub of: &'static str,
    /// The path of the key here.
    pub now: &'static str,
    /// The value there; empty = the same.
    pub value: &'static str,
}

impl Foreign {
    /// The name that a program has for a key, whose value is the same here.
    pub const fn new(name: &'static str, of: &'static str, now: &'static str) -> Self {
        Self { name, of, now, value: "" }
    }

    /// Whether this was typed: programs differ in letters' case, `_` and `-`.
    fn is(&self, typed: &str) -> bool {
        let plain = |name: &str| name.to_ascii_lowercase().replace('_', "-");
        // A letter alone is a flag, and `-C` is another than `-c`.
        typed == self.name || typed.len() > 1 && plain(typed) == plain(self.name)
    }
}

impl Table {
    pub fn find(&self, path: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.path == path)
    }

    /// The key of that flag, given without dashes.
    pub fn find_flag(&self, flag: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.flag == Some(flag))
    }

    /// The keys that stand directly in a table; the empty path is the top.
    pub fn children(&self, parent: &str) -> impl Iterator<Item = &'static Key> {
        self.keys.iter().filter(move |key| key.parent() == parent)
    }

    /// The key that another program has this name for, with that program.
    pub fn foreign(&self, typed: &str) -> Option<(&'static Foreign, &'static Key)> {
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

    /// The key that a value means which is no table.
    pub fn shorthand_key(&self, key: &Key) -> Option<&'static Key> {
        let name = key.shorthand?;
        self.children(key.path).find(|child| child.name() == name)
    }

    /// The flag that gives a key: its own, or that of the table that it is the shorthand of.
    pub fn giving_flag(&self, key: &Key) -> Option<&'static str> {
        let is_short_for_key = |table: &&Key| table.shorthand == Some(key.name());
        key.flag.or_else(|| self.find(key.parent()).filter(is_short_for_key)?.flag)
    }

    /// The hint for who gave a key by its flag: the key's example as a flag, or what its value is
    /// called, if the example is of several values.
    pub(crate) fn flag_example(&self, key: &Key) -> Option<String> {
        let flag = self.giving_flag(key)?;
        let value = match key.example_value() {
            table if table.contains('{') => self.value_name(key).to_owned(),
            value if value == "true" => "on".to_owned(),
            value if value == "false" => "off".to_owned(),
            value => value,
        };
        // A shell has another meaning for these.
        let is_of_shell =
            |letter: char| letter.is_whitespace() || "[]<>*?&;|$`\"(){}~#!".contains(letter);
        let quote = if value.contains(is_of_shell) { "'" } else { "" };
        Some(format!("for example: --{flag} {quote}{value}{quote}"))
    }

    /// The name of a flag's value in the help.
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

    /// Faults of the rows themselves, for a test of the table.
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
