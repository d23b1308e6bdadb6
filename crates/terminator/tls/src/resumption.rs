//! Resumes sessions: a returning client skips the certificate and its signature.
//!
//! One [`Resumption`] serves the whole process; a reload makes a new one with the same stored
//! sessions and, unless other keys were configured, the same keys. Each service uses it under its
//! own name, so that no session made with one service resumes at another.
//!
//! - TLS 1.3 resumes by stateless tickets (RFC 8446 section 4.6.1): the server stores nothing, and
//!   any host with the same secret can open them. A fresh key exchange is always added
//!   (psk_dhe_ke).
//! - TLS 1.2 resumes by ticket (RFC 5077) for clients that support it, by session id for others. A
//!   client gets only one of both: storing a session for a client that holds a ticket would fill
//!   the store with unused entries.
//! - If configured, TLS 1.3 resumes from the store as well, each session once. Early data requires
//!   that, because a session that resumes once cannot be replayed (RFC 8446 section 8.1).
//! - A client that showed a certificate is verified again each time, by the current configuration:
//!   its chain is in the session, encrypted.
//!
//! The memory of stored sessions outlives the process that wrote it, and the next process continues
//! with it. Both have the same key, so that nonces must differ between them: they begin with the
//! process's number, and count from there (AES-256-GCM, NIST SP 800-38D section 8.2.1).
//!
//! For TLS 1.2 sessions that are passed through, entries in the same store remember the server, and
//! are shared with other hosts like sessions. The caller provides servers' ids and sessions' names.
//! An entry is a hint: if it is wrong or lost, a client makes a full handshake.

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
use service::{LIFETIME_SECONDS_MAX, SessionStorage, service_tag};
pub(crate) use service::{ResumptionPolicy, ServiceSessions, StoredTickets, unix_seconds};
use ticket::{SERVICE_TAG_BYTES, ServiceTag, Tickets};

#[derive(Clone)]
pub struct ResumptionOptions {
    /// Secret from which ticket keys are derived, unless they are configured.
    pub secret: [u8; 32],
    pub tickets: TicketOptions,
    /// Limits of stored sessions.
    pub sessions: Options,
    pub tiers: Arc<Tiers>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TicketOptions {
    pub keys: KeySource,
    /// Time for which a derived key encrypts; at least a second.
    pub rotate: Duration,
    /// Number of older derived keys that still decrypt.
    pub keep: u32,
    /// Time for which a ticket resumes; `None` = as long as a derived key decrypts.
    pub lifetime: Option<Duration>,
    /// Number of tickets after a TLS 1.3 handshake, unless the client requests a number (RFC 9149).
    pub count: usize,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KeySource {
    /// Derived from the process's secret.
    Own,
    /// Derived from secrets shared with other hosts, at least one: the first one's keys encrypt,
    /// those of the others only decrypt.
    Shared(Vec<SharedSecret>),
    /// Listed in a file, whose author rotates them.
    Listed(ListedKeys),
}

impl Default for TicketOptions {
    /// Uses keys of the process's own, each for an hour.
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
    /// Returns default tickets, and a small cache of sessions.
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

/// Hides the secret from logs.
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
    /// Root of the process's own secret, for use if no keys are configured.
    own_root: Prk,
    keeping: SessionStorage,
    tickets_count: usize,
}

impl Resumption {
    /// Derives the first keys. The options' secret is not kept, only the key that HKDF extracts
    /// from it. Stored sessions end with the process.
    pub fn new(options: &ResumptionOptions) -> Self {
        let now = Instant::now();
        Self::with(options, private(options.sessions, now), now)
    }

    /// Like [`Resumption::new`], with the sessions that an earlier process stored in `memory`.
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

    /// Returns the same sessions with the keys and tickets of a new plan. `self` stays valid for
    /// the connections of the old plan.
    #[must_use]
    pub fn renewed(&self, options: &TicketOptions) -> Self {
        let before = Some(&*self.keeping.tickets);
        Self {
            own_root: self.own_root.clone(),
            keeping: SessionStorage {
                tickets: Arc::new(tickets(options, &self.own_root, before)),
                ..self.keeping.clone()
            },
            tickets_count: options.count,
        }
    }

    /// Returns the keys and tickets of [`Resumption::renewed`] with sessions of their own: in
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

    /// Returns the counters of the session store.
    pub fn session_counters(&self) -> Counters {
        self.keeping.store.counters()
    }

    /// Starts to use the stored sessions that another process has released.
    pub fn take_over_sessions(&self) {
        self.keeping.store.take_over(Instant::now());
    }

    /// Releases the stored sessions to another process with the same memory.
    pub fn let_go_of_sessions(&self) {
        self.keeping.store.let_go();
    }

    pub fn ticket_keys(&self) -> Vec<TicketKeyFacts> {
        self.keeping.tickets.key_facts(unix_seconds())
    }

    /// Drops sessions that are too old; the caller runs this periodically.
    pub fn sweep(&self, now: Instant) {
        self.keeping.store.sweep(now);
    }

    /// Prefetches the stored session that a hello names, if there is one, while the rest of the
    /// hello is processed; [`Self::prefetch`] follows. In a large cache a look-up mostly waits for
    /// memory.
    pub(crate) fn expect_session(&self, id: &[u8]) -> ExpectedEntry {
        self.keeping.store.expect(id)
    }

    /// Does the second half of the prefetch.
    pub(crate) fn prefetch(&self, expected: ExpectedEntry) {
        self.keeping.store.prefetch(expected);
    }

    /// Returns the stored sessions that hosts of a cluster share.
    pub fn shared_sessions(&self) -> SharedSessions {
        SharedSessions {
            store: Arc::clone(&self.keeping.store),
            lifetime: self.keeping.stored_lifetime,
        }
    }

    /// Returns the servers of the sessions that a service passes through.
    pub fn passing_sessions(&self, service: &str) -> PassingSessions {
        PassingSessions::new(self.keeping.clone(), service)
    }

    /// Reports whether a session should be looked for on other hosts.
    pub(crate) fn is_elsewhere(&self, key: &SessionKey) -> bool {
        self.keeping.is_elsewhere(key)
    }

    /// Looks for a session on other hosts. `answer` is always called.
    pub(crate) fn fetch(&self, session: OfferedSession, answer: FetchAnswer) {
        self.keeping.fetch(session, answer);
    }

    /// Returns the number of tickets after a TLS 1.3 handshake.
    pub(crate) fn tickets_count(&self) -> usize {
        self.tickets_count
    }

    /// Returns the tickets and stored sessions of one service.
    pub(crate) fn of_service(
        &self,
        service: &str,
        policy: ResumptionPolicy,
    ) -> Arc<ServiceSessions> {
        Arc::new(ServiceSessions::new(self.keeping.clone(), service, policy))
    }

    /// Returns tickets and stored sessions of a service without client certificates, for use
    /// without handshakes.
    pub fn bare_sessions_of(&self, service: &str) -> BareSessions {
        BareSessions(self.of_service(service, ResumptionPolicy::default()))
    }
}

impl Debug for Resumption {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumption").finish_non_exhaustive()
    }
}

/// Builds the state that all services share from the options.
fn keeping(
    options: &ResumptionOptions,
    tickets: Arc<Tickets>,
    memory: Memory,
    now: Instant,
) -> SessionStorage {
    SessionStorage {
        tickets,
        store: Arc::new(MemoryStore::new(options.sessions, memory, now)),
        tiers: Arc::clone(&options.tiers),
        stores: options.sessions.entries_max > 0,
        stored_lifetime: options.sessions.lifetime,
    }
}

/// Builds the ticket keys from the options.
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
    // Limit: how long the key of a ticket made at the very end of an epoch is known.
    let wanted = options.lifetime.map_or(decrypts_seconds, |wanted| wanted.as_secs());
    let seconds = wanted.min(key_seconds).min(LIFETIME_SECONDS_MAX);
    Tickets::new(ring, u32::try_from(seconds).unwrap_or(u32::MAX))
}

const MACHINE: MachineWords = MachineWords { words: memory::zeros, fetch: memory::fetch };

/// Salt of everything derived from a key of stored sessions.
const SALT: &[u8] = b"lariat stored sessions 1";

/// Memory that an earlier process may have used, and that a later one may.
pub struct SessionMemory {
    /// Words, as many as [`Memory::words_of`] returns: zeros, or the earlier contents.
    pub words: Arc<dyn AsRef<[AtomicU64]> + Send + Sync>,
    /// Key of the entries: random, and the same for all processes that use this memory.
    pub key: [u8; 32],
    /// Number that is unique among the processes that use this memory.
    pub process_number: u32,
    /// Origin of its times, the same for all these processes.
    pub zero: Instant,
    /// Whether another process still uses it, until [`Resumption::take_over_sessions`].
    pub is_in_use: bool,
}

impl Drop for SessionMemory {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// Hides the key from logs.
impl Debug for SessionMemory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionMemory")
            .field("process_number", &self.process_number)
            .finish_non_exhaustive()
    }
}

/// Returns a store's memory with the keys derived for it.
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

/// Creates memory that ends with the process.
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

/// Part of its lifetime after which an entry is rewritten when its session is used.
const RENEW_SHARE: u32 = 4;

/// Servers of one service's sessions.
#[derive(Clone, Debug)]
pub struct PassingSessions {
    keeping: SessionStorage,
    /// Tag of the service, distinct from every service that terminates TLS.
    tag: ServiceTag,
}

impl PassingSessions {
    fn new(keeping: SessionStorage, service: &str) -> Self {
        let tag = service_tag(&format!("passing by\0{service}"));
        Self { keeping, tag }
    }

    /// Returns the server of a session, if it is known.
    pub fn find(&self, session: &[u8]) -> Option<u64> {
        let (key, now) = (self.key(session)?, Instant::now());
        // A failed look-up would count as a miss of the cache.
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

    /// Returns the entry to look for on other hosts, because the session is unknown here.
    pub fn elsewhere(&self, session: &[u8]) -> Option<Offered> {
        let key = self.key(session).filter(|key| self.keeping.is_elsewhere(key))?;
        Some(Offered { key, once: false })
    }

    /// Looks for an entry on other hosts. `answer` is always called.
    pub fn fetch(&self, session: Offered, answer: FetchAnswer) {
        self.keeping.fetch(session, answer);
    }

    fn server(&self, entry: &[u8]) -> Option<u64> {
        let (tag, server) = entry.get(1..)?.split_first_chunk::<SERVICE_TAG_BYTES>()?;
        let server = server.try_into().map(u64::from_be_bytes).ok()?;
        (*tag == self.tag).then_some(server)
    }

    /// Returns the entry's key. Nobody can make it collide with a session's of another service: ids
    /// are visible, and those of some servers chosen.
    fn key(&self, session: &[u8]) -> Option<Key> {
        let named = [&self.tag[..], session].concat();
        Key::new(&sha256(&named))
    }
}

#[cfg(test)]
mod tests;
