//! The loss of the second experiment against the first, plotted.

use measure::experiment::Target;

use crate::figure::{Axis, Figure, Panel, Series, Shape, Unit};
use crate::hostile::harmless;

use super::super::plots::Palette;
use super::super::study::Case;
use super::super::words::digits;
use super::pairs::Pair;

/// The last place of each series of levels.
fn ends(case: &Case<'_>) -> Vec<usize> {
    let lengths = case.series().map(<[_]>::len);
    let ends = lengths.scan(0, |end, length| {
        *end += length;
        Some(*end - 1)
    });
    ends.collect()
}

/// In percent, by level; `None` if no cell has a loss.
pub(super) fn losses(pair: &Pair<'_>, targets: &[Target]) -> Option<Figure> {
    let yardstick = *pair.yardsticks.first()?;
    let figure = yardstick.title(&pair.a.scenario.operation);
    let ends = ends(&pair.a);
    let mut texts = Vec::new();
    let mut series = Vec::new();
    for (index, target) in pair.a.targets.iter().enumerate() {
        let mut points = Vec::new();
        for (place, group) in pair.a.groups.iter().enumerate() {
            let entry = &group.entries[index];
            let change = pair.change(group, entry, yardstick);
            let loss = change.and_then(|change| change.loss_percent(yardstick));
            let title = group.title();
            texts.extend(loss.map(|loss| format!("{} {title}: {} %.", target.name, digits(loss))));
            points.push((place as f64, loss.unwrap_or(f64::NAN)));
            // Between names there is nothing to be read off a line.
            if !pair.a.is_numeric() || ends.contains(&place) {
                points.push((place as f64, f64::NAN));
            }
        }
        let palette = Palette(targets);
        let shape = Shape::Marked(palette.dashes(target));
        series.push(Series::new(&harmless(&target.name), palette.colour(target), shape).of(points));
    }
    let values: Vec<f64> = series
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.1)
        .collect();
    let told = || values.iter().copied().filter(|value| value.is_finite());
    let (least, greatest) = (told().fold(0.0, f64::min), told().fold(0.0, f64::max));
    told().next()?;
    let title = match yardstick.is_cost() {
        true => format!("More {figure} than the first, % (below 0: less)"),
        false => format!("Loss against the first, {figure}, % (below 0: a gain)"),
    };
    let mut panel = Panel::new(Axis::range(&title, Unit::Count, least, greatest, 5), series);
    panel.limits.push((0.0, "as the first".to_owned()));
    let factor = pair.a.scenario.factors.last();
    let names = pair.a.groups.iter().map(|group| harmless(&group.title()));
    Some(Figure {
        title: format!(
            "{}: loss of {figure} against the first, %",
            harmless(pair.id())
        ),
        description: harmless(&texts.join(" ")),
        x: Axis::places(
            factor.map_or("", |factor| factor.title.as_str()),
            names.collect(),
        ),
        panels: vec![panel],
        columns: Vec::new(),
    })
}
