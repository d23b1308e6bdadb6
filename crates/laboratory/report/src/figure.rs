//! Writes figures as SVG: panels with an axis below each, and bars beside the names of things that
//! are not numbers.
//!
//! A panel is drawn once, in a size whose letters can be read on a telephone and on a desk: a page
//! stretches panels and puts as many beside each other as its width allows. Colours come from the
//! style sheet by name, so that a page can be dark or light; lines differ by their dashes too.

mod chart;
mod shapes;

use crate::markup::{MarkupElement, element};
use crate::words::joined;
use chart::WIDTH;
use shapes::{LINE, pixels, text, text_width};

pub(crate) use chart::{
    Axis, AxisStretch, AxisUnit, Callout, Chart, Panel, PointMark, Series, SeriesLook, SeriesShape,
};
pub(crate) use shapes::text as drawing_text;

/// Names of the colours, and the styles of everything drawn with them.
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

    /// Keeps the first panels only.
    pub(crate) fn shortened(mut self, panels_max: usize) -> Self {
        match &mut self {
            Self::Chart(chart) => chart.panels.truncate(panels_max),
            Self::Bars(bars) => bars.panels.truncate(panels_max),
        }
        self
    }

    /// Returns the texts above all panels, each with its class.
    pub(crate) fn heads(&self) -> Vec<(&'static str, &str)> {
        let Self::Bars(bars) = self else {
            return Vec::new();
        };
        let head = (!bars.head.is_empty()).then_some(("head", bars.head.as_str()));
        head.into_iter().chain(bars.legend.iter().map(|words| ("tick", words.as_str()))).collect()
    }

    /// Returns the panels for a page with [`PALETTE`] and [`STYLE`]. Ids begin with `id`.
    pub(crate) fn inline(&self, id: &str) -> Vec<MarkupElement> {
        let panels = self.panels().into_iter().zip(1..);
        let svg = |((shapes, height), number): ((Vec<MarkupElement>, f64), usize)| {
            let view = format!("0 0 {WIDTH} {height}");
            self.named(&format!("{id}-{number}")).with("viewBox", view).children(shapes)
        };
        panels.map(svg).collect()
    }

    /// Returns a separate document: panels in two columns, with a margin around them.
    pub(crate) fn document(&self) -> String {
        const EDGE: f64 = 16.0;
        const APART: f64 = 28.0;
        let panels = self.panels();
        let columns = panels.len().clamp(1, 2) as f64;
        let mut shapes = Vec::new();
        let mut top = 0.0;
        for (class, words) in self.heads() {
            top += LINE;
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

    /// Returns the shapes of each panel, and its height.
    fn panels(&self) -> Vec<(Vec<MarkupElement>, f64)> {
        match self {
            Self::Chart(chart) => {
                chart.panels.iter().map(|panel| shapes::all(chart, panel)).collect()
            }
            Self::Bars(bars) => bars.shapes(WIDTH),
        }
    }

    /// Returns an empty drawing with its title and description.
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

#[derive(Clone, Debug, Default)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) description: String,
    /// Heading above all panels; none if empty.
    pub(crate) head: String,
    pub(crate) legend: Vec<String>,
    pub(crate) panels: Vec<BarPanel>,
}

/// A panel: bars under a heading, on a scale that begins at 0.
#[derive(Clone, Debug)]
pub(crate) struct BarPanel {
    pub(crate) heading: String,
    /// Value whose bar fills the panel.
    pub(crate) full: f64,
    pub(crate) bars: Vec<Bar>,
}

#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) look: SeriesLook,
    /// End of the bar, least and greatest sample; if missing, the texts give the reason.
    pub(crate) value: Option<(f64, f64, f64)>,
    pub(crate) text: String,
    pub(crate) beside: String,
}

/// Distance from a bar to the next.
const STEP: f64 = 24.0;

const THICK: f64 = 14.0;

/// Height of a heading with the gap below it.
const HEADING: f64 = LINE + 6.0;

impl Bars {
    /// Returns the shapes of each panel in that width, and its height.
    pub(crate) fn shapes(&self, width: f64) -> Vec<(Vec<MarkupElement>, f64)> {
        let edges = Edges::of(self, width);
        self.panels.iter().map(|panel| edges.panel(panel)).collect()
    }
}

/// Edges that all panels have in common, so that their bars can be compared.
struct Edges {
    width: f64,
    /// Left end of bars, and the greatest length of a bar.
    left: f64,
    room: f64,
}

impl Edges {
    fn of(bars: &Bars, width: f64) -> Self {
        /// Maximum share of a panel's width for names, so that something is left for bars.
        const NAME_SHARE_MAX: f64 = 0.42;
        const BAR_MIN: f64 = 40.0;
        let all = || bars.panels.iter().flat_map(|panel| &panel.bars);
        let widest = |of: fn(&Bar) -> f64| all().map(of).fold(0.0, f64::max);
        let name = widest(|bar| text_width(&bar.name)) + 10.0;
        let left = name.min(width * NAME_SHARE_MAX);
        let text = widest(|bar| match bar.value {
            Some(_) => text_width(&bar.text) + text_width(&bar.beside) + 20.0,
            None => 0.0,
        });
        let room = (width - left - text).max(BAR_MIN);
        Self { width, left, room }
    }

    fn panel(&self, panel: &BarPanel) -> (Vec<MarkupElement>, f64) {
        let mut shapes = vec![text("head", (0.0, LINE - 4.0), &panel.heading)];
        for (index, bar) in panel.bars.iter().enumerate() {
            shapes.extend(self.bar(bar, panel.full, HEADING + (index as f64 + 0.5) * STEP));
        }
        (shapes, HEADING + panel.bars.len() as f64 * STEP)
    }

    fn bar(&self, bar: &Bar, full: f64, middle: f64) -> Vec<MarkupElement> {
        let start = self.left;
        let baseline = middle + 4.0;
        let name = cut(&bar.name, self.left - 10.0);
        let mut shapes = vec![text("name end", (start - 8.0, baseline), &name)];
        let Some((value, least, greatest)) = bar.value else {
            let whole = joined([&bar.text, &bar.beside], ": ");
            let words = reason(bar, &whole, self.width - self.left);
            let shown = text("tick", (start, baseline), &words);
            shapes.push(shown.child(element("title").text(whole)));
            return shapes;
        };
        let share = |value: f64| (value / full).clamp(0.0, 1.0);
        let place = |value: f64| start + share(value) * self.room;
        shapes.push(surface(bar.look, (start, middle), place(value) - start));
        if greatest > least {
            shapes.push(whisker(place(least), place(greatest), middle));
        }
        let after = place(value).max(place(greatest)) + 7.0;
        shapes.push(text("name", (after, baseline), &bar.text));
        shapes.push(text("tick", (after + text_width(&bar.text) + 6.0, baseline), &bar.beside));
        shapes
    }
}

fn surface(look: SeriesLook, (x, middle): (f64, f64), width: f64) -> MarkupElement {
    let hollow = if look.is_again() { " hollow" } else { "" };
    element("rect")
        .with("class", format!("bar {}{hollow}", look.colour))
        .with("x", pixels(x))
        .with("y", pixels(middle - THICK / 2.0))
        .with("width", pixels(width.max(1.0)))
        .with("height", THICK)
        .with("rx", 2)
}

/// Draws a line from the least to the greatest, with ends.
fn whisker(from: f64, to: f64, middle: f64) -> MarkupElement {
    const END: f64 = 3.5;
    let data = format!(
        "M{from} {top}V{bottom}M{from} {middle}H{to}M{to} {top}V{bottom}",
        from = pixels(from),
        to = pixels(to),
        top = pixels(middle - END),
        bottom = pixels(middle + END),
        middle = pixels(middle),
    );
    let path = |class| element("path").with("class", class).with("d", &data);
    // The casing makes the whisker visible on a dark bar too.
    element("g").child(path("casing")).child(path("whisker"))
}

/// Returns the reason why there is no bar, shortened if the whole does not fit.
fn reason(bar: &Bar, whole: &str, width: f64) -> String {
    if text_width(whole) <= width {
        return whole.to_owned();
    }
    cut(&bar.text, width)
}

/// Returns as much of a text as fits.
fn cut(words: &str, width: f64) -> String {
    if text_width(words) <= width {
        return words.to_owned();
    }
    let room = (width / text_width("x")) as usize;
    let start: String = words.chars().take(room.saturating_sub(1)).collect();
    format!("{}…", start.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, value: Option<(f64, f64, f64)>) -> Bar {
        Bar {
            name: name.to_owned(),
            look: SeriesLook::at(0),
            value,
            text: "12 µs".to_owned(),
            beside: "1.2×".to_owned(),
        }
    }

    fn widths(svg: &str) -> Vec<f64> {
        let bars = svg.split("class=\"bar blue\"").skip(1);
        let width = |rest: &str| {
            let value = rest.split_once(" width=\"")?.1.split_once('"')?.0;
            value.parse().ok()
        };
        bars.filter_map(width).collect()
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bars = vec![
            bar("a", Some((20.0, 19.0, 22.0))),
            bar("b", Some((10.0, 10.0, 10.0))),
            bar("c", None),
        ];
        let row = |heading: &str| BarPanel {
            heading: heading.to_owned(),
            full: 22.0,
            bars: bars.clone(),
        };
        let all = Bars {
            title: String::new(),
            description: String::new(),
            head: "above".to_owned(),
            legend: Vec::new(),
            panels: vec![row("x"), row("y")],
        };
        let panels = all.shapes(800.0).into_iter();
        let shapes = panels.flat_map(|(shapes, _)| shapes);
        let svg: String = shapes.map(|it| it.to_string()).collect();
        let widths = widths(&svg);
        assert_eq!(widths.len(), 4);
        assert!((widths[0] / widths[1] - 2.0).abs() < 0.01, "{widths:?}");
        assert_eq!(svg.matches("whisker\"").count(), 2);
    }

    #[test]
    fn long_reasons_are_left_out_whole() {
        let gap = Bar {
            text: "unsupported".to_owned(),
            beside: "one side alone has TLS".to_owned(),
            ..bar("stunnel", None)
        };
        let whole = "unsupported: one side alone has TLS";
        assert_eq!(reason(&gap, whole, 400.0), whole);
        assert_eq!(reason(&gap, whole, 200.0), "unsupported");
    }

    #[test]
    fn bars_whose_colour_has_another_place_are_hollow() {
        let class = |place| surface(SeriesLook::at(place), (0.0, 0.0), 1.0).to_string();
        let (first, again) = (class(0), class(7));
        assert!(first.contains("\"bar blue\"") && again.contains("\"bar blue hollow\""));
    }

    #[test]
    fn long_words_are_cut() {
        assert_eq!(cut("short", 100.0), "short");
        assert_eq!(cut("cannot: it is too old", 67.0), "cannot: i…");
    }
}
