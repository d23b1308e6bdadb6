//! `lariat-lab probe`, and readers of its report.

use std::net::SocketAddr;

use serde_json::Value;

use crate::lab;
use crate::program::{Finished, run};

pub const BRIEF: &str = "1s";

/// A time limit that no host exceeds, however busy it is.
pub const BUSY: &str = "30s";

/// Probes the address with this `--timeout`, to its end.
pub fn probe(timeout: &str, address: SocketAddr, flags: &[&str]) -> Finished {
    let mut command = lab::command();
    command.args(["probe", &address.to_string(), "--timeout", timeout]);
    run(command.args(["--attempts", "2"]).args(flags))
}

/// Exit code of a probe that got through to no address.
pub const NOT_PROBED: i32 = 4;

/// Returns the report of a probe, which may have got through to no address.
pub fn report(timeout: &str, address: SocketAddr, flags: &[&str]) -> Value {
    let said = probe(timeout, address, &[flags, &["--json"]].concat());
    let said = said.ended(&[0, NOT_PROBED]);
    serde_json::from_str(&said).expect("it is JSON")
}

/// Returns the kind and the text of the trouble at the only node of a report.
pub fn trouble(report: &Value) -> (String, String) {
    let trouble = &report["nodes"][0]["trouble"];
    let text = |key: &str| trouble[key].as_str().unwrap_or_default().to_owned();
    (text("kind"), text("text"))
}
