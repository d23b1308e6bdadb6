//! Reactions to answers of the ACME process: puts challenge answers in place, in workers and in the
//! DNS, and removes them, stores files, serves certificates, and informs operators; also takes an
//! operator's order about a certificate.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use acme::messages::{AcmeAnswer, AcmeOrder, Challenge, EntryStatus, Hidden, WAITING};
use config::AcmeChallenge;
use telemetry::printable;
use wire::date::put_time;

use super::Supervisor;
use super::acme::STORE_PAUSE;
use super::challenges::{CHALLENGES_MAX, RunningHook, allowed};
use super::child::{Child, ChildEvent};
use super::events::Event;
use super::failure::Failure;
use super::reading::ReaderResult;
use super::sharing::ANSWERS_TIME_MAX;
use crate::acme_folder::{self, WaitingFile};
use crate::acme_hook::Hook;
use crate::acme_process::AcmeReply;
use crate::handover::SupervisorOrder;
use crate::messages::{note, warn};
use crate::reader::Task;
use crate::status_parts::{ANOTHER_ORDERS, CertificateChange, NOT_STORED};

/// Maximum bytes kept of a schedule or an open order, of which each name has one: a process in an
/// attacker's hands sends as much as it may. Honest ones have a few KiB.
const TEXT_BYTES_MAX: usize = 64 << 10;

impl Supervisor<'_> {
    /// Follows the served plan, which names the certificates to obtain.
    pub(super) fn follow_acme(&mut self) {
        if self.acme.process.is_none() {
            self.forget_challenges();
        }
        self.share_certificates();
        let is_first = self.acme.statuses.is_empty();
        self.acme.follow(&self.served.acme);
        if is_first && self.acme.challenges.recorded.is_empty() {
            let left = self.served.acme.found.records.clone();
            self.clean_records(&left);
        }
        self.tell_acme();
    }

    /// Sends the worker process the answers for authorities, and the status for operators.
    pub(super) fn tell_acme(&mut self) {
        if self.acme.options.entries.is_empty() {
            return self.tell(&SupervisorOrder::Acme(Vec::new()));
        }
        self.set_answers();
        self.tell(&SupervisorOrder::Acme(self.acme.statuses.values().cloned().collect()));
    }

    pub(super) fn acme_said(&mut self, number: u64, heard: ChildEvent<AcmeReply>) {
        if self.acme.process.as_ref().map(Child::number) != Some(number) {
            // Last words of the previous process.
            return;
        }
        match heard {
            ChildEvent::Answer(AcmeReply::Answer(answer)) => self.acme_answered(answer),
            ChildEvent::Answer(AcmeReply::Stuck(why)) => {
                let why = printable::line(&why);
                self.acme.is_gone(&format!("cannot give up its rights: {why}"));
            }
            ChildEvent::End | ChildEvent::Stopped => self.acme.is_gone("has ended"),
        }
    }

    fn acme_answered(&mut self, answer: AcmeAnswer) {
        let is_named = |name: &str| self.acme.statuses.contains_key(name);
        match answer {
            AcmeAnswer::Account { directory, account: Hidden(text) } => {
                let mut entries = self.acme.options.entries.iter();
                if entries.any(|entry| entry.directory == directory) {
                    self.acme.accounts.insert(directory.clone(), text.clone());
                    self.acme.keep(acme_folder::account_file(&directory), text, None, None);
                }
            }
            AcmeAnswer::State { state: text, asks, .. }
            | AcmeAnswer::Open { order: Some(Hidden(text)), asks, .. }
                if text.len() > TEXT_BYTES_MAX =>
            {
                self.acme.answer(asks.into_iter().collect(), Some("it is too long to be stored"));
            }
            AcmeAnswer::State { name, state, asks } if is_named(&name) => {
                self.share_schedule(&name, &state);
                self.acme.states.insert(name.clone(), state.clone());
                self.acme.keep(acme_folder::state_file(&name), state, None, asks);
            }
            AcmeAnswer::Open { name, order, asks } if is_named(&name) => {
                let text = order.map_or_else(String::new, |order| order.0);
                self.acme.open.insert(name.clone(), text.clone());
                self.acme.keep(acme_folder::order_file(&name), text, None, asks);
            }
            AcmeAnswer::Issued { name, key, chain_pem, key_pem } if is_named(&name) => {
                self.issued(name, &key, &chain_pem, &key_pem);
            }
            AcmeAnswer::Prepare { id, name, challenge } if is_named(&name) => {
                self.prepare_challenge(id, &name, challenge);
            }
            AcmeAnswer::Remove { id } => self.remove_challenge(id),
            AcmeAnswer::Status(status) if is_named(&status.name) => self.acme_status(status),
            // A reload has removed it.
            _ => {}
        }
    }

    fn issued(&mut self, name: String, key: &str, chain_pem: &str, key_pem: &Hidden) {
        let mut entries = self.acme.options.entries.iter();
        let text = format!("{}\n{}", chain_pem.trim_end(), key_pem.0);
        let entry = entries.find(|one| one.name == name && one.keys.iter().any(|kind| kind == key));
        let issued = entry.map(|entry| acme_folder::issued(entry, key, &text, SystemTime::now()));
        match issued.unwrap_or(Err("it is not wanted any more")) {
            Ok(served) => {
                let path = config::certificate_file(&name, key);
                self.acme.keep(path, text, Some((name, served)), None);
            }
            Err(why) => {
                warn(format_args!("what was issued for {name} is left out, and not served: {why}"));
            }
        }
    }

    fn acme_status(&mut self, news: EntryStatus) {
        let is_waiting = self.acme.waits(&news.name);
        let Some(status) = self.acme.statuses.get_mut(&news.name) else {
            return;
        };
        if is_waiting && status.stage == NOT_STORED {
            // The disk's failure is what counts until there is room.
            return;
        }
        let bounded = |text: &str| printable::line(text).to_string().chars().take(600).collect();
        let failure = news.last_failure.as_deref().map(bounded);
        // An attempt counts as failed while it is under way; then the failure is the previous one.
        let failures = if news.stage == WAITING { news.failures } else { status.failures };
        // There was no report about it since this program began, or it was another host's.
        let is_from_before = status.stage.is_empty() || status.stage == ANOTHER_ORDERS;
        let domains = status.domains.join(", ");
        match (&failure, news.failed_at) {
            (Some(why), Some(at)) if is_from_before && failures > 0 => {
                let mut time = Vec::new();
                put_time(&mut time, at.saturating_mul(1_000_000));
                note(format_args!(
                    "the last attempt to get a certificate for {domains} by ACME, at {}, failed: \
                     {why}",
                    String::from_utf8_lossy(&time)
                ));
            }
            (Some(why), _) if failures > status.failures => warn(format_args!(
                "no certificate for {domains} by ACME: {why}\nhint: `lariat certificate list` says \
                 when it is tried again, `lariat certificate renew` tries it at once"
            )),
            _ => {}
        }
        status.stage = bounded(&news.stage);
        status.waits_for = news.waits_for.as_deref().map(bounded);
        (status.next_seconds, status.last_failure) = (news.next, failure);
        status.failures = failures;
        self.tell(&SupervisorOrder::Acme(self.acme.statuses.values().cloned().collect()));
    }

    /// Handles the outcome of storing files.
    pub(super) fn acme_stored(&mut self, done: Result<ReaderResult, Failure>) {
        self.acme.is_storing = false;
        let of_records = |one: &&WaitingFile| one.path == acme_folder::records_file();
        let records = self.acme.waiting.iter().filter(of_records).count();
        let has_records = self.acme.waiting.front().is_some_and(|one| of_records(&one));
        match done {
            Ok(_) => {
                let stored = self.acme.waiting.pop_front();
                // A later waiting file has more of the records.
                if has_records && records == 1 {
                    self.records_kept(None);
                }
                let (issued, asked) = stored.map(|one| (one.issued, one.asked)).unwrap_or_default();
                self.acme.answer(asked, None);
                if let Some((name, _)) = issued {
                    // Unless the disk has had no room, its process reports the progress.
                    let status = self.acme.statuses.get_mut(&name);
                    if let Some(status) = status.filter(|one| one.stage == NOT_STORED) {
                        WAITING.clone_into(&mut status.stage);
                        (status.last_failure, status.failures) = (None, 0);
                    }
                    note(format_args!("a certificate has come for {name}, and is served next"));
                    self.acme.reloads = Some(Instant::now() + STORE_PAUSE);
                    self.reload();
                }
            }
            Err(failure) => {
                self.acme.cannot_store(&failure);
                if has_records {
                    self.records_kept(Some(&failure.to_string()));
                }
                self.tell(&SupervisorOrder::Acme(self.acme.statuses.values().cloned().collect()));
            }
        }
        self.acme.store();
    }

    pub(super) fn tend_acme(&mut self, now: Instant) {
        if self.acme.stores.take_if(|at| *at <= now).is_some() {
            self.acme.store();
        }
        if self.acme.starts.take_if(|at| *at <= now).is_some() {
            // The next process requests anew what it needs.
            self.forget_challenges();
            self.acme.send_all();
        }
        if self.acme.reloads.is_some_and(|at| at <= now) {
            self.acme.reloads = Some(now + STORE_PAUSE);
            self.reload();
        }
        if self.acme.looks.is_some_and(|at| at <= now) && self.acme.look_for_overdue(now) {
            self.tell(&SupervisorOrder::Acme(self.acme.statuses.values().cloned().collect()));
        }
        self.run_hooks();
        self.tend_sharing(now);
    }

    /// Takes an operator's order, if it is about a certificate.
    pub(super) fn ordered_certificate(&mut self, number: u64) -> bool {
        let orders = self.acme.statuses.keys().flat_map(|name| {
            let each = CertificateChange::ALL.into_iter();
            each.map(move |change| (change, name))
        });
        let mut orders = orders.filter(|(change, name)| change.order(name) == number);
        let Some((change, name)) = orders.next().map(|(change, name)| (change, name.clone()))
        else {
            return false;
        };
        drop(orders);
        note(format_args!("an operator orders to {} {name}", change.word()));
        if let Some(status) = self.acme.statuses.get_mut(&name) {
            status.orders += 1;
        }
        if !self.pass_on(&name, change) {
            self.change_certificate(name, change);
        }
        self.tell(&SupervisorOrder::Acme(self.acme.statuses.values().cloned().collect()));
        true
    }

    pub(super) fn change_certificate(&mut self, name: String, change: CertificateChange) {
        let is_waiting = self.acme.is_held_up(&name);
        // There may be room again.
        self.acme.stores = None;
        self.acme.store();
        if is_waiting {
            note(format_args!(
                "no other certificate is ordered for {name}: one has come already, and is served \
                 as soon as the disk takes it"
            ));
        }
        match change {
            CertificateChange::Renew if is_waiting => {}
            CertificateChange::Renew => self.acme.send(AcmeOrder::Renew { name }),
            CertificateChange::Revoke => {
                let served = self.acme.certificates.iter().filter(|(of, _)| *of == name);
                let chains = served.map(|(_, one)| one.chain_pem.clone()).collect();
                let order = AcmeOrder::Revoke { name, chains, is_replaced: is_waiting };
                self.acme.send(order);
            }
        }
    }
}

/// Time limit of one wait for the reader of a previous program, whose end is noticed at once.
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

    /// Stores on the disk a record that may be in the DNS from now on.
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

    /// Handles the outcome of storing records: only stored ones are put into the DNS.
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

    /// Removes what a previous program has left in the DNS.
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
            // No number of the ACME process is so high.
            let id = u64::MAX - place;
            challenges.hooks.push_back((id, Hook { presents: false, ..hook.clone() }));
            if let Some(reader) = challenges.awaited(id, hook) {
                let sender = self.acme.sender.clone();
                let wait = move || {
                    while let Ok(false) = reader.has_ended_within(READER_LOOK) {}
                    let end = ReaderResult::Hook(true, String::new());
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

    /// Drops all challenges, because no process waits for them any more.
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

    pub(super) fn hook_ended(
        &mut self,
        id: u64,
        presents: bool,
        done: Result<ReaderResult, Failure>,
    ) {
        self.tell_end_of_hook(id, presents, done);
        self.run_hooks();
    }

    fn tell_end_of_hook(&mut self, id: u64, presents: bool, done: Result<ReaderResult, Failure>) {
        let running = self.acme.challenges.running.remove(&id);
        let failure = match done {
            Ok(ReaderResult::Hook(true, _)) => None,
            Ok(ReaderResult::Hook(false, why)) => Some(why),
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
