//! Resumption: what lets a client that was here before skip the certificate and its signature.
//!
//! One [`Resumption`] serves the whole process and survives reloads; each service sees it through
//! its own name, so that no session made with one service resumes at another.
//!
//! - TLS 1.3 resumes by stateless tickets (RFC 8446 section 4.6.1): nothing is stored, and any
//!   host with the same secret can open them.
//! - TLS 1.2 resumes by ticket (RFC 5077) the clients that can, by session id the others. A client
//!   gets the one or the other: storing a session for a client that holds a ticket would fill the
//!   store with what nobody asks for.
//! - A service that verifies clients resumes nothing: a resumed client is not verified again, and
//!   would outlive the expiry or revocation of its certificate.

mod stored;
mod ticket;

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustls::server::{ProducesTickets, StoresServerSessions};
use session::{Counters, MemoryStore};
use zeroize::Zeroize;

pub use stored::SessionMemory;

use ticket::{SERVICE_TAG_BYTES, ServiceTag, TicketKeys};

/// The longest session id (RFC 5246 section 7.4.1.2), in bytes.
const SESSION_ID_BYTES_MAX: usize = 32;

/// What resumption is told at start.
#[derive(Clone)]
pub struct ResumptionOptions {
    /// What all ticket keys are derived from: the same on hosts that resume each other's sessions.
    pub secret: [u8; 32],
    /// How long a ticket key encrypts; at least a second.
    pub ticket_rotate: Duration,
    /// How many older keys still decrypt.
    pub ticket_keep: u32,
    /// TLS 1.2 sessions held at most; 0 = none.
    pub session_entries: usize,
    /// Bytes that they may take.
    pub session_bytes: usize,
    /// How long a session id resumes.
    pub session_lifetime: Duration,
}

impl ResumptionOptions {
    /// How many words of memory the stored sessions want.
    pub fn session_words(&self) -> usize {
        session::Memory::words_of(self.sessions())
    }

    fn sessions(&self) -> session::Options {
        session::Options {
            entries_max: self.session_entries,
            bytes_max: self.session_bytes,
            lifetime: self.session_lifetime,
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
            .field("ticket_rotate", &self.ticket_rotate)
            .field("ticket_keep", &self.ticket_keep)
            .field("session_entries", &self.session_entries)
            .finish_non_exhaustive()
    }
}

/// Ticket keys and stored sessions of the process.
pub struct Resumption {
    tickets: TicketKeys,
    sessions: MemoryStore,
    stores_sessions: bool,
}

impl Resumption {
    /// Derives the first keys. The options' secret is not kept: only what HKDF extracts from it.
    /// Stored sessions end with the process.
    pub fn new(options: &ResumptionOptions) -> Self {
        let now = Instant::now();
        Self::with(options, stored::private(options.sessions(), now), now)
    }

    /// The same, with the sessions that an earlier process stored in `memory`.
    pub fn within(options: &ResumptionOptions, memory: &SessionMemory) -> Self {
        Self::with(options, stored::handed_over(memory), Instant::now())
    }

    fn with(options: &ResumptionOptions, memory: session::Memory, now: Instant) -> Self {
        Self {
            tickets: TicketKeys::new(&options.secret, options.ticket_rotate, options.ticket_keep),
            sessions: MemoryStore::new(options.sessions(), memory, now),
            stores_sessions: options.session_entries > 0,
        }
    }

    /// What the session store holds and has done.
    pub fn session_counters(&self) -> Counters {
        self.sessions.counters()
    }

    /// Drops sessions that are too old; to be called now and then.
    pub fn sweep(&self, now: Instant) {
        self.sessions.sweep(now);
    }

    /// Tickets of one service.
    pub(crate) fn tickets_of(self: &Arc<Self>, service: &str) -> Arc<dyn ProducesTickets> {
        let tag = self.tickets.service_tag(service);
        Arc::new(ServiceTickets {
            resumption: Arc::clone(self),
            tag,
        })
    }

    /// Stored sessions of one service.
    pub(crate) fn sessions_of(self: &Arc<Self>, service: &str) -> Arc<dyn StoresServerSessions> {
        let tag = self.tickets.service_tag(service);
        Arc::new(ServiceSessions {
            resumption: Arc::clone(self),
            tag,
        })
    }
}

impl Debug for Resumption {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumption").finish_non_exhaustive()
    }
}

/// The tickets of one service.
#[derive(Debug)]
struct ServiceTickets {
    resumption: Arc<Resumption>,
    tag: ServiceTag,
}

impl ProducesTickets for ServiceTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.resumption.tickets.lifetime_seconds()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.resumption
            .tickets
            .seal(plain, self.tag, unix_seconds())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.resumption
            .tickets
            .open(ticket, self.tag, unix_seconds())
    }
}

/// The stored sessions of one service.
#[derive(Debug)]
struct ServiceSessions {
    resumption: Arc<Resumption>,
    tag: ServiceTag,
}

impl ServiceSessions {
    /// The store's key for a session id; `None` if it is none.
    fn key(&self, id: &[u8]) -> Option<([u8; SERVICE_TAG_BYTES + SESSION_ID_BYTES_MAX], usize)> {
        let mut key = [0; SERVICE_TAG_BYTES + SESSION_ID_BYTES_MAX];
        let length = SERVICE_TAG_BYTES + id.len();
        let (tag, rest) = key.split_at_mut(SERVICE_TAG_BYTES);
        tag.copy_from_slice(&self.tag);
        rest.get_mut(..id.len())?.copy_from_slice(id);
        Some((key, length))
    }
}

impl StoresServerSessions for ServiceSessions {
    fn put(&self, id: Vec<u8>, value: Vec<u8>) -> bool {
        self.key(&id).is_some_and(|(key, length)| {
            self.resumption
                .sessions
                .put(&key[..length], value, Instant::now())
        })
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        let (key, length) = self.key(id)?;
        self.resumption.sessions.get(&key[..length], Instant::now())
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let (key, length) = self.key(id)?;
        self.resumption
            .sessions
            .take(&key[..length], Instant::now())
    }

    fn can_cache(&self) -> bool {
        self.resumption.stores_sessions
    }
}

/// A clock before 1970 counts as 1970: tickets then resume nothing on other hosts, no worse.
fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resumption(session_entries: usize) -> Arc<Resumption> {
        Arc::new(Resumption::new(&ResumptionOptions {
            secret: [7; 32],
            ticket_rotate: Duration::from_secs(3600),
            ticket_keep: 4,
            session_entries,
            session_bytes: 1 << 20,
            session_lifetime: Duration::from_secs(3600),
        }))
    }

    #[test]
    fn a_session_is_its_services_alone() {
        let resumption = resumption(100);
        let (web, mail) = (
            resumption.sessions_of("web"),
            resumption.sessions_of("mail"),
        );
        assert!(web.put(vec![1; 32], vec![9; 100]));
        assert_eq!(web.get(&[1; 32]), Some(vec![9; 100]));
        assert_eq!(mail.get(&[1; 32]), None);
        assert_eq!(
            resumption.sessions_of("web").get(&[1; 32]),
            Some(vec![9; 100])
        );
        assert_eq!(web.take(&[1; 32]), Some(vec![9; 100]));
        assert_eq!(web.get(&[1; 32]), None);
    }

    #[test]
    fn an_id_that_is_too_long_is_not_stored() {
        let web = resumption(100).sessions_of("web");
        assert!(!web.put(vec![1; 33], vec![9]));
        assert_eq!(web.get(&[1; 33]), None);
    }

    #[test]
    fn without_entries_there_is_no_cache() {
        assert!(resumption(1).sessions_of("web").can_cache());
        assert!(!resumption(0).sessions_of("web").can_cache());
    }

    #[test]
    fn a_ticket_is_its_services_alone() {
        let resumption = resumption(0);
        let ticket = resumption
            .tickets_of("web")
            .encrypt(b"state")
            .expect("a ticket");
        assert_eq!(
            resumption.tickets_of("web").decrypt(&ticket).as_deref(),
            Some(&b"state"[..])
        );
        assert_eq!(resumption.tickets_of("mail").decrypt(&ticket), None);
    }

    #[test]
    fn the_secret_is_not_in_the_debug_form() {
        let options = ResumptionOptions {
            secret: [0x41; 32],
            ticket_rotate: Duration::ZERO,
            ticket_keep: 0,
            session_entries: 0,
            session_bytes: 0,
            session_lifetime: Duration::ZERO,
        };
        assert!(!format!("{options:?}").contains("65"));
    }
}
