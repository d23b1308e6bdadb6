//! The certificates of one service, and which of them a client gets when.

use super::fault::{BuildFault, Concern};
use crate::certificate::Certificate;
use crate::fingerprint::Fingerprint;
use crate::names::{Entry, Index};
use crate::options::{BadCertificate, ServerOptions, Suite};
use crate::policy::Policy;
use crate::validity::{Ends, Moment};

#[derive(Debug)]
pub(super) struct Site {
    pub(super) index: Index,
    pub(super) certificates: Vec<Certificate>,
    /// What is wrong with others of its certificates.
    pub(super) skipped: Vec<String>,
    pub(super) suites: Vec<Suite>,
}

impl Site {
    pub(super) fn load(
        options: &ServerOptions,
        policy: &Policy,
        now: i64,
        concerns: &mut Vec<Concern>,
    ) -> Result<Self, BuildFault> {
        let mut certificates = Vec::with_capacity(options.certificates.len());
        let mut skipped = options.skipped.clone();
        for source in &options.certificates {
            let (certificate, found) = match Certificate::load(source) {
                Ok(loaded) => loaded,
                Err(error) if options.bad_certificate == BadCertificate::Skip => {
                    skipped.push(error.to_string());
                    concerns.push(Concern::CertificateSkipped(error));
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            concerns.extend(found.map(|concern| Concern::Certificate {
                place: source.place.clone(),
                concern,
                is_served: true,
            }));
            certificates.push(certificate);
        }
        if certificates.is_empty() {
            return Err(BuildFault::NoCertificate);
        }
        let entries = certificates.iter().map(|one| Entry {
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
        concerns.extend(
            unused.map(|number| {
                Concern::CertificateUnused(site.certificates[number].place.to_string())
            }),
        );
        Ok(site)
    }

    pub(super) fn fingerprints(&self) -> impl Iterator<Item = Fingerprint> {
        self.certificates
            .iter()
            .map(|certificate| certificate.fingerprint)
    }

    /// Certificates that are still served though they are listed as revoked.
    pub(super) fn revoked(&self, fingerprints: &[Fingerprint]) -> impl Iterator<Item = Concern> {
        let revoked = self
            .certificates
            .iter()
            .filter(|certificate| fingerprints.contains(&certificate.fingerprint));
        revoked.map(|certificate| Concern::CertificateRevoked(certificate.place.to_string()))
    }

    /// What an operator should know of the certificates because of the time.
    pub(super) fn concerns(&self, moment: Moment) -> impl Iterator<Item = Concern> {
        let served = self.index.served(moment.now);
        let numbered = self.certificates.iter().zip(served);
        numbered.flat_map(move |(one, is_served)| {
            one.concerns(moment)
                .map(move |concern| Concern::Certificate {
                    place: one.place.to_string(),
                    concern,
                    is_served,
                })
        })
    }

    pub(super) fn certificate_ends(&self, now: i64) -> Ends {
        Ends::of(
            self.certificates.iter().map(|one| one.expiry(one.validity)),
            now,
        )
    }

    /// When the OCSP responses end.
    pub(super) fn staple_ends(&self, now: i64) -> Ends {
        let staples = self.certificates.iter().filter_map(|one| {
            let staple = one.staple.as_ref()?;
            Some(one.expiry(staple.validity))
        });
        Ends::of(staples, now)
    }

    /// The next second after `now` at which what is true of a certificate changes.
    pub(super) fn next_change(&self, now: i64) -> Option<i64> {
        let changes = self.certificates.iter().map(|one| one.next_change(now));
        changes.flatten().min()
    }
}
