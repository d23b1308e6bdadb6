//! The name constraints of authorities (RFC 5280 section 4.2.1.10), as far as the library leaves
//! them out: it holds alternative names against them, and no common name.
//!
//! A common name that looks like a host's is held against those on host names, as OpenSSL does,
//! also beside alternative names: `allow`, logs and PROXY headers take it for the client's name.

use webpki::Error;
use x509_parser::extensions::GeneralSubtree;
use x509_parser::prelude::{GeneralName, X509Certificate};

/// Comparisons of names with constraints for one chain, as many as the library makes: some
/// milliseconds.
const COMPARISONS_MAX: usize = 250_000;

/// The constraints of one certificate.
#[derive(Debug, Default)]
pub(super) struct NameConstraints {
    permitted_hosts: Vec<Box<str>>,
    excluded_hosts: Vec<Box<str>>,
    /// There are some on directory names, for which the library refuses every certificate below.
    pub(super) are_on_directory_names: bool,
}

impl NameConstraints {
    /// Constraints that cannot be read permit no host.
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

/// The host names among the bases of subtrees; `None` = a base is no valid name.
fn hosts_of(subtrees: Option<&[GeneralSubtree<'_>]>) -> Option<Vec<Box<str>>> {
    let bases = subtrees.unwrap_or_default().iter().filter_map(|subtree| match subtree.base {
        GeneralName::DNSName(host) => Some(Some(host.into())),
        GeneralName::Invalid(..) => Some(None),
        _ => None,
    });
    bases.collect()
}

/// Whether a host is that of the base or below it; a base that begins with a dot has those below
/// alone, an empty one has all.
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

/// A common name as the host that it looks like, without a wildcard before and a dot behind it.
fn host_of(common_name: &str) -> Option<&str> {
    let host = common_name.strip_prefix("*.").unwrap_or(common_name);
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let is_label = |label: &str| !label.is_empty() && label.chars().all(is_allowed);
    (host.contains('.') && host.split('.').all(is_label)).then_some(host)
}

/// Whether all of these, the constraints of a path, allow the common names of its leaf.
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
