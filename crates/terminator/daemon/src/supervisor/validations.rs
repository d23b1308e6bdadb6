//! Putting the answers to authorities in place, in workers and in the DNS, and taking them away.

use std::thread;
use std::time::{Duration, Instant};

use acme::messages::{AcmeOrder, Challenge};
use config::AcmeChallenge;

use super::Supervisor;
use super::challenges::{CHALLENGES_MAX, RunningHook, allowed};
use super::events::Event;
use super::failure::Failure;
use super::reading::Done;
use super::sharing::ANSWERS_TIME_MAX;
use crate::acme_folder;
use crate::acme_hook::Hook;
use crate::messages::{note, warn};
use crate::reader::Task;

/// From one look whether a program before's reader lives to the next; its end is known at once.
const READER_LOOK: Duration = Duration::from_secs(3600);

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
                return self.acme.send(AcmeOrder::Failed { id, why });
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
        challenges.unrecorded.push((id, hook.clone()));
        self.record(hook);
    }

    /// Lets the disk remember a record that may be in the DNS from now on.
    fn record(&mut self, hook: Hook) {
        let recorded = &mut self.acme.challenges.recorded;
        if recorded.len() >= CHALLENGES_MAX {
            let oldest = recorded.remove(0);
            warn(format_args!(
                "the record {} is forgotten, and may stay in the DNS",
                oldest.record
            ));
        }
        recorded.push(hook);
        self.keep_records();
    }

    fn keep_records(&mut self) {
        let text = serde_json::to_string(&self.acme.challenges.recorded);
        let text = text.expect("it has names as keys");
        self.acme.keep(acme_folder::records_file(), text, None, None);
    }

    /// The disk has the records, or why not: only what is remembered is put into the DNS.
    pub(super) fn records_kept(&mut self, failure: Option<&str>) {
        let challenges = &mut self.acme.challenges;
        let unrecorded = std::mem::take(&mut challenges.unrecorded);
        match failure {
            None => challenges.hooks.extend(unrecorded),
            Some(why) => {
                for (id, hook) in unrecorded {
                    let challenges = &mut self.acme.challenges;
                    challenges.records.remove(&id);
                    challenges.recorded.retain(|one| *one != hook);
                    let why = format!("no record is put into the DNS: {why}");
                    self.acme.send(AcmeOrder::Failed { id, why });
                }
            }
        }
        self.run_hooks();
    }

    /// Takes away what a program before has left in the DNS.
    pub(super) fn clean_records(&mut self, left: &[Hook]) {
        for (place, hook) in (0..).zip(left.iter().take(CHALLENGES_MAX)) {
            let mut entries = self.acme.options.entries.iter();
            let is_ours = entries.any(|entry| match &entry.challenge {
                AcmeChallenge::Dns { hook: program, .. } => *program == hook.program,
                AcmeChallenge::Http | AcmeChallenge::TlsAlpn => false,
            });
            let Hook { record, program, .. } = hook;
            if !is_ours {
                warn(format_args!(
                    "the record {record} may stay in the DNS: the configuration does not have {} \
                     any more, which put it there",
                    program.display()
                ));
                continue;
            }
            note(format_args!("the record {record} of an order before is taken out of the DNS"));
            let challenges = &mut self.acme.challenges;
            challenges.recorded.push(hook.clone());
            // No number of the process that speaks to authorities is so high.
            let id = u64::MAX - place;
            challenges.hooks.push_back((id, Hook { presents: false, ..hook.clone() }));
            if let Some(reader) = challenges.awaited(id, hook) {
                let sender = self.acme.sender.clone();
                let wait = move || {
                    while let Ok(false) = reader.has_ended_within(READER_LOOK) {}
                    let end = Done::Hook(true, String::new());
                    sender.send(Event::HookEnded(id, true, Ok(end)));
                };
                // Without a thread it is not waited for.
                if thread::Builder::new().name("hook".to_owned()).spawn(wait).is_err() {
                    self.acme.challenges.running.remove(&id);
                }
            }
        }
        self.run_hooks();
    }

    pub(super) fn remove_challenge(&mut self, id: u64) {
        let challenges = &mut self.acme.challenges;
        challenges.asked.retain(|(_, asked, _)| *asked != id);
        if challenges.answered.remove(&id).is_some() {
            self.set_answers();
            self.share_answers();
        } else if let Some(hook) = challenges.records.remove(&id) {
            self.remove_record(id, hook);
            self.run_hooks();
        }
    }

    fn remove_record(&mut self, id: u64, hook: Hook) {
        let challenges = &mut self.acme.challenges;
        if challenges.leave_out(id, &hook) {
            self.keep_records();
        } else {
            challenges.hooks.push_back((id, Hook { presents: false, ..hook }));
        }
    }

    /// Nobody waits for them any more.
    pub(super) fn forget_challenges(&mut self) {
        let challenges = &mut self.acme.challenges;
        challenges.asked.clear();
        challenges.answered.clear();
        for (id, hook) in std::mem::take(&mut challenges.records) {
            self.remove_record(id, hook);
        }
        self.set_answers();
        self.run_hooks();
    }

    /// Runs programs as far as there is room for them.
    pub(super) fn run_hooks(&mut self) {
        while let Some((id, hook)) = self.acme.challenges.next_hook(Instant::now()) {
            let (sender, presents) = (self.acme.sender.clone(), hook.presents);
            let hear = move |done, _| sender.send(Event::HookEnded(id, presents, done));
            let started = self.acme.challenges.readers.start(&Task::Hook(hook), hear);
            match started {
                Ok(reader) => {
                    let running = self.acme.challenges.running.get_mut(&id);
                    running.into_iter().for_each(|one| one.reader = Some(reader));
                }
                Err(failure) => self.tell_end_of_hook(id, presents, Err(failure)),
            }
        }
    }

    pub(super) fn hook_ended(&mut self, id: u64, presents: bool, done: Result<Done, Failure>) {
        self.tell_end_of_hook(id, presents, done);
        self.run_hooks();
    }

    fn tell_end_of_hook(&mut self, id: u64, presents: bool, done: Result<Done, Failure>) {
        let running = self.acme.challenges.running.remove(&id);
        let failure = match done {
            Ok(Done::Hook(true, _)) => None,
            Ok(Done::Hook(false, why)) => Some(why),
            Ok(_) => Some("the program's end was not heard".to_owned()),
            Err(failure) => Some(failure.to_string()),
        };
        match failure {
            Some(why) if presents => self.acme.send(AcmeOrder::Failed { id, why }),
            Some(why) => warn(format_args!("a record may stay in the DNS: {why}")),
            None if presents => self.acme.send(AcmeOrder::Done { id }),
            None => {
                let is_it = |one: &Hook| {
                    let running = running.as_ref();
                    running.is_some_and(|RunningHook { hook, .. }| one.is_for_record_of(hook))
                };
                // Another stays that is to put it there again.
                let recorded = &mut self.acme.challenges.recorded;
                if let Some(place) = recorded.iter().position(is_it) {
                    recorded.remove(place);
                }
                self.keep_records();
            }
        }
    }
}
