//! The rest between the warm-up and the figures of a closed load.
//!
//! Threads that have nothing under way wait here until the caller lets them go on; so the caller
//! reads what the server used between two transactions, not amid them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Where threads wait for each other and for the caller.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: u16,
    /// When they went on; `None` = they have not.
    over: Option<Instant>,
}

impl Rest {
    /// A thread has nothing under way; it waits. When the rest was over, the same for all.
    pub(crate) fn wait_until_over(&self) -> Instant {
        let mut state = self.lock();
        state.waiting += 1;
        self.changed.notify_all();
        let over = self.changed.wait_while(state, |state| state.over.is_none());
        let over = over.unwrap_or_else(PoisonError::into_inner);
        over.over.expect("it is waited for")
    }

    /// Waits until `threads` threads wait; `false` = it was over before.
    pub(crate) fn wait_for(&self, threads: usize) -> bool {
        let is_missing =
            |state: &mut State| state.over.is_none() && usize::from(state.waiting) < threads;
        let state = self.changed.wait_while(self.lock(), is_missing);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        state.over.is_none()
    }

    /// Lets all go on, now and later.
    pub(crate) fn end(&self) {
        self.lock().over.get_or_insert_with(Instant::now);
        self.changed.notify_all();
    }

    pub(crate) fn over(&self) -> Option<Instant> {
        self.lock().over
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Numbers only: they hold whatever happened to a thread.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
