//! What the system says of a process.

use std::fs;

use rustix::process::Pid;

pub fn status_line(process: Pid, key: &str) -> String {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = fs::read_to_string(path).expect("the process is there");
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key}")).trim().to_owned()
}

/// Whether it has ended, also if its parent has not asked how.
pub fn has_ended(process: Pid) -> bool {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = fs::read_to_string(path);
    status.map_or(true, |status| status.contains("\nState:\tZ"))
}
