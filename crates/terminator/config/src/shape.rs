//! Whether a tree has the shape of the table of options: known keys, and lists and tables where
//! they belong. What the values mean is the reader's matter.

use crate::diagnostic::{Problem, Report, nearest};
use crate::node::{Entry, Node, Value};
use crate::table::{self, Key, Kind};

/// Keys that a later version will know: a configuration that uses them is ahead of this program.
const LATER: &[&str] = &[
    "cluster",
    "service.back.starttls",
    "service.back.tls",
    "service.front.peek",
    "service.front.starttls",
];

/// Reports every key that nobody knows and every value of the wrong shape.
pub(crate) fn check(root: &Node, report: &Report<'_>) {
    table(root, "", report);
}

fn table(node: &Node, path: &str, report: &Report<'_>) {
    for entry in node.entries() {
        let full = joined(path, &entry.key);
        match table::find(&full) {
            Some(key) => value(&entry.node, key, report),
            None => unknown(entry, path, &full, report),
        }
    }
}

fn joined(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        return name.to_owned();
    }
    format!("{parent}.{name}")
}

fn unknown(entry: &Entry, parent: &str, full: &str, report: &Report<'_>) {
    let name = &entry.key;
    if LATER.contains(&full) {
        let problem = Problem::new(format!("`{name}` is not in this version of lariat"))
            .hint("take the key out; the reference lists what there is");
        report.error_here(&entry.key_spot, problem);
        return;
    }
    if let Some(key) = table::renamed(full) {
        let problem = Problem::new(format!("`{name}` is now `{}`", key.name()))
            .hint(format!("write `{}`; it takes the same values", key.name()));
        report.error_here(&entry.key_spot, problem);
        return;
    }
    let place = match parent {
        "" => "at the top of the file".to_owned(),
        parent => format!("in {parent}"),
    };
    let problem = Problem::new(format!("unknown key `{name}` {place}"));
    report.error_here(&entry.key_spot, problem.hint(remedy(name, parent)));
}

fn remedy(name: &str, parent: &str) -> String {
    if let Some(near) = nearest(name, table::children(parent).map(|key| key.name())) {
        return format!("did you mean `{near}`?");
    }
    if let Some(elsewhere) = table::KEYS.iter().find(|key| key.name() == name) {
        return format!("there is `{}`", elsewhere.path);
    }
    let names: Vec<_> = table::children(parent).map(|key| key.name()).collect();
    format!("known here: {}", names.join(", "))
}

fn value(node: &Node, key: &Key, report: &Report<'_>) {
    if !key.many {
        one(node, key, report);
        return;
    }
    match &node.value {
        Value::List(elements) => elements
            .iter()
            .for_each(|element| one(element, key, report)),
        other => {
            let problem = Problem::new(format!("is {}, but a list is wanted", other.kind()));
            report.error(&node.spot, key.path, problem.hint(example(key)));
        }
    }
}

fn one(node: &Node, key: &Key, report: &Report<'_>) {
    let fits = match (&node.value, key.kind) {
        (Value::Table(_), Kind::Table) => {
            table(node, key.path, report);
            true
        }
        (Value::List(_) | Value::Table(_), _) => false,
        (_, Kind::Table) => key.shorthand.is_some(),
        // The reader knows what each scalar may be.
        _ => true,
    };
    if !fits {
        let wanted = if matches!(key.kind, Kind::Table) {
            "a table"
        } else {
            "one value"
        };
        let problem = Problem::new(format!("is {}, but {wanted} is wanted", node.value.kind()));
        report.error(&node.spot, key.path, problem.hint(example(key)));
    }
}

fn example(key: &Key) -> String {
    format!("for example: {}", key.example)
}
