//! Renders help and reference pages, and the JSON Schema (2020-12) by which editors complete and
//! check a file, all from the rows of a table.
//!
//! The schema is never stricter than the reader, but for the case of letters in words. Only the
//! reader checks relations between tables.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::key::{Default, Key, Kind, Table};
use crate::quantity;

/// Maximum width of a help line, in characters.
const LINE_CHARACTERS_MAX: usize = 92;

impl Table {
    /// Renders the entries of all keys as Markdown, each with its value, default, flag and example.
    pub fn page(&self) -> String {
        let entries = self.keys.iter().map(|key| {
            let level = if key.parent().is_empty() { "##" } else { "###" };
            self.entry(key, level)
        });
        entries.collect()
    }

    /// Renders the entries of all keys beneath the headings of their groups.
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

    /// Finds the keys that a path, the end of a path, or a flag with or without dashes may mean.
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

    /// Renders the entry, and for a table the names of its keys.
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
                Default::Absent("none") => None,
                _ => default(key).map(|default| format!("default: {default}")),
            },
            key.flag.map(|flag| format!("`{}`", self.short_usage(key, flag))),
        ];
        let facts: Vec<_> = facts.into_iter().flatten().collect();
        let facts = match facts.join("; ") {
            facts if facts == "table" => String::new(),
            facts => format!("\n*{facts}*\n"),
        };
        // A plain value in the forms of the page's introduction is its own example; the keys of a
        // table, which follow, have their own.
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
        format!("\n{level} `{path}`\n\n{help}\n{facts}{example}")
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

    /// Renders a flag, with the name of its value if that says more than the facts beside it.
    fn short_usage(&self, key: &Key, flag: &str) -> String {
        let says_more = match key.kind {
            Kind::Text(name) => !name.bytes().all(|byte| byte.is_ascii_uppercase()),
            _ => false,
        };
        match key.alone {
            None if !says_more => format!("--{flag}"),
            _ => self.usage(key, flag),
        }
    }

    /// Renders a flag with the name of its value, in brackets if the value may be left out.
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
        Some(short) => format!("{one}, or `{short}` alone"),
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

const DURATION: &str = "^[0-9.]+\\s*(?:[dDhHmMsS]|[mM][sS]|[uU\u{b5}][sS]|[nN][sS])$";
const SIZE: &str = "^[0-9.]+\\s*(?:[tTgGmMkK](?:[iI][bB])?|[bB])?$";
const VARIABLE: &str = "\\$\\{";
const PORTS: &str = "^[0-9]+(?:-[0-9]+)?$";
const STATUS: &str = "^[1-5](?:xx|[0-9]{2}(?:-[1-5][0-9]{2})?)$";

impl Table {
    /// Returns the schema of a file with this name, as text.
    pub fn schema(&self, title: &str) -> String {
        let mut schema = self.object("", false);
        schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        schema.insert("title".to_owned(), json!(title));
        let variable = json!({ "type": "string", "pattern": VARIABLE });
        schema.insert("$defs".to_owned(), json!({ "variable": variable }));
        let mut text = format!("{:#}", Value::Object(schema));
        text.push('\n');
        text
    }

    /// Returns the schema of the table at a path; `is_part`: another table has its required keys.
    fn object(&self, path: &str, is_part: bool) -> Map<String, Value> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        let mut dependent = Map::new();
        for key in self.children(path) {
            properties.insert(key.name().to_owned(), self.value(key, is_part));
            if !is_part && key.default == Default::Required {
                required.push(key.name());
            }
            if let [needed] = key.requires
                && !is_part
            {
                dependent.insert(key.name().to_owned(), json!([needed]));
            }
        }
        let mut object = Map::new();
        object.insert("type".to_owned(), json!("object"));
        object.insert("additionalProperties".to_owned(), json!(false));
        object.insert("properties".to_owned(), Value::Object(properties));
        for (name, members) in
            [("required", json!(required)), ("dependentRequired", Value::Object(dependent))]
        {
            if members != json!([]) && members != json!({}) {
                object.insert(name.to_owned(), members);
            }
        }
        object
    }

    fn value(&self, key: &Key, is_part: bool) -> Value {
        let mut one = self.one(key, is_part);
        if key.many {
            let mut list = json!({ "type": "array", "items": one });
            if !matches!(key.default, Default::Absent(_)) {
                list["minItems"] = json!(1);
            }
            // A single value stands for a list of it; a table does not.
            let alone = match key.kind {
                Kind::Table => self.shorthand_key(key).map(|short| self.one(short, is_part)),
                _ => Some(self.one(key, is_part)),
            };
            one = match alone {
                Some(alone) => any_of(vec![list, alone]),
                None => list,
            };
        }
        one["description"] = json!(description(key));
        one
    }

    fn one(&self, key: &Key, is_part: bool) -> Value {
        let number =
            |min: &u64, max: &u64| json!({ "type": "integer", "minimum": min, "maximum": max });
        let pattern = |pattern| json!({ "type": "string", "pattern": pattern });
        // Only the reader can check the value of an environment variable.
        let or_variable = |schema| any_of(vec![schema, json!({ "$ref": "#/$defs/variable" })]);
        match &key.kind {
            Kind::Table => {
                let is_part = is_part || key.like.is_some();
                let table = self.object(key.like.unwrap_or(key.path), is_part);
                let table = Value::Object(table);
                match self.shorthand_key(key) {
                    Some(short) => any_of(vec![table, self.value(short, is_part)]),
                    None => table,
                }
            }
            Kind::Boolean | Kind::Switch => or_variable(json!({ "type": "boolean" })),
            Kind::Choice(words) => or_variable(json!({ "enum": words })),
            Kind::Count(min, max) => or_variable(number(min, max)),
            Kind::Duration(..) => or_variable(pattern(DURATION)),
            Kind::Size(min, max) => or_variable(any_of(vec![number(min, max), pattern(SIZE)])),
            Kind::Status => or_variable(any_of(vec![number(&101, &599), pattern(STATUS)])),
            Kind::Ports => or_variable(any_of(vec![number(&1, &65_535), pattern(PORTS)])),
            Kind::Threads => any_of(vec![number(&1, &u64::from(u16::MAX)), text()]),
            Kind::Address
            | Kind::Endpoint
            | Kind::Network
            | Kind::Networks
            | Kind::Path
            | Kind::Text(_) => text(),
        }
    }
}

fn text() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

fn any_of(schemas: Vec<Value>) -> Value {
    json!({ "anyOf": schemas })
}

/// Returns the documentation of a key, with its default.
fn description(key: &Key) -> String {
    let default = match key.default {
        Default::Required | Default::Absent("") => String::new(),
        Default::Absent(meaning) => format!(" Default: {meaning}."),
        Default::Text(text) => format!(" Default: {text}."),
    };
    format!("{}{default} Example: {}", key.help, key.example)
}

#[cfg(test)]
#[expect(dead_code, reason = "the table alone is looked at")]
mod tests {
    use super::*;
    use crate::key::{flattened, table};
    use crate::row::{count, path};
    use crate::{Nested, section};

    section! {
        table("a").many().shorthand("b");
        /// Tables.
        struct Rows<'a> {
            /// A number.
            b: u8 = count(1, 9),
            /// Paths.
            c: Vec<String> = path().many().absent("none").requires(&["b"]),
        }
    }

    const TABLE: Table =
        Table { keys: &flattened::<3>(&[Rows::KEY], ""), foreign: || &[], later: &[], help: "" };

    #[test]
    fn a_value_alone_stands_for_a_list_or_a_table() {
        let schema: Value = serde_json::from_str(&TABLE.schema("x.toml")).unwrap();
        assert_eq!(schema["title"], "x.toml");
        assert_eq!(schema["required"], json!(["a"]));
        let ways = &schema["properties"]["a"]["anyOf"];
        let number = json!({ "type": "integer", "minimum": 1, "maximum": 9 });
        assert_eq!(ways[1]["anyOf"][0], number);
        assert_eq!(ways[0]["minItems"], 1);
        let item = &ways[0]["items"]["anyOf"];
        assert_eq!(item[1]["anyOf"][0]["maximum"], 9);
        assert_eq!(item[0]["required"], json!(["b"]));
        assert_eq!(item[0]["dependentRequired"], json!({ "c": ["b"] }));
        let paths = &item[0]["properties"]["c"]["anyOf"];
        assert_eq!(paths[1], json!({ "type": "string", "minLength": 1 }));
        assert_eq!(paths[0]["minItems"], Value::Null);
    }
}
