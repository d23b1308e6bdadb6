//! Faults of a certificate, in sentences that name the place and the remedy.

use std::fmt::{self, Display, Formatter};

use super::ocsp::OcspFault;
use super::pem::{self, BlockKind, PemFault};
use crate::options::{CertificateSource, PemSource};
use crate::validity::Span;

/// Minimum size of an RSA key: the library does not sign with a smaller one, and no current client
/// accepts it.
pub const RSA_BITS_MIN: usize = 2048;

/// Fault that makes a certificate unusable, with its files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CertificateError {
    pub place: String,
    pub key_place: String,
    /// Line at fault in the file, if it is a single one.
    pub line: Option<usize>,
    pub fault: CertificateFault,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CertificateFault {
    /// The text holds no CERTIFICATE block.
    NoCertificate,
    /// The text holds no private key.
    NoKey,
    /// The text holds this many private keys.
    SeveralKeys(usize),
    /// The chain's file holds the key, and the key's file the chain.
    Swapped,
    /// The private key is encrypted.
    EncryptedKey,
    /// The chain's file is no valid PEM.
    Pem(Box<PemFault>),
    /// The key's file is no valid PEM.
    KeyPem(Box<PemFault>),
    /// This certificate of the chain, counted from 0, is no valid X.509.
    Malformed(usize),
    /// The key is of a known kind but does not parse.
    KeyUnreadable,
    /// The library cannot sign with this algorithm of the certificate's key.
    KeyUnsupported(String),
    /// The RSA key has too few bits, this number.
    KeyTooSmall(usize),
    /// No certificate of the chain has the key's public half.
    KeyMismatch,
    /// The OCSP response in the file beside the certificate cannot be stapled.
    Ocsp(OcspFault),
}

/// A concern about a certificate that is served nevertheless.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CertificateConcern {
    #[error("the certificate expired {0} ago; renew it")]
    Expired(Span),
    #[error("the certificate is not valid yet, only in {0}; check this host's clock")]
    NotYetValid(Span),
    #[error("the certificate expires in {0}; renew it")]
    ExpiresSoon(Span),
    /// The leaf was behind another certificate and was put first.
    #[error("the certificate of the key is not the first, and is put first; reorder the file")]
    LeafNotFirst,
    /// The OCSP response passed its nextUpdate this long ago and is not stapled.
    #[error(
        "the OCSP response beside the certificate passed its nextUpdate {0} ago and is not \
         stapled; fetch it again and reload"
    )]
    OcspExpired(Span),
    /// The OCSP response is this long before its thisUpdate and is not stapled.
    #[error(
        "the OCSP response beside the certificate is before its thisUpdate and is not stapled for \
         {0}; check this host's clock"
    )]
    OcspNotYetValid(Span),
    /// The OCSP response is stapled, and its nextUpdate is close.
    #[error(
        "the OCSP response beside the certificate reaches its nextUpdate in {0} and is not stapled \
         any more then; fetch it again and reload"
    )]
    OcspExpiresSoon(Span),
    /// Clients may insist on an OCSP response (RFC 7633), and none is stapled.
    #[error(
        "the certificate asks for a stapled OCSP response (must-staple, RFC 7633), and there is \
         none that is good now: clients that insist fail; put a response beside it and reload"
    )]
    StapleMissing,
}

impl CertificateError {
    pub(super) fn new(source: &CertificateSource, fault: CertificateFault) -> Self {
        let place = source.place.clone();
        let key_place = source.key_place.clone().unwrap_or_else(|| place.clone());
        Self { place, key_place, line: fault.line(source), fault }
    }

    pub(crate) fn of_file(source: &PemSource, fault: CertificateFault) -> Self {
        Self::new(&CertificateSource::whole(&source.place, &*source.pem), fault)
    }

    /// Reports whether the file with the key is at fault, which may be the chain's.
    pub fn is_of_key(&self) -> bool {
        self.fault.is_of_key()
    }

    /// Returns the file at fault, with its line.
    fn at(&self) -> String {
        let file = if self.is_of_key() { &self.key_place } else { &self.place };
        match self.line {
            Some(line) => format!("{file}:{line}"),
            None => file.clone(),
        }
    }
}

impl std::error::Error for CertificateError {}

impl Display for CertificateError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { place, key_place, line: _, fault } = self;
        let at = self.at();
        match fault {
            CertificateFault::NoCertificate => write!(
                f,
                "{at}: holds no certificate; it needs a BEGIN CERTIFICATE block, leaf first"
            ),
            CertificateFault::Swapped => write!(
                f,
                "{at}: is the key, and {key_place} the certificate; let them change places"
            ),
            CertificateFault::NoKey => write!(
                f,
                "{at}: holds no private key; append the key to the certificate's file or \
                 name its own file"
            ),
            CertificateFault::SeveralKeys(count) => {
                write!(f, "{at}: holds {count} private keys; leave only the one of the leaf")
            }
            CertificateFault::EncryptedKey => write!(
                f,
                "{at}: the private key is encrypted; name its passphrase by \
                 `key-passphrase-file` or `key-passphrase-command`, or decrypt it with \
                 `openssl pkey -in {key_place} -out KEY.pem` and protect the result by file mode"
            ),
            CertificateFault::Pem(fault) => write!(f, "{at}: {}", fault.sentence(place)),
            CertificateFault::KeyPem(fault) => write!(f, "{at}: {}", fault.sentence(key_place)),
            CertificateFault::Malformed(index) => write!(
                f,
                "{at}: certificate {} of the chain is no valid X.509; ask the CA for it again",
                index + 1
            ),
            CertificateFault::KeyUnreadable => write!(
                f,
                "{at}: the private key is damaged or in an unusual form; write it anew with \
                 `openssl pkey -in {key_place} -ec_param_enc named_curve -out KEY.pem`, and if \
                 that fails or does not help, get a certificate for a new key"
            ),
            CertificateFault::KeyUnsupported(algorithm) => write!(
                f,
                "{at}: its key is of kind {algorithm}, which clients of TLS do not take; use \
                 ECDSA (P-256, P-384, P-521), Ed25519 or RSA"
            ),
            CertificateFault::KeyTooSmall(bits) => write!(
                f,
                "{at}: its RSA key has {bits} bits; get a certificate for a key of at least \
                 {RSA_BITS_MIN}, or for an ECDSA key"
            ),
            CertificateFault::KeyMismatch => write!(
                f,
                "{at}: the private key in {key_place} is not this certificate's; compare \
                 `openssl x509 -in {place} -pubkey -noout` with \
                 `openssl pkey -in {key_place} -pubout`"
            ),
            CertificateFault::Ocsp(fault) => {
                write!(f, "{at}: the OCSP response beside it {fault}; fetch it again or remove it")
            }
        }
    }
}

impl CertificateFault {
    fn is_of_key(&self) -> bool {
        matches!(
            self,
            Self::NoKey
                | Self::SeveralKeys(_)
                | Self::EncryptedKey
                | Self::KeyPem(_)
                | Self::KeyUnreadable
        )
    }

    fn line(&self, source: &CertificateSource) -> Option<usize> {
        let chain = &source.chain_pem;
        let key = source.key_pem.as_ref().unwrap_or(chain);
        let certificate = |number| pem::line_of(chain, BlockKind::Certificate, number);
        match self {
            Self::NoCertificate | Self::NoKey | Self::Swapped | Self::Ocsp(_) => None,
            Self::SeveralKeys(_) => pem::line_of(key, BlockKind::PrivateKey, 1),
            Self::EncryptedKey => pem::line_of(key, BlockKind::EncryptedKey, 0),
            Self::KeyUnreadable => pem::line_of(key, BlockKind::PrivateKey, 0),
            Self::Pem(fault) | Self::KeyPem(fault) => fault.line,
            Self::Malformed(number) => certificate(*number),
            Self::KeyUnsupported(_) | Self::KeyTooSmall(_) | Self::KeyMismatch => certificate(0),
        }
    }
}

impl CertificateConcern {
    /// Reports whether clients refuse the certificate for this concern.
    pub(crate) fn is_invalid(self) -> bool {
        matches!(self, Self::Expired(_) | Self::NotYetValid(_))
    }
}
