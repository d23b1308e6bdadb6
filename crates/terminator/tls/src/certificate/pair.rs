//! Which certificate and key of a folder belong together: by the public key that both have.

use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::asn1_rs::Any;
use x509_parser::oid_registry::OID_PKCS1_RSAENCRYPTION;
use x509_parser::prelude::FromDer;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::pem::{self, BlockKind, PemFault};
use super::{load_key, parse};

/// The bits of a public key. Those of the private key's other half are the same.
pub type PublicKeyBits = Vec<u8>;

/// What a file has to offer to pairs of certificate and key.
#[derive(Debug, Default)]
pub struct PemContents {
    /// Whether there is no block at all.
    pub is_blank: bool,
    /// How many certificates are in it.
    pub certificates: usize,
    /// The first of them, in DER, with its public key; `None` = it cannot be read.
    pub leaf: Option<(Vec<u8>, PublicKeyBits)>,
    /// Whether the first is an authority's.
    pub is_of_authority: bool,
    /// Whether a private key is in it, encrypted or not.
    pub has_key: bool,
    /// The public keys of the private ones that can be read.
    pub keys: Vec<PublicKeyBits>,
}

impl PemContents {
    /// Looks into a file. A key that is no RSA key costs what loading it costs.
    ///
    /// # Errors
    /// Why it cannot be read; then nobody knows what is in it.
    pub fn of(bytes: &[u8]) -> Result<Self, PemFault> {
        let blocks = pem::read(bytes)?;
        let mut contents = Self {
            is_blank: blocks.is_empty(),
            ..Self::default()
        };
        for block in blocks {
            match block.kind {
                BlockKind::Certificate => {
                    if contents.certificates == 0 {
                        contents.take_leaf(&block.der);
                    }
                    contents.certificates += 1;
                }
                BlockKind::PrivateKey => {
                    contents.has_key = true;
                    contents.keys.extend(public_key_of(&block.der));
                }
                BlockKind::EncryptedKey => contents.has_key = true,
                BlockKind::RevocationList | BlockKind::Parameters | BlockKind::Other => {}
            }
        }
        Ok(contents)
    }

    fn take_leaf(&mut self, der: &[u8]) {
        if let Ok(read) = parse(0, &CertificateDer::from(der)) {
            self.is_of_authority = read.is_ca();
            let key = read.public_key();
            let is_rsa = key.algorithm.algorithm == OID_PKCS1_RSAENCRYPTION;
            let bits = &*key.subject_public_key.data;
            let content = |bits| Any::from_der(bits).map_or(bits, |(_, sequence)| sequence.data);
            let bits = if is_rsa { content(bits) } else { bits };
            self.leaf = Some((der.to_vec(), bits.to_vec()));
        }
    }
}

fn public_key_of(der: &[u8]) -> Option<PublicKeyBits> {
    let key = PrivateKeyDer::try_from(der).ok()?;
    if let Some(public) = public_rsa_key(&key) {
        return Some(public);
    }
    let key = load_key(key.clone_key()).ok()?;
    let public = key.public_key()?;
    let (_, read) = SubjectPublicKeyInfo::from_der(&public).ok()?;
    Some(read.subject_public_key.data.to_vec())
}

/// Modulus and exponent as they stand in the key (RFC 8017 appendix A.1.2): loading one costs
/// the library a quarter of a millisecond.
fn public_rsa_key(key: &PrivateKeyDer<'_>) -> Option<PublicKeyBits> {
    let pkcs1 = match key {
        PrivateKeyDer::Pkcs1(key) => key.secret_pkcs1_der(),
        PrivateKeyDer::Pkcs8(key) => {
            let info = elements::<3>(key.secret_pkcs8_der())?;
            Any::from_der(info[2]).ok()?.1.data
        }
        _ => return None,
    };
    // Behind the version come modulus and exponent; other kinds of keys have no five elements.
    let [version, modulus, exponent, _, _] = elements::<5>(pkcs1)?;
    (version == [2, 1, 0]).then(|| [modulus, exponent].concat())
}

/// The first elements of a sequence, with their headers.
fn elements<const COUNT: usize>(der: &[u8]) -> Option<[&[u8]; COUNT]> {
    let mut rest = Any::from_der(der).ok()?.1.data;
    let mut found = [rest; COUNT];
    for element in &mut found {
        let (behind, _) = Any::from_der(rest).ok()?;
        *element = &rest[..rest.len() - behind.len()];
        rest = behind;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::authority::Authority;
    use testkit::leaf::Key;

    #[test]
    fn a_key_of_each_kind_is_paired_with_its_certificate_alone() {
        let root = Authority::root("root");
        let kinds = [Key::EcdsaP256, Key::EcdsaP384, Key::Ed25519, Key::Rsa2048];
        let both = kinds.map(|kind| {
            let leaf = root.leaf(&["a.example"]).key(kind).issue();
            let of = |pem: &str| PemContents::of(pem.as_bytes()).expect("PEM");
            (of(&leaf.chain_pem()), of(leaf.key_pem()))
        });
        for (at, (chain, _)) in both.iter().enumerate() {
            let leaf = chain.leaf.as_ref().expect("a leaf");
            assert!(!chain.is_of_authority && !chain.has_key);
            for (other, (_, key)) in both.iter().enumerate() {
                assert_eq!(key.keys == [leaf.1.clone()], at == other, "{at} {other}");
            }
        }
    }
}
