//! What the worker process says, and what follows when it has died.

use std::time::Instant;

use telemetry::message::Level;

use super::child::{Child, Heard};
use super::failure::Failure;
use super::messages::{labelled, printable, say, say_all, say_warnings, warn_of_rights};
use super::phase::{Due, Next, Phase};
use super::{Started, Supervisor};
use crate::handover::{Answer, Order, Rights};
use crate::messages;
use crate::observations::Observations;

/// Deaths in a row after which a host had better get no new clients until one lives: fewer may be
/// the doing of one of them.
const DEATHS_UNREADY: u32 = 5;

impl Supervisor<'_> {
    pub(super) fn heard(&mut self, number: u64, heard: Heard<Answer>) -> Result<Next, Failure> {
        if self.child.as_ref().map(Child::number) != Some(number) {
            // A predecessor's last words.
            return Ok(Next::Continue);
        }
        match heard {
            Heard::End => self.child_is_gone(),
            Heard::Answer(Answer::Entered(rights)) => {
                self.entered(rights);
                Ok(Next::Continue)
            }
            Heard::Answer(answer) if !self.phase.expects(&answer) => Ok(Next::Continue),
            Heard::Answer(Answer::Stuck(message)) => self.stuck(printable(&message)),
            Heard::Answer(Answer::Ready {
                generation,
                warnings,
            }) => self.ready(generation, &warnings),
            Heard::Answer(Answer::Refused {
                generation,
                message,
            }) => self.refused(generation, printable(&message)),
            Heard::Answer(Answer::Note(message)) => {
                say(printable(&message));
                Ok(Next::Continue)
            }
            Heard::Answer(Answer::Said(messages)) => {
                say_all(&messages);
                Ok(Next::Continue)
            }
            Heard::Answer(Answer::LogAway) => {
                self.reconnect_log();
                Ok(Next::Continue)
            }
            Heard::Answer(Answer::Paused(observations)) => self.paused(observations),
            Heard::Answer(Answer::Accepting) => self.accepting(),
            Heard::Answer(Answer::Alive { connections }) => {
                self.worker_process_is_well(connections);
                Ok(Next::Continue)
            }
            Heard::Answer(Answer::Drained { cut }) => Ok(self.drained(cut)),
            Heard::Answer(Answer::Warned(warnings)) => {
                say_warnings(&warnings);
                Ok(Next::Continue)
            }
        }
    }

    pub(super) fn entered(&mut self, rights: Rights) {
        if self.rights != Some(rights) {
            warn_of_rights(rights);
        }
        self.rights = Some(rights);
    }

    /// The worker process could not give up its rights.
    pub(super) fn stuck(&mut self, message: String) -> Result<Next, Failure> {
        if self.phase == Phase::Starting {
            return Err(Failure::Rights(message));
        }
        // One before it could: the host must have changed.
        messages::say(Level::Error, message);
        self.child_is_gone()
    }

    pub(super) fn ready(&mut self, generation: u64, warnings: &[String]) -> Result<Next, Failure> {
        match self.phase {
            Phase::Draining => return Ok(Next::Continue),
            Phase::Serving if self.pending.is_some() && generation == self.generation + 1 => {
                say_warnings(warnings);
                self.warnings.extend(labelled(warnings));
                return self.commit();
            }
            // An answer that nothing asked for.
            Phase::Serving => return Ok(Next::Continue),
            Phase::Starting => {
                say_warnings(warnings);
                let first = std::mem::take(&mut self.warnings);
                self.reloads.started([first, labelled(warnings)].concat());
                self.tell(&Order::Reloads(self.reloads.clone()));
                if self.predecessor.is_some() {
                    return self.ready_to_take_over();
                }
                return self.serves();
            }
            Phase::Restarting => say("the worker process serves again"),
        }
        self.phase = Phase::Serving;
        self.due = None;
        if self.stop_asked {
            return self.stop();
        }
        self.tell_manager_ready();
        if !self.is_reading {
            // One may have waited for a reload that the worker process has died of.
            self.offer_if_asked()?;
        }
        self.reload_if_asked()
    }

    /// The first worker process serves.
    pub(super) fn serves(&mut self) -> Result<Next, Failure> {
        let started = self.started();
        (self.request.started)(&started);
        self.watched.follow(self.served.summary.reload);
        self.phase = Phase::Serving;
        self.due = None;
        if self.stop_asked {
            return self.stop();
        }
        self.tell_manager_ready();
        self.keep_descriptors();
        self.offer_if_asked()?;
        self.reload_if_asked()
    }

    pub(super) fn started(&self) -> Started {
        Started {
            listeners: self.listeners.addresses(&self.served.summary.listen),
            admin: self.admin_sockets.admin_address(),
            status_socket: self.admin_sockets.status_path().to_owned(),
            rights: self
                .rights
                .map(|rights| rights.to_string())
                .unwrap_or_default(),
        }
    }

    pub(super) fn refused(&mut self, generation: u64, message: String) -> Result<Next, Failure> {
        match self.phase {
            Phase::Starting => Err(Failure::Plan(message)),
            Phase::Serving if self.pending.is_some() && generation == self.generation + 1 => {
                self.roll_back(message)
            }
            Phase::Serving | Phase::Draining => Ok(Next::Continue),
            // The same plan has been served before: the host must have changed.
            Phase::Restarting => {
                messages::say(Level::Error, message);
                self.child_is_gone()
            }
        }
    }

    /// The worker process has died, or is not to live on.
    pub(super) fn child_is_gone(&mut self) -> Result<Next, Failure> {
        let Some(child) = self.child.take() else {
            return Ok(Next::Continue);
        };
        let pid = child.pid();
        let how = match child.end() {
            Some(status) => status.to_string(),
            None => {
                // The kernel may still hold its memory of sessions.
                self.sessions.forget();
                "killed, but a call to the kernel holds it".to_owned()
            }
        };
        self.due = None;
        let ended =
            format!("the worker process (pid {pid}) has ended, and its connections with it: {how}");
        match self.phase {
            Phase::Draining if self.succession.is_watching() => {
                messages::say(Level::Error, ended);
                Ok(Next::Continue)
            }
            Phase::Starting | Phase::Draining => Err(self.died(how)),
            Phase::Serving | Phase::Restarting => {
                messages::say(Level::Error, ended);
                self.fail_trial(&how);
                self.restart(how)
            }
        }
    }

    /// Starts a worker process after one has died. That the host has no process or memory for it
    /// now counts as a death: it may have in a moment.
    pub(super) fn start_again(&mut self) -> Result<Next, Failure> {
        match self.start_child() {
            Ok(()) => Ok(Next::Continue),
            Err(failure) => {
                let how = failure.to_string();
                messages::say(Level::Error, &how);
                self.restart(how)
            }
        }
    }

    pub(super) fn died(&self, how: String) -> Failure {
        Failure::Died {
            how,
            restarts: self.restarts(),
        }
    }

    pub(super) fn restart(&mut self, how: String) -> Result<Next, Failure> {
        if self.stop_asked {
            return Err(self.died(how));
        }
        let now = Instant::now();
        let pause = self.backoff.died(now);
        let deaths = self.backoff.deaths();
        let dying =
            format!("{deaths} worker processes died one after the other, the last so: {how}");
        if self.backoff.is_longer() {
            let next = format!("{dying}; the next one is started in {pause:?}");
            messages::say(Level::Error, next);
        }
        self.backoff.dying = (deaths >= DEATHS_UNREADY).then_some(dying);
        self.phase = Phase::Restarting;
        if self.pending.take().is_some() {
            self.admin_sockets.withdraw_log();
            self.cluster_socket.withdraw();
            self.listeners.keep(&self.served.summary.listen);
            self.names.want(self.served.summary.names.clone());
            let message = "the worker process died while it built the new configuration";
            self.reload_ended(Some(message.to_owned()));
        }
        if self.is_given_away() {
            // If nothing comes of it, another is started.
            return self.paused(Observations::default());
        }
        if pause.is_zero() {
            return self.start_again();
        }
        self.due = Some((now + pause, Due::Restart));
        Ok(Next::Continue)
    }
}
