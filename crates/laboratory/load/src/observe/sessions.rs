//! The sessions of one client. One of TLS 1.2 is kept when it is offered, so that it can be offered
//! again; the library gives out one of TLS 1.3 but once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls_pki_types::ServerName;

#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Sessions>);

#[derive(Debug, Default)]
struct Sessions {
    tls12: Option<Box<Tls12ClientSessionValue>>,
    tls13: Vec<Tls13ClientSessionValue>,
    /// The one that was offered last.
    offered: Option<Box<Tls12ClientSessionValue>>,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn forget(&self) {
        *self.lock() = Sessions::default();
    }

    pub(super) fn has_any(&self) -> bool {
        let kept = self.lock();
        kept.tls12.is_some() || !kept.tls13.is_empty()
    }

    pub(super) fn offer_again(&self) {
        let mut kept = self.lock();
        let offered = kept.offered.clone();
        if offered.is_some() {
            kept.tls12 = offered;
        }
    }
}

impl ClientSessionStore for Kept {
    // The key share is the first group, always: a hint would change it.
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.lock().tls12 = Some(Box::new(session));
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let mut kept = self.lock();
        let session = kept.tls12.clone();
        kept.offered.clone_from(&session);
        session.map(|session| *session)
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.lock().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.lock().tls13.push(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.lock().tls13.pop()
    }
}
