//! Signatures of revocation lists, each verified once for each key.
//!
//! The library verifies a list's signature whenever it asks the list about a certificate, which for
//! 100,000 entries takes longer than all else of a handshake. A list does not change while its
//! service lives, and neither does what its signature says.

use std::sync::{Arc, PoisonError, RwLock};

use rustls_pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm};

use crate::subject::sha256;

/// Keys for which a list's signature is remembered: those of its issuer, old and new. Signatures by
/// more of them are verified each time.
const KEYS_MAX: usize = 4;

/// The signed part of a list.
#[derive(Debug)]
pub(super) struct SignedPart {
    bytes: usize,
    hash: [u8; 32],
}

impl SignedPart {
    pub(super) fn of(signed: &[u8]) -> Self {
        Self { bytes: signed.len(), hash: sha256(signed) }
    }
}

/// The library's algorithms, which remember the lists whose signatures were good.
#[derive(Debug)]
pub(super) struct ListSignatures(Vec<RememberingAlgorithm>);

impl ListSignatures {
    /// The signed bytes of the lists stay where they are as long as what is made here is used.
    pub(super) fn new(
        algorithms: &[&'static dyn SignatureVerificationAlgorithm],
        lists: impl Iterator<Item = SignedPart>,
    ) -> Self {
        let lists = lists.map(|signed| RememberedList { signed, good: RwLock::default() });
        let lists: Arc<[_]> = lists.collect();
        let remembering = |algorithm: &&'static dyn SignatureVerificationAlgorithm| {
            RememberingAlgorithm { algorithm: *algorithm, lists: Arc::clone(&lists) }
        };
        Self(algorithms.iter().map(remembering).collect())
    }

    pub(super) fn algorithms(&self) -> Vec<&dyn SignatureVerificationAlgorithm> {
        self.0.iter().map(|one| one as _).collect()
    }
}

#[derive(Debug)]
struct RememberedList {
    signed: SignedPart,
    good: RwLock<Vec<GoodSignature>>,
}

/// A signature that was verified.
#[derive(Clone, Debug, Eq, PartialEq)]
struct GoodSignature {
    /// The place of the signed bytes. They are a list's, by their hash, and no other bytes can be
    /// there as long as the list is: so they need not be read again.
    at: usize,
    algorithm: AlgorithmIdentifier,
    key: Box<[u8]>,
    signature: Box<[u8]>,
}

impl RememberedList {
    fn knows(&self, good: &GoodSignature) -> bool {
        let known = self.good.read().unwrap_or_else(PoisonError::into_inner);
        known.contains(good)
    }

    /// Remembers it if `message` is this list.
    fn learn(&self, message: &[u8], good: &GoodSignature) {
        if sha256(message) == self.signed.hash {
            let mut known = self.good.write().unwrap_or_else(PoisonError::into_inner);
            if known.len() < KEYS_MAX && !known.contains(good) {
                known.push(good.clone());
            }
        }
    }
}

#[derive(Debug)]
struct RememberingAlgorithm {
    algorithm: &'static dyn SignatureVerificationAlgorithm,
    lists: Arc<[RememberedList]>,
}

impl SignatureVerificationAlgorithm for RememberingAlgorithm {
    fn verify_signature(
        &self,
        key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let of_length = |one: &&RememberedList| one.signed.bytes == message.len();
        let mut lists = self.lists.iter().filter(of_length).peekable();
        if lists.peek().is_none() {
            return self.algorithm.verify_signature(key, message, signature);
        }
        let good = GoodSignature {
            at: message.as_ptr().addr(),
            algorithm: self.algorithm.signature_alg_id(),
            key: key.into(),
            signature: signature.into(),
        };
        if lists.clone().any(|one| one.knows(&good)) {
            return Ok(());
        }
        self.algorithm.verify_signature(key, message, signature)?;
        lists.for_each(|one| one.learn(message, &good));
        Ok(())
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.signature_alg_id()
    }

    fn fips(&self) -> bool {
        self.algorithm.fips()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustls_pki_types::alg_id;

    use super::*;

    /// Takes the signature "good" by any key, and counts how often it is asked.
    #[derive(Debug)]
    struct Counting(AtomicUsize);

    impl SignatureVerificationAlgorithm for Counting {
        fn verify_signature(
            &self,
            _key: &[u8],
            _message: &[u8],
            signature: &[u8],
        ) -> Result<(), InvalidSignature> {
            self.0.fetch_add(1, Ordering::Relaxed);
            (signature == b"good").then_some(()).ok_or(InvalidSignature)
        }

        fn public_key_alg_id(&self) -> AlgorithmIdentifier {
            alg_id::ECDSA_P256
        }

        fn signature_alg_id(&self) -> AlgorithmIdentifier {
            alg_id::ECDSA_SHA256
        }
    }

    #[test]
    fn only_a_lists_good_signature_is_verified_once() {
        let counting: &Counting = Box::leak(Box::new(Counting(AtomicUsize::new(0))));
        let list = b"a list".to_vec();
        let signatures = ListSignatures::new(&[counting], [SignedPart::of(&list)].into_iter());
        let (moved, other) = (list.clone(), b"a file".to_vec());
        for (key, message, signature, is_good, asked) in [
            ("k", &list, "good", true, [1, 0]),
            // It is remembered for this key, this signature, these bytes and this place.
            ("l", &list, "good", true, [1, 0]),
            ("k", &list, "else", false, [1, 1]),
            ("k", &moved, "good", true, [1, 0]),
            // A file of the same length is no list.
            ("k", &other, "good", true, [1, 1]),
        ] {
            for asked in asked {
                let before = counting.0.load(Ordering::Relaxed);
                let [algorithm] = signatures.algorithms()[..] else { panic!("there is one") };
                let verified =
                    algorithm.verify_signature(key.as_bytes(), message, signature.as_bytes());
                assert_eq!(verified.is_ok(), is_good, "{key} {signature}");
                let after = counting.0.load(Ordering::Relaxed);
                assert_eq!(after - before, asked, "{key} {message:?} {signature}");
            }
        }
    }
}
