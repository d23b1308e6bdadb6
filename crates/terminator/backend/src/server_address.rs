//! One address of a server: its failed dials, its ejection, its check.
//!
//! Owns what is known about it. A server has as many as its name stands for, and no address answers
//! for another one.

use std::time::{Duration, Instant};

use wire::address::Address;

use crate::options::PassiveOptions;

#[derive(Clone, Debug)]
pub(crate) struct ServerAddress {
    pub(crate) address: Address,
    /// Failed dials in a row.
    pub(crate) failures: u32,
    /// Ejected, and when the next trial is due.
    trial_at: Option<Instant>,
    is_checked_down: bool,
}

impl ServerAddress {
    /// An address of which nothing is known, and which is used for that.
    pub(crate) fn new(address: Address) -> Self {
        Self { address, failures: 0, trial_at: None, is_checked_down: false }
    }

    /// Keeps what an earlier plan had learnt about the same address.
    pub(crate) fn inherit(&mut self, before: &Self, is_checked: bool) {
        *self = before.clone();
        self.is_checked_down &= is_checked;
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.is_checked_down
    }

    pub(crate) fn is_ejected(&self) -> bool {
        self.trial_at.is_some()
    }

    /// It is dialled as if nothing were the matter.
    pub(crate) fn is_up(&self) -> bool {
        self.is_usable() && !self.is_ejected()
    }

    pub(crate) fn is_trial_due(&self, now: Instant) -> bool {
        self.is_usable() && self.trial_at.is_some_and(|at| at <= now)
    }

    /// A dial is begun. If a trial was due, the one after it waits a pause, so that a trial whose
    /// end is never told blocks nothing.
    pub(crate) fn dialled(&mut self, now: Instant, ejection_time: Duration) {
        if self.is_trial_due(now) {
            self.trial_at = Some(now + ejection_time);
        }
    }

    pub(crate) fn dial_succeeded(&mut self) {
        (self.failures, self.trial_at) = (0, None);
    }

    /// A trial that no connection went on with was accepted. That says nothing of what comes after
    /// it, such as TLS: the next failure ejects again.
    pub(crate) fn trial_accepted(&mut self, passive: &PassiveOptions) {
        (self.failures, self.trial_at) = (passive.failures.saturating_sub(1), None);
    }

    pub(crate) fn dial_failed(&mut self, now: Instant, passive: &PassiveOptions) {
        self.failures = self.failures.saturating_add(1);
        if passive.failures > 0 && self.failures >= passive.failures {
            self.trial_at = Some(now + passive.ejection_time);
        }
    }

    /// A check that succeeds again outweighs the dials that failed before it.
    pub(crate) fn set_checked(&mut self, up: bool) {
        if up && self.is_checked_down {
            self.dial_succeeded();
        }
        self.is_checked_down = !up;
    }
}
