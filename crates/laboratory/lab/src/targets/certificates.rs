//! Makes the certificates of every server under test: the same keys for all of them.
//!
//! There is an authority for each kind of signature, and below it a certificate for each kind of
//! key, for `localhost` and loopback. They are made at their first use, and stay in their folder.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pem_rfc7468::LineEnding;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256,
    RsaKeySize,
};
use serde::Serialize;

use super::form::{ServerKeyKind, ServerSpec};

pub(crate) struct TargetCertificates {
    folder: PathBuf,
    elliptic: Issuer<'static, KeyPair>,
    /// Certificate of the ECDSA authority, PEM.
    elliptic_pem: String,
    rsa: Issuer<'static, KeyPair>,
    /// Certificate of the RSA authority, PEM.
    rsa_pem: String,
    made: RefCell<BTreeMap<ServerKeyKind, TargetCertificateFiles>>,
    sites: RefCell<BTreeMap<u32, PathBuf>>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct TargetCertificateFiles {
    pub(crate) kind: ServerKeyKind,
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
    /// File with certificate and key.
    pub(crate) both: PathBuf,
}

impl TargetCertificates {
    /// Makes the authorities, in a folder that exists.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let (elliptic, elliptic_pem) = authority("ECDSA", generate(ServerKeyKind::P256)?)?;
        let (rsa, rsa_pem) = authority("RSA", generate(ServerKeyKind::Rsa2048)?)?;
        Ok(Self {
            folder: folder.to_owned(),
            elliptic,
            elliptic_pem,
            rsa,
            rsa_pem,
            made: RefCell::default(),
            sites: RefCell::default(),
        })
    }

    /// Returns the file of the ECDSA authority's certificate, PEM.
    pub(crate) fn authority(&self) -> io::Result<PathBuf> {
        let path = self.folder.join("authority.crt");
        fs::write(&path, &self.elliptic_pem)?;
        Ok(path)
    }

    /// Returns the file of all authorities' certificates, PEM.
    pub(crate) fn authorities(&self) -> io::Result<PathBuf> {
        let path = self.folder.join("authorities.crt");
        fs::write(&path, [&*self.elliptic_pem, &*self.rsa_pem].concat())?;
        Ok(path)
    }

    /// Returns the certificates that a server of this spec may show, PEM.
    pub(crate) fn shown(&self, spec: &ServerSpec) -> io::Result<Vec<u8>> {
        if let Some(last) = spec.sites.checked_sub(1) {
            let folder = self.sites(spec.sites)?;
            return fs::read(folder.join(format!("{}.pem", site_name(last))));
        }
        let mut pem = Vec::new();
        for kind in &spec.certificates {
            pem.extend(fs::read(self.of(*kind)?.chain)?);
        }
        Ok(pem)
    }

    /// Makes a folder with `count` certificates, each with a P-256 key and a name of its own
    /// ([`site_name`]): a PEM file for each, with its authority's certificate and its key.
    pub(crate) fn sites(&self, count: u32) -> io::Result<PathBuf> {
        if let Some(folder) = self.sites.borrow().get(&count) {
            return Ok(folder.clone());
        }
        let folder = self.folder.join(format!("sites-{count}"));
        fs::create_dir(&folder)?;
        for site in 0..count {
            let name = site_name(site);
            let key = generate(ServerKeyKind::P256)?;
            let leaf = leaf(vec![name.clone()])?;
            let leaf = leaf.signed_by(&key, &self.elliptic).map_err(unmade)?.pem();
            let text = [leaf, self.elliptic_pem.clone(), secret_pem(&key)?].concat();
            write_secret(&folder.join(format!("{name}.pem")), &text)?;
        }
        self.sites.borrow_mut().insert(count, folder.clone());
        Ok(folder)
    }

    pub(crate) fn of(&self, kind: ServerKeyKind) -> io::Result<TargetCertificateFiles> {
        if let Some(files) = self.made.borrow().get(&kind) {
            return Ok(files.clone());
        }
        let files = self.make(kind)?;
        self.made.borrow_mut().insert(kind, files.clone());
        Ok(files)
    }

    fn make(&self, kind: ServerKeyKind) -> io::Result<TargetCertificateFiles> {
        let key = generate(kind)?;
        let leaf = leaf(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        let issuer = match kind {
            ServerKeyKind::Rsa2048 | ServerKeyKind::Rsa3072 | ServerKeyKind::Rsa4096 => &self.rsa,
            ServerKeyKind::P256 | ServerKeyKind::P384 | ServerKeyKind::Ed25519 => &self.elliptic,
        };
        let chain = leaf.signed_by(&key, issuer).map_err(unmade)?.pem();
        let secret = secret_pem(&key)?;
        let path = |ending: &str| self.folder.join(format!("{kind}.{ending}"));
        let files = TargetCertificateFiles {
            kind,
            chain: path("crt"),
            key: path("key"),
            both: path("pem"),
        };
        fs::write(&files.chain, &chain)?;
        write_secret(&files.key, &secret)?;
        write_secret(&files.both, &(chain + &secret))?;
        Ok(files)
    }
}

pub(crate) fn site_name(site: u32) -> String {
    format!("site-{site}.localhost")
}

fn leaf(names: Vec<String>) -> io::Result<CertificateParams> {
    let common = names.first().cloned().unwrap_or_default();
    let mut leaf = CertificateParams::new(names).map_err(unmade)?;
    leaf.distinguished_name.push(DnType::CommonName, common);
    leaf.use_authority_key_identifier_extension = true;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(leaf)
}

/// Makes an authority; returns its issuer and its own certificate, PEM.
fn authority(name: &str, key: KeyPair) -> io::Result<(Issuer<'static, KeyPair>, String)> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, format!("lariat-lab {name}"));
    let pem = params.self_signed(&key).map_err(unmade)?.pem();
    Ok((Issuer::new(params, key), pem))
}

fn unmade(error: rcgen::Error) -> io::Error {
    io::Error::other(format!("a certificate cannot be made: {error}"))
}

fn generate(kind: ServerKeyKind) -> io::Result<KeyPair> {
    let rsa = |size| KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, size);
    let key = match kind {
        ServerKeyKind::Rsa2048 => rsa(RsaKeySize::_2048),
        ServerKeyKind::Rsa3072 => rsa(RsaKeySize::_3072),
        ServerKeyKind::Rsa4096 => rsa(RsaKeySize::_4096),
        ServerKeyKind::P256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        ServerKeyKind::P384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
        ServerKeyKind::Ed25519 => KeyPair::generate_for(&PKCS_ED25519),
    };
    key.map_err(unmade)
}

/// Encodes a key in PKCS #8, first version (RFC 5208), which all programs read: OpenSSL 3.0 refuses
/// the second one (RFC 5958), which the library makes of Ed25519 keys.
fn secret_pem(key: &KeyPair) -> io::Result<String> {
    let der = key.serialized_der();
    let mut windows = der.windows(ED25519_SEED.len());
    let Some(at) = windows.position(|bytes| bytes == ED25519_SEED) else {
        return Ok(key.serialize_pem());
    };
    let seed = &der[at + ED25519_SEED.len()..][..32];
    // SEQUENCE of 46 bytes, version 0.
    let first = [&[0x30, 46, 2, 1, 0], ED25519_SEED, seed].concat();
    let text = pem_rfc7468::encode_string("PRIVATE KEY", LineEnding::LF, &first);
    text.map_err(|error| io::Error::other(format!("a key cannot be written: {error}")))
}

/// The bytes before the 32 of an Ed25519 key: its algorithm, 1.3.101.112, and the heads of the two
/// octet strings around it (RFC 8410, section 7).
const ED25519_SEED: &[u8] = &[0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 34, 4, 32];

/// Writes a file that only our own user can read; servers read keys before they change their user.
fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn an_ed25519_key_is_of_the_first_version() {
        let key = generate(ServerKeyKind::Ed25519).unwrap();
        let pem = secret_pem(&key).unwrap();
        let (label, der) = pem_rfc7468::decode_vec(pem.as_bytes()).unwrap();
        assert_eq!((label, der.len(), &der[..5]), ("PRIVATE KEY", 48, &[0x30, 46, 2, 1, 0][..]));
        let again = KeyPair::try_from(der.as_slice()).unwrap();
        assert_eq!(again.public_key_pem(), key.public_key_pem());
    }

    #[test]
    fn keys_stay_the_same_and_are_ours_alone() {
        let folder = crate::process::scratch::Scratch::new().unwrap();
        let certificates = TargetCertificates::new(folder.path()).unwrap();
        let files = certificates.of(ServerKeyKind::P384).unwrap();
        let text = fs::read_to_string(&files.both).unwrap();
        certificates.of(ServerKeyKind::P384).unwrap();
        assert_eq!(fs::read_to_string(&files.both).unwrap(), text);
        assert_eq!(fs::metadata(&files.key).unwrap().mode() & 0o777, 0o600);
    }
}
