//! Resumption: what lets a client that was here before skip the certificate and its signature.
//!
//! One [`Resumption`] serves the whole process; a reload makes another one with the same stored
//! sessions and, unless other keys were configured, the same keys. Each service sees it through its
//! own name, so that no session made with one service resumes at another.
//!
//! - TLS 1.3 resumes by stateless tickets (RFC 8446 section 4.6.1): nothing is stored, and any
//!   host with the same secret can open them. It always adds a fresh key exchange (psk_dhe_ke).
//! - TLS 1.2 resumes by ticket (RFC 5077) the clients that can, by session id the others. A client
//!   gets the one or the other: storing a session for a client that holds a ticket would fill the
//!   store with what nobody asks for.
//! - Where it is wanted, TLS 1.3 resumes from the store as well, each session once. Early data
//!   needs that: what resumes once cannot be replayed (RFC 8446 section 8.1).
//! - A client that showed a certificate is verified again each time, by what is configured now:
//!   its chain is in the session, under the seal.
//!
//! The memory that stored sessions lie in outlives the process that wrote it, and its successor
//! goes on with it. Both have the same key, so that nonces must differ between them: they begin
//! with the process's number, and count from there (AES-256-GCM, NIST SP 800-38D section 8.2.1).
//!
//! The servers of TLS 1.2 sessions that pass by closed have entries beside them, which go to other
//! hosts as sessions do. Servers' ids and sessions' names are the caller's. An entry is a hint: if
//! it is wrong or lost, a client makes a full handshake.

pub mod cluster;
pub mod keys;
mod service;
mod ticket;

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};
use aws_lc_rs::hkdf::Prk;
use aws_lc_rs::rand;
use session::{
    Counters, ExpectedEntry, Key, MachineWords, Memory, MemoryStore, Offered, Options, Request,
    Sealed, Tiers, ValueCipher,
};
pub use session::{FetchAnswer, Key as SessionKey, Offered as OfferedSession};
use sys::memory;
pub use telemetry::outcome::ResumptionMiss;
use zeroize::{Zeroize, Zeroizing};

use crate::identity::sha256;
use crate::secrets::hkdf;
use cluster::{SHARED, SharedSessions};
pub use keys::{KeyPurpose, TicketKeyFacts};
use keys::{ListedKeys, Ring, SharedSecret, WorkerTask};
pub use service::BareSessions;
use service::{Keeping, LIFETIME_SECONDS_MAX, service_tag};
pub(crate) use service::{ResumptionPolicy, ServiceSessions, StoredTickets, unix_seconds};
use ticket::{SERVICE_TAG_BYTES, ServiceTag, Tickets};

#[derive(Clone)]
pub struct ResumptionOptions {
    /// The secret that ticket keys are derived from unless they come from elsewhere.
    pub secret: [u8; 32],
    pub tickets: TicketOptions,
    /// The limits of stored sessions.
    pub sessions: Options,
    pub tiers: Arc<Tiers>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TicketOptions {
    pub keys: KeySource,
    /// How long a derived key encrypts; at least a second.
    pub rotate: Duration,
    /// How many older derived keys still decrypt.
    pub keep: u32,
    /// How long a ticket resumes; `None` = as long as a derived key decrypts.
    pub lifetime: Option<Duration>,
    /// Tickets after a TLS 1.3 handshake, unless the client asks for a number (RFC 9149).
    pub count: usize,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KeySource {
    /// Derived from the process's secret.
    Own,
    /// Derived from secrets that other hosts have too, at least one: the first one's keys encrypt,
    /// those of the others only decrypt.
    Shared(Vec<SharedSecret>),
    /// Listed, and rotated by the author of the list.
    Listed(ListedKeys),
}

impl Default for TicketOptions {
    /// Keys of the process's own, each used for an hour.
    fn default() -> Self {
        Self {
            keys: KeySource::Own,
            rotate: Duration::from_secs(3600),
            keep: 4,
            lifetime: None,
            count: 1,
        }
    }
}

impl ResumptionOptions {
    /// Tickets by default, and a small cache of sessions.
    pub fn new(secret: [u8; 32]) -> Self {
        Self {
            secret,
            tickets: TicketOptions::default(),
            sessions: Options {
                entries_max: 1000,
                bytes_max: 1 << 20,
                lifetime: Duration::from_secs(3600),
            },
            tiers: Arc::default(),
        }
    }
}

impl Drop for ResumptionOptions {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

/// The secret must not reach a log.
impl Debug for ResumptionOptions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResumptionOptions")
            .field("tickets", &self.tickets)
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}

/// Ticket keys and stored sessions of the process.
pub struct Resumption {
    /// The root of the process's own secret, for when keys come from nowhere else.
    own_root: Prk,
    keeping: Keeping,
    tickets_count: usize,
}

impl Resumption {
    /// Derives the first keys. The options' secret is not kept: only what HKDF extracts from it.
    /// Stored sessions end with the process.
    pub fn new(options: &ResumptionOptions) -> Self {
        let now = Instant::now();
        Self::with(options, private(options.sessions, now), now)
    }

    /// The same, with the sessions that an earlier process stored in `memory`.
    pub fn within(options: &ResumptionOptions, memory: &SessionMemory) -> Self {
        Self::with(options, handed_over(memory), Instant::now())
    }

    fn with(options: &ResumptionOptions, memory: Memory, now: Instant) -> Self {
        let own_root = keys::root_of(&options.secret);
        let tickets = Arc::new(tickets(&options.tickets, &own_root, None));
        Self {
            own_root,
            keeping: keeping(options, tickets, memory, now),
            tickets_count: options.tickets.count,
        }
    }

    /// The same sessions, with keys and tickets as a new plan has them. This one stays good for
    /// the connections of the plan before.
    #[must_use]
    pub fn renewed(&self, options: &TicketOptions) -> Self {
        let before = Some(&*self.keeping.tickets);
        Self {
            own_root: self.own_root.clone(),
            keeping: Keeping {
                tickets: Arc::new(tickets(options, &self.own_root, before)),
                ..self.keeping.clone()
            },
            tickets_count: options.count,
        }
    }

    /// The same keys and tickets as [`Resumption::renewed`] has, with sessions of their own: in
    /// `memory`, or in memory that ends with the process.
    #[must_use]
    pub fn moved(&self, options: &ResumptionOptions, memory: Option<&SessionMemory>) -> Self {
        let now = Instant::now();
        let memory = match memory {
            Some(memory) => handed_over(memory),
            None => private(options.sessions, now),
        };
        let renewed = self.renewed(&options.tickets);
        let tickets = renewed.keeping.tickets;
        Self { keeping: keeping(options, tickets, memory, now), ..renewed }
    }

    /// The counters of the session store.
    pub fn session_counters(&self) -> Counters {
        self.keeping.store.counters()
    }

    /// Uses from now on the stored sessions that another process has let go of.
    pub fn take_over_sessions(&self) {
        self.keeping.store.take_over(Instant::now());
    }

    /// Leaves the stored sessions to another process that has the same memory.
    pub fn let_go_of_sessions(&self) {
        self.keeping.store.let_go();
    }

    pub fn ticket_keys(&self) -> Vec<TicketKeyFacts> {
        self.keeping.tickets.key_facts(unix_seconds())
    }

    /// Drops sessions that are too old; to be called now and then.
    pub fn sweep(&self, now: Instant) {
        self.keeping.store.sweep(now);
    }

    /// Prefetches the stored session that a hello names, if there is one, while the rest of the
    /// hello is looked at; [`Self::prefetch`] follows. In a large cache a look-up is mostly
    /// waiting for memory.
    pub(crate) fn expect_session(&self, id: &[u8]) -> ExpectedEntry {
        self.keeping.store.expect(id)
    }

    /// The second half of that.
    pub(crate) fn prefetch(&self, expected: ExpectedEntry) {
        self.keeping.store.prefetch(expected);
    }

    /// The stored sessions that hosts of a cluster share.
    pub fn shared_sessions(&self) -> SharedSessions {
        SharedSessions {
            store: Arc::clone(&self.keeping.store),
            lifetime: self.keeping.stored_lifetime,
        }
    }

    /// The servers of the sessions that pass a service by.
    pub fn passing_sessions(&self, service: &str) -> PassingSessions {
        PassingSessions::new(self.keeping.clone(), service)
    }

    /// Whether a session is to be looked for beyond this host.
    pub(crate) fn is_elsewhere(&self, key: &SessionKey) -> bool {
        self.keeping.is_elsewhere(key)
    }

    /// Looks for it there. The answer comes in any case.
    pub(crate) fn fetch(&self, session: OfferedSession, answer: FetchAnswer) {
        self.keeping.fetch(session, answer);
    }

    /// Tickets after a TLS 1.3 handshake.
    pub(crate) fn tickets_count(&self) -> usize {
        self.tickets_count
    }

    /// The tickets and stored sessions of one service.
    pub(crate) fn of_service(
        &self,
        service: &str,
        policy: ResumptionPolicy,
    ) -> Arc<ServiceSessions> {
        Arc::new(ServiceSessions::new(self.keeping.clone(), service, policy))
    }

    /// Tickets and stored sessions of a service that asks for no certificate, with no handshake
    /// around them.
    pub fn bare_sessions_of(&self, service: &str) -> BareSessions {
        BareSessions(self.of_service(service, ResumptionPolicy::default()))
    }
}

impl Debug for Resumption {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumption").finish_non_exhaustive()
    }
}

/// The keeping that all services share, as the options have it.
fn keeping(
    options: &ResumptionOptions,
    tickets: Arc<Tickets>,
    memory: Memory,
    now: Instant,
) -> Keeping {
    Keeping {
        tickets,
        store: Arc::new(MemoryStore::new(options.sessions, memory, now)),
        tiers: Arc::clone(&options.tiers),
        stores: options.sessions.entries_max > 0,
        stored_lifetime: options.sessions.lifetime,
    }
}

/// Tickets as the options have them.
fn tickets(options: &TicketOptions, own_root: &Prk, before: Option<&Tickets>) -> Tickets {
    let rotate_seconds = options.rotate.as_secs().max(1);
    let decrypts_seconds = rotate_seconds.saturating_mul(u64::from(options.keep.max(1)));
    let derived = |roots| Ring::derived(roots, rotate_seconds, options.keep);
    let (ring, key_seconds) = match &options.keys {
        KeySource::Own => (derived(vec![own_root.clone()]), decrypts_seconds),
        KeySource::Shared(secrets) => {
            let roots = secrets.iter().map(|secret| secret.root(WorkerTask::Tickets));
            (derived(roots.collect()), decrypts_seconds)
        }
        KeySource::Listed(keys) => {
            let before = before.map(Tickets::ring);
            let ring = Ring::listed(keys.secrets(), keys.encrypting(), before, unix_seconds());
            (ring, u64::MAX)
        }
    };
    // No longer than the key of a ticket made at an epoch's very end is known.
    let wanted = options.lifetime.map_or(decrypts_seconds, |wanted| wanted.as_secs());
    let seconds = wanted.min(key_seconds).min(LIFETIME_SECONDS_MAX);
    Tickets::new(ring, u32::try_from(seconds).unwrap_or(u32::MAX))
}

const MACHINE: MachineWords = MachineWords { words: memory::zeros, fetch: memory::fetch };

/// For all that is derived from a key of stored sessions.
const SALT: &[u8] = b"lariat stored sessions 1";

/// Memory that an earlier process may have used, and that a later one may.
pub struct SessionMemory {
    /// As many as [`Memory::words_of`] says: zeros, or as it was left.
    pub words: Arc<dyn AsRef<[AtomicU64]> + Send + Sync>,
    /// The key of its entries: random, and the same for all processes that use it.
    pub key: [u8; 32],
    /// No two processes that use it have the same.
    pub process_number: u32,
    /// The moment that its times are counted from, the same for all of them.
    pub zero: Instant,
    /// Another process still uses it, until [`Resumption::take_over_sessions`].
    pub is_in_use: bool,
}

impl Drop for SessionMemory {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// The key must not reach a log.
impl Debug for SessionMemory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionMemory")
            .field("process_number", &self.process_number)
            .finish_non_exhaustive()
    }
}

/// A store's memory with the keys that go with it.
fn handed_over(memory: &SessionMemory) -> Memory {
    let root = hkdf::extract(SALT, &memory.key);
    let mut hash_key = [0; 16];
    hkdf::expand(&root, &[b"hash"], &mut hash_key);
    let cipher = Arc::new(StoredCipher::new(&root, memory.process_number));
    let handed = Memory::new(Arc::clone(&memory.words), cipher, hash_key, memory.zero).on(MACHINE);
    if memory.is_in_use {
        return handed.in_use();
    }
    handed
}

/// Memory that ends with the process.
fn private(options: Options, now: Instant) -> Memory {
    let mut key = [0; 32];
    rand::fill(&mut key).expect("AWS-LC ends the process where there is no randomness");
    let root = hkdf::extract(SALT, &key);
    key.zeroize();
    let cipher = Arc::new(StoredCipher::new(&root, 0));
    Memory::private(options, cipher, MACHINE, now)
}

struct StoredCipher {
    key: LessSafeKey,
    process_number: u32,
    count: AtomicU64,
}

impl StoredCipher {
    fn new(root: &Prk, process_number: u32) -> Self {
        Self { key: hkdf::aes_256_gcm(root, &[b"seal"]), process_number, count: AtomicU64::new(0) }
    }

    fn next_nonce(&self) -> [u8; 12] {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.process_number.to_be_bytes());
        nonce[4..].copy_from_slice(&count.to_be_bytes());
        nonce
    }
}

impl ValueCipher for StoredCipher {
    fn seal(&self, additional: &[u8], bytes: &mut [u8]) -> Option<Sealed> {
        let nonce = self.next_nonce();
        let unique = Nonce::assume_unique_for_key(nonce);
        let sealed = self.key.seal_in_place_separate_tag(unique, Aad::from(additional), bytes);
        let tag = sealed.ok()?.as_ref().try_into().ok()?;
        Some(Sealed { nonce, tag })
    }

    fn open(&self, additional: &[u8], sealed: Sealed, bytes: &mut Vec<u8>) -> bool {
        let nonce = Nonce::assume_unique_for_key(sealed.nonce);
        let length = bytes.len();
        bytes.extend_from_slice(&sealed.tag);
        let opened = self.key.open_in_place(nonce, Aad::from(additional), bytes);
        let is_whole = opened.is_ok();
        bytes.truncate(length);
        is_whole
    }
}

impl Debug for StoredCipher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredCipher")
            .field("process_number", &self.process_number)
            .finish_non_exhaustive()
    }
}

/// After which part of its life an entry is written anew when its session is used.
const RENEW_SHARE: u32 = 4;

/// The servers of one service's sessions.
#[derive(Clone, Debug)]
pub struct PassingSessions {
    keeping: Keeping,
    /// The service's, and that of no service that terminates TLS: its clients find nothing here.
    tag: ServiceTag,
}

impl PassingSessions {
    fn new(keeping: Keeping, service: &str) -> Self {
        let tag = service_tag(&format!("passing by\0{service}"));
        Self { keeping, tag }
    }

    /// The server of a session, if it is known.
    pub fn find(&self, session: &[u8]) -> Option<u64> {
        let (key, now) = (self.key(session)?, Instant::now());
        // A look-up of what is not here would count as a miss of the cache.
        let is_here = self.keeping.store.contains(key.bytes(), now);
        let entry = is_here.then(|| self.keeping.store.get(key.bytes(), now));
        self.server(&entry??)
    }

    pub fn learn(&self, session: &[u8], server: u64) {
        let (Some(key), now) = (self.key(session), Instant::now()) else {
            return;
        };
        let store = &self.keeping.store;
        let known = store.peek(key.bytes(), now);
        let is_fresh = known.as_ref().is_some_and(|(entry, age)| {
            self.server(entry) == Some(server) && *age < self.keeping.stored_lifetime / RENEW_SHARE
        });
        if is_fresh {
            return;
        }
        let entry = [&[SHARED], &self.tag[..], &server.to_be_bytes()].concat();
        if self.keeping.tiers.is_open() {
            self.keeping.tiers.ask(Request::Publish {
                key,
                once: false,
                value: Zeroizing::new(entry.clone()),
                lifetime: self.keeping.stored_lifetime,
            });
        }
        if known.is_some() {
            store.renew(key.bytes(), entry, now);
        } else {
            store.put(key.bytes(), entry, now);
        }
    }

    /// The entry to look for beyond this host, because nothing is known of the session here.
    pub fn elsewhere(&self, session: &[u8]) -> Option<Offered> {
        let key = self.key(session).filter(|key| self.keeping.is_elsewhere(key))?;
        Some(Offered { key, once: false })
    }

    /// Looks for it there. The answer comes in any case.
    pub fn fetch(&self, session: Offered, answer: FetchAnswer) {
        self.keeping.fetch(session, answer);
    }

    fn server(&self, entry: &[u8]) -> Option<u64> {
        let (tag, server) = entry.get(1..)?.split_first_chunk::<SERVICE_TAG_BYTES>()?;
        let server = server.try_into().map(u64::from_be_bytes).ok()?;
        (*tag == self.tag).then_some(server)
    }

    /// Nobody can have it fall together with a session's of another service: ids are seen, and
    /// those of some servers chosen.
    fn key(&self, session: &[u8]) -> Option<Key> {
        let named = [&self.tag[..], session].concat();
        Key::new(&sha256(&named))
    }
}

#[cfg(test)]
mod tests;
