//! Certificates: PEM text -> a chain, a key that fits it, and the few facts that the rest asks for.
//!
//! Owns loading and what can be wrong with it. Opens no file, and keeps neither the text nor the
//! parsed form: what stays is what a handshake sends and what an operator is shown. Which
//! certificate a client gets is decided in [`crate::names`].

mod fault;
mod key;
mod ocsp;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::sign::{CertifiedKey, SigningKey};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

pub(crate) use fault::pem_fault;
pub use fault::{
    CertificateConcern, CertificateError, CertificateFault, EXPIRY_WARNING_DAYS, RSA_BITS_MIN,
};
pub use key::KeyKind;
pub use ocsp::OcspFault;

use crate::mark::{CertificateMark, mark_of};
use crate::options::CertificateSource;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// A certificate ready to be served.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The chain (leaf first), its key and the stapled OCSP response.
    pub key: Arc<CertifiedKey>,
    /// What it is valid for: DNS names in lower case (wildcards as they stand) and IP addresses;
    /// the common name only if it has no subjectAltName (RFC 9525 section 2).
    pub names: Box<[Box<str>]>,
    /// The kind of its key.
    pub kind: KeyKind,
    /// The first second of its validity, Unix time.
    pub not_before: i64,
    /// The last second of its validity, Unix time.
    pub not_after: i64,
    /// The issuer's distinguished name.
    pub issuer: Box<str>,
    /// How the issuer signed it, as OpenSSL writes it ("RSA-SHA256"), for PP2_SUBTYPE_SSL_SIG_ALG.
    pub signature_algorithm: Cow<'static, str>,
    /// The algorithm and size of its key ("EC256", "RSA2048"), for PP2_SUBTYPE_SSL_KEY_ALG.
    pub key_algorithm: Cow<'static, str>,
    /// Where it came from.
    pub place: Box<str>,
    /// What stands for it in sessions.
    pub(crate) mark: CertificateMark,
}

impl Certificate {
    /// Reads a certificate and checks all that can be checked without its issuer.
    /// What does not keep it from being served comes back as concerns.
    pub fn load(
        source: &CertificateSource,
        now: UnixTime,
    ) -> Result<(Self, Vec<CertificateConcern>), CertificateError> {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let mut concerns = Vec::new();
        Self::read(source, now, &mut concerns)
            .map(|certificate| (certificate, concerns))
            .map_err(|fault| CertificateError::new(source, fault))
    }

    /// Whether `now` (Unix time) is within its validity.
    pub fn is_valid_at(&self, now: UnixTime) -> bool {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        self.not_before <= now && now <= self.not_after
    }

    fn read(
        source: &CertificateSource,
        now: i64,
        concerns: &mut Vec<CertificateConcern>,
    ) -> Result<Self, CertificateFault> {
        let mut chain = read_chain(&source.chain_pem)?;
        let key_der = read_key(source.key_pem.as_ref().unwrap_or(&source.chain_pem))?;
        check_key_is_supported(&chain)?;
        let key = load_key(key_der)?;
        if put_leaf_first(&mut chain, &*key)? {
            concerns.push(CertificateConcern::LeafNotFirst);
        }
        let leaf_der = chain
            .first()
            .ok_or(CertificateFault::NoCertificate)?
            .clone();
        let leaf = parse(0, &leaf_der)?;
        let ocsp = read_ocsp(source, &leaf, now, concerns)?;
        let validity = leaf.validity();
        let (not_before, not_after) = (
            validity.not_before.timestamp(),
            validity.not_after.timestamp(),
        );
        concerns.extend(validity_concern(not_before, not_after, now));
        Ok(Self {
            names: names(&leaf),
            kind: KeyKind::of(leaf.public_key())?,
            not_before,
            not_after,
            issuer: leaf.issuer().to_string().into(),
            signature_algorithm: key::signature_algorithm_name(&leaf.signature_algorithm),
            key_algorithm: key::key_algorithm_name(leaf.public_key()),
            place: source.place.as_str().into(),
            mark: mark_of(&leaf_der),
            key: Arc::new(CertifiedKey {
                cert: chain,
                key,
                ocsp,
            }),
        })
    }
}

fn read_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateFault> {
    let chain = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| CertificateFault::of_chain_pem(pem, &error))?;
    match (chain.is_empty(), pem.first()) {
        (false, _) => Ok(chain),
        (true, Some(0x30)) => Err(CertificateFault::Der),
        (true, _) => Err(CertificateFault::NoCertificate),
    }
}

fn read_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, CertificateFault> {
    let mut keys = PrivateKeyDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| CertificateFault::of_key_pem(pem, &error))?;
    match keys.len() {
        0 | 1 => keys
            .pop()
            .ok_or_else(|| CertificateFault::of_missing_key(pem)),
        count => Err(CertificateFault::SeveralKeys { count }),
    }
}

/// Says of the first certificate's key what the library would only call unreadable.
fn check_key_is_supported(chain: &[CertificateDer<'_>]) -> Result<(), CertificateFault> {
    let der = chain.first().ok_or(CertificateFault::NoCertificate)?;
    let first = parse(0, der)?;
    let kind = KeyKind::of(first.public_key())?;
    let bits = key::bits(first.public_key());
    if kind == KeyKind::Rsa && bits < RSA_BITS_MIN {
        return Err(CertificateFault::KeyTooSmall { bits });
    }
    Ok(())
}

fn load_key(der: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, CertificateFault> {
    rustls::crypto::aws_lc_rs::default_provider()
        .key_provider
        .load_private_key(der)
        .map_err(|_| CertificateFault::KeyUnreadable)
}

/// Moves the certificate that has the key's public half to the front; says whether it had to.
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
        .map_err(|_| CertificateFault::Malformed { index })
}

fn read_ocsp(
    source: &CertificateSource,
    leaf: &X509Certificate<'_>,
    now: i64,
    concerns: &mut Vec<CertificateConcern>,
) -> Result<Option<Vec<u8>>, CertificateFault> {
    let Some(der) = &source.ocsp_der else {
        return Ok(None);
    };
    let next_update = ocsp::check(der, leaf.raw_serial()).map_err(CertificateFault::Ocsp)?;
    if next_update.is_some_and(|next_update| next_update < now) {
        concerns.push(CertificateConcern::OcspExpired);
        return Ok(None);
    }
    Ok(Some(der.clone()))
}

fn validity_concern(not_before: i64, not_after: i64, now: i64) -> Option<CertificateConcern> {
    let days_left = not_after.saturating_sub(now) / DAY_SECONDS;
    if now > not_after {
        let days = now.saturating_sub(not_after) / DAY_SECONDS;
        Some(CertificateConcern::Expired { days })
    } else if now < not_before {
        let days = not_before.saturating_sub(now) / DAY_SECONDS;
        Some(CertificateConcern::NotYetValid { days })
    } else {
        (days_left < EXPIRY_WARNING_DAYS)
            .then_some(CertificateConcern::ExpiresSoon { days: days_left })
    }
}

fn names(leaf: &X509Certificate<'_>) -> Box<[Box<str>]> {
    match leaf.subject_alternative_name() {
        Ok(Some(extension)) => extension
            .value
            .general_names
            .iter()
            .filter_map(alternative_name)
            .collect(),
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
        GeneralName::IPAddress(bytes) => {
            let address = <[u8; 4]>::try_from(*bytes)
                .map(IpAddr::from)
                .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from))
                .ok()?;
            Some(address.to_string().into())
        }
        _ => None,
    }
}

fn lower_case(name: &str) -> Box<str> {
    name.trim_end_matches('.').to_ascii_lowercase().into()
}

#[cfg(test)]
mod tests;
