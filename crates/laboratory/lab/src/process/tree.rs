//! Use of a tree of processes: CPU time by the kernel's own clock of each process, and memory.
//!
//! A process's clock counts threads that have ended, too: some servers have a thread a connection.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use sys::cpu::process_time;

/// Between two readings of CPU time, which show whether a tree still works.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);
/// A tree that used less than this between two readings has settled: timers may tick.
const SETTLED_MAX: Duration = Duration::from_micros(100);
/// A tree that has not settled after this never will: something spins.
const SETTLE_MAX: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessTree {
    root: u32,
}

/// CPU time of each process of a tree at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CpuReading(BTreeMap<u32, Duration>);

impl CpuReading {
    /// CPU time used since `before`.
    ///
    /// # Errors
    /// A process has ended in between.
    pub(crate) fn since(&self, before: &Self) -> io::Result<Duration> {
        let lost = before.0.keys().find(|id| !self.0.contains_key(id));
        match lost {
            Some(id) => Err(io::Error::other(format!(
                "process {id} of the server ended while it was measured"
            ))),
            None => Ok(self.total().saturating_sub(before.total())),
        }
    }

    /// Leaves the processes out that are not in a later reading.
    pub(crate) fn forget_ended(&mut self, after: &Self) {
        self.0.retain(|id, _| after.0.contains_key(id));
    }

    fn total(&self) -> Duration {
        self.0.values().sum()
    }
}

impl ProcessTree {
    /// The tree beneath a process.
    pub(crate) fn of(root: u32) -> Self {
        Self { root }
    }

    /// The root, if it lives, and its descendants that live now.
    pub(crate) fn members(self) -> io::Result<Vec<u32>> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut members = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let id = name.to_str().and_then(|name| name.parse().ok());
            match id.and_then(|id| Some((id, living_parent(id)?))) {
                Some((id, _)) if id == self.root => members.push(id),
                Some((id, parent)) => children.entry(parent).or_default().push(id),
                None => {}
            }
        }
        let mut parents = vec![self.root];
        while let Some(parent) = parents.pop() {
            let found = children.remove(&parent).unwrap_or_default();
            members.extend(&found);
            parents.extend(found);
        }
        Ok(members)
    }

    /// CPU time of every member.
    pub(crate) fn cpu(self) -> io::Result<CpuReading> {
        let members = self.members()?.into_iter();
        // A member may end between the list and the look at it.
        let times = members.filter_map(|id| Some((id, process_time(id).ok()?)));
        Ok(CpuReading(times.collect()))
    }

    /// CPU time once the tree is at rest: a running thread's count lags by up to a tick, and what
    /// a server does after the last reply belongs to the operations too.
    ///
    /// # Errors
    /// It does not come to rest within 20 seconds.
    pub(crate) fn cpu_at_rest(self) -> io::Result<CpuReading> {
        let begun = Instant::now();
        let mut last = self.cpu()?;
        loop {
            thread::sleep(SETTLE_PAUSE);
            let now = self.cpu()?;
            if now.total().saturating_sub(last.total()) < SETTLED_MAX {
                return Ok(now);
            }
            if begun.elapsed() > SETTLE_MAX {
                let why = format!("process {} does not come to rest", self.root);
                return Err(io::Error::other(why));
            }
            last = now;
        }
    }

    /// Resident memory of all members, in bytes. A page that several share counts once in all,
    /// where the kernel lets us see it (`Pss`), else once for each.
    pub(crate) fn resident_bytes(self) -> io::Result<u64> {
        Ok(self.members()?.into_iter().map(resident).sum())
    }

    /// Every thread of every member.
    pub(crate) fn threads(self) -> io::Result<Vec<u32>> {
        let members = self.members()?.into_iter();
        let tasks = members.filter_map(|id| fs::read_dir(format!("/proc/{id}/task")).ok());
        let names = tasks.flatten().flatten().map(|entry| entry.file_name());
        Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
    }

    /// How often its threads that live now have gone to sleep.
    pub(crate) fn switches(self) -> io::Result<u64> {
        let threads = self.threads()?.into_iter();
        let counts = threads.filter_map(|id| {
            let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
            field(&status, "voluntary_ctxt_switches:")
        });
        Ok(counts.sum())
    }
}

fn resident(id: u32) -> u64 {
    // A member may have ended meanwhile; then it holds nothing.
    let kib = |file: &str, name: &str| {
        field(&fs::read_to_string(format!("/proc/{id}/{file}")).ok()?, name)
    };
    kib("smaps_rollup", "Pss:").or_else(|| kib("status", "VmRSS:")).unwrap_or(0) * 1024
}

/// The parent of a process that lives; one that has ended, and was not awaited yet, does not.
fn living_parent(id: u32) -> Option<u32> {
    parent_in(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

/// The third and fourth field; the second is a name in parentheses that may hold anything.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(parent)
}

fn field(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent_in("17 (a ) b) S 4 17 17 0"), Some(4));
        assert_eq!(parent_in("17 (a) Z 4 17 17 0"), None);
        assert_eq!(parent_in("17 nonsense"), None);
    }

    #[test]
    fn numbers_are_found_in_a_status() {
        let status = "Name:\tx\nVmRSS:\t     512 kB\nvoluntary_ctxt_switches:\t7\n";
        assert_eq!(field(status, "VmRSS:"), Some(512));
        assert_eq!(field(status, "voluntary_ctxt_switches:"), Some(7));
        assert_eq!(field(status, "VmHWM:"), None);
    }

    #[test]
    fn a_lost_process_is_an_error() {
        let ms = Duration::from_millis;
        let before = CpuReading(BTreeMap::from([(1, ms(5)), (2, ms(7))]));
        let after = CpuReading(BTreeMap::from([(1, ms(9)), (2, ms(8)), (3, ms(2))]));
        assert_eq!(after.since(&before).unwrap(), ms(7));
        let lost = before.since(&after).unwrap_err();
        assert!(lost.to_string().starts_with("process 3 "), "{lost}");
    }

    #[test]
    fn a_child_is_a_member_until_it_ends() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let tree = ProcessTree::of(std::process::id());
        assert!(tree.members().unwrap().contains(&child.id()));
        assert!(tree.threads().unwrap().contains(&child.id()));
        assert!(ProcessTree::of(child.id()).resident_bytes().unwrap() > 0);
        let before = tree.cpu().unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!tree.members().unwrap().contains(&child.id()));
        let lost = tree.cpu().unwrap().since(&before).unwrap_err();
        assert!(lost.to_string().ends_with("ended while it was measured"), "{lost}");
    }
}
