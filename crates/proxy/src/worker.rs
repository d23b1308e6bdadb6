//! One thread, one loop, its own connections.
//!
//! Owns the order of things in a turn: established connections first, then new ones, then
//! handshakes for as long as the turn may take, so that nobody starves while another signs.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flow::buffer::Pool;
use flow::connection::Flow;
use flow::facts::{Facts, Route};
use sys::epoll::Event;
use sys::socket::PeerAddress;
use sys::wake::Waker;
use telemetry::catalogue::{Histogram, ServiceCounter, ServiceGauge, WorkerCounter, WorkerGauge};
use telemetry::counters::{Handshake, WorkerCounters};
use telemetry::outcome::Reason;
use wire::address::Address;

use crate::driver::{Driver, Socket};
use crate::lines::{self, Lines};
use crate::link::{Context, Link, Turn};
use crate::links::{LinkId, Links, Named};
use crate::service::{Service, share};
use crate::timers::{TICK, Timers};

/// Connections accepted from one listener in a turn.
const ACCEPTS_PER_TURN: usize = 64;

/// How long handshakes may keep established connections waiting. One RSA-2048 signature takes a
/// quarter of it, one RSA-4096 signature three times as long: never more than one above it.
const HANDSHAKES_PER_TURN: Duration = Duration::from_micros(1000);

/// How long a worker that has run out of descriptors leaves its listeners alone.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the control thread asks of a worker.
pub(crate) enum Command {
    /// Serve this from now on; connections that are open stay with what they began with.
    Replace(Box<Assignment>, Sender<()>),
    /// A server's state has been found out.
    SetServerUp {
        service: Arc<str>,
        server: usize,
        up: bool,
    },
    /// A server's name resolves to these.
    SetAddresses {
        service: Arc<str>,
        server: usize,
        addresses: Arc<[std::net::SocketAddr]>,
    },
    /// Accept no more, and end when the last connection has, or at the deadline.
    Drain(Instant),
}

/// What a worker serves.
pub(crate) struct Assignment {
    pub(crate) services: Vec<Arc<crate::plan::ServicePlan>>,
    pub(crate) counters: Vec<Arc<telemetry::counters::ServiceCounters>>,
    pub(crate) listeners: Vec<(usize, Address, OwnedFd)>,
    pub(crate) limits: crate::options::Limits,
    pub(crate) log: crate::options::LogOptions,
}

/// A listening socket and whose it is.
struct Listener {
    fd: OwnedFd,
    service: Rc<Service>,
    text: Rc<str>,
    address: Address,
    /// Connections to take at the next call.
    batch: usize,
}

/// A worker.
pub(crate) struct Worker {
    index: usize,
    workers: usize,
    driver: Driver,
    waker: Arc<Waker>,
    commands: Receiver<Command>,
    counters: Arc<WorkerCounters>,
    lines: Lines,
    pool: Pool,
    timers: Timers,
    links: Links,
    services: Vec<Rc<Service>>,
    listeners: Vec<Listener>,
    /// Connections that had to let others go first.
    waiting: VecDeque<LinkId>,
    /// Handshakes with something to work on.
    handshakes: VecDeque<LinkId>,
    handshakes_under_way: u32,
    connections_max: u32,
    handshakes_max: u32,
    accept_resumes: Option<Instant>,
    drain_deadline: Option<Instant>,
    next_connection: u64,
    batch: Vec<Event>,
    fired: Vec<(u64, u64)>,
    now: Instant,
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        workers: usize,
        waker: Arc<Waker>,
        commands: Receiver<Command>,
        counters: Arc<WorkerCounters>,
        lines: Lines,
    ) -> io::Result<Self> {
        let driver = Driver::new()?;
        driver.watch_waker(&waker, Named::Waker.token())?;
        let now = Instant::now();
        // Unique over restarts as long as no worker accepts a million connections a second.
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let next_connection = (since_epoch.as_micros() as u64) << 8 | index as u64 & 0xff;
        Ok(Self {
            index,
            workers,
            driver,
            waker,
            commands,
            counters,
            lines,
            pool: Pool::new(),
            timers: Timers::new(now),
            links: Links::default(),
            services: Vec::new(),
            listeners: Vec::new(),
            waiting: VecDeque::new(),
            handshakes: VecDeque::new(),
            handshakes_under_way: 0,
            connections_max: 0,
            handshakes_max: 0,
            accept_resumes: None,
            drain_deadline: None,
            next_connection,
            batch: Vec::new(),
            fired: Vec::new(),
            now,
        })
    }

    /// Serves until it is drained.
    pub(crate) fn run(mut self) -> io::Result<()> {
        while !self.is_drained() {
            let waited_from = Instant::now();
            let busy_us = waited_from.saturating_duration_since(self.now).as_micros() as u64;
            self.counters.add(WorkerCounter::BusyMicroseconds, busy_us);
            let limit = self.wait_limit(waited_from);
            let mut batch = std::mem::take(&mut self.batch);
            self.driver.wait(limit, &mut batch)?;
            self.now = Instant::now();
            self.counters.count(WorkerCounter::LoopIterations);
            self.counters.add(WorkerCounter::Events, batch.len() as u64);
            self.turn(&batch);
            self.batch = batch;
        }
        self.lines.flush();
        Ok(())
    }

    fn is_drained(&self) -> bool {
        self.drain_deadline.is_some() && self.links.is_empty()
    }

    /// How long nothing needs to be done unless an event says so.
    fn wait_limit(&self, now: Instant) -> Option<Duration> {
        if !self.waiting.is_empty() || !self.handshakes.is_empty() {
            return Some(Duration::ZERO);
        }
        let due = [
            self.lines.summary_due(),
            self.accept_resumes,
            self.drain_deadline,
        ];
        let until = due
            .into_iter()
            .flatten()
            .map(|due| due.saturating_duration_since(now));
        until.chain(self.timers.next(now)).min()
    }

    fn turn(&mut self, batch: &[Event]) {
        let mut is_called = false;
        let mut callers = [false; LISTENERS_PER_BATCH];
        for event in batch {
            match Named::of(event.token) {
                Named::Front(id) => self.note(id, event, false),
                Named::Back(id) => self.note(id, event, true),
                Named::Listener(place) => callers[place.min(LISTENERS_PER_BATCH - 1)] = true,
                Named::Waker => is_called = true,
            }
        }
        self.serve_waiting();
        self.fire_timers();
        self.accept_from(&callers);
        self.serve_handshakes();
        if is_called {
            self.waker.drain();
            self.obey();
        }
        self.resume_accepting();
        self.enforce_drain();
        self.lines.summarise(self.now);
        if self.waiting.is_empty() && self.handshakes.is_empty() {
            self.lines.flush();
        }
        self.counters
            .set(WorkerGauge::BuffersInUse, self.pool.in_use() as u64);
        self.counters
            .set(WorkerGauge::BuffersPooled, self.pool.spare() as u64);
    }

    /// Takes note of an event; established connections are served at once.
    fn note(&mut self, id: LinkId, event: &Event, is_back: bool) {
        let Some(link) = self.links.find(id) else {
            return;
        };
        link.note(event, is_back);
        if !link.flow.is_opening() || event.error {
            self.pump(id);
        } else if !link.is_queued {
            link.is_queued = true;
            self.handshakes.push_back(id);
        }
    }

    /// Gives a connection its turn.
    fn pump(&mut self, id: LinkId) {
        let Some(link) = self.links.find(id) else {
            return;
        };
        let mut context = Context {
            driver: &self.driver,
            pool: &mut self.pool,
            now: self.now,
        };
        let turn = link.pump(&mut context);
        if link.is_counted_opening && !link.flow.is_opening() {
            link.is_counted_opening = false;
            self.handshakes_under_way -= 1;
            link.service
                .counters
                .lower(ServiceGauge::HandshakesUnderWay);
            count_handshake(link);
        }
        match turn {
            Turn::Wait => self.set_timer(id),
            Turn::Again => {
                if !link.is_queued {
                    link.is_queued = true;
                    self.waiting.push_back(id);
                }
            }
            Turn::Over => self.end(id),
        }
    }

    fn set_timer(&mut self, id: LinkId) {
        let Some(link) = self.links.find(id) else {
            return;
        };
        let Some(deadline) = link.flow.deadline() else {
            return;
        };
        let tick = self.timers.tick_of(deadline);
        // An entry that fires too early sets itself again, so only an earlier deadline matters.
        if link.timer_tick == 0 || tick < link.timer_tick {
            link.timer_tick = tick;
            self.timers.set(tick, id.bits());
        }
    }

    fn fire_timers(&mut self) {
        let mut fired = std::mem::take(&mut self.fired);
        self.timers.fire(self.now, &mut fired);
        for (owner, tick) in fired.drain(..) {
            let id = LinkId::of(owner);
            let Some(link) = self.links.find(id) else {
                continue;
            };
            if link.timer_tick != tick {
                continue;
            }
            link.timer_tick = 0;
            link.flow.handle_timeout(self.now, &mut self.pool);
            self.pump(id);
        }
        self.fired = fired;
    }

    fn serve_waiting(&mut self) {
        for _ in 0..self.waiting.len() {
            let Some(id) = self.waiting.pop_front() else {
                return;
            };
            if let Some(link) = self.links.find(id) {
                link.is_queued = false;
                self.pump(id);
            }
        }
    }

    fn serve_handshakes(&mut self) {
        let begun = Instant::now();
        while let Some(id) = self.handshakes.pop_front() {
            if let Some(link) = self.links.find(id) {
                link.is_queued = false;
                self.pump(id);
                self.now = Instant::now();
            }
            if self.now.saturating_duration_since(begun) >= HANDSHAKES_PER_TURN {
                return;
            }
        }
    }

    fn accept_from(&mut self, callers: &[bool; LISTENERS_PER_BATCH]) {
        for place in 0..self.listeners.len() {
            if callers[place.min(LISTENERS_PER_BATCH - 1)] && self.accept_resumes.is_none() {
                self.accept_batch(place);
            }
        }
    }

    /// Takes twice as many as the last time if there were that many, else half: a call that finds
    /// the queue empty is made seldom, and a long queue is emptied soon.
    fn accept_batch(&mut self, place: usize) {
        let count = self.listeners[place].batch;
        let has_more = self.accept_some(place, count);
        let next = if has_more { count * 2 } else { count / 2 };
        if let Some(listener) = self.listeners.get_mut(place) {
            listener.batch = next.clamp(1, ACCEPTS_PER_TURN);
        }
    }

    /// Accepts up to `count` connections; says whether the queue may hold more.
    fn accept_some(&mut self, place: usize, count: usize) -> bool {
        for _ in 0..count {
            match self.accept_one(place) {
                Ok(()) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return false,
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                    _ => {
                        self.pause_accepting();
                        return false;
                    }
                },
            }
        }
        true
    }

    fn accept_one(&mut self, place: usize) -> io::Result<()> {
        let listener = &self.listeners[place];
        let service = Rc::clone(&listener.service);
        if let Some(reason) = self.refusal(&service) {
            self.driver.refuse(&listener.fd)?;
            service.counters.count(ServiceCounter::ConnectionsAccepted);
            service.counters.ended(reason);
            return Ok(());
        }
        let id = self.links.next_id();
        let accepted = self.driver.accept(&listener.fd, Named::Front(id).token());
        let (front, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                service.release();
                return Err(error);
            }
        };
        let text = Rc::clone(&listener.text);
        let route = route(&service, listener, &front, peer);
        self.next_connection += 1 << 8;
        let facts = Facts::new(self.next_connection, route, self.now);
        let expects_header = service.expects_proxy_header(peer);
        let flow = Flow::new(Rc::clone(&service.settings), expects_header, facts);
        service.counters.count(ServiceCounter::ConnectionsAccepted);
        service.counters.raise(ServiceGauge::ConnectionsOpen);
        service.counters.raise(ServiceGauge::HandshakesUnderWay);
        self.counters.raise(WorkerGauge::ConnectionsOpen);
        self.handshakes_under_way += 1;
        let mut link = Link::new(flow, service, text, front, Named::Back(id).token());
        link.is_queued = true;
        self.links.insert(link);
        self.handshakes.push_back(id);
        Ok(())
    }

    /// Why a further connection may not be had, if so; else it is counted as the service's.
    fn refusal(&self, service: &Service) -> Option<Reason> {
        if self.links.len() >= self.connections_max as usize {
            return Some(Reason::ConnectionLimit);
        }
        if self.handshakes_under_way >= self.handshakes_max {
            return Some(Reason::HandshakeLimit);
        }
        (!service.admit()).then_some(Reason::ConnectionLimit)
    }

    /// Without descriptors or memory accepting fails at once and for ever: leave it for a while.
    fn pause_accepting(&mut self) {
        self.counters.count(WorkerCounter::AcceptErrors);
        for listener in &self.listeners {
            self.driver.ignore(&listener.fd);
        }
        self.accept_resumes = Some(self.now + ACCEPT_PAUSE);
    }

    fn resume_accepting(&mut self) {
        if self.accept_resumes.is_some_and(|at| at <= self.now) {
            self.accept_resumes = None;
            self.watch_listeners();
        }
    }

    fn watch_listeners(&mut self) {
        for (place, listener) in self.listeners.iter().enumerate() {
            let is_shared = matches!(listener.address, Address::Unix(_));
            let token = Named::Listener(place).token();
            if self.driver.listen(&listener.fd, token, is_shared).is_err() {
                self.accept_resumes = Some(self.now + ACCEPT_PAUSE);
                self.counters.count(WorkerCounter::AcceptErrors);
            }
        }
    }

    /// Takes leave of a connection.
    fn end(&mut self, id: LinkId) {
        let Some(link) = self.links.remove(id) else {
            return;
        };
        let service = Rc::clone(&link.service);
        service.release();
        service.counters.lower(ServiceGauge::ConnectionsOpen);
        self.counters.lower(WorkerGauge::ConnectionsOpen);
        let accepted = link.flow.facts().accepted;
        let open_for = self.now.saturating_duration_since(accepted);
        service.counters.observe(Histogram::Connection, open_for);
        service.counters.add(
            ServiceCounter::KeyUpdates,
            link.flow.facts().key_updates.into(),
        );
        if let Some(ending) = link.flow.ending() {
            service.counters.ended(ending.reason);
            self.lines.report(&link, ending, self.now);
        }
    }

    // What the control thread asks for.

    fn obey(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Replace(assignment, answer) => {
                    self.take_up(*assignment);
                    // Whoever asked may have given up waiting; the plan is served all the same.
                    let _ = answer.send(());
                }
                Command::SetServerUp {
                    service,
                    server,
                    up,
                } => {
                    self.with_service(&service, |service| {
                        service.pool.borrow_mut().set_checked(server, up);
                        service.tell_state(server);
                    });
                }
                Command::SetAddresses {
                    service,
                    server,
                    addresses,
                } => {
                    self.with_service(&service, |service| {
                        service
                            .pool
                            .borrow_mut()
                            .set_addresses(server, addresses.to_vec());
                        service.tell_state(server);
                    });
                }
                Command::Drain(deadline) => self.drain(deadline),
            }
        }
    }

    fn with_service(&self, name: &str, act: impl FnOnce(&Service)) {
        if let Some(service) = self.services.iter().find(|one| one.plan.name == name) {
            act(service);
        }
    }

    /// Serves an assignment in place of the one before.
    pub(crate) fn take_up(&mut self, assignment: Assignment) {
        self.lines.set_options(assignment.log);
        self.connections_max = share(assignment.limits.connections, self.workers);
        self.handshakes_max = share(assignment.limits.handshakes, self.workers);
        let plans = assignment.services.into_iter().zip(assignment.counters);
        let services: Vec<_> = plans
            .map(|(plan, counters)| {
                let service = Service::new(plan, self.index, self.workers, counters);
                self.with_service(&service.plan.name, |before| {
                    service.pool.borrow_mut().inherit(&before.pool.borrow());
                });
                Rc::new(service)
            })
            .collect();
        self.services = services;
        self.empty_queues();
        let listeners = assignment
            .listeners
            .into_iter()
            .map(|(service, address, fd)| Listener {
                fd,
                service: Rc::clone(&self.services[service]),
                text: address.to_string().into(),
                address,
                batch: 1,
            });
        self.listeners = listeners.collect();
        self.accept_resumes = None;
        self.watch_listeners();
    }

    /// Closes the listeners. Connections that the kernel has already accepted for one of them
    /// would be lost with it if nobody else holds it open, so they are taken first.
    fn empty_queues(&mut self) {
        for place in 0..self.listeners.len() {
            while self.accept_some(place, ACCEPTS_PER_TURN) {}
        }
        for listener in self.listeners.drain(..) {
            self.driver.ignore(&listener.fd);
        }
    }

    fn drain(&mut self, deadline: Instant) {
        self.empty_queues();
        self.accept_resumes = None;
        self.drain_deadline = Some(deadline);
    }

    fn enforce_drain(&mut self) {
        if self
            .drain_deadline
            .is_none_or(|deadline| deadline > self.now)
        {
            return;
        }
        for id in self.links.ids() {
            if let Some(link) = self.links.find(id) {
                link.flow.cut(Reason::Drained, &mut self.pool);
                self.pump(id);
            }
        }
    }
}

/// Listeners told apart in one batch of events; those beyond share the last place and are all
/// looked at when one of them calls.
const LISTENERS_PER_BATCH: usize = 64;

fn count_handshake(link: &Link) {
    let facts = link.flow.facts();
    let (Some(agreed), Some(kind)) = (&facts.agreed, facts.kind) else {
        return;
    };
    if agreed.retried {
        link.service
            .counters
            .count(ServiceCounter::HelloRetryRequests);
    }
    link.service.counters.handshake(Handshake {
        kind,
        version: lines::version_of(agreed.version),
        suite: agreed.suite.map_or(0, |suite| suite.code()),
        group: agreed.group.map_or(0, |group| group.code()),
        duration: lines::handshake_time(facts).unwrap_or(TICK),
    });
}

fn route(service: &Service, listener: &Listener, front: &Socket, peer: PeerAddress) -> Route {
    let PeerAddress::Ip(source) = peer else {
        return Route {
            source: None,
            destination: None,
        };
    };
    let destination = match &listener.address {
        Address::Ip(address) if !address.ip().is_unspecified() => Some(*address),
        _ if service.tells_destination() => match front.local_address() {
            Some(PeerAddress::Ip(address)) => Some(address),
            _ => None,
        },
        _ => None,
    };
    Route {
        source: Some(source),
        destination,
    }
}
