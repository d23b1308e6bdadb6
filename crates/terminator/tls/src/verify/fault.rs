//! The faults of the files that clients and servers are verified by, which are read here,
//! and with a client's certificate.

use rustls::{CertificateError, Error, InvalidMessage, OtherError};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use telemetry::outcome::Reason;
use wire::certificate_chain::ChainFault;

use crate::certificate::pem::{self, BlockKind, PemBlock};
use crate::options::PemSource;
use crate::validity::Span;

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum VerifyFault {
    /// Certificates are asked for, and no authority is named.
    #[error(
        "client certificates are asked for but no authority is named; name the CA bundle that \
         issues them"
    )]
    NoAuthority,
    /// Servers are to be verified by the host's authorities, and it has none.
    #[error(
        "this host's bundle of authorities holds none that can be used; name those of the servers \
         in `ca`"
    )]
    NoHostAuthority,
    /// A file, and what is wrong with it.
    #[error("{0}: {1}")]
    File(String, FileFault),
}

/// The fault of a file of authorities or revocation lists. Its contents are counted from
/// 1.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FileFault {
    /// It is no valid PEM, in these words with their remedy.
    #[error("{0}")]
    Pem(String),
    /// It holds no CERTIFICATE block.
    #[error("holds no certificate; a CA bundle is made of BEGIN CERTIFICATE blocks")]
    NoCertificate,
    /// This certificate in it cannot be read.
    #[error("certificate {0} is damaged: it is no valid X.509; remove it")]
    AuthorityMalformed(usize),
    /// It holds no X509 CRL block.
    #[error(
        "holds no revocation list; it needs a BEGIN X509 CRL block (from DER: \
         `openssl crl -inform der`)"
    )]
    NoList,
    /// This list in it is no valid CRL of version 2.
    #[error("revocation list {0} is damaged; get it again from its CA")]
    ListMalformed(usize),
    /// This list in it is of a form that cannot be used, in these words.
    #[error("revocation list {0} cannot be used: {1}; ask its CA for a complete list of version 2")]
    ListUnsupported(usize, String),
}

/// A concern about a revocation list or a certificate in `ca`: its file, its
/// issuer's distinguished name or its own, and what it is.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{place}: the {} of \"{name}\" {concern}", .concern.subject())]
pub struct VerifyConcern {
    /// The file, with the line of a certificate.
    pub place: String,
    pub name: String,
    pub concern: TrustConcern,
}

impl VerifyConcern {
    /// The same of a list that servers are held against.
    pub(crate) fn towards_servers(&self) -> String {
        let text = self.to_string();
        text.replace("clients with certificates", "servers with certificates")
    }
}

/// Reads as the end of a sentence.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TrustConcern {
    /// A list is past its nextUpdate, and clients are refused for it.
    #[error(
        "is past its nextUpdate: clients with certificates of this issuer are refused; fetch a \
         newer list and reload, or write crl-expired = \"accept\""
    )]
    Refuses,
    /// A list is past its nextUpdate, and counts all the same.
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
    /// A certificate in `ca` may not vouch for such peers.
    #[error(
        "is not trusted: its extended key usage is for something else; name one for this use, or \
         remove it"
    )]
    AuthorityOtherUse,
    /// A certificate in `ca` says something that is not understood.
    #[error(
        "is not trusted: it has a critical extension that is not known here (`openssl x509 -text` \
         shows it); name an authority without it"
    )]
    AuthorityUnknown,
    /// A certificate in `ca` has constraints that cannot be judged.
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
    /// It was not looked at.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    #[error("its key usage has no digitalSignature, so that its key may sign no handshake")]
    KeyUsage,
}

/// In the library's error for a chain with a certificate that has no bytes.
pub(super) const EMPTY_CERTIFICATE: InvalidMessage = InvalidMessage::MissingData("Certificate");

/// Whether the library's error is that one.
pub(crate) fn is_empty_certificate(error: &Error) -> bool {
    matches!(error, Error::InvalidMessage(message) if *message == EMPTY_CERTIFICATE)
}

/// Whether the library's error stands for a chain that was not looked at.
pub(crate) fn is_chain_fault(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(OtherError(why)) if why.is::<ChainFault>())
}

/// Whether a CertificateVerify is at fault, with a certificate that was found good: then words.
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

/// X.509 of version 1 or 2.
fn is_of_old_version(error: &CertificateError) -> bool {
    let CertificateError::Other(OtherError(why)) = error else {
        return false;
    };
    why.downcast_ref() == Some(&webpki::Error::UnsupportedCertVersion)
}

/// The reason why a client's certificate was refused, by the library's error; `None` = it was not.
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

/// All certificates of a file, each with the line where it begins; there is one at least.
pub(super) fn read_certificates(
    source: &PemSource,
) -> Result<Vec<(usize, CertificateDer<'static>)>, VerifyFault> {
    let read = read_blocks(source, BlockKind::Certificate, FileFault::NoCertificate)?;
    let certificate = |mut block: PemBlock| (block.line, std::mem::take(&mut *block.der).into());
    Ok(read.into_iter().map(certificate).collect())
}

/// All revocation lists of a file; there is one at least.
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
    // OpenSSL writes behind such a certificate what it is trusted for, and what not.
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

/// With the line of the block at fault, if it is one.
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
