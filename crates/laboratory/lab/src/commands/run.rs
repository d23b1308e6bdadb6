//! Runs `lariat-lab run`: measures scenarios into a record, lists the scenarios, or prints the plan
//! of a run.
//!
//! Reports every error that can be found in advance before the first server starts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use measure::experiment::{
    self, ExperimentPlan, FailureKind, Placement, RunEvent, RunMoment, Scenario, TargetDescription,
};
use measure::record::{HostReport, RecordingTool};
use options::Complaint;

use super::plan::{command, tool};
use super::run_arguments::RunArguments;
use super::targets::{check_name, programs, with_root};
use crate::console::{Console, print};
use crate::fault::{Exit, LabFault, LabResult, unknown};
use crate::host::{self, SpeedTiming};
use crate::interrupt::{Cancel, Interrupt};
use crate::load::destination::RecordDate;
use crate::process::cpu_list;
use crate::process::scratch::Scratch;
use crate::run::journal::{RunJournal, minutes};
use crate::run::needs::{self, ResolvedTarget, RunResources};
use crate::run::scenario::ListedScenario;
use crate::run::scenario::expansion::{self, CandidateTarget, ExpandedScenario};
use crate::run::scenario::form::ScenarioForm;
use crate::run::{ExperimentRun, RecordedPast, RunTally, now, scenario as scenarios};
use crate::targets;
use crate::targets::form::TestTarget;
use crate::targets::program::Builds;

/// Pause between two checks for a signal.
const PAUSE: Duration = Duration::from_millis(20);

/// Message at the first signal.
const ENDING: &str = "Ending; what was measured is in the record.";

/// Runs scenarios, lists them, or prints the plan.
pub(super) fn run(request: RunArguments, console: Console) -> LabResult<Exit> {
    let context =
        || RunContext::new(&request, command(), console, Interrupt::new(console, ENDING)?);
    if let Some(path) = &request.resume {
        return context()?.resume(path);
    }
    if request.list {
        return list(&request, console);
    }
    if request.scenarios.is_empty() {
        return Err(LabFault::new(
            "there is no scenario",
            "for example: lariat-lab run implementations; `lariat-lab run --list` lists them",
        ));
    }
    let prepared = prepare(&request, console)?;
    if request.dry_run {
        let PreparedRun { resolved, expanded, placement, .. } = &prepared;
        return print(plan_text(expanded, resolved, placement));
    }
    context()?.begin(prepared)
}

/// Runs scenarios for another command, which handles signals; `command` is written to the record.
pub(super) fn carry_out_alone(
    request: &RunArguments,
    command: Vec<String>,
    console: Console,
    interrupt: Interrupt,
) -> LabResult<Exit> {
    let context = RunContext::new(request, command, console, interrupt)?;
    match &request.resume {
        Some(path) => context.resume(path),
        None => context.begin(prepare(request, console)?),
    }
}

/// Inputs of a run, ready ready before the first server starts.
struct PreparedRun {
    resolved: Vec<ResolvedTarget>,
    expanded: Vec<ExpandedScenario>,
    placement: Placement,
    host: HostReport,
}

/// Everything that can be wrong about what was asked.
fn prepare(request: &RunArguments, console: Console) -> LabResult<PreparedRun> {
    let targets = targets(request)?;
    let listed = scenarios::choose(&request.scenarios, request.scenario_folder.as_deref())?;
    let host = host::report(None);
    let placement = needs::place(request.cpus(), &host.cores)?;
    let programs = programs(&request.builds, &targets)?;
    let builds = with_root(Builds { programs, ..Builds::default() }, &request.builds)?;
    let expanded = expand(&listed, &targets, &builds, request, &host, console)?;
    Ok(PreparedRun { resolved: resolve(targets, &expanded, &builds)?, expanded, placement, host })
}

fn targets(request: &RunArguments) -> LabResult<Vec<TestTarget>> {
    let targets = targets::load_all(request.builds.target_folder.as_deref())?;
    for name in request.targets() {
        check_name(&name, &targets)?;
    }
    Ok(targets)
}

/// Resolves the programs of participating targets, then the servers and clients that they need.
fn resolve(
    targets: Vec<TestTarget>,
    expanded: &[ExpandedScenario],
    builds: &Builds,
) -> LabResult<Vec<ResolvedTarget>> {
    let mut resolved: Vec<ResolvedTarget> = Vec::new();
    let mut others = targets;
    let configurations = || expanded.iter().flat_map(|one| &one.configurations);
    let helpers = configurations().flat_map(|planned| {
        let origin = planned.origin.as_deref();
        [Some(&*planned.server), planned.load.program.as_deref(), origin]
    });
    let tested = configurations().map(|planned| &*planned.configuration.target);
    for name in tested.chain(helpers.flatten()) {
        let place = others.iter().position(|target| target.name == name);
        if let Some(place) = place {
            let target = others.remove(place);
            resolved.push(ResolvedTarget { program: builds.find(&target), target });
        }
    }
    let mut programs = resolved.iter().filter_map(|one| one.program.as_ref().ok());
    if !sys::process::is_root() && programs.any(|program| program.root.is_some()) {
        return Err(LabFault::new(
            "programs of another suite run by chroot, which needs root",
            "sudo lariat-lab run …",
        ));
    }
    Ok(resolved)
}

/// Expands all scenarios to configurations. Reports faults of all files at once.
fn expand(
    listed: &[ListedScenario],
    targets: &[TestTarget],
    builds: &Builds,
    request: &RunArguments,
    host: &HostReport,
    console: Console,
) -> LabResult<Vec<ExpandedScenario>> {
    let asked = request.asked(host);
    let candidates =
        targets.iter().map(|target| CandidateTarget { target, is_given: builds.is_other(target) });
    let candidates: Vec<_> = candidates.collect();
    let mut forms = Vec::new();
    let mut is_wrong = false;
    let mut report = |listed: &ListedScenario, wrong: Vec<Complaint>| {
        console.tell(wrong, Some((&listed.path, &listed.text)));
        is_wrong = true;
    };
    for one in listed {
        match one.form() {
            Ok(form) => forms.push((one, form)),
            Err(wrong) => report(one, wrong),
        }
    }
    check_only(&asked.only, forms.iter().map(|(_, form)| form))?;
    let mut expanded = Vec::new();
    for (one, form) in &forms {
        match expansion::expand(&one.name, form, &candidates, &asked) {
            Ok(configurations) => expanded.push(configurations),
            Err(wrong) => report(one, wrong),
        }
    }
    if is_wrong { Err(LabFault::reported(Exit::Usage)) } else { Ok(expanded) }
}

fn list(request: &RunArguments, console: Console) -> LabResult<Exit> {
    let listed = scenarios::list(request.scenario_folder.as_deref())?;
    let targets = targets(request)?;
    let host = HostReport::default();
    let of_mode = |full| {
        expand(&listed, &targets, &Builds::default(), &RunArguments::of_mode(full), &host, console)
    };
    print(listing(&of_mode(false)?, &of_mode(true)?))
}

/// A run that was asked for, and the needs of each: a folder, and a listener for signals.
struct RunContext<'r> {
    request: &'r RunArguments,
    /// Command line that is written to the record.
    command: Vec<String>,
    scratch: Scratch,
    interrupt: Interrupt,
    console: Console,
}

impl<'r> RunContext<'r> {
    fn new(
        request: &'r RunArguments,
        command: Vec<String>,
        console: Console,
        interrupt: Interrupt,
    ) -> LabResult<Self> {
        let mut scratch = Scratch::new()?;
        if request.keep {
            scratch.is_kept = true;
            let path = scratch.path().display();
            console.say(format_args!("configurations and keys are kept in {path}"));
        }
        // Without it, few connections fit; configurations that want more say so.
        let _ = sys::usage::raise_open_files();
        Ok(Self { request, command, scratch, interrupt, console })
    }

    fn begin(&self, mut prepared: PreparedRun) -> LabResult<Exit> {
        let date = RecordDate::of(SystemTime::now());
        let mut journal = RunJournal::create(self.request.record.as_deref(), date)?;
        let plan = self.plan(&mut prepared, date);
        journal.append(&RunEvent::Began(Box::new(plan.clone())))?;
        self.carry_out(&prepared, &plan, journal, RecordedPast::default())
    }

    /// Resumes a stopped run from where it stopped.
    fn resume(&self, path: &Path) -> LabResult<Exit> {
        let console = self.console;
        let (record, mut journal) = RunJournal::resume(path)?;
        let prepared = prepare(&RunArguments::of_command(&record.plan.command)?, console)?;
        let targets = self.recorded(&prepared);
        if let Some(change) = changed(&record.plan, &prepared.expanded, &targets, &prepared.host) {
            return Err(LabFault::new(
                format_args!("{}: {change}", path.display()),
                "what was read before and after could not be compared: begin anew",
            ));
        }
        let is_complete = record.ended.as_ref().is_some_and(|ended| ended.is_complete);
        let has_failed =
            record.failures.iter().any(|failure| failure.kind != FailureKind::Unsupported);
        if is_complete && !has_failed {
            console.say(format_args!("{} has come to its end already", path.display()));
            return Ok(Exit::Success);
        }
        let command = self.command.clone();
        journal.append(&RunEvent::Resumed(RunMoment { at: now(), command }))?;
        if is_complete {
            console.say("it has come to its end; what failed is measured again");
        }
        let past = RecordedPast::of(&record, !is_complete);
        self.carry_out(&prepared, &record.plan, journal, past)
    }

    /// The first line of the record.
    fn plan(&self, prepared: &mut PreparedRun, date: RecordDate) -> ExperimentPlan {
        self.measure_speeds(prepared);
        let (request, mut command) = (self.request, self.command.clone());
        let seed = request.seed.unwrap_or_else(|| seed_of(date));
        if request.seed.is_none() {
            command.extend(["--seed".to_owned(), seed.to_string()]);
        }
        ExperimentPlan {
            format: experiment::FORMAT,
            tool: RecordingTool { tls: load::outcome::tls_library(), ..tool("lariat-lab") },
            command,
            started: date.to_string(),
            mode: request.mode_name().to_owned(),
            seed,
            host: prepared.host.clone(),
            placement: prepared.placement.clone(),
            targets: self.recorded(prepared),
            scenarios: prepared.expanded.iter().map(|one| one.scenario.clone()).collect(),
        }
    }

    /// Keys and ciphers; a signal ends that at once, and the run with it.
    fn measure_speeds(&self, prepared: &mut PreparedRun) {
        let Some(rows) = self.request.speeds() else {
            return;
        };
        let timing = SpeedTiming::of(rows);
        if !self.request.quiet {
            let seconds = timing.total().as_secs();
            self.console.say(format_args!(
                "measuring keys and ciphers for {seconds} s (--speeds none leaves that out)"
            ));
        }
        let (sender, reports) = channel();
        // After a signal this thread ends with the program.
        thread::spawn(move || {
            let _ = sender.send(host::report(Some(timing)));
        });
        while !self.interrupt.is_requested() {
            match reports.recv_timeout(PAUSE) {
                Ok(report) => {
                    prepared.host = report;
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// The targets that take part, in the order of the tables; the versions of those that are
    /// there.
    fn recorded(&self, prepared: &PreparedRun) -> Vec<TargetDescription> {
        let folder = self.scratch.path();
        prepared.resolved.iter().map(|one| one.recorded(folder)).collect()
    }

    fn carry_out(
        &self,
        prepared: &PreparedRun,
        plan: &ExperimentPlan,
        mut journal: RunJournal,
        past: RecordedPast,
    ) -> LabResult<Exit> {
        report_missing(plan, &prepared.resolved, self.console);
        let run = ExperimentRun {
            plan,
            scenarios: &prepared.expanded,
            resolved: &prepared.resolved,
            resources: RunResources::new(&plan.placement, sys::usage::open_files()),
            folder: self.scratch.path(),
            cancel: &self.interrupt,
            console: self.console,
            is_quiet: self.request.quiet,
        };
        let tally = run.run(&mut journal, past).map_err(|fault| {
            let path = journal.path().display();
            let hint = format!("--resume {path} takes it up when that is mended");
            LabFault { hint, ..fault }
        })?;
        self.conclude(tally, &journal)
    }

    fn conclude(&self, tally: RunTally, journal: &RunJournal) -> LabResult<Exit> {
        let console = self.console;
        let path = journal.path().display().to_string();
        if !tally.is_complete {
            console.say(format_args!("stopped; the record is {path}"));
            console.hint(format_args!("lariat-lab run --resume {path} takes it up"));
            return Ok(Exit::Partial);
        }
        if !self.request.quiet {
            console.say(format_args!("the record is {path}"));
            console.hint(format_args!("lariat-lab report {path} -o page.html makes a page of it"));
        }
        match tally {
            RunTally { measured: 0, .. } => Err(LabFault::failed(
                "no configuration was measured",
                "the reasons stand above, and in the record",
            )),
            RunTally { lacking: 0, .. } => Ok(Exit::Success),
            RunTally { lacking, .. } => {
                let text =
                    format_args!("{lacking} configurations have fewer measurements than planned");
                console.advise(text, "the reasons stand above, and in the record");
                Ok(Exit::Partial)
            }
        }
    }
}

/// Derives a seed from the date if `--seed` is missing: another order in each run.
fn seed_of(date: RecordDate) -> u64 {
    date.compact().chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(1)
}

/// Reports targets that take no part, and the remedy.
fn report_missing(plan: &ExperimentPlan, resolved: &[ResolvedTarget], console: Console) {
    for target in &plan.targets {
        let one = resolved.iter().find(|one| one.target.name == target.name);
        if let Some(Err(missing)) = one.map(|one| &one.program) {
            let text = format_args!("{} takes no part: {}", target.name, missing.message);
            console.advise(text, &missing.hint);
        }
    }
}

/// All scenarios, with their time in both modes.
fn listing(quick: &[ExpandedScenario], full: &[ExpandedScenario]) -> String {
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
    let total = |all: &[ExpandedScenario]| minutes(all.iter().map(time).sum());
    let _ = writeln!(text, "all\n    quick: {}; full: {}", total(quick), total(full));
    text
}

fn extent(expanded: &ExpandedScenario) -> String {
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

fn time(expanded: &ExpandedScenario) -> Duration {
    expanded.supported().map(|it| it.estimate() * it.repeats).sum()
}

/// The plan of a run: its configurations with the command that makes the same load.
fn plan_text(
    expanded: &[ExpandedScenario],
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

/// Checks that every factor and value of `--only` occurs in some scenario.
fn check_only<'f>(
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

/// Returns what has changed since a record was begun, so that it cannot be resumed.
fn changed(
    plan: &ExperimentPlan,
    expanded: &[ExpandedScenario],
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
