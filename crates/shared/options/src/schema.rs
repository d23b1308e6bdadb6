//! The JSON Schema (2020-12) of a file of a table's keys, by which editors complete and check it.
//!
//! It is never stricter than the reader, but for the case of letters in words, and knows no
//! relations between tables: those are the reader's alone.

use serde_json::{Map, Value, json};

use crate::key::{Default, Key, Kind};
use crate::table::Table;

const DURATION: &str = "^[0-9.]+\\s*(?:[dDhHmMsS]|[mM][sS]|[uU\u{b5}][sS]|[nN][sS])$";
const SIZE: &str = "^[0-9.]+\\s*(?:[tTgGmMkK](?:[iI][bB])?|[bB])?$";
const VARIABLE: &str = "\\$\\{";
const PORTS: &str = "^[0-9]+(?:-[0-9]+)?$";
const STATUS: &str = "^[1-5](?:xx|[0-9]{2}(?:-[1-5][0-9]{2})?)$";

impl Table {
    /// The schema of a file with this name, as text.
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

    /// A table of the keys beneath this path; of a part, another table says what is missing.
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
            // A value alone stands for a list of it; a table does not.
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
        // What a variable of the environment gives, only the reader can judge.
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

/// The documentation of a key, with what holds without it.
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
