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
//! - A client that showed a certificate is verified again each time, by what is configured now:
//!   its chain is in the session, under the seal.

pub mod key_file;
mod miss;
mod ring;
mod state;
mod stored;
mod ticket;

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use aws_lc_rs::hkdf::Prk;
use rustls::server::{ProducesTickets, StoresServerSessions};
use rustls_pki_types::UnixTime;
use session::{Counters, MemoryStore};
use zeroize::{Zeroize, Zeroizing};

pub use miss::Miss;
pub(crate) use miss::{Sight, authenticated, set_authenticated, take_sight};
pub use ring::{KeyPurpose, TicketKeyFacts};
pub use stored::SessionMemory;

use crate::verify::Verifier;
use key_file::{ListedKeys, SharedSecret};
use ring::Ring;
use ticket::{SERVICE_TAG_BYTES, ServiceTag, Tickets};

/// The longest session id (RFC 5246 section 7.4.1.2), in bytes.
const SESSION_ID_BYTES_MAX: usize = 32;

/// RFC 8446 section 4.6.1: no ticket may be used for more than seven days.
const LIFETIME_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;

/// What resumption is told at start.
#[derive(Clone)]
pub struct ResumptionOptions {
    /// What ticket keys are derived from unless they come from elsewhere.
    pub secret: [u8; 32],
    /// Keys and tickets.
    pub tickets: TicketOptions,
    /// TLS 1.2 sessions held at most; 0 = none.
    pub session_entries: usize,
    /// Bytes that they may take.
    pub session_bytes: usize,
    /// How long a session id resumes.
    pub session_lifetime: Duration,
}

/// What a reload can change of resumption.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TicketOptions {
    /// Where keys come from.
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

/// Where ticket keys come from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KeySource {
    /// Derived from the process's secret.
    Own,
    /// Derived from a secret that other hosts have too.
    Shared(SharedSecret),
    /// Listed, and rotated by whoever lists them.
    Listed(ListedKeys),
}

impl ResumptionOptions {
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
            .field("tickets", &self.tickets)
            .field("session_entries", &self.session_entries)
            .finish_non_exhaustive()
    }
}

/// Ticket keys and stored sessions of the process.
pub struct Resumption {
    /// Of the process's own secret, for when keys come from nowhere else.
    own_root: Prk,
    tickets: Tickets,
    tickets_count: usize,
    sessions: Arc<MemoryStore>,
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
        let own_root = ring::root_of(&options.secret);
        Self {
            tickets: tickets(&options.tickets, &own_root, None),
            tickets_count: options.tickets.count,
            own_root,
            sessions: Arc::new(MemoryStore::new(options.sessions(), memory, now)),
            stores_sessions: options.session_entries > 0,
        }
    }

    /// The same sessions, with keys and tickets as a new plan has them. This one stays good for
    /// the connections of the plan before.
    #[must_use]
    pub fn renewed(&self, options: &TicketOptions) -> Self {
        Self {
            own_root: self.own_root.clone(),
            tickets: tickets(options, &self.own_root, Some(&self.tickets)),
            tickets_count: options.count,
            sessions: Arc::clone(&self.sessions),
            stores_sessions: self.stores_sessions,
        }
    }

    /// What the session store holds and has done.
    pub fn session_counters(&self) -> Counters {
        self.sessions.counters()
    }

    /// What is told of the ticket keys.
    pub fn ticket_keys(&self) -> Vec<TicketKeyFacts> {
        self.tickets.key_facts(unix_seconds())
    }

    /// Drops sessions that are too old; to be called now and then.
    pub fn sweep(&self, now: Instant) {
        self.sessions.sweep(now);
    }

    /// Tickets after a TLS 1.3 handshake.
    pub(crate) fn tickets_count(&self) -> usize {
        self.tickets_count
    }

    /// Tickets of one service, which verifies its clients so.
    pub(crate) fn tickets_of(
        self: &Arc<Self>,
        service: &str,
        verifier: &Verifier,
    ) -> Arc<dyn ProducesTickets> {
        Arc::new(self.of_service(service, verifier))
    }

    /// Stored sessions of one service, which verifies its clients so.
    pub(crate) fn sessions_of(
        self: &Arc<Self>,
        service: &str,
        verifier: &Verifier,
    ) -> Arc<dyn StoresServerSessions> {
        Arc::new(self.of_service(service, verifier))
    }

    /// Tickets and stored sessions of a service that asks for no certificate, with no handshake
    /// around them.
    pub fn bare_sessions_of(self: &Arc<Self>, service: &str) -> BareSessions {
        BareSessions(self.of_service(service, &None))
    }

    fn of_service(self: &Arc<Self>, service: &str, verifier: &Verifier) -> ServiceResumption {
        ServiceResumption {
            resumption: Arc::clone(self),
            tag: service_tag(service),
            verifier: verifier.clone(),
        }
    }
}

impl Debug for Resumption {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumption").finish_non_exhaustive()
    }
}

/// Tickets as the options have them.
fn tickets(options: &TicketOptions, own_root: &Prk, before: Option<&Tickets>) -> Tickets {
    let rotate_seconds = options.rotate.as_secs().max(1);
    let decrypts_seconds = rotate_seconds.saturating_mul(u64::from(options.keep.max(1)));
    let derived = |root| Ring::derived(root, rotate_seconds, options.keep);
    let (ring, key_seconds) = match &options.keys {
        KeySource::Own => (derived(own_root.clone()), decrypts_seconds),
        KeySource::Shared(secret) => (derived(ring::root_of(secret.bytes())), decrypts_seconds),
        KeySource::Listed(keys) => {
            let before = before.map(Tickets::ring);
            let ring = Ring::listed(keys.secrets(), keys.encrypting(), before, unix_seconds());
            (ring, u64::MAX)
        }
    };
    // No longer than the key of a ticket made at an epoch's very end is known.
    let wanted = options
        .lifetime
        .map_or(decrypts_seconds, |wanted| wanted.as_secs());
    let seconds = wanted.min(key_seconds).min(LIFETIME_SECONDS_MAX);
    Tickets::new(ring, u32::try_from(seconds).unwrap_or(u32::MAX))
}

/// What stands for a service in tickets and stored sessions: the same on all hosts.
fn service_tag(service: &str) -> ServiceTag {
    let digest = digest::digest(&digest::SHA256, service.as_bytes());
    let mut tag = [0; SERVICE_TAG_BYTES];
    tag.copy_from_slice(&digest.as_ref()[..SERVICE_TAG_BYTES]);
    tag
}

/// The tickets and stored sessions of one service under one plan.
#[derive(Debug)]
struct ServiceResumption {
    resumption: Arc<Resumption>,
    tag: ServiceTag,
    verifier: Verifier,
}

impl ServiceResumption {
    /// Whether the client in a session is welcome now: the one that was verified then may have
    /// expired, been revoked, or come from an authority that is trusted no more.
    fn welcome(&self, session: Vec<u8>) -> Result<Vec<u8>, Miss> {
        let chain = state::client_chain(&session).ok_or(Miss::Foreign)?;
        let is_welcome = match (&self.verifier, chain.split_first()) {
            (None, shown) => shown.is_none(),
            (Some(verifier), None) => !verifier.client_auth_mandatory(),
            (Some(verifier), Some((leaf, others))) => verifier
                .verify_client_cert(leaf, others, UnixTime::now())
                .is_ok(),
        };
        if is_welcome {
            Ok(session)
        } else {
            drop(Zeroizing::new(session));
            Err(Miss::ClientCertificate)
        }
    }

    /// The session in a stored entry, which begins with its service.
    fn stored(&self, entry: Option<Vec<u8>>) -> Result<Vec<u8>, Miss> {
        let entry = Zeroizing::new(entry.ok_or(Miss::Unknown)?);
        let (tag, session) = entry
            .split_first_chunk::<SERVICE_TAG_BYTES>()
            .ok_or(Miss::Unknown)?;
        if *tag != self.tag {
            return Err(Miss::WrongService);
        }
        self.welcome(session.to_vec())
    }
}

impl ProducesTickets for ServiceResumption {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.resumption.tickets.lifetime_seconds()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let now = unix_seconds();
        let begun = authenticated().unwrap_or(now);
        self.resumption.tickets.seal(plain, self.tag, begun, now)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        if !miss::may_look() {
            return None;
        }
        let opened = self
            .resumption
            .tickets
            .open(ticket, self.tag, unix_seconds());
        let welcome = opened.and_then(|(session, authenticated)| {
            let session = self.welcome(session)?;
            set_authenticated(Some(authenticated));
            Ok(session)
        });
        miss::note(welcome)
    }
}

impl StoresServerSessions for ServiceResumption {
    fn put(&self, id: Vec<u8>, value: Vec<u8>) -> bool {
        let value = Zeroizing::new(value);
        let mut entry = Vec::with_capacity(SERVICE_TAG_BYTES + value.len());
        entry.extend_from_slice(&self.tag);
        entry.extend_from_slice(&value);
        id.len() <= SESSION_ID_BYTES_MAX && self.resumption.sessions.put(&id, entry, Instant::now())
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        let entry = self.resumption.sessions.get(id, Instant::now());
        miss::note(self.stored(entry))
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let entry = self.resumption.sessions.take(id, Instant::now());
        miss::note(self.stored(entry))
    }

    fn can_cache(&self) -> bool {
        self.resumption.stores_sessions
    }
}

/// A service's tickets and stored sessions as bytes, without a handshake around them: here is tried
/// what hostile clients and memory may hold.
#[derive(Debug)]
pub struct BareSessions(ServiceResumption);

impl BareSessions {
    /// A ticket for a session; `None` if it is too long.
    pub fn seal_ticket(&self, session: &[u8]) -> Option<Vec<u8>> {
        set_authenticated(None);
        self.0.encrypt(session)
    }

    /// The session in a ticket, as the library would get it.
    ///
    /// # Errors
    /// Why the library would get none.
    pub fn open_ticket(&self, ticket: &[u8]) -> Result<Vec<u8>, Miss> {
        take_sight();
        told(self.0.decrypt(ticket))
    }

    /// Stores a session; `false` if it or its id is too long.
    pub fn store(&self, id: &[u8], session: &[u8]) -> bool {
        self.0.put(id.to_vec(), session.to_vec())
    }

    /// A stored session, as the library would get it.
    ///
    /// # Errors
    /// Why the library would get none.
    pub fn stored(&self, id: &[u8]) -> Result<Vec<u8>, Miss> {
        take_sight();
        told(self.0.get(id))
    }
}

/// What the library would get, or what was noted of why it would get nothing.
fn told(session: Option<Vec<u8>>) -> Result<Vec<u8>, Miss> {
    match (session, take_sight()) {
        (Some(session), _) => Ok(session),
        (None, Sight::Miss(miss)) => Err(miss),
        (None, Sight::Nothing | Sight::Session) => Err(Miss::Unknown),
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

    fn options(session_entries: usize) -> ResumptionOptions {
        ResumptionOptions {
            secret: [7; 32],
            tickets: TicketOptions {
                keys: KeySource::Own,
                rotate: Duration::from_secs(3600),
                keep: 4,
                lifetime: None,
                count: 1,
            },
            session_entries,
            session_bytes: 1 << 20,
            session_lifetime: Duration::from_secs(3600),
        }
    }

    fn resumption(session_entries: usize) -> Arc<Resumption> {
        Arc::new(Resumption::new(&options(session_entries)))
    }

    fn listed(byte: u8) -> TicketOptions {
        let files = vec![("keys".to_owned(), vec![byte; 48])];
        TicketOptions {
            keys: KeySource::Listed(ListedKeys::read(files).unwrap()),
            ..options(0).tickets.clone()
        }
    }

    /// What the library writes of a client without a certificate, more or less.
    const SESSION: &[u8] = &[0, 3, 4, 0x13, 1, 1, 7, 0, 0, 0];

    fn sessions(resumption: &Arc<Resumption>, service: &str) -> Arc<dyn StoresServerSessions> {
        resumption.sessions_of(service, &None)
    }

    fn tickets_of(resumption: &Arc<Resumption>, service: &str) -> Arc<dyn ProducesTickets> {
        resumption.tickets_of(service, &None)
    }

    #[test]
    fn a_renewed_ticket_remembers_when_its_session_began() {
        let resumption = resumption(0);
        let (tag, now) = (service_tag("web"), unix_seconds());
        let begun = now - 6 * 24 * 3600;
        let web = tickets_of(&resumption, "web");
        set_authenticated(None);
        take_sight();
        let ticket = resumption.tickets.seal(SESSION, tag, begun, now).unwrap();
        assert_eq!(web.decrypt(&ticket).as_deref(), Some(SESSION));
        let renewed = web.encrypt(SESSION).unwrap();
        let opened = resumption.tickets.open(&renewed, tag, now).unwrap();
        assert_eq!(opened.1, begun);
        set_authenticated(None);
    }

    #[test]
    fn a_session_is_its_services_alone() {
        let resumption = resumption(100);
        let (web, mail) = (sessions(&resumption, "web"), sessions(&resumption, "mail"));
        assert!(web.put(vec![1; 32], SESSION.to_vec()));
        assert_eq!(web.get(&[1; 32]).as_deref(), Some(SESSION));
        assert_eq!(mail.get(&[1; 32]), None);
        assert_eq!(take_sight(), Sight::Miss(Miss::WrongService));
        let again = sessions(&resumption, "web");
        assert_eq!(again.get(&[1; 32]).as_deref(), Some(SESSION));
        assert_eq!(web.take(&[1; 32]).as_deref(), Some(SESSION));
        assert_eq!(web.get(&[1; 32]), None);
        assert_eq!(take_sight(), Sight::Miss(Miss::Unknown));
    }

    #[test]
    fn an_id_of_any_length_is_looked_up_and_one_that_is_too_long_is_not_stored() {
        let web = sessions(&resumption(100), "web");
        assert!(!web.put(vec![1; 33], SESSION.to_vec()));
        for length in 0..100 {
            assert_eq!(web.get(&vec![1; length]), None);
        }
    }

    #[test]
    fn without_entries_there_is_no_cache() {
        assert!(sessions(&resumption(1), "web").can_cache());
        assert!(!sessions(&resumption(0), "web").can_cache());
    }

    #[test]
    fn a_ticket_is_its_services_alone() {
        let resumption = resumption(0);
        let ticket = tickets_of(&resumption, "web").encrypt(SESSION).unwrap();
        let opened = tickets_of(&resumption, "web").decrypt(&ticket);
        assert_eq!(opened.as_deref(), Some(SESSION));
        assert_eq!(tickets_of(&resumption, "mail").decrypt(&ticket), None);
        assert_eq!(take_sight(), Sight::Miss(Miss::WrongService));
    }

    #[test]
    fn a_plan_with_other_keys_leaves_those_before_it_alone() {
        let first = resumption(9);
        let second = Arc::new(first.renewed(&listed(1)));
        let (of_first, of_second) = (tickets_of(&first, "web"), tickets_of(&second, "web"));
        let ticket = of_first.encrypt(SESSION).unwrap();
        assert_eq!(of_second.decrypt(&ticket), None);
        assert_eq!(take_sight(), Sight::Miss(Miss::KeyTooOld));
        assert!(of_first.decrypt(&ticket).is_some());
        let back = Arc::new(second.renewed(&options(9).tickets));
        assert!(tickets_of(&back, "web").decrypt(&ticket).is_some());
        assert!(sessions(&first, "web").put(vec![1; 32], SESSION.to_vec()));
        assert!(sessions(&back, "web").get(&[1; 32]).is_some());
    }

    #[test]
    fn hosts_that_share_keys_resume_each_others_sessions() {
        let shared = |byte| TicketOptions {
            keys: KeySource::Shared(SharedSecret::read("s", vec![byte; 32]).unwrap()),
            ..options(0).tickets.clone()
        };
        let host = |secret, tickets| {
            let mut own = options(0);
            own.secret = [secret; 32];
            own.tickets = tickets;
            take_sight();
            tickets_of(&Arc::new(Resumption::new(&own)), "web")
        };
        let ticket = host(1, listed(5)).encrypt(SESSION).unwrap();
        assert!(host(2, listed(5)).decrypt(&ticket).is_some());
        assert!(host(2, listed(6)).decrypt(&ticket).is_none());
        let ticket = host(1, shared(5)).encrypt(SESSION).unwrap();
        assert!(host(2, shared(5)).decrypt(&ticket).is_some());
        assert!(host(2, shared(6)).decrypt(&ticket).is_none());
    }

    #[test]
    fn no_ticket_outlives_its_key_or_seven_days() {
        let seconds = |change: fn(&mut TicketOptions)| {
            let mut options = options(0);
            change(&mut options.tickets);
            tickets_of(&Arc::new(Resumption::new(&options)), "web").lifetime()
        };
        assert_eq!(seconds(|_| ()), 4 * 3600);
        assert_eq!(seconds(|o| o.lifetime = Some(Duration::from_secs(60))), 60);
        let day = |o: &mut TicketOptions| o.lifetime = Some(Duration::from_secs(86_400));
        assert_eq!(seconds(day), 4 * 3600);
        let week = |o: &mut TicketOptions| o.rotate = Duration::from_secs(7 * 86_400);
        assert_eq!(u64::from(seconds(week)), LIFETIME_SECONDS_MAX);
        assert_eq!(seconds(|o| *o = listed(1)), 4 * 3600);
        let day_of_listed = |o: &mut TicketOptions| {
            *o = listed(1);
            o.lifetime = Some(Duration::from_secs(86_400));
        };
        assert_eq!(seconds(day_of_listed), 86_400);
    }

    #[test]
    fn what_is_no_session_is_not_handed_to_the_library() {
        let web = tickets_of(&resumption(0), "web");
        let ticket = web.encrypt(b"strange").unwrap();
        assert_eq!(web.decrypt(&ticket), None);
        assert_eq!(take_sight(), Sight::Miss(Miss::Foreign));
    }

    #[test]
    fn the_secret_is_not_in_the_debug_form() {
        let mut options = options(0);
        options.secret = [0x41; 32];
        assert!(!format!("{options:?}").contains("65"));
    }
}
