//! The sessions with one server, by the name that was asked of it.
//!
//! The library has such a store, of 8 tickets a name: a ninth connection that begins before the
//! first has ended would make a full handshake.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls_pki_types::ServerName;

/// Tickets of TLS 1.3 that are kept of a name: each resumes once (RFC 8446, appendix C.4), so that
/// as many connections may begin before new tickets have come. Some 1 KiB each.
const TICKETS_PER_NAME: usize = 256;

/// Tickets that are kept of all names of one server. Each has [`TICKET_BYTES_MAX`] at most, and may
/// be the only one that holds its server's chain (64 KiB, the longest message of a handshake): some
/// 36 MiB of a server that means ill, and half of one of others.
///
/// [`TICKET_BYTES_MAX`]: crate::traffic::TICKET_BYTES_MAX
const TICKETS_PER_SERVER: usize = 512;

#[derive(Debug)]
pub(super) struct Sessions {
    names_max: usize,
    names: Mutex<HashMap<ServerName<'static>, Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl Sessions {
    /// Of at most this number of names; of more, some are forgotten.
    pub(super) fn new(names_max: usize) -> Self {
        Self {
            names_max,
            names: Mutex::default(),
        }
    }

    /// Changes what is kept of a name.
    fn change(&self, name: ServerName<'static>, change: impl FnOnce(&mut Kept)) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= self.names_max
            && !names.contains_key(&name)
            && let Some(other) = names.keys().next().cloned()
        {
            names.remove(&other);
        }
        change(names.entry(name).or_default());
    }

    /// Looks at what is kept of a name, if there is anything.
    fn look<T>(
        &self,
        name: &ServerName<'_>,
        look: impl FnOnce(&mut Kept) -> Option<T>,
    ) -> Option<T> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        look(names.get_mut(&name.to_owned())?)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.change(name, |kept| kept.group = Some(group));
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.look(name, |kept| kept.group)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.change(name, |kept| kept.tls12 = Some(session));
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.look(name, |kept| kept.tls12.clone())
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.look(name, |kept| kept.tls12.take());
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.change(name, |kept| {
            if kept.tls13.len() == TICKETS_PER_NAME {
                kept.tls13.pop_front();
            }
            kept.tls13.push_back(ticket);
        });
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.values().map(|kept| kept.tls13.len()).sum::<usize>() > TICKETS_PER_SERVER {
            let most = names.values_mut().max_by_key(|kept| kept.tls13.len());
            most.and_then(|kept| kept.tls13.pop_front());
        }
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        // The newest is valid for the longest.
        self.look(name, |kept| kept.tls13.pop_back())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> ServerName<'static> {
        ServerName::try_from(format!("n{number}.example")).expect("a name")
    }

    #[test]
    fn clients_cannot_fill_it_with_names() {
        let sessions = Sessions::new(3);
        for number in 0..100 {
            sessions.set_kx_hint(name(number), NamedGroup::X25519);
        }
        let kept = (0..100).filter(|number| sessions.kx_hint(&name(*number)).is_some());
        assert_eq!(kept.count(), 3);
        assert!(sessions.kx_hint(&name(99)).is_some(), "the last is there");
    }
}
