//! A small writer of figures as SVG: panels above each other that share the axis below them.
//!
//! Colours come from the style sheet by name, so that a page can be dark or light; lines differ by
//! their dashes too. What is drawn is [`crate::drawings`]' business.

mod axis;
mod form;
mod layout;
mod scale;
mod shapes;

pub(crate) use axis::{Axis, Unit};
pub(crate) use form::{Callout, Column, Figure, NARROW, Panel, Series, Shape, Size, WIDE};

use crate::markup::{Element, element};
use layout::Layout;

/// The names of the colours, and the looks of what is drawn with them.
pub(crate) const PALETTE: &str = include_str!("style/palette.css");
pub(crate) const STYLE: &str = include_str!("style/figure.css");

impl Figure {
    /// The figure as an element of a page that has [`PALETTE`] and [`STYLE`]. Ids begin with
    /// `id`.
    pub(crate) fn inline(&self, id: &str, size: Size) -> Element {
        let layout = Layout::new(self, size);
        let view = format!("0 0 {} {}", layout.width, layout.height);
        let shapes = shapes::all(self, &layout);
        self.named(id).with("viewBox", view).children(shapes)
    }

    /// The figure as a document of its own, with an edge around it.
    pub(crate) fn document(&self, size: Size) -> String {
        const EDGE: f64 = 16.0;
        let layout = Layout::new(self, size);
        let (width, height) = (layout.width + 2.0 * EDGE, layout.height + 2.0 * EDGE);
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
            .children(shapes::all(self, &layout));
        format!("{svg}\n")
    }

    /// An empty drawing with its names.
    fn named(&self, id: &str) -> Element {
        let (title_id, text_id) = (format!("{id}-title"), format!("{id}-text"));
        element("svg")
            .with("class", "figure")
            .with("role", "img")
            .with("aria-labelledby", format!("{title_id} {text_id}"))
            .child(element("title").with("id", title_id).text(&self.title))
            .child(element("desc").with("id", text_id).text(&self.description))
    }
}
