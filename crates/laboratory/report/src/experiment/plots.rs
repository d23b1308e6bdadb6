//! Draws a scenario: bars for names, lines for numbers, courses of rising loads.

use measure::experiment::{ExperimentPlan, Measurement, RecordedValue, TargetDescription};
use measure::metric::Metric;
use measure::statistics::Spread;

use super::comparison::compare;
use super::study::{Combination, Study, StudyEntry};
use super::tables::heading;
use crate::document::NONE;
use crate::figure::{
    Axis, AxisUnit, Bar, BarPanel, Bars, Chart, Panel, Plot, Series, SeriesLook, SeriesShape,
};
use crate::load::charts::{SAMPLES_MAX, along_time, handshakes_along_time};
use crate::load::time_series::Timeline;
use crate::words::{id_part, joined, titled};

/// Names of targets in the order of a page's records, so that each has one look on the page.
#[derive(Clone, Debug)]
pub(crate) struct Palette<'e>(Vec<&'e str>);

impl<'e> Palette<'e> {
    pub(crate) fn of(plans: impl IntoIterator<Item = &'e ExperimentPlan>) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for target in plans.into_iter().flat_map(|plan| &plan.targets) {
            if !names.contains(&target.name.as_str()) {
                names.push(&target.name);
            }
        }
        Self(names)
    }

    pub(crate) fn look(&self, target: &TargetDescription) -> SeriesLook {
        let found = self.0.iter().position(|name| *name == target.name);
        SeriesLook::at(found.unwrap_or(0))
    }
}

/// Returns the plot of a scenario; `None` if nothing was measured.
pub(crate) fn plot(study: &Study<'_>, palette: &Palette<'_>) -> Option<Plot> {
    let main = study.main().filter(|_| study.is_measured())?;
    if study.is_numeric() {
        return lines(study, main, palette).map(Plot::Chart);
    }
    // A single combination has a panel per metric.
    let panels = match study.combinations.as_slice() {
        [combination] => {
            // Read-offs of a rising load are much alike; its courses are shown below.
            let count = if study.is_rising() { 1 } else { METRICS_MAX };
            let metrics = study.metrics.iter().take(count);
            metrics.map(|metric| panel(study, combination, *metric, palette)).collect()
        }
        combinations => {
            let panels = combinations.iter();
            let panels = panels.map(|combination| panel(study, combination, main, palette));
            same_scale(panels.collect())
        }
    };
    let mut bars = bars(study, main, panels);
    let courses = "lines: the repeat in the middle of each target, all on one scale";
    bars.legend.extend(study.is_rising().then(|| courses.to_owned()));
    Some(Plot::Bars(bars))
}

/// Maximum of metrics to draw for a scenario of one combination, or of one series.
const METRICS_MAX: usize = 2;

/// Returns the figures of a scenario as separate files: the main one, each metric of a scenario
/// without factors, its courses, and the replay as a still picture.
pub(crate) fn files(study: &Study<'_>, palette: &Palette<'_>) -> Vec<(String, Plot)> {
    let name = |part: &str| format!("{}-{part}", id_part(&study.scenario.name));
    let Some(plot) = plot(study, palette) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    match plot {
        Plot::Chart(_) => files.extend(study.main().map(|main| (name(main.id()), plot))),
        Plot::Bars(_) => {
            let count = if study.combinations.len() == 1 { usize::MAX } else { 1 };
            let bars = |it: &Metric| (name(it.id()), Plot::Bars(single(study, *it, palette)));
            files.extend(study.metrics.iter().take(count).map(bars));
        }
    }
    let course = |(course, chart): (String, Chart)| {
        (name(&format!("course-{}", id_part(&course))), chart.into())
    };
    files.extend(courses(study).into_iter().map(course));
    let rates = multiples(study).into_iter().take(usize::from(study.is_rising()));
    files.extend(rates.map(|chart| (name("courses"), chart.into())));
    files.extend(replay(study, palette).map(|chart| (name("replay"), chart.into())));
    files
}

/// Draws a metric in a separate figure, with a legend.
fn single(study: &Study<'_>, metric: Metric, palette: &Palette<'_>) -> Bars {
    let panels = study.combinations.iter().map(|it| panel(study, it, metric, palette));
    bars(study, metric, same_scale(panels.collect()))
}

/// Explains the signs at a bar in words, if no other text does.
pub(crate) fn legend(study: &Study<'_>) -> String {
    let reference = study.reference();
    format!(
        "bar: median; whisker: 95 % interval of the mean; ×: to {reference}; ▲ better, ▽ worse, ≈ \
         equal, ~ not known, ○ limited by the load"
    )
}

fn bars(study: &Study<'_>, metric: Metric, panels: Vec<BarPanel>) -> Bars {
    // Metrics are the headings if there is one combination.
    let head = match study.combinations.len() {
        1 => String::new(),
        _ => heading(study, metric),
    };
    // Panels of different metrics say so by their headings.
    let has_one_scale = head.is_empty() || panels.windows(2).all(|it| it[0].full == it[1].full);
    let scales = (!has_one_scale).then(|| "each panel has its own scale".to_owned());
    Bars {
        title: title(study, metric),
        description: description(study, metric),
        head,
        legend: [legend(study)].into_iter().chain(scales).collect(),
        panels,
    }
}

/// Gives panels of one metric the same scale for comparison by eye, unless bars would be too short.
fn same_scale(mut panels: Vec<BarPanel>) -> Vec<BarPanel> {
    const RATIO_MAX: f64 = 20.0;
    let has_bars = |panel: &&BarPanel| panel.bars.iter().any(|bar| bar.value.is_some());
    let fulls = panels.iter().filter(has_bars).map(|panel| panel.full);
    let (least, full) = fulls.fold((f64::MAX, 0.0), |(least, greatest): (f64, f64), full| {
        (least.min(full), greatest.max(full))
    });
    if full > least * RATIO_MAX {
        return panels;
    }
    for panel in &mut panels {
        panel.full = full;
    }
    panels
}

pub(crate) fn panel(
    study: &Study<'_>,
    combination: &Combination<'_>,
    metric: Metric,
    palette: &Palette<'_>,
) -> BarPanel {
    let heading = match combination.title() {
        title if !title.is_empty() && study.combinations.len() > 1 => title,
        _ => heading(study, metric),
    };
    let entries = combination.entries.iter().filter(|entry| entry.configuration.is_some());
    let bars: Vec<Bar> = entries.map(|entry| bar(entry, combination, metric, palette)).collect();
    let ends = bars.iter().filter_map(|bar| bar.value);
    let full = ends.fold(0.0, |most: f64, (value, _, greatest)| most.max(value).max(greatest));
    BarPanel { heading, full: if full > 0.0 { full } else { 1.0 }, bars }
}

/// Makes a bar. The bar of the reference is named as such.
fn bar(
    entry: &StudyEntry<'_>,
    combination: &Combination<'_>,
    metric: Metric,
    palette: &Palette<'_>,
) -> Bar {
    let spread = entry.spread(metric);
    let (kind, why) = match entry.gap() {
        Some(gap) if spread.is_none() => (gap.kind.to_owned(), gap.why),
        _ if spread.is_none() => (NONE.to_owned(), String::new()),
        _ => (String::new(), "reference".to_owned()),
    };
    let base = combination.base_of(entry);
    let found = base.and_then(|base| compare(entry, base, metric));
    let beside = match (base, found) {
        (Some(_), Some(found)) => found.short(),
        (Some(_), None) if spread.is_some() => String::new(),
        _ => why,
    };
    Bar {
        name: entry.target.name.clone(),
        look: palette.look(entry.target),
        value: spread.map(|it| {
            let (from, to) = ends(&it);
            (it.median, from, to)
        }),
        text: spread.map_or(kind, |it| metric.number(it.median)),
        beside,
    }
}

/// Returns the interval of a mean, cut at 0; for one sample, the sample.
fn ends(spread: &Spread) -> (f64, f64) {
    let (from, to) = spread.interval().unwrap_or((spread.median, spread.median));
    (from.max(0.0), to)
}

fn title(study: &Study<'_>, metric: Metric) -> String {
    let title = metric.title(&study.scenario.operation);
    format!("{}: {}", study.scenario.name, joined([&*title, metric.unit().name()], ", "))
}

fn description(study: &Study<'_>, metric: Metric) -> String {
    let medians = study.entries().filter_map(|(combination, entry)| {
        let name = combination.named(entry);
        Some(format!("{name}: {}.", metric.amount(entry.spread(metric)?.median)))
    });
    joined(medians, " ")
}

fn lines(study: &Study<'_>, main: Metric, palette: &Palette<'_>) -> Option<Chart> {
    let factor = study.scenario.factors.last()?;
    let series: Vec<&[Combination<'_>]> = study.series().collect();
    let drawn: Vec<(&[Combination<'_>], Metric)> = match series.as_slice() {
        [one] => study.metrics.iter().take(METRICS_MAX).map(|metric| (*one, *metric)).collect(),
        several => several.iter().map(|one| (*one, main)).collect(),
    };
    // Records of earlier builds lack some metrics.
    let is_measured = |(combinations, metric): &(&[Combination<'_>], Metric)| {
        let mut entries = combinations.iter().flat_map(|combination| &combination.entries);
        entries.any(|entry| entry.spread(*metric).is_some())
    };
    let drawn = drawn.into_iter().filter(is_measured);
    let panels =
        drawn.map(|(combinations, metric)| line_panel(study, combinations, metric, palette));
    let mut panels = with_one_legend(panels);
    if series.len() > 1 {
        Axis::share(panels.iter_mut().map(|panel| &mut panel.y));
    }
    let names = study.last_values().iter().map(|value| value.title.clone()).collect();
    Some(Chart {
        title: title(study, main),
        description: description(study, main),
        x: Axis::places(&factor.title, names),
        panels,
        columns: Vec::new(),
    })
}

/// Puts the legend in the first panel only.
fn with_one_legend(panels: impl Iterator<Item = Panel>) -> Vec<Panel> {
    let mut panels: Vec<Panel> = panels.collect();
    let others = panels.iter_mut().skip(1).flat_map(|panel| &mut panel.series);
    others.for_each(|line| line.name.clear());
    panels
}

fn line_panel(
    study: &Study<'_>,
    combinations: &[Combination<'_>],
    metric: Metric,
    palette: &Palette<'_>,
) -> Panel {
    let mut series = Vec::new();
    let values = study.last_values();
    for (index, target) in study.targets.iter().enumerate() {
        let spreads = values.iter().map(|value| {
            combinations.iter().find(|it| it.is_last(value))?.entries[index].spread(metric)
        });
        let places: Vec<_> = values.iter().copied().zip(spreads).collect();
        // Series are shifted, so that whiskers of equals do not cover each other.
        let aside = (index as f64 - (study.targets.len() as f64 - 1.0) / 2.0) * ASIDE;
        series.extend(line(target, &places, metric, (aside, palette)));
    }
    let title = match combinations.first().map(Combination::outer_title) {
        Some(outer) if !outer.is_empty() => {
            let figure = metric.title(&study.scenario.operation);
            let unit = metric.unit().name();
            titled(&format!("{outer}: {figure}, {unit}"))
        }
        _ => heading(study, metric),
    };
    let values = series.iter().flat_map(|line: &Series| &line.points);
    Panel::new(Axis::amounts(&title, AxisUnit::Count, values.map(|point| point.1)), series)
}

/// Distance between the marks of two targets, in parts of the distance between two places.
const ASIDE: f64 = 0.025;

/// Draws a target's medians with the intervals of their means. Only ordered values are joined: a
/// name among numbers stands alone.
fn line(
    target: &TargetDescription,
    places: &[(&RecordedValue, Option<Spread>)],
    metric: Metric,
    (aside, palette): (f64, &Palette<'_>),
) -> [Series; 2] {
    let scaled = |value: f64| metric.scaled(value);
    let look = palette.look(target);
    let x = |place: usize| place as f64 + aside;
    let intervals = places.iter().enumerate().filter_map(|(place, (_, spread))| {
        let (from, to) = ends(spread.as_ref().filter(|it| it.count > 1)?);
        Some((x(place), scaled(from), scaled(to)))
    });
    let mut points = Vec::new();
    for (place, (value, spread)) in places.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|before| places[before].0.number);
        let is_next = before.zip(value.number).is_some_and(|(before, number)| before < number);
        if place > 0 && !is_next {
            points.push((x(place), f64::NAN));
        }
        points.push((x(place), spread.map_or(f64::NAN, |it| scaled(it.median))));
    }
    let medians = Series::new(&target.name, look.colour, look.marked()).of(points);
    [Series::whiskers(look.colour, &intervals.collect::<Vec<_>>()), medians]
}

/// Draws the courses of a rising load, or of a server under an event, one per configuration that
/// has one: the measurement whose main metric is the middle one.
pub(crate) fn courses(study: &Study<'_>) -> Vec<(String, Chart)> {
    let course = |(combination, entry): (&Combination<'_>, &StudyEntry<'_>)| {
        let measurement = middle(entry, study.main()?)?;
        let timeline = Timeline::from(measurement).while_attempted();
        let name = combination.named(entry);
        // A course without rising rates shows an event at the server.
        let (what, chart) = match measurement.read_offs {
            Some(_) => ("transactions and response time", along_time(timeline)?),
            None => ("handshakes", handshakes_along_time(timeline)?),
        };
        let title = format!("{name}: {what} over time");
        Some((name, Chart { title, columns: Vec::new(), ..chart }))
    };
    let mut courses: Vec<(String, Chart)> = study.entries().filter_map(course).collect();
    Chart::share_scales(courses.iter_mut().map(|(_, chart)| chart));
    courses
}

/// Draws courses as small multiples: a chart per part of a course, a panel per configuration.
pub(crate) fn multiples(study: &Study<'_>) -> Vec<Chart> {
    let courses = courses(study);
    let parts = courses.iter().map(|(_, chart)| chart.panels.len()).max().unwrap_or(0);
    let multiple = |part: usize| {
        let panels = courses.iter().filter_map(|(name, chart)| {
            let mut panel = chart.panels.get(part)?.clone();
            panel.y.title = format!("{name}: {}", panel.y.title);
            Some(panel)
        });
        let panels = with_one_legend(panels);
        let title = format!("{}: each target over time", study.scenario.name);
        courses.first().map(|(_, chart)| Chart { title, panels, ..chart.clone() })
    };
    (0..parts).filter_map(multiple).collect()
}

/// Draws the service of all targets under a rising load over time, as shares of their own
/// capacities, so that all are offered the same. `None` for fewer than two targets.
pub(crate) fn replay(study: &Study<'_>, palette: &Palette<'_>) -> Option<Chart> {
    let mut served = Vec::new();
    let mut responses = Vec::new();
    let mut offered = Vec::new();
    for (combination, entry) in study.entries() {
        let Some(measurement) = study.main().and_then(|main| middle(entry, main)) else {
            continue;
        };
        let (Some(_), Some(capacity)) = (measurement.read_offs, measurement.capacity_per_s) else {
            continue;
        };
        let timeline = Timeline::from(measurement).while_attempted();
        let points = |metric, scale: f64| {
            let samples = timeline.samples(metric, SAMPLES_MAX).into_iter();
            samples.map(move |sample| (sample.at_s, sample.value * scale))
        };
        let name = combination.named(entry);
        let look = palette.look(entry.target);
        let line = |name: &str| Series::new(name, look.colour, look.line());
        let share = 100.0 / capacity;
        if offered.is_empty() {
            offered.extend(points(Metric::AttemptedRate, share));
        }
        served.push(line(&name).of(points(Metric::Rate, share)));
        responses.push(line("").of(points(Metric::MeanResponse, 1.0)));
    }
    if served.len() < 2 {
        return None;
    }
    served.insert(0, Series::new("offered", "grey", SeriesShape::Line("1 4")).of(offered));
    let values = |all: &[Series]| -> Vec<f64> {
        let points = all.iter().flat_map(|series| &series.points);
        points.map(|point| point.1).filter(|y| y.is_finite()).collect()
    };
    let greatest = values(&served).into_iter().fold(0.0, f64::max);
    let share =
        Axis::from_zero("succeeded per second, % of its capacity", AxisUnit::Count, greatest, 4);
    let response = Axis::durations("mean response time", values(&responses).into_iter());
    let ends = served.iter().filter_map(|series| series.points.last());
    let end = ends.map(|point| point.0 + 0.5).fold(1.0, f64::max);
    Some(Chart {
        title: format!("{}: all targets over time", study.scenario.name),
        description: "A line per target. The table of metrics has what can be read off.".to_owned(),
        x: Axis::exact("time since the beginning", AxisUnit::Clock, 0.0, end, 12),
        panels: vec![Panel::new(share, served), Panel::new(response, responses)],
        columns: Vec::new(),
    })
}

fn middle<'e>(entry: &StudyEntry<'e>, metric: Metric) -> Option<&'e Measurement> {
    let all = entry.measurements.values().copied();
    let mut rising: Vec<&Measurement> = all.filter(|it| !it.seconds.is_empty()).collect();
    let value = |measurement: &Measurement| metric.of(measurement).unwrap_or(0.0);
    rising.sort_by(|a, b| value(a).total_cmp(&value(b)));
    rising.get(rising.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_join_only_what_is_ordered() {
        let value = |number| RecordedValue { name: String::new(), title: String::new(), number };
        let values = [None, Some(4.0), Some(16.0), Some(8.0)].map(value);
        let spread = |it: f64| Spread::of(&[it, it + 1.0, it + 2.0]);
        let places: Vec<_> = values.iter().map(|value| (value, spread(5.0))).collect();
        let target = TargetDescription::default();
        let look = (0.0, &Palette::of([]));
        let [whiskers, medians] = line(&target, &places, Metric::Rate, look);
        let shown: Vec<f64> = medians.points.iter().map(|point| point.1).collect();
        let gap = |at: usize| shown[at].is_nan();
        // The name alone, two numbers that rise, and one that falls.
        assert!(gap(1) && gap(4) && shown.len() == 6, "{shown:?}");
        // 4.303 deviations divided by the root of three.
        assert_eq!(whiskers.points.len(), 8);
        assert!((whiskers.points[0].1 - (6.0 - 2.484)).abs() < 1e-3, "{whiskers:?}");
    }

    fn panels(fulls: [f64; 3]) -> Vec<f64> {
        let panel = |full: f64| BarPanel {
            heading: String::new(),
            full,
            // The last bar lacks values: it has no scale.
            bars: vec![Bar {
                name: String::new(),
                look: SeriesLook::at(0),
                value: (full != 1.0).then_some((full, full, full)),
                text: String::new(),
                beside: String::new(),
            }],
        };
        let scaled = same_scale(fulls.map(panel).into());
        scaled.iter().map(|panel| panel.full).collect()
    }

    #[test]
    fn a_scale_in_common_shows_every_bar() {
        assert_eq!(panels([22.0, 400.0, 1.0]), [400.0; 3]);
        assert_eq!(panels([22.0, 14_051.0, 1.0]), [22.0, 14_051.0, 1.0]);
    }
}
