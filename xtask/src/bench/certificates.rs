//! `bench certificates`: what many certificates cost a server: time to the first handshake, memory
//! for each, and for Lariat the peak of a reload.
//!
//! Each certificate has a key and a name of its own. Servers read them from a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::arguments::Options;
use super::backend::Backend;
use super::certificate::Authority;
use super::client::{Offer, check_server};
use super::host::{Cores, Folder};
use super::process::Tree;
use super::record;
use super::server::{Kind, Program, Server, Site};
use super::statistics::Summary;
use super::work::IDLE;

const ROUNDS: usize = 3;
const COUNT: usize = 10_000;
const START_MAX: Duration = Duration::from_secs(120);
/// The pause between two looks at a server that reloads.
const SAMPLE_PAUSE: Duration = Duration::from_millis(1);
/// How long memory is watched after the reload was reported done.
const WATCH_AFTER: Duration = Duration::from_millis(500);

struct Bench<'a> {
    options: &'a Options,
    cores: Cores,
    folder: Folder,
    authority: Authority,
    backend: Backend,
}

/// One server, one round.
struct Reading {
    load: Duration,
    resident_one: u64,
    resident_all: u64,
    reload: Option<Reload>,
}

/// Resident memory around a reload, in bytes.
struct Reload {
    took: Duration,
    before: u64,
    peak: u64,
    after: u64,
    /// How long it was above one and a half times `before`.
    raised: Duration,
}

/// Runs it and prints a line a server and round.
pub(crate) fn run(options: &Options) -> Result<()> {
    let cores = Cores::choose(options)?;
    let names = options.servers_or(&["lariat"]);
    let programs = names
        .iter()
        .map(|name| Program::find(name, options))
        .collect::<Result<Vec<_>>>()?;
    for program in &programs {
        ensure!(
            program.kind != Kind::Nginx,
            "nginx's stream module reads no folder"
        );
    }
    let record = record::begin(options, cores, &programs)?;
    let bench = Bench::prepare(options, cores)?;
    let mut results = Vec::new();
    println!(
        "{} certificates, ECDSA P-256, each with its chain of two",
        options.count.unwrap_or(COUNT)
    );
    for program in &programs {
        let rounds = options.rounds.unwrap_or(ROUNDS);
        let readings = (0..rounds)
            .map(|_| bench.measure(program))
            .collect::<Result<Vec<_>>>()?;
        results.push(bench.report(program, &readings));
    }
    record::finish(options, record, Value::Array(results))
}

impl<'a> Bench<'a> {
    fn prepare(options: &'a Options, cores: Cores) -> Result<Self> {
        let folder = Folder::create()?;
        let authority = Authority::generate()?;
        let backend = Backend::start(1, cores.client)?;
        let bench = Self {
            options,
            cores,
            folder,
            authority,
            backend,
        };
        bench.write(&bench.all(), options.count.unwrap_or(COUNT))?;
        bench.write(&bench.one(), 1)?;
        Ok(bench)
    }

    fn all(&self) -> PathBuf {
        self.folder.path().join("all")
    }

    fn one(&self) -> PathBuf {
        self.folder.path().join("one")
    }

    fn write(&self, folder: &Path, count: usize) -> Result<()> {
        fs::create_dir(folder)?;
        for index in 0..count {
            let name = name_of(index);
            self.authority
                .write_leaf(&name, &folder.join(format!("{name}.pem")))?;
        }
        Ok(())
    }

    fn measure(&self, program: &Program) -> Result<Reading> {
        let (one, _) = self.start(program, &self.one(), 1)?;
        let resident_one = one.tree.resident_bytes()?;
        drop(one);
        let (all, load) = self.start(program, &self.all(), self.options.count.unwrap_or(COUNT))?;
        let resident_all = all.tree.resident_bytes()?;
        let reload = match program.kind {
            Kind::Lariat => Some(self.reload(program, &all)?),
            Kind::Haproxy | Kind::Nginx | Kind::Hitch => None,
        };
        Ok(Reading {
            load,
            resident_one,
            resident_all,
            reload,
        })
    }

    /// Starts it; the time is until the last certificate's name was served, chain and all.
    fn start(
        &self,
        program: &Program,
        certificates: &Path,
        count: usize,
    ) -> Result<(Server, Duration)> {
        let begun = Instant::now();
        let server = program.start(&Site {
            certificates,
            backend: self.backend.address(0),
            folder: self.folder.path(),
            cores: &[self.cores.server],
            lariat: "",
            start_max: START_MAX,
        })?;
        self.check(&server, count - 1)?;
        let load = begun.elapsed();
        self.check(&server, 0)?;
        server.tree.cpu_at_rest()?;
        Ok((server, load))
    }

    fn check(&self, server: &Server, index: usize) -> Result<()> {
        let offer = Offer::of(self.options);
        let name = name_of(index);
        check_server(server.address, &name, self.authority.roots()?, offer, IDLE)
            .with_context(|| format!("{} does not serve {name}", server.name))
    }

    fn reload(&self, program: &Program, server: &Server) -> Result<Reload> {
        let before = server.tree.resident_bytes()?;
        let begun = Instant::now();
        let mut command = Command::new(&program.path)
            .arg("reload")
            .arg("--status-socket")
            .arg(server.status_socket())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let mut watch = Watch::new(server.tree, before);
        let status = loop {
            watch.look()?;
            if let Some(status) = command.try_wait()? {
                break status;
            }
        };
        let took = begun.elapsed();
        ensure!(status.success(), "the reload failed: {status}");
        while begun.elapsed() < took + WATCH_AFTER {
            watch.look()?;
        }
        self.check(server, self.options.count.unwrap_or(COUNT) - 1)?;
        server.tree.cpu_at_rest()?;
        let after = server.tree.resident_bytes()?;
        Ok(Reload {
            took,
            before,
            peak: watch.peak,
            after,
            raised: watch.raised,
        })
    }

    fn report(&self, program: &Program, readings: &[Reading]) -> Value {
        let count = self.options.count.unwrap_or(COUNT);
        let load = summary(readings, |reading| reading.load.as_secs_f64());
        let memory = summary(readings, |reading| reading.kib_per_certificate(count));
        println!("  {}", program.name);
        print_summary("seconds until the last one was served", load);
        print_summary("KiB resident per certificate", memory);
        for reload in readings
            .iter()
            .filter_map(|reading| reading.reload.as_ref())
        {
            reload.print();
        }
        json!({
            "server": program.name,
            "certificates": count,
            "rounds": readings.iter().map(|reading| reading.describe(count)).collect::<Vec<_>>(),
        })
    }
}

fn name_of(index: usize) -> String {
    format!("site-{index}.bench.test")
}

fn summary(readings: &[Reading], value: impl Fn(&Reading) -> f64) -> Option<Summary> {
    Summary::of(&readings.iter().map(value).collect::<Vec<_>>())
}

fn print_summary(what: &str, summary: Option<Summary>) {
    if let Some(Summary { median, min, max }) = summary {
        println!("    {what:<40} {median:>8.2}  ({min:.2} .. {max:.2})");
    }
}

/// Memory of a tree, looked at again and again.
struct Watch {
    tree: Tree,
    threshold: u64,
    peak: u64,
    raised: Duration,
    last: Instant,
}

impl Watch {
    fn new(tree: Tree, before: u64) -> Self {
        let threshold = before + before / 2;
        Self {
            tree,
            threshold,
            peak: before,
            raised: Duration::ZERO,
            last: Instant::now(),
        }
    }

    fn look(&mut self) -> Result<()> {
        std::thread::sleep(SAMPLE_PAUSE);
        let now = self.tree.resident_bytes()?;
        self.peak = self.peak.max(now);
        if now > self.threshold {
            self.raised += self.last.elapsed();
        }
        self.last = Instant::now();
        Ok(())
    }
}

impl Reading {
    fn kib_per_certificate(&self, count: usize) -> f64 {
        let more = self.resident_all as f64 - self.resident_one as f64;
        more / 1024.0 / (count.saturating_sub(1).max(1)) as f64
    }

    fn describe(&self, count: usize) -> Value {
        json!({
            "load_seconds": self.load.as_secs_f64(),
            "kib_per_certificate": self.kib_per_certificate(count),
            "resident_bytes_one": self.resident_one,
            "resident_bytes_all": self.resident_all,
            "reload": self.reload.as_ref().map(Reload::describe),
        })
    }
}

impl Reload {
    fn print(&self) {
        println!(
            "    reload: {:.2} s; peak x{:.2}, afterwards x{:.2} of before; {:.2} s above x1.5",
            self.took.as_secs_f64(),
            self.peak as f64 / self.before as f64,
            self.after as f64 / self.before as f64,
            self.raised.as_secs_f64(),
        );
    }

    fn describe(&self) -> Value {
        json!({
            "seconds": self.took.as_secs_f64(),
            "resident_bytes_before": self.before,
            "resident_bytes_peak": self.peak,
            "resident_bytes_after": self.after,
            "seconds_above_one_and_a_half": self.raised.as_secs_f64(),
        })
    }
}
