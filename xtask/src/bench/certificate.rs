//! Certificates for the servers under test: a root with an ECDSA P-256 key, and leaves beneath it.

use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256,
};
use rustls::RootCertStore;

/// The key of a leaf.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Key {
    /// ECDSA on P-256.
    P256,
    /// RSA of 2048 bits.
    Rsa2048,
}

/// A root that issues leaves.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

impl Authority {
    /// Makes a new root.
    pub(crate) fn generate() -> Result<Self> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::new(Vec::new())?;
        params
            .distinguished_name
            .push(DnType::CommonName, "Benchmark root");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        let issuer = Issuer::new(params, key);
        Ok(Self {
            issuer,
            certificate,
        })
    }

    /// What a client that trusts only this root is told.
    pub(crate) fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone())?;
        Ok(roots)
    }

    /// Writes one PEM file: a leaf for `name`, this root, the leaf's key.
    ///
    /// The root goes along as an intermediate would: servers send two certificates, as they do
    /// on the internet.
    pub(crate) fn write_leaf_with(&self, key: Key, name: &str, path: &Path) -> Result<()> {
        let key = KeyPair::generate_for(match key {
            Key::P256 => &PKCS_ECDSA_P256_SHA256,
            Key::Rsa2048 => &PKCS_RSA_SHA256,
        })?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = params.signed_by(&key, &self.issuer)?;
        let pem = [leaf.pem(), self.certificate.pem(), key.serialize_pem()].concat();
        std::fs::write(path, pem).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The same with a P-256 key.
    pub(crate) fn write_leaf(&self, name: &str, path: &Path) -> Result<()> {
        self.write_leaf_with(Key::P256, name, path)
    }
}
