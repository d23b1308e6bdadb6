//! `bench sessions`: what the session cache costs, small and large: memory for an entry, and server
//! CPU for a connection that is resumed from it.
//!
//! A TLS 1.2 session is stored at a full handshake, so that filling a large cache takes minutes.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::arguments::Options;
use super::backend::Backend;
use super::certificate::Authority;
use super::client_program::{Ended, Invocation};
use super::host::{Cores, Folder};
use super::record;
use super::server::{Program, Server, Site};
use super::statistics::{Summary, ratios};
use super::tool::{Amount, Call, Tally, Tool};
use super::web;

/// The name in the certificate.
const NAME: &str = "bench.test";
const ROUNDS: usize = 3;
const SMALL: u64 = 1_000;
const LARGE: usize = 1_000_000;
/// So many clients take turns, each with a session of its own: what they touch is more than the
/// caches of a processor hold.
const CLIENTS_MAX: u64 = 100_000;
/// Connections in a round that are resumed.
const RESUMED: u64 = 200_000;
const CONNECTIONS: u64 = 16;
/// Before memory is looked at, so that pools are filled; by ticket, which stores nothing.
const WARM_UP: u64 = 1_000;
/// What an entry may take, for the limit in bytes.
const ENTRY_BYTES: u64 = 320;
const START_MAX: Duration = Duration::from_secs(60);
/// Between two looks at the server's own counts.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// A server with a cache of some size.
struct Subject {
    entries: u64,
    clients: u64,
    server: Server,
    /// Resident memory that filling the cache took, and with how many entries.
    grown: Option<(u64, u64)>,
    /// CPU time for a resumed connection in each round, in µs.
    costs_us: Vec<f64>,
}

struct Bench<'a> {
    options: &'a Options,
    folder: &'a Path,
    cores: Cores,
    rounds: usize,
}

/// Handshakes that a server has made.
#[derive(Clone, Copy, Debug)]
struct Handshakes {
    full: u64,
    by_id: u64,
}

/// Runs it and prints a line a size.
///
/// # Errors
/// The server does not start, or a connection was not resumed that should have been.
pub(crate) fn run(options: &Options) -> Result<()> {
    let cores = Cores::choose(options)?;
    let program = Program::find("lariat", options)?;
    let folder = Folder::create()?;
    let mut record = record::begin(options, cores, std::slice::from_ref(&program))?;
    record["lariat_lab"] = json!(Tool::Lab.version(&options.lab_program()?)?);
    let bench = Bench {
        options,
        folder: folder.path(),
        cores,
        rounds: options.rounds.unwrap_or(ROUNDS),
    };
    let large = options.count.unwrap_or(LARGE) as u64;
    let mut subjects = bench.start(&program, [SMALL, large])?;
    for round in 1..=bench.rounds {
        for subject in &mut subjects {
            eprintln!(
                "round {round} of {}: {} entries",
                bench.rounds, subject.entries
            );
            let cost_us = bench.measure(subject)?;
            subject.costs_us.push(cost_us);
        }
    }
    print(&subjects);
    let results = subjects.iter().map(Subject::describe).collect();
    record::finish(options, record, results)
}

impl Bench<'_> {
    fn start(&self, program: &Program, sizes: [u64; 2]) -> Result<Vec<Subject>> {
        let certificate = self.folder.join("bench.test.pem");
        Authority::generate()?.write_leaf(NAME, &certificate)?;
        let backend = Backend::start(sizes.len(), self.cores.client)?;
        let mut subjects = Vec::new();
        for (index, entries) in sizes.into_iter().enumerate() {
            let folder = self.folder.join(index.to_string());
            std::fs::create_dir(&folder)?;
            let clients = (entries / 2).min(CLIENTS_MAX);
            // Each round's clients come with new sessions; and shards are not filled evenly.
            let room = (entries + clients * self.rounds as u64) * 11 / 10 + SMALL;
            let kibibytes = room * ENTRY_BYTES / 1024;
            let server = program.start(&Site {
                certificates: &certificate,
                backend: backend.address(index),
                folder: &folder,
                cores: &[self.cores.server],
                lariat: &format!(
                    "resumption = {{ session-cache = {{ entries = {room}, bytes = \
                     \"{kibibytes}KiB\", lifetime = \"24h\" }} }}\n"
                ),
                start_max: START_MAX,
            })?;
            let mut subject = Subject {
                entries,
                clients,
                server,
                grown: None,
                costs_us: Vec::new(),
            };
            self.fill(&mut subject)?;
            subjects.push(subject);
        }
        Ok(subjects)
    }

    /// All but what the clients of the first round add.
    fn fill(&self, subject: &mut Subject) -> Result<()> {
        let tree = subject.server.tree;
        self.drive(subject, "--tls 1.2", WARM_UP)?;
        tree.cpu_at_rest()?;
        let before = tree.resident_bytes()?;
        let count = subject.entries - subject.clients;
        eprintln!("storing {count} sessions");
        self.drive(subject, "--tls 1.2 --tickets off", count)?;
        tree.cpu_at_rest()?;
        subject.grown = Some((tree.resident_bytes()?.saturating_sub(before), count));
        Ok(())
    }

    /// CPU time for a resumed connection, in µs: what was used once every client had its session.
    fn measure(&self, subject: &Subject) -> Result<f64> {
        let tree = subject.server.tree;
        let clients = subject.clients;
        let words = format!("--handshake session-id --clients {clients}");
        let resumed = (RESUMED as f64 * self.options.scale) as u64;
        let begun = subject.handshakes()?;
        let (first, first_cpu, tally) = thread::scope(|scope| {
            let load = scope.spawn(|| self.drive(subject, &words, clients + resumed));
            let first = subject.wait_for(begun.full + clients, &load)?;
            let first_cpu = tree.cpu()?;
            let (_, tally) = load
                .join()
                .unwrap_or_else(|_| bail!("the thread that drives panicked"))?;
            anyhow::Ok((first, first_cpu, tally))
        })?;
        let used_ns = tree.cpu_at_rest()?.since(&first_cpu)?;
        ensure!(
            tally.handshakes == Some((clients, resumed)),
            "of {clients} clients' connections {resumed} were to be resumed: {:?} were full and \
             resumed",
            tally.handshakes
        );
        let counted = subject.handshakes()?.by_id - first.by_id;
        Ok(used_ns as f64 / counted as f64 / 1000.0)
    }

    fn drive(&self, subject: &Subject, words: &str, count: u64) -> Result<(Ended, Tally)> {
        let url = format!("https://{}/", subject.server.address);
        let words = format!("{words} --server-name {NAME}");
        let call = Call {
            words: &words,
            url: &url,
            asks: false,
            amount: Amount::Operations(count),
            connections: CONNECTIONS,
            groups: web::groups(self.options.group),
            core: self.cores.client,
        };
        let invocation = Invocation {
            program: &self.options.lab_program()?,
            words: Tool::Lab.words(&call),
            openssl: Path::new("/dev/null"),
            folder: self.folder,
            core: self.cores.client,
        };
        let ended = invocation.run()?;
        let tally = Tool::Lab.tally(&ended.output, self.folder)?;
        Ok((ended, tally))
    }
}

impl Subject {
    /// Waits until so many full handshakes were made.
    ///
    /// # Errors
    /// The load has ended before.
    fn wait_for<T>(&self, full: u64, load: &ScopedJoinHandle<'_, T>) -> Result<Handshakes> {
        loop {
            let now = self.handshakes()?;
            if now.full >= full {
                return Ok(now);
            }
            ensure!(
                !load.is_finished(),
                "the load ended after {} full handshakes, {full} were to come",
                now.full
            );
            thread::sleep(LOOK_PAUSE);
        }
    }

    /// By its status document.
    fn handshakes(&self) -> Result<Handshakes> {
        let mut text = String::new();
        UnixStream::connect(self.server.status_socket())?.read_to_string(&mut text)?;
        let status: Value = serde_json::from_str(&text)?;
        let kinds = &status["services"][0]["handshakes"]["kinds"];
        let count = |kind: &str| {
            let count = kinds[kind]["count"].as_u64();
            count.with_context(|| format!("the status has no count of {kind} handshakes"))
        };
        Ok(Handshakes {
            full: count("full")?,
            by_id: count("session-id")?,
        })
    }

    fn bytes_per_entry(&self) -> Option<f64> {
        let (bytes, entries) = self.grown?;
        Some(bytes as f64 / entries as f64)
    }

    fn describe(&self) -> Value {
        let summary = Summary::of(&self.costs_us);
        json!({
            "entries": self.entries,
            "clients": self.clients,
            "resident_bytes_grown": self.grown.map(|(bytes, _)| bytes),
            "entries_for_that": self.grown.map(|(_, entries)| entries),
            "bytes_per_entry": self.bytes_per_entry(),
            "us_median": summary.map(|summary| summary.median),
            "us_rounds": self.costs_us,
        })
    }
}

fn print(subjects: &[Subject]) {
    println!("the session cache by its size; TLS 1.2 resumed by session id, one worker");
    println!(
        "  {:>9} {:>13}  {:>16}  {:<17} {:>6}",
        "entries", "bytes/entry", "µs/connection", "min .. max", "ratio"
    );
    let least = subjects.first().map_or(&[][..], |one| &one.costs_us);
    for subject in subjects {
        let Some(summary) = Summary::of(&subject.costs_us) else {
            continue;
        };
        // Of a few pages nothing is to be learnt.
        let bytes = match subject.bytes_per_entry() {
            Some(bytes) if subject.entries > SMALL => format!("{bytes:.0}"),
            _ => "-".to_owned(),
        };
        let ratio = Summary::of(&ratios(&subject.costs_us, least));
        println!(
            "  {:>9} {bytes:>13}  {:>16.1}  {:<17} {:>6}",
            subject.entries,
            summary.median,
            format!("{:.1} .. {:.1}", summary.min, summary.max),
            ratio.map_or_else(String::new, |ratio| format!("x{:.3}", ratio.median)),
        );
    }
    println!("  resident memory of all processes, and server CPU; ratio to the first line");
}
