//! `lariat-lab plan`: its arguments, the records that it reads, and where the answer goes.
//!
//! How it is reckoned is the crate `plan`'s, how it looks `report`'s.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use measure::experiment::Experiment;
use measure::figures;
use measure::host::HostReport;
use measure::planned::{FarmPlan, TargetPlan};
use measure::record::{RunWarning, Tool, to_json};
use plan::cost::{HostSpeeds, PER_S_MIN};
use plan::fault::PlanFault;
use plan::hosts;
use plan::observation::{Observation, observe};
use plan::validation::validate;

use super::farm_metrics;
use super::farm_question::{FarmQuestion, HostSize, asked};
use super::values::{AnswerOutput, give};
use crate::console::Console;
use crate::exit::Exit;
use crate::fault::{LabFault, LabResult};
use crate::load::read_text;
use crate::pages::{Records, check_page, open_all, shown, tame};

/// Plan how many hosts a traffic needs, from records of runs
///
/// Answers with hosts and their interval, the resource that binds, how busy each host is on a
/// normal day and right after some died, memory, session sharing, and what each choice would
/// change. Each figure names the measurement that it is from; what lies outside of them is marked.
/// docs/planning.md explains the model and shows its errors.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lariat-lab run terminate part-load idle --record run.jsonl
  lariat-lab plan --record run.jsonl --rate 40000/s --requests-per-connection 4 --resumed 70% \\
    --key ecdsa-p256 --size 8KiB --p99 50ms --lose 1

  The same keys from a file:
    lariat-lab plan farm.toml

  How well such records predict each other:
    lariat-lab plan --validate --record run.jsonl --record other.jsonl")]
pub(super) struct PlanArguments {
    /// TOML file with the same keys; flags stand above it
    #[arg(value_name = "FARM.toml", value_hint = ValueHint::AnyPath)]
    file: Option<PathBuf>,
    #[command(flatten)]
    question: FarmQuestion,
    /// A host's own day instead of --rate, --resumed and --tls: ranges of Lariat's metrics, as
    /// Prometheus answers query_range, or Lariat's log; its busiest interval counts
    #[arg(long, value_name = "DAY", value_hint = ValueHint::AnyPath, conflicts_with = "rate")]
    from_metrics: Option<PathBuf>,
    /// Show predictions of the records' own measurements beside them, and each error
    #[arg(long)]
    validate: bool,
    #[command(flatten)]
    output: AnswerOutput,
}

/// All that records say.
pub(super) struct RecordEvidence {
    pub(super) observations: Vec<Observation>,
    pub(super) speeds: HostSpeeds,
    pub(super) host: HostSize,
    records: Vec<String>,
    pub(super) warnings: Vec<RunWarning>,
    /// Whether some record could not be read.
    is_partial: bool,
}

pub(super) fn run(arguments: PlanArguments, console: Console) -> LabResult<Exit> {
    let question = arguments.question.with_file(arguments.file.as_deref())?;
    check_page(arguments.output.output.as_deref(), &question.record)?;
    let day = arguments.from_metrics.as_deref().map(farm_metrics::read).transpose()?;
    let question = day.iter().fold(question, |question, day| day.asked(question));
    let mut evidence = evidence(&question, console)?;
    if let Some(cpu_us) = day.as_ref().and_then(|day| day.cpu_us) {
        evidence.records.push(format!(
            "the metrics' busiest interval: {cpu_us:.0} µs of CPU time for each handshake, with all \
             that its connection did"
        ));
    }
    let success = if evidence.is_partial { Exit::Partial } else { Exit::Success };
    if arguments.validate {
        let rows = validate(&evidence.observations, &evidence.speeds);
        if rows.is_empty() {
            evidence.warnings.iter().for_each(|one| console.warn(&one.seen));
            return Err(LabFault::new(
                "the records have nothing that can be predicted",
                "part-load, implementations with terminate, overload and scale-out have",
            ));
        }
        let document = report::planned::validation(&rows, &evidence.warnings);
        return give(&arguments.output, &document, || to_json(&rows) + "\n", console)
            .map(|()| success);
    }
    let warnings = evidence.warnings.clone();
    // They may be the reason why there is no answer.
    let tell = |_: &LabFault| warnings.iter().for_each(|one| console.warn(&one.seen));
    let plan = answer(&question, evidence).inspect_err(tell)?;
    let is_met = plan.targets.first().is_some_and(|first| first.hosts.is_some());
    let exit = if is_met { success } else { Exit::Unmet };
    let document = report::planned::document(&plan);
    give(&arguments.output, &document, || to_json(&plan) + "\n", console).map(|()| exit)
}

fn answer(question: &FarmQuestion, evidence: RecordEvidence) -> LabResult<FarmPlan> {
    let forecast = question.meant(evidence.host)?;
    let mut targets = Vec::new();
    for (place, target) in question.targets().iter().enumerate() {
        match hosts::plan(target, &evidence.observations, &evidence.speeds, &forecast) {
            Ok(mut plan) => {
                let hosts = plan.hosts.map(|hosts| hosts.value);
                plan.resources.extend(question.money(&forecast, hosts)?);
                targets.push(plan);
            }
            Err(fault) if place == 0 => return Err(refused(&fault)),
            Err(fault) => targets.push(TargetPlan {
                target: target.clone(),
                binds: fault.to_string(),
                ..TargetPlan::default()
            }),
        }
    }
    Ok(FarmPlan {
        tool: tool("lariat-lab plan"),
        command: command(),
        asked: asked(&forecast),
        records: evidence.records,
        targets,
        warnings: evidence.warnings,
    })
}

pub(super) fn refused(fault: &PlanFault) -> LabFault {
    LabFault::new(tame(&fault.to_string()), fault.hint())
}

pub(super) fn tool(name: &str) -> Tool {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Tool { name: name.to_owned(), version, tls: String::new() }
}

/// The command line that repeats this.
pub(super) fn command() -> Vec<String> {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once("lariat-lab".to_owned()).chain(words).collect()
}

/// Reads the records and hosts that the question names.
pub(super) fn evidence(question: &FarmQuestion, console: Console) -> LabResult<RecordEvidence> {
    if question.record.is_empty() {
        return Err(LabFault::new(
            "no record is named: a plan is made of measurements",
            "`lariat-lab run terminate part-load idle --record run.jsonl` makes one; then: --record \
             run.jsonl",
        ));
    }
    let records = open_all(&question.record, console);
    let is_partial = records.len() < question.record.len();
    let Records::Experiments(named) = records else {
        if records.len() == 0 {
            return Err(LabFault::reported(Exit::Usage));
        }
        return Err(LabFault::new(
            "a record of one load does not say what its server used",
            "name records of `lariat-lab run`, which watches the server",
        ));
    };
    let own = question.speeds.as_deref().map(host).transpose()?;
    let mut speeds = own.map_or_else(Vec::new, |host| host.speeds);
    let mut warnings = Vec::new();
    let mut observations = Vec::new();
    for (name, experiment) in &named {
        speeds.extend(experiment.plan.host.speeds.iter().cloned());
        let observed = observe(name, experiment);
        observations.extend(observed.observations);
        let hint = "docs/planning.md lists the scenarios that a plan is made of";
        warnings.extend(observed.remarks.into_iter().map(|seen| warning(tame(&seen), hint)));
    }
    warnings.extend(differences(&named));
    let there = question.host.as_deref().map(host).transpose()?;
    let speeds = HostSpeeds::of(speeds, there.as_ref());
    if let (Some(_), Some((_, apart))) = (&there, speeds.scale("aws-lc")) {
        warnings.push(warning(
            format!(
                "the other host's operations lie up to {:.0} % apart from their mean: what is not \
                 a signature or a key exchange may be off by as much",
                apart * 100.0
            ),
            "measure there: `lariat-lab run terminate part-load`",
        ));
    }
    let facts = there.as_ref().map_or(&named[0].1.plan.host.host, |there| &there.host);
    let host = HostSize { cores: facts.cpus.max(1), memory_bytes: facts.memory_bytes };
    let records = named.iter().map(|(name, one)| described(name, one)).collect();
    Ok(RecordEvidence { observations, speeds, host, records, warnings, is_partial })
}

fn warning(seen: String, hint: &str) -> RunWarning {
    RunWarning { seen, hint: hint.to_owned() }
}

fn described(name: &str, experiment: &Experiment) -> String {
    let plan = &experiment.plan;
    let scenarios: Vec<&str> = plan.scenarios.iter().map(|one| one.name.as_str()).collect();
    let unfinished = match &experiment.ended {
        Some(ended) if ended.is_complete => "",
        _ => ", not complete",
    };
    tame(&format!(
        "{name}: {} of {}, {}, {}, {} CPUs{unfinished}",
        scenarios.join(", "),
        plan.started,
        plan.tool.version,
        plan.host.host.cpu,
        plan.host.host.cpus
    ))
}

/// Records of two hosts or versions do not make one plan without a word.
fn differences(named: &[(String, Experiment)]) -> Vec<RunWarning> {
    let (first_name, first) = &named[0];
    let mut all = Vec::new();
    for (name, other) in &named[1..] {
        let (a, b) = (&first.plan, &other.plan);
        if a.host.host.cpu != b.host.host.cpu || a.host.host.cpus != b.host.host.cpus {
            all.push(warning(
                tame(&format!("{first_name} and {name} are of different hosts")),
                "costs of both are used as if they were of one: plan with one at a time",
            ));
        }
        for target in &a.targets {
            let mut theirs = b.targets.iter().filter(|it| it.name == target.name);
            if theirs.any(|it| it.version != target.version) {
                let of = &target.name;
                let seen = format!("{first_name} and {name} have different versions of {of}");
                all.push(warning(tame(&seen), "leave out the older record"));
            }
        }
    }
    all
}

/// A host as `lariat-lab host --json` printed it.
fn host(path: &Path) -> LabResult<HostReport> {
    let foreign = |why: String| {
        LabFault::new(
            format!("cannot read `{}` as a host: {}", shown(path), tame(&why)),
            "`lariat-lab host --speeds full --json > host.json` makes such a file",
        )
    };
    let text = read_text(path).map_err(|error| foreign(error.to_string()))?;
    let report = figures::check(text.as_bytes()).and_then(|()| serde_json::from_str(&text));
    let report: HostReport = report.map_err(|error| foreign(error.to_string()))?;
    if report.speeds.is_empty() {
        return Err(foreign("no speed is in it".to_owned()));
    }
    if let Some(row) = report.speeds.iter().find(|row| row.per_s < PER_S_MIN) {
        let why =
            format!("{} of {} {} per second is no speed", row.per_s, row.operation, row.algorithm);
        return Err(foreign(why));
    }
    Ok(report)
}
