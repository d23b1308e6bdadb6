//! A worker's listening sockets: which are watched, and how many connections are accepted at once.
//!
//! The worker decides what happens to a connection.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use flow::facts::Route;
use sys::socket::{self, PeerAddress};
use wire::address::Address;

use crate::driver::{Driver, EventSource, Socket};
use crate::keepalive::InheritedKeepalive;
use crate::service::{Service, SharedServices};

/// Connections accepted from one listener in a turn.
const ACCEPTS_PER_TURN: usize = 64;

/// Time for which a worker that has run out of descriptors ignores its listeners, because accepting
/// would fail at once, again and again.
const PAUSE: Duration = Duration::from_millis(100);

/// Listeners told apart in one batch of events; those beyond share the last place and are all
/// checked when one of them has an event.
const READY_MAX: usize = 64;

/// A listening socket and its service.
pub(crate) struct Listener {
    pub(crate) fd: OwnedFd,
    /// The service; where several share the address, a stand-in until one is chosen.
    pub(crate) service: Rc<Service>,
    pub(crate) shared: Option<Rc<SharedServices>>,
    pub(crate) text: Rc<str>,
    address: Address,
    /// Whether other workers watch the listener too.
    is_shared: bool,
    /// Connections to accept at the next event.
    batch: usize,
    keepalive: InheritedKeepalive,
}

#[derive(Default)]
pub(crate) struct WorkerListeners {
    all: Vec<Listener>,
    resumes: Option<Instant>,
    /// Whether another process accepts from the listeners.
    is_held: bool,
}

#[derive(Default)]
pub(crate) struct ReadyListeners(u64);

impl ReadyListeners {
    pub(crate) fn add(&mut self, place: usize) {
        self.0 |= 1 << place.min(READY_MAX - 1);
    }

    fn has(&self, place: usize) -> bool {
        self.0 & 1 << place.min(READY_MAX - 1) != 0
    }
}

impl Listener {
    pub(crate) fn new(
        fd: OwnedFd,
        service: Rc<Service>,
        shared: Option<Rc<SharedServices>>,
        address: Address,
        is_shared: bool,
    ) -> Self {
        let text = address.to_string().into();
        let keepalive = InheritedKeepalive::default();
        Self { fd, service, shared, text, address, is_shared, batch: 1, keepalive }
    }

    /// Changes, now and then, the keepalive time of connections accepted next.
    fn vary_keepalive(&mut self) {
        if let Some(idle) = self.keepalive.next(self.batch, self.service.plan.front_keepalive) {
            // A Unix socket has no such time, and stays as it is.
            let _ = socket::set_keepalive_time(&self.fd, idle);
        }
    }

    /// Returns both ends of a connection. The local address is asked for only if it is not known
    /// and a PROXY header shows it.
    pub(crate) fn route(&self, front: &Socket, peer: PeerAddress) -> Route {
        let PeerAddress::Ip(source) = peer else {
            return Route { source: None, destination: None };
        };
        let destination = match &self.address {
            Address::Ip(address) if !address.ip().is_unspecified() => Some(*address),
            _ if self.service.tells_destination() => match front.local_address() {
                Some(PeerAddress::Ip(address)) => Some(address),
                _ => None,
            },
            _ => None,
        };
        Route { source: Some(source), destination }
    }
}

impl WorkerListeners {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn at(&self, place: usize) -> Option<&Listener> {
        self.all.get(place)
    }

    /// Watches these listeners in place of the former; returns whether all could be watched.
    pub(crate) fn replace(&mut self, all: Vec<Listener>, driver: &Driver, now: Instant) -> bool {
        self.close(driver);
        self.all = all;
        self.watch(driver, now)
    }

    pub(crate) fn close(&mut self, driver: &Driver) {
        self.ignore(driver);
        self.all.clear();
        self.resumes = None;
    }

    /// Returns how many connections to accept now from a listener that may have had an event.
    ///
    /// Twice as many as the last time if there were that many, else half: so few calls find the
    /// queue empty, and a long queue is emptied soon.
    pub(crate) fn batch(&self, ready: &ReadyListeners, place: usize) -> usize {
        let is_called = self.resumes.is_none() && !self.is_held && ready.has(place);
        self.all.get(place).filter(|_| is_called).map_or(0, |one| one.batch)
    }

    /// Notes whether a listener had as many connections as its batch.
    pub(crate) fn took_batch(&mut self, place: usize, had_all: bool) {
        if let Some(one) = self.all.get_mut(place) {
            one.vary_keepalive();
            let next = if had_all { one.batch * 2 } else { one.batch / 2 };
            one.batch = next.clamp(1, ACCEPTS_PER_TURN);
        }
    }

    /// Ignores all listeners for a while.
    pub(crate) fn pause(&mut self, driver: &Driver, now: Instant) {
        self.ignore(driver);
        self.resumes = Some(now + PAUSE);
    }

    /// Returns when the listeners are watched again, if they are not.
    pub(crate) fn resumes(&self) -> Option<Instant> {
        self.resumes
    }

    /// Watches the listeners again if it is time; returns whether all could be watched.
    pub(crate) fn resume(&mut self, driver: &Driver, now: Instant) -> bool {
        self.resumes.is_none_or(|at| at > now) || self.watch(driver, now)
    }

    /// Reports whether another process accepts from the listeners.
    pub(crate) fn are_held(&self) -> bool {
        self.is_held
    }

    /// Ignores the listeners and those that replace them, or watches them again; returns whether
    /// all could be watched.
    pub(crate) fn hold(&mut self, is_held: bool, driver: &Driver, now: Instant) -> bool {
        if self.is_held == is_held {
            return true;
        }
        self.is_held = is_held;
        if is_held {
            self.ignore(driver);
        }
        self.watch(driver, now)
    }

    fn watch(&mut self, driver: &Driver, now: Instant) -> bool {
        self.resumes = None;
        if self.is_held {
            return true;
        }
        let is_watched = self.all.iter().enumerate().all(|(place, one)| {
            let token = EventSource::Listener(place).token();
            driver.listen(&one.fd, token, one.is_shared).is_ok()
        });
        if !is_watched {
            self.pause(driver, now);
        }
        is_watched
    }

    fn ignore(&self, driver: &Driver) {
        for one in &self.all {
            driver.ignore(&one.fd);
        }
    }
}
