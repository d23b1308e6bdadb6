//! `lariat reload`: tells the running one to read its configuration again, and waits for what
//! comes of it.

use std::path::Path;
use std::time::{Duration, Instant};

use sys::signal::Signal;
use telemetry::catalogue::ProcessMetric;

use super::control::{self, ControlError};
use crate::admin::{RunState, StatusDocument};
use crate::commands::args::StatusSocket;
use crate::commands::console::{Console, print};
use crate::commands::exit::Exit;

/// More than the supervisor gives the worker process to build a plan.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(150);

/// From one look at the status to the next.
const PAUSE: Duration = Duration::from_millis(25);

pub(super) fn run(socket: &StatusSocket, strict: bool, console: Console) -> Exit {
    match control::socket(socket).and_then(|path| reloaded(&path, console)) {
        Ok(Some(document)) => match outcome(&document, console) {
            Exit::Warned if !strict => Exit::Success,
            exit => exit,
        },
        Ok(None) => {
            console.error("the reload is still under way");
            console.hint("`lariat status` shows when it has ended, and how");
            Exit::Failed
        }
        Err(error) => error.tell(console),
    }
}

/// The status after the reload has ended; `None` if it does not end.
fn reloaded(path: &Path, console: Console) -> Result<Option<StatusDocument>, ControlError> {
    let answer = control::ask(path)?;
    answer.name_other_owner(console);
    let (before, supervisor) = (answer.document()?, answer.supervisor()?);
    unless_draining(&before)?;
    supervisor.signal(Signal::Hangup)?;
    let _waits = control::say_if_slow(
        console,
        "waiting: another reload is under way, a new process is taking over, or the files are read \
         slowly; the messages of the running lariat say which",
    );
    let begin = Instant::now();
    while begin.elapsed() < ANSWER_TIME_MAX {
        let has_ended = supervisor.has_ended_within(PAUSE);
        match control::ask(path).and_then(|answer| answer.document()) {
            Ok(now) if ended(&now) > ended(&before) => return Ok(Some(now)),
            Ok(now) => unless_draining(&now)?,
            // The worker process may be being started again, and answers in a moment.
            Err(_) => {}
        }
        if has_ended {
            let pid = supervisor.pid();
            return Err(ControlError::Ended { pid });
        }
    }
    Ok(None)
}

/// A supervisor that drains takes no reload.
pub(super) fn unless_draining(document: &StatusDocument) -> Result<(), ControlError> {
    match document.process.state {
        RunState::Serving => Ok(()),
        RunState::Draining => Err(ControlError::Draining { pid: document.process.supervisor_pid }),
    }
}

fn ended(document: &StatusDocument) -> u64 {
    let count = |result| document.process.metrics.get(result);
    count(ProcessMetric::ReloadsOk).saturating_add(count(ProcessMetric::ReloadsRefused))
}

fn outcome(document: &StatusDocument, console: Console) -> Exit {
    let last = document.last_reload.as_ref();
    match last.and_then(|last| last.refused.as_ref()) {
        None => {
            let generation = document.process.metrics.get(ProcessMetric::Generation);
            print(format_args!("reloaded: configuration {generation} is served\n"));
            let warnings = last.and_then(|last| last.warnings.as_ref());
            if let Some(warnings) = warnings {
                console.say(warnings);
            }
            if warnings.is_some() { Exit::Warned } else { Exit::Success }
        }
        Some(why) => {
            console.refusal(why);
            console.error("the new configuration was refused; the old one is still served");
            Exit::Refused
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(state: &str) -> StatusDocument {
        let text = format!(
            r#"{{"version":2,"time_ms":0,"process":{{"program":"","state":"{state}","pid":2,
                "supervisor_pid":1,"start_ms":0,"supervisor_start_ms":0,"metrics":{{}}}},
                "workers":[],"services":[],"bounds_us":[]}}"#
        );
        StatusDocument::from_json(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_draining_process_refuses() {
        unless_draining(&document("serving")).unwrap();
        let error = unless_draining(&document("draining")).unwrap_err();
        assert!(error.to_string().contains("is draining"), "{error}");
        assert_eq!(error.tell(Console::to_stderr()), Exit::Refused);
    }
}
