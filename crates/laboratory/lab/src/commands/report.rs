//! `lariat-lab report`: records from files, and where tables, figures and pages go.
//!
//! What they look like is the crate `report`'s; here are the arguments.

use std::path::PathBuf;

use measure::record::Record;
use report::experiment as experiments;

use super::flags::{Arguments, Command};
use crate::console::{Console, print, stdout_colour};
use crate::exit::Exit;
use crate::pages::{Texts, WriteFault, check_page, write_files, write_page};
use crate::records::{Named, Records, open_all};
use crate::usage::UsageError;

pub(super) const COMMAND: Command = Command {
    name: "report",
    takes_words: true,
    help: "\
lariat-lab report: tables, figures and a page from records of loads or experiments

  lariat-lab report RECORD… [-o PAGE.html] [--svg DIR] [--csv DIR]

Shows one record of a load as the load itself does, and compares several in the order in which they
are named. Of an experiment it says first where a target is ahead, then shows each scenario. Records
that cannot be read are named, and the others are reported. - is the standard input.

  -o, --output PAGE.html
      Write one page that needs no network, instead of tables to the standard output
  --svg DIR
      Write each figure as an SVG file: of loads named after their record, of one experiment after
      scenario and figure, as in implementations-server-cpu.svg
  --csv DIR
      Write the data as CSV files, named after their record: of loads seconds, latencies and steps;
      of experiments cells and readings

Examples:
  Four kinds of handshake side by side:
    lariat-lab report full.json session-id.json ticket.json psk.json -o handshakes.html

  All that a run of experiments found:
    lariat-lab report run.jsonl -o run.html

docs/reference/record.md and docs/reference/experiment.md describe records, and which numbers
programs can read off a page.
",
};

/// Characters in a line of tables.
const WIDTH: usize = 80;

/// Makes what was asked for.
pub(super) fn run(arguments: &Arguments, console: Console) -> Result<Exit, UsageError> {
    let paths = records_of(arguments)?;
    let records = of_one_kind(open_all(&paths, console))?;
    if records.len() == 0 {
        return Ok(Exit::Usage);
    }
    if let Err(fault) = write_all(arguments, &records, console) {
        console.error(fault);
        return Ok(Exit::Failed);
    }
    Ok(if records.len() == paths.len() {
        Exit::Success
    } else {
        Exit::Partial
    })
}

/// Refuses what cannot be meant, before anything is read.
fn records_of(arguments: &Arguments) -> Result<Vec<PathBuf>, UsageError> {
    let records: Vec<_> = arguments.words.iter().map(PathBuf::from).collect();
    if records.is_empty() {
        return Err(UsageError::new(
            "no record is named",
            "`lariat-lab load` and `lariat-lab run` write one each; then: lariat-lab report RECORD",
        ));
    }
    check_page(arguments.path("output").as_deref(), &records)?;
    Ok(records)
}

/// Refuses records of two kinds.
fn of_one_kind(records: Records) -> Result<Records, UsageError> {
    match records {
        Records::Mixed(loads, experiments) => Err(UsageError::new(
            format!("{loads} of these records are of loads and {experiments} of experiments"),
            "report each kind by itself: they have no figure in common",
        )),
        records => Ok(records),
    }
}

fn write_all(arguments: &Arguments, records: &Records, console: Console) -> Result<(), WriteFault> {
    if let Some(directory) = arguments.path("svg") {
        write_files(&directory, "svg", &figures(records), console)?;
    }
    if let Some(directory) = arguments.path("csv") {
        write_files(&directory, "csv", &sheets(records), console)?;
    }
    if let Some(path) = arguments.path("output") {
        write_page(&path, &page(records), console)?;
    }
    if arguments.names().next().is_none() {
        print(text(records));
    }
    Ok(())
}

fn text(records: &Records) -> String {
    let colour = stdout_colour();
    match records {
        Records::Loads(named) => match named.records.as_slice() {
            [record] => report::summary::text(record, WIDTH, colour),
            records => report::comparison::text(records, WIDTH, colour),
        },
        Records::Experiments(named) => {
            let records = named.records.iter();
            let texts = records.map(|record| experiments::summary::text(record, WIDTH, colour));
            texts.collect::<Vec<_>>().join("\n")
        }
        Records::Mixed(..) => String::new(),
    }
}

fn page(records: &Records) -> String {
    match records {
        Records::Loads(named) => report::page::html(&named.records),
        Records::Experiments(named) => experiments::page::html(&named.records),
        Records::Mixed(..) => String::new(),
    }
}

fn figures(records: &Records) -> Texts {
    match records {
        Records::Loads(named) => load_figures(named),
        Records::Experiments(named) => {
            let is_alone = named.records.len() == 1;
            let all = named.iter().flat_map(|(name, record)| {
                let drawings = experiments::drawings::of_experiment(record).into_iter();
                // A name that stays the same lets a page of others refer to it.
                drawings.map(move |drawn| match is_alone {
                    true => (drawn.name, drawn.svg),
                    false => (format!("{name}-{}", drawn.name), drawn.svg),
                })
            });
            all.collect()
        }
        Records::Mixed(..) => Texts::new(),
    }
}

fn load_figures(named: &Named<Record>) -> Texts {
    let mut texts = Texts::new();
    for (name, record) in named.iter() {
        let drawings = report::drawings::of_record(record).into_iter();
        texts.extend(drawings.map(|drawn| (format!("{name}-{}", drawn.name), drawn.svg)));
    }
    if named.records.len() > 1 {
        let owned: Vec<_> = named
            .iter()
            .map(|(name, record)| (name.to_owned(), record))
            .collect();
        let compared = report::drawings::of_records(&owned);
        texts.extend(compared.map(|drawn| (drawn.name.to_owned(), drawn.svg)));
    }
    texts
}

fn sheets(records: &Records) -> Texts {
    let mut texts = Texts::new();
    match records {
        Records::Loads(named) => {
            for (name, record) in named.iter() {
                let sheets = report::csv::of_record(record).into_iter();
                texts.extend(sheets.map(|sheet| (format!("{name}-{}", sheet.name), sheet.csv)));
            }
        }
        Records::Experiments(named) => {
            for (name, record) in named.iter() {
                let sheets = experiments::csv::of_experiment(record).into_iter();
                texts.extend(sheets.map(|sheet| (format!("{name}-{}", sheet.name), sheet.csv)));
            }
        }
        Records::Mixed(..) => {}
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let fault = |line| records_of(&COMMAND.parsed(line)).unwrap_err().to_string();
        assert!(fault("").contains("no record is named"));
        assert!(fault("a.json -o b.json").contains("ends in .html"));
        let records = records_of(&COMMAND.parsed("a.json -o p.html b.json --csv=data")).unwrap();
        assert_eq!(records, ["a.json", "b.json"].map(PathBuf::from));
    }
}
