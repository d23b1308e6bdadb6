//! Whether a tree has the shape of its table of options: known keys, lists and tables where they
//! belong. What the values mean is the reader's matter.

use crate::diagnostic::{Problem, Report, Spot, nearest};
use crate::key::{Key, Kind};
use crate::node::{Entry, Node, Value};
use crate::table::Table;

/// Reports every unknown key, every value of the wrong shape, and keys that cannot stand together.
pub fn check(root: &Node, options: &Table, report: &Report<'_>) {
    check_keys(root, options, report);
    ShapeCheck { options, report }.relations(root, "");
}

/// The same without keys that cannot stand together: the tree is a part that another completes.
pub fn check_keys(root: &Node, options: &Table, report: &Report<'_>) {
    ShapeCheck { options, report }.table(root, "");
}

/// A switch that is off says nothing.
fn is_on(entry: &Entry) -> bool {
    !matches!(entry.node.value, Value::Boolean(false))
}

struct ShapeCheck<'a> {
    options: &'a Table,
    report: &'a Report<'a>,
}

impl ShapeCheck<'_> {
    fn table(&self, node: &Node, path: &str) {
        for entry in node.entries() {
            let full = match path {
                "" => entry.key.clone(),
                parent => format!("{parent}.{}", entry.key),
            };
            match self.options.find(&full) {
                Some(key) => self.value(&entry.node, key),
                None => {
                    let problem = self.unknown(&entry.key, path, &full);
                    self.report.error_here(&entry.key_spot, problem);
                }
            }
        }
    }

    /// Reports the relations in a table and in those within.
    fn relations(&self, node: &Node, path: &str) {
        for entry in node.entries().iter().filter(|entry| is_on(entry)) {
            let mut beside = self.options.children(path);
            if let Some(key) = beside.find(|key| key.name() == entry.key) {
                self.relation(key, entry, node);
                self.relations(&entry.node, key.path);
                let elements = entry.node.elements().iter();
                elements.for_each(|element| self.relations(element, key.path));
            }
        }
    }

    /// Reports a key without effect, and one that cannot stand beside another.
    fn relation(&self, key: &'static Key, entry: &Entry, table: &Node) {
        let is_there = |name: &&&str| {
            let mut entries = table.entries().iter();
            entries.any(|other| other.key == **name && is_on(other))
        };
        let shown = |name: &str| match entry.node.spot {
            Spot::Flag(_) => format!("--{name}"),
            _ => format!("`{name}`"),
        };
        let note = |problem| self.report.error(&entry.node.spot, key.path, problem);
        if !key.requires.is_empty() && !key.requires.iter().any(|name| is_there(&name)) {
            let wanted: Vec<_> = key.requires.iter().map(|name| shown(name)).collect();
            let wanted = wanted.join(" or ");
            note(
                Problem::new(format!("has no effect without {wanted}"))
                    .hint("add that, or leave this out"),
            );
        }
        let (excluded, why) = key.excludes;
        if let Some(other) = excluded.iter().find(is_there) {
            note(
                Problem::new(format!("cannot stand beside {}: {why}", shown(other)))
                    .hint("leave out one of the two"),
            );
        }
    }

    fn unknown(&self, name: &str, parent: &str, full: &str) -> Problem {
        let shown = name.escape_debug();
        if self.options.later.contains(&full) {
            return Problem::new(format!("`{name}` is not in this version of lariat"))
                .hint("take the key out; the reference lists what there is");
        }
        let place = match parent {
            "" => "at the top of the file".to_owned(),
            parent => format!("in {parent}"),
        };
        let siblings = || self.options.children(parent).map(Key::name);
        let typed = format!("{parent}.{name}");
        let plain = name.to_ascii_lowercase().replace('_', "-");
        let elsewhere = self.options.keys.iter().filter(|key| key.name() == plain);
        // Of several the nearest; of those as near the first.
        let elsewhere = elsewhere.rev().max_by_key(|key| alike(key.path, parent));
        Problem::new(format!("unknown key `{shown}` {place}")).hint(
            if parent.rsplit('.').next() == Some(name) {
                format!("leave `{shown}.` out: this table is `{parent}` already")
            } else if let Some((foreign, key)) =
                self.options.foreign(&typed).or_else(|| self.options.foreign(name))
            {
                format!("`{shown}` of {} is `{}` here", foreign.of, key.path)
            } else if let Some(near) = nearest(name, siblings()) {
                format!("did you mean `{near}`?")
            } else if let Some(key) = elsewhere {
                misplaced(key)
            } else {
                format!("known here: {}", siblings().collect::<Vec<_>>().join(", "))
            },
        )
    }

    fn value(&self, node: &Node, key: &'static Key) {
        match &node.value {
            other @ Value::Table(_) if key.many => self.misshapen(node, key, other, "a list"),
            _ if key.many => node.elements().iter().for_each(|one| self.one(one, key)),
            _ => self.one(node, key),
        }
    }

    fn one(&self, node: &Node, key: &'static Key) {
        match (&node.value, key.kind) {
            (Value::Table(_), Kind::Table) => self.table(node, key.like.unwrap_or(key.path)),
            (other, Kind::Table) if key.shorthand.is_none() || !other.is_scalar() => {
                self.misshapen(node, key, other, "a table");
            }
            (other @ (Value::List(_) | Value::Table(_)), _) => {
                self.misshapen(node, key, other, "one value");
            }
            // The reader knows what each scalar may be.
            _ => {}
        }
    }

    fn misshapen(&self, node: &Node, key: &Key, value: &Value, wanted: &str) {
        let problem = Problem::new(format!("is {}, but {wanted} is wanted", value.kind()));
        let problem = problem.hint(key.for_example());
        self.report.error(&node.spot, key.path, problem);
    }
}
/// How many words two paths have in common, from the start.
fn alike(path: &str, other: &str) -> usize {
    let pairs = path.split('.').zip(other.split('.'));
    pairs.take_while(|(one, other)| one == other).count()
}

/// The remedy for a key that was written into another table than its own.
fn misplaced(key: &Key) -> String {
    match (key.parent(), key.shorthand) {
        ("", None) if matches!(key.kind, Kind::Table) => {
            format!("`{}` is a table of its own: [{}]", key.path, key.path)
        }
        ("", _) => format!(
            "`{}` belongs at the top of the file: write it before the first table",
            key.path
        ),
        (parent, _) => format!("it belongs to `{parent}`: `{}`", key.path),
    }
}
