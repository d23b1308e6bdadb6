//! The tree of keys that a source means: files joined, variables replaced, defaults filled in.

use options::{Entry, IncludedFile, Node, Problem, Report, Spot, Value, document, flags};

use crate::keys::TABLE;
use crate::source::{MADE_OF_OTHERS, Source, expand};

/// A report about a source.
pub(crate) fn report_about(source: &Source) -> Report<'_> {
    match source {
        Source::File { place, text, included, variables } => {
            let report = Report::new(Some((place, text))).with_included(included).hiding(variables);
            if place == MADE_OF_OTHERS { report.by_origins() } else { report }
        }
        Source::Flags(_) => Report::new(None),
    }
}

/// The tree of a source; `None` if one of its files is no TOML, which has then been reported.
pub(crate) fn root_of(source: &Source, report: &Report<'_>) -> Option<Node> {
    let (root, is_whole) = recovered(source, report);
    is_whole.then_some(root)
}

/// The tree of what can be read of a source, and whether that is all; the rest has been reported.
pub(crate) fn recovered(source: &Source, report: &Report<'_>) -> (Node, bool) {
    let (included, variables) = match source {
        Source::File { included, variables, .. } => (included, variables),
        Source::Flags(flags) => {
            let flags = flags.iter().map(|(name, text)| (name.as_str(), text.as_str()));
            return (flags::parse(flags, &TABLE, report), true);
        }
    };
    let mut root = Node::new(Value::Table(Vec::new()), Spot::Nowhere);
    let mut is_whole = true;
    for (number, (start, (_, text))) in report.files().enumerate() {
        let (part, is_part_whole) = document::recovered_from(start, text, report);
        is_whole &= is_part_whole;
        if number > 0 {
            refuse_nested(&part, included, report);
        }
        join(&mut root, part, report);
    }
    let before = report.errors();
    expand(&mut root, "", &TABLE, variables, report);
    // What a value with a fault means need not be said again by its reader.
    is_whole &= report.errors() == before;
    fill_in_defaults(&mut root, report);
    (root, is_whole)
}

/// An included file that includes others could include itself.
fn refuse_nested(part: &Node, included: &[IncludedFile], report: &Report<'_>) {
    let key = part.entries().iter().find(|entry| entry.key == "include");
    if let Some(entry) = key.filter(|_| !included.is_empty()) {
        let problem = Problem::new("stands in a file that is itself included");
        let hint = "list all files in the configuration that `lariat serve` is given";
        report.error(&entry.key_spot, "include", problem.hint(hint));
    }
}

/// Adds the keys of a file to those of the files before: tables of a list follow each other, and
/// any other key stands in one file only.
fn join(root: &mut Node, part: Node, report: &Report<'_>) {
    let (Value::Table(entries), Value::Table(more)) = (&mut root.value, part.value) else {
        return;
    };
    for entry in more {
        let Some(old) = entries.iter_mut().find(|old| old.key == entry.key) else {
            entries.push(entry);
            continue;
        };
        match (&mut old.node.value, &entry.node.value) {
            (Value::List(tables), Value::List(more)) if are_tables(tables) && are_tables(more) => {
                tables.extend(more.iter().cloned());
            }
            (Value::Table(_), Value::Table(_)) => join(&mut old.node, entry.node, report),
            // The nested one has been refused.
            _ if entry.key == "include" => {}
            _ => {
                let place = report.place_of(&old.key_spot).unwrap_or_default();
                let problem = Problem::new(format!("`{}` is also in {place}", entry.key));
                report.error_here(&entry.key_spot, problem.hint("leave out one of the two"));
            }
        }
    }
}

fn are_tables(nodes: &[Node]) -> bool {
    nodes.iter().all(|node| matches!(node.value, Value::Table(_)))
}

/// Keys that decide which others may stand beside them.
const DECIDING: [&str; 2] = ["mode", "files"];

/// The most values that all services together get from `[defaults]`: about 600 MB of memory.
const FILLED_IN_MAX: usize = 1 << 22;

/// The values in a node, those of its tables and lists.
fn count(node: &Node) -> usize {
    let within: usize = match &node.value {
        Value::Table(entries) => entries.iter().map(|entry| count(&entry.node)).sum(),
        Value::List(elements) => elements.iter().map(count).sum(),
        _ => 0,
    };
    within + 1
}

/// Gives every service what `[defaults]` says and the service does not.
fn fill_in_defaults(root: &mut Node, report: &Report<'_>) {
    let Some(node) = root.get("defaults") else {
        return;
    };
    let services = root.get("service").map_or(0, |services| services.elements().len());
    let values = count(node);
    if values.saturating_mul(services) > FILLED_IN_MAX {
        let problem = Problem::new(format!("has {values} values for each of {services} services"));
        let hint =
            format!("at most {FILLED_IN_MAX} together: put long lists where they are needed");
        return report.error(&node.spot, "defaults", problem.hint(hint));
    }
    let defaults = node.entries().to_vec();
    if let Some(name) = defaults.iter().find(|entry| entry.key == "name") {
        let problem = Problem::new("`name` is a service's own");
        report.error_here(&name.key_spot, problem.hint("leave it out of [defaults]"));
    }
    let Value::Table(entries) = &mut root.value else {
        return;
    };
    let service = entries.iter_mut().find(|entry| entry.key == "service");
    if let Some(Entry { node: Node { value: Value::List(services), .. }, .. }) = service {
        services.iter_mut().for_each(|service| fill_in(service, &defaults));
    }
}

/// Tables are completed, but for one with one of these keys of its own, which the others may not
/// fit; a value, or a list, stands for itself.
fn fill_in(node: &mut Node, defaults: &[Entry]) {
    let Value::Table(entries) = &mut node.value else {
        return;
    };
    for default in defaults.iter().filter(|default| default.key != "name") {
        match entries.iter_mut().find(|entry| entry.key == default.key) {
            Some(entry) if DECIDING.iter().any(|key| entry.node.get(key).is_some()) => {}
            Some(entry) => fill_in(&mut entry.node, default.node.entries()),
            None => entries.push(default.clone()),
        }
    }
}
