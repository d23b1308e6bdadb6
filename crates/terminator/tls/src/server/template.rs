//! Enumerates the combinations for which configurations of the library are built, and builds the
//! part that cannot be changed later, shared by all services with the same settings.
//!
//! The library allocates a cache for 256 sessions in each configuration that it builds, and a
//! service has twenty of them.

use std::sync::Arc;

use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, ServerConfig, SupportedProtocolVersion};

use crate::kept::FileCache;
use crate::options::{Group, Version};
use crate::policy::Policy;
use crate::verify::Verifier;

/// Templates of services without client certificates, of all plans of this process.
static KEPT: FileCache<ServerConfig> = FileCache::new();

/// Builds the template of a variant. It includes all versions, although the variant has one: the
/// library marks a TLS 1.2 hello's answer against downgrade (RFC 8446 section 4.1.3) only if it
/// could have used 1.3.
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

/// Placeholder in a template that serves no client.
#[derive(Debug)]
struct NoSite;

impl ResolvesServerCert for NoSite {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// Properties of a hello that decide its configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Variant {
    pub(super) version: Version,
    /// The only group offered.
    pub(super) group: Group,
    /// Whether ChaCha20 comes before AES.
    pub(super) chacha_first: bool,
    /// TLS 1.2: whether the client resumes by ticket, else by session id.
    pub(super) by_ticket: bool,
    /// Whether full handshakes fail, because the group is for resumptions alone.
    pub(super) only_resumes: bool,
}

impl Variant {
    /// Returns every combination that [`crate::server::Server::select`] can request.
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

    /// Returns this variant, and the one that only resumes, if it can be requested.
    pub(super) fn with_resuming(self, is_classical: bool) -> impl Iterator<Item = Self> {
        let is_one = is_classical && self.version == Version::Tls13 && !self.group.is_hybrid();
        let resuming = is_one.then_some(Self { only_resumes: true, ..self });
        [self].into_iter().chain(resuming)
    }
}
