//! Makes self-signed certificates: those that prove a name to an authority (RFC 8737), and the
//! placeholder of a service whose certificate does not exist yet.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, CustomExtension, DnType, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::challenge::{PROTOCOL, TlsAnswers, TlsChallenges};
use crate::context::SecretListener;
use crate::options::CertificateSource;

/// A pending validation: the identifier, a DNS name or an IP address, and the SHA-256 of its key
/// authorization (RFC 8737 section 3).
pub type Validation = (String, [u8; 32]);

/// Answers these validations, and no others.
///
/// # Errors
/// Fails with the identifiers for which no certificate can be made, and the reasons.
pub fn answer_validations(
    challenges: &TlsChallenges,
    validations: &[Validation],
) -> Result<(), String> {
    let (answers, faults) = answers(validations);
    challenges.replace(answers);
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// Returns the answers that can be made, and the reasons why others cannot.
fn answers(validations: &[Validation]) -> (TlsAnswers, Vec<String>) {
    let (mut answers, mut faults) = (TlsAnswers::default(), Vec::new());
    for (identifier, digest) in validations {
        match config(identifier, digest) {
            Ok(config) => drop(answers.insert(asked_name(identifier), Arc::new(config))),
            Err(why) => faults.push(format!("{identifier}: {why}")),
        }
    }
    (answers, faults)
}

/// Returns the server name that an authority sends: for an address, its name in the reverse zone
/// (RFC 8738 section 6).
fn asked_name(identifier: &str) -> String {
    match identifier.parse() {
        Ok(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Ok(IpAddr::V6(address)) => {
            let bytes = address.octets();
            let nibbles = bytes.iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa"
        }
        Err(_) => identifier.to_ascii_lowercase(),
    }
}

fn config(identifier: &str, digest: &[u8; 32]) -> Result<ServerConfig, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let (der, key) = proof(identifier, digest).map_err(|error| told(&error))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = provider.key_provider.load_private_key(key).map_err(|error| told(&error))?;
    // The library would parse the certificate, and refuses the critical extension.
    let certified = CertifiedKey::new(vec![der], key);
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| told(&error))?;
    let builder = builder.with_no_client_auth();
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.enable_secret_extraction = true;
    config.key_log = Arc::new(SecretListener { logs: false });
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Makes the certificate that answers a validation (RFC 8737 section 3), and its key.
fn proof(
    identifier: &str,
    digest: &[u8; 32],
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![identifier.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let der = params.self_signed(&key)?.der().clone();
    Ok((der, PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
}

/// Makes a self-signed certificate for these names, with a new key that nobody else has.
///
/// # Errors
/// Fails with the library's reason why a name cannot be in a certificate.
pub(crate) fn placeholder(names: &[String]) -> Result<CertificateSource, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, "no certificate yet (lariat)");
    // RFC 5280 section 4.1.2.5: the certificate has no well-defined end.
    params.not_after = date_time_ymd(9999, 12, 31) + Duration::from_secs(86_399);
    let pem = params.self_signed(&key)?.pem() + &key.serialize_pem();
    Ok(CertificateSource::whole("self-signed placeholder", pem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_asked_for_by_its_reverse_name() {
        for (identifier, name) in [
            ("A.example", "a.example"),
            ("192.0.2.1", "1.2.0.192.in-addr.arpa"),
            ("::1", &*format!("1.{}ip6.arpa", "0.".repeat(31))),
        ] {
            assert_eq!(asked_name(identifier), name);
            let (answers, _) = answers(&[(identifier.to_owned(), [7; 32])]);
            assert!(answers.contains_key(name));
        }
    }

    #[test]
    fn a_proof_is_for_one_name_and_holds_the_digest_in_a_critical_extension() {
        let (der, _) = proof("a.example", &[7; 32]).unwrap();
        let has = |bytes: &[u8]| der.windows(bytes.len()).any(|window| window == bytes);
        let head = [6, 8, 43, 6, 1, 5, 5, 7, 1, 31, 1, 1, 255, 4, 34, 4, 32];
        assert!(has(&[&head[..], &[7; 32]].concat()));
        // subjectAltName: a SEQUENCE of one dNSName.
        assert!(has(&[&[48, 11, 130, 9][..], b"a.example"].concat()));
    }
}
