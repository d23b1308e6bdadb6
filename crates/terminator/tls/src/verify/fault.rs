//! What can be wrong with the verification of clients, and with a client's certificate.

use rustls::{CertificateError, Error};
use telemetry::outcome::Reason;

use crate::validity::Span;

/// Why clients cannot be verified.
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

/// What is wrong with a file of authorities or revocation lists. What stands in it is counted from
/// 1.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FileFault {
    /// It is no valid PEM, in these words with their remedy.
    #[error("{0}")]
    Pem(String),
    /// It holds no CERTIFICATE block.
    #[error("holds no certificate; a CA bundle is made of BEGIN CERTIFICATE blocks")]
    NoCertificate,
    /// This certificate in it cannot be a trust anchor.
    #[error("certificate {0} cannot be an authority (no valid X.509 version 3); remove it")]
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

/// What an operator should know about a revocation list: its file, its issuer's distinguished
/// name, and what it is.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{place}: the revocation list of \"{issuer}\" {concern}")]
pub struct VerifyConcern {
    /// The file.
    pub place: String,
    /// A distinguished name.
    pub issuer: String,
    /// What it is.
    pub concern: ListConcern,
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
pub enum ListConcern {
    /// It is past its nextUpdate, and clients are refused for it.
    #[error(
        "is past its nextUpdate: clients with certificates of this issuer are refused; fetch a \
         newer list and reload, or write crl-expired = \"accept\""
    )]
    Refuses,
    /// It is past its nextUpdate, and counts all the same.
    #[error(
        "is past its nextUpdate and still counts (crl-expired = \"accept\"), but what was revoked \
         since is accepted; fetch a newer list and reload"
    )]
    StillCounts,
    /// It is close to its nextUpdate.
    #[error("reaches its nextUpdate in {0}; fetch a newer list and reload")]
    EndsSoon(Span),
}

/// Why a client's certificate was refused, by the library's error; `None` = it was not.
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
        Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => {
            Reason::ClientCertificateRefused
        }
        _ => return None,
    })
}
