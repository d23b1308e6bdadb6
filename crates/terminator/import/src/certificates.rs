//! Reads certificates in PEM: their names, and whether they are authorities. Verifies nothing.

use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;

/// Reports whether a file mixes authorities with other certificates. An unreadable certificate
/// counts as an authority, because more would be trusted if it were one.
pub(crate) fn are_mixed(pem: &str) -> bool {
    let is_authority = |one: Pem| one.parse_x509().map_or(true, |one| one.is_ca());
    let all: Vec<_> = certificates(pem).map(is_authority).collect();
    all.contains(&true) && all.contains(&false)
}

/// Returns the host names by which HAProxy chooses a file: `subjectAltName` and common name of its
/// first certificate, in lower case.
pub(crate) fn host_names(pem: &str) -> Vec<String> {
    let first = certificates(pem).next();
    let Some(first) = first.as_ref().and_then(|one| one.parse_x509().ok()) else {
        return Vec::new();
    };
    let common = first.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let extension = first.subject_alternative_name().ok().flatten();
    let names = extension.iter().flat_map(|one| &one.value.general_names);
    let names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    let mut names: Vec<_> = common.chain(names).map(str::to_ascii_lowercase).collect();
    names.retain(|name| name.contains('.') && name.chars().all(is_of_host));
    names.sort();
    names.dedup();
    names
}

fn is_of_host(c: char) -> bool {
    c.is_ascii_alphanumeric() || "*.-_".contains(c)
}

fn certificates(pem: &str) -> impl Iterator<Item = Pem> {
    let all = Pem::iter_from_buffer(pem.as_bytes()).flatten();
    all.filter(|one| one.label == "CERTIFICATE")
}

#[cfg(test)]
mod tests {
    use testkit::authority::Authority;

    use super::*;

    #[test]
    fn authorities_are_told_from_others() {
        let root = Authority::root("root");
        let authorities = [root.pem().to_owned(), root.intermediate("below").pem().to_owned()];
        let leaf = |name| root.leaf(&[name]).issue().certificate_pem().to_owned();
        let other = leaf("a.example") + &leaf("b.example");
        assert!(!are_mixed(&authorities.concat()) && !are_mixed(&other) && !are_mixed(""));
        let unreadable = "-----BEGIN CERTIFICATE-----\nLi4u\n-----END CERTIFICATE-----\n";
        for authority in authorities.iter().map(String::as_str).chain([unreadable]) {
            assert!(are_mixed(&(authority.to_owned() + &other)));
        }
    }

    #[test]
    fn names_are_those_of_hosts() {
        let root = Authority::root("root");
        let leaf = root.leaf(&["*.A.example", "b.example", "192.0.2.1", "host"]);
        let leaf = leaf.common_name("C.example").issue();
        assert_eq!(host_names(&leaf.pem()), ["*.a.example", "b.example", "c.example"]);
        assert_eq!(host_names("no certificate"), [""; 0]);
    }
}
