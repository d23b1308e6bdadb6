//! The requests to the store: which names and values of the store it is about, and what is taken
//! from there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use config::{StoreKind, StoreOptions};
use session::mesh::{Deleted, LocalSessions};
use session::{Key, Offered};
use telemetry::outcome::{SessionTier, StoreRejection};
use tls::resumption::cluster::{SharedSessions, StoreCipher, StoreName};
use tokio::task::JoinSet;
use zeroize::Zeroizing;

use super::board::{MAILBOX_SECONDS, NoticeBoard, PLACES};
use super::fault::Fault;
use super::link::{Connection, PROBE};
use super::node::StoreNames;
use crate::admin::ClusterFacts;

/// Says something to the operator; `true` = it is a warning.
pub(crate) type Say = Arc<dyn Fn(bool, String) + Send + Sync>;

/// Passes a text of another host's supervisor on to this one's.
pub(crate) type PassOn = Arc<dyn Fn(String) + Send + Sync>;

/// Sessions that resume once and did: they do not come back.
pub(crate) type UsedUp = Arc<Mutex<Deleted>>;

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
pub(super) enum Write {
    Publish { session: Offered, value: Zeroizing<Vec<u8>>, lifetime: Duration },
    Delete { session: Offered },
}

pub(super) struct Shared {
    pub(super) options: StoreOptions,
    pub(super) cipher: StoreCipher,
    pub(super) sessions: SharedSessions,
    pub(super) context: StoreContext,
}

impl Shared {
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
        write: Write,
    ) -> Result<(), Fault> {
        match write {
            Write::Publish { session, value, lifetime } => {
                let name = *self.cipher.names(&session).first().expect("one a secret");
                let ends_ms = unix_ms() + u64::try_from(lifetime.as_millis()).unwrap_or(0);
                let sealed = self.cipher.seal(&name, &value, ends_ms);
                let seconds = lifetime.as_secs().max(1);
                connection.set(&self.name_in_store(&name), &sealed, seconds).await
            }
            Write::Delete { session } => {
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

    fn used_up(&self) -> MutexGuard<'_, Deleted> {
        let used_up = self.context.used_up.lock();
        used_up.unwrap_or_else(PoisonError::into_inner)
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
