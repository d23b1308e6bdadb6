//! Runs `lariat-lab simulate`: a farm in virtual time, with a script of failures.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use measure::planned::SimulatedRemedy;
use measure::record::{LoadRecord, RecordedTarget, to_json};
use plan::cost::TargetCosts;
use plan::farm::{Farm, FarmSettings, NODES_MAX, RetryPolicy};
use plan::hosts::FarmModel;
use plan::script::ScriptLine;
use plan::traffic::{Sharing, TrafficForecast};

use super::farm_question::{FarmQuestion, WrittenValue, number, share, time, whole};
use super::plan::{RecordEvidence, command, evidence, refused, tool};
use super::values::{AnswerOutput, give};
use crate::console::Console;
use crate::fault::{Exit, LabResult, unknown};
use crate::interrupt::{Cancel, Interrupt};
use crate::pages::{check_page, write_files};

/// Simulate a farm second by second, and what failures do to it
///
/// Clients with sessions, a balancer, nodes with queues and caches, and a script of failures: shows
/// whether a failure becomes a collapse that outlives it, and what prevents that. CPU times are
/// those of records, as for `plan`. Nothing is measured; the same seed gives the same bytes.
/// docs/planning.md explains what is modelled, and how far it agrees with measurements.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lariat-lab simulate --record run.jsonl --nodes 9 --rate 30000/s --clients 3e6 --share none \\
    --event '10m lose 1/3 for 5m' --duration 30m -o farm.html

  A day of a thousand nodes:
    lariat-lab simulate farm.toml --nodes 1000 --clients 1e8 --duration 1d --json > day.json

Events, each with its instant:
  10m lose 1 for 2m       nodes die (2, 30%, 1/3), and come back with an empty cache
  10m roll 30s            each node in turn is restarted, and away for that long
  10m store away for 1m   the session store does not answer
  10m partition for 1m    peers fall into two halves that do not hear each other
  10m forget 100%         so many clients' sessions are of no more use: keys were lost
  10m reload 20% for 2s   a reload takes that share of each node's CPU
  10m load 2x for 5m      clients come twice as often
  10m return 80% in 10s   so many clients come back at once")]
pub(super) struct SimulateArguments {
    /// TOML file with the keys of `lariat-lab plan`; flags stand above it
    #[arg(value_name = "FARM.toml", value_hint = ValueHint::AnyPath)]
    file: Option<PathBuf>,
    #[command(flatten)]
    question: FarmQuestion,
    /// Nodes of the farm
    #[arg(long, value_name = "N")]
    nodes: WrittenValue,
    /// Event of the script; may be given again
    #[arg(long, value_name = "TEXT")]
    event: Vec<String>,
    /// How long is simulated [default: 10m]
    #[arg(long, value_name = "T")]
    duration: Option<WrittenValue>,
    /// How long a client waits before it gives up [default: 10s]
    #[arg(long, value_name = "T")]
    patience: Option<WrittenValue>,
    /// How often a client tries again [default: 3]
    #[arg(long, value_name = "N")]
    retries: Option<WrittenValue>,
    /// Wait between tries: exponential or none (a second each) [default: exponential]
    #[arg(long, value_name = "HOW")]
    back_off: Option<String>,
    /// Order at a node that is overloaded: shed (refuse who waited too long, the latest first) or
    /// fifo (all in turn, those that are gone as well) [default: shed for lariat, else fifo]
    #[arg(long, value_name = "HOW")]
    queue: Option<String>,
    /// Balancer: affinity brings sessions to the node that made them, none to any
    /// [default: affinity]
    #[arg(long, value_name = "HOW")]
    balance: Option<String>,
    /// How long the balancer sends clients to a dead node [default: 2s]
    #[arg(long, value_name = "T")]
    detection: Option<WrittenValue>,
    /// Sessions that peers never get [default: 0%]
    #[arg(long, value_name = "SHARE")]
    mesh_loss: Option<WrittenValue>,
    /// Connections that wait at a node at most [default: 20000]
    #[arg(long, value_name = "N")]
    waiting_max: Option<WrittenValue>,
    /// Leave out the runs with one thing changed
    #[arg(long)]
    no_remedies: bool,
    #[command(flatten)]
    output: AnswerOutput,
    /// Write the figures as SVG files
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    svg: Option<PathBuf>,
}

/// Longest simulation, because its seconds are kept in memory.
const DURATION_MAX_S: f64 = 7.0 * 86_400.0;

/// Number of load points, from idle to full use, at which a worker's responses are simulated.
const WORK_STEPS: u32 = 20;

pub(super) fn run(arguments: SimulateArguments, console: Console) -> LabResult<Exit> {
    let mut arguments = arguments;
    let question = std::mem::take(&mut arguments.question).with_file(arguments.file.as_deref())?;
    check_page(arguments.output.output.as_deref(), &question.record)?;
    let script = script(&arguments.event)?;
    let evidence = evidence(&question, console)?;
    let forecast = question.meant(evidence.host)?;
    let target = question.targets().remove(0);
    let settings = settings(&arguments, &evidence, &forecast, &target)?;
    let interrupt = Interrupt::new(console, "Ending the simulation; what there is is kept.")?;
    let mut farm = farm(&settings, &script)?;
    let is_whole = go_on(&mut farm, &interrupt);
    let mut result = farm.run(record(&settings, &target, evidence), forecast.resumption());
    if is_whole && !arguments.no_remedies && result.verdict.seconds_failing > 0 {
        result.remedies = remedies(&settings, &script, &interrupt)?;
    }
    let exit = if is_whole { Exit::Success } else { Exit::Partial };
    let document = report::planned::simulated(&result);
    let AnswerOutput { json, output } = &arguments.output;
    if let Some(directory) = &arguments.svg {
        write_files(directory, "svg", &document.figures(), console)?;
        if output.is_none() && !json {
            return Ok(exit);
        }
    }
    give(&arguments.output, &document, || to_json(&result) + "\n", console).map(|()| exit)
}

fn script(lines: &[String]) -> LabResult<Vec<ScriptLine>> {
    lines.iter().map(|line| ScriptLine::parse(line).map_err(|fault| refused(&fault))).collect()
}

fn farm(settings: &FarmSettings, script: &[ScriptLine]) -> LabResult<Farm> {
    Farm::new(settings.clone(), script.to_vec()).map_err(|fault| refused(&fault))
}

/// Continues the simulation and reports whether it was completed.
fn go_on(farm: &mut Farm, interrupt: &Interrupt) -> bool {
    while !farm.is_over() {
        if interrupt.is_requested() {
            return false;
        }
        farm.step();
    }
    true
}

/// Simulates the script again with one thing changed, one remedy after the other.
fn remedies(
    settings: &FarmSettings,
    script: &[ScriptLine],
    interrupt: &Interrupt,
) -> LabResult<Vec<SimulatedRemedy>> {
    type FarmChange = fn(&mut FarmSettings);
    let changes: [(&str, bool, FarmChange); 7] = [
        ("nodes shed load", settings.sheds, |it| it.sheds = true),
        ("nodes serve all in turn", !settings.sheds, |it| it.sheds = false),
        ("clients back off", settings.retry.backs_off, |it| it.retry.backs_off = true),
        ("clients do not back off", !settings.retry.backs_off, |it| it.retry.backs_off = false),
        ("clients try once", settings.retry.most == 0, |it| {
            it.retry = RetryPolicy { most: 0, backs_off: true };
        }),
        ("sessions by tickets", settings.sharing == Sharing::Tickets, |it| {
            it.sharing = Sharing::Tickets;
        }),
        ("a fifth more nodes", false, |it| it.nodes += it.nodes.div_ceil(5)),
    ];
    let mut all = Vec::new();
    for (change, is_so_already, make) in changes {
        let mut changed = settings.clone();
        make(&mut changed);
        // The failure of a store is no event of a farm without one.
        let (false, Ok(mut farm)) = (is_so_already, Farm::new(changed, script.to_vec())) else {
            continue;
        };
        if !go_on(&mut farm, interrupt) {
            break;
        }
        all.push(SimulatedRemedy { change: change.to_owned(), verdict: farm.verdict() });
    }
    Ok(all)
}

fn settings(
    arguments: &SimulateArguments,
    evidence: &RecordEvidence,
    forecast: &TrafficForecast,
    target: &str,
) -> LabResult<FarmSettings> {
    let costs = TargetCosts::new(target, &evidence.observations, &evidence.speeds);
    let model = FarmModel::new(&costs, forecast).map_err(|fault| refused(&fault))?;
    let model = model.scaled_by(&evidence.observations, target);
    let (full_us, resumed_us) = model.connection_us();
    let nodes = number("nodes", &Some(arguments.nodes.clone()), 0.0, (1.0, f64::from(NODES_MAX)))?;
    let retries = number("retries", &arguments.retries, 3.0, (0.0, 6.0))?;
    let waiting = &arguments.waiting_max;
    let chosen = |name: &str, written: &Option<String>, usual: bool, words: [&str; 2]| match written
        .as_deref()
    {
        None => Ok(usual),
        Some(word) if word == words[0] => Ok(true),
        Some(word) if word == words[1] => Ok(false),
        Some(word) => Err(unknown(name, word, words)),
    };
    let steps = (0..=WORK_STEPS).map(|step| f64::from(step) / f64::from(WORK_STEPS));
    let quantiles = |work: f64| model.quantiles(work.clamp(0.02, 0.98), forecast.resumed_share);
    Ok(FarmSettings {
        nodes: whole("nodes", nodes)?,
        cores: model.effective_cores(),
        full_s: full_us / 1e6,
        resumed_s: resumed_us / 1e6,
        connections_per_s: forecast.connections_per_s(),
        clients: forecast.clients as u64,
        resumed_share: forecast.resumed_share,
        sharing: forecast.sharing,
        has_affinity: chosen("balance", &arguments.balance, true, ["affinity", "none"])?,
        patience_s: time("patience", &arguments.patience, 10.0, (0.1, 600.0))?,
        retry: RetryPolicy {
            most: whole("retries", retries)?,
            backs_off: chosen("back-off", &arguments.back_off, true, ["exponential", "none"])?,
        },
        sheds: chosen("queue", &arguments.queue, target.starts_with("lariat"), ["shed", "fifo"])?,
        detection_s: time("detection", &arguments.detection, 2.0, (0.0, 3600.0))?,
        lost_share: share("mesh-loss", &arguments.mesh_loss, 0.0)?,
        connections_max: number("waiting-max", waiting, 20_000.0, (1.0, 1e9))? as u64,
        duration_s: time("duration", &arguments.duration, 600.0, (1.0, DURATION_MAX_S))?.ceil()
            as u64,
        seed: forecast.seed,
        busy_by_work: model.busy_by_work(),
        quantiles_s: steps.map(quantiles).collect(),
    })
}

/// Builds the head of the record. It has no date, because the same question gives the same bytes.
fn record(settings: &FarmSettings, target: &str, evidence: RecordEvidence) -> LoadRecord {
    let url =
        format!("a farm of {} {target}, sessions by {}", settings.nodes, settings.sharing.name());
    LoadRecord {
        format: measure::record::FORMAT,
        tool: tool("lariat-lab simulate"),
        command: command(),
        target: RecordedTarget { url, address: "simulated".to_owned() },
        warnings: evidence.warnings,
        ..LoadRecord::default()
    }
}
