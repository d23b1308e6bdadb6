//! Holds revocation lists (CRL, RFC 5280 section 5), loaded once and judged at each use, and
//! verifies their signatures once for each key.
//!
//! The library verifies a list's signature whenever it asks the list about a certificate, which for
//! 100,000 entries takes longer than all else of a handshake. A list does not change while its
//! service lives, and neither does the validity of its signature.

use std::sync::{Arc, PoisonError, RwLock};

use rustls_pki_types::{
    AlgorithmIdentifier, CertificateRevocationListDer, InvalidSignature,
    SignatureVerificationAlgorithm, UnixTime,
};
use webpki::{Cert, CertRevocationList, OwnedCertRevocationList};
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use super::fault::{FileFault, TrustConcern, VerifyConcern};
use crate::identity::sha256;
use crate::options::{ExpiredLists, PemSource};
use crate::validity::{Expiry, ExpirySummary, Moment, Span, Validity, ValidityState, seconds};

/// Lists of a service: the newest of each issuer and distribution point.
#[derive(Debug)]
pub(crate) struct RevocationLists {
    lists: Vec<RevocationList>,
    pub(super) expired: ExpiredLists,
}

#[derive(Debug)]
pub(super) struct RevocationList {
    list: CertRevocationList<'static>,
    /// Signed part, until [`ListSignatures`] takes it.
    signed: Option<SignedPart>,
    /// Time from thisUpdate to the last second before nextUpdate.
    validity: Validity,
    issuer: Box<str>,
    place: Box<str>,
}

impl RevocationLists {
    pub(super) fn new(mut lists: Vec<RevocationList>, expired: ExpiredLists) -> Self {
        // The library asks the first list that fits, which must not be a replaced one.
        lists.sort_by_key(|list| std::cmp::Reverse(list.validity.from));
        let mut newest: Vec<RevocationList> = Vec::with_capacity(lists.len());
        for list in lists {
            if !newest.iter().any(|one| one.has_scope_of(&list)) {
                newest.push(list);
            }
        }
        Self { lists: newest, expired }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Takes the signed part of each list.
    pub(super) fn signed(&mut self) -> impl Iterator<Item = SignedPart> {
        self.lists.iter_mut().filter_map(|one| one.signed.take())
    }

    pub(super) fn all(&self) -> Vec<&CertRevocationList<'static>> {
        self.lists.iter().map(|one| &one.list).collect()
    }

    /// Reports whether a list covers every certificate of this issuer (DER).
    pub(super) fn covers_all_of(&self, issuer: &[u8]) -> bool {
        self.of(issuer).any(|list| list.list.issuing_distribution_point().is_none())
    }

    /// Returns the file of the list that contains this certificate.
    pub(super) fn place_of(&self, certificate: &Cert<'_>) -> Option<&str> {
        let is_on = |list: &&RevocationList| {
            let found = list.list.find_serial(certificate.serial());
            found.is_ok_and(|entry| entry.is_some())
        };
        let list = self.of(certificate.issuer()).find(is_on)?;
        Some(&list.place)
    }

    /// Returns the file of a list of this issuer (DER) that is past its nextUpdate.
    pub(super) fn expired_of(&self, issuer: &[u8], now: UnixTime) -> Option<&str> {
        let is_over = |list: &&RevocationList| list.validity.until < seconds(now);
        let list = self.of(issuer).find(is_over)?;
        Some(&list.place)
    }

    /// Returns when the lists end: their nextUpdates.
    pub(crate) fn ends(&self, now: i64) -> ExpirySummary {
        let all = self.lists.iter().map(|list| Expiry {
            file: list.place.clone(),
            name: list.issuer.clone(),
            key: "".into(),
            time: list.validity.until,
        });
        let mut ends = ExpirySummary::of(all, now);
        for one in &mut ends.listed {
            one.time = one.time.saturating_add(1);
        }
        ends
    }

    pub(crate) fn concerns(&self, moment: Moment) -> impl Iterator<Item = VerifyConcern> {
        self.lists.iter().filter_map(move |list| {
            let concern = match list.validity.news(moment) {
                ValidityState::Over(_) if self.expired == ExpiredLists::Refuse => {
                    TrustConcern::Refuses
                }
                ValidityState::Over(_) => TrustConcern::StillCounts,
                ValidityState::EndsSoon(seconds) => TrustConcern::EndsSoon(Span(seconds)),
                ValidityState::NotYet(_) | ValidityState::Good => return None,
            };
            Some(VerifyConcern {
                place: list.place.to_string(),
                name: list.issuer.to_string(),
                concern,
            })
        })
    }

    pub(crate) fn next_change(&self, now: i64) -> Option<i64> {
        let changes = self.lists.iter().map(|list| list.validity.next_change(now));
        changes.flatten().min()
    }

    fn of(&self, issuer: &[u8]) -> impl Iterator<Item = &RevocationList> {
        self.lists.iter().filter(move |list| list.list.issuer() == issuer)
    }
}

impl RevocationList {
    pub(super) fn read(
        source: &PemSource,
        number: usize,
        der: &CertificateRevocationListDer<'_>,
    ) -> Result<Self, FileFault> {
        let (_, read) = CertificateRevocationList::from_der(der)
            .map_err(|_| FileFault::ListMalformed(number))?;
        let unsupported = |what: String| FileFault::ListUnsupported(number, what);
        if read.version().is_none() {
            return Err(unsupported("it is an X.509 CRL of version 1".to_owned()));
        }
        // RFC 5280 section 5.1.2.5 requires it of every issuer.
        let next_update =
            read.next_update().ok_or_else(|| unsupported("it has no nextUpdate".to_owned()))?;
        let list = OwnedCertRevocationList::from_der(der)
            .map_err(|error| unsupported(error.to_string()))?;
        Ok(Self {
            list: list.into(),
            signed: Some(SignedPart::of(read.tbs_cert_list.as_ref())),
            validity: Validity {
                from: read.last_update().timestamp(),
                until: next_update.timestamp().saturating_sub(1),
            },
            issuer: read.issuer().to_string().into(),
            place: source.place.as_str().into(),
        })
    }

    fn has_scope_of(&self, other: &Self) -> bool {
        let scope = |one: &CertRevocationList<'_>| {
            (one.issuer().to_vec(), one.issuing_distribution_point().map(<[u8]>::to_vec))
        };
        scope(&self.list) == scope(&other.list)
    }
}

/// Number of keys for which a list's signature is remembered: those of its issuer, old and new.
/// Signatures by further keys are verified each time.
const KEYS_MAX: usize = 4;

/// Signed part of a list.
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

/// The library's algorithms, extended to remember the lists whose signatures were good.
#[derive(Debug)]
pub(super) struct ListSignatures(Vec<RememberingAlgorithm>);

impl ListSignatures {
    /// Creates the algorithms. The signed bytes of the lists must not move while they are used.
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
    /// Address of the signed bytes. By their hash they are a list's, and no other bytes can be
    /// there as long as the list exists: so they need not be read again.
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

    /// Remembers the signature if `message` is this list.
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

    /// Accepts the signature "good" by any key, and counts its calls.
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
            // A result is valid for this key, this signature, these bytes and this place only.
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
