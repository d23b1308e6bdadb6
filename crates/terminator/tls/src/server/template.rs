//! The part of a configuration of the library that cannot be changed when it is made, shared by all
//! services that have the same.
//!
//! The library fills in a cache for 256 sessions at each configuration that it makes, and a service
//! has twenty of them.

use std::sync::Arc;

use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, ServerConfig, SupportedProtocolVersion};

use super::variant::Variant;
use crate::kept::Kept;
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
