//! Certificates for the servers under test: a root, and ECDSA P-256 leaves beneath it.

use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::RootCertStore;

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
    pub(crate) fn write_leaf(&self, name: &str, path: &Path) -> Result<()> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = params.signed_by(&key, &self.issuer)?;
        let pem = [leaf.pem(), self.certificate.pem(), key.serialize_pem()].concat();
        std::fs::write(path, pem).with_context(|| format!("cannot write {}", path.display()))
    }
}
