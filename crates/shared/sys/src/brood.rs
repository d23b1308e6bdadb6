//! A program that is ended with all that descends from it, also what has left its group and its
//! session (setsid(2)), and what has lost its parent.
//!
//! Owns who descends from it: orphans fall to this process (`PR_SET_CHILD_SUBREAPER`), which has
//! one such program at a time. How long it may run is its starter's.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::process::adopt_orphans;

/// A process that was killed is gone within milliseconds, unless a file system holds it.
const END_TIME_MAX: Duration = Duration::from_secs(2);

/// From one look for those that are left to the next.
const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// One at a time: an orphan does not say whose it was.
static TURN: Mutex<()> = Mutex::new(());

/// The one whose turn it is.
static CURRENT: Mutex<Option<Kin>> = Mutex::new(None);

/// A program and all that it starts.
pub struct Brood {
    kin: Kin,
    _turn: MutexGuard<'static, ()>,
}

impl Brood {
    /// Starts a program in a group of its own, once no other one of this process has a brood.
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

    /// Ends all that is left of them at once (SIGKILL), and waits until they are gone. The program
    /// itself is its starter's to await.
    pub fn end(&self) {
        self.kin.end();
    }
}

impl Drop for Brood {
    fn drop(&mut self) {
        *current() = None;
    }
}

/// Ends the program that runs now, if any, with its brood, as [`Brood::end`] does: for a thread
/// that hears that the process is to end.
pub fn end_current() {
    let kin = current().clone();
    kin.iter().for_each(Kin::end);
}

/// Ends the group of a program that was started as its founder, and all that descends from it, and
/// waits until they are gone; the program itself is its starter's to await. For a process to which
/// no orphans fall: what has left the group and lost its parent too is not found.
pub fn end_group(founder: u32) {
    if let Ok(founder) = i32::try_from(founder) {
        Kin { founder, others: None }.end();
    }
}

fn current() -> MutexGuard<'static, Option<Kin>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The marks by which a process is known to descend from a program.
#[derive(Clone)]
struct Kin {
    founder: i32,
    /// Children of this process that were there before; `None` = no orphans fall to it.
    others: Option<Vec<i32>>,
}

impl Kin {
    fn end(&self) {
        let begun = Instant::now();
        // One that has become another user may not be ours to end.
        let ended = |pid: &i32| {
            Pid::from_raw(*pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
        };
        // A child that one of them starts meanwhile is found by the next look.
        while self.living().iter().filter(|pid| ended(pid)).count() > 0
            && begun.elapsed() < END_TIME_MAX
        {
            thread::sleep(LOOK_PAUSE);
        }
    }

    /// Processes that run; one that has ended, and is this process's to reap, is reaped.
    fn living(&self) -> Vec<i32> {
        let (own, all) = (own_pid(), processes());
        // 0 if it is of another PID namespace, as that of a container's first process.
        let group = all.iter().find(|one| one.pid == own).map_or(0, |one| one.group);
        // Another child of ours stays in our group, as no child of this program does.
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
            // It fails for one whose parent is another.
            let _ = Pid::from_raw(one.pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
        }
        found.into_iter().filter(|one| !one.has_ended).map(|one| one.pid).collect()
    }
}

/// A line of the host's table of processes.
struct ProcessEntry {
    pid: i32,
    parent: i32,
    group: i32,
    has_ended: bool,
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// All that `/proc` shows.
fn processes() -> Vec<ProcessEntry> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid| stat_of(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// A line of proc_pid_stat(5). The name, in parentheses, may hold any byte.
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

    /// A program that has written so many pids, one a line.
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
        // In a session of its own beneath one, whose leader goes.
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
