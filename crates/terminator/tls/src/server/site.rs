//! Holds the certificates of one service, chooses a client's, and answers the library by the same
//! rules.

use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{Error, PeerIncompatible, SignatureAlgorithm, SignatureScheme};

use super::fault::{BuildFault, WarningSubject};
use crate::certificate::Certificate;
use crate::context;
use crate::identity::Fingerprint;
use crate::names::{Index, NameEntry, NoCertificate, VerifiableKeyKinds};
use crate::options::{BadCertificate, ServerOptions, Suite, Version};
use crate::policy::Policy;
use crate::self_signed;
use crate::validity::{Clock, ExpirySummary, Moment, seconds};

#[derive(Debug)]
pub(super) struct Site {
    pub(super) index: Index,
    pub(super) certificates: Vec<Arc<Certificate>>,
    /// Faults of the service's other certificates.
    pub(super) skipped: Vec<String>,
    pub(super) suites: Vec<Suite>,
}

impl Site {
    pub(super) fn load(
        options: &ServerOptions,
        policy: &Policy,
        now: i64,
        concerns: &mut Vec<WarningSubject>,
    ) -> Result<Self, BuildFault> {
        let mut certificates = Vec::with_capacity(options.certificates.len());
        let mut skipped = options.skipped.clone();
        for source in &options.certificates {
            let (certificate, found) = match Certificate::shared(source) {
                Ok(loaded) => loaded,
                Err(error) if options.bad_certificate == BadCertificate::Skip => {
                    skipped.push(error.to_string());
                    concerns.push(WarningSubject::CertificateSkipped(error));
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            concerns.extend(found.map(|concern| WarningSubject::Certificate {
                place: source.place.clone(),
                concern,
                is_served: true,
            }));
            certificates.push(certificate);
        }
        if let (true, Some(one)) = (certificates.is_empty(), &options.placeholder) {
            let made = self_signed::placeholder(&one.names);
            let made = made.map_err(|error| BuildFault::Placeholder(error.to_string()))?;
            certificates.push(Certificate::shared(&made)?.0);
            skipped.push(format!("{}: a self-signed one is served", one.why));
            concerns.push(WarningSubject::Placeholder(one.why.clone()));
        }
        if certificates.is_empty() {
            return Err(BuildFault::NoCertificate);
        }
        let entries = certificates.iter().map(|one| NameEntry {
            names: &one.names,
            kind: one.kind,
            validity: one.validity,
        });
        let site = Self {
            index: Index::build(entries, options.unknown_name),
            certificates,
            skipped,
            suites: policy.suites().to_vec(),
        };
        concerns.extend(site.concerns(Moment { since: None, now }));
        let unused = site.index.unused(now).into_iter();
        concerns.extend(unused.map(|number| {
            WarningSubject::CertificateUnused(site.certificates[number].place.to_string())
        }));
        Ok(site)
    }

    pub(super) fn fingerprints(&self) -> impl Iterator<Item = Fingerprint> {
        self.certificates.iter().map(|certificate| certificate.fingerprint)
    }

    /// Returns concerns about certificates that are still served though listed as revoked.
    pub(super) fn revoked(
        &self,
        fingerprints: &[Fingerprint],
    ) -> impl Iterator<Item = WarningSubject> {
        let revoked = self
            .certificates
            .iter()
            .filter(|certificate| fingerprints.contains(&certificate.fingerprint));
        revoked.map(|certificate| WarningSubject::CertificateRevoked(certificate.place.to_string()))
    }

    /// Returns the concerns about the certificates that arise over time.
    pub(super) fn concerns(&self, moment: Moment) -> impl Iterator<Item = WarningSubject> {
        let served = self.index.served(moment.now);
        let numbered = self.certificates.iter().zip(served);
        numbered.flat_map(move |(one, is_served)| {
            one.concerns(moment).map(move |concern| WarningSubject::Certificate {
                place: one.place.to_string(),
                concern,
                is_served,
            })
        })
    }

    pub(super) fn certificate_ends(&self, now: i64) -> ExpirySummary {
        ExpirySummary::of(self.certificates.iter().map(|one| one.expiry(one.validity)), now)
    }

    /// Returns when the OCSP responses end.
    pub(super) fn staple_ends(&self, now: i64) -> ExpirySummary {
        let staples = self.certificates.iter().filter_map(|one| {
            let staple = one.staple.as_ref()?;
            Some(one.expiry(staple.validity))
        });
        ExpirySummary::of(staples, now)
    }

    /// Returns the next second after `now` at which the concerns may change.
    pub(super) fn next_change(&self, now: i64) -> Option<i64> {
        let changes = self.certificates.iter().map(|one| one.next_change(now));
        changes.flatten().min()
    }
}

/// Answers the library with the same rules as [`super::Server::select`].
#[derive(Debug)]
pub(super) struct Resolver {
    pub(super) site: Arc<Site>,
    pub(super) clock: Clock,
    pub(super) version: Version,
    /// Whether full handshakes are refused.
    pub(super) only_resumes: bool,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let site = &self.site;
        let schemes = hello.signature_schemes().iter().copied().map(u16::from);
        let suites = hello.cipher_suites().iter().copied().map(u16::from);
        let groups = hello.named_groups().unwrap_or_default();
        let groups = groups.iter().copied().map(u16::from);
        let signing = VerifiableKeyKinds::of(
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
                context::with(|context| {
                    context.shown = certificate.fingerprint;
                    context.forms = Some(Arc::clone(&certificate.forms));
                });
                let key = certificate.key_at(now);
                Some(if self.only_resumes {
                    NotSigning::in_place_of(&*key.key)
                } else {
                    Arc::clone(key)
                })
            }
            Err(NoCertificate::KindUnusable) if self.version == Version::Tls12 => {
                let resuming = VerifiableKeyKinds::without_signature(suites, groups, &site.suites);
                let number = site.index.choose(name, resuming, now).ok()?;
                let key = &site.certificates.get(number)?.key.key;
                Some(NotSigning::in_place_of(&**key))
            }
            Err(_) => None,
        }
    }
}

/// Replaces a key whose signatures the client does not verify, or that must not sign. A session of
/// TLS 1.2 resumes without a signature (RFC 5246 section 7.4.1.4.1); the library asks for a key
/// before it looks for the session, and without a session the handshake fails here.
#[derive(Debug)]
struct NotSigning(SignatureAlgorithm);

impl NotSigning {
    fn in_place_of(key: &dyn SigningKey) -> Arc<CertifiedKey> {
        Arc::new(CertifiedKey::new(Vec::new(), Arc::new(Self(key.algorithm()))))
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
