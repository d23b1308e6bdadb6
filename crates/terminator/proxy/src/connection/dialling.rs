//! How a connection gets its back: by dials, of which the TLS handshake is a part, or at once.

use std::time::{Duration, Instant};

use flow::events::Event;
use flow::facts::Ending;

use super::{Connection, Context};
use crate::back::Back;
use crate::clock;
use crate::dial::Dialled;
use crate::driver::Socket;
use crate::files::FileBack;

/// How old a server's connection is when the kernel is told to probe it: four system calls that
/// most connections of one request do without. None is lost so soon; the kernel counts from when
/// something last came.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(1);

impl Connection {
    /// Makes the kernel probe a server that is connected for long enough.
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

    /// Closes a server that took too long or whose TLS failed; it gets the alert that says so. How
    /// the connection ends, if no other server is to be tried.
    pub(super) fn give_server_up(&mut self, context: &mut Context<'_>) -> Option<Ending> {
        let pending = self.flow.back_pending();
        if let Some(Back::Server(server)) = self.back.as_mut().filter(|_| !pending[0].is_empty()) {
            // It fits the socket's buffer, or the server is not there to read it.
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
        let failed = self
            .dial
            .tls_failed(service, fault, is_of_client, context.now);
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

    /// Dials once more if the servers were only busy or full, and it is time or its turn has come;
    /// returns whether it did.
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
        let won = self
            .dial
            .race(service, driver, token, &self.flow, context.now);
        let Some(socket) = won else {
            return false;
        };
        self.dial_started(socket, context);
        self.connected(context);
        true
    }

    /// The server being dialled has answered.
    pub(super) fn dial_answered(
        &mut self,
        error: Option<std::io::Error>,
        context: &mut Context<'_>,
    ) {
        match error {
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
        if self.service.settings.back_tls.is_none() {
            self.dial.succeeded(&self.service, now);
        }
        self.flow.handle(Event::BackConnected, now, context.pool);
    }
}
