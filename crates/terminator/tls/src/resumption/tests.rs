//! Sessions that resume, for how long, and stored sessions.

use std::sync::Arc;

use rustls::server::{ProducesTickets, StoresServerSessions};
use session::mesh::LocalSessions;

use super::service::service_tag;
use super::*;
use crate::context::{self, HandshakeContext, LookupResult, Provenance};
use crate::identity::{Fingerprint, fingerprint_of};

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

/// The session of a client without a certificate, roughly as the library writes it.
const SESSION: &[u8] = &[0, 3, 4, 0x13, 1, 1, 7, 0, 0, 0];

fn of_service(resumption: &Resumption, service: &str) -> Arc<ServiceSessions> {
    resumption.of_service(service, ResumptionPolicy::default())
}

fn stored_tickets_of(resumption: &Resumption, service: &str) -> StoredTickets {
    StoredTickets(of_service(resumption, service))
}

/// Returns the result of the last look-up, of a handshake that is over.
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

fn enter_exchange(is_hybrid: bool) -> context::EnteredContext {
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

/// Ids are sent in clear: in TLS 1.2 in every hello, in TLS 1.3 in the one that resumes.
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

fn cipher(process_number: u32) -> StoredCipher {
    let root = hkdf::extract(b"test", &[7; 32]);
    StoredCipher::new(&root, process_number)
}

#[test]
fn a_successor_opens_what_was_sealed_before() {
    let mut bytes = b"a session".to_vec();
    let sealed = cipher(0).seal(b"id", &mut bytes).expect("it can be sealed");
    assert_ne!(bytes, b"a session");
    assert!(cipher(1).open(b"id", sealed, &mut bytes));
    assert_eq!(bytes, b"a session");
}

#[test]
fn what_was_changed_is_not_opened() {
    let mut bytes = b"a session".to_vec();
    let sealed = cipher(0).seal(b"id", &mut bytes).expect("it can be sealed");
    let opens = |additional: &[u8], sealed, mut bytes: Vec<u8>| {
        cipher(0).open(additional, sealed, &mut bytes)
    };
    assert!(opens(b"id", sealed, bytes.clone()));
    assert!(!opens(b"other", sealed, bytes.clone()));
    for index in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        assert!(!opens(b"id", sealed, changed), "byte {index}");
    }
    let (mut tag, mut nonce) = (sealed, sealed);
    (tag.tag[15], nonce.nonce[11]) = (!sealed.tag[15], !sealed.nonce[11]);
    assert!(!opens(b"id", tag, bytes.clone()) && !opens(b"id", nonce, bytes));
}

#[test]
fn no_nonce_comes_twice() {
    let ciphers = [cipher(0), cipher(1)];
    let nonces = ciphers.iter().flat_map(|cipher| {
        let seal = |_| cipher.seal(b"", &mut []).map(|sealed| sealed.nonce);
        (0..100).map(seal).collect::<Vec<_>>()
    });
    let mut nonces: Vec<_> = nonces.map(|nonce| nonce.expect("it can be sealed")).collect();
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!(nonces.len(), 200);
}

#[test]
fn the_key_is_not_in_the_debug_form() {
    let memory = SessionMemory {
        words: Arc::new(Vec::new()),
        key: [0x41; 32],
        process_number: 3,
        is_in_use: false,
        zero: Instant::now(),
    };
    assert!(!format!("{memory:?}").contains("65"));
}

#[test]
fn a_server_is_found_by_its_services_sessions_alone_and_survives_a_new_plan() {
    let options = ResumptionOptions::new([7; 32]);
    let resumption = Resumption::new(&options);
    let [web, mail] = ["web", "mail"].map(|name| resumption.passing_sessions(name));
    web.learn(b"id", 5);
    assert_eq!((web.find(b"id"), web.find(b"other")), (Some(5), None));
    assert_eq!(mail.find(b"id"), None);
    web.learn(b"id", 6);
    let renewed = resumption.renewed(&options.tickets);
    assert_eq!(renewed.passing_sessions("web").find(b"id"), Some(6));
    assert_eq!(resumption.session_counters().entries, 1);
    // No observed id costs a session its place, and no session is mistaken for an entry.
    let key = web.key(b"id").unwrap();
    let terminating = Arc::new(resumption).bare_sessions_of("web");
    assert!(terminating.stored(key.bytes()).is_err());
    assert!(terminating.store(b"id", b"a session"));
    assert_eq!(web.find(b"id"), Some(6));
}

#[test]
fn hosts_share_it_and_take_no_other_form_for_one() {
    let hosts = [1, 2].map(|byte| Resumption::new(&ResumptionOptions::new([byte; 32])));
    let [here, there] = hosts.each_ref().map(|host| host.passing_sessions("web"));
    here.learn(b"id", 5);
    let key = here.key(b"id").unwrap();
    let now = Instant::now();
    let shared = hosts.each_ref().map(Resumption::shared_sessions);
    let (entry, lifetime) = shared[0].find(&key, now).unwrap();
    let mut place = 0;
    let walked = shared[0].walk(&mut place, lifetime, now).flatten().unwrap();
    assert_eq!((walked.key, &walked.value), (key, &entry));
    for cut in 1..entry.len() {
        let short = there.server(&entry[..cut]);
        assert_eq!((short, there.server(&[&entry[..], &[0]].concat())), (None, None));
    }
    assert!(shared[1].insert(&key, &entry, lifetime, now));
    assert_eq!(there.find(b"id"), Some(5));
}
