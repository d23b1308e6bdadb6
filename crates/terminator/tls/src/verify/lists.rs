//! Certificate revocation lists (CRL, RFC 5280 section 5): loaded once, judged when they are used.
//!
//! Owns which list counts and when it is out of date. What a client's chain must pass is decided
//! in [`super`].

use rustls_pki_types::{CertificateRevocationListDer, UnixTime};
use webpki::{CertRevocationList, OwnedCertRevocationList};
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use super::fault::{FileFault, TrustConcern, VerifyConcern};
use crate::options::{ExpiredLists, PemSource};
use crate::validity::{Ends, Expiry, Moment, Span, Standing, Validity, seconds};

/// The lists of a service: of each issuer and distribution point the newest.
#[derive(Debug)]
pub(crate) struct RevocationLists {
    lists: Vec<RevocationList>,
    pub(super) expired: ExpiredLists,
}

#[derive(Debug)]
pub(super) struct RevocationList {
    list: CertRevocationList<'static>,
    /// From thisUpdate until the last second before nextUpdate.
    validity: Validity,
    issuer: Box<str>,
    place: Box<str>,
}

impl RevocationLists {
    pub(super) fn new(mut lists: Vec<RevocationList>, expired: ExpiredLists) -> Self {
        // The library asks the first that fits, which must not be one that a newer has replaced.
        lists.sort_by_key(|list| std::cmp::Reverse(list.validity.from));
        let mut newest: Vec<RevocationList> = Vec::with_capacity(lists.len());
        for list in lists {
            if !newest.iter().any(|one| one.has_scope_of(&list)) {
                newest.push(list);
            }
        }
        Self {
            lists: newest,
            expired,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    pub(super) fn all(&self) -> Vec<&CertRevocationList<'static>> {
        self.lists.iter().map(|one| &one.list).collect()
    }

    /// Whether a list says of every certificate of this issuer (DER) whether it is revoked.
    pub(super) fn covers_all_of(&self, issuer: &[u8]) -> bool {
        self.of(issuer)
            .any(|list| list.list.issuing_distribution_point().is_none())
    }

    /// The file of the list on which this certificate stands.
    pub(super) fn place_of(&self, certificate: &webpki::Cert<'_>) -> Option<&str> {
        let is_on = |list: &&RevocationList| {
            let found = list.list.find_serial(certificate.serial());
            found.is_ok_and(|entry| entry.is_some())
        };
        let list = self.of(certificate.issuer()).find(is_on)?;
        Some(&list.place)
    }

    /// The file of a list of this issuer (DER) that is past its nextUpdate.
    pub(super) fn expired_of(&self, issuer: &[u8], now: UnixTime) -> Option<&str> {
        let is_over = |list: &&RevocationList| list.validity.until < seconds(now);
        let list = self.of(issuer).find(is_over)?;
        Some(&list.place)
    }

    /// When they end: their nextUpdates.
    pub(crate) fn ends(&self, now: i64) -> Ends {
        let all = self.lists.iter().map(|list| Expiry {
            file: list.place.clone(),
            name: list.issuer.clone(),
            key: "".into(),
            time: list.validity.until,
        });
        let mut ends = Ends::of(all, now);
        for one in &mut ends.listed {
            one.time = one.time.saturating_add(1);
        }
        ends
    }

    pub(crate) fn concerns(&self, moment: Moment) -> impl Iterator<Item = VerifyConcern> {
        self.lists.iter().filter_map(move |list| {
            let concern = match list.validity.news(moment) {
                Standing::Over(_) if self.expired == ExpiredLists::Refuse => TrustConcern::Refuses,
                Standing::Over(_) => TrustConcern::StillCounts,
                Standing::EndsSoon(seconds) => TrustConcern::EndsSoon(Span(seconds)),
                Standing::NotYet(_) | Standing::Good => return None,
            };
            Some(VerifyConcern {
                place: list.place.to_string(),
                name: list.issuer.to_string(),
                concern,
            })
        })
    }

    pub(crate) fn next_change(&self, now: i64) -> Option<i64> {
        let changes = self.lists.iter().map(|list| list.validity.next_change(now));
        changes.flatten().min()
    }

    fn of(&self, issuer: &[u8]) -> impl Iterator<Item = &RevocationList> {
        self.lists
            .iter()
            .filter(move |list| list.list.issuer() == issuer)
    }
}

impl RevocationList {
    pub(super) fn read(
        source: &PemSource,
        number: usize,
        der: &CertificateRevocationListDer<'_>,
    ) -> Result<Self, FileFault> {
        let (_, read) = CertificateRevocationList::from_der(der)
            .map_err(|_| FileFault::ListMalformed(number))?;
        let unsupported = |what: String| FileFault::ListUnsupported(number, what);
        if read.version().is_none() {
            return Err(unsupported("it is an X.509 CRL of version 1".to_owned()));
        }
        // RFC 5280 section 5.1.2.5 asks every issuer for it.
        let next_update = read
            .next_update()
            .ok_or_else(|| unsupported("it has no nextUpdate".to_owned()))?;
        let list = OwnedCertRevocationList::from_der(der)
            .map_err(|error| unsupported(error.to_string()))?;
        Ok(Self {
            list: list.into(),
            validity: Validity {
                from: read.last_update().timestamp(),
                until: next_update.timestamp().saturating_sub(1),
            },
            issuer: read.issuer().to_string().into(),
            place: source.place.as_str().into(),
        })
    }

    fn has_scope_of(&self, other: &Self) -> bool {
        let scope = |one: &CertRevocationList<'_>| {
            (
                one.issuer().to_vec(),
                one.issuing_distribution_point().map(<[u8]>::to_vec),
            )
        };
        scope(&self.list) == scope(&other.list)
    }
}
