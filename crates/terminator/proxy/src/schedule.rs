//! The order in which a worker serves connections, and how long before it checks for events again.
//!
//! Only the order is handled here, not the connections. There are three classes, each with a slice
//! of the turn: established connections that move little, handshakes, and bulk. A turn is over when
//! each class has used its slice or has nothing to do, so new connections, timers and events wait
//! for the sum of the slices and at most one overrun of each, however much the others have to do.
//! The first and the last class are served round robin. A connection is bulk as long as each of its
//! turns moves much (HAProxy: `TASK_HEAVY`, `TL_BULK`).
//!
//! Handshakes that were answered once go first, in the order in which they came back: the
//! rest of them is cheap, and a signature made in vain is the dearest loss. Of newcomers, those
//! that offer a session go first: to resume it takes a tenth of a signature's time, and the time
//! spent on its beginning is lost if the client is not served. They leave the others a share,
//! because an offered session need not resume.
//!
//! Newcomers of either kind are served in their order as long as that keeps their wait bounded.
//! When it does not, more come than can be served, and the order of arrival would serve only
//! clients that are about to give up: every client would wait for its own time limit, and none get
//! through. Then the newest is served first, so that as many clients are served as the CPU can sign
//! for, and at once ("adaptive LIFO": B. Maurer, Fail at Scale, ACM Queue 13(8), 2015).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use wire::client_hello::{self, HelloProgress};
use wire::proxy_header;

use crate::driver::ConnectionId;

/// Time for which connections that move little may keep the others waiting. A request of 1 KiB
/// takes a fiftieth of it.
const SMALL_SLICE: Duration = Duration::from_micros(500);

/// Time for which handshakes may. One RSA-2048 signature takes about as long, one RSA-4096
/// signature four times as long: never more than one above it.
const HANDSHAKE_SLICE: Duration = Duration::from_micros(500);

/// Time for which bulk may: about as long as one connection takes to move all that it may in a
/// turn. A request waits for it twice and a new connection four times, while the turn's check for
/// events costs a hundredth of it.
const BULK_SLICE: Duration = Duration::from_micros(300);

/// Class in which a connection is served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Class {
    /// Established, and its last turn moved little.
    Small,
    /// A handshake that was answered once: the rest of it is cheap.
    Answered,
    /// A handshake that was not answered yet, of a client that offers a session.
    Resuming,
    /// A handshake that was not answered yet.
    Newcomer,
    /// Established, and its last turn moved much.
    Bulk,
}

/// The slices of a turn, in their order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum TurnSlice {
    Small,
    Handshakes,
    Bulk,
}

/// Connections that have work to do.
pub(crate) struct Schedule {
    small: VecDeque<ConnectionId>,
    handshakes: Handshakes,
    bulk: VecDeque<ConnectionId>,
    /// The slice that is being used, and since when.
    slice: TurnSlice,
    since: Instant,
}

impl Schedule {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            small: VecDeque::new(),
            handshakes: Handshakes::default(),
            bulk: VecDeque::new(),
            slice: TurnSlice::Small,
            since: now,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.small.is_empty() && self.handshakes.is_empty() && self.bulk.is_empty()
    }

    /// Puts a connection at the end of its class.
    pub(crate) fn add(&mut self, id: ConnectionId, class: Class, now: Instant) {
        match class {
            Class::Small => self.small.push_back(id),
            Class::Answered => self.handshakes.add_answered(id),
            Class::Resuming => self.handshakes.add_resuming(id, now),
            Class::Newcomer => self.handshakes.add_newcomer(id, now),
            Class::Bulk => self.bulk.push_back(id),
        }
    }

    /// Reports whether enough newcomers wait for their order to matter.
    pub(crate) fn is_crowded(&self) -> bool {
        self.handshakes.is_crowded()
    }

    /// Reports whether newcomers wait longer than they should.
    pub(crate) fn is_overrun(&self, now: Instant) -> bool {
        self.handshakes.is_overrun(now)
    }

    /// Begins a turn. Forgets the oldest newcomers that have ended.
    pub(crate) fn begin_turn(&mut self, now: Instant, is_open: impl FnMut(ConnectionId) -> bool) {
        self.handshakes.forget_ended(is_open);
        (self.slice, self.since) = (TurnSlice::Small, now);
    }

    /// Returns the connection to be served now, which may have ended since it was added; `None` =
    /// the turn is over.
    pub(crate) fn next(&mut self, now: Instant) -> Option<ConnectionId> {
        self.handshakes.charge(now);
        loop {
            let used = now.saturating_duration_since(self.since);
            let (length, next) = match self.slice {
                TurnSlice::Small => (SMALL_SLICE, Some(TurnSlice::Handshakes)),
                TurnSlice::Handshakes => (HANDSHAKE_SLICE, Some(TurnSlice::Bulk)),
                TurnSlice::Bulk => (BULK_SLICE, None),
            };
            let id = (used < length).then(|| self.first(now)).flatten();
            if id.is_some() {
                return id;
            }
            (self.slice, self.since) = (next?, now);
        }
    }

    fn first(&mut self, now: Instant) -> Option<ConnectionId> {
        match self.slice {
            TurnSlice::Small => self.small.pop_front(),
            TurnSlice::Handshakes => self.handshakes.next(now),
            TurnSlice::Bulk => self.bulk.pop_front(),
        }
    }
}

/// Time for the client to close, after it was sent the end.
const LOOK_AFTER: Duration = Duration::from_millis(5);

/// Time after which the worker wakes for such connections. A server gets the client's end at most
/// so much later, and few servers serve nobody else until then.
const WAKE_AFTER: Duration = Duration::from_millis(10);

/// Longest handshake of a client that may linger. After a longer one, the client is too far away to
/// close in time, or this host too busy to gain anything.
pub(crate) const HANDSHAKE_MAX: Duration = Duration::from_millis(5);

/// Events in a quiet turn. With more, a worker seldom sleeps, and one more costs little.
pub(crate) const EVENTS_MAX: usize = 4;

/// Lingering connections that are read in a turn: each may have something to relay.
pub(crate) const LOOKS_PER_TURN: usize = 16;

/// Connections that are not in epoll, those that linger longest first.
#[derive(Default)]
pub(crate) struct LingeringConnections(VecDeque<(ConnectionId, Instant)>);

impl LingeringConnections {
    pub(crate) fn add(&mut self, id: ConnectionId, now: Instant) {
        self.0.push_back((id, now));
    }

    /// Returns a connection that is to be read now. The connection may have ended.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<ConnectionId> {
        let (id, since) = *self.0.front()?;
        let is_due = now.saturating_duration_since(since) >= LOOK_AFTER;
        is_due.then(|| self.0.pop_front()).map(|_| id)
    }

    /// Returns when the worker needs a turn for lingering connections.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        self.0.front().map(|(_, since)| *since + WAKE_AFTER)
    }
}

/// Longest wait of a newcomer before the newest go first. Shorter than clients wait for an answer,
/// longer than a burst of a few hundred of the dearest signatures. At its capacity a worker's mean
/// response stays below it; with a fifth of it, bursts at capacity would leave behind one in a
/// hundred.
const PATIENCE: Duration = Duration::from_millis(500);

/// Number of waiting newcomers from which their hellos are read to order them.
const CROWD: usize = 8;

/// Bytes read of a hello: enough for ML-KEM's key share, a ticket and a PROXY header.
pub(crate) const HELLO_BYTES: usize = 4 << 10;

/// Time that newcomers with a session may use for each unit that the others use, while both wait.
const RESUMING_SHARE: u32 = 7;

/// Longest time that they may use at once.
const CREDIT_MAX: Duration = Duration::from_millis(50);

/// Handshakes that have work to do.
#[derive(Default)]
pub(crate) struct Handshakes {
    answered: VecDeque<ConnectionId>,
    resuming: HandshakeQueue,
    newcomers: HandshakeQueue,
    /// Time that resuming newcomers may use before a newcomer without a session goes.
    credit: Duration,
    /// Whether the newcomer being served offers a session, and since when it is served.
    serving: Option<(bool, Instant)>,
}

/// Reports whether a client's first bytes are a hello that offers a session.
pub(crate) fn offer_session(mut bytes: &[u8]) -> bool {
    if let Ok(Some(header)) = proxy_header::read(bytes) {
        bytes = bytes.get(header.wire_bytes..).unwrap_or_default();
    }
    matches!(client_hello::read(bytes), Ok(HelloProgress::Hello(hello)) if hello.offers_session())
}

/// Newcomers, and since when they wait.
#[derive(Default)]
struct HandshakeQueue(VecDeque<(ConnectionId, Instant)>);

impl Handshakes {
    pub(crate) fn is_empty(&self) -> bool {
        self.answered.is_empty() && self.resuming.0.is_empty() && self.newcomers.0.is_empty()
    }

    /// Reports whether enough newcomers wait for their order to matter.
    pub(crate) fn is_crowded(&self) -> bool {
        self.resuming.0.len() + self.newcomers.0.len() >= CROWD
    }

    /// Adds a handshake that was answered, and has come back.
    pub(crate) fn add_answered(&mut self, id: ConnectionId) {
        self.answered.push_back(id);
    }

    /// Adds a newcomer that offers a session.
    pub(crate) fn add_resuming(&mut self, id: ConnectionId, now: Instant) {
        self.resuming.0.push_back((id, now));
    }

    /// Adds a newcomer without a session.
    pub(crate) fn add_newcomer(&mut self, id: ConnectionId, now: Instant) {
        self.newcomers.0.push_back((id, now));
    }

    /// Returns the handshake to be served now. The connection may have ended since it was added.
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

    /// Reports whether newcomers wait longer than they should.
    pub(crate) fn is_overrun(&self, now: Instant) -> bool {
        self.resuming.is_overrun(now) || self.newcomers.is_overrun(now)
    }

    /// Forgets the oldest newcomers that have ended, because nobody waits there any more.
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
