//! Kinds of keys, as a certificate states them; and private keys encrypted with a passphrase (PKCS
//! #8, RFC 5958 section 3).
//!
//! Limits the work for a passphrase, because the file itself sets the number of rounds.

use std::borrow::Cow;

use base64ct::{Base64, Encoding};
use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::Kdf;
use rustls_pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};
use x509_parser::asn1_rs::Tag;
use x509_parser::oid_registry::{
    OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P384, OID_NIST_EC_P521,
    OID_PKCS1_RSAENCRYPTION, OID_SIG_ED25519, Oid,
};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};
use zeroize::Zeroizing;

use super::fault::CertificateFault;
use crate::certificate::pem::{self, BlockKind, PemFault};

/// Kinds of keys that we sign with, in the order of our preference: the cheapest for us first.
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

    /// Returns the name that operators see.
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
                    // RFC 5480 section 2.1.1 forbids explicit parameters.
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

/// Returns the common name of a kind of key that cannot be served; else the dotted number.
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

/// Reports whether both are the same public key. Only the key's own bits are compared, because the
/// form of its algorithm (RSA with or without NULL parameters) does not matter.
pub(super) fn fits(public: &SubjectPublicKeyInfoDer<'_>, of: &SubjectPublicKeyInfo<'_>) -> bool {
    SubjectPublicKeyInfo::from_der(public.as_ref())
        .is_ok_and(|(_, key)| key.subject_public_key.data == of.subject_public_key.data)
}

/// Returns the nominal size of a key; 0 = none.
pub(super) fn bits(key: &SubjectPublicKeyInfo<'_>) -> usize {
    match key.parsed() {
        // The parser counts whole bytes of the modulus, with the sign's zero byte if present.
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

/// Returns the key's algorithm and size, as HAProxy writes them into PP2_SUBTYPE_SSL_KEY_ALG.
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

/// Returns OpenSSL's short name for PP2_SUBTYPE_SSL_SIG_ALG; else the dotted number.
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

/// Maximum rounds of PBKDF2, about a second of one core. OpenSSL writes 2,048, and OWASP wants
/// 600,000.
const ROUNDS_MAX: u32 = 2_000_000;

/// Maximum memory for scrypt (128 N r, RFC 7914 section 2), in bytes. OpenSSL's default takes 16
/// MiB.
const SCRYPT_BYTES_MAX: u64 = 256 << 20;

/// Maximum runs of scrypt over that memory.
const SCRYPT_PASSES_MAX: u16 = 16;

/// Reason why a passphrase opens no key.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PassphraseFault {
    #[error("cannot be read as PEM")]
    Pem(PemFault),
    /// OpenSSL's form before 1.0 (`Proc-Type: 4,ENCRYPTED`), whose one round of MD5 is no
    /// protection.
    #[error("is encrypted in OpenSSL's old form")]
    OldForm,
    /// The form is not PBES2 with AES and PBKDF2 with SHA-2, or scrypt.
    #[error("is encrypted in a form that is not supported")]
    Unsupported,
    #[error("asks for more work than its passphrase may take")]
    TooCostly,
    #[error("is not opened by this passphrase")]
    WrongPassphrase,
    /// The code that opens keys is not part of the FIPS module.
    #[error("is encrypted, and a build for FIPS opens none")]
    NotApproved,
}

impl PassphraseFault {
    /// Returns the remedy for the file at `place`.
    pub fn remedy(&self, place: &str) -> String {
        match self {
            Self::Pem(fault) => fault.sentence(place),
            Self::NotApproved => format!(
                "keep it in a token (`pkcs11:`), or decrypt it with `openssl pkey -in {place} -out \
                 KEY.pem` and protect the result by file mode"
            ),
            Self::OldForm | Self::Unsupported | Self::TooCostly => format!(
                "convert it with `openssl pkcs8 -topk8 -v2 aes-256-cbc -in {place} -out KEY.pem`"
            ),
            Self::WrongPassphrase => {
                format!("try the passphrase with `openssl pkey -in {place} -noout`")
            }
        }
    }
}

/// Reports whether a file holds an encrypted key and no plain one.
pub fn is_encrypted(pem: &[u8]) -> bool {
    pem::read(pem).is_ok_and(|blocks| {
        let has = |kind| blocks.iter().any(|one| one.kind == kind);
        has(BlockKind::EncryptedKey) && !has(BlockKind::PrivateKey)
    })
}

/// Returns the text with its decrypted keys appended, so that lines keep their numbers.
///
/// # Errors
/// Fails with the fault of the first key that cannot be opened.
pub fn decrypt(text: &[u8], passphrase: &[u8]) -> Result<Vec<u8>, PassphraseFault> {
    if cfg!(feature = "fips") {
        return Err(PassphraseFault::NotApproved);
    }
    let blocks = pem::read(text).map_err(PassphraseFault::Pem)?;
    let encrypted = blocks.iter().filter(|one| one.kind == BlockKind::EncryptedKey);
    let mut whole = pem::text_of(text);
    for block in encrypted {
        if block.der.is_empty() {
            return Err(PassphraseFault::OldForm);
        }
        let key = decrypt_one(&block.der, passphrase)?;
        let encoded = Zeroizing::new(Base64::encode_string(&key));
        // One allocation, because a growing buffer would leave copies of the key behind.
        let mut grown = Zeroizing::new(Vec::with_capacity(whole.len() + encoded.len() + 64));
        grown.extend_from_slice(&whole);
        grown.extend_from_slice(b"\n-----BEGIN PRIVATE KEY-----\n");
        grown.extend_from_slice(encoded.as_bytes());
        grown.extend_from_slice(b"\n-----END PRIVATE KEY-----\n");
        whole = grown;
    }
    Ok(std::mem::take(&mut whole))
}

fn decrypt_one(der: &[u8], passphrase: &[u8]) -> Result<Zeroizing<Vec<u8>>, PassphraseFault> {
    let unsupported = |_| PassphraseFault::Unsupported;
    let info = EncryptedPrivateKeyInfoRef::try_from(der).map_err(unsupported)?;
    let EncryptionScheme::Pbes2(parameters) = &info.encryption_algorithm else {
        return Err(PassphraseFault::Unsupported);
    };
    let is_bearable = match &parameters.kdf {
        Kdf::Pbkdf2(kdf) => kdf.iteration_count <= ROUNDS_MAX,
        Kdf::Scrypt(kdf) => {
            let bytes = u64::from(kdf.block_size).saturating_mul(128);
            bytes.saturating_mul(kdf.cost_parameter) <= SCRYPT_BYTES_MAX
                && kdf.parallelization <= SCRYPT_PASSES_MAX
        }
        _ => return Err(PassphraseFault::Unsupported),
    };
    if !is_bearable {
        return Err(PassphraseFault::TooCostly);
    }
    let opened = parameters.decrypt(passphrase, info.encrypted_data.as_bytes());
    let opened = opened.map(Zeroizing::new).map_err(|fault| match fault {
        pkcs8::pkcs5::Error::DecryptFailed | pkcs8::pkcs5::Error::EncryptFailed => {
            PassphraseFault::WrongPassphrase
        }
        _ => PassphraseFault::Unsupported,
    })?;
    // One wrong passphrase in 256 leaves a padding that looks right.
    let is_key = PrivateKeyDer::try_from(opened.as_slice()).is_ok();
    if is_key { Ok(opened) } else { Err(PassphraseFault::WrongPassphrase) }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use testkit::leaf::Key;

    use super::*;

    /// Generates a key and encrypts it with OpenSSL.
    fn encrypted(arguments: &[&str]) -> String {
        let directory = testkit::directory::Directory::new();
        let path = directory.path().join("key.pem");
        std::fs::write(&path, Key::EcdsaP256.generate_pem()).expect("written");
        let mut openssl = Command::new("openssl");
        openssl.args(arguments).arg("-in").arg(&path).args(["-passout", "pass:secret"]);
        let output = openssl.stdin(Stdio::null()).output().expect("openssl");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("PEM")
    }

    #[test]
    fn keys_of_openssl_are_opened_by_their_passphrase_alone() {
        for form in [
            &["pkcs8", "-topk8"][..],
            &["pkcs8", "-topk8", "-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA512"],
            &["pkcs8", "-topk8", "-scrypt"],
            &["pkey", "-aes256"],
        ] {
            let pem = encrypted(form);
            assert!(is_encrypted(pem.as_bytes()), "{form:?}");
            let opened = decrypt(pem.as_bytes(), b"secret").expect("opened");
            assert!(!is_encrypted(&opened), "{form:?}");
            for wrong in [&b"secre"[..], b"", b"secret\n"] {
                let fault = decrypt(pem.as_bytes(), wrong);
                assert_eq!(fault, Err(PassphraseFault::WrongPassphrase), "{form:?}");
            }
        }
    }

    #[test]
    fn other_forms_and_costly_ones_are_named() {
        for (form, fault) in [
            (&["ec", "-aes128"][..], PassphraseFault::OldForm),
            (&["pkcs8", "-topk8", "-v2", "des3"], PassphraseFault::Unsupported),
            (&["pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES"], PassphraseFault::Unsupported),
            (&["pkcs8", "-topk8", "-iter", "2000001"], PassphraseFault::TooCostly),
        ] {
            let pem = encrypted(form);
            assert_eq!(decrypt(pem.as_bytes(), b"secret"), Err(fault), "{form:?}");
        }
    }
}
