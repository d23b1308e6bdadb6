//! The first process of a container (PID 1), which cannot be replaced while the container runs.
//!
//! It starts `lariat serve` as a child, hands signals on to it, and reaps the processes that end.
//! When one supervisor has taken over from another, it goes on with that one; when none is left, it
//! ends as the last one did. It holds no socket, key or file.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use sys::epoll::{Epoll, Events, Interest};
use sys::peer::Process;
use sys::process;
use sys::signal::{Signal, Signals};

use crate::console::Console;
use crate::exit::Exit;
use crate::running::supervisors;

/// What `ps` shows for it.
const NAME: &str = "lariat: init";

/// From one look at a supervisor that is no child of ours, as one that was started by hand in the
/// container, to the next.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Handed on; what the supervisor does of each, it knows.
const SIGNALS: [Signal; 7] = [
    Signal::Child,
    Signal::Hangup,
    Signal::Interrupt,
    Signal::Order,
    Signal::Terminate,
    Signal::User1,
    Signal::User2,
];

/// Whether this is the first process of its container, or of the host.
pub(crate) fn is_first_process() -> bool {
    std::process::id() == 1
}

/// Serves by a child, to its end.
pub(crate) fn run(console: Console) -> ExitCode {
    match attend() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            console.error(format_args!("the first process cannot go on: {error}"));
            Exit::Failed.into()
        }
    }
}

fn attend() -> io::Result<u8> {
    let signals = Signals::new(&SIGNALS)?;
    let (epoll, mut events) = (Epoll::new()?, Events::with_capacity(1));
    epoll.add(&signals, 0, Interest::READ)?;
    // Only `ps` would miss it.
    let _ = process::set_name(NAME);
    let mut arguments = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    // By this name the supervisor finds the program when it is upgraded.
    arguments.next().map(|name| command.arg0(name));
    let mut serving = Process::of(command.args(arguments).spawn()?.id())?;
    // As long as nothing is known of how it ended.
    let mut code = Exit::Failed as u8;
    loop {
        epoll.wait(&mut events, Some(LOOK_INTERVAL))?;
        while let Some((signal, number)) = signals.next() {
            let _ = hand_on(signal, number, &serving);
        }
        while let Some((pid, its_code)) = process::reap() {
            if pid == serving.pid() {
                code = its_code;
            }
        }
        if serving.has_ended_within(Duration::ZERO)? {
            match supervisors()?.next() {
                Some(successor) => serving = successor,
                None => return Ok(code),
            }
        }
    }
}

/// Hands a signal on: after an upgrade one supervisor serves, and one drains.
fn hand_on(signal: Signal, number: u64, serving: &Process) -> io::Result<()> {
    if signal == Signal::Child {
        return Ok(());
    }
    let ends = matches!(signal, Signal::Interrupt | Signal::Terminate);
    let mut all: Vec<_> = supervisors()?.collect();
    if ends && all.iter().all(|one| one.pid() != serving.pid()) {
        // Started a moment ago, it has not its name yet.
        let _ = serving.signal(signal);
    }
    // One that has just been started would end of it.
    all.retain(|one| ends || one.blocks(signal).unwrap_or(false));
    // It fails for one that has ended, which is noticed elsewhere.
    match signal {
        Signal::Order => all.iter().for_each(|one| drop(one.order(number))),
        // Those before it drain, or are about to.
        Signal::User2 => drop(all.last().map(|youngest| youngest.signal(signal))),
        signal => all.iter().for_each(|one| drop(one.signal(signal))),
    }
    Ok(())
}
