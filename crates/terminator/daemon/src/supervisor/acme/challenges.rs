//! Challenges of authorities: which are in place, and the programs that put records into the DNS.

use std::collections::{BTreeMap, VecDeque};

use acme::messages::{AcmeOrder, Challenge};
use config::AcmeChallenge;

use super::super::Supervisor;
use super::super::events::Event;
use super::super::failure::Failure;
use super::super::reading::{Done, Readers};
use crate::acme_hook::Hook;
use crate::certificates::Validations;
use crate::handover::Order;
use crate::messages::warn;
use crate::reader::Task;

/// Challenges at a time; an order of 100 names has as many.
const CHALLENGES_MAX: usize = 10_000;

/// Programs at a time: a name server's interface may take few, and each is a process.
const HOOKS_MAX: usize = 4;

#[derive(Default)]
pub(super) struct Challenges {
    /// Those that workers answer, or are to.
    answered: BTreeMap<u64, Challenge>,
    /// Records that are in the DNS, or are being put there.
    records: BTreeMap<u64, Hook>,
    /// The number of the last order to workers.
    number: u64,
    /// Challenges that are in place once workers have taken the order of that number.
    asked: VecDeque<(u64, u64)>,
    hooks: VecDeque<(u64, Hook)>,
    running: usize,
}

impl Challenges {
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

    fn is_known(&self, id: u64) -> bool {
        self.answered.contains_key(&id) || self.records.contains_key(&id)
    }
}

impl Supervisor<'_> {
    pub(super) fn prepare_challenge(&mut self, id: u64, name: &str, challenge: Challenge) {
        let challenges = &mut self.acme.challenges;
        let count = challenges.answered.len() + challenges.records.len();
        if count >= CHALLENGES_MAX || challenges.is_known(id) {
            let why = "too many challenges, or one of the same number".to_owned();
            return self.acme.send(AcmeOrder::ChallengeFailed { id, why });
        }
        let Challenge::Dns { domain, record, value } = challenge else {
            challenges.answered.insert(id, challenge);
            let (number, validations) = challenges.in_place();
            challenges.asked.push_back((number, id));
            return self.tell(&Order::Validations(number, validations));
        };
        let entry = self.acme.options.entries.iter().find(|entry| entry.name == name);
        let Some(AcmeChallenge::Dns { hook, timeout }) = entry.map(|entry| entry.challenge.clone())
        else {
            let why = "the configuration names no program for the DNS".to_owned();
            return self.acme.send(AcmeOrder::ChallengeFailed { id, why });
        };
        let hook = Hook { program: hook, timeout, presents: true, domain, record, value };
        let challenges = &mut self.acme.challenges;
        challenges.records.insert(id, hook.clone());
        challenges.hooks.push_back((id, hook));
        self.run_hooks();
    }

    pub(super) fn remove_challenge(&mut self, id: u64) {
        let challenges = &mut self.acme.challenges;
        challenges.asked.retain(|(_, asked)| *asked != id);
        if challenges.answered.remove(&id).is_some() {
            let (number, validations) = challenges.in_place();
            self.tell(&Order::Validations(number, validations));
        } else if let Some(hook) = challenges.records.remove(&id) {
            challenges.hooks.push_back((id, Hook { presents: false, ..hook }));
            self.run_hooks();
        }
    }

    /// Nobody waits for them any more.
    pub(super) fn forget_challenges(&mut self) {
        let challenges = &self.acme.challenges;
        let ids: Vec<_> =
            challenges.answered.keys().chain(challenges.records.keys()).copied().collect();
        ids.into_iter().for_each(|id| self.remove_challenge(id));
    }

    /// Workers answer as they were told by that order.
    pub(in super::super) fn workers_answer(&mut self, number: u64) {
        let asked = &mut self.acme.challenges.asked;
        let ready: Vec<_> = asked.iter().filter(|(one, _)| *one <= number).copied().collect();
        asked.retain(|(one, _)| *one > number);
        for (_, id) in ready {
            self.acme.send(AcmeOrder::ChallengeReady { id });
        }
    }

    fn run_hooks(&mut self) {
        while self.acme.challenges.running < HOOKS_MAX
            && let Some((id, hook)) = self.acme.challenges.hooks.pop_front()
        {
            self.acme.challenges.running += 1;
            let (sender, presents) = (self.acme.sender.clone(), hook.presents);
            let hear = move |done, _| sender.send(Event::HookEnded(id, presents, done));
            if let Err(failure) = Readers::default().start(&Task::Hook(hook), hear) {
                self.hook_ended(id, presents, Err(failure));
            }
        }
    }

    pub(in super::super) fn hook_ended(
        &mut self,
        id: u64,
        presents: bool,
        done: Result<Done, Failure>,
    ) {
        self.acme.challenges.running -= 1;
        let failure = match done {
            Ok(Done::Hook(true, _)) => None,
            Ok(Done::Hook(false, why)) => Some(why),
            Ok(_) => Some("the program's end was not heard".to_owned()),
            Err(failure) => Some(failure.to_string()),
        };
        match failure {
            Some(why) if presents => self.acme.send(AcmeOrder::ChallengeFailed { id, why }),
            Some(why) => warn(format_args!("a record stays in the DNS: {why}")),
            None if presents => self.acme.send(AcmeOrder::ChallengeReady { id }),
            None => {}
        }
        self.run_hooks();
    }
}
