//! Provides the sessions of one service under one plan to the library.
//!
//! Decides what a session is bound to, and which clients may resume it. Tickets and the store hold
//! the sessions; a stored entry is `reach (1) | service (16) | provenance (16) | session`.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ProducesTickets, StoresServerSessions};
use rustls_pki_types::CertificateDer;
use session::{FetchAnswer, Key, MemoryStore, Offered, Request, Tiers};
use telemetry::outcome::ResumptionMiss;
use zeroize::Zeroizing;

use super::cluster::{SHARED, STAYS};
use super::ticket::{SERVICE_TAG_BYTES, ServiceTag, Tickets};
use crate::context::{self, HandshakeContext, LookupResult, Provenance};
use crate::identity::{Fingerprint, sha256};
use crate::validity::Clock;
use crate::verify::Verifier;

/// Maximum length of a session id (RFC 5246 section 7.4.1.2), in bytes; a stateful ticket of TLS
/// 1.3 has the same length.
const SESSION_ID_BYTES_MAX: usize = 32;

/// Version numbers as in hellos (RFC 5246 section E.1).
const TLS12: usize = 0x0303;
const TLS13: usize = 0x0304;

/// RFC 8446 section 4.6.1: no ticket may be used for more than seven days.
pub(super) const LIFETIME_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;

#[derive(Clone, Debug, Default)]
pub(crate) struct ResumptionPolicy {
    /// Verifier of the service's clients.
    pub(crate) verifier: Verifier,
    pub(crate) clock: Clock,
    /// Certificates whose sessions are not resumed.
    pub(crate) barred: Vec<Fingerprint>,
    /// If `Some`, sessions of all other certificates are not resumed either.
    pub(crate) only: Option<Vec<Fingerprint>>,
    /// Whether stored sessions stay on this host: a session that resumes once must not be in two
    /// places if it allows early data (RFC 8446 section 8.1).
    pub(crate) stays: bool,
    /// Whether sessions record that they began with ML-KEM.
    pub(crate) notes_hybrid: bool,
}

#[derive(Clone, Debug)]
pub(super) struct SessionStorage {
    pub(super) tickets: Arc<Tickets>,
    pub(super) store: Arc<MemoryStore>,
    pub(super) tiers: Arc<Tiers>,
    pub(super) stores: bool,
    pub(super) stored_lifetime: Duration,
}

impl SessionStorage {
    /// Reports whether a session should be looked for on other hosts.
    pub(super) fn is_elsewhere(&self, key: &Key) -> bool {
        self.tiers.is_open() && !self.store.contains(key.bytes(), Instant::now())
    }

    /// Looks for a session on other hosts. `answer` is always called.
    pub(super) fn fetch(&self, session: Offered, answer: FetchAnswer) {
        let Offered { key, once } = session;
        self.tiers.ask(Request::Fetch { key, once, answer });
    }
}

/// Tickets and stored sessions of one service under one plan.
#[derive(Debug)]
pub(crate) struct ServiceSessions {
    keeping: SessionStorage,
    tag: ServiceTag,
    policy: ResumptionPolicy,
}

/// Stored sessions of TLS 1.3 presented as tickets: the client gets an id that resumes once.
#[derive(Debug)]
pub(crate) struct StoredTickets(pub(crate) Arc<ServiceSessions>);

impl ServiceSessions {
    pub(super) fn new(keeping: SessionStorage, service: &str, policy: ResumptionPolicy) -> Self {
        Self { keeping, tag: service_tag(service), policy }
    }

    /// Returns the suite of the session in a ticket, unless this process has made the ticket, and
    /// so would select its suite again.
    pub(crate) fn suite_in_ticket(&self, ticket: &[u8]) -> Option<u16> {
        let (tickets, now) = (&self.keeping.tickets, unix_seconds());
        if tickets.has_made(ticket, now) {
            return None;
        }
        let (session, _) = tickets.open(ticket, self.tag, now).ok()?;
        state_suite(&Zeroizing::new(session))
    }

    /// Returns the suite of a stored session, if it may be another host's.
    pub(crate) fn suite_of_stored(&self, id: &[u8]) -> Option<u16> {
        self.shared_key(id)?;
        let (entry, _) = self.keeping.store.peek(id, Instant::now())?;
        let entry = Zeroizing::new(entry);
        let (_, session) = self.own(&entry).ok()?;
        state_suite(session)
    }

    /// Returns the suite of a session of TLS 1.3 that began with ML-KEM and resumes for a client
    /// that requests this name; `None` = it did not, or might not.
    pub(crate) fn suite_of_hybrid(
        &self,
        identity: &[u8],
        is_stored: bool,
        name: Option<&str>,
    ) -> Option<u16> {
        let now = unix_seconds();
        let (session, provenance) = if is_stored {
            let (entry, _) = self.keeping.store.peek(identity, Instant::now())?;
            let entry = Zeroizing::new(entry);
            let (provenance, session) = self.own(&entry).ok()?;
            (session.to_vec(), provenance)
        } else {
            self.keeping.tickets.open(identity, self.tag, now).ok()?
        };
        let session = Zeroizing::new(session);
        self.policy.judge(&session, provenance).ok()?;
        let fits = provenance.is_hybrid
            && !provenance.is_over(now)
            && state_version(&session) == Some(TLS13)
            && state_name(&session)? == name.map(str::as_bytes);
        state_suite(&session).filter(|_| fits)
    }

    /// Returns the provenance of new sessions of the current handshake.
    fn provenance(&self, now: u64) -> Provenance {
        let provenance = context::with(|context| context.provenance(now));
        let is_hybrid = provenance.is_hybrid && self.policy.notes_hybrid;
        Provenance { is_hybrid, ..provenance }
    }

    /// Accepts a session that was found, if its client still may resume: the server certificate may
    /// have been revoked since, and the client's may have expired, been revoked, come from an
    /// authority that is no longer trusted, or be no longer allowed.
    fn welcome(&self, session: &[u8], provenance: Provenance) -> Result<Vec<u8>, ResumptionMiss> {
        self.policy.judge(session, provenance)?;
        context::with(|context| context.resumed = Some(provenance));
        Ok(session.to_vec())
    }

    /// Returns the session in a stored entry.
    fn stored(&self, entry: &[u8]) -> Result<Vec<u8>, ResumptionMiss> {
        let (provenance, session) = self.own(entry)?;
        if provenance.is_over(unix_seconds()) {
            Err(ResumptionMiss::Expired)
        } else {
            self.welcome(session, provenance)
        }
    }

    /// Returns the content of a stored entry, if it belongs to this service.
    fn own<'e>(&self, entry: &'e [u8]) -> Result<(Provenance, &'e [u8]), ResumptionMiss> {
        let (_, rest) = entry.split_first().ok_or(ResumptionMiss::Unknown)?;
        let (tag, rest) =
            rest.split_first_chunk::<SERVICE_TAG_BYTES>().ok_or(ResumptionMiss::Unknown)?;
        let (provenance, session) =
            rest.split_first_chunk::<{ Provenance::BYTES }>().ok_or(ResumptionMiss::Unknown)?;
        if *tag == self.tag {
            Ok((Provenance::from_bytes(*provenance), session))
        } else {
            Err(ResumptionMiss::WrongService)
        }
    }

    /// Looks up a stored session, which stays in the store.
    fn find(&self, id: &[u8]) -> Result<Vec<u8>, ResumptionMiss> {
        let entry = self.keeping.store.get(id, Instant::now());
        self.stored(&Zeroizing::new(entry.ok_or(ResumptionMiss::Unknown)?))
    }

    /// Looks up and removes a stored session of TLS 1.3. Fails if another connection was faster. A
    /// session of another service or version stays: an observer of an id must not cost its client
    /// the session.
    fn find_once(&self, id: &[u8]) -> Result<Vec<u8>, ResumptionMiss> {
        let mut found = Err(ResumptionMiss::Unknown);
        let judge = |entry: &[u8]| match self.own(entry) {
            Ok((_, session)) if state_version(session) == Some(TLS12) => {
                found = Err(ResumptionMiss::Mismatch);
                false
            }
            Err(miss) => {
                found = Err(miss);
                false
            }
            Ok(_) => {
                found = self.stored(entry).map(Zeroizing::new);
                true
            }
        };
        let taken = self.keeping.store.take_if(id, Instant::now(), judge);
        let is_taken = taken.map(Zeroizing::new).is_some();
        let session = found?;
        if !is_taken {
            return Err(ResumptionMiss::Unknown);
        }
        if let Some(key) = self.shared_key(id) {
            self.keeping.tiers.ask(Request::Delete { key });
        }
        Ok(session.to_vec())
    }

    /// Returns the key of a session that other hosts may have.
    fn shared_key(&self, id: &[u8]) -> Option<Key> {
        let is_shared = !self.policy.stays && self.keeping.tiers.is_open();
        is_shared.then(|| Key::new(id)).flatten()
    }

    /// Publishes a stored entry to the other hosts.
    fn share(&self, id: &[u8], entry: &[u8], once: bool) {
        if let Some(key) = self.shared_key(id) {
            self.keeping.tiers.ask(Request::Publish {
                key,
                once,
                value: Zeroizing::new(entry.to_vec()),
                lifetime: self.keeping.stored_lifetime,
            });
        }
    }

    /// Looks up a stored session, if its id can be valid.
    fn look_up(
        &self,
        id: &[u8],
        find: fn(&Self, &[u8]) -> Result<Vec<u8>, ResumptionMiss>,
    ) -> Option<Vec<u8>> {
        if !context::with(HandshakeContext::may_look_up) {
            return None;
        }
        let found = if id.len() <= SESSION_ID_BYTES_MAX {
            find(self, id)
        } else {
            Err(ResumptionMiss::Unknown)
        };
        context::with(|context| context.looked_up(found))
    }
}

impl ResumptionPolicy {
    fn judge(&self, session: &[u8], provenance: Provenance) -> Result<(), ResumptionMiss> {
        let certificate = provenance.certificate;
        let is_former = |only: &Vec<_>| !only.contains(&certificate);
        if self.barred.contains(&certificate) || self.only.as_ref().is_some_and(is_former) {
            return Err(ResumptionMiss::ServerCertificate);
        }
        let chain = client_chain(session).ok_or(ResumptionMiss::Foreign)?;
        let is_welcome = match (&self.verifier, chain.split_first()) {
            (None, shown) => shown.is_none(),
            (Some(verifier), None) => !verifier.client_auth_mandatory(),
            (Some(verifier), Some((leaf, others))) => {
                verifier.allows(leaf) && verifier.verify(leaf, others, self.clock.now()).is_ok()
            }
        };
        is_welcome.then_some(()).ok_or(ResumptionMiss::ClientCertificate)
    }
}

impl ProducesTickets for ServiceSessions {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.keeping.tickets.lifetime_seconds()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let now = unix_seconds();
        let provenance = self.provenance(now);
        self.keeping.tickets.seal(plain, self.tag, provenance, now)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        if !context::with(HandshakeContext::may_look_up) {
            return None;
        }
        let opened = self.keeping.tickets.open(ticket, self.tag, unix_seconds());
        let welcome = opened.and_then(|(session, provenance)| {
            let session = Zeroizing::new(session);
            self.welcome(&session, provenance)
        });
        context::with(|context| context.looked_up(welcome))
    }
}

impl StoresServerSessions for ServiceSessions {
    fn put(&self, id: Vec<u8>, value: Vec<u8>) -> bool {
        let value = Zeroizing::new(value);
        let provenance = self.provenance(unix_seconds());
        let renews = context::with(HandshakeContext::take_renewal);
        let head_bytes = 1 + SERVICE_TAG_BYTES + Provenance::BYTES;
        let mut entry = Vec::with_capacity(head_bytes + value.len());
        entry.push(if self.policy.stays { STAYS } else { SHARED });
        entry.extend_from_slice(&self.tag);
        entry.extend_from_slice(&provenance.to_bytes());
        entry.extend_from_slice(&value);
        if id.len() > SESSION_ID_BYTES_MAX {
            return false;
        }
        self.share(&id, &entry, state_version(&value) != Some(TLS12));
        // A session that renews another has been used once.
        let put = if renews { MemoryStore::renew } else { MemoryStore::put };
        put(&self.keeping.store, &id, entry, Instant::now())
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.look_up(id, Self::find)
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.look_up(id, Self::find_once)
    }

    fn can_cache(&self) -> bool {
        self.keeping.stores
    }
}

impl ProducesTickets for StoredTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        let seconds = self.0.keeping.stored_lifetime.as_secs();
        u32::try_from(seconds.min(LIFETIME_SECONDS_MAX)).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut id = [0; SESSION_ID_BYTES_MAX];
        rand::fill(&mut id).ok()?;
        let is_stored = self.0.put(id.to_vec(), plain.to_vec());
        is_stored.then(|| id.to_vec())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.0.take(ticket)
    }
}

/// A service's tickets and stored sessions as bytes, without a handshake around them, to test what
/// hostile clients and memory may hold.
#[derive(Debug)]
pub struct BareSessions(pub(super) Arc<ServiceSessions>);

impl BareSessions {
    /// Seals a ticket for a session; `None` if it is too long.
    pub fn seal_ticket(&self, session: &[u8]) -> Option<Vec<u8>> {
        let _entered = context::enter(HandshakeContext::default());
        self.0.encrypt(session)
    }

    /// Returns the session in a ticket, as the library would get it.
    ///
    /// # Errors
    /// Fails with the reason why the library would get none.
    pub fn open_ticket(&self, ticket: &[u8]) -> Result<Vec<u8>, ResumptionMiss> {
        looked_up(|| self.0.decrypt(ticket))
    }

    /// Stores a session; `false` if it or its id is too long.
    pub fn store(&self, id: &[u8], session: &[u8]) -> bool {
        let _entered = context::enter(HandshakeContext::default());
        self.0.put(id.to_vec(), session.to_vec())
    }

    /// Returns a stored session, as the library would get it.
    ///
    /// # Errors
    /// Fails with the reason why the library would get none.
    pub fn stored(&self, id: &[u8]) -> Result<Vec<u8>, ResumptionMiss> {
        looked_up(|| self.0.get(id))
    }
}

/// Returns the answer that the library would get, or the recorded reason of the miss.
fn looked_up(look_up: impl FnOnce() -> Option<Vec<u8>>) -> Result<Vec<u8>, ResumptionMiss> {
    let entered = context::enter(HandshakeContext::default());
    match (look_up(), entered.leave().lookup) {
        (Some(session), _) => Ok(session),
        (None, LookupResult::Miss(miss)) => Err(miss),
        (None, LookupResult::Nothing | LookupResult::Session) => Err(ResumptionMiss::Unknown),
    }
}

/// Returns the tag of a service in tickets and stored sessions: the same on all hosts.
pub(super) fn service_tag(service: &str) -> ServiceTag {
    *sha256(service.as_bytes()).first_chunk().expect("SHA-256 has 32 bytes")
}

/// Returns Unix seconds. A clock before 1970 counts as 1970: then tickets fail elsewhere only.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

// The library hands over a session as bytes in a format of its own, and does not check whether its
// client is still allowed. The code below reads as much of that format as is needed to check; a
// test compares it with the library's, and bytes in another format are no session.

/// Lengths of fields of a session, before the client's certificates.
const VERSION_BYTES: usize = 2;
const SUITE_BYTES: usize = 2;

/// Returns the protocol version of a session, as in hellos. `None` if the bytes are no session.
pub(super) fn state_version(state: &[u8]) -> Option<usize> {
    let mut rest = state;
    skip_name(&mut rest)?;
    number(&mut rest, VERSION_BYTES)
}

/// Returns the server name that the client requested, if any. `None` if the bytes are no session.
fn state_name(state: &[u8]) -> Option<Option<&[u8]>> {
    let mut rest = state;
    if !flag(&mut rest)? {
        return Some(None);
    }
    let bytes = number(&mut rest, 1)?;
    take(&mut rest, bytes).map(Some)
}

/// Returns the cipher suite of a session. `None` if the bytes are no session.
fn state_suite(state: &[u8]) -> Option<u16> {
    let mut rest = state;
    skip_name(&mut rest)?;
    take(&mut rest, VERSION_BYTES)?;
    number(&mut rest, SUITE_BYTES)?.try_into().ok()
}

/// Returns the client's chain in a session, its own certificate first; empty if it showed none.
/// `None` if the bytes are no session.
pub(super) fn client_chain(state: &[u8]) -> Option<Vec<CertificateDer<'_>>> {
    let mut rest = state;
    skip_name(&mut rest)?;
    take(&mut rest, VERSION_BYTES + SUITE_BYTES)?;
    let secret_bytes = number(&mut rest, 1)?;
    take(&mut rest, secret_bytes)?;
    flag(&mut rest)?;
    if !flag(&mut rest)? {
        return Some(Vec::new());
    }
    let chain_bytes = number(&mut rest, 3)?;
    let mut list = take(&mut rest, chain_bytes)?;
    let mut chain = Vec::new();
    while !list.is_empty() {
        let certificate_bytes = number(&mut list, 3)?;
        chain.push(CertificateDer::from(take(&mut list, certificate_bytes)?));
    }
    // An empty chain would mean that one was shown and lost.
    (!chain.is_empty()).then_some(chain)
}

fn skip_name(rest: &mut &[u8]) -> Option<()> {
    if flag(rest)? {
        let name_bytes = number(rest, 1)?;
        take(rest, name_bytes)?;
    }
    Some(())
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

/// Takes a big-endian number of `bytes` bytes, at most three.
fn number(rest: &mut &[u8], bytes: usize) -> Option<usize> {
    let digits = take(rest, bytes)?;
    Some(digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)))
}

fn flag(rest: &mut &[u8]) -> Option<bool> {
    match take(rest, 1)? {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod state_tests {
    use proptest::prelude::*;

    use super::*;

    /// Builds a session with a name, a secret of two bytes and this tail.
    fn session(tail: &[u8]) -> Vec<u8> {
        let mut state = vec![1, 1, b'a', 3, 4, 0x13, 1, 2, 7, 7, 0];
        state.extend_from_slice(tail);
        state
    }

    #[test]
    fn a_version_is_read_behind_a_name_or_none() {
        assert_eq!(state_version(&session(&[])), Some(0x0304));
        assert_eq!(state_version(&[0, 3, 3, 0xc0]), Some(0x0303));
        assert_eq!(state_version(&[0, 3]), None);
        assert_eq!(state_version(&[2, 3, 3]), None);
        assert_eq!(state_suite(&session(&[])), Some(0x1301));
        assert_eq!(state_suite(&[0, 3, 3, 0xc0]), None);
    }

    #[test]
    fn a_chain_is_read_in_its_order() {
        assert_eq!(client_chain(&session(&[0, 0])), Some(Vec::new()));
        let two = session(&[1, 0, 0, 9, 0, 0, 1, 5, 0, 0, 2, 6, 6, 0]);
        let chain = client_chain(&two).expect("a session");
        assert_eq!(chain, [CertificateDer::from(&[5][..]), vec![6, 6].into()]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_session_or_none(noise: Vec<u8>) {
            let places = noise.as_ptr_range();
            for certificate in client_chain(&noise).unwrap_or_default() {
                prop_assert!(places.contains(&certificate.as_ptr()) || certificate.is_empty());
            }
            let shown = session(&[&[1], &noise[..]].concat());
            prop_assert!(client_chain(&shown).is_none_or(|chain| !chain.is_empty()));
        }
    }

    #[test]
    fn what_is_cut_or_strange_is_no_session() {
        let whole = session(&[1, 0, 0, 5, 0, 0, 2, 6, 6]);
        assert!(client_chain(&whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(client_chain(&whole[..length]), None, "{length} bytes");
        }
        assert_eq!(client_chain(&session(&[2])), None);
        assert_eq!(client_chain(&session(&[1, 0, 0, 0])), None);
        assert_eq!(client_chain(&session(&[1, 0, 0, 4, 0, 0, 2, 6])), None);
    }
}
