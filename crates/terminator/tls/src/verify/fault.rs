//! Faults of the files by which clients and servers are verified, the reading of these files, and
//! faults of a client's certificate.

use rustls::{CertificateError, Error, InvalidMessage, OtherError};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use telemetry::outcome::Reason;
use wire::certificate_chain::ChainFault;

use crate::certificate::pem::{self, BlockKind, PemBlock};
use crate::options::PemSource;
use crate::validity::Span;

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum VerifyFault {
    /// Certificates are requested, and no authority is named.
    #[error(
        "client certificates are asked for but no authority is named; name the CA bundle that \
         issues them"
    )]
    NoAuthority,
    /// Servers must be verified by the host's authorities, and it has none.
    #[error(
        "this host's bundle of authorities holds none that can be used; name those of the servers \
         in `ca`"
    )]
    NoHostAuthority,
    /// A file, and its fault.
    #[error("{0}: {1}")]
    File(String, FileFault),
}

/// Fault of a file of authorities or revocation lists. Its contents are counted from 1.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FileFault {
    /// The file is no valid PEM, in these words with their remedy.
    #[error("{0}")]
    Pem(String),
    /// The file holds no CERTIFICATE block.
    #[error("holds no certificate; a CA bundle is made of BEGIN CERTIFICATE blocks")]
    NoCertificate,
    /// This certificate in the file cannot be read.
    #[error("certificate {0} is damaged: it is no valid X.509; remove it")]
    AuthorityMalformed(usize),
    /// The file holds no X509 CRL block.
    #[error(
        "holds no revocation list; it needs a BEGIN X509 CRL block (from DER: \
         `openssl crl -inform der`)"
    )]
    NoList,
    /// This list in the file is no valid CRL of version 2.
    #[error("revocation list {0} is damaged; get it again from its CA")]
    ListMalformed(usize),
    /// This list in the file has an unsupported form, in these words.
    #[error("revocation list {0} cannot be used: {1}; ask its CA for a complete list of version 2")]
    ListUnsupported(usize, String),
}

/// A concern about a revocation list or a certificate in `ca`: its file, the distinguished name of
/// the list's issuer or of the certificate, and the concern.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{place}: the {} of \"{name}\" {concern}", .concern.subject())]
pub struct VerifyConcern {
    /// File, with the line of a certificate.
    pub place: String,
    pub name: String,
    pub concern: TrustConcern,
}

impl VerifyConcern {
    /// Returns the text for a list by which servers are verified.
    pub(crate) fn towards_servers(&self) -> String {
        let text = self.to_string();
        text.replace("clients with certificates", "servers with certificates")
    }
}

/// A concern about trust. Reads as the end of a sentence.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TrustConcern {
    /// A list is past its nextUpdate, and clients are refused because of it.
    #[error(
        "is past its nextUpdate: clients with certificates of this issuer are refused; fetch a \
         newer list and reload, or write crl-expired = \"accept\""
    )]
    Refuses,
    /// A list is past its nextUpdate, and is still used.
    #[error(
        "is past its nextUpdate and still counts (crl-expired = \"accept\"), but what was revoked \
         since is accepted; fetch a newer list and reload"
    )]
    StillCounts,
    /// A list is close to its nextUpdate.
    #[error("reaches its nextUpdate in {0}; fetch a newer list and reload")]
    EndsSoon(Span),
    /// A certificate in `ca` has expired.
    #[error(
        "expired {0} ago and is not trusted any more: who relies on it is refused; put its \
         successor in its place, or remove it"
    )]
    AuthorityOver(Span),
    /// A certificate in `ca` is close to its end.
    #[error(
        "expires in {0}, and who relies on it is refused from then on; put its successor beside it"
    )]
    AuthorityEndsSoon(Span),
    /// A certificate in `ca` is not valid yet.
    #[error("is valid only in {0}, and is trusted from then on; look at this host's clock")]
    AuthorityNotYet(Span),
    /// A certificate in `ca` may not issue for such peers.
    #[error(
        "is not trusted: its extended key usage is for something else; name one for this use, or \
         remove it"
    )]
    AuthorityOtherUse,
    /// A certificate in `ca` has an unknown critical extension.
    #[error(
        "is not trusted: it has a critical extension that is not known here (`openssl x509 -text` \
         shows it); name an authority without it"
    )]
    AuthorityUnknown,
    /// A certificate in `ca` has constraints that are not supported.
    #[error(
        "has name constraints on directory names, which are not supported: everyone with a \
         certificate below it is refused; name one with constraints on DNS names, or \
         put the certificates of an authority below it in its place"
    )]
    AuthorityDirectoryNames,
}

impl TrustConcern {
    fn subject(self) -> &'static str {
        match self {
            Self::Refuses | Self::StillCounts | Self::EndsSoon(_) => "revocation list",
            Self::AuthorityOver(_)
            | Self::AuthorityEndsSoon(_)
            | Self::AuthorityNotYet(_)
            | Self::AuthorityOtherUse
            | Self::AuthorityUnknown
            | Self::AuthorityDirectoryNames => "certificate",
        }
    }
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum ChainRefusal {
    #[error(transparent)]
    Library(#[from] webpki::Error),
    /// The chain was not verified.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    #[error("its key usage has no digitalSignature, so that its key may sign no handshake")]
    KeyUsage,
}

/// The library's error for a chain with a certificate of no bytes.
pub(super) const EMPTY_CERTIFICATE: InvalidMessage = InvalidMessage::MissingData("Certificate");

/// Reports whether the library's error is [`EMPTY_CERTIFICATE`].
pub(crate) fn is_empty_certificate(error: &Error) -> bool {
    matches!(error, Error::InvalidMessage(message) if *message == EMPTY_CERTIFICATE)
}

/// Reports whether the library's error represents a chain that was not verified.
pub(crate) fn is_chain_fault(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(OtherError(why)) if why.is::<ChainFault>())
}

/// Describes a faulty CertificateVerify with a good certificate; `None` = no such fault.
pub(crate) fn signature_fault(error: &Error) -> Option<&'static str> {
    let Error::InvalidCertificate(error) = error else {
        return None;
    };
    match error {
        CertificateError::BadSignature => Some("does not verify"),
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            Some("is of a signature scheme that does not fit the key of its certificate")
        }
        _ => None,
    }
}

/// Reports whether a certificate is X.509 of version 1 or 2.
fn is_of_old_version(error: &CertificateError) -> bool {
    let CertificateError::Other(OtherError(why)) = error else {
        return false;
    };
    why.downcast_ref() == Some(&webpki::Error::UnsupportedCertVersion)
}

/// Returns why a client's certificate was refused, by the library's error; `None` = it was not.
pub(crate) fn refusal_of(error: &Error) -> Option<Reason> {
    Some(match error {
        Error::InvalidCertificate(CertificateError::Revoked) => Reason::ClientCertificateRevoked,
        Error::InvalidCertificate(
            CertificateError::ExpiredRevocationList
            | CertificateError::ExpiredRevocationListContext { .. },
        ) => Reason::CrlExpired,
        Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            Reason::ClientCertificateNotAllowed
        }
        Error::InvalidCertificate(fault) if is_chain_fault(fault) => Reason::ClientChainLimit,
        Error::InvalidCertificate(fault) if is_of_old_version(fault) => {
            Reason::ClientCertificateVersion
        }
        Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => {
            Reason::ClientCertificateRefused
        }
        _ => return None,
    })
}

/// Returns all certificates of a file (at least one), each with its line.
pub(super) fn read_certificates(
    source: &PemSource,
) -> Result<Vec<(usize, CertificateDer<'static>)>, VerifyFault> {
    let read = read_blocks(source, BlockKind::Certificate, FileFault::NoCertificate)?;
    let certificate = |mut block: PemBlock| (block.line, std::mem::take(&mut *block.der).into());
    Ok(read.into_iter().map(certificate).collect())
}

/// Returns all revocation lists of a file (at least one).
pub(super) fn read_revocation_lists(
    source: &PemSource,
) -> Result<Vec<CertificateRevocationListDer<'static>>, VerifyFault> {
    let read = read_blocks(source, BlockKind::RevocationList, FileFault::NoList)?;
    let list = |mut block: PemBlock| std::mem::take(&mut *block.der).into();
    Ok(read.into_iter().map(list).collect())
}

fn read_blocks(
    source: &PemSource,
    kind: BlockKind,
    empty: FileFault,
) -> Result<Vec<PemBlock>, VerifyFault> {
    let mut blocks = pem::read(&source.pem).map_err(|fault| {
        let line = fault.line.map(|line| format!(":{line}"));
        let place = format!("{}{}", source.place, line.unwrap_or_default());
        VerifyFault::File(place, FileFault::Pem(fault.sentence(&source.place)))
    })?;
    // OpenSSL appends the trusted and rejected uses to such a certificate.
    if let Some(block) = blocks.iter().find(|one| one.label == "TRUSTED CERTIFICATE") {
        let text = "has a TRUSTED CERTIFICATE, whose trusted and rejected uses are not read; name a \
                    file of plain certificates (`openssl x509 -in FILE -out FILE.pem` writes one)";
        let place = format!("{}:{}", source.place, block.line);
        return Err(VerifyFault::File(place, FileFault::Pem(text.to_owned())));
    }
    blocks.retain(|block| block.kind == kind);
    if blocks.is_empty() {
        return Err(fault_in(source, empty));
    }
    Ok(blocks)
}

/// Creates the fault with the line of the block at fault, if it is a single one.
pub(super) fn fault_in(source: &PemSource, fault: FileFault) -> VerifyFault {
    let place = &source.place;
    let line = match fault {
        FileFault::AuthorityMalformed(number) => {
            pem::line_of(&source.pem, BlockKind::Certificate, number - 1)
        }
        FileFault::ListMalformed(number) | FileFault::ListUnsupported(number, _) => {
            pem::line_of(&source.pem, BlockKind::RevocationList, number - 1)
        }
        FileFault::Pem(_) | FileFault::NoCertificate | FileFault::NoList => None,
    };
    let place = line.map_or_else(|| place.clone(), |line| format!("{place}:{line}"));
    VerifyFault::File(place, fault)
}
