//! The typed text as a tree with places: the same for a TOML file and for flags.

use crate::diagnostic::Spot;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub struct Node {
    pub value: Value,
    pub spot: Spot,
}

#[derive(Clone, Debug)]
pub enum Value {
    Text(String),
    /// `None` is a number below zero or too large for any key.
    Integer(Option<u64>),
    /// A number with a fraction, as it was written.
    Float(String),
    Boolean(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// A kind of value that no key takes: its name.
    Other(&'static str),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key as it was written.
    pub key: String,
    pub key_spot: Spot,
    pub node: Node,
}

impl Node {
    /// Removes what was written at any of these places: keys, and elements of lists that are no
    /// tables, whose numbers others count on. Whether there was any.
    pub fn remove(&mut self, spots: &[Spot]) -> bool {
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

    /// The value of that key of a table.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let entry = self.entries().iter().find(|entry| entry.key == key);
        entry.map(|entry| &entry.node)
    }

    /// The texts of a value or of a list, as flags would say them.
    pub fn texts(&self) -> Vec<String> {
        match &self.value {
            Value::List(elements) => elements.iter().filter_map(|one| one.value.text()).collect(),
            scalar => scalar.text().into_iter().collect(),
        }
    }

    /// The elements of a list; none of a table. Another value stands for a list of itself.
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

    /// A value as a flag would say it; `None` of lists, tables and numbers of no key.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Float(text) => Some(text.clone()),
            Self::Integer(number) => number.map(|number| number.to_string()),
            Self::Boolean(boolean) => Some(boolean.to_string()),
            Self::List(_) | Self::Table(_) | Self::Other(_) => None,
        }
    }

    /// Whether it is neither a list nor a table.
    pub fn is_scalar(&self) -> bool {
        !matches!(self, Self::List(_) | Self::Table(_))
    }
}
