//! Where the parts of a figure stand, in pixels.

use super::form::{Chart, Panel, Series, Shape, Size};

#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) panels: Vec<Place>,
    /// About how many ticks there is room for below.
    pub(crate) ticks: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The baseline of its title.
    pub(crate) title: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    /// About how many ticks there is room for at its left.
    pub(crate) ticks: usize,
    /// Where each series' entry in the legend begins, if it has one: left end and baseline.
    pub(crate) legend: Vec<Option<(f64, f64)>>,
}

/// Height of a line of text.
pub(crate) const LINE: f64 = 17.0;

/// Width of the line or mark in front of a name in the legend, with the gap behind it.
pub(crate) const SAMPLE: f64 = 30.0;

/// Between the title and the legend, and between its entries.
const APART: f64 = 18.0;

const BETWEEN: f64 = 12.0;

/// Below the last panel: ticks and the axis' title.
const FOOT: f64 = 2.0 * LINE + 6.0;

/// Right of the plots, so that the last tick's name has room.
const MARGIN: f64 = 26.0;

impl Layout {
    pub(crate) fn new(figure: &Chart, size: Size) -> Self {
        let names = figure.panels.iter().flat_map(|panel| {
            let ticks = panel.y.named_ticks(vertical_ticks(panel, size));
            ticks.into_iter().map(|(_, name)| text_width(&name))
        });
        let left = names.fold(20.0, f64::max).ceil() + 10.0;
        let mut top = 0.0;
        let mut panels = Vec::new();
        for panel in &figure.panels {
            let place = place(panel, top, size);
            top = place.bottom + BETWEEN;
            panels.push(place);
        }
        let ticks = horizontal_ticks(figure, size.width - left - MARGIN);
        Self {
            width: size.width,
            height: (top - BETWEEN).max(0.0) + FOOT,
            left,
            right: size.width - MARGIN,
            panels,
            ticks,
        }
    }
}

fn place(panel: &Panel, top: f64, size: Size) -> Place {
    let title = top + LINE - 4.0;
    let entries: Vec<Option<f64>> = panel.series.iter().map(entry_width).collect();
    let all: f64 = entries.iter().flatten().map(|width| width + APART).sum();
    const BOLD: f64 = 1.15;
    let after_title = text_width(&panel.y.title) * BOLD + APART;
    // Beside the title if all have room there, else below it.
    let (mut x, mut baseline) = if after_title + all - APART <= size.width {
        (after_title, title)
    } else {
        (0.0, title + LINE)
    };
    let mut legend = Vec::new();
    for entry in entries {
        let Some(width) = entry else {
            legend.push(None);
            continue;
        };
        if x > 0.0 && x + width > size.width {
            x = 0.0;
            baseline += LINE;
        }
        legend.push(Some((x, baseline)));
        x += width + APART;
    }
    let top = baseline + 12.0;
    Place {
        title,
        top,
        bottom: top + size.height,
        ticks: vertical_ticks(panel, size),
        legend,
    }
}

/// Of its entry in the legend, if it has one.
fn entry_width(series: &Series) -> Option<f64> {
    let has_entry = !series.name.is_empty() && !matches!(series.shape, Shape::Raw);
    has_entry.then(|| SAMPLE + text_width(&series.name))
}
/// A tick each two and a half lines.
fn vertical_ticks(panel: &Panel, size: Size) -> usize {
    let room = (size.height / (LINE * 2.5)) as usize;
    panel.y.ticks.min(room).max(2)
}

fn horizontal_ticks(figure: &Chart, width: f64) -> usize {
    const LONGEST: f64 = 64.0;
    figure.x.ticks.min((width / LONGEST) as usize).max(2)
}

/// About how wide a text is. The reader's font is not known; most are narrower.
pub(crate) fn text_width(text: &str) -> f64 {
    const CHARACTER: f64 = 6.7;
    text.chars().count() as f64 * CHARACTER
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::form::NARROW;
    use crate::figure::{Axis, Unit};

    #[test]
    fn a_legend_leaves_room_for_a_bold_title() {
        let axis = Axis::from_zero("handshakes that resumed, %", Unit::Count, 100.0, 4);
        let line = Series::new("resumed", "teal", Shape::Line(""));
        let place = place(&Panel::new(axis, vec![line]), 0.0, NARROW);
        // Of 26 letters, each 7.7 wide.
        let (x, baseline) = place.legend[0].unwrap();
        assert!(x > 26.0 * 7.7 && baseline == place.title, "{x}");
    }
}
