//! Certificates that come by ACME, as the supervisor has them: the process that speaks to
//! authorities, what is stored, and what authorities are answered.
//!
//! Owns the life of that process, the order in which files are stored, and which challenges are in
//! place. What is asked of authorities when is the process's; files are touched by readers
//! (`crate::acme_folder`, `crate::acme_hook`).
//!
//! **A certificate is not lost**: one that was issued is stored before it is served, and stored
//! again and again while the disk takes nothing; then the configuration is read anew, as by any
//! other reload. Whichever process dies, the next one begins with what is on the disk.

mod challenges;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use acme::messages::{AcmeAnswer, AcmeOrder, ChallengeKind, Entry, EntryStatus, ExternalAccount};
use acme::messages::{Hidden, ServedCertificate};
use config::{AcmeChallenge, AcmeEntry, AcmeOptions};
use telemetry::printable;

use super::Supervisor;
use super::child::{Backoff, Child, Heard, Program};
use super::events::{Event, EventSender};
use super::failure::Failure;
use super::reading::{Done, Readers};
use crate::acme_folder::{self, FoundAcme};
use crate::acme_process::{ACME_ARGUMENT, ACME_NAME, ANSWER_BYTES_MAX, AcmeAsk, AcmeReply};
use crate::certificates::{AcmeStatus, CertificateChange};
use crate::handover::{Fences, Order, ProcessMessageForm, Secret};
use crate::messages::{error, note, warn};
use crate::reader::Task;

use challenges::Challenges;

const ACME: Program = Program {
    argument: ACME_ARGUMENT,
    name: ACME_NAME,
    form: ProcessMessageForm::Json,
    answer_bytes_max: ANSWER_BYTES_MAX,
};

/// From one attempt to store what the disk did not take to the next.
const STORE_PAUSE: Duration = Duration::from_secs(60);

/// Files that wait to be stored. The process may not fill our memory; more are left out, and said.
const STORES_MAX: usize = 4096;

/// What the configuration and the folder say, as read together.
pub(super) struct PreparedAcme {
    pub(super) options: AcmeOptions,
    pub(super) found: FoundAcme,
}

/// Something that is to be stored.
struct Waiting {
    path: PathBuf,
    text: Secret,
    /// The certificate that is served once it is on the disk.
    issued: Option<(String, ServedCertificate)>,
}

pub(super) struct Acme {
    options: AcmeOptions,
    accounts: BTreeMap<String, String>,
    states: BTreeMap<String, String>,
    /// Those on the disk, by the names of entries.
    certificates: Vec<(String, ServedCertificate)>,
    statuses: BTreeMap<String, AcmeStatus>,
    pub(super) process: Option<Child>,
    processes: u64,
    backoff: Backoff,
    /// When the next process is started, after one has died.
    starts: Option<Instant>,
    /// The first is being stored, or will be.
    waiting: VecDeque<Waiting>,
    is_storing: bool,
    stores: Option<Instant>,
    challenges: Challenges,
    fences: Fences,
    sender: EventSender,
}

impl Acme {
    pub(super) fn new(fences: Fences, sender: EventSender) -> Self {
        let options = AcmeOptions { folder: PathBuf::new(), entries: Vec::new(), host_roots: None };
        Self {
            options,
            accounts: BTreeMap::new(),
            states: BTreeMap::new(),
            certificates: Vec::new(),
            statuses: BTreeMap::new(),
            process: None,
            processes: 0,
            backoff: Backoff::default(),
            starts: None,
            waiting: VecDeque::new(),
            is_storing: false,
            stores: None,
            challenges: Challenges::default(),
            fences,
            sender,
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.starts.into_iter().chain(self.stores).min()
    }

    /// What is known of what lies in the folder, for a program that comes back.
    pub(super) fn found(&self) -> FoundAcme {
        let pairs = |map: &BTreeMap<String, String>| {
            map.iter().map(|(name, text)| (name.clone(), text.clone())).collect()
        };
        FoundAcme {
            accounts: pairs(&self.accounts),
            states: pairs(&self.states),
            certificates: self.certificates.clone(),
        }
    }

    /// Ends the process until [`Self::follow`].
    pub(super) fn pause(&mut self) {
        self.process = None;
        self.starts = None;
    }

    /// A plan is served that says this.
    fn follow(&mut self, prepared: &PreparedAcme) {
        self.options = prepared.options.clone();
        let PreparedAcme { options, found } = prepared;
        let is_named = |name: &str| options.entries.iter().any(|entry| entry.name == name);
        self.states.retain(|name, _| is_named(name));
        for (name, text) in &found.states {
            self.states.entry(name.clone()).or_insert_with(|| text.clone());
        }
        for (directory, text) in &found.accounts {
            self.accounts.entry(directory.clone()).or_insert_with(|| text.clone());
        }
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
        if options.entries.is_empty() {
            return self.pause();
        }
        self.send_all();
    }

    /// Tells the process all, and starts it if it is not there.
    fn send_all(&mut self) {
        if self.process.is_none() {
            if self.starts.is_some() {
                return;
            }
            if let Err(error) = self.start() {
                return self.is_gone(&format!("cannot be started: {error}"));
            }
        }
        let entries = self.entries();
        let roots = self.options.host_roots.as_ref();
        let host_roots = roots.map(|one| String::from_utf8_lossy(&one.pem).into_owned());
        self.send(AcmeOrder::Follow { entries, host_roots: host_roots.unwrap_or_default() });
    }

    fn start(&mut self) -> io::Result<()> {
        self.processes += 1;
        let (number, sender) = (self.processes, self.sender.clone());
        let hear = move |heard| sender.send(Event::Acme(number, heard));
        let process = Child::start(number, &ACME, hear)?;
        self.process.insert(process).send(&AcmeAsk::Enter(self.fences.clone()), &[])
    }

    pub(super) fn send(&mut self, order: AcmeOrder) {
        let sent = self.process.as_ref().map(|process| process.send(&AcmeAsk::Order(order), &[]));
        if let Some(Err(error)) = sent {
            self.is_gone(&format!("takes no order: {error}"));
        }
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        for one in &self.options.entries {
            if !entries.iter().any(|entry| entry.name == one.name) {
                entries.push(self.entry(one));
            }
        }
        entries
    }

    fn entry(&self, one: &AcmeEntry) -> Entry {
        let roots = one.roots.iter();
        let served = self.certificates.iter().filter(|(name, _)| *name == one.name);
        Entry {
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
        }
    }

    /// The process has died, or is not to live on.
    fn is_gone(&mut self, why: &str) {
        let pause = self.backoff.died(Instant::now());
        warn(format_args!(
            "the process that orders certificates {why}; another is started in {pause:?}"
        ));
        self.process = None;
        self.starts = Some(Instant::now() + pause);
    }

    fn keep(&mut self, path: PathBuf, text: String, issued: Option<(String, ServedCertificate)>) {
        // What is newer takes the place of what waits; the first may be under way.
        let of_path = |one: &Waiting| one.path == path;
        let later = self.waiting.iter().skip(1).position(of_path);
        if let Some(place) = later {
            self.waiting.remove(place + 1);
        }
        if self.waiting.len() >= STORES_MAX {
            return error(format_args!("{} is not stored: too much waits", path.display()));
        }
        self.waiting.push_back(Waiting { path, text: Secret::new(text.into_bytes()), issued });
        self.store();
    }

    /// Stores the first that waits.
    fn store(&mut self) {
        if self.is_storing || self.stores.is_some() {
            return;
        }
        let Some(Waiting { path, text, .. }) = self.waiting.front() else {
            return;
        };
        let files = vec![(path.clone(), Secret::new(text.bytes().to_vec()))];
        let sender = self.sender.clone();
        let hear = move |done, _| sender.send(Event::AcmeStored(done));
        let task = Task::Store(self.options.folder.clone(), files);
        match Readers::default().start(&task, hear) {
            Ok(()) => self.is_storing = true,
            Err(failure) => self.cannot_store(&failure),
        }
    }

    fn cannot_store(&mut self, failure: &Failure) {
        error(format_args!(
            "{failure}\nhint: what was there before stays, and is served; it is tried again in \
             {STORE_PAUSE:?}"
        ));
        self.stores = Some(Instant::now() + STORE_PAUSE);
    }
}

impl Supervisor<'_> {
    /// The plan that is served says which certificates are to be there.
    pub(super) fn follow_acme(&mut self) {
        if self.acme.process.is_none() {
            self.forget_challenges();
        }
        self.acme.follow(&self.served.acme);
        self.tell_acme();
    }

    /// Tells the worker process what authorities are answered, and operators shown.
    pub(super) fn tell_acme(&mut self) {
        if self.acme.options.entries.is_empty() && self.acme.statuses.is_empty() {
            return self.tell(&Order::Acme(Vec::new()));
        }
        let (number, validations) = self.acme.challenges.in_place();
        self.tell(&Order::Validations(number, validations));
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
                    self.acme.keep(acme_folder::account_file(&directory), text, None);
                }
            }
            AcmeAnswer::State { name, state } if is_named(&name) => {
                self.acme.states.insert(name.clone(), state.clone());
                self.acme.keep(acme_folder::state_file(&name), state, None);
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
        let is_wanted =
            entries.any(|one| one.name == name && one.keys.iter().any(|kind| kind == key));
        let text = format!("{}\n{}", chain_pem.trim_end(), key_pem.0);
        match acme_folder::certificate_of(key, &text) {
            Some(served) if is_wanted => {
                let path = config::certificate_file(&name, key);
                self.acme.keep(path, text, Some((name, served)));
            }
            _ => warn(format_args!(
                "what was issued for {name} cannot be served, and is left out: chain and key do \
                 not fit"
            )),
        }
    }

    fn acme_status(&mut self, news: EntryStatus) {
        let Some(status) = self.acme.statuses.get_mut(&news.name) else {
            return;
        };
        let failure = news.last_failure.as_deref().map(|why| printable::line(why).to_string());
        if let Some(why) = failure.as_ref().filter(|_| news.failures > status.failures) {
            warn(format_args!(
                "no certificate for {} by ACME: {why}\nhint: `lariat certificate list` says when \
                 it is tried again",
                status.domains.join(", ")
            ));
        }
        status.stage = printable::line(&news.stage).to_string();
        (status.next_seconds, status.last_failure) = (news.next, failure);
        status.failures = news.failures;
        self.tell(&Order::Acme(self.acme.statuses.values().cloned().collect()));
    }

    /// The disk has what was to be stored, or not.
    pub(super) fn acme_stored(&mut self, done: Result<Done, Failure>) {
        self.acme.is_storing = false;
        match done {
            Ok(_) => {
                let issued = self.acme.waiting.pop_front().and_then(|one| one.issued);
                if let Some((name, _)) = issued {
                    note(format_args!("a certificate has come for {name}, and is served next"));
                    self.reload();
                }
            }
            Err(failure) => self.acme.cannot_store(&failure),
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
        self.acme.send(match change {
            CertificateChange::Renew => AcmeOrder::Renew { name },
            CertificateChange::Revoke => AcmeOrder::Revoke { name },
        });
        self.tell(&Order::Acme(self.acme.statuses.values().cloned().collect()));
        true
    }
}
