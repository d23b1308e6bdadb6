//! Runs programs on chosen CPUs, measures them, and ends them with this process however it ends.
//!
//! Each program is started by a guard, a second process of ours, which kills it and its descendants
//! when we are gone (even by SIGKILL). CPU time of a program and its descendants is read from the
//! kernel's own clock of each process, which includes threads that have ended, because some servers
//! have a thread a connection. [`scratch`] makes the folders that they write to.

pub(crate) mod scratch;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use sys::cpu::{self, process_time};
use sys::{process, signal};

/// Time after which a server that was asked to end is killed.
const ASKED_MAX: Duration = Duration::from_secs(3);

/// Limit of the wait until the kernel has ended a killed process.
const KILLED_MAX: Duration = Duration::from_secs(5);

/// Pause between two checks whether a program has ended.
const PAUSE: Duration = Duration::from_millis(2);
/// Limit of output that is read: enough for any message.
const SAID_BYTES_MAX: u64 = 1 << 20;

/// A running program; dropping it ends the program.
#[derive(Debug)]
pub(crate) struct GuardedChild {
    guard: std::process::Child,
    /// Input of the guard, which ends when this is closed.
    hold: Option<ChildStdin>,
    reports: BufReader<ChildStdout>,
    id: u32,
    output: PathBuf,
    /// How the program ended, if known.
    end: Option<String>,
}

impl GuardedChild {
    /// Starts a command, which begins with its program, on these CPUs (all of ours if empty) in a
    /// folder, with its output written to a file.
    pub(crate) fn start(
        command: &[OsString],
        cpus: &[u16],
        folder: &Path,
        output: &Path,
    ) -> io::Result<Self> {
        // Our own executable, even if the file has been replaced since.
        let mut guard = Command::new("/proc/self/exe")
            .arg0("lariat-lab")
            .args(words(cpus, command))
            .current_dir(folder)
            // Only this process handles Ctrl-C.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(output)?)
            .spawn()?;
        let hold = guard.stdin.take();
        let pipe = guard.stdout.take().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let mut reports = BufReader::new(pipe);
        let mut line = String::new();
        reports.read_line(&mut line)?;
        let started = line.strip_prefix(STARTED);
        let Some(id) = started.and_then(|id| id.trim().parse().ok()) else {
            let _ = guard.wait();
            let program = program_of(command);
            let why = line.strip_prefix(REFUSED).unwrap_or(&line);
            return Err(io::Error::other(format!("{program} cannot be started: {}", why.trim())));
        };
        Ok(Self { guard, hold, reports, id, output: output.to_owned(), end: None })
    }

    /// Runs a command to its end and returns its output and errors.
    ///
    /// # Errors
    /// Fails like [`Self::start`], or if the command has not ended after `longest`.
    pub(crate) fn run(
        command: &[OsString],
        cpus: &[u16],
        folder: &Path,
        output: &Path,
        longest: Duration,
    ) -> io::Result<String> {
        let mut child = Self::start(command, cpus, folder, output)?;
        let begun = Instant::now();
        while child.ended().is_none() {
            if begun.elapsed() > longest {
                let program = program_of(command);
                let why = format!("{program} has not ended after {} s", longest.as_secs());
                return Err(io::Error::other(why));
            }
            thread::sleep(PAUSE);
        }
        Ok(child.output())
    }

    pub(crate) fn tree(&self) -> ProcessTree {
        ProcessTree::of(self.id)
    }

    /// Returns how the program ended, if it did: `exit status: 1`.
    pub(crate) fn ended(&mut self) -> Option<&str> {
        if self.end.is_none() && !matches!(self.guard.try_wait(), Ok(None)) {
            self.clear_up();
            let mut rest = String::new();
            // A guard that was killed itself reports nothing.
            let _ = self.reports.read_to_string(&mut rest);
            let how = rest.trim().strip_prefix(ENDED);
            self.end = Some(how.unwrap_or("its guard was killed").to_owned());
        }
        self.end.as_deref()
    }

    /// Kills the guard's group, because a guard that was killed has ended nothing. The group's
    /// number is not reused while the group has members.
    fn clear_up(&mut self) {
        let status = self.guard.wait();
        let was_killed = status.map_or(true, |status: ExitStatus| status.code().is_none());
        if was_killed {
            // The group may be empty.
            let _ = signal::kill_group(self.guard.id());
        }
    }

    /// Returns the program's output so far, standard output and errors.
    pub(crate) fn output(&self) -> String {
        let mut bytes = Vec::new();
        if let Ok(file) = File::open(&self.output) {
            let _ = file.take(SAID_BYTES_MAX).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Ends the program, and waits until it and all its descendants are gone.
impl Drop for GuardedChild {
    fn drop(&mut self) {
        drop(self.hold.take());
        if self.end.is_none() {
            self.clear_up();
        }
    }
}

fn program_of(command: &[OsString]) -> String {
    command.first().map(|program| program.to_string_lossy()).unwrap_or_default().into_owned()
}

/// Returns the first lines of a program's output, for a message.
pub(crate) fn first_lines(said: &str) -> String {
    const LINES_MAX: usize = 4;
    let lines: Vec<_> = said.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let mut text = lines[..lines.len().min(LINES_MAX)].join("\n");
    if lines.len() > LINES_MAX {
        text.push_str("\n…");
    }
    text
}

/// Returns the few lines of a program's output that explain a failure: those with such a word, else
/// the last ones.
pub(crate) fn fault_lines(said: &str) -> String {
    const LINES_MAX: usize = 6;
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let tells = |line: &&str| {
        let line = line.to_ascii_lowercase();
        FAULT_WORDS.iter().any(|word| line.contains(word))
    };
    let mut chosen: Vec<_> = lines().filter(tells).take(LINES_MAX).collect();
    if chosen.is_empty() {
        chosen = lines().rev().take(LINES_MAX).collect();
        chosen.reverse();
    }
    chosen.join("\n")
}

/// Lower-case words of lines that explain a failure.
const FAULT_WORDS: [&str; 9] =
    ["alert", "cannot", "denied", "emerg", "error", "fail", "fatal", "invalid", "unable"];

/// The command that makes this program a guard; hidden from users.
pub(crate) const COMMAND: &str = "guard";

/// First words of a guard's reports on its standard output, a line each.
const STARTED: &str = "started ";
/// The program could not be started; the reason follows.
const REFUSED: &str = "refused ";
/// The program ended by itself; its status follows.
const ENDED: &str = "ended ";
enum GuardEvent {
    /// The pipe to the process that started us is closed.
    Released,
    Ended(ExitStatus),
}

/// Formats CPUs as flags list them: `0,2,3`.
pub(crate) fn cpu_list(cpus: &[u16]) -> String {
    let cpus: Vec<_> = cpus.iter().map(u16::to_string).collect();
    cpus.join(",")
}

/// Returns the arguments that make this program guard another one.
pub(crate) fn words(cpus: &[u16], command: &[OsString]) -> Vec<OsString> {
    [COMMAND.into(), cpu_list(cpus).into()].into_iter().chain(command.iter().cloned()).collect()
}

/// Starts the program that the words after [`COMMAND`] name, and guards it until either ends.
pub(crate) fn run(words: impl IntoIterator<Item = OsString>) {
    let mut words = words.into_iter();
    let cpus = words.next().unwrap_or_default();
    let program = words.next().unwrap_or_default();
    match start(&cpus, &program, words) {
        Ok(child) => guard(child),
        Err(error) => say(REFUSED, error),
    }
}

fn start(
    cpus: &OsStr,
    program: &OsStr,
    arguments: impl Iterator<Item = OsString>,
) -> io::Result<std::process::Child> {
    process::adopt_orphans()?;
    let cpus = cpus.to_string_lossy();
    let cpus: Vec<u16> = cpus.split(',').filter_map(|cpu| cpu.parse().ok()).collect();
    if !cpus.is_empty() {
        cpu::confine_current_thread(&cpus)?;
    }
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(io::stderr().as_fd().try_clone_to_owned()?);
    // Dies with us if we are killed: the kernel watches this thread, which lives as long as we do.
    process::end_child_with_us(&mut command).spawn()
}

fn guard(child: std::process::Child) {
    let id = child.id();
    say(STARTED, id);
    let (tell, events) = channel();
    watch(child, tell);
    match events.recv() {
        Ok(GuardEvent::Ended(status)) => say(ENDED, status),
        Ok(GuardEvent::Released) | Err(_) => ask_to_end(id, &events),
    }
    kill_all();
}

fn watch(mut child: std::process::Child, tell: Sender<GuardEvent>) {
    let tell_release = tell.clone();
    thread::spawn(move || {
        // The starter never writes: the read ends, or it fails, which is an end too.
        let _ = io::stdin().read(&mut [0]);
        let _ = tell_release.send(GuardEvent::Released);
    });
    thread::spawn(move || {
        if let Ok(status) = child.wait() {
            let _ = tell.send(GuardEvent::Ended(status));
        }
    });
}

fn ask_to_end(id: u32, events: &Receiver<GuardEvent>) {
    // The process may have ended just now.
    let _ = signal::send(id, signal::Signal::Terminate);
    let _ = events.recv_timeout(ASKED_MAX);
}

/// Kills all remaining descendants.
fn kill_all() {
    let own = std::process::id();
    let begun = Instant::now();
    while begun.elapsed() < KILLED_MAX {
        let left = ProcessTree::of(own).members().unwrap_or_default();
        let mut left = left.into_iter().filter(|&id| id != own).peekable();
        if left.peek().is_none() {
            return;
        }
        for id in left {
            let _ = signal::kill(id);
        }
        thread::sleep(PAUSE);
    }
}

/// Reports to the process that started us, if it still runs.
fn say(what: &str, detail: impl std::fmt::Display) {
    let mut output = io::stdout();
    let _ = writeln!(output, "{what}{detail}").and_then(|()| output.flush());
}

/// Pause between two readings of CPU time, which show whether a tree still works.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);
/// CPU time between two readings below which a tree is at rest, because timers may tick.
const SETTLED_MAX: Duration = Duration::from_micros(100);
/// Time after which a tree that is not at rest never will be: something spins.
const SETTLE_MAX: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessTree {
    root: u32,
}

/// CPU time of each process of a tree at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CpuReading(BTreeMap<u32, Duration>);

impl CpuReading {
    /// Returns the CPU time used since `before`.
    ///
    /// # Errors
    /// Fails if a process has ended in between.
    pub(crate) fn since(&self, before: &Self) -> io::Result<Duration> {
        let lost = before.0.keys().find(|id| !self.0.contains_key(id));
        match lost {
            Some(id) => Err(io::Error::other(format!(
                "process {id} of the server ended while it was measured"
            ))),
            None => Ok(self.total().saturating_sub(before.total())),
        }
    }

    /// Removes the processes that are not in a later reading.
    pub(crate) fn forget_ended(&mut self, after: &Self) {
        self.0.retain(|id, _| after.0.contains_key(id));
    }

    fn total(&self) -> Duration {
        self.0.values().sum()
    }
}

impl ProcessTree {
    /// Makes the tree below a process.
    pub(crate) fn of(root: u32) -> Self {
        Self { root }
    }

    /// Lists the root, if it lives, and its descendants that live now.
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

    /// Reads the CPU time of every member.
    pub(crate) fn cpu(self) -> io::Result<CpuReading> {
        let members = self.members()?.into_iter();
        // A member may end between the listing and the reading.
        let times = members.filter_map(|id| Some((id, process_time(id).ok()?)));
        Ok(CpuReading(times.collect()))
    }

    /// Reads CPU time once the tree is at rest: a running thread's count lags by up to a tick, and
    /// a server's work after the last reply belongs to the operations too.
    ///
    /// # Errors
    /// Fails if the tree does not come to rest within 20 seconds.
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

    /// Sums resident memory of all members, in bytes. A page that several share counts once in all,
    /// where the kernel lets us see it (`Pss`), else once for each.
    pub(crate) fn resident_bytes(self) -> io::Result<u64> {
        Ok(self.members()?.into_iter().map(resident).sum())
    }

    /// Lists every thread of every member.
    pub(crate) fn threads(self) -> io::Result<Vec<u32>> {
        let members = self.members()?.into_iter();
        let tasks = members.filter_map(|id| fs::read_dir(format!("/proc/{id}/task")).ok());
        let names = tasks.flatten().flatten().map(|entry| entry.file_name());
        Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
    }

    /// Counts how often threads that live now have gone to sleep.
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
    // A member may have ended meanwhile; it then uses no memory.
    let kib = |file: &str, name: &str| {
        field(&fs::read_to_string(format!("/proc/{id}/{file}")).ok()?, name)
    };
    kib("smaps_rollup", "Pss:").or_else(|| kib("status", "VmRSS:")).unwrap_or(0) * 1024
}

/// Returns the parent of a living process; `None` for one that has ended and is not yet reaped.
fn living_parent(id: u32) -> Option<u32> {
    parent_in(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

/// Parses the third and fourth field; the second is a name in parentheses with any characters.
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
    fn lines_that_tell_are_told() {
        let banner = "stunnel 5.68\n[!] Invalid curves list\n\nbye\n";
        assert_eq!(fault_lines(banner), "[!] Invalid curves list");
        let silent: String = (0..9).map(|line| format!("{line}\n")).collect();
        assert_eq!(fault_lines(&silent), "3\n4\n5\n6\n7\n8");
        assert_eq!(fault_lines(""), "");
    }

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
