//! The certificates in `ca`, and what each is trusted for; and the revocation lists (CRL, RFC 5280
//! section 5), loaded once and judged when they are used.
//!
//! One that may sign certificates is an authority: those that it issued are trusted, as far as its
//! own validity and path length reach (RFC 5280 section 6.1; section 6.2 leaves both to us). Every
//! one, an authority or not, is trusted as the peer's own certificate too: it lets its holder in.
//! One whose extended key usage is for something else is trusted for nothing. The key usage of the
//! peer's own certificate is judged before, wherever it stands.

use std::collections::{BTreeSet, HashMap};

use rustls::DistinguishedName;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, TrustAnchor, UnixTime};
use webpki::{Cert, CertRevocationList, Error, OwnedCertRevocationList, VerifiedPath};
use wire::certificate_chain::CertificateNames;
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate, X509Version};

use super::constraints::{self, NameConstraints};
use super::fault::{
    FileFault, TrustConcern, VerifyConcern, VerifyFault, fault_in, read_certificates,
};
use super::list_signatures::SignedPart;
use crate::options::{ExpiredLists, PemSource};
use crate::subject::sha256;
use crate::validity::{Ends, Expiry, Moment, Span, Standing, Validity, seconds};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PeerRole {
    Client,
    Server,
}

/// The certificates in the files of `ca`.
#[derive(Debug, Default)]
pub(super) struct Authorities {
    entries: Vec<AuthorityEntry>,
    /// The authorities that may issue certificates, for the library.
    anchors: Vec<TrustAnchor<'static>>,
    entry_of_anchor: Vec<usize>,
    /// By the SHA-256 of the certificate.
    by_hash: HashMap<[u8; 32], usize>,
    /// Nobody here decides on this host's own bundle: its certificates are not reported.
    are_of_host: bool,
}

#[derive(Debug)]
struct AuthorityEntry {
    place: Box<str>,
    line: usize,
    subject: Box<str>,
    /// The same and its issuer's, encoded, without their tags.
    subject_der: Box<[u8]>,
    issuer_der: Box<[u8]>,
    validity: Validity,
    /// Certificates that may stand between it and the peer's own.
    path_length: Option<u32>,
    is_authority: bool,
    /// It has a critical extension that is not judged here, and is no authority for that (RFC 5280
    /// section 4.2).
    is_unknown: bool,
    constraints: NameConstraints,
    /// The extended key usage, if it has any, is for such peers.
    is_for_peer: bool,
}

impl Authorities {
    /// Reads those of an operator's files; or of this host's own bundles (`are_of_host`), in which
    /// there may be some that cannot be used.
    pub(super) fn read(
        sources: &[PemSource],
        are_of_host: bool,
        peer: PeerRole,
    ) -> Result<Self, VerifyFault> {
        let mut all = Self { are_of_host, ..Self::default() };
        for source in sources {
            for (number, (line, certificate)) in (1..).zip(&read_certificates(source)?) {
                let is_read = all.add((&*source.place, *line), certificate, peer).is_some();
                if !is_read && !are_of_host {
                    return Err(fault_in(source, FileFault::AuthorityMalformed(number)));
                }
            }
        }
        match all.entries.is_empty() {
            false => Ok(all),
            true if are_of_host => Err(VerifyFault::NoHostAuthority),
            true => Err(VerifyFault::NoAuthority),
        }
    }

    /// `None` = it cannot be read.
    fn add(
        &mut self,
        (place, line): (&str, usize),
        der: &CertificateDer<'_>,
        peer: PeerRole,
    ) -> Option<()> {
        let anchor = webpki::anchor_from_trusted_cert(der).ok()?.to_owned();
        let (_, read) = X509Certificate::from_der(der).ok()?;
        let names = CertificateNames::of(der)?;
        let (may_sign, path_length) = authority_of(&read)?;
        let is_unknown = has_unknown_extension(&read);
        let entry = AuthorityEntry {
            place: place.into(),
            line,
            subject: read.subject().to_string().into(),
            subject_der: names.subject.into(),
            issuer_der: names.issuer.into(),
            validity: Validity {
                from: read.validity().not_before.timestamp(),
                until: read.validity().not_after.timestamp(),
            },
            path_length,
            is_authority: may_sign && !is_unknown,
            is_unknown,
            constraints: NameConstraints::of(&read),
            is_for_peer: is_for(&read, peer)?,
        };
        let number = self.entries.len();
        if entry.is_authority && entry.is_for_peer {
            self.anchors.push(anchor);
            self.entry_of_anchor.push(number);
        }
        self.by_hash.insert(sha256(der), number);
        self.entries.push(entry);
        Some(())
    }

    pub(super) fn anchors(&self) -> &[TrustAnchor<'static>] {
        &self.anchors
    }

    /// The issuers that clients are told of (RFC 8446 section 4.2.4).
    pub(super) fn hints(&self) -> Vec<DistinguishedName> {
        let trusted = self.entries.iter().filter(|entry| entry.is_for_peer);
        let names = trusted
            .map(|entry| if entry.is_authority { &entry.subject_der } else { &entry.issuer_der });
        let names: BTreeSet<_> = names.collect();
        let encoded = names.into_iter().map(|name| DistinguishedName::in_sequence(name));
        encoded.collect()
    }

    /// Whether the peer's own certificate stands here, and if so, whether it is good now; `None` =
    /// it does not.
    pub(super) fn own(
        &self,
        leaf: &CertificateDer<'_>,
        now: UnixTime,
    ) -> Option<Result<(), Error>> {
        let entry = self.entries.get(*self.by_hash.get(&sha256(leaf))?)?;
        // Any path that it may have by its extended key usage the library refuses as well.
        entry.is_for_peer.then(|| entry.holds(now))
    }

    /// Whether the authority of a path is good now, and lets it have that length and such names.
    pub(super) fn permit(
        &self,
        path: &VerifiedPath<'_>,
        now: UnixTime,
        peer: PeerRole,
    ) -> Result<(), Error> {
        let entry = self.entry_of(path.anchor());
        let entry = entry.ok_or(Error::UnknownIssuer)?;
        entry.holds(now)?;
        // The library leaves the key usage out (RFC 5280 section 6.1.4 (n)).
        let may_sign = |one: &Cert<'_>| {
            let der = one.der();
            let read = X509Certificate::from_der(&der).ok();
            read.and_then(|(_, read)| authority_of(&read)).is_some_and(|(may_sign, _)| may_sign)
        };
        if !path.intermediate_certificates().all(may_sign) {
            return Err(Error::EndEntityUsedAsCa);
        }
        // Those that a CA has issued to itself do not count (RFC 5280 section 4.2.1.9).
        let between = path.intermediate_certificates();
        let between = between.filter(|one| one.issuer() != one.subject()).count();
        let is_too_long = |most| between > most as usize;
        if entry.path_length.is_some_and(is_too_long) {
            return Err(Error::PathLenConstraintViolated);
        }
        match peer {
            PeerRole::Client => entry.permit_common_names(path),
            // Nobody takes a server's common name for its name (RFC 9525 section 2).
            PeerRole::Server => Ok(()),
        }
    }

    fn entry_of(&self, anchor: &TrustAnchor<'_>) -> Option<&AuthorityEntry> {
        let is_it = |one: &TrustAnchor<'_>| std::ptr::eq(one, anchor);
        let number = self.anchors.iter().position(is_it)?;
        self.entries.get(*self.entry_of_anchor.get(number)?)
    }

    /// The reason why what this issuer (DER, without its tag) has signed is not trusted, though a
    /// certificate of that name stands here.
    pub(super) fn distrust_of(&self, issuer: &[u8], now: UnixTime) -> Option<String> {
        let entry = self.entries.iter().find(|one| *one.subject_der == *issuer)?;
        let why = match entry.validity.at(seconds(now)) {
            Standing::Over(_) => "has expired",
            Standing::NotYet(_) => "is not valid yet",
            _ if !entry.is_for_peer => "has an extended key usage for something else",
            _ if entry.is_unknown => "has a critical extension that is not known here",
            _ if !entry.is_authority => {
                "may not sign certificates (no CA:TRUE, or a key usage without keyCertSign)"
            }
            Standing::Good | Standing::EndsSoon(_) => return None,
        };
        Some(format!("its issuer, in {}, {why}", entry.shown_place()))
    }

    /// The place of the authority of this name (DER, without its tag) that has name constraints on
    /// directory names.
    pub(super) fn confined_by_directory(&self, issuer: &[u8]) -> Option<String> {
        let mut entries = self.entries.iter();
        let is_it = |one: &&AuthorityEntry| *one.subject_der == *issuer && one.refuses_all_below();
        entries.find(is_it).map(AuthorityEntry::shown_place)
    }

    /// When they end: their notAfter.
    pub(super) fn ends(&self, now: i64) -> Ends {
        let all = self.reported().map(|entry| Expiry {
            file: entry.place.clone(),
            name: entry.subject.clone(),
            key: "".into(),
            time: entry.validity.until,
        });
        Ends::of(all, now)
    }

    pub(super) fn concerns(&self, moment: Moment) -> impl Iterator<Item = VerifyConcern> {
        self.reported().filter_map(move |entry| {
            let concern = match entry.validity.news(moment) {
                _ if !entry.is_for_peer && moment.since.is_some() => return None,
                _ if !entry.is_for_peer => TrustConcern::AuthorityOtherUse,
                _ if entry.is_unknown && moment.since.is_some() => return None,
                _ if entry.is_unknown => TrustConcern::AuthorityUnknown,
                Standing::Over(seconds) => TrustConcern::AuthorityOver(Span(seconds)),
                Standing::EndsSoon(seconds) => TrustConcern::AuthorityEndsSoon(Span(seconds)),
                Standing::NotYet(seconds) => TrustConcern::AuthorityNotYet(Span(seconds)),
                Standing::Good if moment.since.is_none() && entry.refuses_all_below() => {
                    TrustConcern::AuthorityDirectoryNames
                }
                Standing::Good => return None,
            };
            Some(VerifyConcern {
                place: entry.shown_place(),
                name: entry.subject.to_string(),
                concern,
            })
        })
    }

    pub(super) fn next_change(&self, now: i64) -> Option<i64> {
        let changes = self.reported().map(|entry| entry.validity.next_change(now));
        changes.flatten().min()
    }

    fn reported(&self) -> impl Iterator<Item = &AuthorityEntry> {
        self.entries.iter().filter(|_| !self.are_of_host)
    }
}

impl AuthorityEntry {
    /// The library judges no directory names (its `check_presented_id_conforms_to_constraints`), as
    /// RFC 5280 section 4.2.1.10 allows.
    fn refuses_all_below(&self) -> bool {
        self.is_authority && self.constraints.are_on_directory_names
    }

    /// Whether this anchor of a path and the authorities below it may certify the common names.
    fn permit_common_names(&self, path: &VerifiedPath<'_>) -> Result<(), Error> {
        let mut below = Vec::new();
        for one in path.intermediate_certificates() {
            let der = one.der();
            let (_, read) = X509Certificate::from_der(&der).map_err(|_| Error::BadDer)?;
            below.push(NameConstraints::of(&read));
        }
        let leaf = path.end_entity().der();
        let (_, leaf) = X509Certificate::from_der(&leaf).map_err(|_| Error::BadDer)?;
        let all: Vec<_> = below.iter().chain([&self.constraints]).collect();
        constraints::hold(&leaf, &all)
    }

    fn holds(&self, now: UnixTime) -> Result<(), Error> {
        let at = |seconds: i64| {
            let seconds = std::time::Duration::from_secs(seconds.try_into().unwrap_or(0));
            UnixTime::since_unix_epoch(seconds)
        };
        match self.validity.at(seconds(now)) {
            Standing::Over(_) => {
                Err(Error::CertExpired { time: now, not_after: at(self.validity.until) })
            }
            Standing::NotYet(_) => {
                Err(Error::CertNotValidYet { time: now, not_before: at(self.validity.from) })
            }
            Standing::Good | Standing::EndsSoon(_) => Ok(()),
        }
    }

    fn shown_place(&self) -> String {
        format!("{}:{}", self.place, self.line)
    }
}

/// Whether it may sign certificates, and its path length; `None` = its extensions cannot be read.
///
/// Before version 3 a certificate could not say so: one that has signed itself may (RFC 5280
/// section 6.1.4 (k) leaves that to those who put it here).
fn authority_of(read: &X509Certificate<'_>) -> Option<(bool, Option<u32>)> {
    if read.version() != X509Version::V3 {
        return Some((read.subject().as_raw() == read.issuer().as_raw(), None));
    }
    let basic = read.basic_constraints().ok()?.map(|one| one.value);
    let usage = read.key_usage().ok()?.map(|one| one.value);
    let may_sign = usage.is_none_or(|usage| usage.key_cert_sign());
    let is_ca = basic.is_some_and(|basic| basic.ca);
    let path_length = basic.and_then(|basic| basic.path_len_constraint);
    Some((is_ca && may_sign, path_length))
}

/// Whether a critical extension is none of those that are judged. Policies (RFC 5280 section
/// 4.2.1.4) are known and not asked for.
fn has_unknown_extension(read: &X509Certificate<'_>) -> bool {
    use x509_parser::oid_registry as oid;
    let known = [
        oid::OID_X509_EXT_BASIC_CONSTRAINTS,
        oid::OID_X509_EXT_KEY_USAGE,
        oid::OID_X509_EXT_EXTENDED_KEY_USAGE,
        oid::OID_X509_EXT_NAME_CONSTRAINTS,
        oid::OID_X509_EXT_SUBJECT_ALT_NAME,
        oid::OID_X509_EXT_CERTIFICATE_POLICIES,
        oid::OID_X509_EXT_POLICY_MAPPINGS,
        oid::OID_X509_EXT_POLICY_CONSTRAINTS,
        oid::OID_X509_EXT_INHIBIT_ANY_POLICY,
    ];
    read.extensions().iter().any(|one| one.critical && !known.contains(&one.oid))
}

/// Whether its extended key usage allows such peers; `None` = it cannot be read.
fn is_for(read: &X509Certificate<'_>, peer: PeerRole) -> Option<bool> {
    let usage = read.extended_key_usage().ok()?.map(|one| one.value);
    Some(usage.is_none_or(|usage| {
        usage.any
            || match peer {
                PeerRole::Client => usage.client_auth,
                PeerRole::Server => usage.server_auth,
            }
    }))
}

/// The lists of a service: of each issuer and distribution point the newest.
#[derive(Debug)]
pub(crate) struct RevocationLists {
    lists: Vec<RevocationList>,
    pub(super) expired: ExpiredLists,
}

#[derive(Debug)]
pub(super) struct RevocationList {
    list: CertRevocationList<'static>,
    /// Until its signatures are remembered by it.
    signed: Option<SignedPart>,
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
        Self { lists: newest, expired }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// The signed part of each.
    pub(super) fn signed(&mut self) -> impl Iterator<Item = SignedPart> {
        self.lists.iter_mut().filter_map(|one| one.signed.take())
    }

    pub(super) fn all(&self) -> Vec<&CertRevocationList<'static>> {
        self.lists.iter().map(|one| &one.list).collect()
    }

    /// Whether a list says of every certificate of this issuer (DER) whether it is revoked.
    pub(super) fn covers_all_of(&self, issuer: &[u8]) -> bool {
        self.of(issuer).any(|list| list.list.issuing_distribution_point().is_none())
    }

    /// The file of the list on which this certificate stands.
    pub(super) fn place_of(&self, certificate: &Cert<'_>) -> Option<&str> {
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
        self.lists.iter().filter(move |list| list.list.issuer() == issuer)
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
        let next_update =
            read.next_update().ok_or_else(|| unsupported("it has no nextUpdate".to_owned()))?;
        let list = OwnedCertRevocationList::from_der(der)
            .map_err(|error| unsupported(error.to_string()))?;
        Ok(Self {
            list: list.into(),
            signed: Some(SignedPart::of(read.tbs_cert_list.as_ref())),
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
            (one.issuer().to_vec(), one.issuing_distribution_point().map(<[u8]>::to_vec))
        };
        scope(&self.list) == scope(&other.list)
    }
}
