//! Connects a client's connection to its server: choose, connect, and on failure choose again.
//!
//! Handles the retries, which all happen before the first byte is sent, and the counting of dials.
//! `backend` chooses servers, and `flow` keeps time limits.

use std::io;
use std::time::{Duration, Instant};

use backend::affinity::key_of;
use backend::pool::{Choice, ChosenServer, PickRequest};
use backend::server::TriedServers;
use flow::connection::Flow;
use flow::facts::{ConnectionEnd, ConnectionFacts};
use telemetry::catalogue::{Histogram, ServerCounter, ServiceCounter, ServiceGauge};
use telemetry::outcome::Reason;

use crate::attempt::{ATTEMPT_DELAY, Attempt, FailureCause, Rivals, judge, overtaken};
use crate::clock;
use crate::driver::{Driver, EventSource, Socket};
use crate::places::{Caller, Calls, Chosen, QueueTurn, ServerSlot};
use crate::service::{Affinity, Service, affinity_of};

/// First pause before busy servers are dialled again; doubled each time, up to `PAUSE_MAX`.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(800);

/// Largest number of addresses to which one client's bytes go when every server gets them: more
/// than the databases behind one name, and too few for one client's request to be a flood.
const BROADCAST_MAX: usize = 64;

/// The dials of one connection.
#[derive(Default)]
pub(crate) struct Dial {
    tried: TriedServers,
    /// Addresses that were tried, and those that are only busy; the busy ones are dialled again
    /// after a pause.
    passed_over: TriedServers,
    pause: Option<Pause>,
    /// Turn in the queue of servers that are full. Boxed, because few connections have one.
    waiting: Option<Box<QueueTurn>>,
    is_called: bool,
    attempt: Option<Attempt>,
    is_answered: bool,
    /// Server at which a dial was under way when its sessions were ended.
    called_off: Option<usize>,
    rivals: Rivals,
    last_failure: Option<ConnectionEnd>,
    last_server: Option<usize>,
    dials: u32,
    /// Addresses still to be dialled, where bytes go to every server: as they were when the first
    /// was chosen, because the pool's change meanwhile. Boxed, because few connections have any.
    broadcast: Option<Box<std::vec::IntoIter<ChosenServer>>>,
    affinity: Affinity,
}

/// Outcome of starting a rival dial.
#[derive(Debug, Eq, PartialEq)]
enum RivalStart {
    Begun,
    Failed,
    /// The server has reached its connection limit.
    ServerFull,
    /// Few descriptors are left.
    NoDescriptor,
}

#[derive(Clone, Copy)]
struct Pause {
    length: Duration,
    /// Set if no other server is left: time at which these are dialled again.
    until: Option<Instant>,
}

pub(crate) enum Dialled {
    Connected(Socket),
    UnderWay(Socket),
    /// All remaining servers are busy or full: [`Dial::retries_at`] returns when to start again.
    Later,
    /// No server is left to try.
    Exhausted(ConnectionEnd),
}

impl Dial {
    /// Reports whether an answer is awaited.
    pub(crate) fn is_under_way(&self) -> bool {
        self.attempt.is_some() && !self.is_answered
    }

    /// Returns when the dial under way, or the one that succeeded, began.
    pub(crate) fn started(&self) -> Option<Instant> {
        self.attempt.as_ref().map(|attempt| attempt.started)
    }

    /// Returns the index in the options of the server that was dialled last.
    pub(crate) fn server(&self) -> Option<usize> {
        let now = self.attempt.as_ref().map(|attempt| attempt.picked.server);
        now.or(self.last_server)
    }

    /// Returns the server that is connected.
    pub(crate) fn server_connected(&self) -> Option<usize> {
        let connected = self.attempt.as_ref().filter(|_| self.is_answered);
        connected.map(|attempt| attempt.picked.server)
    }

    /// Reports whether the server that is being dialled is on a Unix socket.
    pub(crate) fn is_local(&self) -> bool {
        self.attempt.as_ref().is_some_and(Attempt::is_local)
    }

    pub(crate) fn retries(&self) -> u32 {
        self.dials.saturating_sub(1)
    }

    /// Returns when servers that are busy or full are dialled again.
    pub(crate) fn retries_at(&self) -> Option<Instant> {
        let waiting = self.waiting.as_ref().map(|one| one.look_at);
        waiting.or_else(|| self.pause?.until)
    }

    /// Reports whether it is time to dial again, or a place at a server is reserved.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.is_called || self.retries_at().is_some_and(|at| at <= now)
    }

    /// Notes that a place at a server is reserved for the connection.
    pub(crate) fn call(&mut self) {
        self.is_called = self.waiting.is_some();
    }

    /// Chooses and dials servers until a dial does not fail at once.
    pub(crate) fn start(
        &mut self,
        service: &Service,
        driver: &Driver,
        calls: &Calls,
        token: u64,
        flow: &Flow,
    ) -> Dialled {
        if let Some((attempt, socket)) = self.rivals.promote(false) {
            return self.promoted(attempt, socket);
        }
        self.rivals.race_at(None);
        let facts = flow.facts();
        let key = key_of(facts.route.source.map(|source| source.ip()));
        self.is_called = false;
        if self.dials == 0 {
            self.affinity = affinity_of(service, facts);
        }
        if let Some(pause) = &mut self.pause {
            pause.until = None;
        }
        loop {
            let now = clock::now();
            let request =
                PickRequest { now, key, home: self.affinity.home(), tried: self.passed_over };
            let chosen = if flow.is_broadcast() {
                self.choose_next(service)
            } else {
                self.choose(service, &request, calls, token)
            };
            let (picked, place) = match chosen {
                Chosen::Picked(picked, place) => (picked, place),
                Chosen::Waits => return self.wait(service, now),
                Chosen::QueueFull(servers) => {
                    return Dialled::Exhausted(service.queue_full(servers));
                }
                Chosen::Nothing => {
                    self.leave_queue(service);
                    return self.exhausted(service, now);
                }
            };
            if let Some(waiting) = self.leave_queue(service) {
                let waited = now.saturating_duration_since(waiting.since);
                service.counters.observe(Histogram::QueueWait, waited);
            }
            let connecting = Attempt::connect(&picked, service, driver, flow, token);
            let has_others = picked.has_others;
            self.attempt(service, picked, place, now);
            match connecting {
                Ok((socket, is_connected)) => {
                    self.try_ejected(service, driver, flow, token, now);
                    if is_connected {
                        return Dialled::Connected(socket);
                    }
                    self.rivals.race_at(has_others.then(|| now + ATTEMPT_DELAY));
                    return Dialled::UnderWay(socket);
                }
                Err(error) => {
                    if let Err(ending) = self.failed(service, &error, now) {
                        return Dialled::Exhausted(ending);
                    }
                }
            }
        }
    }

    fn choose(
        &mut self,
        service: &Service,
        request: &PickRequest,
        calls: &Calls,
        token: u64,
    ) -> Chosen {
        let mut pool = service.pool.borrow_mut();
        if !service.plan.is_limited {
            return match pool.pick(request, |_| true) {
                Choice::Picked(picked) => Chosen::Picked(picked, None),
                Choice::Full(_) | Choice::Nothing => Chosen::Nothing,
            };
        }
        let caller = Caller { calls: calls.clone(), token };
        let was_waiting = self.waiting.is_some();
        let queue = &service.plan.pool.queue;
        let places = service.plan.places();
        let chosen = places.choose(&mut pool, request, &mut self.waiting, queue, caller);
        if self.waiting.is_some() && !was_waiting {
            service.counters.raise(ServiceGauge::Queued);
        }
        chosen
    }

    /// Returns the next address not yet dialled: also of servers that are disabled, down or full,
    /// because they may hold older connections that the client's bytes are about.
    fn choose_next(&mut self, service: &Service) -> Chosen {
        self.pause = None;
        let connected = self.attempt.as_ref().map(|one| &one.picked);
        let broadcast = self.broadcast.get_or_insert_with(|| {
            // The connected one, of the servers dialled before, already has the bytes.
            let is_other = |one: &ChosenServer| {
                connected.is_none_or(|had| (had.server, &had.address) != (one.server, &one.address))
            };
            let pool = service.pool.borrow();
            let all = pool.all_addresses().take(BROADCAST_MAX);
            Box::new(all.filter(is_other).collect::<Vec<_>>().into_iter())
        });
        let next = broadcast.next();
        next.map_or(Chosen::Nothing, |picked| Chosen::Picked(picked, None))
    }

    fn attempt(
        &mut self,
        service: &Service,
        picked: ChosenServer,
        place: Option<ServerSlot>,
        now: Instant,
    ) {
        self.dials += 1;
        if self.last_failure.is_some() {
            service.counters.count(ServiceCounter::DialRetries);
        }
        self.is_answered = false;
        self.called_off = None;
        self.attempt = Some(Attempt::begin(service, picked, place, now));
    }

    /// Dials an address whose trial is due beside the one that was chosen.
    fn try_ejected(
        &mut self,
        service: &Service,
        driver: &Driver,
        flow: &Flow,
        token: u64,
        now: Instant,
    ) {
        if !self.rivals.has_room() || flow.is_broadcast() {
            return;
        }
        let Some(picked) = service.pool.borrow_mut().trial(now, &self.tried) else {
            return;
        };
        self.add_rival(service, driver, flow, token, (picked, true), now);
    }

    /// Dials a further address, if its server has room and enough descriptors are left.
    fn add_rival(
        &mut self,
        service: &Service,
        driver: &Driver,
        flow: &Flow,
        token: u64,
        (picked, is_trial): (ChosenServer, bool),
        now: Instant,
    ) -> RivalStart {
        let EventSource::Back(id) = EventSource::of(token) else {
            return RivalStart::Failed;
        };
        let place = picked.limit.map(|limit| service.plan.places().take(limit));
        if place.as_ref().is_some_and(Option::is_none) {
            return RivalStart::ServerFull;
        }
        let place = place.flatten();
        let token = EventSource::Rival(id).token();
        let connecting = Attempt::connect(&picked, service, driver, flow, token);
        // A fault of the host is no address's fault: other addresses are not passed over for it.
        if let Err(error) = &connecting
            && matches!(judge(error, false).0, FailureCause::Host)
        {
            return RivalStart::NoDescriptor;
        }
        if let Ok((socket, _)) = &connecting {
            let may_keep = if is_trial {
                driver.has_descriptor_to_try(socket)
            } else {
                driver.has_descriptor_to_race(socket)
            };
            if !may_keep {
                return RivalStart::NoDescriptor;
            }
        }
        self.tried.insert(picked.place);
        self.passed_over.insert(picked.place);
        let attempt = Attempt::begin(service, picked, place, now);
        match connecting {
            Ok((socket, _)) => {
                self.rivals.add(attempt, socket, is_trial);
                RivalStart::Begun
            }
            Err(error) => {
                let (cause, reason) = judge(&error, attempt.is_local());
                attempt.failed(service, cause, reason, now);
                RivalStart::Failed
            }
        }
    }

    /// Notes an event of a rival dial.
    pub(crate) fn note_rivals(&mut self) {
        self.rivals.note();
    }

    pub(crate) fn race_due(&self, service: &Service) -> Option<Instant> {
        self.rivals.due(service.settings.timeouts.dial)
    }

    /// Checks the rival dials, and begins another if it is time. Returns the socket of a rival that
    /// was answered first: the dial before it is over.
    pub(crate) fn race(
        &mut self,
        service: &Service,
        driver: &Driver,
        token: u64,
        flow: &Flow,
        now: Instant,
    ) -> Option<Socket> {
        // A new dial may be answered at once.
        while self.rivals.is_due(service.settings.timeouts.dial, now) {
            while let Some((attempt, socket)) = self.rivals.answered(service, now) {
                if !self.is_under_way() {
                    self.forget(&[attempt.picked.place]);
                    attempt.accepted_in_vain(service, now);
                    continue;
                }
                if let Some(before) = self.attempt.replace(attempt) {
                    let started = self.started().unwrap_or(now);
                    overtaken(before, service, started, now);
                }
                return Some(socket);
            }
            if self.rivals.is_next_due(now) {
                self.dial_other(service, driver, token, flow, now);
            }
        }
        None
    }

    /// Dials the next address of the server that is waited for.
    fn dial_other(
        &mut self,
        service: &Service,
        driver: &Driver,
        token: u64,
        flow: &Flow,
        now: Instant,
    ) {
        self.rivals.race_at(None);
        let Some(attempt) = self.attempt.as_ref().filter(|_| self.is_under_way()) else {
            return;
        };
        let mut tried = self.tried;
        tried.insert(attempt.picked.place);
        let next = service.pool.borrow().other_address(attempt.picked.server, &tried);
        if let Some(picked) = next {
            let started = self.add_rival(service, driver, flow, token, (picked, false), now);
            self.rivals.race_at(match started {
                // A full server is not noted, and the next address would be the same.
                RivalStart::Begun | RivalStart::ServerFull => Some(now + ATTEMPT_DELAY),
                RivalStart::Failed => Some(now),
                // The dial that is waited for has to suffice.
                RivalStart::NoDescriptor => None,
            });
        }
    }

    /// Waits for a rival dial from now on.
    fn promoted(&mut self, attempt: Attempt, socket: Socket) -> Dialled {
        self.is_answered = false;
        self.attempt = Some(attempt);
        self.rivals.note();
        Dialled::UnderWay(socket)
    }

    /// Waits in the queue, because all servers are full, as long as the queue's timeout allows.
    fn wait(&mut self, service: &Service, now: Instant) -> Dialled {
        if self.waiting.as_ref().is_some_and(|one| one.until > now) {
            return Dialled::Later;
        }
        self.leave_queue(service);
        let waited = service.plan.pool.queue.timeout;
        let detail = format!("no server had room within {waited:?} (`back.queue.timeout`)");
        Dialled::Exhausted(ConnectionEnd::with(Reason::ServerQueueTimeout, detail))
    }

    fn leave_queue(&mut self, service: &Service) -> Option<Box<QueueTurn>> {
        let waiting = self.waiting.take();
        // A wake-up that has come is for a place that goes to another connection now.
        self.is_called = false;
        if waiting.is_some() {
            service.counters.lower(ServiceGauge::Queued);
        }
        waiting
    }

    /// Handles that no other server is left: busy servers may have room in a moment.
    fn exhausted(&mut self, service: &Service, now: Instant) -> Dialled {
        if let Some((attempt, socket)) = self.rivals.promote(true) {
            return self.promoted(attempt, socket);
        }
        let Some(pause) = &mut self.pause else {
            let last = self.last_failure.take();
            return Dialled::Exhausted(last.unwrap_or_else(|| service.none_available()));
        };
        pause.until = Some(now + pause.length);
        pause.length = (pause.length * 2).min(PAUSE_MAX);
        self.passed_over = self.tried;
        Dialled::Later
    }

    /// Notes that the sessions of the server being dialled end: this connection goes elsewhere.
    pub(crate) fn call_off(&mut self) {
        self.called_off = self.server().filter(|_| self.is_under_way());
    }

    /// Gives up a dial that has been answered and was called off before; returns whether it was.
    pub(crate) fn is_called_off(&mut self, service: &Service) -> bool {
        let is_it = |one: &mut Attempt| self.called_off == Some(one.picked.server);
        let Some(mut attempt) = self.attempt.take_if(is_it) else {
            return false;
        };
        attempt.release(service);
        self.passed_over.insert(attempt.picked.place);
        self.tried.insert(attempt.picked.place);
        self.last_server = self.called_off.take();
        self.last_failure = Some(ConnectionEnd::new(Reason::ServerDisabled));
        true
    }

    /// Handles that the server has accepted the connection; its TLS handshake may follow.
    pub(crate) fn connected(&mut self, service: &Service, now: Instant) {
        self.is_answered = true;
        if let Some(attempt) = &self.attempt {
            let unharmed = self.rivals.settle(service, attempt.started, now);
            self.forget(&unharmed);
        }
    }

    /// Makes addresses that have not failed available to later dials.
    fn forget(&mut self, places: &[backend::server::ServerSlot]) {
        self.tried.remove(places);
        self.passed_over.remove(places);
    }

    /// Handles that the server is ready: from now on the client's bytes are relayed.
    pub(crate) fn succeeded(&self, service: &Service, now: Instant) {
        let Some(attempt) = &self.attempt else {
            return;
        };
        attempt.succeeded(service, now);
        let took = now.saturating_duration_since(attempt.started);
        service.counters.observe(Histogram::Dial, took);
        let id = service.pool.borrow().id(attempt.picked.server);
        let counter = match self.affinity {
            Affinity::None => return,
            Affinity::Unknown => ServiceCounter::AffinityUnknown,
            Affinity::Home(home) if id == Some(home) => ServiceCounter::AffinityKept,
            Affinity::Home(_) => ServiceCounter::AffinityMoved,
        };
        service.counters.count(counter);
    }

    /// Remembers the server that the client's session belongs to.
    pub(crate) fn learn_session(&self, service: &Service, facts: &ConnectionFacts) {
        let session = facts.passing_session.as_ref().and_then(|one| one.agreed);
        let server = self.attempt.as_ref().map(|one| one.picked.server);
        let server = server.and_then(|server| service.pool.borrow().id(server));
        if let (Some(sessions), Some(id), Some(server)) =
            (&service.settings.passing_sessions, session, server)
        {
            sessions.learn(id.as_bytes(), server.bits());
        }
    }

    /// Handles a failed dial.
    ///
    /// # Errors
    /// Returns how the connection ends, if no other server would do better.
    pub(crate) fn failed(
        &mut self,
        service: &Service,
        error: &io::Error,
        now: Instant,
    ) -> Result<(), ConnectionEnd> {
        let (cause, reason) = judge(error, self.is_local());
        let detail = self.detail(service, error);
        let ending = ConnectionEnd::with(reason, detail);
        self.gave_up(service, cause, ending.clone(), now);
        match cause {
            FailureCause::Host => Err(ending),
            FailureCause::Server | FailureCause::Busy | FailureCause::Way => Ok(()),
        }
    }

    /// Handles failed TLS with a connected server. If the client's name decides what servers have
    /// to prove (`is_of_client`), the failure says nothing about the server.
    ///
    /// # Errors
    /// Returns how the connection ends, if no other server would do better.
    pub(crate) fn tls_failed(
        &mut self,
        service: &Service,
        ending: ConnectionEnd,
        is_of_client: bool,
        now: Instant,
    ) -> Result<(), ConnectionEnd> {
        let cause = match ending.reason {
            _ if is_of_client => FailureCause::Host,
            Reason::NoCommonParameters | Reason::CrlExpired | Reason::Internal => {
                FailureCause::Host
            }
            _ => FailureCause::Server,
        };
        self.gave_up(service, cause, ending.clone(), now);
        if cause == FailureCause::Host {
            return Err(ending);
        }
        Ok(())
    }

    /// Handles that the dial took too long. If the wait was for a busy server, the connection ends.
    pub(crate) fn timed_out(&mut self, service: &Service, now: Instant) -> Option<ConnectionEnd> {
        if self.waiting.is_some() {
            // The queue has a limit of its own.
            return None;
        }
        if self.retries_at().is_some() {
            self.pause = None;
            return self.last_failure.take();
        }
        let words = format!("no answer within {:?}", service.settings.timeouts.dial);
        let ending = ConnectionEnd::with(Reason::BackendTimeout, self.detail(service, &words));
        self.gave_up(service, FailureCause::Server, ending, now);
        None
    }

    fn detail(&self, service: &Service, words: &dyn std::fmt::Display) -> String {
        let attempt = self.attempt.as_ref();
        attempt.map_or_else(|| words.to_string(), |one| one.detail(service, words))
    }

    fn gave_up(
        &mut self,
        service: &Service,
        cause: FailureCause,
        ending: ConnectionEnd,
        now: Instant,
    ) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        let (server, place) = (attempt.picked.server, attempt.picked.place);
        attempt.failed(service, cause, ending.reason, now);
        self.passed_over.insert(place);
        match cause {
            FailureCause::Server | FailureCause::Way => self.tried.insert(place),
            FailureCause::Busy => {
                let first = Pause { length: PAUSE, until: None };
                self.pause.get_or_insert(first);
            }
            FailureCause::Host => {}
        }
        self.last_server = Some(server);
        self.last_failure = Some(ending);
    }

    /// Releases everything, because the server's connection is closed.
    pub(crate) fn closed(&mut self, service: &Service) {
        self.pause = None;
        self.leave_queue(service);
        self.rivals.release(service);
        if let Some(attempt) = &mut self.attempt {
            attempt.release(service);
        }
    }

    /// Counts bytes for the server that is connected.
    pub(crate) fn count_bytes(&self, service: &Service, up: u64, down: u64) {
        if let Some(attempt) = self.attempt.as_ref().filter(|_| self.is_answered) {
            let server = attempt.picked.server;
            service.counters.server(server).add(ServerCounter::BytesUp, up);
            service.counters.server(server).add(ServerCounter::BytesDown, down);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use std::net::{SocketAddr, TcpListener};
    use std::rc::Rc;

    use flow::facts::Route;
    use sys::epoll::Waker;

    use crate::descriptors::Descriptors;
    use crate::driver::{CONNECTS_LATER, ConnectionId};
    use crate::options::{ProcessLimits, SourceLimits};
    use crate::tests::{Fixture, SERVER_CONNECTIONS_MAX};

    fn service(server: &str) -> Rc<Service> {
        let limits = ProcessLimits { connections: 9, handshakes: 9, per_source: SourceLimits::OFF };
        Fixture::new(server, limits).service()
    }

    fn set_addresses(service: &Service, addresses: &[SocketAddr]) {
        let target = addresses.to_vec().into();
        service.pool.borrow_mut().set_target(0, &target);
    }

    #[test]
    fn each_address_has_a_broadcast_once_though_the_name_changes_meanwhile() {
        let service = service("db.example:5432");
        let [a, b, c, d] = [1, 2, 3, 4].map(|last| SocketAddr::from(([127, 0, 0, last], 5432)));
        set_addresses(&service, &[a, b, c]);
        let mut dial = Dial::default();
        let mut dialled = Vec::new();
        while let Chosen::Picked(picked, _) = dial.choose_next(&service) {
            dialled.push(picked.address);
            set_addresses(&service, &[b, c, d, a]);
        }
        assert_eq!(dialled, [a, b, c].map(wire::address::Address::Ip));
    }

    /// A second address is dialled only with a descriptor of the lower half.
    #[test]
    fn dials_race_only_while_many_descriptors_are_left() {
        CONNECTS_LATER.set(true);
        for (descriptors, races) in
            [(Descriptors::default(), true), (Descriptors::without_extra(), false)]
        {
            let service = service("app.example:80");
            let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
            set_addresses(&service, &listeners.each_ref().map(|one| one.local_addr().unwrap()));
            let mut driver = Driver::new().unwrap();
            driver.descriptors = descriptors;
            let (calls, _called) = Calls::new(&Arc::new(Waker::new().unwrap()));
            let token = EventSource::Back(ConnectionId::of(1)).token();
            let route = Route { source: None, destination: None };
            let facts = ConnectionFacts::new(1, route, clock::now());
            let flow = Flow::new(Rc::clone(&service.settings), false, facts);
            let mut dial = Dial::default();
            let started = dial.start(&service, &driver, &calls, token, &flow);
            assert!(matches!(started, Dialled::UnderWay(_)));
            let later = clock::now() + ATTEMPT_DELAY;
            assert!(dial.race_due(&service).is_some_and(|due| due <= later));
            // The other address accepts at once, if it is dialled.
            let won = dial.race(&service, &driver, token, &flow, later);
            assert_eq!((won.is_some(), dial.retries() + 1), (races, 1));
            assert!(races || dial.race_due(&service).is_none());
            dial.closed(&service);
        }
        CONNECTS_LATER.set(false);
    }

    #[test]
    fn a_call_that_comes_late_makes_no_dial() {
        let service = service("127.0.0.1:9");
        let (calls, called) = Calls::new(&Arc::new(Waker::new().unwrap()));
        let now = Instant::now();
        let request = PickRequest { now, key: 0, home: None, tried: TriedServers::new() };
        let choose = |dial: &mut Dial| dial.choose(&service, &request, &calls, 7);
        let mut places: Vec<_> =
            (0..SERVER_CONNECTIONS_MAX).map(|_| choose(&mut Dial::default())).collect();
        let mut dial = Dial::default();
        assert!(matches!(choose(&mut dial), Chosen::Waits));
        assert!(matches!(choose(&mut Dial::default()), Chosen::QueueFull(1)));
        places.pop();
        assert_eq!(called.try_recv(), Ok(7));
        dial.call();
        assert!(dial.is_due(now));
        // The client has left.
        dial.closed(&service);
        assert!(!dial.is_due(now + Duration::from_secs(3600)));
        assert!(matches!(choose(&mut Dial::default()), Chosen::Picked(..)));
    }
}
