//! A small writer of figures as SVG: panels above each other that share the axis below them.
//!
//! Colours come from the style sheet by name, so that a page can be dark or light; lines differ by
//! their dashes too. What is drawn is [`crate::drawings`]' business.

mod axis;
mod bars;
mod form;
mod frame;
mod layout;
mod scale;
mod shapes;

pub(crate) use axis::{Axis, Unit};
pub(crate) use bars::{Bar, BarPanel, Bars};
pub(crate) use form::{Callout, Column, Figure, NARROW, Panel, Series, Shape, Size, WIDE};

pub(crate) use frame::{PALETTE, STYLE};

use crate::markup::Element;
use layout::Layout;

impl Figure {
    /// The figure as an element of a page that has [`PALETTE`] and [`STYLE`]. Ids begin with
    /// `id`.
    pub(crate) fn inline(&self, id: &str, size: Size) -> Element {
        let layout = Layout::new(self, size);
        let shapes = shapes::all(self, &layout);
        let place = (layout.width, layout.height);
        frame::inline(id, (&self.title, &self.description), place, shapes)
    }

    /// The figure as a document of its own, with an edge around it.
    pub(crate) fn document(&self, size: Size) -> String {
        let layout = Layout::new(self, size);
        let shapes = shapes::all(self, &layout);
        let place = (layout.width, layout.height);
        frame::document((&self.title, &self.description), place, shapes)
    }
}
