//! What a tree of processes used, read from `/proc`: CPU time and resident memory.
//!
//! CPU time is the scheduler's own count for each thread, in nanoseconds (`schedstat`); the ticks
//! of `stat` are too coarse for this.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Two readings this far apart tell whether a tree still works.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);
/// A tree that used less than this between two readings has settled: timers may tick.
const SETTLE_NS_MAX: u64 = 100_000;
/// A tree that has not settled after this never will: something spins.
const SETTLE_MAX: Duration = Duration::from_secs(20);

/// A process and all that descend from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    root: u32,
}

/// CPU time of each thread of a tree at one moment, by process and thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CpuReading(BTreeMap<(u32, u32), u64>);

impl CpuReading {
    /// Nanoseconds used from `before` until this reading.
    ///
    /// # Errors
    /// A thread has ended in between: its time is lost, so the sum would be too small.
    pub(crate) fn since(&self, before: &Self) -> Result<u64> {
        for thread in before.0.keys() {
            if !self.0.contains_key(thread) {
                bail!(
                    "thread {} of process {} ended while measured",
                    thread.1,
                    thread.0
                );
            }
        }
        Ok(self.total() - before.total())
    }

    fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

impl Tree {
    /// The tree beneath a process.
    pub(crate) fn of(root: u32) -> Self {
        Self { root }
    }

    /// This process alone, threads and all.
    pub(crate) fn own_cpu() -> Result<CpuReading> {
        let mut threads = BTreeMap::new();
        read_threads(std::process::id(), &mut threads)?;
        Ok(CpuReading(threads))
    }

    /// The root and its descendants that live now.
    pub(crate) fn members(self) -> Result<Vec<u32>> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if let Some(parent) = parent_of(pid) {
                children.entry(parent).or_default().push(pid);
            }
        }
        let mut members = vec![self.root];
        let mut next = 0;
        while let Some(parent) = members.get(next) {
            members.extend(children.remove(parent).unwrap_or_default());
            next += 1;
        }
        Ok(members)
    }

    /// CPU time of every thread.
    pub(crate) fn cpu(self) -> Result<CpuReading> {
        let mut threads = BTreeMap::new();
        for pid in self.members()? {
            read_threads(pid, &mut threads)?;
        }
        Ok(CpuReading(threads))
    }

    /// CPU time once the tree is at rest: a running thread's count lags by up to a tick, and what
    /// a server does after the last reply belongs to the operations too.
    pub(crate) fn cpu_at_rest(self) -> Result<CpuReading> {
        let begun = Instant::now();
        let mut last = self.cpu()?;
        loop {
            thread::sleep(SETTLE_PAUSE);
            let now = self.cpu()?;
            if now.total().saturating_sub(last.total()) < SETTLE_NS_MAX {
                return Ok(now);
            }
            if begun.elapsed() > SETTLE_MAX {
                bail!("process {} does not come to rest", self.root);
            }
            last = now;
        }
    }

    /// Resident memory of all members, in bytes. Pages that members share count for each of them.
    pub(crate) fn resident_bytes(self) -> Result<u64> {
        let mut bytes = 0;
        for pid in self.members()? {
            // A member may end between the list and the look at it.
            let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
                continue;
            };
            bytes += field_kib(&status, "VmRSS:").unwrap_or(0) * 1024;
        }
        Ok(bytes)
    }
}

/// Pins the calling thread, and what it starts, to a core.
pub(crate) fn pin_thread(core: usize) -> Result<()> {
    pin_thread_to(&[core])
}

/// Pins the calling thread, and what it starts, to some cores.
pub(crate) fn pin_thread_to(cores: &[usize]) -> Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    rustix::thread::sched_setaffinity(None, &set)
        .with_context(|| format!("cannot use the cores {cores:?}"))
}

/// The cores that this thread may use.
pub(crate) fn allowed_cores() -> Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect())
}

fn read_threads(pid: u32, threads: &mut BTreeMap<(u32, u32), u64>) -> Result<()> {
    let folder = format!("/proc/{pid}/task");
    for entry in fs::read_dir(&folder).with_context(|| format!("process {pid} is gone"))? {
        let name = entry?.file_name();
        let Some(thread) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let path = format!("{folder}/{thread}/schedstat");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let first = text
            .split_whitespace()
            .next()
            .and_then(|word| word.parse().ok());
        threads.insert(
            (pid, thread),
            first.with_context(|| format!("{path} is empty"))?,
        );
    }
    Ok(())
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parent_in(&stat)
}

/// The fourth field; the second is a name in parentheses that may hold anything.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

fn field_kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_is_found_behind_any_name() {
        assert_eq!(parent_in("17 (a ) b) S 4 17 17 0"), Some(4));
        assert_eq!(parent_in("17 nonsense"), None);
    }

    #[test]
    fn memory_is_found_in_a_status() {
        let status = "Name:\tx\nVmRSS:\t     512 kB\nThreads:\t1\n";
        assert_eq!(field_kib(status, "VmRSS:"), Some(512));
        assert_eq!(field_kib(status, "VmHWM:"), None);
    }

    #[test]
    fn a_lost_thread_is_an_error() {
        let before = CpuReading(BTreeMap::from([((1, 1), 5), ((1, 2), 7)]));
        let after = CpuReading(BTreeMap::from([((1, 1), 9), ((1, 2), 8), ((1, 3), 2)]));
        assert_eq!(after.since(&before).expect("no thread was lost"), 7);
        before.since(&after).expect_err("thread 3 was lost");
    }

    #[test]
    fn a_child_is_a_member() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat starts");
        let tree = Tree::of(std::process::id());
        let members = tree.members().expect("/proc can be read");
        assert!(members.contains(&child.id()));
        assert!(tree.resident_bytes().expect("/proc can be read") > 0);
        drop(child.stdin.take());
        child.wait().expect("cat ends");
    }
}
