//! Encrypts and decrypts passwords with RSA, as MySQL's plugins send them without TLS.
//!
//! Implements RSA-OAEP with SHA-1 (RFC 8017 section 7.1) in both directions, as `sha256_password`
//! and `caching_sha2_password` prescribe. [`wire::starttls`] decides which password goes where.

use std::sync::LazyLock;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rsa::{
    KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
    PrivateDecryptingKey, PublicEncryptingKey,
};
use pem_rfc7468::LineEnding;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject;
use wire::starttls::PasswordTask;

/// Encrypts a password for the holder of a public key in PEM (2048 to 8192 bits); `None` = the key
/// is no such key, or the password is too long for it: 214 bytes for 2048 bits.
fn encrypt(key: &[u8], password: &[u8]) -> Option<Vec<u8>> {
    let key = SubjectPublicKeyInfoDer::from_pem_slice(key).ok()?;
    let key = PublicEncryptingKey::from_der(&key).ok()?;
    let key = OaepPublicEncryptingKey::new(key).ok()?;
    let mut encrypted = vec![0; key.ciphertext_size()];
    let written = key.encrypt(&OAEP_SHA1_MGF1SHA1, password, &mut encrypted, None);
    Some(written.ok()?.to_vec())
}

/// Performs a dialog's task; `None` = it failed.
pub fn perform(task: PasswordTask) -> Option<Vec<u8>> {
    match task {
        PasswordTask::Encrypt { key, password } => encrypt(&key, &password),
        PasswordTask::OwnKey => Some(own_key()?.public.clone().into_bytes()),
        PasswordTask::Decrypt(encrypted) => own_key()?.decrypt(&encrypted),
    }
}

/// Generates the key that clients without TLS encrypt for, if there is none yet, which takes some
/// 100 ms of CPU. It lives as long as the process, because clients request it each time.
pub fn prepare() {
    own_key();
}

fn own_key() -> Option<&'static PasswordKey> {
    static KEY: LazyLock<Option<PasswordKey>> = LazyLock::new(PasswordKey::generate);
    KEY.as_ref()
}

#[derive(Debug)]
struct PasswordKey {
    key: OaepPrivateDecryptingKey,
    public: String,
}

impl PasswordKey {
    /// Generates a key of 2048 bits; `None` = the library has failed.
    fn generate() -> Option<Self> {
        let key = PrivateDecryptingKey::generate(KeySize::Rsa2048).ok()?;
        let public: PublicKeyX509Der<'_> = key.public_key().as_der().ok()?;
        let public = pem_rfc7468::encode_string("PUBLIC KEY", LineEnding::LF, public.as_ref());
        Some(Self { public: public.ok()?, key: OaepPrivateDecryptingKey::new(key).ok()? })
    }

    /// Decrypts a password; `None` = it was not encrypted for this key.
    fn decrypt(&self, encrypted: &[u8]) -> Option<Vec<u8>> {
        let mut password = vec![0; self.key.min_output_size()];
        let padding = &OAEP_SHA1_MGF1SHA1;
        let written = self.key.decrypt(padding, encrypted, &mut password, None);
        let bytes = written.ok()?.len();
        password.truncate(bytes);
        Some(password)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encrypted_is_decrypted() {
        let key = PasswordKey::generate().unwrap();
        let pem = key.public.as_bytes();
        for password in [&b""[..], b"secret\0", &[7; 214]] {
            let encrypted = encrypt(pem, password).unwrap();
            assert_eq!(key.decrypt(&encrypted).as_deref(), Some(password));
        }
        assert_eq!(encrypt(pem, &[7; 215]), None, "too long for 2048 bits");
        assert_eq!(encrypt(b"-----BEGIN PUBLIC KEY-----", b""), None);
        assert_eq!(key.decrypt(&[7; 256]), None);
        assert_eq!(key.decrypt(b""), None);
    }
}
