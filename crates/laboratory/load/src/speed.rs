//! Measures the speed of keys and ciphers on this CPU, with the library that makes our handshakes,
//! and tells the versions of libraries in this build.
//!
//! Handles the operations and their timing: CPU time of the calling thread, which chooses its CPU
//! itself. The rows are those of `openssl speed`, for comparison.

use std::hint::black_box;
use std::time::Duration;

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, ParsedPublicKey};
use measure::record::OperationSpeed;
use rustls::crypto::aws_lc_rs::kx_group;
use sys::cpu::thread_time;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SpeedRows {
    Quick,
    /// Every kind of key, group and cipher that scenarios use, and every size.
    Full,
}

/// Sizes to seal at once: a small record, a usual one, the greatest (RFC 8446 section 5.1).
pub const SEAL_BYTES: [u32; 3] = [64, 1024, 16 * 1024];

/// Message to sign: as long as the content of a CertificateVerify (RFC 8446 section 4.4.3).
const MESSAGE: [u8; 130] = [0x20; 130];

/// Additional data sealed with each record in TLS 1.2 (RFC 5246 section 6.2.3.3).
const BESIDE: [u8; 13] = [0x17; 13];

/// Time between clock reads, since a read costs more than sealing 64 bytes.
const BATCH: Duration = Duration::from_millis(1);

/// Measures each row for so much CPU time.
pub fn measure(rows: SpeedRows, each: Duration) -> Vec<OperationSpeed> {
    let mut speeds = Vec::new();
    for (name, is_quick, pair) in KEYS {
        if rows == SpeedRows::Quick && !is_quick {
            continue;
        }
        let pair = pair();
        speeds.push(row("sign", name, None, each, || pair.sign()));
        let (public, signature) = (pair.public(), pair.sign());
        let verify = || public.verify_sig(&MESSAGE, &signature);
        speeds.push(row("verify", name, None, each, verify));
    }
    speeds.push(derive("X25519", &agreement::X25519, each));
    if rows == SpeedRows::Full {
        speeds.push(derive("P-256", &agreement::ECDH_P256, each));
    }
    speeds.push(encapsulate(each));
    for (name, cipher) in CIPHERS {
        let sizes = match rows {
            SpeedRows::Quick => &SEAL_BYTES[2..],
            SpeedRows::Full => &SEAL_BYTES[..],
        };
        speeds.extend(sizes.iter().map(|size| seal(name, cipher, *size, each)));
    }
    speeds
}

/// Measures one row by repeating the operation.
fn row<T>(
    operation: &str,
    algorithm: &str,
    size_bytes: Option<u32>,
    each: Duration,
    work: impl FnMut() -> T,
) -> OperationSpeed {
    OperationSpeed {
        library: format!("aws-lc-rs {}", version("aws-lc-rs")),
        operation: operation.to_owned(),
        algorithm: algorithm.to_owned(),
        size_bytes,
        per_s: rate(each, work),
    }
}

/// Returns operations a second of CPU time, over at least `each` of it.
fn rate<T>(each: Duration, mut work: impl FnMut() -> T) -> f64 {
    let mut repeat = |times: u64| {
        let before = thread_time();
        for _ in 0..times {
            black_box(work());
        }
        thread_time() - before
    };
    // The growing batches warm caches, too; only later ones count.
    let mut batch = 1;
    while repeat(batch) < BATCH {
        batch *= 2;
    }
    let (mut done, mut spent) = (0, Duration::ZERO);
    while done == 0 || spent < each {
        spent += repeat(batch);
        done += batch;
    }
    done as f64 / spent.as_secs_f64()
}

/// A key of a certificate: its name, whether it is a quick row, and its constructor.
type KeyRow = (&'static str, bool, fn() -> FreshKey);

const KEYS: [KeyRow; 6] = [
    ("RSA 2048", true, || FreshKey::rsa(KeySize::Rsa2048)),
    ("RSA 3072", false, || FreshKey::rsa(KeySize::Rsa3072)),
    ("RSA 4096", false, || FreshKey::rsa(KeySize::Rsa4096)),
    ("P-256", true, || {
        let how = &signature::ECDSA_P256_SHA256_ASN1_SIGNING;
        FreshKey::ecdsa(how, &signature::ECDSA_P256_SHA256_ASN1)
    }),
    ("P-384", false, || {
        let how = &signature::ECDSA_P384_SHA384_ASN1_SIGNING;
        FreshKey::ecdsa(how, &signature::ECDSA_P384_SHA384_ASN1)
    }),
    ("Ed25519", true, || FreshKey::Ed25519(Ed25519KeyPair::generate().expect(OURS))),
];

enum FreshKey {
    Rsa(signature::RsaKeyPair),
    Ecdsa(EcdsaKeyPair, &'static signature::EcdsaVerificationAlgorithm),
    Ed25519(Ed25519KeyPair),
}

/// Reason why none of the library's operations here can fail.
const OURS: &str = "keys that the library made itself are good for it";

impl FreshKey {
    fn rsa(size: KeySize) -> Self {
        Self::Rsa(signature::RsaKeyPair::generate(size).expect(OURS))
    }

    fn ecdsa(
        how: &'static signature::EcdsaSigningAlgorithm,
        check: &'static signature::EcdsaVerificationAlgorithm,
    ) -> Self {
        Self::Ecdsa(EcdsaKeyPair::generate(how).expect(OURS), check)
    }

    /// Signs like TLS 1.3: RSA by PSS (RFC 8446 section 4.2.3).
    fn sign(&self) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let how = &signature::RSA_PSS_SHA256;
                pair.sign(how, &random, &MESSAGE, &mut signature).expect(OURS);
                signature
            }
            Self::Ecdsa(pair, _) => pair.sign(&random, &MESSAGE).expect(OURS).as_ref().to_vec(),
            Self::Ed25519(pair) => pair.sign(&MESSAGE).as_ref().to_vec(),
        }
    }

    fn public(&self) -> ParsedPublicKey {
        let parsed = match self {
            Self::Rsa(pair) => {
                ParsedPublicKey::new(&signature::RSA_PSS_2048_8192_SHA256, pair.public_key())
            }
            Self::Ecdsa(pair, check) => ParsedPublicKey::new(*check, pair.public_key()),
            Self::Ed25519(pair) => ParsedPublicKey::new(&signature::ED25519, pair.public_key()),
        };
        parsed.expect(OURS)
    }
}

/// The shared secret from keys that are there.
fn derive(name: &str, how: &'static agreement::Algorithm, each: Duration) -> OperationSpeed {
    let ours = agreement::PrivateKey::generate(how).expect(OURS);
    let theirs = agreement::PrivateKey::generate(how).expect(OURS);
    let theirs = theirs.compute_public_key().expect(OURS);
    let theirs = agreement::UnparsedPublicKey::new(how, theirs);
    let theirs = agreement::ParsedPublicKey::try_from(&theirs).expect(OURS);
    row("agree", name, None, each, || {
        agreement::agree(&ours, theirs.clone(), (), |secret| {
            black_box(secret);
            Ok(())
        })
        .expect(OURS);
    })
}

/// The server's whole part with ML-KEM: its secret cannot be had from a key that is kept.
fn encapsulate(each: Duration) -> OperationSpeed {
    let group = kx_group::X25519MLKEM768;
    let client = group.start().expect(OURS);
    let exchange = || group.start_and_complete(client.pub_key()).expect(OURS);
    row("agree", "X25519MLKEM768", None, each, exchange)
}

const CIPHERS: [(&str, &aead::Algorithm); 3] = [
    ("AES-128-GCM", &aead::AES_128_GCM),
    ("AES-256-GCM", &aead::AES_256_GCM),
    ("ChaCha20-Poly1305", &aead::CHACHA20_POLY1305),
];

fn seal(
    name: &str,
    cipher: &'static aead::Algorithm,
    size_bytes: u32,
    each: Duration,
) -> OperationSpeed {
    let key = vec![7; cipher.key_len()];
    let key = LessSafeKey::new(UnboundKey::new(cipher, &key).expect(OURS));
    let mut text = vec![0; size_bytes as usize];
    let mut sequence: u64 = 0;
    row("seal", name, Some(size_bytes), each, || {
        sequence += 1;
        let mut nonce = [0; aead::NONCE_LEN];
        nonce[4..].copy_from_slice(&sequence.to_be_bytes());
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_separate_tag(nonce, Aad::from(BESIDE), &mut text).expect(OURS)
    })
}

const LOCK_FILE: &str = include_str!("../../../../Cargo.lock");

/// Returns the version of a library in this build.
pub(crate) fn version(name: &str) -> &'static str {
    let entry = format!("name = \"{name}\"\nversion = \"");
    let rest = LOCK_FILE.split_once(&entry).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('"').next()).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_measured_once() {
        let speeds = measure(SpeedRows::Full, Duration::ZERO);
        let rows: Vec<String> = speeds
            .iter()
            .map(|speed| {
                let size = speed.size_bytes.map(|size| format!(" {size}"));
                let size = size.unwrap_or_default();
                format!("{} {}{size}", speed.operation, speed.algorithm)
            })
            .collect();
        assert_eq!(rows.len(), 6 * 2 + 3 + 3 * 3, "{rows:?}");
        assert!(rows.contains(&"seal ChaCha20-Poly1305 64".to_owned()));
        assert!(speeds.iter().all(|speed| speed.per_s > 0.0));
        let quick = measure(SpeedRows::Quick, Duration::ZERO);
        assert_eq!(quick.len(), 3 * 2 + 2 + 3);
    }

    #[test]
    fn what_is_signed_can_be_verified_and_nothing_else() {
        for (_, _, pair) in KEYS {
            let pair = pair();
            let mut signature = pair.sign();
            assert!(pair.public().verify_sig(&MESSAGE, &signature).is_ok());
            let last = signature.len() - 1;
            signature[last] ^= 1;
            assert!(pair.public().verify_sig(&MESSAGE, &signature).is_err());
        }
    }

    #[test]
    fn libraries_have_versions() {
        assert!(version("rustls").starts_with("0."));
        assert_eq!(version("no such library"), "?");
    }
}
