//! Runs one thread with one loop and its own connections.
//!
//! Decides the order of a turn: the kernel's events are noted, commands are handled, timers fire
//! and new connections are accepted; then connections are served in the order of `schedule`.
//! `admission` admits connections, and `control` serves the control thread.
//!
//! A timer speaks against a client or a server that has let us wait. A worker that got no CPU time
//! itself must not judge so: before timers fire, it takes what has come until now.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use flow::buffer::Pool;
use flow::events::Event;
use sys::epoll;
use sys::epoll::Waker;
use telemetry::catalogue::{Histogram, ServiceCounter, ServiceGauge, WorkerCounter, WorkerGauge};
use telemetry::counters::WorkerCounters;
use telemetry::outcome::Reason;

use crate::clock::{TICK, Timers};
use crate::commands::Command;
use crate::connection::{Connection, Context, NextTurn};
use crate::connection_log::ConnectionLog;
use crate::connections::{BulkPace, Connections, count_handshake};
use crate::descriptors::Pipes;
use crate::displaceable::Displaceable;
use crate::driver::{ConnectionId, Driver, EVENTS_PER_WAIT, EventSource};
use crate::files::FileContext;
use crate::listeners::{ReadyListeners, WorkerListeners};
use crate::options::{ProcessLimits, SourceLimits};
use crate::places::Calls;
use crate::schedule::{Class, HELLO_BYTES, LingeringConnections, Schedule, offer_session};
use crate::service::Service;
use crate::sources::{Allowances, WorkerSources};
use crate::{clock, connections, schedule};

mod admission;
mod control;

/// Time that a spare buffer waits to be used before its memory is given back.
const SHED_INTERVAL: Duration = Duration::from_secs(1);

/// Delay of a turn that counts as a stall: the process was stopped, the machine paused, or its core
/// taken. Everybody who waited gets as much time to go on, before a timer fires.
const STALL: Duration = Duration::from_secs(1);

pub(crate) struct Worker {
    index: usize,
    driver: Driver,
    waker: Arc<Waker>,
    commands: Receiver<Command>,
    /// Connections that have a place at a server reserved, and the sender for them.
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
    listeners: WorkerListeners,
    /// Connections that have work to do.
    schedule: Schedule,
    /// Pace of bytes that we encrypt, and of those that the kernel encrypts.
    paces: [BulkPace; 2],
    lingering: LingeringConnections,
    limits: ProcessLimits,
    sources: Rc<WorkerSources>,
    allowances: Allowances,
    /// Connections that have relayed nothing yet.
    displaceable: RefCell<Displaceable>,
    /// Descriptor that is given up when none is left.
    reserve: Option<OwnedFd>,
    drain_deadline: Option<Instant>,
    cut: u64,
    /// Time at which spare buffers were last checked.
    shed: Instant,
    next_connection: u64,
    batch: Vec<epoll::Event>,
    /// Time at which the last turn began, and by when the next one should.
    turn_began: Instant,
    turn_due: Option<Instant>,
    /// Time before which no timer fires.
    timers_rest_until: Instant,
    /// Whether the turn has few events.
    is_quiet: bool,
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
        let now = clock::now();
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
            listeners: WorkerListeners::default(),
            schedule: Schedule::new(now),
            paces: <[BulkPace; 2]>::default(),
            lingering: LingeringConnections::default(),
            limits: ProcessLimits { connections: 0, handshakes: 0, per_source: SourceLimits::OFF },
            sources: Rc::new(WorkerSources::new(
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
            turn_began: now,
            turn_due: None,
            timers_rest_until: now,
            is_quiet: true,
            fired: Vec::new(),
            now,
        })
    }

    /// Serves until drained; returns how many connections the deadline ended.
    pub(crate) fn run(mut self) -> io::Result<u64> {
        let mut woken = self.now;
        while !self.is_drained() {
            let waited_from = clock::now();
            let busy_us = waited_from.saturating_duration_since(woken).as_micros() as u64;
            self.counters.add(WorkerCounter::BusyMicroseconds, busy_us);
            let limit = self.wait_limit(waited_from);
            let mut batch = std::mem::take(&mut self.batch);
            self.take_events(limit, &mut batch)?;
            self.now = clock::now();
            woken = self.now;
            self.counters.count(WorkerCounter::LoopIterations);
            self.turn(&mut batch)?;
            self.batch = batch;
        }
        self.lines.flush();
        Ok(self.cut)
    }

    fn is_drained(&self) -> bool {
        self.drain_deadline.is_some() && self.connections.is_empty()
    }

    /// Returns how long to wait for events.
    fn wait_limit(&mut self, now: Instant) -> Option<Duration> {
        let limit = self.time_to_next(now);
        self.turn_due = limit.map(|limit| self.turn_began + limit);
        limit
    }

    fn time_to_next(&mut self, now: Instant) -> Option<Duration> {
        if !self.schedule.is_empty() {
            return Some(Duration::ZERO);
        }
        self.forget_timers(now);
        let due = [
            self.lingering.wakes_at(),
            self.lines.summary_due(),
            self.listeners.resumes(),
            self.drain_deadline,
            self.pool.has_excess().then(|| self.shed + SHED_INTERVAL),
        ];
        let until = due.into_iter().flatten().map(|due| due.saturating_duration_since(now));
        let rest = self.timers_rest_until.saturating_duration_since(now);
        until.chain(self.timers.next(now).map(|time| time.max(rest))).min()
    }

    /// Takes what the kernel reports; returns whether there may be more.
    fn take_events(
        &mut self,
        limit: Option<Duration>,
        batch: &mut Vec<epoll::Event>,
    ) -> io::Result<bool> {
        let has_more = self.driver.wait(limit, batch)?;
        #[cfg(test)]
        connections::held_dials::HELD_DIALS
            .with_borrow_mut(|held| held.filter(batch, &mut self.connections));
        self.counters.add(WorkerCounter::Events, batch.len() as u64);
        Ok(has_more)
    }

    fn turn(&mut self, batch: &mut Vec<epoll::Event>) -> io::Result<()> {
        if self.turn_due.take().is_some_and(|due| self.now >= due + STALL) {
            self.timers_rest_until = self.now + STALL;
        }
        self.turn_began = self.now;
        self.is_quiet = batch.len() <= schedule::EVENTS_MAX;
        let mut is_called = false;
        let mut ready = ReadyListeners::default();
        self.note_all(batch, &mut ready, &mut is_called);
        let are_timers_due = self.timers_rest_until <= self.now
            && self.timers.next(self.now).is_some_and(|time| time.is_zero());
        if are_timers_due {
            // These events may be older than the clock's answer. A connection has at most four
            // sockets to be reported, and the kernel reports first what was ready first.
            for _ in 0..=self.connections.len() * 4 / EVENTS_PER_WAIT {
                let has_more = self.take_events(Some(Duration::ZERO), batch)?;
                self.note_all(batch, &mut ready, &mut is_called);
                if !has_more {
                    break;
                }
            }
        }
        if is_called {
            self.waker.drain();
            self.handle_commands();
            self.handle_calls();
            self.pay_back();
        }
        if are_timers_due {
            self.fire_timers();
        }
        self.accept_from(&ready);
        self.serve();
        self.end_lingering();
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
        self.counters.set(WorkerGauge::BuffersInUse, self.pool.in_use() as u64);
        self.counters.set(WorkerGauge::BuffersPooled, self.pool.spare() as u64);
        Ok(())
    }

    fn note_all(
        &mut self,
        batch: &[epoll::Event],
        ready: &mut ReadyListeners,
        is_called: &mut bool,
    ) {
        for event in batch {
            match EventSource::of(event.token) {
                EventSource::Front(id) => self.note(id, event, false),
                EventSource::Back(id) => self.note(id, event, true),
                EventSource::Rival(id) => self.note_rival(id),
                EventSource::Listener(place) => ready.add(place),
                EventSource::Waker => *is_called = true,
            }
        }
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

    fn note_rival(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.find(id) {
            connection.dial.note_rivals();
            self.queue(id);
        }
    }

    /// Puts a connection into the schedule, to be served in its turn.
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

    /// Serves connections that have work to do, until the turn is over.
    fn serve(&mut self) {
        let connections = &mut self.connections;
        let is_open = |id| connections.find(id).is_some();
        self.schedule.begin_turn(self.now, is_open);
        while let Some(id) = self.schedule.next(self.now) {
            if let Some(connection) = self.connections.find(id) {
                connection.is_queued = false;
                // Before the first of a turn there were events, timers and new connections.
                if connection.class() == Class::Bulk {
                    self.now = clock::now();
                }
                self.pump(id);
                self.now = clock::now();
            }
        }
    }

    /// Gives a connection its turn.
    fn pump(&mut self, id: ConnectionId) {
        if let Some(service) = self.pump_one(id) {
            self.close_sessions(&service);
        }
    }

    /// Returns the connection's service if sessions of a server are to end, because the dial of
    /// another server has taken it out.
    fn pump_one(&mut self, id: ConnectionId) -> Option<Rc<Service>> {
        let connection = self.connections.find(id)?;
        let mut context = Context {
            driver: &self.driver,
            pool: &mut self.pool,
            pipes: &mut self.pipes,
            file_context: &self.file_context,
            sources: &self.sources,
            calls: &self.calls,
            now: self.now,
            is_draining: self.drain_deadline.is_some(),
            bulk_bytes: self.paces.map(BulkPace::bytes),
            moved: 0,
        };
        let turn = connection.pump(&mut context);
        let moved = context.moved;
        let has_closing = connection.service.has_closing();
        let closing = has_closing.then(|| Rc::clone(&connection.service));
        if moved >= connections::BYTES_MIN {
            let is_offloaded = connection.flow.is_offloaded();
            self.paces[usize::from(is_offloaded)]
                .note(moved, clock::now().saturating_duration_since(self.now));
        }
        if connection.is_counted_handshaking && !connection.flow.is_handshaking() {
            connection.is_counted_handshaking = false;
            if let Some(source) = &mut connection.source {
                source.end_handshake();
            }
            self.allowances.handshakes.give();
            connection.service.counters.lower(ServiceGauge::HandshakesInProgress);
            count_handshake(connection);
        }
        if connection.is_to_be_routed {
            self.route(id);
            return closing;
        }
        self.list(id);
        match turn {
            NextTurn::Wait => {
                self.set_timer(id);
                if self.is_quiet && self.schedule.is_empty() {
                    self.linger(id);
                }
            }
            NextTurn::Again => {
                self.set_timer(id);
                self.queue(id);
            }
            NextTurn::Over => self.end(id),
        }
        closing
    }

    /// Removes a connection from epoll if only the client's end is left to come.
    fn linger(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.find(id) else {
            return;
        };
        let plan = &connection.service.plan;
        let is_ample = self.allowances.connections.is_ample(self.limits.connections)
            && plan.open().is_ample(plan.connections_max());
        if is_ample && connection.may_linger() && self.driver.unwatch(&mut connection.front) {
            connection.lingers_since = Some(self.now);
            self.lingering.add(id, self.now);
        }
    }

    /// Ends connections whose clients have closed by now, and adds the others to epoll again.
    fn end_lingering(&mut self) {
        for _ in 0..schedule::LOOKS_PER_TURN {
            let Some(id) = self.lingering.take_due(self.now) else {
                return;
            };
            let Some(connection) = self.connections.find(id) else {
                continue;
            };
            connection.front.look();
            self.pump(id);
            if let Some(connection) = self.connections.find(id) {
                self.driver.watch(&mut connection.front);
                if connection.front.has_failed() {
                    self.queue(id);
                }
            }
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

    /// Forgets timers that would wake the worker soon in vain: of connections that have ended, or
    /// whose deadline has moved.
    fn forget_timers(&mut self, now: Instant) {
        while self.timers.next(now).is_some_and(|time| time <= TICK * 2) {
            let Some(entry) = self.timers.pop_next() else {
                return;
            };
            let Some(id) = self.take_timer(entry) else {
                continue;
            };
            self.set_timer(id);
            let connection = self.connections.find(id);
            if connection.is_some_and(|one| one.timer_tick == entry.1) {
                return;
            }
        }
    }

    /// Returns a timer's connection and clears its timer; `None` = the timer is outdated.
    fn take_timer(&mut self, (owner, tick): (u64, u64)) -> Option<ConnectionId> {
        let id = ConnectionId::of(owner);
        let connection = self.connections.find(id)?;
        (connection.timer_tick == tick).then(|| {
            connection.timer_tick = 0;
            id
        })
    }

    fn fire_timers(&mut self) {
        let mut fired = std::mem::take(&mut self.fired);
        self.timers.fire(self.now, &mut fired);
        for entry in fired.drain(..) {
            let Some(id) = self.take_timer(entry) else {
                continue;
            };
            // Pending work of the connection precedes its timeout. But a newcomer that waits to be
            // served until its time is over costs no more work.
            let has_work = |one: &mut Connection| one.is_queued && one.class() != Class::Newcomer;
            if self.connections.find(id).is_some_and(has_work) {
                self.pump(id);
            }
            if let Some(connection) = self.connections.find(id) {
                connection.time_out(self.now, &mut self.pool);
                self.pump(id);
            }
        }
        self.fired = fired;
    }

    /// Ends a connection that is not served any more.
    fn give_up(&mut self, id: ConnectionId, reason: Reason) {
        if let Some(connection) = self.connections.find(id) {
            // A client that has left needs no reset, and if its hello is unread, close sends one.
            if reason != Reason::ClientDisconnected {
                connection.front.reset_on_close();
            }
            let stopped = Event::Stopped(reason);
            connection.flow.handle(stopped, self.now, &mut self.pool);
            self.pump(id);
        }
    }

    /// Removes a connection and releases what it holds.
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
        let ended = connection.lingers_since.filter(|_| !connection.front.is_watched());
        let open_for = ended.unwrap_or(self.now).saturating_duration_since(accepted);
        service.counters.observe(Histogram::Connection, open_for);
        service
            .counters
            .add(ServiceCounter::KeyUpdates, connection.flow.facts().key_updates.into());
        if let Some(ending) = connection.flow.ending() {
            service.counters.ended(ending.reason);
            self.cut += u64::from(ending.reason == Reason::Drained);
            self.lines.report(&connection, ending, open_for, self.now);
        }
    }
}

#[cfg(test)]
mod tests;
