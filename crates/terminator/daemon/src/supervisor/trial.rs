//! The first seconds of a successor that serves.
//!
//! Its predecessor keeps the listening sockets open meanwhile. If the successor dies, or its worker
//! process does, the predecessor starts the program that it runs itself once more, which takes over
//! in that one's place: connections wait in the kernel's queue until then. Not under a service
//! manager, which starts the service again itself.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Supervisor;
use super::admin_sockets::temporary_paths;
use super::failure::Failure;
use super::messages::{printable, say};
use super::phase::Next;
use super::reading;
use super::successor::TRIAL_TIME;
use crate::takeover::Successor;

/// How long a process that was killed, or has ended its connection to us, may take to end.
pub(super) const END_TIME_MAX: Duration = Duration::from_secs(1);

/// More worker processes than one can have started meanwhile: no two may have one number.
const NUMBERS_SKIPPED: u64 = 1000;

/// The program that this process runs, also if its file has been replaced or removed.
const OWN_PROGRAM: &str = "/proc/self/exe";

impl Supervisor<'_> {
    /// Whether a successor is watched here. One that replaces another is not: what it dies of, the
    /// next one would too.
    pub(super) fn watches(&self) -> bool {
        !self.manager.notifier.is_wanted() && !self.succession.is_replacing
    }

    pub(super) fn is_on_trial(&self, number: u64) -> bool {
        let trial = self.succession.trial.as_ref();
        trial.is_some_and(|trial| trial.link.number == number)
    }

    pub(super) fn trial_said(&mut self, said: Successor) -> Next {
        match said {
            Successor::Settled => self.end_trial(),
            _ => Next::Continue,
        }
    }

    /// The worker process of the one on trial has died.
    pub(super) fn trial_fails(&mut self, why: String) {
        if let Some(trial) = &mut self.succession.trial {
            trial.why = Some(why);
            // The end of its connection is heard: only one may serve.
            let _ = trial.link.process.as_ref().map(|process| process.kill());
        }
    }

    /// The one on trial has ended its connection to us: another one takes over, if it is dead.
    pub(super) fn trial_failed(&mut self) -> Result<Next, Failure> {
        let Some(trial) = self.succession.trial.as_ref() else {
            return Ok(Next::Continue);
        };
        let process = trial.link.process.as_ref();
        let has_ended = process.map(|process| process.has_ended_within(END_TIME_MAX));
        if !matches!(has_ended, Some(Ok(true))) {
            return Ok(self.end_trial());
        }
        let pid = trial.link.pid;
        let program = &trial.program;
        let why = trial.why.as_deref().map_or_else(
            || "its supervisor was killed, or crashed".to_owned(),
            |why| format!("its worker process has ended: {}", printable(why)),
        );
        say(format_args!(
            "error: process {pid}, lariat {program}, failed within {} s of taking over, and lariat \
             {} is started again in its place: {why}",
            TRIAL_TIME.as_secs(),
            env!("CARGO_PKG_VERSION"),
        ));
        reading::remove(temporary_paths(self.admin_sockets.status_path(), pid));
        self.succession.trial = None;
        self.succession.is_replacing = true;
        self.last_number += NUMBERS_SKIPPED;
        self.open_takeover_socket();
        match self.start_successor(Some(Path::new(OWN_PROGRAM))) {
            Ok(pid) => {
                self.expect(pid);
                Ok(Next::Continue)
            }
            Err(why) => {
                say(format_args!("error: nobody serves: cannot start it: {why}"));
                Ok(self.end_replacing())
            }
        }
    }

    /// Nobody came to take the place of the one that failed.
    pub(super) fn end_replacing(&mut self) -> Next {
        if !self.succession.is_replacing {
            return Next::Continue;
        }
        self.listeners.lend(Vec::new());
        self.end_trial()
    }

    /// From now on others may do without this one.
    pub(super) fn end_trial(&mut self) -> Next {
        let cut = self.succession.trial.take().and_then(|trial| trial.cut);
        self.succession.is_replacing = false;
        self.listeners.close();
        match cut {
            Some(cut) => self.drained(cut),
            None if self.child.is_none() => self.end(),
            None => Next::Continue,
        }
    }

    /// The worker process here has died: a predecessor that watches ends this one and has its own
    /// program serve.
    pub(super) fn fail_trial(&mut self, how: &str) {
        if let Some(watcher) = self.watcher.take()
            && Instant::now() < watcher.until
        {
            let why = how.to_owned();
            // If it has ended, or watches no longer, this one goes on by itself.
            let _ = watcher.from.send(&Successor::Failed { why });
        }
    }

    /// A predecessor that watches need not any longer.
    pub(super) fn settled(&mut self) {
        if let Some(watcher) = self.watcher.take()
            && Instant::now() < watcher.until
        {
            let _ = watcher.from.send(&Successor::Settled);
        }
    }
}
