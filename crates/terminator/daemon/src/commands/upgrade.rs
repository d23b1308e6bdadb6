//! `lariat upgrade`: has the running one become the program as installed now, and waits for what
//! comes of it.

use std::path::Path;
use std::time::{Duration, Instant};

use sys::signal::Signal;

use super::control::{self, ControlError};
use super::reload::unless_draining;
use crate::admin::StatusDocument;
use crate::commands::args::StatusSocket;
use crate::commands::console::{Console, print};
use crate::commands::exit::Exit;

/// More than the steps of an upgrade may take, and a reload before them.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(480);

/// From one look at the status to the next.
const PAUSE: Duration = Duration::from_millis(25);

/// From the end of the status socket to the end of a process that is told to stop.
const END_TIME_MAX: Duration = Duration::from_secs(3);

pub(super) fn run(socket: &StatusSocket, console: Console) -> Exit {
    let upgraded = control::socket(socket).and_then(|path| {
        upgraded(&path, console).map_err(|error| match error {
            ControlError::Silent { path, error } => ControlError::Absent { path, error },
            other => other,
        })
    });
    match upgraded {
        Ok(Outcome::Ended(document)) => tell(&document, console),
        Ok(Outcome::Elsewhere) => {
            print("the new program has taken over, with another status socket\n");
            Exit::Success
        }
        Ok(Outcome::UnderWay) => {
            console.error("the upgrade is still under way");
            console.hint("the messages of the running lariat say how far it is");
            Exit::Failed
        }
        Err(error) => error.tell(console),
    }
}

/// How far an upgrade has come.
enum Outcome {
    /// This is the status after it.
    Ended(Box<StatusDocument>),
    /// It has ended well, and its status is at another place.
    Elsewhere,
    UnderWay,
}

/// Begins an upgrade, and waits for its end.
fn upgraded(path: &Path, console: Console) -> Result<Outcome, ControlError> {
    let answer = control::ask(path)?;
    answer.name_other_owner(console);
    let (before, supervisor) = (answer.document()?, answer.supervisor()?);
    unless_draining(&before)?;
    supervisor.signal(Signal::User2)?;
    let _waits = control::say_if_slow(
        console,
        "waiting for the new program to take over; the messages of the running lariat say how far \
         it is",
    );
    let begin = Instant::now();
    while begin.elapsed() < ANSWER_TIME_MAX {
        let has_ended = supervisor.has_ended_within(PAUSE);
        match control::ask(path).and_then(|answer| answer.document()) {
            Ok(now) if ended(&now) > ended(&before) => return Ok(Outcome::Ended(Box::new(now))),
            Ok(now) => unless_draining(&now)?,
            // The new configuration names another status socket.
            Err(_) if !path.exists() && !supervisor.has_ended_within(END_TIME_MAX) => {
                return Ok(Outcome::Elsewhere);
            }
            // No worker process answers for a moment.
            Err(_) => {}
        }
        if has_ended {
            let pid = supervisor.pid();
            return Err(ControlError::Ended { pid });
        }
    }
    Ok(Outcome::UnderWay)
}

fn ended(document: &StatusDocument) -> u64 {
    document.last_upgrade.as_ref().map_or(0, |last| last.number)
}

fn tell(document: &StatusDocument, console: Console) -> Exit {
    let last = document.last_upgrade.as_ref();
    match last.and_then(|last| last.refused.as_ref()) {
        None => {
            let program = last.map_or("", |last| &last.program);
            let pid = document.process.supervisor_pid;
            print(format_args!("process {pid}, lariat {program}, has taken over\n"));
            Exit::Success
        }
        Some(why) => {
            console.refusal(why);
            console.error("the new program has not taken over; the running one stays");
            Exit::Refused
        }
    }
}
