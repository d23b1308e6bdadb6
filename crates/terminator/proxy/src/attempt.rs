//! Dials one server at one address, and the further dials of the same connection: races between a
//! server's addresses (RFC 8305), and trials of ejected addresses.
//!
//! Handles the bookkeeping of each dial, what its failure says about whom, and the timing of
//! rivals. `dial` chooses the address and decides what follows.

use std::fmt::Display;
use std::io;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use backend::pool::ChosenServer;
use backend::server;
use flow::connection::Flow;
use sys::socket::BindSource;
use telemetry::catalogue::{ServerCounter, ServerGauge};
use telemetry::outcome::Reason;
use wire::address::Address;

use crate::driver::{Connect, Driver, EMFILE, ENFILE, Socket};
use crate::options::SourceAddress;
use crate::places::ServerSlot;
use crate::service::Service;

/// A dial under way, or one that succeeded.
pub(crate) struct Attempt {
    pub(crate) picked: ChosenServer,
    /// Place at a server with a connection limit.
    place: Option<ServerSlot>,
    pub(crate) started: Instant,
    is_released: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FailureCause {
    /// The server, at this address.
    Server,
    /// Nobody: the server's queue is full, and will not be in a moment.
    Busy,
    /// The host, but only on its way to this server.
    Way,
    /// The host, towards all servers.
    Host,
}

impl Attempt {
    pub(crate) fn begin(
        service: &Service,
        picked: ChosenServer,
        place: Option<ServerSlot>,
        now: Instant,
    ) -> Self {
        let counters = service.counters.server(picked.server);
        counters.count(ServerCounter::Dials);
        counters.raise(ServerGauge::ConnectionsOpen);
        service.pool.borrow_mut().opened(picked.server);
        Self { picked, place, started: now, is_released: false }
    }

    /// Asks the kernel to connect; returns whether the connection is already established.
    pub(crate) fn connect(
        picked: &ChosenServer,
        service: &Service,
        driver: &Driver,
        flow: &Flow,
        token: u64,
    ) -> io::Result<(Socket, bool)> {
        let client = flow.facts().route.source.map(|source| source.ip());
        driver.connect(&Connect {
            address: &picked.address,
            source: source_of(&service.plan.source, &picked.address, client)?,
            speaks_first: flow.speaks_first(),
            unacknowledged: service.plan.liveness.unacknowledged,
            token,
        })
    }

    /// Reports whether the server is on a Unix socket.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.picked.address, Address::Unix(_))
    }

    /// Returns `words`, preceded by the address if the server's name does not show it.
    pub(crate) fn detail(&self, service: &Service, words: &dyn Display) -> String {
        let address = self.picked.address.to_string();
        match service.plan.server_names.get(self.picked.server) {
            Some(name) if *name != address => format!("{address}: {words}"),
            _ => words.to_string(),
        }
    }

    pub(crate) fn succeeded(&self, service: &Service, now: Instant) {
        let ChosenServer { server, address, .. } = &self.picked;
        let mut pool = service.pool.borrow_mut();
        let has_changed = pool.dial_succeeded(*server, address, now);
        drop(pool);
        service.tell_state(*server, has_changed);
    }

    /// Notes that this dial was a trial, and was accepted after another dial was.
    pub(crate) fn accepted_in_vain(mut self, service: &Service, now: Instant) {
        let ChosenServer { server, address, .. } = &self.picked;
        let mut pool = service.pool.borrow_mut();
        let has_changed = pool.trial_accepted(*server, address, now);
        drop(pool);
        service.tell_state(*server, has_changed);
        self.release(service);
    }

    pub(crate) fn failed(
        mut self,
        service: &Service,
        cause: FailureCause,
        reason: Reason,
        now: Instant,
    ) {
        let ChosenServer { server, address, .. } = &self.picked;
        let counter = match reason {
            Reason::BackendBusy => ServerCounter::DialsBusy,
            Reason::BackendRefused => ServerCounter::DialsRefused,
            Reason::BackendTimeout => ServerCounter::DialsTimedOut,
            Reason::DescriptorLimit | Reason::HostResources => ServerCounter::DialsHost,
            Reason::BackendUnreachable => ServerCounter::DialsUnreachable,
            Reason::ServerTunnelFailed => ServerCounter::DialsTunnel,
            _ => ServerCounter::DialsTls,
        };
        service.counters.server(*server).count(counter);
        if cause == FailureCause::Server {
            let mut pool = service.pool.borrow_mut();
            let has_changed = pool.dial_failed(*server, address, now);
            drop(pool);
            service.tell_state(*server, has_changed);
        }
        self.release(service);
    }

    pub(crate) fn release(&mut self, service: &Service) {
        if !std::mem::replace(&mut self.is_released, true) {
            self.place = None;
            let server = self.picked.server;
            service.pool.borrow_mut().closed(server);
            let counters = service.counters.server(server);
            counters.lower(ServerGauge::ConnectionsOpen);
        }
    }
}

/// Returns the source address of a connection to a server. Fails if the source would have to be of
/// the other address family, because the kernel would choose a wrong one.
fn source_of(
    source: &SourceAddress,
    server: &Address,
    client: Option<IpAddr>,
) -> io::Result<BindSource> {
    let Address::Ip(server) = server else {
        return Ok(BindSource::Any);
    };
    let fits = |address: &IpAddr| address.is_ipv4() == server.is_ipv4();
    let found = match source {
        SourceAddress::Any => Some(BindSource::Any),
        SourceAddress::Own(own) => own.iter().copied().find(fits).map(BindSource::Own),
        SourceAddress::Client => match client.map(|client| client.to_canonical()) {
            Some(client) => Some(client).filter(fits).map(BindSource::Foreign),
            None => Some(BindSource::Any),
        },
    };
    let words = "`back.source` has no address of the server's family";
    found.ok_or_else(|| io::Error::new(ErrorKind::AddrNotAvailable, words))
}

/// Linux error numbers without an `ErrorKind` of their own.
const ENOMEM: i32 = 12;
const ENOSPC: i32 = 28;
const ENOBUFS: i32 = 105;

/// Returns whom a failed dial speaks against, and how the connection ends if it was the last.
///
/// A Unix listener whose queue is full is not dead (connect(2), `EAGAIN`). The same error of TCP
/// and `EADDRNOTAVAIL` say that no local port is left for this destination.
pub(crate) fn judge(error: &io::Error, is_unix: bool) -> (FailureCause, Reason) {
    match (error.raw_os_error(), error.kind()) {
        (Some(EMFILE | ENFILE), _) => (FailureCause::Host, Reason::DescriptorLimit),
        (Some(ENOMEM | ENOBUFS | ENOSPC), _) => (FailureCause::Host, Reason::HostResources),
        (_, ErrorKind::WouldBlock) if is_unix => (FailureCause::Busy, Reason::BackendBusy),
        (_, ErrorKind::WouldBlock | ErrorKind::AddrNotAvailable) => {
            (FailureCause::Way, Reason::HostResources)
        }
        (_, ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset) => {
            (FailureCause::Server, Reason::BackendRefused)
        }
        (_, ErrorKind::TimedOut) => (FailureCause::Server, Reason::BackendTimeout),
        _ => (FailureCause::Server, Reason::BackendUnreachable),
    }
}

/// Delay after the dial of one address before the next address of the server is dialled too: the
/// "Connection Attempt Delay" that RFC 8305, section 5, recommends.
pub(crate) const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Largest number of rival dials, each with a descriptor. Races take only the lower half of all
/// descriptors, because every connection needs its own two.
const RIVALS_MAX: usize = 3;

#[derive(Default)]
pub(crate) struct Rivals {
    all: Vec<Rival>,
    /// Time to dial the next address, if none has answered.
    next_at: Option<Instant>,
    /// Whether an event of a rival was noted.
    is_noted: bool,
}

struct Rival {
    attempt: Attempt,
    socket: Socket,
    /// Whether the address was ejected: nobody waits, and the dial outlasts a race.
    is_trial: bool,
}

impl Rivals {
    /// Notes that a rival may need attention: an event came, or its time has.
    pub(crate) fn note(&mut self) {
        self.is_noted = true;
    }

    /// Returns when rivals need attention, if no event comes before.
    pub(crate) fn due(&self, limit: Duration) -> Option<Instant> {
        let ends = self.all.iter().map(|one| one.attempt.started + limit);
        ends.chain(self.next_at).min()
    }

    pub(crate) fn is_due(&mut self, limit: Duration, now: Instant) -> bool {
        let is_over = self.due(limit).is_some_and(|at| at <= now);
        std::mem::take(&mut self.is_noted) | is_over
    }

    /// Sets the time at which the next address is dialled.
    pub(crate) fn race_at(&mut self, at: Option<Instant>) {
        self.next_at = at.filter(|_| self.all.len() < RIVALS_MAX);
    }

    /// Reports whether the next address is to be dialled.
    pub(crate) fn is_next_due(&self, now: Instant) -> bool {
        self.next_at.is_some_and(|at| at <= now)
    }

    pub(crate) fn has_room(&self) -> bool {
        self.all.len() < RIVALS_MAX
    }

    pub(crate) fn add(&mut self, attempt: Attempt, socket: Socket, is_trial: bool) {
        // The server may have answered already.
        self.is_noted = true;
        self.all.push(Rival { attempt, socket, is_trial });
    }

    /// Returns the first dial that was answered. Drops those that have failed.
    pub(crate) fn answered(
        &mut self,
        service: &Service,
        now: Instant,
    ) -> Option<(Attempt, Socket)> {
        let mut number = 0;
        while let Some(rival) = self.all.get_mut(number) {
            let error = rival.socket.take_error();
            let is_over = rival.attempt.started + service.settings.timeouts.dial <= now;
            let failure = match error {
                Some(error) => Some(judge(&error, false)),
                None if rival.socket.is_connected() => {
                    let rival = self.all.remove(number);
                    return Some((rival.attempt, rival.socket));
                }
                None => is_over.then_some((FailureCause::Server, Reason::BackendTimeout)),
            };
            match failure {
                Some((cause, reason)) => {
                    let rival = self.all.remove(number);
                    rival.attempt.failed(service, cause, reason, now);
                }
                None => number += 1,
            }
        }
        None
    }

    /// Returns the dial to wait for after the one before it has failed: the oldest of a race, or a
    /// trial if trials are asked for.
    pub(crate) fn promote(&mut self, is_trial: bool) -> Option<(Attempt, Socket)> {
        let same = |one: &Rival| one.is_trial == is_trial;
        let number = self.all.iter().position(same)?;
        let rival = self.all.remove(number);
        Some((rival.attempt, rival.socket))
    }

    /// Ends the race after another dial, begun at `winner_started`, was answered; trials go on. No
    /// connection waits again for dials it has overtaken. Returns the places of the unharmed ones.
    pub(crate) fn settle(
        &mut self,
        service: &Service,
        winner_started: Instant,
        now: Instant,
    ) -> Vec<server::ServerSlot> {
        self.next_at = None;
        let (trials, lost) =
            std::mem::take(&mut self.all).into_iter().partition(|one| one.is_trial);
        self.all = trials;
        let lost = lost.into_iter().filter_map(|one: Rival| {
            let place = one.attempt.picked.place;
            let has_failed = overtaken(one.attempt, service, winner_started, now);
            (!has_failed).then_some(place)
        });
        lost.collect()
    }

    pub(crate) fn release(&mut self, service: &Service) {
        self.next_at = None;
        for mut rival in self.all.drain(..) {
            rival.attempt.release(service);
        }
    }
}

/// Counts an address as failed, as by a timeout, if it was not answered though a dial begun a delay
/// later was: else every connection that begins with it would wait. Returns whether it has failed.
pub(crate) fn overtaken(
    mut attempt: Attempt,
    service: &Service,
    winner_started: Instant,
    now: Instant,
) -> bool {
    let has_failed = attempt.started + ATTEMPT_DELAY <= winner_started;
    if has_failed {
        attempt.failed(service, FailureCause::Server, Reason::BackendTimeout, now);
    } else {
        attempt.release(service);
    }
    has_failed
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(of(&SourceAddress::Any, server, Some(v4)), Some(BindSource::Any));
        }
        assert_eq!(of(&both, &old, Some(other)), Some(BindSource::Own(v4)));
        assert_eq!(of(&both, &new, Some(other)), Some(BindSource::Own(v6)));
        assert_eq!(of(&both, &unix, Some(other)), Some(BindSource::Any));
        assert_eq!(of(&SourceAddress::Own(vec![v4]), &new, Some(v6)), None);
        let client = SourceAddress::Client;
        assert_eq!(of(&client, &old, Some(other)), Some(BindSource::Foreign(other)));
        assert_eq!(of(&client, &new, Some(other)), None);
        assert_eq!(of(&client, &old, None), Some(BindSource::Any));
    }

    #[test]
    fn only_what_speaks_against_a_server_is_held_against_it() {
        let cause = |number, is_unix| {
            let error = io::Error::from_raw_os_error(number);
            judge(&error, is_unix)
        };
        const EAGAIN: i32 = 11;
        const EADDRNOTAVAIL: i32 = 99;
        const ECONNREFUSED: i32 = 111;
        const EHOSTUNREACH: i32 = 113;
        for (number, is_unix, wanted) in [
            (EAGAIN, true, (FailureCause::Busy, Reason::BackendBusy)),
            (EAGAIN, false, (FailureCause::Way, Reason::HostResources)),
            (EADDRNOTAVAIL, false, (FailureCause::Way, Reason::HostResources)),
            (EMFILE, true, (FailureCause::Host, Reason::DescriptorLimit)),
            (ENOBUFS, false, (FailureCause::Host, Reason::HostResources)),
            (ECONNREFUSED, true, (FailureCause::Server, Reason::BackendRefused)),
            (EHOSTUNREACH, false, (FailureCause::Server, Reason::BackendUnreachable)),
        ] {
            assert_eq!(cause(number, is_unix), wanted, "{number}");
        }
    }
}
