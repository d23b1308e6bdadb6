//! Which connections are to be given up when: all wait equally long, so the first is first.

use std::collections::VecDeque;
use std::time::Instant;

/// When to look whether a connection has done what it should.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Deadline {
    /// The end of its time.
    pub(crate) at: Instant,
    pub(crate) key: usize,
    /// Its number: the place may have gone to another.
    pub(crate) serial: u32,
}

/// All of them, in the order of their instants.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(VecDeque<Deadline>);

impl Deadlines {
    /// Adds one, which is not before any that was added.
    pub(crate) fn push(&mut self, deadline: Deadline) {
        self.0.push_back(deadline);
    }

    /// Takes the first one if its time is over. Those at the front that hold no more are dropped,
    /// so that what has ended long before its time does not heap up.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        holds: impl Fn(&Deadline) -> bool,
    ) -> Option<Deadline> {
        while self.0.front().is_some_and(|first| !holds(first)) {
            self.0.pop_front();
        }
        match self.0.front() {
            Some(first) if first.at <= now => self.0.pop_front(),
            _ => None,
        }
    }

    /// The instant of the first.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.0.front().map(|deadline| deadline.at)
    }
}
