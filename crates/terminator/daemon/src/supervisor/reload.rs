//! Reloading as a transaction: a whole new plan, or the old one; and the log, opened anew.
//!
//! Owns what a reload does to the supervisor's parts, step by step. Reading is a process's
//! (`reading`), building the plan the worker process's.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use config::{Diagnostic, LogOutput, Severity};

use super::events::Event;
use super::failure::Failure;
use super::own_sockets::{ClusterSocket, log_of};
use super::reading::{Read, ReaderResult};
use super::upgrade::check::Upgrade;
use super::{Pending, Phase, Supervisor};
use crate::handover::SupervisorOrder;
use crate::messages::{self, MessageStyle, error, note, warn};
use crate::preflight::is_of_limits;
use crate::reader::Task;
use crate::watcher::Stamps;

/// From one attempt to open a log anew to the next.
const LOG_PAUSE: Duration = Duration::from_secs(5);

impl Supervisor<'_> {
    pub(super) fn reload(&mut self) {
        match self.phase {
            Phase::Serving
                if self.pending.is_none()
                    && !self.is_reading
                    && !matches!(self.upgrading.stage, Upgrade::Stopping(..)) => {}
            Phase::Draining => return,
            // When what is under way has ended.
            Phase::Serving | Phase::Starting | Phase::Restarting => {
                self.reload_asked = true;
                return;
            }
        }
        self.tell_manager_reloading();
        let sender = self.events.sender();
        let hear = move |done, looked| sender.send(Event::Read(done, looked));
        match self.readers.start(&Task::Read(self.request.config.clone()), hear) {
            Ok(_) => self.is_reading = true,
            Err(failure) => {
                self.watched.looked(None);
                self.roll_back(failure.to_string());
            }
        }
    }

    /// The configuration has been read, or cannot be.
    pub(super) fn read(&mut self, done: Result<ReaderResult, Failure>, looked: Option<Stamps>) {
        self.is_reading = false;
        self.watched.looked(looked);
        if self.phase != Phase::Serving {
            // The worker process died meanwhile. When another serves, the files are read again.
            self.reload_asked = self.phase != Phase::Draining;
            return;
        }
        let prepared = match done {
            Ok(ReaderResult::Read(read)) => self.prepare_again(*read),
            Ok(_) => return,
            Err(failure) => Err(failure),
        };
        match prepared {
            Ok(()) => self.await_keys(),
            Err(failure) => self.roll_back(failure.to_string()),
        }
    }

    fn prepare_again(&mut self, read: Read) -> Result<(), Failure> {
        let new = read.prepared;
        say_each(warnings_of(&read.warnings), self.request.colour);
        self.warnings = warnings_of(&read.warnings).map(ToString::to_string).collect();
        for key in self.served.summary.fixed_parts().changed(&new.summary.fixed_parts()) {
            let warning = format!(
                "`{key}` stays as it is until a restart\nhint: `lariat upgrade` restarts without a gap"
            );
            warn(&warning);
            self.warnings.push(format!("warning: {warning}"));
        }
        new.summary.is_within(&self.connect_rights)?;
        self.roots.admit(&new.summary.folders, read.folders)?;
        let workers = self.workers();
        self.listeners.open(&new.summary.listen, workers, &new.summary.listen_options)?;
        let log = log_of(&new.summary.control.log, read.log)?;
        let before = self.cluster_socket.as_ref().map(ClusterSocket::handed_on);
        let cluster_socket = ClusterSocket::of_plan(new.summary.peers.as_ref(), before)?;
        let mut both = self.names.lookups.wanted.clone();
        both.extend(new.summary.names.clone());
        let memory = self.sessions.memory_for(new.summary.session_limits)?;
        self.keys.prepare(&new.keys);
        self.pending = Some(Pending { prepared: new, log, cluster_socket, memory });
        self.resolve(both)
    }

    pub(super) fn commit(&mut self) {
        let Some(Pending { prepared, log, cluster_socket, memory }) = self.pending.take() else {
            return;
        };
        let fixed = self.served.summary.fixed_parts();
        let handshake_time = self.served.summary.handshake_time;
        self.served = prepared;
        self.keys.commit(self.worker_number(), handshake_time);
        self.tell_keys();
        self.served.summary.keep_fixed_parts(fixed);
        self.cluster_socket = cluster_socket;
        self.admin_sockets.log = log;
        self.log_is_well();
        memory.into_iter().for_each(|memory| self.sessions.memory = memory);
        messages::configure(&self.served.summary.control);
        self.follow_key_log();
        self.forget_servers();
        if std::mem::take(&mut self.is_log_renamed) {
            // The reader may have opened it before that.
            self.reopen_log();
        }
        self.generation += 1;
        self.due = None;
        self.listeners.keep(&self.served.summary.listen);
        self.keep_descriptors();
        let started = self.started(true);
        (self.request.started)(&started);
        self.follow_acme();
        self.reload_ended(None);
        let generation = self.generation;
        note(format_args!("reloaded: configuration {generation} is served"));
        self.after_reload();
    }

    /// Writes the key log where the configuration says.
    pub(super) fn follow_key_log(&mut self) {
        let options = self.served.summary.process.key_log.as_ref();
        self.key_log.follow(options.map(|one| &*one.path));
    }

    pub(super) fn roll_back(&mut self, message: String) {
        self.pending = None;
        self.keys.roll_back();
        self.due = None;
        self.listeners.keep(&self.served.summary.listen);
        error(format_args!("reload refused, the old configuration is still served:\n{message}"));
        self.reload_ended(Some(message));
        self.after_reload();
    }

    pub(super) fn reload_ended(&mut self, refused: Option<String>) {
        let warnings = std::mem::take(&mut self.warnings);
        self.reloads.ended(SystemTime::now(), refused, warnings);
        self.tell_manager_ready();
        self.watched.follow(self.served.summary.reload);
    }

    fn after_reload(&mut self) {
        self.names.want(self.served.summary.names.clone());
        self.tell(&SupervisorOrder::Reloads(self.reloads.clone()));
        self.reload_if_asked();
    }

    pub(super) fn reload_if_asked(&mut self) {
        if std::mem::take(&mut self.reload_asked) {
            self.reload();
        }
    }

    /// The log may have been renamed. The descriptors that were ours from the start are not opened
    /// anew.
    pub(super) fn log_renamed(&mut self) {
        self.is_log_renamed = self.is_reading || self.pending.is_some();
        self.reopen_log();
    }

    /// Opens a log again that could not be opened: what was in its way may be gone.
    pub(super) fn tend_log(&mut self, now: Instant) {
        let again = self.log_unopened.as_mut().map(|(_, again)| again);
        if again.is_some_and(|again| again.take_if(|at| *at <= now).is_some()) {
            self.reopen_log();
        }
    }

    fn reopen_log(&mut self) {
        if let LogOutput::File(path) = &self.served.summary.control.log {
            let sender = self.events.sender();
            let (path, task) = (path.clone(), Task::OpenLog(path.clone()));
            let hear = move |done, _| sender.send(Event::Reopened(path, done));
            if let Err(failure) = self.readers.start(&task, hear) {
                self.log_is_kept(&failure);
            }
        }
    }

    /// The worker process's log daemon is away. It has the rights to look for another.
    pub(super) fn reconnect_log(&mut self) {
        if self.pending.is_some() {
            // A reload may name another. It is asked for again when that is decided.
            return;
        }
        let LogOutput::Daemon(daemon) = &self.served.summary.control.log else {
            return;
        };
        if self.admin_sockets.reconnect(daemon, Instant::now()) {
            self.send_log();
        }
    }

    fn send_log(&mut self) {
        let log = self.admin_sockets.log();
        for one in &self.earlier {
            // One that takes no order is heard to end.
            let _ = one.child.send(&SupervisorOrder::Log, &[log]);
        }
        let sent = self.child.as_ref().map(|child| child.send(&SupervisorOrder::Log, &[log]));
        self.unless_stuck(sent, None);
    }

    pub(super) fn reopened(&mut self, path: PathBuf, done: Result<ReaderResult, Failure>) {
        // A reload may have named another meanwhile.
        let is_current = self.served.summary.control.log == LogOutput::File(path);
        match done {
            Ok(ReaderResult::Log(log)) if is_current => {
                self.admin_sockets.log = log;
                self.send_log();
                if self.log_is_well() {
                    note("the log is opened anew");
                }
            }
            Err(failure) if is_current => self.log_is_kept(&failure),
            Ok(_) | Err(_) => {}
        }
    }

    /// The log of the plan that is served is open. `true` = it was not.
    fn log_is_well(&mut self) -> bool {
        let was_kept = self.log_unopened.take().is_some();
        if was_kept {
            self.tell(&SupervisorOrder::LogUnopened(None));
        }
        was_kept
    }

    /// Lines go where they went: to a file of another name by now, or of none.
    fn log_is_kept(&mut self, failure: &Failure) {
        let why = failure.to_string();
        if self.log_unopened.as_ref().is_none_or(|(before, _)| *before != why) {
            error(format_args!("{why}; the log goes where it went"));
        }
        // The sentence has a hint behind it, and stands in a line of the status.
        let first = why.lines().next().unwrap_or_default().to_owned();
        self.tell(&SupervisorOrder::LogUnopened(Some(first)));
        // A path that hangs is not tried by itself: each reader that is stuck takes the place of
        // one that a reload needs.
        let again = !matches!(failure, Failure::Slow { .. } | Failure::ReadersStuck(_));
        self.log_unopened = Some((why, again.then(|| Instant::now() + LOG_PAUSE)));
    }
}

/// The part that a reload says too, and a status has: the host's limits are noted at the start.
pub(super) fn warnings_of(diagnostics: &[Diagnostic]) -> impl Iterator<Item = &Diagnostic> {
    let is_note = |one: &Diagnostic| one.severity == Severity::Note && is_of_limits(one);
    diagnostics.iter().filter(move |one| !is_note(one))
}

pub(super) fn say_each<'d>(diagnostics: impl IntoIterator<Item = &'d Diagnostic>, colour: bool) {
    for diagnostic in diagnostics {
        if messages::form() == MessageStyle::Plain && !messages::has_daemon() {
            messages::write_line(diagnostic.render(colour));
        } else {
            let text = diagnostic.to_string();
            // The log has a word of its own for notes.
            messages::say_labelled(text.strip_prefix("note: ").unwrap_or(&text));
        }
    }
}
