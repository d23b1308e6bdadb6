//! `lariat-lab plan`: its arguments, the records that it reads, and where the answer goes; and a
//! host's own day as its question: ranges of Lariat's metrics, as Prometheus answers
//! `/api/v1/query_range`, or Lariat's log of connections.
//!
//! Counters of all services and hosts are summed; the busiest interval is the day that is planned
//! for. A counter that fell began anew. Of a log, intervals are the minutes of the clock. How hosts
//! are reckoned is the crate `plan`'s, how the answer looks `report`'s.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use measure::experiment::Experiment;
use measure::planned::{FarmPlan, TargetPlan};
use measure::quantity;
use measure::record::{HostReport, RecordingTool, RunWarning, to_json};
use plan::cost::{HostSpeeds, PER_S_MIN};
use plan::observation::{Observation, observe};
use plan::validation::validate;
use plan::{PlanFault, hosts};
use serde_json::Value;

use super::farm_question::{FarmQuestion, HostSize, WrittenValue, asked};
use super::values::{AnswerOutput, give};
use crate::console::Console;
use crate::fault::{Exit, LabFault, LabResult};
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
    let day = arguments.from_metrics.as_deref().map(read).transpose()?;
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

pub(super) fn tool(name: &str) -> RecordingTool {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    RecordingTool { name: name.to_owned(), version, tls: String::new() }
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
    let report = quantity::check(text.as_bytes()).and_then(|()| serde_json::from_str(&text));
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

/// Handshakes by kind and version.
const HANDSHAKES: &str = "lariat_handshakes_total";

/// CPU time of the worker process.
const CPU: &str = "process_cpu_seconds_total";

/// The busiest interval of a range.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BusiestInterval {
    handshakes_per_s: f64,
    pub(super) resumed_share: f64,
    tls13_share: f64,
    /// CPU time for a handshake with all that its connection did, where that was in the file.
    cpu_us: Option<f64>,
}

/// Sums of an interval.
#[derive(Clone, Copy, Debug, Default)]
struct IntervalSums {
    all: f64,
    resumed: f64,
    tls13: f64,
    cpu_s: f64,
}

impl IntervalSums {
    fn add(&mut self, count: f64, kind: &str, version: &str) {
        self.all += count;
        self.resumed += if kind == "full" { 0.0 } else { count };
        self.tls13 += if version == "TLSv1.3" { count } else { 0.0 };
    }

    /// The busiest of intervals of that length.
    fn busiest(
        sums: impl IntoIterator<Item = Self>,
        length_s: f64,
    ) -> Result<BusiestInterval, &'static str> {
        let most = sums.into_iter().max_by(|a, b| a.all.total_cmp(&b.all));
        let Self { all, resumed, tls13, cpu_s } =
            most.filter(|most| most.all > 0.0).ok_or("no handshake is in it")?;
        Ok(BusiestInterval {
            handshakes_per_s: all / length_s,
            resumed_share: resumed / all,
            tls13_share: tls13 / all,
            cpu_us: (cpu_s > 0.0).then_some(cpu_s / all * 1e6),
        })
    }
}

/// # Errors
/// [`LabFault`] for a file that is no answer of Prometheus, or has no handshake in it.
pub(super) fn read(path: &Path) -> LabResult<BusiestInterval> {
    let file = File::open(path).map_err(|error| foreign(path, &error.to_string()))?;
    // A log may be as large as a day was busy.
    let answer = read_text(path).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let answer = answer.filter(|answer| answer.get("time").is_none());
    let busiest =
        answer.map_or_else(|| busiest_of_log(BufReader::new(file)), |answer| busiest(&answer));
    busiest.map_err(|why| foreign(path, why))
}

fn foreign(path: &Path, why: &str) -> LabFault {
    LabFault::new(
        format!("cannot read `{}` as metrics or a log: {}", shown(path), tame(why)),
        "give Lariat's log of connections as text or JSON, or what this prints: curl 'http://prometheus:9090/api/v1/query_range' --data-urlencode \
         'query={__name__=~\"lariat_handshakes_total|process_cpu_seconds_total\",job=\"lariat\"}' \
         -d start=… -d end=… -d step=60 > day.json",
    )
}

fn busiest(answer: &Value) -> Result<BusiestInterval, &'static str> {
    let series = answer["data"]["result"].as_array().ok_or("it has no data.result")?;
    // By the instant at which an interval ends, in seconds.
    let mut sums = BTreeMap::<u64, IntervalSums>::new();
    let mut step_s = 1;
    for one in series {
        let label = |name: &str| one["metric"][name].as_str().unwrap_or_default();
        let values = one["values"].as_array().ok_or("it is no range: ask for query_range")?;
        let increases = increases(values).ok_or("a value is no count, or has no time")?;
        for (at, length_s, more) in increases {
            let sums = sums.entry(at).or_default();
            match label("__name__") {
                HANDSHAKES => {
                    step_s = step_s.max(length_s);
                    sums.add(more, label("kind"), label("version"));
                }
                CPU => sums.cpu_s += more,
                _ => {}
            }
        }
    }
    IntervalSums::busiest(sums.into_values(), step_s as f64)
}
const NOT_A_LOG: &str = "it is neither an answer of Prometheus nor a log of connections";

/// Length of `2026-11-28T14:16`, the minute of a time in RFC 3339.
const MINUTE_LENGTH: usize = 16;

/// A line of the log is shorter.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A file without one entry in so many lines is something else.
const LINES_WITHOUT_MAX: usize = 1000;

/// Lines that are no entries, such as Lariat's messages in the same file, are passed over.
fn busiest_of_log(mut text: impl BufRead) -> Result<BusiestInterval, &'static str> {
    let mut minutes = BTreeMap::<String, IntervalSums>::new();
    let (mut line, mut entries, mut others) = (Vec::new(), 0, 0);
    loop {
        line.clear();
        let read = text.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(|_| "it cannot be read to its end")? == 0 {
            break;
        }
        let fields = str::from_utf8(&line).ok().and_then(|line| log_fields(line.trim_end()));
        let Some(fields) = fields else {
            others += 1;
            if entries == 0 && others > LINES_WITHOUT_MAX {
                return Err(NOT_A_LOG);
            }
            continue;
        };
        entries += 1;
        let field = |name: &str| fields.get(name).map_or("-", String::as_str);
        let minute = field("time").get(..MINUTE_LENGTH).ok_or(NOT_A_LOG)?;
        let kind = field("handshake");
        // A line of a connection that ended before it had one, or of a message.
        if kind == "-" {
            continue;
        }
        // A line may stand for several that were not written.
        let count = field("sampled").parse::<u32>().map_or(1.0, f64::from);
        minutes.entry(minute.to_owned()).or_default().add(count, kind, field("version"));
    }
    if entries == 0 {
        return Err(NOT_A_LOG);
    }
    IntervalSums::busiest(minutes.into_values(), 60.0)
}

/// The fields of a line of the log, in either of its forms; `None` = it is none.
fn log_fields(line: &str) -> Option<BTreeMap<String, String>> {
    if line.starts_with('{') {
        let Value::Object(fields) = serde_json::from_str(line).ok()? else {
            return None;
        };
        let texts = fields.into_iter().filter_map(|(name, value)| match value {
            Value::Null => None,
            Value::String(text) => Some((name, text)),
            other => Some((name, other.to_string())),
        });
        return Some(texts.collect());
    }
    let (mut is_quoted, mut is_escaped) = (false, false);
    let words = line.split(|c: char| {
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        c == ' ' && !is_quoted
    });
    let pair = |word: &str| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    };
    let fields: BTreeMap<_, _> = words.filter_map(pair).collect();
    fields.contains_key("time").then_some(fields)
}

/// No counter is larger: above, an increase of one is lost.
const COUNT_MAX: f64 = 9e15;

/// The end and length of each interval, in seconds, and how much the counter rose.
fn increases(values: &[Value]) -> Option<Vec<(u64, u64, f64)>> {
    let read = |pair: &Value| {
        let value: f64 = pair[1].as_str()?.parse().ok()?;
        let is_plausible = (0.0..=COUNT_MAX).contains(&value);
        Some((pair[0].as_f64()?, value)).filter(|_| is_plausible)
    };
    let points: Vec<(f64, f64)> = values.iter().map(read).collect::<Option<_>>()?;
    let rose = |pair: &[(f64, f64)]| {
        let ((from, before), (to, after)) = (pair[0], pair[1]);
        let more = if after >= before { after - before } else { after };
        (to as u64, (to - from).round() as u64, more)
    };
    Some(points.windows(2).map(rose).collect())
}

impl BusiestInterval {
    /// The question with what the day says, where it does not say otherwise itself.
    pub(super) fn asked(&self, question: FarmQuestion) -> FarmQuestion {
        let value = |number: f64| Some(WrittenValue(number.to_string()));
        let each = question.requests_per_connection.as_ref();
        let each = each.and_then(|text| text.0.parse::<f64>().ok()).unwrap_or(1.0);
        let tls = if self.tls13_share >= 0.5 { "1.3" } else { "1.2" };
        FarmQuestion {
            rate: question.rate.or_else(|| value(self.handshakes_per_s * each)),
            resumed: question.resumed.or_else(|| value(self.resumed_share)),
            tls: question.tls.or_else(|| Some(WrittenValue(tls.to_owned()))),
            ..question
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, kind: &str, values: &str) -> String {
        format!(
            r#"{{"metric":{{"__name__":"{name}","kind":"{kind}","version":"TLSv1.3"}},
                "values":[{values}]}}"#
        )
    }

    fn of(series: &[String]) -> Result<BusiestInterval, &'static str> {
        let text = format!(r#"{{"data":{{"result":[{}]}}}}"#, series.join(","));
        busiest(&serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn the_busiest_interval_counts_and_a_restart_is_no_loss() {
        let found = of(&[
            series(HANDSHAKES, "full", r#"[60,"0"],[120,"600"],[180,"300"]"#),
            series(HANDSHAKES, "psk", r#"[60,"0"],[120,"1800"],[180,"1900"]"#),
            series(CPU, "", r#"[60,"5"],[120,"5.48"],[180,"6"]"#),
        ])
        .unwrap();
        assert_eq!((found.handshakes_per_s, found.resumed_share), (40.0, 0.75));
        assert_eq!(found.tls13_share, 1.0);
        assert!((found.cpu_us.unwrap() - 200.0).abs() < 1e-6);
    }

    #[test]
    fn a_log_in_either_form_says_the_same() {
        let line = |minute: u32, kind: &str, more: &str| {
            format!(
                "time=2026-11-28T10:{minute:02}:07.5Z id=1 sni=\"a handshake=x\" version=TLSv1.3 \
                 handshake={kind} {more} reason=client-closed"
            )
        };
        let text = [
            "2026-11-28T10:01:00Z lariat: notice: service `web` listens".to_owned(),
            line(1, "full", ""),
            line(2, "full", "sampled=30"),
            line(2, "psk", "sampled=90"),
            line(2, "-", "sampled=500"),
        ];
        let wanted = BusiestInterval {
            handshakes_per_s: 2.0,
            resumed_share: 0.75,
            tls13_share: 1.0,
            cpu_us: None,
        };
        assert_eq!(busiest_of_log(text.join("\n").as_bytes()), Ok(wanted.clone()));
        let json = |kind: &str, sampled: u32| {
            format!(
                r#"{{"time":"2026-11-28T10:02:07Z","version":"TLSv1.3","handshake":{kind},"sampled":{sampled}}}"#
            )
        };
        let text = [json(r#""full""#, 30), json(r#""psk""#, 90), json("null", 500)].join("\n");
        assert_eq!(busiest_of_log(text.as_bytes()), Ok(wanted));
        assert_eq!(busiest_of_log("handshake=full".as_bytes()), Err(NOT_A_LOG));
        assert_eq!(busiest_of_log("Nov 28 nginx: started".as_bytes()), Err(NOT_A_LOG));
        assert_eq!(busiest_of_log(line(1, "-", "").as_bytes()), Err("no handshake is in it"));
    }

    #[test]
    fn other_files_say_what_they_lack() {
        assert_eq!(of(&[]), Err("no handshake is in it"));
        let no_count = of(&[series(HANDSHAKES, "full", r#"[60,"x"]"#)]);
        assert_eq!(no_count, Err("a value is no count, or has no time"));
        assert!(busiest(&Value::Null).is_err());
    }
}
