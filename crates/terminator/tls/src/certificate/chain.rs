//! Examines a chain from the clients' view: whether they can follow it and accept it.
//!
//! Provides the findings of `lariat check` about a usable certificate. Signatures are not verified:
//! issuers are recognised by names and key identifiers, as clients do first.

use std::collections::HashSet;

use rustls_pki_types::CertificateDer;
use x509_parser::extensions::ParsedExtension;
use x509_parser::oid_registry::OID_PKIX_ACCESS_DESCRIPTOR_CA_ISSUERS;
use x509_parser::prelude::X509Certificate;

use super::fault::RSA_BITS_MIN;
use super::pem::{self, BlockKind};
use super::{Certificate, KeyKind, key, parse};
use crate::options::{CertificateSource, PemSource};

/// Subjects (DER) of the authorities that a host trusts.
#[derive(Debug, Default)]
pub struct KnownAuthorities(HashSet<Vec<u8>>);

impl KnownAuthorities {
    /// Reads the authorities of a bundle; an unreadable bundle counts as empty.
    pub fn of(bundle: &PemSource) -> Self {
        let read = pem::read(&bundle.pem).unwrap_or_default();
        let subject = |der: Vec<u8>| {
            let der = CertificateDer::from(der);
            let parsed = parse(0, &der).ok()?;
            Some(parsed.subject().as_raw().to_vec())
        };
        let certificates = pem::all_of(read, BlockKind::Certificate);
        Self(certificates.filter_map(subject).collect())
    }
}

/// A possible problem of a chain for clients. Certificates are counted from 1.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ChainConcern {
    /// Clients that know the authorities of this host cannot reach one of them.
    #[error(
        "the chain ends with a certificate that \"{0}\" issued, which is no authority that this \
         host knows: an intermediate certificate is missing; append it"
    )]
    IssuerMissing(String),
    /// This host cannot tell whether clients trust the issuer of the last certificate.
    #[error(
        "the chain ends with a certificate that \"{0}\" issued, which is no authority that this \
         host knows; unless clients trust it, append its certificate"
    )]
    IssuerUnknown(String),
    /// A certificate precedes the one that it issued, or others are between them.
    #[error(
        "certificate {0} of the chain is out of order; put each behind the one that it issued \
         (RFC 5246 section 7.4.2)"
    )]
    OutOfOrder(usize),
    /// A certificate issued none of the others.
    #[error("certificate {0} (\"{1}\") issued no other of the chain; remove it")]
    Stranger(usize, String),
    /// A certificate is duplicated.
    #[error("certificate {0} stands in the chain twice; remove one")]
    Twice(usize),
    /// A root, which clients already have or do not trust: its place, subject and length.
    #[error(
        "certificate {0} (\"{1}\") is a root, which clients need not be sent; without it a full \
         handshake has {2} bytes less, but a TLSA record may name it (RFC 7671 section 5.2)"
    )]
    RootSent(usize, String, usize),
    /// A certificate of an authority that this host knows itself, with its place and subject.
    #[error(
        "certificate {0} (\"{1}\") is of an authority that this host knows itself; only clients \
         with older authorities need it and what is behind it"
    )]
    AuthoritySent(usize, String),
    /// The leaf has no subjectAltName.
    #[error(
        "the certificate has no subjectAltName, and clients look for names nowhere else \
         (RFC 9525 section 2); get one that has its names there"
    )]
    NoAlternativeName,
    /// The leaf may not be used by a server.
    #[error(
        "the certificate is not for servers (extendedKeyUsage without serverAuth, RFC 5280 section \
         4.2.1.12); get one that is"
    )]
    NotForServers,
    /// The leaf's key may not sign handshakes.
    #[error(
        "the certificate's key usage has no digitalSignature, and clients may refuse it (RFC 8446 \
         section 4.4.2.2); get one that has it"
    )]
    NotForSigning,
    /// A certificate's signature uses a broken hash.
    #[error("certificate {0} is signed by {1}, which clients refuse; get a new one")]
    WeakSignature(usize, String),
    /// A block is neither certificate nor key.
    #[error("the block {0} is neither certificate nor key and is passed over; remove it")]
    PassedOver(String),
    /// An issuer's certificate has too small an RSA key: its place and number of bits.
    #[error(
        "certificate {0} has an RSA key of {1} bits, and clients refuse less than {RSA_BITS_MIN}; \
         ask the CA for another chain"
    )]
    SmallIssuerKey(usize, usize),
}

impl ChainConcern {
    /// Reports whether the concern is informational only.
    pub fn is_note(&self) -> bool {
        matches!(self, Self::IssuerUnknown(_) | Self::RootSent(..) | Self::AuthoritySent(..))
    }
}

/// Returns the concerns about the chain of a usable certificate, each with its place.
pub fn examine(
    source: &CertificateSource,
    certificate: &Certificate,
    known: &KnownAuthorities,
) -> Vec<(String, ChainConcern)> {
    let blocks = pem::read(&source.chain_pem).unwrap_or_default();
    let (lines, ders): (Vec<_>, Vec<_>) = blocks
        .iter()
        .filter(|block| block.kind == BlockKind::Certificate)
        .map(|block| (block.line, CertificateDer::from(&**block.der)))
        .unzip();
    let strays = blocks.iter().filter(|block| block.kind == BlockKind::Other);
    let strays = strays.map(|block| {
        let concern = ChainConcern::PassedOver(block.label.clone());
        (format!("{}:{}", source.place, block.line), concern)
    });
    let parsed = ders.iter().enumerate();
    let parsed: Vec<_> = parsed.filter_map(|(at, der)| parse(at, der).ok()).collect();
    let leaf_der = certificate.key.cert.first();
    let leaf = ders.iter().position(|der| Some(der) == leaf_der);
    let Some(leaf) = leaf.filter(|_| parsed.len() == ders.len()) else {
        // Unreadable certificates are reported elsewhere.
        return Vec::new();
    };
    let mut found = of_leaf(leaf, &parsed[leaf]);
    found.extend(of_order(leaf, &parsed, known));
    for (at, one) in parsed.iter().enumerate() {
        found.extend(of_strength(at, leaf, one).into_iter().map(|concern| (at, concern)));
    }
    let place = |at: usize| format!("{}:{}", source.place, lines[at]);
    let placed = found.into_iter().map(|(at, concern)| (place(at), concern));
    placed.chain(strays).collect()
}

/// A concern about the certificate at a place of the chain, from 0.
type ChainFinding = (usize, ChainConcern);

fn of_leaf(at: usize, leaf: &X509Certificate<'_>) -> Vec<ChainFinding> {
    let mut found = Vec::new();
    if !matches!(leaf.subject_alternative_name(), Ok(Some(_))) {
        found.push((at, ChainConcern::NoAlternativeName));
    }
    if let Ok(Some(usage)) = leaf.extended_key_usage()
        && !(usage.value.server_auth || usage.value.any)
    {
        found.push((at, ChainConcern::NotForServers));
    }
    if let Ok(Some(usage)) = leaf.key_usage()
        && !usage.value.digital_signature()
    {
        found.push((at, ChainConcern::NotForSigning));
    }
    found
}

/// Follows the chain from the leaf. Reports if this is not the order of the file, or does not end
/// at an authority.
fn of_order(
    leaf: usize,
    chain: &[X509Certificate<'_>],
    known: &KnownAuthorities,
) -> Vec<ChainFinding> {
    let mut way = vec![leaf];
    let mut last = leaf;
    while !is_self_issued(&chain[last]) {
        let next = |at: &usize| !way.contains(at) && issued(&chain[*at], &chain[last]);
        let Some(issuer) = (0..chain.len()).find(next) else {
            break;
        };
        way.push(issuer);
        last = issuer;
    }
    let mut found = Vec::new();
    for (at, one) in chain.iter().enumerate().filter(|(at, _)| !way.contains(at)) {
        let is_twice = way.iter().any(|other| chain[*other].as_raw() == one.as_raw());
        found.push((
            at,
            if is_twice {
                ChainConcern::Twice(at + 1)
            } else {
                ChainConcern::Stranger(at + 1, one.subject().to_string())
            },
        ));
    }
    // The leaf's own place is reported when it is loaded.
    let behind = way.iter().skip(1).zip(way.iter().skip(2));
    let out_of_order = behind.filter(|(issued, issuer)| issuer < issued);
    found.extend(out_of_order.map(|(_, at)| (*at, ChainConcern::OutOfOrder(at + 1))));
    let needless = of_no_need(&way, chain, known);
    let end = end_of(&chain[last], way.len() == 1, known).filter(|_| needless.is_none());
    found.extend(end.map(|concern| (last, concern)).or(needless));
    found
}

/// Returns the first certificate of the path that clients need not be sent.
fn of_no_need(
    way: &[usize],
    chain: &[X509Certificate<'_>],
    known: &KnownAuthorities,
) -> Option<ChainFinding> {
    way.iter().skip(1).find_map(|at| {
        let one = &chain[*at];
        let subject = one.subject().to_string();
        let concern = if is_self_issued(one) {
            ChainConcern::RootSent(at + 1, subject, one.as_raw().len())
        } else if known.0.contains(one.subject().as_raw()) {
            ChainConcern::AuthoritySent(at + 1, subject)
        } else {
            return None;
        };
        Some((*at, concern))
    })
}

fn end_of(
    last: &X509Certificate<'_>,
    is_leaf: bool,
    known: &KnownAuthorities,
) -> Option<ChainConcern> {
    // A host without a bundle knows no authorities.
    let is_known = known.0.is_empty() || known.0.contains(last.issuer().as_raw());
    if is_known || is_self_issued(last) {
        return None;
    }
    let issuer = last.issuer().to_string();
    // An intermediate may belong to a private root, which clients have.
    Some(if is_leaf && names_its_issuer(last) {
        ChainConcern::IssuerMissing(issuer)
    } else {
        ChainConcern::IssuerUnknown(issuer)
    })
}

/// Reports whether a certificate gives the location of its issuer's, as public authorities do:
/// those issue through intermediates alone (RFC 5280 section 4.2.2.1).
fn names_its_issuer(one: &X509Certificate<'_>) -> bool {
    one.extensions().iter().any(|extension| {
        let ParsedExtension::AuthorityInfoAccess(access) = extension.parsed_extension() else {
            return false;
        };
        let mut ways = access.accessdescs.iter();
        ways.any(|way| way.access_method == OID_PKIX_ACCESS_DESCRIPTOR_CA_ISSUERS)
    })
}

fn is_self_issued(one: &X509Certificate<'_>) -> bool {
    one.subject().as_raw() == one.issuer().as_raw()
}

/// Reports whether `one` may have issued `other`: by their names and, if both are present, key
/// identifiers (RFC 5280 sections 4.2.1.1 and 4.2.1.2).
fn issued(one: &X509Certificate<'_>, other: &X509Certificate<'_>) -> bool {
    let own = one.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
        _ => None,
    });
    let wanted =
        other.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(id) => Some(id.key_identifier.as_ref()?.0),
            _ => None,
        });
    let fits = own.zip(wanted).is_none_or(|(own, wanted)| own == wanted);
    fits && one.subject().as_raw() == other.issuer().as_raw()
}

/// Checks signature and key. A root's signature is ignored, because no client checks it.
fn of_strength(at: usize, leaf: usize, one: &X509Certificate<'_>) -> Vec<ChainConcern> {
    let mut found = Vec::new();
    let number = one.signature_algorithm.algorithm.to_id_string();
    let broken = [
        ("1.2.840.113549.1.1.4", "RSA with MD5"),
        ("1.2.840.113549.1.1.5", "RSA with SHA-1"),
        ("1.2.840.10045.4.1", "ECDSA with SHA-1"),
    ];
    if let Some((_, name)) = broken.iter().find(|(oid, _)| *oid == number)
        && !is_self_issued(one)
    {
        found.push(ChainConcern::WeakSignature(at + 1, (*name).to_owned()));
    }
    let bits = key::bits(one.public_key());
    let is_rsa = matches!(KeyKind::of(one.public_key()), Ok(KeyKind::Rsa));
    if at != leaf && is_rsa && bits < RSA_BITS_MIN {
        found.push(ChainConcern::SmallIssuerKey(at + 1, bits));
    }
    found
}

#[cfg(test)]
mod tests {
    use testkit::authority::{Authority, KeyUsagePurpose, Trait};
    use testkit::leaf::Leaf;

    use super::*;

    /// Returns the findings for this text with the key of `leaf`, on a host that knows `known`.
    fn found(chain: &str, leaf: &Leaf, known: &Authority) -> Vec<(String, ChainConcern)> {
        let source = CertificateSource::whole("x.pem", format!("{chain}{}", leaf.key_pem()));
        let (certificate, _) = Certificate::load(&source).expect("a certificate");
        let known =
            KnownAuthorities::of(&PemSource { place: String::new(), pem: known.pem().into() });
        examine(&source, &certificate, &known)
    }

    #[test]
    fn a_chain_is_whole_and_in_order_or_somebody_is_told() {
        let root = Authority::root("root");
        let (one, other) = (root.intermediate("one"), root.intermediate("other"));
        let below = one.intermediate("below");
        let leaf = below.leaf(&["a.example"]).issue();
        let [own, below_pem, one_pem] = [leaf.certificate_pem(), below.pem(), one.pem()];
        let lines = |pem: &str| pem.lines().count();
        let root_bytes = testkit::leaf::certificates(root.pem())[0].len();
        let third = lines(own) + lines(below_pem) + 1;
        let unknown = ChainConcern::IssuerUnknown("CN=below".to_owned());
        for (chain, wanted) in [
            (leaf.chain_pem(), vec![]),
            (
                leaf.chain_pem() + root.pem(),
                vec![(
                    format!("x.pem:{}", lines(&leaf.chain_pem()) + 1),
                    ChainConcern::RootSent(4, "CN=root".to_owned(), root_bytes),
                )],
            ),
            (own.to_owned(), vec![("x.pem:1".to_owned(), unknown)]),
            (
                format!("{own}{one_pem}{below_pem}"),
                vec![(format!("x.pem:{}", lines(own) + 1), ChainConcern::OutOfOrder(2))],
            ),
            (
                format!("{own}{below_pem}{}{one_pem}", other.pem()),
                vec![(format!("x.pem:{third}"), ChainConcern::Stranger(3, "CN=other".to_owned()))],
            ),
            (
                format!("{own}{below_pem}{below_pem}{one_pem}"),
                vec![(format!("x.pem:{third}"), ChainConcern::Twice(3))],
            ),
        ] {
            assert_eq!(found(&chain, &leaf, &root), wanted, "{chain}");
        }
    }

    /// Clients that know the authority need none above it.
    #[test]
    fn a_certificate_of_an_authority_that_the_host_knows_is_told() {
        let root = Authority::root("root");
        let one = root.intermediate("one");
        let leaf = one.leaf(&["a.example"]).issue();
        let line = leaf.certificate_pem().lines().count() + 1;
        let sent = ChainConcern::AuthoritySent(2, "CN=one".to_owned());
        assert_eq!(found(&leaf.chain_pem(), &leaf, &one), [(format!("x.pem:{line}"), sent)]);
    }

    #[test]
    fn an_intermediate_of_a_public_authority_is_missed() {
        let (root, stranger) = (Authority::root("root"), Authority::root("stranger"));
        let leaf = root.leaf(&["a.example"]).names_issuer().issue();
        let missing = ChainConcern::IssuerMissing("CN=root".to_owned());
        let concerns = |known| found(leaf.certificate_pem(), &leaf, known);
        assert_eq!(concerns(&stranger), [("x.pem:1".to_owned(), missing)]);
        assert_eq!(concerns(&root), []);
        // A private root, which clients have, may follow an intermediate.
        let below = root.intermediate_with("below", &[Trait::NamesIssuer]);
        let leaf = below.leaf(&["a.example"]).names_issuer().issue();
        let line = leaf.certificate_pem().lines().count() + 1;
        let unknown = ChainConcern::IssuerUnknown("CN=root".to_owned());
        assert_eq!(
            found(&leaf.chain_pem(), &leaf, &stranger),
            [(format!("x.pem:{line}"), unknown)]
        );
    }

    #[test]
    fn a_leaf_is_for_servers_and_has_names() {
        let root = Authority::root("root");
        for (leaf, wanted) in [
            (root.leaf(&[]).issue(), ChainConcern::NoAlternativeName),
            (root.client("a.example"), ChainConcern::NotForServers),
            (
                root.leaf(&["a.example"]).key_usage(&[KeyUsagePurpose::KeyEncipherment]).issue(),
                ChainConcern::NotForSigning,
            ),
        ] {
            let found = found(leaf.certificate_pem(), &leaf, &root);
            assert_eq!(found, [("x.pem:1".to_owned(), wanted)]);
        }
    }

    /// Made by `openssl x509 -req -sha1`: a leaf below an authority with an RSA key of 1024 bits.
    #[test]
    fn what_clients_refuse_above_a_leaf_is_named() {
        let source = CertificateSource::whole("x.pem", include_str!("data/weak-chain.pem"));
        let (certificate, _) = Certificate::load(&source).expect("a certificate");
        let found = examine(&source, &certificate, &KnownAuthorities::default());
        let wanted = [
            ChainConcern::RootSent(2, "CN=weak".to_owned(), 512),
            ChainConcern::WeakSignature(1, "RSA with SHA-1".to_owned()),
            ChainConcern::SmallIssuerKey(2, 1024),
        ];
        let found: Vec<_> = found.into_iter().map(|(_, concern)| concern).collect();
        assert_eq!(found, wanted);
    }
}
