//! What a run leaves: one JSON document that says how it was made and holds every reading.

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::arguments::Options;
use super::host::{self, Cores};
use super::server::Program;

/// Starts a record: command line, host, versions.
pub(crate) fn begin(options: &Options, cores: Cores, programs: &[Program]) -> Result<Value> {
    let mut servers = Map::new();
    for program in programs {
        let description = json!({
            "version": program.version()?,
            "path": program.path.display().to_string(),
        });
        servers.insert(program.name.clone(), description);
    }
    Ok(json!({
        "benchmark": options.command.name(),
        "command_line": std::env::args().collect::<Vec<_>>(),
        "unix_time": unix_time()?,
        "host": host::describe(cores),
        "servers": servers,
    }))
}

/// Writes a record with its results, and says where.
pub(crate) fn finish(options: &Options, mut record: Value, results: Value) -> Result<()> {
    record["results"] = results;
    let path = match &options.record {
        Some(path) => path.clone(),
        None => {
            let file = format!("{}-{}.json", options.command.name(), unix_time()?);
            PathBuf::from("target/bench").join(file)
        }
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let text = format!("{record:#}\n");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("record: {}", path.display());
    Ok(())
}

fn unix_time() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}
