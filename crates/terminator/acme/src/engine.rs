//! The engine: follows the wanted certificates, and performs what is due for each.
//!
//! Decides what runs at once, and what is reported to the supervisor. The schedule decides when
//! work is due, the order conducts the dialog with an authority.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use wire::date::put_time;

use crate::certificate::known;
use crate::messages::{
    AcmeAnswer, AcmeOrder, ChallengeKind, EntryStatus, Hidden, ServedCertificate, WAITING,
    WantedCertificate,
};
use crate::order::{Challenges, OrderDialog, OrderFault, Say, SharedAccount, now_s};
use crate::schedule::{DueStep, KnownCertificate, ORDERS_TIME, RenewalSchedule};
use crate::stored::{OpenOrder, SharedOrder};

/// Places for dialogs in progress, most of which wait: for a program, for the DNS, for an
/// authority. They bound memory and the challenges in place, which one notice reports to other
/// hosts. The limit per account leaves room for other authorities when one hangs; the limit for
/// names whose last attempt failed leaves room for others of the account.
const PLACES_MAX: usize = 96;
const PLACES_OF_ACCOUNT: usize = 48;
const PLACES_OF_FAILED: usize = 12;

/// Maximum places of a dialog, which takes one for each of its names up to this number, so that a
/// fifth dialog with 100 names does not wait for four.
const PLACES_OF_DIALOG: usize = 11;

/// Deadline of a dialog with an authority, extended by `DNS_TIME_MAX` where a program puts records
/// into the DNS, which has a deadline of its own up to a day.
const DIALOG_TIME_MAX: Duration = Duration::from_secs(30 * 60);
const DNS_TIME_MAX: Duration = Duration::from_secs(25 * 3600);

/// How often an order is gone on with at once by another process than the one before: what kills
/// them may be the order.
const TAKEN_UP_MAX: u32 = 3;

/// Maximum sleep, after which a changed clock is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// Follows entries until there are no more orders.
///
/// # Errors
/// None at present; an error would be the process's last message.
pub async fn run(
    mut orders: UnboundedReceiver<AcmeOrder>,
    say: impl Fn(AcmeAnswer) + Send + Sync + 'static,
) -> io::Result<()> {
    let (waits, mut waited) = unbounded_channel();
    let mut engine = Engine::new(Arc::new(say), waits);
    loop {
        let pause = engine.start_what_is_due();
        tokio::select! {
            order = orders.recv() => match order {
                Some(order) => engine.obey(order),
                None => return Ok(()),
            },
            Some(ended) = engine.dialogs.join_next() => {
                // An aborted dialog was of a removed entry.
                if let Ok((name, end)) = ended {
                    engine.ended(&name, end);
                }
            }
            Some((name, what)) = waited.recv() => engine.waits(&name, what),
            () = sleep(pause) => {}
        }
    }
}

struct Engine {
    say: Say,
    entries: BTreeMap<String, TrackedEntry>,
    host_roots: Arc<String>,
    /// Accounts by directory and external account.
    accounts: HashMap<(String, Option<String>), SharedAccount>,
    challenges: Arc<Challenges>,
    dialogs: JoinSet<(String, DialogEnd)>,
    /// Takes what the dialog of an entry waits for.
    waits: UnboundedSender<(String, String)>,
}

struct TrackedEntry {
    entry: WantedCertificate,
    known: Vec<KnownCertificate>,
    schedule: RenewalSchedule,
    open: SharedOrder,
    under_way: Option<DialogUnderWay>,
    told: Option<EntryStatus>,
}

struct DialogUnderWay {
    task: AbortHandle,
    stage: &'static str,
    waits_for: Option<String>,
    /// Whether the previous attempt failed.
    is_repeated: bool,
}

/// An authority's directory and the external account there.
type AccountName<'a> = (&'a str, Option<&'a str>);

/// Load of one account: its recent orders and its places in use.
#[derive(Default)]
struct AccountLoad {
    /// Times of the orders that count for the limit.
    orders: Vec<u64>,
    places: usize,
    places_of_failed: usize,
}

/// The window of a renewal (RFC 9773), and when to look again, in seconds since the epoch.
type SuggestedWindow = ((u64, u64), u64);

enum DialogEnd {
    Looked { key: String, id: String, found: Result<Option<SuggestedWindow>, OrderFault> },
    Ordered { key: String, found: Result<(ServedCertificate, Hidden), OrderFault> },
    Revoked { chain: String, found: Result<(), OrderFault> },
}

impl Engine {
    fn new(say: Say, waits: UnboundedSender<(String, String)>) -> Self {
        let challenges = Arc::new(Challenges::new(Arc::clone(&say)));
        Self {
            say,
            entries: BTreeMap::new(),
            host_roots: Arc::default(),
            accounts: HashMap::new(),
            challenges,
            dialogs: JoinSet::new(),
            waits,
        }
    }

    fn waits(&mut self, name: &str, what: String) {
        let followed = self.entries.get_mut(name);
        if let Some(dialog) = followed.and_then(|one| one.under_way.as_mut()) {
            let mut since = Vec::new();
            put_time(&mut since, now_s() * 1_000_000);
            let since = String::from_utf8_lossy(&since);
            dialog.waits_for = Some(format!("{what}, since {since}"));
            self.tell(name);
        }
    }

    fn obey(&mut self, order: AcmeOrder) {
        match order {
            AcmeOrder::Follow { entries, host_roots } => {
                let has_other_roots = *self.host_roots != host_roots;
                self.host_roots = Arc::new(host_roots);
                self.follow(entries, has_other_roots);
            }
            AcmeOrder::Renew { name } => self.want(&name, &[], true),
            AcmeOrder::Revoke { name, chains, is_replaced } => {
                self.want(&name, &chains, !is_replaced);
            }
            AcmeOrder::Done { id } => self.challenges.ended(id, Ok(())),
            AcmeOrder::Failed { id, why } => self.challenges.ended(id, Err(why)),
        }
    }

    /// Facts about entries that stay are kept; the dialogs of others end. An order that failed is
    /// placed again at once if it would be another one now.
    fn follow(&mut self, entries: Vec<WantedCertificate>, has_other_roots: bool) {
        let mut before = std::mem::take(&mut self.entries);
        for entry in entries {
            let followed = match before.remove(&entry.name) {
                Some(mut followed) => {
                    if has_other_roots || !entry.is_written_as(&followed.entry) {
                        followed.schedule.hurry();
                    }
                    let known = entry.certificates.iter().map(known).collect();
                    TrackedEntry { known, entry, ..followed }
                }
                None => TrackedEntry::new(entry),
            };
            self.entries.insert(followed.entry.name.clone(), followed);
        }
        for gone in before.into_values() {
            if let Some(dialog) = gone.under_way {
                dialog.task.abort();
            }
        }
        let names: Vec<String> = self.entries.keys().cloned().collect();
        names.iter().for_each(|name| self.tell(name));
    }

    fn want(&mut self, name: &str, revoked: &[String], is_ordered: bool) {
        let Some(followed) = self.entries.get_mut(name) else {
            return;
        };
        if is_ordered {
            followed.schedule.want(&followed.entry.keys);
        }
        followed.schedule.revoke(revoked.iter().cloned());
        self.remember(name);
        self.tell(name);
    }

    /// Begins dialogs that are due; returns the time until more is due.
    fn start_what_is_due(&mut self) -> Duration {
        let now = now_s();
        loop {
            let loads = self.loads(now);
            let used: usize = loads.values().map(|load| load.places).sum();
            if used >= PLACES_MAX {
                return SLEEP_MAX;
            }
            let waiting = self.entries.values().filter(|one| one.under_way.is_none());
            let next = waiting.filter_map(|one| {
                let load = loads.get(&account_name(&one.entry)).filter(|load| one.fits(load))?;
                let (at, step) = one.next(load, now)?;
                Some((at, one.entry.name.clone(), step))
            });
            match next.min() {
                Some((at, name, step)) if at <= now => self.start(&name, step, now),
                Some((at, ..)) => return SLEEP_MAX.min(Duration::from_secs(at - now)),
                None => return SLEEP_MAX,
            }
        }
    }

    fn loads(&self, now: u64) -> HashMap<AccountName<'_>, AccountLoad> {
        let mut loads: HashMap<_, AccountLoad> = HashMap::new();
        for one in self.entries.values() {
            let load = loads.entry(account_name(&one.entry)).or_default();
            let orders = one.schedule.orders().iter().copied();
            load.orders.extend(orders.filter(|at| at.saturating_add(ORDERS_TIME) > now));
            if let Some(dialog) = &one.under_way {
                let places = one.entry.domains.len().min(PLACES_OF_DIALOG);
                load.places += places;
                load.places_of_failed += if dialog.is_repeated { places } else { 0 };
            }
        }
        loads
    }

    fn start(&mut self, name: &str, step: DueStep, now: u64) {
        let Some(followed) = self.entries.get_mut(name) else {
            return;
        };
        let (directory, external) = account_name(&followed.entry);
        let account = (directory.to_owned(), external.map(str::to_owned));
        let slot = self.accounts.entry(account).or_default();
        let is_repeated = followed.schedule.is_repeated();
        let dialog = OrderDialog {
            entry: followed.entry.clone(),
            host_roots: Arc::clone(&self.host_roots),
            slot: Arc::clone(slot),
            challenges: Arc::clone(&self.challenges),
            open: followed.open.clone(),
            waits: {
                let (waits, name) = (self.waits.clone(), name.to_owned());
                Box::new(move |what: &str| drop(waits.send((name.clone(), what.to_owned()))))
            },
        };
        let owned = name.to_owned();
        let is_by_dns = followed.entry.challenge == ChallengeKind::Dns;
        let limit = if is_by_dns { DNS_TIME_MAX } else { DIALOG_TIME_MAX };
        let (task, stage) = match step {
            DueStep::Revoke(chain) => {
                followed.schedule.attempts(now);
                let end = async move {
                    let found = within(DIALOG_TIME_MAX, dialog.revoke(&chain)).await;
                    DialogEnd::Revoked { chain, found }
                };
                (self.dialogs.spawn(async { (owned, end.await) }), "revoking")
            }
            DueStep::Look(key) => {
                let known = followed.known.iter().find(|one| one.key == key);
                let id = known.map_or_else(String::new, |one| one.id.clone());
                let end = async move {
                    let found = within(DIALOG_TIME_MAX, dialog.suggested(&id)).await;
                    DialogEnd::Looked { key, id, found }
                };
                (self.dialogs.spawn(async { (owned, end.await) }), "asking when to renew")
            }
            DueStep::Order(key, replaces) => {
                followed.schedule.begins(now);
                let state = followed.schedule.to_text();
                let is_stored = self.challenges.store(owned.clone(), state);
                let end = async move {
                    let order = async {
                        is_stored.await?;
                        dialog.order(&key, replaces.as_deref()).await
                    };
                    let found = within(limit, order).await;
                    DialogEnd::Ordered { key, found }
                };
                (self.dialogs.spawn(async { (owned, end.await) }), "ordering")
            }
        };
        let waits_for = None;
        followed.under_way = Some(DialogUnderWay { task, stage, waits_for, is_repeated });
        if stage != "ordering" {
            self.remember(name);
        }
        self.tell(name);
    }

    fn ended(&mut self, name: &str, end: DialogEnd) {
        let Some(followed) = self.entries.get_mut(name) else {
            return;
        };
        followed.under_way = None;
        let now = now_s();
        match end {
            DialogEnd::Looked { key, id, found: Ok(found) } => {
                let (window, again) = found.unzip();
                followed.schedule.suggested(&key, &id, window, again, now);
            }
            // The known time remains valid; a failing order will report the reason.
            DialogEnd::Looked { key, id, found: Err(fault) } => {
                let again = fault.wait_until.map(|at| at.saturating_sub(now));
                followed.schedule.suggested(&key, &id, None, again, now);
            }
            DialogEnd::Ordered { key, found: Ok((served, key_pem)) } => {
                followed.schedule.has_succeeded(&key, now);
                followed.known.retain(|one| one.key != key);
                followed.known.push(known(&served));
                let chain_pem = served.chain_pem.clone();
                followed.entry.certificates.retain(|one| one.key != key);
                followed.entry.certificates.push(served);
                let name = name.to_owned();
                (self.say)(AcmeAnswer::Issued { name: name.clone(), key, chain_pem, key_pem });
                // Behind the certificate, because without that it is needed still.
                self.is_over(&name);
            }
            DialogEnd::Ordered { key, found: Err(fault) } => {
                if fault.was_issued {
                    followed.schedule.was_issued(&key, now);
                }
                followed.has_failed(&fault);
                if !fault.is_unanswered {
                    self.is_over(name);
                }
            }
            DialogEnd::Revoked { found: Err(fault), .. } => followed.has_failed(&fault),
            DialogEnd::Revoked { chain, found: Ok(()) } => followed.schedule.is_revoked(&chain),
        }
        self.remember(name);
        self.tell(name);
    }

    /// Forgets the order that was placed for an entry, if there is one.
    fn is_over(&self, name: &str) {
        let open = self.entries.get(name).map(|one| &one.open);
        if open.and_then(|open| open.set(None)).is_some() {
            (self.say)(AcmeAnswer::Open { name: name.to_owned(), order: None, asks: None });
        }
    }

    /// Lets the supervisor store an entry's schedule.
    fn remember(&self, name: &str) {
        if let Some(followed) = self.entries.get(name) {
            let (name, state) = (name.to_owned(), followed.schedule.to_text());
            (self.say)(AcmeAnswer::State { name, state, asks: None });
        }
    }

    fn tell(&mut self, name: &str) {
        let now = now_s();
        let next = self.entries.get(name).map(|one| {
            let loads = self.loads(now);
            loads.get(&account_name(&one.entry)).and_then(|load| one.next(load, now))
        });
        let Some(next) = next else {
            return;
        };
        let Some(followed) = self.entries.get_mut(name) else {
            return;
        };
        let stage = followed.under_way.as_ref().map_or(WAITING, |dialog| dialog.stage);
        let status = EntryStatus {
            name: name.to_owned(),
            stage: stage.to_owned(),
            waits_for: followed.under_way.as_ref().and_then(|dialog| dialog.waits_for.clone()),
            next: next.filter(|_| followed.under_way.is_none()).map(|(at, _)| at.max(now)),
            last_failure: followed.schedule.last_failure.clone(),
            failed_at: followed.schedule.failed_at(),
            failures: followed
                .schedule
                .last_failure
                .as_ref()
                .map_or(0, |_| followed.schedule.failures().into()),
        };
        if followed.told.as_ref() != Some(&status) {
            followed.told = Some(status.clone());
            (self.say)(AcmeAnswer::Status(status));
        }
    }
}

impl TrackedEntry {
    fn new(entry: WantedCertificate) -> Self {
        let stored = entry.state.as_ref().and_then(|state| RenewalSchedule::of_text(state));
        let mut schedule = stored.unwrap_or_default();
        let open = entry.open.as_ref().and_then(|open| OpenOrder::of_text(&open.0));
        if open.as_ref().is_some_and(|open| open.taken_up < TAKEN_UP_MAX) {
            schedule.goes_on();
        }
        let shared = SharedOrder::default();
        shared.set(open);
        Self {
            known: entry.certificates.iter().map(known).collect(),
            schedule,
            open: shared,
            entry,
            under_way: None,
            told: None,
        }
    }

    fn next(&self, load: &AccountLoad, now: u64) -> Option<(u64, DueStep)> {
        let WantedCertificate { name, keys, .. } = &self.entry;
        self.schedule.next(name, keys, &self.known, &load.orders, now)
    }

    /// Reports whether a dialog may begin beside those in progress with its account.
    fn fits(&self, load: &AccountLoad) -> bool {
        load.places < PLACES_OF_ACCOUNT
            && (load.places_of_failed < PLACES_OF_FAILED || !self.schedule.is_repeated())
    }

    fn has_failed(&mut self, fault: &OrderFault) {
        if fault.is_ours {
            self.schedule.was_not_placed(&fault.why, now_s());
        } else {
            let why = format!("{}: {}", self.entry.directory, fault.why);
            self.schedule.has_failed(&why, fault.wait_until, now_s());
        }
    }
}

/// Ends a dialog at its deadline, so that no authority can delay it without end.
async fn within<T>(
    limit: Duration,
    dialog: impl Future<Output = Result<T, OrderFault>>,
) -> Result<T, OrderFault> {
    let minutes = limit.as_secs() / 60;
    let late = || OrderFault::new(format!("it has taken more than {minutes} minutes in all"));
    timeout(limit, dialog).await.unwrap_or_else(|_| Err(late()))
}

fn account_name(entry: &WantedCertificate) -> AccountName<'_> {
    let external = entry.external_account.as_ref();
    (&entry.directory, external.map(|one| one.key_id.as_str()))
}
