//! Requests of the control thread and of a worker's helpers: a new plan, accepting or not,
//! draining, and continuing a connection after a thread's work for it.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use flow::events::Event;
use telemetry::catalogue::WorkerCounter;
use telemetry::outcome::{Reason, SessionTier};

use super::Worker;
use crate::commands::{Assignment, BoundListener, Command, Reply};
use crate::connection::Connection;
use crate::driver::EventSource;
use crate::listeners::Listener;
use crate::service::{Service, SharedServices};

/// Commands handled in a turn. Most are parts of files that threads have read: each is followed by
/// sent bytes and a request for more, so that while files are read there is always a next one.
pub(super) const COMMANDS_PER_TURN: usize = 32;

/// Connections taken from a queue that is about to be closed: the kernel's longest queue. A flood
/// that fills it as fast as it is emptied must not hold the worker up without end.
const QUEUE_MAX: usize = 1 << 16;

impl Worker {
    pub(super) fn handle_commands(&mut self) {
        for _ in 0..COMMANDS_PER_TURN {
            let Ok(command) = self.commands.try_recv() else {
                return;
            };
            match command {
                Command::Replace(assignment, answer) => {
                    self.apply_plan(*assignment);
                    // The caller may have given up waiting; the plan is served all the same.
                    let _ = answer.send(());
                }
                Command::Accept(accepts, answer) => {
                    self.accept(accepts);
                    let _ = answer.send(());
                }
                Command::Server { service, server, news } => {
                    if let Some(service) = self.service_named(&service) {
                        service.note(server, &news);
                        self.close_sessions(&service);
                    }
                }
                Command::Drain(deadline) => self.drain(deadline),
                Command::Answer(question) => question.store(false, Ordering::Relaxed),
                Command::Replied(reply) => self.replied(*reply),
                Command::SessionFetched { token, tier } => self.session_fetched(token, tier),
            }
        }
        // More commands may wait, after the others' turn.
        self.waker.wake();
    }

    /// Continues a connection of files, if it still waits for this reply.
    fn replied(&mut self, reply: Reply) {
        let EventSource::Back(id) = EventSource::of(reply.token) else {
            return;
        };
        match self.connections.find(id).and_then(Connection::files) {
            Some(files) => files.replied(reply),
            None => return self.file_context.let_go(reply),
        }
        self.queue(id);
    }

    /// Continues a connection's handshake, if it still waits for a session.
    fn session_fetched(&mut self, token: u64, tier: SessionTier) {
        if let EventSource::Back(id) = EventSource::of(token)
            && let Some(connection) = self.connections.find(id)
        {
            let event = Event::SessionFetched(tier);
            connection.flow.handle(event, self.now, &mut self.pool);
            self.queue(id);
        }
    }

    /// Wakes connections for which places at servers are reserved. If one has ended, its place has
    /// gone to another.
    pub(super) fn handle_calls(&mut self) {
        for _ in 0..COMMANDS_PER_TURN {
            let Ok(token) = self.called.try_recv() else {
                return;
            };
            if let EventSource::Back(id) = EventSource::of(token)
                && let Some(connection) = self.connections.find(id)
            {
                connection.dial.call();
                self.queue(id);
            }
        }
        self.waker.wake();
    }

    fn service_named(&self, name: &str) -> Option<Rc<Service>> {
        let mut services = self.services.iter();
        services.find(|one| one.plan.name == name).cloned()
    }

    /// Ends the sessions of servers that have gone down or were disabled, those of earlier plans
    /// among them. Scans every connection of the worker, because servers seldom go down.
    pub(super) fn close_sessions(&mut self, service: &Service) {
        let closing = service.take_closing();
        if closing.is_empty() {
            return;
        }
        for id in self.connections.ids() {
            let Some(one) = self.connections.find(id).filter(|one| !one.flow.is_over()) else {
                continue;
            };
            let server = one.dial.server().and_then(|server| one.service.pool.borrow().id(server));
            let is_its = one.service.plan.name == service.plan.name;
            let mut all = closing.iter().filter(|(id, _)| is_its && Some(*id) == server);
            match all.next() {
                Some((_, reason)) if one.dial.server_connected().is_some() => {
                    self.give_up(id, *reason);
                }
                // The session has not begun: another server may take it.
                Some(_) => one.dial.call_off(),
                None => {}
            }
        }
    }

    /// Serves an assignment in place of the one before.
    pub(crate) fn apply_plan(&mut self, assignment: Assignment) {
        self.lines.set_options(assignment.log);
        self.driver.descriptors = assignment.descriptors;
        let per_source = assignment.limits.per_source.clone();
        self.sources = Rc::new(self.sources.with_limits(per_source));
        self.limits = assignment.limits;
        let plans = assignment.services.into_iter().zip(assignment.counters);
        let before = self.services.iter().map(|one| (one.plan.name.as_str(), &**one));
        let before: HashMap<_, _> = before.collect();
        let services = plans.map(|(plan, counters)| {
            let before = before.get(plan.name.as_str()).copied();
            Rc::new(Service::new(plan, self.index, counters, before))
        });
        self.services = services.collect();
        self.empty_queues();
        let shared = assignment.shared.into_iter().map(|plan| {
            let counters = Arc::clone(&self.services[plan.counted_as].counters);
            let entry = Service::new(Arc::clone(&plan.entry), self.index, counters, None);
            let services = SharedServices::new(Arc::clone(&plan), &self.services);
            (plan, Rc::new(entry), Rc::new(services))
        });
        let shared: Vec<_> = shared.collect();
        let listener = |one: BoundListener| {
            let places = one.services;
            let (service, all) = match shared.iter().find(|(plan, ..)| plan.places == places) {
                Some((_, entry, all)) => (entry, Some(Rc::clone(all))),
                None => (&self.services[places[0]], None),
            };
            Listener::new(one.fd, Rc::clone(service), all, one.address, one.is_shared)
        };
        let listeners = assignment.listeners.into_iter().map(listener).collect();
        if !self.listeners.replace(listeners, &self.driver, self.now) {
            self.counters.count(WorkerCounter::AcceptErrors);
        }
    }

    /// Closes the listeners. Connections waiting at a listener are accepted first, because they
    /// would be lost with it if nobody else holds it open.
    pub(super) fn empty_queues(&mut self) {
        self.take_queues();
        self.listeners.close(&self.driver);
    }

    fn take_queues(&mut self) {
        // Listeners that are held are another process's.
        if !self.listeners.are_held() {
            for place in 0..self.listeners.len() {
                self.accept_some(place, QUEUE_MAX);
            }
        }
    }

    /// Accepts from now on, or no more.
    pub(crate) fn accept(&mut self, accepts: bool) {
        if !accepts {
            self.take_queues();
        }
        if !self.listeners.hold(!accepts, &self.driver, self.now) {
            self.counters.count(WorkerCounter::AcceptErrors);
        }
    }

    fn drain(&mut self, deadline: Instant) {
        self.empty_queues();
        self.drain_deadline = Some(deadline);
        for id in self.connections.ids() {
            if let Some(files) = self.connections.find(id).and_then(Connection::files) {
                files.finish();
                self.pump(id);
            }
        }
    }

    pub(super) fn enforce_drain(&mut self) {
        if self.drain_deadline.is_none_or(|deadline| deadline > self.now) {
            return;
        }
        for id in self.connections.ids() {
            if let Some(connection) = self.connections.find(id) {
                let stopped = Event::Stopped(Reason::Drained);
                connection.flow.handle(stopped, self.now, &mut self.pool);
                self.pump(id);
            }
        }
    }
}
