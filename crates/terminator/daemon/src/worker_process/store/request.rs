//! The requests to the store: which names and values of the store it is about, what is taken from
//! there, and their faults: the reason, whose fault it is, and the remedy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use config::{StoreKind, StoreOptions};
use session::mesh::{Deleted, LocalSessions};
use session::{Key, Offered};
use telemetry::outcome::{SessionTier, StoreFailure, StoreRejection};
use telemetry::printable;
use tls::resumption::cluster::SharedSessions;
use tls::resumption::store::{StoreCipher, StoreName};
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use zeroize::Zeroizing;

use super::board::{MAILBOX_SECONDS, NoticeBoard, PLACES};
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

/// The longest text of the store: its errors are a line.
const TEXT_CHARACTERS_MAX: usize = 200;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Fault {
    pub(super) why: StoreFailure,
    pub(super) text: String,
    /// The operator's remedy; empty = nothing that would be known here.
    hint: &'static str,
}

impl Fault {
    pub(super) fn of(why: StoreFailure, text: impl Into<String>) -> Self {
        // What a server says may be of many lines, and of any length.
        let text = printable::line(&text.into()).to_string();
        let text: String = text.chars().take(TEXT_CHARACTERS_MAX).collect();
        let hint = match why {
            StoreFailure::Authentication => {
                "its user needs the password of `cluster.store`, the commands GET, GETDEL, SET \
                 and DEL, and names that begin with `prefix`"
            }
            StoreFailure::Full => {
                "give it more memory, or have it evict: maxmemory-policy volatile-ttl"
            }
            StoreFailure::Redirect => {
                "if it is a node of yours, list it in `nodes`, or its network in `networks` of \
                 `cluster.store`"
            }
            StoreFailure::Refused if text.starts_with("MOVED") => {
                "it belongs to a Redis Cluster: list some of its nodes in `nodes`"
            }
            StoreFailure::Refused if text.contains("unknown command") => {
                "GETDEL needs Redis 6.2 or newer, or Valkey"
            }
            _ => "",
        };
        Self { why, text, hint }
    }

    /// An error that the store answered with; what it says is short, and what operators look for.
    pub(super) fn answered(error: &str) -> Self {
        let why = match error.split(' ').next().unwrap_or_default() {
            "OOM" => StoreFailure::Full,
            "READONLY" | "MISCONF" | "NOREPLICAS" => StoreFailure::ReadOnly,
            "NOAUTH" | "WRONGPASS" | "NOPERM" => StoreFailure::Authentication,
            // A server without a password.
            "ERR" if error.contains("AUTH") => StoreFailure::Authentication,
            "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" => StoreFailure::Unready,
            _ => StoreFailure::Refused,
        };
        Self::of(why, error)
    }

    /// There is no connection, or it has ended.
    pub(super) fn connection(text: impl Into<String>) -> Self {
        Self::of(StoreFailure::Connection, text)
    }

    /// The same with where it happened.
    pub(super) fn at(self, place: impl std::fmt::Display) -> Self {
        let text = format!("{place}: {}", self.text);
        Self { text, ..self }
    }

    /// The same with that remedy.
    pub(super) fn hinting(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(super) fn unless<T>(
        came: Result<Result<T, Self>, Elapsed>,
        time: Duration,
    ) -> Result<T, Self> {
        came.unwrap_or_else(|_| Err(Self::late(time)))
    }

    pub(super) fn late(time: Duration) -> Self {
        let text = format!("no answer within {} ms", time.as_millis());
        Self::of(StoreFailure::Timeout, text)
    }

    /// The operator's remedy, as a line of its own.
    pub(super) fn remedy(&self) -> String {
        match self.hint {
            "" => String::new(),
            hint => format!("\nhint: {hint}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_says_is_one_short_line() {
        let fault = Fault::of(StoreFailure::Refused, "ERR a\nhint: b\u{1b}");
        assert_eq!(fault.text, r"ERR a\u000ahint: b\u001b");
        let fault = Fault::of(StoreFailure::Refused, "\n".repeat(1 << 20));
        assert_eq!(fault.text.len(), TEXT_CHARACTERS_MAX);
    }
}
