//! What was typed, as a tree with places: the same for a TOML file and for flags.

use crate::diagnostic::Spot;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub struct Node {
    /// What was written.
    pub value: Value,
    /// Where.
    pub spot: Spot,
}

/// A typed value.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string.
    Text(String),
    /// `None` is a number below zero or too large for any key.
    Integer(Option<u64>),
    /// `true` or `false`.
    Boolean(bool),
    /// An array.
    List(Vec<Node>),
    /// A table.
    Table(Vec<Entry>),
    /// A kind of value that no key takes: its name.
    Other(&'static str),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key as it was written.
    pub key: String,
    /// Where the key stands.
    pub key_spot: Spot,
    /// Its value.
    pub node: Node,
}

impl Node {
    /// A value at that place.
    pub fn new(value: Value, spot: Spot) -> Self {
        Self { value, spot }
    }

    /// The entries of a table; none of any other value.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The elements of a list; none of any other value.
    pub fn elements(&self) -> &[Self] {
        match &self.value {
            Value::List(elements) => elements,
            _ => &[],
        }
    }
}

impl Value {
    /// What it is, with its article.
    pub fn kind(&self) -> &'static str {
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
    pub fn is_scalar(&self) -> bool {
        !matches!(self, Self::List(_) | Self::Table(_))
    }
}
