//! Private keys behind a passphrase (PKCS #8, RFC 5958 section 3) -> private keys.
//!
//! Owns what the work for one may cost: the file says how often its passphrase is hashed.

use base64ct::{Base64, Encoding};
use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::Kdf;
use rustls_pki_types::PrivateKeyDer;
use zeroize::Zeroizing;

use super::pem::{self, BlockKind, PemFault};

/// Rounds of PBKDF2 at most, about a second of one core. OpenSSL writes 2,048, and OWASP wants
/// 600,000.
const ROUNDS_MAX: u32 = 2_000_000;

/// Memory at most for scrypt (128 N r, RFC 7914 section 2), in bytes. OpenSSL's default takes 16
/// MiB.
const SCRYPT_BYTES_MAX: u64 = 256 << 20;

/// Passes of scrypt over that memory at most.
const SCRYPT_PASSES_MAX: u16 = 16;

/// The reason why a passphrase opens no key.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PassphraseFault {
    #[error("cannot be read as PEM")]
    Pem(PemFault),
    /// The form of OpenSSL before 1.0 (`Proc-Type: 4,ENCRYPTED`), whose one round of MD5 protects
    /// nothing.
    #[error("is encrypted in OpenSSL's old form")]
    OldForm,
    /// Neither PBES2 with AES, nor PBKDF2 with SHA-2 or scrypt.
    #[error("is encrypted in a form that is not supported")]
    Unsupported,
    #[error("asks for more work than its passphrase may take")]
    TooCostly,
    #[error("is not opened by this passphrase")]
    WrongPassphrase,
    /// The code that opens keys is no part of the FIPS module.
    #[error("is encrypted, and a build for FIPS opens none")]
    NotApproved,
}

impl PassphraseFault {
    /// The remedy for the file at `place`.
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

/// Whether a file holds an encrypted key and none that can be used as it is.
pub fn is_encrypted(pem: &[u8]) -> bool {
    pem::read(pem).is_ok_and(|blocks| {
        let has = |kind| blocks.iter().any(|one| one.kind == kind);
        has(BlockKind::EncryptedKey) && !has(BlockKind::PrivateKey)
    })
}

/// The text with its keys as they are behind their passphrase appended, so that lines keep their
/// numbers.
///
/// # Errors
/// The fault of the first key that cannot be opened.
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
        // In one piece: a buffer that grows by parts would leave copies of the key behind.
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
    // One wrong passphrase of 256 leaves a padding that looks right.
    let is_key = PrivateKeyDer::try_from(opened.as_slice()).is_ok();
    if is_key { Ok(opened) } else { Err(PassphraseFault::WrongPassphrase) }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use testkit::leaf::Key;

    use super::*;

    /// A new key as OpenSSL encrypts it.
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
