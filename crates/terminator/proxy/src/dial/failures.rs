//! Failed attempts to reach a server: what each counts as, and what the connection does next.

use std::io;
use std::time::Instant;

use flow::facts::ConnectionEnd;
use telemetry::outcome::Reason;

use super::{Dial, PAUSE, Pause};
use crate::attempt::{FailureCause, judge};
use crate::service::Service;

impl Dial {
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

    pub(super) fn detail(&self, service: &Service, words: &dyn std::fmt::Display) -> String {
        let attempt = self.attempt.as_ref();
        attempt.map_or_else(|| words.to_string(), |one| one.detail(service, words))
    }

    pub(super) fn gave_up(
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
}
