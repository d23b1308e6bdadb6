//! Kinds of keys: what a certificate says about its own.

use std::borrow::Cow;

use rustls_pki_types::SubjectPublicKeyInfoDer;
use x509_parser::asn1_rs::Tag;
use x509_parser::oid_registry::{
    OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P384, OID_NIST_EC_P521,
    OID_PKCS1_RSAENCRYPTION, OID_SIG_ED25519, Oid,
};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

use super::fault::CertificateFault;

/// The kinds of keys that we sign with, in the order of our preference: what costs us least first.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum KeyKind {
    EcdsaP256,
    /// Ed25519 (RFC 8032).
    Ed25519,
    EcdsaP384,
    EcdsaP521,
    /// RSA, 2048 bits or more.
    Rsa,
}

impl KeyKind {
    /// All kinds, in the order of our preference.
    pub const ALL: [Self; 5] =
        [Self::EcdsaP256, Self::Ed25519, Self::EcdsaP384, Self::EcdsaP521, Self::Rsa];

    /// The name that operators see.
    pub fn name(self) -> &'static str {
        match self {
            Self::EcdsaP256 => "ECDSA P-256",
            Self::Ed25519 => "Ed25519",
            Self::EcdsaP384 => "ECDSA P-384",
            Self::EcdsaP521 => "ECDSA P-521",
            Self::Rsa => "RSA",
        }
    }

    pub(crate) fn of(key: &SubjectPublicKeyInfo<'_>) -> Result<Self, CertificateFault> {
        let algorithm = &key.algorithm.algorithm;
        let curve = curve(&key.algorithm);
        let is_elliptic = *algorithm == OID_KEY_TYPE_EC_PUBLIC_KEY;
        let kind = match curve.as_ref().filter(|_| is_elliptic) {
            _ if *algorithm == OID_PKCS1_RSAENCRYPTION => Self::Rsa,
            _ if *algorithm == OID_SIG_ED25519 => Self::Ed25519,
            Some(curve) if *curve == OID_EC_P256 => Self::EcdsaP256,
            Some(curve) if *curve == OID_NIST_EC_P384 => Self::EcdsaP384,
            Some(curve) if *curve == OID_NIST_EC_P521 => Self::EcdsaP521,
            _ => {
                return Err(CertificateFault::KeyUnsupported(match curve {
                    // RFC 5480 section 2.1.1 forbids them.
                    None if is_elliptic => {
                        "ECDSA with explicit parameters instead of a named curve".to_owned()
                    }
                    curve => unsupported_name(curve.as_ref().unwrap_or(algorithm)),
                }));
            }
        };
        Ok(kind)
    }
}

/// The common name of a kind of key that cannot be served; the dotted number of others.
fn unsupported_name(algorithm: &Oid<'_>) -> String {
    let number = algorithm.to_id_string();
    let name = match number.as_str() {
        "1.2.840.10040.4.1" => "DSA",
        "1.2.840.113549.1.1.10" => "RSASSA-PSS",
        "1.2.840.10045.3.1.1" => "ECDSA secp192r1",
        "1.3.132.0.33" => "ECDSA secp224r1",
        "1.3.132.0.10" => "ECDSA secp256k1",
        "1.3.36.3.3.2.8.1.1.7" => "ECDSA brainpoolP256r1",
        "1.3.36.3.3.2.8.1.1.11" => "ECDSA brainpoolP384r1",
        "1.3.36.3.3.2.8.1.1.13" => "ECDSA brainpoolP512r1",
        "1.3.101.113" => "Ed448",
        _ => return number,
    };
    name.to_owned()
}

fn curve(algorithm: &AlgorithmIdentifier<'_>) -> Option<Oid<'static>> {
    let parameters = algorithm.parameters.as_ref()?;
    parameters.tag().eq(&Tag::Oid).then_some(())?;
    parameters.as_oid().ok().map(|oid| oid.to_owned())
}

/// Whether both are the same public key. Only the key's own bits are compared: how its algorithm
/// is written (RSA with or without NULL parameters) says nothing about the key.
pub(super) fn fits(public: &SubjectPublicKeyInfoDer<'_>, of: &SubjectPublicKeyInfo<'_>) -> bool {
    SubjectPublicKeyInfo::from_der(public.as_ref())
        .is_ok_and(|(_, key)| key.subject_public_key.data == of.subject_public_key.data)
}

/// The size that people name a key by; 0 = none.
pub(super) fn bits(key: &SubjectPublicKeyInfo<'_>) -> usize {
    match key.parsed() {
        // The parser counts whole bytes of the modulus, with the sign's zero byte if there is one.
        Ok(PublicKey::RSA(rsa)) => {
            let modulus = rsa.modulus.iter().skip_while(|byte| **byte == 0);
            modulus.count() * 8
        }
        Ok(PublicKey::EC(_)) => match KeyKind::of(key) {
            Ok(KeyKind::EcdsaP256) => 256,
            Ok(KeyKind::EcdsaP384) => 384,
            Ok(KeyKind::EcdsaP521) => 521,
            _ => 0,
        },
        _ => 0,
    }
}

/// The key's algorithm and size, as HAProxy writes them into PP2_SUBTYPE_SSL_KEY_ALG.
pub(super) fn key_algorithm_name(key: &SubjectPublicKeyInfo<'_>) -> Cow<'static, str> {
    match KeyKind::of(key) {
        Ok(KeyKind::EcdsaP256) => "EC256".into(),
        Ok(KeyKind::EcdsaP384) => "EC384".into(),
        Ok(KeyKind::EcdsaP521) => "EC521".into(),
        Ok(KeyKind::Ed25519) => "ED25519".into(),
        Ok(KeyKind::Rsa) => format!("RSA{}", bits(key)).into(),
        Err(_) => "UNKNOWN".into(),
    }
}

/// OpenSSL's short names, which PP2_SUBTYPE_SSL_SIG_ALG carries; the dotted number of others.
pub(super) fn signature_algorithm_name(algorithm: &AlgorithmIdentifier<'_>) -> Cow<'static, str> {
    let number = algorithm.algorithm.to_id_string();
    let name = match number.as_str() {
        "1.2.840.113549.1.1.5" => "RSA-SHA1",
        "1.2.840.113549.1.1.10" => "RSASSA-PSS",
        "1.2.840.113549.1.1.11" => "RSA-SHA256",
        "1.2.840.113549.1.1.12" => "RSA-SHA384",
        "1.2.840.113549.1.1.13" => "RSA-SHA512",
        "1.2.840.10045.4.3.2" => "ecdsa-with-SHA256",
        "1.2.840.10045.4.3.3" => "ecdsa-with-SHA384",
        "1.2.840.10045.4.3.4" => "ecdsa-with-SHA512",
        "1.3.101.112" => "ED25519",
        _ => return number.into(),
    };
    name.into()
}
