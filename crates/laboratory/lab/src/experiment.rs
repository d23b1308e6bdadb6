//! A run: cells in their order, each read and written down at once, whatever becomes of the others.
//!
//! Owns the order of things once all is prepared; what was asked for, `commands` finds out.

pub(crate) mod journal;
pub(crate) mod needs;
mod order;
pub(crate) mod placement;
mod progress;
pub(crate) mod resolved;
pub(crate) mod stop;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, SystemTime};

use measure::experiment::{self, Ended, Event, Failure, FailureKind};

use crate::console::Console;
use crate::load::date::Date;
use crate::measurement::missed::{Halt, Missed};
use crate::measurement::{Bench, Subject};
use crate::scenario::cell::CellPlan;
use crate::scenario::cells::Expanded;
use crate::target::certificates::Certificates;
use crate::target::form::Target;
use crate::target::program::Program;
use journal::{Journal, JournalFault};
use needs::Means;
use progress::Progress;
use resolved::ResolvedTarget;

/// A cell that failed so often in a row is given up.
const FAILURES_MAX: u32 = 2;

/// All that a run goes by.
pub(crate) struct Experiment<'a> {
    /// As the record begins.
    pub(crate) plan: &'a experiment::Plan,
    /// Its scenarios, in the same order.
    pub(crate) scenarios: &'a [Expanded],
    /// Its targets, in the same order.
    pub(crate) resolved: &'a [ResolvedTarget],
    /// What this host has for it.
    pub(crate) means: Means,
    /// Where programs read and write.
    pub(crate) folder: &'a Path,
    /// What ends it early.
    pub(crate) halt: &'a dyn Halt,
    /// Who hears of it.
    pub(crate) console: Console,
    /// Whether only faults are said.
    pub(crate) is_quiet: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Cells that were read once or more often.
    pub(crate) read: usize,
    /// Cells that were to be read and never were, or not as often as they should.
    pub(crate) lacking: usize,
    /// Whether it came to its end.
    pub(crate) is_complete: bool,
}

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunFault {
    /// The record cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalFault),
    /// What all cells share cannot be had: certificates, the origin.
    #[error("{0}")]
    Ground(String),
}

/// What is written already, by scenario and cell.
#[derive(Debug, Default)]
pub(crate) struct Past {
    done: BTreeSet<(String, String, u32)>,
    read: BTreeMap<(String, String), u32>,
    /// In a row, up to now.
    failures: BTreeMap<(String, String), u32>,
}

impl Past {
    /// Of a record that is taken up.
    pub(crate) fn of(record: &experiment::Experiment) -> Self {
        let reads = record.measurements.iter();
        let reads = reads.map(|it| (it.repeat, true, &it.scenario, &it.configuration));
        let misses = record.failures.iter();
        let misses = misses.map(|it| (it.repeat, false, &it.scenario, &it.configuration));
        // A cell's repeats come one after the other: so it is seen what failed in a row.
        let mut all: Vec<_> = reads.chain(misses).collect();
        all.sort_by_key(|(repeat, ..)| *repeat);
        let mut past = Self::default();
        for (repeat, is_read, scenario, cell) in all {
            match is_read {
                true => past.was_read(scenario, cell, repeat),
                false => past.was_missed(scenario, cell, repeat),
            }
        }
        past
    }

    /// Of a record that came to its end, and of which what failed is to be read again.
    pub(crate) fn of_readings(record: &experiment::Experiment) -> Self {
        let mut past = Self::default();
        for reading in &record.measurements {
            past.was_read(&reading.scenario, &reading.configuration, reading.repeat);
        }
        past
    }

    fn was_read(&mut self, scenario: &str, cell: &str, repeat: u32) {
        let key = (scenario.to_owned(), cell.to_owned());
        self.done.insert((key.0.clone(), key.1.clone(), repeat));
        self.failures.remove(&key);
        *self.read.entry(key).or_default() += 1;
    }

    fn was_missed(&mut self, scenario: &str, cell: &str, repeat: u32) {
        let key = (scenario.to_owned(), cell.to_owned());
        self.done.insert((key.0.clone(), key.1.clone(), repeat));
        *self.failures.entry(key).or_default() += 1;
    }

    fn readings(&self, cell: &CellPlan) -> u32 {
        let key = (cell.scenario.clone(), cell.cell.key.clone());
        self.read.get(&key).copied().unwrap_or(0)
    }

    fn is_given_up(&self, cell: &CellPlan) -> bool {
        let key = (cell.scenario.clone(), cell.cell.key.clone());
        let failures = self.failures.get(&key);
        failures.is_some_and(|failures| *failures >= FAILURES_MAX)
    }

    fn is_done(&self, cell: &CellPlan, repeat: u32) -> bool {
        let key = (cell.scenario.clone(), cell.cell.key.clone(), repeat);
        self.done.contains(&key)
    }
}

impl Experiment<'_> {
    /// Reads all that is still to be read, and writes it down.
    ///
    /// # Errors
    /// [`RunFault`]; what was read until then is in the record.
    pub(crate) fn run(&self, journal: &mut Journal, mut past: Past) -> Result<Tally, RunFault> {
        let ground = |fault: &dyn std::fmt::Display| RunFault::Ground(fault.to_string());
        let certificates = Certificates::new(self.folder).map_err(|fault| ground(&fault))?;
        let bench = Bench::start(&certificates, self.folder, &self.plan.placement);
        let mut bench = bench.map_err(|missed| RunFault::Ground(why(&missed).to_owned()))?;
        let (count, time) = self.still_to_come(&past);
        let mut progress = Progress::new(self.console, self.is_quiet, count, time);
        let mut is_complete = true;
        for (index, expanded) in self.scenarios.iter().enumerate() {
            self.tell_lacks(expanded, journal, &mut past)?;
            let mut reader = Reader {
                run: self,
                expanded,
                bench: &mut bench,
                journal,
                past: &mut past,
                progress: &mut progress,
            };
            if !reader.read_all(index)? {
                is_complete = false;
                break;
            }
        }
        journal.append(&Event::Ended(Ended {
            at: now(),
            is_complete,
        }))?;
        Ok(self.tally(&past, is_complete))
    }

    /// Cells that a target on this host is expected to do.
    fn wanted<'e>(&'e self, expanded: &'e Expanded) -> impl Iterator<Item = &'e CellPlan> {
        let is_wanted = |cell: &&CellPlan| cell.cell.unsupported.is_none();
        expanded.cells.iter().filter(is_wanted)
    }

    /// Cells that can be read here.
    fn open<'e>(&'e self, expanded: &'e Expanded) -> impl Iterator<Item = &'e CellPlan> {
        let is_open = |cell: &&CellPlan| {
            let has = |name| self.program_of(name).is_some();
            has(&cell.server)
                && cell.client.program().is_none_or(has)
                && self.means.lack(cell).is_none()
        };
        self.wanted(expanded).filter(is_open)
    }

    fn program_of(&self, target: &str) -> Option<(&Target, &Program)> {
        let one = self.resolved.iter().find(|one| one.target.name == target)?;
        Some((&one.target, one.program.as_ref().ok()?))
    }

    /// Readings and their time.
    fn still_to_come(&self, past: &Past) -> (usize, Duration) {
        let mut count = 0;
        let mut time = Duration::ZERO;
        for cell in self
            .scenarios
            .iter()
            .flat_map(|expanded| self.open(expanded))
        {
            let left = (0..cell.repeats).filter(|repeat| !past.is_done(cell, *repeat));
            let left = left.count();
            count += left;
            time += cell.estimate() * u32::try_from(left).unwrap_or(u32::MAX);
        }
        (count, time)
    }

    /// What this host has too little for is told once, and stands in the record.
    fn tell_lacks(
        &self,
        expanded: &Expanded,
        journal: &mut Journal,
        past: &mut Past,
    ) -> Result<(), RunFault> {
        let mut told = BTreeSet::new();
        let mut cells = self.wanted(expanded);
        if let Some(cell) = cells.find(|cell| self.means.must_share(cell)) {
            let (name, cpus) = (&cell.scenario, self.means.cpus);
            let workers = cell.spec.workers;
            self.console.warn(format_args!(
                "{name}: servers with {workers} workers and the load share {cpus} CPUs"
            ));
            self.console
                .hint("their readings say so; a host with more CPUs measures better");
        }
        for cell in self.wanted(expanded) {
            let Some((why, hint)) = self.means.lack(cell) else {
                continue;
            };
            if told.insert((why.clone(), hint.clone())) {
                let name = &cell.scenario;
                self.console
                    .warn(format_args!("{name}: {}: {why}", cell.cell.key));
                self.console.hint(hint);
            }
            if !past.is_done(cell, 0) {
                journal.append(&miss(cell, 0, FailureKind::Unsupported, &why))?;
                past.was_missed(&cell.scenario, &cell.cell.key, 0);
            }
        }
        Ok(())
    }

    fn tally(&self, past: &Past, is_complete: bool) -> Tally {
        let wanted = self
            .scenarios
            .iter()
            .flat_map(|expanded| self.wanted(expanded));
        let mut tally = Tally {
            is_complete,
            ..Tally::default()
        };
        for cell in wanted {
            let readings = past.readings(cell);
            tally.read += usize::from(readings > 0);
            tally.lacking += usize::from(readings < cell.repeats);
        }
        tally
    }
}

/// One scenario under way.
struct Reader<'r, 'a, 'b> {
    run: &'r Experiment<'a>,
    expanded: &'r Expanded,
    bench: &'r mut Bench<'b>,
    journal: &'r mut Journal,
    past: &'r mut Past,
    progress: &'r mut Progress,
}

impl Reader<'_, '_, '_> {
    /// Whether it came to its end.
    fn read_all(&mut self, index: usize) -> Result<bool, RunFault> {
        let (run, expanded) = (self.run, self.expanded);
        let cells: Vec<_> = run.open(expanded).collect();
        let names: Vec<_> = cells.iter().map(|cell| &cell.cell).collect();
        for repeat in 0..expanded.scenario.repeats {
            for place in order::round(&names, run.plan.seed, index, repeat) {
                if run.halt.is_asked() || !self.read(cells[place], repeat)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether the run goes on.
    fn read(&mut self, cell: &CellPlan, repeat: u32) -> Result<bool, RunFault> {
        let Some((target, program)) = self.run.program_of(&cell.server) else {
            return Ok(true);
        };
        let client = cell.client.program();
        if self.past.is_done(cell, repeat) || self.past.is_given_up(cell) {
            return Ok(true);
        }
        let subject = Subject {
            cell,
            target,
            program,
            client: client.and_then(|name| self.run.program_of(name)),
            repeat,
        };
        let missed = match self.bench.read(subject, self.run.halt) {
            Ok(reading) => {
                let metrics = &self.expanded.scenario.metrics;
                self.progress.read(cell, metrics, &reading);
                self.journal.append(&Event::Measured(Box::new(reading)))?;
                self.past.was_read(&cell.scenario, &cell.cell.key, repeat);
                return Ok(true);
            }
            Err(Missed::Interrupted) => return Ok(false),
            // What is asked to end takes servers with it, which then fail.
            Err(_) if self.run.halt.is_asked() => return Ok(false),
            Err(missed) => missed,
        };
        self.progress.missed(cell, &missed);
        let kind = match missed {
            Missed::Void(_) => FailureKind::Void,
            _ => FailureKind::Failed,
        };
        self.journal
            .append(&miss(cell, repeat, kind, why(&missed)))?;
        self.past.was_missed(&cell.scenario, &cell.cell.key, repeat);
        Ok(true)
    }
}

fn why(missed: &Missed) -> &str {
    match missed {
        Missed::Failed(why) | Missed::Void(why) => why,
        Missed::Interrupted => "it was stopped",
    }
}

fn miss(cell: &CellPlan, repeat: u32, kind: FailureKind, why: &str) -> Event {
    Event::Failed(Failure {
        scenario: cell.scenario.clone(),
        configuration: cell.cell.key.clone(),
        repeat,
        at: now(),
        kind,
        why: why.to_owned(),
    })
}

/// RFC 3339, UTC.
pub(crate) fn now() -> String {
    Date::of(SystemTime::now()).to_string()
}
