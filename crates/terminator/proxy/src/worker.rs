//! One thread, one loop, its own connections.
//!
//! Owns the order of things in a turn: the kernel's events are noted, timers fire, commands are
//! handled and new connections accepted; then connections are served in the order of `schedule`.
//! Who is let in is `admission`'s.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use flow::buffer::Pool;
use flow::events::Event;
use sys::epoll;
use sys::wake::Waker;
use telemetry::catalogue::{Histogram, ServiceCounter, ServiceGauge, WorkerCounter, WorkerGauge};
use telemetry::counters::WorkerCounters;
use telemetry::outcome::{Reason, SessionTier};

use crate::allowance::Allowances;
use crate::commands::{AssignedListener, Assignment, Command, Reply};
use crate::connection::{Connection, Context, Turn};
use crate::connection_log::ConnectionLog;
use crate::connections::{self, Connections};
use crate::counts::count_handshake;
use crate::displaceable::Displaceable;
use crate::driver::Driver;
use crate::files::FileContext;
use crate::handshakes::{HELLO_BYTES, offer_session};
use crate::listeners::{Listener, Listeners, ReadyListeners};
use crate::options::{Limits, SourceLimits};
use crate::pipes::Pipes;
use crate::places::Calls;
use crate::schedule::{Class, Schedule};
use crate::service::{Service, SharedServices};
use crate::sources::Sources;
use crate::timers::Timers;
use crate::token::{ConnectionId, EventSource};

mod admission;

/// Commands obeyed in a turn. Most are what threads have read of files: each has bytes sent and
/// more asked for, so that while files are read there is always a next one.
const COMMANDS_PER_TURN: usize = 32;

/// Connections taken from a queue that is about to be closed: the longest that the kernel keeps. A
/// flood that fills it as fast as it is emptied must not hold the worker up for ever.
const QUEUE_MAX: usize = 1 << 16;

/// How long a spare buffer waits to be taken before its memory is given back.
const SHED_INTERVAL: Duration = Duration::from_secs(1);

/// A worker.
pub(crate) struct Worker {
    index: usize,
    driver: Driver,
    waker: Arc<Waker>,
    commands: Receiver<Command>,
    /// Connections that have a place at a server reserved, and the way here for them.
    called: Receiver<u64>,
    calls: Calls,
    file_context: Arc<FileContext>,
    counters: Arc<WorkerCounters>,
    lines: ConnectionLog,
    pool: Pool,
    pipes: Pipes,
    timers: Timers,
    connections: Connections,
    services: Vec<Rc<Service>>,
    listeners: Listeners,
    /// Connections with something to work on.
    schedule: Schedule,
    limits: Limits,
    sources: Rc<Sources>,
    allowances: Allowances,
    /// Connections that have relayed nothing yet.
    displaceable: RefCell<Displaceable>,
    /// A descriptor that is given up when none is left.
    reserve: Option<OwnedFd>,
    drain_deadline: Option<Instant>,
    /// Connections that it ended.
    cut: u64,
    /// When spare buffers were last looked at.
    shed: Instant,
    next_connection: u64,
    batch: Vec<epoll::Event>,
    fired: Vec<(u64, u64)>,
    now: Instant,
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        allowances: Allowances,
        waker: Arc<Waker>,
        commands: Receiver<Command>,
        file_context: Arc<FileContext>,
        counters: Arc<WorkerCounters>,
        lines: ConnectionLog,
    ) -> io::Result<Self> {
        let driver = Driver::new()?;
        driver.watch_waker(&waker, EventSource::Waker.token())?;
        let reserve = waker.as_fd().try_clone_to_owned()?;
        let now = Instant::now();
        let (calls, called) = Calls::new(&waker);
        Ok(Self {
            index,
            driver,
            waker,
            commands,
            called,
            calls,
            file_context,
            counters,
            lines,
            pool: Pool::new(),
            pipes: Pipes::default(),
            timers: Timers::new(now),
            connections: Connections::default(),
            services: Vec::new(),
            listeners: Listeners::default(),
            schedule: Schedule::new(now),
            limits: Limits {
                connections: 0,
                handshakes: 0,
                per_source: SourceLimits::OFF,
            },
            sources: Rc::new(Sources::new(
                Arc::clone(&allowances.sources),
                SourceLimits::OFF,
            )),
            allowances,
            displaceable: RefCell::default(),
            reserve: Some(reserve),
            drain_deadline: None,
            cut: 0,
            shed: now,
            next_connection: connections::first_number(index),
            batch: Vec::new(),
            fired: Vec::new(),
            now,
        })
    }

    /// Serves until it is drained; returns how many connections the deadline ended.
    pub(crate) fn run(mut self) -> io::Result<u64> {
        let mut woken = self.now;
        while !self.is_drained() {
            let waited_from = Instant::now();
            let busy_us = waited_from.saturating_duration_since(woken).as_micros() as u64;
            self.counters.add(WorkerCounter::BusyMicroseconds, busy_us);
            let limit = self.wait_limit(waited_from);
            let mut batch = std::mem::take(&mut self.batch);
            self.driver.wait(limit, &mut batch)?;
            self.now = Instant::now();
            woken = self.now;
            self.counters.count(WorkerCounter::LoopIterations);
            self.counters.add(WorkerCounter::Events, batch.len() as u64);
            self.turn(&batch);
            self.batch = batch;
        }
        self.lines.flush();
        Ok(self.cut)
    }

    fn is_drained(&self) -> bool {
        self.drain_deadline.is_some() && self.connections.is_empty()
    }

    /// How long to wait for events.
    fn wait_limit(&self, now: Instant) -> Option<Duration> {
        if !self.schedule.is_empty() {
            return Some(Duration::ZERO);
        }
        let due = [
            self.lines.summary_due(),
            self.listeners.resumes(),
            self.drain_deadline,
            self.pool.has_excess().then(|| self.shed + SHED_INTERVAL),
        ];
        let until = due
            .into_iter()
            .flatten()
            .map(|due| due.saturating_duration_since(now));
        until.chain(self.timers.next(now)).min()
    }

    fn turn(&mut self, batch: &[epoll::Event]) {
        let mut is_called = false;
        let mut ready = ReadyListeners::default();
        for event in batch {
            match EventSource::of(event.token) {
                EventSource::Front(id) => self.note(id, event, false),
                EventSource::Back(id) => self.note(id, event, true),
                EventSource::Listener(place) => ready.add(place),
                EventSource::Waker => is_called = true,
            }
        }
        self.fire_timers();
        if is_called {
            self.waker.drain();
            self.handle_commands();
            self.handle_calls();
            self.pay_back();
        }
        self.accept_from(&ready);
        self.serve();
        if !self.listeners.resume(&self.driver, self.now) {
            self.counters.count(WorkerCounter::AcceptErrors);
        }
        self.enforce_drain();
        self.lines.summarise(self.now);
        if self.schedule.is_empty() {
            self.lines.flush();
        }
        if self.now >= self.shed + SHED_INTERVAL {
            self.shed = self.now;
            self.pool.shed();
        }
        self.counters
            .set(WorkerGauge::BuffersInUse, self.pool.in_use() as u64);
        self.counters
            .set(WorkerGauge::BuffersPooled, self.pool.spare() as u64);
    }

    /// Notes an event. A connection that has failed costs little and is served at once.
    fn note(&mut self, id: ConnectionId, event: &epoll::Event, is_back: bool) {
        let Some(connection) = self.connections.find(id) else {
            return;
        };
        connection.note(event, is_back);
        if event.error {
            self.pump(id);
        } else if !connection.is_queued {
            self.queue(id);
        } else if !is_back
            && event.read_closed
            && connection.class() == Class::Newcomer
            && self.schedule.is_overrun(self.now)
        {
            self.give_up(id, Reason::ClientDisconnected);
        }
    }

    /// Has a connection be served in its turn.
    fn queue(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.find(id)
            && !connection.is_queued
        {
            connection.is_queued = true;
            let mut class = connection.class();
            if class == Class::Newcomer
                && self.schedule.is_crowded()
                && offer_session(connection.front.peek(&mut [0; HELLO_BYTES]))
            {
                class = Class::Resuming;
            }
            self.schedule.add(id, class, self.now);
        }
    }

    /// Serves those that have something to work on, until the turn is over.
    fn serve(&mut self) {
        let connections = &mut self.connections;
        let is_open = |id| connections.find(id).is_some();
        self.schedule.begin_turn(self.now, is_open);
        while let Some(id) = self.schedule.next(self.now) {
            if let Some(connection) = self.connections.find(id) {
                connection.is_queued = false;
                self.pump(id);
                self.now = Instant::now();
            }
        }
    }

    /// Gives a connection its turn.
    fn pump(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.find(id) else {
            return;
        };
        let mut context = Context {
            driver: &self.driver,
            pool: &mut self.pool,
            pipes: &mut self.pipes,
            file_context: &self.file_context,
            sources: &self.sources,
            calls: &self.calls,
            now: self.now,
        };
        let turn = connection.pump(&mut context);
        if connection.is_counted_handshaking && !connection.flow.is_handshaking() {
            connection.is_counted_handshaking = false;
            if let Some(source) = &mut connection.source {
                source.end_handshake();
            }
            self.allowances.handshakes.give();
            connection
                .service
                .counters
                .lower(ServiceGauge::HandshakesInProgress);
            count_handshake(connection);
        }
        if connection.is_to_be_routed {
            return self.route(id);
        }
        self.list(id);
        match turn {
            Turn::Wait => self.set_timer(id),
            Turn::Again => {
                self.set_timer(id);
                self.queue(id);
            }
            Turn::Over => self.end(id),
        }
    }

    fn set_timer(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.find(id) else {
            return;
        };
        let Some(deadline) = connection.deadline() else {
            return;
        };
        let tick = self.timers.tick_of(deadline);
        // An entry that fires too early sets itself again, so only an earlier deadline matters.
        if connection.timer_tick == 0 || tick < connection.timer_tick {
            connection.timer_tick = tick;
            self.timers.set(tick, id.bits());
        }
    }

    fn fire_timers(&mut self) {
        let mut fired = std::mem::take(&mut self.fired);
        self.timers.fire(self.now, &mut fired);
        for (owner, tick) in fired.drain(..) {
            let id = ConnectionId::of(owner);
            let Some(connection) = self.connections.find(id) else {
                continue;
            };
            if connection.timer_tick != tick {
                continue;
            }
            connection.timer_tick = 0;
            connection.time_out(self.now, &mut self.pool);
            self.pump(id);
        }
        self.fired = fired;
    }

    /// Ends a connection that nobody serves any more.
    fn give_up(&mut self, id: ConnectionId, reason: Reason) {
        if let Some(connection) = self.connections.find(id) {
            connection.front.reset_on_close();
            let stopped = Event::Stopped(reason);
            connection.flow.handle(stopped, self.now, &mut self.pool);
            self.pump(id);
        }
    }

    /// Takes leave of a connection.
    fn end(&mut self, id: ConnectionId) {
        let Some(mut connection) = self.connections.remove(id) else {
            return;
        };
        let service = Rc::clone(&connection.service);
        self.unlist(connection.listed.take(), &service);
        self.release(&service);
        service.counters.lower(ServiceGauge::ConnectionsOpen);
        if connection.flow.facts().offloaded {
            service.counters.lower(ServiceGauge::Offloaded);
        }
        self.counters.lower(WorkerGauge::ConnectionsOpen);
        if connection.shared.is_some() {
            service.counters.count(ServiceCounter::ConnectionsAccepted);
        }
        let accepted = connection.flow.facts().accepted;
        let open_for = self.now.saturating_duration_since(accepted);
        service.counters.observe(Histogram::Connection, open_for);
        service.counters.add(
            ServiceCounter::KeyUpdates,
            connection.flow.facts().key_updates.into(),
        );
        if let Some(ending) = connection.flow.ending() {
            service.counters.ended(ending.reason);
            self.cut += u64::from(ending.reason == Reason::Drained);
            self.lines.report(&connection, ending, self.now);
        }
    }

    // What the control thread asks for.

    fn handle_commands(&mut self) {
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
                Command::Server {
                    service,
                    server,
                    news,
                } => {
                    let service = self.service(&service).into_iter();
                    service.for_each(|one| one.note(server, &news));
                }
                Command::Drain(deadline) => self.drain(deadline),
                Command::Answer(question) => question.store(false, Ordering::Relaxed),
                Command::Replied(reply) => self.replied(*reply),
                Command::SessionFetched { token, tier } => self.session_fetched(token, tier),
            }
        }
        // There may be more, after the others' turn.
        self.waker.wake();
    }

    /// Has a connection of files go on, if it still waits for that.
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

    /// Has a connection go on with its handshake, if it still waits for a session.
    fn session_fetched(&mut self, token: u64, tier: SessionTier) {
        if let EventSource::Back(id) = EventSource::of(token)
            && let Some(connection) = self.connections.find(id)
        {
            let event = Event::SessionFetched(tier);
            connection.flow.handle(event, self.now, &mut self.pool);
            self.queue(id);
        }
    }

    /// Has connections take the places at servers that are reserved for them. If one has ended, its
    /// place has gone to another.
    fn handle_calls(&mut self) {
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

    fn service(&self, name: &str) -> Option<&Service> {
        let mut services = self.services.iter();
        services.find(|one| one.plan.name == name).map(|one| &**one)
    }

    /// Serves an assignment in place of the one before.
    pub(crate) fn apply_plan(&mut self, assignment: Assignment) {
        self.lines.set_options(assignment.log);
        let per_source = assignment.limits.per_source.clone();
        self.sources = Rc::new(self.sources.with_limits(per_source));
        self.limits = assignment.limits;
        let plans = assignment.services.into_iter().zip(assignment.counters);
        self.services = plans
            .map(|(plan, counters)| {
                let before = self.service(&plan.name);
                let service = Service::new(plan, self.index, counters, before);
                Rc::new(service)
            })
            .collect();
        self.empty_queues();
        let shared = assignment.shared.into_iter().map(|plan| {
            let counters = Arc::clone(&self.services[plan.counted_as].counters);
            let entry = Service::new(Arc::clone(&plan.entry), self.index, counters, None);
            let services = SharedServices::new(Arc::clone(&plan), &self.services);
            (plan, Rc::new(entry), Rc::new(services))
        });
        let shared: Vec<_> = shared.collect();
        let listener = |one: AssignedListener| {
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

    /// Closes the listeners. Connections that the kernel has already accepted for one of them
    /// would be lost with it if nobody else holds it open, so they are taken first.
    fn empty_queues(&mut self) {
        self.take_queues();
        self.listeners.close(&self.driver);
    }

    fn take_queues(&mut self) {
        // Those of listeners that are left alone are another process's.
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

    fn enforce_drain(&mut self) {
        if self
            .drain_deadline
            .is_none_or(|deadline| deadline > self.now)
        {
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

#[cfg(test)]
mod tests;
