//! The figures of a load so far: sums over its seconds.

use std::collections::BTreeMap;

use load::run::SecondProgress;
use measure::choice::Kind;
use measure::histogram::Histogram;
use measure::record::{Second, TransactionCounts};

/// Seconds that are kept one by one, for the eye: a row of a wide terminal.
const SECONDS_KEPT: usize = 240;

#[derive(Clone, Debug, Default)]
pub(crate) struct LoadProgress {
    pub(crate) seconds: u64,
    pub(crate) counts: TransactionCounts,
    pub(crate) failures: BTreeMap<String, u64>,
    pub(crate) handshakes: BTreeMap<Kind, u64>,
    /// Response times of those that succeeded.
    pub(crate) total: Histogram,
    /// The last one.
    pub(crate) last: Second,
    /// Successes in each of the last seconds.
    pub(crate) succeeded: Vec<u64>,
}

impl LoadProgress {
    pub(crate) fn add(&mut self, more: &SecondProgress) {
        let Second { attempted, succeeded, failed, .. } = more.second;
        self.seconds += 1;
        let attempted = attempted + more.late;
        self.counts += TransactionCounts { attempted, succeeded, failed };
        for (reason, count) in &more.failures {
            *self.failures.entry(reason.clone()).or_default() += count;
        }
        for (kind, count) in &more.handshakes {
            *self.handshakes.entry(*kind).or_default() += count;
        }
        self.total.add(&more.total);
        self.last = more.second;
        if self.succeeded.len() == SECONDS_KEPT {
            self.succeeded.remove(0);
        }
        self.succeeded.push(succeeded);
    }
}
