//! The figures of an experiment as documents of their own.

use measure::experiment::Experiment;

use crate::figure::WIDE;

use super::plots::{Palette, Plot, courses, plot, single};
use super::study::{Case, cases};

/// A figure as a document.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// The same for every run of a scenario: `implementations-server-cpu`.
    pub name: String,
    /// The document: SVG, dark or light as the reader likes.
    pub svg: String,
}

/// As wide as a column of text on a desk, so that letters have the size of the text around it.
const COLUMN: f64 = 760.0;

/// All figures of an experiment: of each scenario its main one, and each figure of a scenario
/// without factors.
#[must_use]
pub fn of_experiment(experiment: &Experiment) -> Vec<Drawing> {
    let palette = Palette(&experiment.plan.targets);
    let cases = cases(experiment, 1);
    cases
        .iter()
        .flat_map(|case| of_case(case, palette))
        .collect()
}

fn of_case(case: &Case<'_>, palette: Palette<'_>) -> Vec<Drawing> {
    let Some(plot) = plot(case, palette) else {
        return Vec::new();
    };
    let name = |part: &str| format!("{}-{part}", file_name(&case.scenario.name));
    let mut drawings = Vec::new();
    match plot {
        Plot::Lines(figure) => drawings.extend(case.main().map(|main| Drawing {
            name: name(main.id()),
            svg: figure.document(WIDE),
        })),
        Plot::Bars(_) => {
            let told = if case.groups.len() == 1 {
                usize::MAX
            } else {
                1
            };
            drawings.extend(case.yardsticks.iter().take(told).map(|yardstick| Drawing {
                name: name(yardstick.id()),
                svg: single(case, *yardstick).document(COLUMN, 1),
            }));
        }
    }
    drawings.extend(courses(case).into_iter().map(|(course, figure)| Drawing {
        name: name(&format!("course-{}", file_name(&course))),
        svg: figure.document(WIDE),
    }));
    drawings
}

/// What may stand in the name of a file on any system.
fn file_name(name: &str) -> String {
    let tame = |c: char| match c {
        _ if c.is_ascii_alphanumeric() => c.to_ascii_lowercase(),
        _ => '-',
    };
    let tamed: String = name.chars().map(tame).collect();
    let parts: Vec<&str> = tamed.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-")
}
