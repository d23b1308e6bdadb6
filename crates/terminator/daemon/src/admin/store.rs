//! The admin side's knowledge of the session store: noted by the thread that speaks to it, shown in
//! the status and the metrics.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use telemetry::catalogue::{Process, ProcessMetric as Metric};
use telemetry::counters::Counts;
use telemetry::outcome::{StoreFailure, StoreRejection, StoreUpdate};

use super::document::{StoreState, StoreStatus};

/// Facts about the store. Cloning shares them.
#[derive(Clone, Default)]
pub(crate) struct StoreNotes(Arc<Mutex<Notes>>);

#[derive(Default)]
struct Notes {
    /// `None` = there is none.
    status: Option<StoreStatus>,
    updates: [u64; StoreUpdate::ALL.len()],
    failures: [u64; StoreFailure::ALL.len()],
    rejections: [u64; StoreRejection::ALL.len()],
    openings: u64,
}

impl StoreNotes {
    /// This is known now; `None` = there is no store any more.
    pub(crate) fn set(&self, status: Option<StoreStatus>) {
        self.lock().status = status;
    }

    pub(crate) fn updated(&self, what: StoreUpdate) {
        self.lock().updates[what as usize] += 1;
    }

    pub(crate) fn failed(&self, why: StoreFailure) {
        self.lock().failures[why as usize] += 1;
    }

    pub(crate) fn rejected(&self, why: StoreRejection) {
        self.lock().rejections[why as usize] += 1;
    }

    /// It was given up for a while.
    pub(crate) fn given_up(&self) {
        self.lock().openings += 1;
    }

    pub(super) fn status(&self) -> Option<StoreStatus> {
        self.lock().status.clone()
    }

    pub(super) fn count(&self, counts: &mut Counts<Process>) {
        let notes = self.lock();
        let state = notes.status.as_ref().map(|status| status.state);
        let is_up = state.is_some_and(|state| state != StoreState::Down);
        counts.set(Metric::StoreUp, u64::from(is_up));
        let is_writable = state == Some(StoreState::Up);
        counts.set(Metric::StoreWritable, u64::from(is_writable));
        counts.set(Metric::StoreOpenings, notes.openings);
        for what in StoreUpdate::ALL {
            counts.set(update(*what), notes.updates[*what as usize]);
        }
        for why in StoreFailure::ALL {
            counts.set(failure(*why), notes.failures[*why as usize]);
        }
        for why in StoreRejection::ALL {
            counts.set(rejection(*why), notes.rejections[*why as usize]);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn update(what: StoreUpdate) -> Metric {
    match what {
        StoreUpdate::Published => Metric::StorePublished,
        StoreUpdate::Deleted => Metric::StoreDeleted,
        StoreUpdate::Failed => Metric::StoreFailed,
        StoreUpdate::Dropped => Metric::StoreDropped,
    }
}

fn failure(why: StoreFailure) -> Metric {
    match why {
        StoreFailure::Timeout => Metric::StoreTimeout,
        StoreFailure::Connection => Metric::StoreConnection,
        StoreFailure::Authentication => Metric::StoreAuthentication,
        StoreFailure::Full => Metric::StoreFull,
        StoreFailure::ReadOnly => Metric::StoreReadOnly,
        StoreFailure::Unready => Metric::StoreUnready,
        StoreFailure::Redirect => Metric::StoreRedirect,
        StoreFailure::Refused => Metric::StoreRefused,
    }
}

fn rejection(why: StoreRejection) -> Metric {
    match why {
        StoreRejection::Malformed => Metric::StoreMalformed,
        StoreRejection::Version => Metric::StoreVersion,
        StoreRejection::UnknownSecret => Metric::StoreUnknownSecret,
        StoreRejection::Forged => Metric::StoreForged,
        StoreRejection::Expired => Metric::StoreExpired,
        StoreRejection::Replayed => Metric::StoreReplayed,
    }
}
