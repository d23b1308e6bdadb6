//! `lariat reload`: tells the running one to read its configuration again, and waits for what
//! comes of it.

use std::time::Duration;

use sys::signal::Signal;
use telemetry::catalogue::ProcessMetric;

use super::control::{self, ControlError, RunningLariat};
use crate::admin::StatusDocument;
use crate::commands::args::StatusSocket;
use crate::commands::console::{Console, print};
use crate::commands::exit::Exit;

/// More than the supervisor gives the reader to read the files, and then the worker process to
/// build a plan.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2400);

pub(super) fn run(socket: &StatusSocket, strict: bool, console: Console) -> Exit {
    match reloaded(socket, console) {
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
fn reloaded(
    socket: &StatusSocket,
    console: Console,
) -> Result<Option<StatusDocument>, ControlError> {
    let running = RunningLariat::find_serving(socket, console)?;
    running.supervisor.signal(Signal::Hangup)?;
    let _waits = control::say_if_slow(
        console,
        "waiting: another reload is under way, a new process is taking over, or the files are read \
         slowly; the messages of the running lariat say which",
    );
    let before = ended(&running.document);
    running.wait_for(ANSWER_TIME_MAX, |now| Ok(now.filter(|now| ended(now) > before).cloned()))
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
