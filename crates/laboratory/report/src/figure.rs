//! A small writer of figures as SVG: panels above each other that share the axis below them, and
//! bars beside their names.
//!
//! Colours come from the style sheet by name, so that a page can be dark or light; lines differ by
//! their dashes too. What is drawn is decided where a report is made.

mod axis;
mod bars;
mod form;
mod layout;
mod scale;
mod shapes;

pub(crate) use axis::{Axis, Unit};
pub(crate) use bars::{Bar, BarPanel, Bars};
pub(crate) use form::{Callout, Chart, Column, Panel, Series, Shape};
pub(crate) use shapes::text as drawing_text;

use crate::markup::{Element, element};
pub(crate) use form::{HALF, NARROW, Size, WIDE};
use layout::Layout;

/// The names of the colours, and the looks of what is drawn with them.
pub(crate) const PALETTE: &str = include_str!("style/palette.css");
pub(crate) const STYLE: &str = include_str!("style/figure.css");

#[derive(Clone, Debug)]
pub(crate) enum Plot {
    Chart(Chart),
    Bars(Bars),
}

impl From<Chart> for Plot {
    fn from(chart: Chart) -> Self {
        Self::Chart(chart)
    }
}

impl Plot {
    pub(crate) fn panel_count(&self) -> usize {
        match self {
            Self::Chart(chart) => chart.panels.len(),
            Self::Bars(bars) => bars.panels.len(),
        }
    }

    /// With the first panels alone.
    pub(crate) fn shortened(mut self, panels_max: usize) -> Self {
        match &mut self {
            Self::Chart(chart) => chart.panels.truncate(panels_max),
            Self::Bars(bars) => bars.panels.truncate(panels_max),
        }
        self
    }

    /// As an element of a page that has [`PALETTE`] and [`STYLE`]. Ids begin with `id`.
    pub(crate) fn inline(&self, id: &str, size: Size) -> Element {
        let columns = match self {
            _ if size.width < WIDE.width => 1,
            Self::Bars(bars) if bars.panels.len() % 3 == 0 => 3,
            _ => 2,
        };
        let (shapes, width, height) = self.shapes(size, columns);
        let view = format!("0 0 {width} {height}");
        self.named(id).with("viewBox", view).children(shapes)
    }

    /// As a document of its own, with an edge around it.
    pub(crate) fn document(&self) -> String {
        const EDGE: f64 = 16.0;
        /// As wide as a column of text on a desk: letters have the size of the text around them.
        const COLUMN: f64 = 760.0;
        let size = match self {
            Self::Chart(_) => WIDE,
            Self::Bars(_) => Size {
                width: COLUMN,
                ..WIDE
            },
        };
        let (shapes, width, height) = self.shapes(size, 1);
        let (width, height) = (width + 2.0 * EDGE, height + 2.0 * EDGE);
        let background = element("rect")
            .with("x", -EDGE)
            .with("y", -EDGE)
            .with("width", width)
            .with("height", height)
            .with("style", "fill:var(--card)");
        let svg = self
            .named("figure")
            .with("xmlns", "http://www.w3.org/2000/svg")
            .with("viewBox", format!("-{EDGE} -{EDGE} {width} {height}"))
            .child(element("style").ours(PALETTE).ours(STYLE))
            .child(background)
            .children(shapes);
        format!("{svg}\n")
    }

    fn shapes(&self, size: Size, columns: usize) -> (Vec<Element>, f64, f64) {
        match self {
            Self::Chart(chart) => {
                let layout = Layout::new(chart, size);
                (shapes::all(chart, &layout), layout.width, layout.height)
            }
            Self::Bars(bars) => {
                let (shapes, height) = bars.shapes(size.width, columns);
                (shapes, size.width, height)
            }
        }
    }

    /// An empty drawing with its title and description.
    fn named(&self, id: &str) -> Element {
        let (title, description) = match self {
            Self::Chart(chart) => (&chart.title, &chart.description),
            Self::Bars(bars) => (&bars.title, &bars.description),
        };
        let (title_id, text_id) = (format!("{id}-title"), format!("{id}-text"));
        element("svg")
            .with("class", "figure")
            .with("role", "img")
            .with("aria-labelledby", format!("{title_id} {text_id}"))
            .child(element("title").with("id", title_id).text(title))
            .child(element("desc").with("id", text_id).text(description))
    }
}
