//! The elements of a figure: grid, lines, marks and names.

use crate::markup::{Element, element};

use super::form::{Callout, Chart, Column, Panel, Series, Shape};
use super::layout::{LINE, Layout, Place, SAMPLE, text_width};
use super::scale::Scale;

/// Everything, from the back to the front.
pub(crate) fn all(figure: &Chart, layout: &Layout) -> Vec<Element> {
    let mut shapes = Vec::new();
    for (panel, place) in figure.panels.iter().zip(&layout.panels) {
        let draw = Draw {
            x: figure.x.scale,
            y: panel.y.scale,
            layout,
            place,
        };
        shapes.extend(draw.grid(figure, panel));
        shapes.extend(draw.heads(panel));
        shapes.extend(panel.limits.iter().map(|limit| draw.limit(limit)));
        shapes.extend(panel.series.iter().flat_map(|series| draw.series(series)));
        shapes.extend(draw.callouts(&panel.callouts));
    }
    shapes.extend(foot(figure, layout));
    shapes.extend(
        figure
            .columns
            .iter()
            .filter_map(|it| column(figure, layout, it)),
    );
    shapes
}

struct Draw<'a> {
    x: Scale,
    y: Scale,
    layout: &'a Layout,
    place: &'a Place,
}

impl Draw<'_> {
    fn x(&self, value: f64) -> Option<f64> {
        let width = self.layout.right - self.layout.left;
        Some(self.layout.left + self.x.place(value)? * width)
    }

    fn y(&self, value: f64) -> Option<f64> {
        let height = self.place.bottom - self.place.top;
        Some(self.place.bottom - self.y.place(value)? * height)
    }

    fn grid(&self, figure: &Chart, panel: &Panel) -> Vec<Element> {
        let (left, right) = (self.layout.left, self.layout.right);
        let (top, bottom) = (self.place.top, self.place.bottom);
        let mut shapes = Vec::new();
        for (tick, _) in figure.x.named_ticks(self.layout.ticks) {
            shapes.extend(self.x(tick).map(|x| line("grid", (x, top), (x, bottom))));
        }
        for (tick, name) in panel.y.named_ticks(self.place.ticks) {
            let Some(y) = self.y(tick) else { continue };
            shapes.push(line("grid", (left, y), (right, y)));
            shapes.push(text("tick end", (left - 7.0, y + 4.0), &name));
        }
        shapes.push(line("base", (left, bottom), (right, bottom)));
        shapes
    }

    fn heads(&self, panel: &Panel) -> Vec<Element> {
        let mut shapes = vec![text("head", (0.0, self.place.title), &panel.y.title)];
        for (series, entry) in panel.series.iter().zip(&self.place.legend) {
            let Some((x, y)) = *entry else { continue };
            shapes.push(element("g").child(sample(series, x, y - 4.0)));
            shapes.push(text("name", (x + SAMPLE, y), &series.name));
        }
        shapes
    }

    /// Its name stands above the line where there is room.
    fn limit(&self, (value, name): &(f64, String)) -> Element {
        let group = element("g").with("class", "limit");
        let Some(y) = self.y(*value) else {
            return group;
        };
        let (left, right) = (self.layout.left, self.layout.right);
        let baseline = if y - LINE > self.place.top {
            y - 5.0
        } else {
            y + LINE - 4.0
        };
        group.child(line("edge", (left, y), (right, y))).child(text(
            "tick",
            (left + 5.0, baseline),
            name,
        ))
    }

    fn series(&self, series: &Series) -> Vec<Element> {
        let runs = self.runs(series);
        let mut shapes = Vec::new();
        let (class, dashes) = match series.shape {
            Shape::Line(dashes) | Shape::Marked(dashes) => ("line", dashes),
            Shape::Raw => ("line raw", "1 3"),
            Shape::Band => ("band", ""),
        };
        shapes.extend(path(class, dashes, series, &runs));
        // A lonely point would be a line of no length.
        let lonely = runs.iter().filter(|run| run.len() == 1);
        match series.shape {
            Shape::Marked(_) => {
                let points = runs.iter().flatten();
                shapes.extend(points.map(|point| dot(series.colour, *point, 3.0)));
            }
            Shape::Line(_) => shapes.extend(lonely.map(|run| dot(series.colour, run[0], 3.0))),
            Shape::Raw | Shape::Band => {}
        }
        shapes
    }

    /// The points in pixels, parted where there is none.
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

    /// Names in a list at the upper left, each with a line to its point.
    fn callouts(&self, callouts: &[Callout]) -> Vec<Element> {
        let mut sorted: Vec<&Callout> = callouts.iter().collect();
        sorted.sort_by(|a, b| b.y.total_cmp(&a.y));
        let mut lowest = self.place.top + 2.0;
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
}

fn foot(figure: &Chart, layout: &Layout) -> Vec<Element> {
    let Some(last) = layout.panels.last() else {
        return Vec::new();
    };
    let width = layout.right - layout.left;
    let baseline = last.bottom + LINE;
    let mut shapes = Vec::new();
    let mut taken = f64::NEG_INFINITY;
    for (tick, name) in figure.x.named_ticks(layout.ticks) {
        let Some(share) = figure.x.scale.place(tick) else {
            continue;
        };
        let half = text_width(&name) / 2.0;
        // What is outside the drawing is not seen.
        let x = (layout.left + share * width).min(layout.width - half);
        let x = x.max(half);
        // Names do not run into each other.
        if x - half > taken {
            shapes.push(text("tick middle", (x, baseline), &name));
            taken = x + half;
        }
    }
    let title = (layout.right, baseline + LINE);
    shapes.push(text("tick end", title, &figure.x.title));
    shapes
}

fn column(figure: &Chart, layout: &Layout, column: &Column) -> Option<Element> {
    let (first, last) = (layout.panels.first()?, layout.panels.last()?);
    let width = layout.right - layout.left;
    let from = figure.x.scale.place(column.from)? * width;
    let to = figure.x.scale.place(column.to)? * width;
    let surface = element("rect")
        .with("class", "column")
        .with("x", pixels(layout.left + from))
        .with("y", pixels(first.top))
        .with("width", pixels(to - from))
        .with("height", pixels(last.bottom - first.top));
    let title = element("title").text(&column.text);
    Some(surface.child(title))
}

fn sample(series: &Series, x: f64, y: f64) -> Element {
    let end = x + SAMPLE - 7.0;
    let mark = || dot(series.colour, (f64::midpoint(x, end), y), 3.0);
    let (x, end) = (pixels(x), pixels(end));
    let path = |class, dashes, data| path_of(class, dashes, series.colour, data);
    let line = |dashes| path("line", dashes, format!("M{x} {}H{end}", pixels(y)));
    match series.shape {
        Shape::Line(dashes) => line(dashes),
        Shape::Marked(dashes) => element("g").child(line(dashes)).child(mark()),
        Shape::Band => path("band", "", format!("M{x} {}H{end}v8H{x}z", pixels(y - 4.0))),
        Shape::Raw => mark(),
    }
}

fn path(class: &str, dashes: &str, series: &Series, runs: &[Vec<(f64, f64)>]) -> Option<Element> {
    let mut data = String::new();
    for run in runs.iter().filter(|run| run.len() > 1) {
        for (index, (x, y)) in run.iter().enumerate() {
            data.push(if index == 0 { 'M' } else { 'L' });
            data += &format!("{} {}", pixels(*x), pixels(*y));
        }
        if series.shape == Shape::Band {
            data.push('z');
        }
    }
    (!data.is_empty()).then(|| path_of(class, dashes, series.colour, data))
}

fn path_of(class: &str, dashes: &str, colour: &str, data: String) -> Element {
    let path = element("path")
        .with("class", format!("{class} {colour}"))
        .with("d", data);
    match dashes {
        "" => path,
        dashes => path.with("stroke-dasharray", dashes),
    }
}

fn dot(colour: &str, (x, y): (f64, f64), radius: f64) -> Element {
    element("circle")
        .with("class", format!("dot {colour}"))
        .with("cx", pixels(x))
        .with("cy", pixels(y))
        .with("r", radius)
}

fn line(class: &'static str, from: (f64, f64), to: (f64, f64)) -> Element {
    element("line")
        .with("class", class)
        .with("x1", pixels(from.0))
        .with("y1", pixels(from.1))
        .with("x2", pixels(to.0))
        .with("y2", pixels(to.1))
}

pub(crate) fn text(class: &'static str, (x, y): (f64, f64), text: &str) -> Element {
    element("text")
        .with("class", class)
        .with("x", pixels(x))
        .with("y", pixels(y))
        .text(text)
}

/// With one decimal at most.
pub(crate) fn pixels(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    // Not `-0`.
    (rounded + 0.0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Axis;
    use crate::figure::form::{NARROW, Size};

    #[test]
    fn long_names_at_the_edges_stay_inside() {
        let long = "a new connection for each query";
        let chart = Chart {
            title: String::new(),
            description: String::new(),
            x: Axis::places(
                "",
                vec![long.to_owned(), "kept".to_owned(), long.to_owned()],
            ),
            panels: vec![Panel::new(
                Axis::durations("", [1.0].into_iter()),
                Vec::new(),
            )],
            columns: Vec::new(),
        };
        let size = Size {
            width: 900.0,
            ..NARROW
        };
        let layout = Layout::new(&chart, size);
        let half = text_width(long) / 2.0;
        let svg: String = foot(&chart, &layout)
            .iter()
            .map(ToString::to_string)
            .collect();
        for edge in [half, size.width - half] {
            assert!(svg.contains(&format!(" x=\"{}\" ", pixels(edge))), "{svg}");
        }
    }
}
