//! Writes the record of a run to disk, event by event, and its progress to the terminal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use measure::experiment::{Experiment, Measurement, RunEvent};
use measure::metric::{Metric, MetricUnit};
use measure::quantity::ByteCount;
use measure::record::LoadRecordFault;

use super::measurement::verdict::MeasurementFailure;
use super::scenario::settings::PlannedConfiguration;
use crate::console::Console;
use crate::fault::{LabFault, LabResult};
use crate::load::destination::RecordDate;
use crate::pages::{RECORD_BYTES_MAX, tame};
use crate::process::scratch::first_free;

/// An open record, locked against other runs.
#[derive(Debug)]
pub(crate) struct RunJournal {
    file: File,
    path: PathBuf,
}

impl RunJournal {
    /// Creates a record at the path, or else in the working directory under a free name.
    pub(crate) fn create(path: Option<&Path>, now: RecordDate) -> LabResult<Self> {
        let create = |path: &Path| OpenOptions::new().append(true).create_new(true).open(path);
        let stem = format!("lariat-run-{}", now.compact());
        let own = PathBuf::from(format!("{stem}.jsonl"));
        let others = (2..).map(|number| format!("{stem}-{number}.jsonl").into());
        let created = match path {
            Some(path) => first_free([path.to_owned()], create),
            None => first_free(std::iter::once(own.clone()).chain(others), create),
        };
        let (path, file) = created.map_err(|error| match (path, error.kind()) {
            (Some(path), io::ErrorKind::AlreadyExists) => taken(path),
            (path, _) => refused(path.unwrap_or(&own), &error),
        })?;
        locked(file, path)
    }

    /// Opens a record to continue it, and returns its contents. Removes an unfinished line.
    pub(crate) fn resume(path: &Path) -> LabResult<(Experiment, Self)> {
        let shown = path.display();
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => LabFault::new(
                format_args!("there is no record {shown}"),
                "--resume names the record of a run that was stopped",
            ),
            _ => refused(path, &error),
        };
        let file = OpenOptions::new().read(true).append(true).open(path);
        let mut journal = locked(file.map_err(refused)?, path.to_owned())?;
        let (experiment, whole) = read(path, &journal.file)?;
        journal.file.set_len(whole).map_err(refused)?;
        journal.file.seek(SeekFrom::End(0)).map_err(refused)?;
        Ok((experiment, journal))
    }

    /// Appends a line. If that fails half-way, removes the half, and the file if it is empty then.
    ///
    /// # Errors
    /// Fails if the kernel refuses it: a full disk, for one.
    pub(crate) fn append(&mut self, event: &RunEvent) -> LabResult<()> {
        let before = self.file.metadata().map(|facts| facts.len());
        let written = self.file.write_all(format!("{}\n", event.to_line()).as_bytes());
        written.map_err(|error| {
            // A full disk refuses more bytes, but not a truncation.
            let _ = match before {
                Ok(0) => fs::remove_file(&self.path),
                Ok(length) => self.file.set_len(length),
                Err(_) => Ok(()),
            };
            refused(&self.path, &error)
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads the whole lines of a record, and returns its length in bytes, too.
///
/// # Errors
/// Fails if the file is no record, or is larger than [`RECORD_BYTES_MAX`].
pub(crate) fn read(path: &Path, file: &File) -> LabResult<(Experiment, u64)> {
    let too_large = || {
        let message = format!("{} is larger than {}", path.display(), ByteCount(RECORD_BYTES_MAX));
        LabFault::new(message, "name a record that `lariat-lab run` has begun")
    };
    if file.metadata().is_ok_and(|facts| facts.len() > RECORD_BYTES_MAX) {
        return Err(too_large());
    }
    let mut source = BufReader::new(file.take(RECORD_BYTES_MAX));
    let mut experiment = None::<Experiment>;
    let (mut line, mut whole) = (Vec::new(), 0);
    for number in 1.. {
        line.clear();
        source.read_until(b'\n', &mut line).map_err(|error| refused(path, &error))?;
        if !line.ends_with(b"\n") {
            break;
        }
        whole += line.len() as u64;
        let added = match &mut experiment {
            Some(begun) => begun.add_line(number, &line),
            None => Experiment::begun(&line).map(|begun| experiment = Some(begun)),
        };
        added.map_err(|fault| unread(path, &fault))?;
    }
    // A device has no length.
    if source.get_ref().limit() == 0 {
        return Err(too_large());
    }
    match experiment {
        Some(experiment) => Ok((experiment, whole)),
        None => Experiment::begun(&line).map_err(|fault| unread(path, &fault)).and_then(|_| {
            let message = format!("{}: its first line was cut off", path.display());
            Err(LabFault::new(message, "begin anew: nothing was measured"))
        }),
    }
}

fn unread(path: &Path, fault: &LoadRecordFault) -> LabFault {
    let hint = match fault {
        LoadRecordFault::Foreign(_) => "name a record that `lariat-lab run` has begun",
        LoadRecordFault::Format(_) => "take it up with the build that began it, or begin anew",
        LoadRecordFault::Damaged(_) | LoadRecordFault::DamagedLine(..) => {
            "take away the damaged line, or begin anew"
        }
    };
    LabFault::new(format_args!("{}: {}", path.display(), tame(&fault.to_string())), hint)
}

fn locked(file: File, path: PathBuf) -> LabResult<RunJournal> {
    match sys::file::lock(&file) {
        Ok(true) => Ok(RunJournal { file, path }),
        Ok(false) => Err(LabFault::new(
            format_args!("another run writes to {}", path.display()),
            "wait until it has ended, or begin a record of your own",
        )),
        Err(error) => Err(refused(&path, &error)),
    }
}

fn taken(path: &Path) -> LabFault {
    let path = path.display();
    LabFault::new(
        format_args!("{path} is there already"),
        format_args!(
            "--resume {path} takes it up, if it is a record of a run; else --record names another \
             file"
        ),
    )
}

fn refused(path: &Path, error: &io::Error) -> LabFault {
    let message = format!("{}: {error}", path.display());
    LabFault::failed(message, "--record names a file in a folder with room that we may write to")
}

/// Progress of a run.
#[derive(Debug)]
pub(crate) struct RunProgress {
    console: Console,
    is_quiet: bool,
    total: usize,
    done: usize,
    /// Planned time of the remaining measurements.
    left: Duration,
    /// Planned time of completed measurements, and the instant at which they began.
    planned: Duration,
    begun: Instant,
}

impl RunProgress {
    /// Starts a run with `total` measurements to make, which are planned to take `left`.
    pub(crate) fn new(console: Console, is_quiet: bool, total: usize, left: Duration) -> Self {
        Self {
            console,
            is_quiet,
            total,
            done: 0,
            left,
            planned: Duration::ZERO,
            begun: Instant::now(),
        }
    }

    pub(crate) fn measured(
        &mut self,
        planned: &PlannedConfiguration,
        metrics: &[Metric],
        measurement: &Measurement,
    ) {
        self.step(planned);
        if !self.is_quiet {
            let values = metrics.iter().take(2).filter_map(|metric| value(*metric, measurement));
            self.say(planned, &values.collect::<Vec<_>>().join(", "));
        }
    }

    /// Reports a failure, even in quiet mode.
    pub(crate) fn failed(&mut self, planned: &PlannedConfiguration, failure: &MeasurementFailure) {
        self.step(planned);
        let kind = match failure {
            MeasurementFailure::Void(_) => "void",
            _ => "failed",
        };
        self.say(planned, &format!("{kind}: {}", failure.why()));
    }

    fn step(&mut self, planned: &PlannedConfiguration) {
        self.done += 1;
        // Only the least number of rounds was counted if there is a rule.
        self.total = self.total.max(self.done);
        self.left = self.left.saturating_sub(planned.estimate());
        self.planned += planned.estimate();
    }

    fn say(&self, planned: &PlannedConfiguration, what: &str) {
        let width = self.total.to_string().len();
        let key = planned.configuration.key.trim_start_matches("target=");
        let left = self.time_left();
        self.console.say(format_args!(
            "[{:>width$}/{}, {left}] {}: {key}: {what}",
            self.done, self.total, planned.scenario
        ));
    }

    /// Estimates the time left: planned time, scaled by the slowdown so far.
    fn time_left(&self) -> String {
        let mut left = self.left;
        if !self.planned.is_zero() {
            let factor = self.begun.elapsed().as_secs_f64() / self.planned.as_secs_f64();
            left = left.mul_f64(factor.clamp(0.1, 10.0));
        }
        match left.as_secs() {
            0 => "done".to_owned(),
            _ => format!("{} left", minutes(left)),
        }
    }
}

pub(crate) fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..=90 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

fn value(metric: Metric, measurement: &Measurement) -> Option<String> {
    let value = metric.fitted(metric.of(measurement)?);
    let is_rate = metric.unit() == MetricUnit::PerSecond;
    let unit = if is_rate { "/s" } else { "" };
    Some(format!("{} {value}{unit}", metric.head()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_fits() {
        for (seconds, text) in [(0, "0 s"), (90, "90 s"), (91, "2 min"), (3599, "60 min")] {
            assert_eq!(minutes(Duration::from_secs(seconds)), text);
        }
    }
}
