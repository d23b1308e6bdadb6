//! References in the place of private keys: PEM text that names a key by its public half, so that a
//! process can serve a certificate without the key.
//!
//! Owns the form of a reference, and taking keys out of text. Who holds the key, and signs, is
//! `signing`'s.

use base64ct::{Base64, Encoding};
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use super::pem::{self, BlockKind, PemBlock, REFERENCE_LABEL};
use crate::options::CertificateSource;
use crate::signing::HeldKey;

/// A reference to the key with that public half (DER).
pub fn reference(public_key: &[u8]) -> String {
    block(REFERENCE_LABEL, public_key)
}

/// A reference to the key of the first certificate in a text, with that public half; `None` = it
/// holds none.
pub fn reference_to_leaf(chain_pem: &[u8]) -> Option<(String, Vec<u8>)> {
    let blocks = pem::read(chain_pem).ok()?;
    let der = CertificateDer::from(pem::all_of(blocks, BlockKind::Certificate).next()?);
    let (_, leaf) = X509Certificate::from_der(&der).ok()?;
    let public_key = leaf.public_key().raw.to_vec();
    Some((reference(&public_key), public_key))
}

/// The private key of a certificate in DER; `None` = it has none, or a reference.
pub fn key_of(source: &CertificateSource) -> Option<Zeroizing<Vec<u8>>> {
    let blocks = pem::read(source.key_pem.as_ref().unwrap_or(&source.chain_pem)).ok()?;
    pem::all_of(blocks, BlockKind::PrivateKey).next().map(Zeroizing::new)
}

/// A file's text with references in the place of private keys; `None` = it holds none. Keys that
/// nobody can use are left out, and so is all text around blocks.
pub fn without_keys(text: &[u8]) -> Option<Vec<u8>> {
    let Ok(blocks) = pem::read(text) else {
        // A damaged block may be most of a key.
        let is_key = text.windows(KEY_WORDS.len()).any(|part| part == KEY_WORDS);
        return is_key.then(Vec::new);
    };
    let is_key =
        |one: &PemBlock| matches!(one.kind, BlockKind::PrivateKey | BlockKind::EncryptedKey);
    if !blocks.iter().any(is_key) {
        return None;
    }
    let kept = blocks.iter().filter_map(|one| match one.kind {
        BlockKind::PrivateKey => {
            let public_key = HeldKey::read(&one.der)?.public_key()?;
            Some(reference(&public_key))
        }
        BlockKind::Certificate => Some(block("CERTIFICATE", &one.der)),
        BlockKind::RevocationList => Some(block("X509 CRL", &one.der)),
        BlockKind::KeyReference => Some(reference(&one.der)),
        BlockKind::EncryptedKey | BlockKind::Parameters | BlockKind::Other => None,
    });
    Some(kept.collect::<String>().into_bytes())
}

const KEY_WORDS: &[u8] = b"PRIVATE KEY";

fn block(label: &str, der: &[u8]) -> String {
    let encoded = Base64::encode_string(der);
    format!("-----BEGIN {label}-----\n{encoded}\n-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::authority::Authority;
    use testkit::leaf::Key;

    #[test]
    fn a_text_without_its_key_still_says_whose_it_is() {
        let root = Authority::root("root");
        for kind in [Key::EcdsaP256, Key::Ed25519, Key::Rsa2048] {
            let leaf = root.leaf(&["a.example"]).key(kind).issue();
            let whole = CertificateSource::whole("x", leaf.pem());
            let key = key_of(&whole).expect("a key");
            let without = without_keys(leaf.pem().as_bytes()).expect("changed");
            let text = String::from_utf8(without.clone()).expect("text");
            assert!(!text.contains("PRIVATE KEY"), "{text}");
            let part = Base64::encode_string(&key[key.len() - 24..]);
            assert!(!text.contains(&part), "no part of it is left");
            let (wanted, _) = reference_to_leaf(leaf.chain_pem().as_bytes()).expect("a leaf");
            assert!(text.ends_with(&wanted), "{text}");
            assert_eq!(without_keys(&without), None, "nothing is left to take out");
            let source = CertificateSource::whole("x", without);
            assert!(key_of(&source).is_none());
            let (certificate, _) = crate::certificate::Certificate::load(&source).expect("loads");
            assert_eq!(&*certificate.names, [Box::from("a.example")]);
        }
        assert_eq!(without_keys(root.pem().as_bytes()), None);
        assert_eq!(without_keys(b"-----BEGIN PRIVATE KEY-----\nMC4C"), Some(Vec::new()));
    }

    #[test]
    fn a_reference_to_another_key_is_a_mismatch() {
        let root = Authority::root("root");
        let (one, other) = (root.leaf(&["a"]).issue(), root.leaf(&["b"]).issue());
        let (wrong, _) = reference_to_leaf(other.chain_pem().as_bytes()).expect("a leaf");
        let source = CertificateSource::whole("x", one.chain_pem() + &wrong);
        let loaded = crate::certificate::Certificate::load(&source);
        let fault = loaded.expect_err("another's").fault;
        assert_eq!(fault, crate::certificate::CertificateFault::KeyMismatch);
    }
}
