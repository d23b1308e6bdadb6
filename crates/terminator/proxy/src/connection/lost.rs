//! Signs that a peer is gone, or that a client takes what it asked for too slowly.

use std::time::Instant;

use flow::events::Event;
use telemetry::outcome::Reason;

use super::{Connection, Context};
use crate::back::Back;
use crate::driver::is_unreachable;
use crate::options::RateMin;

impl Connection {
    /// A client that has reset its connection costs no more cryptography and no dial.
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

    /// Watches a client for which bytes wait, if its service wants a rate.
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

    /// Whether one of the two takes what the kernel has for it; `None` = that has to be seen.
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

    /// How fast the client must take what it is sent.
    fn rate_min(&self) -> Option<RateMin> {
        self.service.plan.files.as_ref()?.timeouts.rate_min
    }
}
