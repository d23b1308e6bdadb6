//! Places the parts of a panel, and draws them: grid, lines, marks and names.

use super::chart::{
    AxisScale, AxisStretch, Callout, Chart, Panel, PointMark, Series, SeriesShape, WIDTH,
};
use crate::markup::{MarkupElement, element};

/// Places of the parts of a panel, in pixels.
#[derive(Clone, Debug)]
struct PanelLayout {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Approximate numbers of ticks that fit below, and at the left.
    ticks: (usize, usize),
    /// Start of each series' entry in the legend, if it has one: left end and baseline.
    legend: Vec<Option<(f64, f64)>>,
}

/// Height of a line of text.
pub(crate) const LINE: f64 = 17.0;

/// Baseline of a panel's title.
const TITLE: f64 = LINE - 4.0;

/// Width of the line or mark in front of a name in the legend, with the gap behind it.
const SAMPLE: f64 = 30.0;

/// Gap between the title and the legend, and between its entries.
const APART: f64 = 18.0;

/// Height below the plot: ticks and the axis' title.
const FOOT: f64 = 2.0 * LINE + 6.0;

/// Width at the right of the plots, so that the last tick's name fits.
const MARGIN: f64 = 26.0;

/// Height of a plot.
const HEIGHT: f64 = 200.0;

impl PanelLayout {
    fn new(chart: &Chart, panel: &Panel) -> Self {
        /// Width of a tick's name on the axis below.
        const NAME: f64 = 64.0;
        // A tick each two and a half lines.
        let vertical = panel.y.ticks.min((HEIGHT / (LINE * 2.5)) as usize).max(2);
        let names = panel.y.named_ticks(vertical).into_iter().map(|(_, name)| text_width(&name));
        let left = names.fold(20.0, f64::max).ceil() + 10.0;
        let right = WIDTH - MARGIN;
        let horizontal = chart.x.ticks.min(((right - left) / NAME) as usize).max(2);
        let (legend, baseline) = legend(panel);
        let top = baseline + 12.0;
        Self { left, right, top, bottom: top + HEIGHT, ticks: (horizontal, vertical), legend }
    }
}

/// Places the legend's entries, and returns the baseline of its last line.
fn legend(panel: &Panel) -> (Vec<Option<(f64, f64)>>, f64) {
    const BOLD: f64 = 1.15;
    let entries: Vec<Option<f64>> = panel.series.iter().map(entry_width).collect();
    let all: f64 = entries.iter().flatten().map(|width| width + APART).sum();
    let after_title = text_width(&panel.y.title) * BOLD + APART;
    // Beside the title if all fit there, else below it.
    let (mut x, mut baseline) =
        if after_title + all - APART <= WIDTH { (after_title, TITLE) } else { (0.0, TITLE + LINE) };
    let mut legend = Vec::new();
    for entry in entries {
        let Some(width) = entry else {
            legend.push(None);
            continue;
        };
        if x > 0.0 && x + width > WIDTH {
            x = 0.0;
            baseline += LINE;
        }
        legend.push(Some((x, baseline)));
        x += width + APART;
    }
    (legend, baseline)
}

/// Returns the width of a series' entry in the legend, if it has one.
fn entry_width(series: &Series) -> Option<f64> {
    let has_entry = !series.name.is_empty() && !matches!(series.shape, SeriesShape::Raw);
    has_entry.then(|| SAMPLE + text_width(&series.name))
}

/// Estimates the width of a text. The reader's font is unknown; most are narrower.
pub(crate) fn text_width(text: &str) -> f64 {
    const CHARACTER: f64 = 6.7;
    text.chars().count() as f64 * CHARACTER
}

/// Returns every shape of a panel from the back to the front, and its height.
pub(crate) fn all(chart: &Chart, panel: &Panel) -> (Vec<MarkupElement>, f64) {
    let layout = &PanelLayout::new(chart, panel);
    let draw = ChartPen { x: chart.x.scale, y: panel.y.scale, layout };
    let mut shapes = draw.grid(chart, panel);
    shapes.extend(draw.heads(panel));
    shapes.extend(panel.limits.iter().map(|limit| draw.limit(limit)));
    shapes.extend(panel.series.iter().flat_map(|series| draw.series(series)));
    shapes.extend(draw.callouts(&panel.callouts));
    shapes.extend(foot(chart, layout));
    shapes.extend(chart.columns.iter().filter_map(|it| draw.column(it)));
    (shapes, layout.bottom + FOOT)
}

struct ChartPen<'a> {
    x: AxisScale,
    y: AxisScale,
    layout: &'a PanelLayout,
}

impl ChartPen<'_> {
    fn x(&self, value: f64) -> Option<f64> {
        let width = self.layout.right - self.layout.left;
        Some(self.layout.left + self.x.place(value)? * width)
    }

    fn y(&self, value: f64) -> Option<f64> {
        Some(self.layout.bottom - self.y.place(value)? * HEIGHT)
    }

    fn grid(&self, figure: &Chart, panel: &Panel) -> Vec<MarkupElement> {
        let (left, right) = (self.layout.left, self.layout.right);
        let (top, bottom) = (self.layout.top, self.layout.bottom);
        let mut shapes = Vec::new();
        for (tick, _) in figure.x.named_ticks(self.layout.ticks.0) {
            shapes.extend(self.x(tick).map(|x| line("grid", (x, top), (x, bottom))));
        }
        for (tick, name) in panel.y.named_ticks(self.layout.ticks.1) {
            let Some(y) = self.y(tick) else { continue };
            shapes.push(line("grid", (left, y), (right, y)));
            shapes.push(text("tick end", (left - 7.0, y + 4.0), &name));
        }
        shapes.push(line("base", (left, bottom), (right, bottom)));
        shapes
    }

    fn heads(&self, panel: &Panel) -> Vec<MarkupElement> {
        let mut shapes = vec![text("head", (0.0, TITLE), &panel.y.title)];
        for (series, entry) in panel.series.iter().zip(&self.layout.legend) {
            let Some((x, y)) = *entry else { continue };
            shapes.push(element("g").child(sample(series, x, y - 4.0)));
            shapes.push(text("name", (x + SAMPLE, y), &series.name));
        }
        shapes
    }

    /// Draws a limit, with its name above the line if it fits.
    fn limit(&self, (value, name): &(f64, String)) -> MarkupElement {
        let group = element("g").with("class", "limit");
        let Some(y) = self.y(*value) else {
            return group;
        };
        let (left, right) = (self.layout.left, self.layout.right);
        let baseline = if y - LINE > self.layout.top { y - 5.0 } else { y + LINE - 4.0 };
        group.child(line("edge", (left, y), (right, y))).child(text(
            "tick",
            (left + 5.0, baseline),
            name,
        ))
    }

    fn series(&self, series: &Series) -> Vec<MarkupElement> {
        if series.shape == SeriesShape::Whiskers {
            return self.whiskers(series);
        }
        let runs = self.runs(series);
        let mut shapes = Vec::new();
        let (class, dashes) = match series.shape {
            SeriesShape::Line(dashes) | SeriesShape::Marked(dashes, _) => ("line", dashes),
            SeriesShape::Raw => ("line raw", "1 3"),
            SeriesShape::Band | SeriesShape::Whiskers => ("band", ""),
        };
        shapes.extend(path(class, dashes, series, &runs));
        // A lonely point would be a line of length 0.
        let lonely = runs.iter().filter(|run| run.len() == 1);
        match series.shape {
            SeriesShape::Marked(_, mark) => {
                let points = runs.iter().flatten();
                shapes.extend(points.map(|point| marker(mark, series.colour, *point)));
            }
            SeriesShape::Line(_) => {
                shapes.extend(lonely.map(|run| dot(series.colour, run[0], 3.0)))
            }
            SeriesShape::Raw | SeriesShape::Band | SeriesShape::Whiskers => {}
        }
        shapes
    }

    /// Draws intervals with ends. An interval beyond the axis has no end there, and 0 has no place
    /// on a logarithmic axis.
    fn whiskers(&self, series: &Series) -> Vec<MarkupElement> {
        const END: f64 = 3.0;
        let there = series.points.chunks_exact(2).filter(|pair| self.y.meets(pair[0].1, pair[1].1));
        let drawn = there.filter_map(|pair| {
            let (x, lower, upper) = (self.x(pair[0].0)?, pair[0].1, pair[1].1);
            let end = |y: f64| format!("M{} {}H{}", pixels(x - END), pixels(y), pixels(x + END));
            let (from, to) = (self.y(lower), self.y(upper));
            let ends = [from, to].into_iter().flatten().map(end).collect::<String>();
            let (from, to) = (from.unwrap_or(self.layout.bottom), to.unwrap_or(self.layout.top));
            let data = format!("M{} {}V{}{ends}", pixels(x), pixels(from), pixels(to));
            let class = format!("whisker {}", series.colour);
            Some(element("path").with("class", class).with("d", data))
        });
        drawn.collect()
    }

    /// Returns the points in pixels, split at gaps.
    fn runs(&self, series: &Series) -> Vec<Vec<(f64, f64)>> {
        let mut runs = vec![Vec::new()];
        for &(x, y) in &series.points {
            match (self.x(x), self.y(y), runs.last_mut()) {
                (Some(x), Some(y), Some(run)) => run.push((x, y)),
                (_, _, Some(run)) if !run.is_empty() => runs.push(Vec::new()),
                _ => {}
            }
        }
        runs.retain(|run| !run.is_empty());
        runs
    }

    /// Lists names at the upper left, each with a line to its point.
    fn callouts(&self, callouts: &[Callout]) -> Vec<MarkupElement> {
        let mut sorted: Vec<&Callout> = callouts.iter().collect();
        sorted.sort_by(|a, b| b.y.total_cmp(&a.y));
        let mut lowest = self.layout.top + 2.0;
        let mut shapes = Vec::new();
        for callout in sorted {
            let (Some(x), Some(y)) = (self.x(callout.x), self.y(callout.y)) else {
                continue;
            };
            let left = self.layout.left + 8.0;
            let baseline = (y - 5.0).max(lowest + LINE - 5.0);
            lowest = baseline;
            let end = left + text_width(&callout.text) + 4.0;
            if end < x - 8.0 {
                shapes.push(line("leader", (end, baseline - 4.0), (x, y)));
            }
            shapes.push(dot("ink", (x, y), 4.5).with("data-callout", &callout.text));
            shapes.push(text("name halo", (left, baseline), &callout.text));
        }
        shapes
    }

    fn column(&self, column: &AxisStretch) -> Option<MarkupElement> {
        let (from, to) = (self.x(column.from)?, self.x(column.to)?);
        let surface = element("rect")
            .with("class", "column")
            .with("x", pixels(from))
            .with("y", pixels(self.layout.top))
            .with("width", pixels(to - from))
            .with("height", pixels(HEIGHT));
        Some(surface.child(element("title").text(&column.text)))
    }
}

fn foot(figure: &Chart, layout: &PanelLayout) -> Vec<MarkupElement> {
    let width = layout.right - layout.left;
    let baseline = layout.bottom + LINE;
    let mut shapes = Vec::new();
    let mut taken = f64::NEG_INFINITY;
    for (tick, name) in figure.x.named_ticks(layout.ticks.0) {
        let Some(share) = figure.x.scale.place(tick) else {
            continue;
        };
        let half = text_width(&name) / 2.0;
        // Text outside the drawing would be invisible.
        let x = (layout.left + share * width).min(WIDTH - half).max(half);
        // Names do not overlap.
        if x - half > taken {
            shapes.push(text("tick middle", (x, baseline), &name));
            taken = x + half;
        }
    }
    let title = (layout.right, baseline + LINE);
    shapes.push(text("tick end", title, &figure.x.title));
    shapes
}

fn sample(series: &Series, x: f64, y: f64) -> MarkupElement {
    let end = x + SAMPLE - 7.0;
    let middle = (f64::midpoint(x, end), y);
    let (x, end) = (pixels(x), pixels(end));
    let path = |class, dashes, data| path_of(class, dashes, series.colour, data);
    let line = |dashes| path("line", dashes, format!("M{x} {}H{end}", pixels(y)));
    match series.shape {
        SeriesShape::Line(dashes) => line(dashes),
        SeriesShape::Marked(dashes, mark) => {
            element("g").child(line(dashes)).child(marker(mark, series.colour, middle))
        }
        SeriesShape::Whiskers => path("whisker", "", format!("M{x} {}H{end}", pixels(y))),
        SeriesShape::Band => path("band", "", format!("M{x} {}H{end}v8H{x}z", pixels(y - 4.0))),
        SeriesShape::Raw => dot(series.colour, middle, 3.0),
    }
}

fn path(
    class: &str,
    dashes: &str,
    series: &Series,
    runs: &[Vec<(f64, f64)>],
) -> Option<MarkupElement> {
    let mut data = String::new();
    for run in runs.iter().filter(|run| run.len() > 1) {
        for (index, (x, y)) in run.iter().enumerate() {
            data.push(if index == 0 { 'M' } else { 'L' });
            data += &format!("{} {}", pixels(*x), pixels(*y));
        }
        if series.shape == SeriesShape::Band {
            data.push('z');
        }
    }
    (!data.is_empty()).then(|| path_of(class, dashes, series.colour, data))
}

fn path_of(class: &str, dashes: &str, colour: &str, data: String) -> MarkupElement {
    let path = element("path").with("class", format!("{class} {colour}")).with("d", data);
    match dashes {
        "" => path,
        dashes => path.with("stroke-dasharray", dashes),
    }
}

/// Draws a mark; all have about the same area.
fn marker(mark: PointMark, colour: &str, (x, y): (f64, f64)) -> MarkupElement {
    let from = |dx: f64, dy: f64| format!("M{} {}", pixels(x + dx), pixels(y + dy));
    let data = match mark {
        PointMark::Circle => return dot(colour, (x, y), 3.0),
        PointMark::Square => from(-2.8, -2.8) + "h5.6v5.6h-5.6z",
        PointMark::Triangle => from(-3.6, 2.6) + "h7.2l-3.6 -6.2z",
    };
    path_of("dot", "", colour, data)
}

fn dot(colour: &str, (x, y): (f64, f64), radius: f64) -> MarkupElement {
    element("circle")
        .with("class", format!("dot {colour}"))
        .with("cx", pixels(x))
        .with("cy", pixels(y))
        .with("r", radius)
}

fn line(class: &'static str, from: (f64, f64), to: (f64, f64)) -> MarkupElement {
    element("line")
        .with("class", class)
        .with("x1", pixels(from.0))
        .with("y1", pixels(from.1))
        .with("x2", pixels(to.0))
        .with("y2", pixels(to.1))
}

pub(crate) fn text(class: &'static str, (x, y): (f64, f64), text: &str) -> MarkupElement {
    element("text").with("class", class).with("x", pixels(x)).with("y", pixels(y)).text(text)
}

/// Formats a length with at most one decimal.
pub(crate) fn pixels(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    // Not `-0`.
    (rounded + 0.0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Axis, AxisUnit};

    #[test]
    fn a_legend_leaves_room_for_a_bold_title() {
        let axis = Axis::from_zero("handshakes that resumed, %", AxisUnit::Count, 100.0, 4);
        let line = Series::new("resumed", "teal", SeriesShape::Line(""));
        let (legend, _) = legend(&Panel::new(axis, vec![line]));
        // Text of 26 letters, each 7.7 wide.
        let (x, baseline) = legend[0].unwrap();
        assert!(x > 26.0 * 7.7 && baseline == TITLE, "{x}");
    }

    #[test]
    fn long_names_at_the_edges_stay_inside() {
        let long = "a new connection each";
        let names = [long, "kept", long].map(str::to_owned);
        let chart = Chart {
            title: String::new(),
            description: String::new(),
            x: Axis::places("", names.into()),
            panels: Vec::new(),
            columns: Vec::new(),
        };
        let panel = Panel::new(Axis::durations("", [1.0].into_iter()), Vec::new());
        let half = text_width(long) / 2.0;
        let shapes = foot(&chart, &PanelLayout::new(&chart, &panel));
        let svg: String = shapes.iter().map(ToString::to_string).collect();
        for edge in [half, WIDTH - half] {
            assert!(svg.contains(&format!(" x=\"{}\" ", pixels(edge))), "{svg}");
        }
    }
}
