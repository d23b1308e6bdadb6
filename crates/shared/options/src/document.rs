//! The text of a TOML file to a tree with places. Knows no keys.

use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Problem, Report, Spot};
use crate::node::{Entry, Node, Value};

/// A file with this many syntax errors is no TOML; the rest would only hide the first.
const SYNTAX_ERRORS_MAX: usize = 10;

/// The tree of a text; `None` if it is no TOML, which has then been reported.
pub fn parse(text: &str, report: &Report<'_>) -> Option<Node> {
    let (root, is_whole) = recovered(text, report);
    is_whole.then_some(root)
}

/// The tree of what can be read of a text, and whether that is all; the rest has been reported.
pub fn recovered(text: &str, report: &Report<'_>) -> (Node, bool) {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(SYNTAX_ERRORS_MAX) {
        let spot = error.span().map_or(Spot::Nowhere, Spot::File);
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        report.error_here(&spot, Problem::new(message));
    }
    let root = Node::new(entries(table.get_ref()), Spot::Nowhere);
    (root, errors.is_empty())
}

/// A table that was parsed, in the order of the text.
pub fn entries(table: &DeTable<'_>) -> Value {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let entries = entries.into_iter().map(|(key, value)| Entry {
        key: key.get_ref().to_string(),
        key_spot: Spot::File(key.span()),
        node: Node::new(converted(value.get_ref()), Spot::File(value.span())),
    });
    Value::Table(entries.collect())
}

/// The parser bounds the depth of nesting, and with it this recursion.
fn converted(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            Value::Integer(u64::from_str_radix(number.as_str(), number.radix()).ok())
        }
        DeValue::Boolean(boolean) => Value::Boolean(*boolean),
        DeValue::Array(elements) => Value::List(
            elements
                .iter()
                .map(|one| Node::new(converted(one.get_ref()), Spot::File(one.span())))
                .collect(),
        ),
        DeValue::Table(table) => entries(table),
        DeValue::Float(number) => Value::Float(number.as_str().to_owned()),
        DeValue::Datetime(_) => Value::Other("a date"),
    }
}
