//! Putting the answers to authorities in place, in workers and in the DNS, and taking them away.

use acme::messages::{AcmeOrder, Challenge};
use config::AcmeChallenge;

use super::Supervisor;
use super::challenges::{CHALLENGES_MAX, HOOKS_MAX};
use super::events::Event;
use super::failure::Failure;
use super::reading::{Done, Readers};
use crate::acme_hook::Hook;
use crate::handover::Order;
use crate::messages::warn;
use crate::reader::Task;

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
        while let Some(id) = self.acme.challenges.any() {
            self.remove_challenge(id);
        }
    }

    /// Workers answer as they were told by that order.
    pub(super) fn workers_answer(&mut self, number: u64) {
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

    pub(super) fn hook_ended(&mut self, id: u64, presents: bool, done: Result<Done, Failure>) {
        self.acme.challenges.running -= 1;
        let failure = match done {
            Ok(Done::Hook(true, _)) => None,
            Ok(Done::Hook(false, why)) => Some(why),
            Ok(_) => Some("the program's end was not heard".to_owned()),
            Err(failure) => Some(failure.to_string()),
        };
        match failure {
            Some(why) if presents => self.acme.send(AcmeOrder::ChallengeFailed { id, why }),
            Some(why) => warn(format_args!("a record may stay in the DNS: {why}")),
            None if presents => self.acme.send(AcmeOrder::ChallengeReady { id }),
            None => {}
        }
        self.run_hooks();
    }
}
