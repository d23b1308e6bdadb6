//! The guard: a small process of ours between us and a program that we start.
//!
//! It holds one end of a pipe whose other end is ours. When we close it, or the kernel does since
//! we have ended, in whatever way, the guard ends the program and all that descends from it: also
//! workers that lost their own parent, since they become its children. It does nothing else.
//!
//! One that is killed takes the program with it by the kernel's doing, and the process that
//! started it ends what else is left of its group of processes ([`super::child`]).

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use sys::{cpu, process, signal};

use super::tree::Tree;

/// The command that makes this program a guard. It is no part of what users are offered.
pub(crate) const COMMAND: &str = "guard";

/// First words of what a guard says on its standard output, a line each.
pub(crate) const STARTED: &str = "started ";
/// The program could not be started; why.
pub(crate) const REFUSED: &str = "refused ";
/// The program ended by itself; how.
pub(crate) const ENDED: &str = "ended ";

/// A server that has not ended this long after it was asked to is killed.
const ASKED_MAX: Duration = Duration::from_secs(3);
/// What was killed is gone after this, or never will be.
const KILLED_MAX: Duration = Duration::from_secs(5);
/// Between two checks of what is left.
const PAUSE: Duration = Duration::from_millis(2);

enum Event {
    /// The pipe to the process that started us is closed.
    Released,
    Ended(ExitStatus),
}

/// The words after the program's own name that make it guard another one.
pub(crate) fn words(cpus: &[u16], command: &[OsString]) -> Vec<OsString> {
    let cpus: Vec<_> = cpus.iter().map(u16::to_string).collect();
    let own = [COMMAND.into(), cpus.join(",").into()];
    own.into_iter().chain(command.iter().cloned()).collect()
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
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(io::stderr().as_fd().try_clone_to_owned()?);
    // In case that we are killed: by this thread, which lives as long as we do.
    process::end_child_with_us(&mut command).spawn()
}

fn guard(child: std::process::Child) {
    let id = child.id();
    say(STARTED, id);
    let (tell, events) = channel();
    watch(child, tell);
    match events.recv() {
        Ok(Event::Ended(status)) => say(ENDED, status),
        Ok(Event::Released) | Err(_) => ask_to_end(id, &events),
    }
    kill_all();
}

fn watch(mut child: std::process::Child, tell: Sender<Event>) {
    let tell_release = tell.clone();
    thread::spawn(move || {
        // Nothing is ever written there: it ends, or it fails, which is an end too.
        let _ = io::stdin().read(&mut [0]);
        let _ = tell_release.send(Event::Released);
    });
    thread::spawn(move || {
        if let Ok(status) = child.wait() {
            let _ = tell.send(Event::Ended(status));
        }
    });
}

fn ask_to_end(id: u32, events: &Receiver<Event>) {
    // It may have ended just now.
    let _ = signal::send(id, signal::Signal::Terminate);
    let _ = events.recv_timeout(ASKED_MAX);
}

/// Whatever is left beneath us.
fn kill_all() {
    let own = std::process::id();
    let begun = Instant::now();
    while begun.elapsed() < KILLED_MAX {
        let left = Tree::of(own).members().unwrap_or_default();
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

/// To the process that started us, if it is still there.
fn say(what: &str, detail: impl std::fmt::Display) {
    let mut output = io::stdout();
    let _ = writeln!(output, "{what}{detail}").and_then(|()| output.flush());
}
