//! The options of a service's TLS: bytes and choices, never paths to open.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

pub use sys::ktls::{Cipher, Version};
use zeroize::Zeroize;

use crate::challenge::TlsChallenges;
use crate::identity::{AllowedIdentity, sha256};
use crate::key_holder::KeyHolder;

/// The least that the plaintext of a record can be limited to: the least that clients can ask for
/// by max_fragment_length (RFC 6066 section 4).
pub const RECORD_BYTES_MIN: usize = 512;

/// The TLS of a service's front.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerOptions {
    /// In the order of the configuration: the first is the default for unknown names.
    pub certificates: Vec<CertificateSource>,
    /// The fate of the service if one of them cannot be served.
    pub bad_certificate: BadCertificate,
    /// The faults of certificates that were left out before.
    pub skipped: Vec<String>,
    /// The answer to a client whose name no certificate has.
    pub unknown_name: UnknownName,
    /// The lowest version spoken.
    pub version_min: Version,
    /// The highest version spoken.
    pub version_max: Version,
    /// The suites and their order.
    pub suites: Suites,
    /// The groups in the order of our preference.
    pub groups: Vec<Group>,
    /// Application protocols (RFC 7301) in the order of our preference; empty = none negotiated.
    pub alpn: Vec<Vec<u8>>,
    /// Whether and how clients show certificates.
    pub client: ClientVerification,
    /// Whether sessions are resumed at all.
    pub resumption: bool,
    /// The place of sessions of TLS 1.3.
    pub tls13_sessions: Tls13Sessions,
    /// The groups by which sessions are resumed.
    pub resumption_group: ResumptionGroup,
    /// Whose sessions are not resumed, though they are good.
    pub replaced: ReplacedCertificates,
    /// The most plaintext in a record that is sent; `None` = as much as TLS allows.
    pub record_bytes_max: Option<usize>,
    /// Whether the secrets of connections go to the key log ([`crate::key_log`]).
    pub key_log: bool,
    /// Whether certificates are compressed (RFC 8879) for clients that take them so.
    pub certificate_compression: bool,
    /// Served where `certificates` is empty; `None` = that is a fault.
    pub placeholder: Option<Placeholder>,
    /// The answers to authorities that validate us.
    pub challenges: TlsChallenges,
}

/// A self-signed certificate in the place of those that are not there yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Placeholder {
    /// The names that it is for; empty = none in particular.
    pub names: Vec<String>,
    /// The certificate that is missing, as a sentence without a full stop.
    pub why: String,
}

impl ServerOptions {
    /// The options of a service whose configuration names certificates alone.
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

/// The TLS of a service's back: we are the client of its servers.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientOptions {
    /// How servers' certificates are verified; `None` = not at all.
    pub verification: Option<ServerVerification>,
    /// SHA-256 of the public keys (SubjectPublicKeyInfo, DER) that servers may have; empty = any.
    pub pins: Vec<[u8; 32]>,
    /// The name that a server's certificate must have.
    pub name: ExpectedName,
    /// The certificate for servers that ask for one.
    pub certificate: Option<CertificateSource>,
    /// The lowest version spoken.
    pub version_min: Version,
    /// The highest version spoken.
    pub version_max: Version,
    /// The suites and their order.
    pub suites: Suites,
    /// The groups in the order of our preference.
    pub groups: Vec<Group>,
    /// Application protocols (RFC 7301) that are offered.
    pub alpn: OfferedAlpn,
    /// Whether sessions are resumed.
    pub resumption: bool,
    /// Whether the secrets of connections go to the key log ([`crate::key_log`]).
    pub key_log: bool,
    /// Whether certificates may come compressed (RFC 8879), and ours goes so.
    pub certificate_compression: bool,
}

/// The authorities that a server's chain may lead to, and the lists of what is revoked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerVerification {
    /// Bundles of authorities.
    pub authorities: Vec<PemSource>,
    /// Whether they are this host's own: what cannot be used of them is passed over.
    pub are_of_host: bool,
    /// Certificate revocation lists.
    pub crls: Vec<PemSource>,
    /// The treatment of a list past its nextUpdate.
    pub expired_lists: ExpiredLists,
}

/// The name that a server's certificate must have, and the SNI that it is sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ExpectedName {
    /// The host of the server's address.
    OfServer,
    /// This DNS name or IP address.
    Fixed(String),
    /// The name that the client asked for; without one, the host of the server's address.
    OfClient,
}

/// The application protocols that servers are offered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum OfferedAlpn {
    /// The one that was negotiated with the client, if any.
    OfClient,
    /// These; empty = none.
    Fixed(Vec<Vec<u8>>),
}

/// The effect of a certificate that cannot be served on the others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BadCertificate {
    /// The whole configuration is refused.
    Refuse,
    /// It is left out, and the others are served.
    Skip,
}

/// Certificates that the service showed once.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplacedCertificates {
    /// Sessions made under these are not resumed.
    pub revoked: Vec<PemSource>,
    /// Whether sessions made under others that the service has no more are.
    pub resume: bool,
}

impl Default for ReplacedCertificates {
    fn default() -> Self {
        Self { revoked: Vec::new(), resume: true }
    }
}

/// The place of sessions of TLS 1.3.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tls13Sessions {
    /// With the client, in tickets that any host with the same keys opens.
    Tickets,
    /// In the session cache of this host, each for one connection.
    Cache {
        /// Early data (RFC 8446 section 2.3) taken from a client, in bytes; 0 = none.
        early_data_bytes_max: u32,
    },
}

/// The groups by which a session of TLS 1.3 is resumed that began with ML-KEM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResumptionGroup {
    /// As in full handshakes.
    Session,
    /// A classical one alone, if the client has sent a key share for it: what the session's key
    /// protects is safe from who records it all the same.
    Classical,
}

/// A certificate chain with its key, as PEM.
#[derive(Clone, PartialEq)]
pub struct CertificateSource {
    /// The path that it came from, for messages.
    pub place: String,
    /// One or more `CERTIFICATE` blocks, leaf first; may hold the key too.
    pub chain_pem: Vec<u8>,
    /// The private key; `None` = it is in `chain_pem`.
    pub key_pem: Option<Vec<u8>>,
    /// The path that the key came from, if apart.
    pub key_place: Option<String>,
    /// A DER-encoded OCSP response to staple.
    pub ocsp_der: Option<Vec<u8>>,
    /// Who signs, if a reference stands in the place of the key.
    pub holder: KeyHolder,
}

impl CertificateSource {
    /// A chain with its key in the same PEM text, and nothing to staple.
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

/// Nor may it stay in memory that is free.
impl Drop for CertificateSource {
    fn drop(&mut self) {
        self.chain_pem.zeroize();
        self.key_pem.zeroize();
    }
}

/// A private key must not reach a log.
impl fmt::Debug for CertificateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateSource").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Some PEM and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct PemSource {
    /// A path, for messages.
    pub place: String,
    /// The text.
    pub pem: PemText,
}

/// A text that is not secret. Cloning shares it: a host's bundle of authorities has 200 KB, and
/// each service that speaks TLS to servers may go by it.
#[derive(Clone)]
pub struct PemText(Arc<HashedText>);

struct HashedText {
    bytes: Vec<u8>,
    sha256: OnceLock<[u8; 32]>,
}

impl PemText {
    /// The SHA-256 of its bytes.
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

/// The answer to a client whose server name no certificate has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UnknownName {
    /// The first certificate.
    Default,
    /// The alert `unrecognized_name` (RFC 6066).
    Refuse,
    /// That alert to a client that sends a name, and the first certificate to one that sends none.
    RefuseNamed,
}

/// The cipher suites and their order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Suites {
    /// All that the library has, cheapest on this CPU first.
    Auto,
    /// These, in this order.
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
            /// All of them, in the order of their default preference.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The number on the wire (IANA's registry).
            pub fn code(self) -> u16 {
                match self { $(Self::$variant => $code,)* }
            }

            /// The standard name (IANA's registry).
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The one with that number.
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
    /// The one version that it is for: RFC 8446 B.4 gave TLS 1.3, and only it, 0x13xx.
    pub fn version(self) -> Version {
        if self.code() >> 8 == 0x13 { Version::Tls13 } else { Version::Tls12 }
    }

    /// The cipher of its records.
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

    /// OpenSSL's name, which the PROXY protocol's receivers know it by.
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
    /// Whether ML-KEM is a part of it.
    pub fn is_hybrid(self) -> bool {
        self == Self::X25519MlKem768
    }
}

/// Whether and how clients show certificates; by default they do not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientVerification {
    /// Whether one is asked for.
    pub mode: ClientMode,
    /// Who may have issued it; empty only if the mode is `None`.
    pub authorities: Vec<PemSource>,
    /// Certificate revocation lists.
    pub crls: Vec<PemSource>,
    /// The treatment of a list past its nextUpdate.
    pub expired_lists: ExpiredLists,
    /// Identities, one of which a certificate must have; empty = any certificate that verifies.
    pub allow: Vec<AllowedIdentity>,
    /// Whether clients are not told which authorities these are.
    pub omits_names: bool,
}

/// The treatment of clients whose issuer's revocation list is past its nextUpdate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ExpiredLists {
    /// They are refused: what was revoked since is unknown.
    #[default]
    Refuse,
    /// It counts as it stands.
    Accept,
}

/// Whether a client certificate is asked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ClientMode {
    /// Not asked for.
    #[default]
    None,
    /// Asked for; a client without one is served, one that does not verify is refused.
    Optional,
    /// Asked for; a client without one is refused.
    Required,
}
