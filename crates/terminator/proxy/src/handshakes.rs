//! The order in which a worker serves handshakes.
//!
//! Owns the order, and nothing of what a handshake is. Those that were answered once go first, in
//! the order in which they came back: what is left of them is cheap, and a signature that was made
//! for nobody is the dearest loss. Of newcomers, those that offer a session go first: to resume it
//! takes a tenth of a signature's time, and what was spent on its beginning is lost if the client
//! is not served. They leave the others a share, since what is offered need not resume.
//!
//! Newcomers of either kind are served in their order as long as that keeps their wait bounded.
//! When it does not, more come than can be served, and the order of arrival would serve only those
//! who are about to give up: every client would wait for its own time limit, and none get through.
//! Then the newest is served first, so that as many clients are served as the CPU can sign for,
//! and at once ("adaptive LIFO": B. Maurer, Fail at Scale, ACM Queue 13(8), 2015).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use wire::client_hello::{self, Peek};
use wire::proxy_header;

use crate::token::ConnectionId;

/// How long a newcomer may wait before the newest go first. Shorter than clients wait for an
/// answer, longer than what a burst of a few hundred of the dearest signatures takes. At its
/// capacity a worker's mean response stays below it; with a fifth of it, bursts at capacity would
/// leave behind one in a hundred.
const PATIENCE: Duration = Duration::from_millis(500);

/// From this number of newcomers on the order among them is worth a look at their hellos.
const CROWD: usize = 8;

/// A hello with a key share of ML-KEM and a ticket is shorter, behind a PROXY header as well.
pub(crate) const HELLO_BYTES: usize = 4 << 10;

/// Time that newcomers with a session may use for each unit that the others use, while both wait.
const RESUMING_SHARE: u32 = 7;

/// The most that they may use at once.
const CREDIT_MAX: Duration = Duration::from_millis(50);

/// Handshakes with something to work on.
#[derive(Default)]
pub(crate) struct Handshakes {
    answered: VecDeque<ConnectionId>,
    resuming: HandshakeQueue,
    newcomers: HandshakeQueue,
    /// Time that those who resume may use before a newcomer without a session goes.
    credit: Duration,
    /// Whether the newcomer being served offers a session, and since when it is served.
    serving: Option<(bool, Instant)>,
}

/// Whether a client's first bytes are a hello that offers a session.
pub(crate) fn offer_session(mut bytes: &[u8]) -> bool {
    if let Ok(Some(header)) = proxy_header::read(bytes) {
        bytes = bytes.get(header.wire_bytes..).unwrap_or_default();
    }
    matches!(client_hello::read(bytes), Ok(Peek::Hello(hello)) if hello.offers_session())
}

/// Newcomers, and since when they wait.
#[derive(Default)]
struct HandshakeQueue(VecDeque<(ConnectionId, Instant)>);

impl Handshakes {
    pub(crate) fn is_empty(&self) -> bool {
        self.answered.is_empty() && self.resuming.0.is_empty() && self.newcomers.0.is_empty()
    }

    /// Whether enough newcomers wait for their order to matter.
    pub(crate) fn is_crowded(&self) -> bool {
        self.resuming.0.len() + self.newcomers.0.len() >= CROWD
    }

    /// One that was answered, and has come back.
    pub(crate) fn add_answered(&mut self, id: ConnectionId) {
        self.answered.push_back(id);
    }

    /// One that has got nothing yet, and offers a session.
    pub(crate) fn add_resuming(&mut self, id: ConnectionId, now: Instant) {
        self.resuming.0.push_back((id, now));
    }

    /// One that has got nothing yet.
    pub(crate) fn add_newcomer(&mut self, id: ConnectionId, now: Instant) {
        self.newcomers.0.push_back((id, now));
    }

    /// The one to be served now. It may have ended since it was added.
    pub(crate) fn next(&mut self, now: Instant) -> Option<ConnectionId> {
        self.charge(now);
        if let Some(id) = self.answered.pop_front() {
            return Some(id);
        }
        let has_credit = !self.credit.is_zero() || self.newcomers.0.is_empty();
        let resumes = has_credit && !self.resuming.0.is_empty();
        let queue = if resumes { &mut self.resuming } else { &mut self.newcomers };
        let id = queue.next(now)?;
        self.serving = Some((resumes, now));
        Some(id)
    }

    /// Ends the time of the newcomer that was served last.
    pub(crate) fn charge(&mut self, now: Instant) {
        let Some((resumes, since)) = self.serving.take() else {
            return;
        };
        let used = now.saturating_duration_since(since);
        self.credit = if resumes {
            self.credit.saturating_sub(used)
        } else {
            (self.credit + used * RESUMING_SHARE).min(CREDIT_MAX)
        };
    }

    /// Whether newcomers wait longer than they should.
    pub(crate) fn is_overrun(&self, now: Instant) -> bool {
        self.resuming.is_overrun(now) || self.newcomers.is_overrun(now)
    }

    /// Forgets the oldest ones that have ended: nobody waits there any more.
    pub(crate) fn forget_ended(&mut self, mut is_open: impl FnMut(ConnectionId) -> bool) {
        self.resuming.forget_ended(&mut is_open);
        self.newcomers.forget_ended(is_open);
    }
}

impl HandshakeQueue {
    fn next(&mut self, now: Instant) -> Option<ConnectionId> {
        let next = if self.is_overrun(now) { self.0.pop_back() } else { self.0.pop_front() };
        next.map(|(id, _)| id)
    }

    fn is_overrun(&self, now: Instant) -> bool {
        let oldest = self.0.front();
        oldest.is_some_and(|(_, since)| now.saturating_duration_since(*since) > PATIENCE)
    }

    fn forget_ended(&mut self, mut is_open: impl FnMut(ConnectionId) -> bool) {
        while self.0.front().is_some_and(|(id, _)| !is_open(*id)) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
