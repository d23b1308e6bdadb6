//! `lariat-lab report`: records from files, and where tables, figures and pages go.
//!
//! What they look like is the crate `report`'s; here are arguments, files and faults.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use lexopt::{Arg, Parser};
use measure::quantity::Bytes;
use measure::record::{FORMAT, Record, RecordFault};

use super::help;
use crate::exit::Exit;
use crate::talk::{Talk, print, stdout_colour};
use crate::usage::{UsageError, nearest};

/// Flags, for slips.
const FLAGS: [&str; 4] = ["output", "svg", "csv", "help"];

/// Larger files are no records: ten hours of load make some ten megabytes.
const RECORD_BYTES_MAX: u64 = 256 << 20;

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

/// A record with the name that files made from it begin with.
#[derive(Debug)]
struct Named {
    name: String,
    record: Record,
}

/// Makes what was asked for.
pub(super) fn run(parser: &mut Parser, talk: Talk) -> Result<Exit, UsageError> {
    let typed = read(parser)?;
    if typed.help {
        return Ok(print(help::command("report").unwrap_or_default()));
    }
    check(&typed)?;
    let records = open_all(&typed.records, talk);
    if records.is_empty() {
        return Ok(Exit::Usage);
    }
    let is_whole = records.len() == typed.records.len();
    if let Err(fault) = write_all(&typed, records, talk) {
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

fn once(slot: &mut Option<PathBuf>, path: OsString, flag: &str) -> Result<(), UsageError> {
    match slot.replace(path.into()) {
        None => Ok(()),
        Some(_) => Err(UsageError::new(
            format!("{flag} is given twice"),
            "there is one place for each kind of output",
        )),
    }
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
            "`lariat-lab load URL --record out.json` writes one; then: lariat-lab report out.json",
        ));
    }
    let Some(page) = &typed.page else {
        return Ok(());
    };
    let ending = page.extension().unwrap_or_default().to_ascii_lowercase();
    if ending != "html" && ending != "htm" {
        return Err(UsageError::new(
            format!("`{}` is no name of a page", shown(page)),
            "-o takes a path that ends in .html; figures and data: --svg DIR, --csv DIR",
        ));
    }
    if typed
        .records
        .iter()
        .any(|record| is_same_file(record, page))
    {
        return Err(UsageError::new(
            format!("`{}` is one of the records", shown(page)),
            "give the page another name: a record is not overwritten",
        ));
    }
    Ok(())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Those that can be read, in their order; the others are told.
fn open_all(paths: &[PathBuf], talk: Talk) -> Vec<Named> {
    let mut names = BTreeSet::new();
    let mut records = Vec::new();
    for path in paths {
        match open(path) {
            Ok(record) => {
                let name = free_name(path, &mut names);
                records.push(Named { name, record });
            }
            Err(fault) => talk.error(Unread { path, fault }),
        }
    }
    records
}

fn open(path: &Path) -> Result<Record, ReadFault> {
    let mut bytes = Vec::new();
    let source: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path)?),
    };
    source.take(RECORD_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > RECORD_BYTES_MAX {
        return Err(ReadFault::Large);
    }
    let text = String::from_utf8(bytes).map_err(|_| ReadFault::Binary)?;
    Ok(Record::parse(&text)?)
}

/// The file's name without its ending, and a number if there was one of that name.
fn free_name(path: &Path, names: &mut BTreeSet<String>) -> String {
    let stem = path.file_stem().filter(|_| path.as_os_str() != "-");
    let stem = stem.map_or_else(|| "record".into(), |stem| stem.to_string_lossy());
    let mut name = stem.to_string();
    for number in 2.. {
        if names.insert(name.clone()) {
            break;
        }
        name = format!("{stem}-{number}");
    }
    name
}

/// Why a file gave no record.
#[derive(Debug, thiserror::Error)]
enum ReadFault {
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("it is larger than {}", Bytes(RECORD_BYTES_MAX))]
    Large,
    #[error("it is no text")]
    Binary,
    #[error("{0}")]
    Record(#[from] RecordFault),
}

impl ReadFault {
    fn hint(&self) -> &'static str {
        match self {
            Self::File(error) if error.kind() == io::ErrorKind::IsADirectory => {
                "name the records in it: lariat-lab report DIR/*.json"
            }
            Self::File(_) | Self::Large | Self::Binary => {
                "records are the files that `lariat-lab load --record PATH` writes"
            }
            Self::Record(RecordFault::Foreign(_)) => {
                "records are the files that `lariat-lab load --record PATH` writes"
            }
            Self::Record(RecordFault::Format(format)) if *format > FORMAT => {
                "a newer lariat-lab wrote it: use that one, or a later one"
            }
            Self::Record(RecordFault::Format(_)) => {
                "an older lariat-lab wrote it: use that one, or repeat the load with this one"
            }
            Self::Record(RecordFault::Damaged(_)) => {
                "it was cut off or edited; the `command` in it repeats the load"
            }
        }
    }
}

/// A record that could not be read.
struct Unread<'a> {
    path: &'a Path,
    fault: ReadFault,
}

impl fmt::Display for Unread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text may repeat words of the file.
        let fault = tame(&self.fault.to_string());
        writeln!(f, "cannot read `{}`: {fault}", shown(self.path))?;
        write!(f, "hint: {}", self.fault.hint())
    }
}

fn shown(path: &Path) -> String {
    tame(&path.to_string_lossy())
}

/// Without what a terminal would obey.
fn tame(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// A file or directory that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`: {fault}\nhint: is there room, and may you write there?", shown(.path))]
struct WriteFault {
    path: PathBuf,
    fault: io::Error,
}

fn write_all(typed: &Typed, records: Vec<Named>, talk: Talk) -> Result<(), WriteFault> {
    let is_text = typed.page.is_none() && typed.svg.is_none() && typed.csv.is_none();
    if let Some(directory) = &typed.svg {
        write_files(directory, "svg", drawings(&records), talk)?;
    }
    if let Some(directory) = &typed.csv {
        write_files(directory, "csv", sheets(&records), talk)?;
    }
    let records: Vec<Record> = records.into_iter().map(|named| named.record).collect();
    if let Some(page) = &typed.page {
        let html = report::page::html(&records);
        write(page, &html)?;
        talk.say(format_args!(
            "wrote {}, {}",
            shown(page),
            Bytes(html.len() as u64)
        ));
    }
    if is_text {
        print(text(&records));
    }
    Ok(())
}

fn text(records: &[Record]) -> String {
    match records {
        [record] => report::summary::text(record, WIDTH, stdout_colour()),
        _ => report::comparison::text(records, WIDTH, stdout_colour()),
    }
}

/// Names without their ending, and texts.
type Texts = Vec<(String, String)>;

fn drawings(records: &[Named]) -> Texts {
    let mut texts = Texts::new();
    for Named { name, record } in records {
        let drawings = report::drawings::of_record(record).into_iter();
        texts.extend(drawings.map(|drawn| (format!("{name}-{}", drawn.name), drawn.svg)));
    }
    if records.len() > 1 {
        let named: Vec<_> = records
            .iter()
            .map(|named| (named.name.clone(), &named.record))
            .collect();
        let compared = report::drawings::of_records(&named);
        texts.extend(compared.map(|drawn| (drawn.name.to_owned(), drawn.svg)));
    }
    texts
}

fn sheets(records: &[Named]) -> Texts {
    let mut texts = Texts::new();
    for Named { name, record } in records {
        let sheets = report::csv::of_record(record).into_iter();
        texts.extend(sheets.map(|sheet| (format!("{name}-{}", sheet.name), sheet.csv)));
    }
    texts
}

fn write_files(directory: &Path, ending: &str, texts: Texts, talk: Talk) -> Result<(), WriteFault> {
    fs::create_dir_all(directory).map_err(|fault| WriteFault {
        path: directory.to_owned(),
        fault,
    })?;
    for (name, text) in &texts {
        write(&directory.join(format!("{name}.{ending}")), text)?;
    }
    talk.say(format_args!(
        "wrote {} files to {}",
        texts.len(),
        shown(directory)
    ));
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), WriteFault> {
    fs::write(path, text).map_err(|fault| WriteFault {
        path: path.to_owned(),
        fault,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn names_of_files_do_not_meet() {
        let mut names = BTreeSet::new();
        let mut name = |path: &str| free_name(Path::new(path), &mut names);
        assert_eq!(name("a/run.json"), "run");
        assert_eq!(name("b/run.json"), "run-2");
        assert_eq!(name("c/run-2.json"), "run-2-2");
        assert_eq!(name("-"), "record");
    }

    #[test]
    fn faults_name_the_file_and_the_remedy() {
        let fault = |text: &str| {
            let fault = ReadFault::from(Record::parse(text).unwrap_err());
            let path = Path::new("x\u{1b}.json");
            Unread { path, fault }.to_string()
        };
        assert!(fault("GIF89a").contains("cannot read `x\u{fffd}.json`: this is no record"));
        assert!(fault("{\"format\":1}").contains("a damaged record"));
        assert!(fault("{\"format\":1}").contains("hint: it was cut off"));
        assert!(fault("{\"format\":900}").contains("a newer lariat-lab wrote it"));
        assert!(fault("{\"format\":0}").contains("an older lariat-lab wrote it"));
        assert!(!fault("{\"format\":1,\"a\u{7f}\\u001b\":1}").contains('\u{1b}'));
    }
}
