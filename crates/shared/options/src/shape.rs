//! Whether a tree has the shape of its table of options: known keys, lists and tables where they
//! belong. What the values mean is the reader's matter.

use crate::diagnostic::{Problem, Report, nearest};
use crate::key::{Key, Kind};
use crate::node::{Node, Value};
use crate::table::Table;

/// Reports every unknown key and every value of the wrong shape.
pub fn check(root: &Node, options: &Table, report: &Report<'_>) {
    Shape { options, report }.table(root, "");
}

struct Shape<'a> {
    options: &'a Table,
    report: &'a Report<'a>,
}

impl Shape<'_> {
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

    fn unknown(&self, name: &str, parent: &str, full: &str) -> Problem {
        let shown = name.escape_debug();
        if self.options.later.contains(&full) {
            return Problem::new(format!("`{name}` is not in this version of lariat"))
                .hint("take the key out; the reference lists what there is");
        }
        if let Some(key) = self.options.renamed(full) {
            let now = key.name();
            return Problem::new(format!("`{name}` is now `{now}`"))
                .hint(format!("write `{now}` in its place"));
        }
        let place = match parent {
            "" => "at the top of the file".to_owned(),
            parent => format!("in {parent}"),
        };
        let siblings = || self.options.children(parent).map(Key::name);
        let mut elsewhere = self.options.keys.iter().filter(|key| key.name() == name);
        Problem::new(format!("unknown key `{shown}` {place}")).hint(
            if let Some(near) = nearest(name, siblings()) {
                format!("did you mean `{near}`?")
            } else if let Some(key) = elsewhere.next() {
                format!("there is `{}`", key.path)
            } else {
                format!("known here: {}", siblings().collect::<Vec<_>>().join(", "))
            },
        )
    }

    fn value(&self, node: &Node, key: &'static Key) {
        match &node.value {
            Value::List(elements) if key.many => {
                elements.iter().for_each(|element| self.one(element, key));
            }
            other if key.many => self.misshapen(node, key, other, "a list"),
            _ => self.one(node, key),
        }
    }

    fn one(&self, node: &Node, key: &'static Key) {
        match (&node.value, key.kind) {
            (Value::Table(_), Kind::Table) => self.table(node, key.path),
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
        let example = format!("for example: {}", key.example);
        self.report
            .error(&node.spot, key.path, problem.hint(example));
    }
}
