//! The file of `--hdr`: a line per second, as the tools of HdrHistogram read them.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use measure::hdr_log;
use measure::histogram::Histogram;

use crate::exit::Exit;
use crate::fault::{LabFault, LabResult};

#[derive(Debug)]
pub(crate) struct HdrFile {
    file: File,
    path: String,
    /// Seconds that were written.
    seconds: u64,
}

impl HdrFile {
    /// Begins the file anew; one that holds something else stays as it is.
    pub(crate) fn create(path: &str, about: &str, started: SystemTime) -> LabResult<Self> {
        let failed = |error| refused(path, &error);
        if is_foreign(Path::new(path)).map_err(failed)? {
            let message = format!("{path} is there, and is no log of histograms");
            return Err(LabFault::new(message, "--hdr names another file"));
        }
        let mut file = File::create(path).map_err(failed)?;
        let started = started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let head = hdr_log::head(started, &about.replace('\n', " "));
        file.write_all(head.as_bytes()).map_err(failed)?;
        Ok(Self { file, path: path.to_owned(), seconds: 0 })
    }

    /// Adds the next second.
    pub(crate) fn add(&mut self, total: &Histogram) -> LabResult<()> {
        let at = Duration::from_secs(self.seconds);
        self.seconds += 1;
        let line = hdr_log::line(total, at, Duration::from_secs(1));
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|error| refused(&self.path, &error).with(Exit::Failed))
    }
}

/// Enough for the first lines of a log of ours, the first of which has the command.
const HEAD_BYTES: u64 = 64 << 10;

/// Whether a file is there that such a log must not replace.
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

fn refused(path: &str, error: &io::Error) -> LabFault {
    let message = format!("the log of histograms cannot be written to {path}: {error}");
    LabFault::new(message, "--hdr names a file in a folder that we may write to, with room")
}
