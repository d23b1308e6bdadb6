//! The scenarios that there are, what a run would do, and whether a resumed run is still the same.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use measure::experiment::{ExperimentPlan, Placement, Scenario, TargetDescription};
use measure::host::HostReport;

use crate::fault::{LabResult, unknown};
use crate::process::cpu_list;
use crate::run::journal::minutes;
use crate::run::needs::ResolvedTarget;
use crate::run::scenario::expansion::Expanded;
use crate::run::scenario::form::ScenarioForm;

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
    let _ = writeln!(text, "all\n    quick: {}; full: {}", total(quick), total(full));
    text
}

fn extent(expanded: &Expanded) -> String {
    let (count, repeats) = (expanded.supported().count(), expanded.scenario.repeats);
    let time = minutes(time(expanded));
    match expanded.scenario.until {
        None => format!("{count} configurations, {repeats} times, {time}"),
        Some(rule) => {
            let most = minutes(Duration::from_nanos(rule.time_max_ns));
            let reach = rule.reach * 100.0;
            format!(
                "{count} configurations until ±{reach} %, {repeats} times at least: {most} at most"
            )
        }
    }
}

fn time(expanded: &Expanded) -> Duration {
    expanded.supported().map(|it| it.estimate() * it.repeats).sum()
}

/// The plan of a run: its configurations with the command that makes the same load.
pub(super) fn plan(
    expanded: &[Expanded],
    resolved: &[ResolvedTarget],
    placement: &Placement,
) -> String {
    let mut text = format!(
        "servers on CPU {}; load and origin on CPU {}\n",
        cpu_list(&placement.server),
        cpu_list(&placement.client)
    );
    for one in expanded {
        let scenario = &one.scenario;
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{}: {}\n{}", scenario.name, scenario.question, extent(one));
        for planned in &one.configurations {
            let configuration = &planned.configuration;
            let mut resolved = resolved.iter();
            let target = resolved.find(|one| one.target.name == configuration.target);
            let missing = target.and_then(|one| one.program.as_ref().err());
            let what = match (&configuration.unsupported, missing) {
                (Some(why), _) => format!("unsupported: {why}"),
                (None, Some(missing)) => format!("takes no part: {}", missing.message),
                (None, None) => report::command_line(&configuration.command),
            };
            let key = configuration.key.trim_start_matches("target=");
            let _ = writeln!(text, "  {key}\n    {what}");
        }
    }
    text
}

/// Every factor and value of `--only` must be one of some scenario.
pub(super) fn check_only<'f>(
    only: &BTreeMap<String, Vec<String>>,
    forms: impl Iterator<Item = &'f ScenarioForm> + Clone,
) -> LabResult<()> {
    let factors = || forms.clone().flat_map(|form| &form.factor);
    for (name, values) in only.iter().filter(|(name, _)| *name != "target") {
        let mut known: Vec<_> = factors().map(|factor| factor.name.as_str()).collect();
        known.push("target");
        if !known.contains(&name.as_str()) {
            return Err(unknown("factor", name, known));
        }
        let of_factor = factors().filter(|factor| factor.name == *name);
        let known = of_factor.flat_map(|factor| &factor.value);
        let known: Vec<_> = known.map(|value| value.name.as_str()).collect();
        if let Some(value) = values.iter().find(|value| !known.contains(&value.as_str())) {
            return Err(unknown(&format!("value of `{name}`"), value, known));
        }
    }
    Ok(())
}

/// The difference from when a record was begun, so that it cannot be taken up.
pub(super) fn changed(
    plan: &ExperimentPlan,
    expanded: &[Expanded],
    targets: &[TargetDescription],
    host: &HostReport,
) -> Option<String> {
    let version = env!("CARGO_PKG_VERSION");
    if plan.tool.version != version {
        let old = &plan.tool.version;
        return Some(format!("lariat-lab {old} began it, and this is {version}"));
    }
    let (then, now) = (&plan.host.host, &host.host);
    let (cpu, kernel) = (&then.cpu, &then.kernel);
    if (cpu, kernel) != (&now.cpu, &now.kernel) {
        return Some(format!("it was begun on another host ({cpu}, {kernel})"));
    }
    if let Some(target) = plan.targets.iter().find(|target| !targets.contains(target)) {
        return Some(format!("{} is another version now, or is gone", target.name));
    }
    let mut pairs = expanded.iter().map(|one| &one.scenario).zip(&plan.scenarios);
    let differs = pairs.find(|(now, then)| {
        let repeats = |it: &Scenario| (it.repeats, it.until);
        now.configurations != then.configurations || repeats(now) != repeats(then)
    });
    if let Some((now, _)) = differs {
        return Some(format!("scenario {} has other configurations now", now.name));
    }
    (expanded.len() != plan.scenarios.len()).then(|| "it had other scenarios".to_owned())
}
