//! Tables of a scenario that text and page share: spreads as ministat(1) prints them, what the
//! source printed, who took part.

use measure::experiment::{Figure, Published, Target};
use measure::statistics::Spread;
use measure::student::Difference;

use crate::hostile::harmless;
use crate::table::{Cell, Row, Table};
use crate::tables::NONE;

use super::study::{Case, Entry, Group};
use super::words::{digits, titled};
use super::yardstick::Yardstick;

/// The figure whose spreads a scenario is about, since its source printed them: the bandwidth if
/// there is one.
pub(crate) fn spread_figure(case: &Case<'_>) -> Option<Yardstick> {
    let mut published = case.scenario.published.iter();
    let is_printed = published.any(|table| table.columns.iter().any(|head| head == "stddev"));
    let bandwidth = case.yardsticks.iter().find(|it| it.id() == BANDWIDTH.id());
    is_printed.then(|| bandwidth.copied().or_else(|| case.main()))?
}

const BANDWIDTH: Yardstick = Yardstick::Of(Figure::Bandwidth);

/// As the source printed it: kB are 1000 bytes, and thousands are not set apart.
fn shown(yardstick: Yardstick, value: f64) -> String {
    match yardstick {
        BANDWIDTH => format!("{:.0}", value / 1e3),
        _ => yardstick.shown(value),
    }
}

/// Number, least, greatest, median, mean and deviation of a figure; and the difference of means
/// from the first target's by Student's t.
pub(crate) fn spreads(case: &Case<'_>, yardstick: Yardstick) -> Table {
    let heads = [
        "<", "N", "min", "max", "median", "mean", "stddev", "<at 95 %",
    ];
    let caption = format!(
        "{}, {}, as ministat(1) tells it; differences from {} by Student's t",
        titled(&yardstick.title(&case.scenario.operation)),
        match yardstick {
            BANDWIDTH => "kB/s",
            _ => yardstick.unit(),
        },
        case.targets
            .first()
            .map_or("", |target| target.name.as_str()),
    );
    let mut table = Table::new(&harmless(&caption), &heads);
    for group in &case.groups {
        let rows = group.entries.iter();
        let rows: Vec<Row> = rows
            .filter_map(|entry| spread_row(entry, group, yardstick))
            .collect();
        let title = harmless(&group.title());
        if !title.is_empty() && !rows.is_empty() {
            table.head(&title);
        }
        table.rows.extend(rows);
    }
    table
}

fn spread_row(entry: &Entry<'_>, group: &Group<'_>, yardstick: Yardstick) -> Option<Row> {
    let spread = entry.spread(yardstick)?;
    let values = [
        spread.min,
        spread.max,
        spread.median,
        spread.mean,
        spread.deviation,
    ];
    let mut cells = vec![
        Cell::of(harmless(&entry.target.name)),
        Cell::of(spread.count),
    ];
    cells.extend(values.map(|value| Cell::of(shown(yardstick, value))));
    let first = group.base_of(entry);
    let first = first.and_then(|first| first.spread(yardstick));
    cells.push(Cell::of(first.map_or_else(String::new, |first| {
        difference(&first, &spread, yardstick)
    })));
    Some(Row {
        cells,
        is_head: false,
    })
}

/// As ministat says it: in the unit and in percent of the first.
fn difference(first: &Spread, second: &Spread, yardstick: Yardstick) -> String {
    let Some(found) = Difference::of(first, second) else {
        return "too few samples".to_owned();
    };
    if !found.is_proven() {
        return "no difference proven".to_owned();
    }
    let sign = if found.difference < 0.0 {
        "\u{2212}"
    } else {
        "+"
    };
    let percent = |value: f64| digits(value.abs() / first.mean * 100.0);
    format!(
        "{sign}{} ± {} ({sign}{} ± {} %)",
        shown(yardstick, found.difference.abs()),
        shown(yardstick, found.error),
        percent(found.difference),
        percent(found.error)
    )
}

/// A table of the source, as it printed it.
pub(crate) fn published(published: &Published) -> Table {
    let unit = match published.unit.is_empty() {
        true => String::new(),
        false => format!(", {}", published.unit),
    };
    let mut columns = published.columns.iter();
    let first = columns.next().map(|head| format!("<{}", harmless(head)));
    let heads: Vec<String> = first
        .into_iter()
        .chain(columns.map(|head| harmless(head)))
        .collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(&harmless(&format!("{}{unit}", published.title)), &heads);
    for row in &published.rows {
        let cell = |text: &String| match text.as_str() {
            "-" | "" => Cell::from(NONE),
            text => Cell::of(harmless(text)),
        };
        table.row(row.iter().take(heads.len()).map(cell).collect());
    }
    table
}

/// Who took part, with versions.
pub(crate) fn programs(targets: &[Target]) -> Table {
    let heads = ["<target", "<what it is", "<from", "<what it says of itself"];
    let mut table = Table::new("Who took part", &heads);
    for target in targets {
        let says = match &target.missing {
            Some(why) => format!("takes no part: {why}"),
            None => target.version.join(" · "),
        };
        table.row(
            [&target.name, &target.title, &target.from, &says]
                .map(|text| Cell::of(harmless(text)))
                .to_vec(),
        );
    }
    table
}
