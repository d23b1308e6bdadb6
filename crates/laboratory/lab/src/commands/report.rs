//! `lariat-lab report`: records from files, and where tables, figures and pages go.
//!
//! What they look like is the crate `report`'s; here are the arguments.

use std::path::PathBuf;

use lexopt::{Arg, Parser};
use measure::record::Record;
use report::experiment as experiments;

use super::help;
use crate::exit::Exit;
use crate::pages::{Texts, WriteFault, check_page, once, write_files, write_page};
use crate::records::{Named, Records, open_all};
use crate::talk::{Talk, print, stdout_colour};
use crate::usage::{UsageError, nearest};

/// Flags, for slips.
const FLAGS: [&str; 4] = ["output", "svg", "csv", "help"];

/// Characters in a line of tables.
const WIDTH: usize = 80;

/// What was typed.
#[derive(Debug, Default)]
struct Typed {
    help: bool,
    records: Vec<PathBuf>,
    page: Option<PathBuf>,
    svg: Option<PathBuf>,
    csv: Option<PathBuf>,
}

/// Makes what was asked for.
pub(super) fn run(parser: &mut Parser, talk: Talk) -> Result<Exit, UsageError> {
    let typed = read(parser)?;
    if typed.help {
        return Ok(print(help::command("report").unwrap_or_default()));
    }
    check(&typed)?;
    let records = of_one_kind(open_all(&typed.records, talk))?;
    if records.len() == 0 {
        return Ok(Exit::Usage);
    }
    let is_whole = records.len() == typed.records.len();
    if let Err(fault) = write_all(&typed, &records, talk) {
        talk.error(fault);
        return Ok(Exit::Failed);
    }
    Ok(if is_whole {
        Exit::Success
    } else {
        Exit::Partial
    })
}

fn read(parser: &mut Parser) -> Result<Typed, UsageError> {
    let mut typed = Typed::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => typed.help = true,
            Arg::Short('o') | Arg::Long("output") => {
                once(&mut typed.page, parser.value()?, "-o")?;
            }
            Arg::Long("svg") => once(&mut typed.svg, parser.value()?, "--svg")?,
            Arg::Long("csv") => once(&mut typed.csv, parser.value()?, "--csv")?,
            Arg::Value(path) => typed.records.push(path.into()),
            Arg::Long(name) => return Err(unknown(name)),
            other @ Arg::Short(_) => return Err(other.unexpected().into()),
        }
    }
    Ok(typed)
}

fn unknown(name: &str) -> UsageError {
    let message = format!("there is no flag `--{}`", name.escape_debug());
    match nearest(name, FLAGS) {
        Some(near) => UsageError::new(message, format!("did you mean `--{near}`?")),
        None => UsageError::new(message, "`lariat-lab help report` lists the flags"),
    }
}

/// Refuses what cannot be meant, before anything is read.
fn check(typed: &Typed) -> Result<(), UsageError> {
    if typed.records.is_empty() {
        return Err(UsageError::new(
            "no record is named",
            "`lariat-lab load` and `lariat-lab run` write one each; then: lariat-lab report RECORD",
        ));
    }
    match &typed.page {
        Some(page) => check_page(page, &typed.records),
        None => Ok(()),
    }
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

fn write_all(typed: &Typed, records: &Records, talk: Talk) -> Result<(), WriteFault> {
    if let Some(directory) = &typed.svg {
        write_files(directory, "svg", &figures(records), talk)?;
    }
    if let Some(directory) = &typed.csv {
        write_files(directory, "csv", &sheets(records), talk)?;
    }
    if let Some(path) = &typed.page {
        write_page(path, &page(records), talk)?;
    }
    if typed.page.is_none() && typed.svg.is_none() && typed.csv.is_none() {
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
    use std::ffi::OsString;

    fn typed(line: &str) -> Result<Typed, UsageError> {
        let words = line.split_whitespace().map(OsString::from);
        let typed = read(&mut Parser::from_args(words))?;
        check(&typed)?;
        Ok(typed)
    }

    #[test]
    fn flags_and_records_in_any_order() {
        let typed = typed("a.json -o p.html b.json --svg=figures --csv data").unwrap();
        assert_eq!(typed.records, ["a.json", "b.json"].map(PathBuf::from));
        assert_eq!(typed.page, Some("p.html".into()));
        assert_eq!(typed.svg, Some("figures".into()));
        assert_eq!(typed.csv, Some("data".into()));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let fault = |line| typed(line).unwrap_err().to_string();
        assert!(fault("").contains("no record is named"));
        assert!(fault("a.json -o b.json").contains("ends in .html"));
        assert!(fault("a.json -o x.html -o y.html").contains("twice"));
        assert!(fault("a.json --outptu x").contains("did you mean `--output`?"));
    }
}
