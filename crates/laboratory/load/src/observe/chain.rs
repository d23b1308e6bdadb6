//! Whether a chain of certificates leads to a trusted root.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs as library;
use rustls::{Error, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use wire::ocsp::{OcspHash, SignatureAlgorithms};

use crate::channel::certificate_failure;
use crate::failure::TransactionFailure;
use crate::tls::verifier::bounded;

#[derive(Clone, Debug)]
pub struct TrustedRoots {
    verifier: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Path {
    /// It leads to a root.
    Trusted,
    /// No issuer of its certificates is a root.
    UnknownIssuer,
    /// It leads to a root, and something in it was not valid at that time.
    NotInTime,
    /// Looking for a way would cost too much.
    TooLong,
    /// Something in it is wrong.
    Broken,
}

impl TrustedRoots {
    /// The roots in a text of PEM. Such that cannot be read are left out, as systems have some of
    /// them. `None` = there is none.
    #[must_use]
    pub fn read(pem: &[u8]) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
        let certificates: Vec<_> = certificates.collect();
        let (taken, _) = roots.add_parsable_certificates(certificates.iter().cloned());
        if taken == 0 {
            return None;
        }
        let provider = Arc::new(library::default_provider());
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.build().ok().map(|verifier| Self { verifier, certificates })
    }

    /// The roots themselves, DER.
    pub fn certificates(&self) -> impl Iterator<Item = &[u8]> {
        self.certificates.iter().map(AsRef::as_ref)
    }

    /// Looks for a way from the first certificate to a root, at a second of Unix time. For which
    /// name it is does not matter.
    #[must_use]
    pub fn path(&self, chain: &[Vec<u8>], at_s: u64) -> Path {
        let chain: Vec<_> = chain.iter().map(|one| CertificateDer::from(&**one)).collect();
        let Some((leaf, above)) = chain.split_first() else {
            return Path::Broken;
        };
        // The library takes no root for a server's own certificate; clients do.
        if self.certificates.contains(leaf) {
            return Path::Trusted;
        }
        let Ok(above) = bounded(leaf, above) else {
            return Path::TooLong;
        };
        // The name is looked at after all else, so that one that nobody has tells of the rest.
        let name = ServerName::try_from("name.invalid").expect("it is a host name");
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at_s));
        match self.verifier.verify_server_cert(leaf, &above, &name, &[], at) {
            Ok(_) => Path::Trusted,
            Err(Error::InvalidCertificate(wrong)) => match certificate_failure(&wrong) {
                TransactionFailure::CertificateName => Path::Trusted,
                TransactionFailure::CertificateIssuer => Path::UnknownIssuer,
                TransactionFailure::CertificateTime => Path::NotInTime,
                _ => Path::Broken,
            },
            Err(_) => Path::Broken,
        }
    }
}

/// SHA-256 of a certificate, in hexadecimal.
#[must_use]
pub fn fingerprint(certificate: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, certificate);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The algorithms of signatures that connections take.
#[must_use]
pub fn signature_algorithms() -> SignatureAlgorithms<'static> {
    library::default_provider().signature_verification_algorithms.all
}

/// Whether bytes have this hash.
#[must_use]
pub fn is_hash(kind: OcspHash, hash: &[u8], bytes: &[u8]) -> bool {
    let known = match kind {
        OcspHash::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        OcspHash::Sha256 => &digest::SHA256,
        OcspHash::Sha384 => &digest::SHA384,
        OcspHash::Sha512 => &digest::SHA512,
    };
    digest::digest(known, bytes).as_ref() == hash
}
