//! `bench memory`: greatest resident memory of `lariat-lab load` by the number of its
//! transactions. It must not grow with it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::arguments::Options;
use super::certificate::Authority;
use super::client_program::Invocation;
use super::host::{Cores, Folder};
use super::record;
use super::tool::{Amount, Call, Tool};
use super::web::{self, Door, Web};

/// The name in the certificate.
const NAME: &str = "bench.test";
const CONNECTIONS: u64 = 32;
/// The file that lariat-lab writes, and says its own memory in.
const RECORD: &str = "record.json";

/// A plan whose number of transactions grows.
struct Row {
    name: &'static str,
    title: &'static str,
    door: Door,
    words: &'static str,
    asks: bool,
    transactions: &'static [u64],
}

const ROWS: &[Row] = &[
    Row {
        name: "keep-alive",
        title: "requests on kept connections, TLS 1.3",
        door: Door::Both,
        words: "--tls 1.3 --requests-per-connection unlimited",
        asks: true,
        transactions: &[10_000, 100_000, 1_000_000, 3_000_000],
    },
    Row {
        name: "id-12",
        title: "a connection each, TLS 1.2 resumed by session id, no request",
        door: Door::Ids,
        words: "--handshake session-id",
        asks: false,
        transactions: &[10_000, 100_000, 300_000],
    },
];

/// Memory of one run, in bytes.
struct Reading {
    transactions: u64,
    /// As the kernel tells it from outside.
    seen: u64,
    /// As the record says.
    recorded: u64,
    record_bytes: u64,
}

/// Runs it and prints a line a run.
pub(crate) fn run(options: &Options) -> Result<()> {
    let cores = Cores::choose(options)?;
    let folder = Folder::create()?;
    let certificate = folder.path().join("bench.test.pem");
    Authority::generate()?.write_leaf(NAME, &certificate)?;
    let web = Web::start(options, &certificate, folder.path(), cores.server)?;
    let mut record = record::begin(options, cores, &[])?;
    let program = options.lab_program()?;
    record["lariat_lab"] = json!(Tool::Lab.version(&program)?);
    let mut results = Vec::new();
    println!("greatest resident memory of lariat-lab load, {CONNECTIONS} connections");
    for row in ROWS.iter().filter(|row| options.wants_row(row.name)) {
        println!("{} ({})", row.title, row.name);
        println!(
            "  {:>12} {:>9} {:>9} {:>9}",
            "transactions", "MiB", "recorded", "record"
        );
        for transactions in row.transactions {
            let amount = Amount::Operations(*transactions).scaled(options.scale);
            let reading = measure(options, (row, amount), &web, folder.path(), cores.client)?;
            reading.print();
            results.push(reading.describe(row));
        }
        println!();
    }
    record::finish(options, record, Value::Array(results))
}

fn measure(
    options: &Options,
    (row, amount): (&Row, Amount),
    web: &Web,
    folder: &Path,
    core: usize,
) -> Result<Reading> {
    let url = format!("https://{}{}", web.listener(row.door).measured, web::PATH);
    let call = Call {
        words: row.words,
        url: &url,
        asks: row.asks,
        amount,
        connections: CONNECTIONS,
        groups: web::groups(options.group),
        core,
    };
    let invocation = Invocation {
        program: &options.lab_program()?,
        words: Tool::Lab.words(&call),
        openssl: Path::new("/dev/null"),
        folder,
        core,
    };
    let ended = invocation.run()?;
    let tally = Tool::Lab.tally(&ended.output, folder)?;
    let text = fs::read_to_string(folder.join(RECORD))?;
    let written: Value = serde_json::from_str(&text)?;
    let recorded = written["client"]["resident_bytes_max"].as_u64();
    Ok(Reading {
        transactions: tally.operations,
        seen: ended.resident_bytes_max,
        recorded: recorded.context("the record does not tell its memory")?,
        record_bytes: text.len() as u64,
    })
}

impl Reading {
    fn print(&self) {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "  {:>12} {:>9.2} {:>9.2} {:>6} KiB",
            self.transactions,
            mebibytes(self.seen),
            mebibytes(self.recorded),
            self.record_bytes / 1024,
        );
    }

    fn describe(&self, row: &Row) -> Value {
        json!({
            "row": row.name,
            "transactions": self.transactions,
            "resident_bytes_max": self.seen,
            "resident_bytes_max_recorded": self.recorded,
            "record_bytes": self.record_bytes,
        })
    }
}
