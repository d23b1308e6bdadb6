//! `lariat-lab compare`: two records, of two platforms, versions or settings.
//!
//! What is compared and how it looks is the crate `report`'s; here are the arguments.

use std::path::PathBuf;

use measure::experiment::Experiment;
use measure::record::Record;
use report::experiment::compared::{self, Named as Told};

use super::flags::{Arguments, Command};
use crate::console::{Console, print, stdout_colour};
use crate::exit::Exit;
use crate::pages::{Texts, WriteFault, check_page, write_files, write_page};
use crate::records::{Named, Records, open_all};
use crate::usage::UsageError;

pub(super) const COMMAND: Command = Command {
    name: "compare",
    takes_words: true,
    help: "\
lariat-lab compare: what changed from one record to another

  lariat-lab compare A B [-o PAGE.html] [--svg DIR]

Two records of experiments, of two platforms, versions or settings: in what they differ, and each
cell that was read in both, with the change from A to B and its 95 % interval. Two records of loads
are shown side by side.

  -o, --output PAGE.html
      Write one page that needs no network, instead of tables to the standard output
  --svg DIR
      Write the figures as SVG files: the loss of B against A, in percent, a file a scenario

Example:
  What does the hypervisor take?
    lariat-lab run object-sizes --record metal.jsonl     # and on the other host: virtual.jsonl
    lariat-lab compare metal.jsonl virtual.jsonl -o loss.html
",
};

/// Characters in a line of tables.
const WIDTH: usize = 80;

/// Two records of one kind.
enum Pair<'r> {
    Loads(&'r Named<Record>),
    Experiments(Told<'r>, Told<'r>),
}

/// Makes what was asked for.
pub(super) fn run(arguments: &Arguments, console: Console) -> Result<Exit, UsageError> {
    let paths = records_of(arguments)?;
    let records = open_all(&paths, console);
    if records.len() < 2 {
        return Ok(Exit::Usage);
    }
    if let Err(fault) = write_all(arguments, &pair(&records)?, console) {
        console.error(fault);
        return Ok(Exit::Failed);
    }
    Ok(Exit::Success)
}

fn records_of(arguments: &Arguments) -> Result<Vec<PathBuf>, UsageError> {
    let records: Vec<_> = arguments.words.iter().map(PathBuf::from).collect();
    let message = match records.len() {
        0 => "no record is named".to_owned(),
        1 => "only one record is named".to_owned(),
        2 => {
            check_page(arguments.path("output").as_deref(), &records)?;
            return Ok(records);
        }
        many => format!("{many} records are named"),
    };
    Err(UsageError::new(
        message,
        "name two: what was, and what it is compared with; more of them side by side: \
         lariat-lab report RECORD…",
    ))
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

fn write_all(arguments: &Arguments, pair: &Pair<'_>, console: Console) -> Result<(), WriteFault> {
    let (page_path, svg) = (arguments.path("output"), arguments.path("svg"));
    if let Some(directory) = &svg {
        write_files(directory, "svg", &figures(pair), console)?;
    }
    if let Some(path) = &page_path {
        write_page(path, &page(pair), console)?;
    }
    if page_path.is_none() && svg.is_none() {
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

    #[test]
    fn two_are_compared_and_no_more() {
        let fault = |line| records_of(&COMMAND.parsed(line)).unwrap_err().to_string();
        assert!(fault("a.json").contains("only one record is named"));
        assert!(fault("a b c").contains("lariat-lab report RECORD…"));
        assert!(fault("a b -o c.txt").contains("ends in .html"));
    }
}
