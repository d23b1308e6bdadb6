//! Defines the parts of a chart before drawing, and its axes: from values to places on an axis, its
//! unit, its ticks and their names.

use measure::quantity::{Nanoseconds, RoundedCount};

/// Width of a panel in CSS pixels.
pub(crate) const WIDTH: f64 = 420.0;

/// Panels above one common axis.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) description: String,
    /// Axis below all panels.
    pub(crate) x: Axis,
    pub(crate) panels: Vec<Panel>,
    /// Texts about stretches of the axis, shown under the pointer.
    pub(crate) columns: Vec<AxisStretch>,
}

/// A panel with its own axis at its left.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Horizontal lines at values of the vertical axis, each with its meaning.
    pub(crate) limits: Vec<(f64, String)>,
    pub(crate) callouts: Vec<Callout>,
}

#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Name in the legend; not in it if empty.
    pub(crate) name: String,
    pub(crate) colour: &'static str,
    pub(crate) shape: SeriesShape,
    /// Points in the order of `x`. A point without a place on the axes is a gap.
    pub(crate) points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct AxisStretch {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) text: String,
}

/// Look of a target or run: as many colours as readers of any colour vision can distinguish, dashes
/// in turn, and another mark if colours repeat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeriesLook {
    pub(crate) colour: &'static str,
    dashes: &'static str,
    mark: PointMark,
}

/// Rose means failures, and grey and ink the load, so that a colour has one meaning on a page.
const COLOURS: [&str; 7] = ["blue", "amber", "teal", "plum", "olive", "sky", "brown"];
/// Fewer than colours, so that the two do not repeat together.
const DASHES: [&str; 5] = ["", "8 3", "3 3", "9 3 2 3", "14 3"];
const MARKS: [PointMark; 3] = [PointMark::Circle, PointMark::Square, PointMark::Triangle];

impl SeriesLook {
    /// Returns the look of the target or run with that index.
    pub(crate) fn at(place: usize) -> Self {
        Self {
            colour: COLOURS[place % COLOURS.len()],
            dashes: DASHES[place % DASHES.len()],
            mark: MARKS[place / COLOURS.len() % MARKS.len()],
        }
    }

    /// Reports whether another index has the same colour.
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
    /// A surface: forward along the upper edge, back along the lower one.
    Band,
    /// An interval at each place: lower end and upper end, in turn.
    Whiskers,
}

/// A named point, with a line from the name to it.
#[derive(Clone, Debug)]
pub(crate) struct Callout {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) text: String,
}

impl Series {
    /// Makes a series without points.
    pub(crate) fn new(name: &str, colour: &'static str, shape: SeriesShape) -> Self {
        Self { name: name.to_owned(), colour, shape, points: Vec::new() }
    }

    /// Makes the surface between the least and the greatest of each place: `x`, least, greatest.
    pub(crate) fn band(colour: &'static str, edges: &[(f64, f64, f64)]) -> Self {
        let forth = edges.iter().map(|(x, _, greatest)| (*x, *greatest));
        let back = edges.iter().rev().map(|(x, least, _)| (*x, *least));
        Self::new("", colour, SeriesShape::Band).of(forth.chain(back))
    }

    /// Makes intervals: `x`, lower end, upper end.
    pub(crate) fn whiskers(colour: &'static str, ends: &[(f64, f64, f64)]) -> Self {
        let points = ends.iter().flat_map(|(x, from, to)| [(*x, *from), (*x, *to)]);
        Self::new("", colour, SeriesShape::Whiskers).of(points)
    }

    pub(crate) fn of(self, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { points: points.into_iter().collect(), ..self }
    }
}

impl Panel {
    /// Makes a panel of series over an axis, without limits or callouts.
    pub(crate) fn new(y: Axis, series: Vec<Series>) -> Self {
        Self { y, series, limits: Vec::new(), callouts: Vec::new() }
    }
}

impl Chart {
    /// Gives the panels at the same place of several charts one scale, so that they can be compared
    /// by eye.
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

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) unit: AxisUnit,
    pub(crate) scale: AxisScale,
    /// Approximate number of ticks that fit.
    pub(crate) ticks: usize,
    /// Names of the values 0, 1, 2, … if those are places rather than amounts.
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AxisUnit {
    /// Events, or events a second.
    Count,
    Duration,
    /// Seconds since the beginning.
    Clock,
    /// Nines: 1 is 90 %, 2 is 99 %, 3 is 99.9 %.
    Nines,
}

/// Suffix of the title of a logarithmic axis.
const LOG: &str = ", log scale";

impl Axis {
    fn new(title: &str, unit: AxisUnit, scale: AxisScale, ticks: usize) -> Self {
        Self { title: title.to_owned(), unit, scale, ticks, names: Vec::new() }
    }

    /// Makes an axis that begins at 0 and ends at a tick.
    pub(crate) fn from_zero(title: &str, unit: AxisUnit, to: f64, ticks: usize) -> Self {
        Self::range(title, unit, 0.0, to, ticks)
    }

    /// Makes an axis between two values, both moved out to ticks.
    pub(crate) fn range(title: &str, unit: AxisUnit, from: f64, to: f64, ticks: usize) -> Self {
        Self::new(title, unit, AxisScale::rounded(Spacing::Linear, from, to, ticks), ticks)
    }

    /// Makes an axis from one value to another.
    pub(crate) fn exact(title: &str, unit: AxisUnit, from: f64, to: f64, ticks: usize) -> Self {
        Self::new(title, unit, AxisScale::new(Spacing::Linear, from, to), ticks)
    }

    /// Makes an axis of named places, one after the other: the values 0, 1, 2, …
    pub(crate) fn places(title: &str, names: Vec<String>) -> Self {
        /// Margin before the first place and behind the last, as a share of the distance between
        /// two.
        const EDGE: f64 = 0.15;
        let last = names.len().max(1) as f64 - 1.0;
        let axis = Self::exact(title, AxisUnit::Count, -EDGE, last + EDGE, names.len());
        Self { names, ..axis }
    }

    /// Margin at both ends, as a share of the distance between two places.
    pub(crate) fn durations(title: &str, values: impl Iterator<Item = f64>) -> Self {
        Self::amounts(title, AxisUnit::Duration, values)
    }

    /// Makes an axis for values above 0: logarithmic if they lie far apart.
    pub(crate) fn amounts(title: &str, unit: AxisUnit, values: impl Iterator<Item = f64>) -> Self {
        /// Greatest ratio of values that can be shown together on a linear axis.
        const RATIO_MAX: f64 = 20.0;
        const TICKS: usize = 5;
        let positive = values.filter(|value| value.is_finite() && *value > 0.0);
        let (least, greatest) = positive.fold((f64::MAX, 0.0_f64), |(least, greatest), value| {
            (least.min(value), greatest.max(value))
        });
        if greatest <= least * RATIO_MAX {
            return Self::from_zero(title, unit, greatest, TICKS);
        }
        let scale = AxisScale::rounded(Spacing::Log, least, greatest, TICKS);
        Self::new(&format!("{title}{LOG}"), unit, scale, TICKS)
    }

    /// Extends axes of the same unit to their common range; logarithmic if one is.
    pub(crate) fn share<'a>(axes: impl Iterator<Item = &'a mut Self>) {
        let mut axes: Vec<&mut Self> = axes.collect();
        let is_log = |axis: &&mut Self| axis.scale.spacing == Spacing::Log;
        // A linear axis begins at 0, which has no place on a logarithmic one.
        let spacing = if axes.iter().all(is_log) { Spacing::Log } else { Spacing::Linear };
        let from = axes.iter().map(|it| it.scale.from).fold(f64::INFINITY, f64::min);
        let to = axes.iter().map(|it| it.scale.to).fold(f64::NEG_INFINITY, f64::max);
        for axis in &mut axes {
            let from = if spacing == Spacing::Linear { from.min(0.0) } else { from };
            axis.title = axis.title.replace(LOG, if spacing == Spacing::Log { LOG } else { "" });
            axis.scale = AxisScale::new(spacing, from, to);
        }
    }

    /// Returns about `about` ticks with their names.
    pub(crate) fn named_ticks(&self, about: usize) -> Vec<(f64, String)> {
        if !self.names.is_empty() {
            let names = self.names.iter().enumerate();
            return names.map(|(place, name)| (place as f64, name.clone())).collect();
        }
        let AxisScale { from, to, .. } = self.scale;
        let ticks = match self.unit {
            AxisUnit::Clock => multiples(clock_step(to - from, about), from, to),
            AxisUnit::Nines => nines(to),
            AxisUnit::Count | AxisUnit::Duration => self.scale.ticks(about),
        };
        let is_long = to >= 120.0;
        let name = |tick: f64| match self.unit {
            AxisUnit::Clock if is_long => clock(tick),
            AxisUnit::Clock => format!("{tick:.0} s"),
            AxisUnit::Nines => percentile(tick),
            // A power of ten that needs more than two decimals.
            AxisUnit::Count if tick.abs() < 0.01 => clean(tick).to_string(),
            AxisUnit::Count => short(&RoundedCount(clean(tick)).to_string()),
            AxisUnit::Duration => duration(tick),
        };
        ticks.into_iter().map(|tick| (tick, name(tick))).collect()
    }
}

/// Removes the rounding errors of multiplied steps.
fn clean(tick: f64) -> f64 {
    (tick * 1e6).round() / 1e6
}

/// Returns `5 ms`, where a figure would be `5.00 ms`.
fn duration(ns: f64) -> String {
    match clean(ns) {
        0.0 => "0".to_owned(),
        ns => short(&Nanoseconds(ns).to_string()),
    }
}

/// Removes the zeros after the point.
fn short(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    format!("{number} {unit}").trim_end().to_owned()
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

fn clock_step(range: f64, about: usize) -> f64 {
    const STEPS: [f64; 13] =
        [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0];
    let raw = range / about.max(1) as f64;
    let found = STEPS.into_iter().find(|step| *step >= raw * 0.75);
    found.unwrap_or_else(|| (raw / 3600.0).ceil() * 3600.0)
}

/// Returns 50 %, 90 %, 99 %, … up to the end.
fn nines(to: f64) -> Vec<f64> {
    let mut ticks = vec![std::f64::consts::LOG10_2];
    ticks.extend(multiples(1.0, 1.0, to));
    ticks
}

fn percentile(nines: f64) -> String {
    match nines {
        ..1.0 => "50 %".to_owned(),
        _ => {
            let digits = nines.round() as usize;
            format!("{:.*} %", digits.saturating_sub(2), 100.0 - 10.0_f64.powf(2.0 - nines))
        }
    }
}

/// Spacing of values on an axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Spacing {
    Linear,
    /// Logarithmic; only positive values have a place.
    Log,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AxisScale {
    spacing: Spacing,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl AxisScale {
    /// Makes a scale between two values; moves both if they are equal.
    pub(crate) fn new(spacing: Spacing, from: f64, to: f64) -> Self {
        let is_range = from.is_finite() && to.is_finite() && from < to;
        let (from, to) = match spacing {
            Spacing::Linear if is_range => (from, to),
            Spacing::Linear => widened(from),
            Spacing::Log if is_range && from > 0.0 => (from, to),
            Spacing::Log => (1.0, 10.0),
        };
        Self { spacing, from, to }
    }

    /// Makes a scale that ends at ticks: about `ticks` of them.
    pub(crate) fn rounded(spacing: Spacing, from: f64, to: f64, ticks: usize) -> Self {
        let exact = Self::new(spacing, from, to);
        match spacing {
            // The first extension may make the step longer, and so on; twice is enough.
            Spacing::Linear => exact.extended(ticks).extended(ticks),
            Spacing::Log => Self::new(spacing, nice_below(exact.from), nice_above(exact.to)),
        }
    }

    /// Extends a linear scale to the next ticks.
    fn extended(self, ticks: usize) -> Self {
        let step = nice_step(self.to - self.from, ticks);
        let from = (self.from / step + 1e-9).floor() * step;
        Self::new(self.spacing, from, (self.to / step - 1e-9).ceil() * step)
    }

    /// Returns the place of a value, from 0 to 1; `None` if it has none.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let share = match self.spacing {
            Spacing::Linear => (value - self.from) / (self.to - self.from),
            Spacing::Log => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        (-1e-9..=1.0 + 1e-9).contains(&share).then(|| share.clamp(0.0, 1.0))
    }

    /// Reports whether a part of this interval lies in the range.
    pub(crate) fn meets(&self, lower: f64, upper: f64) -> bool {
        upper >= self.from && lower <= self.to
    }

    /// Returns about `about` round values in the range.
    pub(crate) fn ticks(&self, about: usize) -> Vec<f64> {
        match self.spacing {
            Spacing::Linear => multiples(nice_step(self.to - self.from, about), self.from, self.to),
            Spacing::Log => self.log_ticks(about),
        }
    }

    fn log_ticks(&self, about: usize) -> Vec<f64> {
        let (first, last) = (exponent(self.from), exponent(self.to));
        let decades = (last - first + 1).max(1) as usize;
        let factors: &[f64] = match decades {
            _ if decades * 3 <= about + 5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let powers = (first..=last).step_by(decades.div_ceil(about + 2)).map(power);
        let ticks = powers.flat_map(|power| factors.iter().map(move |factor| power * factor));
        ticks.filter(|tick| self.place(*tick).is_some()).collect()
    }
}

fn widened(value: f64) -> (f64, f64) {
    match value {
        _ if !value.is_finite() || value == 0.0 => (0.0, 1.0),
        0.0.. => (0.0, value * 2.0),
        _ => (value * 2.0, 0.0),
    }
}

/// Returns the multiples of a step between two values.
fn multiples(step: f64, from: f64, to: f64) -> Vec<f64> {
    /// Limit of ticks, above what fits on any axis.
    const TICKS_MAX: f64 = 200.0;
    let first = (from / step - 1e-9).ceil();
    let last = (to / step + 1e-9).floor();
    let count = (last - first + 1.0).clamp(0.0, TICKS_MAX) as usize;
    (0..count).map(|index| (first + index as f64) * step).collect()
}

/// Returns 1, 2 or 5 times a power of ten, so that about `count` steps fill the range.
fn nice_step(range: f64, count: usize) -> f64 {
    let raw = range / count.max(1) as f64;
    let nice = nice_above(raw * 0.75);
    if nice.is_finite() && nice > 0.0 { nice } else { 1.0 }
}

fn exponent(value: f64) -> i32 {
    (value.log10() + 1e-9).floor() as i32
}

fn power(exponent: i32) -> f64 {
    10.0_f64.powi(exponent)
}

/// Returns the least of 1, 2, 5, 10, … times a power of ten that is not less.
fn nice_above(value: f64) -> f64 {
    let power = power(exponent(value));
    let factors = [1.0, 2.0, 5.0, 10.0];
    let found = factors.iter().find(|factor| power * **factor >= value * (1.0 - 1e-9));
    power * found.copied().unwrap_or(10.0)
}

/// Returns the greatest such value that is not more.
fn nice_below(value: f64) -> f64 {
    let power = power(exponent(value));
    let found = [5.0, 2.0, 1.0].iter().find(|factor| power * **factor <= value * (1.0 + 1e-9));
    power * found.copied().unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(axis: &Axis, about: usize) -> Vec<String> {
        let ticks = axis.named_ticks(about).into_iter();
        ticks.map(|(_, name)| name).collect()
    }

    #[test]
    fn ticks_have_short_names() {
        let axis = Axis::from_zero("", AxisUnit::Duration, 1.9e6, 4);
        assert_eq!(names(&axis, 4), ["0", "500 µs", "1 ms", "1.5 ms", "2 ms"]);
        let axis = Axis::from_zero("", AxisUnit::Count, 15_000.0, 4);
        assert_eq!(names(&axis, 4), ["0", "5000", "10\u{202f}000", "15\u{202f}000"]);
        let axis = Axis::from_zero("", AxisUnit::Count, 0.6, 3);
        assert_eq!(names(&axis, 3), ["0", "0.2", "0.4", "0.6"]);
    }

    #[test]
    fn times_are_shown_as_on_clocks() {
        let axis = |to| Axis::exact("", AxisUnit::Clock, 0.0, to, 4);
        assert_eq!(names(&axis(40.0), 4), ["0 s", "10 s", "20 s", "30 s", "40 s"]);
        assert_eq!(names(&axis(120.0), 4), ["0:00", "0:30", "1:00", "1:30", "2:00"]);
        assert_eq!(names(&axis(9000.0), 2), ["0:00", "1:00:00", "2:00:00"]);
        assert_eq!(names(&axis(100_000.0), 2), ["0:00", "14:00:00"]);
    }

    #[test]
    fn percentiles_are_nines() {
        let axis = Axis::exact("", AxisUnit::Nines, 0.0, 4.2, 6);
        let wanted = ["50 %", "90 %", "99 %", "99.9 %", "99.99 %"];
        assert_eq!(names(&axis, 6), wanted);
    }

    #[test]
    fn durations_far_apart_are_logarithmic() {
        let spacing = |values: &[f64]| Axis::durations("t", values.iter().copied()).scale.spacing;
        assert_eq!(spacing(&[1e6, 9e6]), Spacing::Linear);
        assert_eq!(spacing(&[1e6, 9e8, f64::NAN, 0.0]), Spacing::Log);
        assert_eq!(spacing(&[]), Spacing::Linear);
    }

    #[test]
    fn linear_scales_end_at_round_ticks() {
        let scale = AxisScale::rounded(Spacing::Linear, 0.0, 788.0, 5);
        assert_eq!((scale.from, scale.to), (0.0, 800.0));
        assert_eq!(scale.ticks(5), [0.0, 200.0, 400.0, 600.0, 800.0]);
        assert_eq!(scale.place(600.0), Some(0.75));
        assert_eq!(scale.place(801.0), None);
        assert_eq!(scale.place(f64::NAN), None);
    }

    #[test]
    fn log_scales_have_places_for_positive_values_alone() {
        let scale = AxisScale::rounded(Spacing::Log, 0.013, 84.0, 5);
        assert_eq!((scale.from, scale.to), (0.01, 100.0));
        assert!((scale.place(1.0).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(scale.place(0.0), None);
        assert_eq!(scale.place(-1.0), None);
        assert!(!scale.meets(0.0, 0.0) && scale.meets(0.0, 0.02) && !scale.meets(101.0, 102.0));
        assert_eq!(scale.ticks(5), [0.01, 0.1, 1.0, 10.0, 100.0]);
        let short = AxisScale::rounded(Spacing::Log, 3e6, 4e7, 6);
        assert_eq!(short.ticks(6), [2e6, 5e6, 1e7, 2e7, 5e7]);
    }

    #[test]
    fn scales_of_nothing_are_scales() {
        for (from, to) in [(0.0, 0.0), (5.0, 5.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            for spacing in [Spacing::Linear, Spacing::Log] {
                let scale = AxisScale::rounded(spacing, from, to, 5);
                assert!(scale.from < scale.to && scale.to.is_finite(), "{scale:?}");
                assert!(scale.ticks(5).len() >= 2, "{scale:?}");
            }
        }
    }
}
