//! The data of an experiment as sheets: plain numbers in the units of the record.

use measure::effect::Effect;
use measure::experiment::Measurement;
use measure::metric::Metric;
use measure::statistics::Spread;

use super::comparison::compare;
use super::study::{Combination, Entry, Study};
use crate::csv::number;
use crate::document::Sheet;
use crate::words::joined;

const NAMES: &str = "scenario configuration target values";

/// A row per metric of a configuration.
pub(crate) fn configurations(studies: &[Study<'_>]) -> Sheet {
    let heads = "metric count min median mean max deviation ratio ratio_from ratio_to verdict gap";
    let rows = studies.iter().flat_map(|study| {
        let entries = study.entries().flat_map(|(combination, entry)| {
            let metrics = study.metrics.iter();
            metrics.map(move |metric| configuration(study, combination, entry, *metric))
        });
        entries.collect::<Vec<_>>()
    });
    Sheet {
        name: "configurations".to_owned(),
        heads: NAMES.split(' ').chain(heads.split(' ')).collect(),
        rows: rows.collect(),
    }
}

fn configuration(
    study: &Study<'_>,
    combination: &Combination<'_>,
    entry: &Entry<'_>,
    metric: Metric,
) -> Vec<String> {
    let spread = entry.spread(metric);
    let part = |of: fn(&Spread) -> f64| number(spread.as_ref().map(of));
    let found = compare(entry, combination.base_of(entry).unwrap_or(entry), metric);
    let effect = |of: fn(&Effect) -> Option<f64>| number(found.and_then(|it| of(&it.effect)));
    let gap = entry.gap();
    let fields = [
        metric.id().to_owned(),
        spread.map_or(0, |it| it.count).to_string(),
        part(|it| it.min),
        part(|it| it.median),
        part(|it| it.mean),
        part(|it| it.max),
        part(|it| it.deviation),
        effect(|it| Some(it.value)),
        effect(|it| Some(it.interval?.0)),
        effect(|it| Some(it.interval?.1)),
        found.map_or("", |it| it.verdict.id()).to_owned(),
        gap.map_or_else(String::new, |gap| joined(&[gap.kind, &gap.why], ": ")),
    ];
    names(study, combination, entry)
        .into_iter()
        .chain(fields)
        .collect()
}

fn names(study: &Study<'_>, combination: &Combination<'_>, entry: &Entry<'_>) -> [String; 4] {
    [
        study.scenario.name.clone(),
        entry
            .configuration
            .map_or_else(String::new, |it| it.key.clone()),
        entry.target.name.clone(),
        combination.title(),
    ]
}

/// What is reported of each measurement beside its names and metrics.
type Count = (&'static str, fn(&Measurement) -> f64);

const COUNTS: [Count; 16] = [
    ("elapsed_ns", |it| it.elapsed_ns as f64),
    ("attempted", |it| it.counts.attempted as f64),
    ("succeeded", |it| it.counts.succeeded as f64),
    ("failed", |it| it.counts.failed as f64),
    ("operations", |it| it.operations as f64),
    ("server_cpu_ns", |it| it.server_cpu_ns as f64),
    ("client_cpu_ns", |it| it.client_cpu_ns as f64),
    ("origin_cpu_ns", |it| it.origin_cpu_ns as f64),
    ("resident_bytes_before", |it| {
        it.resident_bytes_before as f64
    }),
    ("resident_bytes_loaded", |it| {
        it.resident_bytes_loaded as f64
    }),
    ("open_connections", |it| it.open_connections as f64),
    ("body_bytes", |it| it.traffic.body_bytes as f64),
    ("foreign", |it| it.noise.foreign),
    ("stolen", |it| it.noise.stolen),
    ("server_busy", |it| it.noise.server_busy),
    ("client_busy", |it| it.noise.client_busy),
];

/// A row per metric of a measurement.
pub(crate) fn measurements(studies: &[Study<'_>]) -> Sheet {
    let mut rows = Vec::new();
    for study in studies {
        for (combination, entry) in study.entries() {
            for (repeat, measurement) in &entry.measurements {
                for metric in &study.metrics {
                    let mut row = names(study, combination, entry).to_vec();
                    row.extend([repeat.to_string(), measurement.at.clone()]);
                    row.extend([metric.id().to_owned(), number(metric.of(*measurement))]);
                    row.extend(COUNTS.map(|(_, of)| number(Some(of(measurement)))));
                    rows.push(row);
                }
            }
        }
    }
    let heads = "repeat at metric value".split(' ');
    let heads = NAMES.split(' ').chain(heads);
    Sheet {
        name: "measurements".to_owned(),
        heads: heads.chain(COUNTS.map(|(name, _)| name)).collect(),
        rows,
    }
}
