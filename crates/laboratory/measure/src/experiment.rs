//! Defines the record of an experiment: what was planned, and what was measured.
//!
//! The file has lines, each a JSON document of its own ([`RunEvent`]), written as things happen: a
//! run that was stopped or killed loses only the unfinished line, and is resumed where the file
//! ends. The first line is [`RunEvent::Began`]. Times on the clock are UTC (RFC 3339), durations
//! nanoseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::choice::named;
use crate::measurement::RepeatKey;
pub use crate::measurement::{DurationSummary, Measurement, MeasurementNoise, Reload};
use crate::metric::Metric;
use crate::quantity;
use crate::record::{HostReport, LoadRecordFault, RecordingTool};
use crate::until::StoppingRule;

/// Version of the format that this build writes. It rises when a field changes its meaning or goes.
pub const FORMAT: u32 = 3;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum RunEvent {
    /// The first line: the whole plan.
    Began(Box<ExperimentPlan>),
    /// The run was resumed after it had been stopped.
    Resumed(RunMoment),
    Measured(Box<Measurement>),
    /// A configuration could not be measured, or its measurement is void.
    Failed(FailedRepeat),
    Ended(RunEnd),
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RunMoment {
    /// RFC 3339, UTC.
    pub at: String,
    /// Command line of the resumed run.
    pub command: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    /// RFC 3339, UTC.
    pub at: String,
    /// Whether all was done; otherwise a signal stopped it, and it can be resumed.
    pub is_complete: bool,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentPlan {
    pub format: u32,
    pub tool: RecordingTool,
    /// Command line that repeats it, a word an entry.
    pub command: Vec<String>,
    pub started: String,
    /// `quick` or `full`, or `own` if times or repeats were given.
    pub mode: String,
    /// Seed of the order of configurations.
    pub seed: u64,
    pub host: HostReport,
    pub placement: Placement,
    /// Programs under test, in the order of tables; the others are compared with the first.
    pub targets: Vec<TargetDescription>,
    /// The scenarios, in the order of tables.
    pub scenarios: Vec<Scenario>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// CPUs of the server, in the order in which they are taken.
    pub server: Vec<u16>,
    /// CPUs of the load generator, and of the origin behind the server.
    pub client: Vec<u16>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TargetDescription {
    /// Name of the target's folder, used in tables and flags.
    pub name: String,
    pub title: String,
    /// Last component of the program's path; empty if it was not found.
    pub program: String,
    /// The program's words about its version and TLS library; empty if it could not be run.
    pub version: Vec<String>,
    /// Origin of the program: `package NAME` or `given`.
    pub from: String,
    /// Reason why the target takes no part, if it cannot.
    pub missing: Option<String>,
    /// The server that answers requests: `origin` behind the target, or `itself`. Targets that do
    /// other work than the first are not ranked against it.
    #[serde(default = "origin")]
    pub serves: String,
    /// Protocol of the target's clients: `https` or `http`.
    #[serde(default = "https")]
    pub scheme: String,
}

fn origin() -> String {
    "origin".to_owned()
}

fn https() -> String {
    "https".to_owned()
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the scenario's file, used in flags.
    pub name: String,
    pub question: String,
    pub method: String,
    /// Publications with the tables that the scenario repeats.
    pub sources: Vec<CitedSource>,
    /// Parts of the source that are left out, and why.
    pub omitted: Vec<LeftOutPart>,
    /// Factors that are varied besides the target, in the order of tables.
    pub factors: Vec<Factor>,
    /// Metrics that are reported for each configuration; the first is the main metric.
    pub metrics: Vec<Metric>,
    /// Operation by which the server's CPU time is divided, in plural: `handshakes`,
    /// `requests`.
    pub operation: String,
    /// Whether the client is part of the measured system: rates and response times are compared
    /// however busy the server is, and each target with the first, whatever work it does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end_to_end: bool,
    /// Metrics of the source, as it printed them.
    pub published: Vec<Published>,
    /// Number of measurements of each configuration; the minimum if there is a rule.
    pub repeats: u32,
    /// Rule that decides when to stop repeating, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<StoppingRule>,
    pub configurations: Vec<Configuration>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CitedSource {
    pub title: String,
    /// The repeated table of the publication, in words.
    pub table: String,
}

/// A part of a source that is not repeated.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOutPart {
    pub what: String,
    /// Reason, for example `prohibited by RFC 7465`.
    pub why: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    pub name: String,
    /// Heading in tables.
    pub title: String,
    pub values: Vec<RecordedValue>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedValue {
    pub name: String,
    pub title: String,
    /// Position on an axis (bytes, requests, multiples); `None` for values that are not numbers.
    pub number: Option<f64>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The claim and its date: `Bernat 2011, TPS with mean response below 100 ms`.
    pub title: String,
    /// Unit of its metrics.
    pub unit: String,
    /// Headings of columns; the first is that of the rows' names.
    pub columns: Vec<String>,
    /// Rows, as text, each as long as the columns. `-` means no figure.
    pub rows: Vec<Vec<String>>,
    pub note: Option<String>,
}

/// A target at one choice of values.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Key `target=lariat suite=aes-128`, which names it in events and flags.
    pub key: String,
    pub target: String,
    pub values: BTreeMap<String, String>,
    /// Command line that makes this load, with ADDRESS for the server's address.
    pub command: Vec<String>,
    /// Reason why it is not tried, if the target does not support it.
    pub unsupported: Option<String>,
}

/// A repeat of a configuration that has no measurement.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FailedRepeat {
    pub scenario: String,
    pub configuration: String,
    pub repeat: u32,
    pub at: String,
    pub kind: FailureKind,
    /// The reason, for people; with the target's own words, if there were any.
    pub why: String,
}

named! {
    /// The reason that a repeat has no measurement.
    FailureKind {
        /// The target or this host does not support it.
        Unsupported = "unsupported",
        /// The server did not start, or ended; or nothing succeeded.
        Failed = "failed",
        /// Something else than the configuration was measured: another suite, kind, key.
        Void = "void",
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    pub plan: ExperimentPlan,
    /// All measurements, in the order of the file.
    pub measurements: Vec<Measurement>,
    pub failures: Vec<FailedRepeat>,
    /// Last end that was written, if any.
    pub ended: Option<RunEnd>,
    /// Number of duplicate measurements, of the same repeat of the same configuration, as in a file
    /// that was joined to itself: they are ignored.
    pub duplicates: usize,
    /// Number of a last line that was cut off and is ignored.
    pub cut_line: Option<usize>,
}

/// The fields that the first line has in any format.
#[derive(Deserialize)]
struct FirstLine {
    event: FirstEvent,
    format: u32,
}

/// The event that a file must begin with.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FirstEvent {
    Began,
}

impl RunEvent {
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("maps with names as keys, and no NaN is an error")
    }
}

impl Experiment {
    /// Parses a file. A last line without an end was being written when the run was killed, or the
    /// file was cut: it is left out, and [`Self::cut_line`] names it.
    ///
    /// # Errors
    /// Fails with [`LoadRecordFault`].
    pub fn parse(text: &str) -> Result<Self, LoadRecordFault> {
        let (whole, rest) = text.rsplit_once('\n').unwrap_or((text, ""));
        let mut lines = whole.lines().map(str::as_bytes);
        let mut experiment = Self::begun(lines.next().unwrap_or_default())?;
        let mut number = 2;
        for line in lines {
            experiment.add_line(number, line)?;
            number += 1;
        }
        experiment.cut_line = (!rest.is_empty()).then_some(number);
        Ok(experiment)
    }

    /// Parses the first line of a file.
    ///
    /// # Errors
    /// Fails with [`LoadRecordFault`].
    pub fn begun(line: &[u8]) -> Result<Self, LoadRecordFault> {
        let head: FirstLine = serde_json::from_slice(line).map_err(LoadRecordFault::Foreign)?;
        let FirstEvent::Began = head.event;
        if head.format != FORMAT {
            return Err(LoadRecordFault::Format(head.format));
        }
        let RunEvent::Began(plan) = event(1, line)? else {
            unreachable!("the head says that it is the beginning");
        };
        Ok(Self {
            plan: *plan,
            measurements: Vec::new(),
            failures: Vec::new(),
            ended: None,
            duplicates: 0,
            cut_line: None,
        })
    }

    /// Parses another line; its number counts from 1.
    ///
    /// # Errors
    /// Fails with [`LoadRecordFault::DamagedLine`].
    pub fn add_line(&mut self, number: usize, line: &[u8]) -> Result<(), LoadRecordFault> {
        self.add(event(number, line)?);
        Ok(())
    }

    /// Adds the next event. Ignores a second beginning, and a repeat that was measured already. A
    /// repeat that failed may be measured, or fail again, later.
    pub fn add(&mut self, event: RunEvent) {
        match event {
            RunEvent::Measured(measurement) => {
                let key = measurement.key();
                if self.is_measured(key) {
                    self.duplicates += 1;
                    return;
                }
                self.failures.retain(|failure| failure.key() != key);
                self.measurements.push(*measurement);
            }
            RunEvent::Failed(failure) => {
                if !self.is_measured(failure.key()) {
                    self.failures.retain(|other| other.key() != failure.key());
                    self.failures.push(failure);
                }
            }
            RunEvent::Ended(ended) => self.ended = Some(ended),
            RunEvent::Resumed(_) => self.ended = None,
            RunEvent::Began(_) => {}
        }
    }

    fn is_measured(&self, key: RepeatKey<'_>) -> bool {
        self.measurements.iter().rev().any(|it| it.key() == key)
    }
}

fn event(number: usize, line: &[u8]) -> Result<RunEvent, LoadRecordFault> {
    let read = quantity::check(line).and_then(|()| serde_json::from_slice(line));
    read.map_err(|error| LoadRecordFault::DamagedLine(number, error))
}

impl FailedRepeat {
    fn key(&self) -> RepeatKey<'_> {
        (&self.scenario, &self.configuration, self.repeat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> RunEvent {
        RunEvent::Began(Box::new(ExperimentPlan {
            format: FORMAT,
            command: vec!["lariat-lab".to_owned(), "run".to_owned()],
            started: "2026-01-02T03:04:05Z".to_owned(),
            ..ExperimentPlan::default()
        }))
    }

    fn ended(is_complete: bool) -> RunEvent {
        RunEvent::Ended(RunEnd { at: String::new(), is_complete })
    }

    fn failure() -> RunEvent {
        RunEvent::Failed(FailedRepeat {
            scenario: "keys".to_owned(),
            configuration: "target=lariat".to_owned(),
            repeat: 0,
            at: String::new(),
            kind: FailureKind::Void,
            why: "another suite".to_owned(),
        })
    }

    fn text(events: &[RunEvent]) -> String {
        events.iter().map(|event| event.to_line() + "\n").collect()
    }

    #[test]
    fn a_file_is_read_back() {
        let moment = RunEvent::Resumed(RunMoment { at: String::new(), command: Vec::new() });
        let events = [plan(), ended(false), moment, failure(), ended(true)];
        let read = Experiment::parse(&text(&events)).unwrap();
        assert_eq!(RunEvent::Began(Box::new(read.plan)), plan());
        assert_eq!(read.failures.len(), 1);
        assert!(read.ended.unwrap().is_complete);
    }

    #[test]
    fn a_repeat_that_fails_again_counts_once() {
        let read = Experiment::parse(&text(&[plan(), failure(), plan(), failure()])).unwrap();
        assert_eq!((read.failures.len(), read.duplicates), (1, 0));
    }

    #[test]
    fn an_unfinished_line_is_left_out_and_named() {
        let mut torn = text(&[plan(), failure(), failure()]);
        torn.truncate(torn.len() - 5);
        let read = Experiment::parse(&torn).unwrap();
        assert_eq!((read.failures.len(), read.cut_line), (1, Some(3)));
        assert_eq!(read.ended, None);
        assert_eq!(Experiment::parse(&text(&[plan(), failure()])).unwrap().cut_line, None);
    }

    #[test]
    fn other_files_are_refused() {
        let fault = |text: &str| Experiment::parse(text).unwrap_err();
        assert!(matches!(fault(""), LoadRecordFault::Foreign(_)));
        assert!(matches!(fault("{}\n"), LoadRecordFault::Foreign(_)));
        let old = "{\"event\":\"began\",\"format\":0}\n";
        assert!(matches!(fault(old), LoadRecordFault::Format(0)));
        let damaged = text(&[plan()]) + "{\"event\":\"measured\"}\n";
        assert!(matches!(fault(&damaged), LoadRecordFault::DamagedLine(2, _)));
    }
}
