//! Admission of connections: accepts, admits or refuses them, and displaces others where a limit is
//! reached.
//!
//! The rule of displacement is described in docs/threat-model.md; `displaceable` orders the
//! connections that may be displaced.

use std::io;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use flow::connection::Flow;
use flow::events::Event;
use flow::facts::ConnectionFacts;
use sys::socket::PeerAddress;
use telemetry::catalogue::{ServiceCounter, ServiceGauge, WorkerCounter, WorkerGauge};
use telemetry::outcome::Reason;

use super::Worker;
use crate::connection::{Connection, DisplaceableEntry};
use crate::displaceable::DisplaceableStage;
use crate::driver::{ConnectionId, EventSource, is_out_of_descriptors};
use crate::listeners::ReadyListeners;
use crate::service::Service;
use crate::sources::{Allowance, SourcePlace, is_worth_displacing};

/// Connections searched for the oldest one whose bytes do not wait for this very worker.
const LOOKED_AT_MAX: usize = 8;

#[derive(Clone, Copy)]
enum AdmissionLimit<'a> {
    Connections,
    Handshakes,
    ConnectionsOf(&'a Service),
}

impl AdmissionLimit<'_> {
    /// Returns the stages that hold places of the limit without having relayed anything.
    fn stages(self) -> &'static [DisplaceableStage] {
        match self {
            Self::Handshakes => DisplaceableStage::HANDSHAKING,
            Self::Connections | Self::ConnectionsOf(_) => DisplaceableStage::ALL,
        }
    }

    fn reason(self) -> Reason {
        match self {
            Self::Handshakes => Reason::HandshakeLimit,
            Self::Connections | Self::ConnectionsOf(_) => Reason::ConnectionLimit,
        }
    }
}

impl Worker {
    pub(super) fn accept_from(&mut self, ready: &ReadyListeners) {
        for place in 0..self.listeners.len() {
            let count = self.listeners.batch(ready, place);
            if count > 0 {
                let had_all = self.accept_some(place, count);
                self.listeners.took_batch(place, had_all);
            }
        }
    }

    /// Accepts up to `count` connections; returns whether there were that many.
    pub(super) fn accept_some(&mut self, place: usize, count: usize) -> bool {
        for _ in 0..count {
            match self.accept_one(place) {
                Ok(()) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return false,
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                    _ => {
                        self.counters.count(WorkerCounter::AcceptErrors);
                        self.listeners.pause(&self.driver, self.now);
                        return false;
                    }
                },
            }
        }
        true
    }

    fn accept_one(&mut self, place: usize) -> io::Result<()> {
        let Some(listener) = self.listeners.at(place) else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let (fd, peer) = match self.driver.accept(&listener.fd) {
            Err(error) if is_out_of_descriptors(&error) => return self.reject_on_emfile(place),
            accepted => accepted?,
        };
        let service = Rc::clone(&listener.service);
        let text = Rc::clone(&listener.text);
        let shared = listener.shared.clone();
        let expects_header = service.expects_proxy_header(peer);
        let admitted = self
            .admit_source(&service, peer, expects_header)
            .and_then(|source| self.admit(&service, &fd).map(|()| source));
        let source = match admitted {
            Ok(source) => source,
            Err(reason) => {
                self.driver.refuse(fd);
                self.refused(place, peer, reason);
                return Ok(());
            }
        };
        let id = self.connections.next_id();
        let front = match self.driver.adopt(fd, EventSource::Front(id).token()) {
            Ok(front) => front,
            Err(error) => {
                self.release(&service);
                self.allowances.handshakes.give();
                self.refused(place, peer, Reason::Internal);
                return Err(error);
            }
        };
        let Some(listener) = self.listeners.at(place) else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let route = listener.route(&front, peer);
        self.next_connection += 1 << 8;
        let facts = ConnectionFacts::new(self.next_connection, route, self.now);
        let flow = Flow::new(Rc::clone(&service.settings), expects_header, facts);
        if shared.is_none() {
            service.counters.count(ServiceCounter::ConnectionsAccepted);
        }
        service.counters.raise(ServiceGauge::ConnectionsOpen);
        service.counters.raise(ServiceGauge::HandshakesInProgress);
        self.counters.raise(WorkerGauge::ConnectionsOpen);
        let mut connection =
            Connection::new(flow, service, text, front, EventSource::Back(id).token());
        connection.source = source;
        connection.shared = shared;
        let has_action = connection.flow.has_action();
        self.connections.insert(connection);
        // In a crowd an event tells when the hello has come, and what it offers.
        if has_action || !self.schedule.is_crowded() {
            self.queue(id);
        }
        self.list(id);
        // The client's time runs from now on, however long it waits to be served.
        self.set_timer(id);
        Ok(())
    }

    /// Gives a connection to the service that its hello is for. The connection counts for that
    /// service even if it is refused: the service's rules and limits are checked now.
    pub(super) fn route(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.find(id) else {
            return;
        };
        connection.is_to_be_routed = false;
        let shared = connection.shared.as_ref();
        let Some(chosen) = shared.and_then(|shared| shared.choose(&connection.flow)) else {
            return self.answer_route(id, Event::Routed(None));
        };
        connection.shared = None;
        let client = connection.flow.facts().route.source;
        let entry = std::mem::replace(&mut connection.service, Rc::clone(&chosen));
        let listed = connection.listed.take();
        self.unlist(listed, &entry);
        entry.plan.open().give();
        let limit = self.take(AdmissionLimit::ConnectionsOf(&chosen)).err();
        if limit.is_some() {
            // The connection's end gives the place back.
            chosen.plan.open().take_over();
        }
        for gauge in [ServiceGauge::ConnectionsOpen, ServiceGauge::HandshakesInProgress] {
            entry.counters.lower(gauge);
            chosen.counters.raise(gauge);
        }
        chosen.counters.count(ServiceCounter::ConnectionsAccepted);
        let is_denied = chosen.plan.sources.denies(client.map(|client| client.ip()));
        let refusal = is_denied.then_some(Reason::SourceDenied).or(limit);
        self.answer_route(
            id,
            match refusal {
                Some(reason) => Event::Stopped(reason),
                None => Event::Routed(Some(Rc::clone(&chosen.settings))),
            },
        );
    }

    fn answer_route(&mut self, id: ConnectionId, answer: Event) {
        if let Some(connection) = self.connections.find(id) {
            if matches!(answer, Event::Stopped(_)) {
                connection.front.reset_on_close();
            }
            connection.flow.handle(answer, self.now, &mut self.pool);
            self.pump(id);
        }
    }

    /// Admits a client, unless a PROXY header is to name it first.
    fn admit_source(
        &self,
        service: &Service,
        peer: PeerAddress,
        expects_header: bool,
    ) -> Result<Option<SourcePlace>, Reason> {
        if expects_header {
            return Ok(None);
        }
        let rules = &service.plan.sources;
        self.sources.admit(rules, peer.ip(), self.now)
    }

    /// Counts a further connection, displacing another where a limit is reached; or returns why
    /// there is no place.
    fn admit(&mut self, service: &Service, fd: &OwnedFd) -> Result<(), Reason> {
        if !self.driver.descriptors.suffice_for_connection(fd) {
            let displaceable = self.displaceable.borrow().count(DisplaceableStage::ALL);
            let is_worth = is_worth_displacing(displaceable.into(), self.connections.len() as u64);
            if !is_worth || !self.displace(AdmissionLimit::Connections) {
                return Err(Reason::DescriptorLimit);
            }
        }
        self.take(AdmissionLimit::ConnectionsOf(service))?;
        self.take(AdmissionLimit::Connections).inspect_err(|_| service.plan.open().give())?;
        self.take(AdmissionLimit::Handshakes).inspect_err(|_| self.release(service))
    }

    fn take(&mut self, limited: AdmissionLimit<'_>) -> Result<(), Reason> {
        let (allowance, most) = self.allowance(limited);
        if allowance.take(most) {
            return Ok(());
        }
        let allowance = allowance.clone();
        let is_given = match allowance.giver(self.index, most) {
            Some(own) if own == self.index => self.displace(limited),
            Some(other) => {
                allowance.claim(other);
                self.allowances.wakers[other].wake();
                true
            }
            None => false,
        };
        if !is_given {
            return Err(limited.reason());
        }
        allowance.take_over();
        Ok(())
    }

    fn allowance<'a>(&'a self, limited: AdmissionLimit<'a>) -> (&'a Allowance, u32) {
        match limited {
            AdmissionLimit::Connections => (&self.allowances.connections, self.limits.connections),
            AdmissionLimit::Handshakes => (&self.allowances.handshakes, self.limits.handshakes),
            AdmissionLimit::ConnectionsOf(service) => {
                (service.plan.open(), service.plan.connections_max())
            }
        }
    }

    /// Ends the oldest connection of the fullest stage; returns whether there was one.
    fn displace(&mut self, limited: AdmissionLimit<'_>) -> bool {
        let displaceable = match limited {
            AdmissionLimit::ConnectionsOf(service) => &service.displaceable,
            AdmissionLimit::Connections | AdmissionLimit::Handshakes => &self.displaceable,
        };
        let mut oldest = None;
        for id in displaceable.borrow().oldest_of_most(limited.stages()).take(LOOKED_AT_MAX) {
            oldest.get_or_insert(id);
            // Bytes of the connection may wait for us: then it is not the client who lets us wait.
            if self.connections.find(id).is_some_and(|connection| !connection.is_queued) {
                oldest = Some(id);
                break;
            }
        }
        if let Some(id) = oldest {
            self.give_up(id, Reason::Displaced);
        }
        oldest.is_some()
    }

    /// Gives up the places that other workers' newcomers have taken. A connection that gives up a
    /// handshake's place gives up a connection's with it, and one newcomer may have taken both.
    pub(super) fn pay_back(&mut self) {
        let handshakes = self.pay(AdmissionLimit::Handshakes, 0);
        self.pay(AdmissionLimit::Connections, handshakes);
        for service in self.services.clone() {
            self.pay(AdmissionLimit::ConnectionsOf(&service), 0);
        }
    }

    /// Gives up the places owed beyond `paid`; returns the number of places owed.
    fn pay(&mut self, limited: AdmissionLimit<'_>, paid: u32) -> u32 {
        let allowance = self.allowance(limited).0.clone();
        let mut owed = 0;
        while allowance.settle(self.index) {
            owed += 1;
            if owed > paid {
                self.displace(limited);
            }
        }
        owed
    }

    /// Keeps a connection listed under its stage, for as long as it may be displaced.
    pub(super) fn list(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.find(id) else {
            return;
        };
        let stage = connection.stage();
        if stage != connection.listed.as_ref().map(|listed| listed.stage) {
            let service = Rc::clone(&connection.service);
            let before = connection.listed.take();
            connection.listed = stage.map(|stage| DisplaceableEntry {
                stage,
                of_worker: self.displaceable.borrow_mut().add(id, stage),
                of_service: service.displaceable.borrow_mut().add(id, stage),
            });
            self.unlist(before, &service);
        }
    }

    /// Removes a connection from its lists.
    pub(super) fn unlist(&self, before: Option<DisplaceableEntry>, service: &Service) {
        if let Some(before) = before {
            self.displaceable.borrow_mut().remove(before.of_worker);
            service.displaceable.borrow_mut().remove(before.of_service);
        }
        let (all, allowances) = (self.displaceable.borrow(), &self.allowances);
        let of_service = service.displaceable.borrow().count(DisplaceableStage::ALL);
        service.plan.open().publish(self.index, of_service);
        let publish = |to: &Allowance, stages| to.publish(self.index, all.count(stages));
        publish(&allowances.connections, DisplaceableStage::ALL);
        publish(&allowances.handshakes, DisplaceableStage::HANDSHAKING);
    }

    pub(super) fn release(&self, service: &Service) {
        self.allowances.connections.give();
        service.plan.open().give();
    }

    /// Counts a connection that was reset as soon as it was accepted.
    fn refused(&mut self, place: usize, peer: PeerAddress, reason: Reason) {
        let Some(listener) = self.listeners.at(place) else {
            return;
        };
        self.next_connection += 1 << 8;
        let counters = &listener.service.counters;
        counters.count(ServiceCounter::ConnectionsAccepted);
        counters.ended(reason);
        self.lines.report_refused(self.next_connection, listener, peer, reason, self.now);
    }

    /// Accepts and resets a connection with the reserve descriptor when none is left, so that the
    /// client knows and is counted instead of waiting in vain.
    fn reject_on_emfile(&mut self, place: usize) -> io::Result<()> {
        let Some(listener) = self.listeners.at(place) else {
            return Err(ErrorKind::WouldBlock.into());
        };
        self.reserve = None;
        let refused = self.driver.accept(&listener.fd).map(|(fd, peer)| {
            self.driver.refuse(fd);
            peer
        });
        self.reserve = self.waker.as_fd().try_clone_to_owned().ok();
        let peer = refused?;
        self.refused(place, peer, Reason::DescriptorLimit);
        Ok(())
    }
}
