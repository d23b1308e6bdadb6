//! The kernel's information about processes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::process::Pid;

pub fn status_line(process: Pid, key: &str) -> String {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = fs::read_to_string(path).expect("the process is there");
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key}")).trim().to_owned()
}

/// Reports whether a process has ended, even if its parent has not reaped it.
pub fn has_ended(process: Pid) -> bool {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = fs::read_to_string(path);
    status.map_or(true, |status| status.contains("\nState:\tZ"))
}

/// Returns the resident memory of a process, in KiB.
pub fn resident_kib(process: Pid) -> u64 {
    let text = status_line(process, "VmRSS");
    text.trim_end_matches(" kB").parse().expect("a number of kB")
}

/// Returns the files and sockets that a process has open, as the kernel names them; only root may.
pub fn open_files(process: Pid) -> Vec<PathBuf> {
    let folder = format!("/proc/{}/fd", process.as_raw_nonzero());
    let entries = fs::read_dir(folder).expect("we are root, and it runs");
    entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).collect()
}

/// Returns every process that has not ended, and its parent.
pub fn processes() -> Vec<(u32, u32)> {
    let entries = fs::read_dir("/proc").expect("it is mounted");
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let with_parent = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let has_ended = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        (!has_ended).then_some((id, parent))
    };
    ids.filter_map(with_parent).collect()
}

/// Returns the children of these processes.
pub fn children(of: &BTreeSet<u32>) -> BTreeSet<u32> {
    let all = processes().into_iter();
    all.filter(|(_, parent)| of.contains(parent)).map(|(id, _)| id).collect()
}

/// Reports whether a process's memory holds these bytes; only root may look.
pub fn memory_holds(process: Pid, needle: &[u8]) -> bool {
    let id = process.as_raw_nonzero();
    let maps = fs::read_to_string(format!("/proc/{id}/maps")).expect("the process is there");
    let memory = fs::File::open(format!("/proc/{id}/mem")).expect("root may look");
    let mut readable = maps.lines().filter(|line| line.contains(" rw-"));
    readable.any(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let (from, to) = range.expect("a line begins with two addresses");
        let [from, to] = [from, to].map(|end| u64::from_str_radix(end, 16).expect("hexadecimal"));
        let mut bytes = vec![0; (to - from) as usize];
        // A part may have gone since.
        let read = memory.read_at(&mut bytes, from).unwrap_or(0);
        bytes[..read].windows(needle.len()).any(|part| part == needle)
    })
}
