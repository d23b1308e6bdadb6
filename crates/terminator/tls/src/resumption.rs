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

pub mod cluster;
pub mod key_file;
pub mod notices;
mod passing;
mod ring;
mod service;
pub mod store;
mod stored;
mod ticket;

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::hkdf::Prk;
use session::{Counters, ExpectedEntry, MemoryStore, Tiers};
use zeroize::Zeroize;

pub use passing::PassingSessions;
pub use ring::{KeyPurpose, TicketKeyFacts};
pub use service::BareSessions;
pub(crate) use service::{ResumptionPolicy, ServiceSessions, StoredTickets};
pub use session::{FetchAnswer, Key as SessionKey, Offered as OfferedSession};
pub use stored::SessionMemory;
pub use telemetry::outcome::ResumptionMiss;

use cluster::SharedSessions;
use key_file::{ListedKeys, SharedSecret, WorkerTask};
use ring::Ring;
pub(crate) use service::unix_seconds;
use service::{Keeping, LIFETIME_SECONDS_MAX};
use ticket::Tickets;

#[derive(Clone)]
pub struct ResumptionOptions {
    /// The secret that ticket keys are derived from unless they come from elsewhere.
    pub secret: [u8; 32],
    pub tickets: TicketOptions,
    /// The limits of stored sessions.
    pub sessions: session::Options,
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
            sessions: session::Options {
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
        Self::with(options, stored::private(options.sessions, now), now)
    }

    /// The same, with the sessions that an earlier process stored in `memory`.
    pub fn within(options: &ResumptionOptions, memory: &SessionMemory) -> Self {
        Self::with(options, stored::handed_over(memory), Instant::now())
    }

    fn with(options: &ResumptionOptions, memory: session::Memory, now: Instant) -> Self {
        let own_root = ring::root_of(&options.secret);
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
            Some(memory) => stored::handed_over(memory),
            None => stored::private(options.sessions, now),
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
    memory: session::Memory,
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

#[cfg(test)]
mod tests {
    use rustls::server::{ProducesTickets, StoresServerSessions};

    use super::service::service_tag;
    use super::*;
    use crate::context::Provenance;
    use crate::context::{self, HandshakeContext, LookupResult};
    use crate::subject::{Fingerprint, fingerprint_of};

    fn options(session_entries: usize) -> ResumptionOptions {
        let mut options = ResumptionOptions::new([7; 32]);
        options.sessions.entries_max = session_entries;
        options
    }

    fn resumption(session_entries: usize) -> Arc<Resumption> {
        Arc::new(Resumption::new(&options(session_entries)))
    }

    fn listed(byte: u8) -> TicketOptions {
        let files = vec![("keys".to_owned(), vec![byte; 48])];
        TicketOptions {
            keys: KeySource::Listed(ListedKeys::read(files).unwrap()),
            ..TicketOptions::default()
        }
    }

    /// The session of a client without a certificate, more or less as the library writes it.
    const SESSION: &[u8] = &[0, 3, 4, 0x13, 1, 1, 7, 0, 0, 0];

    fn of_service(resumption: &Resumption, service: &str) -> Arc<ServiceSessions> {
        resumption.of_service(service, ResumptionPolicy::default())
    }

    fn stored_tickets_of(resumption: &Resumption, service: &str) -> StoredTickets {
        StoredTickets(of_service(resumption, service))
    }

    /// The result of the last look-up, in a handshake that is over.
    fn last_lookup() -> LookupResult {
        let lookup = context::with(|context| context.lookup);
        drop(context::enter(HandshakeContext::default()));
        lookup
    }

    fn missed(miss: ResumptionMiss) -> bool {
        last_lookup() == LookupResult::Miss(miss)
    }

    #[test]
    fn a_renewed_session_keeps_its_provenance() {
        let resumption = resumption(9);
        let (tag, now) = (service_tag("web"), unix_seconds());
        let began = Provenance {
            authenticated: now - 6 * 24 * 3600,
            certificate: fingerprint_of(b"leaf"),
            is_hybrid: false,
        };
        let web = of_service(&resumption, "web");
        let tickets = &resumption.keeping.tickets;
        let ticket = tickets.seal(SESSION, tag, began, now).unwrap();
        assert_eq!(web.decrypt(&ticket).as_deref(), Some(SESSION));
        let renewed = web.encrypt(SESSION).unwrap();
        assert_eq!(tickets.open(&renewed, tag, now).unwrap().1, began);
        let stored = stored_tickets_of(&resumption, "web");
        let id = stored.encrypt(SESSION).unwrap();
        last_lookup();
        assert_eq!(stored.decrypt(&id).as_deref(), Some(SESSION));
        context::with(|context| assert_eq!(context.provenance(now), began));
    }

    #[test]
    fn a_session_is_known_to_have_begun_with_ml_kem_only_if_all_is_so() {
        let resumption = resumption(9);
        let policy = |notes_hybrid| ResumptionPolicy { notes_hybrid, ..Default::default() };
        let web = resumption.of_service("web", policy(true));
        let ticket_of = |sessions: &ServiceSessions, is_hybrid, session: &[u8]| {
            let _entered = enter_exchange(is_hybrid);
            sessions.encrypt(session).unwrap()
        };
        let named = [&[1, 1, b'a'][..], &SESSION[1..]].concat();
        let of_tls12 = [&[0, 3, 3], &SESSION[3..]].concat();
        let suite = Some(0x1301);
        for (is_hybrid, session, name, known) in [
            (true, SESSION, None, suite),
            (true, &named, Some("a"), suite),
            (true, &named, Some("b"), None),
            (true, &named, None, None),
            (true, SESSION, Some("a"), None),
            (true, &of_tls12, None, None),
            (false, SESSION, None, None),
        ] {
            let ticket = ticket_of(&web, is_hybrid, session);
            assert_eq!(web.suite_of_hybrid(&ticket, false, name), known, "{session:?} {name:?}");
            let id = ticket_of_stored(&web, is_hybrid, session);
            assert_eq!(web.suite_of_hybrid(&id, true, name), known, "{session:?} {name:?}");
        }
        let unnoted = ticket_of(&resumption.of_service("web", policy(false)), true, SESSION);
        assert_eq!(web.suite_of_hybrid(&unnoted, false, None), None);
        let others = ticket_of(&resumption.of_service("mail", policy(true)), true, SESSION);
        assert_eq!(web.suite_of_hybrid(&others, false, None), None);
        let mut altered = ticket_of(&web, true, SESSION);
        *altered.last_mut().unwrap() ^= 1;
        assert_eq!(web.suite_of_hybrid(&altered, false, None), None);
    }

    fn enter_exchange(is_hybrid: bool) -> context::Entered {
        let mut context = HandshakeContext::default();
        context.is_hybrid = is_hybrid;
        context::enter(context)
    }

    fn ticket_of_stored(web: &Arc<ServiceSessions>, is_hybrid: bool, session: &[u8]) -> Vec<u8> {
        let _entered = enter_exchange(is_hybrid);
        StoredTickets(Arc::clone(web)).encrypt(session).unwrap()
    }

    #[test]
    fn a_stored_ticket_resumes_once() {
        let stored = stored_tickets_of(&resumption(9), "web");
        let id = stored.encrypt(SESSION).unwrap();
        assert_eq!((id.len(), stored.lifetime()), (32, 3600));
        assert_eq!(stored.decrypt(&id).as_deref(), Some(SESSION));
        assert_eq!(stored.decrypt(&id), None);
        assert!(missed(ResumptionMiss::Unknown));
        let none = stored_tickets_of(&resumption(0), "web");
        assert_eq!(none.encrypt(SESSION), None);
    }

    /// Ids go by in clear: of TLS 1.2 in every hello, of TLS 1.3 in the one that resumes.
    #[test]
    fn an_id_of_another_service_or_version_costs_no_session() {
        const OF_TLS12: &[u8] = &[0, 3, 3, 0xc0, 0x2b, 1, 7, 0, 0, 0];
        let resumption = resumption(9);
        let [web, mail] = ["web", "mail"].map(|service| {
            let stored = stored_tickets_of(&resumption, service);
            (stored, of_service(&resumption, service))
        });
        let id = web.0.encrypt(SESSION).unwrap();
        assert_eq!((mail.0.decrypt(&id), mail.1.take(&id)), (None, None));
        assert!(missed(ResumptionMiss::WrongService));
        assert_eq!(web.0.decrypt(&id).as_deref(), Some(SESSION));
        assert!(web.1.put(vec![7; 32], OF_TLS12.to_vec()));
        assert_eq!(web.0.decrypt(&[7; 32]), None);
        assert!(missed(ResumptionMiss::Mismatch));
        assert_eq!(web.1.get(&[7; 32]).as_deref(), Some(OF_TLS12));
    }

    #[test]
    fn a_stored_session_is_not_renewed_for_ever() {
        let stored = stored_tickets_of(&resumption(9), "web");
        let resumed = Some(Provenance {
            authenticated: unix_seconds() - LIFETIME_SECONDS_MAX - 9,
            certificate: fingerprint_of(b"leaf"),
            is_hybrid: false,
        });
        context::with(|context| context.resumed = resumed);
        let id = stored.encrypt(SESSION).unwrap();
        assert_eq!(stored.decrypt(&id), None);
        assert!(missed(ResumptionMiss::Expired));
    }

    #[test]
    fn sessions_of_barred_certificates_are_not_resumed() {
        let resumption = resumption(9);
        let (old, new) = (fingerprint_of(b"old"), fingerprint_of(b"new"));
        let opens = |barred: &[Fingerprint], only: Option<Fingerprint>| {
            let policy = ResumptionPolicy {
                barred: barred.to_vec(),
                only: only.map(|one| vec![one]),
                ..ResumptionPolicy::default()
            };
            context::with(|context| context.shown = old);
            let tickets = resumption.of_service("web", policy);
            let ticket = tickets.encrypt(SESSION).unwrap();
            let opened = tickets.decrypt(&ticket).is_some();
            assert_eq!(missed(ResumptionMiss::ServerCertificate), !opened);
            opened
        };
        assert!(opens(&[], None) && opens(&[new], Some(old)));
        assert!(!opens(&[old], None) && !opens(&[], Some(new)));
    }

    #[test]
    fn an_id_of_any_length_is_looked_up_and_one_that_is_too_long_is_not_stored() {
        let web = of_service(&resumption(100), "web");
        assert!(!web.put(vec![1; 33], SESSION.to_vec()));
        for length in 0..100 {
            assert_eq!(web.get(&vec![1; length]), None);
            assert!(missed(ResumptionMiss::Unknown));
        }
    }

    #[test]
    fn without_entries_there_is_no_cache() {
        assert!(of_service(&resumption(1), "web").can_cache());
        assert!(!of_service(&resumption(0), "web").can_cache());
    }

    #[test]
    fn a_plan_with_other_keys_leaves_those_before_it_alone() {
        let first = resumption(9);
        let second = Arc::new(first.renewed(&listed(1)));
        let (of_first, of_second) = (of_service(&first, "web"), of_service(&second, "web"));
        let ticket = of_first.encrypt(SESSION).unwrap();
        assert_eq!(of_second.decrypt(&ticket), None);
        assert!(missed(ResumptionMiss::KeyTooOld));
        assert!(of_first.decrypt(&ticket).is_some());
        let back = Arc::new(second.renewed(&options(9).tickets));
        assert!(of_service(&back, "web").decrypt(&ticket).is_some());
        last_lookup();
        assert!(of_service(&first, "web").put(vec![1; 32], SESSION.to_vec()));
        assert!(of_service(&back, "web").get(&[1; 32]).is_some());
    }

    #[test]
    fn other_limits_of_the_cache_leave_tickets_as_they_are() {
        let first = resumption(9);
        let second = first.moved(&options(1), None);
        last_lookup();
        let ticket = of_service(&first, "web").encrypt(SESSION).unwrap();
        let second = Arc::new(second);
        assert!(of_service(&second, "web").decrypt(&ticket).is_some());
        let web = of_service(&second, "web");
        assert!(web.put(vec![1; 32], SESSION.to_vec()));
        assert!(web.put(vec![2; 32], SESSION.to_vec()));
        assert_eq!(second.session_counters().entries, 1);
        assert_eq!(first.session_counters().entries, 0);
    }

    #[test]
    fn hosts_that_share_keys_resume_each_others_sessions() {
        let shared = |byte| TicketOptions {
            keys: KeySource::Shared(vec![SharedSecret::read("s", vec![byte; 32]).unwrap()]),
            ..TicketOptions::default()
        };
        let host = |secret, tickets| {
            let mut own = options(0);
            own.secret = [secret; 32];
            own.tickets = tickets;
            last_lookup();
            of_service(&Arc::new(Resumption::new(&own)), "web")
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
            of_service(&Arc::new(Resumption::new(&options)), "web").lifetime()
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
        let web = of_service(&resumption(0), "web");
        let ticket = web.encrypt(b"strange").unwrap();
        assert_eq!(web.decrypt(&ticket), None);
        assert!(missed(ResumptionMiss::Foreign));
    }

    #[test]
    fn the_secret_is_not_in_the_debug_form() {
        let mut options = options(0);
        options.secret = [0x41; 32];
        assert!(!format!("{options:?}").contains("65"));
    }
}
