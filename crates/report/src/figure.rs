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
        self.draw(id, size, None)
    }

    /// The figure as a document of its own.
    pub(crate) fn document(&self, size: Size) -> String {
        let style = element("style").ours(PALETTE).ours(STYLE);
        let background = element("rect")
            .with("width", "100%")
            .with("height", "100%")
            .with("style", "fill:var(--card)");
        let before = element("g").child(style).child(background);
        let svg = self.draw("figure", size, Some(before));
        let svg = svg.with("xmlns", "http://www.w3.org/2000/svg");
        format!("{svg}\n")
    }

    fn draw(&self, id: &str, size: Size, before: Option<Element>) -> Element {
        let layout = Layout::new(self, size);
        let (title_id, text_id) = (format!("{id}-title"), format!("{id}-text"));
        let names = format!("{title_id} {text_id}");
        let view = format!("0 0 {} {}", layout.width, layout.height);
        element("svg")
            .with("class", "figure")
            .with("role", "img")
            .with("viewBox", view)
            .with("aria-labelledby", names)
            .child(element("title").with("id", title_id).text(&self.title))
            .child(element("desc").with("id", text_id).text(&self.description))
            .children(before)
            .children(shapes::all(self, &layout))
    }
}
