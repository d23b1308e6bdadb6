//! Records read from files and pages written to them: checks of what was typed, names, faults.
//!
//! Records of loads and of experiments are distinguished by their contents. What a record is
//! belongs to the crate `measure`, how a page looks to `report`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use flate2::read::MultiGzDecoder;
use measure::experiment::{self, Experiment};
use measure::quantity::ByteCount;
use measure::record::{self, LoadRecord, LoadRecordFault};
use wire::text::is_control;

use crate::console::Console;
use crate::exit::Exit;
use crate::usage::UsageError;

/// Refuses what cannot be meant as the name of a page.
pub(crate) fn check_page(page: Option<&Path>, records: &[PathBuf]) -> Result<(), UsageError> {
    let hint = "-o takes a path that ends in .html; figures and data have flags of their own";
    check_name(page, ("page", &["html", "htm"]), hint, records)
}

/// Refuses what cannot be meant as the name of a card.
pub(crate) fn check_card(card: Option<&Path>, records: &[PathBuf]) -> Result<(), UsageError> {
    let hint = "--card takes a path that ends in .svg";
    check_name(card, ("card", &["svg"]), hint, records)
}

fn check_name(
    page: Option<&Path>,
    (what, endings): (&str, &[&str]),
    hint: &str,
    records: &[PathBuf],
) -> Result<(), UsageError> {
    let Some(page) = page else {
        return Ok(());
    };
    let ending = page.extension().unwrap_or_default().to_ascii_lowercase();
    if !endings.iter().any(|it| ending == *it) {
        let seen = format!("`{}` is no name of a {what}", shown(page));
        return Err(UsageError::new(seen, hint));
    }
    if records.iter().any(|record| is_same_file(record, page)) {
        return Err(UsageError::new(
            format!("`{}` is one of the records", shown(page)),
            format!("give the {what} another name: a record is not overwritten"),
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

/// A file or directory that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`: {fault}\nhint: is there room, and may you write there?", shown(.path))]
pub(crate) struct WriteFault {
    path: PathBuf,
    fault: io::Error,
}

/// How the program ends that has written; why it could not is said.
pub(crate) fn ended(written: Result<(), WriteFault>, console: Console) -> Exit {
    match written {
        Ok(()) => Exit::Success,
        Err(fault) => {
            console.error(fault);
            Exit::Failed
        }
    }
}

/// Names without their ending, and texts.
pub(crate) type Texts = Vec<(String, String)>;

/// Writes files into a directory, which is made if it is not there.
pub(crate) fn write_files(
    directory: &Path,
    ending: &str,
    texts: &Texts,
    console: Console,
) -> Result<(), WriteFault> {
    fs::create_dir_all(directory)
        .map_err(|fault| WriteFault { path: directory.to_owned(), fault })?;
    for (name, text) in texts {
        write(&directory.join(format!("{name}.{ending}")), text)?;
    }
    console.say(format_args!("wrote {} files to {}", texts.len(), shown(directory)));
    Ok(())
}

/// Writes a page or a card.
pub(crate) fn write_page(page: &Path, text: &str, console: Console) -> Result<(), WriteFault> {
    write(page, text)?;
    let size = ByteCount(text.len() as u64);
    console.say(format_args!("wrote {}, {size}", shown(page)));
    Ok(())
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), WriteFault> {
    fs::write(path, bytes).map_err(|fault| WriteFault { path: path.to_owned(), fault })
}

/// Larger files are no records: ten hours of load make some ten megabytes.
const RECORD_BYTES_MAX: u64 = 256 << 20;

/// The first bytes of a compressed file (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Records of one kind, in the order in which they were named.
#[derive(Debug)]
pub(crate) struct NamedRecords<T> {
    pub(crate) names: Vec<String>,
    pub(crate) records: Vec<T>,
}

#[derive(Debug)]
pub(crate) enum Records {
    Loads(NamedRecords<LoadRecord>),
    Experiments(NamedRecords<Experiment>),
    /// Some of each; how many.
    Mixed(usize, usize),
}

impl<T> NamedRecords<T> {
    fn new() -> Self {
        Self { names: Vec::new(), records: Vec::new() }
    }

    fn push(&mut self, name: String, record: T) {
        self.names.push(name);
        self.records.push(record);
    }

    pub(crate) fn list(&self) -> Vec<(&str, &T)> {
        let names = self.names.iter().map(String::as_str);
        names.zip(&self.records).collect()
    }
}

/// The records that can be read, in their order; the others are reported.
pub(crate) fn open_all(paths: &[PathBuf], console: Console) -> Records {
    let mut names = BTreeSet::new();
    let (mut loads, mut experiments) = (NamedRecords::new(), NamedRecords::new());
    for path in paths {
        match open(path) {
            Ok(OpenedRecord::Load(record)) => loads.push(free_name(path, &mut names), *record),
            Ok(OpenedRecord::Experiment(record)) => {
                experiments.push(free_name(path, &mut names), *record);
            }
            Err(fault) => console.error(Unread { path, fault }),
        }
    }
    match (loads.records.len(), experiments.records.len()) {
        (_, 0) => Records::Loads(loads),
        (0, _) => Records::Experiments(experiments),
        (loads, experiments) => Records::Mixed(loads, experiments),
    }
}

impl Records {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Loads(named) => named.records.len(),
            Self::Experiments(named) => named.records.len(),
            Self::Mixed(loads, experiments) => loads + experiments,
        }
    }
}

#[derive(Debug)]
enum OpenedRecord {
    Load(Box<LoadRecord>),
    Experiment(Box<Experiment>),
}

fn open(path: &Path) -> Result<OpenedRecord, ReadFault> {
    let mut bytes = Vec::new();
    let source: Box<dyn Read> =
        if path.as_os_str() == "-" { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let mut source = BufReader::new(source);
    let source: Box<dyn Read> = if source.fill_buf()?.starts_with(&GZIP) {
        Box::new(MultiGzDecoder::new(source))
    } else {
        Box::new(source)
    };
    source.take(RECORD_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > RECORD_BYTES_MAX {
        return Err(ReadFault::Large);
    }
    parse(&String::from_utf8(bytes).map_err(|_| ReadFault::Binary)?)
}

fn parse(text: &str) -> Result<OpenedRecord, ReadFault> {
    match Experiment::parse(text) {
        Ok(experiment) => Ok(OpenedRecord::Experiment(Box::new(experiment))),
        Err(LoadRecordFault::Foreign(_)) => {
            let record = LoadRecord::parse(text);
            let fault = |fault| ReadFault::Record(fault, record::FORMAT);
            Ok(OpenedRecord::Load(Box::new(record.map_err(fault)?)))
        }
        Err(fault) => Err(ReadFault::Record(fault, experiment::FORMAT)),
    }
}

/// The file's name without its endings, and a number if there was one of that name.
fn free_name(path: &Path, names: &mut BTreeSet<String>) -> String {
    let path = match path.extension() {
        Some(end) if end == "gz" => path.with_extension(""),
        _ => path.to_owned(),
    };
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

#[derive(Debug, thiserror::Error)]
enum ReadFault {
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("it is larger than {}", ByteCount(RECORD_BYTES_MAX))]
    Large,
    #[error("it is no text")]
    Binary,
    #[error("{0}")]
    Record(LoadRecordFault, u32),
}

impl ReadFault {
    fn hint(&self) -> &'static str {
        match self {
            Self::File(error) if error.kind() == io::ErrorKind::IsADirectory => {
                "name the records in it: lariat-lab report DIR/*.json"
            }
            Self::File(_)
            | Self::Large
            | Self::Binary
            | Self::Record(LoadRecordFault::Foreign(_), _) => {
                "records are the files that `--record PATH` of `lariat-lab load` and of \
                 `lariat-lab run` write"
            }
            Self::Record(LoadRecordFault::Format(format), ours) => age(*format, *ours),
            Self::Record(LoadRecordFault::Damaged(_), _) => {
                "it was cut off or edited; the `command` in it repeats the load"
            }
            Self::Record(LoadRecordFault::DamagedLine(..), _) => {
                "it was edited, or another build of this version wrote it; the `command` in its \
                 first line repeats the experiment"
            }
        }
    }
}

fn age(format: u32, ours: u32) -> &'static str {
    if format > ours {
        "a newer lariat-lab wrote it: use that one, or a later one"
    } else {
        "an older lariat-lab wrote it: use that one, or measure again with this one"
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

pub(crate) fn shown(path: &Path) -> String {
    tame(&path.to_string_lossy())
}

/// Without what a terminal would obey.
pub(crate) fn tame(text: &str) -> String {
    text.replace(is_control, "\u{fffd}")
}

#[cfg(test)]
mod records_tests {
    use super::*;

    #[test]
    fn names_of_files_do_not_meet() {
        let mut names = BTreeSet::new();
        let mut name = |path: &str| free_name(Path::new(path), &mut names);
        assert_eq!(name("a/run.jsonl.gz"), "run");
        assert_eq!(name("b/run.json"), "run-2");
        assert_eq!(name("c/run-2.json"), "run-2-2");
        assert_eq!(name("-"), "record");
    }

    #[test]
    fn faults_name_the_file_and_the_remedy() {
        let fault = |text: &str| {
            let fault = parse(text).unwrap_err();
            let path = Path::new("x\u{1b}.json");
            Unread { path, fault }.to_string()
        };
        assert!(fault("GIF89a").contains("cannot read `x\u{fffd}.json`: this is no record"));
        assert!(fault("{\"format\":3}").contains("a damaged record"));
        assert!(fault("{\"format\":3}").contains("hint: it was cut off"));
        assert!(fault("{\"format\":900}").contains("a newer lariat-lab wrote it"));
        assert!(fault("{\"format\":0}").contains("an older lariat-lab wrote it"));
        assert!(!fault("{\"format\":3,\"a\u{7f}\\u001b\":1}").contains('\u{1b}'));
    }

    #[test]
    fn experiments_are_told_by_their_first_line() {
        let fault = |format: u32| {
            let line = format!("{{\"event\":\"began\",\"format\":{format}}}\n");
            let fault = parse(&line).unwrap_err();
            (matches!(fault, ReadFault::Record(_, experiment::FORMAT)), fault.hint())
        };
        assert!(fault(900).0 && fault(900).1.contains("newer"));
        assert!(fault(2).0 && fault(2).1.contains("older"));
        assert!(fault(3).0 && fault(3).1.contains("edited"));
    }
}
