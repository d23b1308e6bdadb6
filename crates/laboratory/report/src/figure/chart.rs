//! The parts of a chart before it is drawn.

use super::axis::Axis;

/// The width of a panel in CSS pixels.
pub(crate) const WIDTH: f64 = 420.0;

/// Panels that have the same axis below them.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) description: String,
    /// The axis below all panels.
    pub(crate) x: Axis,
    pub(crate) panels: Vec<Panel>,
    /// Words about stretches of the axis when one points there.
    pub(crate) columns: Vec<AxisStretch>,
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
    pub(crate) shape: SeriesShape,
    /// In the order of `x`. One that has no place on the axes is a gap.
    pub(crate) points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct AxisStretch {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) text: String,
}

/// The look of a target or run: as many colours as readers of any colour vision tell apart, dashes
/// in turn, and another mark where colours begin anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeriesLook {
    pub(crate) colour: &'static str,
    dashes: &'static str,
    mark: PointMark,
}

/// Rose is what failed, and grey and ink are the load, so that a colour means one thing on a page.
const COLOURS: [&str; 7] = ["blue", "amber", "teal", "plum", "olive", "sky", "brown"];
/// Not as many as colours, so that the two do not begin anew together.
const DASHES: [&str; 5] = ["", "8 3", "3 3", "9 3 2 3", "14 3"];
const MARKS: [PointMark; 3] = [PointMark::Circle, PointMark::Square, PointMark::Triangle];

impl SeriesLook {
    /// The look of the target or run at that place of all.
    pub(crate) fn at(place: usize) -> Self {
        Self {
            colour: COLOURS[place % COLOURS.len()],
            dashes: DASHES[place % DASHES.len()],
            mark: MARKS[place / COLOURS.len() % MARKS.len()],
        }
    }

    /// Whether its colour has another place too.
    pub(crate) fn is_again(self) -> bool {
        self.mark != MARKS[0]
    }

    pub(crate) fn line(self) -> SeriesShape {
        SeriesShape::Line(self.dashes)
    }

    pub(crate) fn marked(self) -> SeriesShape {
        SeriesShape::Marked(self.dashes, self.mark)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PointMark {
    Circle,
    Square,
    Triangle,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SeriesShape {
    /// A line with these dashes (empty: whole).
    Line(&'static str),
    /// The samples behind a smoother line, dotted.
    Raw,
    /// A line with a mark at each point.
    Marked(&'static str, PointMark),
    /// A surface: forth along the upper edge, back along the lower one.
    Band,
    /// An interval at each place: its lower end and its upper one, in turn.
    Whiskers,
}

/// A point that has a name, with a line to it.
#[derive(Clone, Debug)]
pub(crate) struct Callout {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) text: String,
}

impl Series {
    /// A series without points yet.
    pub(crate) fn new(name: &str, colour: &'static str, shape: SeriesShape) -> Self {
        Self { name: name.to_owned(), colour, shape, points: Vec::new() }
    }

    /// The surface between the least and the greatest of each place: `x`, least, greatest.
    pub(crate) fn band(colour: &'static str, edges: &[(f64, f64, f64)]) -> Self {
        let forth = edges.iter().map(|(x, _, greatest)| (*x, *greatest));
        let back = edges.iter().rev().map(|(x, least, _)| (*x, *least));
        Self::new("", colour, SeriesShape::Band).of(forth.chain(back))
    }

    /// Intervals: `x`, lower end, upper end.
    pub(crate) fn whiskers(colour: &'static str, ends: &[(f64, f64, f64)]) -> Self {
        let points = ends.iter().flat_map(|(x, from, to)| [(*x, *from), (*x, *to)]);
        Self::new("", colour, SeriesShape::Whiskers).of(points)
    }

    pub(crate) fn of(self, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { points: points.into_iter().collect(), ..self }
    }
}

impl Panel {
    /// Series over an axis, without limits or callouts.
    pub(crate) fn new(y: Axis, series: Vec<Series>) -> Self {
        Self { y, series, limits: Vec::new(), callouts: Vec::new() }
    }
}

impl Chart {
    /// Gives the panels at the same place of several charts one scale, so that they are compared by
    /// eye.
    pub(crate) fn share_scales<'c>(charts: impl IntoIterator<Item = &'c mut Self>) {
        let mut charts: Vec<&mut Self> = charts.into_iter().collect();
        let most = charts.iter().map(|chart| chart.panels.len()).max().unwrap_or(0);
        Axis::share(charts.iter_mut().map(|chart| &mut chart.x));
        for place in 0..most {
            let panels = charts.iter_mut().filter_map(|chart| chart.panels.get_mut(place));
            Axis::share(panels.map(|panel| &mut panel.y));
        }
    }
}
