//! Reads records from files and writes pages to files: checks of arguments, names, faults.
//!
//! Distinguishes records of loads and of experiments by their contents. The crate `measure` defines
//! records, `report` formats pages.

use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use measure::experiment::{self, Experiment};
use measure::quantity::ByteCount;
use measure::record::{self, LoadRecord, LoadRecordFault};
use wire::text::is_control;

use crate::console::Console;
use crate::fault::{LabFault, LabResult};

/// Refuses a path that cannot be meant as the name of a page.
pub(crate) fn check_page(page: Option<&Path>, records: &[PathBuf]) -> LabResult<()> {
    let hint = "-o takes a path that ends in .html; figures and data have flags of their own";
    check_name(page, ("page", &["html", "htm"]), hint, records)
}

/// Refuses a path that cannot be meant as the name of a card.
pub(crate) fn check_card(card: Option<&Path>, records: &[PathBuf]) -> LabResult<()> {
    check_name(card, ("card", &["svg"]), "--card takes a path that ends in .svg", records)
}

fn check_name(
    page: Option<&Path>,
    (what, endings): (&str, &[&str]),
    hint: &str,
    records: &[PathBuf],
) -> LabResult<()> {
    let Some(page) = page else {
        return Ok(());
    };
    let ending = page.extension().unwrap_or_default().to_ascii_lowercase();
    if !endings.iter().any(|it| ending == *it) {
        return Err(LabFault::new(format!("`{}` is no name of a {what}", shown(page)), hint));
    }
    if records.iter().any(|record| is_same_file(record, page)) {
        return Err(LabFault::new(
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

/// File names without their ending, and texts.
pub(crate) type Texts = Vec<(String, String)>;

/// Writes files into a directory, which is created if missing.
pub(crate) fn write_files(
    directory: &Path,
    ending: &str,
    texts: &Texts,
    console: Console,
) -> LabResult<()> {
    fs::create_dir_all(directory).map_err(|error| unwritten(directory, &error))?;
    for (name, text) in texts {
        write(&directory.join(format!("{name}.{ending}")), text)?;
    }
    console.say(format_args!("wrote {} files to {}", texts.len(), shown(directory)));
    Ok(())
}

pub(crate) fn write_page(page: &Path, text: &str, console: Console) -> LabResult<()> {
    write(page, text)?;
    let size = ByteCount(text.len() as u64);
    console.say(format_args!("wrote {}, {size}", shown(page)));
    Ok(())
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> LabResult<()> {
    fs::write(path, bytes).map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> LabFault {
    let message = format!("cannot write `{}`: {error}", shown(path));
    LabFault::failed(message, "is there room, and may you write there?")
}

/// Limit of a record's size: ten hours of load make some ten megabytes.
pub(crate) const RECORD_BYTES_MAX: u64 = 256 << 20;

/// The first bytes of a compressed file (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Records by their names, in the order in which they were named.
#[derive(Debug)]
pub(crate) enum Records {
    Loads(Vec<(String, LoadRecord)>),
    Experiments(Vec<(String, Experiment)>),
    /// Numbers of records of each kind.
    Mixed(usize, usize),
}

/// Borrows named records for the crate `report`.
pub(crate) fn listed<T>(named: &[(String, T)]) -> Vec<(&str, &T)> {
    named.iter().map(|(name, record)| (name.as_str(), record)).collect()
}

/// Reads the records in their order; reports those that cannot be read.
pub(crate) fn open_all(paths: &[PathBuf], console: Console) -> Records {
    let mut names = BTreeSet::new();
    let (mut loads, mut experiments) = (Vec::new(), Vec::new());
    for path in paths {
        let opened = read(path).and_then(|(text, end)| {
            if let Some(error) = end {
                let text = format_args!("`{}` ends too early: {error}", shown(path));
                console.advise(text, "it was not copied whole; what can be unpacked of it is read");
            }
            parse(&text)
        });
        match opened {
            Ok(OpenedRecord::Load(record)) => loads.push((free_name(path, &mut names), *record)),
            Ok(OpenedRecord::Experiment(record)) => {
                if let Some(line) = record.cut_line {
                    let path = shown(path);
                    console.advise(
                        format_args!(
                            "`{path}` ends in the middle of line {line}, which is left out"
                        ),
                        "the run was killed as it wrote, or the file was cut: `lariat-lab run \
                         --resume` measures what is missing",
                    );
                }
                experiments.push((free_name(path, &mut names), *record));
            }
            Err(fault) => console.error(unread(path, &fault)),
        }
    }
    match (loads.len(), experiments.len()) {
        (_, 0) => Records::Loads(loads),
        (0, _) => Records::Experiments(experiments),
        (loads, experiments) => Records::Mixed(loads, experiments),
    }
}

impl Records {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Loads(named) => named.len(),
            Self::Experiments(named) => named.len(),
            Self::Mixed(loads, experiments) => loads + experiments,
        }
    }
}

#[derive(Debug)]
enum OpenedRecord {
    Load(Box<LoadRecord>),
    Experiment(Box<Experiment>),
}

const FOREIGN: &str = "records are the files that `--record PATH` of `lariat-lab load` and of \
                       `lariat-lab run` write";

/// Returns the text of a file, and the fault that cut it short if it is a compressed one.
fn read(path: &Path) -> LabResult<(String, Option<io::Error>)> {
    let (bytes, end) = read_bytes(path).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::IsADirectory => "name the records in it: lariat-lab report DIR/*.json",
            _ => FOREIGN,
        };
        LabFault::new(error, hint)
    })?;
    if bytes.len() as u64 > RECORD_BYTES_MAX {
        let message = format!("it is larger than {}", ByteCount(RECORD_BYTES_MAX));
        return Err(LabFault::new(message, FOREIGN));
    }
    if bytes.is_empty() {
        let error = end.map_or_else(|| "it is empty".to_owned(), |error| error.to_string());
        return Err(LabFault::new(error, FOREIGN));
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // A cut may go through a character.
        Err(error) if error.utf8_error().error_len().is_none() => {
            let whole = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..whole]).into_owned()
        }
        Err(_) => return Err(LabFault::new("it is no text", FOREIGN)),
    };
    Ok((text, end))
}

fn read_bytes(path: &Path) -> io::Result<(Vec<u8>, Option<io::Error>)> {
    let source: Box<dyn Read> =
        if path.as_os_str() == "-" { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let mut source = BufReader::new(source);
    let is_compressed = source.fill_buf()?.starts_with(&GZIP);
    let source: Box<dyn Read> =
        if is_compressed { Box::new(MultiGzDecoder::new(source)) } else { Box::new(source) };
    let mut bytes = Vec::new();
    // Bytes before a fault are kept.
    match source.take(RECORD_BYTES_MAX + 1).read_to_end(&mut bytes) {
        Err(error) if is_compressed => Ok((bytes, Some(error))),
        read => read.map(|_| (bytes, None)),
    }
}

fn parse(text: &str) -> LabResult<OpenedRecord> {
    match Experiment::parse(text) {
        Ok(experiment) => Ok(OpenedRecord::Experiment(Box::new(experiment))),
        Err(LoadRecordFault::Foreign(_)) => {
            let record = LoadRecord::parse(text);
            let record = record.map_err(|fault| unparsed(text, &fault, record::FORMAT))?;
            Ok(OpenedRecord::Load(Box::new(record)))
        }
        Err(fault) => Err(unparsed(text, &fault, experiment::FORMAT)),
    }
}

fn unparsed(text: &str, fault: &LoadRecordFault, ours: u32) -> LabFault {
    // The beginnings of lines of experiments, and of records of loads.
    let is_started = text.starts_with("{\"event\":") || text.starts_with("{\"format\":");
    let hint = match fault {
        LoadRecordFault::Foreign(_) if is_started => {
            "its first line, which has the plan, is cut off or missing: take the whole file"
        }
        LoadRecordFault::Foreign(_) => FOREIGN,
        LoadRecordFault::Format(format) if *format > ours => {
            "a newer lariat-lab wrote it: use that one, or a later one"
        }
        LoadRecordFault::Format(_) => {
            "an older lariat-lab wrote it: use that one, or measure again with this one"
        }
        LoadRecordFault::Damaged(_) => {
            "it was cut off or edited; the `command` in it repeats the load"
        }
        LoadRecordFault::DamagedLine(..) => {
            "it was edited, or another build of this version wrote it; the `command` in its first \
             line repeats the experiment"
        }
    };
    LabFault::new(fault, hint)
}

/// Returns the file's name without its endings, with a number if that name is taken.
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

/// Makes the fault of a record that could not be read. Its message may repeat words of the file.
fn unread(path: &Path, fault: &LabFault) -> LabFault {
    LabFault::new(format!("cannot read `{}`: {}", shown(path), tame(&fault.message)), &fault.hint)
}

pub(crate) fn shown(path: &Path) -> String {
    tame(&path.to_string_lossy())
}

/// Removes characters that a terminal would obey.
pub(crate) fn tame(text: &str) -> String {
    text.replace(is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
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
            unread(Path::new("x\u{1b}.json"), &fault).to_string()
        };
        assert!(fault("GIF89a").contains("cannot read `x\u{fffd}.json`: this is no record"));
        assert!(fault("{\"format\":3}").contains("a damaged record"));
        assert!(fault("{\"format\":3}").contains("hint: it was cut off"));
        assert!(fault("{\"event\":\"measured\"}").contains("hint: its first line"));
        assert!(fault("{\"event\":\"began\",\"fo").contains("hint: its first line"));
        assert!(fault("{\"format\":900}").contains("a newer lariat-lab wrote it"));
        assert!(fault("{\"format\":0}").contains("an older lariat-lab wrote it"));
        assert!(!fault("{\"format\":3,\"a\u{7f}\\u001b\":1}").contains('\u{1b}'));
    }

    #[test]
    fn experiments_are_told_by_their_first_line() {
        let fault = |format: u32| {
            let line = format!("{{\"event\":\"began\",\"format\":{format}}}\n");
            parse(&line).unwrap_err().hint
        };
        assert!(fault(900).contains("newer") && fault(2).contains("older"));
        assert!(fault(3).contains("in its first line repeats the experiment"));
    }
}
