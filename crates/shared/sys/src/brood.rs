//! Runs a program and kills it together with all its descendants, also those that have left its
//! process group and session (setsid(2)) or lost their parent.
//!
//! Finds the descendants: orphans are reparented to this process (`PR_SET_CHILD_SUBREAPER`), which
//! runs one such program at a time. The caller decides how long the program may run.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::process::adopt_orphans;

/// Longest wait for killed processes; they end within milliseconds unless a file system hangs.
const END_TIME_MAX: Duration = Duration::from_secs(2);

/// Pause between two scans for living descendants.
const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// Held while a program runs: one at a time, because an orphan does not tell whose child it was.
static TURN: Mutex<()> = Mutex::new(());

/// The program that runs now.
static CURRENT: Mutex<Option<Kin>> = Mutex::new(None);

/// A program and all its descendants.
pub struct Brood {
    kin: Kin,
    _turn: MutexGuard<'static, ()>,
}

impl Brood {
    /// Starts a program in its own process group, once this process runs no other such program.
    pub fn start(command: &mut Command) -> io::Result<(Self, Child)> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        adopt_orphans()?;
        let own = own_pid();
        let children = processes().into_iter().filter(|one| one.parent == own);
        let others = children.map(|one| one.pid).collect();
        let child = command.process_group(0).spawn()?;
        let founder = i32::try_from(child.id()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let kin = Kin { founder, others: Some(others) };
        *current() = Some(kin.clone());
        Ok((Self { kin, _turn: turn }, child))
    }

    /// Kills every descendant (SIGKILL) and waits until they are gone. The caller reaps the program
    /// itself.
    pub fn end(&self) {
        self.kin.end();
    }
}

impl Drop for Brood {
    fn drop(&mut self) {
        *current() = None;
    }
}

/// Kills the program that runs now, if any, and its descendants, as [`Brood::end`] does: for a
/// thread that learns that the process must exit.
pub fn end_current() {
    let kin = current().clone();
    kin.iter().for_each(Kin::end);
}

/// Kills the process group of the program `founder` and every descendant, and waits until they are
/// gone. The caller reaps the program itself. For a process that adopts no orphans: a descendant
/// that has left the group and also lost its parent is not found.
pub fn end_group(founder: u32) {
    if let Ok(founder) = i32::try_from(founder) {
        Kin { founder, others: None }.end();
    }
}

fn current() -> MutexGuard<'static, Option<Kin>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Criteria by which a process is known to descend from a program.
#[derive(Clone)]
struct Kin {
    founder: i32,
    /// Children this process had before; `None` if it adopts no orphans.
    others: Option<Vec<i32>>,
}

impl Kin {
    fn end(&self) {
        let begun = Instant::now();
        // Killing a process that runs as another user may be forbidden.
        let ended = |pid: &i32| {
            Pid::from_raw(*pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
        };
        // A child forked meanwhile is found by the next scan.
        while self.living().iter().filter(|pid| ended(pid)).count() > 0
            && begun.elapsed() < END_TIME_MAX
        {
            thread::sleep(LOOK_PAUSE);
        }
    }

    /// Returns the running descendants; reaps ended ones that are children of this process.
    fn living(&self) -> Vec<i32> {
        let (own, all) = (own_pid(), processes());
        // 0 if our group is in another PID namespace, as for a container's first process.
        let group = all.iter().find(|one| one.pid == own).map_or(0, |one| one.group);
        // Other children of ours stay in our group; no child of this program does.
        let is_first = |one: &&ProcessEntry| match &self.others {
            None => one.group == self.founder,
            Some(others) => {
                one.parent == own
                    && (one.pid == self.founder || one.group != group && !others.contains(&one.pid))
            }
        };
        let mut found: Vec<&ProcessEntry> = all.iter().filter(is_first).collect();
        let mut looked = 0;
        while let Some(parent) = found.get(looked).map(|one| one.pid) {
            found.extend(all.iter().filter(|one| one.parent == parent));
            looked += 1;
        }
        for one in found.iter().filter(|one| one.has_ended && one.pid != self.founder) {
            // Fails for a process with another parent.
            let _ = Pid::from_raw(one.pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
        }
        found.into_iter().filter(|one| !one.has_ended).map(|one| one.pid).collect()
    }
}

/// A process of the host, from `/proc`.
struct ProcessEntry {
    pid: i32,
    parent: i32,
    group: i32,
    has_ended: bool,
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Returns every process that `/proc` shows.
fn processes() -> Vec<ProcessEntry> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid| stat_of(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// Parses a line of proc_pid_stat(5). The name, in parentheses, may contain any byte.
fn stat_of(pid: i32, line: &[u8]) -> Option<ProcessEntry> {
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    let mut fields = str::from_utf8(line.get(name_end + 1..)?).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    Some(ProcessEntry {
        pid,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        has_ended: matches!(state, "Z" | "X" | "x"),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn lines_of_the_table_are_read_whatever_a_name_holds() {
        let one = stat_of(7, b"7 (a) Z 1 (b\xff) S 12 34 5 0 -1").unwrap();
        assert_eq!((one.pid, one.parent, one.group, one.has_ended), (7, 12, 34, false));
        assert!(stat_of(7, b"7 (a) Z 12 34 5").unwrap().has_ended);
        assert!(stat_of(7, b"7 (a").is_none());
        assert!(processes().iter().any(|one| one.pid == own_pid()));
    }

    /// Starts a program and reads `count` pids that it prints, one per line.
    fn started(script: &str, count: usize) -> (Brood, Child, Vec<i32>) {
        let mut command = Command::new("/bin/sh");
        let command = command.args(["-c", script]).stdout(Stdio::piped());
        let (brood, mut child) = Brood::start(command).unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(count);
        let pids = lines.map(|line| line.unwrap().parse().unwrap()).collect();
        (brood, child, pids)
    }

    fn runs(pid: i32) -> bool {
        let stat = fs::read(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|line| stat_of(pid, &line).is_some_and(|one| !one.has_ended))
    }

    #[test]
    fn what_leaves_its_group_and_session_and_parent_is_ended_all_the_same() {
        let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
        let session = "setsid sh -c 'echo $$; sleep 1000 & echo $!; wait' &";
        // A process in its own session, started from a session whose leader exits.
        let orphan = "setsid sh -c 'setsid sh -c \"echo \\$\\$; exec sleep 1000\" & exit' &";
        for (end, ending) in [
            ("wait", Brood::end as fn(&Brood)),
            ("exit 0", Brood::end),
            ("wait", |_| end_current()),
        ] {
            let (brood, mut child, pids) = started(&format!("{session} {orphan} {end}"), 3);
            ending(&brood);
            child.wait().unwrap();
            assert!(pids.iter().all(|pid| !runs(*pid)), "{pids:?}");
        }
        assert!(other.try_wait().unwrap().is_none(), "what is not the program's goes on");
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn what_starts_others_all_the_time_is_ended() {
        let script = "setsid sh -c 'while :; do setsid sleep 1000 & echo $!; done' & wait";
        let (brood, mut child, _) = started(script, 20);
        brood.end();
        child.wait().unwrap();
        assert!(brood.kin.living().is_empty(), "{:?}", brood.kin.living());
    }
}
