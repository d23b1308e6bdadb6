//! Flags to the same tree that a document gives.

use crate::diagnostic::{Problem, Report, Spot};
use crate::key::{Key, Kind};
use crate::node::{Entry, Node, Value};
use crate::table::Table;

/// The tree that these flags mean, in their order: names without dashes, and values.
pub fn parse<'f>(
    flags: impl IntoIterator<Item = (&'f str, &'f str)>,
    table: &Table,
    report: &Report<'_>,
) -> Node {
    let mut root = Node::new(Value::Table(Vec::new()), Spot::Nowhere);
    for (name, text) in flags {
        match table.find_flag(name) {
            Some(key) => place(&mut root, table, key, text, report),
            None => report.error_here(&Spot::Nowhere, table.unknown_flag(name)),
        }
    }
    root
}

/// A value typed without TOML's quotes, as its key takes it.
///
/// What does not fit stays text, so that the reader complains about it in its own words.
pub fn value(key: &Key, text: &str, spot: &Spot) -> Value {
    if key.commas {
        let parts = text.split(',').map(str::trim);
        let nodes = parts.map(|part| Node::new(scalar(key, part), spot.clone()));
        return Value::List(nodes.collect());
    }
    let one = scalar(key, text);
    if key.many {
        return Value::List(vec![Node::new(one, spot.clone())]);
    }
    one
}

fn scalar(key: &Key, text: &str) -> Value {
    match (key.kind, text) {
        (Kind::Boolean, "true" | "on" | "yes") => Value::Boolean(true),
        (Kind::Boolean, "false" | "off" | "no") => Value::Boolean(false),
        (Kind::Count(..) | Kind::Size(..) | Kind::Ports | Kind::Threads, digits) => {
            match digits.parse() {
                Ok(number) => Value::Integer(Some(number)),
                Err(_) => Value::Text(text.to_owned()),
            }
        }
        _ => Value::Text(text.to_owned()),
    }
}

fn place(root: &mut Node, options: &Table, key: &'static Key, text: &str, report: &Report<'_>) {
    let flag = key.flag.unwrap_or_default();
    let spot = Spot::Flag(flag);
    let table = enter(root, options, key.parent(), &spot);
    let typed = value(key, text, &spot);
    let Value::Table(entries) = &mut table.value else {
        return;
    };
    match entries.iter_mut().find(|entry| entry.key == key.name()) {
        None => entries.push(Entry {
            key: key.name().to_owned(),
            key_spot: spot.clone(),
            node: Node::new(typed, spot),
        }),
        Some(entry) => match (&mut entry.node.value, typed) {
            (Value::List(old), Value::List(new)) => old.extend(new),
            _ => report.error_here(
                &Spot::Nowhere,
                Problem::new(format!("--{flag} is given twice")).hint("leave out one of the two"),
            ),
        },
    }
}

/// The table of that path, made where it is missing; of a list of tables, the last one.
fn enter<'n>(root: &'n mut Node, options: &Table, path: &'static str, spot: &Spot) -> &'n mut Node {
    let Some(key) = options.find(path) else {
        return root;
    };
    let parent = enter(root, options, key.parent(), spot);
    let child = child(parent, key, spot);
    if !key.many {
        return open(child, key, spot);
    }
    if child.elements().is_empty() {
        child.value = Value::List(vec![Node::new(Value::Table(Vec::new()), spot.clone())]);
    }
    match &mut child.value {
        Value::List(elements) => {
            let last = elements.last_mut().expect("an empty list was filled above");
            open(last, key, spot)
        }
        _ => unreachable!("a key of many holds a list, made by `value` or above"),
    }
}

fn child<'n>(parent: &'n mut Node, key: &Key, spot: &Spot) -> &'n mut Node {
    let Value::Table(entries) = &mut parent.value else {
        unreachable!("`open` has made it a table");
    };
    let index = match entries.iter().position(|entry| entry.key == key.name()) {
        Some(index) => index,
        None => {
            entries.push(Entry {
                key: key.name().to_owned(),
                key_spot: spot.clone(),
                node: Node::new(Value::Table(Vec::new()), spot.clone()),
            });
            entries.len() - 1
        }
    };
    &mut entries[index].node
}

/// Writes out a shorthand: `"a.pem"` becomes `{ chain = "a.pem" }`.
fn open<'n>(node: &'n mut Node, key: &Key, spot: &Spot) -> &'n mut Node {
    if !matches!(node.value, Value::Table(_)) {
        let short = std::mem::replace(node, Node::new(Value::Table(Vec::new()), spot.clone()));
        let name = key.shorthand.unwrap_or_default();
        node.value = Value::Table(vec![Entry {
            key: name.to_owned(),
            key_spot: short.spot.clone(),
            node: short,
        }]);
    }
    node
}
