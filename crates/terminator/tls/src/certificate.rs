//! Loads certificates from PEM text: a chain, its key, and the few facts that other modules need.
//!
//! Handles loading and its faults, and stores a certificate's compressed forms (RFC 8879), which
//! `compression` makes. Opens no file, and keeps neither the text nor the parsed form, only the
//! data for handshakes and for operators. [`crate::names`] chooses a client's certificate.

pub mod chain;
mod fault;
pub mod key;
mod ocsp;
pub mod pem;

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::CertificateCompressionAlgorithm as Algorithm;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use wire::address::address_of;
use x509_parser::asn1_rs::Any;
use x509_parser::oid_registry::OID_PKCS1_RSAENCRYPTION;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::identity::{Fingerprint, fingerprint_of};
use crate::kept::{FileCache, KeptName, name_of};
use crate::options::CertificateSource;
use crate::signing::RemoteKey;
use crate::validity::{Expiry, Moment, Span, Validity, ValidityState};
pub use fault::{CertificateConcern, CertificateError, CertificateFault, RSA_BITS_MIN};
pub use key::KeyKind;
pub use ocsp::OcspFault;
use pem::{BlockKind, PemFault};

/// A certificate ready to be served.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// Chain (leaf first) and its key, without an OCSP response.
    pub key: Arc<CertifiedKey>,
    /// The chain with the OCSP response.
    pub staple: Option<Staple>,
    /// Whether clients may insist on an OCSP response (RFC 7633, "must-staple").
    pub must_staple: bool,
    /// Names of the certificate: DNS names in lower case (wildcards included) and IP addresses; the
    /// common name only if there is no subjectAltName (RFC 9525 section 2).
    pub names: Box<[Box<str>]>,
    /// Kind of the certificate's key.
    pub kind: KeyKind,
    pub validity: Validity,
    pub issuer: Box<str>,
    /// Signature algorithm in OpenSSL's words ("RSA-SHA256"), for PP2_SUBTYPE_SSL_SIG_ALG.
    pub signature_algorithm: Cow<'static, str>,
    /// Algorithm and size of the key ("EC256", "RSA2048"), for PP2_SUBTYPE_SSL_KEY_ALG.
    pub key_algorithm: Cow<'static, str>,
    pub place: Box<str>,
    pub fingerprint: Fingerprint,
    /// Whether the leaf was not first in the file.
    is_moved: bool,
    pub(crate) forms: Arc<CompressedForms>,
}

/// The certificates of all plans of this process.
static KEPT: FileCache<Certificate> = FileCache::new();

/// A certificate together with its OCSP response.
#[derive(Clone, Debug)]
pub struct Staple {
    /// Chain that is sent while the response is valid.
    pub key: Arc<CertifiedKey>,
    /// Time from thisUpdate to nextUpdate (RFC 6960 section 4.2.2.1).
    pub validity: Validity,
}

impl Certificate {
    /// Reads a certificate and checks everything that can be checked without its issuer. A fault
    /// that does not prevent serving is returned as a concern; concerns about time are not, see
    /// [`Certificate::concerns`].
    pub fn load(
        source: &CertificateSource,
    ) -> Result<(Self, Option<CertificateConcern>), CertificateError> {
        let certificate = Self::read(source);
        let certificate = certificate.map_err(|fault| CertificateError::new(source, fault))?;
        let concern = certificate.concern();
        Ok((certificate, concern))
    }

    /// Loads a certificate that all services with the same files share, for as long as the files
    /// hold the same bytes.
    pub(crate) fn shared(
        source: &CertificateSource,
    ) -> Result<(Arc<Self>, Option<CertificateConcern>), CertificateError> {
        let read = || Self::read(source);
        let found = KEPT.find_or_make(name_of_source(source), read);
        let certificate = found.map_err(|fault| CertificateError::new(source, fault))?;
        let concern = certificate.concern();
        Ok((certificate, concern))
    }

    fn concern(&self) -> Option<CertificateConcern> {
        self.is_moved.then_some(CertificateConcern::LeafNotFirst)
    }

    /// Returns key and chain at `now` (Unix seconds), with the OCSP response only if valid then.
    pub(crate) fn key_at(&self, now: i64) -> &Arc<CertifiedKey> {
        let good = self.staple.as_ref().filter(|one| one.validity.contains(now));
        good.map_or(&self.key, |staple| &staple.key)
    }

    /// Returns the concerns for an operator that arise over time.
    pub(crate) fn concerns(&self, moment: Moment) -> impl Iterator<Item = CertificateConcern> {
        use CertificateConcern as WarningSubject;
        let told =
            |validity: Validity, [over, not_yet, ends_soon]: [fn(Span) -> WarningSubject; 3]| {
                match validity.news(moment) {
                    ValidityState::Over(seconds) => Some(over(Span(seconds))),
                    ValidityState::NotYet(seconds) => Some(not_yet(Span(seconds))),
                    ValidityState::EndsSoon(seconds) => Some(ends_soon(Span(seconds))),
                    ValidityState::Good => None,
                }
            };
        let kinds: [fn(Span) -> WarningSubject; 3] =
            [WarningSubject::Expired, WarningSubject::NotYetValid, WarningSubject::ExpiresSoon];
        let of_itself = told(self.validity, kinds);
        let kinds: [fn(Span) -> WarningSubject; 3] = [
            WarningSubject::OcspExpired,
            WarningSubject::OcspNotYetValid,
            WarningSubject::OcspExpiresSoon,
        ];
        let staple = self.staple.as_ref();
        let of_staple = staple.and_then(|staple| told(staple.validity, kinds));
        let is_bare = |now| self.key_at(now).ocsp.is_none();
        let is_news = is_bare(moment.now) && !moment.since.is_some_and(is_bare);
        let missing = (self.must_staple && is_news).then_some(CertificateConcern::StapleMissing);
        of_itself.into_iter().chain(of_staple).chain(missing)
    }

    /// Describes the end of this validity: the certificate's, or its OCSP response's.
    pub(crate) fn expiry(&self, validity: Validity) -> Expiry {
        Expiry {
            file: self.place.clone(),
            name: self.names.first().cloned().unwrap_or_default(),
            // Names of other kinds include the size.
            key: match self.key_algorithm.strip_prefix("RSA") {
                Some(bits) => format!("RSA {bits}").into(),
                None => self.kind.name().into(),
            },
            time: validity.until,
        }
    }

    /// Returns the next second after `now` at which the concerns may change.
    pub(crate) fn next_change(&self, now: i64) -> Option<i64> {
        let staple = self.staple.as_ref().map(|staple| staple.validity);
        let spans = std::iter::once(self.validity).chain(staple);
        spans.filter_map(|span| span.next_change(now)).min()
    }

    fn read(source: &CertificateSource) -> Result<Self, CertificateFault> {
        let mut chain = read_chain(&source.chain_pem).map_err(|fault| match &source.key_pem {
            Some(key) if is_key_alone(&source.chain_pem) && read_chain(key).is_ok() => {
                CertificateFault::Swapped
            }
            _ => fault,
        })?;
        let key = read_key(source.key_pem.as_ref().unwrap_or(&source.chain_pem))?;
        check_key_is_supported(&chain)?;
        let key = match key {
            ReadKey::Own(der) => load_key(der)?,
            ReadKey::Reference(public) => {
                let key = RemoteKey::new(public, source.holder.clone());
                Arc::new(key.ok_or(CertificateFault::KeyUnreadable)?)
            }
        };
        let is_moved = put_leaf_first(&mut chain, &*key)?;
        let leaf_der = chain.first().ok_or(CertificateFault::NoCertificate)?.clone();
        let leaf = parse(0, &leaf_der)?;
        let validity = Validity {
            from: leaf.validity().not_before.timestamp(),
            until: leaf.validity().not_after.timestamp(),
        };
        let certified = CertifiedKey::new(chain, key);
        let staple = read_staple(source, &leaf, &certified)?;
        Ok(Self {
            names: names(&leaf),
            kind: KeyKind::of(leaf.public_key())?,
            validity,
            staple,
            must_staple: asks_for_staple(&leaf),
            issuer: leaf.issuer().to_string().into(),
            signature_algorithm: key::signature_algorithm_name(&leaf.signature_algorithm),
            key_algorithm: key::key_algorithm_name(leaf.public_key()),
            place: source.place.as_str().into(),
            fingerprint: fingerprint_of(&leaf_der),
            key: Arc::new(certified),
            is_moved,
            forms: Arc::default(),
        })
    }
}

/// Returns the name of a source's certificate: its bytes, the paths in messages, and the holder.
fn name_of_source(source: &CertificateSource) -> KeptName {
    // The address is reused only after all certificates that sign with this holder are gone.
    let holder = source.holder.0.as_ref().map_or(0, |one| Arc::as_ptr(one).addr());
    let there = [&source.key_pem, &source.ocsp_der].map(|part| u8::from(part.is_some()));
    name_of([
        &*source.chain_pem,
        source.key_pem.as_deref().unwrap_or_default(),
        source.ocsp_der.as_deref().unwrap_or_default(),
        &there,
        source.place.as_bytes(),
        &holder.to_be_bytes(),
    ])
}

fn is_key_alone(bytes: &[u8]) -> bool {
    pem::holds_key(bytes) && read_chain(bytes) == Err(CertificateFault::NoCertificate)
}

/// Returns the certificates of a file, in its order.
pub(crate) fn read_chain(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateFault> {
    let blocks = pem::read(bytes).map_err(|fault| CertificateFault::Pem(fault.into()))?;
    let instead = pem::form_without(&blocks, BlockKind::Certificate);
    let chain = pem::all_of(blocks, BlockKind::Certificate).map(CertificateDer::from);
    let chain: Vec<_> = chain.collect();
    match instead {
        Some(fault) if chain.is_empty() => Err(CertificateFault::Pem(fault.into())),
        None if chain.is_empty() => Err(CertificateFault::NoCertificate),
        _ => Ok(chain),
    }
}

enum ReadKey {
    Own(PrivateKeyDer<'static>),
    /// Public half of a key that another process holds.
    Reference(Vec<u8>),
}

fn read_key(bytes: &[u8]) -> Result<ReadKey, CertificateFault> {
    let mut blocks = pem::read(bytes).map_err(|fault| CertificateFault::KeyPem(fault.into()))?;
    if let Some(one) = blocks.iter_mut().find(|one| one.kind == BlockKind::KeyReference) {
        return Ok(ReadKey::Reference(std::mem::take(&mut *one.der)));
    }
    let is_encrypted = blocks.iter().any(|one| one.kind == BlockKind::EncryptedKey);
    let instead = pem::form_without(&blocks, BlockKind::PrivateKey);
    let mut keys: Vec<_> = pem::all_of(blocks, BlockKind::PrivateKey).collect();
    match (keys.len(), instead) {
        (0, _) if is_encrypted => Err(CertificateFault::EncryptedKey),
        (0, Some(fault)) => Err(CertificateFault::KeyPem(fault.into())),
        (0, None) => Err(CertificateFault::NoKey),
        // Decided by content, because keys are found under labels of other containers.
        (1, _) => {
            let key = PrivateKeyDer::try_from(keys.remove(0));
            key.map(ReadKey::Own).map_err(|_| CertificateFault::KeyUnreadable)
        }
        (count, _) => Err(CertificateFault::SeveralKeys(count)),
    }
}

/// Checks the first certificate's key, because the library would only call it unreadable.
fn check_key_is_supported(chain: &[CertificateDer<'_>]) -> Result<(), CertificateFault> {
    let der = chain.first().ok_or(CertificateFault::NoCertificate)?;
    let first = parse(0, der)?;
    let kind = KeyKind::of(first.public_key())?;
    let bits = key::bits(first.public_key());
    if kind == KeyKind::Rsa && bits < RSA_BITS_MIN {
        return Err(CertificateFault::KeyTooSmall(bits));
    }
    Ok(())
}

fn load_key(der: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, CertificateFault> {
    rustls::crypto::aws_lc_rs::default_provider()
        .key_provider
        .load_private_key(der)
        .map_err(|_| CertificateFault::KeyUnreadable)
}

/// Moves the certificate that has the key's public half to the front; returns whether it moved.
fn put_leaf_first(
    chain: &mut [CertificateDer<'static>],
    key: &dyn SigningKey,
) -> Result<bool, CertificateFault> {
    let public_key = key.public_key().ok_or(CertificateFault::KeyUnreadable)?;
    let mut leaf = None;
    for (index, der) in chain.iter().enumerate() {
        let fits = key::fits(&public_key, parse(index, der)?.public_key());
        leaf = leaf.or_else(|| fits.then_some(index));
    }
    let leaf = leaf.ok_or(CertificateFault::KeyMismatch)?;
    chain[..=leaf].rotate_right(1);
    Ok(leaf > 0)
}

fn parse<'a>(
    index: usize,
    der: &'a CertificateDer<'_>,
) -> Result<X509Certificate<'a>, CertificateFault> {
    X509Certificate::from_der(der)
        .map(|(_, certificate)| certificate)
        .map_err(|_| CertificateFault::Malformed(index))
}

fn read_staple(
    source: &CertificateSource,
    leaf: &X509Certificate<'_>,
    certified: &CertifiedKey,
) -> Result<Option<Staple>, CertificateFault> {
    let Some(der) = &source.ocsp_der else {
        return Ok(None);
    };
    let issuer = leaf.issuer().as_raw();
    let chain = certified.cert.iter().filter_map(|der| parse(0, der).ok());
    let certificate = ocsp::CertificateId {
        serial: leaf.raw_serial(),
        issuer,
        issuers: chain.filter(|one| one.subject().as_raw() == issuer).collect(),
    };
    let validity = ocsp::check(der, &certificate).map_err(CertificateFault::Ocsp)?;
    let mut key = certified.clone();
    key.ocsp = Some(der.clone());
    Ok(Some(Staple { key: Arc::new(key), validity }))
}

/// Reports whether the leaf has the TLS feature `status_request` (RFC 7633 section 4.2.3.1).
fn asks_for_staple(leaf: &X509Certificate<'_>) -> bool {
    const TLS_FEATURE: &str = "1.3.6.1.5.5.7.1.24";
    /// An INTEGER in DER: the number of the extension (RFC 6066 section 8).
    const STATUS_REQUEST: [u8; 3] = [2, 1, 5];
    let features =
        leaf.extensions().iter().find(|extension| extension.oid.to_id_string() == TLS_FEATURE);
    features.is_some_and(|features| {
        // Skips the header of the SEQUENCE, which is as long as one INTEGER, or invalid.
        let numbers = features.value.get(2..).unwrap_or_default();
        numbers.chunks(STATUS_REQUEST.len()).any(|one| one == STATUS_REQUEST)
    })
}

fn names(leaf: &X509Certificate<'_>) -> Box<[Box<str>]> {
    match leaf.subject_alternative_name() {
        Ok(Some(extension)) => {
            extension.value.general_names.iter().filter_map(alternative_name).collect()
        }
        _ => leaf
            .subject()
            .iter_common_name()
            .filter_map(|name| name.as_str().ok())
            .map(lower_case)
            .collect(),
    }
}

fn alternative_name(name: &GeneralName<'_>) -> Option<Box<str>> {
    match name {
        GeneralName::DNSName(name) => Some(lower_case(name)),
        GeneralName::IPAddress(bytes) => Some(address_of(bytes)?.to_string().into()),
        _ => None,
    }
}

fn lower_case(name: &str) -> Box<str> {
    name.trim_end_matches('.').to_ascii_lowercase().into()
}

/// Bits of a public key, equal for a certificate and its private key.
pub type PublicKeyBits = Vec<u8>;

/// Content of a file that may be part of a pair of certificate and key.
#[derive(Debug, Default)]
pub struct PemContents {
    /// Whether the file has no block at all.
    pub is_blank: bool,
    /// Number of certificates.
    pub certificates: usize,
    /// The first certificate in DER, with its public key; `None` = it cannot be read.
    pub leaf: Option<(Vec<u8>, PublicKeyBits)>,
    /// Whether the first certificate is an authority's.
    pub is_of_authority: bool,
    /// Whether servers may present the first: neither its keyUsage (RFC 8446 section 4.4.2.2) nor
    /// its extendedKeyUsage forbids it.
    pub is_for_servers: bool,
    /// Whether the first has subjectAltName, without which no client of today trusts a server.
    pub names_hosts: bool,
    /// Issuer and subject of the first, in DER.
    pub issuer: Vec<u8>,
    pub subject: Vec<u8>,
    /// Whether the file has a private key, encrypted or not.
    pub has_key: bool,
    /// Public keys of the readable private keys.
    pub keys: Vec<PublicKeyBits>,
}

impl PemContents {
    /// Reads a file. A key that is no RSA key costs as much as loading it.
    ///
    /// # Errors
    /// Fails if the file cannot be read as PEM; then its content is unknown.
    pub fn of(bytes: &[u8]) -> Result<Self, PemFault> {
        let blocks = pem::read(bytes)?;
        let mut contents = Self { is_blank: blocks.is_empty(), ..Self::default() };
        for block in blocks {
            match block.kind {
                BlockKind::Certificate => {
                    if contents.certificates == 0 {
                        contents.take_leaf(&block.der);
                    }
                    contents.certificates += 1;
                }
                BlockKind::PrivateKey => {
                    contents.has_key = true;
                    contents.keys.extend(public_key_of(&block.der));
                }
                BlockKind::EncryptedKey => contents.has_key = true,
                BlockKind::KeyReference => {
                    contents.has_key = true;
                    contents.keys.extend(public_bits(&block.der));
                }
                BlockKind::RevocationList | BlockKind::Parameters | BlockKind::Other => {}
            }
        }
        Ok(contents)
    }

    fn take_leaf(&mut self, der: &[u8]) {
        if let Ok(read) = parse(0, &CertificateDer::from(der)) {
            self.is_of_authority = read.is_ca();
            self.is_for_servers = is_for_servers(&read);
            self.names_hosts = matches!(read.subject_alternative_name(), Ok(Some(_)));
            self.issuer = read.issuer().as_raw().to_vec();
            self.subject = read.subject().as_raw().to_vec();
            let key = read.public_key();
            self.leaf = Some((der.to_vec(), bits_of(key)));
        }
    }
}

fn is_for_servers(read: &X509Certificate<'_>) -> bool {
    let usage = read.key_usage().ok().flatten();
    let extended = read.extended_key_usage().ok().flatten();
    usage.is_none_or(|usage| {
        let usage = usage.value;
        usage.digital_signature() || usage.key_encipherment() || usage.key_agreement()
    }) && extended.is_none_or(|usage| usage.value.server_auth || usage.value.any)
}

fn bits_of(key: &SubjectPublicKeyInfo<'_>) -> PublicKeyBits {
    let is_rsa = key.algorithm.algorithm == OID_PKCS1_RSAENCRYPTION;
    let bits = &*key.subject_public_key.data;
    let content = |bits| Any::from_der(bits).map_or(bits, |(_, sequence)| sequence.data);
    if is_rsa { content(bits) } else { bits }.to_vec()
}

fn public_bits(der: &[u8]) -> Option<PublicKeyBits> {
    let (_, read) = SubjectPublicKeyInfo::from_der(der).ok()?;
    Some(bits_of(&read))
}

fn public_key_of(der: &[u8]) -> Option<PublicKeyBits> {
    let key = PrivateKeyDer::try_from(der).ok()?;
    if let Some(public) = public_rsa_key(&key) {
        return Some(public);
    }
    let key = load_key(key.clone_key()).ok()?;
    let public = key.public_key()?;
    let (_, read) = SubjectPublicKeyInfo::from_der(&public).ok()?;
    Some(read.subject_public_key.data.to_vec())
}

/// Returns modulus and exponent as stored in the key (RFC 8017 appendix A.1.2), because the library
/// takes a quarter of a millisecond to load a key.
fn public_rsa_key(key: &PrivateKeyDer<'_>) -> Option<PublicKeyBits> {
    let pkcs1 = match key {
        PrivateKeyDer::Pkcs1(key) => key.secret_pkcs1_der(),
        PrivateKeyDer::Pkcs8(key) => {
            let info = elements::<3>(key.secret_pkcs8_der())?;
            Any::from_der(info[2]).ok()?.1.data
        }
        _ => return None,
    };
    // Modulus and exponent follow the version; other kinds of keys have no five elements.
    let [version, modulus, exponent, _, _] = elements::<5>(pkcs1)?;
    (version == [2, 1, 0]).then(|| [modulus, exponent].concat())
}

/// Returns the first elements of a sequence, with their headers.
fn elements<const COUNT: usize>(der: &[u8]) -> Option<[&[u8]; COUNT]> {
    let mut rest = Any::from_der(der).ok()?.1.data;
    let mut found = [rest; COUNT];
    for element in &mut found {
        let (behind, _) = Any::from_der(rest).ok()?;
        *element = &rest[..rest.len() - behind.len()];
        rest = behind;
    }
    Some(found)
}

/// Number of possible forms: Brotli and zlib, with and without an OCSP response.
const FORMS_MAX: usize = 4;

/// Compressed forms of one certificate's message.
#[derive(Debug, Default)]
pub(crate) struct CompressedForms(RwLock<Vec<CompressedCertificate>>);

#[derive(Debug)]
pub(crate) struct CompressedCertificate {
    pub(crate) algorithm: Algorithm,
    /// Distinguishes the message with an OCSP response from the one without.
    pub(crate) original_bytes: usize,
    /// Empty = no shorter than the original, which is then sent.
    pub(crate) compressed: Box<[u8]>,
}

impl CompressedForms {
    pub(crate) fn find(&self, algorithm: Algorithm, original_bytes: usize) -> Option<Vec<u8>> {
        let forms = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let is_it = |form: &&CompressedCertificate| {
            form.algorithm == algorithm && form.original_bytes == original_bytes
        };
        forms.iter().find(is_it).map(|form| form.compressed.to_vec())
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn keep(&self, form: CompressedCertificate) {
        let mut forms = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if forms.len() < FORMS_MAX {
            forms.push(form);
        }
    }
}

#[cfg(test)]
mod tests;
