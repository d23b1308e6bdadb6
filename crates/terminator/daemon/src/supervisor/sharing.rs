//! Certificates of a cluster: one host orders, all answer the authority, and all get what comes.
//!
//! Owns what supervisors say to each other about that, by notices that worker processes carry among
//! the cluster's datagrams or through its store, sealed by keys that only supervisors have. Every
//! host says again and again which certificates it has, and asks for those of which another has a
//! newer one, so that a late host, or one that has lost them, gets them. A notice proves only that
//! its sender knows the cluster's secret: what it brings is judged by this host's own
//! configuration. Accounts stay where they were made.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use acme::messages::{AcmeOrder, Challenge, Hidden};
use serde::{Deserialize, Serialize};
use tls::resumption::cluster::NoticeFault;
use wire::cluster::WHOLE_BYTES_MAX;
use zeroize::Zeroizing;

use super::Supervisor;
use super::challenges::{CHALLENGES_MAX, allowed};
use super::events::Event;
use super::failure::Failure;
use super::reading::ReaderResult;
use super::sharing_host::{HEARTBEAT, HeardLease, HostLease, LeaseChange, unix_ms};
use crate::acme_folder;
use crate::handover::SupervisorOrder;
use crate::messages::{note, warn};
use crate::reader::Task;
use crate::status_parts::CertificateChange;

/// How long a challenge waits for the other hosts to answer it too: then the authority is asked,
/// and may be unlucky.
pub(super) const ANSWERS_TIME_MAX: Duration = Duration::from_secs(5);

/// How often the other hosts are told again while a challenge waits for them.
const ANSWERS_REPEAT: Duration = Duration::from_millis(500);

/// Answers of a host that does not repeat them are taken away.
const ANSWERS_KEPT: Duration = Duration::from_secs(60);

/// Certificates asked for at once, and how long each is not asked for again.
const WANTED_MAX: usize = 16;
const WANTED_AGAIN: Duration = Duration::from_secs(5);

/// Files that are read for other hosts at a time, each in a process.
const LOADS_MAX: usize = 2;

/// Seconds that a certificate of another host may live: authorities of one's own may give more
/// than the 398 days of public ones.
const LIFE_MAX_S: i64 = 3 * 366 * 86_400;

/// Files that wait to be read for other hosts, which ask again for what is dropped.
const LOADS_WAITING_MAX: usize = 64;

/// The longest sealed notice that datagrams take, with its head.
const NOTICE_BYTES_MAX: usize = WHOLE_BYTES_MAX - 16;

/// From one report of notices that are left out to the next.
const LEFT_OUT_REPEAT: Duration = Duration::from_secs(3600);

#[derive(Deserialize, Serialize)]
struct Notice {
    /// When the host took the lease, in milliseconds since the epoch.
    orders_since_ms: Option<u64>,
    /// Leases that were taken until then have ended.
    ended_to_ms: u64,
    news: ClusterNews,
}

#[derive(Deserialize, Serialize)]
enum ClusterNews {
    /// The certificates that the host has, or some of them: name, kind of key, and the beginning of
    /// their life in seconds since the epoch.
    Holds(Vec<(String, String, i64)>),
    /// That host is asked for one.
    Wants {
        host: u64,
        name: String,
        key: String,
    },
    Certificate {
        name: String,
        key: String,
        pem: Hidden,
    },
    /// The schedule of a certificate, so that the next who orders keeps the authority's limits.
    Schedule {
        name: String,
        state: String,
    },
    /// The answers to an authority that asks now: all, each with its certificate's name.
    Answers {
        number: u64,
        answers: Vec<(String, Challenge)>,
    },
    /// That host's answers of this number are given here too.
    Answering {
        host: u64,
        number: u64,
    },
    /// An operator's order, for the host that orders.
    Change {
        name: String,
        change: CertificateChange,
    },
}

impl Supervisor<'_> {
    /// There are other hosts, or there are none any more.
    pub(super) fn share_certificates(&mut self) {
        let prepared = &self.served.acme;
        let has_others = self.served.summary.has_other_hosts();
        let is_shared = has_others && !prepared.options.entries.is_empty();
        let sharing = &mut self.acme.sharing;
        sharing.cipher.follow(prepared.notice_roots.iter().map(|root| &root.0));
        if is_shared && sharing.lease.is_none() {
            let now = Instant::now();
            (sharing.lease, sharing.next) = (Some(HostLease::new(sharing.own, now)), now);
        } else if !is_shared {
            sharing.lease = None;
        }
    }

    fn notify(&mut self, news: ClusterNews) {
        let sharing = &mut self.acme.sharing;
        let Some(lease) = &sharing.lease else {
            return;
        };
        let subject = match &news {
            ClusterNews::Certificate { name, .. } => format!("the certificate {name}"),
            _ => "what this host does for certificates".to_owned(),
        };
        let (orders_since_ms, ended_to_ms) = (lease.held_since(), lease.ended_to_ms);
        let notice = Notice { orders_since_ms, ended_to_ms, news };
        let notice = serde_json::to_vec(&notice).map(Zeroizing::new);
        let sealed = notice.ok().and_then(|notice| sharing.cipher.seal(&notice, unix_ms()));
        let Some(text) = sealed else {
            return;
        };
        if text.len() > NOTICE_BYTES_MAX {
            return warn(format_args!(
                "{subject} is not told to the cluster's other hosts: {} bytes are more than \
                 {NOTICE_BYTES_MAX}\n\
                 hint: ECDSA keys and a chain of fewer certificates are shorter",
                text.len(),
            ));
        }
        self.tell(&SupervisorOrder::Notify(text));
    }

    /// Gives a sign of life, and does what is due.
    pub(super) fn tend_sharing(&mut self, now: Instant) {
        let sharing = &mut self.acme.sharing;
        let Some(lease) = sharing.lease.as_mut().filter(|_| sharing.next <= now) else {
            return;
        };
        let is_overdue = self.acme.statuses.values().any(|one| one.is_overdue);
        let change = lease.tick(now, unix_ms(), is_overdue);
        self.lease_changed(change);
        let hosts: Vec<_> =
            self.acme.sharing.lease.iter().flat_map(|lease| lease.hosts(now)).collect();
        let sharing = &mut self.acme.sharing;
        sharing.given.retain(|host, _| hosts.contains(host));
        sharing.wanted.retain(|_, asked| now < *asked + WANTED_AGAIN);
        let before = sharing.foreign.len();
        sharing.foreign.retain(|_, (_, told, _)| now < *told + ANSWERS_KEPT);
        let has_changed = sharing.foreign.len() != before;
        let is_urgent = !self.acme.challenges.asked.is_empty();
        self.acme.sharing.next = now + if is_urgent { ANSWERS_REPEAT } else { HEARTBEAT };
        if has_changed {
            self.set_answers();
        }
        if !self.acme.challenges.answered.is_empty() {
            self.share_answers();
        }
        self.challenges_are_ready(now);
        let page = self.acme.page_of_certificates();
        self.notify(ClusterNews::Holds(page));
    }

    fn lease_changed(&mut self, change: Option<LeaseChange>) {
        match change {
            Some(LeaseChange::Taken) => {
                note("this host orders the cluster's certificates from now on");
                self.acme.send_all();
            }
            Some(LeaseChange::GivenUp) => {
                warn(
                    "this host lets another one order the cluster's certificates, because a \
                     certificate is overdue\n\
                     hint: `lariat certificate list` says which, and why it has not come",
                );
                self.orders_no_more();
            }
            Some(LeaseChange::PassedOver) => {
                warn(
                    "this host orders the cluster's certificates from now on, because one is \
                     overdue that another host should have ordered\n\
                     hint: that host's own log and `lariat certificate list` say why; if no host \
                     of the cluster is it, somebody else has `cluster.secret`",
                );
                self.acme.send_all();
            }
            None => {}
        }
    }

    fn orders_no_more(&mut self) {
        self.forget_challenges();
        self.acme.send_all();
        self.tell_acme();
    }

    /// Tells the other hosts what to answer.
    pub(super) fn share_answers(&mut self) {
        let challenges = &self.acme.challenges;
        let answers = challenges.answered.values().cloned().collect();
        self.notify(ClusterNews::Answers { number: challenges.number, answers });
    }

    pub(super) fn share_schedule(&mut self, name: &str, state: &str) {
        self.notify(ClusterNews::Schedule { name: name.to_owned(), state: state.to_owned() });
    }

    /// Passes an operator's order on, unless it is this host that orders.
    pub(super) fn pass_on(&mut self, name: &str, change: CertificateChange) -> bool {
        let is_passed_on = !self.acme.sharing.orders();
        if is_passed_on {
            note("the order goes to the host that orders the cluster's certificates");
            self.notify(ClusterNews::Change { name: name.to_owned(), change });
        }
        is_passed_on
    }

    /// A worker process has a notice. What it says may be anybody's who has the cluster's secret.
    pub(super) fn notified(&mut self, text: &str) {
        let now = Instant::now();
        let Some((host, Notice { orders_since_ms, ended_to_ms, news })) = self.opened(text, now)
        else {
            return;
        };
        let Some(lease) = &mut self.acme.sharing.lease else {
            return;
        };
        let said = HeardLease { since_ms: orders_since_ms, ended_to_ms };
        if lease.heard(host, said, now, unix_ms()) {
            note(
                "another host orders the cluster's certificates: it did before this one, or this \
                 one has not delivered",
            );
            self.orders_no_more();
        }
        if self.acme.sharing.lease.as_ref().is_none_or(|lease| !lease.knows(host)) {
            // There are too many, or it is this one itself.
            return;
        }
        match news {
            ClusterNews::Holds(held) => self.others_hold(host, &held, now),
            ClusterNews::Wants { host, name, key } if host == self.acme.sharing.own => {
                let sharing = &mut self.acme.sharing;
                let wanted = (name, key);
                if sharing.loads.len() < LOADS_WAITING_MAX && !sharing.loads.contains(&wanted) {
                    sharing.loads.push_back(wanted);
                    self.load_wanted();
                }
            }
            ClusterNews::Certificate { name, key, pem } => self.certificate_came(name, &key, pem.0),
            ClusterNews::Schedule { name, state }
                if !self.acme.sharing.orders() && self.acme.statuses.contains_key(&name) =>
            {
                self.acme.states.insert(name.clone(), state.clone());
                self.acme.keep(acme_folder::state_file(&name), state, None, None);
            }
            ClusterNews::Answers { number, answers } => self.answer_for(host, number, answers, now),
            ClusterNews::Answering { host: to, number } if to == self.acme.sharing.own => {
                self.acme.sharing.given.insert(host, number);
                self.challenges_are_ready(now);
            }
            ClusterNews::Change { name, change }
                if self.acme.sharing.orders() && self.acme.statuses.contains_key(&name) =>
            {
                note(format_args!("another host's operator orders to {} {name}", change.word()));
                self.change_certificate(name, change);
            }
            _ => {}
        }
    }

    /// Opens a notice, and says from time to time that others cannot be.
    fn opened(&mut self, text: &str, now: Instant) -> Option<(u64, Notice)> {
        let sharing = &mut self.acme.sharing;
        sharing.lease.as_ref()?;
        let window = self.served.acme.time_window.as_millis();
        let window_ms = u64::try_from(window).unwrap_or(u64::MAX);
        match sharing.cipher.open(text, (now, unix_ms()), window_ms) {
            Ok((host, notice)) => Some((host, serde_json::from_slice(&notice).ok()?)),
            // A store keeps some for us. All hosts repeat what they say.
            Err(NoticeFault::BeforeStart) => None,
            Err(fault) => {
                if sharing.told.is_none_or(|told| told + LEFT_OUT_REPEAT <= now) {
                    sharing.told = Some(now);
                    warn(format_args!(
                        "a notice about the cluster's certificates is left out: {fault}\n\
                         hint: all hosts need the same `cluster.secret`, one version of lariat and \
                         clocks within `cluster.peers.time-window` (30 s without peers); a worker \
                         process or a store in an attacker's hands may send such notices too"
                    ));
                }
                None
            }
        }
    }

    fn others_hold(&mut self, host: u64, held: &[(String, String, i64)], now: Instant) {
        let mut wanted = Vec::new();
        for (name, key, not_before) in held {
            let sharing = &self.acme.sharing;
            let is_asked = sharing.wanted.contains_key(&(name.clone(), key.clone()));
            if !is_asked
                && sharing.wanted.len() + wanted.len() < WANTED_MAX
                && self.acme.is_wanted(name, key)
                && self.acme.begin_of(name, key).is_none_or(|ours| ours < *not_before)
            {
                wanted.push((name.clone(), key.clone()));
            }
        }
        for (name, key) in wanted {
            self.acme.sharing.wanted.insert((name.clone(), key.clone()), now);
            self.notify(ClusterNews::Wants { host, name, key });
        }
    }

    fn load_wanted(&mut self) {
        while self.acme.sharing.loading < LOADS_MAX
            && let Some((name, key)) = self.acme.sharing.loads.pop_front()
        {
            if !self.acme.is_wanted(&name, &key) {
                continue;
            }
            let path = self.acme.options.folder.join(config::certificate_file(&name, &key));
            let sender = self.acme.sender.clone();
            let hear = move |done, _| sender.send(Event::AcmeLoaded(name, key, done));
            // The host that wants it asks again.
            if self.acme.readers.start(&Task::Load(path), hear).is_ok() {
                self.acme.sharing.loading += 1;
            }
        }
    }

    /// A certificate that another host wants has been read.
    pub(super) fn acme_loaded(
        &mut self,
        name: String,
        key: String,
        done: Result<ReaderResult, Failure>,
    ) {
        self.acme.sharing.loading = self.acme.sharing.loading.saturating_sub(1);
        if let Ok(ReaderResult::Loaded(text)) = done
            && let Ok(pem) = String::from_utf8(text.bytes().to_vec())
        {
            self.notify(ClusterNews::Certificate { name, key, pem: Hidden(pem) });
        }
        self.load_wanted();
    }

    fn certificate_came(&mut self, name: String, key: &str, pem: String) {
        let mut entries = self.acme.options.entries.iter();
        let Some(entry) =
            entries.find(|one| one.name == name && one.keys.iter().any(|kind| kind == key))
        else {
            return;
        };
        // Nobody is given what was not asked for.
        let wanted = self.acme.sharing.wanted.remove(&(name.clone(), key.to_owned()));
        if wanted.is_none() {
            return;
        }
        match acme_folder::issued(entry, key, &pem, SystemTime::now()) {
            Ok(served) if served.not_after - served.not_before > LIFE_MAX_S => warn(format_args!(
                "what another host has sent for {name} is left out: it lives for more than three \
                 years, and would not be renewed for as long"
            )),
            Ok(served) => {
                let ours = self.acme.begin_of(&name, key);
                if ours.is_none_or(|ours| ours < served.not_before) {
                    let path = config::certificate_file(&name, key);
                    self.acme.keep(path, pem, Some((name, served)), None);
                }
            }
            Err(why) => warn(format_args!(
                "what another host has sent for {name} is left out, and not served: {why}"
            )),
        }
    }

    /// Another host wants its authority answered here as well.
    fn answer_for(
        &mut self,
        host: u64,
        number: u64,
        answers: Vec<(String, Challenge)>,
        now: Instant,
    ) {
        let known = self.acme.sharing.foreign.get_mut(&host);
        if let Some((before, told, _)) = known.filter(|(before, ..)| *before == number) {
            *told = now;
            let before = *before;
            let mut asked = self.acme.sharing.foreign_asked.iter();
            if asked.all(|(_, one, number)| (*one, *number) != (host, before)) {
                self.notify(ClusterNews::Answering { host, number });
            }
            return;
        }
        let entries = &self.acme.options.entries;
        let foreign = self.acme.sharing.foreign.iter().filter(|(one, _)| **one != host);
        let count: usize = foreign.map(|(_, (_, _, answers))| answers.len()).sum();
        let left = CHALLENGES_MAX.saturating_sub(count);
        let answers = answers.into_iter().take(left).filter_map(|(name, challenge)| {
            let entry = entries.iter().find(|entry| entry.name == name)?;
            allowed(challenge, entry).ok()
        });
        let answers: Vec<_> = answers.collect();
        let known = self.acme.sharing.foreign.contains_key(&host);
        if answers.is_empty() && !known {
            return;
        }
        self.acme.sharing.foreign.insert(host, (number, now, answers));
        let order = self.set_answers();
        self.acme.sharing.foreign_asked.push_back((order, host, number));
    }

    /// Orders workers to answer as all hosts want it; the number of the order.
    pub(super) fn set_answers(&mut self) -> u64 {
        let foreign = self.acme.sharing.foreign.values().flat_map(|(.., answers)| answers);
        let (number, validations) = self.acme.challenges.in_place(foreign);
        self.tell(&SupervisorOrder::Validations(number, validations));
        number
    }

    /// Workers answer as they were told by that order.
    pub(super) fn workers_answer(&mut self, number: u64) {
        let sharing = &mut self.acme.sharing;
        sharing.answered = sharing.answered.max(number);
        let asked = &mut sharing.foreign_asked;
        let given = asked.iter().take_while(|(order, ..)| *order <= number).count();
        let given: Vec<_> = asked.drain(..given).collect();
        for (_, host, number) in given {
            self.notify(ClusterNews::Answering { host, number });
        }
        self.challenges_are_ready(Instant::now());
    }

    /// Tells of challenges that all workers of all hosts answer, or that have waited long enough.
    fn challenges_are_ready(&mut self, now: Instant) {
        let sharing = &self.acme.sharing;
        let (waiting, ready): (VecDeque<_>, VecDeque<_>) =
            self.acme.challenges.asked.iter().copied().partition(|(number, _, until)| {
                *number > sharing.answered || (*until > now && !sharing.is_given(*number, now))
            });
        self.acme.challenges.asked = waiting;
        for (_, id, _) in ready {
            self.acme.send(AcmeOrder::Done { id });
        }
    }
}
