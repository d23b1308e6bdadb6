//! Client certificates: who may have issued them, which are revoked, and what a refusal meant.
//!
//! Revocation is checked for the client's own certificate as soon as the service has any list
//! (CRL, RFC 5280 section 5), and it fails closed: a certificate whose issuer has no list among
//! them is refused. A list past its nextUpdate still counts, with a warning when it is loaded:
//! what it revokes stays revoked, and a late file does not lock every client out.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use crate::certificate::pem_fault;
use crate::options::{ClientMode, ClientVerification, PemSource};

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
    /// The library's own words.
    Library(String),
}

/// What an operator should know about the verification of clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VerifyConcern {
    /// A list is past its nextUpdate.
    ListExpired {
        /// The file.
        place: String,
    },
}

/// Why a client's certificate was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClientCertificateFault {
    /// None was sent.
    Missing,
    /// Its validity, or its issuer's, has ended.
    Expired,
    /// Its validity has not begun.
    NotYetValid,
    /// It is on a list.
    Revoked,
    /// No list of its issuer is known.
    RevocationUnknown,
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
            rustls::Error::NoCertificatesPresented => Some(Self::Missing),
            rustls::Error::InvalidCertificate(error) => Some(Self::of_certificate(error)),
            rustls::Error::InvalidCertRevocationList(_) => Some(Self::RevocationUnknown),
            _ => None,
        }
    }

    /// The name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Expired => "expired",
            Self::NotYetValid => "not-yet-valid",
            Self::Revoked => "revoked",
            Self::RevocationUnknown => "revocation-unknown",
            Self::UnknownIssuer => "unknown-issuer",
            Self::WrongPurpose => "wrong-purpose",
            Self::Other => "invalid",
        }
    }

    fn of_certificate(error: &rustls::CertificateError) -> Self {
        use rustls::CertificateError as Error;
        match error {
            Error::Expired | Error::ExpiredContext { .. } => Self::Expired,
            Error::NotValidYet | Error::NotValidYetContext { .. } => Self::NotYetValid,
            Error::Revoked => Self::Revoked,
            Error::UnknownRevocationStatus => Self::RevocationUnknown,
            Error::UnknownIssuer => Self::UnknownIssuer,
            Error::InvalidPurpose | Error::InvalidPurposeContext { .. } => Self::WrongPurpose,
            _ => Self::Other,
        }
    }
}

/// The verifier that these options ask for; `None` = clients are not asked.
pub(crate) type Verifier = Option<Arc<dyn ClientCertVerifier>>;

/// Builds the verifier, or says why it cannot be.
pub(crate) fn verifier(
    options: &ClientVerification,
    now: UnixTime,
) -> Result<(Verifier, Vec<VerifyConcern>), VerifyFault> {
    if options.mode == ClientMode::None {
        return Ok((None, Vec::new()));
    }
    let roots = read_authorities(&options.authorities)?;
    let (lists, concerns) = read_lists(&options.crls, now)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .with_crls(lists)
        .only_check_end_entity_revocation();
    if options.mode == ClientMode::Optional {
        builder = builder.allow_unauthenticated();
    }
    let verifier = builder
        .build()
        .map_err(|error| VerifyFault::Library(error.to_string()))?;
    Ok((Some(verifier), concerns))
}

fn read_authorities(sources: &[PemSource]) -> Result<RootCertStore, VerifyFault> {
    let mut roots = RootCertStore::empty();
    for source in sources {
        let certificates: Vec<CertificateDer<'_>> = read_pem(source)?;
        if certificates.is_empty() {
            return Err(VerifyFault::NoCertificate {
                place: source.place.clone(),
            });
        }
        for (index, certificate) in certificates.into_iter().enumerate() {
            roots
                .add(certificate)
                .map_err(|_| VerifyFault::AuthorityMalformed {
                    place: source.place.clone(),
                    index,
                })?;
        }
    }
    if roots.is_empty() {
        Err(VerifyFault::NoAuthority)
    } else {
        Ok(roots)
    }
}

type Lists = Vec<CertificateRevocationListDer<'static>>;

fn read_lists(
    sources: &[PemSource],
    now: UnixTime,
) -> Result<(Lists, Vec<VerifyConcern>), VerifyFault> {
    let (mut all, mut concerns) = (Lists::new(), Vec::new());
    for source in sources {
        let lists: Lists = read_pem(source)?;
        if lists.is_empty() {
            return Err(VerifyFault::NoList {
                place: source.place.clone(),
            });
        }
        for (index, list) in lists.into_iter().enumerate() {
            let is_expired = check_list(&list, now).ok_or_else(|| VerifyFault::ListMalformed {
                place: source.place.clone(),
                index,
            })?;
            if is_expired {
                concerns.push(VerifyConcern::ListExpired {
                    place: source.place.clone(),
                });
            }
            all.push(list);
        }
    }
    Ok((all, concerns))
}

/// Whether a list is past its nextUpdate; `None` if it is none.
fn check_list(list: &CertificateRevocationListDer<'_>, now: UnixTime) -> Option<bool> {
    let (_, list) = CertificateRevocationList::from_der(list).ok()?;
    let now = i64::try_from(now.as_secs()).ok()?;
    Some(
        list.next_update()
            .is_some_and(|next_update| next_update.timestamp() < now),
    )
}

fn read_pem<T: PemObject>(source: &PemSource) -> Result<Vec<T>, VerifyFault> {
    T::pem_slice_iter(&source.pem)
        .collect::<Result<_, _>>()
        .map_err(|error| VerifyFault::Pem {
            place: source.place.clone(),
            what: pem_fault(&error),
        })
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
            Self::Library(words) => {
                write!(
                    f,
                    "client certificates cannot be verified: {words}; check the bundle and lists"
                )
            }
        }
    }
}

impl Display for VerifyConcern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListExpired { place } => write!(
                f,
                "{place}: the revocation list is past its nextUpdate; it still counts, get a newer"
            ),
        }
    }
}
