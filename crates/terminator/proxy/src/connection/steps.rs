//! The steps of a connection: admission, fetching its session, getting its back, and noticing a
//! peer that is gone or too slow.
//!
//! Servers are reached by dials, of which the TLS handshake is a part; files at once.

use std::time::{Duration, Instant};

use flow::events::Event;
use flow::facts::ConnectionEnd;
use flow::options::Front;
use telemetry::catalogue::ServiceCounter;
use telemetry::outcome::{Reason, SessionTier};

use super::{Connection, Context};
use crate::back::Back;
use crate::clock;
use crate::commands::Command;
use crate::dial::Dialled;
use crate::driver::{Socket, is_unreachable};
use crate::files::FileBack;
use crate::options::RateMin;

/// Age of a server's connection at which the kernel begins to probe it: four system calls that most
/// connections of one request avoid. No peer is lost so soon; the kernel counts from the time when
/// something last came.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(1);

impl Connection {
    /// Makes the kernel probe a server that has been connected for long enough.
    pub(super) fn keep_alive(&mut self, now: Instant) {
        if self.keep_alive_at.is_none_or(|due| due > now) {
            return;
        }
        self.keep_alive_at = None;
        if let (Some(Back::Server(server)), Some(idle)) =
            (&self.back, self.service.plan.liveness.keepalive)
        {
            server.keep_alive(idle);
        }
    }

    /// Closes a server that took too long or whose TLS failed, after sending it the alert. Returns
    /// how the connection ends, if no other server is to be tried.
    pub(super) fn give_server_up(&mut self, context: &mut Context<'_>) -> Option<ConnectionEnd> {
        let pending = self.flow.back_pending();
        if let Some(Back::Server(server)) = self.back.as_mut().filter(|_| !pending[0].is_empty()) {
            // The alert fits the socket's buffer, or the server is not there to read it.
            let _ = server.send(pending[0]);
        }
        self.back = None;
        let fault = self.flow.take_back_fault(context.pool);
        let Some(fault) = fault else {
            return self.dial.timed_out(&self.service, context.now);
        };
        let tls = self.service.settings.back_tls.as_ref();
        let is_of_client = tls.is_some_and(|tls| tls.client.follows_client());
        let service = &self.service;
        let failed = self.dial.tls_failed(service, fault, is_of_client, context.now);
        failed.err()
    }

    pub(super) fn dial(&mut self, context: &mut Context<'_>) {
        match &self.service.plan.files {
            Some(files) => {
                let counters = &self.service.counters;
                let files = FileBack::new(files, counters, context.file_context, self.back_token);
                self.back = Some(Back::Files(Box::new(files)));
                let now = clock::now();
                self.flow.handle(Event::BackConnected, now, context.pool);
            }
            None => self.dial_server(context),
        }
    }

    fn dial_server(&mut self, context: &mut Context<'_>) {
        let dialled = self.dial.start(
            &self.service,
            context.driver,
            context.calls,
            self.back_token,
            &self.flow,
        );
        match dialled {
            Dialled::Connected(socket) => {
                self.dial_started(socket, context);
                self.connected(context);
            }
            Dialled::UnderWay(socket) => self.dial_started(socket, context),
            Dialled::Later => {}
            Dialled::Exhausted(ending) => self.handle(Event::DialFailed(ending), context),
        }
    }

    fn dial_started(&mut self, mut socket: Socket, context: &mut Context<'_>) {
        context.driver.rename(&mut socket, self.back_token);
        self.back = Some(Back::Server(socket));
        let started = self.dial.started().unwrap_or(context.now);
        self.flow.handle(Event::DialStarted, started, context.pool);
        if let Some(server) = self.dial.server() {
            let is_local = self.dial.is_local();
            let chosen = Event::ServerChosen { server, is_local };
            self.flow.handle(chosen, started, context.pool);
        }
    }

    /// Dials again if the servers were only busy or full, and its time or turn has come; returns
    /// whether it did.
    pub(super) fn dial_again(&mut self, context: &mut Context<'_>) -> bool {
        let is_due = self.dial.is_due(context.now) && self.flow.is_dialling();
        if is_due {
            self.dial_server(context);
        }
        is_due
    }

    /// Goes on with another address of the server that was answered first; returns whether one was.
    pub(super) fn race(&mut self, context: &mut Context<'_>) -> bool {
        let (service, driver) = (&self.service, context.driver);
        let token = self.back_token;
        let won = self.dial.race(service, driver, token, &self.flow, context.now);
        let Some(socket) = won else {
            return false;
        };
        self.dial_started(socket, context);
        self.dial_answered(None, context);
        true
    }

    /// Handles the answer of the server being dialled.
    pub(super) fn dial_answered(
        &mut self,
        error: Option<std::io::Error>,
        context: &mut Context<'_>,
    ) {
        match error {
            None if self.dial.is_called_off(&self.service) => {
                self.back = None;
                self.dial(context);
            }
            None => self.connected(context),
            Some(error) => {
                self.back = None;
                match self.dial.failed(&self.service, &error, context.now) {
                    Ok(()) => self.dial(context),
                    Err(ending) => self.handle(Event::DialFailed(ending), context),
                }
            }
        }
    }

    fn connected(&mut self, context: &mut Context<'_>) {
        // The turn's own instant may lie before the dial began.
        let now = clock::now();
        self.dial.connected(&self.service, now);
        let keepalive = self.service.plan.liveness.keepalive;
        self.keep_alive_at = keepalive.map(|_| now + KEEP_ALIVE_AFTER);
        let settings = &self.service.settings;
        if settings.back_tls.is_none() && settings.tunnel.is_none() {
            self.dial.succeeded(&self.service, now);
        }
        self.flow.handle(Event::BackConnected, now, context.pool);
    }
}

impl Connection {
    /// Handles failed sockets first: a client's reset saves cryptography and a dial.
    pub(super) fn take_failures(&mut self, context: &mut Context<'_>) {
        if self.front.has_failed() {
            let error = self.front.take_error();
            let event = if error.is_some_and(|error| is_unreachable(&error)) {
                Event::Stopped(Reason::ClientUnreachable)
            } else {
                Event::FrontFailed
            };
            self.handle(event, context);
        }
        let Some(back) = self.back.as_mut().filter(|_| !self.flow.is_over()) else {
            return;
        };
        let has_failed = back.has_failed();
        if self.dial.is_under_way() {
            if has_failed || back.is_writable() {
                let error = has_failed.then(|| back.take_error()).flatten();
                self.dial_answered(error, context);
            }
        } else if has_failed {
            back.break_off();
            self.handle(Event::BackRefused, context);
        }
    }

    /// Watches a client that has bytes waiting, if its service demands a rate.
    pub(super) fn watch_client(&mut self, now: Instant) {
        if let Some(rate) = self.rate_min().filter(|_| !self.front.is_writable()) {
            let progress = || self.front.progress();
            self.slow_client.watch(rate, now, progress);
        }
    }

    /// Judges a client whose time is over.
    pub(super) fn is_too_slow(&mut self, now: Instant) -> bool {
        let is_due = self.slow_client.deadline().is_some_and(|end| end <= now);
        let rate = self.rate_min().filter(|_| is_due);
        rate.is_some_and(|rate| {
            let progress = self.front.progress();
            self.slow_client.is_too_slow(rate, now, progress)
        })
    }

    /// Reports whether client or server takes what the kernel holds for it; `None` = not yet known.
    pub(super) fn takes(&mut self) -> Option<bool> {
        let server = match &mut self.back {
            Some(Back::Server(server)) => server.takes(),
            _ => Some(false),
        };
        match (self.front.takes(), server) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (front, server) => front.and(server),
        }
    }

    /// Returns the rate at which the client must take what it is sent.
    fn rate_min(&self) -> Option<RateMin> {
        self.service.plan.files.as_ref()?.timeouts.rate_min
    }
}

impl Connection {
    /// Fetches the session that the client offers.
    pub(super) fn fetch_session(&mut self, context: &mut Context<'_>) {
        let (mailbox, token) = (context.file_context.mailbox().clone(), self.back_token);
        let answer = move |tier| mailbox.send(Command::SessionFetched { token, tier });
        let settings = &self.service.settings;
        let (wanted, passing) = (self.flow.wanted_session(), &settings.passing_sessions);
        match (wanted, &settings.front, passing) {
            (Some(key), Front::Terminate(server), _) => server.fetch(key, Box::new(answer)),
            (Some(key), _, Some(sessions)) => sessions.fetch(key, Box::new(answer)),
            _ => self.handle(Event::SessionFetched(SessionTier::Nowhere), context),
        }
    }
}

impl Connection {
    /// Counts bytes that bypassed our buffers.
    pub(super) fn count_passed(&mut self, count: usize, way: ServiceCounter) {
        self.passed += count as u64;
        self.service.counters.add(way, count as u64);
    }

    /// Adds to the counters what was relayed since the last call.
    pub(super) fn count_bytes(&mut self) {
        let facts = self.flow.facts();
        // A dialog's own words may wait among those of the client.
        let up = self.flow.bytes_up().saturating_sub(self.counted_up);
        let down = facts.bytes_down - self.counted_down;
        if up == 0 && down == 0 {
            return;
        }
        self.counted_up += up;
        self.counted_down = facts.bytes_down;
        self.service.counters.add(ServiceCounter::BytesUp, up);
        self.service.counters.add(ServiceCounter::BytesDown, down);
        let through_us = down - std::mem::take(&mut self.passed);
        let path = if facts.offloaded {
            ServiceCounter::SentToKernel
        } else {
            ServiceCounter::SentByUserSpace
        };
        self.service.counters.add(path, through_us);
        self.dial.count_bytes(&self.service, up, down);
    }
}

impl Connection {
    /// Admits the client, or resets the connection.
    pub(super) fn admit(&mut self, context: &mut Context<'_>) {
        let client = self.flow.facts().route.source.map(|source| source.ip());
        let rules = &self.service.plan.sources;
        match context.sources.admit(rules, client, context.now) {
            Ok(source) => {
                self.source = source;
                self.handle(Event::Admitted, context);
            }
            Err(reason) => {
                self.front.reset_on_close();
                self.handle(Event::Stopped(reason), context);
            }
        }
    }
}
