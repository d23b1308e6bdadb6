//! Worker processes that an earlier program has started: one that serves until ours does, and those
//! that drain.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use sys::clock;

use super::state::WorkerState;
use crate::handover::Order;
use crate::supervisor::child::{Child, WORKER};

/// Time that a worker process may take beyond the drain's to close the rest.
pub(crate) const DRAIN_GRACE: Duration = Duration::from_secs(5);

/// A worker process of an earlier program.
pub(crate) struct Earlier {
    pub(crate) child: Child,
    /// Deadline of its drain; `None` if it serves.
    pub(crate) drains_until: Option<Instant>,
}

/// Returns a worker process's state for the next program.
pub(crate) fn state_of(child: &Child, drains_until: Option<Instant>) -> WorkerState {
    let left = drains_until.map(|until| until.saturating_duration_since(Instant::now()));
    let at = left.map(|left| (clock::monotonic() + left).as_millis());
    WorkerState {
        number: child.number(),
        pid: child.pid(),
        drains_until_ms: at.map(|at| u64::try_from(at).unwrap_or(u64::MAX)),
    }
}

impl Earlier {
    /// Returns the worker processes of the previous program, with their channels.
    pub(crate) fn all(states: &[WorkerState], channels: Vec<OwnedFd>) -> io::Result<Vec<Self>> {
        let each = states.iter().zip(channels).map(|(state, channel)| {
            let left = state
                .drains_until_ms
                .map(|at| Duration::from_millis(at).saturating_sub(clock::monotonic()));
            Ok(Self {
                child: Child::lent((state.number, state.pid), &WORKER, channel)?,
                drains_until: left.map(|left| Instant::now() + left),
            })
        });
        each.collect()
    }

    /// Whether it is the one that serves until ours does.
    pub(crate) fn serves(&self) -> bool {
        self.drains_until.is_none()
    }

    /// Takes ownership of the process and drains it.
    pub(crate) fn drain(&mut self, time: Duration) {
        self.child.keep();
        if !self.serves() {
            return;
        }
        self.drains_until = Some(Instant::now() + time + DRAIN_GRACE);
        let is_replaced = true;
        // A process that takes no order ends, which is reported.
        if self.child.send(&Order::Drain { time, is_replaced }, &[]).is_err() {
            self.child.kill();
        }
    }
}
