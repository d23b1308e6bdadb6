//! A running schedule: the worker, its peers, and what happens next.
//!
//! Controls the seam to the worker: which events it gets, in which order, and the time.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use sys::epoll::Event;
use sys::socket;
use sys::socket::{BindSource, connect_as};
use telemetry::catalogue::ServerCounter;
use telemetry::outcome::SessionTier;
use testkit::chance::Chance;

use super::deeds::{of_client, of_server};
use super::host::{SERVERS, SERVICES, ServerKind, SimulatedHost, limits};
use super::peers::{SimulatedClient, SimulatedServer};
use super::script::{Script, ScriptStep};
use crate::clock;
use crate::commands::{Assignment, BoundListener, Command, Mailbox, ServerNews};
use crate::connection_log::{ConnectionLog, LineQueue};
use crate::connections::held_dials::HELD_DIALS;
use crate::driver::{CONNECTS_LATER, EventSource};
use crate::file_work::IS_COLD;
use crate::files::FileContext;
use crate::sources::Allowances;
use crate::worker::Worker;

/// Largest number of turns of a schedule; each may relay one byte.
const TURNS_MAX: usize = 3000;

/// Consecutive turns in which nothing happens and no time passes.
const IDLE_TURNS_MAX: usize = 16;

const FAILURES: [ServerCounter; 4] = [
    ServerCounter::DialsRefused,
    ServerCounter::DialsTimedOut,
    ServerCounter::DialsUnreachable,
    ServerCounter::DialsTls,
];

/// A running schedule.
pub(super) struct Simulation<'a> {
    pub(super) host: &'a SimulatedHost,
    pub(super) script: &'a Script,
    pub(super) worker: Worker,
    mailbox: Mailbox,
    pub(super) lines: Arc<LineQueue>,
    now: Instant,
    begun: Instant,
    pub(super) clients: Vec<(usize, SimulatedClient)>,
    pub(super) servers: Vec<SimulatedServer>,
    /// Indices in `SERVERS` that may be dialled.
    dialled: Vec<usize>,
    /// The services that are served.
    pub(super) served: Vec<usize>,
    batch: Option<Vec<Event>>,
    /// Whether there was a turn since servers checked for new connections.
    may_have_dialled: bool,
    /// Whether something happened that may break a connection that is not at fault itself.
    pub(super) is_rough: bool,
    /// Whether a server, or the way to it, was at fault.
    pub(super) has_server_fault: bool,
    /// Dials of good servers that had failed before.
    failures_before: u64,
    pub(super) is_draining: bool,
    turns: usize,
    room: Vec<u8>,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(host: &'a SimulatedHost, script: &'a Script) -> Self {
        let begun = Instant::now();
        HELD_DIALS.take();
        clock::simulated::set(begun);
        clock::simulated::set_step(script.look);
        CONNECTS_LATER.set(script.connects_later);
        // Half of the schedules ask threads for what is not in memory.
        IS_COLD.set(script.connects_later);
        let wakers: Arc<[_]> =
            (0..1).map(|_| Arc::new(sys::epoll::Waker::new().unwrap())).collect();
        let (sender, commands) = channel();
        let mailbox = Mailbox::new(sender, Arc::clone(&wakers[0]));
        let lines = Arc::<LineQueue>::default();
        let counters = host.registry.worker(0);
        let log =
            ConnectionLog::new(host.plans[0].log, 0, Arc::clone(&lines), Arc::clone(&counters));
        let served = Self::served(script);
        let dialled = Self::dialled(&served);
        let worker = Worker::new(
            0,
            Allowances::new(Arc::clone(&wakers)),
            Arc::clone(&wakers[0]),
            commands,
            Arc::new(FileContext::new(host.file_threads.clone(), mailbox.clone())),
            counters,
            log,
        );
        let mut simulation = Self {
            host,
            script,
            worker: worker.unwrap(),
            mailbox,
            lines,
            now: begun,
            begun,
            clients: Vec::new(),
            servers: Vec::new(),
            dialled,
            served,
            batch: None,
            may_have_dialled: false,
            is_rough: script.connections_max < 1000,
            has_server_fault: false,
            failures_before: 0,
            is_draining: false,
            turns: 0,
            room: Vec::new(),
        };
        simulation.failures_before = simulation.failures();
        let assignment = simulation.assignment(0);
        simulation.worker.apply_plan(assignment);
        simulation
    }

    /// Returns how often dials of existing servers have failed in this schedule.
    pub(super) fn failures(&self) -> u64 {
        let host = self.host;
        let good =
            |(server, at): (usize, &usize)| (SERVERS[*at] != ServerKind::Nobody).then_some(server);
        let of_service = |service: &usize| -> u64 {
            let servers = SERVICES[*service].servers.iter().enumerate();
            let each = servers.filter_map(good).map(|server| {
                let counters = host.counters[0][*service].server(server);
                FAILURES.map(|row| counters.get(row)).iter().sum::<u64>()
            });
            each.sum()
        };
        // An address that another has overtaken counts as failed, though its server exists.
        let served = self.served.iter();
        let all: u64 = served.filter(|at| !SERVICES[**at].is_raced).map(of_service).sum();
        all - self.failures_before
    }

    /// Returns a schedule's services, in order: those that share an address come together.
    fn served(script: &Script) -> Vec<usize> {
        let parts = script.clients.iter();
        let mut served: Vec<usize> = parts.map(|part| part.service).collect();
        if served.iter().any(|at| SERVICES[*at].shared_name.is_some()) {
            served.extend([0, 1]);
        }
        served.sort_unstable();
        served.dedup();
        served
    }

    /// Returns the servers of these services.
    fn dialled(served: &[usize]) -> Vec<usize> {
        let servers = served.iter().flat_map(|at| SERVICES[*at].servers);
        let mut dialled: Vec<usize> = servers.copied().collect();
        dialled.sort_unstable();
        dialled.dedup();
        dialled
    }

    /// Empties the queues, because what is left in them does not belong to the next schedule.
    pub(super) fn clear(host: &SimulatedHost, script: &Script) {
        CONNECTS_LATER.set(false);
        IS_COLD.set(false);
        while host.file_threads.perform_next() {}
        let served = Self::served(script);
        for at in &served {
            while socket::accept(&host.fronts[*at].0).is_ok() {}
        }
        for at in Self::dialled(&served) {
            let listener = host.servers[at].0.as_ref();
            while listener.is_some_and(|listener| socket::accept(listener).is_ok()) {}
        }
    }

    fn assignment(&self, number: usize) -> Assignment {
        let plan = &self.host.plans[number];
        let place = |service: usize| self.served.iter().position(|one| *one == service).unwrap();
        let shared = self.served.contains(&0);
        let listener = |service: usize| BoundListener {
            services: match SERVICES[service].shared_name {
                Some(_) => vec![0, 1],
                None => vec![place(service)],
            },
            address: self.host.fronts[service].1.clone(),
            fd: self.host.fronts[service].0.try_clone().unwrap(),
            is_shared: false,
        };
        let shared = plan.shared.iter().filter(|_| shared).map(Arc::clone);
        Assignment {
            services: self.served.iter().map(|at| Arc::clone(&plan.services[*at])).collect(),
            counters: self
                .served
                .iter()
                .map(|at| Arc::clone(&self.host.counters[number][*at]))
                .collect(),
            shared: shared.collect(),
            listeners: self.served.iter().filter(|at| **at != 1).map(|at| listener(*at)).collect(),
            limits: limits(self.script.connections_max),
            log: plan.log,
            descriptors: plan.descriptors,
        }
    }

    fn client(&mut self, number: usize) -> Option<&mut SimulatedClient> {
        let mut clients = self.clients.iter_mut();
        let found = clients.find(|(one, _)| *one == number).map(|(_, client)| client);
        found.filter(|client| client.end.is_open() && !client.is_dumb)
    }

    fn server(&mut self, number: usize) -> Option<&mut SimulatedServer> {
        self.accept();
        let found = self.servers.get_mut(number);
        found.filter(|server| server.end.is_open() && !server.is_dumb)
    }

    fn connect(&mut self, number: usize) {
        let part = self.script.clients[number];
        let address = &self.host.fronts[part.service].1;
        let Ok((fd, _)) = connect_as(BindSource::Any, address, false) else {
            return;
        };
        let tag = SimulatedClient::tag(number);
        let tls = usize::from(part.is_tls13);
        let mut client = SimulatedClient::new(self.host, (part.service, tag), fd, part.bytes, tls);
        client.ends_first = part.ends_first;
        // No request is answered where servers speak TLS too.
        client.is_odd = part.is_odd && SERVICES[part.service].servers != [6];
        self.clients.push((number, client));
    }

    /// Makes servers accept their new connections.
    fn accept(&mut self) -> bool {
        let mut has_new = false;
        if Self::holds_dials() || !std::mem::take(&mut self.may_have_dialled) {
            return false;
        }
        for at in &self.dialled {
            let Some(listener) = &self.host.servers[*at].0 else {
                continue;
            };
            while let Ok((fd, _)) = socket::accept(listener) {
                let number = self.servers.len();
                let mut server = SimulatedServer::new(self.host, (*at, SERVERS[*at]), number, fd);
                (server.total, server.ends_first) = self.script.replies[number % 4];
                self.servers.push(server);
                has_new = true;
            }
        }
        has_new
    }

    fn execute(&mut self, step: ScriptStep) {
        use ScriptStep as Step;
        let host = self.host;
        let mut room = std::mem::take(&mut self.room);
        match step {
            Step::ClientConnects(number) => self.connect(number),
            Step::EventsAreTaken(order) => self.take_events(order),
            Step::Turn => self.turn(),
            Step::DialsAreHeld(is_held) => {
                HELD_DIALS.with_borrow_mut(|held| held.is_holding = is_held);
                self.pass(Duration::ZERO);
            }
            Step::TimePasses(time) => self.pass(time),
            Step::TimerIsDue => {
                if let Some(time) = self.worker.wait_limit(self.now) {
                    self.pass(time);
                }
            }
            Step::DeadlineIsDue(number, more) => {
                let ids = self.worker.connections.ids();
                let found = ids.get(number).and_then(|id| self.worker.connections.find(*id));
                if let Some(deadline) = found.and_then(|one| one.deadline()) {
                    let time = deadline.saturating_duration_since(self.now);
                    self.pass(time + Duration::from_micros(more));
                }
            }
            Step::Drain(_)
            | Step::Reload(_)
            | Step::ServerIsChecked(..)
            | Step::Accepts(_)
            | Step::AnswerComesTwice => self.command(step),
            Step::FetchesAreAnswered => host.answer_fetches(),
            Step::FileIsThere => _ = host.file_threads.perform_next(),
            Step::Client(number, step) => {
                if let Some(client) = self.client(number) {
                    of_client(client, step, host, &mut room);
                    self.is_rough |= self.clients.iter().any(|(_, one)| one.is_faulty);
                }
            }
            Step::Server(number, step) => {
                if let Some(server) = self.server(number) {
                    of_server(server, step, host, &mut room);
                    let is_faulty = self.servers.iter().any(|one| one.is_faulty);
                    self.has_server_fault |= is_faulty;
                    self.is_rough |= is_faulty;
                }
            }
        }
        self.room = room;
    }

    /// Performs a command of the control thread.
    fn command(&mut self, step: ScriptStep) {
        use ScriptStep as Step;
        match step {
            Step::Drain(time) => {
                (self.is_draining, self.is_rough) = (true, true);
                self.mailbox.send(Command::Drain(self.now + time));
            }
            Step::Reload(plan) => {
                if !self.is_draining {
                    let assignment = Box::new(self.assignment(plan));
                    self.mailbox.send(Command::Replace(assignment, channel().0));
                }
            }
            Step::ServerIsChecked(..)
                if SERVICES[self.served[0]].is_files || SERVICES[self.served[0]].is_raced => {}
            Step::ServerIsChecked(server, up) => {
                (self.is_rough, self.has_server_fault) = (true, true);
                let service = self.served[0];
                let servers = SERVICES[service].servers;
                let server = server % servers.len();
                let address = &self.host.servers[servers[server]].1;
                let down = if up { Vec::new() } else { vec![address.clone()] };
                self.mailbox.send(Command::Server {
                    service: SERVICES[service].name.into(),
                    server,
                    news: ServerNews::Checked(down.into()),
                });
            }
            Step::Accepts(accepts) => self.mailbox.send(Command::Accept(accepts, channel().0)),
            Step::AnswerComesTwice => {
                for id in self.worker.connections.ids() {
                    self.mailbox.send(Command::SessionFetched {
                        token: EventSource::Back(id).token(),
                        tier: SessionTier::Nowhere,
                    });
                }
            }
            _ => unreachable!("no other step is a command"),
        }
    }

    fn holds_dials() -> bool {
        HELD_DIALS.with_borrow(|held| held.is_holding)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let is_long = self.now > self.begun + Duration::from_millis(900);
        self.is_rough |= is_long;
        let is_tls = self
            .dialled
            .iter()
            .any(|at| matches!(SERVERS[*at], ServerKind::Tls | ServerKind::SmtpTls));
        // Servers that have not answered by now are late.
        self.has_server_fault |= is_long && (Self::holds_dials() || is_tls);
    }

    /// Takes what the kernel reports, except answers to dials that are still on their way.
    fn take_events(&mut self, order: usize) {
        if self.batch.is_some() {
            return;
        }
        self.worker.wait_limit(self.now);
        let mut batch = Vec::new();
        self.worker.take_events(Some(Duration::ZERO), &mut batch).unwrap();
        let mut chance = Chance::new(order as u64);
        for at in (1..batch.len()).rev() {
            batch.swap(at, chance.below(at + 1));
        }
        self.batch = Some(batch);
    }

    fn turn(&mut self) {
        self.take_events(0);
        let mut batch = self.batch.take().unwrap_or_default();
        clock::simulated::set(self.now);
        self.worker.now = self.now;
        if self.script.ignores_stalls {
            self.worker.turn_due = None;
        }
        self.worker.turn(&mut batch).unwrap();
        self.now = self.now.max(clock::simulated::now().unwrap_or(self.now));
        self.turns += 1;
        self.may_have_dialled = true;
        assert!(self.turns < TURNS_MAX, "it never comes to an end");
        assert!(self.worker.pool.in_use() <= 64, "a connection holds many buffers");
    }

    /// Lets all peers that are not dumb act; returns whether anything moved.
    fn act(&mut self) -> bool {
        let mut moved = self.accept();
        if !self.script.never_answers {
            self.host.answer_fetches();
            while self.host.file_threads.perform_next() {
                moved = true;
            }
        }
        let mut room = std::mem::take(&mut self.room);
        for (_, client) in &mut self.clients {
            if client.is_dumb || !client.end.is_open() {
                continue;
            }
            client.say(usize::MAX);
            moved |= client.end.write(usize::MAX) > 0;
            moved |= client.read(self.host, usize::MAX, &mut room) > 0;
            let is_over = client.end.is_ended || client.is_closed_by_server();
            let is_first = client.ends_first && client.said == client.total;
            let is_ready = client.was_established || !client.is_tls();
            if is_over || is_first && is_ready {
                moved |= client.finish();
            }
            if client.end.is_reset || client.end.is_ended && client.end.has_shut {
                client.end.close();
                moved = true;
            }
        }
        for server in &mut self.servers {
            if server.is_dumb || !server.end.is_open() {
                continue;
            }
            moved |= server.read(self.host, usize::MAX, &mut room) > 0;
            server.say(usize::MAX);
            moved |= server.end.write(usize::MAX) > 0;
            let is_asked = server.end.is_ended || server.is_closed_by_client;
            let is_done = server.said == server.total && server.may_say();
            if is_done && (server.ends_first || is_asked) || server.end.is_ended {
                moved |= server.finish();
            }
            if server.end.is_reset || server.end.is_ended && server.end.has_shut {
                server.end.close();
                moved = true;
            }
        }
        self.room = room;
        moved
    }

    /// Lets everybody act until nothing more happens before that time.
    fn settle(&mut self, until: Instant) {
        let mut idle = 0;
        loop {
            let moved = self.act();
            self.take_events(0);
            let has_events = self.batch.as_ref().is_some_and(|batch| !batch.is_empty());
            let is_busy = !self.worker.schedule.is_empty();
            if moved || has_events || is_busy {
                idle = 0;
                self.turn();
                continue;
            }
            let wait = self.worker.wait_limit(self.now);
            let Some(wait) = wait.filter(|_| !self.worker.is_drained()) else {
                return;
            };
            idle = if wait.is_zero() { idle + 1 } else { 0 };
            assert!(idle < IDLE_TURNS_MAX, "a busy loop: {:?}", self.worker.timers.next(self.now));
            if self.now + wait > until {
                return;
            }
            self.now += wait;
            self.turn();
        }
    }

    /// Performs all steps of the schedule, and then what follows until nothing moves.
    pub(super) fn follow(&mut self) {
        for step in &self.script.steps {
            self.execute(*step);
        }
        HELD_DIALS.with_borrow_mut(|held| held.is_holding = false);
        self.mailbox.send(Command::Accept(true, channel().0));
        if self.batch.is_some() {
            self.turn();
        }
        self.settle(self.begun + Duration::from_secs(2).max(self.now - self.begun));
    }

    /// Lets time pass until all connections have ended.
    pub(super) fn end(&mut self) {
        for _ in 0..100 {
            if self.worker.connections.is_empty() {
                break;
            }
            let wait = self.worker.wait_limit(self.now);
            let wait = wait.expect("a connection is left that no timer ends");
            self.settle(self.now + wait + Duration::from_secs(60));
        }
    }
}
