//! What can be wrong with the verification of clients, and with a client's certificate.

use std::fmt::{self, Display, Formatter};

use crate::validity::Span;

/// Why clients cannot be verified.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VerifyFault {
    /// Certificates are asked for, and no authority is named.
    NoAuthority,
    /// The file is no valid PEM.
    Pem {
        /// The file.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// The file holds no CERTIFICATE block.
    NoCertificate {
        /// The file.
        place: String,
    },
    /// A certificate in it cannot be a trust anchor.
    AuthorityMalformed {
        /// The file.
        place: String,
        /// Which one, the first is 0.
        index: usize,
    },
    /// The file holds no X509 CRL block.
    NoList {
        /// The file.
        place: String,
    },
    /// A list in it is no valid CRL of version 2, or of a form that is not supported.
    ListMalformed {
        /// The file.
        place: String,
        /// Which one, the first is 0.
        index: usize,
    },
    /// A list in it is of a form that cannot be used.
    ListUnsupported {
        /// The file.
        place: String,
        /// Which one, the first is 0.
        index: usize,
        /// What is not supported.
        what: String,
    },
}

/// What an operator should know about the verification of clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VerifyConcern {
    /// A list is past its nextUpdate.
    ListExpired {
        /// The file.
        place: String,
        /// Whose list it is, a distinguished name.
        issuer: String,
        /// Whether clients are refused for it.
        refuses: bool,
    },
    /// A list is close to its nextUpdate.
    ListExpiresSoon {
        /// The file.
        place: String,
        /// Whose list it is, a distinguished name.
        issuer: String,
        /// What is left, in seconds.
        seconds: i64,
    },
}

/// Why a client's certificate was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClientCertificateFault {
    /// Its validity, or its issuer's, has ended.
    Expired,
    /// Its validity has not begun.
    NotYetValid,
    /// It, or a certificate between it and the authority, is on a list.
    Revoked,
    /// No list of its issuer is known, or the list's signature is not the issuer's.
    RevocationUnknown,
    /// The list of its issuer, or of an issuer above, is past its nextUpdate.
    ListExpired,
    /// No known authority issued it.
    UnknownIssuer,
    /// It is not for clients (extendedKeyUsage).
    WrongPurpose,
    /// Something else; the library's words tell.
    Other,
}

impl ClientCertificateFault {
    /// What the library's error says about the client's certificate; `None` = it is not about it.
    pub fn of(error: &rustls::Error) -> Option<Self> {
        match error {
            rustls::Error::InvalidCertificate(error) => Some(Self::of_certificate(error)),
            rustls::Error::InvalidCertRevocationList(_) => Some(Self::RevocationUnknown),
            _ => None,
        }
    }

    fn of_certificate(error: &rustls::CertificateError) -> Self {
        use rustls::CertificateError as Error;
        match error {
            Error::Expired | Error::ExpiredContext { .. } => Self::Expired,
            Error::NotValidYet | Error::NotValidYetContext { .. } => Self::NotYetValid,
            Error::Revoked => Self::Revoked,
            Error::UnknownRevocationStatus => Self::RevocationUnknown,
            Error::ExpiredRevocationList | Error::ExpiredRevocationListContext { .. } => {
                Self::ListExpired
            }
            Error::UnknownIssuer => Self::UnknownIssuer,
            Error::InvalidPurpose | Error::InvalidPurposeContext { .. } => Self::WrongPurpose,
            _ => Self::Other,
        }
    }
}

impl std::error::Error for VerifyFault {}

impl Display for VerifyFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAuthority => f.write_str(
                "client certificates are asked for but no authority is named; name the CA bundle \
                 that issues them",
            ),
            Self::Pem { place, what } => {
                write!(
                    f,
                    "{place}: is no valid PEM: {what}; get the file again from its CA"
                )
            }
            Self::NoCertificate { place } => write!(
                f,
                "{place}: holds no certificate; a CA bundle is made of BEGIN CERTIFICATE blocks"
            ),
            Self::AuthorityMalformed { place, index } => write!(
                f,
                "{place}: certificate {} cannot be an authority (no valid X.509 version 3); \
                 remove it",
                index + 1
            ),
            Self::NoList { place } => write!(
                f,
                "{place}: holds no revocation list; it needs a BEGIN X509 CRL block (from DER: \
                 `openssl crl -inform der -in {place}`)"
            ),
            Self::ListMalformed { place, index } => write!(
                f,
                "{place}: revocation list {} is damaged; get it again from its CA",
                index + 1
            ),
            Self::ListUnsupported { place, index, what } => write!(
                f,
                "{place}: revocation list {} cannot be used: {what}; ask its CA for a complete \
                 list of version 2",
                index + 1
            ),
        }
    }
}

impl Display for VerifyConcern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListExpired {
                place,
                issuer,
                refuses: true,
            } => write!(
                f,
                "{place}: the revocation list of \"{issuer}\" is past its nextUpdate: clients with \
                 certificates of this issuer are refused; fetch a newer list and reload, or write \
                 crl-expired = \"accept\""
            ),
            Self::ListExpired {
                place,
                issuer,
                refuses: false,
            } => write!(
                f,
                "{place}: the revocation list of \"{issuer}\" is past its nextUpdate and still \
                 counts (crl-expired = \"accept\"), but what was revoked since is accepted; fetch \
                 a newer list and reload"
            ),
            Self::ListExpiresSoon {
                place,
                issuer,
                seconds,
            } => write!(
                f,
                "{place}: the revocation list of \"{issuer}\" reaches its nextUpdate in {}; fetch a \
                 newer list and reload",
                Span(*seconds)
            ),
        }
    }
}
