//! The footprint of a process: memory, descriptors, threads, CPU time.

use std::fs;

use rustix::process::Pid;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Footprint {
    /// Resident memory, in KiB.
    pub resident_kib: u64,
    /// Resident memory that is neither a file's nor shared with another process, in KiB.
    pub anonymous_kib: u64,
    /// Resident memory, with shared parts divided by the number of sharers, in KiB.
    pub proportional_kib: u64,
    pub descriptors: u64,
    pub threads: u64,
    /// CPU time used since its start, in ticks of 10 ms.
    pub cpu_ticks: u64,
}

impl Footprint {
    /// Returns the footprint of a process; `None` if it is gone, or not ours and we are not root.
    pub fn of(process: Pid) -> Option<Self> {
        let read = |name: &str| {
            let path = format!("/proc/{}/{name}", process.as_raw_nonzero());
            fs::read_to_string(path).ok()
        };
        let (status, rollup, stat) = (read("status")?, read("smaps_rollup")?, read("stat")?);
        let folder = format!("/proc/{}/fd", process.as_raw_nonzero());
        Some(Self {
            resident_kib: field(&status, "VmRSS:")?,
            anonymous_kib: field(&status, "RssAnon:")?,
            proportional_kib: field(&rollup, "Pss:")?,
            descriptors: fs::read_dir(folder).ok()?.count() as u64,
            threads: field(&status, "Threads:")?,
            cpu_ticks: cpu_ticks(&stat)?,
        })
    }
}

/// Returns the CPU time in ns that the thread of this name has used; `None` if there is none, or we
/// may not ask.
pub fn thread_cpu_ns(process: Pid, name: &str) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).ok()?;
    let read = |thread: &fs::DirEntry, file| fs::read_to_string(thread.path().join(file)).ok();
    let mut threads = threads.flatten();
    let thread = threads.find(|one| read(one, "comm").is_some_and(|comm| comm.trim() == name))?;
    // Time on a CPU comes first (Documentation/scheduler/sched-stats.rst).
    read(&thread, "schedstat")?.split(' ').next()?.parse().ok()
}

/// Returns the number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Adds the fields `utime` and `stime` of `/proc/PID/stat` (proc(5)): the 12th and 13th behind the
/// name, which may itself hold blanks and parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_behind_a_name_with_blanks() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 0 0 31 11 0 0 20 0 1 0 5";
        assert_eq!(cpu_ticks(stat), Some(42));
    }
}
