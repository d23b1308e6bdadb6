//! The certificate that the library asks for, by the same rules as the choice before it.

use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{Error, PeerIncompatible, SignatureAlgorithm, SignatureScheme};

use super::site::Site;
use crate::context;
use crate::names::{NoCertificate, Usable};
use crate::options::Version;
use crate::validity::{Clock, seconds};

/// Answers the library with the same rules as [`super::Server::select`].
#[derive(Debug)]
pub(super) struct Resolver {
    pub(super) site: Arc<Site>,
    pub(super) clock: Clock,
    pub(super) version: Version,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let site = &self.site;
        let schemes = hello.signature_schemes().iter().copied().map(u16::from);
        let suites = hello.cipher_suites().iter().copied().map(u16::from);
        let groups = hello.named_groups().unwrap_or_default();
        let groups = groups.iter().copied().map(u16::from);
        let signing = Usable::of(
            self.version,
            schemes,
            suites.clone(),
            groups.clone(),
            &site.suites,
        );
        let now = seconds(self.clock.now());
        let hidden = context::with(|context| context.hidden.clone());
        let hidden = hidden.as_ref().and_then(|hidden| hidden.name.as_deref());
        let name = hello.server_name().or(hidden);
        match site.index.choose(name, signing, now) {
            Ok(number) => {
                let certificate = site.certificates.get(number)?;
                context::with(|context| context.shown = certificate.fingerprint);
                Some(Arc::clone(certificate.key_at(now)))
            }
            Err(NoCertificate::KindUnusable) if self.version == Version::Tls12 => {
                let resuming = Usable::without_signature(suites, groups, &site.suites);
                let number = site.index.choose(name, resuming, now).ok()?;
                let key = &site.certificates.get(number)?.key.key;
                Some(NotSigning::in_place_of(&**key))
            }
            Err(_) => None,
        }
    }
}

/// Stands for a key whose signatures the client does not verify. A session of TLS 1.2 resumes
/// without one (RFC 5246 section 7.4.1.4.1); the library asks for a key before it looks for the
/// session, and if there is none learns here that the handshake cannot go on.
#[derive(Debug)]
struct NotSigning(SignatureAlgorithm);

impl NotSigning {
    fn in_place_of(key: &dyn SigningKey) -> Arc<CertifiedKey> {
        Arc::new(CertifiedKey::new(
            Vec::new(),
            Arc::new(Self(key.algorithm())),
        ))
    }
}

impl SigningKey for NotSigning {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = *offered.first()?;
        Some(Box::new(NoSigner(scheme)))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0
    }
}

#[derive(Debug)]
struct NoSigner(SignatureScheme);

impl Signer for NoSigner {
    fn sign(&self, _message: &[u8]) -> Result<Vec<u8>, Error> {
        Err(PeerIncompatible::NoSignatureSchemesInCommon.into())
    }

    fn scheme(&self) -> SignatureScheme {
        self.0
    }
}
