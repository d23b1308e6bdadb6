//! `lariat-lab compare`: two records, of two platforms, versions or settings.
//!
//! The crate `report` compares and draws; here are the arguments.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use measure::experiment::Experiment;
use report::ReportDocument;

use super::report::{Sinks, write_all};
use crate::console::Console;
use crate::exit::Exit;
use crate::fault::{LabFault, LabResult};
use crate::pages::{Records, check_page, listed, open_all};

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

/// Makes what was asked for.
pub(super) fn run(arguments: CompareArguments, console: Console) -> LabResult<Exit> {
    check_records(&arguments)?;
    let records = open_all(&arguments.records, console);
    if records.len() < 2 {
        return Err(LabFault::reported(Exit::Usage));
    }
    let sinks = Sinks { output: arguments.output, svg: arguments.svg, csv: None };
    // Of the figures of loads, the one that compares them.
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
    use super::*;
    use crate::commands::values::parsed;

    #[test]
    fn two_are_compared_and_no_more() {
        let fault = |line| check_records(&parsed(line)).unwrap_err().to_string();
        assert!(fault("a.json").contains("only one record is named"));
        assert!(fault("a b c").contains("lariat-lab report RECORD…"));
        assert!(fault("a b -o c.txt").contains("ends in .html"));
    }
}
