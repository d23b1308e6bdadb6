//! What can be wrong with a certificate, in sentences that name the place and the remedy.

use std::fmt::{self, Display, Formatter};

use rustls_pki_types::pem;

use super::ocsp::OcspFault;
use crate::options::CertificateSource;
use crate::validity::Span;

/// The smallest RSA key served: the library signs with none that is smaller, and no client of
/// today accepts one.
pub const RSA_BITS_MIN: usize = 2048;

/// Why a certificate cannot be served, and which files it came from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CertificateError {
    /// Where the chain came from.
    pub place: String,
    /// Where the key came from.
    pub key_place: String,
    /// What is wrong.
    pub fault: CertificateFault,
}

/// What keeps a certificate from being served.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CertificateFault {
    /// The text holds no CERTIFICATE block.
    NoCertificate,
    /// What should be PEM text is DER.
    Der,
    /// The text holds no private key.
    NoKey,
    /// The text holds this many private keys.
    SeveralKeys {
        /// How many.
        count: usize,
    },
    /// The private key is encrypted.
    EncryptedKey,
    /// The chain's text is no valid PEM.
    Pem(String),
    /// The key's text is no valid PEM.
    KeyPem(String),
    /// A certificate of the chain is no valid X.509.
    Malformed {
        /// Which one, the first is 0.
        index: usize,
    },
    /// The key is of a kind that we know but does not parse.
    KeyUnreadable,
    /// The certificate's key is of a kind that the library cannot sign with.
    KeyUnsupported {
        /// The algorithm, a name or an object identifier.
        algorithm: String,
    },
    /// The RSA key is too small.
    KeyTooSmall {
        /// Its size.
        bits: usize,
    },
    /// No certificate of the chain has the key's public half.
    KeyMismatch,
    /// The OCSP response beside it cannot be stapled.
    Ocsp(OcspFault),
}

/// What an operator should know about a certificate that is served all the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CertificateConcern {
    /// Its validity has ended.
    Expired {
        /// Seconds ago.
        seconds: i64,
    },
    /// Its validity has not begun.
    NotYetValid {
        /// Seconds to go.
        seconds: i64,
    },
    /// Its validity ends soon.
    ExpiresSoon {
        /// Seconds to go.
        seconds: i64,
    },
    /// The leaf stood behind another certificate and was put first.
    LeafNotFirst,
    /// The OCSP response is past its nextUpdate and is not stapled.
    OcspExpired {
        /// Seconds ago.
        seconds: i64,
    },
    /// The OCSP response is before its thisUpdate and is not stapled.
    OcspNotYetValid {
        /// Seconds to go.
        seconds: i64,
    },
    /// The OCSP response is stapled, and its nextUpdate is close.
    OcspExpiresSoon {
        /// Seconds to go.
        seconds: i64,
    },
    /// Clients may insist on an OCSP response (RFC 7633), and none is stapled.
    StapleMissing,
}

impl CertificateError {
    pub(super) fn new(source: &CertificateSource, fault: CertificateFault) -> Self {
        let place = source.place.clone();
        let key_place = source.key_place.clone().unwrap_or_else(|| place.clone());
        Self {
            place,
            key_place,
            fault,
        }
    }
}

impl std::error::Error for CertificateError {}

impl Display for CertificateError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            key_place,
            fault,
        } = self;
        match fault {
            CertificateFault::NoCertificate => write!(
                f,
                "{place}: holds no certificate; it needs a BEGIN CERTIFICATE block, leaf first"
            ),
            CertificateFault::Der => write!(
                f,
                "{place}: is DER, not PEM; convert it with `openssl x509 -inform der -in {place}`"
            ),
            CertificateFault::NoKey => write!(
                f,
                "{key_place}: holds no private key; append the key to the certificate's file or \
                 name its own file"
            ),
            CertificateFault::SeveralKeys { count } => write!(
                f,
                "{key_place}: holds {count} private keys; leave only the one of the leaf"
            ),
            CertificateFault::EncryptedKey => write!(
                f,
                "{key_place}: the private key is encrypted; decrypt it with \
                 `openssl pkey -in {key_place} -out KEY.pem` and protect the result by file mode"
            ),
            CertificateFault::Pem(what) => write!(
                f,
                "{place}: is no valid PEM: {what}; compare it with what the CA delivered"
            ),
            CertificateFault::KeyPem(what) => write!(
                f,
                "{key_place}: is no valid PEM: {what}; compare it with the key as it was made"
            ),
            CertificateFault::Malformed { index } => write!(
                f,
                "{place}: certificate {} of the chain is no valid X.509; ask the CA for it again",
                index + 1
            ),
            CertificateFault::KeyUnreadable => write!(
                f,
                "{key_place}: the private key is damaged or of an unknown kind; check it with \
                 `openssl pkey -in {key_place} -check -noout`"
            ),
            CertificateFault::KeyUnsupported { algorithm } => write!(
                f,
                "{place}: its key is of kind {algorithm}; use ECDSA (P-256, P-384, P-521), \
                 Ed25519 or RSA"
            ),
            CertificateFault::KeyTooSmall { bits } => write!(
                f,
                "{place}: its RSA key has {bits} bits; get a certificate for a key of at least \
                 {RSA_BITS_MIN}, or for an ECDSA key"
            ),
            CertificateFault::KeyMismatch => write!(
                f,
                "{place}: the private key in {key_place} is not this certificate's; compare \
                 `openssl x509 -in {place} -pubkey -noout` with \
                 `openssl pkey -in {key_place} -pubout`"
            ),
            CertificateFault::Ocsp(fault) => write!(
                f,
                "{place}: the OCSP response beside it {fault}; fetch it again or remove it"
            ),
        }
    }
}

impl CertificateFault {
    pub(super) fn of_chain_pem(pem: &[u8], error: &pem::Error) -> Self {
        if is_encrypted(pem) {
            Self::EncryptedKey
        } else {
            Self::Pem(pem_fault(error))
        }
    }

    pub(super) fn of_key_pem(pem: &[u8], error: &pem::Error) -> Self {
        if is_encrypted(pem) {
            Self::EncryptedKey
        } else {
            Self::KeyPem(pem_fault(error))
        }
    }

    pub(super) fn of_missing_key(pem: &[u8]) -> Self {
        if is_encrypted(pem) {
            Self::EncryptedKey
        } else {
            Self::NoKey
        }
    }
}

/// Says what a PEM reader's error means, without quoting the text: it may be a key.
pub(crate) fn pem_fault(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!(
                "a {} block has no END line",
                String::from_utf8_lossy(end_marker)
            )
        }
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line is malformed".into(),
        pem::Error::Base64Decode(_) => "a block is not base64".into(),
        pem::Error::SectionTooLarge => "a block is too large".into(),
        _ => "it cannot be read".into(),
    }
}

/// PKCS #8's own label, or the header of RFC 1421 that OpenSSL's older form carries.
fn is_encrypted(pem: &[u8]) -> bool {
    let holds = |marker: &[u8]| pem.windows(marker.len()).any(|window| window == marker);
    holds(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || holds(b"Proc-Type: 4,ENCRYPTED")
}

impl CertificateConcern {
    /// Whether clients refuse the certificate for it.
    pub(crate) fn is_invalid(self) -> bool {
        matches!(self, Self::Expired { .. } | Self::NotYetValid { .. })
    }
}

impl Display for CertificateConcern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { seconds } => {
                write!(
                    f,
                    "the certificate expired {} ago; renew it",
                    Span(*seconds)
                )
            }
            Self::NotYetValid { seconds } => write!(
                f,
                "the certificate is not valid yet, only in {}; check this host's clock",
                Span(*seconds)
            ),
            Self::ExpiresSoon { seconds } => {
                write!(f, "the certificate expires in {}; renew it", Span(*seconds))
            }
            Self::LeafNotFirst => write!(
                f,
                "the certificate of the key is not the first; it was put first, reorder the file"
            ),
            Self::OcspExpired { seconds } => write!(
                f,
                "the OCSP response beside the certificate passed its nextUpdate {} ago and is not \
                 stapled; fetch it again and reload",
                Span(*seconds)
            ),
            Self::OcspNotYetValid { seconds } => write!(
                f,
                "the OCSP response beside the certificate is before its thisUpdate and is not \
                 stapled for {}; check this host's clock",
                Span(*seconds)
            ),
            Self::OcspExpiresSoon { seconds } => write!(
                f,
                "the OCSP response beside the certificate reaches its nextUpdate in {} and is not \
                 stapled any more then; fetch it again and reload",
                Span(*seconds)
            ),
            Self::StapleMissing => write!(
                f,
                "the certificate asks for a stapled OCSP response (must-staple, RFC 7633), and \
                 there is none that is good now: clients that insist fail; put a response beside \
                 it and reload"
            ),
        }
    }
}
