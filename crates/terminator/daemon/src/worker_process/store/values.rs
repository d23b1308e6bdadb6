//! The values in the store: the names that sessions have there, what is written and what is taken
//! from there; and the notices of supervisors, for hosts that share nothing else: each host has a
//! mailbox there, a value with what it has said of late, and reads those of all others.
//!
//! Owns the mailboxes' places and form, pure: values and the time in. A store that is trusted with
//! nothing can drop or delay notices, as a network can; what they say is sealed by supervisors
//! (`tls::resumption::cluster`), who take each once. A mailbox is its owner's number in a line of
//! its own, and a line for each notice.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use config::{StoreKind, StoreOptions};
use session::mesh::{DeletedKeys, LocalSessions};
use session::{Key, Offered};
use telemetry::outcome::{SessionTier, StoreRejection};
use tls::resumption::cluster::{SharedSessions, StoreCipher, StoreName};
use tokio::task::JoinSet;
use wire::store::VALUE_BYTES_MAX;
use zeroize::Zeroizing;

use super::link::{Connection, PROBE};
use super::node::{Fault, StoreNames};
use crate::admin::ClusterFacts;

/// Says something to the operator; `true` = it is a warning.
pub(crate) type Say = Arc<dyn Fn(bool, String) + Send + Sync>;

/// Passes a text of another host's supervisor on to this one's.
pub(crate) type PassOn = Arc<dyn Fn(String) + Send + Sync>;

/// Sessions that resume once and did: they do not come back.
pub(crate) type UsedUp = Arc<Mutex<DeletedKeys>>;

/// State that lasts longer than one configuration of the store.
#[derive(Clone)]
pub(crate) struct StoreContext {
    pub(crate) names: StoreNames,
    pub(crate) facts: ClusterFacts,
    pub(crate) used_up: UsedUp,
    pub(crate) say: Say,
    pub(crate) pass_on: PassOn,
    /// The number of this host, for the life of its supervisor.
    pub(crate) host: [u8; 8],
}

/// Seconds after which the store deletes a mark, so that another may leave his.
const MARK_SECONDS: u64 = 60;

/// A request for which no client waits.
pub(super) enum StoreWrite {
    Publish { session: Offered, value: Zeroizing<Vec<u8>>, lifetime: Duration },
    Delete { session: Offered },
}

pub(super) struct StoreShared {
    pub(super) options: StoreOptions,
    pub(super) cipher: StoreCipher,
    pub(super) sessions: SharedSessions,
    pub(super) context: StoreContext,
}

impl StoreShared {
    /// The store's address; no password.
    pub(super) fn address(&self) -> String {
        let nodes: Vec<_> = self.options.nodes.iter().map(ToString::to_string).collect();
        let nodes = nodes.join(", ");
        match &self.options.kind {
            StoreKind::Single => nodes,
            StoreKind::Cluster => format!("cluster of {nodes}"),
            StoreKind::Sentinel { service, .. } => format!("{service} of sentinel {nodes}"),
        }
    }

    fn name_in_store(&self, name: &StoreName) -> String {
        format!("{}{}", self.options.prefix, name.text())
    }

    /// Brings a session into the cache, by whichever of the secrets it is stored.
    pub(super) async fn bring(
        &self,
        mut connection: Connection,
        session: &Offered,
    ) -> Result<SessionTier, Fault> {
        for name in self.cipher.names(session) {
            let place = self.name_in_store(&name);
            if let Some(value) = connection.get(&place, session.once).await? {
                return Ok(match self.take_in(session, &name, value) {
                    Ok(()) => SessionTier::Store,
                    Err(why) => {
                        self.context.facts.count(why);
                        SessionTier::Nowhere
                    }
                });
            }
        }
        Ok(SessionTier::Nowhere)
    }

    fn take_in(
        &self,
        session: &Offered,
        name: &StoreName,
        value: Vec<u8>,
    ) -> Result<(), StoreRejection> {
        let (entry, left) = self.cipher.open(name, value, unix_ms())?;
        if session.once && self.used_up().contains(&session.key, unix_ms()) {
            return Err(StoreRejection::Replayed);
        }
        if session.once {
            self.use_up(&session.key, left);
        }
        // One that has come another way meanwhile is as good.
        self.sessions.insert(&session.key, &entry, left, Instant::now());
        Ok(())
    }

    pub(super) async fn write(
        &self,
        mut connection: Connection,
        write: StoreWrite,
    ) -> Result<(), Fault> {
        match write {
            StoreWrite::Publish { session, value, lifetime } => {
                let name = *self.cipher.names(&session).first().expect("one a secret");
                let ends_ms = unix_ms() + u64::try_from(lifetime.as_millis()).unwrap_or(0);
                let sealed = self.cipher.seal(&name, &value, ends_ms);
                let seconds = lifetime.as_secs().max(1);
                connection.set(&self.name_in_store(&name), &sealed, seconds).await
            }
            StoreWrite::Delete { session } => {
                for name in self.cipher.names(&session) {
                    connection.delete(&self.name_in_store(&name)).await?;
                }
                Ok(())
            }
        }
    }

    /// Asks for nothing in particular, and whether hosts with another secret have this prefix:
    /// nothing else would show it, because names of sessions depend on the secret. The first who
    /// comes leaves a mark.
    pub(super) async fn probe(&self, mut connection: Connection) -> Result<bool, Fault> {
        let name = format!("{}{PROBE}", self.options.prefix);
        if let Some(mark) = connection.get(&name, false).await? {
            return Ok(self.cipher.is_of_others(mark));
        }
        // A store that takes no values says so of sessions.
        let _ = connection.set(&name, &self.cipher.mark(), MARK_SECONDS).await;
        Ok(false)
    }

    /// Writes a mailbox, if there is news, and reads all.
    pub(super) async fn exchange(
        &self,
        mut connection: Connection,
        post: Option<(usize, String)>,
    ) -> Result<Box<[Option<Vec<u8>>; PLACES]>, Fault> {
        let prefix = &self.options.prefix;
        if let Some((place, contents)) = post {
            let name = NoticeBoard::name(prefix, place);
            connection.set(&name, contents.as_bytes(), MAILBOX_SECONDS).await?;
        }
        let mut asked = JoinSet::new();
        for place in 0..PLACES {
            let (name, mut connection) = (NoticeBoard::name(prefix, place), connection.clone());
            asked.spawn(async move { (place, connection.get(&name, false).await) });
        }
        let mut contents = Box::new([const { None }; PLACES]);
        while let Some(Ok((place, found))) = asked.join_next().await {
            contents[place] = found?;
        }
        Ok(contents)
    }

    pub(super) fn use_up(&self, key: &Key, left: Duration) {
        let now = unix_ms();
        let until = now + u64::try_from(left.as_millis()).unwrap_or(0);
        self.used_up().add(*key, until, now);
    }

    fn used_up(&self) -> MutexGuard<'_, DeletedKeys> {
        let used_up = self.context.used_up.lock();
        used_up.unwrap_or_else(PoisonError::into_inner)
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Mailboxes, so the most hosts: each reads all of them twice per second.
pub(super) const PLACES: usize = 16;

/// From one look into the mailboxes to the next: a challenge waits for two looks of each host, and
/// for no longer than five seconds.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// How long a notice stays in its mailbox: others have looked several times.
const NOTICE_KEPT: Duration = Duration::from_secs(5);

/// Seconds after which the store deletes the mailbox of a host that says nothing: more than a host
/// of which nothing is heard counts as alive.
pub(super) const MAILBOX_SECONDS: u64 = 15;

/// No mailbox is looked into for a supervisor that has said nothing for so long: it shares no
/// certificates any more, or has another worker process.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Notices taken from a mailbox at a time: a host says some two per second.
const TAKEN_MAX: usize = 64;

/// The longest notice that is passed on, which is longer than any of ours.
const NOTICE_BYTES_MAX: usize = VALUE_BYTES_MAX / 2;

/// The mailbox of this host, and what was seen in those of others.
#[derive(Default)]
pub(super) struct NoticeBoard {
    own: String,
    /// The place of its mailbox.
    place: usize,
    notices: VecDeque<(Instant, String)>,
    has_news: bool,
    /// When its supervisor said something last.
    said: Option<Instant>,
    /// The last contents of each place; `None` = it was not looked at yet.
    seen: [Option<String>; PLACES],
}

impl NoticeBoard {
    /// For the host with this number, which no other has.
    pub(super) fn new(own: [u8; 8]) -> Self {
        let own = u64::from_be_bytes(own);
        Self {
            own: format!("{own:016x}"),
            place: usize::try_from(own % PLACES as u64).unwrap_or_default(),
            ..Self::default()
        }
    }

    pub(super) fn name(prefix: &str, place: usize) -> String {
        format!("{prefix}notices-{place}")
    }

    pub(super) fn add(&mut self, notice: String, now: Instant) {
        self.notices.push_back((now, notice));
        (self.has_news, self.said) = (true, Some(now));
        let bytes = |notices: &VecDeque<(Instant, String)>| {
            notices.iter().map(|(_, notice)| notice.len() + 1).sum::<usize>()
        };
        // The newest ones fit; others are said again.
        while bytes(&self.notices) > VALUE_BYTES_MAX - self.own.len() {
            self.notices.pop_front();
        }
    }

    pub(super) fn is_used(&self, now: Instant) -> bool {
        self.said.is_some_and(|said| now < said + SILENCE_MAX)
    }

    /// The place and the new contents of this host's mailbox, once it is known whose that is.
    pub(super) fn post(&mut self, now: Instant) -> Option<(usize, String)> {
        let is_ours = self.seen[self.place].as_ref().is_some_and(|seen| self.may_take(seen));
        if !is_ours || !std::mem::take(&mut self.has_news) {
            return None;
        }
        self.notices.retain(|(at, _)| now < *at + NOTICE_KEPT);
        let notices = self.notices.iter().map(|(_, notice)| &notice[..]);
        let lines: Vec<_> = std::iter::once(&self.own[..]).chain(notices).collect();
        Some((self.place, lines.join("\n")))
    }

    fn may_take(&self, contents: &str) -> bool {
        contents.is_empty() || contents.lines().next() == Some(&self.own)
    }

    /// Takes what lies at each place, and returns the notices that are new. Two hosts that have
    /// taken one place find that only the later one has it; the other goes to a free one.
    pub(super) fn look(&mut self, contents: [Option<Vec<u8>>; PLACES]) -> Vec<String> {
        let mut new = Vec::new();
        for (seen, now) in self.seen.iter_mut().zip(contents) {
            let now = now.and_then(|now| String::from_utf8(now).ok()).unwrap_or_default();
            let owner = now.lines().next().unwrap_or_default();
            // What came before this host first looked has been taken, or was not for it.
            if let Some(before) = seen.as_ref().filter(|_| owner != self.own) {
                let is_new = |notice: &&str| {
                    notice.len() <= NOTICE_BYTES_MAX && before.lines().all(|one| one != *notice)
                };
                let notices = now.lines().skip(1).take(TAKEN_MAX);
                new.extend(notices.filter(is_new).map(str::to_owned));
            }
            *seen = Some(now);
        }
        let is_free = |place: &usize| self.seen[*place].as_ref().is_some_and(String::is_empty);
        let is_taken = self.seen[self.place].as_ref().is_some_and(|seen| !self.may_take(seen));
        if is_taken {
            let later = (self.place..PLACES).chain(0..self.place);
            self.place = later.into_iter().find(is_free).unwrap_or(self.place);
            self.has_news = true;
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Places = [Option<Vec<u8>>; PLACES];

    /// One look of each host; what it writes is there for the next one.
    fn turn(hosts: &mut [NoticeBoard], places: &mut Places, now: Instant) -> Vec<Vec<String>> {
        let look = |host: &mut NoticeBoard| {
            if let Some((place, contents)) = host.post(now) {
                places[place] = Some(contents.into_bytes());
            }
            host.look(places.clone())
        };
        hosts.iter_mut().map(look).collect()
    }

    #[test]
    fn each_notice_comes_once_at_all_others() {
        // Two of them want the same place.
        let numbers = [3_u64, 3 + PLACES as u64, 9];
        let mut hosts = numbers.map(|number| NoticeBoard::new(number.to_be_bytes()));
        let (mut places, mut now) = (Places::default(), Instant::now());
        for host in &mut hosts {
            assert!(!host.is_used(now));
            host.add("before".to_owned(), now);
        }
        for _ in 0..4 {
            turn(&mut hosts, &mut places, now);
        }
        assert_eq!(places.iter().flatten().count(), 3, "each has a place of its own");
        for round in 0..40 {
            now += Duration::from_secs(1);
            for (number, host) in (0..).zip(&mut hosts) {
                host.add(format!("{round} of {number}"), now);
            }
            let mut heard = turn(&mut hosts, &mut places, now);
            let later = turn(&mut hosts, &mut places, now);
            heard.iter_mut().zip(later).for_each(|(heard, later)| heard.extend(later));
            for (number, heard) in heard.iter_mut().enumerate() {
                heard.sort();
                let others = (0..3).filter(|other| *other != number);
                let expected: Vec<_> = others.map(|other| format!("{round} of {other}")).collect();
                assert_eq!(*heard, expected);
            }
        }
        let longest = places.iter().flatten().map(Vec::len).max();
        assert!(longest.is_some_and(|longest| longest < 100), "old ones go: {longest:?}");
        assert!(hosts[0].is_used(now) && !hosts[0].is_used(now + SILENCE_MAX));
    }

    #[test]
    fn a_store_that_lies_or_is_full_costs_little() {
        let mut host = NoticeBoard::new([0; 8]);
        let now = Instant::now();
        host.look(Places::default());
        let mut lies = Places::default();
        lies[0] = Some(b"other\nfirst".to_vec());
        lies[1] = Some(vec![0xff; VALUE_BYTES_MAX]);
        lies[2] = Some([&b"x\n"[..], &b"a\n".repeat(VALUE_BYTES_MAX / 2 - 1)].concat());
        lies[3] = Some([&b"x\n"[..], &[b'a'; NOTICE_BYTES_MAX + 1]].concat());
        assert_eq!(host.look(lies).len(), 1 + TAKEN_MAX);
        // Somebody else has its place, and all others.
        host.look([(); PLACES].map(|()| Some(b"x".to_vec())));
        host.add("a".to_owned(), now);
        assert_eq!(host.post(now), None);
        host.look(Places::default());
        for number in 0..100 {
            host.add(format!("{number:0>9999}"), now);
        }
        let (_, contents) = host.post(now).expect("it has a place again");
        assert!(contents.len() <= VALUE_BYTES_MAX && contents.ends_with("99"));
    }
}
