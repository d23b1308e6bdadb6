//! A small writer of figures as SVG: panels that each have an axis below them, and bars beside
//! their names.
//!
//! A panel is drawn once, in a size whose letters can be read on a telephone and on a desk: a page
//! stretches panels and puts as many beside each other as its width allows. Colours come from the
//! style sheet by name, so that a page can be dark or light; lines differ by their dashes too.

mod axis;
mod bars;
mod shapes;

use crate::markup::{Element, element};

pub(crate) use axis::{Axis, Unit};
pub(crate) use bars::{Bar, BarPanel, Bars};
pub(crate) use shapes::text as drawing_text;

/// The names of the colours, and the looks of what is drawn with them.
pub(crate) const PALETTE: &str = include_str!("style/palette.css");
pub(crate) const STYLE: &str = include_str!("style/figure.css");

/// The width of a panel in CSS pixels.
const WIDTH: f64 = 420.0;

#[derive(Clone, Debug)]
pub(crate) enum Plot {
    Chart(Chart),
    Bars(Bars),
}

/// Panels that have the same axis below them.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) description: String,
    /// The axis below all panels.
    pub(crate) x: Axis,
    pub(crate) panels: Vec<Panel>,
    /// What is said about stretches of the axis when one points there.
    pub(crate) columns: Vec<Column>,
}

/// A panel with an axis of its own at its left.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Horizontal lines at values of its axis, each with what it means.
    pub(crate) limits: Vec<(f64, String)>,
    pub(crate) callouts: Vec<Callout>,
}

#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// In the legend; none without a name.
    pub(crate) name: String,
    pub(crate) colour: &'static str,
    pub(crate) shape: Shape,
    /// In the order of `x`. One that has no place on the axes is a gap.
    pub(crate) points: Vec<(f64, f64)>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// A line with these dashes (empty: whole).
    Line(&'static str),
    /// The samples behind a smoother line, dotted.
    Raw,
    /// A line with a mark at each point.
    Marked(&'static str),
    /// A surface: forth along the upper edge, back along the lower one.
    Band,
}

/// A point that has a name, with a line to it.
#[derive(Clone, Debug)]
pub(crate) struct Callout {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) text: String,
}

/// A stretch of the axis below.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) text: String,
}

impl Series {
    /// A series without points yet.
    pub(crate) fn new(name: &str, colour: &'static str, shape: Shape) -> Self {
        Self {
            name: name.to_owned(),
            colour,
            shape,
            points: Vec::new(),
        }
    }

    pub(crate) fn of(self, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            points: points.into_iter().collect(),
            ..self
        }
    }
}

impl Panel {
    /// Series over an axis, without limits or callouts.
    pub(crate) fn new(y: Axis, series: Vec<Series>) -> Self {
        Self {
            y,
            series,
            limits: Vec::new(),
            callouts: Vec::new(),
        }
    }
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
        let legend = bars.legend.iter().map(|words| ("tick", words.as_str()));
        head.into_iter().chain(legend).collect()
    }

    /// The panels as elements of a page that has [`PALETTE`] and [`STYLE`]. Ids begin with `id`.
    pub(crate) fn inline(&self, id: &str) -> Vec<Element> {
        let panels = self.panels().into_iter().zip(1..);
        let svg = |((shapes, height), number): ((Vec<Element>, f64), usize)| {
            let view = format!("0 0 {WIDTH} {height}");
            let named = self.named(&format!("{id}-{number}"));
            named.with("viewBox", view).children(shapes)
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
                let place = format!("translate({column} {top})");
                let group = element("g").with("transform", place);
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
    fn panels(&self) -> Vec<(Vec<Element>, f64)> {
        match self {
            Self::Chart(chart) => chart
                .panels
                .iter()
                .map(|panel| shapes::all(chart, panel))
                .collect(),
            Self::Bars(bars) => bars.shapes(WIDTH),
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
