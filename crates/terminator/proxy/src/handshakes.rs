//! Which handshake a worker serves next.
//!
//! Owns the order, and nothing of what a handshake is. Those that were answered once go first, in
//! the order in which they came back: what is left of them is cheap, and a signature that was made
//! for nobody is the dearest loss. Newcomers are served in their order as long as that keeps their
//! wait bounded. When it does not, more come than can be served, and the order of arrival would
//! serve only those who are about to give up: every client would wait for its own time limit, and
//! none get through. Then the newest is served first, so that as many clients are served as the
//! CPU can sign for, and at once ("adaptive LIFO": B. Maurer, Fail at Scale, ACM Queue 13(8),
//! 2015).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::token::ConnectionId;

/// How long a newcomer may wait before the newest go first. Shorter than clients wait for an
/// answer, longer than what a burst of a few hundred of the dearest signatures takes.
const PATIENCE: Duration = Duration::from_secs(1);

/// Handshakes with something to work on.
#[derive(Default)]
pub(crate) struct Handshakes {
    answered: VecDeque<ConnectionId>,
    newcomers: VecDeque<(ConnectionId, Instant)>,
}

impl Handshakes {
    pub(crate) fn is_empty(&self) -> bool {
        self.answered.is_empty() && self.newcomers.is_empty()
    }

    /// One that was answered, and has come back.
    pub(crate) fn add_answered(&mut self, id: ConnectionId) {
        self.answered.push_back(id);
    }

    /// One that has got nothing yet.
    pub(crate) fn add_newcomer(&mut self, id: ConnectionId, now: Instant) {
        self.newcomers.push_back((id, now));
    }

    /// The one to be served now. It may have ended since it was added.
    pub(crate) fn next(&mut self, now: Instant) -> Option<ConnectionId> {
        if let Some(id) = self.answered.pop_front() {
            return Some(id);
        }
        let next = if self.is_overrun(now) {
            self.newcomers.pop_back()
        } else {
            self.newcomers.pop_front()
        };
        next.map(|(id, _)| id)
    }

    /// Whether newcomers wait longer than they should.
    pub(crate) fn is_overrun(&self, now: Instant) -> bool {
        let oldest = self.newcomers.front();
        oldest.is_some_and(|(_, since)| now.saturating_duration_since(*since) > PATIENCE)
    }

    /// Forgets the oldest ones that have ended: nobody waits there any more.
    pub(crate) fn forget_ended(&mut self, mut is_open: impl FnMut(ConnectionId) -> bool) {
        while let Some((id, _)) = self.newcomers.front() {
            if is_open(*id) {
                return;
            }
            self.newcomers.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> ConnectionId {
        ConnectionId::of(number)
    }

    fn drained(queue: &mut Handshakes, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| queue.next(now).map(ConnectionId::bits)).collect()
    }

    fn with_newcomers(numbers: &[u64], since: Instant) -> Handshakes {
        let mut queue = Handshakes::default();
        for number in numbers {
            queue.add_newcomer(id(*number), since);
        }
        queue
    }

    #[test]
    fn those_that_were_answered_go_first_and_newcomers_in_order() {
        let now = Instant::now();
        let mut queue = with_newcomers(&[1, 2], now);
        queue.add_answered(id(3));
        queue.add_answered(id(4));
        assert!(!queue.is_empty());
        assert_eq!(drained(&mut queue, now + PATIENCE), [3, 4, 1, 2]);
        assert!(queue.is_empty());
    }

    #[test]
    fn the_newest_go_first_once_the_oldest_has_waited_too_long() {
        let now = Instant::now();
        let late = now + PATIENCE + Duration::from_millis(1);
        let mut queue = with_newcomers(&[1, 2, 3], now);
        assert!(!queue.is_overrun(now) && queue.is_overrun(late));
        queue.add_answered(id(9));
        assert_eq!(queue.next(late), Some(id(9)));
        assert_eq!(queue.next(late), Some(id(3)));
        queue.add_newcomer(id(4), late);
        assert_eq!(drained(&mut queue, late), [4, 2, 1]);
    }

    #[test]
    fn the_dead_do_not_make_the_living_impatient() {
        let now = Instant::now();
        let mut queue = with_newcomers(&[1, 2], now);
        let late = now + PATIENCE * 2;
        queue.add_newcomer(id(3), late);
        queue.add_newcomer(id(4), late);
        queue.forget_ended(|one| one.bits() > 2);
        assert!(!queue.is_overrun(late));
        assert_eq!(drained(&mut queue, late), [3, 4]);
    }
}
