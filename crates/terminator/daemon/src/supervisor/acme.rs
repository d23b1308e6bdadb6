//! The supervisor's part of certificates obtained by ACME: the process that speaks to authorities,
//! stored files, and the answers to authorities.
//!
//! Handles the life of that process, the known state of each certificate, and the order in which
//! files are stored. The schedule of requests to authorities is the process's task; `certificates`
//! acts on its answers; readers touch the files (`crate::acme_folder`, `crate::acme_hook`).
//!
//! **A certificate is not lost**: an issued one is stored before it is served, and storing is
//! retried while the disk takes nothing; then the configuration is read anew, as by any other
//! reload. Whichever process dies, the next one begins with what is on the disk.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use acme::messages::{
    AcmeOrder, ChallengeKind, ExternalAccount, Hidden, ServedCertificate, WantedCertificate,
};
use acme::schedule::RenewalSchedule;
use acme::stored::account_fault;
use config::{AcmeChallenge, AcmeEntry, AcmeOptions};
use telemetry::printable;

use super::challenges::PendingChallenges;
use super::child::{Backoff, Child, Program};
use super::events::{Event, EventSender};
use super::failure::Failure;
use super::prepared::PreparedAcme;
use super::reading::RunningReaders;
use super::sharing_host::SharingHost;
use super::upgrade::state::HookState;
use crate::acme_folder::{self, FoundAcme, WaitingFile};
use crate::acme_process::{ACME_ARGUMENT, ACME_NAME, ANSWER_BYTES_MAX, AcmeAsk};
use crate::handover::{Confinement, ProcessMessageForm, Secret};
use crate::messages::{error, warn};
use crate::reader::Task;
use crate::status_parts::{ANOTHER_ORDERS, AcmeStatus, NOT_STORED};

const ACME: Program = Program {
    argument: ACME_ARGUMENT,
    name: ACME_NAME,
    form: ProcessMessageForm::Json,
    answer_bytes_max: ANSWER_BYTES_MAX,
    has_environment: false,
};

/// Pause between two attempts to store what the disk did not take, or to serve what a reload was
/// refused for.
pub(super) const STORE_PAUSE: Duration = Duration::from_secs(60);

/// Pause between two checks for overdue certificates.
const OVERDUE_PAUSE: Duration = Duration::from_secs(60);

/// Time after which the first certificate is overdue: DNS and ports may take a while to be set up.
const MISSING_TIME: Duration = Duration::from_secs(3600);

/// Divisor of a certificate's life; with less than this part left it is overdue. It is ordered with
/// a third left, or when its authority suggests, which is about the same.
const OVERDUE_PART: i64 = 5;

/// Maximum files that wait to be stored, which bounds memory; further ones are dropped and
/// reported.
const STORES_MAX: usize = 4096;

pub(super) struct Acme {
    pub(super) options: AcmeOptions,
    pub(super) accounts: BTreeMap<String, String>,
    pub(super) states: BTreeMap<String, String>,
    /// The orders that are under way.
    pub(super) open: BTreeMap<String, String>,
    /// Certificates on the disk, by the names of entries.
    pub(super) certificates: Vec<(String, ServedCertificate)>,
    pub(super) statuses: BTreeMap<String, AcmeStatus>,
    pub(super) process: Option<Child>,
    processes: u64,
    backoff: Backoff,
    /// Time of the next process's start, after one has died.
    pub(super) starts: Option<Instant>,
    /// Files to store; the first is being stored, or will be.
    pub(super) waiting: VecDeque<WaitingFile>,
    pub(super) is_storing: bool,
    pub(super) stores: Option<Instant>,
    pub(super) challenges: PendingChallenges,
    pub(super) sharing: SharingHost,
    /// Readers that work on the folder.
    pub(super) readers: RunningReaders,
    /// Time to read the configuration again, if new certificates are not served by then.
    pub(super) reloads: Option<Instant>,
    /// Time of the next check of certificates, if there are any.
    pub(super) looks: Option<Instant>,
    /// Time since which an entry has no certificate.
    missing: BTreeMap<String, Instant>,
    confinement: Confinement,
    pub(super) sender: EventSender,
}

impl Acme {
    pub(super) fn new(
        confinement: Confinement,
        sender: EventSender,
        hooks: Vec<HookState>,
    ) -> Self {
        let options = AcmeOptions { folder: PathBuf::new(), entries: Vec::new(), host_roots: None };
        Self {
            options,
            accounts: BTreeMap::new(),
            states: BTreeMap::new(),
            open: BTreeMap::new(),
            certificates: Vec::new(),
            statuses: BTreeMap::new(),
            process: None,
            processes: 0,
            backoff: Backoff::default(),
            starts: None,
            waiting: VecDeque::new(),
            is_storing: false,
            stores: None,
            challenges: PendingChallenges::inheriting(hooks),
            sharing: SharingHost::new(),
            readers: RunningReaders::default(),
            reloads: None,
            looks: None,
            missing: BTreeMap::new(),
            confinement,
            sender,
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let hooks = self.challenges.due(Instant::now());
        [self.starts, self.stores, self.reloads, self.looks, hooks, self.sharing.due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the known contents of the folder, for a program that comes back.
    pub(super) fn found(&self) -> FoundAcme {
        let pairs = |map: &BTreeMap<String, String>| {
            map.iter().map(|(name, text)| (name.clone(), text.clone())).collect()
        };
        FoundAcme {
            accounts: pairs(&self.accounts),
            states: pairs(&self.states),
            open: pairs(&self.open),
            certificates: self.certificates.clone(),
            waiting: self.waiting.iter().cloned().collect(),
            records: self.challenges.recorded.clone(),
        }
    }

    /// Ends the process until [`Self::follow`].
    pub(super) fn pause(&mut self) {
        self.process = None;
        self.starts = None;
    }

    /// Follows a newly served plan.
    pub(super) fn follow(&mut self, prepared: &PreparedAcme) {
        self.options = prepared.options.clone();
        self.reloads = None;
        if self.statuses.is_empty() {
            // The previous program had not stored these files yet.
            self.waiting.extend(prepared.found.waiting.iter().cloned());
        }
        let PreparedAcme { options, found, .. } = prepared;
        let is_named = |name: &str| options.entries.iter().any(|entry| entry.name == name);
        self.states.retain(|name, _| is_named(name));
        self.open.retain(|name, _| is_named(name));
        self.take_up(found);
        self.certificates.clone_from(&found.certificates);
        let mut before = std::mem::take(&mut self.statuses);
        for entry in &options.entries {
            let status = self.statuses.entry(entry.name.clone()).or_insert_with(|| {
                let mut status = before.remove(&entry.name).unwrap_or_default();
                status.services.clear();
                status
            });
            status.name.clone_from(&entry.name);
            status.services.push(entry.service.clone());
            status.domains.clone_from(&entry.domains);
            status.directory.clone_from(&entry.directory);
            let served = found.certificates.iter().filter(|(name, _)| *name == entry.name);
            let first = served.min_by_key(|(_, one)| one.not_after).map(|(_, one)| one);
            let seconds = |time: fn(&ServedCertificate) -> i64| {
                first.map(|one| u64::try_from(time(one)).unwrap_or(0))
            };
            status.not_before_seconds = seconds(|one| one.not_before);
            status.not_after_seconds = seconds(|one| one.not_after);
        }
        self.look_for_overdue(Instant::now());
        if options.entries.is_empty() {
            return self.pause();
        }
        self.store();
        self.send_all();
    }

    /// Takes accounts and states from the disk unless newer ones are known; damaged ones begin
    /// anew.
    fn take_up(&mut self, found: &FoundAcme) {
        for (name, text) in &found.states {
            if self.states.contains_key(name) {
                continue;
            }
            match RenewalSchedule::of_text(text) {
                Some(_) => drop(self.states.insert(name.clone(), text.clone())),
                None => warn(format_args!(
                    "{} in acme.folder is damaged: earlier orders for {name} do not count for the \
                     authority's limits",
                    acme_folder::state_file(name).display()
                )),
            }
        }
        for (name, text) in &found.open {
            self.open.entry(name.clone()).or_insert_with(|| text.clone());
        }
        for (directory, text) in &found.accounts {
            if self.accounts.contains_key(directory) {
                continue;
            }
            match account_fault(directory, text) {
                None => drop(self.accounts.insert(directory.clone(), text.clone())),
                Some(why) => warn(format_args!(
                    "{} in acme.folder is not used as the account at {directory}: {why}\n\
                     hint: another account is made, and takes its place",
                    acme_folder::account_file(directory).display()
                )),
            }
        }
    }

    /// Notes overdue certificates, and reports each once. Returns whether there is a new one.
    pub(super) fn look_for_overdue(&mut self, now: Instant) -> bool {
        self.looks = (!self.options.entries.is_empty()).then(|| now + OVERDUE_PAUSE);
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let mut missing = std::mem::take(&mut self.missing);
        let mut is_new = false;
        for entry in &self.options.entries {
            let is_there = |key: &String| {
                let mut all = self.certificates.iter();
                all.any(|(name, one)| *name == entry.name && one.key == *key)
            };
            let mut served = self.certificates.iter().filter(|(name, _)| *name == entry.name);
            let mut is_overdue = served.any(|(_, one)| is_overdue(one, seconds));
            if !entry.keys.iter().all(is_there) {
                let since = missing.remove(&entry.name).unwrap_or(now);
                is_overdue |= now >= since + MISSING_TIME;
                self.missing.insert(entry.name.clone(), since);
            }
            let Some(status) = self.statuses.get_mut(&entry.name) else {
                continue;
            };
            is_new |= status.is_overdue != is_overdue;
            if is_overdue && !status.is_overdue {
                warn(format_args!(
                    "the certificate for {} should have been renewed long since\n\
                     hint: `lariat certificate list` says why it has not come, here or at the host \
                     of the cluster that orders",
                    status.domains.join(", ")
                ));
            }
            status.is_overdue = is_overdue;
        }
        is_new
    }

    /// Sends everything to the process, and starts it if it is not running.
    pub(super) fn send_all(&mut self) {
        if self.process.is_none() {
            if self.starts.is_some() {
                return;
            }
            if let Err(error) = self.start() {
                return self.is_gone(&format!("cannot be started: {error}"));
            }
        }
        // Another host may order them all.
        let orders = self.sharing.orders();
        if !orders {
            for status in self.statuses.values_mut() {
                ANOTHER_ORDERS.clone_into(&mut status.stage);
                (status.next_seconds, status.last_failure) = (None, None);
                (status.waits_for, status.failures) = (None, 0);
            }
        }
        let entries = if orders { self.entries() } else { Vec::new() };
        let roots = self.options.host_roots.as_ref();
        let host_roots = roots.map(|one| String::from_utf8_lossy(&one.pem).into_owned());
        self.send(AcmeOrder::Follow { entries, host_roots: host_roots.unwrap_or_default() });
    }

    fn start(&mut self) -> io::Result<()> {
        self.processes += 1;
        // The previous process's numbers are used again.
        self.waiting.iter_mut().for_each(|one| one.asked.clear());
        let (number, sender) = (self.processes, self.sender.clone());
        let hear = move |heard| sender.send(Event::Acme(number, heard));
        let process = Child::start(number, &ACME, hear)?;
        Ok(self.process.insert(process).send(&AcmeAsk::Enter(self.confinement.clone()), &[])?)
    }

    pub(super) fn send(&mut self, order: AcmeOrder) {
        let sent = self.process.as_ref().map(|process| process.send(&AcmeAsk::Order(order), &[]));
        if let Some(Err(error)) = sent {
            self.is_gone(&format!("takes no order: {error}"));
        }
    }

    fn entries(&self) -> Vec<WantedCertificate> {
        let mut entries: Vec<WantedCertificate> = Vec::new();
        for one in &self.options.entries {
            if !entries.iter().any(|entry| entry.name == one.name) {
                entries.push(self.entry(one));
            }
        }
        entries
    }

    /// Whether the configuration has such a certificate.
    pub(super) fn is_wanted(&self, name: &str, key: &str) -> bool {
        let mut entries = self.options.entries.iter();
        entries.any(|one| one.name == name && one.keys.iter().any(|kind| kind == key))
    }

    /// Returns the beginning of the life of the newest certificate that is served, or soon will be.
    pub(super) fn begin_of(&self, name: &str, key: &str) -> Option<i64> {
        let waiting = self.waiting.iter().filter_map(|one| one.issued.as_ref());
        let all = self.certificates.iter().chain(waiting);
        let its = all.filter(|(of, one)| of == name && one.key == key);
        its.map(|(_, one)| one.not_before).max()
    }

    /// Returns some of the served certificates, and the next ones with the next call: name, kind of
    /// key, beginning.
    pub(super) fn page_of_certificates(&mut self) -> Vec<(String, String, i64)> {
        let page = self.sharing.next_page(self.certificates.len());
        let page = self.certificates.get(page).into_iter().flatten();
        page.map(|(name, one)| (name.clone(), one.key.clone(), one.not_before)).collect()
    }

    fn entry(&self, one: &AcmeEntry) -> WantedCertificate {
        let roots = one.roots.iter();
        // A certificate that the disk has not taken yet is not ordered again.
        let waiting: Vec<_> = self.waiting.iter().filter_map(|one| one.issued.as_ref()).collect();
        let is_newer = |(name, on_disk): &&(String, ServedCertificate)| {
            waiting.iter().any(|(of, one)| of == name && one.key == on_disk.key)
        };
        let on_disk = self.certificates.iter().filter(|one| !is_newer(one));
        let all = on_disk.chain(waiting.iter().copied());
        let served = all.filter(|(name, _)| *name == one.name);
        WantedCertificate {
            name: one.name.clone(),
            domains: one.domains.clone(),
            contact: one.contact.clone(),
            directory: one.directory.clone(),
            roots: roots.map(|root| String::from_utf8_lossy(&root.pem).into_owned()).collect(),
            profile: one.profile.clone(),
            keys: one.keys.clone(),
            challenge: match one.challenge {
                AcmeChallenge::TlsAlpn => ChallengeKind::TlsAlpn,
                AcmeChallenge::Http => ChallengeKind::Http,
                AcmeChallenge::Dns { .. } => ChallengeKind::Dns,
            },
            external_account: one.eab.as_ref().map(|(key_id, key)| ExternalAccount {
                key_id: key_id.clone(),
                key: Hidden(key.0.to_string()),
            }),
            account: self.accounts.get(&one.directory).cloned().map(Hidden),
            certificates: served.map(|(_, one)| one.clone()).collect(),
            state: self.states.get(&one.name).cloned(),
            open: self.open.get(&one.name).cloned().map(Hidden),
        }
    }

    /// Handles the process's death or an error that requires its end.
    pub(super) fn is_gone(&mut self, why: &str) {
        let pause = self.backoff.died(Instant::now());
        warn(format_args!(
            "the process that orders certificates {why}; another is started after {} ms",
            pause.as_millis()
        ));
        self.process = None;
        self.starts = Some(Instant::now() + pause);
    }

    pub(super) fn keep(
        &mut self,
        path: PathBuf,
        text: String,
        issued: Option<(String, ServedCertificate)>,
        asks: Option<u64>,
    ) {
        // The new file replaces an older waiting one; the first may be under way.
        let first = usize::from(self.is_storing);
        let of_path = |one: &WaitingFile| one.path == path;
        let later = self.waiting.iter().skip(first).position(of_path);
        let older = later.and_then(|place| self.waiting.remove(first + place));
        let mut asked = older.map_or_else(Vec::new, |older| older.asked);
        asked.extend(asks);
        if self.waiting.len() >= STORES_MAX {
            error(format_args!("{} is not stored: too much waits", path.display()));
            return self.answer(asked, Some("too many files wait for the disk"));
        }
        let text = Secret::new(text.into_bytes());
        self.waiting.push_back(WaitingFile { path, text, issued, asked });
        self.store();
    }

    /// Answers requests whether files are on the disk: they are, or why not.
    pub(super) fn answer(&mut self, asked: Vec<u64>, failure: Option<&str>) {
        for id in asked {
            self.send(match failure {
                None => AcmeOrder::Done { id },
                Some(why) => AcmeOrder::Failed { id, why: why.to_owned() },
            });
        }
    }

    /// Whether a certificate was issued for each kind of key, and the disk takes none of them.
    pub(super) fn is_held_up(&self, name: &str) -> bool {
        let waits = |key: &String| {
            let mut issued = self.waiting.iter().filter_map(|one| one.issued.as_ref());
            issued.any(|(of, one)| of == name && one.key == *key)
        };
        let entry = self.options.entries.iter().find(|one| one.name == name);
        self.statuses.get(name).is_some_and(|status| status.stage == NOT_STORED)
            && entry.is_some_and(|entry| entry.keys.iter().all(waits))
    }

    /// Whether a certificate was issued that is not on the disk yet.
    pub(super) fn waits(&self, name: &str) -> bool {
        let mut issued = self.waiting.iter().filter_map(|one| one.issued.as_ref());
        issued.any(|(of, _)| of == name)
    }

    /// Stores the first waiting file.
    pub(super) fn store(&mut self) {
        if self.is_storing || self.stores.is_some() {
            return;
        }
        let Some(WaitingFile { path, text, .. }) = self.waiting.front() else {
            return;
        };
        let files = vec![(path.clone(), text.clone())];
        let sender = self.sender.clone();
        let hear = move |done, _| sender.send(Event::AcmeStored(done));
        let task = Task::Store(self.options.folder.clone(), files);
        match self.readers.start(&task, hear) {
            Ok(_) => self.is_storing = true,
            Err(failure) => self.cannot_store(&failure),
        }
    }

    pub(super) fn cannot_store(&mut self, failure: &Failure) {
        error(format_args!(
            "{failure}\nhint: what was there before stays, and is served; it is tried again in \
             {STORE_PAUSE:?}"
        ));
        let why = failure.to_string();
        let why = printable::line(why.lines().next().unwrap_or_default()).to_string();
        let why: String = why.chars().take(600).collect();
        for (name, _) in self.waiting.iter().filter_map(|one| one.issued.as_ref()) {
            if let Some(status) = self.statuses.get_mut(name) {
                NOT_STORED.clone_into(&mut status.stage);
                status.last_failure = Some(why.clone());
                status.failures += 1;
            }
        }
        // One file that cannot be stored does not keep the others waiting.
        if let Some(mut first) = self.waiting.pop_front() {
            let asked = std::mem::take(&mut first.asked);
            if !self.waiting.iter().any(|later| later.path == first.path) {
                self.waiting.push_back(first);
            }
            self.answer(asked, Some(&why));
        }
        self.stores = Some(Instant::now() + STORE_PAUSE);
    }
}

fn is_overdue(one: &ServedCertificate, now_s: i64) -> bool {
    one.not_after - now_s < (one.not_after - one.not_before) / OVERDUE_PART
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_overdue_when_a_fifth_of_its_life_is_left() {
        let (key, chain_pem) = (String::new(), String::new());
        let one = ServedCertificate { key, chain_pem, not_before: 1000, not_after: 2000 };
        assert_eq!(
            [1333, 1799, 1801, 2500].map(|now| is_overdue(&one, now)),
            [false, false, true, true]
        );
    }
}
