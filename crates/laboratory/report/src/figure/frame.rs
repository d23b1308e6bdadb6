//! What stands around shapes: the drawing with its names, as part of a page or as a document.

use crate::markup::{Element, element};

/// The names of the colours, and the looks of what is drawn with them.
pub(crate) const PALETTE: &str = include_str!("../style/palette.css");
pub(crate) const STYLE: &str = include_str!("../style/figure.css");

/// As an element of a page that has [`PALETTE`] and [`STYLE`]: title and description, width and
/// height. Ids begin with `id`.
pub(super) fn inline(
    id: &str,
    names: (&str, &str),
    (width, height): (f64, f64),
    shapes: Vec<Element>,
) -> Element {
    let view = format!("0 0 {width} {height}");
    named(id, names).with("viewBox", view).children(shapes)
}

/// As a document of its own, with an edge around it.
pub(super) fn document(
    names: (&str, &str),
    (width, height): (f64, f64),
    shapes: Vec<Element>,
) -> String {
    const EDGE: f64 = 16.0;
    let (width, height) = (width + 2.0 * EDGE, height + 2.0 * EDGE);
    let background = element("rect")
        .with("x", -EDGE)
        .with("y", -EDGE)
        .with("width", width)
        .with("height", height)
        .with("style", "fill:var(--card)");
    let svg = named("figure", names)
        .with("xmlns", "http://www.w3.org/2000/svg")
        .with("viewBox", format!("-{EDGE} -{EDGE} {width} {height}"))
        .child(element("style").ours(PALETTE).ours(STYLE))
        .child(background)
        .children(shapes);
    format!("{svg}\n")
}

/// An empty drawing with its names.
fn named(id: &str, (title, description): (&str, &str)) -> Element {
    let (title_id, text_id) = (format!("{id}-title"), format!("{id}-text"));
    element("svg")
        .with("class", "figure")
        .with("role", "img")
        .with("aria-labelledby", format!("{title_id} {text_id}"))
        .child(element("title").with("id", title_id).text(title))
        .child(element("desc").with("id", text_id).text(description))
}
