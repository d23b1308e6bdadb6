//! Answers of the process that speaks to authorities, and what they lead to: something is stored,
//! a certificate is served, operators are told; and an operator's order about a certificate.

use std::time::{Instant, SystemTime};

use acme::messages::{AcmeAnswer, AcmeOrder, EntryStatus, Hidden, WAITING};
use telemetry::printable;
use wire::date::put_time;

use super::Supervisor;
use super::acme::STORE_PAUSE;
use super::child::{Child, Heard};
use super::failure::Failure;
use super::reading::Done;
use crate::acme_folder::{self, WaitingFile};
use crate::acme_process::AcmeReply;
use crate::certificates::{ANOTHER_ORDERS, CertificateChange, NOT_STORED};
use crate::handover::Order;
use crate::messages::{note, warn};

impl Supervisor<'_> {
    /// The plan that is served says which certificates are to be there.
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

    /// Tells the worker process what authorities are answered, and operators shown.
    pub(super) fn tell_acme(&mut self) {
        if self.acme.options.entries.is_empty() {
            return self.tell(&Order::Acme(Vec::new()));
        }
        self.set_answers();
        self.tell(&Order::Acme(self.acme.statuses.values().cloned().collect()));
    }

    pub(super) fn acme_said(&mut self, number: u64, heard: Heard<AcmeReply>) {
        if self.acme.process.as_ref().map(Child::number) != Some(number) {
            // The last words of the process before.
            return;
        }
        match heard {
            Heard::Answer(AcmeReply::Answer(answer)) => self.acme_answered(answer),
            Heard::Answer(AcmeReply::Stuck(why)) => {
                let why = printable::line(&why);
                self.acme.is_gone(&format!("cannot give up its rights: {why}"));
            }
            Heard::End | Heard::Stopped => self.acme.is_gone("has ended"),
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
            // A reload has taken it out.
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
            // The disk's news are the ones that count until it has room.
            return;
        }
        let bounded = |text: &str| printable::line(text).to_string().chars().take(600).collect();
        let failure = news.last_failure.as_deref().map(bounded);
        // An attempt counts as failed while it is under way; then the failure is the one before.
        let failures = if news.stage == WAITING { news.failures } else { status.failures };
        // Nobody has been heard about it since this program began, or it was another host's.
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
                 when it is tried again"
            )),
            _ => {}
        }
        status.stage = bounded(&news.stage);
        status.waits_for = news.waits_for.as_deref().map(bounded);
        (status.next_seconds, status.last_failure) = (news.next, failure);
        status.failures = failures;
        self.tell(&Order::Acme(self.acme.statuses.values().cloned().collect()));
    }

    /// The disk has what was to be stored, or not.
    pub(super) fn acme_stored(&mut self, done: Result<Done, Failure>) {
        self.acme.is_storing = false;
        let of_records = |one: &&WaitingFile| one.path == acme_folder::records_file();
        let records = self.acme.waiting.iter().filter(of_records).count();
        let has_records = self.acme.waiting.front().is_some_and(|one| of_records(&one));
        match done {
            Ok(_) => {
                let stored = self.acme.waiting.pop_front();
                // Another that waits has more of them.
                if has_records && records == 1 {
                    self.records_kept(None);
                }
                let (issued, asked) = stored.map(|one| (one.issued, one.asked)).unwrap_or_default();
                self.acme.answer(asked, None);
                if let Some((name, _)) = issued {
                    // Unless the disk has had no room, its process says how far it is.
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
                self.tell(&Order::Acme(self.acme.statuses.values().cloned().collect()));
            }
        }
        self.acme.store();
    }

    pub(super) fn tend_acme(&mut self, now: Instant) {
        if self.acme.stores.take_if(|at| *at <= now).is_some() {
            self.acme.store();
        }
        if self.acme.starts.take_if(|at| *at <= now).is_some() {
            // The next one asks anew for what it needs.
            self.forget_challenges();
            self.acme.send_all();
        }
        if self.acme.reloads.is_some_and(|at| at <= now) {
            self.acme.reloads = Some(now + STORE_PAUSE);
            self.reload();
        }
        if self.acme.looks.is_some_and(|at| at <= now) && self.acme.look_for_overdue(now) {
            self.tell(&Order::Acme(self.acme.statuses.values().cloned().collect()));
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
        self.tell(&Order::Acme(self.acme.statuses.values().cloned().collect()));
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
