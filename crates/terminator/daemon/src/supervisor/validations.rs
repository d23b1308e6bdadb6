//! Putting the answers to authorities in place, in workers and in the DNS, and taking them away.

use std::time::Instant;

use acme::messages::{AcmeOrder, Challenge};
use config::AcmeChallenge;

use super::Supervisor;
use super::challenges::{CHALLENGES_MAX, HOOKS_MAX, allowed};
use super::events::Event;
use super::failure::Failure;
use super::reading::Done;
use super::sharing::ANSWERS_TIME_MAX;
use crate::acme_hook::Hook;
use crate::messages::warn;
use crate::reader::Task;

impl Supervisor<'_> {
    pub(super) fn prepare_challenge(&mut self, id: u64, name: &str, challenge: Challenge) {
        let challenges = &mut self.acme.challenges;
        let count = challenges.answered.len() + challenges.records.len() + challenges.hooks.len();
        let entry = self.acme.options.entries.iter().find(|entry| entry.name == name);
        let allowed = match entry {
            _ if count >= CHALLENGES_MAX || challenges.is_known(id) => {
                Err("too many challenges are under way, or one of the same number")
            }
            None => Err("the configuration has no such certificate any more"),
            Some(entry) => allowed(challenge, entry).map(|one| (one, entry.challenge.clone())),
        };
        let (challenge, wanted) = match allowed {
            Ok(allowed) => allowed,
            Err(why) => {
                let why = format!("the challenge is not answered: {why}");
                return self.acme.send(AcmeOrder::ChallengeFailed { id, why });
            }
        };
        let (Challenge::Dns { domain, record, value }, AcmeChallenge::Dns { hook, timeout }) =
            (challenge.clone(), wanted)
        else {
            challenges.answered.insert(id, (name.to_owned(), challenge));
            let number = self.set_answers();
            let until = Instant::now() + ANSWERS_TIME_MAX;
            self.acme.challenges.asked.push_back((number, id, until));
            return self.share_answers();
        };
        let hook = Hook { program: hook, timeout, presents: true, domain, record, value };
        let challenges = &mut self.acme.challenges;
        challenges.records.insert(id, hook.clone());
        challenges.hooks.push_back((id, hook));
        self.run_hooks();
    }

    pub(super) fn remove_challenge(&mut self, id: u64) {
        let challenges = &mut self.acme.challenges;
        challenges.asked.retain(|(_, asked, _)| *asked != id);
        if challenges.answered.remove(&id).is_some() {
            self.set_answers();
            self.share_answers();
        } else if let Some(hook) = challenges.records.remove(&id) {
            challenges.hooks.push_back((id, Hook { presents: false, ..hook }));
            self.run_hooks();
        }
    }

    /// Nobody waits for them any more.
    pub(super) fn forget_challenges(&mut self) {
        let challenges = &mut self.acme.challenges;
        challenges.asked.clear();
        challenges.answered.clear();
        let records = std::mem::take(&mut challenges.records).into_iter();
        challenges.hooks.extend(records.map(|(id, hook)| (id, Hook { presents: false, ..hook })));
        self.set_answers();
        self.run_hooks();
    }

    fn run_hooks(&mut self) {
        loop {
            let challenges = &mut self.acme.challenges;
            let is_free = |(id, _): &(u64, Hook)| !challenges.running.contains(id);
            let Some(place) = challenges.hooks.iter().position(is_free) else {
                return;
            };
            if challenges.running.len() >= HOOKS_MAX {
                return;
            }
            let Some((id, hook)) = challenges.hooks.remove(place) else {
                return;
            };
            challenges.running.insert(id);
            let (sender, presents) = (self.acme.sender.clone(), hook.presents);
            let hear = move |done, _| sender.send(Event::HookEnded(id, presents, done));
            let started = self.acme.challenges.readers.start(&Task::Hook(hook), hear);
            if let Err(failure) = started {
                self.tell_end_of_hook(id, presents, Err(failure));
            }
        }
    }

    pub(super) fn hook_ended(&mut self, id: u64, presents: bool, done: Result<Done, Failure>) {
        self.tell_end_of_hook(id, presents, done);
        self.run_hooks();
    }

    fn tell_end_of_hook(&mut self, id: u64, presents: bool, done: Result<Done, Failure>) {
        self.acme.challenges.running.remove(&id);
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
    }
}
