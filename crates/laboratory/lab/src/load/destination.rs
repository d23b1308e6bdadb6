//! Writes the files of a load. The record's path is checked before the load begins, and the record
//! appears whole or not at all; the file of `--hdr` has a line per second, as the tools of
//! HdrHistogram read them.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use load::options::value::OrNone;
use measure::histogram::{self, Histogram};
use wire::date::civil_from_days;

use crate::fault::{Exit, LabFault, LabResult};
use crate::process::scratch::first_free;

#[derive(Debug)]
pub(crate) struct Destination {
    flag: &'static str,
    kind: DestinationKind,
}

#[derive(Debug)]
enum DestinationKind {
    Nowhere,
    Output,
    /// A file, replaced when the record is complete.
    File(PartialFile),
    /// A destination that is no regular file, such as `/dev/null`.
    Device(PathBuf),
}

/// A file that is written under a temporary name, and renamed when it is complete.
#[derive(Debug)]
struct PartialFile {
    path: PathBuf,
    partial: PathBuf,
    /// Whether the name was not chosen by the user: a file of that name stays, such as the record
    /// of a load that began in the same second, and this file gets another name.
    gives_way: bool,
}

/// Makes the fault of a path that holds something else than a record.
fn foreign(flag: &str, path: &Path) -> LabFault {
    let message = format!("{} is there, and is no record of a load", path.display());
    LabFault::new(message, format_args!("--{flag} names another file"))
}

fn refused(flag: &str, path: &Path, error: &io::Error) -> LabFault {
    let message = format!("the record cannot be written to {}: {error}", path.display());
    LabFault::new(message, format_args!("--{flag} names a file in a folder that we may write to"))
}

impl Destination {
    /// Checks that a record can be written to the path. `flag` is the one that names the file;
    /// `now` forms the name if the user gave none.
    pub(crate) fn open(
        flag: &'static str,
        asked: Option<&OrNone<PathBuf>>,
        now: RecordDate,
    ) -> LabResult<Self> {
        let place = |kind| Self { flag, kind };
        let path = match asked {
            Some(OrNone::Nothing) => return Ok(place(DestinationKind::Nowhere)),
            Some(OrNone::This(path)) if path == Path::new("-") => {
                return Ok(place(DestinationKind::Output));
            }
            Some(OrNone::This(path)) => path.clone(),
            None => PathBuf::from(format!("lariat-load-{}.json", now.compact())),
        };
        match fs::metadata(&path) {
            Ok(facts) if facts.is_dir() => {
                return Err(refused(flag, &path, &io::ErrorKind::IsADirectory.into()));
            }
            Ok(facts) if !facts.is_file() => return Ok(place(DestinationKind::Device(path))),
            Ok(_) if !is_record(&path) => return Err(foreign(flag, &path)),
            _ => {}
        }
        let partial = PartialFile::look(&path, asked.is_none());
        Ok(place(DestinationKind::File(partial.map_err(|error| refused(flag, &path, &error))?)))
    }

    pub(crate) fn write(self, record: &str) -> LabResult<Option<PathBuf>> {
        let (path, written) = match self.kind {
            DestinationKind::Nowhere => return Ok(None),
            DestinationKind::Output => {
                ("-".into(), writeln!(io::stdout(), "{record}").map(|()| None))
            }
            DestinationKind::Device(path) => {
                let written = fs::write(&path, format!("{record}\n"));
                (path, written.map(|()| None))
            }
            DestinationKind::File(partial) => {
                let written = partial.write(record);
                (partial.path, written.map(Some))
            }
        };
        written.map_err(|error| refused(self.flag, &path, &error).with(Exit::Failed))
    }

    /// Reports whether the record goes to the standard output.
    pub(crate) fn is_output(&self) -> bool {
        matches!(self.kind, DestinationKind::Output)
    }
}

/// Reports whether the file is a record, by its first bytes, or empty.
fn is_record(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    let head = String::from_utf8_lossy(&head).replace(char::is_whitespace, "");
    read.is_ok() && (head.is_empty() || head.starts_with("{\"format\":"))
}

impl PartialFile {
    /// Checks that the file can be created, and leaves nothing behind.
    fn look(path: &Path, gives_way: bool) -> io::Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let partial = PathBuf::from(name);
        File::create(&partial)?;
        fs::remove_file(&partial)?;
        Ok(Self { path: path.to_path_buf(), partial, gives_way })
    }

    fn write(&self, record: &str) -> io::Result<PathBuf> {
        let written = fs::write(&self.partial, format!("{record}\n"))
            .and_then(|()| self.name())
            .and_then(|path| fs::rename(&self.partial, &path).map(|()| path));
        written.inspect_err(|_| {
            // The file may not even have been created; a partial one is no record.
            let _ = fs::remove_file(&self.partial);
        })
    }

    /// Returns the final name.
    fn name(&self) -> io::Result<PathBuf> {
        if !self.gives_way {
            return Ok(self.path.clone());
        }
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let others = (2..).map(|number| self.path.with_file_name(format!("{stem}-{number}.json")));
        let paths = std::iter::once(self.path.clone()).chain(others);
        first_free(paths, |path| File::create_new(path)).map(|(path, _)| path)
    }
}

/// A date in seconds since 1970.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RecordDate(u64);

impl RecordDate {
    /// Converts a time; one before 1970 becomes 1970.
    pub(crate) fn of(time: SystemTime) -> Self {
        Self(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }

    /// Formats the date as `20261121-233245`, for file names.
    pub(crate) fn compact(self) -> String {
        self.to_string().replace(['-', ':', 'Z'], "").replace('T', "-")
    }
}

/// Formats the date as in RFC 3339.
impl fmt::Display for RecordDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0 / 86_400);
        let (hour, minute, second) = (self.0 / 3600 % 24, self.0 / 60 % 60, self.0 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

#[derive(Debug)]
pub(crate) struct HdrFile {
    file: File,
    path: String,
    /// Number of seconds written.
    seconds: u64,
}

impl HdrFile {
    /// Creates or replaces the log; fails if the file holds something else.
    pub(crate) fn create(path: &str, about: &str, started: SystemTime) -> LabResult<Self> {
        let failed = |error| log_refused(path, &error);
        if is_foreign(Path::new(path)).map_err(failed)? {
            let message = format!("{path} is there, and is no log of histograms");
            return Err(LabFault::new(message, "--hdr names another file"));
        }
        let mut file = File::create(path).map_err(failed)?;
        let started = started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let head = histogram::head(started, &about.replace('\n', " "));
        file.write_all(head.as_bytes()).map_err(failed)?;
        Ok(Self { file, path: path.to_owned(), seconds: 0 })
    }

    /// Appends the next second.
    pub(crate) fn add(&mut self, total: &Histogram) -> LabResult<()> {
        let at = Duration::from_secs(self.seconds);
        self.seconds += 1;
        let line = histogram::line(total, at, Duration::from_secs(1));
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|error| log_refused(&self.path, &error).with(Exit::Failed))
    }
}

/// Enough for the first lines of our log, the first of which has the command.
const HEAD_BYTES: u64 = 64 << 10;

/// Reports whether the path holds a file that the log must not replace.
fn is_foreign(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(facts) if facts.is_file() => {
            let mut head = Vec::new();
            File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
            let says = |line: &[u8]| line.starts_with(b"#[Histogram log format version");
            Ok(!head.is_empty() && !head.split(|byte| *byte == b'\n').take(3).any(says))
        }
        _ => Ok(false),
    }
}

fn log_refused(path: &str, error: &io::Error) -> LabFault {
    let message = format!("the log of histograms cannot be written to {path}: {error}");
    LabFault::new(message, "--hdr names a file in a folder that we may write to, with room")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    struct TestFolder(PathBuf);

    impl TestFolder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("lariat-lab-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn open(&self, name: &str) -> LabResult<Destination> {
            let path = OrNone::This(self.0.join(name));
            Destination::open("record", Some(&path), RecordDate::of(UNIX_EPOCH))
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
        }
    }

    impl Drop for TestFolder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_record_is_there_whole_or_not_at_all() {
        let folder = TestFolder::new("whole");
        let destination = folder.open("a.json").unwrap();
        assert!(folder.names().is_empty());
        let path = destination.write("{\"format\":1}").unwrap();
        assert_eq!(fs::read_to_string(path.unwrap()).unwrap(), "{\"format\":1}\n");
        assert_eq!(folder.names(), ["a.json"]);
        folder.open("a.json").unwrap().write("{\"format\": 1}").unwrap();
    }

    #[test]
    fn known_moments() {
        let date = |second| RecordDate::of(UNIX_EPOCH + Duration::from_secs(second));
        assert_eq!(date(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_399).to_string(), "2000-02-28T23:59:59Z");
        assert_eq!(date(1_795_303_965).to_string(), "2026-11-21T23:32:45Z");
        assert_eq!(date(1_795_303_965).compact(), "20261121-233245");
    }
}
