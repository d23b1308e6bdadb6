//! `bench idle`: resident memory of a server per connection that is open and silent.
//!
//! Each connection has made a full TLS 1.3 handshake and one 1 KiB request. What the kernel holds
//! for its sockets is not counted.

use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};

use super::arguments::Options;
use super::backend::Backend;
use super::certificate::Authority;
use super::client::{Client, Offer, check_server};
use super::host::{Cores, Folder};
use super::process;
use super::record;
use super::server::{Program, Site};
use super::work::IDLE;

const NAME: &str = "bench.test";
const CONNECTIONS: usize = 8000;
/// Connections opened at a time: fewer than any server's backlog.
const BATCH: usize = 32;
/// Descriptors of this process that are neither a client's connection nor the backend's.
const SPARE_DESCRIPTORS: usize = 200;
const START_MAX: Duration = Duration::from_secs(15);

/// Resident memory of one server, in bytes.
struct Reading {
    before: u64,
    open: u64,
    closed: u64,
}

/// Runs it and prints a line a server.
pub(crate) fn run(options: &Options) -> Result<()> {
    let connections = options
        .connections
        .unwrap_or(CONNECTIONS)
        .next_multiple_of(BATCH);
    ensure_descriptors(connections)?;
    let cores = Cores::choose(options)?;
    let names = options.servers_or(&["lariat", "haproxy", "nginx", "hitch"]);
    let programs = names
        .iter()
        .map(|name| Program::find(name, options))
        .collect::<Result<Vec<_>>>()?;
    let record = record::begin(options, cores, &programs)?;
    let mut results = Vec::new();
    println!("resident memory per idle connection, {connections} of them");
    println!(
        "  {:<12} {:>8}  {:>9} {:>9} {:>9}  MiB",
        "server", "KiB", "before", "open", "closed"
    );
    let backend = Backend::start(programs.len(), cores.client)?;
    for (index, program) in programs.iter().enumerate() {
        let reading = measure(options, cores, program, (&backend, index), connections)?;
        reading.print(&program.name, connections);
        results.push(reading.describe(&program.name, connections));
    }
    record::finish(options, record, Value::Array(results))
}

/// Each connection takes two here, the client's and the backend's, and a batch one more.
fn ensure_descriptors(connections: usize) -> Result<()> {
    let needed = connections * 2 + connections / BATCH + SPARE_DESCRIPTORS;
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        ensure!(
            needed as u64 <= limit,
            "{connections} connections take {needed} open files here, and the limit is {limit}"
        );
    }
    Ok(())
}

fn measure(
    options: &Options,
    cores: Cores,
    program: &Program,
    (backend, listener): (&Backend, usize),
    connections: usize,
) -> Result<Reading> {
    let folder = Folder::create()?;
    let authority = Authority::generate()?;
    let certificate = folder.path().join("bench.test.pem");
    authority.write_leaf(NAME, &certificate)?;
    let server = program.start(&Site {
        certificates: &certificate,
        backend: backend.address(listener),
        folder: folder.path(),
        cores: &[cores.server],
        lariat: "",
        start_max: START_MAX,
    })?;
    let offer = Offer::of(options);
    check_server(server.address, NAME, authority.roots()?, offer, IDLE)?;
    server.tree.cpu_at_rest()?;
    let before = server.tree.resident_bytes()?;
    process::pin_thread(cores.client)?;
    let mut clients = Vec::new();
    for _ in 0..connections / BATCH {
        let mut client = Client::new(server.address, NAME, offer, IDLE, BATCH)?;
        client.run(BATCH as u64)?;
        clients.push(client);
    }
    server.tree.cpu_at_rest()?;
    let open = server.tree.resident_bytes()?;
    drop(clients);
    server.tree.cpu_at_rest()?;
    let closed = server.tree.resident_bytes()?;
    Ok(Reading {
        before,
        open,
        closed,
    })
}

impl Reading {
    fn kib_per_connection(&self, connections: usize) -> f64 {
        (self.open as f64 - self.before as f64) / 1024.0 / connections as f64
    }

    fn print(&self, name: &str, connections: usize) {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "  {name:<12} {:>8.2}  {:>9.1} {:>9.1} {:>9.1}",
            self.kib_per_connection(connections),
            mebibytes(self.before),
            mebibytes(self.open),
            mebibytes(self.closed),
        );
    }

    fn describe(&self, name: &str, connections: usize) -> Value {
        json!({
            "server": name,
            "connections": connections,
            "kib_per_connection": self.kib_per_connection(connections),
            "resident_bytes_before": self.before,
            "resident_bytes_open": self.open,
            "resident_bytes_closed": self.closed,
        })
    }
}
