//! A small writer of figures as SVG: panels that each have an axis below them, and bars beside
//! their names.
//!
//! A panel is drawn once, in a size whose letters can be read on a telephone and on a desk: a page
//! stretches panels and puts as many beside each other as its width allows. Colours come from the
//! style sheet by name, so that a page can be dark or light; lines differ by their dashes too.

mod axis;
mod bars;
mod chart;
mod shapes;

use crate::markup::{MarkupElement, element};
use chart::WIDTH;

pub(crate) use axis::{Axis, AxisUnit};
pub(crate) use bars::{Bar, BarPanel, Bars};
pub(crate) use chart::{
    AxisStretch, Callout, Chart, Panel, PointMark, Series, SeriesLook, SeriesShape,
};
pub(crate) use shapes::text as drawing_text;

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

    /// Words that stand above all panels, each with its class.
    pub(crate) fn heads(&self) -> Vec<(&'static str, &str)> {
        let Self::Bars(bars) = self else {
            return Vec::new();
        };
        let head = (!bars.head.is_empty()).then_some(("head", bars.head.as_str()));
        head.into_iter().chain(bars.legend.iter().map(|words| ("tick", words.as_str()))).collect()
    }

    /// The panels as elements of a page that has [`PALETTE`] and [`STYLE`]. Ids begin with `id`.
    pub(crate) fn inline(&self, id: &str) -> Vec<MarkupElement> {
        let panels = self.panels().into_iter().zip(1..);
        let svg = |((shapes, height), number): ((Vec<MarkupElement>, f64), usize)| {
            let view = format!("0 0 {WIDTH} {height}");
            self.named(&format!("{id}-{number}")).with("viewBox", view).children(shapes)
        };
        panels.map(svg).collect()
    }

    /// As a document of its own: panels in two columns, with an edge around them.
    pub(crate) fn document(&self) -> String {
        const EDGE: f64 = 16.0;
        const APART: f64 = 28.0;
        let panels = self.panels();
        let columns = panels.len().clamp(1, 2) as f64;
        let mut shapes = Vec::new();
        let mut top = 0.0;
        for (class, words) in self.heads() {
            top += shapes::LINE;
            shapes.push(drawing_text(class, (0.0, top - 4.0), words));
        }
        for row in panels.chunks(2) {
            for ((panel, _), column) in row.iter().zip([0.0, WIDTH + APART]) {
                let group = element("g").with("transform", format!("translate({column} {top})"));
                shapes.push(group.children(panel.iter().cloned()));
            }
            top += row.iter().map(|panel| panel.1).fold(0.0, f64::max) + APART / 2.0;
        }
        let width = columns * (WIDTH + APART) - APART + 2.0 * EDGE;
        let height = (top - APART / 2.0).max(0.0) + 2.0 * EDGE;
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

    /// The shapes of each panel, and how high it is.
    fn panels(&self) -> Vec<(Vec<MarkupElement>, f64)> {
        match self {
            Self::Chart(chart) => {
                chart.panels.iter().map(|panel| shapes::all(chart, panel)).collect()
            }
            Self::Bars(bars) => bars.shapes(WIDTH),
        }
    }

    /// An empty drawing with its title and description.
    fn named(&self, id: &str) -> MarkupElement {
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
