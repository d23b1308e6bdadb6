//! The combinations of what a configuration of the library is made for, one for each is built; and
//! the part of it that cannot be changed when it is made, shared by all services that have the
//! same.
//!
//! The library fills in a cache for 256 sessions at each configuration that it makes, and a service
//! has twenty of them.

use std::sync::Arc;

use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, ServerConfig, SupportedProtocolVersion};

use crate::kept::Kept;
use crate::options::{Group, Version};
use crate::policy::Policy;
use crate::verify::Verifier;

/// The templates of services that ask clients for no certificate, of all plans of this process.
static KEPT: Kept<ServerConfig> = Kept::new();

/// The template of a variant. All versions are in it, also where the variant's is known: the
/// library marks a TLS 1.2 hello's answer against downgrade (RFC 8446 section 4.1.3) only if it
/// could have spoken 1.3.
pub(super) fn template(
    versions: &[&'static SupportedProtocolVersion],
    policy: &Policy,
    verifier: &Verifier,
    Variant { group, chacha_first, .. }: Variant,
) -> Result<Arc<ServerConfig>, Error> {
    let make = || {
        let provider = Arc::new(policy.provider(group, chacha_first));
        let builder =
            ServerConfig::builder_with_provider(provider).with_protocol_versions(versions)?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier) as _),
            None => builder.with_no_client_auth(),
        };
        let mut template = builder.with_cert_resolver(Arc::new(NoSite));
        template.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(template)
    };
    match verifier {
        Some(_) => make().map(Arc::new),
        None => KEPT.find_or_make(policy.name_of_provider(group, chacha_first), make),
    }
}

/// Stands in a template, and serves nobody.
#[derive(Debug)]
struct NoSite;

impl ResolvesServerCert for NoSite {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

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
    /// Every combination that [`crate::server::Server::select`] can ask for.
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
