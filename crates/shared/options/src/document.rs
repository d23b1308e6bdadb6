//! The tree of typed text with places, the same for TOML and flags: parses TOML, and checks the
//! tree against a table of options (known keys, lists and tables where they belong). Knows no keys
//! itself; the reader interprets the values.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Problem, RawLocation, Report, nearest};
use crate::key::{Key, Kind, Table};

/// A value and where it was written.
#[derive(Clone, Debug)]
pub struct Node {
    pub value: Value,
    pub spot: RawLocation,
}

#[derive(Clone, Debug)]
pub enum Value {
    Text(String),
    /// An integer; `None` if it is negative or too large for any key.
    Integer(Option<u64>),
    /// A number with a fraction, as it was written.
    Float(String),
    Boolean(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// Name of a kind of value that no key accepts.
    Other(&'static str),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Key as it was written.
    pub key: String,
    pub key_spot: RawLocation,
    pub node: Node,
}

impl Entry {
    /// Makes an entry whose key has the place of its value.
    pub fn new(key: &str, node: Node) -> Self {
        Self { key: key.to_owned(), key_spot: node.spot.clone(), node }
    }
}

impl Node {
    /// A table without keys.
    pub fn empty(spot: RawLocation) -> Self {
        Self::new(Value::Table(Vec::new()), spot)
    }

    /// Removes what was written at any of these places: keys, and elements of lists that are no
    /// tables, whose numbers others count on. Whether there was any.
    pub fn remove(&mut self, spots: &[RawLocation]) -> bool {
        let mut is_changed = false;
        match &mut self.value {
            Value::Table(entries) => {
                let before = entries.len();
                entries.retain(|one| {
                    !spots.contains(&one.key_spot) && !spots.contains(&one.node.spot)
                });
                is_changed |= entries.len() < before;
                for one in entries {
                    is_changed |= one.node.remove(spots);
                }
            }
            Value::List(nodes) => {
                let before = nodes.len();
                let is_table = |one: &Self| matches!(one.value, Value::Table(_));
                nodes.retain(|one| is_table(one) || !spots.contains(&one.spot));
                is_changed |= nodes.len() < before;
                for one in nodes {
                    is_changed |= one.remove(spots);
                }
            }
            _ => {}
        }
        is_changed
    }

    pub fn new(value: Value, spot: RawLocation) -> Self {
        Self { value, spot }
    }

    /// Returns the entries of a table; an empty slice for any other value.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the value of that key of a table.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let entry = self.entries().iter().find(|entry| entry.key == key);
        entry.map(|entry| &entry.node)
    }

    /// Returns the texts of a value or of a list, in the notation of flags.
    pub fn texts(&self) -> Vec<String> {
        match &self.value {
            Value::List(elements) => elements.iter().filter_map(|one| one.value.text()).collect(),
            scalar => scalar.text().into_iter().collect(),
        }
    }

    /// Returns the elements of a list, or the value itself; an empty slice for a table.
    pub fn elements(&self) -> &[Self] {
        match &self.value {
            Value::List(elements) => elements,
            Value::Table(_) => &[],
            _ => std::slice::from_ref(self),
        }
    }
}

impl Value {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Boolean(_) => "a boolean",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(kind) => kind,
        }
    }

    /// Returns a value in the notation of flags; `None` for lists, tables and numbers of no key.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Float(text) => Some(text.clone()),
            Self::Integer(number) => number.map(|number| number.to_string()),
            Self::Boolean(boolean) => Some(boolean.to_string()),
            Self::List(_) | Self::Table(_) | Self::Other(_) => None,
        }
    }

    /// Whether the value is neither a list nor a table.
    pub fn is_scalar(&self) -> bool {
        !matches!(self, Self::List(_) | Self::Table(_))
    }
}

/// Number of syntax errors from which a file is not TOML; more would only hide the first.
const SYNTAX_ERRORS_MAX: usize = 10;

/// Parses a text to a tree; reports and returns `None` if the text is not TOML.
pub fn parse(text: &str, report: &Report<'_>) -> Option<Node> {
    let (root, is_whole) = recovered(text, report);
    is_whole.then_some(root)
}

/// Parses as much of a text as possible. Returns whether that is all; the rest has been reported.
pub fn recovered(text: &str, report: &Report<'_>) -> (Node, bool) {
    recovered_from(0, text, report)
}

/// Does [`recovered`] for a text whose first byte has this offset among the bytes of all files.
pub fn recovered_from(start: usize, text: &str, report: &Report<'_>) -> (Node, bool) {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() && text.lines().any(|line| line.trim_start().starts_with(PEM_BEGIN)) {
        report.error_here(&RawLocation::Nowhere, pem());
        return (Node::empty(RawLocation::Nowhere), false);
    }
    for error in errors.iter().take(SYNTAX_ERRORS_MAX) {
        let spot = error.span().map_or(RawLocation::Nowhere, |span| shifted(span, start));
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        let hint = error.span().and_then(|span| whole_table(text, span.start, &message));
        report.error_here(&spot, Problem { message, hint });
    }
    let root = Node::new(entries_from(start, table.get_ref()), RawLocation::Nowhere);
    (root, errors.is_empty())
}

/// Beginning of a PEM file (RFC 7468); no line of TOML begins so.
const PEM_BEGIN: &str = "-----BEGIN ";

/// Makes the one error for a PEM file; shows none of its lines, because one may be part of a key.
fn pem() -> Problem {
    let problem = Problem::new("this is a file of certificates or keys (PEM), no configuration");
    problem.hint("a certificate is named by --certificate FILE, or by `certificates` in a file")
}

/// Returns the hint for a header `[a.b.c]`, or dotted keys, after `b = { ... }`: an inline table is
/// complete.
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

/// Converts a parsed table, in the order of the text.
pub fn entries(table: &DeTable<'_>) -> Value {
    entries_from(0, table)
}

fn shifted(span: Range<usize>, start: usize) -> RawLocation {
    RawLocation::File(span.start + start..span.end + start)
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

/// Converts a value recursively; the parser limits the depth of nesting.
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

/// Reports every unknown key, every value of the wrong shape, and keys that exclude each other.
pub fn check(root: &Node, options: &Table, report: &Report<'_>) {
    check_keys(root, options, report);
    ShapeCheck { options, report }.relations(root, "");
}

/// Checks like [`check`] but allows keys that exclude each other: another tree completes this one.
pub fn check_keys(root: &Node, options: &Table, report: &Report<'_>) {
    ShapeCheck { options, report }.table(root, "");
}

/// Whether an entry has an effect: a switch that is off has none.
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

    /// Reports broken relations between keys in a table and in nested tables.
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

    /// Reports a key without effect, and one that excludes another.
    fn relation(&self, key: &'static Key, entry: &Entry, table: &Node) {
        let is_there = |name: &&&str| {
            let mut entries = table.entries().iter();
            entries.any(|other| other.key == **name && is_on(other))
        };
        let shown = |name: &str| match entry.node.spot {
            RawLocation::Flag(_) => format!("--{name}"),
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
        // The nearest wins; the first among equally near ones.
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
            // The reader checks scalars.
            _ => {}
        }
    }

    fn misshapen(&self, node: &Node, key: &Key, value: &Value, wanted: &str) {
        let problem = Problem::new(format!("is {}, but {wanted} is wanted", value.kind()));
        let problem = problem.hint(key.for_example());
        self.report.error(&node.spot, key.path, problem);
    }
}
/// Returns the number of leading words that two paths have in common.
fn alike(path: &str, other: &str) -> usize {
    let pairs = path.split('.').zip(other.split('.'));
    pairs.take_while(|(one, other)| one == other).count()
}

/// Returns the hint for a key in the wrong table.
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
