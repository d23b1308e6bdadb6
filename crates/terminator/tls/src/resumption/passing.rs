//! The servers of TLS 1.2 sessions that pass by closed.
//!
//! Owns their entries in the cache of stored sessions, where these last, and go to other hosts, as
//! sessions do. Servers' ids and sessions' names are the caller's. An entry is a hint: if it is
//! wrong or lost, a client makes a full handshake.

use std::time::Instant;

use session::{FetchAnswer, Key, Offered, Request};
use zeroize::Zeroizing;

use super::cluster::SHARED;
use super::service::{Keeping, service_tag};
use super::ticket::{SERVICE_TAG_BYTES, ServiceTag};
use crate::identity::sha256;

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
    pub(super) fn new(keeping: Keeping, service: &str) -> Self {
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
mod tests {
    use std::sync::Arc;

    use session::mesh::LocalSessions;

    use super::super::{Resumption, ResumptionOptions};
    use super::*;

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
        // No id that is seen costs a session its place, and no session is taken for an entry.
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
}
