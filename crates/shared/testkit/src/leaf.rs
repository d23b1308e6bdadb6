//! A certificate for a server or a client, with its chain and key.

use std::path::PathBuf;
use std::sync::OnceLock;

use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::directory::Directory;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Key {
    EcdsaP256,
    EcdsaP384,
    Ed25519,
    /// RSA of 2048 bits; one key per process, because making one is slow.
    Rsa2048,
}

impl Key {
    /// Makes a new key, PKCS #8 in PEM.
    pub fn generate_pem(self) -> String {
        self.generate().serialize_pem()
    }

    pub(crate) fn generate(self) -> KeyPair {
        let made = match self {
            Self::EcdsaP256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            Self::EcdsaP384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
            Self::Ed25519 => KeyPair::generate_for(&PKCS_ED25519),
            Self::Rsa2048 => KeyPair::from_pem(rsa_pem()),
        };
        made.expect("these algorithms are all there")
    }
}

fn rsa_pem() -> &'static str {
    static PEM: OnceLock<String> = OnceLock::new();
    PEM.get_or_init(|| {
        let key = KeyPair::generate_for(&PKCS_RSA_SHA256).expect("RSA keys can be made");
        key.serialize_pem()
    })
}

/// Returns the certificates of a PEM text as DER.
pub fn certificates(pem: &str) -> Vec<Vec<u8>> {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes());
    certificates.map(|one| one.expect("the text is PEM").to_vec()).collect()
}

#[derive(Clone, Debug)]
pub struct Leaf {
    pub(crate) certificate_pem: String,
    pub(crate) above_pem: String,
    pub(crate) certificate_der: Vec<u8>,
    pub(crate) key_pem: String,
    pub(crate) serial: u64,
}

impl Leaf {
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Returns the leaf and any intermediates, in the order in which a server sends them.
    pub fn chain_pem(&self) -> String {
        format!("{}{}", self.certificate_pem, self.above_pem)
    }

    pub fn certificate_der(&self) -> &[u8] {
        &self.certificate_der
    }

    pub fn serial(&self) -> u64 {
        self.serial
    }

    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// Returns the leaf with these certificates above it.
    #[must_use]
    pub fn above(mut self, pem: &str) -> Self {
        pem.clone_into(&mut self.above_pem);
        self
    }

    /// Returns chain and key as one file.
    pub fn pem(&self) -> String {
        format!("{}{}", self.chain_pem(), self.key_pem)
    }

    /// Writes chain and key into `name`.
    pub fn write(&self, directory: &Directory, name: &str) -> PathBuf {
        directory.write(name, self.pem())
    }

    pub fn write_apart(&self, directory: &Directory, name: &str) -> (PathBuf, PathBuf) {
        let chain = directory.write(format!("{name}.crt"), self.chain_pem());
        let key = directory.write(format!("{name}.key"), &self.key_pem);
        (chain, key)
    }
}
