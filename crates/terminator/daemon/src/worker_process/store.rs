//! The thread that keeps sessions in the store and brings them from there, and notices of
//! supervisors where there are no peers to send them to.
//!
//! Owns how much is asked of the store at a time, for how long, and when it is given up for a
//! while. The order of the tiers is `cluster`'s; the form of what is stored is `tls`'s. Nobody
//! waits for this thread longer than a fetch may take.

mod link;
mod node;
mod values;

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{StoreKind, StoreOptions};
use session::mesh::Bucket;
use session::{Breaker, FetchAnswer, Key, Offered};
use telemetry::catalogue::ProcessMetric;
use telemetry::outcome::{SessionTier, StoreFailure, StoreRejection, StoreUpdate};
use tls::resumption::cluster::{SharedSessions, StoreCipher};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, sleep_until, timeout, timeout_at};
use zeroize::Zeroizing;

use crate::admin::{ClusterFacts, StoreState, StoreStatus};
use link::{Connection, Connector};
use node::Fault;
use values::{LOOK_INTERVAL, NoticeBoard, PLACES, StoreShared, StoreWrite};

pub(super) use node::StoreNames;
pub(super) use values::{PassOn, Say, StoreContext, UsedUp};

/// Sessions that wait to be stored or deleted: half a second's worth on a large host. Some 2 MB.
const WRITES_WAITING_MAX: usize = 4096;

/// Writes that the store has been asked for and has not made: what a store takes in a few
/// milliseconds.
const WRITES_MAX: usize = 256;

/// Sessions that are looked for at a time; further ones are nowhere.
const FETCHES_MAX: usize = 1024;

/// How long storing and deleting may take: no client waits for it.
const WRITE_TIME_MAX: Duration = Duration::from_secs(1);

/// Failures in a row that have it given up: one may be chance, and each costs a client its time.
const FAILURES_MAX: u32 = 3;

/// The same of a cluster: if one of three nodes is gone, the sessions of the others still come.
const CLUSTER_FAILURES_MAX: u32 = 12;

/// Notices of this host's supervisor that wait for the thread: more than fit a mailbox are said
/// again later.
const NOTICES_WAITING_MAX: usize = 64;

/// How often the store is asked for nothing in particular: a connection that broke while nobody
/// needed it is noticed before somebody does.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// From one message that hosts with another secret have the same prefix to the next.
const OTHERS_INTERVAL: Duration = Duration::from_secs(3600);

/// From one message that a node may not be dialled to the next.
const REDIRECT_INTERVAL: Duration = Duration::from_secs(600);

pub(super) struct StoreSetup {
    pub(super) options: StoreOptions,
    pub(super) cipher: StoreCipher,
    pub(super) sessions: SharedSessions,
}

/// The way to the thread, which ends when this is dropped.
pub(super) struct StoreTier {
    fetches: Sender<Fetch>,
    writes: Sender<StoreWrite>,
    notices: Sender<String>,
    facts: ClusterFacts,
}

struct Fetch {
    session: Offered,
    answer: AnswerOnDrop,
    asked: Instant,
}

/// Who waits is told in any case.
struct AnswerOnDrop(Option<FetchAnswer>);

impl AnswerOnDrop {
    fn give(mut self, tier: SessionTier) {
        self.0.take().into_iter().for_each(|answer| answer(tier));
    }
}

impl Drop for AnswerOnDrop {
    fn drop(&mut self) {
        let left = self.0.take();
        left.into_iter().for_each(|answer| answer(SessionTier::Nowhere));
    }
}

impl StoreTier {
    pub(super) fn start(setup: StoreSetup, context: StoreContext) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (fetches, fetched) = channel(FETCHES_MAX);
        let (writes, written) = channel(WRITES_WAITING_MAX);
        let (notices, said) = channel(NOTICES_WAITING_MAX);
        let facts = context.facts.clone();
        std::thread::Builder::new().name("store".to_owned()).spawn(move || {
            runtime.block_on(Store::new(setup, context).run(fetched, written, said))
        })?;
        Ok(Self { fetches, writes, notices, facts })
    }

    pub(super) fn publish(&self, session: Offered, value: Zeroizing<Vec<u8>>, lifetime: Duration) {
        self.write(StoreWrite::Publish { session, value, lifetime });
    }

    /// Deletes one that was used up.
    pub(super) fn delete(&self, key: Key) {
        let session = Offered { key, once: true };
        self.write(StoreWrite::Delete { session });
    }

    /// Leaves a notice for the supervisors of other hosts. One that does not fit is said again.
    pub(super) fn notify(&self, text: &str) {
        let _ = self.notices.try_send(text.to_owned());
    }

    fn write(&self, write: StoreWrite) {
        if self.writes.try_send(write).is_err() {
            self.facts.count(StoreUpdate::Dropped);
        }
    }

    /// Looks for a session; what is found is in the cache when `answer` is called.
    pub(super) fn fetch(&self, session: Offered, answer: FetchAnswer) {
        // One that does not fit is dropped, and answered by that.
        let _ = self.fetches.try_send(Fetch {
            session,
            answer: AnswerOnDrop(Some(answer)),
            asked: Instant::now(),
        });
    }
}

struct Store {
    shared: Arc<StoreShared>,
    connector: Connector,
    connection: Option<Connection>,
    is_connecting: bool,
    /// Counts connections: what is heard of an old one says nothing about the new one.
    era: u64,
    /// Whether the store is there.
    link: Breaker,
    writing: Breaker,
    /// The reason why it does not answer, or takes no sessions.
    why: Option<String>,
    /// When it was last said that a node may not be dialled.
    redirect_said: Option<Instant>,
    /// When it was last said that other hosts have its prefix.
    others_said: Option<Instant>,
    rate: Bucket,
    board: NoticeBoard,
    /// Mailboxes are being read.
    is_looking: bool,
    tasks: JoinSet<StoreEvent>,
    writes: usize,
    fetches: usize,
}

enum StoreEvent {
    Connected(Result<Connection, Fault>),
    Written(u64, StoreUpdate, Result<(), Fault>),
    Fetched(u64, Result<(), Fault>),
    /// Whether hosts with another secret have the same prefix.
    Probed(u64, Result<bool, Fault>),
    Looked(u64, Result<Box<[Option<Vec<u8>>; PLACES]>, Fault>),
}

impl Store {
    fn new(setup: StoreSetup, context: StoreContext) -> Self {
        let StoreSetup { options, cipher, sessions } = setup;
        let failures_max = match options.kind {
            StoreKind::Cluster => CLUSTER_FAILURES_MAX,
            StoreKind::Single | StoreKind::Sentinel { .. } => FAILURES_MAX,
        };
        Self {
            connector: Connector::new(options.clone(), context.names.clone()),
            rate: Bucket::new(options.fetch_rate, Instant::now()),
            board: NoticeBoard::new(context.host),
            is_looking: false,
            shared: Arc::new(StoreShared { options, cipher, sessions, context }),
            connection: None,
            is_connecting: false,
            era: 0,
            link: Breaker::new(failures_max),
            writing: Breaker::new(FAILURES_MAX),
            why: None,
            redirect_said: None,
            others_said: None,
            tasks: JoinSet::new(),
            writes: 0,
            fetches: 0,
        }
    }

    /// Until nobody can ask any more.
    async fn run(
        mut self,
        mut fetches: Receiver<Fetch>,
        mut writes: Receiver<StoreWrite>,
        mut notices: Receiver<String>,
    ) {
        self.note();
        let [mut probe, mut look] = [PROBE_INTERVAL, LOOK_INTERVAL].map(tokio::time::interval);
        probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.connects_at();
            let connect = async {
                match due {
                    Some(at) => sleep_until(at.into()).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(done) = self.tasks.join_next() => self.done(done),
                fetch = fetches.recv() => match fetch {
                    Some(fetch) => self.fetch(fetch),
                    None => break,
                },
                Some(write) = writes.recv(), if self.writes < WRITES_MAX => self.write(write),
                () = connect => self.connect(),
                Some(notice) = notices.recv() => self.board.add(notice, Instant::now()),
                _ = look.tick(), if self.board.is_used(Instant::now()) => self.look(),
                _ = probe.tick() => self.probe(),
            }
        }
        // Another plan is served; sessions made under the old one are not lost.
        while let Ok(write) = writes.try_recv() {
            self.write(write);
        }
        let until = Instant::now() + WRITE_TIME_MAX;
        let _ = timeout_at(until.into(), async { while self.tasks.join_next().await.is_some() {} })
            .await;
    }

    /// When to connect; `None` = there is a connection, or soon will be.
    fn connects_at(&self) -> Option<Instant> {
        let is_wanted = self.connection.is_none() && !self.is_connecting;
        is_wanted.then(|| self.link.due().unwrap_or_else(Instant::now))
    }

    fn connect(&mut self) {
        if !self.link.lets_through(Instant::now()) {
            return;
        }
        self.is_connecting = true;
        let connector = self.connector.clone();
        self.tasks.spawn(async move { StoreEvent::Connected(connector.connect().await) });
    }

    fn probe(&mut self) {
        let Some(connection) = self.connection.clone() else {
            return;
        };
        self.fetches += 1;
        let (shared, era) = (Arc::clone(&self.shared), self.era);
        self.tasks.spawn(async move {
            let answered = timeout(WRITE_TIME_MAX, shared.probe(connection)).await;
            StoreEvent::Probed(era, Fault::unless(answered, WRITE_TIME_MAX))
        });
    }

    /// The prefix is that of others too, who do not find our sessions, nor we theirs.
    fn has_others(&mut self) {
        if self.others_said.is_some_and(|at| at.elapsed() < OTHERS_INTERVAL) {
            return;
        }
        self.others_said = Some(Instant::now());
        self.shared.context.facts.count(StoreRejection::UnknownSecret);
        let text = format!(
            "holds values under {:?} that hosts with another secret have sealed: neither finds the \
             other's sessions\n\
             hint: the hosts of a cluster need the same `cluster.secret`, or the other one in \
             `other-secrets`; clusters that have a store in common need a `cluster.store.prefix` \
             each",
            self.shared.options.prefix
        );
        self.say(true, &text);
    }

    /// Looks into the mailboxes, and brings this host's up to date.
    fn look(&mut self) {
        let Some(connection) = self.connection.clone().filter(|_| !self.is_looking) else {
            return;
        };
        self.is_looking = true;
        let (shared, era) = (Arc::clone(&self.shared), self.era);
        let post = self.board.post(Instant::now());
        self.tasks.spawn(async move {
            let looked = timeout(WRITE_TIME_MAX, shared.exchange(connection, post)).await;
            StoreEvent::Looked(era, Fault::unless(looked, WRITE_TIME_MAX))
        });
    }

    fn fetch(&mut self, fetch: Fetch) {
        let now = Instant::now();
        let until = fetch.asked + self.shared.options.fetch_timeout;
        let Some(connection) = self.connection.clone() else {
            return;
        };
        if until <= now || self.fetches >= FETCHES_MAX || !self.rate.take(1, now) {
            return;
        }
        self.fetches += 1;
        let (shared, era) = (Arc::clone(&self.shared), self.era);
        self.tasks.spawn(async move {
            let Fetch { session, answer, .. } = fetch;
            let found = timeout_at(until.into(), shared.bring(connection, &session)).await;
            match Fault::unless(found, shared.options.fetch_timeout) {
                Ok(tier) => {
                    answer.give(tier);
                    StoreEvent::Fetched(era, Ok(()))
                }
                Err(fault) => StoreEvent::Fetched(era, Err(fault)),
            }
        });
    }

    fn write(&mut self, write: StoreWrite) {
        let now = Instant::now();
        if let StoreWrite::Delete { session } = &write {
            self.shared.use_up(&session.key, self.shared.sessions.lifetime());
        }
        let Some(connection) = self.connection.clone() else {
            return self.drop_write();
        };
        let what = match &write {
            StoreWrite::Delete { .. } => StoreUpdate::Deleted,
            StoreWrite::Publish { .. } if self.writing.lets_through(now) => StoreUpdate::Published,
            StoreWrite::Publish { .. } => return self.drop_write(),
        };
        self.writes += 1;
        let (shared, era) = (Arc::clone(&self.shared), self.era);
        self.tasks.spawn(async move {
            let until = now + WRITE_TIME_MAX;
            let written = timeout_at(until.into(), shared.write(connection, write)).await;
            StoreEvent::Written(era, what, Fault::unless(written, WRITE_TIME_MAX))
        });
    }

    fn drop_write(&self) {
        self.shared.context.facts.count(StoreUpdate::Dropped);
    }

    fn done(&mut self, done: Result<StoreEvent, tokio::task::JoinError>) {
        // A panic ends the process, and no task is aborted.
        let Ok(done) = done else { return };
        match done {
            StoreEvent::Connected(Ok(connection)) => {
                self.is_connecting = false;
                self.connection = Some(connection);
                self.era += 1;
                self.answers();
            }
            StoreEvent::Connected(Err(fault)) => {
                self.is_connecting = false;
                self.shared.context.facts.count(fault.why);
                self.give_up(&fault);
            }
            StoreEvent::Fetched(era, result) => self.was_asked(era, result),
            StoreEvent::Probed(era, result) => {
                if matches!(result, Ok(true)) {
                    self.has_others();
                }
                self.was_asked(era, result.map(drop));
            }
            StoreEvent::Looked(era, result) => {
                self.is_looking = false;
                match result {
                    Ok(contents) => {
                        let notices = self.board.look(*contents).into_iter();
                        notices.for_each(|notice| (self.shared.context.pass_on)(notice));
                    }
                    Err(fault) => self.failed(era, &fault),
                }
            }
            StoreEvent::Written(era, what, result) => {
                self.writes -= 1;
                self.written(era, what, result);
            }
        }
    }

    fn was_asked(&mut self, era: u64, result: Result<(), Fault>) {
        self.fetches -= 1;
        match result {
            Ok(()) => self.succeeded(era),
            Err(fault) => self.failed(era, &fault),
        }
    }

    fn written(&mut self, era: u64, what: StoreUpdate, result: Result<(), Fault>) {
        let facts = &self.shared.context.facts;
        let is_new = what == StoreUpdate::Published;
        let Err(fault) = result else {
            facts.count(what);
            if is_new && self.writing.succeeded() {
                self.say(false, "takes sessions again");
                self.why = None;
                self.note();
            }
            return self.succeeded(era);
        };
        facts.count(StoreUpdate::Failed);
        let is_refused = matches!(fault.why, StoreFailure::Full | StoreFailure::ReadOnly);
        if is_new && (is_refused || !self.writing.is_closed()) {
            let is_news = self.writing.failed(Instant::now());
            if is_news {
                let text = format!(
                    "takes no sessions: {}; they stay on this host, and clients that go to another one \
                     make full handshakes{}",
                    fault.text,
                    fault.remedy()
                );
                self.say(true, &text);
                self.why = Some(fault.text.clone());
                self.note();
            }
        }
        self.failed(era, &fault);
    }

    fn succeeded(&mut self, era: u64) {
        if era == self.era && self.connection.is_some() {
            self.link.succeeded();
        }
    }

    /// A request failed: by itself, or since the store is not what it was.
    fn failed(&mut self, era: u64, fault: &Fault) {
        self.shared.context.facts.count(fault.why);
        if era != self.era || self.connection.is_none() {
            return;
        }
        let watched = matches!(self.shared.options.kind, StoreKind::Sentinel { .. });
        // As where an answer did not come in time: the next question has a connection of its own.
        let has_ended = self.connection.as_ref().is_some_and(Connection::has_ended);
        self.connection.take_if(|_| has_ended);
        match fault.why {
            // It answered.
            StoreFailure::Full => return,
            // Sentinels may know another master by now.
            StoreFailure::ReadOnly if watched => self.connection = None,
            StoreFailure::ReadOnly => return,
            StoreFailure::Redirect => self.names_another(fault),
            // A connection of a cluster repairs itself.
            StoreFailure::Connection if self.shared.options.kind != StoreKind::Cluster => {
                self.connection = None;
            }
            _ => {}
        }
        if self.link.failed(Instant::now()) {
            self.was_given_up(fault);
        }
    }

    /// A node of a cluster names another one that is not dialled; what the others have still comes.
    fn names_another(&mut self, fault: &Fault) {
        let is_news = self.redirect_said.is_none_or(|at| at.elapsed() > REDIRECT_INTERVAL);
        if is_news {
            self.redirect_said = Some(Instant::now());
            let text = format!("is not asked for all sessions: {}{}", fault.text, fault.remedy());
            self.say(true, &text);
        }
        self.why = Some(fault.text.clone());
        self.note();
    }

    /// It cannot be connected to.
    fn give_up(&mut self, fault: &Fault) {
        if self.link.open(Instant::now()) {
            self.was_given_up(fault);
        } else {
            self.why = Some(fault.text.clone());
            self.note();
        }
    }

    fn was_given_up(&mut self, fault: &Fault) {
        self.connection = None;
        self.shared.context.facts.count(ProcessMetric::StoreOpenings);
        self.why = Some(fault.text.clone());
        let text = format!(
            "is not asked for a while: {}; clients whose sessions are not on this host make full \
             handshakes until it answers{}",
            fault.text,
            fault.remedy()
        );
        self.say(true, &text);
        self.note();
    }

    fn answers(&mut self) {
        if self.link.succeeded() {
            self.say(false, "answers again");
        }
        if self.writing.is_closed() {
            self.why = None;
        }
        self.note();
    }

    fn say(&self, warns: bool, what: &str) {
        let text = format!("the session store {} {what}", self.shared.address());
        (self.shared.context.say)(warns, text);
    }

    /// Brings the status up to date.
    fn note(&self) {
        let state = match (&self.connection, self.writing.is_closed()) {
            (None, _) => StoreState::Down,
            (Some(_), false) => StoreState::ReadOnly,
            (Some(_), true) => StoreState::Up,
        };
        self.shared.context.facts.set_store(Some(StoreStatus {
            address: self.shared.address(),
            state,
            why: self.why.clone(),
        }));
    }
}
