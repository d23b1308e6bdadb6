//! The server that has a client's TLS session, as far as it is known: the one to dial first.

use backend::server::ServerId;
use flow::facts::Facts;

use crate::service::Service;

/// The knowledge of the session that a client offers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Affinity {
    #[default]
    None,
    /// It offers one, and no server is known to have it.
    Unknown,
    Home(ServerId),
}

impl Affinity {
    pub(crate) fn home(self) -> Option<ServerId> {
        match self {
            Self::Home(server) => Some(server),
            Self::None | Self::Unknown => None,
        }
    }
}

/// Looks up the session that the client offers.
pub(crate) fn affinity_of(service: &Service, facts: &Facts) -> Affinity {
    let session = facts.passing_session.as_ref();
    let offered = session.and_then(|one| one.offered);
    let (Some(sessions), Some(id)) = (&service.plan.passing_sessions, offered) else {
        return Affinity::None;
    };
    match sessions.find(id.as_bytes()) {
        Some(server) => Affinity::Home(ServerId::from_bits(server)),
        None if session.is_some_and(|one| one.may_be_random) => Affinity::None,
        None => Affinity::Unknown,
    }
}
