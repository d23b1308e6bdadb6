//! Holds the certificates in `ca`, and decides what each is trusted for.
//!
//! A certificate that may sign certificates is an authority: those that it issued are trusted, as
//! far as its own validity and path length reach (RFC 5280 section 6.1; section 6.2 leaves both to
//! us). Each certificate, authority or not, is also trusted as the peer's own certificate. A
//! certificate whose extended key usage is for something else is not trusted. The key usage of the
//! peer's own certificate is checked before, wherever it is listed.
//!
//! Name constraints (RFC 5280 section 4.2.1.10) are checked here as far as the library omits them:
//! it checks alternative names, but no common name. A common name that looks like a host's is
//! checked against constraints on host names, as OpenSSL does, also beside alternative names,
//! because `allow`, logs and PROXY headers use it as the client's name.

use std::collections::{BTreeSet, HashMap};

use rustls::DistinguishedName;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{Cert, Error, VerifiedPath};
use wire::certificate_chain::CertificateNames;
use x509_parser::extensions::GeneralSubtree;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Version};

use super::fault::{
    FileFault, TrustConcern, VerifyConcern, VerifyFault, fault_in, read_certificates,
};
use crate::identity::sha256;
use crate::options::PemSource;
use crate::validity::{Expiry, ExpirySummary, Moment, Span, Validity, ValidityState, seconds};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PeerRole {
    Client,
    Server,
}

/// Certificates in the files of `ca`.
#[derive(Debug, Default)]
pub(super) struct Authorities {
    entries: Vec<AuthorityEntry>,
    /// Authorities that may issue certificates, for the library.
    anchors: Vec<TrustAnchor<'static>>,
    entry_of_anchor: Vec<usize>,
    /// Entries by the SHA-256 of the certificate.
    by_hash: HashMap<[u8; 32], usize>,
    /// Whether this is the host's bundle, whose certificates are not reported.
    are_of_host: bool,
}

#[derive(Debug)]
struct AuthorityEntry {
    place: Box<str>,
    line: usize,
    subject: Box<str>,
    /// Subject and issuer, encoded, without their tags.
    subject_der: Box<[u8]>,
    issuer_der: Box<[u8]>,
    validity: Validity,
    /// Maximum number of certificates between this one and the peer's own.
    path_length: Option<u32>,
    is_authority: bool,
    /// Whether a critical extension is unsupported, so that the certificate is no authority (RFC
    /// 5280 section 4.2).
    is_unknown: bool,
    constraints: NameConstraints,
    /// Whether the extended key usage, if any, allows such peers.
    is_for_peer: bool,
}

impl Authorities {
    /// Reads the certificates of an operator's files, or of this host's own bundles
    /// (`are_of_host`), in which unusable ones are skipped.
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

    /// Adds a certificate; `None` = it cannot be read.
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

    /// Returns the issuers whose names are sent to clients (RFC 8446 section 4.2.4).
    pub(super) fn hints(&self) -> Vec<DistinguishedName> {
        let trusted = self.entries.iter().filter(|entry| entry.is_for_peer);
        let names = trusted
            .map(|entry| if entry.is_authority { &entry.subject_der } else { &entry.issuer_der });
        let names: BTreeSet<_> = names.collect();
        let encoded = names.into_iter().map(|name| DistinguishedName::in_sequence(name));
        encoded.collect()
    }

    /// Reports whether the peer's own certificate is valid now, if it is listed here; `None` = it
    /// is not listed.
    pub(super) fn own(
        &self,
        leaf: &CertificateDer<'_>,
        now: UnixTime,
    ) -> Option<Result<(), Error>> {
        let entry = self.entries.get(*self.by_hash.get(&sha256(leaf))?)?;
        // The library also refuses any other path that its extended key usage forbids.
        entry.is_for_peer.then(|| entry.holds(now))
    }

    /// Checks that the authority of a path is valid now, and permits its length and names.
    pub(super) fn permit(
        &self,
        path: &VerifiedPath<'_>,
        now: UnixTime,
        peer: PeerRole,
    ) -> Result<(), Error> {
        let entry = self.entry_of(path.anchor());
        let entry = entry.ok_or(Error::UnknownIssuer)?;
        entry.holds(now)?;
        // The library does not check the key usage (RFC 5280 section 6.1.4 (n)).
        let may_sign = |one: &Cert<'_>| {
            let der = one.der();
            let read = X509Certificate::from_der(&der).ok();
            read.and_then(|(_, read)| authority_of(&read)).is_some_and(|(may_sign, _)| may_sign)
        };
        if !path.intermediate_certificates().all(may_sign) {
            return Err(Error::EndEntityUsedAsCa);
        }
        // Self-issued certificates of a CA do not count (RFC 5280 section 4.2.1.9).
        let between = path.intermediate_certificates();
        let between = between.filter(|one| one.issuer() != one.subject()).count();
        let is_too_long = |most| between > most as usize;
        if entry.path_length.is_some_and(is_too_long) {
            return Err(Error::PathLenConstraintViolated);
        }
        match peer {
            PeerRole::Client => entry.permit_common_names(path),
            // A server's common name is not used as its name (RFC 9525 section 2).
            PeerRole::Server => Ok(()),
        }
    }

    fn entry_of(&self, anchor: &TrustAnchor<'_>) -> Option<&AuthorityEntry> {
        let is_it = |one: &TrustAnchor<'_>| std::ptr::eq(one, anchor);
        let number = self.anchors.iter().position(is_it)?;
        self.entries.get(*self.entry_of_anchor.get(number)?)
    }

    /// Returns why certificates signed by this issuer (DER, without its tag) are not trusted,
    /// although a certificate of that name is listed here.
    pub(super) fn distrust_of(&self, issuer: &[u8], now: UnixTime) -> Option<String> {
        let entry = self.entries.iter().find(|one| *one.subject_der == *issuer)?;
        let why = match entry.validity.at(seconds(now)) {
            ValidityState::Over(_) => "has expired",
            ValidityState::NotYet(_) => "is not valid yet",
            _ if !entry.is_for_peer => "has an extended key usage for something else",
            _ if entry.is_unknown => "has a critical extension that is not known here",
            _ if !entry.is_authority => {
                "may not sign certificates (no CA:TRUE, or a key usage without keyCertSign)"
            }
            ValidityState::Good | ValidityState::EndsSoon(_) => return None,
        };
        Some(format!("its issuer, in {}, {why}", entry.shown_place()))
    }

    /// Returns the place of the authority of this name (DER, without its tag) that has name
    /// constraints on directory names.
    pub(super) fn confined_by_directory(&self, issuer: &[u8]) -> Option<String> {
        let mut entries = self.entries.iter();
        let is_it = |one: &&AuthorityEntry| *one.subject_der == *issuer && one.refuses_all_below();
        entries.find(is_it).map(AuthorityEntry::shown_place)
    }

    /// Returns when the certificates end: their notAfter.
    pub(super) fn ends(&self, now: i64) -> ExpirySummary {
        let all = self.reported().map(|entry| Expiry {
            file: entry.place.clone(),
            name: entry.subject.clone(),
            key: "".into(),
            time: entry.validity.until,
        });
        ExpirySummary::of(all, now)
    }

    pub(super) fn concerns(&self, moment: Moment) -> impl Iterator<Item = VerifyConcern> {
        self.reported().filter_map(move |entry| {
            let concern = match entry.validity.news(moment) {
                _ if !entry.is_for_peer && moment.since.is_some() => return None,
                _ if !entry.is_for_peer => TrustConcern::AuthorityOtherUse,
                _ if entry.is_unknown && moment.since.is_some() => return None,
                _ if entry.is_unknown => TrustConcern::AuthorityUnknown,
                ValidityState::Over(seconds) => TrustConcern::AuthorityOver(Span(seconds)),
                ValidityState::EndsSoon(seconds) => TrustConcern::AuthorityEndsSoon(Span(seconds)),
                ValidityState::NotYet(seconds) => TrustConcern::AuthorityNotYet(Span(seconds)),
                ValidityState::Good if moment.since.is_none() && entry.refuses_all_below() => {
                    TrustConcern::AuthorityDirectoryNames
                }
                ValidityState::Good => return None,
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
    /// Reports whether all below is refused: the library supports no directory names (its
    /// `check_presented_id_conforms_to_constraints`), as RFC 5280 section 4.2.1.10 allows.
    fn refuses_all_below(&self) -> bool {
        self.is_authority && self.constraints.are_on_directory_names
    }

    /// Checks that this anchor of a path and the authorities below it permit the common names.
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
        hold(&leaf, &all)
    }

    fn holds(&self, now: UnixTime) -> Result<(), Error> {
        let at = |seconds: i64| {
            let seconds = std::time::Duration::from_secs(seconds.try_into().unwrap_or(0));
            UnixTime::since_unix_epoch(seconds)
        };
        match self.validity.at(seconds(now)) {
            ValidityState::Over(_) => {
                Err(Error::CertExpired { time: now, not_after: at(self.validity.until) })
            }
            ValidityState::NotYet(_) => {
                Err(Error::CertNotValidYet { time: now, not_before: at(self.validity.from) })
            }
            ValidityState::Good | ValidityState::EndsSoon(_) => Ok(()),
        }
    }

    fn shown_place(&self) -> String {
        format!("{}:{}", self.place, self.line)
    }
}

/// Returns whether it may sign certificates, and its path length; `None` = unreadable extensions.
///
/// Before version 3 no certificate stated this: a self-signed one may sign (RFC 5280 section 6.1.4
/// (k) leaves the decision to the operator).
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

/// Reports whether a critical extension is unsupported. Policies (RFC 5280 section 4.2.1.4) are
/// known and not checked.
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

/// Reports whether the extended key usage allows such peers; `None` = it cannot be read.
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

/// Maximum comparisons of names with constraints for one chain, as in the library: some
/// milliseconds.
const COMPARISONS_MAX: usize = 250_000;

/// Name constraints of one certificate.
#[derive(Debug, Default)]
pub(super) struct NameConstraints {
    permitted_hosts: Vec<Box<str>>,
    excluded_hosts: Vec<Box<str>>,
    /// Whether some are on directory names: the library then refuses all certificates below.
    pub(super) are_on_directory_names: bool,
}

impl NameConstraints {
    /// Reads the constraints. Unreadable ones permit no host.
    pub(super) fn of(certificate: &X509Certificate<'_>) -> Self {
        let Ok(found) = certificate.name_constraints() else {
            return Self::no_host();
        };
        let Some(found) = found else {
            return Self::default();
        };
        let permitted = hosts_of(found.value.permitted_subtrees.as_deref());
        let excluded = hosts_of(found.value.excluded_subtrees.as_deref());
        let (permitted_hosts, excluded_hosts) =
            permitted.zip(excluded).unwrap_or_else(|| (Vec::new(), vec!["".into()]));
        let subtrees = [&found.value.permitted_subtrees, &found.value.excluded_subtrees];
        let mut bases = subtrees.into_iter().flatten().flatten().map(|subtree| &subtree.base);
        Self {
            permitted_hosts,
            excluded_hosts,
            are_on_directory_names: bases.any(|one| matches!(one, GeneralName::DirectoryName(_))),
        }
    }

    fn no_host() -> Self {
        Self { excluded_hosts: vec!["".into()], ..Self::default() }
    }

    fn count(&self) -> usize {
        self.permitted_hosts.len() + self.excluded_hosts.len()
    }

    fn allows(&self, host: &str) -> bool {
        let among = |bases: &[Box<str>]| bases.iter().any(|base| is_within(host, base));
        !among(&self.excluded_hosts)
            && (self.permitted_hosts.is_empty() || among(&self.permitted_hosts))
    }
}

/// Returns the host names among the bases of subtrees; `None` = a base is no valid name.
fn hosts_of(subtrees: Option<&[GeneralSubtree<'_>]>) -> Option<Vec<Box<str>>> {
    let bases = subtrees.unwrap_or_default().iter().filter_map(|subtree| match subtree.base {
        GeneralName::DNSName(host) => Some(Some(host.into())),
        GeneralName::Invalid(..) => Some(None),
        _ => None,
    });
    bases.collect()
}

/// Reports whether a host is the base's or below it; a base that begins with a dot contains only
/// those below, an empty one contains all.
fn is_within(host: &str, base: &str) -> bool {
    let Some((above, end)) =
        host.len().checked_sub(base.len()).and_then(|at| host.split_at_checked(at))
    else {
        return false;
    };
    let is_at_label =
        above.is_empty() || base.is_empty() || base.starts_with('.') || above.ends_with('.');
    is_at_label && end.eq_ignore_ascii_case(base)
}

/// Returns the host that a common name looks like, without a leading wildcard and a final dot.
fn host_of(common_name: &str) -> Option<&str> {
    let host = common_name.strip_prefix("*.").unwrap_or(common_name);
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let is_label = |label: &str| !label.is_empty() && label.chars().all(is_allowed);
    (host.contains('.') && host.split('.').all(is_label)).then_some(host)
}

/// Checks that all constraints of a path permit the common names of its leaf.
pub(super) fn hold(
    leaf: &X509Certificate<'_>,
    constraints: &[&NameConstraints],
) -> Result<(), Error> {
    let common_names = leaf.subject().iter_common_name();
    let hosts = common_names.filter_map(|one| host_of(one.as_str().ok()?));
    let count: usize = constraints.iter().map(|one| one.count()).sum();
    let mut left = COMPARISONS_MAX;
    for host in hosts {
        left = left.checked_sub(count).ok_or(Error::MaximumNameConstraintComparisonsExceeded)?;
        if !constraints.iter().all(|one| one.allows(host)) {
            return Err(Error::NameConstraintViolation);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_within_its_own_domain_and_those_above() {
        for (host, base) in [
            ("a.batch.internal", "batch.internal"),
            ("A.Batch.internal", "bATCH.INTERNAL"),
            ("batch.internal", "batch.internal"),
            ("a.batch.internal", ".batch.internal"),
            ("a.example", ""),
        ] {
            assert!(is_within(host, base), "{host} {base}");
        }
        for (host, base) in [
            ("batch.internal", ".batch.internal"),
            ("nobatch.internal", "batch.internal"),
            ("internal", "batch.internal"),
            ("a.batch.internal.evil", "batch.internal"),
        ] {
            assert!(!is_within(host, base), "{host} {base}");
        }
    }

    #[test]
    fn a_common_name_with_two_labels_looks_like_a_host() {
        for (name, host) in [
            ("a.example", Some("a.example")),
            ("*.a_1.example.", Some("a_1.example")),
            ("alice", None),
            ("Alice B. Carter", None),
            ("ann@mail.example", None),
            ("a..example", None),
        ] {
            assert_eq!(host_of(name), host);
        }
    }
}
