//! Parses flags to the same tree that a document gives.

use crate::diagnostic::{Problem, RawLocation, Report};
use crate::document::{Entry, Node, Value};
use crate::key::{Key, Kind, Table};

/// Returns the tree of these flags, in their order: names without dashes, and values.
pub fn parse<'f>(
    flags: impl IntoIterator<Item = (&'f str, &'f str)>,
    table: &Table,
    report: &Report<'_>,
) -> Node {
    let mut root = Node::empty(RawLocation::Nowhere);
    for (name, text) in flags {
        match table.find_flag(name) {
            Some(key) => place(&mut root, table, key, text, report),
            None => report.error_here(&RawLocation::Nowhere, table.unknown_flag(name)),
        }
    }
    root
}

/// Converts a value typed without TOML's quotes to the kind of its key.
///
/// Text that does not fit stays text, because the reader has better words for it.
pub fn value(key: &Key, text: &str, spot: &RawLocation) -> Value {
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

/// Converts a document whose values may be in the notation of flags (numbers in quotes, lists with
/// commas) to the kinds of their keys.
pub fn retyped(mut root: Node, table: &Table) -> Node {
    let Value::Table(entries) = &mut root.value else { return root };
    for entry in entries {
        let (Some(key), node) = (table.find(&entry.key), &mut entry.node) else { continue };
        match &mut node.value {
            Value::List(elements) if key.many => {
                for one in elements {
                    if let Some(text) = one.value.text() {
                        one.value = scalar(key, &text);
                    }
                }
            }
            other => {
                if let Some(text) = other.text() {
                    *other = value(key, &text, &node.spot);
                }
            }
        }
    }
    root
}

/// Returns the equivalent words of a command line, in the order of the table.
pub fn words(root: &Node, table: &Table) -> Vec<String> {
    let mut words = Vec::new();
    for key in table.keys {
        let (Some(node), Some(flag)) = (root.get(key.path), key.flag) else { continue };
        let texts = match (node.texts(), key.commas) {
            (texts, true) => vec![texts.join(",")],
            (texts, false) => texts,
        };
        for text in texts {
            words.push(format!("--{flag}"));
            match (key.kind, text.as_str()) {
                (Kind::Switch, "true") => {}
                (Kind::Switch, "false") => _ = words.pop(),
                (Kind::Boolean, "true") => words.push("on".to_owned()),
                (Kind::Boolean, "false") => words.push("off".to_owned()),
                _ => words.push(text),
            }
        }
    }
    words
}

/// Merges the entries of `over` with those of `base` that they do not replace.
///
/// A key replaces its namesake, the keys that it excludes or that exclude it, those that its row
/// names, and those that have no effect without these.
pub fn overlaid(base: &Node, over: &Node, table: &Table) -> Node {
    let replaces = |new: &Entry, old: &str| {
        let (new_key, old_key) = (table.find(&new.key), table.find(old));
        let excludes = |one: Option<&Key>, name| {
            one.is_some_and(|one| one.excludes.0.contains(&name) || one.replaces.contains(&name))
        };
        let is_on = !matches!(new.node.value, Value::Boolean(false));
        let is_excluded = old_key.is_some_and(|key| key.excludes.0.contains(&new.key.as_str()));
        new.key == old || is_on && (excludes(new_key, old) || is_excluded)
    };
    let is_replaced = |old: &str| over.entries().iter().any(|new| replaces(new, old));
    let stays = |old: &&Entry| !is_replaced(&old.key);
    let stay: Vec<&Entry> = base.entries().iter().filter(stays).collect();
    let is_served = |old: &&Entry| {
        let requires = table.find(&old.key).map_or(&[][..], |key| key.requires);
        let is_there =
            |name: &&str| over.get(name).is_some() || stay.iter().any(|entry| entry.key == **name);
        // A key without effect before, which could still have one, is kept and reported.
        let had_none = requires.iter().all(|name| base.get(name).is_none());
        let can_have = requires.is_empty() || requires.iter().any(|name| !is_replaced(name));
        requires.iter().any(is_there) || had_none && can_have
    };
    let entries = stay.iter().copied().filter(is_served).chain(over.entries());
    Node::new(Value::Table(entries.cloned().collect()), RawLocation::Nowhere)
}

/// Converts one value to the kind of its key.
pub fn scalar(key: &Key, text: &str) -> Value {
    match (key.kind, text) {
        (Kind::Boolean | Kind::Switch, "true" | "on" | "yes") => Value::Boolean(true),
        (Kind::Boolean | Kind::Switch, "false" | "off" | "no") => Value::Boolean(false),
        (Kind::Count(..) | Kind::Size(..) | Kind::Ports | Kind::Status | Kind::Threads, digits) => {
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
    let spot = RawLocation::Flag(flag);
    let table = enter(root, options, key.parent(), &spot);
    let typed = value(key, text, &spot);
    let Value::Table(entries) = &mut table.value else { return };
    match entries.iter_mut().find(|entry| entry.key == key.name()) {
        None => entries.push(Entry::new(key.name(), Node::new(typed, spot))),
        Some(entry) => match (&mut entry.node.value, typed) {
            (Value::List(old), Value::List(new)) => old.extend(new),
            _ => report.error_here(
                &RawLocation::Nowhere,
                Problem::new(format!("--{flag} is given twice")).hint("leave out one of the two"),
            ),
        },
    }
}

/// The table of that path, made where it is missing; of a list of tables, the last one.
fn enter<'n>(
    root: &'n mut Node,
    options: &Table,
    path: &'static str,
    spot: &RawLocation,
) -> &'n mut Node {
    let Some(key) = options.find(path) else { return root };
    let parent = enter(root, options, key.parent(), spot);
    let child = child(parent, key, spot);
    if !key.many {
        return open(child, key, spot);
    }
    if child.elements().is_empty() {
        child.value = Value::List(vec![Node::empty(spot.clone())]);
    }
    match &mut child.value {
        Value::List(elements) => {
            let last = elements.last_mut().expect("an empty list was filled above");
            open(last, key, spot)
        }
        _ => unreachable!("a key of many holds a list, made by `value` or above"),
    }
}

fn child<'n>(parent: &'n mut Node, key: &Key, spot: &RawLocation) -> &'n mut Node {
    let Value::Table(entries) = &mut parent.value else {
        unreachable!("`open` has made it a table");
    };
    let index = match entries.iter().position(|entry| entry.key == key.name()) {
        Some(index) => index,
        None => {
            entries.push(Entry::new(key.name(), Node::empty(spot.clone())));
            entries.len() - 1
        }
    };
    &mut entries[index].node
}

/// Writes out a shorthand: `"a.pem"` becomes `{ chain = "a.pem" }`.
fn open<'n>(node: &'n mut Node, key: &Key, spot: &RawLocation) -> &'n mut Node {
    if !matches!(node.value, Value::Table(_)) {
        let short = std::mem::replace(node, Node::empty(spot.clone()));
        node.value = Value::Table(vec![Entry::new(key.shorthand.unwrap_or_default(), short)]);
    }
    node
}

#[cfg(test)]
#[expect(dead_code, reason = "the table alone is looked at")]
mod tests {
    use super::*;
    use crate::key::table;
    use crate::row::{count, switch, text};
    use crate::{check, document, section};

    section! {
        table("").flags();
        /// Keys that stand beside each other, or do not.
        struct Rows<'a> {
            rate: Option<String> = text("R").absent("").excludes(&["steps"], "one way"),
            steps: Vec<String> = text("R").many().absent(""),
            ramp: Option<String> = text("R").absent("").replaces(&["time"]),
            time: Option<u8> = count(1, 9).absent(""),
            spacing: Option<String> = text("WORD").absent("").requires(&["rate", "ramp"]),
            header: Vec<String> = text("TEXT").repeated().absent(""),
            quiet: bool = switch().excludes(&["time"], "so"),
        }
    }

    const TABLE: Table = Table { keys: Rows::CHILDREN, foreign: || &[], later: &[], help: "" };

    fn of_file(text: &str, report: &Report<'_>) -> Node {
        retyped(document::parse(text, report).unwrap(), &TABLE)
    }

    /// Merges a document and flags, and returns the result as flags.
    fn together(text: &str, flags: &[(&str, &str)]) -> String {
        let report = Report::new(None);
        let over = parse(flags.iter().copied(), &TABLE, &report);
        words(&overlaid(&of_file(text, &report), &over, &TABLE), &TABLE).join(" ")
    }

    #[test]
    fn a_document_says_what_flags_say() {
        let text = "rate = 2.5\nsteps = [500, 1_000]\ntime = \"7\"\nquiet = true\n\
                    header = [\"A: b, c\", 4]\nramp = \"1:2\"\n";
        let told = "--rate 2.5 --steps 500,1000 --ramp 1:2 --time 7 --header A: b, c --header 4 \
                    --quiet";
        assert_eq!(together(text, &[]), told);
        assert_eq!(together("steps = \"1, 2\"\nquiet = false", &[]), "--steps 1,2");
    }

    #[test]
    fn flags_replace_what_they_contradict() {
        let file = "rate = 5\ntime = 3\nspacing = \"even\"\n";
        for (text, flag, told) in [
            (file, ("rate", "6"), "--rate 6 --time 3 --spacing even"),
            (file, ("steps", "1"), "--steps 1 --time 3"),
            ("steps = 1\n", ("rate", "6"), "--rate 6"),
            (file, ("ramp", "1:2"), "--rate 5 --ramp 1:2 --spacing even"),
            (file, ("quiet", "true"), "--rate 5 --spacing even --quiet"),
            (file, ("quiet", "false"), "--rate 5 --time 3 --spacing even"),
            ("spacing = \"even\"\n", ("steps", "1"), "--steps 1 --spacing even"),
            // The key had no effect before, which is reported.
            ("spacing = \"even\"\n", ("time", "1"), "--time 1 --spacing even"),
        ] {
            assert_eq!(together(text, &[flag]), told, "{text} and {flag:?}");
        }
    }

    #[test]
    fn keys_that_cannot_stand_together_are_told() {
        let text = "rate = 1\nsteps = [2]\nquiet = true\ntime = 1\n";
        for (text, told) in [
            (
                text,
                "rate: cannot stand beside `steps`: one way; quiet: cannot stand beside `time`: so; ",
            ),
            ("spacing = \"even\"\n", "spacing: has no effect without `rate` or `ramp`; "),
            ("quiet = false\ntime = 1\nspacing = \"a\"\nramp = 1\n", ""),
        ] {
            let report = Report::new(None);
            check(&of_file(text, &report), &TABLE, &report);
            let complaints = report.into_complaints().into_iter();
            let line = |one: crate::Complaint| {
                format!("{}: {}; ", one.subject.unwrap_or_default(), one.problem.message)
            };
            assert_eq!(complaints.map(line).collect::<String>(), told);
        }
    }
}
