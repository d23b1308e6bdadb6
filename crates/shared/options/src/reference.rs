//! Help and reference pages, made from the rows of a table.

use std::fmt::Write as _;

use crate::key::{Default, Key, Kind};
use crate::quantity;
use crate::table::Table;

/// The widest line of a help, in characters.
const LINE_CHARACTERS_MAX: usize = 92;

impl Table {
    /// The entries of all keys as Markdown, each with its value, default, flag and example.
    pub fn page(&self) -> String {
        let entries = self.keys.iter().map(|key| {
            let level = if key.parent().is_empty() { "##" } else { "###" };
            self.entry(key, level)
        });
        entries.collect()
    }

    /// The same beneath the headings of their groups.
    pub fn page_by_group(&self) -> String {
        let (mut text, mut group) = (String::new(), "");
        for key in self.keys {
            if key.group != group {
                group = key.group;
                _ = writeln!(text, "\n## {group}");
            }
            text.push_str(&self.entry(key, "###"));
        }
        text
    }

    /// The keys that somebody may mean by a path, the end of one, or a flag with or without dashes.
    pub fn meant(&self, name: &str) -> Vec<&'static Key> {
        let flag = name.trim_start_matches('-');
        let is_meant = |key: &&Key| {
            let rest = key.path.strip_suffix(name);
            key.flag == Some(flag)
                || rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.keys.iter().filter(is_meant).collect()
    }

    pub fn entry_text(&self, key: &Key) -> String {
        let facts = self.facts(key).into_iter();
        let facts: String = facts.map(|fact| format!("  {fact}\n")).collect();
        format!("{}\n{}{facts}", key.path, indented(key.help)).replace('`', "")
    }

    /// The entry, and for a table the names of its keys.
    pub fn help_text(&self, key: &Key) -> String {
        let keys: Vec<_> = self.children(key.path).map(Key::name).collect();
        let listed = indented(&format!("Keys: {}", keys.join(", ")));
        let fact = if keys.is_empty() { "" } else { listed.trim_start_matches("    ") };
        self.entry_text(key) + fact
    }

    fn entry(&self, key: &Key, level: &str) -> String {
        let Key { path, help, .. } = key;
        let facts = [
            Some(holds(key)),
            match key.default {
                Default::Required => Some("required".to_owned()),
                _ => default(key).map(|default| format!("default: {default}")),
            },
            key.flag.map(|flag| format!("`{}`", self.short_usage(key, flag))),
        ];
        let facts: Vec<_> = facts.into_iter().flatten().collect();
        let facts = facts.join("; ");
        // The facts of a plain value, in the forms of the page's head, are an example of it; of a
        // table its keys, which follow, have theirs.
        let is_plain = match key.kind {
            Kind::Table => !key.many,
            Kind::Boolean
            | Kind::Switch
            | Kind::Choice(_)
            | Kind::Path
            | Kind::Count(..)
            | Kind::Duration(..)
            | Kind::Size(..) => true,
            _ => false,
        };
        let shown = if is_plain { "" } else { key.example };
        let example = if shown.is_empty() { String::new() } else { format!("\n    {shown}\n") };
        format!("\n{level} `{path}`\n\n{help}\n\n*{facts}*\n{example}")
    }

    fn facts(&self, key: &Key) -> Vec<String> {
        let default = default(key).map(|default| format!("Default: {default}"));
        let flag = key.flag.map(|flag| format!("Flag: {}", self.flag_name(key, flag)));
        let example = format!("Example: `{}`", key.example);
        let holds = format!("Holds: {}", holds(key));
        let facts = [Some(holds), default, flag, Some(example)];
        facts.into_iter().flatten().collect()
    }

    fn flag_name(&self, key: &Key, flag: &str) -> String {
        let again = if key.many { ", repeatable" } else { "" };
        format!("`{}`{again}", self.usage(key, flag))
    }

    /// A flag, with what its value is called where that says more than the facts beside it.
    fn short_usage(&self, key: &Key, flag: &str) -> String {
        let name = self.value_name(key);
        let says_nothing = name.bytes().all(|byte| byte.is_ascii_uppercase());
        match key.alone {
            None if says_nothing => format!("--{flag}"),
            _ => self.usage(key, flag),
        }
    }

    /// A flag with what its value is called, in brackets if it may be left out.
    fn usage(&self, key: &Key, flag: &str) -> String {
        match (key.alone, self.value_name(key)) {
            (_, "") => format!("--{flag}"),
            (None, name) => format!("--{flag} {name}"),
            (Some(_), name) => format!("--{flag} [{name}]"),
        }
    }
}

fn holds(key: &Key) -> String {
    let range = |what, min, max| format!("{what}, {min} to {max}");
    let one = match key.kind {
        Kind::Table => "table".to_owned(),
        Kind::Address => "address".to_owned(),
        Kind::Endpoint => "address or host name with port".to_owned(),
        Kind::Network => "network (CIDR), address or `unix`".to_owned(),
        Kind::Networks => "network (CIDR), address, `unix`, or file".to_owned(),
        Kind::Path => "path".to_owned(),
        Kind::Text(_) => "text".to_owned(),
        Kind::Boolean | Kind::Switch => "boolean".to_owned(),
        Kind::Count(min, max) => range("number", min.to_string(), max.to_string()),
        Kind::Duration(min, max) => {
            range("time", quantity::show_duration(min), quantity::show_duration(max))
        }
        Kind::Size(min, max) => range("size", quantity::show_size(min), quantity::show_size(max)),
        Kind::Choice(words) => format!("`{}`", words.join("`, `")),
        Kind::Ports => "port, or range of ports".to_owned(),
        Kind::Status => "status, class or range of them".to_owned(),
        Kind::Threads => "`auto`, a number, or a list of CPUs".to_owned(),
    };
    let one = match key.shorthand {
        Some(short) => format!("{one}, or a value that means its `{short}`"),
        None => one,
    };
    if key.many { format!("list: {one}") } else { one }
}

fn default(key: &Key) -> Option<String> {
    match key.default {
        Default::Required => Some("none, it must be written".to_owned()),
        Default::Absent("") => None,
        Default::Absent(meaning) => Some(meaning.to_owned()),
        Default::Text(text) => Some(format!("`{text}`")),
    }
}

fn indented(words: &str) -> String {
    let mut text = String::new();
    let mut line = "     ".to_owned();
    for word in words.split_whitespace() {
        if line.len() + 1 + word.len() > LINE_CHARACTERS_MAX {
            text.push_str(&line);
            text.push('\n');
            line = "     ".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    text + &line + "\n"
}
