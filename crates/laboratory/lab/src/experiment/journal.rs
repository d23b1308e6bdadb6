//! The record of a run as a file that grows by whole lines.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use measure::experiment::{Event, Experiment};
use measure::record::RecordFault;

use crate::load::date::Date;

/// An open record, which no other run writes meanwhile.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalFault {
    #[error("{} is there already", .0.display())]
    Taken(PathBuf),
    #[error("there is no record {}", .0.display())]
    Absent(PathBuf),
    #[error("another run writes to {}", .0.display())]
    Busy(PathBuf),
    #[error("{}: {error}", path.display())]
    Refused { path: PathBuf, error: io::Error },
    #[error("{}: {fault}", path.display())]
    Unreadable { path: PathBuf, fault: RecordFault },
}

impl Journal {
    /// Creates one: there, or, if no path was given, in the working directory under a free name.
    pub(crate) fn create(path: Option<&Path>, now: Date) -> Result<Self, JournalFault> {
        if let Some(path) = path {
            return Self::create_at(path.to_owned());
        }
        let stem = format!("lariat-run-{}", now.compact());
        for number in 2_u32.. {
            let path = match number {
                2 => PathBuf::from(format!("{stem}.jsonl")),
                _ => PathBuf::from(format!("{stem}-{}.jsonl", number - 1)),
            };
            match Self::create_at(path) {
                Err(JournalFault::Taken(_)) => {}
                made => return made,
            }
        }
        Err(JournalFault::Taken(stem.into()))
    }

    fn create_at(path: PathBuf) -> Result<Self, JournalFault> {
        let made = OpenOptions::new().append(true).create_new(true).open(&path);
        match made {
            Ok(file) => locked(file, path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(JournalFault::Taken(path))
            }
            Err(error) => Err(JournalFault::Refused { path, error }),
        }
    }

    /// Opens one to go on with it, and returns what it holds. An unfinished line is removed.
    pub(crate) fn resume(path: &Path) -> Result<(Experiment, Self), JournalFault> {
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => JournalFault::Absent(path.to_owned()),
            _ => JournalFault::Refused {
                path: path.to_owned(),
                error,
            },
        };
        let file = OpenOptions::new().read(true).append(true).open(path);
        let mut journal = locked(file.map_err(refused)?, path.to_owned())?;
        let text = io::read_to_string(&journal.file).map_err(refused)?;
        let experiment = Experiment::parse(&text).map_err(|fault| JournalFault::Unreadable {
            path: path.to_owned(),
            fault,
        })?;
        let whole = text.rfind('\n').map_or(0, |end| end as u64 + 1);
        journal.file.set_len(whole).map_err(refused)?;
        journal.file.seek(SeekFrom::End(0)).map_err(refused)?;
        Ok((experiment, journal))
    }

    /// Adds a line. If that fails half-way, the half is removed, and the file if it is empty then.
    ///
    /// # Errors
    /// [`JournalFault::Refused`]: a full disk, for one.
    pub(crate) fn append(&mut self, event: &Event) -> Result<(), JournalFault> {
        let before = self.file.metadata().map(|facts| facts.len());
        let written = self
            .file
            .write_all(format!("{}\n", event.to_line()).as_bytes());
        written.map_err(|error| {
            // It was refused room; giving some back is not.
            let _ = match before {
                Ok(0) => fs::remove_file(&self.path),
                Ok(length) => self.file.set_len(length),
                Err(_) => Ok(()),
            };
            JournalFault::Refused {
                path: self.path.clone(),
                error,
            }
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn locked(file: File, path: PathBuf) -> Result<Journal, JournalFault> {
    match sys::file::lock(&file) {
        Ok(true) => Ok(Journal { file, path }),
        Ok(false) => Err(JournalFault::Busy(path)),
        Err(error) => Err(JournalFault::Refused { path, error }),
    }
}

impl JournalFault {
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Taken(path) => format!(
                "--resume {} takes it up, if it is a record of a run; else --record names another \
                 file",
                path.display()
            ),
            Self::Absent(_) => "--resume names the record of a run that was stopped".to_owned(),
            Self::Busy(_) => "wait until it has ended, or begin a record of your own".to_owned(),
            Self::Refused { .. } => {
                "--record names a file in a folder with room that we may write to".to_owned()
            }
            Self::Unreadable { fault, .. } => match fault {
                RecordFault::Foreign(_) => {
                    "--resume names a record that `lariat-lab run` has begun".to_owned()
                }
                RecordFault::Format(_) => {
                    "take it up with the build that began it, or begin anew".to_owned()
                }
                RecordFault::Damaged(_) | RecordFault::DamagedLine(..) => {
                    "take away the damaged line, or begin anew".to_owned()
                }
            },
        }
    }
}
