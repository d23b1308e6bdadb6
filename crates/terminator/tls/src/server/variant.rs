//! The combinations of what a configuration of the library is made for: one for each is built.

use crate::options::{Group, Version};
use crate::policy::Policy;

/// The properties of a hello that its configuration depends on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Variant {
    pub(super) version: Version,
    /// The only group that is spoken.
    pub(super) group: Group,
    /// Whether ChaCha20 comes before AES.
    pub(super) chacha_first: bool,
    /// TLS 1.2: whether the client resumes by ticket, else by session id.
    pub(super) by_ticket: bool,
    /// Whether a full handshake fails: its group is for resumptions alone.
    pub(super) only_resumes: bool,
}

impl Variant {
    /// Every combination that [`super::Server::select`] can ask for.
    pub(super) fn all(policy: &Policy, resumes: bool) -> impl Iterator<Item = Self> {
        policy.versions().iter().flat_map(move |&version| {
            let ways = if resumes && version == Version::Tls12 { 2 } else { 1 };
            policy.groups(version).flat_map(move |group| {
                [false, true].into_iter().flat_map(move |chacha_first| {
                    [false, true].into_iter().take(ways).map(move |by_ticket| Self {
                        version,
                        group,
                        chacha_first,
                        by_ticket,
                        only_resumes: false,
                    })
                })
            })
        })
    }

    /// Itself, and that which only resumes, if it can be asked for.
    pub(super) fn with_resuming(self, is_classical: bool) -> impl Iterator<Item = Self> {
        let is_one = is_classical && self.version == Version::Tls13 && !self.group.is_hybrid();
        let resuming = is_one.then_some(Self { only_resumes: true, ..self });
        [self].into_iter().chain(resuming)
    }
}
