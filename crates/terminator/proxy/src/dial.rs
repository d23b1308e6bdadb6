//! How a connection comes to its server: choose, connect, and on failure choose again.
//!
//! Owns the retries, which all happen before the first byte is sent, and the counting of dials.
//! Choice is `backend`'s, time limits are `flow`'s.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use backend::affinity::key_of;
use backend::pool::{Choice, Pick, Picked};
use backend::server::ServerId;
use backend::tried::Tried;
use flow::connection::Flow;
use flow::facts::{Ending, Facts};
use sys::socket::Source;
use telemetry::catalogue::{Histogram, ServerCounter, ServerGauge, ServiceCounter, ServiceGauge};
use telemetry::outcome::Reason;
use wire::address::Address;

use crate::driver::{Connect, Driver, Socket};
use crate::options::SourceAddress;
use crate::places::{Caller, Calls, Chosen, Place, Waiting};
use crate::service::Service;

/// How long to wait at first before busy servers are dialled again; each time twice as long, up to
/// [`PAUSE_MAX`], until the dial's own limit.
const PAUSE: Duration = Duration::from_millis(50);

const PAUSE_MAX: Duration = Duration::from_millis(800);

/// The dials of one connection.
#[derive(Default)]
pub(crate) struct Dial {
    tried: Tried,
    /// Those tried, and those that are only busy: these are dialled again after a pause.
    passed_over: Tried,
    pause: Option<Pause>,
    /// In the queue of servers that are full.
    waiting: Option<Waiting>,
    is_called: bool,
    attempt: Option<Attempt>,
    last_failure: Option<Ending>,
    last_server: Option<usize>,
    dials: u32,
    affinity: Affinity,
}

/// What is known of the session that a client offers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Affinity {
    /// Nothing is to be known.
    #[default]
    None,
    /// It offers one, and no server is known to have it.
    Unknown,
    /// This server has it.
    Home(ServerId),
}

/// Servers are busy.
#[derive(Clone, Copy)]
struct Pause {
    length: Duration,
    /// No other server is left, and then these are dialled again.
    until: Option<Instant>,
}

/// The dial under way, or the one that succeeded.
struct Attempt {
    picked: Picked,
    /// At a server with a limit.
    place: Option<Place>,
    started: Instant,
    is_answered: bool,
    is_released: bool,
}

/// How a dial began.
pub(crate) enum Dialled {
    /// It is already over.
    Connected(Socket),
    /// An event will tell.
    UnderWay(Socket),
    /// All that are left are busy or full: [`Dial::retries_at`] says when to start again.
    Later,
    /// No server is left to try.
    Exhausted(Ending),
}

/// What a failed dial speaks against.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Blame {
    /// The server.
    Server,
    /// Nobody: its queue is full, and will not be in a moment.
    Busy,
    /// The host, but only towards this server.
    Way,
    /// The host, towards all servers.
    Host,
}

impl Dial {
    /// Whether an answer is awaited.
    pub(crate) fn is_under_way(&self) -> bool {
        self.attempt
            .as_ref()
            .is_some_and(|attempt| !attempt.is_answered)
    }

    /// When the dial under way began, or the one that succeeded.
    pub(crate) fn started(&self) -> Option<Instant> {
        self.attempt.as_ref().map(|attempt| attempt.started)
    }

    /// The server that was dialled last, by its index in the options.
    pub(crate) fn server(&self) -> Option<usize> {
        let now = self.attempt.as_ref().map(|attempt| attempt.picked.server);
        now.or(self.last_server)
    }

    /// Whether the server that is being dialled is on a Unix socket.
    pub(crate) fn is_local(&self) -> bool {
        let attempt = self.attempt.as_ref();
        attempt.is_some_and(|attempt| matches!(attempt.picked.address, Address::Unix(_)))
    }

    /// Dials after the first.
    pub(crate) fn retries(&self) -> u32 {
        self.dials.saturating_sub(1)
    }

    /// When servers that are busy or full are to be dialled again.
    pub(crate) fn retries_at(&self) -> Option<Instant> {
        let waiting = self.waiting.as_ref().map(|one| one.look_at);
        waiting.or_else(|| self.pause?.until)
    }

    /// Whether it is time to dial again, or a place at a server is reserved for the connection.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.is_called || self.retries_at().is_some_and(|at| at <= now)
    }

    /// A place at a server is reserved for the connection.
    pub(crate) fn call(&mut self) {
        self.is_called = self.waiting.is_some();
    }

    /// Chooses and dials until one does not fail at once.
    pub(crate) fn start(
        &mut self,
        service: &Service,
        driver: &Driver,
        calls: &Calls,
        token: u64,
        flow: &Flow,
    ) -> Dialled {
        let facts = flow.facts();
        let key = key_of(facts.route.source.map(|source| source.ip()));
        self.is_called = false;
        if self.dials == 0 {
            self.affinity = affinity_of(service, facts, Instant::now());
        }
        if let Some(pause) = &mut self.pause {
            pause.until = None;
        }
        loop {
            let now = Instant::now();
            let request = Pick {
                now,
                key,
                home: match self.affinity {
                    Affinity::Home(server) => Some(server),
                    Affinity::None | Affinity::Unknown => None,
                },
                tried: self.passed_over,
            };
            let (picked, place) = match self.choose(service, &request, calls, token) {
                Chosen::Picked(picked, place) => (picked, place),
                Chosen::Waits => return self.wait(service, now),
                Chosen::QueueFull(servers) => {
                    return Dialled::Exhausted(queue_full(service, servers));
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
            let client = facts.route.source.map(|source| source.ip());
            let plan = &service.plan;
            let connecting = source_of(&plan.source, &picked.address, client).and_then(|source| {
                driver.connect(&Connect {
                    address: &picked.address,
                    source,
                    speaks_first: flow.speaks_first(),
                    unacknowledged: plan.liveness.unacknowledged,
                    token,
                })
            });
            self.attempt(service, picked, place, now);
            match connecting {
                Ok((socket, true)) => return Dialled::Connected(socket),
                Ok((socket, false)) => return Dialled::UnderWay(socket),
                Err(error) => {
                    if let Err(ending) = self.failed(service, &error, now) {
                        return Dialled::Exhausted(ending);
                    }
                }
            }
        }
    }

    fn choose(&mut self, service: &Service, request: &Pick, calls: &Calls, token: u64) -> Chosen {
        let mut pool = service.pool.borrow_mut();
        if !service.plan.is_limited {
            return match pool.pick(request, |_| true) {
                Choice::Picked(picked) => Chosen::Picked(picked, None),
                Choice::Full(_) | Choice::Nothing => Chosen::Nothing,
            };
        }
        let caller = Caller {
            calls: calls.clone(),
            token,
        };
        let was_waiting = self.waiting.is_some();
        let queue = &service.plan.pool.queue;
        let places = service.plan.places();
        let chosen = places.choose(&mut pool, request, &mut self.waiting, queue, caller);
        if self.waiting.is_some() && !was_waiting {
            service.counters.raise(ServiceGauge::Queued);
        }
        chosen
    }

    fn attempt(&mut self, service: &Service, picked: Picked, place: Option<Place>, now: Instant) {
        self.dials += 1;
        if self.last_failure.is_some() {
            service.counters.count(ServiceCounter::DialRetries);
        }
        let counters = service.counters.server(picked.server);
        counters.count(ServerCounter::Dials);
        counters.raise(ServerGauge::ConnectionsOpen);
        service.pool.borrow_mut().opened(picked.server);
        self.attempt = Some(Attempt {
            picked,
            place,
            started: now,
            is_answered: false,
            is_released: false,
        });
    }

    /// All servers have as many connections as they take: in the queue, as long as that may last.
    fn wait(&mut self, service: &Service, now: Instant) -> Dialled {
        if self.waiting.as_ref().is_some_and(|one| one.until > now) {
            return Dialled::Later;
        }
        self.leave_queue(service);
        let waited = service.plan.pool.queue.timeout;
        let detail = format!("no server had room within {waited:?} (`back.queue.timeout`)");
        Dialled::Exhausted(Ending::with(Reason::ServerQueueTimeout, detail))
    }

    fn leave_queue(&mut self, service: &Service) -> Option<Waiting> {
        let waiting = self.waiting.take();
        // A call that has come is for a place that goes to another now.
        self.is_called = false;
        if waiting.is_some() {
            service.counters.lower(ServiceGauge::Queued);
        }
        waiting
    }

    /// There is no other server: those that were busy may not be any more in a moment.
    fn exhausted(&mut self, service: &Service, now: Instant) -> Dialled {
        let Some(pause) = &mut self.pause else {
            let last = self.last_failure.take();
            return Dialled::Exhausted(last.unwrap_or_else(|| none_available(service)));
        };
        pause.until = Some(now + pause.length);
        pause.length = (pause.length * 2).min(PAUSE_MAX);
        self.passed_over = self.tried;
        Dialled::Later
    }

    /// The server has accepted the connection; its TLS handshake may follow.
    pub(crate) fn connected(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.is_answered = true;
        }
    }

    /// The server is connected, and what follows is the client's.
    pub(crate) fn succeeded(&mut self, service: &Service, now: Instant) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        attempt.is_answered = true;
        service
            .pool
            .borrow_mut()
            .dial_succeeded(attempt.picked.server, now);
        service.tell_state(attempt.picked.server);
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

    /// Remembers which server the client's session is with.
    pub(crate) fn learn_session(&self, service: &Service, facts: &Facts, now: Instant) {
        let session = facts.passing_session.as_ref().and_then(|one| one.agreed);
        let server = self.attempt.as_ref().map(|one| one.picked.server);
        let server = server.and_then(|server| service.pool.borrow().id(server));
        if let (Some(sessions), Some(id), Some(server)) = (service.plan.sessions(), session, server)
            && sessions.learn(id.as_bytes(), server, now)
        {
            service.counters.count(ServiceCounter::AffinityDisplaced);
        }
    }

    /// The dial failed.
    ///
    /// # Errors
    /// How the connection ends, if no other server would do better.
    pub(crate) fn failed(
        &mut self,
        service: &Service,
        error: &io::Error,
        now: Instant,
    ) -> Result<(), Ending> {
        let (blame, reason) = judge(error, self.is_local());
        let ending = Ending::with(reason, error.to_string());
        self.gave_up(service, blame, ending.clone(), now);
        match blame {
            Blame::Host => Err(ending),
            Blame::Server | Blame::Busy | Blame::Way => Ok(()),
        }
    }

    /// The server was connected, and its TLS failed. Where the client's name decides what servers
    /// have to prove (`is_of_client`), that says nothing about them.
    ///
    /// # Errors
    /// How the connection ends, if no other server would do better.
    pub(crate) fn tls_failed(
        &mut self,
        service: &Service,
        ending: Ending,
        is_of_client: bool,
        now: Instant,
    ) -> Result<(), Ending> {
        let blame = match ending.reason {
            _ if is_of_client => Blame::Host,
            Reason::NoCommonParameters | Reason::CrlExpired | Reason::Internal => Blame::Host,
            _ => Blame::Server,
        };
        self.gave_up(service, blame, ending.clone(), now);
        if blame == Blame::Host {
            return Err(ending);
        }
        Ok(())
    }

    /// The dial took too long. If it was the wait for a busy server, that is how it ends.
    pub(crate) fn timed_out(&mut self, service: &Service, now: Instant) -> Option<Ending> {
        if self.waiting.is_some() {
            // The queue has a limit of its own.
            return None;
        }
        if self.retries_at().is_some() {
            self.pause = None;
            return self.last_failure.take();
        }
        self.gave_up(
            service,
            Blame::Server,
            Ending::new(Reason::BackendTimeout),
            now,
        );
        None
    }

    fn gave_up(&mut self, service: &Service, blame: Blame, ending: Ending, now: Instant) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        let server = attempt.picked.server;
        let counter = match ending.reason {
            Reason::BackendBusy => ServerCounter::DialsBusy,
            Reason::BackendRefused => ServerCounter::DialsRefused,
            Reason::BackendTimeout => ServerCounter::DialsTimedOut,
            Reason::DescriptorLimit | Reason::HostResources => ServerCounter::DialsHost,
            Reason::BackendUnreachable => ServerCounter::DialsUnreachable,
            _ => ServerCounter::DialsTls,
        };
        service.counters.server(server).count(counter);
        service
            .counters
            .server(server)
            .lower(ServerGauge::ConnectionsOpen);
        service.pool.borrow_mut().closed(server);
        self.passed_over.insert(attempt.picked.place);
        match blame {
            Blame::Server => {
                service.pool.borrow_mut().dial_failed(server, now);
                service.tell_state(server);
                self.tried.insert(attempt.picked.place);
            }
            Blame::Way => self.tried.insert(attempt.picked.place),
            Blame::Busy => {
                let first = Pause {
                    length: PAUSE,
                    until: None,
                };
                self.pause.get_or_insert(first);
            }
            Blame::Host => {}
        }
        self.last_server = Some(server);
        self.last_failure = Some(ending);
    }

    /// The server's connection is closed.
    pub(crate) fn closed(&mut self, service: &Service) {
        self.pause = None;
        self.leave_queue(service);
        if let Some(attempt) = &mut self.attempt
            && !std::mem::replace(&mut attempt.is_released, true)
        {
            attempt.place = None;
            service.pool.borrow_mut().closed(attempt.picked.server);
            service
                .counters
                .server(attempt.picked.server)
                .lower(ServerGauge::ConnectionsOpen);
        }
    }

    /// Counts bytes for the server that is connected.
    pub(crate) fn count_bytes(&self, service: &Service, up: u64, down: u64) {
        if let Some(attempt) = self.attempt.as_ref().filter(|attempt| attempt.is_answered) {
            let server = attempt.picked.server;
            service
                .counters
                .server(server)
                .add(ServerCounter::BytesUp, up);
            service
                .counters
                .server(server)
                .add(ServerCounter::BytesDown, down);
        }
    }
}

/// What is known of the session that the client offers.
fn affinity_of(service: &Service, facts: &Facts, now: Instant) -> Affinity {
    let Some((sessions, session)) = service.plan.sessions().zip(facts.passing_session.as_ref())
    else {
        return Affinity::None;
    };
    let Some(id) = session.offered else {
        return Affinity::None;
    };
    match sessions.find(id.as_bytes(), now) {
        Some(server) => Affinity::Home(server),
        None if session.may_be_random => Affinity::None,
        None => Affinity::Unknown,
    }
}

/// None was up; servers that an operator disabled are named as the cause that can be undone.
fn none_available(service: &Service) -> Ending {
    match service.pool.borrow().disabled() {
        (0, _) => Ending::new(Reason::NoServerAvailable),
        (disabled, all) => {
            let detail = format!("{disabled} of {all} servers are disabled by `lariat server`");
            Ending::with(Reason::NoServerAvailable, detail)
        }
    }
}

/// All servers have as many connections as they take, and as many wait as may.
fn queue_full(service: &Service, servers: usize) -> Ending {
    let length = service.plan.pool.queue.length;
    let detail = format!(
        "all {servers} servers have `max-connections`, and {length} connections wait \
         (`back.queue.length`)"
    );
    Ending::with(Reason::ServerQueueFull, detail)
}

/// Where a connection to a server comes from. One that would have to come from an address of the
/// other family is not made: it would come from a wrong one.
fn source_of(
    source: &SourceAddress,
    server: &Address,
    client: Option<IpAddr>,
) -> io::Result<Source> {
    let Address::Ip(server) = server else {
        return Ok(Source::Any);
    };
    let fits = |address: &IpAddr| address.is_ipv4() == server.is_ipv4();
    let found = match source {
        SourceAddress::Any => Some(Source::Any),
        SourceAddress::Own(own) => own.iter().copied().find(fits).map(Source::Own),
        SourceAddress::Client => match client.map(|client| client.to_canonical()) {
            Some(client) => Some(client).filter(fits).map(Source::Foreign),
            None => Some(Source::Any),
        },
    };
    let words = "`back.source` has no address of the server's family";
    found.ok_or_else(|| io::Error::new(ErrorKind::AddrNotAvailable, words))
}

/// Numbers of Linux's errors that have no kind of their own.
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const ENOBUFS: i32 = 105;

/// What a failed dial speaks against, and how the connection ends if it was the last.
///
/// A Unix listener whose queue is full is not dead (connect(2), `EAGAIN`). The same error of TCP
/// and `EADDRNOTAVAIL` say that no local port is left for this destination.
fn judge(error: &io::Error, is_unix: bool) -> (Blame, Reason) {
    match (error.raw_os_error(), error.kind()) {
        (Some(EMFILE | ENFILE), _) => (Blame::Host, Reason::DescriptorLimit),
        (Some(ENOMEM | ENOBUFS | ENOSPC), _) => (Blame::Host, Reason::HostResources),
        (_, ErrorKind::WouldBlock) if is_unix => (Blame::Busy, Reason::BackendBusy),
        (_, ErrorKind::WouldBlock | ErrorKind::AddrNotAvailable) => {
            (Blame::Way, Reason::HostResources)
        }
        (_, ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset) => {
            (Blame::Server, Reason::BackendRefused)
        }
        (_, ErrorKind::TimedOut) => (Blame::Server, Reason::BackendTimeout),
        _ => (Blame::Server, Reason::BackendUnreachable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use sys::wake::Waker;

    use crate::fixture::{Fixture, SERVER_CONNECTIONS_MAX};
    use crate::options::{Limits, SourceLimits};

    #[test]
    fn a_connection_comes_from_an_address_of_its_servers_family_or_is_not_made() {
        let [v4, v6, other]: [IpAddr; 3] =
            ["192.0.2.1", "2001:db8::1", "192.0.2.9"].map(|text| text.parse().unwrap());
        let at = |text: &str| text.parse::<Address>().unwrap();
        let (old, new, unix) = (at("127.0.0.1:1"), at("[::1]:1"), at("unix:/s"));
        let both = SourceAddress::Own(vec![v6, v4]);
        let of = |source: &SourceAddress, server: &Address, client| {
            source_of(source, server, client).ok()
        };
        for server in [&old, &new, &unix] {
            assert_eq!(of(&SourceAddress::Any, server, Some(v4)), Some(Source::Any));
        }
        assert_eq!(of(&both, &old, Some(other)), Some(Source::Own(v4)));
        assert_eq!(of(&both, &new, Some(other)), Some(Source::Own(v6)));
        assert_eq!(of(&both, &unix, Some(other)), Some(Source::Any));
        assert_eq!(of(&SourceAddress::Own(vec![v4]), &new, Some(v6)), None);
        let client = SourceAddress::Client;
        assert_eq!(of(&client, &old, Some(other)), Some(Source::Foreign(other)));
        assert_eq!(of(&client, &new, Some(other)), None);
        assert_eq!(of(&client, &old, None), Some(Source::Any));
    }

    #[test]
    fn only_what_speaks_against_a_server_is_held_against_it() {
        let blame = |number, is_unix| {
            let error = io::Error::from_raw_os_error(number);
            judge(&error, is_unix)
        };
        const EAGAIN: i32 = 11;
        const EADDRNOTAVAIL: i32 = 99;
        const ECONNREFUSED: i32 = 111;
        const EHOSTUNREACH: i32 = 113;
        for (number, is_unix, wanted) in [
            (EAGAIN, true, (Blame::Busy, Reason::BackendBusy)),
            (EAGAIN, false, (Blame::Way, Reason::HostResources)),
            (EADDRNOTAVAIL, false, (Blame::Way, Reason::HostResources)),
            (EMFILE, true, (Blame::Host, Reason::DescriptorLimit)),
            (ENOBUFS, false, (Blame::Host, Reason::HostResources)),
            (ECONNREFUSED, true, (Blame::Server, Reason::BackendRefused)),
            (
                EHOSTUNREACH,
                false,
                (Blame::Server, Reason::BackendUnreachable),
            ),
        ] {
            assert_eq!(blame(number, is_unix), wanted, "{number}");
        }
    }

    #[test]
    fn a_call_that_comes_late_makes_no_dial() {
        let limits = Limits {
            connections: 9,
            handshakes: 9,
            per_source: SourceLimits::OFF,
        };
        let service = Fixture::new("127.0.0.1:9", limits).service();
        let (calls, called) = Calls::new(&Arc::new(Waker::new().unwrap()));
        let now = Instant::now();
        let request = Pick {
            now,
            key: 0,
            home: None,
            tried: Tried::new(),
        };
        let choose = |dial: &mut Dial| dial.choose(&service, &request, &calls, 7);
        let mut places: Vec<_> = (0..SERVER_CONNECTIONS_MAX)
            .map(|_| choose(&mut Dial::default()))
            .collect();
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
