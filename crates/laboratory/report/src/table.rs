//! A table, before it is known whether it will be text or part of a page.

/// Columns with rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// What it is of, for the page's caption.
    pub(crate) caption: String,
    /// From left to right.
    pub(crate) columns: Vec<Column>,
    /// From top to bottom.
    pub(crate) rows: Vec<Row>,
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) head: String,
    pub(crate) side: Side,
}

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// A cell a column; missing ones are empty.
    pub(crate) cells: Vec<Cell>,
    /// Whether it heads those that follow.
    pub(crate) is_head: bool,
}

/// A cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// What a program reads off the page: a name and the plain value.
    pub(crate) value: Option<(String, f64)>,
}

impl Table {
    /// An empty table. Heads that begin with `<` stand left, without it.
    pub(crate) fn new(caption: &str, heads: &[&str]) -> Self {
        let column = |head: &&str| match head.strip_prefix('<') {
            Some(head) => Column {
                head: head.to_owned(),
                side: Side::Left,
            },
            None => Column {
                head: (*head).to_owned(),
                side: Side::Right,
            },
        };
        Self {
            caption: caption.to_owned(),
            columns: heads.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(Row {
            cells,
            is_head: false,
        });
    }

    /// Adds a row that heads those that follow.
    pub(crate) fn head(&mut self, text: &str) {
        self.rows.push(Row {
            cells: vec![Cell::from(text)],
            is_head: true,
        });
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Cell {
    /// Something that can be shown.
    pub(crate) fn of(value: impl ToString) -> Self {
        Self {
            text: value.to_string(),
            value: None,
        }
    }

    /// A number that can be read off the page by that name.
    pub(crate) fn named(self, name: impl Into<String>, value: f64) -> Self {
        Self {
            value: Some((name.into(), value)),
            ..self
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::of(text)
    }
}
