//! `bench origin`: server CPU of `lariat-lab origin` per request, beside nginx's `return 200` with
//! a body as long.
//!
//! Both have one thread on one core and are driven by the same programs, one after the other.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::arguments::Options;
use super::certificate::Authority;
use super::client_program::{Ended, Invocation};
use super::host::{Cores, Folder};
use super::lines::{self, Line};
use super::process::Tree;
use super::record;
use super::server::{Launch, Server, free_address};
use super::tool::{Amount, Call, Tally, Tool};
use super::web::{self, Door, Web};

/// The name in the certificate, which nginx wants for its other doors.
const NAME: &str = "bench.test";
const ROUNDS: usize = 5;
const CONNECTIONS: u64 = 32;
const START_MAX: Duration = Duration::from_secs(15);
/// Of a round, so much is done to warm up.
const WARM_UP_SHARE: f64 = 0.1;

/// What one operation is, and who drives.
struct Row {
    name: &'static str,
    title: &'static str,
    operation: &'static str,
    tool: Tool,
    words: &'static str,
    amount: Amount,
}

const ROWS: &[Row] = &[
    Row {
        name: "keep-alive",
        title: "1 KiB request on a kept connection, asked by lariat-lab load",
        operation: "request",
        tool: Tool::Lab,
        words: "--requests-per-connection unlimited",
        amount: Amount::Operations(200_000),
    },
    Row {
        name: "keep-alive-wrk",
        title: "1 KiB request on a kept connection, asked by wrk",
        operation: "request",
        tool: Tool::Wrk,
        words: "",
        amount: Amount::Seconds(4),
    },
    Row {
        name: "connection",
        title: "a connection with one 1 KiB request, asked by lariat-lab load",
        operation: "connection",
        tool: Tool::Lab,
        words: "",
        amount: Amount::Operations(40_000),
    },
    Row {
        name: "connection-wrk",
        title: "a connection with one 1 KiB request, asked by wrk",
        operation: "connection",
        tool: Tool::Wrk,
        words: "-H Connection:~close",
        amount: Amount::Seconds(4),
    },
];

struct Subject {
    label: &'static str,
    is_ours: bool,
    url: String,
    tree: Tree,
}

struct Bench<'a> {
    options: &'a Options,
    folder: &'a Path,
    core: usize,
    subjects: Vec<Subject>,
}

/// Runs it and prints a table a row.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rows = options.chosen(ROWS, |row| row.name)?;
    let cores = Cores::choose(options)?;
    let folder = Folder::create()?;
    let certificate = folder.path().join("bench.test.pem");
    Authority::generate()?.write_leaf(NAME, &certificate)?;
    let web = Web::start(options, &certificate, folder.path(), cores.server)?;
    let origin = start_origin(options, folder.path(), cores.server)?;
    let mut record = record::begin(options, cores, &[])?;
    record["nginx"] = json!(web::version()?);
    record["lariat_lab"] = json!(Tool::Lab.version(&options.lab_program()?)?);
    let bench = Bench {
        options,
        folder: folder.path(),
        core: cores.client,
        subjects: vec![Subject::ours(&origin), Subject::nginx(&web)],
    };
    let mut results = Vec::new();
    let mut failures = 0;
    for row in rows {
        let lines = bench.measure(row);
        let title = format!("{} ({})", row.title, row.name);
        let unit = format!("µs per {} of server CPU", row.operation);
        lines::print(&title, &lines, &unit);
        failures += lines.iter().filter(|line| line.failure.is_some()).count();
        let lines: Vec<_> = lines.iter().map(Line::describe).collect();
        results.push(json!({ "row": row.name, "title": row.title, "servers": lines }));
    }
    record::finish(options, record, Value::Array(results))?;
    ensure!(failures == 0, "{failures} measurements failed; see above");
    Ok(())
}

/// `lariat-lab origin` with one thread.
pub(crate) fn start_origin(options: &Options, folder: &Path, core: usize) -> Result<Server> {
    let folder = folder.join("origin");
    fs::create_dir_all(&folder)?;
    let address = free_address()?;
    let mut command = Command::new(options.lab_program()?);
    command.args(["origin", "--threads", "1", "--listen"]);
    command.arg(address.to_string());
    Server::launch(Launch {
        name: "lariat-lab origin",
        command,
        address,
        folder: &folder,
        cores: &[core],
        start_max: START_MAX,
    })
}

impl Subject {
    fn ours(server: &Server) -> Self {
        Self {
            label: "lariat-lab origin",
            is_ours: true,
            url: format!("http://{}{}", server.address, web::PATH),
            tree: server.tree,
        }
    }

    fn nginx(web: &Web) -> Self {
        let address = web.listener(Door::Plain).measured;
        Self {
            label: "nginx, return 200",
            is_ours: false,
            url: format!("http://{address}{}", web::PATH),
            tree: web.server.tree,
        }
    }
}

impl Bench<'_> {
    fn measure(&self, row: &Row) -> Vec<Line> {
        let prepare = |subject| self.prepare(row, subject);
        let mut lines: Vec<_> = self.subjects.iter().map(prepare).collect();
        for round in 1..=self.options.rounds.unwrap_or(ROUNDS) {
            eprintln!("{}: round {round}", row.name);
            for (subject, line) in self.subjects.iter().zip(&mut lines) {
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
        Line {
            label: subject.label.to_owned(),
            is_ours: subject.is_ours,
            failure: warm_up.err().map(|error| format!("{error:#}")),
            ..Line::default()
        }
    }

    fn measure_once(&self, row: &Row, subject: &Subject, line: &mut Line) -> Result<()> {
        let before = subject.tree.cpu_at_rest()?;
        let (ended, tally) = self.drive(row, subject, self.options.scale)?;
        let server_ns = subject.tree.cpu_at_rest()?.since(&before)?;
        let percent = |ns: u64| 100.0 * ns as f64 / ended.wall_ns as f64;
        line.costs_us
            .push(server_ns as f64 / tally.operations as f64 / 1000.0);
        line.server_percent.push(percent(server_ns));
        line.client_percent.push(percent(ended.cpu_ns));
        Ok(())
    }

    fn drive(&self, row: &Row, subject: &Subject, scale: f64) -> Result<(Ended, Tally)> {
        let program = row.tool.program(self.options)?;
        let call = Call {
            words: row.words,
            url: &subject.url,
            asks: true,
            amount: row.amount.scaled(scale),
            connections: CONNECTIONS,
            groups: "",
            core: self.core,
        };
        let invocation = Invocation {
            program: &program,
            words: row.tool.words(&call),
            openssl: Path::new("/dev/null"),
            folder: self.folder,
            core: self.core,
        };
        let ended = invocation.run()?;
        let tally = row.tool.tally(&ended.output, self.folder)?;
        Ok((ended, tally))
    }
}
