//! Creates keys and requests of certificates, and checks that an authority issued what was ordered.

use base64ct::{Base64UrlUnpadded, Encoding};
use instant_acme::CertificateIdentifier;
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PublicKeyData, RsaKeySize};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use wire::address::address_of;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

use crate::messages::ServedCertificate;
use crate::schedule::KnownCertificate;

/// Maximum number of certificates in a chain: those of the web have two or three.
const CHAIN_MAX: usize = 10;

/// Seconds by which this host's clock may be behind.
const CLOCK_SKEW_S: i64 = 3600;

/// Creates a key of the kind that the word names.
pub(crate) fn new_key(kind: &str) -> Result<KeyPair, String> {
    let rsa = |size| KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size);
    let made = match kind {
        "ecdsa-p384" => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
        "rsa-2048" => rsa(RsaKeySize::_2048),
        "rsa-3072" => rsa(RsaKeySize::_3072),
        "rsa-4096" => rsa(RsaKeySize::_4096),
        _ => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
    };
    made.map_err(|error| format!("no key could be made: {error}"))
}

/// Returns the request for these names with this key, DER (RFC 2986).
pub(crate) fn request(domains: &[String], key: &KeyPair) -> Result<Vec<u8>, String> {
    let params = CertificateParams::new(domains.to_vec());
    let request = params.and_then(|mut params| {
        params.distinguished_name = DistinguishedName::new();
        params.serialize_request(key)
    });
    Ok(request.map_err(|error| format!("no request could be made: {error}"))?.der().to_vec())
}

/// Whether a chain's first certificate is for this key.
pub(crate) fn is_for(chain_pem: &str, key: &KeyPair) -> bool {
    let der = leaf(chain_pem);
    let leaf = der.as_deref().and_then(|der| parsed(der).ok());
    leaf.is_some_and(|leaf| leaf.public_key().raw == key.subject_public_key_info())
}

/// Returns the issued certificate if it is for this key, these names and this time.
pub(crate) fn checked(
    chain_pem: &str,
    kind: &str,
    key: &KeyPair,
    domains: &[String],
    now: u64,
) -> Result<ServedCertificate, String> {
    let chain = chain(chain_pem)?;
    let first = chain.first().ok_or("it gave no certificate")?;
    let leaf = parsed(first)?;
    if leaf.public_key().raw != key.subject_public_key_info() {
        return Err("it gave a certificate for another key".to_owned());
    }
    let names = names(&leaf);
    if let Some(missing) = domains.iter().find(|domain| !names.contains(domain)) {
        return Err(format!("it gave a certificate that is not for {missing}"));
    }
    let (from, until) =
        (leaf.validity().not_before.timestamp(), leaf.validity().not_after.timestamp());
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    if !(from.saturating_sub(CLOCK_SKEW_S)..until).contains(&now) {
        return Err("it gave a certificate that is not valid now: is the clock right?".to_owned());
    }
    let chain_pem = chain_pem.to_owned();
    Ok(ServedCertificate { key: kind.to_owned(), chain_pem, not_before: from, not_after: until })
}

/// Returns the facts about a served certificate that its renewal needs.
pub(crate) fn known(served: &ServedCertificate) -> KnownCertificate {
    let seconds = |time: i64| u64::try_from(time).unwrap_or_default();
    KnownCertificate {
        key: served.key.clone(),
        id: leaf(&served.chain_pem).and_then(|der| identifier(&der)).unwrap_or_default(),
        not_before: seconds(served.not_before),
        not_after: seconds(served.not_after),
    }
}

/// Returns the first certificate of a chain, DER.
pub(crate) fn leaf(chain_pem: &str) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(chain_pem.as_bytes()).ok()
}

/// Returns the identifier of RFC 9773 section 4.1.
fn identifier(der: &[u8]) -> Option<String> {
    let leaf = parsed(der).ok()?;
    let id = leaf.extensions().iter().find_map(|one| match one.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(authority) => authority.key_identifier.as_ref(),
        _ => None,
    })?;
    let [id, serial] = [id.0, leaf.raw_serial()].map(Base64UrlUnpadded::encode_string);
    Some(format!("{id}.{serial}"))
}

/// Converts an identifier to the library's type.
pub(crate) fn identified(id: &str) -> Option<CertificateIdentifier<'_>> {
    let (authority_key_identifier, serial) = id.split_once('.')?;
    Some(CertificateIdentifier {
        authority_key_identifier: authority_key_identifier.into(),
        serial: serial.into(),
    })
}

fn chain(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let chain = chain.map_err(|error| format!("it gave no PEM: {error}"))?;
    if chain.len() > CHAIN_MAX {
        return Err(format!("it gave {} certificates, more than {CHAIN_MAX}", chain.len()));
    }
    for der in &chain {
        parsed(der)?;
    }
    Ok(chain)
}

fn parsed(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    let parsed = X509Certificate::from_der(der);
    parsed.map(|(_, one)| one).map_err(|_| "it gave something that is no certificate".to_owned())
}

fn names(leaf: &X509Certificate<'_>) -> Vec<String> {
    let names = leaf.subject_alternative_name().ok().flatten();
    let names = names.map_or(&[][..], |names| &names.value.general_names);
    let shown = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => address_of(bytes).map(|address| address.to_string()),
        _ => None,
    };
    names.iter().filter_map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_authority_gives_must_be_what_was_asked_for() {
        let domains = ["a.example", "*.b.example", "192.0.2.1"].map(str::to_owned).to_vec();
        let now = 1_767_225_600;
        let signed = |domains: &[String], key: &KeyPair, from, until| {
            let mut params = CertificateParams::new(domains.to_vec()).unwrap();
            params.not_before = rcgen::date_time_ymd(from, 1, 1);
            params.not_after = rcgen::date_time_ymd(until, 1, 1);
            params.self_signed(key).unwrap().pem()
        };
        for kind in ["ecdsa-p256", "ecdsa-p384", "rsa-2048"] {
            let (key, other) = (new_key(kind).unwrap(), new_key("ecdsa-p256").unwrap());
            assert!(!request(&domains, &key).unwrap().is_empty());
            let fault = |pem: &str| checked(pem, kind, &key, &domains, now).err();
            let good = signed(&domains, &key, 2025, 2027);
            assert_eq!(fault(&good), None);
            for (pem, words) in [
                (signed(&domains, &other, 2025, 2027), "for another key"),
                (signed(&domains[..2], &key, 2025, 2027), "is not for 192.0.2.1"),
                (signed(&domains, &key, 2020, 2025), "is not valid now"),
                (signed(&domains, &key, 2027, 2028), "is not valid now"),
                (String::new(), "no certificate"),
                (good.repeat(11), "more than 10"),
                (good.replace("MII", "AAA"), "no certificate"),
            ] {
                let found = fault(&pem).unwrap_or_default();
                assert!(found.contains(words), "{words}: {found}");
            }
        }
    }
}
