//! Runs `lariat-lab report` and `lariat-lab compare`: reads records of one or of two platforms,
//! versions or settings, and writes tables, figures and pages.
//!
//! The crate `report` compares and draws records; this file has the arguments.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, ValueHint};
use load::options::value::OrNone;
use measure::experiment::Experiment;
use measure::merge::merged;
use measure::record::to_json;
use report::ReportDocument;
use report::experiment::CardSubject;

use crate::console::{Console, WIDTH, print, stdout_colour};
use crate::fault::{Exit, LabFault, LabResult};
use crate::load::destination::{Destination, RecordDate};
use crate::pages::{
    Records, check_card, check_page, listed, open_all, tame, write_files, write_page,
};

/// Make tables, figures and a page from records of loads or experiments
///
/// Shows one record of a load as the load itself does, and compares several in the order in which
/// they are named. Of an experiment it says first what targets need or reach beside a reference,
/// then shows each scenario. Records that cannot be read are named, and the others are reported.
/// The standard input is written as -. A record may be compressed by gzip. docs/reference/record.md
/// and docs/reference/experiment.md describe records, and which numbers programs can read off a
/// page.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  Four kinds of handshake side by side:
    lariat-lab report full.json session-id.json ticket.json psk.json -o handshakes.html

  One load of three hosts:
    lariat-lab report a.json b.json c.json --merge sum.json

  All that a run of experiments found:
    lariat-lab report run.jsonl -o run.html

  The same beside another target:
    lariat-lab report run.jsonl --reference haproxy -o run.html

  One finding to show around:
    lariat-lab report run.jsonl --card card.svg --context 'TLS 1.3, P-256, PSK'")]
pub(super) struct ReportArguments {
    /// Records, in the order in which they are shown
    #[arg(value_name = "RECORD", value_hint = ValueHint::AnyPath)]
    records: Vec<PathBuf>,
    #[command(flatten)]
    sinks: ReportOutputs,
    /// Make one record of loads that several hosts began together (`lariat-lab load --start-at`),
    /// write it there, and report it alone
    #[arg(long, value_name = "SUM.json", value_hint = ValueHint::AnyPath)]
    merge: Option<PathBuf>,
    /// Target of an experiment that the others are compared with, and that a card is about
    /// [default: the first one of the record]
    #[arg(long, value_name = "TARGET")]
    reference: Option<String>,
    /// Write one claim of an experiment as a picture of 1200 by 630 pixels: how much better the
    /// reference is than all others, on which host, and the command that repeats it. What the
    /// record does not bear is refused
    #[arg(long, value_name = "CARD.svg", value_hint = ValueHint::AnyPath)]
    card: Option<PathBuf>,
    /// Scenario that the card is about, if the record has several
    #[arg(long, value_name = "NAME", requires = "card")]
    scenario: Option<String>,
    /// Configuration that it is about, as the column `context` of the tables names it
    #[arg(long, value_name = "WORDS", requires = "card")]
    context: Option<String>,
}

/// Destinations of a report; the standard output if none is given.
#[derive(Args, Debug, Default)]
struct ReportOutputs {
    /// Write one page that needs no network, instead of tables to the standard output
    #[arg(short, long, value_name = "PAGE.html", value_hint = ValueHint::AnyPath)]
    pub(super) output: Option<PathBuf>,
    /// Write each figure as an SVG file: of loads named after their record, of one experiment after
    /// scenario and figure, as in implementations-server-cpu.svg
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) svg: Option<PathBuf>,
    /// Write the data as CSV files, named after their record: of loads seconds, latencies and
    /// steps; of experiments configurations and measurements
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    csv: Option<PathBuf>,
}

/// Makes the requested report.
pub(super) fn run(arguments: ReportArguments, console: Console) -> LabResult<Exit> {
    check(&arguments)?;
    let paths = &arguments.records;
    let mut records = of_one_kind(open_all(paths, console))?;
    if records.len() == 0 {
        return Err(LabFault::reported(Exit::Usage));
    }
    if let Some(path) = &arguments.merge {
        records = merge(&records, paths.len(), path)?;
    }
    check_reference(&records, arguments.reference.as_deref())?;
    if let Some(path) = &arguments.card {
        write_page(path, &card(&records, &arguments)?, console)?;
        return Ok(Exit::Success);
    }
    let report = match &records {
        Records::Loads(named) => report::load::document(&listed(named)),
        Records::Experiments(named) => {
            report::experiment::document(&listed(named), arguments.reference.as_deref())
        }
        Records::Mixed(..) => ReportDocument::default(),
    };
    write_all(&arguments.sinks, &report, "", console)?;
    let is_whole = records.len() == paths.len() || arguments.merge.is_some();
    Ok(if is_whole { Exit::Success } else { Exit::Partial })
}

/// Draws one claim as a picture, or returns why there is none.
fn card(records: &Records, arguments: &ReportArguments) -> LabResult<String> {
    let experiment = match records {
        Records::Experiments(named) if named.len() == 1 => &named[0].1,
        _ => {
            let hint = "`lariat-lab run` writes such a record";
            return Err(LabFault::new("--card is of one experiment", hint));
        }
    };
    let subject = CardSubject {
        reference: arguments.reference.as_deref(),
        scenario: arguments.scenario.as_deref(),
        context: arguments.context.as_deref(),
    };
    // Names in a refusal come from the record.
    report::experiment::card(experiment, subject).map_err(|refusal| {
        let [seen, hint] = [refusal.seen, refusal.hint].map(|text| tame(&text));
        LabFault::new(format_args!("no card: {seen}"), hint)
    })
}

/// Refuses a reference that no record contains.
fn check_reference(records: &Records, reference: Option<&str>) -> LabResult<()> {
    let Some(reference) = reference else {
        return Ok(());
    };
    let Records::Experiments(named) = records else {
        let hint = "leave it out: loads are shown side by side";
        return Err(LabFault::new("--reference is of experiments", hint));
    };
    let targets = named.iter().flat_map(|(_, experiment)| &experiment.plan.targets);
    let targets: BTreeSet<&str> = targets.map(|target| target.name.as_str()).collect();
    if targets.contains(reference) {
        return Ok(());
    }
    let names: Vec<String> = targets.into_iter().map(tame).collect();
    Err(LabFault::new(
        format_args!("no record has a target `{}`", tame(reference)),
        format_args!("they have: {}", names.join(", ")),
    ))
}

/// Merges all records into one and writes it.
fn merge(records: &Records, count: usize, path: &Path) -> LabResult<Records> {
    let Records::Loads(named) = records else {
        return Err(LabFault::new(
            "--merge is of loads, and these records are of experiments",
            "leave it out: experiments are reported side by side",
        ));
    };
    if named.len() < count {
        return Err(LabFault::reported(Exit::Partial));
    }
    let parts: Vec<_> = named.iter().map(|(_, record)| record).collect();
    let sum = merged(&parts).map_err(|fault| {
        let hint = "begin the same load on all hosts with --start-at, and name all their records";
        // The fault may repeat words of the records.
        let fault = tame(&fault.to_string());
        LabFault::new(format_args!("these records are not of one load: {fault}"), hint)
    })?;
    let target = OrNone::This(path.to_owned());
    let place = Destination::open("merge", Some(&target), RecordDate::of(SystemTime::now()));
    place
        .and_then(|place| place.write(&to_json(&sum)))
        .map_err(|fault| fault.with(Exit::Failed))?;
    Ok(Records::Loads(vec![("sum".to_owned(), sum)]))
}

/// Refuses contradicting arguments before anything is read.
fn check(arguments: &ReportArguments) -> LabResult<()> {
    let records = &arguments.records;
    if records.is_empty() {
        return Err(LabFault::new(
            "no record is named",
            "`lariat-lab load` and `lariat-lab run` write one each; then: lariat-lab report RECORD",
        ));
    }
    check_page(arguments.sinks.output.as_deref(), records)?;
    check_card(arguments.card.as_deref(), records)
}

/// Refuses a mix of the two kinds of records.
fn of_one_kind(records: Records) -> LabResult<Records> {
    match records {
        Records::Mixed(loads, experiments) => Err(LabFault::new(
            format!("{loads} of these records are of loads and {experiments} of experiments"),
            "report each kind by itself: they have no metric in common",
        )),
        records => Ok(records),
    }
}

/// Writes or prints a report; only figures whose names begin with the prefix are written.
fn write_all(
    sinks: &ReportOutputs,
    report: &ReportDocument,
    figures: &str,
    console: Console,
) -> LabResult<()> {
    if let Some(directory) = &sinks.svg {
        let mut all = report.figures();
        all.retain(|(name, _)| name.starts_with(figures));
        write_files(directory, "svg", &all, console)?;
    }
    if let Some(directory) = &sinks.csv {
        write_files(directory, "csv", &report.sheets(), console)?;
    }
    if let Some(path) = &sinks.output {
        write_page(path, &report.html(), console)?;
    }
    if let (None, None, None) = (&sinks.output, &sinks.svg, &sinks.csv) {
        print(report.text(WIDTH, stdout_colour()))?;
    }
    Ok(())
}

/// Compare what changed from one record to another
///
/// Two records of experiments, of two platforms, versions or settings: in what they differ, and
/// each configuration that was measured in both, with the change from A to B and its 95 %
/// interval. Two records of loads are shown side by side.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  What does the hypervisor take?
    lariat-lab run object-sizes --record metal.jsonl     # and on the other host: virtual.jsonl
    lariat-lab compare metal.jsonl virtual.jsonl -o loss.html")]
pub(super) struct CompareArguments {
    /// Two records, the one before and the one after
    #[arg(value_name = "RECORD", value_hint = ValueHint::AnyPath)]
    records: Vec<PathBuf>,
    /// Write one page that needs no network, instead of tables to the standard output
    #[arg(short, long, value_name = "PAGE.html", value_hint = ValueHint::AnyPath)]
    output: Option<PathBuf>,
    /// Write the figures as SVG files: the loss of B against A, in percent, a file a scenario
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    svg: Option<PathBuf>,
}

/// Makes the requested comparison.
pub(super) fn compare(arguments: CompareArguments, console: Console) -> LabResult<Exit> {
    check_records(&arguments)?;
    let records = open_all(&arguments.records, console);
    if records.len() < 2 {
        return Err(LabFault::reported(Exit::Usage));
    }
    let sinks = ReportOutputs { output: arguments.output, svg: arguments.svg, csv: None };
    // For loads, only the figure that compares them is written.
    write_all(&sinks, &compared(&records)?, "compar", console)?;
    Ok(Exit::Success)
}

fn check_records(arguments: &CompareArguments) -> LabResult<()> {
    let records = &arguments.records;
    let message = match records.len() {
        0 => "no record is named".to_owned(),
        1 => "only one record is named".to_owned(),
        2 => return check_page(arguments.output.as_deref(), records),
        many => format!("{many} records are named"),
    };
    Err(LabFault::new(
        message,
        "name two: what was, and what it is compared with; more of them side by side: \
         lariat-lab report RECORD…",
    ))
}

fn compared(records: &Records) -> LabResult<ReportDocument> {
    match records {
        Records::Loads(named) => Ok(report::load::document(&listed(named))),
        Records::Experiments(named) => experiments(&listed(named)),
        Records::Mixed(..) => Err(LabFault::new(
            "one record is of a load, the other of an experiment",
            "compare two of a kind: they have no metric in common",
        )),
    }
}

fn experiments(records: &[(&str, &Experiment)]) -> LabResult<ReportDocument> {
    let (a, b) = (records[0], records[1]);
    if report::experiment::configurations_in_common(a.1, b.1) == 0 {
        return Err(LabFault::new(
            "the two experiments have no configuration in common that was measured in both",
            "run the same scenarios with the same targets: the first line of a record has its \
             `command`",
        ));
    }
    Ok(report::experiment::compared(a, b))
}

#[cfg(test)]
mod tests {
    use measure::experiment::{Experiment, ExperimentPlan, TargetDescription};
    use measure::record::LoadRecord;

    use super::*;
    use crate::commands::values::parsed;

    #[test]
    fn records_do_not_speak_to_the_terminal() {
        let started = |text: &str| LoadRecord { started: text.to_owned(), ..LoadRecord::default() };
        let named = ["\u{1b}[2J", "later"].map(|text| (String::new(), started(text)));
        let merged = merge(&Records::Loads(named.into()), 2, Path::new("sum.json"));
        let said = merged.unwrap_err().to_string();
        assert!(said.contains("later") && !said.contains('\u{1b}'), "{said}");
    }

    #[test]
    fn a_reference_is_a_target_of_the_record() {
        let hitch = TargetDescription { name: "hitch".to_owned(), ..TargetDescription::default() };
        let plan = ExperimentPlan { targets: vec![hitch], ..ExperimentPlan::default() };
        let experiment = Experiment {
            plan,
            measurements: Vec::new(),
            failures: Vec::new(),
            ended: None,
            duplicates: 0,
            cut_line: None,
        };
        let records = Records::Experiments(vec![(String::new(), experiment)]);
        check_reference(&records, Some("hitch")).unwrap();
        let said = check_reference(&records, Some("nginx\u{1b}")).unwrap_err().to_string();
        assert!(
            said.contains("no record has a target") && said.contains("they have: hitch"),
            "{said}"
        );
        assert!(!said.contains('\u{1b}'));
        assert!(check_reference(&Records::Loads(Vec::new()), Some("hitch")).is_err());
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let fault = |line| check(&parsed(line)).unwrap_err().to_string();
        assert!(fault("").contains("no record is named"));
        assert!(fault("a.json -o b.json").contains("ends in .html"));
        let arguments: ReportArguments = parsed("a.json -o p.html b.json --csv=data");
        check(&arguments).unwrap();
        assert_eq!(arguments.records, ["a.json", "b.json"].map(PathBuf::from));
    }

    #[test]
    fn two_are_compared_and_no_more() {
        let fault = |line| check_records(&parsed(line)).unwrap_err().to_string();
        assert!(fault("a.json").contains("only one record is named"));
        assert!(fault("a b c").contains("lariat-lab report RECORD…"));
        assert!(fault("a b -o c.txt").contains("ends in .html"));
    }
}
