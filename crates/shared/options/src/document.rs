//! The text of a TOML file to a tree with places. Knows no keys.

use std::ops::Range;

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
    recovered_from(0, text, report)
}

/// The same of a text whose first byte has this place among the bytes of all files.
pub fn recovered_from(start: usize, text: &str, report: &Report<'_>) -> (Node, bool) {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() && text.lines().any(|line| line.trim_start().starts_with(PEM_BEGIN)) {
        report.error_here(&Spot::Nowhere, pem());
        return (Node::new(Value::Table(Vec::new()), Spot::Nowhere), false);
    }
    for error in errors.iter().take(SYNTAX_ERRORS_MAX) {
        let spot = error.span().map_or(Spot::Nowhere, |span| shifted(span, start));
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        let hint = error.span().and_then(|span| whole_table(text, span.start, &message));
        report.error_here(&spot, Problem { message, hint });
    }
    let root = Node::new(entries_from(start, table.get_ref()), Spot::Nowhere);
    (root, errors.is_empty())
}

/// A line of PEM (RFC 7468), which no line of TOML begins like.
const PEM_BEGIN: &str = "-----BEGIN ";

/// The one error of a file of PEM: none of its lines is shown, because they may be those of a key.
fn pem() -> Problem {
    let problem = Problem::new("this is a file of certificates or keys (PEM), no configuration");
    problem.hint("a certificate is named by --certificate FILE, or by `certificates` in a file")
}

/// The hint for a header `[a.b.c]`, or keys with dots, behind `b = { ... }`: the table in braces is
/// whole.
fn whole_table(text: &str, at: usize, message: &str) -> Option<String> {
    if !["inline table", "duplicate key"].iter().any(|words| message.contains(words)) {
        return None;
    }
    let start = text.get(..at)?.rfind('\n').map_or(0, |newline| newline + 1);
    let written = text.get(start..)?.lines().next()?.split('=').next()?.trim();
    let path: Vec<_> = written.trim_matches(['[', ']']).split('.').map(str::trim).collect();
    let before: Vec<_> = text.get(..start)?.lines().collect();
    let is_of = |line: &str, name: &str| {
        let (key, value) = line.split_once('=').unwrap_or_default();
        key.trim().rsplit('.').next() == Some(name) && value.trim_start().starts_with('{')
    };
    let (line, depth) = before.iter().enumerate().rev().find_map(|(number, line)| {
        let depth = path.iter().rposition(|name| is_of(line, name))?;
        Some((number + 1, depth))
    })?;
    let (name, table) = (path[depth], path[..=depth].join("."));
    Some(format!(
        "line {line} has `{name} = {{...}}`, which is the whole table: write these keys between \
         its braces, or that table as `[{table}]` with a line for each key"
    ))
}

/// A table that was parsed, in the order of the text.
pub fn entries(table: &DeTable<'_>) -> Value {
    entries_from(0, table)
}

fn shifted(span: Range<usize>, start: usize) -> Spot {
    Spot::File(span.start + start..span.end + start)
}

fn entries_from(start: usize, table: &DeTable<'_>) -> Value {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let entries = entries.into_iter().map(|(key, value)| Entry {
        key: key.get_ref().to_string(),
        key_spot: shifted(key.span(), start),
        node: Node::new(converted(start, value.get_ref()), shifted(value.span(), start)),
    });
    Value::Table(entries.collect())
}

/// The parser bounds the depth of nesting, and with it this recursion.
fn converted(start: usize, value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            Value::Integer(u64::from_str_radix(number.as_str(), number.radix()).ok())
        }
        DeValue::Boolean(boolean) => Value::Boolean(*boolean),
        DeValue::Array(elements) => Value::List(
            elements
                .iter()
                .map(|one| Node::new(converted(start, one.get_ref()), shifted(one.span(), start)))
                .collect(),
        ),
        DeValue::Table(table) => entries_from(start, table),
        DeValue::Float(number) => Value::Float(number.as_str().to_owned()),
        DeValue::Datetime(_) => Value::Other("a date"),
    }
}
