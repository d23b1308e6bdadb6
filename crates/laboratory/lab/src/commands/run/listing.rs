//! What there is to run, what a run would do, and whether that is still the same.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use measure::experiment::{Placement, Plan, Target};
use measure::host::HostReport;

use crate::experiment::resolved::ResolvedTarget;
use crate::scenario::cells::Expanded;
use crate::scenario::form::Form;
use crate::usage::{UsageError, unknown};

/// All scenarios, with their time in both modes.
pub(super) fn list(quick: &[Expanded], full: &[Expanded]) -> String {
    let mut text = String::new();
    for (quick, full) in quick.iter().zip(full) {
        let name = &quick.scenario.name;
        let question = &quick.scenario.question;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{name}\n    {question}\n    quick: {}; full: {}",
            extent(quick),
            extent(full)
        );
    }
    let total = |all: &[Expanded]| minutes(all.iter().map(time).sum());
    let _ = writeln!(
        text,
        "all\n    quick: {}; full: {}",
        total(quick),
        total(full)
    );
    text
}

fn extent(expanded: &Expanded) -> String {
    let cells = expanded.cells.iter();
    let cells = cells.filter(|plan| plan.cell.unsupported.is_none()).count();
    let repeats = expanded.scenario.repeats;
    format!(
        "{cells} cells, {repeats} times, {}",
        minutes(time(expanded))
    )
}

/// Of all repeats of all cells that can be done.
fn time(expanded: &Expanded) -> Duration {
    let cells = expanded.cells.iter();
    let cells = cells.filter(|plan| plan.cell.unsupported.is_none());
    cells.map(|plan| plan.estimate() * plan.repeats).sum()
}

fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..=90 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

/// What a run would do: its cells with the command that makes the same load.
pub(super) fn plan(
    expanded: &[Expanded],
    resolved: &[ResolvedTarget],
    placement: &Placement,
) -> String {
    let mut text = format!(
        "servers on CPU {}; load and origin on CPU {}\n",
        numbers(&placement.server),
        numbers(&placement.client)
    );
    for one in expanded {
        let scenario = &one.scenario;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "\n{}: {}\n{}",
            scenario.name,
            scenario.question,
            extent(one)
        );
        for plan in &one.cells {
            let target = resolved
                .iter()
                .find(|one| one.target.name == plan.cell.target);
            let missing = target.and_then(|one| one.program.as_ref().err());
            let what = match (&plan.cell.unsupported, missing) {
                (Some(why), _) => format!("unsupported: {why}"),
                (None, Some(missing)) => format!("takes no part: {missing}"),
                (None, None) => shell(&plan.cell.command),
            };
            let key = plan.cell.key.trim_start_matches("target=");
            let _ = writeln!(text, "  {key}\n    {what}");
        }
    }
    text
}

fn numbers(cpus: &[u16]) -> String {
    let cpus: Vec<_> = cpus.iter().map(u16::to_string).collect();
    cpus.join(",")
}

/// Words as a shell would take them.
fn shell(words: &[String]) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,=%@+".contains(letter);
    let quoted = words.iter().map(|word| match word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''").escape_debug()),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Every factor and level of `--only` must be one of some scenario.
pub(super) fn check_only<'f>(
    only: &BTreeMap<String, Vec<String>>,
    forms: impl Iterator<Item = &'f Form> + Clone,
) -> Result<(), UsageError> {
    let factors = || forms.clone().flat_map(|form| &form.file.factor);
    for (name, levels) in only.iter().filter(|(name, _)| *name != "target") {
        let mut known: Vec<_> = factors().map(|factor| factor.name.as_str()).collect();
        known.push("target");
        if !known.contains(&name.as_str()) {
            return Err(unknown("factor", name, known));
        }
        let of_factor = factors().filter(|factor| factor.name == *name);
        let known = of_factor.flat_map(|factor| &factor.level);
        let known: Vec<_> = known.map(|level| level.name.as_str()).collect();
        let stranger = levels.iter().find(|level| !known.contains(&level.as_str()));
        if let Some(level) = stranger {
            return Err(unknown(&format!("level of `{name}`"), level, known));
        }
    }
    Ok(())
}

/// What differs from when a record was begun, so that it cannot be taken up.
pub(super) fn changed(
    plan: &Plan,
    expanded: &[Expanded],
    targets: &[Target],
    host: &HostReport,
) -> Option<String> {
    let version = env!("CARGO_PKG_VERSION");
    if plan.tool.version != version {
        let old = &plan.tool.version;
        return Some(format!("lariat-lab {old} began it, and this is {version}"));
    }
    let facts = |report: &HostReport| (report.host.cpu.clone(), report.host.kernel.clone());
    if facts(&plan.host) != facts(host) {
        let (cpu, kernel) = facts(&plan.host);
        return Some(format!("it was begun on another host ({cpu}, {kernel})"));
    }
    if let Some(target) = plan.targets.iter().find(|target| !targets.contains(target)) {
        return Some(format!(
            "{} is another version now, or is gone",
            target.name
        ));
    }
    let scenarios = expanded.iter().map(|one| &one.scenario);
    let mut pairs = scenarios.zip(&plan.scenarios);
    let differs = pairs.find(|(now, then)| {
        now.configurations != then.configurations || now.repeats != then.repeats
    });
    if let Some((now, _)) = differs {
        return Some(format!("scenario {} has other cells now", now.name));
    }
    (expanded.len() != plan.scenarios.len()).then(|| "it had other scenarios".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["curl", "-w", "%{speed} x", "it's"].map(str::to_owned);
        assert_eq!(shell(&words), "curl -w '%{speed} x' 'it\\'\\\\\\'\\'s'");
    }

    #[test]
    fn times_are_for_people() {
        assert_eq!(minutes(Duration::from_secs(89)), "89 s");
        assert_eq!(minutes(Duration::from_secs(170)), "3 min");
    }
}
