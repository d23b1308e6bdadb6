//! What was typed, as a tree with places: the same for a TOML file and for flags.

use crate::diagnostic::Spot;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) spot: Spot,
}

/// A typed value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    /// `None` is a number too large for any key.
    Integer(Option<i64>),
    Boolean(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// A kind of value that no key takes: its name.
    Other(&'static str),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_spot: Spot,
    pub(crate) node: Node,
}

impl Node {
    pub(crate) fn new(value: Value, spot: Spot) -> Self {
        Self { value, spot }
    }

    /// The entries of a table; a value that is none has none.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The elements of a list; a value that is none has none.
    pub(crate) fn elements(&self) -> &[Self] {
        match &self.value {
            Value::List(elements) => elements,
            _ => &[],
        }
    }
}

impl Value {
    /// What it is, with its article.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Boolean(_) => "a boolean",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(kind) => kind,
        }
    }

    /// Whether it is neither a list nor a table.
    pub(crate) fn is_scalar(&self) -> bool {
        !matches!(self, Self::List(_) | Self::Table(_))
    }
}
