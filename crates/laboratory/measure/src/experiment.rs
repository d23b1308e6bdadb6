//! The record of an experiment: what the laboratory asked, of whom, and what it read.
//!
//! A file of lines, each a JSON document of its own ([`Event`]), written as things happen: a run
//! that was stopped or killed has lost nothing but the line under way, and is taken up where the
//! file ends. The first line is [`Event::Began`]. Times on the clock are UTC (RFC 3339),
//! durations nanoseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::capacity::ReadOffs;
use crate::host::HostReport;
use crate::record::{Counts, Handshakes, Second, Step, Tool, Traffic, Warning};

/// The form that this build writes. It rises when a field changes its meaning or goes.
pub const FORMAT: u32 = 2;

/// A line.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The first line: all that was planned.
    Began(Box<Plan>),
    /// The run was taken up again after it had been stopped.
    Resumed(Moment),
    /// A cell was read once.
    Read(Box<Reading>),
    /// A cell could not be read, or what was read is void.
    Missed(Miss),
    /// It came to its end.
    Ended(Ended),
}

/// A moment.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// RFC 3339, UTC.
    pub at: String,
    /// The command line that was typed then.
    pub command: Vec<String>,
}

/// How a run came to its end.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// RFC 3339, UTC.
    pub at: String,
    /// Whether all was done; else a signal stopped it, and it can be taken up again.
    pub is_complete: bool,
}

/// All that was planned.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`FORMAT`] of who wrote it.
    pub format: u32,
    /// What measured.
    pub tool: Tool,
    /// The command line that repeats it, a word an entry.
    pub command: Vec<String>,
    /// When it began.
    pub started: String,
    /// `quick` or `full`, or `own` where times or repeats were given.
    pub mode: String,
    /// Decides the order of cells.
    pub seed: u64,
    /// What it ran on.
    pub host: HostReport,
    /// Who ran where.
    pub placement: Placement,
    /// Who was tested, in the order of tables; the first is the one that others are compared with.
    pub targets: Vec<Target>,
    /// What was asked.
    pub scenarios: Vec<Scenario>,
}

/// Who ran where.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// CPUs of the server, in the order in which they are taken.
    pub server: Vec<u16>,
    /// CPUs of what makes the load, and of the origin behind the server.
    pub client: Vec<u16>,
}

/// A program under test.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The name of its folder; in tables and flags.
    pub name: String,
    /// What it is, in a line.
    pub title: String,
    /// The file that ran, by its last name; empty where it could not be found.
    pub program: String,
    /// What it says about its version and its TLS library; empty where it could not be asked.
    pub version: Vec<String>,
    /// Where it came from: `package NAME` or `given`.
    pub from: String,
    /// Why it takes no part, if it cannot.
    pub missing: Option<String>,
    /// Who answers requests: `origin` behind it, or `itself`. Those who do other work than the
    /// first are no rivals of it.
    #[serde(default = "origin")]
    pub serves: String,
    /// What its clients speak: `https` or `http`.
    #[serde(default = "https")]
    pub scheme: String,
}

fn origin() -> String {
    "origin".to_owned()
}

fn https() -> String {
    "https".to_owned()
}

/// A question.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The name of its file; in flags.
    pub name: String,
    /// What it asks, as a sentence.
    pub question: String,
    /// What it does, in a few sentences.
    pub method: String,
    /// Whose table it repeats.
    pub sources: Vec<Source>,
    /// What of the source is left out, and why.
    pub left_out: Vec<LeftOut>,
    /// What was varied, targets apart, in the order of tables.
    pub factors: Vec<Factor>,
    /// What is told of each cell, in this order; the first is the main one.
    pub figures: Vec<Figure>,
    /// What the server's CPU time is divided by, in plural: `handshakes`, `requests`.
    pub operation: String,
    /// The figures of the source, as it printed them.
    pub published: Vec<Published>,
    /// How often each cell is to be read.
    pub repeats: u32,
    /// What is to be read.
    pub cells: Vec<Cell>,
}

/// Where a question comes from.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Author, title, year.
    pub title: String,
    /// The table of it that is repeated, in words.
    pub table: String,
}

/// What is not repeated.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// For example `RC4`.
    pub what: String,
    /// For example `prohibited by RFC 7465`.
    pub why: String,
}

/// What was varied.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// In flags and keys of cells.
    pub name: String,
    /// At the head of tables.
    pub title: String,
    /// Its values, in the order of tables.
    pub levels: Vec<Level>,
}

/// A value of a factor.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// In flags and keys of cells.
    pub name: String,
    /// In tables.
    pub title: String,
    /// Where it lies on an axis; none for levels that are no numbers. Bytes, requests, multiples.
    pub value: Option<f64>,
}

/// What can be told of a cell.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// CPU time of the server an operation, in nanoseconds. Less is better.
    ServerCpu,
    /// Operations a second. More is better.
    Rate,
    /// Bytes of bodies, a second. More is better.
    Bandwidth,
    /// CPU time of the server a GiB of bodies, in nanoseconds. Less is better.
    ServerCpuPerGib,
    /// Mean response time, in nanoseconds. Less is better.
    MeanResponse,
    /// Its 99th percentile, in nanoseconds. Less is better.
    P99Response,
    /// Failed transactions to attempted ones, 0 to 1. Less is better.
    Loss,
    /// Operations a second to what the server was measured to be capable of, 0 to 1. More is
    /// better.
    Goodput,
    /// Resident memory of the server an open connection, in bytes. Less is better.
    ConnectionMemory,
}

/// A table of a source.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What it says and when: `Bernat 2011, TPS with mean response below 100 ms`.
    pub title: String,
    /// The unit of its figures.
    pub unit: String,
    /// Heads of columns; the first is that of the rows' names.
    pub columns: Vec<String>,
    /// Rows, as text, each as long as the columns. `-` is no figure.
    pub rows: Vec<Vec<String>>,
    /// What to know when comparing.
    pub note: Option<String>,
}

/// A target under one choice of levels.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// `target=lariat suite=aes-128`: names it in events and flags.
    pub key: String,
    /// The target's name.
    pub target: String,
    /// The level of each factor.
    pub levels: BTreeMap<String, String>,
    /// The command line that loads a server like that, with ADDRESS where it listens.
    pub command: Vec<String>,
    /// Why it is not tried, if the target cannot do it.
    pub cannot: Option<String>,
}

/// A cell, read once.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// The scenario's name.
    pub scenario: String,
    /// The cell's key.
    pub cell: String,
    /// From 0.
    pub repeat: u32,
    /// When it began.
    pub at: String,
    /// How long was measured: from the end of the warm-up until nothing is begun any more, and on
    /// until the last success.
    pub elapsed_ns: u64,
    /// What was offered a second, in open load at one rate.
    pub offered_per_s: Option<f64>,
    /// What the server was found to be capable of a second, where the load is a multiple of it.
    pub capacity_per_s: Option<f64>,
    /// Transactions.
    pub counts: Counts,
    /// Failed ones by reason.
    pub failures: BTreeMap<String, u64>,
    /// What the server did in that time, and its CPU time is divided by; see
    /// [`Scenario::operation`]. Of open load, these are also transactions of the warm-up that ended
    /// when it was over.
    pub operations: u64,
    /// CPU time of all processes of the server, from the end of the warm-up until they rest.
    pub server_cpu_ns: u64,
    /// CPU time of what made the load.
    pub client_cpu_ns: u64,
    /// CPU time of the origin behind the server; 0 where there is none.
    pub origin_cpu_ns: u64,
    /// Resident memory of all processes of the server before the load.
    pub resident_bytes_before: u64,
    /// The same near the end of the load, its connections still open.
    pub resident_bytes_under: u64,
    /// Connections that were open then.
    pub open_connections: u64,
    /// Response times of those that succeeded.
    pub response: Durations,
    /// Handshakes of those that had one.
    pub handshake: Durations,
    /// Bytes.
    pub traffic: Traffic,
    /// What was negotiated, warm-up included.
    pub handshakes: Vec<Handshakes>,
    /// Second by second, where the rate changes; else empty.
    pub seconds: Vec<Second>,
    /// Rate by rate, where there are several.
    pub steps: Vec<Step>,
    /// What can be read off them.
    pub read_offs: Option<ReadOffs>,
    /// What else happened on the machine meanwhile.
    pub noise: Noise,
    /// Why the figures may tell of the client instead of the server.
    pub warnings: Vec<Warning>,
}

/// What is told of many durations, in nanoseconds. All are 0 where there are none.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// The arithmetic mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th.
    pub p99_ns: u64,
    /// The 99.9th.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// What else happened on the machine while a cell was read.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// CPU time that went neither to the server nor the client nor the origin, to all CPU time
    /// that there was, 0 to 1.
    pub foreign: f64,
    /// CPU time that the hypervisor gave to others, to all there was, 0 to 1.
    pub stolen: f64,
    /// The share of the time that the server's CPUs were working for it, 0 to 1.
    pub server_busy: f64,
    /// The same of the busiest thread of the client.
    pub client_busy: f64,
    /// Whether server and client had to share CPUs.
    pub is_shared: bool,
}

/// A cell that has no reading.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Miss {
    /// The scenario's name.
    pub scenario: String,
    /// The cell's key.
    pub cell: String,
    /// From 0.
    pub repeat: u32,
    /// When.
    pub at: String,
    /// In what way.
    pub way: Way,
    /// Why, for people; with what the target said, if it did.
    pub why: String,
}

/// In what way a cell has no reading.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The target or this host cannot do what the cell asks.
    Cannot,
    /// The server did not start, or ended; or nothing succeeded.
    Failed,
    /// It was measured, but not what the cell says: another suite, kind, key.
    Void,
}

/// A whole file.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The first line.
    pub plan: Plan,
    /// All readings, in the order of the file.
    pub readings: Vec<Reading>,
    /// All misses.
    pub misses: Vec<Miss>,
    /// The last end that was written, if any.
    pub ended: Option<Ended>,
    /// Readings that stand there again, of the same repeat of the same cell: they do not count, as
    /// where a file was joined to itself.
    pub doubled: usize,
}

/// Why a file cannot be read as one.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentFault {
    /// Its first line is not that of an experiment.
    #[error("this is no record of an experiment: {0}")]
    Foreign(serde_json::Error),
    /// Another build wrote it.
    #[error("a record of format {0}; this build reads format {FORMAT}")]
    Format(u32),
    /// A line is not of its format. Lines count from 1.
    #[error("line {line} is damaged: {error}")]
    Damaged {
        /// Which.
        line: usize,
        /// What is wrong with it.
        error: serde_json::Error,
    },
}

/// What can be read of a first line of any format.
#[derive(Deserialize)]
struct Head {
    event: FirstEvent,
    format: u32,
}

/// The event that a file must begin with.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FirstEvent {
    Began,
}

impl Event {
    /// The line, without its end.
    #[must_use]
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("maps with names as keys, and no NaN is an error")
    }
}

impl Experiment {
    /// Reads a file. A last line without an end was under way when the run was killed, and is
    /// passed over.
    ///
    /// # Errors
    /// [`ExperimentFault`].
    pub fn parse(text: &str) -> Result<Self, ExperimentFault> {
        let whole = text.rfind('\n').map_or(text, |end| &text[..end]);
        let mut lines = whole.lines().enumerate();
        let first = lines.next().map_or("", |(_, line)| line);
        let head: Head = serde_json::from_str(first).map_err(ExperimentFault::Foreign)?;
        let FirstEvent::Began = head.event;
        if head.format != FORMAT {
            return Err(ExperimentFault::Format(head.format));
        }
        let damaged = |index: usize| {
            move |error| ExperimentFault::Damaged {
                line: index + 1,
                error,
            }
        };
        let Event::Began(plan) = serde_json::from_str(first).map_err(damaged(0))? else {
            unreachable!("the head says that it is the beginning");
        };
        let mut experiment = Self {
            plan: *plan,
            readings: Vec::new(),
            misses: Vec::new(),
            ended: None,
            doubled: 0,
        };
        for (index, line) in lines {
            experiment.take(serde_json::from_str(line).map_err(damaged(index))?);
        }
        Ok(experiment)
    }

    /// Adds what happened next. A second beginning changes nothing; nor does a repeat of a cell
    /// that was read already. One that was missed may be read, or missed again, later.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Read(reading) => {
                let key = (&reading.scenario, &reading.cell, reading.repeat);
                if self.is_read(key) {
                    self.doubled += 1;
                    return;
                }
                self.misses.retain(|miss| miss_key(miss) != key);
                self.readings.push(*reading);
            }
            Event::Missed(miss) => {
                let key = miss_key(&miss);
                if !self.is_read(key) {
                    self.misses.retain(|other| miss_key(other) != key);
                    self.misses.push(miss);
                }
            }
            Event::Ended(ended) => self.ended = Some(ended),
            Event::Resumed(_) => self.ended = None,
            Event::Began(_) => {}
        }
    }

    fn is_read(&self, key: (&String, &String, u32)) -> bool {
        let mut keys = self.readings.iter().rev();
        keys.any(|it| (&it.scenario, &it.cell, it.repeat) == key)
    }

    /// The readings of a cell, by repeat.
    pub fn readings_of<'e>(
        &'e self,
        scenario: &'e str,
        cell: &'e str,
    ) -> impl Iterator<Item = &'e Reading> {
        let is_of = move |reading: &&Reading| reading.scenario == scenario && reading.cell == cell;
        self.readings.iter().filter(is_of)
    }
}

fn miss_key(miss: &Miss) -> (&String, &String, u32) {
    (&miss.scenario, &miss.cell, miss.repeat)
}

impl Figure {
    /// Of a reading; `None` where it has nothing to tell.
    #[must_use]
    pub fn of(self, reading: &Reading) -> Option<f64> {
        let ratio = |above: f64, below: f64| (below > 0.0).then(|| above / below);
        let seconds = reading.elapsed_ns as f64 / 1e9;
        let operations = reading.operations as f64;
        let some = |value: u64| (reading.response.count > 0).then_some(value as f64);
        match self {
            Self::ServerCpu => ratio(reading.server_cpu_ns as f64, operations),
            Self::Rate => ratio(operations, seconds),
            Self::Bandwidth => ratio(reading.traffic.body_bytes as f64, seconds),
            Self::ServerCpuPerGib => {
                let gib = reading.traffic.body_bytes as f64 / f64::from(1 << 30);
                ratio(reading.server_cpu_ns as f64, gib)
            }
            Self::MeanResponse => some(reading.response.mean_ns),
            Self::P99Response => some(reading.response.p99_ns),
            Self::Loss => ratio(
                reading.counts.failed as f64,
                reading.counts.attempted as f64,
            ),
            Self::Goodput => {
                ratio(operations, seconds).and_then(|rate| ratio(rate, reading.capacity_per_s?))
            }
            Self::ConnectionMemory => {
                let more = reading
                    .resident_bytes_under
                    .saturating_sub(reading.resident_bytes_before);
                ratio(more as f64, reading.open_connections as f64)
            }
        }
    }

    /// Whether a smaller figure is the better one.
    #[must_use]
    pub fn is_cost(self) -> bool {
        !matches!(self, Self::Rate | Self::Bandwidth | Self::Goodput)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Event {
        Event::Began(Box::new(Plan {
            format: FORMAT,
            tool: Tool {
                name: "lariat-lab".to_owned(),
                version: "1".to_owned(),
                tls: String::new(),
            },
            command: vec!["lariat-lab".to_owned(), "run".to_owned()],
            started: "2026-01-02T03:04:05Z".to_owned(),
            mode: "quick".to_owned(),
            seed: 1,
            host: HostReport::default(),
            placement: Placement::default(),
            targets: Vec::new(),
            scenarios: Vec::new(),
        }))
    }

    fn ended(is_complete: bool) -> Event {
        Event::Ended(Ended {
            at: String::new(),
            is_complete,
        })
    }

    fn miss() -> Event {
        Event::Missed(Miss {
            scenario: "keys".to_owned(),
            cell: "target=lariat".to_owned(),
            repeat: 0,
            at: String::new(),
            way: Way::Void,
            why: "another suite".to_owned(),
        })
    }

    fn text(events: &[Event]) -> String {
        events.iter().map(|event| event.to_line() + "\n").collect()
    }

    #[test]
    fn a_file_is_read_back() {
        let moment = Event::Resumed(Moment {
            at: String::new(),
            command: Vec::new(),
        });
        let events = [plan(), ended(false), moment, miss(), ended(true)];
        let read = Experiment::parse(&text(&events)).unwrap();
        assert_eq!(Event::Began(Box::new(read.plan)), plan());
        assert_eq!(read.misses.len(), 1);
        assert!(read.ended.unwrap().is_complete);
    }

    #[test]
    fn a_repeat_that_is_missed_again_is_missed_once() {
        let read = Experiment::parse(&text(&[plan(), miss(), plan(), miss()])).unwrap();
        assert_eq!((read.misses.len(), read.doubled), (1, 0));
    }

    #[test]
    fn a_line_that_was_under_way_is_passed_over() {
        let mut torn = text(&[plan(), miss(), miss()]);
        torn.truncate(torn.len() - 5);
        let read = Experiment::parse(&torn).unwrap();
        assert_eq!(read.misses.len(), 1);
        assert_eq!(read.ended, None);
    }

    #[test]
    fn what_is_none_is_told_apart() {
        let fault = |text: &str| Experiment::parse(text).unwrap_err();
        assert!(matches!(fault(""), ExperimentFault::Foreign(_)));
        assert!(matches!(fault("{}\n"), ExperimentFault::Foreign(_)));
        let old = "{\"event\":\"began\",\"format\":0}\n";
        assert!(matches!(fault(old), ExperimentFault::Format(0)));
        let damaged = text(&[plan()]) + "{\"event\":\"read\"}\n";
        let ExperimentFault::Damaged { line, .. } = fault(&damaged) else {
            panic!("damage is told");
        };
        assert_eq!(line, 2);
    }
}
