//! `bench load`: CPU of a client per operation, lariat-lab beside other load generators, all
//! against one server.
//!
//! Before a tool is measured its own counts are compared with the server's, and the server's log
//! says what its handshakes were. Rounds are interleaved, as in `terminate`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::arguments::Options;
use super::certificate::Authority;
use super::client_program::{Ended, Invocation};
use super::client_work::{Handshakes, ROWS, Row, Subject};
use super::host::{Cores, Folder};
use super::lines::{self, Line};
use super::record;
use super::statistics::Summary;
use super::tool::{Amount, Call, Tally, Tool};
use super::web::{self, Door, Logged, Web};

/// The name in the certificate.
const NAME: &str = "bench.test";
const ROUNDS: usize = 5;
/// Of a round, so much is done to check and to warm up.
const CHECKED_SHARE: f64 = 0.1;
/// Runs of one operation, of which the median tells what it takes to start.
const START_RUNS: usize = 3;

struct Bench {
    web: Web,
    folder: PathBuf,
    openssl: PathBuf,
    groups: &'static str,
    core: usize,
    rounds: usize,
    scale: f64,
    programs: Vec<(Tool, PathBuf)>,
}

/// What a run is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Purpose {
    /// Its cost; the server writes no log.
    Measure,
    /// What it does, by the server's log: every connection carries a request.
    Check,
}

/// One tool in one row.
struct Cell {
    line: Line,
    readings: Vec<Value>,
    /// CPU time of a run with one operation, in ns; of ours alone.
    start_ns: Option<u64>,
    command: String,
}

/// One run.
struct Reading {
    ended: Ended,
    tally: Tally,
    server_ns: u64,
}

/// Runs it and prints a table a row.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rows = options.chosen(ROWS, |row| row.name)?;
    let cores = Cores::choose(options)?;
    let folder = Folder::create()?;
    let bench = Bench::start(options, cores, folder.path())?;
    let mut record = record::begin(options, cores, &[])?;
    record["tools"] = bench.versions()?;
    let mut results = Vec::new();
    let mut failures = 0;
    for row in rows {
        let cells = bench.measure(row)?;
        let lines: Vec<_> = cells.iter().map(|cell| cell.line.clone()).collect();
        let title = format!("{} ({})", row.title, row.name);
        let unit = format!("µs per {} of client CPU, user and system", row.operation);
        lines::print(&title, &lines, &unit);
        failures += lines.iter().filter(|line| line.failure.is_some()).count();
        let cells: Vec<_> = cells.iter().map(Cell::describe).collect();
        results.push(json!({ "row": row.name, "title": row.title, "tools": cells }));
    }
    record::finish(options, record, Value::Array(results))?;
    ensure!(failures == 0, "{failures} measurements failed; see above");
    Ok(())
}

impl Bench {
    fn start(options: &Options, cores: Cores, folder: &Path) -> Result<Self> {
        let tools = [Tool::Lab, Tool::STime, Tool::Wrk, Tool::H2load, Tool::Ab];
        let programs = tools
            .into_iter()
            .map(|tool| Ok((tool, tool.program(options)?)))
            .collect::<Result<Vec<_>>>()?;
        let certificate = folder.join("bench.test.pem");
        Authority::generate()?.write_leaf(NAME, &certificate)?;
        let groups = web::groups(options.group);
        let openssl = folder.join("openssl.cnf");
        fs::write(&openssl, openssl_configuration(groups))?;
        Ok(Self {
            web: Web::start(options, &certificate, folder, cores.server)?,
            folder: folder.to_owned(),
            openssl,
            groups,
            core: cores.client,
            rounds: options.rounds.unwrap_or(ROUNDS),
            scale: options.scale,
            programs,
        })
    }

    fn program(&self, tool: Tool) -> &Path {
        let found = self.programs.iter().find(|(other, _)| *other == tool);
        &found.expect("every tool was looked for").1
    }

    fn versions(&self) -> Result<Value> {
        let mut versions = serde_json::Map::new();
        for (tool, path) in &self.programs {
            let told = json!({ "version": tool.version(path)?, "path": path });
            versions.insert(format!("{tool:?}").to_lowercase(), told);
        }
        versions.insert("nginx".into(), json!(web::version()?));
        Ok(Value::Object(versions))
    }

    fn measure(&self, row: &Row) -> Result<Vec<Cell>> {
        let mut cells = Vec::new();
        for subject in row.subjects {
            cells.push(self.prepare(row, subject)?);
        }
        for round in 1..=self.rounds {
            eprintln!("{}: round {round} of {}", row.name, self.rounds);
            for (subject, cell) in row.subjects.iter().zip(&mut cells) {
                if cell.line.failure.is_some() {
                    continue;
                }
                match self.measure_once(row, subject) {
                    Ok(reading) => cell.add(&reading),
                    Err(error) => cell.line.failure = Some(format!("{error:#}")),
                }
            }
        }
        for cell in &mut cells {
            cell.tell_start();
        }
        Ok(cells)
    }

    /// Checks a tool and measures its start. What it cannot do takes it out of the row.
    fn prepare(&self, row: &Row, subject: &Subject) -> Result<Cell> {
        let amount = subject.amount.scaled(self.scale);
        let invocation = self.invocation(row, subject, amount, Purpose::Measure);
        let mut cell = Cell {
            line: Line {
                label: subject.label.to_owned(),
                is_ours: subject.tool == Tool::Lab,
                ..Line::default()
            },
            readings: Vec::new(),
            start_ns: None,
            command: invocation.command_line(),
        };
        match self.check(row, subject) {
            Ok(notes) => cell.line.notes = notes,
            Err(error) => cell.line.failure = Some(format!("{error:#}")),
        }
        if cell.line.is_ours && cell.line.failure.is_none() {
            cell.start_ns = Some(self.measure_start(row, subject)?);
        }
        Ok(cell)
    }

    /// Compares a tool's counts with the server's, and what it should have done with the log.
    fn check(&self, row: &Row, subject: &Subject) -> Result<Vec<String>> {
        let amount = subject.amount.scaled(self.scale * CHECKED_SHARE);
        let before = self.web.counts()?;
        let (_, tally) = self.call_once(row, subject, amount, Purpose::Measure)?;
        let counts = self.web.counts()?.since(before);
        let seen = if row.connection_each {
            counts.connections
        } else {
            counts.requests
        };
        ensure_counts_agree(subject, tally.operations, seen, "the server")?;
        self.web.take_log()?;
        let (_, tally) = self.call_once(row, subject, amount, Purpose::Check)?;
        let log = self.web.take_log()?;
        ensure_counts_agree(subject, tally.operations, log.len() as u64, "the log")?;
        if row.connection_each {
            ensure_handshakes(row, subject, &log, tally)?;
        }
        Ok(describe_log(row, &log))
    }

    fn measure_start(&self, row: &Row, subject: &Subject) -> Result<u64> {
        let once = || self.call_once(row, subject, Amount::Operations(1), Purpose::Measure);
        let runs = (0..START_RUNS)
            .map(|_| Ok(once()?.0.cpu_ns as f64))
            .collect::<Result<Vec<_>>>()?;
        let summary = Summary::of(&runs).context("no runs")?;
        Ok(summary.median as u64)
    }

    fn measure_once(&self, row: &Row, subject: &Subject) -> Result<Reading> {
        let amount = subject.amount.scaled(self.scale);
        let before = self.web.server.tree.cpu_at_rest()?;
        let (ended, tally) = self.call_once(row, subject, amount, Purpose::Measure)?;
        let server_ns = self.web.server.tree.cpu_at_rest()?.since(&before)?;
        if let (Handshakes::Full, Some((_, resumed @ 1..))) = (row.handshakes, tally.handshakes) {
            bail!("{resumed} handshakes were resumed");
        }
        if let (Handshakes::Resumed, Some((full, _))) = (row.handshakes, tally.handshakes) {
            ensure!(full <= subject.connections, "{full} handshakes were full");
        }
        Ok(Reading {
            ended,
            tally,
            server_ns,
        })
    }

    fn call_once(
        &self,
        row: &Row,
        subject: &Subject,
        amount: Amount,
        purpose: Purpose,
    ) -> Result<(Ended, Tally)> {
        let invocation = self.invocation(row, subject, amount, purpose);
        let ended = invocation.run()?;
        let tally = subject
            .tool
            .tally(&ended.output, &self.folder)
            .with_context(|| invocation.command_line())?;
        Ok((ended, tally))
    }

    fn invocation(
        &self,
        row: &Row,
        subject: &Subject,
        amount: Amount,
        purpose: Purpose,
    ) -> Invocation<'_> {
        let words = subject.tool.words(&Call {
            words: subject.words,
            url: &self.url(row.door, purpose),
            asks: !subject.is_bare || purpose == Purpose::Check,
            amount,
            connections: subject.connections,
            groups: self.groups,
            core: self.core,
        });
        Invocation {
            program: self.program(subject.tool),
            words,
            openssl: &self.openssl,
            folder: &self.folder,
            core: self.core,
        }
    }

    fn url(&self, door: Door, purpose: Purpose) -> String {
        let listener = self.web.listener(door);
        let address = match purpose {
            Purpose::Measure => listener.measured,
            Purpose::Check => listener.logged,
        };
        let scheme = match door {
            Door::Plain => "http",
            _ => "https",
        };
        format!("{scheme}://{address}{}", web::PATH)
    }
}

/// A configuration for all programs with OpenSSL that says which groups their hellos have.
fn openssl_configuration(groups: &str) -> String {
    format!(
        "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = default\n\
         [default]\nGroups = {groups}\n"
    )
}

/// At least what the tool claims, and no more than what may have been under way at its end; ours
/// to the last one.
fn ensure_counts_agree(subject: &Subject, claimed: u64, seen: u64, whose: &str) -> Result<()> {
    let spare = match subject.tool {
        Tool::Lab => 0,
        _ => subject.connections + 1,
    };
    ensure!(
        (claimed..=claimed + spare).contains(&seen),
        "it counted {claimed}, {whose} {seen}"
    );
    Ok(())
}

/// The first handshake of each connection slot may be full where the row resumes; s_time makes
/// one more that it does not count.
fn ensure_handshakes(row: &Row, subject: &Subject, log: &[Logged], tally: Tally) -> Result<()> {
    let resumed = log.iter().filter(|line| line.resumed).count() as u64;
    let full = log.len() as u64 - resumed;
    match row.handshakes {
        Handshakes::Full => ensure!(resumed == 0, "the log has {resumed} resumed handshakes"),
        Handshakes::Resumed => ensure!(
            full <= subject.connections,
            "the log has {full} full handshakes"
        ),
        Handshakes::Few => {}
    }
    if subject.tool == Tool::Lab {
        ensure!(
            tally.handshakes == Some((full, resumed)),
            "it counted {:?} full and resumed handshakes, the log {full} and {resumed}",
            tally.handshakes
        );
    }
    Ok(())
}

/// What the log says the handshakes were.
fn describe_log(row: &Row, log: &[Logged]) -> Vec<String> {
    let of = |field: fn(&Logged) -> &str| {
        let words: BTreeSet<_> = log
            .iter()
            .map(field)
            .filter(|word| !matches!(*word, "" | "-"))
            .collect();
        words.into_iter().collect::<Vec<_>>().join("+")
    };
    let mut notes = vec![of(|line| &line.suite), of(|line| &line.group)];
    notes.retain(|note| !note.is_empty());
    if row.connection_each {
        let resumed = log.iter().filter(|line| line.resumed).count();
        notes.push(format!("log: {resumed} of {} resumed", log.len()));
    }
    notes
}

impl Cell {
    fn add(&mut self, reading: &Reading) {
        let cost = reading.ended.cpu_ns as f64 / reading.tally.operations as f64;
        let percent = |ns: u64| 100.0 * ns as f64 / reading.ended.wall_ns as f64;
        self.line.costs_us.push(cost / 1000.0);
        self.line.server_percent.push(percent(reading.server_ns));
        self.line.client_percent.push(percent(reading.ended.cpu_ns));
        self.readings.push(json!({
            "operations": reading.tally.operations,
            "client_cpu_ns": reading.ended.cpu_ns,
            "server_cpu_ns": reading.server_ns,
            "wall_ns": u64::try_from(reading.ended.wall_ns).unwrap_or(u64::MAX),
            "resident_bytes_max": reading.ended.resident_bytes_max,
            "handshakes_full_and_resumed": reading.tally.handshakes,
        }));
    }

    /// Adds the share of the start to the notes.
    fn tell_start(&mut self) {
        let cpu: Vec<_> = self
            .readings
            .iter()
            .filter_map(|reading| reading["client_cpu_ns"].as_f64())
            .collect();
        if let (Some(start_ns), Some(whole)) = (self.start_ns, Summary::of(&cpu)) {
            let share = 100.0 * start_ns as f64 / whole.median;
            let start = format!("start {} ms = {share:.1} %", start_ns / 1_000_000);
            self.line.notes.push(start);
        }
    }

    fn describe(&self) -> Value {
        let mut described = self.line.describe();
        described["command"] = json!(self.command);
        described["start_cpu_ns"] = json!(self.start_ns);
        described["rounds"] = json!(self.readings);
        described
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(tool: Tool) -> &'static Subject {
        let mut subjects = ROWS.iter().flat_map(|row| row.subjects);
        subjects
            .find(|subject| subject.tool == tool)
            .expect("every tool has a row")
    }

    #[test]
    fn ours_must_agree_to_the_last_one() {
        let ours = subject(Tool::Lab);
        ensure_counts_agree(ours, 100, 100, "the log").expect("they agree");
        ensure_counts_agree(ours, 100, 101, "the log").expect_err("one more");
        let wrk = subject(Tool::Wrk);
        ensure_counts_agree(wrk, 100, 132, "the log").expect("32 were under way");
        ensure_counts_agree(wrk, 100, 99, "the log").expect_err("one was made up");
    }

    #[test]
    fn ours_come_first_in_every_row() {
        for row in ROWS {
            let ours = row.subjects.iter().map(|subject| subject.tool == Tool::Lab);
            assert!(ours.rev().is_sorted(), "{}", row.name);
        }
    }
}
