//! `lariat reload`: tells the running one to read its configuration again, and waits for what
//! comes of it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sys::signal::Signal;

use super::peer::{self, PeerError, Supervisor};
use crate::admin::StatusDocument;
use crate::exit::Exit;
use crate::talk::{Talk, print};

/// More than the supervisor gives the data process to build a plan.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(150);

/// From one look at the status to the next.
const PAUSE: Duration = Duration::from_millis(25);

pub(super) fn run(socket: Option<PathBuf>, talk: Talk) -> Exit {
    let path = peer::socket(socket);
    match reloaded(&path) {
        Ok(Some(document)) => outcome(&document, talk),
        Ok(None) => {
            talk.error("the reload is still under way");
            talk.hint("`lariat status` tells when it has ended, and how");
            Exit::Failed
        }
        Err(error) => error.tell(talk),
    }
}

/// The status after the reload has ended; `None` if it does not end.
fn reloaded(path: &Path) -> Result<Option<StatusDocument>, PeerError> {
    let before = peer::document(path)?;
    let mut supervisor = Supervisor::of(&before)?;
    supervisor.signal(Signal::Hangup)?;
    let begin = Instant::now();
    while begin.elapsed() < ANSWER_TIME_MAX {
        std::thread::sleep(PAUSE);
        match peer::document(path) {
            Ok(now) if ended(&now) > ended(&before) => return Ok(Some(now)),
            _ if supervisor.has_ended() => {
                return Err(PeerError::Ended {
                    pid: supervisor.pid(),
                });
            }
            // Not yet; or the data process is being started again and answers in a moment.
            _ => {}
        }
    }
    Ok(None)
}

fn ended(document: &StatusDocument) -> u64 {
    document.reload.ok + document.reload.refused
}

fn outcome(document: &StatusDocument, talk: Talk) -> Exit {
    let last = document.reload.last.as_ref();
    match last.and_then(|last| last.refused.as_ref()) {
        None => {
            let generation = document.process.generation;
            print(format_args!("reloaded: plan {generation} is served\n"));
            Exit::Success
        }
        Some(why) => {
            talk.say(why);
            talk.error("the new configuration was refused; the old plan is still served");
            Exit::Refused
        }
    }
}
