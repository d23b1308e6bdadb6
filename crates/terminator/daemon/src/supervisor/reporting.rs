//! The times at which the service manager is told, and when it, or who reads the messages, is told
//! that all is well or not.
//!
//! Owns the sentence that it shows, and the question to the worker process whether its threads go
//! on. While none can answer, since one is started, builds a plan or drains, the supervisor's own
//! deadlines stand in for it.

use std::time::{Duration, Instant};

use super::service_manager::protocol::Notice;
use super::service_manager::{admin_name, listener_name};
use super::upgrade::state::encode;
use super::{Phase, Supervisor};
use crate::handover::SupervisorOrder;
use crate::messages::{error, note};

impl Supervisor<'_> {
    /// Lets the service manager keep the open listeners and stored sessions for the next start. A
    /// program that replaces another does so only once it serves; until then, the manager keeps
    /// those of the other.
    pub(super) fn keep_descriptors(&mut self) {
        if !self.manager.notifier.is_wanted() || self.way_back.is_some() {
            return;
        }
        let numbers_until = self.manager.store.numbers_until(self.last_number);
        let state = encode(&self.state(numbers_until));
        let states = self.listeners.handed_on().into_iter();
        // What it has opened itself it keeps in any case.
        let own = states.filter(|(listener, _)| !listener.handed_over);
        let named = own.filter_map(|(listener, fds)| Some((listener_name(&listener)?, fds)));
        let admin = self.admin_sockets.kept().zip(self.served.summary.control.listen);
        let admin = admin.map(|(fd, at)| (admin_name(&at.to_string()), vec![fd]));
        let sessions = self.sessions.handed_on().map(|(_, fd)| fd);
        let manager = &mut self.manager;
        manager.store.keep(&mut manager.notifier, named.chain(admin).collect(), sessions, state);
        self.listeners.is_kept = true;
    }

    /// This one ends for good: clients are to be refused, and not to wait for another.
    pub(super) fn forget_descriptors(&mut self) {
        if self.manager.notifier.is_wanted() {
            let manager = &mut self.manager;
            manager.store.forget(&mut manager.notifier);
            self.listeners.is_kept = false;
        }
    }

    /// A plan is served, by every worker: the first, another one, or still the old one.
    pub(super) fn tell_manager_ready(&mut self) {
        if self.phase == Phase::Serving {
            let status = self.status_sentence();
            self.manager.say_status(vec![Notice::Ready], status);
            self.manager.look = Some(Instant::now());
        }
    }

    pub(super) fn tell_manager_reloading(&mut self) {
        let status = "reading the configuration again".to_owned();
        self.manager.say_status(vec![Notice::Reloading], status);
    }

    /// It ends, within so long.
    pub(super) fn tell_manager_stopping(&mut self, time: Duration) {
        let status = format!("draining for up to {} s", time.as_secs());
        self.manager.say_status(vec![Notice::Stopping(time)], status);
    }

    pub(super) fn tend_manager(&mut self, now: Instant) {
        if self.manager.notifier.retry.is_some_and(|due| due <= now) {
            self.manager.notifier.send_waiting();
        }
        if self.manager.look.is_none_or(|look| look > now) {
            return;
        }
        self.manager.look = Some(now + self.manager.interval());
        if self.phase != Phase::Serving || self.pending.is_some() {
            self.feed_watchdog();
        } else if self.manager.asked.is_none() {
            self.manager.asked = Some(now);
            self.tell(&SupervisorOrder::AreYouWell);
        } else if let (Some(time), Some(child)) = (self.manager.missed(now), &self.child) {
            let (pid, seconds) = (child.pid(), time.as_secs());
            error(format_args!(
                "the worker process (pid {pid}) has not answered for {seconds} s: \
                 connections may stand still\n\
                 hint: `ps -o stat,wchan -p {pid}` shows what holds it: \
                 if `T`, `kill -CONT {pid}`; `kill -KILL {pid}` ends its connections, and \
                 another is started"
            ));
        }
    }

    /// Every worker has answered, and this many connections are open.
    pub(super) fn worker_process_is_well(&mut self, connections: u64) {
        let Some(missed) = self.manager.answered(Instant::now()) else {
            return;
        };
        if let (Some(time), Some(child)) = (missed, &self.child) {
            let (pid, seconds) = (child.pid(), time.as_secs());
            note(format_args!("the worker process (pid {pid}) answers again, after {seconds} s"));
        }
        self.manager.connections = Some(connections);
        self.feed_watchdog();
    }

    pub(super) fn feed_watchdog(&mut self) {
        let watchdog = self.manager.notifier.watchdog;
        let notices = watchdog.map(|_| Notice::Watchdog).into_iter().collect();
        let status = match self.phase {
            Phase::Serving if self.pending.is_none() => self.status_sentence(),
            Phase::Restarting => self
                .backoff
                .dying
                .clone()
                .unwrap_or_else(|| "starting the worker process again".to_owned()),
            _ => self.manager.status.clone(),
        };
        self.manager.say_status(notices, status);
    }

    fn status_sentence(&self) -> String {
        let services = self.served.summary.services as u64;
        let mut sentence = format!("serving {}", counted(services, "service"));
        if let Some(connections) = self.manager.connections {
            sentence += &format!(", {} open", counted(connections, "connection"));
        }
        let last = self.reloads.last.as_ref();
        if let Some(why) = last.and_then(|last| last.refused.as_deref()) {
            let first_line = why.lines().next().unwrap_or_default();
            let first_line = first_line.trim_start_matches("error: ");
            sentence += &format!("; the last reload was refused: {first_line}");
        }
        sentence
    }
}

fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
