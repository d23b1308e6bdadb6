//! How a connection comes to its server: choose, connect, and on failure choose again.
//!
//! Owns the retries, which all happen before the first byte is sent, and the counting of dials.
//! Choice is `backend`'s, time limits are `flow`'s.

use std::io::{self, ErrorKind};
use std::time::Instant;

use backend::affinity::key_of;
use backend::pool::{Pick, Picked};
use backend::tried::Tried;
use flow::facts::{Ending, Facts};
use telemetry::catalogue::{Histogram, ServerCounter, ServiceCounter};
use telemetry::outcome::Reason;

use crate::driver::{Driver, Socket};
use crate::service::Service;

/// The dials of one connection.
#[derive(Default)]
pub(crate) struct Dial {
    tried: Tried,
    attempt: Option<Attempt>,
    last_failure: Option<Ending>,
    last_server: Option<usize>,
}

/// The dial under way, or the one that succeeded.
struct Attempt {
    picked: Picked,
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
    /// No server is left to try.
    Exhausted(Ending),
}

impl Dial {
    /// Whether an answer is awaited.
    pub(crate) fn is_under_way(&self) -> bool {
        self.attempt
            .as_ref()
            .is_some_and(|attempt| !attempt.is_answered)
    }

    /// When the dial under way began.
    pub(crate) fn started(&self) -> Instant {
        self.attempt.as_ref().expect("a dial was started").started
    }

    /// The server that was dialled last, by its index in the options.
    pub(crate) fn server(&self) -> Option<usize> {
        let now = self.attempt.as_ref().map(|attempt| attempt.picked.server);
        now.or(self.last_server)
    }

    /// Dials after the first.
    pub(crate) fn retries(&self) -> u32 {
        let dials = self.tried.count() + usize::from(self.attempt.is_some());
        dials.saturating_sub(1) as u32
    }

    /// Chooses and dials until one does not fail at once.
    pub(crate) fn start(
        &mut self,
        service: &Service,
        driver: &Driver,
        token: u64,
        facts: &Facts,
    ) -> Dialled {
        let key = key_of(facts.route.source.map(|source| source.ip()));
        loop {
            let now = Instant::now();
            let request = Pick {
                now,
                key,
                tried: self.tried,
            };
            let Some(picked) = service.pool.borrow_mut().pick(&request) else {
                let none = || Ending::new(Reason::BackendNone);
                return Dialled::Exhausted(self.last_failure.take().unwrap_or_else(none));
            };
            if self.last_failure.is_some() {
                service.counters.count(ServiceCounter::DialRetries);
            }
            service
                .counters
                .server(picked.server)
                .count(ServerCounter::Dials);
            service.pool.borrow_mut().opened(picked.server);
            service.counters.server(picked.server).raise();
            let connecting = driver.connect(&picked.address, token);
            self.attempt = Some(Attempt {
                picked,
                started: now,
                is_answered: false,
                is_released: false,
            });
            match connecting {
                Ok((socket, true)) => return Dialled::Connected(socket),
                Ok((socket, false)) => return Dialled::UnderWay(socket),
                Err(error) if is_own_fault(&error) => {
                    return Dialled::Exhausted(self.abandoned(service, &error));
                }
                Err(error) => self.failed(service, &error, now),
            }
        }
    }

    /// The server is connected.
    pub(crate) fn succeeded(&mut self, service: &Service, now: Instant) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        attempt.is_answered = true;
        service
            .pool
            .borrow_mut()
            .dial_succeeded(attempt.picked.server);
        service.tell_state(attempt.picked.server);
        let took = now.saturating_duration_since(attempt.started);
        service.counters.observe(Histogram::Dial, took);
    }

    /// The dial failed.
    pub(crate) fn failed(&mut self, service: &Service, error: &io::Error, now: Instant) {
        let reason = match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Reason::BackendRefused,
            ErrorKind::TimedOut => Reason::BackendTimeout,
            _ => Reason::BackendUnreachable,
        };
        self.gave_up(service, Ending::with(reason, error.to_string()), now);
    }

    /// The dial failed for want of something that is ours: no server is to blame, and none would
    /// do better.
    fn abandoned(&mut self, service: &Service, error: &io::Error) -> Ending {
        if let Some(attempt) = self.attempt.take() {
            service.counters.server(attempt.picked.server).lower();
            service.pool.borrow_mut().closed(attempt.picked.server);
        }
        let is_descriptors = matches!(error.raw_os_error(), Some(EMFILE | ENFILE));
        let reason = if is_descriptors {
            Reason::DescriptorLimit
        } else {
            Reason::Internal
        };
        Ending::with(reason, error.to_string())
    }

    /// The dial took too long.
    pub(crate) fn timed_out(&mut self, service: &Service, now: Instant) {
        self.gave_up(service, Ending::new(Reason::BackendTimeout), now);
    }

    fn gave_up(&mut self, service: &Service, ending: Ending, now: Instant) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        let server = attempt.picked.server;
        let counter = match ending.reason {
            Reason::BackendRefused => ServerCounter::DialsRefused,
            Reason::BackendTimeout => ServerCounter::DialsTimedOut,
            _ => ServerCounter::DialsUnreachable,
        };
        service.counters.server(server).count(counter);
        service.counters.server(server).lower();
        service.pool.borrow_mut().closed(server);
        service.pool.borrow_mut().dial_failed(server, now);
        service.tell_state(server);
        self.last_server = Some(server);
        self.tried.insert(attempt.picked.place);
        self.last_failure = Some(ending);
    }

    /// The server's connection is closed.
    pub(crate) fn closed(&mut self, service: &Service) {
        if let Some(attempt) = &mut self.attempt
            && !std::mem::replace(&mut attempt.is_released, true)
        {
            service.pool.borrow_mut().closed(attempt.picked.server);
            service.counters.server(attempt.picked.server).lower();
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

/// Numbers of Linux's errors that have no kind of their own.
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const ENOBUFS: i32 = 105;

/// Whether the host, not the server, is why a connection cannot be begun: no descriptors, memory,
/// watches or local ports.
fn is_own_fault(error: &io::Error) -> bool {
    let is_resource = matches!(
        error.raw_os_error(),
        Some(EMFILE | ENFILE | ENOMEM | ENOBUFS | ENOSPC)
    );
    is_resource || error.kind() == ErrorKind::AddrNotAvailable
}
