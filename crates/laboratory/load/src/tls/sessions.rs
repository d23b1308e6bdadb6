//! The sessions of many clients, each its own.
//!
//! The library asks its store by server name, and we have one server and many clients. A thread
//! drives one connection at a time, so the store is told whose turn it is.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls_pki_types::ServerName;

/// TLS 1.3 tickets that a client keeps: servers give two or three a handshake, and each is used
/// once; the newest are worth most.
const TICKETS_MAX: usize = 4;

/// One thread's clients. Its lock is never waited for: only that thread takes it.
#[derive(Debug)]
pub(crate) struct ThreadSessions {
    turn: AtomicUsize,
    clients: Mutex<Vec<KeptSession>>,
}

#[derive(Debug, Default)]
struct KeptSession {
    tls12: Option<Box<Tls12ClientSessionValue>>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl ThreadSessions {
    /// Room for the sessions of `clients` clients, which have no session yet.
    pub(crate) fn new(clients: usize) -> Self {
        let clients = (0..clients).map(|_| KeptSession::default()).collect();
        Self { turn: AtomicUsize::new(0), clients: Mutex::new(clients) }
    }

    /// Makes the library's calls from now on concern this client.
    #[inline]
    pub(crate) fn turn_to(&self, client: usize) {
        self.turn.store(client, Relaxed);
    }

    /// Whether a client has anything to offer.
    pub(crate) fn has_any(&self, client: usize) -> bool {
        let clients = self.lock();
        let kept = clients.get(client);
        kept.is_some_and(|kept| kept.tls12.is_some() || !kept.tls13.is_empty())
    }

    /// Takes everything from a client.
    pub(crate) fn forget(&self, client: usize) {
        if let Some(kept) = self.lock().get_mut(client) {
            *kept = KeptSession::default();
        }
    }

    /// The session of TLS 1.2 of the client whose turn it is.
    pub(crate) fn tls12(&self) -> Option<Tls12ClientSessionValue> {
        self.with(|kept| kept.tls12.as_deref().cloned()).flatten()
    }

    pub(crate) fn keep_tls12(&self, session: Tls12ClientSessionValue) {
        self.with(|kept| kept.tls12 = Some(Box::new(session)));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<KeptSession>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&mut KeptSession) -> T) -> Option<T> {
        self.lock().get_mut(self.turn.load(Relaxed)).map(act)
    }
}

impl ClientSessionStore for ThreadSessions {
    // The key share is the first group of the plan, always: a hint would change it.
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.keep_tls12(session);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.tls12()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.with(|kept| kept.tls12 = None);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.with(|kept| {
            if kept.tls13.len() == TICKETS_MAX {
                kept.tls13.pop_front();
            }
            kept.tls13.push_back(ticket);
        });
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.with(|kept| kept.tls13.pop_back()).flatten()
    }
}
