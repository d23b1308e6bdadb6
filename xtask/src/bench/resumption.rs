//! `bench resumption`: server CPU per connection by the way in which it resumes, with one worker
//! and with two, Lariat and its peers side by side in one run.
//!
//! The client is `lariat-lab load`: it counts each handshake by its kind, and one of another kind
//! than was asked for has failed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use super::arguments::Options;
use super::backend::Backend;
use super::certificate::{Authority, Key};
use super::client_program::{Ended, Invocation};
use super::host::{Cores, Folder};
use super::lines::{self, Line};
use super::process;
use super::record;
use super::server::{Kind, Program, Server, Site};
use super::tool::{Amount, Call, Tally, Tool};
use super::web;

/// The name in the certificates.
const NAME: &str = "bench.test";
const ROUNDS: usize = 5;
/// At once for each worker, so that workers have as much to do at a time however many there are.
/// Each is of a client with sessions of its own, whose first handshake is full: few, so that they
/// do not count.
const CONNECTIONS: u64 = 16;
const START_MAX: Duration = Duration::from_secs(15);
/// Of a round, so much is done to warm up, and to see whether the server resumes at all.
const WARM_UP_SHARE: f64 = 0.1;

/// Where TLS 1.3 sessions lie.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sessions {
    /// With the client, as all servers have it by default.
    Tickets,
    /// In the server's cache, each good for one connection; asked of Lariat alone.
    Cache,
}

/// How one connection comes about; there is no request.
struct Row {
    name: &'static str,
    title: &'static str,
    key: Key,
    sessions: Sessions,
    words: &'static str,
    is_resumed: bool,
    operations: u64,
}

const fn row(name: &'static str, title: &'static str, words: &'static str) -> Row {
    Row {
        name,
        title,
        key: Key::P256,
        sessions: Sessions::Tickets,
        words,
        is_resumed: true,
        operations: 20_000,
    }
}

const fn full(name: &'static str, title: &'static str, words: &'static str) -> Row {
    Row {
        is_resumed: false,
        operations: 8_000,
        ..row(name, title, words)
    }
}

const fn rsa(row: Row) -> Row {
    Row {
        key: Key::Rsa2048,
        ..row
    }
}

const fn cache(row: Row) -> Row {
    Row {
        sessions: Sessions::Cache,
        ..row
    }
}

const FULL_12: &str = "--tls 1.2 --handshake full";
const FULL_13: &str = "--tls 1.3 --handshake full";
const ID_12: &str = "--handshake session-id";
const TICKET_12: &str = "--handshake ticket";
const PSK_13: &str = "--handshake psk";

const ROWS: &[Row] = &[
    full("full-12", "TLS 1.2 full, P-256", FULL_12),
    row("id-12", "TLS 1.2 by session id, P-256", ID_12),
    row("ticket-12", "TLS 1.2 by ticket, P-256", TICKET_12),
    full("full-13", "TLS 1.3 full, P-256", FULL_13),
    row("psk-13", "TLS 1.3 by PSK, P-256", PSK_13),
    cache(row(
        "cache-13",
        "TLS 1.3 by PSK from the cache, P-256",
        PSK_13,
    )),
    rsa(full("full-12-rsa", "TLS 1.2 full, RSA-2048", FULL_12)),
    rsa(row("id-12-rsa", "TLS 1.2 by session id, RSA-2048", ID_12)),
    rsa(row(
        "ticket-12-rsa",
        "TLS 1.2 by ticket, RSA-2048",
        TICKET_12,
    )),
    rsa(full("full-13-rsa", "TLS 1.3 full, RSA-2048", FULL_13)),
    rsa(row("psk-13-rsa", "TLS 1.3 by PSK, RSA-2048", PSK_13)),
    rsa(cache(row(
        "cache-13-rsa",
        "TLS 1.3 by PSK from the cache, RSA-2048",
        PSK_13,
    ))),
];

/// A server with so many workers and that key, which keeps its sessions so.
struct Subject {
    server: Server,
    key: Key,
    sessions: Sessions,
    workers: usize,
    is_ours: bool,
}

struct Bench<'a> {
    options: &'a Options,
    folder: &'a Path,
    core: usize,
    subjects: Vec<Subject>,
}

/// Runs it and prints a table a row.
///
/// # Errors
/// A measurement of ours failed. Of a peer that does not resume in a row's way the table says so.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rows = options.chosen(ROWS, |row| row.name)?;
    let cores = Cores::choose(options)?;
    let names = options.servers_or(&["lariat", "haproxy", "nginx", "hitch"]);
    let programs = names
        .iter()
        .map(|name| Program::find(name, options))
        .collect::<Result<Vec<_>>>()?;
    let folder = Folder::create()?;
    let mut record = record::begin(options, cores, &programs)?;
    record["lariat_lab"] = json!(Tool::Lab.version(&options.lab_program()?)?);
    let bench = Bench {
        options,
        folder: folder.path(),
        core: cores.client,
        subjects: start(&programs, &rows, cores, folder.path())?,
    };
    let mut results = Vec::new();
    let mut failures = 0;
    for row in rows {
        let lines = bench.measure(row);
        let title = format!("{} ({})", row.title, row.name);
        lines::print(&title, &lines, "µs per connection of server CPU");
        let failed = |line: &&Line| line.is_ours && line.failure.is_some();
        failures += lines.iter().filter(failed).count();
        let lines: Vec<_> = lines.iter().map(Line::describe).collect();
        results.push(json!({ "row": row.name, "title": row.title, "servers": lines }));
    }
    record::finish(options, record, Value::Array(results))?;
    ensure!(failures == 0, "{failures} measurements failed; see above");
    Ok(())
}

/// All that is asked of the programs by some row, with one worker on the servers' core and with two
/// on that and one more: the last one that the client does not use, or the client's if there is no
/// other.
fn start(programs: &[Program], rows: &[&Row], cores: Cores, folder: &Path) -> Result<Vec<Subject>> {
    let allowed = process::allowed_cores()?.into_iter().rev();
    let is_free = |core: &usize| ![cores.server, cores.client].contains(core);
    let second = allowed.into_iter().find(is_free).unwrap_or(cores.client);
    let both = [cores.server, second];
    let backend = Backend::start(programs.len() * 8, cores.client)?;
    let authority = Authority::generate()?;
    let mut subjects = Vec::new();
    for (key, sessions) in [Key::P256, Key::Rsa2048]
        .into_iter()
        .flat_map(|key| [Sessions::Tickets, Sessions::Cache].map(|sessions| (key, sessions)))
        .filter(|asked| rows.iter().any(|row| (row.key, row.sessions) == *asked))
    {
        let folder = folder.join(format!("{key:?}-{sessions:?}"));
        fs::create_dir(&folder)?;
        let certificate = folder.join("bench.test.pem");
        authority.write_leaf_with(key, NAME, &certificate)?;
        for cores in [&both[..1], &both] {
            let folder = folder.join(cores.len().to_string());
            fs::create_dir(&folder)?;
            for program in programs.iter().filter(|one| sessions.suit(one)) {
                let server = program.start(&Site {
                    certificates: &certificate,
                    backend: backend.address(subjects.len()),
                    folder: &folder,
                    cores,
                    lariat: sessions.configuration(),
                    start_max: START_MAX,
                })?;
                subjects.push(Subject {
                    server,
                    key,
                    sessions,
                    workers: cores.len(),
                    is_ours: is_ours(program),
                });
            }
        }
    }
    Ok(subjects)
}

fn is_ours(program: &Program) -> bool {
    program.kind == Kind::Lariat
}

impl Sessions {
    /// Whether they are asked of a program.
    fn suit(self, program: &Program) -> bool {
        self == Self::Tickets || is_ours(program)
    }

    /// In Lariat's configuration.
    fn configuration(self) -> &'static str {
        match self {
            Self::Tickets => "",
            Self::Cache => "resumption = { tls13 = \"cache\" }\n",
        }
    }
}

impl Bench<'_> {
    fn measure(&self, row: &Row) -> Vec<Line> {
        let subjects: Vec<_> = self
            .subjects
            .iter()
            .filter(|one| (one.key, one.sessions) == (row.key, row.sessions))
            .collect();
        let mut lines: Vec<_> = subjects
            .iter()
            .map(|subject| self.prepare(row, subject))
            .collect();
        for round in 1..=self.options.rounds.unwrap_or(ROUNDS) {
            eprintln!("{}: round {round}", row.name);
            for (subject, line) in subjects.iter().zip(&mut lines) {
                if line.failure.is_none() {
                    let outcome = self.measure_once(row, subject, line);
                    line.failure = outcome.err().map(|error| format!("{error:#}"));
                }
            }
        }
        lines
    }

    fn prepare(&self, row: &Row, subject: &Subject) -> Line {
        let warm_up = self.drive(row, subject, self.options.scale * WARM_UP_SHARE);
        let plural = if subject.workers == 1 { "" } else { "s" };
        Line {
            label: format!(
                "{}, {} worker{plural}",
                subject.server.name, subject.workers
            ),
            is_ours: subject.is_ours,
            failure: warm_up.err().map(|error| format!("{error:#}")),
            ..Line::default()
        }
    }

    fn measure_once(&self, row: &Row, subject: &Subject, line: &mut Line) -> Result<()> {
        // A thread of a pool may end for want of work, and takes its time along.
        let once = || self.drive_counted(row, subject);
        let (ended, tally, server_ns) = match once()? {
            (ended, tally, Ok(server_ns)) => (ended, tally, server_ns),
            (_, _, Err(_)) => {
                let (ended, tally, server_ns) = once()?;
                (ended, tally, server_ns?)
            }
        };
        let percent = |ns: u64| 100.0 * ns as f64 / ended.wall_ns as f64;
        line.costs_us
            .push(server_ns as f64 / tally.operations as f64 / 1000.0);
        line.server_percent.push(percent(server_ns));
        line.client_percent.push(percent(ended.cpu_ns));
        Ok(())
    }

    /// The server's CPU time as well, in ns, unless a thread of it has ended.
    fn drive_counted(&self, row: &Row, subject: &Subject) -> Result<(Ended, Tally, Result<u64>)> {
        let tree = subject.server.tree;
        let before = tree.cpu_at_rest()?;
        let (ended, tally) = self.drive(row, subject, self.options.scale)?;
        Ok((ended, tally, tree.cpu_at_rest()?.since(&before)))
    }

    /// # Errors
    /// A connection failed, or its handshake was of another kind than the row's.
    fn drive(&self, row: &Row, subject: &Subject, scale: f64) -> Result<(Ended, Tally)> {
        let url = format!("https://{}/", subject.server.address);
        let connections = CONNECTIONS * subject.workers as u64;
        let words = format!("{} --server-name {NAME}", row.words);
        let call = Call {
            words: &words,
            url: &url,
            asks: false,
            amount: Amount::Operations(row.operations).scaled(scale),
            connections,
            groups: web::groups(self.options.group),
            core: self.core,
        };
        let invocation = Invocation {
            program: &self.options.lab_program()?,
            words: Tool::Lab.words(&call),
            openssl: Path::new("/dev/null"),
            folder: self.folder,
            core: self.core,
        };
        let ended = invocation.run()?;
        let tally = Tool::Lab
            .tally(&ended.output, self.folder)
            .map_err(|_| self.failures())?;
        let first = match row.is_resumed {
            true => connections,
            false => tally.operations,
        };
        ensure!(
            tally.handshakes == Some((first, tally.operations - first)),
            "of {} handshakes {first} were to be full: {:?} were full and resumed",
            tally.operations,
            tally.handshakes
        );
        Ok((ended, tally))
    }

    /// What the last load's record says of connections that failed.
    fn failures(&self) -> anyhow::Error {
        let text = fs::read_to_string(self.folder.join("record.json")).unwrap_or_default();
        let record: Value = serde_json::from_str(&text).unwrap_or_default();
        let (totals, reasons) = (&record["totals"], &record["failures"]);
        anyhow!(
            "of {} connections {} failed: {reasons}",
            totals["attempted"],
            totals["failed"]
        )
    }
}
