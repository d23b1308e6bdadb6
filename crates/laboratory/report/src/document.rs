//! Represents a report independently of its form (text, page or files) as a tree of typed blocks.
//!
//! The tree is made once from records; [`crate::terminal`], [`crate::html`] and [`self`] render it.

use crate::figure::Plot;

#[derive(Clone, Debug, Default)]
pub struct ReportDocument {
    pub(crate) title: String,
    /// Parts of the page to link at its top: anchor and name.
    pub(crate) links: Vec<(String, String)>,
    pub(crate) blocks: Vec<ReportBlock>,
    /// Figures to write as separate files, by name.
    pub(crate) files: Vec<(String, Plot)>,
    pub(crate) sheets: Vec<DataSheet>,
    pub(crate) footer: String,
}

#[derive(Clone, Debug)]
pub(crate) enum ReportBlock {
    /// First sentence of a report.
    Headline(String),
    Paragraph(String),
    /// The most important results of a run, each large; on the page only.
    Cards(Vec<NumberCard>),
    /// Numbers of comparisons that are better, the same and worse, as a bar; on the page only.
    Counts([usize; 4]),
    Facts(Vec<ReportFact>),
    Items(Vec<ListItem>),
    Warnings(Vec<ReportWarning>),
    Table(ReportTable),
    Figure(Box<Figure>),
    /// A command line, one word per entry.
    Command(Vec<String>),
    Section(ReportSection),
}

#[derive(Clone, Debug)]
pub(crate) struct ReportSection {
    pub(crate) kind: SectionKind,
    pub(crate) title: String,
    /// Anchor on the page; none if empty.
    pub(crate) id: String,
    pub(crate) blocks: Vec<ReportBlock>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SectionKind {
    Article,
    Card,
    /// A part of a card; long ones are folded on the page.
    Group(&'static str),
    /// Blocks beside each other on the page, with this class.
    Beside(&'static str),
    /// Figures along time that can be played.
    Replay,
    /// Folded on the page, not shown on a terminal.
    Details,
    /// Folded on the page, and shown on a terminal.
    Folded,
    /// Shown on the page only.
    Page,
    /// Shown on a terminal only.
    Terminal,
}

/// A value with its name and remarks.
#[derive(Clone, Debug)]
pub(crate) struct NumberCard {
    pub(crate) name: String,
    pub(crate) value: Cell,
    pub(crate) note: Vec<Cell>,
    pub(crate) is_bad: bool,
}

/// A name with its text, and a hint at what to do about it.
#[derive(Clone, Debug)]
pub(crate) struct ReportFact {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) hint: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ListItem {
    /// Anchor that the head links to; none if empty.
    pub(crate) link: String,
    pub(crate) head: String,
    pub(crate) parts: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub(crate) struct ReportWarning {
    /// Subject; none if empty.
    pub(crate) about: String,
    pub(crate) text: String,
    pub(crate) hint: Option<String>,
}

/// A table: columns with rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportTable {
    pub(crate) caption: String,
    pub(crate) columns: Vec<TableColumn>,
    pub(crate) rows: Vec<TableRow>,
    /// Prefix of the ids of values on the page.
    pub(crate) prefix: String,
}

#[derive(Clone, Debug)]
pub(crate) struct TableColumn {
    pub(crate) head: String,
    /// Whether the column is left-aligned, as words are; numbers are right-aligned.
    pub(crate) is_left: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum TableRow {
    /// Heading of the rows that follow.
    Head(String),
    /// One cell per column; missing ones are empty.
    Cells(Vec<Cell>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// Value for programs that read the page: an id and the plain value.
    pub(crate) value: Option<(String, f64)>,
    /// Smaller lines below the text on the page, each with a class.
    pub(crate) notes: Vec<(&'static str, Self)>,
    /// Whether the text is a reason why there is no value: on the page, it may be long.
    pub(crate) is_gap: bool,
}

/// A drawing: as many panels beside each other as the page is wide.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) id: String,
    /// Title above the figure; none if empty.
    pub(crate) title: String,
    pub(crate) plot: Plot,
}

/// Data for other programs: plain numbers in the units that the heads name.
#[derive(Clone, Debug)]
pub(crate) struct DataSheet {
    pub(crate) name: String,
    pub(crate) heads: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// Mark in place of a missing value.
pub(crate) const NONE: &str = "–";

impl ReportSection {
    pub(crate) fn new(
        kind: SectionKind,
        title: impl Into<String>,
        blocks: Vec<ReportBlock>,
    ) -> Self {
        Self { kind, title: title.into(), id: String::new(), blocks }
    }

    pub(crate) fn at(self, id: impl Into<String>) -> Self {
        Self { id: id.into(), ..self }
    }
}

impl From<ReportSection> for ReportBlock {
    fn from(section: ReportSection) -> Self {
        Self::Section(section)
    }
}

pub(crate) fn section(
    kind: SectionKind,
    title: impl Into<String>,
    blocks: impl IntoIterator<Item = ReportBlock>,
) -> Option<ReportBlock> {
    let blocks: Vec<ReportBlock> = blocks.into_iter().collect();
    (!blocks.is_empty()).then(|| ReportSection::new(kind, title, blocks).into())
}

impl NumberCard {
    pub(crate) fn new(name: impl Into<String>, value: Cell, note: impl Into<Vec<Cell>>) -> Self {
        Self { name: name.into(), value, note: note.into(), is_bad: false }
    }
}

impl ReportFact {
    pub(crate) fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), hint: None }
    }
}

/// Returns `1 host`, `2 addresses`.
pub(crate) fn counted(number: impl ToString, thing: &str) -> String {
    let number = number.to_string();
    let plural = match (number.as_str(), thing.ends_with('s')) {
        ("1", _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{number} {thing}{plural}")
}

/// Formats a share with one decimal.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

impl ReportWarning {
    pub(crate) fn all(warnings: &[measure::record::RunWarning]) -> ReportBlock {
        ReportBlock::Warnings(warnings.iter().map(Self::of).collect())
    }

    /// Makes a warning about the section around it.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { about: String::new(), text: text.into(), hint: None }
    }

    pub(crate) fn of(warning: &measure::record::RunWarning) -> Self {
        Self { hint: Some(warning.hint.clone()), ..Self::new(&warning.seen) }
    }
}

impl ReportTable {
    /// Makes an empty table. Heads that begin with `<` are left-aligned, and shown without it.
    pub(crate) fn new<S: AsRef<str>>(
        caption: impl Into<String>,
        heads: impl IntoIterator<Item = S>,
    ) -> Self {
        let column = |head: S| {
            let left = head.as_ref().strip_prefix('<');
            TableColumn {
                head: left.unwrap_or_else(|| head.as_ref()).to_owned(),
                is_left: left.is_some(),
            }
        };
        Self {
            caption: caption.into(),
            columns: heads.into_iter().map(column).collect(),
            ..Self::default()
        }
    }

    /// Sets the prefix of the ids of values.
    pub(crate) fn prefixed(self, prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..self }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(TableRow::Cells(cells.into_iter().collect()));
    }

    /// Adds a heading for the rows that follow; none if it is empty.
    pub(crate) fn head(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.rows.push(TableRow::Head(text));
        }
    }

    pub(crate) fn block(self) -> Option<ReportBlock> {
        (!self.rows.is_empty()).then_some(ReportBlock::Table(self))
    }
}

impl Cell {
    /// Makes a number that programs can read from the page by that id.
    pub(crate) fn id(self, id: impl Into<String>, value: f64) -> Self {
        Self { value: Some((id.into(), value)), ..self }
    }

    /// Makes such a number that may be missing.
    pub(crate) fn maybe_id(self, id: impl Into<String>, value: Option<f64>) -> Self {
        Self { value: value.map(|value| (id.into(), value)), ..self }
    }

    pub(crate) fn maybe(text: Option<impl ToString>) -> Self {
        text.map_or_else(|| Self::from(NONE), Self::from)
    }
}

impl Figure {
    pub(crate) fn block(id: &str, plot: impl Into<Plot>) -> ReportBlock {
        Self::titled((id.to_owned(), String::new(), plot))
    }

    /// Puts figures beside each other: each with its id, title and plot.
    pub(crate) fn row<P: Into<Plot>>(figures: Vec<(String, String, P)>) -> Option<ReportBlock> {
        section(SectionKind::Beside("beside"), "", figures.into_iter().map(Self::titled))
    }

    fn titled<P: Into<Plot>>((id, title, plot): (String, String, P)) -> ReportBlock {
        ReportBlock::Figure(Box::new(Self { id, title, plot: plot.into() }))
    }
}

/// Makes a row of cells from texts, numbers, or cells.
macro_rules! cells {
    ($($value:expr),* $(,)?) => {
        [$($crate::document::Cell::from($value)),*]
    };
}
pub(crate) use cells;

impl<T: ToString> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.to_string(), ..Self::default() }
    }
}

impl ReportDocument {
    /// Returns all figures as files: name without extension, and SVG.
    pub fn figures(&self) -> Vec<(String, String)> {
        self.files.iter().map(|(name, plot)| (name.clone(), plot.document())).collect()
    }

    /// Returns all sheets as files: name without extension, and CSV.
    pub fn sheets(&self) -> Vec<(String, String)> {
        let sheets = self.sheets.iter().map(|sheet| {
            let rows = sheet.rows.iter().map(|row| line(row));
            let text = sheet.heads.join(",") + "\n" + &rows.collect::<String>();
            (sheet.name.clone(), text)
        });
        sheets.collect()
    }
}

fn line(fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    fields.join(",") + "\n"
}

/// Quotes a field if necessary. Text that a spreadsheet would take for a formula is escaped.
fn quoted(field: &str) -> String {
    let is_formula = field.starts_with(['=', '+', '@'])
        || (field.starts_with('-') && field.parse::<f64>().is_err());
    let field = format!("{}{field}", if is_formula { "'" } else { "" });
    if field.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", field.replace('"', "\"\""));
    }
    field
}

/// Formats a number as a field; empty without a number.
pub(crate) fn number(value: Option<f64>) -> String {
    let value = value.filter(|value| value.is_finite());
    value.map_or_else(String::new, |value| value.to_string())
}
