//! `lariat-lab compare`: two records, of two platforms, versions or settings.
//!
//! What is compared and how it looks is the crate `report`'s; here are the arguments.

use std::path::PathBuf;

use lexopt::{Arg, Parser};
use measure::experiment::Experiment;
use measure::record::Record;
use report::experiment::compared::{self, Named as Told};

use super::help;
use crate::exit::Exit;
use crate::pages::{Texts, WriteFault, check_page, once, write_files, write_page};
use crate::records::{Named, Records, open_all};
use crate::talk::{Talk, print, stdout_colour};
use crate::usage::{UsageError, nearest};

/// Flags, for slips.
const FLAGS: [&str; 3] = ["output", "svg", "help"];

/// Characters in a line of tables.
const WIDTH: usize = 80;

/// What was typed.
#[derive(Debug, Default)]
struct Typed {
    help: bool,
    records: Vec<PathBuf>,
    page: Option<PathBuf>,
    svg: Option<PathBuf>,
}

/// Two records of one kind.
enum Pair<'r> {
    Loads(&'r Named<Record>),
    Experiments(Told<'r>, Told<'r>),
}

/// Makes what was asked for.
pub(super) fn run(parser: &mut Parser, talk: Talk) -> Result<Exit, UsageError> {
    let typed = read(parser)?;
    if typed.help {
        return Ok(print(help::command("compare").unwrap_or_default()));
    }
    check(&typed)?;
    let records = open_all(&typed.records, talk);
    if records.len() < 2 {
        return Ok(Exit::Usage);
    }
    if let Err(fault) = write_all(&typed, &pair(&records)?, talk) {
        talk.error(fault);
        return Ok(Exit::Failed);
    }
    Ok(Exit::Success)
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
        None => UsageError::new(message, "`lariat-lab help compare` lists the flags"),
    }
}

fn check(typed: &Typed) -> Result<(), UsageError> {
    if typed.records.len() != 2 {
        return Err(UsageError::new(
            match typed.records.len() {
                0 => "no record is named".to_owned(),
                1 => "only one record is named".to_owned(),
                many => format!("{many} records are named"),
            },
            "name two: what was, and what it is compared with; more of them side by side: \
             lariat-lab report RECORD…",
        ));
    }
    match &typed.page {
        Some(page) => check_page(page, &typed.records),
        None => Ok(()),
    }
}

/// Two that have something in common.
fn pair(records: &Records) -> Result<Pair<'_>, UsageError> {
    match records {
        Records::Loads(named) => Ok(Pair::Loads(named)),
        Records::Experiments(named) => experiments(named),
        Records::Mixed(..) => Err(UsageError::new(
            "one record is of a load, the other of an experiment",
            "compare two of a kind: they have no figure in common",
        )),
    }
}

fn experiments(named: &Named<Experiment>) -> Result<Pair<'_>, UsageError> {
    let told = |index: usize| Told {
        name: &named.names[index],
        experiment: &named.records[index],
    };
    let (a, b) = (told(0), told(1));
    if compared::cells_in_common(a, b) == 0 {
        return Err(UsageError::new(
            "the two experiments have no cell in common that was read in both",
            "run the same scenarios with the same targets: the first line of a record has its \
             `command`",
        ));
    }
    Ok(Pair::Experiments(a, b))
}

fn write_all(typed: &Typed, pair: &Pair<'_>, talk: Talk) -> Result<(), WriteFault> {
    if let Some(directory) = &typed.svg {
        write_files(directory, "svg", &figures(pair), talk)?;
    }
    if let Some(path) = &typed.page {
        write_page(path, &page(pair), talk)?;
    }
    if typed.page.is_none() && typed.svg.is_none() {
        print(text(pair));
    }
    Ok(())
}

fn text(pair: &Pair<'_>) -> String {
    let colour = stdout_colour();
    match pair {
        Pair::Loads(named) => report::comparison::text(&named.records, WIDTH, colour),
        Pair::Experiments(a, b) => compared::text(*a, *b, WIDTH, colour),
    }
}

fn page(pair: &Pair<'_>) -> String {
    match pair {
        Pair::Loads(named) => report::page::html(&named.records),
        Pair::Experiments(a, b) => compared::html(*a, *b),
    }
}

fn figures(pair: &Pair<'_>) -> Texts {
    match pair {
        Pair::Loads(named) => {
            let records = named.iter();
            let records: Vec<_> = records
                .map(|(name, record)| (name.to_owned(), record))
                .collect();
            let drawn = report::drawings::of_records(&records).into_iter();
            drawn.map(|it| (it.name.to_owned(), it.svg)).collect()
        }
        Pair::Experiments(a, b) => {
            let drawn = compared::drawings(*a, *b).into_iter();
            drawn.map(|it| (it.name, it.svg)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn fault(line: &str) -> String {
        let words = line.split_whitespace().map(OsString::from);
        let typed = read(&mut Parser::from_args(words));
        let error = typed.and_then(|typed| check(&typed)).unwrap_err();
        error.to_string()
    }

    #[test]
    fn two_are_compared_and_no_more() {
        assert!(fault("a.json").contains("only one record is named"));
        assert!(fault("a b c").contains("lariat-lab report RECORD…"));
        assert!(fault("a b -o c.txt").contains("ends in .html"));
        assert!(fault("a b --svgg x").contains("did you mean `--svg`?"));
    }
}
