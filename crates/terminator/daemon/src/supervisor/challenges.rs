//! Challenges of authorities: which are in place, and which are on their way there.

use std::collections::{BTreeMap, VecDeque};

use acme::messages::Challenge;

use crate::acme_hook::Hook;
use crate::certificates::Validations;

/// Challenges at a time; an order of 100 names has as many.
pub(super) const CHALLENGES_MAX: usize = 10_000;

/// Programs at a time: a name server's interface may take few, and each is a process.
pub(super) const HOOKS_MAX: usize = 4;

#[derive(Default)]
pub(super) struct PendingChallenges {
    /// The ones that workers answer, or are to.
    pub(super) answered: BTreeMap<u64, Challenge>,
    /// Records that are in the DNS, or are being put there.
    pub(super) records: BTreeMap<u64, Hook>,
    /// The number of the last order to workers.
    number: u64,
    /// Challenges that are in place once workers have taken the order of that number.
    pub(super) asked: VecDeque<(u64, u64)>,
    pub(super) hooks: VecDeque<(u64, Hook)>,
    pub(super) running: usize,
}

impl PendingChallenges {
    /// All that workers are to answer, with the order's number.
    pub(super) fn in_place(&mut self) -> (u64, Validations) {
        self.number += 1;
        let mut validations = Validations::default();
        for challenge in self.answered.values() {
            match challenge.clone() {
                Challenge::TlsAlpn { identifier, digest } => {
                    validations.tls.push((identifier, digest));
                }
                Challenge::Http { token, key_authorization } => {
                    validations.http.push((token, key_authorization));
                }
                Challenge::Dns { .. } => {}
            }
        }
        (self.number, validations)
    }

    /// One that is in place, or on its way there.
    pub(super) fn any(&self) -> Option<u64> {
        self.answered.keys().chain(self.records.keys()).next().copied()
    }

    pub(super) fn is_known(&self, id: u64) -> bool {
        self.answered.contains_key(&id) || self.records.contains_key(&id)
    }
}
