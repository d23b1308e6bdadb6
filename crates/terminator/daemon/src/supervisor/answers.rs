//! Answers of the worker process, and its restart when it has died.

use std::time::Instant;

use telemetry::message::LogLevel;
use tls::key_log::KeyLines;

use super::child::{Child, ChildEvent, EarlierWorkerProcess};
use super::failure::Failure;
use super::own_sockets::ClusterSocket;
use super::{ANSWER_TIME_MAX, DueWork, Phase, ServingFacts, Supervisor};
use crate::handover::{Answer, ConfinementState, Rights, SupervisorOrder};
use crate::messages::{self, error, note, printable, say_labelled, warn};
use crate::named_servers::Observations;

/// Deaths in a row after which a host should get no new clients until a worker process lives on.
/// Fewer may be due to a single client.
const DEATHS_UNREADY: u32 = 5;

impl Supervisor<'_> {
    pub(super) fn heard(&mut self, number: u64, heard: ChildEvent<Answer>) -> Result<(), Failure> {
        if self.child.as_ref().map(Child::number) != Some(number) {
            self.heard_of_earlier(number, heard);
            return Ok(());
        }
        match heard {
            ChildEvent::End => self.child_is_gone()?,
            ChildEvent::Stopped => self.listens_no_more(number),
            ChildEvent::Answer(Answer::Entered(rights)) => self.entered(rights),
            ChildEvent::Answer(answer) if !self.phase.expects(&answer) => {}
            ChildEvent::Answer(Answer::Stuck(message)) => self.stuck(printable(&message))?,
            ChildEvent::Answer(Answer::Ready { generation, warnings }) => {
                self.ready(generation, &warnings);
            }
            ChildEvent::Answer(Answer::Refused { generation, message }) => {
                self.refused(generation, printable(&message))?;
            }
            ChildEvent::Answer(Answer::Building) => self.builds_still(),
            ChildEvent::Answer(Answer::Accepting) if self.waits => {
                self.has_taken_over();
                self.serves();
            }
            ChildEvent::Answer(Answer::Answering(number)) => self.workers_answer(number),
            ChildEvent::Answer(Answer::Alive { connections }) => {
                self.worker_process_is_well(connections);
            }
            ChildEvent::Answer(Answer::Drained { cut }) => self.drained(cut),
            ChildEvent::Answer(other) => self.told(other),
        }
        Ok(())
    }

    /// A worker process has said something without an order.
    fn told(&mut self, answer: Answer) {
        match answer {
            Answer::Notified(text) => self.notified(&text),
            Answer::Note(message) => say_labelled(&printable(&message)),
            Answer::Said(messages) => {
                for (severity, text) in messages {
                    messages::say(LogLevel::of_severity(severity), text);
                }
            }
            Answer::Warned(warnings) => say_warnings(&warnings),
            Answer::KeyLog { lines: text, dropped } => {
                self.key_log.write(KeyLines { text, dropped });
            }
            Answer::LogAway => self.reconnect_log(),
            _ => {}
        }
    }

    fn entered(&mut self, rights: Rights) {
        if self.rights != Some(rights) {
            warn_of_rights(rights);
        }
        self.rights = Some(rights);
    }

    fn stuck(&mut self, message: String) -> Result<(), Failure> {
        if self.phase == Phase::Starting {
            return Err(Failure::Rights(message));
        }
        // One before it could: the host must have changed.
        error(message);
        self.child_is_gone()
    }

    fn ready(&mut self, generation: u64, warnings: &[String]) {
        match self.phase {
            Phase::Draining => return,
            Phase::Serving if self.is_asked_to_build(generation) => {
                say_warnings(warnings);
                self.warnings.extend(answered(warnings));
                return self.commit();
            }
            // An answer that nothing asked for.
            Phase::Serving => return,
            Phase::Starting => {
                say_warnings(warnings);
                let first = std::mem::take(&mut self.warnings);
                self.reloads.started([first, answered(warnings)].concat());
                self.tell(&SupervisorOrder::Reloads(self.reloads.clone()));
                if self.waits {
                    return self.await_keys();
                }
                self.has_taken_over();
                return self.serves();
            }
            Phase::Restarting => note("the worker process serves again"),
        }
        self.phase = Phase::Serving;
        self.due = None;
        if self.stop_asked {
            return self.stop();
        }
        self.tell_manager_ready();
        self.reload_if_asked();
    }

    /// A large plan on a busy host takes minutes. The worker process must not be ended for that,
    /// because its connections would end as well. One in an attacker's hands may say so for ever,
    /// so this has an end.
    fn builds_still(&mut self) {
        if let Some((due, DueWork::Answer { at_latest })) = &mut self.due {
            *due = (Instant::now() + ANSWER_TIME_MAX).min(*at_latest);
        }
    }

    /// Whether the worker process has been told that plan, and has not answered.
    fn is_asked_to_build(&self, generation: u64) -> bool {
        let is_told = matches!(self.due, Some((_, DueWork::Answer { .. })));
        is_told && self.pending.is_some() && generation == self.generation + 1
    }

    fn serves(&mut self) {
        let started = self.started(false);
        (self.request.started)(&started);
        self.follow_acme();
        self.watched.follow(self.served.summary.reload);
        self.phase = Phase::Serving;
        self.due = None;
        if self.stop_asked {
            return self.stop();
        }
        self.tell_manager_ready();
        self.keep_descriptors();
        self.reload_if_asked();
    }

    pub(super) fn started(&self, is_reload: bool) -> ServingFacts {
        ServingFacts {
            is_reload,
            listeners: self.listeners.addresses(&self.served.summary.listen),
            admin: self.admin_sockets.admin_address(),
            status_socket: self.admin_sockets.status_path.clone(),
            rights: self.rights.map(|rights| rights.to_string()).unwrap_or_default(),
        }
    }

    fn refused(&mut self, generation: u64, message: String) -> Result<(), Failure> {
        match self.phase {
            Phase::Starting => Err(Failure::Plan(message)),
            Phase::Serving if self.is_asked_to_build(generation) => {
                self.roll_back(message);
                Ok(())
            }
            Phase::Serving | Phase::Draining => Ok(()),
            // The same plan has been served before: the host must have changed.
            Phase::Restarting => {
                error(message);
                self.child_is_gone()
            }
        }
    }

    /// The worker process has died, or is not to live on.
    pub(super) fn child_is_gone(&mut self) -> Result<(), Failure> {
        let Some(child) = self.child.take() else {
            return Ok(());
        };
        let (pid, number) = (child.pid(), child.number());
        let how = match child.end() {
            Some(status) => status.to_string(),
            None => {
                // The kernel may still hold its memory of sessions.
                self.sessions.forget();
                "killed, but a call to the kernel holds it".to_owned()
            }
        };
        self.due = None;
        self.keys.end_channels();
        self.end_unasked_keys();
        self.upgrading.listening.retain(|one| *one != number);
        let ended =
            format!("the worker process (pid {pid}) has ended, and its connections with it: {how}");
        match self.phase {
            Phase::Starting | Phase::Draining => Err(self.died(how)),
            Phase::Serving | Phase::Restarting => {
                error(ended);
                self.restart(how)
            }
        }
    }

    /// Starts a worker process after one has died. That the host has no process or memory for it
    /// now counts as a death: it may have in a moment.
    pub(super) fn start_again(&mut self) -> Result<(), Failure> {
        if let Err(failure) = self.restore_sockets() {
            error(failure);
        }
        match self.start_child() {
            Ok(()) => Ok(()),
            Err(failure) => {
                let how = failure.to_string();
                error(&how);
                self.restart(how)
            }
        }
    }

    /// Undoes what a worker process may have done to the sockets that the next one gets.
    fn restore_sockets(&mut self) -> Result<(), Failure> {
        let (workers, summary) = (self.workers(), &self.served.summary);
        self.listeners.open(&summary.listen, workers, &summary.listen_options)?;
        self.listeners.keep(&summary.listen);
        let before = self.cluster_socket.as_ref().map(ClusterSocket::handed_on);
        self.cluster_socket = ClusterSocket::of_plan(summary.peers.as_ref(), before)?;
        self.admin_sockets.restore(summary)
    }

    fn died(&self, how: String) -> Failure {
        Failure::Died { how, restarts: self.restarts() }
    }

    fn restart(&mut self, how: String) -> Result<(), Failure> {
        if self.stop_asked {
            return Err(self.died(how));
        }
        let now = Instant::now();
        let pause = self.backoff.died(now);
        let deaths = self.backoff.deaths;
        let dying =
            format!("{deaths} worker processes died one after the other, the last so: {how}");
        if self.backoff.is_longer() {
            let next = format!("{dying}; the next one is started in {pause:?}");
            error(next);
        }
        self.backoff.dying = (deaths >= DEATHS_UNREADY).then_some(dying);
        self.phase = Phase::Restarting;
        if self.pending.take().is_some() {
            self.keys.roll_back();
            self.listeners.keep(&self.served.summary.listen);
            self.names.want(self.served.summary.names.clone());
            let message = "the worker process died while it built the new configuration";
            self.reload_ended(Some(message.to_owned()));
        }
        if pause.is_zero() {
            return self.start_again();
        }
        self.due = Some((now + pause, DueWork::Restart));
        Ok(())
    }

    pub(super) fn heard_of_earlier(&mut self, number: u64, heard: ChildEvent<Answer>) {
        let is_it = |one: &EarlierWorkerProcess| one.child.number() == number;
        let Some(place) = self.earlier.iter().position(is_it) else {
            // The last words of one that is gone.
            return;
        };
        let drains = !self.earlier.get(place).is_some_and(EarlierWorkerProcess::serves);
        match heard {
            ChildEvent::End => self.earlier_is_gone(place),
            ChildEvent::Stopped => self.listens_no_more(number),
            ChildEvent::Answer(Answer::Paused(observations)) if self.is_switching && !drains => {
                self.paused(observations);
            }
            ChildEvent::Answer(Answer::Drained { cut }) if drains => {
                let EarlierWorkerProcess { child, .. } = self.earlier.remove(place);
                self.upgrading.listening.retain(|one| *one != number);
                let pid = child.pid();
                child.end();
                say_ended(&format!("the worker process before (pid {pid}) has ended"), cut);
                self.end_if_last();
            }
            ChildEvent::Answer(other) => self.told(other),
        }
    }

    fn earlier_is_gone(&mut self, place: usize) {
        let EarlierWorkerProcess { mut child, drains_until } = self.earlier.remove(place);
        self.upgrading.listening.retain(|one| *one != child.number());
        child.keep();
        let pid = child.pid();
        let how = child.end().map_or_else(|| "killed".to_owned(), |status| status.to_string());
        error(format_args!(
            "the worker process before (pid {pid}) ended by itself, and its connections with \
             it: {how}"
        ));
        if drains_until.is_none() && self.is_switching {
            return self.paused(Observations::default());
        }
        self.end_if_last();
    }

    /// Kills those that have had their time to drain.
    pub(super) fn earlier_are_late(&mut self, now: Instant) {
        let is_late =
            |one: &mut EarlierWorkerProcess| one.drains_until.is_some_and(|until| until <= now);
        for mut one in self.earlier.extract_if(.., is_late) {
            one.child.keep();
            self.upgrading.listening.retain(|number| *number != one.child.number());
            warn(format_args!(
                "the worker process before (pid {}) is killed, and its connections with it: it has had \
                 its time",
                one.child.pid()
            ));
        }
        self.end_if_last();
    }

    fn end_if_last(&mut self) {
        self.end_unasked_keys();
        if self.phase == Phase::Draining && self.child.is_none() {
            self.end();
        }
    }
}

pub(super) fn say_ended(who: &str, cut: u64) {
    match cut {
        0 => note(format_args!("{who}; every connection had ended before")),
        1 => warn(format_args!("{who}; 1 connection was cut at the deadline")),
        _ => warn(format_args!("{who}; {cut} connections were cut at the deadline")),
    }
}

fn warn_of_rights(rights: Rights) {
    if ![rights.files, rights.tcp_ports, rights.system_calls].contains(&ConfinementState::Absent) {
        return;
    }
    let hint = if rights.files == ConfinementState::Absent && rights.reads_folders {
        "\nhint: start the kernel with Landlock (`lsm=landlock,...`), or a lariat apart for \
         the files, whose user owns nothing else"
    } else {
        ""
    };
    warn(format_args!("the worker process {rights}{hint}"));
}

/// Messages of the worker process about a plan: warnings, but for texts that begin with their
/// level.
fn say_warnings(warnings: &[String]) {
    labelled(warnings).iter().for_each(|text| say_labelled(text));
}

fn labelled(warnings: &[String]) -> Vec<String> {
    let label = |text: &String| match LogLevel::split(text) {
        Some(_) => text.clone(),
        None => format!("warning: {text}"),
    };
    warnings.iter().map(label).collect()
}

/// The same as who asked for the plan is answered, and a status has them: warnings, as a check says
/// of a plan that can be served. In the log some are errors, because clients notice them.
fn answered(warnings: &[String]) -> Vec<String> {
    let plain = |text: &String| text.strip_prefix("error: ").unwrap_or(text).to_owned();
    labelled(&warnings.iter().map(plain).collect::<Vec<_>>())
}
