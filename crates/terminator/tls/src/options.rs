//! Options of a service's TLS: bytes and choices, never paths to open.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

pub use sys::ktls::{Cipher, Version};
use zeroize::Zeroize;

use crate::challenge::TlsChallenges;
use crate::identity::{AllowedIdentity, sha256};
use crate::key_holder::KeyHolder;

/// Minimum to which the plaintext of a record can be limited: the minimum that clients can request
/// by max_fragment_length (RFC 6066 section 4).
pub const RECORD_BYTES_MIN: usize = 512;

/// TLS of a service's front.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerOptions {
    /// Certificates in the order of the configuration: the first is the default for unknown names.
    pub certificates: Vec<CertificateSource>,
    /// Effect on the service if one of them cannot be served.
    pub bad_certificate: BadCertificate,
    /// Faults of certificates that were left out before.
    pub skipped: Vec<String>,
    /// Answer to a client whose name no certificate has.
    pub unknown_name: UnknownName,
    /// Lowest supported version.
    pub version_min: Version,
    /// Highest supported version.
    pub version_max: Version,
    /// Suites and their order.
    pub suites: Suites,
    /// Groups in the order of our preference.
    pub groups: Vec<Group>,
    /// Application protocols (RFC 7301) in the order of our preference; empty = none negotiated.
    pub alpn: Vec<Vec<u8>>,
    /// Whether and how clients are authenticated.
    pub client: ClientVerification,
    /// Whether sessions are resumed at all.
    pub resumption: bool,
    /// Location of sessions of TLS 1.3.
    pub tls13_sessions: Tls13Sessions,
    /// Groups by which sessions are resumed.
    pub resumption_group: ResumptionGroup,
    /// Certificates whose sessions are not resumed, though they are valid.
    pub replaced: ReplacedCertificates,
    /// Maximum plaintext in a record that is sent; `None` = as much as TLS allows.
    pub record_bytes_max: Option<usize>,
    /// Whether the secrets of connections are written to the key log ([`crate::key_log`]).
    pub key_log: bool,
    /// Whether certificates are compressed (RFC 8879) for clients that accept it.
    pub certificate_compression: bool,
    /// Certificate served if `certificates` is empty; `None` = that is a fault.
    pub placeholder: Option<Placeholder>,
    /// Answers to authorities that validate our names.
    pub challenges: TlsChallenges,
}

/// A self-signed certificate in place of certificates that do not exist yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Placeholder {
    /// Names in the certificate; empty = none in particular.
    pub names: Vec<String>,
    /// The missing certificate, as a sentence without a full stop.
    pub why: String,
}

impl ServerOptions {
    /// Returns the options of a service whose configuration names only certificates.
    pub fn new(certificates: Vec<CertificateSource>) -> Self {
        Self {
            certificates,
            bad_certificate: BadCertificate::Refuse,
            skipped: Vec::new(),
            unknown_name: UnknownName::Default,
            version_min: Version::Tls12,
            version_max: Version::Tls13,
            suites: Suites::Auto,
            groups: Group::ALL.to_vec(),
            alpn: Vec::new(),
            client: ClientVerification::default(),
            resumption: true,
            tls13_sessions: Tls13Sessions::Tickets,
            resumption_group: ResumptionGroup::Session,
            replaced: ReplacedCertificates::default(),
            record_bytes_max: None,
            key_log: false,
            placeholder: None,
            challenges: TlsChallenges::default(),
            certificate_compression: true,
        }
    }
}

/// TLS of a service's back: we are the client of its servers.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientOptions {
    /// Verification of servers' certificates; `None` = they are not verified.
    pub verification: Option<ServerVerification>,
    /// SHA-256 of the public keys (SubjectPublicKeyInfo, DER) that servers may have; empty = any.
    pub pins: Vec<[u8; 32]>,
    /// Name that a server's certificate must have.
    pub name: ExpectedName,
    /// Certificate for servers that request one.
    pub certificate: Option<CertificateSource>,
    /// Lowest supported version.
    pub version_min: Version,
    /// Highest supported version.
    pub version_max: Version,
    /// Suites and their order.
    pub suites: Suites,
    /// Groups in the order of our preference.
    pub groups: Vec<Group>,
    /// Application protocols (RFC 7301) that are offered.
    pub alpn: OfferedAlpn,
    /// Whether sessions are resumed.
    pub resumption: bool,
    /// Whether the secrets of connections are written to the key log ([`crate::key_log`]).
    pub key_log: bool,
    /// Whether certificates may be compressed (RFC 8879), in both directions.
    pub certificate_compression: bool,
}

/// Authorities to which a server's chain may lead, and revocation lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerVerification {
    /// Bundles of authorities.
    pub authorities: Vec<PemSource>,
    /// Whether these are this host's own authorities: unusable ones are skipped.
    pub are_of_host: bool,
    /// Certificate revocation lists.
    pub crls: Vec<PemSource>,
    /// Treatment of a list past its nextUpdate.
    pub expired_lists: ExpiredLists,
}

/// Name that a server's certificate must have, and the SNI sent to it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ExpectedName {
    /// Host of the server's address.
    OfServer,
    /// This DNS name or IP address.
    Fixed(String),
    /// Name that the client requested; without one, the host of the server's address.
    OfClient,
}

/// Application protocols offered to servers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum OfferedAlpn {
    /// The protocol negotiated with the client, if any.
    OfClient,
    /// These protocols; empty = none.
    Fixed(Vec<Vec<u8>>),
}

/// Effect of an unusable certificate on the others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BadCertificate {
    /// The whole configuration is refused.
    Refuse,
    /// The certificate is left out, and the others are served.
    Skip,
}

/// Certificates that the service used to serve.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplacedCertificates {
    /// Certificates whose sessions are not resumed.
    pub revoked: Vec<PemSource>,
    /// Whether sessions made with other certificates that the service no longer has are resumed.
    pub resume: bool,
}

impl Default for ReplacedCertificates {
    fn default() -> Self {
        Self { revoked: Vec::new(), resume: true }
    }
}

/// Location of sessions of TLS 1.3.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tls13Sessions {
    /// Tickets of the client, which any host with the same keys opens.
    Tickets,
    /// Session cache of this host, each session for one connection.
    Cache {
        /// Maximum early data (RFC 8446 section 2.3) of a client, in bytes; 0 = none.
        early_data_bytes_max: u32,
    },
}

/// Groups for resuming a session of TLS 1.3 that began with ML-KEM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResumptionGroup {
    /// The groups of full handshakes.
    Session,
    /// A classical group alone, if the client sent a key share for it: data protected by the
    /// session's key is still safe from recording.
    Classical,
}

/// A certificate chain with its key, as PEM.
#[derive(Clone, PartialEq)]
pub struct CertificateSource {
    /// Path of the chain, for messages.
    pub place: String,
    /// One or more `CERTIFICATE` blocks, leaf first; may hold the key too.
    pub chain_pem: Vec<u8>,
    /// Private key; `None` = it is in `chain_pem`.
    pub key_pem: Option<Vec<u8>>,
    /// Path of the key, if it is a separate file.
    pub key_place: Option<String>,
    /// A DER-encoded OCSP response to staple.
    pub ocsp_der: Option<Vec<u8>>,
    /// Process that signs, if a reference replaces the key.
    pub holder: KeyHolder,
}

impl CertificateSource {
    /// Creates a source with the key in the chain's PEM text, and no OCSP response.
    pub fn whole(place: &str, pem: impl Into<Vec<u8>>) -> Self {
        Self {
            place: place.to_owned(),
            chain_pem: pem.into(),
            key_pem: None,
            key_place: None,
            ocsp_der: None,
            holder: KeyHolder::default(),
        }
    }
}

/// Erases the key, so that it does not stay in freed memory.
impl Drop for CertificateSource {
    fn drop(&mut self) {
        self.chain_pem.zeroize();
        self.key_pem.zeroize();
    }
}

/// Hides the private key from logs.
impl fmt::Debug for CertificateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateSource").field("place", &self.place).finish_non_exhaustive()
    }
}

/// PEM text and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct PemSource {
    /// Path, for messages.
    pub place: String,
    pub pem: PemText,
}

/// A text that is not secret. Clones share it: a host's bundle of authorities has 200 KB, and each
/// service with TLS to its servers may use it.
#[derive(Clone)]
pub struct PemText(Arc<HashedText>);

struct HashedText {
    bytes: Vec<u8>,
    sha256: OnceLock<[u8; 32]>,
}

impl PemText {
    /// Returns the SHA-256 of the bytes.
    pub(crate) fn sha256(&self) -> &[u8] {
        self.0.sha256.get_or_init(|| sha256(&self.0.bytes))
    }
}

impl<T: Into<Vec<u8>>> From<T> for PemText {
    fn from(text: T) -> Self {
        Self(Arc::new(HashedText { bytes: text.into(), sha256: OnceLock::new() }))
    }
}

impl Deref for PemText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl PartialEq for PemText {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for PemText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// Answer to a client whose server name no certificate has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UnknownName {
    /// The first certificate.
    Default,
    /// The alert `unrecognized_name` (RFC 6066).
    Refuse,
    /// The alert for a client that sends a name, and the first certificate for one without.
    RefuseNamed,
}

/// Cipher suites and their order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Suites {
    /// All suites of the library, cheapest on this CPU first.
    Auto,
    /// These suites, in this order.
    Listed(Vec<Suite>),
}

macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $($variant:ident = $code:literal, $name:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum $type {
            $(#[doc = $name] $variant,)*
        }

        impl $type {
            /// All values, in the order of their default preference.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the number on the wire (IANA's registry).
            pub fn code(self) -> u16 {
                match self { $(Self::$variant => $code,)* }
            }

            /// Returns the standard name (IANA's registry).
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the value with that number.
            pub fn from_code(code: u16) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.code() == code)
            }
        }
    };
}

named! {
    /// A cipher suite.
    Suite {
        Tls13Aes128GcmSha256 = 0x1301, "TLS_AES_128_GCM_SHA256";
        Tls13Aes256GcmSha384 = 0x1302, "TLS_AES_256_GCM_SHA384";
        Tls13ChaCha20Poly1305Sha256 = 0x1303, "TLS_CHACHA20_POLY1305_SHA256";
        EcdheEcdsaAes128GcmSha256 = 0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        EcdheRsaAes128GcmSha256 = 0xc02f, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        EcdheEcdsaAes256GcmSha384 = 0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
        EcdheRsaAes256GcmSha384 = 0xc030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384";
        EcdheEcdsaChaCha20Poly1305Sha256 = 0xcca9, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
        EcdheRsaChaCha20Poly1305Sha256 = 0xcca8, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256";
    }
}

impl Suite {
    /// Returns the only version of the suite: RFC 8446 B.4 gave TLS 1.3, and only it, 0x13xx.
    pub fn version(self) -> Version {
        if self.code() >> 8 == 0x13 { Version::Tls13 } else { Version::Tls12 }
    }

    /// Returns the cipher of the records.
    pub fn cipher(self) -> Cipher {
        match self {
            Self::Tls13Aes128GcmSha256
            | Self::EcdheEcdsaAes128GcmSha256
            | Self::EcdheRsaAes128GcmSha256 => Cipher::Aes128Gcm,
            Self::Tls13Aes256GcmSha384
            | Self::EcdheEcdsaAes256GcmSha384
            | Self::EcdheRsaAes256GcmSha384 => Cipher::Aes256Gcm,
            Self::Tls13ChaCha20Poly1305Sha256
            | Self::EcdheEcdsaChaCha20Poly1305Sha256
            | Self::EcdheRsaChaCha20Poly1305Sha256 => Cipher::ChaCha20Poly1305,
        }
    }

    /// Returns OpenSSL's name, which receivers of the PROXY protocol know.
    pub fn openssl_name(self) -> &'static str {
        match self {
            Self::EcdheEcdsaAes128GcmSha256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
            Self::EcdheRsaAes128GcmSha256 => "ECDHE-RSA-AES128-GCM-SHA256",
            Self::EcdheEcdsaAes256GcmSha384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
            Self::EcdheRsaAes256GcmSha384 => "ECDHE-RSA-AES256-GCM-SHA384",
            Self::EcdheEcdsaChaCha20Poly1305Sha256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
            Self::EcdheRsaChaCha20Poly1305Sha256 => "ECDHE-RSA-CHACHA20-POLY1305",
            tls13 => tls13.name(),
        }
    }
}

named! {
    /// A key exchange group.
    Group {
        X25519MlKem768 = 0x11ec, "X25519MLKEM768";
        X25519 = 0x001d, "x25519";
        Secp256r1 = 0x0017, "secp256r1";
        Secp384r1 = 0x0018, "secp384r1";
    }
}

impl Group {
    /// Reports whether the group includes ML-KEM.
    pub fn is_hybrid(self) -> bool {
        self == Self::X25519MlKem768
    }
}

/// Whether and how clients are authenticated; by default they are not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientVerification {
    /// Whether a certificate is requested.
    pub mode: ClientMode,
    /// Authorities that may have issued it; empty only if the mode is `None`.
    pub authorities: Vec<PemSource>,
    /// Certificate revocation lists.
    pub crls: Vec<PemSource>,
    /// Treatment of a list past its nextUpdate.
    pub expired_lists: ExpiredLists,
    /// Identities, one of which a certificate must have; empty = any certificate that verifies.
    pub allow: Vec<AllowedIdentity>,
    /// Whether the request omits the names of these authorities.
    pub omits_names: bool,
}

/// Treatment of clients whose issuer's revocation list is past its nextUpdate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ExpiredLists {
    /// Clients are refused: later revocations are unknown.
    #[default]
    Refuse,
    /// The list is used as it is.
    Accept,
}

/// Whether a client certificate is requested.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ClientMode {
    /// Not requested.
    #[default]
    None,
    /// Requested; a client without one is served, one that does not verify is refused.
    Optional,
    /// Requested; a client without one is refused.
    Required,
}
