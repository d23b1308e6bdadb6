//! Makes the figures of a run: over time, by percentile, by offered rate.
//!
//! Handles the places of figures; [`crate::figure`] draws them.

use measure::capacity::{CapacityLimit, RatePoint};
use measure::choice::Kind;
use measure::histogram::Histogram;
use measure::metric::Metric;
use measure::quantity::{Nanoseconds, RoundedCount};
use measure::record::{LoadRecord, LoadSecond};

use super::reading::{ReadOffRate, TransactionPart, points, read_offs};
use super::time_series::{SeriesSample, Timeline, smoothed};
use crate::figure::{
    Axis, AxisStretch, AxisUnit, Callout, Chart, Panel, PointMark, Series, SeriesLook, SeriesShape,
};
use crate::words::joined;

/// Maximum samples that can be distinguished in a panel.
pub(crate) const SAMPLES_MAX: usize = 240;

/// Draws transactions and response times over time.
pub(crate) fn along_time(timeline: Timeline<'_>) -> Option<Chart> {
    let last = timeline.seconds.last()?;
    let (_, sample_s) = timeline.groups(SAMPLES_MAX);
    let line = |(metric, name, colour, dashes)| RoughLine {
        name,
        colour,
        dashes,
        samples: timeline.samples(metric, SAMPLES_MAX),
        sample_s,
    };
    let rates = [
        (Metric::AttemptedRate, "attempted", "grey", "7 3"),
        (Metric::Rate, "succeeded", "ink", ""),
        (Metric::FailedRate, "failed", "rose", "2 3"),
    ];
    let times =
        [(Metric::MeanResponse, "mean", "ink", ""), (Metric::P99Response, "p99", "grey", "7 3")];
    let (rates, times) = (rates.map(line), times.map(line));
    let greatest = drawn(&rates).fold(0.0, f64::max);
    let transactions = Axis::from_zero("transactions per second", AxisUnit::Count, greatest, 4);
    let response = Axis::durations("response time", drawn(&times));
    // Without successes there are no response times.
    let response = drawn(&times).next().map(|_| panel(response, &times));
    let end = (timeline.elapsed_ns as f64 / 1e9).max(last.at_s as f64 + 1.0);
    Some(Chart {
        title: "Transactions and response time over time".to_owned(),
        description: description(timeline),
        x: Axis::exact("time since the beginning", AxisUnit::Clock, 0.0, end, 12),
        panels: [panel(transactions, &rates)].into_iter().chain(response).collect(),
        columns: columns(timeline),
    })
}

/// Draws full handshakes, and the share of resumed ones, over time; `None` if there was no
/// handshake.
pub(crate) fn handshakes_along_time(timeline: Timeline<'_>) -> Option<Chart> {
    let along = along_time(timeline)?;
    let line = |metric: Metric, name, colour| {
        let samples = timeline.samples(metric, SAMPLES_MAX).into_iter();
        let scaled = |value| metric.scaled(value);
        RoughLine {
            name,
            colour,
            dashes: "",
            samples: samples.map(|sample| sample.map(scaled)).collect(),
            sample_s: timeline.groups(SAMPLES_MAX).1,
        }
    };
    let full = [line(Metric::FullHandshakes, "full", "ink")];
    let resumed = [line(Metric::Resumed, "resumed", "ink")];
    drawn(&resumed).next()?;
    let greatest = drawn(&full).fold(0.0, f64::max);
    let rate = Axis::from_zero("full handshakes per second", AxisUnit::Count, greatest, 4);
    let share = Axis::from_zero("handshakes that resumed, %", AxisUnit::Count, 100.0, 4);
    Some(Chart {
        title: "Handshakes over time".to_owned(),
        panels: vec![panel(share, &resumed), panel(rate, &full)],
        columns: Vec::new(),
        ..along
    })
}

/// A line before the decision about smoothing.
struct RoughLine {
    name: &'static str,
    colour: &'static str,
    dashes: &'static str,
    samples: Vec<SeriesSample>,
    /// Length of each sample in seconds.
    sample_s: u64,
}

/// Returns all values to draw.
fn drawn(lines: &[RoughLine]) -> impl Iterator<Item = f64> {
    let samples = lines.iter().flat_map(|line| &line.samples);
    let values = samples.flat_map(|sample| [sample.value, sample.least, sample.greatest]);
    values.filter(|value| value.is_finite())
}

fn panel(y: Axis, lines: &[RoughLine]) -> Panel {
    Panel::new(y, lines.iter().flat_map(series).collect())
}

/// Draws a line, dotted behind its moving average; behind both, the range of merged samples.
fn series(line: &RoughLine) -> Vec<Series> {
    let points = |samples: &[SeriesSample]| -> Vec<(f64, f64)> {
        samples.iter().map(|sample| (sample.at_s, sample.value)).collect()
    };
    let mut series = band(line);
    let shape = SeriesShape::Line(line.dashes);
    match smoothed(&line.samples) {
        Some((average, window)) => {
            let window_s = window as u64 * line.sample_s;
            series.push(Series::new("", line.colour, SeriesShape::Raw).of(points(&line.samples)));
            let name = format!("{} (mean over {window_s} s)", line.name);
            series.push(Series::new(&name, line.colour, shape).of(points(&average)));
        }
        None => series.push(Series::new(line.name, line.colour, shape).of(points(&line.samples))),
    }
    series
}

fn band(line: &RoughLine) -> Vec<Series> {
    let is_merged = |sample: &SeriesSample| sample.least < sample.greatest;
    if !line.samples.iter().any(is_merged) {
        return Vec::new();
    }
    let runs = line.samples.split(|sample| !sample.value.is_finite());
    let surfaces = runs.filter(|run| run.len() > 1).map(|run| {
        let edges = run.iter().map(|sample| (sample.at_s, sample.least, sample.greatest));
        Series::band(line.colour, &edges.collect::<Vec<_>>())
    });
    surfaces.collect()
}

fn description(timeline: Timeline<'_>) -> String {
    let totals = timeline.totals;
    format!(
        "In {}, {} transactions were attempted, {} succeeded and {} failed. The table of seconds \
         has every value.",
        Nanoseconds(timeline.elapsed_ns as f64),
        RoundedCount(totals.attempted as f64),
        RoundedCount(totals.succeeded as f64),
        RoundedCount(totals.failed as f64),
    )
}

fn columns(timeline: Timeline<'_>) -> Vec<AxisStretch> {
    let (groups, length_s) = timeline.groups(SAMPLES_MAX);
    let column = |seconds: &[LoadSecond]| {
        let from = seconds.first().map_or(0, |second| second.at_s);
        let sum = |of: fn(&LoadSecond) -> u64| seconds.iter().map(of).fold(0, u64::saturating_add);
        let longest = seconds.iter().map(|second| second.p99_ns).max();
        let text = format!(
            "{from} s: attempted {}, succeeded {}, failed {}, p99 {}",
            RoundedCount(sum(|second| second.attempted) as f64),
            RoundedCount(sum(|second| second.succeeded) as f64),
            RoundedCount(sum(|second| second.failed) as f64),
            Nanoseconds(longest.unwrap_or(0) as f64),
        );
        AxisStretch { from: from as f64, to: from as f64 + length_s as f64, text }
    };
    groups.into_iter().map(column).collect()
}

/// Draws a part's percentiles, a line per kind; `None` if nothing was measured.
pub(crate) fn percentiles(record: &LoadRecord, part: &TransactionPart) -> Option<Chart> {
    let histograms = record.latencies.iter().map(|(kind, latencies)| (*kind, (part.of)(latencies)));
    let curves = histograms.filter(|(_, histogram)| !histogram.is_empty());
    let curves = curves.map(|(kind, histogram)| {
        let (colour, dashes) = look(kind);
        Curve::new(kind.name(), colour, SeriesShape::Line(dashes), histogram)
    });
    curve_figure(part.title, part.name, curves.collect())
}

/// Returns the same colours as on the status page of `lariat serve`.
fn look(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Full => ("blue", ""),
        Kind::Psk => ("teal", "8 3"),
        Kind::Ticket => ("amber", "3 3"),
        Kind::SessionId => ("plum", "9 3 2 3"),
        Kind::Kept => ("grey", "14 3"),
        Kind::Plain => ("rose", "2 2"),
    }
}

/// Draws the response times of several records over each other.
pub(crate) fn compared(records: &[(&str, &LoadRecord)]) -> Option<Chart> {
    let curves = records.iter().enumerate().map(|(place, (name, record))| {
        let look = SeriesLook::at(place);
        Curve::new(name, look.colour, look.line(), &record.total_latency())
    });
    curve_figure("Response time", "response", curves.collect())
}

/// A histogram as a line over the percentiles.
struct Curve {
    series: Series,
    /// End of the curve: as many nines as its count allows.
    nines: f64,
    text: String,
}

impl Curve {
    fn new(name: &str, colour: &'static str, shape: SeriesShape, histogram: &Histogram) -> Self {
        const SAMPLES: f64 = 40.0;
        let nines = (histogram.count().max(1) as f64).log10();
        let count = (nines * SAMPLES).ceil() as usize;
        let at = |index: usize| (index as f64 / SAMPLES).min(nines);
        let value = |nines: f64| histogram.quantile_ns(1.0 - 10.0_f64.powf(-nines)) as f64;
        let points = (0..=count).map(|index| (at(index), value(at(index))));
        let mut points: Vec<(f64, f64)> = points.filter(|_| !histogram.is_empty()).collect();
        if let Some(last) = points.last_mut() {
            last.1 = histogram.max_ns() as f64;
        }
        let text = format!(
            "{name}: median {}, p99 {}, longest {}.",
            Nanoseconds(histogram.quantile_ns(0.5) as f64),
            Nanoseconds(histogram.quantile_ns(0.99) as f64),
            Nanoseconds(histogram.max_ns() as f64),
        );
        Self { series: Series::new(name, colour, shape).of(without_repeats(points)), nines, text }
    }
}

/// Removes points between two of the same value.
fn without_repeats(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let is_needed = |index: usize| {
        let value = |index: usize| points.get(index).map(|point| point.1);
        index == 0 || value(index - 1) != value(index) || value(index + 1) != value(index)
    };
    (0..points.len()).filter(|index| is_needed(*index)).map(|index| points[index]).collect()
}

fn curve_figure(title: &str, axis: &str, curves: Vec<Curve>) -> Option<Chart> {
    const NINES_MIN: f64 = 2.0;
    let nines = curves.iter().map(|curve| curve.nines).fold(NINES_MIN, f64::max);
    let values = curves.iter().flat_map(|curve| &curve.series.points);
    let y = Axis::durations(axis, values.map(|point| point.1));
    let description = joined(curves.iter().map(|curve| curve.text.as_str()), " ");
    let series: Vec<Series> = curves.into_iter().map(|curve| curve.series).collect();
    if series.iter().all(|series| series.points.is_empty()) {
        return None;
    }
    Some(Chart {
        title: format!("{title} by percentile"),
        description,
        x: Axis::exact("percentile", AxisUnit::Nines, 0.0, nines, 12),
        panels: vec![Panel::new(y, series)],
        columns: Vec::new(),
    })
}

/// Draws successes and response times over the offered rate, with the read-offs.
pub(crate) fn capacity(record: &LoadRecord) -> Option<Chart> {
    let points = points(record);
    let (first, last) = (points.first()?, points.last()?);
    let limit = record.capacity.as_ref().map(|capacity| capacity.limit);
    let mut texts = Vec::new();
    let mut callouts: Vec<Callout> = Vec::new();
    for read_off in read_offs(record) {
        let Some(reached) = read_off.rate else {
            continue;
        };
        texts.push(format!("{}: {reached}.", read_off.name));
        add_callout(&mut callouts, &points, reached, read_off.short);
    }
    Some(Chart {
        title: "Successes and response time by offered rate".to_owned(),
        description: texts.join(" "),
        x: Axis::exact(
            "offered per second",
            AxisUnit::Count,
            0.0,
            last.offered_per_s.max(first.offered_per_s),
            12,
        ),
        panels: vec![goodput(&points, callouts), response(&points, limit.unwrap_or_default())],
        columns: Vec::new(),
    })
}

/// Adds a read-off; those of the same rate share a callout.
fn add_callout(callouts: &mut Vec<Callout>, points: &[RatePoint], rate: ReadOffRate, name: &str) {
    let per_s = rate.per_s;
    let point = points.iter().find(|point| point.succeeded_per_s == per_s);
    let Some(point) = point else { return };
    let known = callouts.iter_mut().find(|callout| callout.y == per_s);
    match known {
        Some(callout) => callout.text = format!("{name}, {}", callout.text),
        None => callouts.push(Callout {
            x: point.offered_per_s,
            y: per_s,
            text: format!("{name}: {rate}"),
        }),
    }
}

fn marked(dashes: &'static str) -> SeriesShape {
    SeriesShape::Marked(dashes, PointMark::Circle)
}

fn goodput(points: &[RatePoint], callouts: Vec<Callout>) -> Panel {
    let greatest = points.iter().map(|point| point.succeeded_per_s).fold(0.0, f64::max);
    let y = Axis::from_zero("transactions per second", AxisUnit::Count, greatest * 1.1, 4);
    let end = points.last().map_or(0.0, |point| point.offered_per_s).min(y.scale.to);
    let of = |value: fn(&RatePoint) -> f64| {
        points.iter().map(move |point| (point.offered_per_s, value(point)))
    };
    let series = vec![
        Series::new("all that was offered", "grey", SeriesShape::Line("1 4"))
            .of([(0.0, 0.0), (end, end)]),
        Series::new("succeeded", "ink", marked("")).of(of(|point| point.succeeded_per_s)),
        Series::new("failed", "rose", marked("2 3"))
            .of(of(|point| point.offered_per_s * point.error_rate)),
    ];
    Panel { callouts, ..Panel::new(y, series) }
}

fn response(points: &[RatePoint], limit: CapacityLimit) -> Panel {
    let of = |value: fn(&RatePoint) -> f64| {
        let points = points.iter().filter(move |point| value(point) > 0.0);
        points.map(move |point| (point.offered_per_s, value(point)))
    };
    let mut series = vec![Series::new("mean", "ink", marked("")).of(of(|point| point.mean_ns))];
    if limit.quantile_below_ns.is_some() {
        let line = Series::new(&limit.quantile_name(), "grey", marked("7 3"));
        series.push(line.of(of(|point| point.quantile_ns)));
    }
    let values = series.iter().flat_map(|series| &series.points).map(|point| point.1);
    let bound = limit.mean_below_ns.or_else(|| limit.quantile_below_ns.map(|(_, ns)| ns));
    let bound = bound.map(|ns| ns as f64);
    let y = Axis::durations("response time", values.chain(bound));
    let limits = bound.map(|ns| (ns, format!("limit {}", Nanoseconds(ns))));
    Panel { limits: limits.into_iter().collect(), ..Panel::new(y, series) }
}
