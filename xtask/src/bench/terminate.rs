//! `bench terminate`: server CPU per operation, row by row, all servers side by side.
//!
//! Within a row the rounds are interleaved (A B C D A B C D ...), so that what the machine does
//! to one server it does to all; ratios are taken within a round.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::arguments::Options;
use super::backend::Backend;
use super::certificate::Authority;
use super::client::{Client, Offer, Tally, check_server};
use super::host::{Cores, Folder};
use super::process::{self, Tree};
use super::record;
use super::server::{Program, Server, Site};
use super::statistics::{Summary, ratios};
use super::work::{Ending, Exchange, Handshakes, ROWS, Row, Version, Work};

/// The name in the certificate.
const NAME: &str = "bench.test";
const CONNECTIONS: usize = 32;
const ROUNDS: usize = 5;
const START_MAX: Duration = Duration::from_secs(15);

/// One server in one row.
struct Cell {
    server: usize,
    client: Client,
    connections: u64,
    readings: Vec<Reading>,
    /// Why there are no readings, or no more.
    trouble: Option<Trouble>,
}

enum Trouble {
    /// The server does not resume in the row's way: no fault, but nothing to compare.
    Unable(String),
    /// Something broke.
    Failed(String),
}

/// One server in one round of one row.
struct Reading {
    server_ns: u64,
    client_ns: u64,
    wall_ns: u128,
    dials: u64,
    tally: Tally,
}

struct Bench {
    backend: Backend,
    servers: Vec<Server>,
    offer: Offer,
    rounds: usize,
}

/// Runs it and prints a table a row.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rows = options.chosen(ROWS, |row| row.name)?;
    let cores = Cores::choose(options)?;
    let names = options.servers_or(&["lariat", "haproxy", "nginx", "hitch"]);
    let programs = names
        .iter()
        .map(|name| Program::find(name, options))
        .collect::<Result<Vec<_>>>()?;
    let record = record::begin(options, cores, &programs)?;
    let folder = Folder::create()?;
    let bench = Bench::start(options, cores, &programs, &folder)?;
    process::pin_thread(cores.client)?;
    let mut results = Vec::new();
    let mut failures = 0;
    for row in rows {
        let cells = bench.measure(options, row)?;
        print_row(row, &bench.servers, &cells);
        failures += cells.iter().filter(|cell| cell.has_failed()).count();
        results.push(describe(row, &bench.servers, &cells));
    }
    record::finish(options, record, Value::Array(results))?;
    ensure!(
        failures == 0,
        "{failures} measurements failed; see the table"
    );
    Ok(())
}

impl Bench {
    fn start(
        options: &Options,
        cores: Cores,
        programs: &[Program],
        folder: &Folder,
    ) -> Result<Self> {
        let authority = Authority::generate()?;
        let certificate = folder.path().join("bench.test.pem");
        authority.write_leaf(NAME, &certificate)?;
        let backend = Backend::start(programs.len(), cores.client)?;
        let offer = Offer::of(options);
        let mut servers = Vec::new();
        for (index, program) in programs.iter().enumerate() {
            let server = program.start(&Site {
                certificates: &certificate,
                backend: backend.address(index),
                folder: folder.path(),
                cores: &[cores.server],
                lariat: "",
                start_max: START_MAX,
            })?;
            for work in CHECKS {
                check_server(server.address, NAME, authority.roots()?, offer, *work)
                    .with_context(|| format!("{} does not serve {work:?}", server.name))?;
            }
            servers.push(server);
        }
        let rounds = options.rounds.unwrap_or(ROUNDS);
        Ok(Self {
            backend,
            servers,
            offer,
            rounds,
        })
    }

    fn measure(&self, options: &Options, row: &Row) -> Result<Vec<Cell>> {
        let connections = options
            .connections
            .unwrap_or(CONNECTIONS)
            .min(row.connections_max);
        let operations = scaled(row.operations, options.scale);
        let mut cells = (0..self.servers.len())
            .map(|server| self.prepare(row, server, connections, operations))
            .collect::<Result<Vec<_>>>()?;
        let watched = std::io::stderr().is_terminal();
        for round in 1..=self.rounds {
            if watched {
                eprint!("\r{}: round {round} of {} ", row.name, self.rounds);
            }
            for cell in cells.iter_mut().filter(|cell| cell.trouble.is_none()) {
                match self.measure_once(cell, row.work, operations) {
                    Ok(reading) => cell.readings.push(reading),
                    Err(error) => cell.trouble = Some(Trouble::Failed(format!("{error:#}"))),
                }
            }
        }
        if watched {
            eprint!("\r\x1b[K");
        }
        Ok(cells)
    }

    /// A client that has done the work already: sessions are there to resume, pools are filled.
    fn prepare(
        &self,
        row: &Row,
        server: usize,
        connections: usize,
        operations: u64,
    ) -> Result<Cell> {
        let target = self.servers[server].address;
        let client = Client::new(target, NAME, self.offer, row.work, connections)?;
        let connections = connections as u64;
        let mut cell = Cell {
            server,
            client,
            connections,
            readings: Vec::new(),
            trouble: None,
        };
        cell.trouble = cell.warm_up(row.work, operations).err();
        Ok(cell)
    }

    fn measure_once(&self, cell: &mut Cell, work: Work, operations: u64) -> Result<Reading> {
        let tree = self.servers[cell.server].tree;
        let server_before = tree.cpu_at_rest()?;
        let client_before = Tree::own_cpu()?;
        let dials_before = self.backend.accepted(cell.server);
        let begun = Instant::now();
        let tally = cell.client.run(operations)?;
        let wall_ns = begun.elapsed().as_nanos();
        let server_after = tree.cpu_at_rest()?;
        let client_after = Tree::own_cpu()?;
        let expected = cell.expected_handshakes(work, operations);
        if let Some(difference) = difference(work, &tally, expected) {
            bail!(difference);
        }
        Ok(Reading {
            server_ns: server_after.since(&server_before)?,
            client_ns: client_after.since(&client_before)?,
            wall_ns,
            dials: self.backend.accepted(cell.server) - dials_before,
            tally,
        })
    }
}

/// What each server must do right before anything is measured.
const CHECKS: &[Work] = &[
    check(Version::Tls12, Exchange::OneRequest),
    check(Version::Tls13, Exchange::OneRequest),
    check(Version::Tls13, Exchange::BulkRequests),
];

const fn check(version: Version, exchange: Exchange) -> Work {
    Work {
        version,
        handshakes: Handshakes::Full,
        exchange,
        ending: Ending::Close,
    }
}

impl Cell {
    /// Some operations that nobody counts; the last ones show whether the server can do it.
    fn warm_up(&mut self, work: Work, operations: u64) -> Result<(), Trouble> {
        let failed = |error: anyhow::Error| Trouble::Failed(format!("{error:#}"));
        let keeps = work.exchange.keeps_connection();
        self.client.run(self.connections).map_err(failed)?;
        self.client
            .run(self.connections.max(operations / 10))
            .map_err(failed)?;
        let tally = self.client.run(self.connections).map_err(failed)?;
        let expected = if keeps { 0 } else { self.connections };
        match difference(work, &tally, expected) {
            None => Ok(()),
            Some(difference) => Err(Trouble::Unable(difference)),
        }
    }

    fn expected_handshakes(&self, work: Work, operations: u64) -> u64 {
        if work.exchange.keeps_connection() {
            0
        } else {
            operations
        }
    }

    fn has_failed(&self) -> bool {
        matches!(self.trouble, Some(Trouble::Failed(_)))
    }

    /// The cost of an operation in each round, in the row's unit.
    fn costs(&self, row: &Row) -> Vec<f64> {
        let cost = |reading: &Reading| {
            reading.server_ns as f64 / reading.tally.operations as f64 * row.unit.factor
        };
        self.readings.iter().map(cost).collect()
    }
}

/// What differs from the handshakes that the work demands, if anything does.
fn difference(work: Work, tally: &Tally, handshakes: u64) -> Option<String> {
    let (full, resumed) = match work.handshakes {
        Handshakes::Full => (handshakes, 0),
        Handshakes::SessionId | Handshakes::Ticket => (0, handshakes),
    };
    if (tally.full, tally.resumed, tally.retried) == (full, resumed, 0) {
        return None;
    }
    Some(format!(
        "of {handshakes} handshakes {} were full ({} with HelloRetryRequest), {} resumed",
        tally.full, tally.retried, tally.resumed
    ))
}

fn scaled(operations: u32, scale: f64) -> u64 {
    // Rounded, at least one; the cast saturates.
    ((f64::from(operations) * scale).round() as u64).max(1)
}

fn percent(part_ns: u64, whole_ns: u128) -> f64 {
    100.0 * part_ns as f64 / whole_ns as f64
}

fn median_of(cell: &Cell, reading: impl Fn(&Reading) -> f64) -> f64 {
    let readings: Vec<_> = cell.readings.iter().map(reading).collect();
    Summary::of(&readings).map_or(f64::NAN, |summary| summary.median)
}

fn print_row(row: &Row, servers: &[Server], cells: &[Cell]) {
    println!("{} ({})", row.title, row.name);
    println!(
        "  {:<12} {:>9}  {:<19} {:>7}  {:>6} {:>6} {:>6}  notes",
        "server",
        row.unit.name.split(' ').next().unwrap_or_default(),
        "min .. max",
        "ratio",
        "core",
        "client",
        "dials"
    );
    let subject = cells
        .first()
        .map(|cell| cell.costs(row))
        .unwrap_or_default();
    for cell in cells {
        let name = &servers[cell.server].name;
        let costs = cell.costs(row);
        match (&cell.trouble, Summary::of(&costs)) {
            (Some(Trouble::Unable(why)), _) => println!("  {name:<12} cannot: {why}"),
            (Some(Trouble::Failed(why)), _) => println!("  {name:<12} FAILED: {why}"),
            (None, None) => println!("  {name:<12} no rounds"),
            (None, Some(summary)) => print_cell(name, cell, summary, &ratios(&subject, &costs)),
        }
    }
    println!(
        "  {} of server CPU; ratio = first server's to this one's\n",
        row.unit.name
    );
}

fn print_cell(name: &str, cell: &Cell, summary: Summary, ratios: &[f64]) {
    let ratio = Summary::of(ratios).map_or_else(|| "-".into(), |r| format!("x{:.2}", r.median));
    let range = format!("{:.1} .. {:.1}", summary.min, summary.max);
    let server = median_of(cell, |reading| percent(reading.server_ns, reading.wall_ns));
    let client = median_of(cell, |reading| percent(reading.client_ns, reading.wall_ns));
    let dials = median_of(cell, |reading| {
        reading.dials as f64 / reading.tally.operations as f64
    });
    println!(
        "  {name:<12} {:>9.1}  {range:<19} {ratio:>7}  {server:>5.0}% {client:>5.0}% {dials:>6.2}  {}",
        summary.median,
        notes(cell),
    );
}

/// Suite and group, and how the server closed where it did not send close_notify.
fn notes(cell: &Cell) -> String {
    let Some(tally) = cell.readings.last().map(|reading| &reading.tally) else {
        return String::new();
    };
    let mut notes: Vec<String> = tally
        .suite
        .iter()
        .map(|suite| format!("{suite:?}"))
        .collect();
    notes.extend(tally.group.iter().map(|group| format!("{group:?}")));
    for (count, what) in [
        (tally.ended_by_fin, "closed without close_notify"),
        (tally.ended_by_reset, "reset instead of closed"),
    ] {
        if count > 0 {
            notes.push(format!("{count} of {} {what}", tally.operations));
        }
    }
    notes.join("; ")
}

fn describe(row: &Row, servers: &[Server], cells: &[Cell]) -> Value {
    let subject = cells
        .first()
        .map(|cell| cell.costs(row))
        .unwrap_or_default();
    let describe_cell = |cell: &Cell| {
        let costs = cell.costs(row);
        let summary = Summary::of(&costs);
        let trouble = match &cell.trouble {
            None => None,
            Some(Trouble::Unable(why)) => Some(format!("cannot: {why}")),
            Some(Trouble::Failed(why)) => Some(format!("failed: {why}")),
        };
        json!({
            "server": servers[cell.server].name,
            "connections": cell.connections,
            "median": summary.map(|summary| summary.median),
            "spread_percent": summary.map(|summary| summary.spread_percent()),
            "ratio_median": Summary::of(&ratios(&subject, &costs)).map(|ratio| ratio.median),
            "trouble": trouble,
            "rounds": cell.readings.iter().map(Reading::describe).collect::<Vec<_>>(),
        })
    };
    json!({
        "row": row.name,
        "title": row.title,
        "unit": row.unit.name,
        "unit_factor_from_ns": row.unit.factor,
        "servers": cells.iter().map(describe_cell).collect::<Vec<_>>(),
    })
}

impl Reading {
    fn describe(&self) -> Value {
        json!({
            "operations": self.tally.operations,
            "server_cpu_ns": self.server_ns,
            "client_cpu_ns": self.client_ns,
            "wall_ns": u64::try_from(self.wall_ns).unwrap_or(u64::MAX),
            "backend_connections": self.dials,
            "handshakes_full": self.tally.full,
            "handshakes_retried": self.tally.retried,
            "handshakes_resumed": self.tally.resumed,
            "ended_by_close_notify": self.tally.ended_by_notify,
            "ended_by_fin": self.tally.ended_by_fin,
            "ended_by_reset": self.tally.ended_by_reset,
            "suite": self.tally.suite.map(|suite| format!("{suite:?}")),
            "group": self.tally.group.map(|group| format!("{group:?}")),
        })
    }
}
