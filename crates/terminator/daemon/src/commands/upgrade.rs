//! `lariat upgrade`: has the running one become the program as installed now, and waits for what
//! comes of it.

use std::time::Duration;

use sys::signal::Signal;

use super::control::{self, ControlError, RunningLariat};
use crate::admin::StatusDocument;
use crate::commands::args::StatusSocket;
use crate::commands::console::{Console, print};
use crate::commands::exit::Exit;

/// More than the steps of an upgrade may take, and a reload before them.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2445);

/// The time from the end of the status socket to the end of a process that has to stop.
const END_TIME_MAX: Duration = Duration::from_secs(3);

pub(super) fn run(socket: &StatusSocket, console: Console) -> Exit {
    let upgraded = upgraded(socket, console).map_err(|error| match error {
        ControlError::Silent { path, error } => ControlError::Absent { path, error },
        other => other,
    });
    match upgraded {
        Ok(Some(Outcome::Ended(document))) => tell(&document, console),
        Ok(Some(Outcome::Elsewhere)) => {
            print("the new program has taken over, with another status socket\n");
            Exit::Success
        }
        Ok(None) => {
            console.error("the upgrade is still under way");
            console.hint("`lariat status` says how far it is");
            Exit::Failed
        }
        Err(error) => error.tell(console),
    }
}

/// How an upgrade has ended.
enum Outcome {
    /// This is the status after it.
    Ended(Box<StatusDocument>),
    /// It has ended well, and its status is at another place.
    Elsewhere,
}

/// Begins an upgrade, and waits for its end; `None` if it does not end.
fn upgraded(socket: &StatusSocket, console: Console) -> Result<Option<Outcome>, ControlError> {
    let running = RunningLariat::find_serving(socket, console)?;
    if let Some(upgrade) = &running.document.upgrade {
        console.say(format_args!("an upgrade is under way already: {}", upgrade.stage));
    }
    running.supervisor.signal(Signal::User2)?;
    let _waits = control::say_if_slow(
        console,
        "waiting for the new program to take over; `lariat status` says how far it is",
    );
    let before = ended(&running.document);
    running.wait_for(ANSWER_TIME_MAX, |now| {
        // The new configuration may name another status socket.
        let is_gone = || !running.path.exists();
        Ok(match now {
            Some(now) if ended(now) > before => Some(Outcome::Ended(Box::new(now.clone()))),
            None if is_gone() && !running.supervisor.has_ended_within(END_TIME_MAX) => {
                Some(Outcome::Elsewhere)
            }
            _ => None,
        })
    })
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
