//! Draws one claim of a record as a picture to share: what a target does better than all others, by
//! how much, on what host, and the command that repeats it.
//!
//! A claim that the record does not support is refused. The picture has its own colours, because it
//! is shown without a style sheet.

use measure::effect::{Effect, EffectScale};
use measure::experiment::{Experiment, ExperimentPlan};
use measure::metric::Metric;

use super::comparison::{Comparison, ComparisonVerdict};
use super::plots::{Palette, legend, panel};
use super::ranking::{Ranking, Weight};
use super::study::{Combination, Study, do_same_work, studies};
use super::tables::heading;
use crate::figure::{BarPanel, Bars, drawing_text};
use crate::host;
use crate::markup::{MarkupElement, element};
use crate::words::{command_lines, listed};

/// Size of a card in pixels: link previews show it whole.
pub const CARD_SIZE: (u32, u32) = (1200, 630);

/// Reason why there is no card, and the remedy.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{seen}")]
pub struct CardRefusal {
    /// Missing thing, in a sentence without a full stop.
    pub seen: String,
    pub hint: String,
}

/// Subject of a card; a missing part is chosen if there is no choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct CardSubject<'s> {
    /// Name of a scenario.
    pub scenario: Option<&'s str>,
    /// Target that the claim is about; the first one if missing.
    pub reference: Option<&'s str>,
    /// Combination of values, as tables name it: `TLS 1.3, P-256, PSK`.
    pub context: Option<&'s str>,
}

fn refusal(seen: impl Into<String>, hint: impl Into<String>) -> CardRefusal {
    CardRefusal { seen: seen.into(), hint: hint.into() }
}

/// Draws the card as SVG.
///
/// # Errors
/// Fails if the record lacks the subject, or does not show that the first target is better than
/// every other that does the same work.
pub fn card(experiment: &Experiment, subject: CardSubject<'_>) -> Result<String, CardRefusal> {
    if !experiment.ended.as_ref().is_some_and(|it| it.is_complete) {
        let hint = "end the run first: lariat-lab run --resume RECORD";
        return Err(refusal("the run was stopped before its end", hint));
    }
    let all = studies(experiment, 1, subject.reference);
    let ranking = Ranking::of(all.iter());
    let name = |study: &Study<'_>| study.scenario.name.clone();
    let study = one_of(&all, subject.scenario, name, ("scenario", "--scenario"))?;
    let combination =
        one_of(&study.combinations, subject.context, Combination::title, ("context", "--context"))?;
    let claim = CardClaim::of(study, combination, &ranking)?;
    Ok(format!("{}\n", claim.draw(experiment, study, combination)))
}

/// Returns the item of that name, or the only one.
fn one_of<'a, T>(
    all: &'a [T],
    name: Option<&str>,
    name_of: impl Fn(&T) -> String,
    (what, flag): (&str, &str),
) -> Result<&'a T, CardRefusal> {
    let names: Vec<String> = all.iter().map(&name_of).collect();
    let there_are = format!("the record has: {}", names.join("; "));
    match (name, all) {
        (Some(name), _) => {
            let mut found = all.iter().filter(|it| name_of(it) == name);
            let missing = || refusal(format!("the record has no {what} `{name}`"), there_are);
            found.next().ok_or_else(missing)
        }
        (None, [only]) => Ok(only),
        (None, _) => {
            let seen = format!("the record has {} {what}s, and a card is of one", all.len());
            Err(refusal(seen, format!("choose by {flag}; {there_are}")))
        }
    }
}

struct CardClaim {
    first: String,
    /// Nearest of the other targets.
    nearest: String,
    others: usize,
    metric: String,
    /// Comparison of the first target with the nearest.
    found: Comparison,
}

impl CardClaim {
    fn of(
        study: &Study<'_>,
        combination: &Combination<'_>,
        ranking: &Ranking,
    ) -> Result<Self, CardRefusal> {
        let (Some(metric), Some(first)) = (study.main(), study.targets.first()) else {
            return Err(refusal("the scenario has no metric", "choose another scenario"));
        };
        let others = study.targets.iter().skip(1);
        let others = others.filter(|target| do_same_work(study.scenario, target, first));
        let mut found: Vec<(&str, Comparison)> = Vec::new();
        let mut faults = Vec::new();
        for target in others {
            let name = target.name.as_str();
            match ranking.main(study, name, &combination.title()) {
                Some((ComparisonVerdict::Worse, Weight::Main, comparison)) => {
                    found.push((name, comparison))
                }
                Some((verdict, ..)) => faults.push(format!("{name} ({})", doubt(verdict))),
                None => faults.push(format!("{name} (not measured)")),
            }
        }
        if !faults.is_empty() {
            return Err(refusal(
                format!(
                    "the record does not bear that {} is better than {}",
                    first.name,
                    listed(&faults)
                ),
                "a card claims what holds for every target of the scenario: repeat the run with \
                 more rounds, with fewer targets, or choose another context",
            ));
        }
        let distance = |it: &Comparison| it.effect.value.ln().abs();
        let of_nearest = |(_, a): &&(&str, Comparison), (_, b): &&(&str, Comparison)| {
            distance(a).total_cmp(&distance(b))
        };
        let Some((nearest, comparison)) = found.iter().min_by(of_nearest) else {
            let hint = "measure a target that does the same work beside it";
            return Err(refusal("there is nothing to compare with", hint));
        };
        if comparison.effect.scale == EffectScale::Difference {
            let hint = "choose a scenario whose main metric is a duration, a size or a rate";
            return Err(refusal("a share has no ratio to claim", hint));
        }
        Ok(Self {
            first: first.name.clone(),
            nearest: (*nearest).to_owned(),
            others: found.len(),
            metric: metric.title(&study.scenario.operation),
            found: Comparison { effect: inverse(comparison.effect), ..*comparison },
        })
    }

    fn draw(
        &self,
        experiment: &Experiment,
        study: &Study<'_>,
        combination: &Combination<'_>,
    ) -> MarkupElement {
        let (words, interval) = self.found.parts();
        let others = match self.others {
            1 => String::new(),
            others => format!(", the nearest of {others}"),
        };
        let rounds = self.found.effect.count;
        let than = format!(
            "than {}{others}; 95 % interval {}, {rounds} rounds",
            self.nearest,
            interval.unwrap_or_default()
        );
        let plan = &experiment.plan;
        let context = [study.scenario.name.clone(), combination.title()];
        let date = plan.started.split('T').next().unwrap_or_default();
        let foot = format!("{date}, {}", host::line(&plan.host.host));
        let mut versions =
            format!("{}; {}", version(plan, &self.first), version(plan, &self.nearest));
        if versions.chars().count() > VERSIONS_MAX {
            versions = versions.chars().take(VERSIONS_MAX).collect::<String>() + "…";
        }
        // A command that is too long is announced as such.
        const COMMAND_LINES_MAX: usize = 2;
        let mut command = command_lines(&plan.command, 108);
        if command.len() > COMMAND_LINES_MAX {
            command.truncate(COMMAND_LINES_MAX);
            let last = command.pop();
            command.extend(last.map(|line| format!("{line} …")));
        }
        let metric = study.main().unwrap_or(Metric::Rate);
        let mut shapes = vec![
            drawing_text("soft", (56.0, 66.0), &crate::words::joined(&context, ": ")),
            drawing_text("claim", (56.0, 128.0), &format!("{}: {words}", self.first)),
            drawing_text("claim", (56.0, 180.0), &self.metric),
            drawing_text("than", (56.0, 222.0), &than),
            bars(study, combination, metric, &Palette::of([plan])),
            drawing_text("soft", (56.0, 522.0), &versions),
            drawing_text("soft", (56.0, 546.0), &foot),
        ];
        for (index, line) in command.iter().enumerate() {
            let place = (56.0, 574.0 + 24.0 * index as f64);
            shapes.push(drawing_text("command", place, line));
        }
        let (width, height) = CARD_SIZE;
        element("svg")
            .with("xmlns", "http://www.w3.org/2000/svg")
            .with("width", width)
            .with("height", height)
            .with("viewBox", format!("0 0 {width} {height}"))
            .child(element("style").ours(include_str!("../style/card.css")))
            .child(
                element("rect").with("class", "page").with("width", width).with("height", height),
            )
            .children(shapes)
    }
}

/// Maximum characters of the versions in a line of a card.
const VERSIONS_MAX: usize = 110;

/// Returns a target's own text about its version, with its name if the text lacks it.
fn version(plan: &ExperimentPlan, name: &str) -> String {
    let target = plan.targets.iter().find(|target| target.name == name);
    let words = target.and_then(|target| target.version.first()).map_or("", String::as_str);
    if words.starts_with(name) { words.to_owned() } else { format!("{name} ({words})") }
}

fn bars(
    study: &Study<'_>,
    combination: &Combination<'_>,
    metric: Metric,
    palette: &Palette<'_>,
) -> MarkupElement {
    const PLACE: (f64, f64) = (56.0, 244.0);
    const ROOM: (f64, f64) = (1088.0, 248.0);
    const SCALE_MAX: f64 = 1.7;
    let heading = format!("{}: median", heading(study, metric));
    let panel = BarPanel { heading, ..panel(study, combination, metric, palette) };
    let bars = Bars { panels: vec![panel], ..Bars::default() };
    let legend = drawing_text("tick", (0.0, 13.0), &legend(study));
    let above = 24.0;
    let drawn = |scale: f64| bars.shapes(ROOM.0 / scale).remove(0);
    let scale = (ROOM.1 / (above + drawn(SCALE_MAX).1)).min(SCALE_MAX);
    let panel = element("g").with("transform", format!("translate(0 {above})"));
    let (x, y) = PLACE;
    element("g")
        .with("transform", format!("translate({x} {y}) scale({scale:.3})"))
        .child(legend)
        .child(panel.children(drawn(scale).0))
}

fn doubt(verdict: ComparisonVerdict) -> &'static str {
    match verdict {
        ComparisonVerdict::Better => "it is better",
        ComparisonVerdict::Equal => "equal",
        ComparisonVerdict::NotKnown | ComparisonVerdict::WithinStep => "it is not known to differ",
        ComparisonVerdict::Worse => {
            "it differs by its own interval only, not among all comparisons"
        }
        ComparisonVerdict::LoadLimited => "the load was the limit",
        ComparisonVerdict::TooFewRounds => "too few rounds",
        ComparisonVerdict::OtherWork => "it does other work",
    }
}

/// Turns a comparison of the second with the first into one of the first with the second.
fn inverse(effect: Effect) -> Effect {
    Effect {
        value: effect.value.recip(),
        interval: effect.interval.map(|(from, to)| (to.recip(), from.recip())),
        means: (effect.means.1, effect.means.0),
        ..effect
    }
}
